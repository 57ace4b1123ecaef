//! A simulated world for the protocol core, which a seed determines. Many nodes run the real code on one virtual
//! clock. Links lose, duplicate, reorder, delay, corrupt and queue datagrams; nodes crash and move; disks are slow;
//! an attacker records and replays. A ledger checks every outcome against what happened to the message.
//!
//! The same seed gives the same run, byte for byte.

mod agenda;
mod batch;
mod body;
mod book;
mod calls;
mod check;
mod clock;
mod codel;
pub mod course;
mod coverage;
mod dice;
mod disk;
mod faults;
mod host;
pub mod hostile;
mod journal;
mod judge;
mod ledger;
mod life;
mod link;
mod moving;
mod outcomes;
mod outsiders;
pub mod scenario;
mod serving;
mod streams;
mod trace;
mod wiretap;
mod world;

pub use check::{Breach, Violation};
pub use clock::ClockConfig;
pub use codel::{Codel, Signal};
pub use coverage::Coverage;
pub use dice::Dice;
pub use disk::Disk;
pub use faults::NodeSet;
pub use ledger::{Ledger, Totals};
pub use link::{Bursts, LinkConfig, Outage};
pub use moving::Image;
pub use serving::Serving;
pub use trace::Trace;
pub use wiretap::{Recorded, Reflected, Wiretap};
pub use world::{NodeIndex, World};
