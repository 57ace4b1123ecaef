//! An emulated link in user space: it moves IP packets between two TUN interfaces.
//!
//! Each direction ([`Lane`]) is a queue, drop-tail or CoDel, then a line of some rate, then loss, then propagation:
//!
//! ```text
//! host -> [queue, bytes] -> line (bits/s) -> outage? lost? doubled? -> delay, held back? -> host
//! ```
//! A packet that is lost has used the line, as on a radio.

mod ecn;
mod engine;
mod lane;
mod loss;
mod shape;
mod stats;

pub(crate) use engine::{Link, be_punctual};
pub(crate) use loss::Loss;
pub(crate) use shape::{Outages, Reorder, Shape};
pub(crate) use stats::LaneStats;
