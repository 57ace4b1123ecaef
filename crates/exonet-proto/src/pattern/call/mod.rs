//! Calls: messages that are answered, and that run at most once. PROTOCOL.md "Calls".
//!
//! A call is a message whose name is its number, which is never used again. The caller's part is the letter, which stays in the
//! store until the reply, and an entry in [`Caller`] from the binding on. The server's part is an entry in [`Server`], made in
//! the same step in which the slot is consumed.

mod caller;
mod server;

pub(crate) use caller::{Caller, MAX_REPLY_ACKS};
pub(crate) use server::{Form, MAX_ANSWERS, Replies, Server};

use core::time::Duration;

/// Status of a reply: the handler is gone, or there never was one. The call has run in part, in full or not at all.
pub const FAILED: u32 = u32::MAX;
/// Status of a reply: the call has run, and its reply is longer than the caller takes.
pub const TOO_LARGE: u32 = u32::MAX - 1;
/// Status of a reply: no handler serves this method, and the call has certainly not run.
pub const NO_SUCH_METHOD: u32 = u32::MAX - 2;

/// Replies up to this length travel as a frame. Longer ones travel as messages back, for which a server that has sent nothing yet
/// must ask: this costs a round trip. A kilobyte, with the overhead of typed replies, fits into the smallest datagram, beside an
/// ACK.
pub(crate) const IN_A_FRAME: usize = 1_040;
/// The longest interval at which REPLY and PROBE are repeated; and that of PROBE for a call that is known to be computed.
const MAX_BACKOFF: Duration = Duration::from_secs(1);
const COMPUTING_BACKOFF: Duration = Duration::from_secs(5);
