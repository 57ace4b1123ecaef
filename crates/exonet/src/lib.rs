//! Messages between machines that arrive **exactly once**, over UDP: encrypted, without a broker, and with an
//! honest answer to "what became of my message?".
//!
//! A [`Node`] *is* a key; addresses are hints. It sends messages to other nodes and receives theirs. Every `send`
//! gives a [`Receipt`], which ends in exactly one [`Outcome`]:
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
//! let receipt = alice.send(&bob.peer_addr(), "hello").await?;
//!
//! let mut received = bob.recv().await?;
//! assert_eq!(received.from, alice.id());
//! assert_eq!(received.body.bytes(1024).await?, "hello");
//!
//! let settled = receipt.await;
//! assert_eq!(settled.outcome, Outcome::Delivered);
//! assert_eq!(settled.id, Some(received.id));
//!
//! assert!(alice.close(Duration::from_secs(5)).await.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! A [call](Node::call) is a message that is answered: it runs at most once, at a node that [serves](Node::serve) its method.
//!
//! # What the outcomes mean
//!
//! | Outcome | Means |
//! |---|---|
//! | [`Outcome::Delivered`] | the receiving application has taken it, once |
//! | [`Outcome::Expired`], [`Outcome::Cancelled`] | certainly never delivered: it never left, or the receiver has said that it did not take it |
//! | [`Outcome::Refused`] | certainly never delivered: the peer does not take it, and has said why |
//! | [`Outcome::Unknown`] | one of the two sides no longer knows: it happened once or not at all |
//!
//! A call ends with its [`Reply`], or with a [`CallError`] of the same kinds; [`CallError::has_not_run`] says whether it
//! may safely be made again.
//!
//! # What survives what
//!
//! Faults of the network, of any kind and length: every message arrives exactly once, or its receipt says why not.
//! A crash of a node with [`Builder::state_dir`]: at most once, and what was in doubt is Unknown. The
//! [`MessageId`], the same at both ends, is then the key under which an application finds out what happened.
//! An [ephemeral](Builder::ephemeral) node that crashes is gone; another takes its place.
//! A node that is [closed](Node::close) tells its peers what it has not taken: that is queued again where it came from, and
//! waits for the next life of the same identity.
//!
//! # Contract of the async calls
//!
//! [`Node::send`], [`Node::reserve`], [`Node::recv`], [`Node::accept`], [`Call::start`] and [`Receipt::outcome`] are
//! cancel-safe: a future that is dropped before it is ready has done nothing. Dropping a receipt does not cancel its
//! message, dropping a [`PendingCall`] gives its call up; dropping the last [`Node`] settles every receipt. Any number of tasks may send and receive on one node.
//! Nothing is queued without bound: senders wait for room, receivers grant as much as they hold.
#![deny(missing_docs)]

mod after;
mod allow;
mod body;
mod builder;
mod call;
mod calls;
mod clock;
mod comings;
mod driver;
mod engine;
mod error;
mod line;
mod message;
mod node;
mod openings;
mod peer_addr;
mod receipt;
mod receipts;
mod receive;
mod report;
mod resolve;
mod room;
mod send;
mod serve;
mod shared;
mod shares;
mod sieve;
#[cfg(test)]
#[path = "../tests/common/skip.rs"]
mod skip;
mod socket;
pub mod state;
mod status;
mod timer;
#[cfg(feature = "tower")]
mod tower;
mod trace;
mod turn;
#[cfg(feature = "serde")]
mod typed;

pub use allow::{Allow, Question};
pub use body::Body;
pub use builder::Builder;
pub use call::{Call, PendingCall, Reply};
pub use error::{
    BodyError, BuildError, CallError, Closed, NotDelivered, PingError, SendError, SendFromError, ServeError,
    Why,
};
pub use message::Message;
pub use node::Node;
pub use peer_addr::{PeerAddr, PeerAddrError};
pub use receipt::{BatchReceipt, Receipt};
pub use receipts::{Settled, Tally};
pub use receive::{Batch, Delivery, Received};
pub use send::{BodyWriter, Permit};
pub use serve::{Handler, Request, Serve, Serving};
pub use status::{Answer, Failure, ReplyStatus};
#[cfg(feature = "tower")]
pub use tower::{CallService, ServiceHandler};
#[cfg(feature = "serde")]
pub use typed::{TypedCall, TypedError, TypedPending};

pub use exonet_proto::crypto::{SecretKey, Suite};
pub use exonet_proto::node::{
    CallId, CancelError, Config, Conflict, CongestionChoice, Hedging, Limits, OpenMessage, Outcome,
    PeerStats, Priority, Refusal, Stats, Status, Takes, View, Work,
};
pub use exonet_proto::{MessageId, NodeId, ParseNodeIdError};

/// Compiles and runs the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
