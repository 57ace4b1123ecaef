//! The settings of a node, for [`Builder`](crate::Builder) and [`Builder::config`](crate::Builder::config).

pub use exonet_proto::channel::Hedging;
pub use exonet_proto::crypto::Suite;
pub use exonet_proto::node::{Carrier, Config, CongestionChoice, Limits, Takes};
