//! Sending: the properties of a message, and its outcome.
//!
//! [`Peer::send`](crate::Peer::send) returns a [`Receipt`](crate::Receipt), which ends in one [`Settled`]. Messages
//! that are sent together share a [`BatchReceipt`], which counts their outcomes. A [`MessageSink`] collects the
//! messages that one task sends.

pub(crate) mod intake;
pub(crate) mod line;
pub(crate) mod lot;
pub(crate) mod message;
pub(crate) mod outcomes;
pub(crate) mod past;
pub(crate) mod permit;
pub(crate) mod reasons;
pub(crate) mod receipt;
pub(crate) mod receipts;
pub(crate) mod room;
pub(crate) mod sink;
pub(crate) mod waiting;
pub(crate) mod writer;

pub use outcomes::{Ended, Fate, Outcomes};
pub use past::PastOutcomes;
pub use permit::Permit;
pub use receipt::BatchReceipt;
pub use receipts::{Settled, Tally};
pub use sink::MessageSink;
pub use waiting::Waiting;
pub use writer::BodyWriter;

pub use exonet_proto::node::{Cancel, CancelError, MessageKey, OpenMessage, Refusal, Status};
