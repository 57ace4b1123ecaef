"""What is delivered: the rules of PROTOCOL.md, "Node clock" and "Half-connection", in its words. No bytes, no time.

This node sends nothing early: it opens with k = 0, and so has no `S.early`. It never uses the rules `abandon`,
`forget`, `caught_up` and `restart`, nor `way == 2`. What it forgets it forgets as by `full`: it keeps no `ats` and
`aend`, and no `R.kts` and `R.keep` that they would be made of.
"""

from bisect import insort

from .wire import LAST, Ask, StampRejected, State, merged

DELIVERED, UNKNOWN, NOT_DELIVERED, CANCELLED = "delivered", "unknown", "not delivered", "cancelled"


class Clock:
    """The numbers that all records of a node share. `save(D, latest)` is durable when it returns; None: ephemeral."""

    def __init__(self, D=0, latest=0, save=None, block=1 << 20):
        self.ck = self.b = D
        self.latest = self.upper = latest
        self.D, self.save, self.block = D if save else LAST, save, block
        self.reserve()

    def reserve(self):
        """Raises `D` ahead of need, durably before it counts."""
        if self.D + self.block <= LAST and self.ck + self.block // 2 > self.D:
            self.save(self.D + self.block, self.latest)
            self.D += self.block

    def accept(self, ts):
        if self.save:
            self.save(self.D, ts)
        self.latest = ts


class Sender:
    """A sender record. Messages are numbers that rise; `report(m, outcome)` hears what became of one, None if a
    final STATE gave it back; `bound(m, s)` hears that it may be out under the number s."""

    def __init__(self, clock, queue, node):
        self.clock, self.node, self.queue = clock, node, queue      # the queue is sorted
        self.sck = self.hi = self.e = self.asked = clock.ck         # asked: the `hi` of the last ASK that left
        self.r, self.dead, self.tokens = None, 0, {}                # tokens: s -> (r, m)

    def bind(self, m):
        """Binds a message; the caller has seen that there is an envelope."""
        self.queue.remove(m)
        self.tokens[self.e] = (self.r, m)
        self.node.bound(m, self.e)
        self.e += 1

    def ask(self, standby):
        """With n = 0 it wants nothing, and says `l`."""
        self.clock.reserve()
        self.hi = max(self.hi, min(self.e + len(self.queue) + standby, self.clock.D))
        return Ask(self.sck, self.hi - self.sck, min([self.e, self.sck, *self.tokens]))

    def token(self, r, s):
        """The message that is bound to this slot under this incarnation, or None."""
        return self.tokens[s][1] if s in self.tokens and self.tokens[s][0] == r else None

    def close(self):
        """The farewell. The record is to be forgotten."""
        self.clock.ck = max(self.clock.ck, self.hi)
        self.clock.reserve()
        return Ask(self.clock.ck, 0, self.clock.ck)

    def settle(self, s, outcome):
        self.node.report(self.tokens.pop(s)[1], s, outcome)

    def give_back(self, s):
        _, m = self.tokens.pop(s)
        insort(self.queue, m)
        self.node.report(m, s, None)

    def on_state(self, st):
        claim = range(st.lo, min(st.hi, st.up)) if st.live else ()
        # 1. Tokens
        for s, (r1, _) in sorted(self.tokens.items()):
            same = st.live and r1 == st.r
            free = any(first <= s < end for first, end in st.free)
            if (s in claim and not free) if same else st.b <= r1 < st.r:
                self.settle(s, DELIVERED)
            elif (s < st.lo and not st.part) if same else r1 < st.b:
                self.settle(s, UNKNOWN)
            elif same and s in claim and st.final:
                self.give_back(s)
        # 3. Incarnations that are gone
        h = min(st.hi, self.hi)
        self.dead = max(self.dead, min(st.b, st.r) if st.live else st.b)
        fits = self.r is None or st.r >= self.r
        if st.final:
            self.dead = max(self.dead, st.r + 1)
            if fits:
                self.sck = max(self.sck, h)
                self.e = max(self.e, self.sck)
        if self.r is not None and self.r < self.dead:
            self.renounce()
        # 4. Grants
        if st.live and st.r >= self.dead and fits and h > self.sck:
            if self.r != st.r:
                self.renounce()
            self.r, self.sck = st.r, h
            self.e = max(self.e, 0 if st.part else min(st.lo, h))

    def renounce(self):
        self.e = max(self.e, self.sck)


class Receiver:
    """What a receiver keeps of one sender. `record` says whether R exists; `free` and the others are its fields."""

    def __init__(self, clock):
        self.clock, self.T = clock, clock.upper     # `T` is `none` only where a bound was forgotten
        self.upto = clock.upper                 # what is forgotten: every slot under the stamps up to this, the hull
        self.clear()

    def clear(self):
        self.record = self.closed = False
        self.r, self.hi, self.l, self.ets = -1, 0, 0, 0         # of no incarnation
        self.free = {}                          # slot -> None, or the VERDICT that marks it

    def on_ask(self, ask, grant, may_accept):
        """A frame ASK; grants up to `grant` slots. Says what kind of frame is owed, if any."""
        s, n, l, ts = ask
        if self.record:
            self.free = {x: mark for x, mark in self.free.items() if x >= l}
            self.l = max(self.l, l)
            if self.l >= self.hi:
                self.clear()                    # `drop`, as soon as it should
        if n == 0 or self.closed:
            return State if n else None
        new = ts > self.T
        if new and ts > self.clock.latest:
            if not may_accept:
                return StampRejected
            self.clock.accept(ts)
        if not self.record and grant > 0 and self.clock.ck < self.clock.D:
            self.record, self.r, self.hi, self.l = True, self.clock.ck, s, l
            self.clock.ck += 1
            self.clock.reserve()
        if self.record:
            if grant > 0:
                first = max(self.hi, s)
                self.hi = max(first, min(s + n, first + grant))
                self.free.update(dict.fromkeys(range(first, self.hi)))
            self.T = max(self.T, ts)
            self.ets = ts if new else self.ets
        return State

    def takes(self, s):
        """Whether a message with this number may be delivered still."""
        return not self.closed and s in self.free and self.free[s] is None

    def state(self, ts, most=32):
        """STATE that says `ts`; a claim of at most `most` ranges, which in the end stops before what was rejected."""
        said, end = None, 0
        if ts and (self.ets == ts or ts <= self.T):
            said, end = ts, LAST if ts <= self.upto and self.ets != ts else 0
        if not self.record:
            return State(self.clock.b, self.clock.ck, ts=said, end=end)
        up = min([self.hi, *(s for s, mark in self.free.items() if mark and self.closed)])
        ranges = merged((s, s + 1) for s in self.free if s < up)
        up = ranges[most][0] if len(ranges) > most else up
        claim = self.hi, min(self.l, up), up, tuple(ranges[:most])
        return State(self.clock.b, self.r, True, self.closed, *claim, said, end)

    def end(self):
        """The node ends: what is marked *done* is not free."""
        self.free = {s: mark for s, mark in self.free.items() if mark is None or mark.word == 2}
        self.closed = self.record

    def evict(self):
        if self.record:
            self.clock.b, self.upto = max(self.clock.b, self.r + 1), max(self.upto, self.T)
            self.clear()
