//! BLAKE2s (RFC 7693), plain and keyed: the only hash of this protocol, inside and outside of Noise.
//!
//! A digest of 16 bytes has that length in its parameter block; it is not a truncated digest of 32 bytes.

use blake2::digest::consts::{U16, U32};
use blake2::{Blake2s256, Blake2sMac, Digest, digest::Mac};

/// BLAKE2s-256 over the parts, one after another.
pub(super) fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut state = Blake2s256::new();
    for part in parts {
        Digest::update(&mut state, part);
    }
    state.finalize().into()
}

/// Keyed BLAKE2s with 32 bytes of output.
pub(super) fn derive(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let mut state = <Blake2sMac<U32> as Mac>::new(key.into());
    for part in parts {
        Mac::update(&mut state, part);
    }
    state.finalize().into_bytes().into()
}

/// Keyed BLAKE2s with 16 bytes of output.
pub(super) fn mac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 16] {
    keyed16(key, parts).finalize().into_bytes().into()
}

/// Compares in constant time: the timing must not show how much of a guess was right.
pub(super) fn mac_matches(key: &[u8; 32], parts: &[&[u8]], claimed: &[u8; 16]) -> bool {
    keyed16(key, parts).verify(claimed.into()).is_ok()
}

fn keyed16(key: &[u8; 32], parts: &[&[u8]]) -> Blake2sMac<U16> {
    let mut state = <Blake2sMac<U16> as Mac>::new(key.into());
    for part in parts {
        Mac::update(&mut state, part);
    }
    state
}
