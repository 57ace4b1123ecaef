//! A stream of the outcomes of all messages that a node sends.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exonet_proto::node::{MessageKey, Outcome, PastOutcome, Status};
use exonet_proto::{DurabilityLevel, MessageId, NodeId, Slot};
use futures_core::Stream;
use tokio::sync::Notify;

use crate::after::{After, Chore};
use crate::engine::{Engine, Phase};
use crate::error::Closed;
use crate::node::Node;
use crate::peer::Peer;
use crate::send::receipts::Settled;

/// How many outcomes the node remembers: the newest. Messages that ended together count as one.
const RECENT: usize = 1_024;

/// How many outcomes may wait in a stream. Messages that ended together count as one.
const WAITING: usize = 16_384;

/// How many places of the core's table are read in one hold of the node's lock.
const PLACES: u32 = 64;

/// The outcome of a message: see [`Node::outcomes`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ended {
    /// The peer to which the message was sent.
    pub peer: NodeId,
    /// The id of the message at both ends. It does not contain the peer. None: the message never left.
    pub id: Option<MessageId>,
    /// The outcome of the message.
    pub outcome: Outcome,
    /// Whether the deadline had passed before.
    pub late: bool,
    /// The durability level of the receiver: see [`Settled::receiver_durability`].
    pub receiver_durability: Option<DurabilityLevel>,
    /// The reason that the receiving application gave, if any.
    pub reason: Option<Arc<str>>,
    /// How many outcomes right before this one were dropped, because the application read the stream too slowly.
    pub missed: u64,
}

/// The state of a message that has left: see [`Peer::status`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It has left, and its outcome is not known yet.
    InDoubt {
        /// Whether the deadline of the message has passed.
        late: bool,
    },
    /// It has an outcome.
    Ended(Ended),
}

/// Messages that ended together, in the order of their slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) peer: NodeId,
    pub(crate) count: u32,
    /// The outcome; the `id` belongs to the first message.
    pub(crate) settled: Settled,
    pub(crate) reason: Option<Arc<str>>,
}

impl Ending {
    pub(crate) fn past(sender: NodeId, past: &PastOutcome) -> Self {
        let PastOutcome { peer, bound, count, outcome, late, receiver_durability, ref reason, .. } = *past;
        let id = bound.map(|(s, r)| MessageId { sender, r, s });
        let settled = Settled { outcome, id, late, receiver_durability };
        Self { peer, count, settled, reason: reason.clone() }
    }

    fn nth(&self, n: u32) -> Ended {
        let Settled { outcome, id, late, receiver_durability } = self.settled;
        let id = id.map(|id| MessageId { s: Slot(id.s.0 + u64::from(n)), ..id });
        Ended {
            peer: self.peer,
            id,
            outcome,
            late,
            receiver_durability,
            reason: self.reason.clone(),
            missed: 0,
        }
    }

    fn of(&self, peer: &NodeId, id: &MessageId) -> Option<Ended> {
        self.place_of(id).filter(|_| self.peer == *peer).and_then(|n| self.nth_if(n))
    }

    /// The outcome of the message that comes `n` after the first, if it is among these.
    pub(crate) fn nth_if(&self, n: u64) -> Option<Ended> {
        let n = u32::try_from(n).ok().filter(|n| *n < self.count)?;
        Some(self.nth(n))
    }

    /// How many places after the first the message of this id would be.
    pub(crate) fn place_of(&self, id: &MessageId) -> Option<u64> {
        let first = self.settled.id.filter(|first| (first.sender, first.r) == (id.sender, id.r))?;
        id.s.0.checked_sub(first.s.0)
    }
}

/// What the engine and a stream share.
#[derive(Default)]
struct Feed {
    queue: Mutex<Queue>,
    come: Arc<Notify>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Ending>,
    /// How many messages of the first entry the stream has already returned.
    told: u32,
    /// How many messages were dropped before the first entry.
    missed: u64,
    is_over: bool,
}

impl Queue {
    fn put(&mut self, ending: Ending) {
        if self.waiting.len() >= WAITING
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.missed += u64::from(oldest.count - self.told);
            self.told = 0;
        }
        self.waiting.push_back(ending);
    }

    fn take(&mut self) -> Option<Ended> {
        let first = self.waiting.front()?;
        let ended = Ended { missed: core::mem::take(&mut self.missed), ..first.nth(self.told) };
        self.told += 1;
        if self.told >= first.count {
            self.waiting.pop_front();
            self.told = 0;
        }
        Some(ended)
    }
}

impl Queue {
    /// Returns the next outcome, or the end. None: there is nothing yet.
    fn next(&mut self) -> Option<Result<Ended, Closed>> {
        self.take().map(Ok).or_else(|| self.is_over.then_some(Err(Closed)))
    }
}

impl Feed {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The streams of outcomes, and the outcomes that the node remembers.
#[derive(Default)]
pub(crate) struct Outlets {
    feeds: Vec<Arc<Feed>>,
    recent: VecDeque<Ending>,
    /// How many of them, at the front, are of former lives.
    former: usize,
}

impl Outlets {
    /// Remembers the outcomes of former lives. The streams do not tell them.
    pub(crate) fn recall<'a>(&mut self, sender: NodeId, past: impl Iterator<Item = &'a PastOutcome>) {
        self.recent.extend(past.map(|past| Ending::past(sender, past)));
        self.former = self.recent.len();
    }

    pub(crate) fn tell(&mut self, ending: Ending, after: &mut After) {
        for feed in &self.feeds {
            feed.queue().put(ending.clone());
            after.chores.push(Chore::All(Arc::clone(&feed.come)));
        }
        if self.recent.len() >= RECENT {
            self.recent.pop_front();
            self.former = self.former.saturating_sub(1);
        }
        self.recent.push_back(ending);
    }

    pub(crate) const fn are_read(&self) -> bool {
        !self.feeds.is_empty()
    }

    /// Ends the streams.
    pub(crate) fn end(&mut self, after: &mut After) {
        for feed in self.feeds.drain(..) {
            feed.queue().is_over = true;
            after.chores.push(Chore::All(Arc::clone(&feed.come)));
        }
    }

    fn open(&mut self, is_over: bool) -> Arc<Feed> {
        let waiting = self.recent.iter().skip(self.former).cloned().collect();
        let queue = Queue { waiting, is_over, ..Queue::default() };
        let feed = Arc::new(Feed { queue: Mutex::new(queue), come: Arc::default() });
        if !is_over {
            self.feeds.push(Arc::clone(&feed));
        }
        feed
    }

    fn leave(&mut self, feed: &Arc<Feed>) {
        self.feeds.retain(|known| !Arc::ptr_eq(known, feed));
    }
}

impl Engine {
    /// Passes the outcome of messages to the streams.
    pub(crate) fn tell_ended(&mut self, peer: NodeId, count: u32, settled: Settled) {
        let judged = matches!(settled.outcome, Outcome::Processed { .. } | Outcome::Rejected { .. });
        let reason = settled.id.filter(|_| judged).and_then(|id| self.reason(&id));
        self.outlets.tell(Ending { peer, count, settled, reason }, &mut self.after);
    }

    /// Passes the last outcome of every open message to the streams.
    pub(crate) fn tell_last_words(&mut self, last_word: impl Fn(&Self, MessageKey) -> Option<Settled>) {
        if self.phase != Phase::Broken && self.outlets.are_read() {
            for open in self.core.open_messages() {
                if let Some(settled) = last_word(self, open.key) {
                    self.tell_ended(open.peer, 1, settled);
                }
            }
        }
        self.outlets.end(&mut self.after);
    }

    fn recent_fate(&self, peer: &NodeId, id: &MessageId) -> Option<Ended> {
        self.outlets.recent.iter().rev().find_map(|ending| ending.of(peer, id))
    }
}

/// A future that waits for the next outcome of a stream.
type Waiting = Pin<Box<dyn Future<Output = Result<Ended, Closed>> + Send + Sync>>;

/// The outcomes of a node's messages: see [`Node::outcomes`]. It is a [`Stream`] that ends when the node has ended.
/// It does not keep the node running.
pub struct Outcomes {
    node: std::sync::Weak<crate::shared::Shared>,
    feed: Arc<Feed>,
    /// Set while the stream is polled.
    waiting: Option<Waiting>,
}

async fn next(feed: Arc<Feed>) -> Result<Ended, Closed> {
    loop {
        let come = feed.come.notified();
        if let Some(told) = feed.queue().next() {
            return told;
        }
        // `come` was created before the look at the queue, so nothing is missed.
        come.await;
    }
}

impl Outcomes {
    /// Waits for the next outcome. Cancel-safe.
    ///
    /// # Errors
    /// [`Closed`]: the node has ended, and all outcomes have been returned.
    pub async fn recv(&mut self) -> Result<Ended, Closed> {
        next(Arc::clone(&self.feed)).await
    }

    /// Returns the next outcome, if one waits.
    pub fn try_recv(&mut self) -> Option<Ended> {
        self.feed.queue().take()
    }
}

impl Stream for Outcomes {
    type Item = Ended;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Ended>> {
        let this = self.get_mut();
        let feed = &this.feed;
        let waiting = this.waiting.get_or_insert_with(|| Box::pin(next(Arc::clone(feed))));
        let ended = ready!(waiting.as_mut().poll(cx));
        this.waiting = None;
        Poll::Ready(ended.ok())
    }
}

impl Drop for Outcomes {
    fn drop(&mut self) {
        if let Some(shared) = self.node.upgrade() {
            shared.amend(|engine| engine.outlets.leave(&self.feed));
        }
    }
}

impl fmt::Debug for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcomes").finish_non_exhaustive()
    }
}

impl Node {
    /// Returns a stream of the outcomes of all messages that this node sends, in the order in which the node learns
    /// them. It does not matter whether anybody holds their receipts. The messages that a former life has left
    /// ([`Self::recovered`]) are included. The stream begins with the outcomes of this life that the node still
    /// remembers for [`Peer::status`]: the newest 1,024. What ended in a former life does not come again.
    ///
    /// The node does not wait for the reader. Up to 16,384 outcomes wait, where messages that ended together count as
    /// one. If there are more, the node drops the oldest, and [`Ended::missed`] of the next outcome says how many. A
    /// call with a reply is not reported; a call that ends without one is. When the node ends, open messages are
    /// reported with the outcome of their receipts: [`Outcome::Kept`], Cancelled or Unknown.
    ///
    /// ```
    /// # use exonet::{Allow, Node, Outcome};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// let mut outcomes = alice.outcomes();
    /// drop(alice.peer(bob.peer_addr()).send("pay 3").await?);
    /// bob.recv().await?.reject("no such account");
    /// let ended = outcomes.recv().await?;
    /// assert!(matches!(ended.outcome, Outcome::Rejected { .. }));
    /// assert_eq!((ended.peer, ended.reason.as_deref()), (bob.id(), Some("no such account")));
    /// # Ok(())
    /// # }
    /// ```
    pub fn outcomes(&self) -> Outcomes {
        let shared = self.shared();
        let feed = shared.amend(|engine| {
            let is_over = engine.phase >= Phase::Stopped;
            engine.outlets.open(is_over)
        });
        Outcomes { node: Arc::downgrade(shared), feed, waiting: None }
    }
}

impl Peer {
    /// Returns the state of a message to this peer, by its id: it has left, or it has ended. The node remembers the
    /// newest 1,024 outcomes of all peers together, where messages that ended together count as one. None: the node
    /// does not know the id, or knows it no longer, or the message has come back and will leave with another id.
    ///
    /// A node with a journal ([`Builder::durability`](crate::Builder::durability)) remembers these outcomes over its
    /// lives, also after a crash: an outcome is told only once the journal has it, as durably as that the message has
    /// ended. So an application that was killed before it noticed an outcome finds it here, if it has kept the id.
    /// Calls, and messages whose body the application [writes](crate::send::BodyWriter) as it leaves, are not in the
    /// journal: the next life does not know them. A node without a journal starts with nothing.
    ///
    /// A message that has not left has no id, and a message that has left together with an opening has none until the
    /// peer has answered: see [`Receipt::status`](crate::Receipt::status) and [`Node::outbox`] for these. This method
    /// takes time in proportion to the number of open messages.
    pub fn status(&self, id: &MessageId) -> Option<Fate> {
        let (shared, peer) = (self.node().shared(), self.id());
        let mut from = Some(0);
        while let Some(at) = from {
            let (late, next) = shared.look(|engine| {
                if engine.phase >= Phase::Stopped {
                    return (None, None);
                }
                let (open, next) = engine.core.open_messages_from(at, PLACES);
                let late =
                    open.into_iter().filter(|open| open.peer == peer).find_map(|open| match open.status {
                        Status::InDoubt { id: its, late, .. } if its == *id => Some(late),
                        _ => None,
                    });
                (late, next)
            });
            if let Some(late) = late {
                return Some(Fate::InDoubt { late });
            }
            from = next;
        }
        // Asked last, to find a message that has ended meanwhile.
        shared.look(|engine| engine.recent_fate(&peer, id)).map(Fate::Ended)
    }
}

#[cfg(test)]
mod tests {
    use exonet_proto::Incarnation;

    use super::*;

    fn ending(s: u64, count: u32) -> Ending {
        let id = MessageId { sender: NodeId([1; 32]), r: Incarnation(2), s: Slot(s) };
        let settled = Settled::with_id(Outcome::Delivered, id);
        Ending { peer: NodeId([9; 32]), count, settled, reason: None }
    }

    #[test]
    fn a_stream_that_is_not_read_drops_the_oldest_and_says_how_many() {
        let (mut outlets, mut after) = (Outlets::default(), After::default());
        let feed = outlets.open(false);
        outlets.tell(ending(0, 10), &mut after);
        assert_eq!(feed.queue().take().map(|ended| ended.missed), Some(0));
        (1..=WAITING as u64 + 1).for_each(|n| outlets.tell(ending(10 * n, 1), &mut after));
        let first = feed.queue().take().unwrap();
        assert_eq!((first.id.unwrap().s, first.missed), (Slot(20), 9 + 1));
        assert_eq!(feed.queue().take().map(|ended| ended.missed), Some(0));
        assert_eq!(outlets.recent.len(), RECENT);
        outlets.leave(&feed);
        assert!(!outlets.are_read());
    }

    #[test]
    fn a_message_is_found_among_those_that_ended_together_and_with_its_peer() {
        let run = ending(5, 3);
        let id = |s| MessageId { s: Slot(s), ..run.settled.id.unwrap() };
        let found = [4, 5, 7, 8].map(|s| run.of(&run.peer, &id(s)).and_then(|ended| ended.id));
        assert_eq!(found, [None, Some(id(5)), Some(id(7)), None]);
        assert!(run.of(&NodeId([8; 32]), &id(5)).is_none());
    }
}
