"""The node: datagrams and time in, datagrams and outcomes out. PROTOCOL.md: "Opening", "Answer", "RETRY".

    node = Node()                                   # one with a `save` outlives its process
    letter = node.send(peer_id, ("127.0.0.1", 4000), b"hello")
    node.receive(datagram, address, now)            # what came
    for datagram, address in node.poll(now): ...    # what is to leave; call it every 10 ms
    letter.outcome                                  # None, "delivered", "unknown", ("rejected", 3, "no"), ...
"""

import os
import time
from contextlib import suppress
from hmac import compare_digest

from . import wire
from .channel import Epoch
from .crypto import HASH, SUITES, Noise, mac1, mac2, public, seal_cookie
from .half import Clock
from .message import Head
from .peer import Peer
from .wire import Malformed, write


class Node:
    """A node: its key, its clock, its peers, and the indices by which datagrams find them."""
    POOL_WINDOW, MAX_MESSAGE, MAX_BODIES, IDLE = 1 << 20, 64 << 20, 4, 30.0
    MEMORY = MAX_BODIES * MAX_MESSAGE + 2 * POOL_WINDOW         # what messages of one peer may take that are not taken
    ON_OPENING = (wire.Ask, wire.State, wire.Have, wire.Early, wire.StampRejected)

    def __init__(self, secret=None, D=0, latest=0, save=None, suite=1, cookies=False, wall=time.time_ns):
        """`save(D, latest)` makes both durable beside the secret; if it fails, the node must stop. None: ephemeral."""
        self.suite, self.cookies, self.wall = suite, cookies, wall
        self.secret, self.boot, self.cookie_key = secret or os.urandom(32), os.urandom(8), os.urandom(32)
        self.id, self.clock = public(self.secret), Clock(D, latest, save)
        self.peers, self.indices, self.out = {}, {}, []
        self.now, self.messages, self.ending = 0.0, 0, False

    # ---- the application ----

    def peer(self, key):
        return self.peers.setdefault(key, Peer(self, key))

    def send(self, key, address, body, tag=b"", place=None, confirm=False, call=False):
        """Sends a message. The letter that comes back has an `outcome`, and for a call a `reply` (status, body). With a
        `place`, of which only the flags count, it goes in the stream that is named by the tag."""
        peer = self.peer(key)
        peer.hint = address or peer.hint
        return peer.send(Head(1, tag, place, confirm, call), body)

    def on_message(self, peer, head, body, between):
        """A message has arrived. None takes it; (1, status, "") says processed; (2, status, reason) rejects it."""

    def on_call(self, peer, method, body, s):
        """A call has arrived: `peer.answer(s, status, body)` is to follow, now or later."""
        peer.answer(s, (1 << 32) - 3, b"")

    def end(self):
        """Ends: no record takes anything any more. Poll on until `ended`."""
        self.ending = True
        for peer in self.peers.values():
            peer.R.end()
            peer.owe(wire.State)
            peer.closing = 0 if self.clock.save else 3

    def ended(self):
        return not any(peer.current for peer in self.peers.values())

    # ---- datagrams and time ----

    def receive(self, data, address, now):
        self.now = now
        with suppress(Malformed):                           # dropped without a word
            self.route(wire.datagram(data), data, address)

    def route(self, header, data, address):
        """An index leads to a peer, and to an epoch; to no epoch if an opening waits for its answer."""
        if header.kind == wire.OPENING:
            return self.on_opening(header, data, address)
        peer, epoch = self.indices.get(header.to, (None, None))
        if header.kind == wire.DATA and epoch:
            peer.on_data(epoch, header, data, address)
        elif header.kind == wire.RETRY and peer and not epoch:
            peer.on_retry(header)
        elif header.kind == wire.ANSWER and peer and not epoch:
            peer.on_answer(header)

    def poll(self, now):
        self.now = now
        for peer in list(self.peers.values()):
            peer.poll(now)
        out, self.out = self.out, []
        return out

    # ---- openings ----

    def new_index(self, owner):
        while not (index := int.from_bytes(os.urandom(4), "big")) or index in self.indices:
            pass
        self.indices[index] = (owner, None)
        return index

    def handshake_payload(self, tx, rx, frames, most):
        """PARAMS, and those of the frames that find room."""
        payload = wire.write_params({
            "base": tx, "max_ack_delay": 25000, "boot_id": self.boot, "pool_window": self.POOL_WINDOW, "suites": 6,
            "body_window": self.MAX_MESSAGE, "max_bodies": self.MAX_BODIES, "max_message": self.MAX_MESSAGE})
        for frame in frames:
            data = write(frame, tx, rx) if frame else b""
            payload += data if len(payload) + len(data) <= most else b""
        return payload

    def retry(self, data, header, address, cookie):
        body = seal_cookie(self.id, os.urandom(24), data[-32:-16], cookie, self.wall())
        self.out.append((wire.header(wire.RETRY, header.index) + body, address))

    def on_opening(self, header, data, address):
        """The steps of "Answer", in their order."""
        tag = data[-32:-16]
        if not compare_digest(mac1(self.id, data[:-32]), tag) or header.suite not in SUITES:
            return
        for pending in [peer.pending for peer in self.peers.values() if peer.pending]:
            if pending.mac1 == tag:                         # a copy
                pending.answered.add(address)
                return self.out.append((pending.answer, address))
        cookie = HASH(repr(address).encode(), self.cookie_key, 16)
        fits = compare_digest(mac2(cookie, data[:-16]), data[-16:])
        if self.cookies and not fits:
            return self.retry(data, header, address, cookie)
        noise = Noise(False, header.clear, self.secret)
        payload = noise.read(header.body[:-32])
        if noise.rs == self.id or self.ending:
            return
        peer = self.peer(noise.rs)
        if peer.pending and not fits:
            return self.retry(data, header, address, cookie)
        params, frames = wire.read_handshake(payload, 0)
        peer.end("pending")
        peer.take_frames((f for f in frames if isinstance(f, self.ON_OPENING)), None, None)
        base, index = self.clock.ck, self.new_index(peer)
        clear = wire.header(wire.ANSWER, header.suite, header.index, index)
        owed = [peer.owed_frame(*key) for key in peer.owed]
        answers = [frame for frame in owed if isinstance(frame, (wire.StampRejected, wire.Reply))]
        frames = [peer.R.state(peer.stamp), *answers, peer.wanted()]
        message = clear + noise.write(clear + self.handshake_payload(base, params["base"], frames, 1144))
        epoch = Epoch(header.suite, noise.split(), False, index, header.index, base, params, self.now)
        epoch.mac1, epoch.answer, epoch.answered = tag, message + mac1(peer.id, message), {address}
        self.indices[index], peer.pending = (peer, epoch), epoch
        self.out.append((epoch.answer, address))
