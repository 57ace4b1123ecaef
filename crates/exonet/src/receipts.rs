//! The table of receipts: what became of each message, until its owner has looked.
//!
//! The core's index of a settled message is reused at once, while its receipt may be read much later; so a
//! receipt has a slot of its own. A slot is free again when it is settled and nobody holds it.

use core::task::{Context, Poll, Waker};
use std::collections::BTreeMap;

use exonet_proto::MessageId;
use exonet_proto::node::{MessageKey, Outcome};

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settled {
    /// Exactly one of these, once.
    pub outcome: Outcome,
    /// Its name at both ends; None if it never left.
    pub id: Option<MessageId>,
    /// Its deadline passed before.
    pub late: bool,
}

/// Place of a receipt in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotIndex(usize);

enum State {
    Free,
    Open { key: MessageKey, epoch: u64, waker: Option<Waker> },
    Settled(Settled),
}

struct Slot {
    state: State,
    held: bool,
}

#[derive(Default)]
pub(crate) struct Receipts {
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// From the core's index to a slot.
    by_key: Vec<usize>,
    /// Open messages by the flush before which they were sent; empty ones are absent.
    epochs: BTreeMap<u64, usize>,
    epoch: u64,
}

impl Receipts {
    /// Enters an accepted message; its receipt is held.
    pub(crate) fn open(&mut self, key: MessageKey) -> SlotIndex {
        let state = State::Open { key, epoch: self.epoch, waker: None };
        let slot = Slot { state, held: true };
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.slots.len(),
        };
        match self.slots.get_mut(index) {
            Some(place) => *place = slot,
            None => self.slots.push(slot),
        }
        if self.by_key.len() <= key.index() {
            self.by_key.resize(key.index() + 1, usize::MAX);
        }
        if let Some(place) = self.by_key.get_mut(key.index()) {
            *place = index;
        }
        *self.epochs.entry(self.epoch).or_insert(0) += 1;
        SlotIndex(index)
    }

    /// Enters an outcome. Gives back whoever waits for it.
    pub(crate) fn settle(&mut self, key: MessageKey, settled: Settled) -> Option<Waker> {
        let index = *self.by_key.get(key.index())?;
        let slot = self.slots.get_mut(index)?;
        let State::Open { key: open, epoch, .. } = &slot.state else {
            return None;
        };
        if *open != key {
            return None;
        }
        let epoch = *epoch;
        let held = slot.held;
        let before = core::mem::replace(&mut slot.state, State::Settled(settled));
        if !held {
            self.release(index);
        }
        if let Some(count) = self.epochs.get_mut(&epoch) {
            *count -= 1;
            if *count == 0 {
                self.epochs.remove(&epoch);
            }
        }
        match before {
            State::Open { waker, .. } => waker,
            _ => None,
        }
    }

    /// The core's name for an open message.
    pub(crate) fn key(&self, index: SlotIndex) -> Option<MessageKey> {
        match self.slots.get(index.0)?.state {
            State::Open { key, .. } => Some(key),
            _ => None,
        }
    }

    pub(crate) fn settled(&self, index: SlotIndex) -> Option<Settled> {
        match self.slots.get(index.0)?.state {
            State::Settled(settled) => Some(settled),
            _ => None,
        }
    }

    /// Ready: the receipt is told and its slot is free. Otherwise `cx` is woken later; the waker that it
    /// replaces is left in `replaced`, to be dropped without the lock.
    pub(crate) fn poll(
        &mut self,
        index: SlotIndex,
        cx: &Context<'_>,
        replaced: &mut Option<Waker>,
    ) -> Poll<Option<Settled>> {
        let Some(slot) = self.slots.get_mut(index.0) else {
            return Poll::Ready(None);
        };
        match &mut slot.state {
            State::Free => Poll::Ready(None),
            State::Settled(settled) => {
                let settled = *settled;
                self.release(index.0);
                Poll::Ready(Some(settled))
            }
            State::Open { waker, .. } => {
                if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                    *replaced = waker.replace(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    /// The owner is gone. Gives back its waker.
    pub(crate) fn forget(&mut self, index: SlotIndex) -> Option<Waker> {
        let slot = self.slots.get_mut(index.0)?;
        match &mut slot.state {
            State::Free => None,
            State::Settled(_) => {
                self.release(index.0);
                None
            }
            State::Open { waker, .. } => {
                slot.held = false;
                waker.take()
            }
        }
    }

    fn release(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.state = State::Free;
            self.free.push(index);
        }
    }

    /// Begins a new epoch; the mark names all that was sent before.
    pub(crate) fn mark(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }

    /// Whether all that was sent before `mark` is settled.
    pub(crate) fn settled_before(&self, mark: u64) -> bool {
        self.epochs.first_key_value().is_none_or(|(epoch, _)| *epoch >= mark)
    }

    /// The least epoch with an open message: it grows when a flush may have ended.
    pub(crate) fn oldest(&self) -> u64 {
        self.epochs.first_key_value().map_or(u64::MAX, |(epoch, _)| *epoch)
    }

    /// How many messages are open.
    pub(crate) fn open_count(&self) -> usize {
        self.epochs.values().sum()
    }

    /// All open messages.
    pub(crate) fn open_keys(&self) -> Vec<MessageKey> {
        let keys = self.slots.iter().filter_map(|slot| match slot.state {
            State::Open { key, .. } => Some(key),
            _ => None,
        });
        keys.collect()
    }
}
