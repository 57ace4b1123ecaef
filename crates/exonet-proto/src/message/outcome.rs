//! What becomes of a message.

/// What became of a message. Exactly one of these, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The receiving application has taken it.
    Delivered,
    /// The receiving application has processed it: for a message that asked to be told.
    Processed {
        /// What the receiving application says of it; zero unless it says something.
        status: u32,
    },
    /// The receiving application does not take it: certainly not processed, and never handed out again.
    Rejected {
        /// What the receiving application says of it.
        status: u32,
        /// How many times it was handed out.
        attempts: u32,
    },
    /// Its deadline came first: certainly never delivered. It had not left, or its receiver has said that it was not taken.
    Expired,
    /// Cancelled while it had not left, or was not taken, as its receiver has said; or longer than the peer turned out to take,
    /// or come back without its beginning: certainly never delivered.
    Cancelled,
    /// The peer does not take it: certainly never delivered.
    Refused(Refusal),
    /// One of the two sides no longer knows: it happened once or not at all.
    Unknown,
    /// This node has ended first, and its journal keeps the message: the next life of its identity goes on with it. Only a
    /// driver that ends a node tells this.
    Kept,
}

/// Why a peer does not take a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Its policy does not let this node in.
    #[error("the peer does not let this node in")]
    Policy,
    /// It takes messages only, or calls only.
    #[error("the peer does not take messages of this kind: it takes calls only, or no calls")]
    Kind,
    /// It has ended, and its identity with it: no node is left to take anything.
    #[error("the peer has ended for good")]
    Ended,
}
