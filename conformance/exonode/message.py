"""Messages: heads, what is sent of them, how they are put together. PROTOCOL.md: "Message head", "Messages"."""

from typing import NamedTuple, Optional

from .wire import LAST, Malformed, Piece, Reader, demand, varint

CHUNK = 1100                            # bytes of a message in one frame
POOLED = 65536                          # longer messages are large


class Place(NamedTuple):
    """A place in a stream: `age` and `link` are distances back from the slot."""
    age: int
    n: int
    link: int
    last: bool = False
    reset: bool = False
    more: bool = False


class Head(NamedTuple):
    priority: int = 1
    tag: bytes = b""
    place: Optional[Place] = None
    confirm: bool = False
    call: bool = False
    reply: Optional[tuple] = None       # (s of the call, status)
    trace: Optional[bytes] = None       # trace, parent, flags

    def write(self, body):
        extensions = b"\x01\x00" if self.call else b""
        if self.reply:
            value = varint(self.reply[0]) + varint(self.reply[1])
            extensions = b"\x02" + varint(len(value)) + value
        extensions += b"\x03\x19" + self.trace if self.trace else b""
        flags = (self.priority | bool(self.tag) << 2 | bool(extensions) << 3 | bool(self.place) << 4
                 | self.confirm << 5)
        out = bytes([flags]) + (bytes([len(self.tag)]) + self.tag if self.tag else b"")
        if self.place:
            age, n, link, last, reset, more = self.place
            out += bytes([last | reset << 1 | more << 2]) + varint(age) + varint(n) + varint(link)
        return out + (varint(len(extensions)) + extensions if extensions else b"") + body


def read_message(data):
    """Head and body; a malformed head concerns this message alone."""
    read, tag, place, seen = Reader(data), b"", None, {}
    flags = read.fixed(1)
    demand(flags < 64)
    if flags & 4:
        tag = read.take(read.fixed(1))
        demand(tag)
    if flags & 16:
        bits, age, n, link = read.fixed(1), read.varint(), read.varint(), read.varint()
        demand(bits < 8 and (bits & 1 or not bits & 2) and n <= age and tag)
        place = Place(age, n, link, bool(bits & 1), bool(bits & 2), bool(bits & 4))
    if flags & 8:
        inner = Reader(read.block())
        demand(inner.left())
        while inner.left():
            seen.setdefault(inner.varint(), inner.block())
    call, reply, trace = seen.get(1), None, seen.get(3, b"")
    if len(trace) != 25 or not any(trace[:16]) or not any(trace[16:24]):
        trace = None                    # it says nothing
    demand(not call)
    if 2 in seen:
        inner = Reader(seen[2])
        reply = (inner.varint(), inner.varint())
        demand(not inner.left() and reply[1] < 1 << 32 and call is None)
    demand(not place or call is None and reply is None)
    return Head(flags & 3, tag, place, bool(flags & 32), call is not None, reply, trace), read.rest()


def spelled_out(piece, before):
    """A message that is alike to the one before it in its frame, with its own head; any other as it is."""
    if piece.offset or piece.data[:1] != b"\x40" or piece.total != len(piece.data):
        return piece
    if before is None or (before.r, before.s + 1, before.offset, before.total) != (piece.r, piece.s, 0, len(before.data)):
        return piece                    # malformed: the head says so when it is read
    try:
        head, _ = read_message(before.data)
    except Malformed:
        return piece
    if head.place:
        head = head._replace(place=Place(head.place.age + 1, head.place.n + 1, 1))
    data = head.write(piece.data[1:])
    return piece._replace(total=len(data), data=data)


class Outgoing:
    """A message at its sender. Every chunk of it is to be sent, in flight, or acknowledged."""

    def __init__(self, m, head, body):
        self.m, self.head, self.body = m, head, body
        self.size = len(head.write(body)) + (27 if head.place else 0)   # its place is not known before it is bound
        self.outcome, self.reply, self.known = None, None, False
        self.start(head, 0)

    def start(self, head, limit):
        """Bound, or given back: all of it is to be sent, below `limit`."""
        self.wire, self.limit, self.prefix = head.write(self.body), limit, 0
        self.todo = set(range(-(-len(self.wire) // CHUNK)))
        self.flying, self.asked, self.ask_at, self.ask_wait, self.below = set(), False, None, 0.0, 0

    def next_chunk(self):
        """The first chunk that may be sent."""
        if self.todo:
            chunk = min(self.todo)
            if len(self.wire) <= POOLED or min((chunk + 1) * CHUNK, len(self.wire)) <= self.limit:
                return chunk
        return None

    def piece(self, r, s, chunk, room):
        """The frame of a chunk, if `room` bytes hold it."""
        at = chunk * CHUNK
        data = self.wire[at:at + CHUNK]
        return Piece(r, s, at, len(self.wire), data) if len(data) + 40 <= room else None

    def on_have(self, have, first_limit):
        """HAVE. It overrides acknowledgements if it answers a probe; `first_limit` is where a window begins anew."""
        if have.prefix == 0 and self.prefix > 0 and self.asked:
            self.below += 1                     # given back, if the word stays the same
            if self.below < 2:
                return
            self.limit, self.prefix = first_limit, 0
        self.below = 0
        self.limit, self.prefix = max(self.limit, have.limit), max(self.prefix, have.prefix)
        if self.asked and not self.flying:
            had = [(0, have.prefix), *have.ranges]
            for chunk in range(-(-len(self.wire) // CHUNK)):
                low, high = chunk * CHUNK, min((chunk + 1) * CHUNK, len(self.wire))
                if not any(a <= low and high <= b for a, b in had):
                    self.todo.add(chunk)
            self.asked, self.ask_at = False, None


class Incoming:
    """A message that is being put together."""

    def __init__(self, piece, window):
        self.total, self.measured, self.window = piece.total, piece.total is not None, window
        self.large = not self.measured or piece.total > POOLED
        self.data, self.ranges, self.limit = bytearray(), [], window

    def add(self, piece, most):
        """Takes a piece. False if it contradicts what came before, or is beyond a bound."""
        end = piece.offset + len(piece.data)
        total = end if piece.last else piece.total
        if (piece.total is not None) != self.measured or end > most or (piece.total or 0) > most:
            return False
        if total is not None and self.total not in (None, total) or self.large and end > self.limit:
            return False
        self.total = self.total if total is None else total
        if self.total is not None and max(end, len(self.data)) > self.total:
            return False
        self.data.extend(bytes(max(0, end - len(self.data))))
        self.data[piece.offset:end] = piece.data
        spans, self.ranges = sorted(self.ranges + [(piece.offset, end)]), []
        for low, high in spans:
            if self.ranges and low <= self.ranges[-1][1]:
                low, high = self.ranges[-1][0], max(high, self.ranges.pop()[1])
            self.ranges.append((low, high))
        return True

    def prefix(self):
        return self.ranges[0][1] if self.ranges and self.ranges[0][0] == 0 else 0

    def complete(self):
        return self.total is not None and self.prefix() == self.total

    def moved(self):
        """Whether a HAVE is owed unasked: the window has moved by a quarter, or to the end."""
        if not self.large or self.limit >= (self.total or LAST):
            return False
        limit = self.prefix() + self.window
        if limit - self.limit >= self.window // 4 or limit >= (self.total or LAST):
            self.limit = limit
            return True
        return False

    def have(self):
        rest = [x for x in self.ranges if x[0] > 0][:32]
        return self.prefix(), self.limit if self.large else 0, tuple(rest)
