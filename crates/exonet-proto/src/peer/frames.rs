//! How a peer processes the frames of an authentic packet.

use core::time::Duration;

use bytes::Bytes;

use super::context::Settled;
use super::{Context, Peer};
use crate::event::Event;
use crate::follow::What;
use crate::half::{self, Answer, Claim, EVERY, Proof, State};
use crate::id::{Incarnation, MessageId, Slot, Stamp};
use crate::message::arena::SHORT;
use crate::message::arrived::{ARRIVED, Arrived, ArrivedBody};
use crate::message::lane::{Lane, Load};
use crate::message::run::{Common, Run};
use crate::message::{MessageKey, Outcome, POOLED, Priority, read_head};
use crate::peer::inbound::{ANNOUNCED, Inbound, Taken};
use crate::peer::outbound::Had;
use crate::time::{Now, Wall};
use crate::wire::Traceparent;
use crate::wire::{self, Head, Role};

impl Peer {
    pub(super) fn on_ask(&mut self, cx: &mut Context, now: Now, ask: wire::Ask) {
        if ask.ts.is_some() && !cx.admit_stamp(now, self.id, &mut self.inbound.bound, ask.ts) {
            return;
        }
        if ask.ts.is_some() && !cx.clock.stamps().is_new(&self.inbound.bound, ask.ts) {
            let met = self.inbound.receiver.as_ref().is_some_and(|record| record.stamp() == ask.ts);
            let astray = self.inbound.bound.far().is_some_and(|far| far.contains(ask.ts));
            cx.stats.stamps_astray += u64::from(astray);
            cx.stats.stamps_stale += u64::from(!met && !astray);
        }
        let frees = self.passes_free(ask.l);
        let answer = self.inbound.on_ask(now.mono, &mut cx.clock, &cx.config.limits, ask.into());
        if answer == Answer::StampRejected {
            cx.stats.stamps_ahead += 1;
            self.inbound.rejection = Some((ask.ts, now.wall));
            self.inbound.rejected = ask.ts;
        }
        cx.inbox.note_stale(self.inbound.take_stale());
        if frees {
            self.tell_streams(cx);
        }
    }

    /// Messages that came before anything was granted. If their stamp names the present record, they are like any other messages
    /// of that record.
    pub(super) fn on_early(&mut self, cx: &mut Context, now: Now, frame: &wire::Early<'_>) {
        let record = self.inbound.receiver.as_mut();
        match record.filter(|record| record.stamp() == frame.ts) {
            Some(record) => {
                for s in frame.entries.slots() {
                    record.name(Slot(s), frame.ts);
                }
                let r = record.incarnation();
                let before = cx.inbox.len();
                self.on_whole(cx, now, r, frame.entries);
                cx.stats.early_received += (cx.inbox.len() - before) as u64;
            }
            None => self.owe_state(cx, now),
        }
    }

    /// STAMP_REJECTED: what was sent early under `ts` was refused, and no node can ever tell its copies from it.
    pub(super) fn on_stamp_rejected(&mut self, cx: &mut Context, now: Now, ts: Stamp, time: Wall) {
        let Some(sender) = self.outbound.sender.as_mut() else { return };
        let mut settled = std::mem::take(&mut cx.scratch.settled);
        sender.on_stamp_rejected(ts, |_, key| Settled::push(&mut settled, key, Outcome::Unknown));
        if !settled.is_empty() {
            self.note_time(now.wall, time);
            self.outbound.ask_due = true;
            cx.clock_doubted = true;
            cx.stats.early_rejected += settled.len() as u64;
        }
        self.settle(cx, now.mono, &mut settled);
        cx.scratch.settled = settled;
    }

    /// STATE: settles messages, grants envelopes.
    pub(super) fn on_state(&mut self, cx: &mut Context, now: Now, frame: &wire::State<'_>) {
        let mut state = State { b: frame.b, r: frame.r, live: None, taken: None };
        state.taken = frame.taken.map(|(ts, end)| half::Taken { ts, end });
        if let Some(claim) = frame.live {
            let mut free = std::mem::take(&mut cx.scratch.free);
            free.clear();
            frame.free.for_each(|range| free.insert(range));
            let wire::Claim { hi, lo, up, closed, part } = claim;
            state.live = Some(Claim { hi, lo, up, free, closed, part });
        }
        if let Some((ts, EVERY)) = frame.taken {
            self.told.forgot(now.wall, ts);
        }
        self.told.ended |= frame.live.is_some_and(|claim| claim.closed);
        let Some(sender) = self.outbound.sender.as_mut() else {
            self.outbound.farewell_due |= state.live.is_some();
            return;
        };
        let mut settled = std::mem::take(&mut cx.scratch.settled);
        let mut returned = Vec::new();
        let (mut met, mut forgotten) = (false, false);
        let passed = state.live.as_ref().map_or(Slot(0), Claim::passed);
        let (store, journal) = (&mut cx.store, &mut cx.journal);
        let progress = sender.on_state(&state, |s, named, key, verdict| {
            if named.is_none() && verdict == Proof::Delivered {
                // The message was sent early, and has met this record.
                met = true;
                if let Some(letter) = store.get_mut(key) {
                    letter.bound = Some((s, state.r));
                    Self::journal_met(journal, letter, state.r);
                }
            }
            forgotten |= named.is_none() && verdict == Proof::Unknown && s >= passed;
            let outcome = match verdict {
                Proof::Delivered => Outcome::Delivered,
                Proof::Unknown => Outcome::Unknown,
                Proof::NotTaken => return returned.push((s, key)),
            };
            Settled::push(&mut settled, key, outcome);
        });
        if let Some(claim) = state.live {
            if claim.closed {
                self.outbound.pass_closed();
            }
            cx.scratch.free = claim.free;
        }
        cx.stats.early_slowed += progress.converted.len() as u64;
        cx.clock_doubted &= !met;
        cx.clock_doubted |= forgotten && self.told.is_apart();
        self.told.ended &= !progress.granted;
        self.convert(cx, &progress.converted);
        if !progress.converted.is_empty() {
            self.outbound.revoke_soon(now.mono);
        }
        let wait = self.link.pto() * 2;
        let any = !settled.is_empty() || !returned.is_empty();
        self.take_back(cx, now, returned);
        self.settle(cx, now.mono, &mut settled);
        cx.scratch.settled = settled;
        self.outbound.on_state(now.mono, progress.granted, any, wait);
    }

    /// MESSAGES: messages and parts of messages.
    pub(super) fn on_messages(&mut self, cx: &mut Context, now: Now, frame: &wire::Messages<'_>) {
        if let Some(first) = &frame.first {
            self.on_part(cx, now, frame.r, first);
        }
        if frame.whole.len() > 0 {
            self.on_whole(cx, now, frame.r, frame.whole);
        }
        if let Some(last) = &frame.last {
            self.on_part(cx, now, frame.r, last);
        }
    }

    /// Whole messages. They enter the receive queue together; if one of them cannot, each enters by itself.
    fn on_whole(&mut self, cx: &mut Context, now: Now, r: Incarnation, entries: wire::Entries<'_>) {
        if Self::declines(cx, entries) {
            return self.decline(cx, now, r);
        }
        let (mut rest, mut tight, mut replies) = (entries, false, Vec::new());
        if self.enqueue(cx, r, entries) != Taken::Whole {
            while let Some((alike, head)) = rest.split_alike() {
                let read = head.and_then(|(head, at)| Ok((head, Role::of(&head)?, at)));
                if self.enqueue_alike(cx, r, alike, read) == Taken::Whole {
                    continue;
                }
                for (n, one) in alike.singly().enumerate() {
                    let taken = self.enqueue_one(cx, r, one, read, n, &mut replies);
                    tight |= taken == Taken::NoMemory;
                    self.note_untaken(cx, r, Slot(one.slots().start), &taken);
                }
            }
        }
        for (arrived, s, status) in replies {
            self.on_reply_message(cx, now, arrived, s, status);
        }
        // A message that waits in its lane leaves its slot to others.
        self.inbound.retry(now.mono, &mut cx.clock, &cx.config.limits);
        self.owe_state(cx, now);
        cx.short_of_memory |= tight;
    }

    fn note_untaken(&self, cx: &mut Context, r: Incarnation, s: Slot, taken: &Taken) {
        match taken {
            Taken::Ignored => {
                cx.stats.duplicates_suppressed += 1;
                self.follow_slots(cx, r, s, 1, What::Duplicate, false);
            }
            Taken::Malformed => cx.stats.malformed += 1,
            Taken::Violation => cx.stats.violations += 1,
            Taken::NoRoom | Taken::NoMemory => {
                cx.stats.dropped_for_room += 1;
                self.follow_slots(cx, r, s, 1, What::NoRoom, false);
            }
            _ => {}
        }
    }

    /// Whether one of these messages is of a kind that this node does not take. A message that is alike to another is of the same
    /// kind.
    fn declines(cx: &Context, mut entries: wire::Entries<'_>) -> bool {
        let takes = cx.config.takes;
        let other = |message| read_head(message).is_ok_and(|(_, role, _)| !takes.takes(role));
        !takes.takes_all() && entries.any(|(_, message)| other(message))
    }

    /// A message that came under the record `r` is of a kind that this node does not take. The record is closed, so that the
    /// sender knows for certain. The other messages that came under this record come again under the next.
    fn decline(&mut self, cx: &mut Context, now: Now, r: Incarnation) {
        if let Some(record) = self.inbound.receiver.as_ref()
            && record.incarnation() == r
            && !record.is_closed()
        {
            cx.stats.declined += 1;
            let wait = self.link.is_connected().then(|| self.link.pto() * 2);
            self.inbound.close(now.mono, wait);
            cx.inbox.note_stale(self.inbound.take_stale());
            self.account(cx);
        }
        self.owe_state(cx, now);
    }

    /// Plain messages of consecutive slots go to the receive queue, all of them or none.
    fn enqueue(&mut self, cx: &mut Context, r: Incarnation, entries: wire::Entries<'_>) -> Taken {
        let Some(len) = plain_len(entries) else { return Taken::Malformed };
        let taken = self.admit_whole(cx, r, entries, &Lane::Plain, len);
        if taken == Taken::Whole {
            self.hold(cx, held(entries, len));
            let id = MessageId { sender: self.id, r, s: Slot(entries.slots().start) };
            let run = Run::new(self.place, id, entries, len, |bytes| cx.arena.copy_entries(bytes));
            cx.events.extend(cx.inbox.push_run(run).map(Event::from));
        }
        taken
    }

    /// Messages that have everything but their bodies in common with the first go to the receive queue, all of them or none.
    fn enqueue_alike(
        &mut self,
        cx: &mut Context,
        r: Incarnation,
        entries: wire::Entries<'_>,
        read: Read<'_>,
    ) -> Taken {
        let Ok((head, role, _)) = read else { return Taken::Malformed };
        let Some(common) = Common::of(&head, role) else { return Taken::Partly };
        self.enqueue_common(cx, r, entries, common)
    }

    fn enqueue_common(
        &mut self,
        cx: &mut Context,
        r: Incarnation,
        entries: wire::Entries<'_>,
        common: Common,
    ) -> Taken {
        let (lane, len) = (common.lane(), entries.map(|(_, message)| message.len() as u64).sum());
        let taken = self.admit_whole(cx, r, entries, &lane, len);
        if taken == Taken::Whole {
            self.hold(cx, held(entries, len));
            let id = MessageId { sender: self.id, r, s: Slot(entries.slots().start) };
            let run =
                Run::new(self.place, id, entries, len, |bytes| cx.arena.copy_entries(bytes)).with(common);
            cx.events.extend(cx.inbox.push_run(run).map(Event::from));
            if let Lane::Stream(name) = lane {
                self.keep_record(cx);
                self.tell_stream(cx, &name);
            }
        }
        taken
    }

    /// One message goes to the receive queue: the `n`th of those that have what was `read` in common. A reply goes to `replies`.
    fn enqueue_one(
        &mut self,
        cx: &mut Context,
        r: Incarnation,
        entry: wire::Entries<'_>,
        read: Read<'_>,
        n: usize,
        replies: &mut Vec<(Arrived, Slot, u32)>,
    ) -> Taken {
        let mut one = entry;
        let Some((s, bytes)) = one.next() else { return Taken::Malformed };
        let Ok((head, role, at)) = read else { return Taken::Malformed };
        if let Some(common) = Common::of(&head, role) {
            return self.enqueue_common(cx, r, entry, common.from(n));
        }
        let (id, len) = (MessageId { sender: self.id, r, s }, bytes.len() as u64);
        let mut arrived = arrived(self.place, id, (&head, role), ArrivedBody::Whole(Bytes::new()), len);
        let taken = self.admit_whole(cx, r, entry, &arrived.lane(), len);
        if taken == Taken::Whole {
            arrived.body = ArrivedBody::Whole(cx.arena.copy(bytes.get(at..).unwrap_or_default()));
            if let Role::Reply { s, status } = role {
                replies.push((arrived, s, status));
                return taken;
            }
            self.hold(cx, held(entry, len));
            self.wait_in_inbox(cx, arrived);
        }
        taken
    }

    /// Whether there is memory for these messages, `len` bytes in all, and a free slot for each of them.
    fn admit_whole(
        &mut self,
        cx: &mut Context,
        r: Incarnation,
        entries: wire::Entries<'_>,
        lane: &Lane,
        len: u64,
    ) -> Taken {
        let limits = &cx.config.limits;
        let cap = limits.received_bytes as u64;
        // The node always lets one message in. Beyond that, no peer holds more than is left for all peers.
        let left = cap.saturating_sub(cx.received).saturating_sub(self.inbound.memory());
        let lone = cx.received == 0 && entries.len() == 1;
        if !lone && held(entries, len) > left {
            let (slots, load) = (entries.slots(), Load { messages: entries.len() as u64, bytes: len });
            let wanted = self.inbound.would_take(slots.clone(), r, lane, len, limits);
            if !wanted || !self.make_room(cx, lane, Slot(slots.start), load) {
                return Taken::NoMemory;
            }
        }
        let limits = &cx.config.limits;
        let taken = self.inbound.on_whole(entries.slots(), r, lane, len, limits);
        if taken == Taken::Whole {
            let first = MessageId { sender: self.id, r, s: Slot(entries.slots().start) };
            cx.follow_entries(first, entries);
        }
        taken
    }

    /// Makes room in memory for messages of a lane. While memory is short, the fullest lane of this peer gives back the messages
    /// that came last; the peer sends them again. Messages that follow the message at `s` in its stream give way to it first,
    /// since they wait for it.
    fn make_room(&mut self, cx: &mut Context, lane: &Lane, s: Slot, load: Load) -> bool {
        while load.open() > self.room(cx) {
            if let Lane::Stream(name) = lane
                && self.evict_behind(cx, name, s)
            {
                continue;
            }
            let Some(fullest) = self.inbound.held.fuller(lane, load) else { return false };
            let gone = cx.inbox.evict(self.place, &fullest);
            if gone.is_empty() {
                return false;
            }
            gone.iter().for_each(|arrived| self.evict_waiting(cx, arrived, &fullest));
        }
        true
    }

    /// There is no memory for parts of the message at `s`: stream messages that lie behind it give way, since some of them may
    /// wait for it.
    fn give_way(&mut self, cx: &mut Context, s: Slot) {
        let names: Vec<_> = cx.inbox.streams_of(self.place).cloned().collect();
        for name in names {
            self.evict_behind(cx, &name, s);
        }
    }

    /// Evicts a few messages of a stream that lie behind `s`. False: there are none.
    fn evict_behind(&mut self, cx: &mut Context, name: &Bytes, s: Slot) -> bool {
        let gone = cx.inbox.evict_behind(self.place, name, Some(s));
        let lane = Lane::Stream(name.clone());
        gone.iter().for_each(|arrived| self.evict_waiting(cx, arrived, &lane));
        !gone.is_empty()
    }

    fn evict_waiting(&mut self, cx: &mut Context, arrived: &Arrived, lane: &Lane) {
        if !self.waits_for(&arrived.front()) {
            return self.drop_stale(cx, arrived);
        }
        self.discard(cx, arrived.held());
        cx.follow_came(arrived.id, 1, What::NoRoom, false);
        self.inbound.evict_pending(arrived.id.s, arrived.id.r, Some(lane), arrived.wire_len);
        cx.stats.dropped_for_room += 1;
    }

    /// A message in one piece occupies memory until it has left the receive queue.
    fn hold(&mut self, cx: &mut Context, bytes: u64) {
        cx.received += bytes;
        self.inbound.waiting += bytes;
    }

    fn on_part(&mut self, cx: &mut Context, now: Now, r: Incarnation, part: &wire::Part<'_>) {
        let (limits, room, s) = (&cx.config.limits, self.room(cx), part.s);
        // Freed bytes are still counted.
        let counted = |inbound: &Inbound| inbound.promised() + inbound.freed();
        let before = counted(&self.inbound);
        let taken = self.inbound.on_part(r, part, limits, room, &mut cx.arena);
        let after = counted(&self.inbound);
        cx.received = cx.received.saturating_add(after).saturating_sub(before);
        let id = MessageId { sender: self.id, r, s };
        match taken {
            Taken::Complete(message) => self.on_complete(cx, now, id, message),
            Taken::Announce => self.announce(cx, now, id),
            Taken::Readable(key) => cx.events.push_back(Event::BodyReadable { key }),
            Taken::Partly | Taken::Whole | Taken::Malformed => {}
            taken => {
                self.note_untaken(cx, r, s, &taken);
                match taken {
                    Taken::Ignored => self.owe_state(cx, now),
                    Taken::NoMemory => {
                        cx.short_of_memory = true;
                        self.give_way(cx, s);
                    }
                    _ => {}
                }
            }
        }
    }

    fn on_complete(&mut self, cx: &mut Context, now: Now, id: MessageId, message: Vec<u8>) {
        self.owe_state(cx, now);
        let len = message.len() as u64;
        let Ok((head, role, at)) = read_head(&message) else {
            cx.stats.malformed += 1;
            self.inbound.drop_pending(id.s, id.r, None, len);

            return;
        };
        if !cx.config.takes.takes(role) {
            return self.decline(cx, now, id.r);
        }
        cx.follow_head(id, (&head, role), Some(len - at as u64));
        if message.len() <= SHORT && role == Role::Plain && !head.confirm {
            self.hold(cx, len + ARRIVED);
            let run = Run::one(self.place, id, len, cx.arena.copy_entry(&message));
            cx.arena.keep(message);
            cx.events.extend(cx.inbox.push_run(run).map(Event::from));
            return;
        }
        let mut arrived = arrived(self.place, id, (&head, role), ArrivedBody::Whole(Bytes::new()), len);
        arrived.body = ArrivedBody::Whole(if message.len() <= SHORT {
            let body = cx.arena.copy(message.get(at..).unwrap_or_default());
            cx.arena.keep(message);
            body
        } else {
            Bytes::from(message).slice(at..)
        });
        if let Role::Reply { s, status } = role {
            return self.on_reply_message(cx, now, arrived, s, status);
        }
        self.hold(cx, len + ARRIVED);
        self.wait_in_inbox(cx, arrived);
    }

    /// A message waits for the application. The application is told if necessary.
    fn wait_in_inbox(&mut self, cx: &mut Context, arrived: Arrived) {
        let stream = matches!(arrived.role, Role::Stream(_)).then(|| arrived.tag.clone());
        cx.events.extend(cx.inbox.push(arrived, cx.config.serves).map(Event::from));
        if let Some(name) = stream {
            self.keep_record(cx);
            self.tell_stream(cx, &name);
        }
    }

    /// A message that is read as it comes has its head.
    fn announce(&mut self, cx: &mut Context, now: Now, id: MessageId) {
        let Some(partial) = self.inbound.partial(id.s) else {
            return;
        };
        let total = partial.assembly.total();
        let Ok((head, role, at)) = read_head(partial.assembly.front()) else {
            cx.stats.malformed += 1;
            return;
        };
        if !cx.config.takes.takes(role) {
            return self.decline(cx, now, id.r);
        }
        if let Role::Stream(_) = role {
            // The application would read it while the messages that it follows wait in a pool.
            cx.stats.violations += 1;
            return;
        }
        let len = total.map(|total| total - at as u64);
        cx.follow_head(id, (&head, role), len);
        // The message counts as large, even if it turns out to be short.
        let whole = total.map_or(u64::MAX, |total| total.max(POOLED + 1));
        let arrived = arrived(self.place, id, (&head, role), ArrivedBody::Stream { len }, whole);
        partial.assembly.skip(at as u64);
        // The delivery's own key replaces this one when the message is handed out.
        partial.stream = Some(ANNOUNCED);
        if let Role::Reply { s, status } = role {
            return self.on_reply_message(cx, now, arrived, s, status);
        }
        cx.events.extend(cx.inbox.push(arrived, cx.config.serves).map(Event::from));
    }

    pub(super) fn on_have(&mut self, cx: &mut Context, now: Now, frame: &wire::Have<'_>) {
        let (at, window, wait) = ((frame.s, frame.r), (frame.prefix, frame.limit), self.link.pto() * 2);
        match self.outbound.on_have(now.mono, &mut cx.store, at, window, frame.ranges, wait) {
            Had::Nothing => {}
            Had::Progress(key) => {
                wake_writer(cx, key);
                self.say_sendable(cx);
            }
            // The message has left: no node can tell any more whether it is delivered.
            Had::Gone(key) => self.withdraw(cx, now, key, Outcome::Unknown),
        }
    }

    /// A token has come: a STATE is owed, soon rather than now, since the application may take the message first.
    fn owe_state(&mut self, cx: &Context, now: Now) {
        let wait: Duration = cx.config.max_ack_delay;
        self.inbound.owe_state(now.mono + wait);
    }

    /// How many bytes this node can hold for a peer beyond what it holds or has promised to hold: no peer has more than is left
    /// for all peers. The node always lets one message in.
    fn room(&self, cx: &Context) -> u64 {
        let cap = cx.config.limits.received_bytes as u64;
        let own = self.inbound.memory();
        if cx.received == 0 { u64::MAX } else { cap.saturating_sub(cx.received).saturating_sub(own) }
    }
}

/// The head that several messages have in common, the role that it gives them, and where the body of the first message begins.
type Read<'a> = Result<(Head<'a>, Role, usize), wire::Malformed>;

/// A streamed message whose window was full may have room again.
fn wake_writer(cx: &mut Context, key: MessageKey) {
    let window = cx.config.limits.body_window();
    let Some(letter) = cx.store.get_mut(key) else { return };
    if letter.writer_waits && letter.source.kept() < window {
        letter.writer_waits = false;
        cx.events.push_back(Event::BodyWritable { key });
    }
}

/// How much memory messages of `len` bytes in wire form occupy in the receive queue.
fn held(entries: wire::Entries<'_>, len: u64) -> u64 {
    len + entries.len() as u64 * ARRIVED
}

/// The bytes of all messages in wire form. None if one of them is malformed or not plain.
fn plain_len(mut entries: wire::Entries<'_>) -> Option<u64> {
    entries.try_fold(0, |len, (_, message)| {
        matches!(read_head(message), Ok((head, Role::Plain, _)) if !head.confirm)
            .then_some(len + message.len() as u64)
    })
}

fn arrived(
    peer: u32,
    id: MessageId,
    (head, role): (&Head<'_>, Role),
    body: ArrivedBody,
    wire_len: u64,
) -> Arrived {
    let priority = Priority::from(head.priority);
    let (tag, confirm) = (Bytes::copy_from_slice(head.tag), head.confirm);
    let trace = Traceparent::of(head.extensions).map(Box::new);
    Arrived { peer, id, tag, role, priority, confirm, trace, body, wire_len }
}
