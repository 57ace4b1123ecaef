//! The table of receipts: it keeps the outcome of a message until the owner of the receipt has read it.
//!
//! The core reuses the index of a settled message at once, but the owner may read its receipt much later. So a
//! receipt has a slot of its own. The slot becomes free when its message is settled and the receipt was read or
//! dropped.

use core::task::{Poll, Waker};
use std::collections::BTreeMap;
use std::sync::Arc;

use exonet_proto::node::{MessageKey, Outcome};
use exonet_proto::{DurabilityLevel, MessageId, Mono};

use crate::send::lot::Lot;

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Settled {
    /// The outcome. Each message has exactly one, and it does not change.
    pub outcome: Outcome,
    /// The id of the message at both ends. None: the message never left.
    pub id: Option<MessageId>,
    /// Whether the deadline had passed before.
    pub late: bool,
    /// The durability level that the receiver declared before the message got its outcome. Some with
    /// [`Outcome::Delivered`], [`Outcome::Processed`] and [`Outcome::Rejected`], else None.
    ///
    /// This is the level that the receiver is configured with. It does not report what the receiver's disk has kept.
    pub receiver_durability: Option<DurabilityLevel>,
}

impl Settled {
    /// The end of a message without an id: it never left, or its id is not known.
    pub(crate) const fn without_id(outcome: Outcome) -> Self {
        Self { outcome, id: None, late: false, receiver_durability: None }
    }

    /// The end of the message `id`. Its deadline had not passed, and the receiver has declared no durability level.
    pub(crate) const fn with_id(outcome: Outcome, id: MessageId) -> Self {
        Self { id: Some(id), ..Self::without_id(outcome) }
    }
}

/// How many messages of a batch ended with each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Tally {
    /// [`Outcome::Delivered`].
    pub delivered: u64,
    /// [`Outcome::Processed`].
    pub processed: u64,
    /// [`Outcome::Rejected`].
    pub rejected: u64,
    /// [`Outcome::Expired`].
    pub expired: u64,
    /// [`Outcome::Cancelled`].
    pub cancelled: u64,
    /// [`Outcome::Refused`].
    pub refused: u64,
    /// [`Outcome::Unknown`].
    pub unknown: u64,
    /// [`Outcome::Kept`].
    pub kept: u64,
    /// How many of all these messages ended after their deadline.
    pub late: u64,
}

impl Tally {
    /// The number of messages that are settled.
    pub const fn settled(&self) -> u64 {
        let withdrawn = self.expired + self.cancelled + self.refused;
        self.delivered + self.processed + self.rejected + withdrawn + self.unknown + self.kept
    }

    fn count(&mut self, settled: &Settled, messages: u64) {
        *match settled.outcome {
            Outcome::Delivered => &mut self.delivered,
            Outcome::Processed { .. } => &mut self.processed,
            Outcome::Rejected { .. } => &mut self.rejected,
            Outcome::Expired => &mut self.expired,
            Outcome::Cancelled => &mut self.cancelled,
            Outcome::Refused(_) => &mut self.refused,
            Outcome::Unknown => &mut self.unknown,
            Outcome::Kept => &mut self.kept,
        } += messages;
        self.late += if settled.late { messages } else { 0 };
    }
}

/// The place of a receipt in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotIndex(usize);

enum State {
    Free,
    Open {
        key: MessageKey,
        epoch: u64,
        waker: Option<Waker>,
    },
    Settled(Settled),
    Batch(Batch),
    /// The messages of a lot: how many are open, and the epoch in which they were sent.
    Lot {
        lot: Arc<Lot>,
        open: u32,
        epoch: u64,
    },
}

/// The messages of a batch.
#[derive(Default)]
struct Batch {
    open: u64,
    /// The epoch of the oldest open message.
    epoch: u64,
    tally: Tally,
    waker: Option<Waker>,
}

/// An open message, or `count` messages that were queued together, `open` of which are open.
#[derive(Clone, Copy)]
struct Entry {
    /// The key of the first message.
    key: MessageKey,
    count: u32,
    open: u32,
    slot: usize,
    /// The number of the first message in its lot.
    at: u32,
    /// When it was queued.
    since: Mono,
}

impl Entry {
    /// The keys of all messages of the entry, open or not.
    fn keys(self) -> impl Iterator<Item = MessageKey> {
        (0..self.count).map(move |n| self.key.nth(n))
    }
}

struct Slot {
    state: State,
    held: bool,
}

#[derive(Default)]
pub(crate) struct Receipts {
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// The entries, by the core's index of their first message.
    by_key: Vec<Option<Entry>>,
    /// Entries whose index the core has reused before the node could report their outcome, which waits for the disk.
    displaced: BTreeMap<MessageKey, Entry>,
    /// The number of open messages.
    open: usize,
    /// How many receipts have open messages, by epoch. An epoch without any is absent.
    epochs: BTreeMap<u64, usize>,
    epoch: u64,
}

impl Receipts {
    /// Makes room for `more` receipts.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.slots.reserve(more);
        self.by_key.reserve(more);
    }

    /// Adds a message that the core has accepted. The slot is held by its receipt.
    pub(crate) fn open(&mut self, now: Mono, key: MessageKey) -> SlotIndex {
        let slot = self.place(State::Open { key, epoch: self.epoch, waker: None });
        *self.epochs.entry(self.epoch).or_insert(0) += 1;
        self.enter(now, key, 1, slot, 0);
        slot
    }

    /// Makes a slot for the messages of a lot. The slot is held until the lot is closed.
    pub(crate) fn open_lot(&mut self, lot: Arc<Lot>) -> SlotIndex {
        let slot = self.place(State::Lot { lot, open: 0, epoch: self.epoch });
        *self.epochs.entry(self.epoch).or_insert(0) += 1;
        slot
    }

    /// Adds `count` messages of a lot, from number `at` on, which the core has accepted.
    pub(crate) fn add_to_lot(&mut self, now: Mono, slot: SlotIndex, at: u32, key: MessageKey, count: u32) {
        if let Some(Slot { state: State::Lot { lot, open, .. }, .. }) = self.slots.get_mut(slot.0) {
            lot.queued(at, key);
            *open += count;
            self.enter(now, key, count, slot, at);
        }
    }

    /// Closes the lot: it gets no more messages. Its slot becomes free when all of them have ended: at once if there
    /// are none.
    pub(crate) fn close_lot(&mut self, slot: SlotIndex) {
        let Some(Slot { state: State::Lot { open, epoch, .. }, held }) = self.slots.get_mut(slot.0) else {
            return;
        };
        *held = false;
        if *open == 0 {
            let epoch = *epoch;
            self.release(slot.0);
            self.leave_epoch(epoch);
        }
    }

    /// Makes a slot for the receipt of a batch. The slot is held by the receipt.
    pub(crate) fn open_batch(&mut self) -> SlotIndex {
        self.place(State::Batch(Batch::default()))
    }

    /// Adds `count` messages of a batch, from `key` on, which the core has accepted.
    pub(crate) fn add(&mut self, now: Mono, slot: SlotIndex, key: MessageKey, count: u32) {
        if let Some(Slot { state: State::Batch(batch), .. }) = self.slots.get_mut(slot.0) {
            if batch.open == 0 {
                batch.epoch = self.epoch;
                *self.epochs.entry(self.epoch).or_insert(0) += 1;
            }
            batch.open += u64::from(count);
            self.enter(now, key, count, slot, 0);
        }
    }

    fn place(&mut self, state: State) -> SlotIndex {
        let slot = Slot { state, held: true };
        let index = self.free.pop().unwrap_or(self.slots.len());
        match self.slots.get_mut(index) {
            Some(place) => *place = slot,
            None => self.slots.push(slot),
        }
        SlotIndex(index)
    }

    fn enter(&mut self, since: Mono, key: MessageKey, count: u32, slot: SlotIndex, at: u32) {
        self.open += count as usize;
        if self.by_key.len() <= key.index() {
            self.by_key.resize(key.index() + 1, None);
        }
        if let Some(place) = self.by_key.get_mut(key.index())
            && let Some(before) = place.replace(Entry { key, count, open: count, slot: slot.0, at, since })
        {
            self.displaced.insert(before.key, before);
        }
    }

    /// All entries.
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.by_key.iter().flatten().chain(self.displaced.values())
    }

    /// When an open message was queued.
    pub(crate) fn since(&self, key: MessageKey) -> Option<Mono> {
        let entry = self.by_key.get(key.index())?.as_ref().filter(|entry| entry.key == key.first());
        Some(entry.or_else(|| self.displaced.get(&key.first()))?.since)
    }

    /// Notes the outcome of `count` messages from `key` on. Passes the wakers of the tasks that wait for it to
    /// `wake`.
    pub(crate) fn settle(
        &mut self,
        key: MessageKey,
        count: u32,
        settled: Settled,
        mut wake: impl FnMut(Waker),
    ) {
        let place = self.by_key.get_mut(key.index()).and_then(Option::as_mut);
        let known = place.filter(|entry| entry.key == key.first());
        let Some(known) = known.or_else(|| self.displaced.get_mut(&key.first())) else { return };
        let Some(slot) = self.slots.get_mut(known.slot) else { return };
        let (count, epoch) = match &mut slot.state {
            State::Batch(batch) => {
                let count = count.min(known.open);
                batch.open -= u64::from(count);
                batch.tally.count(&settled, u64::from(count));
                let ended = (batch.open == 0).then_some(batch.epoch);
                ended.and_then(|_| batch.waker.take()).into_iter().for_each(wake);
                (count, ended)
            }
            State::Lot { lot, open, epoch } => {
                let at = known.at + key.place();
                let these = at..at.saturating_add(count).min(known.at + known.count);
                let count = lot.end(these, settled, wake).min(known.open);
                *open -= count;
                (count, (*open == 0).then_some(*epoch))
            }
            State::Open { epoch, waker, .. } => {
                let (epoch, waker) = (*epoch, waker.take());
                waker.into_iter().for_each(&mut wake);
                slot.state = State::Settled(settled);
                (1, Some(epoch))
            }
            State::Free | State::Settled(_) => return,
        };
        let (index, held) = (known.slot, slot.held);
        known.open -= count;
        if known.open == 0 {
            self.leave(key.first());
        }
        self.open -= count as usize;
        if let Some(epoch) = epoch {
            if !held {
                self.release(index);
            }
            self.leave_epoch(epoch);
        }
    }

    /// Notes that the messages of an entry are settled.
    fn leave(&mut self, key: MessageKey) {
        match self.by_key.get_mut(key.index()) {
            Some(place) if place.is_some_and(|entry| entry.key == key) => *place = None,
            _ => drop(self.displaced.remove(&key)),
        }
    }

    /// Notes that the messages of a receipt are settled.
    fn leave_epoch(&mut self, epoch: u64) {
        if let Some(count) = self.epochs.get_mut(&epoch) {
            *count -= 1;
            if *count == 0 {
                self.epochs.remove(&epoch);
            }
        }
    }

    /// How many messages of a batch ended with each outcome, and how many are open.
    pub(crate) fn tally(&self, index: SlotIndex) -> (Tally, u64) {
        match self.slots.get(index.0).map(|slot| &slot.state) {
            Some(State::Batch(batch)) => (batch.tally, batch.open),
            _ => Default::default(),
        }
    }

    /// Ready when no message of the batch is open. Otherwise it stores `waker`, like [`Receipts::poll`].
    pub(crate) fn poll_batch(&mut self, index: SlotIndex, waker: &mut Option<Waker>) -> Poll<Tally> {
        match self.slots.get_mut(index.0).map(|slot| &mut slot.state) {
            Some(State::Batch(batch)) if batch.open > 0 => {
                core::mem::swap(&mut batch.waker, waker);
                Poll::Pending
            }
            Some(State::Batch(batch)) => Poll::Ready(batch.tally),
            _ => Poll::Ready(Tally::default()),
        }
    }

    /// The open messages of a batch, and perhaps some that are settled. Takes time in proportion to all open messages
    /// of the node.
    pub(crate) fn keys_of(&self, index: SlotIndex) -> Vec<MessageKey> {
        let own = self.entries().filter(|entry| entry.slot == index.0);
        own.copied().flat_map(Entry::keys).collect()
    }

    /// The key of an open message in the core.
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

    /// If it is ready, the outcome is returned, and the slot becomes free. Otherwise stores `waker`. If that replaces
    /// another waker, the other is left in `waker`, so that the caller drops it without the lock.
    pub(crate) fn poll(&mut self, index: SlotIndex, waker: &mut Option<Waker>) -> Poll<Option<Settled>> {
        let Some(slot) = self.slots.get_mut(index.0) else {
            return Poll::Ready(None);
        };
        match &mut slot.state {
            State::Free | State::Batch(_) | State::Lot { .. } => Poll::Ready(None),
            State::Settled(settled) => {
                let settled = *settled;
                self.release(index.0);
                Poll::Ready(Some(settled))
            }
            State::Open { waker: place, .. } => {
                core::mem::swap(place, waker);
                Poll::Pending
            }
        }
    }

    /// Notes that the receipt was dropped. Returns its waker.
    pub(crate) fn forget(&mut self, index: SlotIndex) -> Option<Waker> {
        let slot = self.slots.get_mut(index.0)?;
        match &mut slot.state {
            State::Free | State::Lot { .. } => None,
            State::Settled(_) => {
                self.release(index.0);
                None
            }
            State::Open { waker, .. } => {
                slot.held = false;
                waker.take()
            }
            State::Batch(batch) => {
                let waker = batch.waker.take();
                slot.held = false;
                if batch.open == 0 {
                    self.release(index.0);
                }
                waker
            }
        }
    }

    fn release(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.state = State::Free;
            self.free.push(index);
        }
    }

    /// Begins a new epoch. The mark that it returns refers to every message that was sent before.
    pub(crate) fn mark(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }

    /// Whether every message that was sent before `mark` is settled.
    pub(crate) fn settled_before(&self, mark: u64) -> bool {
        self.epochs.first_key_value().is_none_or(|(epoch, _)| *epoch >= mark)
    }

    /// The oldest epoch with an open message. When it changes, a flush may have ended.
    pub(crate) fn oldest(&self) -> u64 {
        self.epochs.first_key_value().map_or(u64::MAX, |(epoch, _)| *epoch)
    }

    /// The number of open messages.
    pub(crate) fn open_count(&self) -> usize {
        self.open
    }

    /// All open messages, and perhaps some that are settled.
    pub(crate) fn open_keys(&self) -> Vec<MessageKey> {
        self.entries().copied().flat_map(Entry::keys).collect()
    }
}
