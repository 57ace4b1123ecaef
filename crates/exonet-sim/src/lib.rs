//! A seeded world for the protocol core: many nodes of the real code on one virtual clock, links that lose,
//! duplicate, reorder, delay and corrupt, nodes that crash, and a ledger of every message against every outcome.
//!
//! The same seed gives the same run, to the byte.

mod dice;
mod ledger;
mod link;
mod world;

pub use dice::Dice;
pub use ledger::{Ledger, Totals, Violation};
pub use link::{LinkConfig, Outage};
pub use world::{NodeIndex, World};
