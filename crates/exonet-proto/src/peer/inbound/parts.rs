//! Partly received messages.

use core::time::Duration;
use std::collections::btree_map::Entry;

use bytes::Bytes;

use super::{Inbound, Taken};
use crate::account::Account;
use crate::config::Limits;
use crate::id::{Incarnation, Slot};
use crate::message::arena::Arena;
use crate::message::arrived::ARRIVED;
use crate::message::lane::{Lane, Load};
use crate::message::{Assembly, DeliveryKey, MAX_HEAD, POOLED, Refused, read_head};
use crate::time::Mono;
use crate::wire::{self, Role};

/// The least memory that a partly received message is counted for.
const PARTIAL: u64 = 320;

/// Stands for the key of a delivery that has not been handed out.
pub(crate) const ANNOUNCED: DeliveryKey = DeliveryKey(u64::MAX);

/// A partly received message.
#[derive(Debug)]
pub(crate) struct Partial {
    pub(crate) assembly: Assembly,
    /// The delivery through which the application reads it as it comes.
    pub(crate) stream: Option<DeliveryKey>,
    /// The most memory that the message will need. It is set aside, so that a message that was begun can be completed.
    promise: u64,
    /// Its lane, once its head is there.
    pub(super) lane: Option<Lane>,
}

impl Partial {
    /// The first part of a message has come, beside `large` larger messages.
    fn begin(
        total: Option<u64>,
        large: usize,
        limits: &Limits,
        room: u64,
        arena: &mut Arena,
    ) -> Result<Self, Taken> {
        let pooled = total.is_some_and(|total| total <= POOLED);
        let whole = total.filter(|total| *total <= limits.stream_above.max(POOLED));
        let window = limits.body_window();
        let promise = whole.map_or(window, |total| total.saturating_add(ARRIVED).max(PARTIAL));
        if !pooled && large >= limits.bodies {
            return Err(Taken::NoRoom);
        }
        if room < promise {
            return Err(Taken::NoMemory);
        }
        let assembly = match (whole, total) {
            (Some(total), _) if pooled => Assembly::pooled(total, arena.buffer(total)),
            (Some(total), _) => Assembly::whole(total, window),
            (None, Some(total)) => Assembly::streamed(total, window),
            (None, None) => Assembly::open(window),
        };
        Ok(Self { assembly, stream: None, promise, lane: None })
    }

    /// Whether the head of the message is there and says that it is a call.
    const fn is_call(&self) -> bool {
        matches!(self.lane, Some(Lane::Method(_)))
    }

    /// Inserts a part, and returns how much of it was new.
    fn insert(&mut self, part: &wire::Part<'_>) -> Result<u64, Refused> {
        match part.total {
            Some(total) => self.assembly.insert(total, part.offset, part.data),
            None => self.assembly.insert_open(part.ends, part.offset, part.data),
        }
    }

    /// The state of the message while it is not to be handed over in one piece.
    fn state(&self) -> Taken {
        match self.stream {
            Some(key) => Taken::Readable(key),
            None if self.assembly.is_streamed() && self.assembly.has_head() => Taken::Announce,
            None => Taken::Partly,
        }
    }

    /// How much of the pool the message takes. None: it has a window of its own.
    fn load(&self) -> Option<Load> {
        self.assembly.total().filter(|_| self.assembly.is_pooled()).map(Load::one)
    }
}

/// The lane of a message that begins with these bytes, if its head is among them.
fn lane_of(front: &[u8]) -> Option<Lane> {
    let (head, role, _) = read_head(front).ok()?;
    Some(if role == Role::Plain { Lane::Plain } else { Lane::of(role, &Bytes::copy_from_slice(head.tag)) })
}

impl Inbound {
    /// A part of a message has come. `room` is how much the node can hold beyond what it holds.
    pub(crate) fn on_part(
        &mut self,
        r: Incarnation,
        part: &wire::Part<'_>,
        limits: &Limits,
        room: u64,
        arena: &mut Arena,
    ) -> Taken {
        let wire::Part { s, total, offset, data, .. } = *part;
        if !self.accepts(s.0..s.0 + 1, r) {
            return Taken::Ignored;
        }
        let least = total.unwrap_or(offset.saturating_add(data.len() as u64));
        if least > limits.message.saturating_add(MAX_HEAD) {
            return Taken::Violation;
        }
        let pooled = total.filter(|total| *total <= POOLED).map(Load::one);
        let begins = !self.partial.contains_key(&s);
        let lane = if begins && offset == 0 { lane_of(data) } else { None };
        if begins
            && let Some(load) = pooled
            && !self.finds_room(s, lane.as_ref(), load, limits)
        {
            return Taken::NoRoom;
        }
        let partial = match self.partial.entry(s) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => match Partial::begin(total, self.large, limits, room, arena) {
                Err(refused) => return refused,
                Ok(partial) => {
                    let partial = Partial { lane, ..partial };
                    match pooled {
                        Some(load) => self.held.add(partial.lane.as_ref(), load),
                        None => self.large += 1,
                    }
                    self.calls_in_part += usize::from(partial.is_call());
                    self.promised += partial.promise;
                    entry.insert(partial)
                }
            },
        };
        match partial.insert(part) {
            Err(Refused::Contradiction | Refused::BeyondWindow) => return Taken::Violation,
            Err(Refused::Scattered) => return Taken::NoRoom,
            Ok(0) => return Taken::Ignored,
            Ok(_) => {}
        }
        let lane = if partial.lane.is_none() { lane_of(partial.assembly.front()) } else { None };
        let partial = match lane {
            None => partial,
            Some(lane) => match self.enter_lane(s, pooled, lane, limits) {
                None => return Taken::NoRoom,
                Some(partial) => partial,
            },
        };
        if !partial.assembly.is_streamed() && partial.assembly.is_complete() {
            return self.complete(s);
        }
        let news = !partial.assembly.is_pooled() && partial.assembly.is_news(limits.body_window());
        let taken = partial.state();
        if news {
            self.owe_have(s);
        }
        taken
    }

    /// The head of a partly received message tells its lane. None: the lane has no room, and the message has to come again.
    /// `pooled`: how much of the pool the message takes.
    fn enter_lane(
        &mut self,
        s: Slot,
        pooled: Option<Load>,
        lane: Lane,
        limits: &Limits,
    ) -> Option<&mut Partial> {
        let mut room = true;
        if let Some(load) = pooled {
            self.held.give_back(None, load);
            room = self.finds_room(s, Some(&lane), load, limits);
            self.held.add(Some(&lane), load);
        }
        self.calls_in_part += usize::from(matches!(lane, Lane::Method(_)));
        self.partial.get_mut(&s)?.lane = Some(lane);
        if !room {
            self.drop_partial(s);
        }
        self.partial.get_mut(&s)
    }

    fn complete(&mut self, s: Slot) -> Taken {
        let Some(partial) = self.partial.remove(&s) else { return Taken::Ignored };
        if !partial.assembly.is_pooled() {
            self.large.give_back(1);
            self.large_pending.insert(s.0..s.0 + 1);
        }
        self.promised.give_back(partial.promise);
        self.calls_in_part -= usize::from(partial.is_call());
        self.pending.insert(s.0..s.0 + 1);
        partial.assembly.into_whole().map_or(Taken::Ignored, Taken::Complete)
    }

    /// Whether a message that is read as it comes waits in the receive queue.
    pub(crate) fn is_announced(&self, s: Slot, r: Incarnation) -> bool {
        self.partial.get(&s).is_some_and(|partial| partial.stream == Some(ANNOUNCED))
            && self.receiver.as_ref().is_some_and(|record| record.accepts(s, r))
    }

    pub(crate) fn partial(&mut self, s: Slot) -> Option<&mut Partial> {
        self.partial.get_mut(&s)
    }

    /// The application has read from a streamed message: the window of the message moves on.
    pub(crate) fn on_read(&mut self, s: Slot, limits: &Limits) {
        if self.partial.get_mut(&s).is_some_and(|p| p.assembly.is_news(limits.body_window())) {
            self.owe_have(s);
        }
    }

    /// Gives a partly received message up: it has to come again from the start.
    pub(crate) fn drop_partial(&mut self, s: Slot) {
        if let Some(mut partial) = self.partial.remove(&s) {
            partial.stream = None;
            self.release_partial(&partial);
            self.owe_have(s);
        }
    }

    /// The sender has nothing open below `l`: a partly received message there will never be complete.
    pub(super) fn forget_below(&mut self, l: Slot) {
        while let Some(entry) = self.partial.first_entry().filter(|entry| *entry.key() < l) {
            let partial = entry.remove();
            self.release_partial(&partial);
        }
    }

    pub(super) fn release_partial(&mut self, partial: &Partial) {
        self.calls_in_part -= usize::from(partial.is_call());
        self.promised.give_back(partial.promise);
        self.freed = self.freed.saturating_add(partial.promise);
        match partial.stream {
            Some(ANNOUNCED) => self.stale += 1,
            stream => self.aborted.extend(stream),
        }
        match partial.load() {
            Some(load) => self.held.give_back(partial.lane.as_ref(), load),
            None => self.large.give_back(1),
        }
    }

    /// Gives up the partly received messages of a peer that has been silent for `silence`, except those that the application
    /// reads. True if there were any.
    pub(crate) fn give_up_parts(&mut self, now: Mono, silence: Duration) -> bool {
        if self.heard_at + silence > now {
            return false;
        }
        let parts: Vec<Slot> =
            self.partial.iter().filter(|(_, partial)| partial.stream.is_none()).map(|(s, _)| *s).collect();
        parts.iter().for_each(|s| self.drop_partial(*s));
        !parts.is_empty()
    }
}
