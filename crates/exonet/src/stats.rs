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
//! The same figures go to the recorder of the crate `metrics`, every second, if one is installed before the node is made. So do three
//! histograms, in seconds: `exonet_message_seconds`, from the queueing of a message to Delivered; `exonet_call_seconds`, from a call to
//! its end; and `exonet_serve_seconds`, from the begin of another's call to its answer. Spans of `tracing` bear the ids that both
//! ends know: `call`, `serve`, and `message`, which [`Delivery::span`](crate::Delivery::span) gives.
//! `cargo run -p exonet --example figures` shows all of it.

pub use exonet_proto::node::{Conflict, Figure, PeerStats, Stats, Work};
