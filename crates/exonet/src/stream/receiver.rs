//! The receiving direction of a stream.

use core::task::{Context, Poll};
use std::sync::Arc;

use bytes::Bytes;
use exonet_proto::MessageId;
use exonet_proto::node::{Gap, InStream, Incoming, StreamEnd};

use super::Handle;
use super::desk::Taken;
use crate::engine::Engine;
use crate::peer::Peer;
use crate::receive::Received;
use crate::receive::batch::Batch;
use crate::receive::delivery::Delivery;

/// The errors of receiving in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// This number of messages is missing here: their sender gave them up, or was told that their outcome is Unknown.
    /// The stream continues after them.
    #[error("{0} messages are missing before the next one of this stream")]
    Missing(u64),
    /// This number of messages came before the next one, and this process does not know them: an earlier process,
    /// which kept no journal, has taken them. The stream continues.
    #[error("{0} messages of this stream came before this process")]
    Continues(u64),
    /// The sender has given up the rest of the stream: there are no more messages.
    #[error("the stream was reset by its sender")]
    Reset,
    /// The sender has forgotten the stream, because its process ended and kept no journal, and has begun another of
    /// this name. This stream has no more messages. The other stream waits for a new handle.
    #[error("the sender has forgotten this stream, and begun another of this name")]
    Broken,
    /// The node is closed.
    #[error("the node is closed")]
    Closed,
}

/// Receives the messages of the peer in a stream, in order.
///
/// A message is handed out once the application has finished with the one before it. If the application drops a
/// message without [`Delivery::ack`], the node hands it out again, before any other message of the stream.
#[derive(Debug)]
pub struct StreamReceiver {
    handle: Arc<Handle>,
    /// A message to hand out after the error that precedes it.
    next: Option<Delivery>,
    /// How the stream has ended, if it has.
    end: Option<Result<(), StreamError>>,
    /// The last message that this handle has returned.
    last: Option<MessageId>,
    /// Whether this handle has returned the first message of the stream.
    opened: bool,
}

impl StreamReceiver {
    pub(super) const fn new(handle: Arc<Handle>) -> Self {
        Self { handle, next: None, end: None, last: None, opened: false }
    }

    /// The peer at the other end.
    pub fn peer(&self) -> &Peer {
        &self.handle.peer
    }

    /// The name of the stream.
    pub fn name(&self) -> &Bytes {
        &self.handle.claim.id.1
    }

    /// Waits for the next message, and returns it under a guard. None: the stream has ended, and every message was
    /// received.
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`StreamError`]. `Missing` and `Continues` are returned once, and the next call continues after them. Any
    /// other error is returned by every later call.
    pub async fn recv(&mut self) -> Result<Option<Delivery>, StreamError> {
        tokio::task::coop::consume_budget().await;
        loop {
            if let Some(found) = self.look() {
                return found;
            }
            self.handle.claim.readable.notified().await;
        }
    }

    /// Waits for the next message, and returns it without a guard: it counts as delivered when it is returned, and is
    /// lost if the process dies before it has acted on it. This is faster than [`Self::recv`].
    ///
    /// Cancel-safe, except on a node that forces its journal to the disk: if the caller drops the future there, a
    /// message may be lost.
    ///
    /// # Errors
    /// The errors of [`Self::recv`].
    pub async fn recv_at_most_once(&mut self) -> Result<Option<Received>, StreamError> {
        tokio::task::coop::consume_budget().await;
        loop {
            if let Some(next) = self.take_next() {
                return Ok(Some(next));
            }
            let Some(delivery) = self.recv().await? else { return Ok(None) };
            // If the record of the message is gone, the message was not delivered: it is handed out again, or its
            // sender is told.
            if let Ok(received) = delivery.take() {
                let shared = self.handle.peer.shared();
                let at = shared.look(|engine| engine.accepted_at());
                shared.until_safe(at).await.map_err(|_| StreamError::Closed)?;
                return Ok(Some(received));
            }
        }
    }

    /// Waits for a message, then takes up to `most` messages that are there, under one hold of the lock and without a
    /// guard. This is the fastest way. None: the stream has ended, and every message was received.
    ///
    /// If an error lies between two messages, the batch ends before it, and the next call returns the error.
    ///
    /// Cancel-safe like [`Self::recv_at_most_once`].
    ///
    /// ```
    /// # use exonet::{Allow, Node};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// let (mut log, _) = alice.peer(bob.peer_addr()).stream("log")?.split();
    /// for n in 0..100 {
    ///     log.send(format!("line {n}")).await?;
    /// }
    /// log.close().await?;
    ///
    /// let (_, mut lines) = bob.accept_stream().await?.split();
    /// let mut count = 0;
    /// while let Some(batch) = lines.recv_batch(64).await? {
    ///     count += batch.len();
    /// }
    /// assert_eq!(count, 100);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Self::recv`].
    pub async fn recv_batch(&mut self, most: usize) -> Result<Option<Batch>, StreamError> {
        let taken = self.take_many(most);
        let shared = Arc::clone(self.handle.peer.shared());
        if taken.is_empty() && most > 0 {
            // There is no message yet, or there is an error to return.
            let Some(received) = self.recv_at_most_once().await? else { return Ok(None) };
            let more = self.take_many(most - 1);
            let more = more.into_iter().map(|message| Received::new(&shared, message, true));
            return Ok(Some(Batch::of(&shared, core::iter::once(received).chain(more).collect())));
        }
        tokio::task::coop::consume_budget().await;
        let taken = taken.into_iter().map(|message| Received::new(&shared, message, true));
        Ok(Some(Batch::of(&shared, taken.collect())))
    }

    /// Whether the next message can be taken in one step, without an error to return: it follows directly after the
    /// one before, or it opens the stream for a handle that has returned no message yet.
    fn is_plain(gap: Gap, end: StreamEnd, first: bool) -> bool {
        match (gap, end) {
            (Gap::None, StreamEnd::Open) => true,
            (Gap::Opens, StreamEnd::Open) => first,
            _ => false,
        }
    }

    /// Takes the next message, if it is [plain](Self::is_plain).
    fn take_next(&mut self) -> Option<Received> {
        if self.next.is_some() || self.end.is_some() {
            return None;
        }
        let first = self.last.is_none();
        let wants = |gap, end| Self::is_plain(gap, end, first);
        let shared = self.handle.peer.shared();
        let (peer, name) = &self.handle.claim.id;
        let said = shared.step_calmly(|engine, now| engine.take_next_in_stream(now, peer, name, wants))?;
        self.last = Some(said.message.id);
        self.opened |= said.gap == Gap::Opens;
        Some(Received::new(shared, said.message, true))
    }

    /// Takes up to `most` messages, as long as they are [plain](Self::is_plain).
    fn take_many(&mut self, most: usize) -> Vec<Incoming> {
        if self.next.is_some() || self.end.is_some() || most == 0 {
            return Vec::new();
        }
        let fresh = self.last.is_none();
        let wants = |gap, end, first| Self::is_plain(gap, end, fresh && first);
        let (peer, name) = &self.handle.claim.id;
        let take = |engine: &mut Engine, now| engine.take_many_in_stream(now, (peer, name), most, wants);
        let taken = self.handle.peer.shared().step_calmly(take);
        self.last = taken.last().map(|said| said.message.id).or(self.last);
        self.opened |= taken.iter().any(|said| said.gap == Gap::Opens);
        taken.into_iter().map(|said| said.message).collect()
    }

    /// Like [`Self::recv`], as a poll: the task is woken when there is something to receive.
    pub(super) fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        waiting: &mut Option<super::bytes::Waiting>,
    ) -> Poll<Result<Option<Delivery>, StreamError>> {
        loop {
            if let Some(waits) = waiting {
                core::task::ready!(waits.as_mut().poll(cx));
                *waiting = None;
            }
            if let Some(found) = self.look() {
                return Poll::Ready(found);
            }
            let handle = Arc::clone(&self.handle);
            *waiting = Some(Box::pin(async move { handle.claim.readable.notified().await }));
        }
    }

    /// Whether this handle has returned the first message of the stream.
    pub(crate) const fn has_opened(&self) -> bool {
        self.opened
    }

    /// Stops reading. The node rejects the messages that still come before the stream ends, with the first 200 bytes
    /// of this reason. The sender learns this for each message. A node remembers the newest 4,096 stopped streams of
    /// a peer. Later messages of an older one wait for another handle.
    pub fn stop(mut self, reason: impl AsRef<str>) {
        self.stop_at_once(reason.as_ref());
    }

    pub(super) fn stop_at_once(&mut self, reason: &str) {
        self.next = None;
        if self.end.is_none() {
            let (id, last) = (self.handle.claim.id.clone(), self.last);
            self.handle.peer.shared().step_calmly(|engine, now| engine.stop_stream(now, id, reason, last));
        }
    }

    /// Returns the next message, or the end, if it is there. None: there is nothing yet.
    pub(crate) fn look(&mut self) -> Option<Result<Option<Delivery>, StreamError>> {
        if let Some(next) = self.next.take() {
            return Some(Ok(Some(next)));
        }
        if let Some(end) = self.end {
            return Some(end.map(|()| None));
        }
        let shared = self.handle.peer.shared();
        let (peer, name) = &self.handle.claim.id;
        let taken = shared.step_calmly(|engine, now| engine.take_in_stream(now, peer, name));
        let said = match taken {
            Taken::Message(said) => *said,
            Taken::Nothing => return None,
            Taken::Closed => return Some(Err(StreamError::Closed)),
        };
        Some(self.heed(said))
    }

    /// Interprets a message that has come. If there is an error about it, this returns the error, and keeps the
    /// message.
    fn heed(&mut self, said: InStream) -> Result<Option<Delivery>, StreamError> {
        let InStream { message, gap, end, .. } = said;
        // A message that is handed out again carries a gap that was already reported.
        let again = self.last == Some(message.id);
        let gap = if again { Gap::None } else { gap };
        let other = match gap {
            Gap::Breaks => true,
            Gap::Opens => self.last.is_some(),
            _ => false,
        };
        if other {
            // The message belongs to another stream. It waits for another handle, to which the break is not reported.
            if gap == Gap::Breaks {
                let (peer, name) = &self.handle.claim.id;
                let shared = self.handle.peer.shared();
                shared.step_calmly(|engine, now| engine.break_stream(now, peer, name, message.id));
            }
            drop(Delivery::new(self.handle.peer.shared(), message));
            return self.ends(Err(StreamError::Broken));
        }
        self.last = Some(message.id);
        self.opened |= gap == Gap::Opens;
        let found = match end {
            StreamEnd::Open => None,
            StreamEnd::Last => Some(Ok(())),
            StreamEnd::Reset => Some(Err(StreamError::Reset)),
        };
        match (found, is_empty(&message)) {
            (Some(end), true) => {
                // The message only says that the stream has ended.
                let _ = Delivery::new(self.handle.peer.shared(), message).ack();
                self.end = Some(end);
            }
            (end, _) => {
                self.end = end;
                self.next = Some(Delivery::new(self.handle.peer.shared(), message));
            }
        }
        match gap {
            Gap::Missing(n) => Err(StreamError::Missing(n)),
            Gap::Continues(n) => Err(StreamError::Continues(n)),
            _ => match (self.next.take(), self.end) {
                (Some(next), _) => Ok(Some(next)),
                (None, Some(Err(error))) => Err(error),
                (None, _) => Ok(None),
            },
        }
    }

    fn ends(&mut self, how: Result<(), StreamError>) -> Result<Option<Delivery>, StreamError> {
        self.end = Some(how);
        how.map(|()| None)
    }
}

fn is_empty(message: &Incoming) -> bool {
    matches!(&message.body, exonet_proto::node::IncomingBody::Whole(body) if body.is_empty())
}
