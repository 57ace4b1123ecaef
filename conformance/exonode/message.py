"""Messages: heads, what is sent of them, how they are put together. PROTOCOL.md: "Message head", "Messages"."""

from collections import namedtuple

from .wire import Malformed, Reader, block, demand, merged, varint

CHUNK = 1100                            # bytes of a message in one frame
POOLED = 65536                          # longer messages are large


# A place in a stream: `age` and `link` are distances back from the slot.
Place = namedtuple("Place", "age n link last reset more", defaults=[False, False, False])


class Head(namedtuple("Head", "priority tag place confirm call reply trace",
                      defaults=[1, b"", None, False, False, None, None])):
    """The head of a message: `reply` is the number of the call and a status, `trace` is trace, parent and flags."""

    def write(self, body):
        extensions = b"\x01\x00" if self.call else b""
        extensions += b"\x02" + block(varint(self.reply[0]) + varint(self.reply[1])) if self.reply else b""
        extensions += b"\x03" + block(self.trace) if self.trace else b""
        flags = (self.priority | bool(self.tag) << 2 | bool(extensions) << 3 | bool(self.place) << 4
                 | self.confirm << 5)
        out = bytes([flags]) + (bytes([len(self.tag)]) + self.tag if self.tag else b"")
        if self.place:
            age, n, link, last, reset, more = self.place
            out += bytes([last | reset << 1 | more << 2]) + varint(age) + varint(n) + varint(link)
        return out + (block(extensions) if extensions else b"") + body


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
    reply, trace = None, seen.get(3, b"")
    if len(trace) != 25 or not any(trace[:16]) or not any(trace[16:24]):
        trace = None                    # it says nothing
    if 2 in seen:
        inner = Reader(seen[2])
        reply = (inner.varint(), inner.varint())
        demand(not inner.left() and reply[1] < 1 << 32)
    demand(not seen.get(1) and (1 in seen) + (2 in seen) + bool(place) <= 1)
    return Head(flags & 3, tag, place, bool(flags & 32), 1 in seen, reply, trace), read.rest()


def spelled_out(piece, before):
    """A message that is alike to the one before it in its frame, with its own head; any other as it is."""
    follows = before and (before.r, before.s + 1) == (piece.r, piece.s) and before.total == len(before.data)
    if not follows or piece.data[:1] != b"\x40" or piece.offset or piece.total != len(piece.data):
        return piece                    # if it is malformed, the head says so when it is read
    try:
        head, _ = read_message(before.data)
        demand(not before.data[0] & 8 and not (head.place and head.place.last))
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
        self.outcome, self.reply, self.place = None, None, None
        self.start(head, 0)

    def __lt__(self, other):
        """The order of the queue."""
        return self.m < other.m

    def start(self, head, limit):
        """Bound, or given back: all of it is to be sent, below `limit`."""
        self.wire, self.first, self.limit = head.write(self.body), limit, limit
        self.todo, self.flying = set(range(0, len(self.wire), CHUNK)), set()
        self.asked, self.probe, self.known = False, None, False

    def next_chunk(self):
        """The first chunk that may be sent: where it begins, and its bytes."""
        at = min(self.todo, default=None)
        data = self.wire[at:at + CHUNK] if self.todo else b""
        return (at, data) if data and (len(self.wire) <= POOLED or at + len(data) <= self.limit) else None

    def on_have(self, have):
        """HAVE. It overrides acknowledgements if it answers a probe"""
        self.limit = max(self.limit, have.limit)
        if self.asked and not self.flying:
            if have.prefix == 0:        # given back: the window begins anew. If this is an old copy, only time is lost
                self.limit = max(self.first, have.limit)
            had, size = [(0, have.prefix), *have.ranges], len(self.wire)
            self.todo.update(at for at in range(0, size, CHUNK)
                             if not any(low <= at and min(at + CHUNK, size) <= high for low, high in had))
            self.asked, self.probe = False, None


class Incoming:
    """A message that is being put together. Once it is whole, `message` is its head and its body."""

    def __init__(self, piece):
        self.total, self.measured, self.message = piece.total, piece.total is not None, None
        self.data, self.came = bytearray(), []              # ranges of (first, end)

    def add(self, piece, most):
        """Takes a piece. False if it contradicts what came before, or is beyond a bound."""
        end = piece.offset + len(piece.data)
        total = end if piece.last else piece.total or self.total
        size = max(end, len(self.data))
        fits = size <= most if total is None else size <= total <= most
        if (piece.total is not None) != self.measured or self.total not in (None, total) or not fits:
            return False
        self.total = total
        self.data.extend(bytes(size - len(self.data)))
        self.data[piece.offset:end] = piece.data
        self.came = merged([*self.came, (piece.offset, end)])
        return True

    def came_so_far(self):
        """How much has come without a gap, and the ranges behind that, as HAVE says it."""
        whole = bool(self.came) and self.came[0][0] == 0
        return self.came[0][1] if whole else 0, tuple(self.came[whole:][:32])
