"""One peer: its two records, what is on the way, and the channel. PROTOCOL.md, from "Confirmation" to "Messages"."""

from bisect import insort
from copy import copy

from . import wire
from .channel import LIMIT, Epoch, Path, Recovery, Sent, Wait
from .crypto import Noise, mac1, mac2, open_cookie
from .half import CANCELLED, DELIVERED, NOT_DELIVERED, UNKNOWN, Receiver, Sender
from .message import POOLED, Head, Incoming, Outgoing, read_message, spelled_out
from .wire import Malformed, demand, write

TOO_LARGE = (1 << 32) - 2
ROOM = 1200 - 25                        # frames of a data packet
GRANT = 1024                            # slots that one peer may hold free
UNDECLARED = {**wire.DEFAULTS, "pool_window": 0, "body_window": 0}


class Opening:
    """An opening under way: the datagram without mac2, and when its next copy is due."""

    def __init__(self, noise, data, index, base, now):
        self.noise, self.data, self.index, self.base, self.ends = noise, data, index, base, now + 30
        self.mac2, self.retries, self.copies, self.sent = bytes(16), 0, Wait(now, 0.0, 0.25, 4.0), {}


class Stream:
    """A stream at its sender: `open` holds the slots of its messages that are bound and not settled."""

    def __init__(self):
        self.o, self.n, self.open = None, 0, set()

    def place(self, letter, s):
        if not letter.place:                                # what is given back keeps its place
            self.o, self.n = (s, 0) if self.o is None else (self.o, self.n + 1)
            letter.place = self.o, self.n
            self.o = None if letter.head.place.last else self.o
        (o, n), link = letter.place, s - max(self.open) if self.open else 0
        self.open.add(s)
        return letter.head.place._replace(age=s - o, n=n, link=link)


class Peer:
    """S and R are the sender's and the receiver's record, as in the rules; the channel may go at any instant."""

    def __init__(self, node, key):
        self.node, self.id, self.hint, self.params = node, key, None, UNDECLARED
        self.S, self.queue, self.streams = None, [], {}
        # What is kept of messages under the incarnation `life`: s -> message; name of a stream -> (o, next, ended).
        self.R, self.life, self.parts, self.readers = Receiver(node.clock), None, {}, {}
        self.calls, self.entries = {}, {}                   # s -> letter; s -> (status, body), None: COMPUTING
        self.owed, self.stamp, self.before = {}, 0, None    # `owed`: the kinds of frames to be said, and their numbers
        self.opening, self.pending, self.current, self.previous, self.closing = None, None, None, None, None
        self.path, self.candidate, self.recovery, self.boot = None, None, Recovery(), None
        self.heard, self.busy, self.ask_again = 0, 0, None

    def owe(self, kind, s=0):
        """A frame of this kind, about the number `s`, is to be said, and again if it is lost."""
        self.owed[kind, s] = True

    # ---- what is sent: "Sending", "The pool", "Streams" ----

    def send(self, head, body):
        self.node.messages += 1
        self.S, letter = self.S or Sender(self.node.clock, self.queue, self), Outgoing(self.node.messages, head, body)
        insort(self.queue, letter)
        return letter

    def bound(self, letter, s):
        """The record has bound a message to the slot `s`: only now is it in doubt."""
        head = letter.head
        if head.place:
            head = head._replace(place=self.streams.setdefault(head.tag, Stream()).place(letter, s))
        if head.call:
            self.calls[s] = letter
        letter.start(head, max(POOLED, self.params["body_window"]))

    def report(self, letter, s, outcome):
        """What became of a message; None: it was given back."""
        head = letter.head
        if head.place:
            self.streams[head.tag].open.discard(s)
        if outcome is None:
            self.calls.pop(s, None)
        elif head.reply and outcome == UNKNOWN:
            self.send(head, letter.body)
        elif head.reply:
            self.entries.pop(head.reply[0], None)
        elif head.call and outcome == DELIVERED:            # probed from now on
            letter.known, letter.probe = True, Wait(self.node.now, 0.25, 0.5)
        elif not head.call or self.calls.pop(s, None):
            letter.outcome = outcome

    def end_queue(self, outcome):
        for letter in self.queue:
            letter.outcome = outcome
        self.queue.clear()

    def bind(self):
        """Binds one message after the other, each in the step in which a first piece of it leaves."""
        S, p = self.S, self.params
        sizes = [letter.size for _, letter in S.tokens.values()]
        pool, large = sum(x for x in sizes if x <= POOLED), sum(x > POOLED for x in sizes)
        for letter in list(self.queue):
            pooled = letter.size <= POOLED
            full = pool + letter.size > max(POOLED, p["pool_window"]) if pooled else large >= p["max_bodies"]
            taken = p["takes"] & (2 if letter.head.call else 1) or letter.head.reply
            if not taken or letter.size > p["max_message"]:
                self.queue.remove(letter)
                letter.outcome = CANCELLED if taken else NOT_DELIVERED
            elif S.e >= S.sck or self.recovery.probes > 1 or pooled and full:
                return
            elif not full:
                pool, large = pool + letter.size * pooled, large + (not pooled)
                S.bind(letter)
                yield letter, S.r, S.e - 1

    # ---- what is received: "Receiving", "Streams", "Confirmation" ----

    def on_ask(self, ask):
        may = ask.ts <= self.node.wall() + 10 * 10**9
        kind = self.R.on_ask(ask, 0 if self.node.ending else GRANT - len(self.R.free), may)
        self.stamp = ask.ts or self.stamp
        if kind:
            self.owe(kind, ask.ts if kind is wire.StampRejected else 0)
        l = self.R.l if self.life == self.R.r else wire.LAST    # what was kept belongs to one incarnation
        self.life, self.parts = self.R.r, {s: part for s, part in self.parts.items() if s >= l}
        self.readers = {k: x for k, x in self.readers.items() if l < wire.LAST and (x[2] is None or x[2] >= l)}
        self.take_what_is_whole()

    def on_piece(self, piece, named):
        """A piece of a message; `named` says whether it is under the incarnation or the stamp of the record."""
        s = piece.s
        self.owe(wire.State)
        if not (named and self.R.takes(s)):
            return
        part = self.parts.setdefault(s, Incoming(piece))
        if not part.add(piece, self.node.MAX_MESSAGE):
            del self.parts[s]
        elif part.came_so_far()[0] == part.total:
            try:
                part.message = read_message(bytes(part.data))
            except Malformed:
                del self.parts[s]                           # this message alone is dropped; its slot stays free
            self.take_what_is_whole()
        while sum(len(part.data) for part in self.parts.values()) > self.node.MEMORY:
            s = max(self.parts)                             # messages with greater numbers make room
            del self.parts[s]
            self.owe(wire.Have, s)

    def may_take(self, s):
        """Whether the application may have this message: one of a stream waits for those before it."""
        if not self.R.takes(s) or not self.parts[s].message:
            return False
        head, _ = self.parts[s].message
        if not head.place:
            return True
        waits = head.place.link and self.R.takes(s - head.place.link)
        o, reader = s - head.place.age, self.readers.get(head.tag)
        goes_on = reader and o == reader[0] and head.place.n >= reader[1] and reader[2] is None
        return not waits and (not reader or o > reader[0] or goes_on)

    def take_what_is_whole(self):
        """Hands out messages by their numbers; one of a stream may free the next."""
        while (s := next(filter(self.may_take, sorted(self.parts)), None)) is not None:
            self.take(s, *self.parts.pop(s).message)

    def between(self, s, place, tag):
        """What lies between this message of a stream and the one before: the application must hear of it."""
        reader = self.readers.get(tag)
        self.readers[tag] = (s - place.age, place.n + 1, s if place.last else None)     # o, next, ended
        if not reader or reader[2] is not None:
            return f"continues after {place.n}" if place.n else "opens"
        if s - place.age > reader[0]:
            return "breaks"
        return f"{place.n - reader[1]} missing" if place.n > reader[1] else None

    def take(self, s, head, body):
        between = self.between(s, head.place, head.tag) if head.place else None
        del self.R.free[s]
        if head.reply:
            self.end_call(*head.reply, body)
        elif head.call:
            self.entries[s] = None
            self.node.on_call(self, head.tag, body, s)
        else:
            word, status, reason = self.node.on_message(self, head, body, between) or (0, 0, "")
            if word or head.confirm:                        # the slot is marked, and stays free until `l` passes it
                self.R.free[s] = wire.Verdict(self.R.r, s, word, status, 1, reason.encode())
                self.owe(wire.Verdict, s)

    # ---- calls ----

    def answer(self, s, status, body):
        """The application answers a call: by REPLY, or by a message where that is too large."""
        if len(body) + 1024 > self.params["max_message"]:
            status, body = TOO_LARGE, b""
        if len(body) > 1040:
            self.send(Head(reply=(s, status)), body)
        else:
            self.entries[s] = status, body
            self.owe(wire.Reply, s)

    def end_call(self, s, status, body):
        letter = self.calls.pop(s, None)
        if letter:
            letter.reply, letter.outcome = (status, body), "replied"
            if self.S and s in self.S.tokens:
                self.S.settle(s, DELIVERED)
                self.owe(wire.Ask)                          # the peer is to hear `l`

    # ---- frames ----

    def on_frame(self, frame, epoch):
        kind, S = type(frame), self.S
        frame = spelled_out(frame, self.before) if kind is wire.Piece else frame
        self.before = frame if kind is wire.Piece else None
        if kind is wire.Piece:
            self.on_piece(frame, frame.r == self.R.r)
        elif kind is wire.Ack:
            self.recovery.on_ack(epoch, frame, self.node.now)
        elif kind is wire.Ask:
            self.on_ask(frame)
        elif kind is wire.Early:
            self.stamp = frame.ts
            for s, data in enumerate(frame.messages, frame.s):
                self.on_piece(wire.Piece(None, s, 0, len(data), data), frame.ts == self.R.ets)
        elif kind is wire.State and S:
            S.on_state(frame)
        elif kind is wire.State and frame.live:
            self.owe(wire.Ask)                              # the farewell
        elif kind in (wire.Token, wire.Revoke):             # this node withdraws nothing: REVOKE asks as TOKEN does
            self.owe(wire.State)
            self.owe(wire.Have, frame.s)
        elif kind is wire.Have and S and S.token(frame.r, frame.s):
            S.token(frame.r, frame.s).on_have(frame)
        elif kind is wire.Verdict:
            self.owe(wire.Ask)
            if S and S.token(frame.r, frame.s):
                words = (DELIVERED, ("processed", frame.status), ("rejected", frame.status, frame.reason.decode()))
                S.settle(frame.s, words[frame.word])
        elif kind is wire.Reply:
            self.owe(wire.ReplyAck, frame.s)
            self.end_call(*frame)
        elif kind is wire.ReplyAck and self.entries.get(frame.s):
            del self.entries[frame.s]
        elif kind is wire.Probe:
            self.owe(wire.Reply, frame.s)
        elif kind is wire.NoCall and frame.s in self.calls and self.calls[frame.s].known:
            self.calls.pop(frame.s).outcome = UNKNOWN
        elif kind is wire.Response:
            self.on_response(frame.data)

    def owed_frame(self, kind, s):
        """The frame that is owed, as it has to be said now; None if it need not be said any more."""
        S, R, entry, part = self.S, self.R, self.entries.get(s), self.parts.get(s)
        if kind is wire.State:
            return R.state(self.stamp)
        if kind is wire.Ask:
            return S.ask(0) if S else wire.Ask(self.node.clock.ck, 0, self.node.clock.ck)
        if kind is wire.Token:
            return wire.Token(S.tokens[s][0], s) if S and s in S.tokens else None
        if kind in (wire.Have, wire.Verdict):
            prefix, ranges = part.came_so_far() if part else (0, ())
            return wire.Have(R.r, s, prefix, 0, ranges) if R.takes(s) else R.free.get(s)
        if kind is wire.Reply:
            return wire.Reply(s, *entry) if entry else wire.Computing(s) if s in self.entries else wire.NoCall(s)
        if kind is wire.StampRejected:
            return wire.StampRejected(s, self.node.wall())
        return wire.Ping() if kind is wire.Ping else kind(s)

    def on_close(self, code):
        self.drop()
        if code in (3, 8, 9, 10):                           # the identity has ended, or there are two of one
            for s in list(self.S.tokens) if self.S else ():
                self.S.settle(s, UNKNOWN)
            for letter in self.calls.values():
                letter.outcome = UNKNOWN
            self.end_queue(NOT_DELIVERED if code == 3 else CANCELLED)
            self.calls, self.S = {}, None
            self.R.evict()

    # ---- packets ----

    def seal(self, epoch, payload, items, path):
        """`items` hear whether the packet arrived; without any it is not ack-eliciting."""
        header, size, now = wire.header(wire.DATA, epoch.to, epoch.next % (1 << 32)), len(payload) + 25, self.node.now
        self.node.out.append((epoch.seals.seal(epoch.next, header, payload), path.address))
        path.sent += size
        if items:
            epoch.sent[epoch.next], self.recovery.last = Sent(now, size, items), now
        epoch.next += 1

    def packet(self, probe=False):
        """The next packet under the current epoch, or nothing. Gives whether something went."""
        epoch, out, items, S = self.current, bytearray(), [], self.S

        def put(frame, item=None):
            data = write(frame, epoch.tx, epoch.rx)
            if len(out) + len(data) > ROOM:
                return False
            out.extend(data)
            items.extend([item] if item else [])
            return True

        if epoch.owes_ack:
            epoch.owes_ack = not put(epoch.ack(self.node.now))
        for key in list(self.owed):
            frame = self.owed_frame(*key)
            fate = None if key[0] in (wire.State, wire.Close) else lambda came, key=key: came or self.owe(*key)
            if frame is None or put(frame, fate):
                del self.owed[key]
        flying = sum(sent.size for x in (epoch, self.previous) if x for sent in x.sent.values())
        if S and (probe or flying < self.recovery.window) and not self.node.ending:
            self.put_ask(put)
            if all(self.put_pieces(put, letter, r, s) for s, (r, letter) in sorted(S.tokens.items())):
                all(self.put_pieces(put, *bound) for bound in self.bind())      # until the packet is full
        if probe and not items:
            put(wire.Ping(), lambda came: None)
        if out:
            self.seal(epoch, bytes(out), items, self.path)
        return bool(out)

    def put_ask(self, put):
        """ASK: at once if it wants more than before, and again with growing waits."""
        ask = self.S.ask(16 if self.queue else 0)
        if self.S.hi > self.S.asked:
            self.S.asked, self.ask_again = self.S.hi, Wait(self.node.now, 0.0, 2 * self.recovery.pto())
        if ask.n and self.ask_again.over(self.node.now):
            put(ask, lambda came: came or setattr(self.ask_again, "at", 0))

    def wanted(self):
        """The ASK of a handshake, if a sender record wants slots."""
        ask = self.S and self.S.ask(16)
        return ask if ask and ask.n else None

    @staticmethod
    def put_pieces(put, letter, r, s):
        """Chunks of one message, as long as there is room. False: the packet is full."""
        flying, todo = letter.flying, letter.todo
        while chunk := letter.next_chunk():
            at, data = chunk

            def fate(came, at=at):
                flying.discard(at)
                todo.update([] if came else [at])
            if not put(wire.Piece(r, s, at, len(letter.wire), data), fate):
                return False
            todo.discard(at)
            flying.add(at)
            letter.probe = None
        return True

    # ---- openings and epochs ----

    def open(self, now):
        """Begins an opening: its datagram is made once, and each copy is the same but for mac2."""
        node = self.node
        index, base = node.new_index(self), node.clock.ck
        header = wire.header(wire.OPENING, node.suite, index)
        frames = [self.R.record and self.R.state(self.stamp), self.wanted()]
        payload = node.handshake_payload(base, 0, frames, 1096)
        noise = Noise(True, header, node.secret, self.id)
        data = header + noise.write(payload.ljust(1064, b"\0"))
        self.opening = Opening(noise, data + mac1(self.id, data), index, base, now)

    def on_retry(self, header):
        if self.opening.retries < 3:
            cookie = open_cookie(self.id, header.body, self.opening.data[-16:])
            self.opening.mac2, self.opening.copies.at = mac2(cookie, self.opening.data), self.node.now
            self.opening.retries += 1

    def on_answer(self, header):
        opening, node = self.opening, self.node
        demand(header.suite == node.suite and mac1(node.id, header.clear + header.body[:-16]) == header.body[-16:])
        noise = copy(opening.noise)                         # the true answer may follow a false one
        payload = noise.read(header.body[:-16])
        demand(payload[:12] == header.clear)
        self.end("opening")
        params, frames = wire.read_handshake(payload[12:], opening.base)
        if header.index == 0:                               # "Refusals"
            return None if self.current else self.end_queue(NOT_DELIVERED)
        epoch = Epoch(header.suite, noise.split(), True, opening.index, header.index, opening.base, params, node.now)
        node.indices[opening.index] = (self, epoch)
        self.path = self.path or Path(self.hint, True, node.now)    # where the copies went
        self.owe(wire.Ping)                                 # the responder waits for a packet
        self.install(epoch)
        self.take_frames(frames, epoch, self.path)

    def take_frames(self, frames, epoch, path):
        """Takes frames up to the first malformed one; None if there was one. Else: do they want an acknowledgement?"""
        eliciting, challenge, self.before = False, None, None
        try:
            for frame in frames:
                eliciting |= not isinstance(frame, (wire.Ack, wire.State))
                if isinstance(frame, wire.Close):
                    self.on_close(frame.code)
                    return eliciting
                challenge = frame.data if isinstance(frame, wire.Challenge) else challenge
                self.on_frame(frame, epoch)
        except Malformed:
            return None
        if challenge and path:
            self.send_path(wire.Response(challenge), path)
        return eliciting

    def install(self, epoch):
        """Makes an epoch current: "Crossing openings", "New keys", "A restarted peer"."""
        boot, self.params, self.heard = epoch.params["boot_id"], epoch.params, self.node.now
        if self.boot not in (None, boot):
            self.end("previous", "current")
            if self.S:
                self.S.renounce()
        self.boot, old, self.current = boot, self.current, epoch
        if old:
            crossed = old.initiator != epoch.initiator and abs(epoch.begun - old.begun) < 5
            if crossed and old.initiator == (self.node.id < self.id):
                self.current, old = old, epoch
            self.end("previous")
            self.previous, old.ends = old, self.node.now + 3 * self.recovery.pto()

    def end(self, *roles):
        """Forgets the opening or the epoch in these roles. What an epoch had under way is lost."""
        for role in roles:
            epoch = getattr(self, role)
            setattr(self, role, None)
            if epoch:
                self.node.indices.pop(epoch.index, None)
                self.recovery.lose(epoch, list(epoch.sent), self.node.now)

    def drop(self):
        """The channel goes; nothing is lost with it."""
        self.end("previous", "current")
        self.path = self.candidate = self.closing = None
        self.recovery = Recovery()

    def on_data(self, epoch, header, data, address):
        """A data packet under an epoch of this peer. Until it opens, it counts as one that failed."""
        now, number = self.node.now, wire.full_number(header.number, epoch.largest)
        epoch.failed += 1
        payload = epoch.opens.open(number, header.clear, header.body)
        epoch.failed -= 1
        newest = number > epoch.largest
        if not epoch.accept(number, now):
            return
        self.heard = now
        if epoch is self.pending:
            self.pending = None
            if not self.path or epoch.answered == {address}:
                self.path = Path(address, epoch.answered == {address}, now)
            self.install(epoch)
        path = self.follow(address, newest and epoch is self.current, len(data))
        eliciting = self.take_frames(wire.read_frames(wire.Reader(payload, epoch.rx, epoch.tx)), epoch, path)
        if eliciting is None:
            return self.drop()
        epoch.owes_ack |= eliciting
        if epoch is self.previous and epoch.owes_ack:
            epoch.owes_ack = False
            self.seal(epoch, write(epoch.ack(now)), [], self.path)

    # ---- paths ----

    def follow(self, address, newest, size):
        """The path that a packet came by; the newest one of the current epoch begins and ends contests."""
        if newest and address == self.path.address:
            self.candidate = None
        elif newest and (not self.candidate or self.candidate.address != address):
            self.candidate = Path(address, False, self.node.now)
        for path in (self.path, self.candidate):
            if path and path.address == address:
                path.received += size
                return path
        return None

    def send_path(self, frame, path):
        """A packet of the contest, padded as far as the bytes from there allow."""
        if path.allows(25 + 9):
            size = ROOM if path.allows(1200) else 9
            self.seal(self.current, write(frame).ljust(size, b"\0"), [lambda came: None], path)

    def on_response(self, data):
        """PATH_RESPONSE: the path that answers is the active one, and ends the contest."""
        path = next((path for path in (self.path, self.candidate) if path and path.challenge == data), None)
        if path:
            if path.address[0] != self.path.address[0]:
                self.recovery = Recovery()                  # another host
            self.path, self.candidate, path.proven = path, None, True

    # ---- time ----

    def poll(self, now):
        busy = bool(self.queue or self.calls or self.S and self.S.tokens)
        self.busy = now if busy else self.busy
        for role in ("opening", "pending", "previous"):
            if getattr(self, role) and now >= getattr(self, role).ends:
                self.end(role)
        if self.S and now - self.busy > 2:
            self.S.close()
            self.S = None
            self.owe(wire.Ask)                              # the farewell
        silent = self.current and self.recovery.probes > 1 and now - self.heard > 1
        wants = busy or any(kind in (wire.Reply, wire.Verdict) for kind, _ in self.owed)
        if wants and not self.opening and (not self.current or silent) and (self.path or self.hint):
            self.open(now)
        if self.opening and self.opening.copies.over(now):
            self.node.out.append((self.opening.data + self.opening.mac2, self.path.address if self.path else self.hint))
        if self.current:
            self.poll_channel(now, busy)

    def poll_channel(self, now, busy):
        """What the current epoch has to say."""
        self.timers(now, self.recovery.pto())
        if now - self.heard > self.node.IDLE and not busy:
            self.closing = 0
        if self.closing is not None:
            self.owe(wire.Close, self.closing)
        if self.recovery.timeout(self.current, now):
            self.packet(probe=True)
        while self.path.allows(1200) and self.packet():
            pass
        sealed, failed = LIMIT[self.current.suite]
        if self.closing is not None or self.current.next >= sealed or self.current.failed >= failed:
            self.drop()

    def timers(self, now, pto):
        """Token probes, call probes, challenges."""
        for s, (_, letter) in self.S.tokens.items() if self.S else ():
            if letter.flying or letter.next_chunk():
                letter.probe = None
            elif letter.probe is None:
                letter.probe = Wait(now, 2 * pto, 4 * pto)
            elif letter.probe.over(now):
                letter.asked = True
                self.owe(wire.Token, s)
        for s, letter in self.calls.items():
            if letter.known and letter.probe.over(now):
                self.owe(wire.Probe, s)
        if self.candidate and now - self.candidate.began > 3 * pto:
            self.candidate = None
        for path in (self.path, self.candidate):
            if path and (self.candidate or not path.proven) and now - path.asked >= pto:
                path.asked = now
                self.send_path(wire.Challenge(path.challenge), path)
