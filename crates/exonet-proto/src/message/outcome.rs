//! The outcomes of messages.

/// The outcome of a message. Each message has exactly one, once. The set is closed, so that an application can match
/// all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The receiving application has taken it.
    Delivered,
    /// The receiving application has processed the message. Only for a message whose sender asked to be told.
    Processed {
        /// The status that the receiving application gave; zero if it gave none.
        status: u32,
    },
    /// The receiving application rejects the message: it is certainly not processed, and never handed out again.
    Rejected {
        /// The status that the receiving application gave.
        status: u32,
        /// How many times it was handed out.
        attempts: u32,
    },
    /// The deadline came first: certainly never delivered. The message had not left, or its receiver has said that it was not
    /// taken.
    Expired,
    /// Certainly never delivered. The message was cancelled before it left, or its receiver has said that it was not taken. Or it
    /// is longer than the peer takes, or has come back without its beginning.
    Cancelled,
    /// The peer does not take the message: certainly never delivered.
    Refused(Refusal),
    /// One of the two sides does not know any more: the message was delivered once or not at all.
    Unknown,
    /// This node has ended first, and its journal keeps the message: the next life of its identity goes on with it. Only a driver
    /// that ends a node reports this.
    Kept,
}

/// Why a peer does not take a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The policy of the peer does not let this node in.
    #[error("the peer does not let this node in")]
    Policy,
    /// The peer takes only messages, or only calls.
    #[error("the peer does not take messages of this kind: it takes calls only, or no calls")]
    Kind,
    /// The peer has ended, and its identity with it: no node is left to take anything.
    #[error("the peer has ended for good")]
    Ended,
}
