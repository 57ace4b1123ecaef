//! The implementations of the AEADs and of X25519: AWS-LC if it is enabled, otherwise pure Rust (wasm32).
//!
//! Both offer the same two types, `Aead` and `X25519`, and tests check that they give the same bytes.

#[cfg(feature = "aws-lc")]
pub(super) mod aws;
#[cfg(any(test, not(feature = "aws-lc")))]
pub(super) mod pure;

#[cfg(feature = "aws-lc")]
pub(super) use aws::{Aead, X25519};
#[cfg(not(feature = "aws-lc"))]
pub(super) use pure::{Aead, X25519};

/// The AEAD does not take this input: it is longer than its counter reaches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused;

/// The Diffie-Hellman output is all zero: the other key has a low order (RFC 7748, section 6.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct LowOrder;

#[cfg(all(test, feature = "aws-lc"))]
mod tests;
