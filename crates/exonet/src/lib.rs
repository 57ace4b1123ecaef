//! Messages between machines that arrive **exactly once**, over UDP: encrypted, without a broker, and with an
//! honest answer to "what became of my message?".
#![deny(missing_docs)]

mod allow;
mod body;
mod builder;
mod clock;
mod driver;
mod engine;
mod error;
mod line;
mod message;
mod node;
mod peer_addr;
mod receipt;
mod receipts;
mod receive;
mod report;
mod resolve;
mod send;
mod shared;
mod socket;
mod timer;
mod trace;
mod turn;

pub use allow::{Allow, Question};
pub use body::Body;
pub use builder::Builder;
pub use error::{BodyError, BuildError, Closed, NotDelivered, SendError, SendFromError};
pub use message::Message;
pub use node::Node;
pub use peer_addr::{PeerAddr, PeerAddrError};
pub use receipt::Receipt;
pub use receipts::Settled;
pub use receive::{Delivery, Received};
pub use send::{BodyWriter, Permit};

pub use exonet_proto::crypto::SecretKey;
pub use exonet_proto::node::{
    CancelError, Config, CongestionChoice, Limits, OpenMessage, Outcome, PeerStats, Priority, Stats, Status,
};
pub use exonet_proto::{MessageId, NodeId, ParseNodeIdError};
