"""Whole nodes, over a network that loses, doubles, delays and garbles: each message once, each outcome true."""

import os
import tempfile
import unittest

from exonode import wire
from exonode.message import Head, Place
from tests.world import World

STORM = {"loss": 0.2, "double": 0.1, "garble": 0.05, "jitter": 0.05}


def done(letters):
    return lambda: all(letter.outcome for letter in letters)


class Nodes(unittest.TestCase):
    def pair(self, seed, **net):
        world = World(seed, **net)
        (self.a, self.at_a), (self.b, self.at_b) = world.node("a"), world.node("b")
        return world

    def send(self, *bodies, **kwargs):
        return [self.a.send(self.b.id, self.at_b, body, **kwargs) for body in bodies]

    def once(self, letters, got, bodies):
        self.assertEqual([x.outcome for x in letters], ["delivered"] * len(letters))
        self.assertEqual(sorted(got), sorted(bodies))

    def test_each_message_once(self):
        for seed in range(5):
            world = self.pair(seed, **STORM)
            bodies = [b"%d" % i for i in range(300)]
            letters = self.send(*bodies)
            self.assertTrue(world.run(done(letters)))
            self.once(letters, self.b.got, bodies)
            world.run(lambda: not (self.a.peers[self.b.id].S or self.b.peers[self.a.id].R.record), 20)
            self.assertFalse(self.b.peers[self.a.id].R.record, "the farewell ends the record")

    def test_both_ways_and_crossing_openings(self):
        for seed in range(5):
            world = self.pair(seed, **STORM)
            ours, theirs = [b"a%d" % i for i in range(50)], [b"b%d" % i for i in range(50)]
            letters = self.send(*ours) + [self.b.send(self.a.id, self.at_a, x) for x in theirs]
            self.assertTrue(world.run(done(letters)))
            self.once(letters, self.a.got + self.b.got, ours + theirs)

    def test_a_large_message_in_pieces(self):
        for net in ({}, STORM):
            world = self.pair(2, **net)
            bodies = [os.urandom(700_000), os.urandom(70_000), b"small"]
            letters = self.send(*bodies)
            self.assertTrue(world.run(done(letters), 120))
            self.once(letters, self.b.got, bodies)

    def test_replayed_datagrams_deliver_nothing(self):
        world = self.pair(3)
        self.send(*(b"%d" % i for i in range(20)), tag=b"echo")
        self.assertTrue(world.run(lambda: len(self.a.got) == 20))
        world.run(most=5)                                   # until the records are gone
        for data, source, to in list(world.sent) * 2:
            world.nodes[to].receive(data, source, world.now)
        world.run(most=2)
        self.assertEqual((len(self.a.got), len(self.b.got)), (20, 20))

    def test_calls(self):
        for net in ({}, STORM):
            world = self.pair(4, **net)
            calls = [self.a.send(self.b.id, self.at_b, b"x" * size, b"echo", call=True) for size in (0, 5, 5000, 90_000)]
            calls += [self.a.send(self.b.id, self.at_b, b"x", method, call=True)
                      for method in (b"slow", b"back", b"fail", b"none")]
            self.assertTrue(world.run(done(calls)))
            replies = [(0, b""), (0, b"x" * 5), (0, b"x" * 5000), (0, b"x" * 90_000), (0, b"x"), (0, b"x"), (42, b"x"),
                       ((1 << 32) - 3, b"")]
            self.assertEqual([call.reply for call in calls], replies)
            self.assertEqual(len(self.b.called), 8, "each ran once")
            self.assertTrue(world.run(lambda: not self.b.peers[self.a.id].entries, 10), "REPLY_ACK ends the entries")

    def test_streams_keep_their_order(self):
        for seed in range(3):
            world = self.pair(seed, **STORM)
            names = (b"one", b"two")
            letters = [self.a.send(self.b.id, self.at_b, b"%d" % i, name, Place(0, 0, 0, i == 49))
                       for i in range(50) for name in names]
            self.assertTrue(world.run(done(letters)))
            for name in names:
                got = [body for body, tag in zip(self.b.got, self.b.tags) if tag == name]
                self.assertEqual(got, [b"%d" % i for i in range(50)])
            said = [x for x in self.b.between if x]
            self.assertEqual(said, ["opens", "opens"])

    def test_what_the_application_says(self):
        world = self.pair(6, **STORM)
        letters = self.send(b"no", tag=b"reject") + self.send(b"yes", tag=b"process", confirm=True) + self.send(b"plain")
        self.assertTrue(world.run(done(letters)))
        self.assertEqual([x.outcome for x in letters], [("rejected", 7, "as asked"), ("processed", 5), "delivered"])
        world.run(lambda: not self.b.peers[self.a.id].R.free, 20)
        self.assertEqual(self.b.peers[self.a.id].R.free, {}, "a mark goes when l has passed it")

    def test_a_message_that_was_judged_is_not_handed_out_again(self):
        self.pair(6)
        theirs, ts = self.b.peer(self.a.id), 1_600_000_000 * 10**9
        message = Head(1, b"reject").write(b"no")
        theirs.on_frame(wire.Ask(0, 4, 0, ts), None)
        for frame in 3 * [wire.Early(ts, 0, (message,)), wire.Piece(0, 0, 0, len(message), message)]:
            theirs.on_frame(frame, None)
        self.assertEqual(self.b.got, [b"no"])
        self.assertEqual((theirs.R.free[0].word, theirs.parts), (2, {}))

    def test_retry(self):
        world = self.pair(7, **STORM)
        self.b.cookies = True
        letters = self.send(*(b"%d" % i for i in range(20)))
        self.assertTrue(world.run(done(letters)))
        self.assertTrue(any(data[0] == wire.RETRY for data, _, _ in world.sent))
        self.once(letters, self.b.got, [b"%d" % i for i in range(20)])

    def test_an_opening_beside_a_pending_one_takes_a_cookie(self):
        world = self.pair(16)
        self.send(b"first")
        (opening, _), = self.a.poll(0.0)
        self.b.receive(opening, self.at_a, 0.0)
        self.b.poll(0.0)                                    # the ANSWER is lost, and the process dies
        self.a, _ = world.node("a", secret=self.a.secret)
        letters = self.send(b"second")
        self.assertTrue(world.run(done(letters), 5))
        self.assertEqual([data[0] for data, _, _ in world.sent[:4]], [wire.OPENING, wire.RETRY, wire.OPENING, wire.ANSWER])

    def test_what_no_node_of_version_1_sends_has_no_answer(self):
        world = self.pair(8)
        for strange in (b"", b"\x14", b"\x21" + bytes(1199), b"\x1f" + bytes(11), b"\xff" * 1200, b"\x16" + bytes(1200)):
            self.b.receive(strange, ("x", 1), 0.0)
        self.assertEqual(self.b.poll(0.0), [])
        letters = self.send(b"still here")
        self.assertTrue(world.run(done(letters)))

    def test_silence_and_coming_back(self):
        world = self.pair(9)
        letters = self.send(b"before")
        world.run(done(letters))
        world.dead = True
        letters += self.send(*(b"%d" % i for i in range(30)))
        world.run(most=20)
        world.dead = False
        self.assertTrue(world.run(done(letters)))
        self.once(letters, self.b.got, [b"before"] + [b"%d" % i for i in range(30)])

    def test_a_peer_that_moves_is_followed(self):
        world = self.pair(10, loss=0.1)
        letters = self.send(*(b"%d" % i for i in range(400)))
        world.run(lambda: len(self.b.got) > 100)
        world.move(self.at_a, ("elsewhere", 7))
        self.assertTrue(world.run(done(letters)))
        self.once(letters, self.b.got, [b"%d" % i for i in range(400)])
        self.assertEqual(self.b.peers[self.a.id].path.address, ("elsewhere", 7))

    def test_a_copy_from_elsewhere_does_not_move_the_path(self):
        world = self.pair(11)
        letters = self.send(*(b"%d" % i for i in range(200)))
        world.run(lambda: len(self.b.got) > 50)
        data = [x for x in self.a.poll(world.now)]
        for datagram, _ in data:
            self.b.receive(datagram, ("thief", 9), world.now)   # overtakes the original
            self.b.receive(datagram, self.at_a, world.now)
        self.assertTrue(world.run(done(letters)))
        self.assertEqual(self.b.peers[self.a.id].path.address, self.at_a)
        self.assertEqual(len(self.b.got), 200)

    def test_crossing_openings_meet_in_the_epoch_of_the_smaller_id(self):
        for seed in range(4):
            world = self.pair(seed)
            letters = self.send(b"x") + [self.b.send(self.a.id, self.at_a, b"y")]
            self.assertTrue(world.run(done(letters)))
            world.run(most=0.5)
            ours, theirs = self.a.peers[self.b.id].current, self.b.peers[self.a.id].current
            self.assertEqual((ours.index, ours.to), (theirs.to, theirs.index))
            self.assertEqual(ours.initiator, self.a.id < self.b.id)

    def test_what_a_receiver_has_lost_of_a_message_comes_again(self):
        world = self.pair(13)
        letters = self.send(os.urandom(300_000)) + self.send(b"x" * 5000)
        theirs = self.b.peer(self.a.id)
        self.assertTrue(world.run(lambda: any(part.came_so_far()[0] > 100_000 for part in theirs.parts.values())))
        theirs.parts.clear()                                # acknowledged, and gone
        self.assertTrue(world.run(done(letters)))
        self.assertEqual([x.outcome for x in letters], ["delivered"] * 2)

    def test_nocall_proves_nothing_of_a_call_that_may_not_have_come(self):
        world = self.pair(14)
        call = self.a.send(self.b.id, self.at_b, b"ping", b"echo", call=True)
        mine = self.a.peers[self.b.id]
        self.assertTrue(world.run(lambda: mine.calls))
        mine.on_frame(wire.NoCall(next(iter(mine.calls))), None)
        self.assertTrue(mine.calls)
        self.assertTrue(world.run(done([call])))
        self.assertEqual(call.reply, (0, b"ping"))

    def test_an_address_is_proven_by_an_answer_that_went_nowhere_else(self):
        world = self.pair(15)
        self.send(b"first")
        (opening, _), = self.a.poll(0.0)
        self.b.receive(opening, ("thief", 9), 0.0)          # a copy overtakes it
        self.b.receive(opening, self.at_a, 0.0)
        (answer, _), _ = self.b.poll(0.0)
        self.a.receive(answer, self.at_b, 0.0)
        for data, _ in self.a.poll(0.0):
            self.b.receive(data, ("thief", 9), 0.0)
        path = self.b.peers[self.a.id].path
        self.assertFalse(path.proven)
        self.b.send(self.a.id, None, os.urandom(50_000))
        for _ in range(400):
            world.now += world.STEP
            self.b.poll(world.now)
        self.assertLessEqual(path.sent, 3 * path.received)

    def test_a_node_that_ends_gives_back(self):
        world = self.pair(12)
        self.b.clock.save = lambda D, latest: None          # only its end differs
        letters = self.send(b"first")
        world.run(done(letters))
        self.b.end()
        late = self.send(b"late")
        world.run(most=5)
        self.assertEqual(self.b.got, [b"first"])
        self.assertIsNone(late[0].outcome, "it waits for the next life")

    def test_an_ephemeral_node_that_ends_says_so(self):
        world = self.pair(12)
        letters = self.send(b"first")
        world.run(done(letters))
        self.b.end()
        late = self.send(b"late")
        self.assertTrue(world.run(done(late), 5))
        self.assertEqual(late[0].outcome, "not delivered")


class Errors(unittest.TestCase):
    """What an authenticated peer may say and may not: "Errors"."""

    def setUp(self):
        self.world = World(1)
        (self.a, self.at_a), (self.b, self.at_b) = self.world.node("a"), self.world.node("b")
        letter = self.a.send(self.b.id, self.at_b, b"first")
        self.world.run(lambda: letter.outcome and self.b.peers[self.a.id].current)
        self.world.run(most=0.1)
        self.mine, self.theirs = self.a.peers[self.b.id], self.b.peers[self.a.id]

    def say(self, payload):
        """A packet from `a` with these frames: what `b` answers, and whether its channel stands."""
        self.mine.seal(self.mine.current, payload, [], self.mine.path)
        for data, _ in self.a.out[-1:]:
            self.b.receive(data, self.at_a, self.world.now)
        self.a.out.clear()
        return self.b.poll(self.world.now), self.theirs.current is not None

    def test_malformed_frames_end_the_channel_without_a_word(self):
        for payload in (b"\x07", b"\x16\0\0", b"\x10\0", b"\x01\x12", b"\x02\0\x40\xff\0\0\0\0"):
            self.setUp()
            self.assertEqual(self.say(payload), ([], False), payload.hex())
            letter = self.a.send(self.b.id, self.at_b, b"goes on")
            self.assertTrue(self.world.run(lambda letter=letter: letter.outcome), "on another channel")
            self.assertEqual((letter.outcome, self.b.got), ("delivered", [b"first", b"goes on"]))

    def test_frames_of_later_versions_are_ignored_and_acknowledged(self):
        answers, stands = self.say(b"\x80\x02ab\xbf\0")
        self.assertEqual((len(answers), stands), (1, True))

    def test_state_and_padding_alone_are_not_acknowledged(self):
        gone = wire.write(wire.State(0, 0))
        self.assertEqual(self.say(gone + bytes(20)), ([], True))

    def test_frames_behind_close_are_not_read(self):
        self.assertEqual(self.say(b"\x03\0\x07"), ([], False))

    def test_a_malformed_head_concerns_its_message_alone(self):
        record = self.theirs.R
        s = min(record.free) if record.free else None
        if s is None:
            self.theirs.on_ask(wire.Ask(record.hi, 4, record.l))
            s = min(record.free)
        piece = wire.write(wire.Piece(record.r, s, 0, 2, b"\x40x"), self.mine.current.tx, self.mine.current.rx)
        answers, stands = self.say(piece)
        self.assertEqual((len(answers), stands, self.b.got), (1, True, [b"first"]))
        self.assertIn(s, record.free)

    def test_a_packet_number_counts_once(self):
        self.mine.seal(self.mine.current, b"\1", [], self.mine.path)
        data, _ = self.a.out.pop()
        for wanted in (1, 0, 0):
            self.b.receive(data, self.at_a, self.world.now)
            self.assertEqual(len(self.b.poll(self.world.now)), wanted)

    def test_a_challenge_is_answered_to_its_address(self):
        answers, _ = self.say(b"\4" + b"12345678" + b"\4" + b"abcdefgh")
        sizes = [(len(data), to) for data, to in answers if len(data) == 1200]
        self.assertEqual(sizes, [(1200, self.at_a)])


class Lives(unittest.TestCase):
    """Restarts, with the key and D on disk."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "state.json")

    def test_a_receiver_that_dies_delivers_nothing_twice(self):
        outcomes = set()
        for seed in range(12):
            world = World(seed, loss=0.1, jitter=0.02)
            a, _ = world.node("a")
            path = f"{self.path}.{seed}"
            b, at_b = world.node("b", store=path)
            got = []
            letters = []
            for life in range(4):
                for i in range(40 * life, 40 * life + 40):
                    letters.append(a.send(b.id, at_b, b"%d" % i))
                    world.run(most=0.01)
                if life == 3:
                    break
                got += b.got
                before = b.clock.D
                b, _ = world.node("b", store=path)          # the old one is forgotten, as by kill -9
                self.assertGreater(b.clock.ck, 0)
                self.assertGreaterEqual(b.clock.ck, before)
            self.assertTrue(world.run(done(letters), 120))
            got += b.got
            self.assertEqual(len(got), len(set(got)), "nothing twice")
            for i, letter in enumerate(letters):
                outcomes.add(letter.outcome)
                if letter.outcome == "delivered":
                    self.assertIn(b"%d" % i, got, f"seed {seed}")
        self.assertLessEqual(outcomes, {"delivered", "unknown"})
        self.assertIn("delivered", outcomes)

    def test_a_sender_that_dies_uses_no_number_twice(self):
        for seed in range(6):
            world = World(seed, loss=0.1)
            b, at_b = world.node("b")
            path = f"{self.path}.{seed}"
            for life in range(4):
                a, _ = world.node("a", store=path)
                letters = [a.send(b.id, at_b, b"%d %d" % (life, i)) for i in range(60)]
                world.run(lambda: sum(x.outcome == "delivered" for x in letters) > 20, 20)
            self.assertTrue(world.run(done(letters)))
            self.assertEqual(len(b.got), len(set(b.got)))
            for i, letter in enumerate(letters):
                self.assertIn(b"3 %d" % i, b.got)
                self.assertEqual(letter.outcome, "delivered")

    def early(self, node, ts):
        """An opening with an early message, at slot 0: the STATE that the ANSWER has."""
        peer, message = node.peer(bytes(32)), Head().write(b"early")
        peer.on_frame(wire.Ask(0, 1, 0, ts), None)
        peer.on_frame(wire.Early(ts, 0, (message,)), None)
        return peer.R.state(ts)

    def test_early_messages_of_a_life_before_are_not_taken_again(self):
        world, ts = World(1), 1_600_000_000 * 10**9
        for life, got in enumerate(([b"early"], [])):
            node, _ = world.node("b", store=self.path)
            state = self.early(node, ts)
            self.assertEqual((node.got, state.ts, state.end), (got, ts, wire.LAST * life), "it may have been taken before")

    def test_a_stamp_far_ahead_is_rejected(self):
        world, ts = World(1), 1_700_000_100 * 10**9
        node, _ = world.node("b")
        self.assertFalse(self.early(node, ts).live)
        self.assertEqual((node.got, (wire.StampRejected, ts) in node.peer(bytes(32)).owed), ([], True))


if __name__ == "__main__":
    unittest.main()
