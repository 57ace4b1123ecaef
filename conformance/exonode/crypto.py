"""Identities, handshake, packets, MACs and cookies. PROTOCOL.md: "Cryptography"."""

import base64
import hmac
import os
import struct
from hashlib import blake2s

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from .wire import Malformed, Reader, demand

PRIME = 2**255 - 19
SUITES = {1: (b"exonet aes-128-gcm", 16, AESGCM), 2: (b"exonet chacha20", 32, ChaCha20Poly1305)}


def HASH(x, key=b"", size=32):
    """HASH, DERIVE (with a key) and MAC (with a key and 16 bytes)."""
    return blake2s(x, key=key, digest_size=size).digest()


def opened(aead, nonce, sealed, data):
    try:
        return aead.decrypt(nonce, sealed, data)
    except InvalidTag:
        raise Malformed("bytes that do not decrypt") from None


# ---- identities ------------------------------------------------------------------------------------------------

def public(secret):
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def agree(secret, key):
    """X25519, with the two refusals of "Identities"."""
    demand(int.from_bytes(key, "little") < PRIME)
    try:
        return X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(key))
    except ValueError:
        raise Malformed("a key of low order") from None


def id_text(key):
    raw = b"\x01" + key
    return base64.b32encode(raw + HASH(b"exonet node id" + raw)[:2]).decode().rstrip("=").lower()


def id_from_text(text):
    raw = base64.b32decode(text.upper() + "=" * (-len(text) % 8))
    if len(raw) != 35 or raw[0] != 1 or HASH(b"exonet node id" + raw[:33])[:2] != raw[33:]:
        raise ValueError(f"{text} is no node id: the checksum does not fit")
    return raw[1:33]


# ---- handshake: Noise_IK_25519_ChaChaPoly_BLAKE2s --------------------------------------------------------------

class Noise:
    """One handshake. `write` and `read` make and take the next message, by its tokens; then `split` gives the keys.

    s and e are this end's secrets, rs and re the other end's public keys."""

    def __init__(self, initiator, header, secret, peer=None, ephemeral=None):
        self.initiator, self.s, self.e = initiator, secret, ephemeral or os.urandom(32)
        self.rs, self.re = peer, None
        self.messages = [("e", "es", "s", "ss"), ("e", "ee", "se")]
        self.h = self.ck = HASH(b"Noise_IK_25519_ChaChaPoly_BLAKE2s")
        self.mix_hash(b"exonet/1" + header)
        self.mix_hash(peer if initiator else public(secret))

    def mix_hash(self, data):
        self.h = HASH(self.h + data)

    def split(self, data=b""):
        """HKDF. After message 2 it gives k1 (from the initiator) and k2 (to it)."""
        secret = hmac.digest(self.ck, data, blake2s)
        one = hmac.digest(secret, b"\x01", blake2s)
        return one, hmac.digest(secret, one + b"\x02", blake2s)

    def mix_key(self, token):
        """A Diffie-Hellman: the first letter of its token is the initiator's key, the second the responder's."""
        mine, theirs = token if self.initiator else reversed(token)
        shared = agree(self.e if mine == "e" else self.s, self.re if theirs == "e" else self.rs)
        self.ck, key = self.split(shared)
        self.aead = ChaCha20Poly1305(key)                   # each key seals once, with nonce 0

    def encrypt(self, text):
        sealed = self.aead.encrypt(bytes(12), text, self.h)
        self.mix_hash(sealed)
        return sealed

    def decrypt(self, sealed):
        text = opened(self.aead, bytes(12), sealed, self.h)
        self.mix_hash(sealed)
        return text

    def write(self, payload):
        message, (tokens, *self.messages) = b"", self.messages
        for token in tokens:
            if token == "e":
                message += public(self.e)
                self.mix_hash(message)
            elif token == "s":
                message += self.encrypt(public(self.s))
            else:
                self.mix_key(token)
        return message + self.encrypt(payload)

    def read(self, message):
        """The payload. An initiator reads on a copy of its handshake: the true answer may follow a false one."""
        message, (tokens, *self.messages) = Reader(message), self.messages
        for token in tokens:
            if token == "e":
                self.re = message.take(32)
                self.mix_hash(self.re)
            elif token == "s":
                self.rs = self.decrypt(message.take(48))
            else:
                self.mix_key(token)
        return self.decrypt(message.rest())


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


def xchacha20(receiver, nonce):
    """draft-irtf-cfrg-xchacha: the AEAD under the key of a cookie, and the nonce that is left for it."""
    key = HASH(b"exonet cookie" + receiver)
    # HChaCha20 is a block of ChaCha20 without the addition of the first state at its end.
    first = struct.unpack("<16I", b"expand 32-byte k" + key + nonce[:16])
    block = struct.unpack("<16I", Cipher(algorithms.ChaCha20(key, nonce[:16]), None).encryptor().update(bytes(64)))
    words = [(last - begun) % 2**32 for last, begun in zip(block, first)]
    return ChaCha20Poly1305(struct.pack("<8I", *words[:4], *words[12:])), bytes(4) + nonce[16:]


def seal_cookie(receiver, nonce, opening_mac1, cookie, time):
    aead, rest = xchacha20(receiver, nonce)
    return nonce + aead.encrypt(rest, cookie + struct.pack(">Q", time), opening_mac1)


def open_cookie(receiver, body, opening_mac1):
    """The cookie of a RETRY, whose body is nonce and sealed."""
    aead, rest = xchacha20(receiver, body[:24])
    return opened(aead, rest, body[24:], opening_mac1)[:16]
