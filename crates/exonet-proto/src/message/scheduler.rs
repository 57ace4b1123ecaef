//! What an application's own scheduler is asked, and what it sees of the waiting messages.

use core::fmt::Debug;

use bytes::Bytes;

use super::Priority;
use super::lane::LaneKey;
use super::queue::Flow;
use crate::time::Mono;

/// The most messages that a scheduler can choose from at once.
pub const MOST_WAITING: usize = 256;

/// The kind of a message.
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

/// A message that could leave now, the first of those that leave in one order: plain messages of one priority, calls of one
/// method, replies, messages of one stream, or the messages above 64 KiB of one priority, which take turns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// The priority of the message.
    pub priority: Priority,
    /// The kind of the message.
    pub kind: Kind,
    /// The tag of a plain message, the method of a call, or the name of a stream; otherwise empty. (The name of a stream that
    /// carries a session of the library `exonet` begins with a zero byte and eight more.)
    pub name: Bytes,
    /// The message is longer than 64 KiB: it leaves in many pieces, and each piece is chosen separately.
    pub large: bool,
    /// The length of the message in bytes, with its head.
    pub bytes: u64,
    /// When the message expires.
    pub deadline: Option<Mono>,
    /// How many messages to the peer had been accepted, including this one: the older, the lower.
    pub order: u64,
    /// The place of the message in the queue.
    pub(crate) flow: Flow,
    pub(crate) lane: LaneKey,
}

/// A scheduler of the messages to one peer: it chooses which of those that could leave now leaves next.
///
/// A node without one serves priorities by weight, and the lanes of one priority (calls of a method, streams) by turns of one
/// packet each. Both use deficit round robin.
///
/// # What the node does in any case
/// * Data that was lost leaves before anything new, and what a handshake or a connection needs is not a message. A scheduler is
///   not asked about these, nor about messages that leave beside an opening.
/// * Messages of one stream, and plain messages of one priority, keep their order: only the first of each can be chosen.
/// * A message that has no room in the window of its lane is not offered again until it has. If the choice is a plain message
///   without room in the window of plain messages, the scheduler is asked again without the messages that would take room from
///   that window.
/// * If the answer is None or out of range, the node chooses as it does without a scheduler. After each 100 ms in which there was
///   always a choice, the node chooses once in any case, and takes into account what all have sent: so nothing waits for ever.
/// * If there is only one message to choose, or the peer grants no new slots, the scheduler is not asked.
///
/// # Contract
/// * Time comes from outside: a scheduler reads no clock. If runs are to be repeatable, it draws randomness only from a seed of
///   its own.
/// * The node makes the calls under its lock, about once for each message or piece of one: each should take well below a
///   microsecond, must not block, and must not call the node. Each question costs the node time that grows with the number of
///   waiting messages, up to [`MOST_WAITING`].
/// * A panic unwinds through the core, which must not be used afterwards; the library `exonet` then stops the node.
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
    /// Chooses which message leaves next: an index into `waiting`, which holds 2 to [`MOST_WAITING`] messages. If there are more
    /// lanes than that, it holds those whose turn would come next. None: chooses as without a scheduler.
    ///
    /// The chosen message may not fit into the present packet; then the scheduler is asked again for the next packet.
    fn next(&mut self, now: Mono, waiting: &[Waiting]) -> Option<usize>;

    /// A chosen message, or a piece of it, leaves: `bytes` of it. The scheduler is told only about what [`next`](Self::next) has
    /// chosen.
    fn on_sent(&mut self, _now: Mono, _sent: &Waiting, _bytes: u64) {}
}
