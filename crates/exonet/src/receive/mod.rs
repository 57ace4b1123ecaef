//! Receiving: deliveries under a guard, receivers of some peers or tags, and the short way that takes messages at once.
//!
//! [`Node::recv`] hands a message out. It is delivered, and its sender told so, when [`Delivery::ack`] says that it was dealt
//! with; a [`Delivery`] that is dropped is handed out again.
//!
//! [`Node::receiver`] gives messages of one peer, or with one tag, a queue of their own. [`Node::at_most_once`] takes
//! messages as it returns them: a task that dies before it has acted on one has lost it.

pub(crate) mod batch;
pub(crate) mod body;
pub(crate) mod delivery;
pub(crate) mod filter;
pub(crate) mod receiver;
pub(crate) mod routes;
pub(crate) mod unacked;

pub use batch::Batch;
pub use delivery::Received;
pub use filter::Filter;
pub use receiver::{AtMostOnce, Receiver};
pub use unacked::{Standing, Unacked};

pub use exonet_proto::node::View;

#[cfg(doc)]
use crate::{Delivery, Node};
