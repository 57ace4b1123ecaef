"""The traces of PROTOCOL.md, played by this node's records."""

import pathlib
import re
import unittest

from exonode.half import Clock, Receiver, Sender
from exonode.wire import Ask, State, Verdict

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "PROTOCOL.md").read_text()


class Play:
    """Both ends of one half-connection, whose application has sent the messages 0 and 1."""

    def __init__(self):
        self.clocks = Clock(block=10), Clock(0, 0, lambda D, latest: None, block=10)
        self.S, self.queue, self.said = None, [0, 1], []
        self.R = Receiver(self.clocks[1])

    def bound(self, m, s):
        pass

    def report(self, m, s, outcome):
        self.said.append(f"report {m} {outcome.capitalize()}")

    def state(self, text):
        free = {int(x) for x in re.search(r"\{(.*)\}", text)[1].split(",") if x.strip()}
        words = re.sub(r"\{.*?\},", "", text).replace(" ", "").split(",")
        b, r, live, final, hi, lo, up, ts, end, part = [None if x == "none" else int(x) for x in words]
        ranges = tuple((s, s + 1) for s in sorted(free))
        return State(b, r, bool(live), bool(final), hi, lo, up, ranges, ts, end, bool(part))

    def sender(self, rule, args):
        if rule == "open":
            self.S = Sender(self.clocks[0], self.queue, self)
        elif rule == "ask":
            ask = self.S.ask(0)
            self.said.append(f"ASK({ask.s}, {ask.n}, {ask.l}, {ask.ts})")
        elif rule == "bind":
            self.S.bind(self.queue[0])
        elif rule == "data":
            self.said += [f"TOKEN({s}, {r}, {m})" for s, (r, m) in self.S.tokens.items()]
        elif rule == "STATE":
            self.S.on_state(self.state(args))
        elif rule == "close":
            ask = self.S.close()
            self.said.append(f"ASK({ask.s}, {ask.n}, {ask.l}, {ask.ts})")
        else:
            raise AssertionError(rule)

    def receiver(self, rule, args, choices):
        R = self.R
        if rule == "ASK":
            grant, way = choices.get("g", 0), choices.get("way", 0)
            R.on_ask(Ask(*map(int, args.split(","))), grant, way == 1)
        elif rule in ("TOKEN", "EARLY"):
            first, second, m = map(int, args.split(","))
            s, named = (first, R.r == second) if rule == "TOKEN" else (second, R.ets == first)
            if named and R.takes(s):
                del R.free[s]
                self.said.append(f"deliver {m}")
        elif rule == "state":
            self.said.append(R.state(choices.get("ts", 0)))
        elif rule not in ("drop", "reserve"):
            raise AssertionError(rule)


class Traces(unittest.TestCase):
    def play(self, name, ends=("sender", "receiver")):
        text = re.search(rf"```exo trace {name}\n(.*?)```", PAGE, re.S)[1]
        play = Play()
        for line in text.splitlines():
            did, _, said = re.sub(r"\s*#.*", "", line).partition(" -> ")
            end, rule, args, rest = re.match(r"(\w+) (\w+)(?:\((.*?)\))?(?:, (.*))?$", did).groups()
            choices = {k: int(v) for k, v in re.findall(r"(\w+) = (\d+)", rest or "")}
            play.said = []
            if end not in ends:
                continue
            if end == "sender":
                play.sender(rule, args)
            else:
                play.receiver(rule, args, choices)
            wanted = said.split("; ") if said else []
            got = [play.state(wanted[0][6:-1]) if isinstance(x, State) and wanted else x for x in play.said]
            for x, text in zip(play.said, wanted):
                if isinstance(x, State):                    # ranges may be merged
                    spread = tuple((s, s + 1) for a, b in x.free for s in range(a, b))
                    self.assertEqual(x._replace(free=spread), play.state(text[6:-1]), line)
            self.assertEqual([x for x in got if isinstance(x, str)], [x for x in wanted if x[:5] != "STATE"], line)

    def test_a_packet_is_lost(self):
        self.play("loss")

    def test_the_disk_of_the_sender_is_put_back(self):
        self.play("restored")

    def test_early_messages(self):
        self.play("early", ["receiver"])                    # this node sends none


class Ends(unittest.TestCase):
    def test_a_final_claim_ends_before_what_was_rejected(self):
        record = Receiver(Clock())
        record.on_ask(Ask(0, 5, 0), 5, True)
        record.free[1], record.free[3] = Verdict(0, 1, 0, 0, 1, b""), Verdict(0, 3, 2, 0, 1, b"")
        record.end()
        state = record.state(0)
        self.assertEqual((state.final, state.lo, state.up, state.free), (True, 0, 3, ((0, 1), (2, 3))))
        self.assertFalse(record.takes(0))


if __name__ == "__main__":
    unittest.main()
