//! Receiving messages: under a guard, through receivers for some peers or tags, or without a guard.
//!
//! [`Node::recv`] hands a message out. When the application calls [`Delivery::ack`], the message is delivered, and
//! its sender learns that. If the application drops the [`Delivery`] instead, the node hands the message out again.
//!
//! [`Node::receiver`] gives the messages of one peer, or those with one tag, a queue of their own.
//! [`Node::at_most_once`] takes messages when it returns them: if a task dies before it has acted on a message, the
//! message is lost.

pub(crate) mod answer;
pub(crate) mod batch;
pub(crate) mod body;
pub(crate) mod delivery;
pub(crate) mod filter;
pub(crate) mod receiver;
pub(crate) mod routes;
pub(crate) mod unacked;

pub use answer::{AnswerError, NotAnswered};
pub use batch::Batch;
pub use delivery::Received;
pub use filter::Filter;
pub use receiver::{AtMostOnce, Receiver};
pub use unacked::{Standing, Unacked};

pub use exonet_proto::node::View;

#[cfg(doc)]
use crate::{Delivery, Node};
