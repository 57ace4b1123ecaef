"""This node and `exon`, both ways, with a relay between them that loses, doubles and delays by a seed."""

import json
import os
import random
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from exonode.__main__ import run
from exonode.crypto import id_from_text, id_text
from exonode.message import Place
from tests.world import Box

EXON = os.environ.get("EXON", "")


class Relay(threading.Thread):
    """Forwards datagrams between whoever speaks to it and `target`."""

    def __init__(self, target, seed, loss=0.1, double=0.1):
        super().__init__(daemon=True)
        self.target, self.loss, self.double, self.dice = target, loss, double, random.Random(seed)
        self.front, self.back = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        self.front.bind(("127.0.0.1", 0))
        self.back.bind(("127.0.0.1", 0))
        self.address, self.client, self.stopped = self.front.getsockname(), None, False
        self.start()

    def run(self):
        late = []
        while not self.stopped:
            ready, _, _ = select.select([self.front, self.back], [], [], 0.002)
            for sock in ready:
                data, source = sock.recvfrom(65536)
                if sock is self.front:
                    self.client = source
                way = (self.back, self.target) if sock is self.front else (self.front, self.client)
                for _ in range(2 if self.dice.random() < self.double else 1):
                    if self.dice.random() >= self.loss:
                        late.append((time.monotonic() + 0.02 * self.dice.random(), data, way))
            for entry in [x for x in late if x[0] <= time.monotonic()]:
                late.remove(entry)
                entry[2][0].sendto(entry[1], entry[2][1])
        self.front.close()
        self.back.close()


class Exon(unittest.TestCase):
    def setUp(self):
        if not os.path.exists(EXON):
            if os.environ.get("EXONET_NO_SKIPS"):
                self.fail(f"there is no {EXON}: cargo build -p exonet-cli")
            print(f"SKIPPED {self.id()}: there is no {EXON}", file=sys.stderr)
            self.skipTest("no exon")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.env = {**os.environ, "EXONET_STATE": folder.name}

    def start(self, *args, first=None):
        """A process, and where it is reached; `first` reads that from its first line."""
        process = subprocess.Popen(args, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(lambda: (process.kill(), process.wait(), process.stdout.close()))
        peer = first(process.stdout.readline().strip())
        key, at = peer.split("@")
        host, port = at.rsplit(":", 1)
        return process, key, (host, int(port))

    def relay(self, target, seed):
        relay = Relay(target, seed)
        self.addCleanup(lambda: (setattr(relay, "stopped", True), relay.join()))
        return relay

    def exon(self, *args):
        return self.start(EXON, *args, "--json", "--bind", "127.0.0.1:0", first=lambda line: json.loads(line)["peer"])

    def node(self, until):
        """Runs a node of this implementation until `until(node)`."""
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        self.addCleanup(udp.close)
        node, ends = Box(), time.monotonic() + 40
        return node, lambda: run(node, udp, lambda: until(node) or time.monotonic() > ends)

    def test_this_node_sends_to_a_subject(self):
        _, key, at = self.exon("conformance", "--subject")
        relay, key = self.relay(at, 3), id_from_text(key)
        letters, bodies = [], [b"%d" % i for i in range(200)] + [os.urandom(150_000)]
        node, go = self.node(lambda node: all(x.outcome for x in letters) and len(node.got) >= 251)
        letters += [node.send(key, relay.address, body, b"echo") for body in bodies]
        letters += [node.send(key, relay.address, b"%d" % i, b"echo", Place(0, 0, 0, i == 49)) for i in range(50)]
        calls = [node.send(key, relay.address, b"x" * size, method, call=True)
                 for size, method in ((9, b"echo"), (5000, b"echo"), (9, b"slow"), (9, b"back"), (9, b"fail"), (9, b"no"))]
        said = [node.send(key, relay.address, b"no", b"reject"), node.send(key, relay.address, b"yes", b"process")]
        letters += calls + said
        go()
        self.assertEqual([x.outcome for x in letters[:251]], ["delivered"] * 251)
        self.assertEqual([x.reply for x in calls], [(0, b"x" * 9), (0, b"x" * 5000), (0, b"x" * 9), (0, b"x" * 9),
                                                    (42, b"x" * 9), ((1 << 32) - 3, b"")])
        self.assertEqual([x.outcome for x in said], [("rejected", 7, "as asked"), ("processed", 5)])
        echoed = [body for body, tag in zip(node.got, node.tags) if tag == b"echoed"]
        self.assertEqual(sorted(echoed), sorted(bodies))
        stream = [body for body, tag in zip(node.got, node.tags) if tag == b"echo"]
        self.assertEqual(stream[:50], [b"%d" % i for i in range(50)])

    def test_exon_sends_to_this_node(self):
        _, key, at = self.start(sys.executable, "-m", "exonode", "subject", first=str)
        peer = "{}@{}:{}".format(key, *self.relay(at, 4).address)
        lines = "".join(f"line {i}\n" for i in range(300))
        done = subprocess.run([EXON, "send", peer, "--json"], input=lines, env=self.env, capture_output=True, text=True,
                              timeout=40, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout.splitlines()[-1])["delivered"], 300)
        done = subprocess.run([EXON, "call", peer, "echo", "pong"], env=self.env, capture_output=True, text=True, timeout=40,
                              check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "pong"))

    def conformance(self, *args):
        """As a subject."""
        _, key, at = self.start(sys.executable, "-m", "exonode", "subject", *args, first=str)
        done = subprocess.run([EXON, "conformance", "{}@{}:{}".format(key, *at), "--jobs", "4", "--json"], env=self.env,
                              capture_output=True, text=True, timeout=300, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        failed = [f"{x['check']}: {x['seen']}" for x in lines if x["type"] == "check" and not x["passed"]]
        self.assertEqual((done.returncode, failed), (0, []), done.stderr)
        self.assertGreaterEqual(lines[-1]["passed"], 20)

    def test_this_node_conforms(self):
        self.conformance()

    def test_this_node_conforms_with_an_identity_on_disk_and_cookies(self):
        self.conformance("--cookies", "--suite", "2", "--state", os.path.join(self.env["EXONET_STATE"], "subject.json"))


if __name__ == "__main__":
    unittest.main()
