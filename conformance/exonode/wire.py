"""Bytes to datagrams and frames, and back: PROTOCOL.md, "Datagrams", "Frames", "MESSAGES". No state, no keys."""

import struct
from collections import namedtuple

LAST = (1 << 62) - 1
OPENING, ANSWER, RETRY, DATA = 0x11, 0x12, 0x13, 0x14         # RESET and VERSION say nothing to this node


class Malformed(Exception):
    """Bytes that the protocol does not allow, or that do not decrypt."""


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

HEADERS = {                             # kind: the least and the most bytes; the clear header, and the fields in it
    OPENING: (1200, 1232, ">BBxxI", ("kind", "suite", "index")),
    ANSWER: (88, 1232, ">BBxxII", ("kind", "suite", "to", "index")),
    RETRY: (72, 72, ">BxxxI", ("kind", "to")),
    DATA: (25, 65527, ">BII", ("kind", "to", "number"))}
# `clear` is the clear header, `body` what follows it.
Datagram = namedtuple("Datagram", "clear body kind suite to index number", defaults=[0, 0, 0, 0])


def header(*fields):
    """The clear header of a datagram, from its kind on."""
    return struct.pack(HEADERS[fields[0]][2], *fields)


def datagram(data):
    demand(data and data[0] in HEADERS)
    least, most, layout, names = HEADERS[data[0]]
    demand(least <= len(data) <= most)
    fields, size = struct.unpack_from(layout, data), struct.calcsize(layout)
    demand(header(*fields) == data[:size])                  # what is reserved is zero
    return Datagram(data[:size], data[size:], **dict(zip(names, fields)))


def full_number(low, largest):
    """The packet number with these low 32 bits that is closest to the one after `largest` (-1: none yet)."""
    least = largest + 1 - (1 << 31)
    number = least + (low - least) % (1 << 32)
    return number if number >= 0 else number + (1 << 32)


# ---- parameters ------------------------------------------------------------------------------------------------

PARAMETERS = {                                              # id: name, default; bytes are of fixed length
    1: ("base", 0), 2: ("max_ack_delay", 1000), 3: ("boot_id", bytes(8)), 4: ("time", 0), 5: ("max_datagram", 65527),
    6: ("pool_window", 65536), 7: ("body_window", 65536), 8: ("max_bodies", 4), 9: ("max_message", LAST),
    10: ("idle_timeout", 0), 11: ("suites", 0), 12: ("reset_token", bytes(16)), 13: ("takes", 3),
    14: ("lane_window", 0), 15: ("lane_pool", 16777216), 16: ("lanes", 16384), 17: ("generation", 0), 18: ("met", 0),
    19: ("lineage", 0), 20: ("met_lineage", 0), 21: ("durability", 0)}
DEFAULTS = {**dict(PARAMETERS.values()), "reset_token": None}


def read_params(read):
    """Every parameter, with its value or its default."""
    read, came = Reader(read.block()), {}
    while read.left():
        key, value = read.varint(), Reader(read.block())
        if key in PARAMETERS:
            name, default = PARAMETERS[key]
            demand(name not in came)
            came[name] = value.take(len(default)) if isinstance(default, bytes) else value.varint()
            demand(not value.left())
    out = {**DEFAULTS, **came}
    demand(out["max_ack_delay"] < 1 << 24 and out["max_datagram"] >= 1200)
    demand(out["pool_window"] >= min(65536, out["max_message"]))
    return Params(out)


def write_params(values):
    body = b""
    for key, (name, _) in PARAMETERS.items():
        if values.get(name) is not None:
            value = values[name]
            body += varint(key) + block(value if isinstance(value, bytes) else varint(value))
    return b"\x06" + block(body)


# ---- frames of fixed layout ------------------------------------------------------------------------------------
# Numbers in frames are absolute; who reads or writes them says the bases: `tx` of the frame's sender (its transmitter),
# `rx` of its receiver. Ranges are pairs of (first, end).

def merged(ranges):
    """The same numbers as ranges that ascend and do not touch."""
    out = []
    for first, end in sorted(ranges):
        if out and first <= out[-1][1]:
            first, end = out[-1][0], max(end, out.pop()[1])
        out.append((first, end))
    return out


def block(data):
    return varint(len(data)) + data


def read_ranges(read, end, most):
    """Pairs of gap and length, which ascend from `end`, as ranges of (first, end)."""
    ranges = []
    for _ in range(read.varint()):
        first = end + read.varint()
        end = first + read.varint()
        demand(first < end <= most)
        ranges.append((first, end))
    return tuple(ranges)


def write_ranges(ranges, end):
    out = varint(len(ranges))
    for first, after in ranges:
        out += varint(first - end) + varint(after - first)
        end = after
    return out


# Letter: how `r` reads a field, with the fields `b` before it; how the field `x` of the frame `f` is written.
FIELDS = {
    "v": (lambda r, b: r.varint(), lambda x, f, tx, rx: varint(x)),
    "b": (lambda r, b: r.fixed(1), lambda x, f, tx, rx: bytes([x])),
    "8": (lambda r, b: r.take(8), lambda x, f, tx, rx: x),
    "d": (lambda r, b: r.block(), lambda x, f, tx, rx: block(x)),
    # A number of the clock of the frame's sender, of its receiver: "Numbers and bases".
    "t": (lambda r, b: r.varint() + r.tx & LAST, lambda x, f, tx, rx: varint(x - tx & LAST)),
    "r": (lambda r, b: r.varint() + r.rx & LAST, lambda x, f, tx, rx: varint(x - rx & LAST)),
    # The ranges of HAVE; the end of the claim of STATE, and its ranges; the messages of EARLY.
    "p": (lambda r, b: read_ranges(r, b["prefix"], LAST), lambda x, f, tx, rx: write_ranges(x, f.prefix)),
    "u": (lambda r, b: r.varint() + b["lo"], lambda x, f, tx, rx: varint(x - f.lo)),
    "f": (lambda r, b: read_ranges(r, b["lo"], b["up"]), lambda x, f, tx, rx: write_ranges(x, f.lo)),
    "m": (lambda r, b: tuple(r.block() for _ in range(r.fixed(1))),
          lambda x, f, tx, rx: bytes([len(x)]) + b"".join(map(block, x)))}


def read_fields(layout, read):
    values = {}
    for name, letter in fields(layout):
        values[name] = FIELDS[letter][0](read, values)
    return values


def write_fields(layout, frame, tx, rx):
    return b"".join(FIELDS[letter][1](getattr(frame, name), frame, tx, rx) for name, letter in fields(layout))


def fields(layout):
    return [field.split(":") for field in layout.split()]


LAYOUTS = {}                            # type byte: the frame, its fields, and the bounds that its section gives


def frame_of(kind, name, layout, bounds=lambda f: True):
    frame = namedtuple(name, [field for field, _ in fields(layout)])
    frame.kind = kind
    LAYOUTS[kind] = frame, layout, bounds
    return frame


def is_run(f):
    return 1 <= f.n <= 1024 and f.s + f.n <= LAST


def is_verdict(f):
    text = f.reason.decode(errors="ignore").encode()
    return f.word <= 2 and max(f.status, f.attempts) < 1 << 32 and len(f.reason) <= 200 and text == f.reason


Ping = frame_of(0x01, "Ping", "")
Close = frame_of(0x03, "Close", "code:v")
Challenge = frame_of(0x04, "Challenge", "data:8")
Response = frame_of(0x05, "Response", "data:8")
Ask = frame_of(0x17, "Ask", "s:t n:v l:t ts:v", lambda f: f.ts and f.s + f.n <= LAST)
Ask.__new__.__defaults__ = (0,)                             # no stamp
LAYOUTS[0x10] = Ask, "s:t n:v l:t", lambda f: f.s + f.n <= LAST
Withdrawn = frame_of(0x12, "Withdrawn", "r:t s:r n:v", is_run)
Token = frame_of(0x14, "Token", "r:r s:t")
Have = frame_of(0x15, "Have", "r:t s:r prefix:v limit:v ranges:p", lambda f: len(f.ranges) <= 32)
Revoke = frame_of(0x16, "Revoke", "r:r s:t n:v", is_run)
Early = frame_of(0x18, "Early", "ts:v s:t messages:m", lambda f: f.ts and all(f.messages)
                 and 1 <= len(f.messages) <= 63 and f.s + len(f.messages) - 1 <= LAST)
StampRejected = frame_of(0x19, "StampRejected", "ts:v time:v")
Reply = frame_of(0x1A, "Reply", "s:r status:v body:d", lambda f: f.status < 1 << 32)
ReplyAck = frame_of(0x1B, "ReplyAck", "s:t")
Probe = frame_of(0x1C, "Probe", "s:t")
NoCall = frame_of(0x1D, "NoCall", "s:r")
Computing = frame_of(0x1E, "Computing", "s:r")
# `word`: 0 taken, 1 processed, 2 rejected.
Verdict = frame_of(0x1F, "Verdict", "r:t s:r word:b status:v attempts:v reason:d", is_verdict)

# ---- the other frames ------------------------------------------------------------------------------------------

Params = namedtuple("Params", "values")
Ack = namedtuple("Ack", "delay arrival ranges")             # of (smallest, largest), the newest first
State = namedtuple("State", "b r live final hi lo up free ts end part", defaults=[0, 0, 0, 0, 0, (), None, 0, 0])
# A part of one message of MESSAGES: `total` is None if that is unmeasured, and `last` says that it ends here.
Piece = namedtuple("Piece", "r s offset total data last", defaults=[False])
Ignored = namedtuple("Ignored", "kind")


def read_ack(read):
    flags, largest, delay, arrival, further = read.fixed(1), *(read.varint() for _ in range(4))
    demand(flags < 2 and arrival < 1 << 30)
    ranges = [(largest - read.varint(), largest)]
    for _ in range(further):
        largest = ranges[-1][0] - read.varint() - 2
        ranges.append((largest - read.varint(), largest))
    demand(ranges[-1][0] >= 0)
    for _ in range(3 * flags):
        read.varint()                                       # counts of ECN
    return Ack(delay, arrival, ranges)


def write_ack(ack, *_):
    (low, largest), *further = ack.ranges
    out = b"\x02\0" + b"".join(map(varint, (largest, ack.delay, ack.arrival, len(further), largest - low)))
    for smallest, largest in further:
        out += varint(low - largest - 2) + varint(largest - smallest)
        low = smallest
    return out


def state_layout(flags):
    return ("b:t r:t" + (" ts:v" if flags & 2 else "") + (" end:r" if flags & 8 else "")
            + (" hi:r lo:r up:u free:f" if flags & 1 else ""))


def read_state(read):
    flags = read.fixed(1)
    demand(flags < 32 and (flags & 1 or not flags & 20) and (flags & 2 or not flags & 8))
    state = State(live=flags & 1, final=flags >> 2 & 1, part=flags >> 4, **read_fields(state_layout(flags), read))
    demand(state.ts != 0 and (state.end or not flags & 8) and state.up <= LAST)
    return state


def write_state(state, tx, rx):
    flags = state.live | (state.ts is not None) << 1 | state.final << 2 | (state.end > 0) << 3 | state.part << 4
    return bytes([0x11, flags]) + write_fields(state_layout(flags), state, tx, rx)


def read_messages(read, kind):
    """MESSAGES, as pieces. Bit 0 of the type says `offset`, bit 1 `length`, and bits 2 and 3 that it is unmeasured."""
    r, s = read_fields("r:r s:t", read).values()
    offset = read.varint() if kind & 1 else 0
    body = Reader(read.block()) if kind & 2 else read
    if kind & 12:                                           # one part, to the end of the frame
        last, data = bool(kind & 8), body.rest()
        demand((data or last) and 1 <= offset + len(data) <= LAST)
        return [Piece(r, s, offset, None, data, last)]
    pieces = []
    while body.left() and (total := body.varint()):
        demand(offset < total and s <= LAST)
        pieces.append(Piece(r, s, offset, total, body.take(max(1, min(total - offset, body.left())))))
        s, offset = s + 1, 0
    demand(pieces and not (kind & 2 and body.left()))       # with a length, a `total` of 0 is the last byte
    return pieces


def write_piece(piece, tx, rx):
    kind = 0x22 | (piece.offset > 0) | (0 if piece.total else 8 if piece.last else 4)
    total, offset = (varint(x) if x else b"" for x in (piece.total, piece.offset))
    return bytes([kind]) + write_fields("r:r s:t", piece, tx, rx) + offset + block(total + piece.data)


READERS = {0x02: read_ack, 0x06: read_params, 0x11: read_state}


def read_frames(read):
    """Yields the frames of a payload; raises Malformed behind the last good one."""
    while read.left():
        kind = read.fixed(1)
        if kind in LAYOUTS:
            frame, layout, bounds = LAYOUTS[kind]
            frame = frame(**read_fields(layout, read))
            demand(bounds(frame))
            yield frame
        elif kind in READERS:
            yield READERS[kind](read)
        elif 0x20 <= kind <= 0x2B:
            yield from read_messages(read, kind)
        elif kind:                                          # 0 is PADDING
            demand(0x80 <= kind <= 0xBF)
            read.block()
            yield Ignored(kind)


def read_handshake(payload, rx):
    """The parameters that begin the payload of a handshake, and the frames behind them, under the base they declare."""
    read = Reader(payload, 0, rx)
    frames = read_frames(read)
    params = next(frames, None)
    demand(isinstance(params, Params))
    read.tx = params.values["base"]
    return params.values, frames


WRITERS = {Ack: write_ack, State: write_state, Piece: write_piece}


def write(frame, tx=0, rx=0):
    """The bytes of a frame, from a node with base `tx` to one with base `rx`."""
    if type(frame) in WRITERS:
        return WRITERS[type(frame)](frame, tx, rx)
    kind = 0x10 if isinstance(frame, Ask) and not frame.ts else frame.kind
    return bytes([kind]) + write_fields(LAYOUTS[kind][1], frame, tx, rx)
