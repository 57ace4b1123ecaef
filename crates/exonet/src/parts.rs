//! Parts of a node that an application can replace with its own types: congestion control, scheduler, retransmission
//! policy, load metric.
//!
//! | Part | Trait | Where it plugs in | Without it |
//! |---|---|---|---|
//! | congestion control | [`CongestionControl`] | [`Builder::congestion_control`](crate::Builder::congestion_control): one for each path | [`Exo`], or [`Cubic`] by [`CongestionChoice`](crate::config::CongestionChoice) |
//! | scheduler | [`Scheduler`] | [`Builder::scheduler`](crate::Builder::scheduler): one for each peer | priorities by weight, lanes by turns |
//! | retransmission policy | [`Retransmission`] | [`Builder::retransmission`](crate::Builder::retransmission): one for each path | [`Standard`] |
//! | load metric | [`Load`] | [`GroupBuilder::load`](crate::group::GroupBuilder::load): one for each group | [`PeakEwma`] |
//!
//! None of these parts decides what is delivered. If a part returns a value that is out of bounds, the node uses the
//! nearest one within them. So a bad part makes a node slow, but can neither lose a message nor deliver one twice.
//! `docs/parts.md` compares the parts, and the example `parts` has one of each.
//!
//! ```
//! use exonet::parts::Fixed;
//! use exonet::{Allow, Node};
//!
//! let builder = Node::builder(Allow::anyone()).congestion_control(|| Fixed::new(1 << 20));
//! # let _ = builder;
//! ```

pub use exonet_proto::parts::{
    AckInfo, Cause, CongestionControl, Cubic, Exo, Fixed, Hedging, Kind, LossInfo, LossThreshold,
    MOST_WAITING, MOST_WINDOW, Make, Mono, Parts, PathState, Retransmission, Rtt, Sample, Scheduler,
    SentInfo, SpuriousLoss, Standard, TAGS, Waiting, initial_window, minimum_window,
};

pub use crate::group::{Load, PeakEwma};
