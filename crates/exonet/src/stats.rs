//! Figures: what [`Node::stats`](crate::Node::stats) and [`Peer::stats`](crate::Peer::stats) tell.
//!
//! ```
//! use exonet::stats::Stats;
//! # use exonet::{Allow, Node};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
//! # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
//! let receipt = alice.peer(bob.peer_addr()).send("hello").await?;
//! bob.recv().await?.ack()?;
//! receipt.await;
//! assert_eq!((alice.stats().delivered, bob.stats().received), (1, 1));
//! // Each with a name for an exporter.
//! for figure in Stats::FIGURES {
//!     println!("{}: {}", figure.metric, (figure.of)(&bob.stats()));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The same figures go to the recorder of the crate `metrics`, every second, if one is installed before the node is made. So do the
//! histograms of [`TIMES`]. Spans of `tracing` bear the ids that both
//! ends know: `call`, `serve`, and `message`, which [`Delivery::span`](crate::Delivery::span) gives.
//! `cargo run -p exonet --example figures` shows all of it.

/// The histograms, in seconds: the name of each, and what it says.
pub const TIMES: &[(&str, &str)] = &[MESSAGE, CALL, SERVE];

pub(crate) const MESSAGE: (&str, &str) =
    ("exonet_message_seconds", "From the queueing of a message to Delivered.");
pub(crate) const CALL: (&str, &str) = ("exonet_call_seconds", "From a call to its end.");
pub(crate) const SERVE: (&str, &str) =
    ("exonet_serve_seconds", "From the begin of another's call to its answer.");

pub use exonet_proto::node::{Conflict, Figure, PeerFigure, PeerFlow, PeerStats, Presence, Stats, Work};
