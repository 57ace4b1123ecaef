"""Bytes to datagrams and frames, and back: PROTOCOL.md, "Datagrams", "Frames", "MESSAGES". No state, no clock, no keys."""

from collections import namedtuple
from functools import lru_cache

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

    def __init__(self, data, tx=0, rx=0):
        self.data, self.at, self.tx, self.rx = bytes(data), 0, tx, rx

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
    near = largest + 1 & ~0xFFFFFFFF | low
    numbers = [n for n in (near + (1 << 32), near, near - (1 << 32)) if n >= 0]
    return min(numbers, key=lambda n: abs(n - largest - 1))


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
# Numbers in frames are absolute; who reads or writes them says the bases: `tx` of the frame's sender (its transmitter),
# `rx` of its receiver.

def spans(numbers):
    """Numbers as ranges of (first, end), which ascend."""
    ranges = []
    for x in sorted(numbers):
        joins = ranges and ranges[-1][1] == x
        ranges.append((ranges.pop()[0] if joins else x, x + 1))
    return ranges


def relative(ranges, start):
    """Ranges of (first, end) as the pairs of gap and length that ascend from `start`."""
    ends = [start, *(end for _, end in ranges)]
    return [(first - before, end - first) for before, (first, end) in zip(ends, ranges)]


def absolute(pairs, start, bound):
    ranges = []
    for gap, length in pairs:
        ranges.append((start + gap, start + gap + length))
        start = ranges[-1][1]
        demand(length and start <= bound)
    return tuple(ranges)


def block(data):
    return varint(len(data)) + data


FIELDS = {                              # letter: how such a field is read, and how it is written
    "v": (Reader.varint, lambda x, tx, rx: varint(x)),
    "b": (lambda read: read.fixed(1), lambda x, tx, rx: bytes([x])),
    "8": (lambda read: read.take(8), lambda x, tx, rx: x),
    "d": (Reader.block, lambda x, tx, rx: block(x)),
    # A number of the clock of the frame's sender, of its receiver: "Numbers and bases".
    "t": (lambda read: read.varint() + read.tx & LAST, lambda x, tx, rx: varint(x - tx & LAST)),
    "r": (lambda read: read.varint() + read.rx & LAST, lambda x, tx, rx: varint(x - rx & LAST)),
    # Pairs of gap and length; messages of EARLY.
    "g": (lambda read: [(read.varint(), read.varint()) for _ in range(read.varint())],
          lambda x, tx, rx: varint(len(x)) + b"".join(varint(gap) + varint(length) for gap, length in x)),
    "m": (lambda read: tuple(read.block() for _ in range(read.fixed(1))),
          lambda x, tx, rx: bytes([len(x)]) + b"".join(map(block, x)))}

LAYOUTS = {}                            # type byte: the frame, its fields


@lru_cache(maxsize=None)
def fields(layout):
    return [field.split(":") for field in layout.split()]


def read_fields(layout, read):
    return {name: FIELDS[letter][0](read) for name, letter in fields(layout)}


def write_fields(layout, frame, tx, rx):
    return b"".join(FIELDS[letter][1](getattr(frame, name), tx, rx) for name, letter in fields(layout))


def frame_of(kind, name, layout):
    frame = namedtuple(name, [field for field, _ in fields(layout)])
    frame.kind = kind
    LAYOUTS[kind] = frame, layout
    return frame


Ping = frame_of(0x01, "Ping", "")
Close = frame_of(0x03, "Close", "code:v")
Challenge = frame_of(0x04, "Challenge", "data:8")
Response = frame_of(0x05, "Response", "data:8")
Ask = frame_of(0x17, "Ask", "s:t n:v l:t ts:v")
LAYOUTS[0x10] = Ask, "s:t n:v l:t"                          # `ts` is 0
Ask.__new__.__defaults__ = (0,)
Withdrawn = frame_of(0x12, "Withdrawn", "r:t s:r n:v")
Token = frame_of(0x14, "Token", "r:r s:t")
Have = frame_of(0x15, "Have", "r:t s:r prefix:v limit:v ranges:g")      # ranges of (first, end)
Revoke = frame_of(0x16, "Revoke", "r:r s:t n:v")
Early = frame_of(0x18, "Early", "ts:v s:t messages:m")
StampRejected = frame_of(0x19, "StampRejected", "ts:v time:v")
Reply = frame_of(0x1A, "Reply", "s:r status:v body:d")
ReplyAck = frame_of(0x1B, "ReplyAck", "s:t")
Probe = frame_of(0x1C, "Probe", "s:t")
NoCall = frame_of(0x1D, "NoCall", "s:r")
Computing = frame_of(0x1E, "Computing", "s:r")
Verdict = frame_of(0x1F, "Verdict", "r:t s:r word:b status:v attempts:v reason:d")  # word: 0 taken, 1 processed, 2 rejected
# And those that have no fixed layout.
Params = namedtuple("Params", "values")
Ack = namedtuple("Ack", "delay arrival ranges")             # of (smallest, largest), the newest first
State = namedtuple("State", "b r live final hi lo up free ts end", defaults=[False, False, 0, 0, 0, (), None, 0])
# A part of one message of MESSAGES: `total` is None if that is unmeasured, and `last` says that it ends here.
Piece = namedtuple("Piece", "r s offset total data last", defaults=[False])
Ignored = namedtuple("Ignored", "kind")

CHECKS = {                                                  # the bounds that the sections of the frames give
    Withdrawn: lambda f: 1 <= f.n <= 1024 and f.s + f.n <= LAST, Revoke: lambda f: 1 <= f.n <= 1024 and f.s + f.n <= LAST,
    Have: lambda f: len(f.ranges) <= 32,
    Early: lambda f: f.ts and 1 <= len(f.messages) <= 63 and f.s + len(f.messages) - 1 <= LAST and all(f.messages),
    Reply: lambda f: f.status < 1 << 32,
    Verdict: lambda f: f.word <= 2 and max(f.status, f.attempts) < 1 << 32 and len(f.reason) <= 200
                       and f.reason.decode(errors="ignore").encode() == f.reason}


def _fixed(kind, read):
    """A frame of fixed layout."""
    frame, layout = LAYOUTS[kind]
    frame = frame(**read_fields(layout, read))
    if kind == Have.kind:
        frame = frame._replace(ranges=absolute(frame.ranges, frame.prefix, LAST))
    demand(frame.s + frame.n <= LAST and (frame.ts or kind == 0x10) if isinstance(frame, Ask)
           else CHECKS.get(type(frame), lambda f: True)(frame))
    return frame


def _ack(read):
    flags, largest, delay, arrival, further = read.fixed(1), *(read.varint() for _ in range(4))
    demand(flags < 2 and arrival < 1 << 30)
    ranges, smallest = [], largest + 2
    for n in range(further + 1):
        largest = smallest - 2 - (read.varint() if n else 0)
        smallest = largest - read.varint()
        demand(smallest >= 0)
        ranges.append((smallest, largest))
    for _ in range(3 * flags):
        read.varint()                                       # counts of ECN
    return Ack(delay, arrival, ranges)


def state_layout(flags):
    return ("b:t r:t" + (" ts:v" if flags & 2 else "") + (" end:r" if flags & 8 else "")
            + (" hi:r lo:r up:v free:g" if flags & 1 else ""))


def _state(read):
    flags = read.fixed(1)
    demand(flags < 16 and (flags & 1 or not flags & 4) and (flags & 2 or not flags & 8))
    state = State(live=bool(flags & 1), final=bool(flags & 4), **read_fields(state_layout(flags), read))
    demand(state.ts != 0 and (state.end or not flags & 8) and state.lo + state.up <= LAST)
    up = state.lo + state.up
    return state._replace(up=up, free=absolute(state.free, state.lo, up))


def _messages(kind, read):
    r, s = FIELDS["r"][0](read), FIELDS["t"][0](read)
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


def read_frames(payload, tx=0, rx=0, handshake=False):
    """Yields the frames of a payload from a node with base `tx` to one with base `rx`; raises Malformed behind the last
    good one. In a handshake the first PARAMS declares the base of the sender, for the frames behind it."""
    read = Reader(payload, tx, rx)
    while read.left():
        kind = read.fixed(1)
        if kind in LAYOUTS:
            yield _fixed(kind, read)
        elif 0x20 <= kind <= 0x2B:
            yield from _messages(kind, read)
        elif kind == 0x02:
            yield _ack(read)
        elif kind == 0x06:
            values = read_params(read.block())
            if handshake:
                read.tx, handshake = values["base"], False
            yield Params(values)
        elif kind == 0x11:
            yield _state(read)
        elif kind:
            demand(0x80 <= kind <= 0xBF)
            read.block()
            yield Ignored(kind)


def write(frame, tx=0, rx=0):
    """The bytes of a frame, from a node with base `tx` to one with base `rx`."""
    if isinstance(frame, Ack):
        numbers, smallest = [], frame.ranges[0][1] + 2
        for low, high in frame.ranges:
            numbers += [smallest - high - 2, high - low]
            smallest = low
        numbers[:1] = frame.ranges[0][1], frame.delay, frame.arrival, len(frame.ranges) - 1     # the first has no gap
        return b"\x02\0" + b"".join(map(varint, numbers))
    if isinstance(frame, State):
        flags = frame.live | (frame.ts is not None) << 1 | frame.final << 2 | (frame.end > 0) << 3
        frame = frame._replace(up=frame.up - frame.lo, free=relative(frame.free, frame.lo))
        return bytes([0x11, flags]) + write_fields(state_layout(flags), frame, tx, rx)
    if isinstance(frame, Piece):
        bits = bool(frame.offset) | 2 | (0 if frame.total else 8 if frame.last else 4)
        ends, offset = write_fields("r:r s:t", frame, tx, rx), varint(frame.offset) if frame.offset else b""
        return bytes([0x20 | bits]) + ends + offset + block((varint(frame.total) if frame.total else b"") + frame.data)
    if isinstance(frame, Have):
        frame = frame._replace(ranges=relative(frame.ranges, frame.prefix))
    kind = 0x10 if frame[3:] == (0,) and isinstance(frame, Ask) else frame.kind
    return bytes([kind]) + write_fields(LAYOUTS[kind][1], frame, tx, rx)
