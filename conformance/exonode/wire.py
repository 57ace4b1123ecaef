"""Bytes to datagrams and frames, and back: PROTOCOL.md, "Datagrams", "Frames", "MESSAGES". No state, no clock, no keys."""

from collections import namedtuple

LAST = (1 << 62) - 1
OPENING, ANSWER, RETRY, DATA, RESET, VERSION = 0x11, 0x12, 0x13, 0x14, 0x15, 0x1F


class Malformed(Exception):
    """Bytes that the protocol does not allow."""


def demand(holds):
    if not holds:
        raise Malformed


def varint(x):
    """The shortest form of RFC 9000, section 16."""
    size = next(size for size in (1, 2, 4, 8) if x < 1 << 8 * size - 2)
    return (x | (size.bit_length() - 1) << 8 * size - 2).to_bytes(size, "big")


class Reader:
    """Reads from the front; what is not there is malformed."""

    def __init__(self, data):
        self.data, self.at = bytes(data), 0

    def left(self):
        return len(self.data) - self.at

    def take(self, count):
        demand(count <= self.left())
        self.at += count
        return self.data[self.at - count:self.at]

    def rest(self):
        return self.take(self.left())

    def fixed(self, size):
        return int.from_bytes(self.take(size), "big")

    def varint(self):
        first = self.fixed(1)
        return int.from_bytes(bytes([first & 63]) + self.take((1 << (first >> 6)) - 1), "big")

    def number(self, base):
        """A number of a node's clock: "Numbers and bases"."""
        return self.varint() + base & LAST

    def block(self):
        return self.take(self.varint())


# ---- datagrams -------------------------------------------------------------------------------------------------

LENGTHS = {OPENING: (1200, 1232), ANSWER: (88, 1232), RETRY: (72, 72), DATA: (25, 65527), RESET: (21, 21)}
Datagram = namedtuple("Datagram", "kind clear body suite to index number")


def datagram(data):
    """Reads a datagram: its clear header, what is in it, and what follows (`body`)."""
    demand(data and data[0] in LENGTHS and LENGTHS[data[0]][0] <= len(data) <= LENGTHS[data[0]][1])
    read, suite = Reader(data), 0
    kind = read.fixed(1)
    if kind in (OPENING, ANSWER, RETRY):
        suite = read.fixed(1)
        demand(read.fixed(2) == 0 and (kind != RETRY or suite == 0))
    to = read.fixed(4) if kind != OPENING else 0
    index = read.fixed(4) if kind in (OPENING, ANSWER) else 0
    number = read.fixed(4) if kind == DATA else 0
    return Datagram(kind, data[:read.at], read.rest(), suite, to, index, number)


def version_answer(data):
    """The VERSION that answers a datagram of another version, or None."""
    other = len(data) >= 1200 and data[0] >> 4 != 1 and data[0] & 15 != 15
    return bytes([VERSION]) + data[1:8] + b"\1\1" if other else None


def full_number(low, largest):
    """The packet number with these low 32 bits that is closest to the one after `largest` (-1: none yet)."""
    number = largest + 1 & ~0xFFFFFFFF | low
    if number <= largest + 1 - (1 << 31):
        return number + (1 << 32)
    return number - (1 << 32) if number > largest + 1 + (1 << 31) and number >= 1 << 32 else number


# ---- parameters ------------------------------------------------------------------------------------------------

PARAMETERS = {                                              # id: name, default; bytes are of fixed length
    1: ("base", 0), 2: ("max_ack_delay", 1000), 3: ("boot_id", bytes(8)), 4: ("time", 0), 5: ("max_datagram", 65527),
    6: ("pool_window", 65536), 7: ("body_window", 65536), 8: ("max_bodies", 4), 9: ("max_message", LAST),
    10: ("idle_timeout", 0), 11: ("suites", 0), 12: ("reset_token", bytes(16)), 13: ("takes", 3), 14: ("lane_window", 0),
    15: ("lane_pool", 16777216), 16: ("lanes", 16384), 17: ("generation", 0), 18: ("met", 0),
    19: ("lineage", 0), 20: ("met_lineage", 0)}


def read_params(data):
    """The body of PARAMS: every parameter, with its value or its default."""
    read, came = Reader(data), {}
    while read.left():
        key, value = read.varint(), Reader(read.block())
        if key in PARAMETERS:
            demand(key not in came)
            default = PARAMETERS[key][1]
            came[key] = value.take(len(default)) if isinstance(default, bytes) else value.varint()
            demand(not value.left())
    out = {name: came.get(key, default) for key, (name, default) in PARAMETERS.items()}
    out["reset_token"] = came.get(12)
    demand(out["max_ack_delay"] < 1 << 24 and out["max_datagram"] >= 1200)
    demand(out["pool_window"] >= min(65536, out["max_message"]))
    return out


def write_params(values):
    body = b""
    for key, (name, _) in PARAMETERS.items():
        if values.get(name) is not None:
            value = values[name] if isinstance(values[name], bytes) else varint(values[name])
            body += varint(key) + varint(len(value)) + value
    return b"\x06" + varint(len(body)) + body


# ---- frames ----------------------------------------------------------------------------------------------------
# Numbers in these tuples are absolute; `read_frames` and `write` know the bases.

Ping = namedtuple("Ping", "")
Ack = namedtuple("Ack", "delay arrival ranges")             # of (smallest, largest), the newest first
Close = namedtuple("Close", "code")
Challenge = namedtuple("Challenge", "data")
Response = namedtuple("Response", "data")
Params = namedtuple("Params", "values")
Ask = namedtuple("Ask", "s n l ts", defaults=[0])
State = namedtuple("State", "b r live final hi lo up free ts end",      # free: ranges of (first, end)
                   defaults=[False, False, 0, 0, 0, (), None, 0])
Token = namedtuple("Token", "r s")
Withdrawn = namedtuple("Withdrawn", "r s n")
Revoke = namedtuple("Revoke", "r s n")
Have = namedtuple("Have", "r s prefix limit ranges")        # of (first, end): absolute offsets
Early = namedtuple("Early", "ts s messages")
StampRejected = namedtuple("StampRejected", "ts time")
Reply = namedtuple("Reply", "s status body")
ReplyAck = namedtuple("ReplyAck", "s")
Probe = namedtuple("Probe", "s")
NoCall = namedtuple("NoCall", "s")
Computing = namedtuple("Computing", "s")
Verdict = namedtuple("Verdict", "r s word status attempts reason")      # word: 0 taken, 1 processed, 2 rejected
# A part of one message of MESSAGES: `total` is None if that is unmeasured, and `last` says that it ends here.
Piece = namedtuple("Piece", "r s offset total data last", defaults=[False])
Ignored = namedtuple("Ignored", "kind")

# Frames of a few fields. t, r: a number by the base of the frame's sender (transmitter), of its receiver; v: a varint;
# b, 8: one byte, eight; d: a length, and bytes.
SIMPLE = {0x01: (Ping, ""), 0x03: (Close, "v"), 0x04: (Challenge, "8"), 0x05: (Response, "8"), 0x10: (Ask, "tvt"),
          0x12: (Withdrawn, "trv"), 0x14: (Token, "rt"), 0x16: (Revoke, "rtv"), 0x17: (Ask, "tvtv"), 0x19: (StampRejected, "vv"), 0x1A: (Reply, "rvd"), 0x1B: (ReplyAck, "t"),
          0x1C: (Probe, "t"), 0x1D: (NoCall, "r"), 0x1E: (Computing, "r"), 0x1F: (Verdict, "trbvvd")}
KINDS = {frame: (kind, fields) for kind, (frame, fields) in SIMPLE.items()}


def _simple(kind, read, tx, rx):
    fields = {"t": lambda: read.number(tx), "r": lambda: read.number(rx), "v": read.varint, "b": lambda: read.fixed(1),
              "8": lambda: read.take(8), "d": read.block}
    frame = SIMPLE[kind][0](*(fields[code]() for code in SIMPLE[kind][1]))
    if isinstance(frame, Ask):
        demand(frame.s + frame.n <= LAST and (frame.ts or kind == 0x10))
    if isinstance(frame, (Withdrawn, Revoke)):
        demand(1 <= frame.n <= 1024 and frame.s + frame.n <= LAST)
    if isinstance(frame, (Reply, Verdict)):
        demand(frame.status < 1 << 32)
    if isinstance(frame, Verdict):
        demand(frame.word <= 2 and frame.attempts < 1 << 32 and len(frame.reason) <= 200)
        try:
            frame.reason.decode()
        except UnicodeDecodeError:
            raise Malformed from None
    return frame


def _ranges(read, start, bound):
    """A count, and pairs of gap and length that ascend from `start`; none ends above `bound`."""
    out = []
    for _ in range(read.varint()):
        first = start + read.varint()
        start = first + read.varint()
        demand(first < start <= bound)
        out.append((first, start))
    return tuple(out)


def _ack(read):
    flags, largest, delay, arrival, further = read.fixed(1), *(read.varint() for _ in range(4))
    demand(flags < 2 and arrival < 1 << 30)
    ranges = [(largest - read.varint(), largest)]
    for _ in range(further):
        largest = ranges[-1][0] - read.varint() - 2
        ranges.append((largest - read.varint(), largest))
        demand(ranges[-1][0] >= 0)
    demand(ranges[0][0] >= 0)
    for _ in range(3 * flags):
        read.varint()                                       # counts of ECN
    return Ack(delay, arrival, ranges)


def _state(read, tx, rx):
    flags, b, r = read.fixed(1), read.number(tx), read.number(tx)
    demand(flags < 16 and (flags & 1 or not flags & 4) and (flags & 2 or not flags & 8))
    ts, end = read.varint() if flags & 2 else None, read.number(rx) if flags & 8 else 0
    demand(ts != 0 and (end or not flags & 8))
    if not flags & 1:
        return State(b, r, ts=ts, end=end)
    hi, lo = read.number(rx), read.number(rx)
    up = lo + read.varint()
    demand(up <= LAST)
    return State(b, r, True, bool(flags & 4), hi, lo, up, _ranges(read, lo, up), ts, end)


def _early(read, tx):
    ts, s = read.varint(), read.number(tx)
    early = Early(ts, s, tuple(read.block() for _ in range(read.fixed(1))))
    demand(ts and 1 <= len(early.messages) <= 63 and s + len(early.messages) - 1 <= LAST and all(early.messages))
    return early


def _messages(kind, read, tx, rx):
    r, s = read.number(rx), read.number(tx)
    offset = read.varint() if kind & 1 else 0
    body = Reader(read.block()) if kind & 2 else read
    if kind & 12:                                           # unmeasured: one part, to the end of the frame
        last, data = bool(kind & 8), body.rest()
        demand((data or last) and 1 <= offset + len(data) <= LAST)
        return [Piece(r, s, offset, None, data, last)]
    pieces = []
    while body.left():
        total = body.varint()
        if total == 0 and pieces:
            demand(not kind & 2 or not body.left())         # with a length it is the last byte
            break
        demand(offset < total and s <= LAST)
        pieces.append(Piece(r, s, offset, total, body.take(min(total - offset, body.left()))))
        demand(pieces[-1].data)
        s, offset = s + 1, 0
    demand(pieces)
    return pieces


def _frame(kind, read, tx, rx):
    if kind in SIMPLE:
        return _simple(kind, read, tx, rx)
    if kind == 0x02:
        return _ack(read)
    if kind == 0x06:
        return Params(read_params(read.block()))
    if kind == 0x11:
        return _state(read, tx, rx)
    if kind == 0x15:
        r, s, prefix, limit = read.number(tx), read.number(rx), read.varint(), read.varint()
        have = Have(r, s, prefix, limit, _ranges(read, prefix, LAST))
        demand(len(have.ranges) <= 32)
        return have
    if kind == 0x18:
        return _early(read, tx)
    demand(0x80 <= kind <= 0xBF)
    read.block()
    return Ignored(kind)


def read_frames(payload, tx=0, rx=0, handshake=False):
    """Yields the frames of a payload from a node with base `tx` to one with base `rx`; raises Malformed behind the last
    good one. In a handshake the first PARAMS declares the base of the sender, for the frames behind it."""
    read = Reader(payload)
    while read.left():
        kind = read.fixed(1)
        if 0x20 <= kind <= 0x2B:
            yield from _messages(kind, read, tx, rx)
        elif kind:
            frame = _frame(kind, read, tx, rx)
            if handshake and isinstance(frame, Params):
                tx, handshake = frame.values["base"], False
            yield frame


def write_ranges(ranges, start):
    out = varint(len(ranges))
    for first, end in ranges:
        out += varint(first - start) + varint(end - first)
        start = end
    return out


def write(frame, tx=0, rx=0):
    """The bytes of a frame, from a node with base `tx` to one with base `rx`."""
    put = {"t": lambda x: varint(x - tx & LAST), "r": lambda x: varint(x - rx & LAST), "v": varint, "b": lambda x: bytes([x]),
           "8": bytes, "d": lambda x: varint(len(x)) + x}
    if isinstance(frame, Ask):
        kind, fields = (0x17, "tvtv") if frame.ts else (0x10, "tvt")
        return bytes([kind]) + b"".join(put[code](x) for code, x in zip(fields, frame))
    if type(frame) in KINDS:
        kind, fields = KINDS[type(frame)]
        return bytes([kind]) + b"".join(put[code](x) for code, x in zip(fields, frame))
    if isinstance(frame, Ack):
        smallest, largest = frame.ranges[0]
        out = b"\x02\0" + b"".join(map(varint, (largest, frame.delay, frame.arrival, len(frame.ranges) - 1)))
        out += varint(largest - smallest)
        for low, high in frame.ranges[1:]:
            out += varint(smallest - high - 2) + varint(high - low)
            smallest = low
        return out
    if isinstance(frame, State):
        flags = frame.live | (frame.ts is not None) << 1 | frame.final << 2 | (frame.end > 0) << 3
        out = bytes([0x11, flags]) + put["t"](frame.b) + put["t"](frame.r)
        out += (varint(frame.ts) if flags & 2 else b"") + (put["r"](frame.end) if flags & 8 else b"")
        if frame.live:
            out += put["r"](frame.hi) + put["r"](frame.lo) + varint(frame.up - frame.lo) + write_ranges(frame.free, frame.lo)
        return out
    if isinstance(frame, Piece):
        bits = bool(frame.offset) | 2 | (0 if frame.total else 8 if frame.last else 4)
        offset = varint(frame.offset) if frame.offset else b""
        body = (varint(frame.total) if frame.total else b"") + frame.data
        return bytes([0x20 | bits]) + put["r"](frame.r) + put["t"](frame.s) + offset + put["d"](body)
    if isinstance(frame, Early):
        head = b"\x18" + varint(frame.ts) + put["t"](frame.s) + bytes([len(frame.messages)])
        return head + b"".join(map(put["d"], frame.messages))
    head = b"\x15" + put["t"](frame.r) + put["r"](frame.s) + varint(frame.prefix) + varint(frame.limit)
    return head + write_ranges(frame.ranges, frame.prefix)  # HAVE
