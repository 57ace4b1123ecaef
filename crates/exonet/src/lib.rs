//! Messages between machines that arrive **exactly once**, over UDP: encrypted, without a broker, and with a true
//! answer to "what became of my message?".
//!
//! A [`Node`] is identified by its public key; addresses are only hints. It sends messages to its [peers](Node::peer)
//! and receives theirs. Every `send` gives a [`Receipt`], which ends in exactly one [`Outcome`]:
//!
//! ```
//! use std::time::Duration;
//! use exonet::{Allow, Node, Outcome};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
//! let bob = Node::builder(Allow::only([alice.id()])).bind("127.0.0.1:0").build().await?;
//!
//! let receipt = alice.peer(bob.peer_addr()).send("hello").await?;
//!
//! let mut delivery = bob.recv().await?;
//! assert_eq!(delivery.from(), alice.id());
//! assert_eq!(delivery.body_mut().bytes(1024).await?, "hello");
//! // Act on it here. Until `ack` it is not delivered, and is handed out again if this is dropped.
//! let id = delivery.id();
//! delivery.ack()?;
//!
//! let settled = receipt.await;
//! assert_eq!(settled.outcome, Outcome::Delivered);
//! assert_eq!(settled.id, Some(id));
//!
//! assert!(alice.close(Duration::from_secs(5)).await.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! A [call](Peer::call) is a message with a reply. It runs at most once, at a node that [serves](Node::serve) its
//! method.
//!
//! A [stream](Peer::stream) keeps messages in order. A [session](Peer::session) is a conversation that outlives
//! connections.
//!
//! A [group](Node::group) sends one message to several peers, and reports the outcome at each.
//!
//! A [name](naming) still leads to a service after the service has moved to another machine.
//!
//! The root of the crate has the items that every application needs. Modules have the rest: [`call`], [`group`],
//! [`naming`], [`receive`], [`send`], [`session`] and [`stream`] for messages, [`config`] and [`state`] for building
//! a node, [`stats`] for figures, [`mod@error`] for errors, and [`blocking`] for programs without an async runtime.
//!
//! # What the outcomes mean
//!
//! | Outcome | Means |
//! |---|---|
//! | [`Outcome::Delivered`] | the receiving application has taken it, once |
//! | [`Outcome::Processed`] | the receiving application has processed it; only for a message that asked for this ([`Confirm`]) |
//! | [`Outcome::Rejected`] | the receiving application does not take it and will not see it again: its node keeps it as a [dead letter](dead) |
//! | [`Outcome::Expired`], [`Outcome::Cancelled`] | certainly never delivered: it never left, was withdrawn, or came back untaken |
//! | [`Outcome::Refused`] | certainly never delivered: the peer does not take it, and has said why |
//! | [`Outcome::Unknown`] | one of the two sides no longer knows: it was delivered once or not at all |
//! | [`Outcome::Kept`] | this node has ended first: the next life of its identity goes on with the message |
//!
//! A call ends with its [`Reply`](call::Reply), or with a [`CallError`](error::CallError) of the same kinds.
//! `has_not_run` of that error says whether the caller may safely repeat the call.
//!
//! # What survives what
//!
//! Messages survive any fault of the network, of any length: every message arrives exactly once, or its receipt says
//! why not.
//!
//! A node with [`Builder::state_dir`] survives the end of its process: the next *life* of its identity, which is the
//! next run of a node with the same key, continues from the journal. [`Durability`] says what a power failure can
//! destroy. Without a journal, messages are delivered at most once, and those in doubt end Unknown. Both ends know a
//! message by the same [`MessageId`]; an application can use it as a key to find out what happened.
//!
//! An [ephemeral](Builder::ephemeral) node that crashes is gone. Only a node with a new key can take its place.
//!
//! A node that is [closed](Node::close) tells its peers which messages it has not taken. Each sender queues these
//! again, for the next life of the same identity.
//!
//! # Contract of the async calls
//!
//! [`Peer::send`], [`Peer::reserve`], [`Node::recv`], [`Call::start`](call::Call::start) and [`Receipt::outcome`] are
//! cancel-safe: a future that is dropped before it is ready has done nothing, except that a node which waits for its
//! disk may already have queued the message (see [`Peer::send`]). Dropping a receipt does not cancel its message.
//! Dropping a [`PendingCall`](call::PendingCall) gives up its call. Dropping the last handle on a node settles every
//! receipt.
//!
//! Any number of tasks may send and receive on one node. Every queue is bounded: senders wait for room, and receivers
//! grant only as much as they can hold.
//!
//! # Names of durations
//!
//! A *timeout* is how long a caller waits for something, or how long something may last. A *deadline* is how long
//! after its start a message or a call is still wanted. An *interval* is the time between two repetitions. Three
//! durations are none of these: the [`patience`](group::GroupBuilder::patience) of a group, after which it tries a
//! second member beside the first; how long a [session](session::SessionBuilder) may be `idle`; and how long its `life`
//! is.
#![deny(missing_docs)]

mod after;
mod allow;
pub mod blocking;
mod builder;
pub mod call;
pub mod carrier;
mod clock;
mod comings;
pub mod config;
pub mod dead;
mod driver;
mod engine;
pub mod error;
pub mod follow;
pub mod group;
mod journal;
pub mod naming;
mod network;
mod node;
mod openings;
#[cfg(feature = "opentelemetry")]
pub mod otel;
pub mod parts;
mod peer;
mod peer_addr;
mod presence;
pub mod receive;
mod report;
mod resolve;
pub mod send;
pub mod session;
mod shared;
mod shares;
mod sieve;
#[cfg(test)]
#[path = "../tests/common/skip.rs"]
mod skip;
mod socket;
pub mod state;
pub mod stats;
pub mod stream;
mod timer;
mod trace;
mod turn;

pub use allow::Allow;
pub use builder::Builder;
pub use journal::Durability;
pub use node::Node;
pub use peer::Peer;
pub use peer_addr::PeerAddr;
pub use presence::{PeerEvent, Watch};
pub use receive::body::Body;
pub use receive::delivery::Delivery;
pub use send::message::Message;
pub use send::receipt::Receipt;
pub use session::Session;
pub use stream::Stream;

pub use exonet_proto::node::{Carrier, Confirm, Outcome, Priority};
pub use exonet_proto::{DurabilityLevel, MessageId, NodeId, Traceparent};
pub use exonet_store::Store;

/// Compiles and runs the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles and runs the example of the page on groups.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/groups.md")]
struct Groups;

/// Compiles and runs the example of the page on carriers.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/carriers.md")]
struct Carriers;

/// Compiles and runs the example of the page on streams.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/streams.md")]
struct Streams;

/// Compiles and runs the example of the page on sessions.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sessions.md")]
struct Sessions;

/// Compiles and runs the programs of the tutorial.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tutorial-rust.md")]
struct TutorialRust;

/// Compiles and runs the program of the guide for robots.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide-robots.md")]
struct GuideRobots;

/// Compiles the example of the page on parts.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/parts.md")]
struct PartsPage;
