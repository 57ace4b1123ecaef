//! The sender's handle on a message.

use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::Arc;

use exonet_proto::node::{Cancel, CancelError, MessageKey, OpenMessage, Outcome, Status};
use exonet_proto::{MessageId, Now};

use crate::engine::Engine;
use crate::send::lot::Lot;
use crate::send::receipts::{Settled, SlotIndex, Tally};
use crate::shared::Shared;

/// The handle that `send` returns. It tells where the message is now and, in the end, its outcome.
///
/// In every case it ends in exactly one [`Settled`]; awaiting it again gives the same result. Dropping it neither
/// cancels the message nor speeds it up.
#[must_use = "a receipt says what became of the message; drop it only if that does not matter"]
pub struct Receipt {
    hold: Hold,
    settled: Option<Settled>,
}

/// Where the outcome of the message is stored.
enum Hold {
    /// In the table of the node. The slot becomes free when the outcome is returned, or the receipt is dropped.
    Table { shared: Arc<Shared>, slot: SlotIndex },
    /// In the record of messages that were queued together.
    Lot { lot: Arc<Lot>, at: u32, waits: bool },
}

impl Hold {
    /// Asks the engine about the message, if the message is open and the node exists.
    fn ask<T>(&self, ask: impl FnOnce(&mut Engine, Now, MessageKey) -> T) -> Option<T> {
        match self {
            Self::Table { shared, slot } => shared.step(|engine, now| {
                let key = engine.receipts.key(*slot)?;
                Some(ask(engine, now, key))
            }),
            // The message has a key once someone holds the node's lock.
            Self::Lot { lot, at, .. } => {
                lot.shared.upgrade()?.step(|engine, now| Some(ask(engine, now, lot.key(*at)?)))
            }
        }
    }
}

impl Receipt {
    pub(crate) fn new(shared: Arc<Shared>, slot: SlotIndex) -> Self {
        Self { hold: Hold::Table { shared, slot }, settled: None }
    }

    /// The receipt of message `at` of a lot.
    pub(crate) fn of_lot(lot: Arc<Lot>, at: u32) -> Self {
        Self { hold: Hold::Lot { lot, at, waits: false }, settled: None }
    }

    /// Where the message is now.
    pub fn status(&self) -> Status {
        if self.settled.is_some() {
            return Status::Settled;
        }
        let look = |engine: &Engine, key: Option<MessageKey>| {
            key.map_or(Status::Settled, |key| engine.core.status(key))
        };
        match &self.hold {
            Hold::Table { shared, slot } => shared.look(|engine| look(engine, engine.receipts.key(*slot))),
            Hold::Lot { lot, at, .. } => {
                let shared = lot.shared.upgrade();
                shared.map_or(Status::Settled, |shared| shared.look(|engine| look(engine, lot.key(*at))))
            }
        }
    }

    /// The outcome of the message, if it is known already.
    pub fn settled(&self) -> Option<Settled> {
        self.settled.or_else(|| match &self.hold {
            Hold::Table { shared, slot } => shared.look(|engine| engine.receipts.settled(*slot)),
            Hold::Lot { lot, at, .. } => lot.settled(*at),
        })
    }

    /// The id of the message at both ends, once the message has left.
    pub fn id(&self) -> Option<MessageId> {
        if let Some(settled) = self.settled() {
            return settled.id;
        }
        match self.status() {
            Status::InDoubt { id, .. } => Some(id),
            // The message was settled between the two questions.
            Status::Settled => self.settled().and_then(|settled| settled.id),
            Status::Queued => None,
        }
    }

    /// The message as [`Node::outbox`](crate::Node::outbox) returns it, until it is settled. Any task can pass it to
    /// [`Node::waiting`](crate::Node::waiting), which also gives its number in the journal.
    pub fn open_message(&self) -> Option<OpenMessage> {
        self.hold.ask(|engine, _, key| engine.core.open_message(key)).flatten()
    }

    /// The reason that the receiving application gave, if any: with [`Outcome::Rejected`], or with
    /// [`Outcome::Processed`] and a status. The node keeps the newest 1,024 reasons.
    pub fn reason(&self) -> Option<Arc<str>> {
        let Settled { outcome, id: Some(id), .. } = self.settled()? else { return None };
        // Most messages end without a reason: for them, this need not take the node's lock.
        if !matches!(outcome, Outcome::Rejected { .. } | Outcome::Processed { .. }) {
            return None;
        }
        match &self.hold {
            Hold::Table { shared, .. } => shared.look(|engine| engine.reason(&id)),
            Hold::Lot { lot, .. } => lot.shared.upgrade()?.look(|engine| engine.reason(&id)),
        }
    }

    /// Waits for the outcome of the message. Cancel-safe; the result is the same every time. If the peer is dead, the
    /// message stays in doubt for as long as the node's `doubt_timeout`, which by default has no limit: see
    /// [`Self::abandon`].
    pub async fn outcome(&mut self) -> Settled {
        poll_fn(|cx| self.poll_settled(cx)).await
    }

    /// Withdraws the message. [`Cancel::Done`]: the message had not left, and ends [`Outcome::Cancelled`]: it is
    /// certainly never delivered. [`Cancel::Asked`]: the message has left, and the node asks its receiver to withdraw
    /// it. It then ends Cancelled if the receiver had not taken it, and otherwise as if it had not been withdrawn.
    ///
    /// # Errors
    /// [`CancelError::InDoubt`]: the message has left, and is a call or the end of a stream, which the node cannot
    /// withdraw; or the node cannot write its journal. [`CancelError::Settled`]: the message already has an outcome.
    pub fn cancel(&self) -> Result<Cancel, CancelError> {
        let cancelled = self.hold.ask(|engine, now, key| engine.cancel(now, key));
        cancelled.unwrap_or(Err(CancelError::Settled))
    }

    /// Gives the message up. Its outcome is now Cancelled if it never left, else [`Outcome::Unknown`].
    pub fn abandon(&self) {
        self.hold.ask(|engine, now, key| engine.core.abandon(now, key));
    }

    fn poll_settled(&mut self, cx: &Context<'_>) -> Poll<Settled> {
        if let Some(settled) = self.settled {
            return Poll::Ready(settled);
        }
        let settled = match &mut self.hold {
            Hold::Table { shared, slot } => {
                // Cloned without the lock, since the waker is code of the application.
                let mut waker = Some(cx.waker().clone());
                let polled = ready!(shared.amend(|engine| engine.receipts.poll(*slot, &mut waker)));
                // This cannot happen: the slot becomes free only here and when the receipt is dropped.
                polled.unwrap_or(Settled::without_id(Outcome::Unknown))
            }
            Hold::Lot { lot, at, waits } => match lot.settled(*at) {
                Some(settled) => settled,
                None => {
                    *waits = true;
                    ready!(lot.poll(*at, &mut Some(cx.waker().clone())))
                }
            },
        };
        self.settled = Some(settled);
        Poll::Ready(settled)
    }
}

impl Future for Receipt {
    type Output = Settled;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Settled> {
        self.get_mut().poll_settled(cx)
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if self.settled.is_some() {
            return;
        }
        // Dropped without the lock, since the waker is code of the application.
        drop(match &self.hold {
            Hold::Table { shared, slot } => shared.amend(|engine| engine.receipts.forget(*slot)),
            Hold::Lot { lot, at, waits: true } => lot.forget(*at),
            Hold::Lot { .. } => None,
        });
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").field("status", &self.status()).finish_non_exhaustive()
    }
}

/// The handle that [`send_batch`](crate::Peer::send_batch) returns: it counts the outcomes of the messages of a
/// batch.
///
/// In every case, each message ends in exactly one outcome. Dropping the receipt neither cancels a message nor speeds
/// it up.
#[must_use = "it says what became of the messages; drop it only if that does not matter"]
pub struct BatchReceipt {
    shared: Arc<Shared>,
    slot: SlotIndex,
}

impl BatchReceipt {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let slot = shared.amend(|engine| engine.receipts.open_batch());
        Self { shared, slot }
    }

    pub(crate) const fn slot(&self) -> SlotIndex {
        self.slot
    }

    /// The number of messages that were queued.
    pub fn len(&self) -> u64 {
        let (tally, open) = self.shared.look(|engine| engine.receipts.tally(self.slot));
        tally.settled() + open
    }

    /// Whether no message was queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The outcomes of the messages that are settled already.
    pub fn tally(&self) -> Tally {
        self.shared.look(|engine| engine.receipts.tally(self.slot)).0
    }

    /// Waits until every message is settled. Cancel-safe; the result is the same every time.
    pub async fn outcomes(&mut self) -> Tally {
        poll_fn(|cx| self.poll_tally(cx)).await
    }

    /// Withdraws the messages. Returns how many had not left: those end [`Outcome::Cancelled`], and are certainly
    /// never delivered. The node asks the receiver to withdraw the others; each of those ends Cancelled if the
    /// receiver had not taken it.
    pub fn cancel(&self) -> u64 {
        self.each_open(|engine, now, key| u64::from(engine.cancel(now, key) == Ok(Cancel::Done)))
    }

    /// Gives up the open messages. Their outcome is now Cancelled if they never left, else Unknown.
    pub fn abandon(&self) {
        self.each_open(|engine, now, key| {
            engine.core.abandon(now, key);
            0
        });
    }

    fn each_open(&self, mut f: impl FnMut(&mut Engine, Now, MessageKey) -> u64) -> u64 {
        self.shared.step(|engine, now| {
            let open = engine.receipts.keys_of(self.slot);
            open.into_iter().map(|key| f(engine, now, key)).sum()
        })
    }

    fn poll_tally(&mut self, cx: &Context<'_>) -> Poll<Tally> {
        let mut waker = Some(cx.waker().clone());
        self.shared.amend(|engine| engine.receipts.poll_batch(self.slot, &mut waker))
    }
}

impl Future for BatchReceipt {
    type Output = Tally;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Tally> {
        self.get_mut().poll_tally(cx)
    }
}

impl Drop for BatchReceipt {
    fn drop(&mut self) {
        let waker = self.shared.amend(|engine| engine.receipts.forget(self.slot));
        drop(waker);
    }
}

impl fmt::Debug for BatchReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchReceipt").field("tally", &self.tally()).finish_non_exhaustive()
    }
}
