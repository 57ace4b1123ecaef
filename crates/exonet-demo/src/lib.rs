//! Two nodes of the real core, Alice and Bob, and a network between them that loses, delays, duplicates, reorders and
//! replays packets. Time and randomness come from outside: the same calls with the same seed give the same world.
//!
//! `docs/demo.md` shows it. The page calls the functions of [`ffi`], and reads the report of [`World::report`].

mod dice;
pub mod ffi;
mod host;
mod journal;
mod link;
mod report;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests;
mod world;

pub use host::Memory;
pub use link::Link;
pub use world::{Counts, Side, World};
