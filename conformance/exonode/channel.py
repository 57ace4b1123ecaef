"""How bytes get there: epochs, acknowledgements, loss, paths. PROTOCOL.md: "Channels". It may go at any instant."""

import os
from collections import namedtuple

from .crypto import Sealer
from .wire import Ack, demand, merged

LIMIT = {1: (1 << 23, 1 << 52), 2: ((1 << 62) - 1, 1 << 36)}    # packets sealed, packets that failed to open
RANGES = 64                                                     # of packet numbers that an epoch remembers


class Epoch:
    """One set of keys, with its indices, packet numbers and bases."""

    def __init__(self, suite, keys, initiator, index, to, base, params, now):
        self.suite, self.initiator, self.index, self.to = suite, initiator, index, to
        self.seals, self.opens = (Sealer(suite, key) for key in (keys if initiator else keys[::-1]))
        self.tx, self.rx, self.params = base, params["base"], params
        self.begun, self.ends = now, now + 10               # a pending epoch that no packet confirms
        self.mac1, self.answer, self.answered = None, None, set()   # of a pending one, and where its ANSWER went
        self.next, self.sent, self.failed = 0, {}, 0
        self.seen, self.largest, self.came, self.owes_ack = [], -1, 0.0, False

    def accept(self, number, now):
        """Takes the number of a packet that was authentic: False if it came before, or is too old."""
        old = len(self.seen) == RANGES and number < self.seen[0][0]
        if old or any(first <= number < end for first, end in self.seen):
            return False
        self.seen = merged([*self.seen, (number, number + 1)])[-RANGES:]
        if number > self.largest:
            self.largest, self.came = number, now
        return True

    def ack(self, now):
        micros = lambda seconds: int(seconds * 1e6)
        ranges = [(first, end - 1) for first, end in reversed(self.seen)]
        return Ack(micros(now - self.came), micros(self.came) % (1 << 30), ranges)


class Wait:
    """When something is said again: after `first`, then after `second`, then with waits that grow up to `most`."""

    def __init__(self, now, first, second, most=5.0):
        self.at, self.wait, self.most = now + first, second, most

    def over(self, now):
        if now < self.at:
            return False
        self.at, self.wait = now + self.wait, min(2 * self.wait, self.most)
        return True


# A packet under way: `items` are callables that hear True (it arrived) or False (it was lost).
Sent = namedtuple("Sent", "time size items")


class Recovery:
    """Loss detection and congestion control of a path: RFC 9002 with NewReno, in its smallest form."""

    def __init__(self):
        self.srtt, self.var, self.sampled = 0.333, 0.166, False
        self.window, self.threshold, self.since = 12000, 1 << 30, 0.0
        self.probes, self.last = 0, 0.0

    def pto(self):
        return max(self.srtt + 4 * self.var, 0.01) + 0.025

    def on_ack(self, epoch, ack, now):
        """An ACK: raises Malformed if it names what was never sent."""
        largest = ack.ranges[0][1]
        demand(largest < epoch.next)
        if largest in epoch.sent:
            sample = max(now - epoch.sent[largest].time, 0.0001)
            if not self.sampled:
                self.sampled, self.srtt, self.var = True, sample, sample / 2
            self.var += (abs(self.srtt - sample) - self.var) / 4
            self.srtt += (sample - self.srtt) / 8
        for number in [n for n in epoch.sent if any(low <= n <= high for low, high in ack.ranges)]:
            sent, self.probes = epoch.sent.pop(number), 0
            self.window += sent.size if self.window < self.threshold else 1200 * sent.size // self.window
            for item in sent.items:
                item(True)
        self.lose(epoch, [n for n, sent in epoch.sent.items()
                          if n < largest and (n <= largest - 3 or now - sent.time > 1.125 * self.srtt)], now)

    def lose(self, epoch, numbers, now):
        for number in numbers:
            sent = epoch.sent.pop(number)
            if sent.time > self.since:                      # once for all that was under way
                self.since, self.window = now, max(self.window // 2, 2400)
                self.threshold = self.window
            for item in sent.items:
                item(False)

    def timeout(self, epoch, now):
        """True if a probe is due. What is under way counts as lost, so that the probe carries it."""
        if not epoch.sent or now - self.last < min(self.pto() * (1 << min(self.probes, 6)), 2.0):
            return False
        self.probes += 1
        self.lose(epoch, list(epoch.sent), now)
        return True


class Path:
    """An address of the peer, and what is known of it."""

    def __init__(self, address, proven, now):
        self.address, self.proven, self.received, self.sent, self.began = address, proven, 0, 0, now
        self.challenge, self.asked = os.urandom(8), -1e9

    def allows(self, size):
        return self.proven or self.sent + size <= 3 * self.received
