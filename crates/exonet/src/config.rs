//! How a node is set: what [`Builder`](crate::Builder) takes and [`Builder::config`](crate::Builder::config) changes.

pub use exonet_proto::channel::Hedging;
pub use exonet_proto::crypto::Suite;
pub use exonet_proto::node::{Carrier, Config, CongestionChoice, Limits, Takes};
