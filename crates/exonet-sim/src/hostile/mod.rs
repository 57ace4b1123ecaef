//! Attackers that speak the real wire format with the real cryptography, and are bound by no rule above it.

mod impostor;
mod raw;

pub use impostor::{Claimed, Impostor, Said};
pub use raw::Raw;
