"""What is delivered: the rules of PROTOCOL.md, "Node clock" and "Half-connection", in its words. No bytes, no time.

This node never uses the rules `abandon`, `forget`, `caught_up` and `restart`, nor `way == 2`. What it forgets it forgets as by `full`:
it keeps no `ats` and `aend`, and no `R.kts` and `R.keep` that they would be made of.
"""

from bisect import insort

from .wire import LAST, Ask, State, merged

DELIVERED, UNKNOWN, NOT_DELIVERED, CANCELLED = "delivered", "unknown", "not delivered", "cancelled"


class Clock:
    """The numbers that all records of a node share. `save(D, latest)` is durable when it returns; None: ephemeral."""

    def __init__(self, D=None, latest=0, save=None, block=1 << 20):
        self.ck = self.b = D or 0
        self.latest, self.upper, self.save, self.block = latest, latest, save, block
        self.stamped = 0
        self.D = D or 0 if save else LAST
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
    """A sender record. Messages are numbers that rise; `report(m, outcome)` hears what became of one, `bound(m, s)`
    that it may be out under the number s, and `back(m)` that a final STATE gave it back."""

    def __init__(self, clock, queue, early, stamp, node):
        self.clock, self.node = clock, node
        self.sck, self.hi = clock.ck, clock.ck + len(early)
        self.e, self.r, self.dead = self.hi, None, 0
        self.queue = queue                      # sorted
        self.tokens, self.early, self.ts = {}, {}, stamp    # s -> (r, m); s -> m
        if early:
            clock.stamped = stamp
        for s, m in enumerate(early, clock.ck):
            queue.remove(m)
            self.early[s] = m
            node.bound(m, s)

    def bind(self, m):
        """Binds a message; the caller has seen that there is an envelope."""
        self.queue.remove(m)
        self.tokens[self.e] = (self.r, m)
        self.node.bound(m, self.e)
        self.e += 1

    def lowest(self):
        return min([self.e, self.sck, *self.tokens])

    def ask(self, standby):
        self.clock.reserve()
        self.hi = max(self.hi, min(self.e + len(self.queue) + standby, self.clock.D))
        if self.sck < self.hi:
            return Ask(self.sck, self.hi - self.sck, self.lowest(), self.ts if self.early else 0)
        return None

    def ask_nothing(self):
        """The peer is to hear `l`."""
        return Ask(self.sck, 0, self.lowest())

    def token(self, r, s):
        """The message that is bound to this slot under this incarnation, or None."""
        return self.tokens[s][1] if s in self.tokens and self.tokens[s][0] == r else None

    def close(self):
        """The farewell. The record is to be forgotten."""
        self.clock.ck = max(self.clock.ck, self.hi)
        self.clock.reserve()
        return farewell(self.clock)

    def in_doubt(self):
        return {**self.early, **{s: m for s, (_, m) in self.tokens.items()}}

    def remove(self, s):
        return self.tokens.pop(s)[1] if s in self.tokens else self.early.pop(s)

    def settle(self, s, outcome):
        self.node.report(self.remove(s), s, outcome)

    def give_back(self, s):
        m = self.remove(s)
        insort(self.queue, m)
        self.node.back(m, s)

    def on_state(self, st):
        top = min(st.hi, st.up)
        claim = range(st.lo, max(st.lo, top)) if st.live else range(0)
        # 1. Tokens
        for s, (r1, _) in sorted(self.tokens.items()):
            if st.live and r1 == st.r:
                if s in claim and not is_free(st, s):
                    self.settle(s, DELIVERED)
                elif s in claim and st.final:
                    self.give_back(s)
            elif r1 < st.b:
                self.settle(s, UNKNOWN)
            elif r1 < st.r:
                self.settle(s, DELIVERED)
        # 2. Early messages
        for s, m in sorted(self.early.items()):
            if s in claim and not is_free(st, s):
                self.settle(s, DELIVERED)
            elif st.ts == self.ts:
                if s < st.end:
                    self.settle(s, UNKNOWN)
                elif s in claim and st.final:
                    self.give_back(s)
                elif s in claim and st.r >= self.dead:
                    self.tokens[s] = (st.r, self.early.pop(s))
                    self.node.bound(m, s)
        # 3. Incarnations that are gone
        h = min([st.hi, self.hi, *self.early])
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

    def renounce(self):
        self.e = max(self.e, self.sck)

    def end_early(self, outcome):
        """STAMP_REJECTED and REFUSED."""
        for s in sorted(self.early):
            self.settle(s, outcome)


def is_free(state, s):
    return any(first <= s < end for first, end in state.free)


def farewell(clock):
    return Ask(clock.ck, 0, clock.ck)


class Receiver:
    """What a receiver keeps of one sender. `record` says whether R exists; `free` and the others are its fields."""

    def __init__(self, clock):
        self.clock, self.T, self.record = clock, None, False
        self.upto = clock.upper                 # what is forgotten: every slot under the stamps up to this, the hull
        self.marks = {}                         # s -> VERDICT, of slots that are free and were judged
        self._clear()

    def _clear(self):
        self.record, self.closed, self.free = False, False, set()
        self.r = self.hi = self.l = self.ets = 0
        self.marks.clear()

    def bound(self):
        return self.clock.upper if self.T is None else self.T

    def on_ask(self, ask, grant, may_accept):
        """A frame ASK; grants up to `grant` slots. True if a STATE is owed, None if the stamp is to be rejected."""
        s, n, l, ts = ask
        if self.record:
            self.free = {x for x in self.free if x >= l}
            self.marks = {x: v for x, v in self.marks.items() if x >= l}
            self.l = max(self.l, l)
            if self.l >= self.hi:
                self.ets = 0
                if self.closed or not self.free:
                    self._clear()               # with `drop`, as soon as it should
        if n == 0:
            return False
        if self.closed:
            return True
        new = ts > self.bound()
        if new and ts > self.clock.latest:
            if not may_accept:
                return None
            self.clock.accept(ts)
        if not self.record and grant > 0 and self.clock.ck < self.clock.D:
            self.record, self.r, self.hi, self.l = True, self.clock.ck, s, l
            self.clock.ck += 1
            self.clock.reserve()
        if self.record:
            if grant > 0:
                self.hi = max(self.hi, s)
                h = min(s + n, self.hi + grant)
                self.free.update(range(self.hi, h))
                self.hi = max(self.hi, h)
            self.T = max(self.bound(), ts)
            if new:
                self.ets = ts
        return True

    def holds(self, s, r=None, ts=None):
        """Whether a message with this number, under this incarnation or this stamp, may be delivered still."""
        named = self.r == r if ts is None else self.ets == ts
        return self.record and named and not self.closed and s in self.free and s not in self.marks

    def state(self, ts, most=32):
        """STATE that says `ts`; a claim of at most `most` ranges."""
        b, said, end = self.clock.b, None, 0
        if ts and (self.ets == ts or ts <= self.bound()):
            said, end = ts, LAST if ts <= self.upto and self.ets != ts else 0
        if not self.record:
            return State(b, self.clock.ck, ts=said, end=end)
        lo, ranges = min(self.l, self.hi), merged((x, x + 1) for x in self.free if x >= self.l)
        up = ranges[most][0] if len(ranges) > most else self.hi
        return State(b, self.r, True, self.closed, self.hi, lo, up, tuple(ranges[:most]), said, end)

    def end(self):
        """The node ends: marks *done* are taken from `free` first."""
        self.free -= {s for s, verdict in self.marks.items() if verdict.word != 2}
        self.closed = self.record

    def evict(self):
        if self.record:
            self.clock.b, self.upto = max(self.clock.b, self.r + 1), max(self.upto, self.bound())
            self._clear()
