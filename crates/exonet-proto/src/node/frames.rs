//! What the frames of an authentic packet bring about.

use core::time::Duration;

use bytes::Bytes;

use super::Node;
use super::arena::SHORT;
use super::event::{Event, MessageKey, Outcome, Priority};
use super::inbound::{ANNOUNCED, Inbound, Taken};
use super::inbox::{ARRIVED, Arrived, ArrivedBody};
use super::node::Settled;
use super::outbound::Had;
use super::run::Run;
use super::stamping::Admission;
use crate::half::{Answer, Bound, Claim, Receiver, State, Verdict};
use crate::id::{Incarnation, MessageId, NodeId, Slot, Stamp};
use crate::time::{Now, Wall};
use crate::wire::{self, Head, Role};

/// Peers that are looked at for memory at once, and how long they must have been silent.
const RECLAIMED: usize = 16;
const SILENT: Duration = Duration::from_secs(60);

impl Node {
    pub(super) fn on_ask(&mut self, now: Now, index: u32, ask: wire::Ask) {
        let Some(id) = self.peers.get(index).map(|peer| peer.id) else { return };
        let judged = !ask.ts.is_some() || self.admit_stamp(now, id, ask.ts);
        let Some(peer) = self.peers.get_mut(index).filter(|_| judged) else { return };
        if ask.ts.is_some() && ask.ts <= self.clock.stamps().bound(peer.inbound.bound) {
            let met = peer.inbound.receiver.as_ref().is_some_and(|record| record.stamp() == ask.ts);
            let astray = matches!(peer.inbound.bound, Bound::Stray { ts, .. } if ts == ask.ts);
            self.stats.stamps_astray += u64::from(astray);
            self.stats.stamps_stale += u64::from(!met && !astray);
        }
        let answer = peer.inbound.on_ask(now.mono, &mut self.clock, &self.config.limits, ask.into());
        let forgotten = self.clock.stamps().amnesia(peer.inbound.bound);
        peer.inbound.forgotten_ahead = forgotten.0 >= now.wall.0;
        if answer == Answer::StampRejected {
            self.stats.stamps_ahead += 1;
            peer.inbound.rejection = Some((ask.ts, now.wall));
            peer.inbound.rejected = ask.ts;
        }
        self.inbox.note_stale(peer.inbound.take_stale());
        self.sweep();
    }

    /// Sees to it that a stamp can be judged. False: later, when something is on the disk.
    pub(super) fn admit_stamp(&mut self, now: Now, id: NodeId, ts: Stamp) -> bool {
        let place = self.peers.find(&id);
        let mut bound = match place.and_then(|place| self.peers.get(place)) {
            Some(peer) => peer.inbound.bound,
            None => self.stamping.memo_of(&id),
        };
        let before = self.clock.stamps().latest();
        let admission = self.stamping.admit(now, self.clock.stamps_mut(), id, &mut bound, ts);
        match place.and_then(|place| self.peers.get_mut(place)) {
            Some(peer) => peer.inbound.bound = bound,
            None if bound != Bound::Unknown => self.stamping.memo_mut(id).bound = bound,
            None => {}
        }
        if self.clock.stamps().latest() > before {
            self.release_strays(now);
        }
        admission == Admission::Now
    }

    /// Messages that came before anything was granted: those whose stamp names the record that there is now are like
    /// any others of it.
    pub(super) fn on_early(&mut self, now: Now, index: u32, frame: &wire::Early<'_>) {
        let Some(peer) = self.peers.get_mut(index) else { return };
        let record = peer.inbound.receiver.as_ref();
        match record.filter(|record| record.stamp() == frame.ts).map(Receiver::incarnation) {
            Some(r) => {
                let before = self.inbox.len();
                self.on_messages(now, index, r, frame.entries);
                self.stats.early_received += (self.inbox.len() - before) as u64;
            }
            None => self.owe_state(now, index),
        }
    }

    /// STAMP_REJECTED: what was sent early under `ts` was refused, and nobody can tell its copies from it, ever.
    pub(super) fn on_stamp_rejected(&mut self, now: Now, index: u32, ts: Stamp, time: Wall) {
        let Some(peer) = self.peers.get_mut(index) else { return };
        let Some(sender) = peer.outbound.sender.as_mut() else { return };
        let mut settled = std::mem::take(&mut self.scratch.settled);
        sender.on_stamp_rejected(ts, |_, key| Settled::push(&mut settled, key, Outcome::Unknown));
        if !settled.is_empty() {
            peer.note_time(now.wall, time);
            peer.outbound.ask_due = true;
            self.clock_doubted = true;
            self.stats.early_rejected += settled.len() as u64;
        }
        self.settle(now.mono, index, &mut settled);
        self.scratch.settled = settled;
    }

    /// STATE: settles messages, grants envelopes and credit.
    pub(super) fn on_state(&mut self, now: Now, index: u32, frame: &wire::State<'_>) {
        let Some(peer) = self.peers.get_mut(index) else {
            return;
        };
        let mut state = State { b: frame.b, r: frame.r, live: None, tb: frame.tb };
        if let Some(claim) = frame.live {
            let mut free = std::mem::take(&mut self.scratch.free);
            free.clear();
            frame.free.for_each(|range| free.insert(range));
            let wire::Claim { hi, lo, up, credit, closed } = claim;
            state.live = Some(Claim { hi, lo, up, free, credit, closed });
        }
        peer.told.tb = peer.told.tb.max(frame.tb.unwrap_or_default());
        peer.told.ended |= frame.live.is_some_and(|claim| claim.closed);
        let Some(sender) = peer.outbound.sender.as_mut() else {
            peer.outbound.farewell_due |= state.live.is_some();
            return;
        };
        let mut settled = std::mem::take(&mut self.scratch.settled);
        let mut returned = Vec::new();
        let (mut met, mut forgotten) = (false, false);
        let store = &mut self.store;
        let progress = sender.on_state(&state, |s, named, key, verdict| {
            if named.is_none() && verdict == Verdict::Delivered {
                // Early, and it has met this record.
                met = true;
                if let Some(letter) = store.get_mut(key) {
                    letter.bound = Some((s, state.r));
                }
            }
            forgotten |= named.is_none() && verdict == Verdict::Unknown;
            let outcome = match verdict {
                Verdict::Delivered => Outcome::Delivered,
                Verdict::Unknown => Outcome::Unknown,
                Verdict::NotTaken => return returned.push((s, key)),
            };
            Settled::push(&mut settled, key, outcome);
        });
        if let Some(claim) = state.live {
            if claim.closed {
                peer.outbound.pass_closed();
            }
            peer.outbound.on_credit(state.r, claim.credit);
            self.scratch.free = claim.free;
        }
        self.stats.early_slowed += progress.converted.len() as u64;
        self.clock_doubted &= !met;
        self.clock_doubted |= forgotten && peer.told.is_apart();
        peer.told.ended &= !progress.granted;
        peer.outbound.on_converted(&mut self.store, &progress.converted);
        let wait = peer.link.pto() * 2;
        let any = !settled.is_empty() || !returned.is_empty();
        self.take_back(now, index, returned);
        self.settle(now.mono, index, &mut settled);
        self.scratch.settled = settled;
        if let Some(peer) = self.peers.get_mut(index) {
            peer.outbound.on_state(now.mono, progress.granted, any, wait);
        }
    }

    /// Whole messages. What comes together waits together, unless one of it is in the way: then each goes alone.
    pub(super) fn on_messages(&mut self, now: Now, index: u32, r: Incarnation, entries: wire::Entries<'_>) {
        if self.declines(entries) {
            return self.decline(now, index, r);
        }
        let (mut rest, mut tight, mut replies) = (entries, false, Vec::new());
        if self.enqueue(index, r, entries) != Taken::Whole {
            while let Some(entry) = rest.split_first() {
                match self.enqueue_one(index, r, entry, &mut replies) {
                    Taken::Ignored => self.stats.duplicates_suppressed += 1,
                    Taken::Malformed => self.stats.malformed += 1,
                    Taken::Violation => self.stats.violations += 1,
                    Taken::NoRoom => self.stats.dropped_for_room += 1,
                    Taken::NoMemory => {
                        self.stats.dropped_for_room += 1;
                        tight = true;
                    }
                    _ => {}
                }
            }
        }
        for (arrived, s, status) in replies {
            self.on_reply_message(now, arrived, s, status);
        }
        self.owe_state(now, index);
        if tight {
            self.reclaim(now);
        }
    }

    /// Whether one of these is of a kind that this node does not take.
    fn declines(&self, mut entries: wire::Entries<'_>) -> bool {
        let takes = self.config.takes;
        let other = |message| read_head(message).is_ok_and(|(_, role, _)| !takes.takes(role));
        !takes.takes_all() && entries.any(|(_, message)| other(message))
    }

    /// What has come under the record `r` is of a kind that this node does not take. The record is closed, so that its sender
    /// knows for certain; what else came under it comes again under the next.
    fn decline(&mut self, now: Now, index: u32, r: Incarnation) {
        if let Some(peer) = self.peers.get_mut(index)
            && let Some(record) = peer.inbound.receiver.as_ref()
            && record.incarnation() == r
            && !record.is_closed()
        {
            self.stats.declined += 1;
            let wait = peer.link.is_connected().then(|| peer.link.pto() * 2);
            peer.inbound.close(now.mono, wait);
            self.inbox.note_stale(peer.inbound.take_stale());
            self.account(index);
        }
        self.owe_state(now, index);
    }

    /// Plain messages of consecutive slots go to the receive queue, all of them or none.
    fn enqueue(&mut self, index: u32, r: Incarnation, entries: wire::Entries<'_>) -> Taken {
        let Some(len) = plain_len(entries) else { return Taken::Malformed };
        let taken = self.admit_whole(index, r, entries, len);
        if taken == Taken::Whole {
            self.hold(index, held(entries, len));
            if let Some(peer) = self.peers.get(index) {
                let id = MessageId { sender: peer.id, r, s: Slot(entries.slots().start) };
                let run = Run::new(index, id, entries, len, |bytes| self.arena.copy_entries(bytes));
                self.events.extend(self.inbox.push_run(run));
            }
        }
        taken
    }

    /// One message goes to the receive queue; a reply to `replies`.
    fn enqueue_one(
        &mut self,
        index: u32,
        r: Incarnation,
        entry: wire::Entries<'_>,
        replies: &mut Vec<(Arrived, Slot, u32)>,
    ) -> Taken {
        let mut one = entry;
        let Some((s, bytes)) = one.next() else { return Taken::Malformed };
        let Ok((head, role, at)) = read_head(bytes) else { return Taken::Malformed };
        if role == Role::Plain {
            return self.enqueue(index, r, entry);
        }
        let taken = self.admit_whole(index, r, entry, bytes.len() as u64);
        if taken == Taken::Whole
            && let Some(peer) = self.peers.get(index)
        {
            let body = self.arena.copy(bytes.get(at..).unwrap_or_default());
            let id = MessageId { sender: peer.id, r, s };
            let arrived = arrived(index, id, (&head, role), ArrivedBody::Whole(body), bytes.len() as u64);
            if let Role::Reply { s, status } = role {
                replies.push((arrived, s, status));
                return taken;
            }
            self.hold(index, held(entry, bytes.len() as u64));
            self.events.extend(self.inbox.push(arrived, self.config.serves));
        }
        taken
    }

    /// Whether there is memory for these messages of `len` bytes in all, and a free slot for each of them.
    fn admit_whole(&mut self, index: u32, r: Incarnation, entries: wire::Entries<'_>, len: u64) -> Taken {
        let limits = &self.config.limits;
        let cap = limits.received_bytes as u64;
        let Some(peer) = self.peers.get_mut(index) else { return Taken::Ignored };
        // One message is always let in; beyond that, nobody has more than is left for all.
        let left = cap.saturating_sub(self.received).saturating_sub(peer.inbound.memory());
        let lone = self.received == 0 && entries.len() == 1;
        if !lone && held(entries, len) > left {
            return Taken::NoMemory;
        }
        peer.inbound.on_whole(entries.slots(), r, len, limits)
    }

    /// A message in one piece takes memory until it has left the receive queue.
    fn hold(&mut self, index: u32, bytes: u64) {
        self.received += bytes;
        if let Some(peer) = self.peers.get_mut(index) {
            peer.inbound.waiting += bytes;
        }
    }

    pub(super) fn on_fragment(&mut self, now: Now, index: u32, frame: &wire::Fragment<'_>) {
        let (limits, room) = (&self.config.limits, self.room(index));
        let Some(peer) = self.peers.get_mut(index) else {
            return;
        };
        let (s, r) = (frame.s, frame.r);
        // What was freed is still counted.
        let counted = |inbound: &Inbound| inbound.promised() + inbound.freed();
        let before = counted(&peer.inbound);
        let taken = peer.inbound.on_fragment(frame, limits, room, &mut self.arena);
        let after = counted(&peer.inbound);
        self.received = self.received.saturating_add(after).saturating_sub(before);
        let id = MessageId { sender: peer.id, r, s };
        match taken {
            Taken::Complete(message) => self.on_complete(now, index, id, message),
            Taken::Announce => self.announce(now, index, id),
            Taken::Readable(key) => self.events.push_back(Event::BodyReadable { key }),
            Taken::Partly | Taken::Whole | Taken::Malformed => {}
            Taken::Ignored => {
                self.stats.duplicates_suppressed += 1;
                self.owe_state(now, index);
            }
            Taken::NoRoom => self.stats.dropped_for_room += 1,
            Taken::NoMemory => {
                self.stats.dropped_for_room += 1;
                self.reclaim(now);
            }
            Taken::Violation => self.stats.violations += 1,
        }
    }

    fn on_complete(&mut self, now: Now, index: u32, id: MessageId, message: Vec<u8>) {
        self.owe_state(now, index);
        let len = message.len() as u64;
        let Ok((head, role, at)) = read_head(&message) else {
            self.stats.malformed += 1;
            if let Some(peer) = self.peers.get_mut(index) {
                peer.inbound.drop_pending(id.s, id.r, len);
            }
            return;
        };
        if !self.config.takes.takes(role) {
            return self.decline(now, index, id.r);
        }
        if message.len() <= SHORT && role == Role::Plain {
            self.hold(index, len + ARRIVED);
            let run = Run::one(index, id, len, self.arena.copy_entry(&message));
            self.arena.keep(message);
            self.events.extend(self.inbox.push_run(run));
            return;
        }
        let mut arrived = arrived(index, id, (&head, role), ArrivedBody::Whole(Bytes::new()), len);
        arrived.body = ArrivedBody::Whole(if message.len() <= SHORT {
            let body = self.arena.copy(message.get(at..).unwrap_or_default());
            self.arena.keep(message);
            body
        } else {
            Bytes::from(message).slice(at..)
        });
        if let Role::Reply { s, status } = role {
            return self.on_reply_message(now, arrived, s, status);
        }
        self.hold(index, len + ARRIVED);
        self.events.extend(self.inbox.push(arrived, self.config.serves));
    }

    /// A message that is read as it comes: its head is there.
    fn announce(&mut self, now: Now, index: u32, id: MessageId) {
        let Some(partial) = self.peers.get_mut(index).and_then(|peer| peer.inbound.partial(id.s)) else {
            return;
        };
        let total = partial.assembly.total();
        let Ok((head, role, at)) = read_head(partial.assembly.front()) else {
            self.stats.malformed += 1;
            return;
        };
        if !self.config.takes.takes(role) {
            return self.decline(now, index, id.r);
        }
        let len = total - at as u64;
        let arrived = arrived(index, id, (&head, role), ArrivedBody::Stream { len }, total);
        partial.assembly.skip(at as u64);
        // Replaced by the delivery's own key when it is handed out.
        partial.stream = Some(ANNOUNCED);
        if let Role::Reply { s, status } = role {
            return self.on_reply_message(now, arrived, s, status);
        }
        self.events.extend(self.inbox.push(arrived, self.config.serves));
    }

    pub(super) fn on_have(&mut self, now: Now, index: u32, frame: &wire::Have<'_>) {
        let Some(peer) = self.peers.get_mut(index) else { return };
        let (at, window, wait) = ((frame.s, frame.r), (frame.prefix, frame.limit), peer.link.pto() * 2);
        match peer.outbound.on_have(now.mono, &mut self.store, at, window, frame.ranges, wait) {
            Had::Nothing => {}
            Had::Progress(key) => {
                self.wake_writer(key);
                self.say_sendable(index);
            }
            // It has left: nobody can tell any more.
            Had::Gone(key) => self.withdraw(now, key, Outcome::Unknown),
        }
    }

    /// A streamed message that was full may have room again.
    fn wake_writer(&mut self, key: MessageKey) {
        let window = self.config.limits.body_window();
        let Some(letter) = self.store.get_mut(key) else { return };
        if letter.writer_waits && letter.source.kept() < window {
            letter.writer_waits = false;
            self.events.push_back(Event::BodyWritable { key });
        }
    }

    pub(super) fn on_probe(&mut self, now: Now, index: u32, r: Incarnation, s: Slot) {
        if let Some(peer) = self.peers.get_mut(index) {
            peer.inbound.on_probe(now.mono, s, r);
        }
    }

    pub(super) fn on_abandoned(&mut self, now: Now, index: u32, r: Incarnation, bytes: u64) {
        if let Some(peer) = self.peers.get_mut(index) {
            peer.inbound.on_abandoned(now.mono, r, bytes);
        }
    }

    /// A token has come: a STATE is owed, soon rather than now, since the application may take it first.
    fn owe_state(&mut self, now: Now, index: u32) {
        let wait: Duration = self.config.max_ack_delay;
        if let Some(peer) = self.peers.get_mut(index) {
            peer.inbound.owe_state(now.mono + wait);
        }
    }

    /// Memory is short: of peers that are silent, what has come in part is given up. It comes again.
    fn reclaim(&mut self, now: Now) {
        for _ in 0..RECLAIMED {
            let Some(index) = self.peers.next_place() else { return };
            let Some(peer) = self.peers.get_mut(index) else { continue };
            if peer.inbound.give_up_parts(now.mono, SILENT) {
                self.touch(now, index);
            }
        }
    }

    /// Bytes that this node can hold for a peer beyond what it does or has promised to: nobody has more than is left
    /// for all. One message is always let in.
    fn room(&self, index: u32) -> u64 {
        let cap = self.config.limits.received_bytes as u64;
        let own = self.peers.get(index).map_or(0, |peer| peer.inbound.memory());
        if self.received == 0 { u64::MAX } else { cap.saturating_sub(self.received).saturating_sub(own) }
    }
}

/// Bytes of memory of messages in the receive queue that have `len` bytes in wire form.
fn held(entries: wire::Entries<'_>, len: u64) -> u64 {
    len + entries.len() as u64 * ARRIVED
}

/// Bytes of all messages in wire form. None if one is malformed or not plain.
fn plain_len(mut entries: wire::Entries<'_>) -> Option<u64> {
    entries.try_fold(0, |len, (_, message)| {
        matches!(read_head(message), Ok((_, Role::Plain, _))).then_some(len + message.len() as u64)
    })
}

/// The head in front of a message, what it makes of it, and where the body begins.
#[inline]
pub(super) fn read_head(message: &[u8]) -> Result<(Head<'_>, Role, usize), wire::Malformed> {
    let (head, at) = Head::parse(message)?;
    Ok((head, Role::of(head.extensions)?, at))
}

fn arrived(
    peer: u32,
    id: MessageId,
    (head, role): (&Head<'_>, Role),
    body: ArrivedBody,
    wire_len: u64,
) -> Arrived {
    let priority = Priority::from(head.priority);
    Arrived { peer, id, tag: Bytes::copy_from_slice(head.tag), role, priority, body, wire_len }
}
