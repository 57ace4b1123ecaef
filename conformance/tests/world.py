"""Nodes on a virtual clock, with a network between them that loses, doubles, delays and garbles by a seed."""

import random

from exonode.__main__ import stored
from exonode.subject import Subject


class Box(Subject):
    """A subject that notes what it got."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.got, self.tags, self.between, self.called = [], [], [], []

    def on_message(self, peer, head, body, between):
        self.got.append(body)
        self.tags.append(head.tag)
        self.between.append(between)
        return super().on_message(peer, head, body, between)

    def on_call(self, peer, method, body, s):
        self.called.append(body)
        super().on_call(peer, method, body, s)


class World:
    STEP = 0.005

    def __init__(self, seed, loss=0.0, double=0.0, garble=0.0, delay=0.01, jitter=0.0):
        self.random, self.now, self.nodes, self.air, self.count = random.Random(seed), 0.0, {}, [], 0
        self.loss, self.double, self.garble, self.delay, self.jitter = loss, double, garble, delay, jitter
        self.sent, self.dead, self.wall = [], False, 1_700_000_000.0

    def node(self, host, store=None, **kwargs):
        kwargs.update(stored(store) if store else {})
        kwargs.setdefault("wall", lambda: int((self.wall + self.now) * 1e9))
        node = Box(**kwargs)
        self.nodes[host, 1] = node
        return node, (host, 1)

    def move(self, address, to):
        self.nodes[to] = self.nodes.pop(address)

    def throw(self, data, source, to):
        self.sent.append((data, source, to))
        copies = 2 if self.random.random() < self.double else 1
        for _ in range(copies):
            if self.dead or self.random.random() < self.loss:
                continue
            if self.random.random() < self.garble:
                at = self.random.randrange(len(data))
                data = data[:at] + bytes([data[at] ^ 1 << self.random.randrange(8)]) + data[at + 1:]
            self.count += 1
            due = self.now + self.delay + self.jitter * self.random.random()
            self.air.append((due, self.count, data, source, to))

    def run(self, until=lambda: False, most=60.0):
        ends = self.now + most
        while self.now < ends and not until():
            for address, node in list(self.nodes.items()):
                for data, to in node.poll(self.now):
                    self.throw(data, address, to)
            self.now += self.STEP
            self.air.sort(key=lambda x: x[:2])
            while self.air and self.air[0][0] <= self.now:
                _, _, data, source, to = self.air.pop(0)
                if to in self.nodes:
                    self.nodes[to].receive(data, source, self.now)
        return until()
