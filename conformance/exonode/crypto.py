"""Identities, handshake, packets, MACs and cookies. PROTOCOL.md: "Cryptography"."""

import base64
import hmac
import os
import struct
from hashlib import blake2s

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

PRIME = 2**255 - 19
SUITES = {1: (b"exonet aes-128-gcm", 16, AESGCM), 2: (b"exonet chacha20", 32, ChaCha20Poly1305)}


class Refused(Exception):
    """Bytes that do not decrypt, or a key that must be refused."""


def HASH(x, key=b"", size=32):
    """HASH, DERIVE (with a key) and MAC (with a key and 16 bytes)."""
    return blake2s(x, key=key, digest_size=size).digest()


def opened(aead, nonce, sealed, data):
    try:
        return aead.decrypt(nonce, sealed, data)
    except InvalidTag:
        raise Refused("bytes that do not decrypt") from None


# ---- identities ------------------------------------------------------------------------------------------------

def public(secret):
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def agree(secret, key):
    """X25519, with the two refusals of "Identities"."""
    if int.from_bytes(key, "little") >= PRIME:
        raise Refused("a key that is not canonical")
    try:
        return X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(key))
    except ValueError:
        raise Refused("a key of low order") from None


def id_text(key):
    raw = b"\x01" + key
    return base64.b32encode(raw + HASH(b"exonet node id" + raw)[:2]).decode().rstrip("=").lower()


def id_from_text(text):
    raw = base64.b32decode(text.upper() + "=" * (-len(text) % 8))
    if len(raw) != 35 or raw[0] != 1 or HASH(b"exonet node id" + raw[:33])[:2] != raw[33:]:
        raise ValueError(f"{text} is no node id: the checksum does not fit")
    return raw[1:33]


# ---- handshake: Noise_IK_25519_ChaChaPoly_BLAKE2s ----------------------------------------------------------------

class Noise:
    """One handshake. The initiator calls `initiate`, then `finish`; the responder `respond`, then `answer`."""

    def __init__(self, header, responder):
        self.h = self.ck = HASH(b"Noise_IK_25519_ChaChaPoly_BLAKE2s")
        self._mix(b"exonet/1" + header)
        self._mix(responder)

    def _mix(self, data):
        self.h = HASH(self.h + data)

    def split(self, data=b""):
        """HKDF. After message 2 it gives k1 (from the initiator) and k2 (to it)."""
        secret = hmac.digest(self.ck, data, blake2s)
        one = hmac.digest(secret, b"\x01", blake2s)
        return one, hmac.digest(secret, one + b"\x02", blake2s)

    def _dh(self, secret, key):
        self.ck, self.key = self.split(agree(secret, key))  # each key seals once, with nonce 0

    def _encrypt(self, text):
        sealed = ChaCha20Poly1305(self.key).encrypt(bytes(12), text, self.h)
        self._mix(sealed)
        return sealed

    def _decrypt(self, sealed):
        text = opened(ChaCha20Poly1305(self.key), bytes(12), sealed, self.h)
        self._mix(sealed)
        return text

    @classmethod
    def initiate(cls, secret, peer, header, frames, ephemeral=None):
        """Message 1 of `secret` to the id `peer`; gives the handshake and the message."""
        noise = cls(header, peer)
        noise.secret, noise.ephemeral = secret, ephemeral or os.urandom(32)
        e = public(noise.ephemeral)
        noise._mix(e)
        noise._dh(noise.ephemeral, peer)
        static = noise._encrypt(public(secret))
        noise._dh(secret, peer)
        return noise, e + static + noise._encrypt(frames)

    def finish(self, header, message):
        """Reads message 2: the frames of the answer, and the keys. To be tried on a copy: the true answer may follow."""
        e = message[:32]
        self._mix(e)
        self._dh(self.ephemeral, e)
        self._dh(self.secret, e)
        payload = self._decrypt(message[32:])
        if payload[:12] != header:
            raise Refused("an answer whose two headers differ")
        return payload[12:], self.split()

    @classmethod
    def respond(cls, secret, header, message):
        """Reads message 1: the handshake, with `peer` and `frames`."""
        noise = cls(header, public(secret))
        noise.e = message[:32]
        noise._mix(noise.e)
        noise._dh(secret, noise.e)
        noise.peer = noise._decrypt(message[32:80])
        noise._dh(secret, noise.peer)
        noise.frames = noise._decrypt(message[80:])
        return noise

    def answer(self, header, frames, ephemeral=None):
        """Message 2, and the keys."""
        ephemeral = ephemeral or os.urandom(32)
        e = public(ephemeral)
        self._mix(e)
        self._dh(ephemeral, self.e)
        self._dh(ephemeral, self.peer)
        return e + self._encrypt(header + frames), self.split()


# ---- packets ---------------------------------------------------------------------------------------------------

class Sealer:
    """The AEAD of one direction of an epoch."""

    def __init__(self, suite, key):
        text, size, cipher = SUITES[suite]
        self.aead = cipher(HASH(text, key)[:size])

    def seal(self, number, header, frames):
        return header + self.aead.encrypt(struct.pack(">IQ", 0, number), frames, header)

    def open(self, number, header, sealed):
        return opened(self.aead, struct.pack(">IQ", 0, number), sealed, header)


# ---- MACs on openings, cookies -----------------------------------------------------------------------------------

def mac1(receiver, data):
    return HASH(data, HASH(b"exonet mac1" + receiver), 16)


def mac2(cookie, data):
    return HASH(data, HASH(b"exonet mac2" + cookie), 16)


def hchacha20(key, nonce):
    """draft-irtf-cfrg-xchacha, section 2.2."""
    x = list(struct.unpack("<16I", b"expand 32-byte k" + key + nonce))
    for _ in range(10):
        for a, b, c, d in ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
                           (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
            for p, q, r, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                x[p] = x[p] + x[q] & 0xFFFFFFFF
                x[r] ^= x[p]
                x[r] = (x[r] << turn | x[r] >> 32 - turn) & 0xFFFFFFFF
    return struct.pack("<8I", *x[:4], *x[12:])


def _xchacha(receiver, nonce):
    key = hchacha20(HASH(b"exonet cookie" + receiver), nonce[:16])
    return ChaCha20Poly1305(key), bytes(4) + nonce[16:]


def seal_cookie(receiver, nonce, opening_mac1, cookie, time):
    aead, rest = _xchacha(receiver, nonce)
    return nonce + aead.encrypt(rest, cookie + struct.pack(">Q", time), opening_mac1)


def open_cookie(receiver, body, opening_mac1):
    """The cookie of a RETRY, whose body is nonce and sealed."""
    aead, rest = _xchacha(receiver, body[:24])
    return opened(aead, rest, body[24:], opening_mac1)[:16]
