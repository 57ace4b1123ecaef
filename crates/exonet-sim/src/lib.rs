//! A seeded world for the protocol core: many nodes of the real code on one virtual clock, links that lose,
//! duplicate, reorder, delay, corrupt and queue, nodes that crash and move, disks that take their time, somebody
//! who listens and replays, and a ledger of every message against every outcome.
//!
//! The same seed gives the same run, to the byte.

mod body;
mod dice;
mod disk;
mod host;
pub mod hostile;
mod ledger;
mod link;
mod wiretap;
mod world;

pub use dice::Dice;
pub use disk::Disk;
pub use ledger::{Ledger, Totals, Violation};
pub use link::{LinkConfig, Outage};
pub use wiretap::{Recorded, Reflected, Wiretap};
pub use world::{NodeIndex, World};
