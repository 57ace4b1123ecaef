//! Calls: messages that are answered, and that run at most once. PROTOCOL.md "Calls".
//!
//! A call is a message; its name is its number, which is never used again. The caller's part is the letter, which
//! stays in the store until the reply, and a place in [`Caller`] from the binding on. The server's part is an entry
//! in [`Server`], made in the same step in which the slot is consumed.

mod caller;
mod server;

pub(crate) use caller::{Caller, MAX_REPLY_ACKS};
pub(crate) use server::{Form, MAX_ANSWERS, Replies, Server};

use core::time::Duration;

/// Status of a reply: the handler is gone, or there never was one. The call has run in part, in full or not at all.
pub const FAILED: u32 = u32::MAX;
/// Status of a reply: the call has run, and its reply is longer than the caller takes.
pub const TOO_LARGE: u32 = u32::MAX - 1;
/// Status of a reply: nobody serves this method, and the call has certainly not run.
pub const NO_SUCH_METHOD: u32 = u32::MAX - 2;

/// Replies up to this travel as a frame; longer ones as messages back, for which a server that has sent nothing yet must ask:
/// a round trip. A kilobyte and what types add to it fit in the smallest datagram, beside an ACK.
pub(crate) const IN_A_FRAME: usize = 1_040;
/// REPLY and PROBE are repeated at least this often; PROBE of a call that is known to be computed, this often.
const MAX_BACKOFF: Duration = Duration::from_secs(1);
const COMPUTING_BACKOFF: Duration = Duration::from_secs(5);
