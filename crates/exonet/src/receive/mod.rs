//! Receiving: deliveries under a guard, receivers for some peers or tags, and the short way that takes messages at
//! once.
//!
//! [`Node::recv`] hands a message out. It is delivered, and its sender told so, when the application calls
//! [`Delivery::ack`]. A [`Delivery`] that is dropped is handed out again.
//!
//! [`Node::receiver`] gives messages of one peer, or with one tag, their own queue. [`Node::at_most_once`] takes
//! messages when it returns them: if a task dies before it has acted on one, the message is lost.

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
