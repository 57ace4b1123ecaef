"""The vectors, which the Rust core is checked against too, are what this node reads and writes."""

import json
import pathlib
import re
import unittest
from collections import namedtuple
from unittest import mock

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from exonode import crypto, message, wire

ROOT = pathlib.Path(__file__).resolve().parents[2]


def vectors(name):
    return json.loads((ROOT / "conformance" / "vectors" / f"{name}.json").read_text())


# The node ignores REVOKE_STREAM. This test reads the frame itself, so that a second implementation checks its vectors.
RevokeStream = namedtuple("RevokeStream", "r s n name age place link")
RUN = "r:r s:t n:v name:d"


def read_revoke_stream(read):
    read = wire.Reader(read.block(), read.tx, read.rx)
    r, s, n, name = wire.read_fields(RUN, read).values()
    flags, age, place, link = read.fixed(1), read.varint(), read.varint(), read.varint()
    wire.demand(1 <= n <= 1024 and s + n <= wire.LAST and 1 <= len(name) <= 255)
    wire.demand(flags == 0 and place <= age <= s and link <= s)
    return RevokeStream(r, s, n, name, age, place, link)


def write_revoke_stream(frame, tx, rx):
    place = b"\0" + b"".join(map(wire.varint, (frame.age, frame.place, frame.link)))
    return b"\x81" + wire.block(wire.write_fields(RUN, frame, tx, rx) + place)


def plain(frame):
    """A frame as the vectors write it."""
    if isinstance(frame, wire.Params):
        values = {k: v.hex() if isinstance(v, bytes) else v for k, v in frame.values.items()}
        return {"frame": "PARAMS", **values}
    names = {"StampRejected": "STAMP_REJECTED", "ReplyAck": "REPLY_ACK", "Challenge": "PATH_CHALLENGE",
             "Response": "PATH_RESPONSE", "RevokeStream": "REVOKE_STREAM"}
    name = type(frame).__name__
    out = {"frame": names.get(name, name.upper())}
    for key, value in frame._asdict().items():
        if isinstance(value, (tuple, list)):
            value = [x.hex() if isinstance(x, bytes) else list(x) for x in value]
        out[key] = value.hex() if isinstance(value, bytes) else value
    if name == "Verdict":
        out["reason"] = frame.reason.decode()
    if name == "State" and not frame.live:
        out = {key: out[key] for key in ("frame", "b", "r", "live", "ts", "end")}
    return out


def read(payload, tx, rx):
    frames = []
    try:
        for frame in wire.read_frames(wire.Reader(payload, tx, rx)):
            frames.append(frame)
    except wire.Malformed:
        return frames, True
    return frames, False


def ephemeral(seed):
    """ "Handshake": the first 32 bytes of ChaCha20 under the seed."""
    return Cipher(algorithms.ChaCha20(seed, bytes(16)), None).encryptor().update(bytes(32))


@mock.patch.dict(wire.READERS, {0x81: read_revoke_stream})
@mock.patch.dict(wire.WRITERS, {RevokeStream: write_revoke_stream})
class Frames(unittest.TestCase):
    def test_every_payload_is_read_as_the_vectors_say(self):
        for v in vectors("frames"):
            frames, malformed = read(bytes.fromhex(v["payload"]), v["sender_base"], v["receiver_base"])
            with self.subTest(v["name"], payload=v["payload"]):
                self.assertEqual([plain(frame) for frame in frames], v["frames"])
                self.assertEqual(malformed, v["malformed"])

    def test_what_is_written_is_read_again(self):
        bases = (1 << 40, 5 << 32)
        for v in vectors("frames"):
            frames, _ = read(bytes.fromhex(v["payload"]), v["sender_base"], v["receiver_base"])
            for frame in frames:
                if not isinstance(frame, wire.Ignored):
                    data = wire.write_params({k: x for k, x in frame.values.items() if x is not None}) \
                        if isinstance(frame, wire.Params) else wire.write(frame, *bases)
                    self.assertEqual(read(data, *bases), ([frame], False), v["name"])

    def test_heads(self):
        for v in vectors("heads"):
            with self.subTest(v["name"]):
                try:
                    head, body = message.read_message(bytes.fromhex(v["message"]))
                except wire.Malformed:
                    self.assertIsNone(v["head"])
                    continue
                place = head.place and head.place._asdict()
                self.assertEqual(v["head"], {
                    "priority": head.priority, "confirm": head.confirm, "tag": head.tag.hex(), "place": place,
                    "call": head.call, "reply": head.reply and list(head.reply),
                    "trace": head.trace and head.trace.hex(), "body": body.hex()})
                self.assertEqual(message.read_message(head.write(body)), (head, body))


class Ignored(unittest.TestCase):
    def test_the_node_ignores_what_is_withdrawn_of_a_stream(self):
        of_it = [v for v in vectors("frames") if v["name"].startswith("REVOKE_STREAM")]
        self.assertGreaterEqual(len(of_it), 20)
        for v in of_it:
            cut = v["name"].endswith("beyond the payload")
            wanted = ([], True) if cut else ([wire.Ignored(0x81)], False)
            self.assertEqual(read(bytes.fromhex(v["payload"]), 0, 0), wanted, v["name"])


class Datagrams(unittest.TestCase):
    def test_ids_packets_and_cookies(self):
        for v in vectors("datagrams"):
            data = {k: bytes.fromhex(x) for k, x in v.items() if isinstance(x, str) and re.fullmatch("([0-9a-f]{2})*", x)}
            if v["kind"] == "id":
                self.assertEqual(crypto.public(data["secret"]), data["id"])
                self.assertEqual(crypto.id_text(data["id"]), v["text"])
                self.assertEqual(crypto.id_from_text(v["text"]), data["id"])
            elif v["kind"] == "packet":
                sealer = crypto.Sealer(v["suite"], data["k"])
                packet = sealer.seal(v["number"], data["header"], data["frames"])
                self.assertEqual(packet, data["header"] + data["sealed"])
                self.assertEqual(sealer.open(v["number"], data["header"], data["sealed"]), data["frames"])
            elif v["kind"] == "mac1":
                self.assertEqual(crypto.mac1(data["receiver"], data["datagram"]), data["mac"])
            elif v["kind"] == "retry":
                body = crypto.seal_cookie(data["receiver"], data["nonce"], data["mac1"], data["cookie"], v["time"])
                self.assertEqual(body, data["nonce"] + data["sealed"])
                self.assertEqual(crypto.open_cookie(data["receiver"], body, data["mac1"]), data["cookie"])
                self.assertEqual(crypto.mac2(data["cookie"], data["datagram"]), data["mac2"])

    def test_handshakes(self):
        for v in (v for v in vectors("datagrams") if v["kind"] == "handshake"):
            data = {k: bytes.fromhex(x) for k, x in v.items() if isinstance(x, str) and k != "kind"}
            ours, theirs = crypto.public(data["initiator"]), crypto.public(data["responder"])
            opening, answer = wire.datagram(data["opening"]), wire.datagram(data["answer"])
            noise = crypto.Noise(True, opening.clear, data["initiator"], theirs, ephemeral(data["initiator_seed"]))
            whole = opening.clear + noise.write(data["opening_frames"])
            self.assertEqual(whole + crypto.mac1(theirs, whole) + bytes(16), data["opening"])
            other = crypto.Noise(False, opening.clear, data["responder"], None, ephemeral(data["responder_seed"]))
            self.assertEqual((other.read(opening.body[:-32]), other.rs), (data["opening_frames"], ours))
            whole = answer.clear + other.write(answer.clear + data["answer_frames"])
            self.assertEqual(whole + crypto.mac1(ours, whole), data["answer"])
            self.assertEqual(noise.read(answer.body[:-16]), answer.clear + data["answer_frames"])
            self.assertEqual(noise.split(), other.split())
            for key, name in zip(noise.split(), ("data", "data_back")):
                datagram = wire.datagram(bytes.fromhex(v[name]["datagram"]))
                frames = bytes.fromhex(v[name]["frames"])
                number = v[name]["number"]
                self.assertEqual(wire.full_number(datagram.number, number - 1), number)
                self.assertEqual(crypto.Sealer(v["suite"], key).open(number, datagram.clear, datagram.body), frames)

    def test_lengths_and_reserved_bytes(self):
        opening = bytes.fromhex(next(v for v in vectors("datagrams") if v["kind"] == "handshake")["opening"])
        for wrong in (b"", opening[:1199], opening + bytes(33), b"\x10" + opening[1:], b"\x21" + opening[1:],
                      opening[:2] + b"\1" + opening[3:], bytes([0x13, 1]) + bytes(70), bytes([0x14]) + bytes(23)):
            with self.assertRaises(wire.Malformed):
                wire.datagram(wrong)

    def test_low_order_and_unreduced_keys_are_refused(self):
        for key in (bytes(32), (1).to_bytes(32, "little"), crypto.PRIME.to_bytes(32, "little"), b"\xff" * 32):
            with self.assertRaises(wire.Malformed):
                crypto.agree(b"\1" * 32, key)


class Page(unittest.TestCase):
    def test_packet_numbers(self):
        page = (ROOT / "PROTOCOL.md").read_text()
        rows = re.findall(r"^\| (none|[0-9a-f]+) \| ([0-9a-f]{8}) \| ([0-9a-f]+) \|$", page, re.M)
        self.assertEqual(len(rows), 5)
        for largest, low, full in rows:
            largest = -1 if largest == "none" else int(largest, 16)
            self.assertEqual(wire.full_number(int(low, 16), largest), int(full, 16))


if __name__ == "__main__":
    unittest.main()
