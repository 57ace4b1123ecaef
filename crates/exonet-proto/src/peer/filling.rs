//! What a packet is filled with.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use crate::half::{Ask, Clock, Receiver};
use crate::id::{Incarnation, Slot, Stamp};
use crate::journal::Journal;
use crate::message::{HEAD_ROOM, Letter, MessageKey, Store, Verdict};
use crate::pattern::call::Server;
use crate::peer::epoch::{Carried, Epoch};
use crate::peer::inbound::Inbound;
use crate::peer::outbound::{Followed, Outbound, Revoke};
use crate::peer::piece::{Next, Piece, Room};
use crate::time::Mono;
use crate::wire::{self, ALIKE_HEAD, MessagesWriter, RevokeStream, Writer};

/// Most free ranges in a STATE.
const MAX_STATE_RANGES: u16 = 256;
/// Room without which a HAVE, the requests, a TOKEN, or slots in a row wait for the next packet.
const MIN_HAVE: usize = 320;
const MIN_REQUESTS: usize = 64;
const MIN_TOKEN: usize = 20;
const MIN_RUN: usize = 28;

/// A packet that is being filled.
pub(crate) struct Filling<'f, 'w> {
    pub(crate) now: Mono,
    pub(crate) epoch: &'f mut Epoch,
    pub(crate) writer: &'f mut Writer<'w>,
    pub(crate) eliciting: bool,
    pub(crate) farewell: bool,
}

impl Filling<'_, '_> {
    /// ACK, STATE, HAVE and VERDICT: what the peer waits for. True when there was any.
    pub(crate) fn control(
        &mut self,
        inbound: &mut Inbound,
        clock: &Clock,
        journal: &Journal,
        alone: bool,
    ) -> bool {
        self.epoch.write_ack(self.now, self.writer);
        // A final STATE would give back what is rejected.
        self.verdicts(inbound, journal);
        self.withdrawn(inbound, journal);
        if inbound.state_may_leave(self.now, alone)
            && let Some(up) = write_state(self.writer, inbound, clock)
        {
            inbound.claimed(up);
            inbound.state_left(self.now);
            self.epoch.sent.carry(Carried::State { nth: inbound.states() });
            // An idle record's reminder asks whether anybody is there.
            if inbound.reminds() {
                self.eliciting |= self.writer.ping();
            }
        }
        if inbound.rejection.take_if(|(ts, time)| self.writer.stamp_rejected(*ts, *time)).is_some() {
            self.eliciting = true;
        }
        while self.writer.remaining() > MIN_HAVE
            && let Some(held) = inbound.next_have()
        {
            if self.writer.have(held.r, held.s, held.prefix, held.limit, held.islands) {
                self.epoch.sent.carry(Carried::Have { s: held.s });
                self.eliciting = true;
            }
        }
        !self.writer.is_empty()
    }

    fn verdicts(&mut self, inbound: &mut Inbound, journal: &Journal) {
        let Some(r) = inbound.receiver.as_ref().map(Receiver::incarnation) else { return };
        while self.writer.remaining() > MIN_HAVE
            && let Some((s, verdict)) = inbound.verdicts.next(|at| journal.is_safe(at))
        {
            let Verdict { word, status, attempts, reason } = verdict;
            let (word, status, attempts) = (*word as u8, *status, *attempts);
            if self.writer.verdict(wire::Verdict { r, s, word, status, attempts, reason }) {
                self.epoch.sent.carry(Carried::Verdict { s });
                self.eliciting = true;
            }
        }
    }

    fn withdrawn(&mut self, inbound: &mut Inbound, journal: &Journal) {
        let Some(r) = inbound.receiver.as_ref().map(Receiver::incarnation) else { return };
        while self.writer.remaining() >= MIN_RUN
            && let Some(run) = inbound.revoked.next(|at| journal.is_safe(at))
        {
            let (s, n) = (Slot(run.start), run.end - run.start);
            if self.writer.withdrawn(r, s, n) {
                self.epoch.sent.carry(Carried::Withdrawn { s, n });
                self.eliciting = true;
            }
        }
    }

    /// ASK, REVOKE and TOKEN probes.
    pub(crate) fn requests(
        &mut self,
        outbound: &mut Outbound,
        clock: &mut Clock,
        window: u64,
        pto: Duration,
    ) {
        if self.writer.remaining() < MIN_REQUESTS {
            return;
        }
        if outbound.farewell_due {
            let ask = Ask::farewell(clock);
            self.farewell = self.ask(ask, Carried::Farewell);
            outbound.farewell_due = !self.farewell;
        }
        if (outbound.ask_due || outbound.wants_envelopes(clock, window))
            && let Some(ask) = outbound.ask(self.now, clock, window, pto)
        {
            self.ask(ask, Carried::Ask);
        }
        while self.writer.remaining() >= MIN_RUN
            && outbound.next_revoke().is_some_and(|next| revoke(self.writer, next))
        {
            outbound.revoke_left();
            self.eliciting = true;
        }
        while self.writer.remaining() >= MIN_TOKEN
            && let Some((s, r)) = outbound.probes.pop_front()
        {
            self.eliciting |= self.writer.token(r, s);
        }
        while self.writer.remaining() >= MIN_TOKEN
            && let Some(s) = outbound.caller.next_probe()
        {
            self.eliciting |= self.writer.probe(s);
        }
    }

    /// REPLY_ACKs, and answers to PROBEs. A peer that misses one asks again.
    pub(crate) fn owed_to_calls(&mut self, outbound: &mut Outbound, inbound: &mut Inbound) {
        while self.writer.remaining() >= MIN_TOKEN
            && let Some(s) = outbound.caller.next_reply_ack()
        {
            self.writer.reply_ack(s);
        }
        while self.writer.remaining() >= MIN_TOKEN
            && let Some((s, known)) = inbound.server.next_answer()
        {
            if known {
                self.writer.computing(s)
            } else {
                self.writer.no_call(s)
            };
        }
    }

    /// Replies that fit. True when there are more.
    pub(crate) fn replies(&mut self, server: &mut Server, pto: Duration) -> bool {
        while let Some((s, status, body)) = server.next_reply() {
            if !self.writer.reply(wire::Reply { s, status, body }) {
                return true;
            }
            server.sent(self.now, s, pto);
            self.epoch.sent.carry(Carried::Reply { s });
            self.eliciting = true;
        }
        false
    }

    /// What left with the opening and has not been heard of, beside the ASK that bears its stamp.
    pub(crate) fn early(&mut self, outbound: &mut Outbound, store: &Store) {
        let before = self.writer.len();
        if outbound.early_due {
            outbound.early_due = !write_early(self.writer, outbound, store);
        }
        if self.writer.len() > before {
            self.epoch.sent.carry(Carried::Early);
            self.eliciting = true;
        }
    }

    fn ask(&mut self, ask: Ask, carried: Carried) -> bool {
        let written = self.writer.ask(ask.into());
        if written {
            self.epoch.sent.carry(carried);
            self.eliciting = true;
        }
        written
    }

    /// The PINGs of the application that fit; what does not waits. How many.
    pub(crate) fn pings(&mut self, pings: &mut VecDeque<u64>) -> u32 {
        let mut left = 0;
        while let Some(&cookie) = pings.front()
            && self.writer.ping()
        {
            pings.pop_front();
            self.epoch.sent.carry(Carried::Ping { cookie });
            self.eliciting = true;
            left += 1;
        }
        left
    }

    /// Messages, as many as fit. True when there is more.
    pub(crate) fn messages(&mut self, outbound: &mut Outbound, store: &mut Store, room: Room) -> bool {
        let mut next = outbound.next(self.now, store, self.room(room));
        loop {
            match next {
                Next::Nothing => return false,
                Next::PacketFull => return true,
                Next::Piece(piece) => next = self.frame(outbound, store, room, piece),
            }
        }
    }

    /// The room that a new frame has.
    fn room(&self, room: Room) -> Room {
        Room { left: self.writer.remaining(), ..room }
    }

    /// A frame that begins with `piece`, and goes on with what follows it number by number. Gives what came next.
    fn frame(&mut self, outbound: &mut Outbound, store: &mut Store, room: Room, first: Piece) -> Next {
        if let Piece::Fragment { key, s, r, range } = &first {
            let total = store.get(*key).and_then(Letter::said_len);
            let len = range.end - range.start;
            let ends = total == Some(range.end);
            if total.is_none() || !ends && self.room(room).part(total, range.start, *s, *r) != len {
                self.fragment(outbound, store, *key, (*s, *r), range.clone());
                return outbound.next(self.now, store, self.room(room));
            }
        }
        let (r, s, offset) = first.begin();
        let Some(mut frame) = self.writer.messages_from(r, s, offset) else {
            outbound.take_back(store, &first);
            return Next::PacketFull;
        };
        let (mut piece, mut number, mut whole, mut behind) = (first, s, 0_u32, None);
        let next = 'next: loop {
            if !put(&mut frame, store, &piece, behind) {
                outbound.take_back(store, &piece);
                break Next::PacketFull;
            }
            behind = None;
            let flow = match piece {
                Piece::Whole { key, .. } => {
                    whole += 1;
                    behind = Some(key);
                    store.get(key).map(Letter::flow)
                }
                Piece::Fragment { s, range, .. } => {
                    self.epoch.carry_whole(r, number, std::mem::take(&mut whole));
                    let len = u32::try_from(range.end - range.start).unwrap_or(u32::MAX);
                    self.epoch.sent.carry(Carried::Fragment { r, s, offset: range.start, len });
                    None
                }
            };
            number = Slot(number.0 + 1);
            let mut room = Room { left: frame.remaining(), open: Some((r, number)), behind, ..room };
            while let Some(flow) = flow {
                let (added, n, last) = match outbound.follow_bundled(self.now, store, flow, room) {
                    Followed::Entries(entries, n, last) => (frame.extend(entries, n), n, last),
                    Followed::Full => break 'next Next::PacketFull,
                    Followed::Nothing => match outbound.follow(self.now, store, flow, room) {
                        Some(key) => (push_key(&mut frame, store, key, behind), 1, key),
                        None => break,
                    },
                };
                if !added {
                    outbound.on_lost(store, r, number, n.into());
                    break 'next Next::PacketFull;
                }
                whole += n;
                number = Slot(number.0 + u64::from(n));
                behind = Some(last);
                room = Room { left: frame.remaining(), open: Some((r, number)), behind, ..room };
            }
            match outbound.next(self.now, store, room) {
                Next::Piece(next) if goes_on(store, &next, room) => piece = next,
                other => break other,
            }
        };
        self.eliciting |= frame.count() > 0;
        self.epoch.carry_whole(r, number, whole);
        next
    }

    fn fragment(
        &mut self,
        outbound: &mut Outbound,
        store: &mut Store,
        key: MessageKey,
        (s, r): (Slot, Incarnation),
        range: Range<u64>,
    ) {
        let mut head = [0; HEAD_ROOM];
        let written = store.get(key).map_or(0, |letter| {
            let (at, data) = (range.start, letter.part(range.clone(), &mut head));
            match letter.said_len() {
                Some(total) => self.writer.part(r, s, total, at, data) as u64,
                None => self.writer.open_part(r, s, at, data, range.end == letter.wire_len()) as u64,
            }
        });
        if written > 0 {
            let len = u32::try_from(written).unwrap_or(u32::MAX);
            self.epoch.sent.carry(Carried::Fragment { r, s, offset: range.start, len });
            self.eliciting = true;
        }
        if range.start + written < range.end {
            outbound.on_fragment_lost(store, r, s, range.start + written..range.end);
        }
    }
}

/// Whether the open frame takes a piece: of the message of the next number all, or what fills the packet.
fn goes_on(store: &Store, piece: &Piece, room: Room) -> bool {
    let (r, s, offset) = piece.begin();
    let fills = |key: MessageKey, len| {
        let total = store.get(key).and_then(Letter::said_len);
        total.is_some_and(|total| len == total || room.part(total, 0, s, r) == len)
    };
    room.open == Some((r, s))
        && offset == 0
        && match piece {
            Piece::Whole { .. } => true,
            Piece::Fragment { key, range, .. } => fills(*key, range.end),
        }
}

/// Adds a piece to a frame, which has the message of `behind` last, whole.
#[inline]
fn put(frame: &mut MessagesWriter<'_, '_>, store: &Store, piece: &Piece, behind: Option<MessageKey>) -> bool {
    match piece {
        Piece::Whole { key, .. } => push_key(frame, store, *key, behind),
        Piece::Fragment { key, range, .. } => store.get(*key).is_some_and(|letter| {
            let mut head = [0; HEAD_ROOM];
            frame.part(letter.wire_len(), letter.part(range.clone(), &mut head))
        }),
    }
}

/// As [`put`], of a message that goes whole.
#[inline]
fn push_key(
    frame: &mut MessagesWriter<'_, '_>,
    store: &Store,
    key: MessageKey,
    behind: Option<MessageKey>,
) -> bool {
    let Some(letter) = store.get(key) else { return false };
    if letter.short_head().is_none()
        && let Some(before) = behind
        && store.get(before).is_some_and(|other| letter.is_alike(key, other, before))
    {
        return frame.push(&ALIKE_HEAD, letter.body_of(key));
    }
    push(frame, key, letter)
}

#[inline]
fn push(frame: &mut MessagesWriter<'_, '_>, key: MessageKey, letter: &Letter) -> bool {
    let body = letter.body_of(key);
    match letter.short_head() {
        Some(head) => frame.push(&head, body),
        None => frame.push(letter.head_of(key, &mut [0; HEAD_ROOM]), body),
    }
}

/// EARLY: the messages that left with the opening and are open under its stamp, as many as fit.
pub(crate) fn write_early(writer: &mut Writer<'_>, outbound: &Outbound, store: &Store) -> bool {
    let Some(sender) = outbound.sender.as_ref().filter(|sender| sender.stamp().is_some()) else {
        return true;
    };
    let mut open = sender.early().peekable();
    while let Some((s, _)) = open.peek().copied() {
        let Some(mut frame) = writer.early(sender.stamp(), s) else { return false };
        let mut next = s;
        while let Some((_, key)) = open.next_if(|(s, _)| *s == next) {
            if !store.get(*key).is_some_and(|letter| push(&mut frame, *key, letter)) {
                return false;
            }
            next = Slot(next.0 + 1);
        }
    }
    true
}

/// As [`write_state`], in an answer. While what came with the opening waits for the application, nothing is said
/// that would make the sender send it again.
pub(crate) fn write_answer_state(writer: &mut Writer<'_>, inbound: &Inbound, clock: &Clock) -> bool {
    state_with(writer, inbound, clock, inbound.taken(clock).filter(|_| !inbound.has_pending())).is_some()
}

/// The claim of the receiver record, or that there is none. Gives where the claim ends; None: no room.
pub(crate) fn write_state(writer: &mut Writer<'_>, inbound: &Inbound, clock: &Clock) -> Option<Slot> {
    state_with(writer, inbound, clock, inbound.taken(clock))
}

fn state_with(
    writer: &mut Writer<'_>,
    inbound: &Inbound,
    clock: &Clock,
    taken: Option<(Stamp, Slot)>,
) -> Option<Slot> {
    if inbound.unsaid.is_mute() {
        return None;
    }
    let Some(record) = inbound.receiver.as_ref() else {
        return writer.state_gone(clock.b(), Incarnation(clock.ck()), taken).then_some(Slot(0));
    };
    let (hi, l, free) = record.parts();
    let (hi, view) = (inbound.unsaid.hi(hi), inbound.unsaid.free(free));
    let (up, free) = (record.up().min(hi), view.as_ref().unwrap_or(free));
    let l = l.min(up);
    let lo =
        if free.intervals() > usize::from(MAX_STATE_RANGES) { inbound.claim_from().clamp(l, up) } else { l };
    let claim = wire::Claim { hi, lo, up, closed: record.is_closed(), part: lo > l };
    let free = free.overlaps(lo.0..up.0);
    writer.state_live(clock.b(), record.incarnation(), taken, claim, free, MAX_STATE_RANGES)
}

impl From<Ask> for wire::Ask {
    fn from(ask: Ask) -> Self {
        let Ask { s, n, l, ts } = ask;
        Self { s, n, l, ts }
    }
}

impl From<wire::Ask> for Ask {
    fn from(ask: wire::Ask) -> Self {
        let wire::Ask { s, n, l, ts } = ask;
        Self { s, n, l, ts }
    }
}

/// Writes REVOKE or REVOKE_STREAM. False: there is no room.
fn revoke(writer: &mut Writer<'_>, revoke: &Revoke) -> bool {
    let Revoke { r, s, n, place } = revoke;
    let (r, s, n) = (*r, *s, *n);
    match place {
        None => writer.revoke(r, s, n),
        Some((name, mark)) => writer.revoke_stream(RevokeStream { r, s, n, name, mark: *mark }),
    }
}
