//! What an application's own scheduler is asked, and what it sees of the messages that wait.

use core::fmt::Debug;

use bytes::Bytes;

use super::Priority;
use super::lane::LaneKey;
use super::queue::Flow;
use crate::time::Mono;

/// The most that a scheduler can choose from at once.
pub const MOST_WAITING: usize = 256;

/// What kind of message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A plain message.
    Message,
    /// A call.
    Call,
    /// The reply to a call.
    Reply,
    /// A message of a stream.
    Stream,
}

/// A message that could leave now, and is the first of those that leave in one order: plain messages of one priority, calls of one
/// method, replies, messages of one stream, or the messages above 64 KiB of one priority, which take turns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// Its priority.
    pub priority: Priority,
    /// What it is.
    pub kind: Kind,
    /// The tag of a plain message, the method of a call, the name of a stream; else empty. (The name of a stream that carries a session
    /// of the library `exonet` begins with a zero byte and eight more.)
    pub name: Bytes,
    /// It is longer than 64 KiB: it leaves in many pieces, and each is chosen anew.
    pub large: bool,
    /// Its length in bytes, with its head.
    pub bytes: u64,
    /// When it expires.
    pub deadline: Option<Mono>,
    /// How many messages to the peer were accepted up to this one: the older, the less.
    pub order: u64,
    /// Where it stands.
    pub(crate) flow: Flow,
    pub(crate) lane: LaneKey,
}

/// A scheduler of the messages to one peer: which of those that could leave now goes next.
///
/// A node without one serves priorities by weight, and the lanes of one priority (calls of a method, streams) by turns, a packet
/// each; both by deficit round robin.
///
/// # What the node does in any case
/// * What was lost leaves before anything new, and what a handshake or a connection needs is no message: a scheduler is not asked
///   about these, nor about messages that leave beside an opening.
/// * Messages of one stream, and plain messages of one priority, keep their order: only the first of each can be chosen.
/// * What has no room in the window of its lane is not offered again until it has. If the choice is a plain message without room in the
///   window of plain messages, the scheduler is asked again without those that would take room from there.
/// * If the answer is None or out of range, the node chooses as one without a scheduler does. After each 100 ms in which there was
///   always a choice it does so once in any case, and counts what all have sent: so nothing waits for ever.
/// * Where there is only one to choose, or the peer grants no new slots, the scheduler is not asked.
///
/// # Contract
/// * Time comes from outside: a scheduler reads no clock, and draws no randomness but from a seed of its own, if runs are to be repeated.
/// * The calls are made under the node's lock, about once for each message or piece of one: each should take well below a
///   microsecond, must not block, and must not call the node. To be asked costs the node time that grows with the number of those
///   that wait, up to [`MOST_WAITING`].
/// * A panic passes through the core, which is of no use afterwards; the library `exonet` stops the node then.
///
/// ```
/// use exonet_proto::Mono;
/// use exonet_proto::parts::{Scheduler, Waiting};
///
/// /// The earliest deadline first, then the oldest.
/// #[derive(Debug)]
/// struct EarliestDeadline;
///
/// impl Scheduler for EarliestDeadline {
///     fn next(&mut self, _: Mono, waiting: &[Waiting]) -> Option<usize> {
///         let key = |at: &usize| waiting.get(*at).map(|w| (w.deadline.unwrap_or(Mono::NEVER), w.order));
///         (0..waiting.len()).min_by_key(key)
///     }
/// }
/// ```
pub trait Scheduler: Debug + Send {
    /// Which goes next: an index into `waiting`, which holds 2 to [`MOST_WAITING`]; with more lanes than that, those whose turn would
    /// come next. None: as without a scheduler.
    ///
    /// The choice may not fit into the packet that is filled; then the scheduler is asked again for the next packet.
    fn next(&mut self, now: Mono, waiting: &[Waiting]) -> Option<usize>;

    /// A chosen message, or a piece of it, leaves: `bytes` of it. Told only of what [`next`](Self::next) has chosen.
    fn on_sent(&mut self, _now: Mono, _sent: &Waiting, _bytes: u64) {}
}
