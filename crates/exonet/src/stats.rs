//! Figures about a node and its peers, which [`Node::stats`](crate::Node::stats) and
//! [`Peer::stats`](crate::Peer::stats) return.
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
//! // Each figure has a name for an exporter of metrics.
//! for figure in Stats::FIGURES {
//!     println!("{}: {}", figure.metric, (figure.of)(&bob.stats()));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! If the application installs a recorder of the crate `metrics` before it makes the node, the node reports the same
//! figures to it every second, together with the histograms of [`TIMES`]. The spans of `tracing` carry the ids that
//! both ends know. These spans are `call`, `serve`, and `message`, which [`Delivery::span`](crate::Delivery::span)
//! returns. `cargo run -p exonet --example figures` shows all of this.

/// The histograms, in seconds: the name and the meaning of each.
pub const TIMES: &[(&str, &str)] = &[MESSAGE, CALL, SERVE];

pub(crate) const MESSAGE: (&str, &str) =
    ("exonet_message_seconds", "From the queueing of a message to Delivered.");
pub(crate) const CALL: (&str, &str) = ("exonet_call_seconds", "From a call to its end.");
pub(crate) const SERVE: (&str, &str) =
    ("exonet_serve_seconds", "From the start of a peer's call to its answer.");

pub use exonet_proto::node::{
    Conflict, Figure, PeerFigure, PeerFlow, PeerStats, Presence, Reading, Stats, Work,
};
