//! The sender's hold on a message.

use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;

use exonet_proto::MessageId;
use exonet_proto::node::{CancelError, Outcome, Status};

use crate::receipts::{Settled, SlotIndex};
use crate::shared::Shared;

/// What `send` gives: tells where the message stands, and in the end what became of it.
///
/// It ends in exactly one [`Settled`], whatever happens; awaiting it any number of times gives the same. Dropping it
/// neither cancels the message nor hurries it.
#[must_use = "a receipt says what became of the message; drop it only if that does not matter"]
pub struct Receipt {
    shared: Arc<Shared>,
    slot: SlotIndex,
    settled: Option<Settled>,
}

impl Receipt {
    pub(crate) fn new(shared: Arc<Shared>, slot: SlotIndex) -> Self {
        Self { shared, slot, settled: None }
    }

    /// Where the message stands now.
    pub fn status(&self) -> Status {
        if self.settled.is_some() {
            return Status::Settled;
        }
        self.shared.look(|engine| {
            engine.receipts.key(self.slot).map_or(Status::Settled, |key| engine.core.status(key))
        })
    }

    /// What became of the message, if that is known by now.
    pub fn settled(&self) -> Option<Settled> {
        self.settled.or_else(|| self.shared.look(|engine| engine.receipts.settled(self.slot)))
    }

    /// The message's name at both ends, from its departure on.
    pub fn id(&self) -> Option<MessageId> {
        if let Some(settled) = self.settled() {
            return settled.id;
        }
        match self.status() {
            Status::InDoubt { id, .. } => Some(id),
            // Settled between the two looks.
            Status::Settled => self.settled().and_then(|settled| settled.id),
            Status::Queued => None,
        }
    }

    /// Waits for what becomes of the message. Cancel-safe; the same answer every time. A dead peer leaves a
    /// message in doubt for as long as the node's `give_up_after` says, by default for ever: see [`Self::abandon`].
    pub async fn outcome(&mut self) -> Settled {
        poll_fn(|cx| self.poll_settled(cx)).await
    }

    /// Withdraws the message if it has not left: its outcome is then [`Outcome::Cancelled`], certainly never
    /// delivered.
    ///
    /// # Errors
    /// [`CancelError::InDoubt`]: it has left, and only its outcome will tell. [`CancelError::Settled`]: its
    /// outcome is known.
    pub fn cancel(&self) -> Result<(), CancelError> {
        self.shared.step(|engine, now| match engine.receipts.key(self.slot) {
            Some(key) => engine.core.cancel(now, key),
            None => Err(CancelError::Settled),
        })
    }

    /// Gives the message up: its outcome is [`Outcome::Unknown`] now, or Cancelled if it never left.
    pub fn abandon(&self) {
        self.shared.step(|engine, now| {
            if let Some(key) = engine.receipts.key(self.slot) {
                engine.core.abandon(now, key);
            }
        });
    }

    fn poll_settled(&mut self, cx: &Context<'_>) -> Poll<Settled> {
        if let Some(settled) = self.settled {
            return Poll::Ready(settled);
        }
        let mut replaced = None;
        let polled = self.shared.amend(|engine| engine.receipts.poll(self.slot, cx, &mut replaced));
        drop(replaced);
        polled.map(|settled| {
            // A slot that is not ours any more cannot be: it is given up only below and on drop.
            let settled = settled.unwrap_or(Settled { outcome: Outcome::Unknown, id: None, late: false });
            self.settled = Some(settled);
            settled
        })
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
        if self.settled.is_none() {
            let waker = self.shared.amend(|engine| engine.receipts.forget(self.slot));
            drop(waker);
        }
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").field("status", &self.status()).finish_non_exhaustive()
    }
}
