//! Everything that uses a key: identities, the handshake, packet protection, and what makes both cheap to defend. `PROTOCOL.md`,
//! section "Cryptography", specifies every label and step to the byte.
//!
//! Call contract: nothing here reads a clock or the system's randomness. Seeds and nonces come from one injected generator and
//! are used **once**: a seed determines the ephemeral key of a handshake, so the same seed with other content encrypts twice
//! under one key and nonce. Nothing here knows peers, proven addresses or the state of packet numbers: the caller must not repeat
//! a number under a key, and the channel refuses a replayed number.
//!
//! | Noun | Where | For |
//! |---|---|---|
//! | [`SecretKey`] | `secret` | a node's identity |
//! | [`Initiator`], [`Opened`], [`Keys`] | `handshake` | Noise IK, one round trip |
//! | [`SealKey`], [`OpenKey`], [`Suite`] | `packet_key`, `suite` | packet protection, in place |
//! | [`OpeningMac`] | `mac` | MACs on openings, checked before any public-key work |
//! | [`ResetKey`], [`ResetTags`], [`Shuffle`] | `reset` | what a restarted node tells about channels that it has lost |
//! | [`SecretKey::prove`], [`sealed`] | `proof`, `sealed` | messages to a node without a channel |
//! | [`CookieJar`], [`RetryKey`] | `cookie` | stateless proof of address under load |
//!
//! Wiped on drop: secret keys, split keys and packet keys, in either backend. Not wiped: the chaining key inside `snow`, the
//! state of BLAKE2s, and copies that the compiler made in registers and on the stack.

mod backend;
mod cookie;
mod handshake;
mod hash;
#[cfg(test)]
mod hex;
mod mac;
mod packet_key;
mod proof;
mod reset;
mod resolver;
pub mod sealed;
mod secret;
mod suite;

pub use cookie::{Cookie, CookieJar, RETRY_LEN, RETRY_NONCE_LEN, Retry, RetryKey};
pub use handshake::{
    ANSWER_HEADER_LEN, ANSWER_OVERHEAD, HandshakeError, Initiator, Keys, OPENING_HEADER_LEN,
    OPENING_OVERHEAD, Opened,
};
pub use mac::{MAC_LEN, OpeningMac};
pub use packet_key::{NoRoom, OpenKey, SealKey, TAG_LEN};
pub use proof::PROOF_LEN;
pub use reset::{RESET_LEN, ResetKey, ResetTags, Shuffle};
pub use secret::SecretKey;
pub use suite::{Suite, UnknownSuite};

/// The bytes did not come from their claimed sender, were changed on the way, or are under another key. No more may be told, nor
/// needs to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not authentic")]
pub struct Unauthentic;
