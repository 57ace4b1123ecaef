"""How bytes get there: epochs, acknowledgements, loss, paths. PROTOCOL.md: "Channels". It may go at any instant."""

import os
from collections import namedtuple

from .crypto import Sealer
from .wire import Ack, demand, merged

LIMIT = {1: (1 << 23, 1 << 52), 2: ((1 << 62) - 1, 1 << 36)}    # packets sealed, packets that failed to open


class Epoch:
    """One set of keys, with its indices, packet numbers and bases."""

    def __init__(self, header, keys, initiator, index, to, base, params, now):
        self.suite, self.initiator, self.index, self.to = header.suite, initiator, index, to
        k1, k2 = (Sealer(self.suite, key) for key in keys)
        self.seals, self.opens = (k1, k2) if initiator else (k2, k1)
        self.tx, self.rx = base, params["base"]
        self.params, self.begun = params, now
        self.next, self.sent, self.failed = 0, {}, 0
        self.largest, self.seen, self.floor, self.came = -1, set(), 0, 0.0
        self.owes_ack, self.ends, self.answer, self.answered = False, None, None, set()

    def accept(self, number, now):
        """Takes the number of a packet that was authentic: False if it came before, or is too old."""
        if number < self.floor or number in self.seen:
            return False
        self.seen.add(number)
        if number > self.largest:
            self.largest, self.came = number, now
        if len(self.seen) > 4096:
            self.floor = self.largest - 2048
            self.seen = {x for x in self.seen if x >= self.floor}
        return True

    def ack(self, now, most=64):
        ranges = [(first, end - 1) for first, end in merged((x, x + 1) for x in self.seen)[:-most - 1:-1]]
        micros = lambda seconds: int(seconds * 1e6)
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
        self.srtt, self.var, self.window, self.flying = 0.333, 0.166, 12000, 0
        self.threshold, self.sampled, self.since, self.probes, self.last = 1 << 30, False, 0.0, 0, 0.0

    def pto(self):
        return max(self.srtt + 4 * self.var, 0.01) + 0.025

    def renew(self):
        """Another host: round-trip time and congestion state begin anew."""
        flying = self.flying
        self.__init__()
        self.flying = flying

    def sent(self, size, items, now):
        self.flying, self.last = self.flying + size, now
        return Sent(now, size, items)

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
        came = [n for n in epoch.sent if any(low <= n <= high for low, high in ack.ranges)]
        for number in came:
            sent = epoch.sent.pop(number)
            self.flying -= sent.size
            if self.window < self.threshold:
                self.window += sent.size
            else:
                self.window += 1200 * sent.size // self.window
            for item in sent.items:
                item(True)
        if came:
            self.probes = 0
        self.lose(epoch, [n for n, sent in epoch.sent.items()
                           if n < largest and (n <= largest - 3 or now - sent.time > 1.125 * self.srtt)], now, True)

    def lose(self, epoch, numbers, now=0.0, congested=False):
        for number in numbers:
            sent = epoch.sent.pop(number)
            self.flying -= sent.size
            if congested and sent.time > self.since:
                self.since, self.window = now, max(self.window // 2, 2400)
                self.threshold = self.window
            for item in sent.items:
                item(False)

    def timeout(self, epoch, now):
        """True if a probe is due. What is under way counts as lost, so that the probe carries it."""
        if not epoch.sent or now - self.last < min(self.pto() * (1 << min(self.probes, 6)), 2.0):
            return False
        self.probes += 1
        if self.probes > 2:
            self.window = 2400
        self.lose(epoch, list(epoch.sent))
        return True


class Path:
    """An address of the peer, and what is known of it."""

    def __init__(self, address, proven, now):
        self.address, self.proven, self.received, self.sent, self.began = address, proven, 0, 0, now
        self.challenge, self.asked = os.urandom(8), -1e9

    def allows(self, size):
        return self.proven or self.sent + size <= 3 * self.received
