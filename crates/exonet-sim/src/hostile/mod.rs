//! Attackers that use the real wire format and the real cryptography, and follow no other rule.

mod impostor;
mod raw;

pub use impostor::{Claimed, Impostor, Said};
pub use raw::Raw;
