//! The node for programs without an async runtime: methods block the calling thread.
//!
//! A [`Node`] has a thread of its own, which runs the async runtime. Methods that never block are those of the async
//! types, which [`Node::get_ref`] and [`Peer::get_ref`] lend. Called from an async task, a method of this module
//! blocks the thread of that task.
//!
//! ```
//! use std::time::Duration;
//! use exonet::{Allow, Outcome, blocking};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let alice = blocking::Node::build(exonet::Node::builder(Allow::anyone()).bind("127.0.0.1:0"))?;
//! let bob = blocking::Node::build(exonet::Node::builder(Allow::anyone()).bind("127.0.0.1:0"))?;
//!
//! let receipt = alice.peer(bob.get_ref().peer_addr()).send("hello")?;
//! let mut delivery = bob.recv()?;
//! assert_eq!(delivery.bytes(1024)?, "hello");
//! delivery.ack()?;
//! assert_eq!(receipt.wait().outcome, Outcome::Delivered);
//! alice.close(Duration::from_secs(5));
//! # Ok(())
//! # }
//! ```

/// Implements `Debug` by that of the async type inside.
macro_rules! debugs {
    ($($kind:ident . $field:ident),*) => {
        $(impl core::fmt::Debug for $kind {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_tuple(stringify!($kind)).field(&self.$field).finish()
            }
        })*
    };
}

mod call;
mod group;
mod node;
mod outcomes;
mod peer;
mod receive;
mod runtime;
mod send;
mod session;
mod stream;

pub use call::{Reply, Request};
pub use group::{Group, GroupReceipt, GroupStream};
pub use node::Node;
pub use outcomes::Outcomes;
pub use peer::Peer;
pub use receive::{AtMostOnce, Delivery, Received, Receiver};
pub use send::{BatchReceipt, MessageSink, Permit, Receipt};
pub use session::{Session, SessionEvents, SessionListener, SessionReceiver, SessionSender, SessionWriter};
pub use stream::{ByteReader, ByteWriter, Stream, StreamListener, StreamReceiver, StreamSender};
