//! What a peer writes to the journal, and what waits for the journal: see [`crate::journal`].

use core::net::SocketAddr;
use core::ops::Range;
use std::collections::BTreeSet;

use super::inbound::Said;
use super::{Context, Peer};
use crate::event::Event;
use crate::half::{Reader, Receiver, Sender, Void};
use crate::id::{Incarnation, LetterId, Slot, Stamp};
use crate::journal::{
    Binding, Heading, How, Journal, Known, PastOutcome, Place, Placed, Position, Posted, Record,
};
use crate::message::{Bundle, Ending, Letter, MessageKey, Outgoing, Source, Verdict};
use crate::time::{Mono, Now, Wall};
use crate::wire::{Role, StreamMark};
use bytes::Bytes;

impl Peer {
    /// The journal's number of this peer. From then on the journal knows the peer.
    fn number(&mut self, journal: &mut Journal) -> u32 {
        if let Some((number, _)) = self.journaled {
            return number;
        }
        let peer = journal.next_peer();
        journal.append(&Record::Peer { peer, id: self.id });
        self.journaled = Some((peer, None));
        peer
    }

    /// Writes the last address of the peer again if it has changed.
    fn journal_hint(&mut self, journal: &mut Journal) {
        let peer = self.number(journal);
        // The address that a connection came from is not one at which to find the peer.
        let proven = self.link.proven().filter(|path| path.pipe.is_none()).map(|path| path.remote);
        let address: Option<SocketAddr> = proven.or_else(|| self.hints.first().copied());
        if let (Some(address), Some((_, known))) = (address, self.journaled.as_mut())
            && *known != Some(address)
        {
            *known = Some(address);
            journal.append(&Record::Hint { peer, address });
        }
    }

    /// The peer was found at another address: a node that restarts looks for it there.
    pub(super) fn journal_address(&mut self, cx: &mut Context) {
        if cx.journal.is_on() && self.journaled.is_some() {
            self.journal_hint(&mut cx.journal);
        }
    }

    // --- sending ---

    /// A message was accepted. A call is not journaled, since only this process waits for its reply; nor is a body that the
    /// application writes as it leaves.
    pub(super) fn journal_put(&mut self, cx: &mut Context, now: Now, key: MessageKey) {
        if !cx.journal.is_on() {
            return;
        }
        let Some(letter) = cx.store.get_mut(key).filter(|letter| is_kept(letter)) else { return };
        if matches!(letter.source, Source::Stream(_) | Source::Bundle(_)) {
            return;
        }
        self.journal_hint(&mut cx.journal);
        let (peer, id) = (self.number(&mut cx.journal), cx.journal.next_letters(1));
        (letter.journaled, letter.group) = (id, cx.journal.group());
        if let Some(id) = id {
            let shared = letter.source.shared();
            cx.journal.append_sharing(&put(now, peer, id, letter), shared);
            cx.store.keep(key, &cx.shelf);
        }
    }

    /// As [`Self::journal_put`], for messages that were accepted together.
    pub(super) fn journal_put_span(&mut self, cx: &mut Context, now: Now, key: MessageKey) {
        if !cx.journal.is_on() {
            return;
        }
        self.journal_hint(&mut cx.journal);
        let peer = self.number(&mut cx.journal);
        let Some(letter) = cx.store.get_mut(key) else { return };
        let n = letter.bundle().map_or(0, Bundle::count);
        (letter.journaled, letter.group) = (cx.journal.next_letters(n), cx.journal.group());
        let shared = letter.bundle_mut().map(|bundle| (bundle.body_len(), bundle.share().clone()));
        if let (Some(id), Some((body, entries))) = (letter.journaled, shared) {
            let heading = heading(now, letter);
            let record = Record::PutSpan { letter: id, n, peer, heading, body, entries: &entries };
            cx.journal.append_sharing(&record, Some(&entries));
            cx.store.keep(key, &cx.shelf);
        }
    }

    /// Journals what was bound: none of it has left yet.
    pub(super) fn journal_bound(&mut self, cx: &mut Context) {
        let peer = self.journaled.map_or(0, |(number, _)| number);
        for bound in self.outbound.take_bound() {
            append_binding(&mut cx.journal, peer, &bound);
        }
    }

    /// Names the messages that can leave soon, if their names first have to be forced to the disk.
    pub(super) fn bind_ahead(&mut self, cx: &mut Context, now: Now) {
        if !cx.journal.is_forced() || !self.link.is_connected() {
            return;
        }
        let recovery = &self.link.recovery;
        let size = u64::from(recovery.datagram_size());
        let room = recovery.congestion().window().saturating_sub(recovery.in_flight()).max(size);
        let (store, journal) = (&mut cx.store, &mut cx.journal);
        let peer = self.journaled.map_or(0, |(number, _)| number);
        self.outbound.bind_ahead(now.mono, store, room, |bound| append_binding(journal, peer, &bound));
        self.outbound.on_safe(&mut cx.store, |at| cx.journal.is_safe(at));
        self.wait_for_journal(cx);
    }

    /// Journals the messages that have just been bound to leave early.
    pub(in crate::peer) fn journal_early(&mut self, cx: &mut Context) {
        let Some(sender) = self.outbound.sender.as_ref().filter(|_| cx.journal.is_on()) else { return };
        for (s, key) in sender.early() {
            let letter = cx.store.get(*key).and_then(|letter| letter.journaled);
            if let Some(letter) = letter {
                cx.journal.append(&Record::Early { letter, s, ts: sender.stamp() });
            }
        }
    }

    /// Early messages have met a live record: they are now tokens of it, and their bodies leave (again).
    pub(super) fn convert(&mut self, cx: &mut Context, converted: &[(Slot, Incarnation)]) {
        let (store, journal) = (&mut cx.store, &mut cx.journal);
        self.outbound.on_converted(store, converted, |letter| match (letter.journaled, letter.bound) {
            (Some(letter), Some((_, r))) => journal.append(&Record::Convert { letter, r }),
            _ => Position(0),
        });
        self.outbound.on_safe(&mut cx.store, |at| cx.journal.is_safe(at));
        self.wait_for_journal(cx);
    }

    /// A message that left early has ended under an incarnation that it has not been told.
    pub(super) fn journal_met(journal: &mut Journal, letter: &Letter, r: Incarnation) {
        if let Some(letter) = letter.journaled {
            journal.append(&Record::Convert { letter, r });
        }
    }

    /// A message was not taken, and goes back into its queue.
    pub(super) fn journal_back(&mut self, cx: &mut Context, s: Slot, key: MessageKey) {
        let first = cx.store.get(key).and_then(|letter| letter.journaled);
        if let Some(first) = first {
            let kept = self.outbound.kept_place(key);
            let at = cx.journal.append(&Record::Back { letter: first.nth(key.at), kept });
            self.ends_at(cx, at, Some(s));
        }
    }

    /// A message of a stream went back into its queue: the stream is no further than before that message.
    pub(super) fn journal_writer(&mut self, cx: &mut Context, name: &Bytes) {
        if cx.journal.is_on() {
            let (peer, begun) = (self.number(&mut cx.journal), self.outbound.writers.begun_of(name));
            cx.journal.append(&Record::Writer { peer, name, begun });
        }
    }

    /// `n` messages have their outcome, which may be told once the journal is safe up to the returned position.
    pub(super) fn journal_end<'a>(
        &mut self,
        cx: &mut Context,
        ending: Ending,
        n: u32,
        how: impl FnOnce() -> How<'a>,
    ) -> Position {
        let Some(letter) = ending.journaled else { return Position(0) };
        let peer = self.journaled.map_or(0, |(number, _)| number);
        let how = how();
        cx.journal.past.extend([PastOutcome::new((letter, n), self.id, ending.bound, &how)]);
        let at = cx.journal.append(&Record::Outcome { letter, n, peer, how });
        self.ends_at(cx, at, ending.bound.map(|(s, _)| s));
        at
    }

    fn ends_at(&mut self, cx: &mut Context, at: Position, s: Option<Slot>) {
        if let Some(s) = s.filter(|_| !cx.journal.is_safe(at)) {
            self.outbound.ends_at(at, s);
            self.wait_for_journal(cx);
        }
    }

    // --- receiving ---

    /// The receiver record may have changed: writes that before a STATE says so, or one of its slots is used up.
    #[inline]
    pub(crate) fn journal_record(&mut self, cx: &mut Context) {
        if cx.journal.is_on() {
            self.journal_changes(cx);
        }
    }

    fn journal_changes(&mut self, cx: &mut Context) {
        let before = self.inbound.unsaid.journaled;
        let record = self.inbound.receiver.as_ref();
        let after = record.map(Said::of);
        if before == after {
            return;
        }
        // An evicted record is gone once the frontiers say so. What it took early is then in the hull: there is no `A` in a
        // journal.
        cx.clock.stamps_mut().fold(&mut self.inbound.bound);
        cx.journal.append_front(&cx.clock);
        let same = before.filter(|before| after.is_some_and(|after| after.r == before.r));
        let live = record.zip(after).map(|(record, after)| {
            let (hi, l, free) = record.parts();
            let from = same.map_or(Slot(0), |same| same.hi);
            (after, l, free.overlaps(from.0..hi.0).collect())
        });
        let peer = self.number(&mut cx.journal);
        let at = cx.journal.append(&match live {
            None => Record::Drop { peer },
            Some((Said { r, hi, ets, taken, closed }, l, free)) => {
                Record::Live { peer, r, hi, l, ets, taken, closed, free }
            }
        });
        self.inbound.unsaid.journaled = after;
        self.journal_address(cx);
        if !cx.journal.is_safe(at) {
            match same.filter(|same| after.is_some_and(|after| after.closed == same.closed)) {
                Some(same) => self.inbound.unsaid.grow(at, same.hi),
                None => self.inbound.unsaid.replace(at),
            }
            self.wait_for_journal(cx);
        }
    }

    /// Slots were used up. The journal gets their record first, then the fact that they were used up.
    pub(super) fn journal_take(&mut self, cx: &mut Context, run: Range<u64>, call: bool) {
        self.note_taken(cx);
        if !cx.journal.is_on() {
            return;
        }
        // What was taken early is written first; otherwise a recovered record might be dropped too soon.
        self.journal_record(cx);
        debug_assert!(self.inbound.is_journaled(&run), "its record is written before a slot is used");
        let peer = self.number(&mut cx.journal);
        let at = cx.journal.append(&Record::Take { peer, run: run.clone(), call });
        if !cx.journal.is_safe(at) {
            self.inbound.unsaid.take(at, run);
            self.wait_for_journal(cx);
        }
    }

    /// What was taken early is written before the application has it, so that it outlives the record.
    fn note_taken(&mut self, cx: &mut Context) {
        let taken = self.inbound.receiver.as_ref().and_then(Receiver::taken);
        if let Some(taken) = taken.filter(|_| self.inbound.noted != taken) {
            self.inbound.noted = Some(taken);
            cx.stamping.note(self.id, taken);
        }
    }

    /// The application has given its verdict on a message of the record: journals it.
    pub(super) fn journal_verdict(&mut self, cx: &mut Context, s: Slot, verdict: &Verdict) -> Position {
        self.note_taken(cx);
        if !cx.journal.is_on() {
            return Position(0);
        }
        self.journal_record(cx);
        let peer = self.number(&mut cx.journal);
        cx.journal.append(&Record::Mark { peer, s, verdict: verdict.clone() })
    }

    /// The sender has withdrawn messages of the record: journals that.
    pub(super) fn journal_withdrawal(&mut self, cx: &mut Context, run: Range<u64>) -> Position {
        if !cx.journal.is_on() {
            return Position(0);
        }
        self.journal_record(cx);
        let peer = self.number(&mut cx.journal);
        cx.journal.append(&Record::Withdraw { peer, run })
    }

    /// As [`Self::journal_withdrawal`], for messages of a stream, the first of which is in `s`.
    pub(super) fn journal_void(&mut self, cx: &mut Context, name: &[u8], s: Slot, void: Void) -> Position {
        if !cx.journal.is_on() {
            return Position(0);
        }
        self.journal_record(cx);
        let peer = self.number(&mut cx.journal);
        cx.journal.append(&void_record(peer, name, s, void))
    }

    /// Journals how far a stream was taken.
    pub(super) fn journal_reader(&mut self, cx: &mut Context, name: &Bytes, reader: Reader) {
        if cx.journal.is_on() {
            let peer = self.number(&mut cx.journal);
            let Reader { o, next, ended } = reader;
            cx.journal.append(&Record::Reader { peer, name, o, next, ended });
        }
    }

    /// A message is handed out again.
    pub(super) fn journal_attempt(&mut self, cx: &mut Context, s: Slot, attempt: u32) {
        if cx.journal.is_on() {
            self.journal_record(cx);
            let peer = self.number(&mut cx.journal);
            cx.journal.append(&Record::Given { peer, s, attempt });
        }
    }

    /// The caller has its answer, or wants none.
    pub(super) fn journal_answered(&mut self, cx: &mut Context, s: Slot) {
        if cx.journal.is_on() {
            let peer = self.number(&mut cx.journal);
            cx.journal.append(&Record::Answered { peer, s });
        }
    }

    // --- waiting ---

    pub(super) fn wait_for_journal(&self, cx: &mut Context) {
        let safe = |at| cx.journal.is_safe(at);
        let verdicts = self.inbound.verdicts.wait(safe) || self.inbound.revoked.waits(safe);
        if self.outbound.waits_for_journal() || !self.inbound.unsaid.is_empty() || verdicts {
            cx.journal.waiting.insert(self.place);
        }
    }

    /// The journal is safe up to a later position: what has waited for it goes on.
    pub(crate) fn on_journaled(&mut self, cx: &mut Context, now: Now) {
        self.outbound.on_safe(&mut cx.store, |at| cx.journal.is_safe(at));
        if self.inbound.unsaid.on_safe(|at| cx.journal.is_safe(at)) {
            self.inbound.owe_state(now.mono);
            self.tell_streams(cx);
            if cx.inbox.has_messages() {
                cx.events.push_back(Event::Readable);
            }
        }
        self.wait_for_journal(cx);
    }

    // --- after a crash ---

    /// Continues with what the journal has of this peer, whose number there is `number`. [`Self::recover_letters`] and
    /// [`Self::recover_places`] follow.
    pub(crate) fn recover(&mut self, cx: &mut Context, now: Now, number: u32, known: &Known) {
        self.journaled = Some((number, known.hints.last().copied()));
        // The application gave most of these addresses. An address that only a datagram came from takes no connection, which
        // costs little.
        known.hints.iter().for_each(|hint| self.choose(cx, *hint));
        if let Some(record) = known.receiver() {
            self.inbound.unsaid.journaled = Some(Said::of(&record));
            let verdicts = known.verdicts.iter().filter(|(s, _)| record.marked(**s).is_some());
            let verdicts = verdicts.map(|(s, verdict)| (*s, verdict.clone()));
            self.inbound.verdicts.recover(record.parts().0, verdicts, &known.attempts);
            self.inbound.receiver = Some(record);
        }
        self.inbound.readers = known.readers.clone();
        for (name, (o, n)) in &known.writers {
            self.outbound.writers.recover(name.clone(), *o, *n);
        }
        self.inbound.engaged(now.mono, self.link.pto() * 3);
    }

    /// Enters messages of the journal into the store, and adds their places to `placed`.
    pub(crate) fn recover_letters(
        &mut self,
        cx: &mut Context,
        now: Now,
        id: LetterId,
        posted: Posted,
        placed: &mut Vec<(MessageKey, Placed)>,
    ) {
        self.admitted = true;
        // As when messages are queued together.
        let together = !cx.journal.is_forced();
        for (letter, place, shelved) in letters(self.place, now, id, posted, together) {
            let due = cx.due(now.mono, letter.deadline);
            let key = cx.store.insert(letter);
            if !shelved {
                cx.store.keep(key, &cx.shelf);
            }
            placed.push((key, place));
            if let Some(at) = due {
                cx.look_again(key, at);
            }
        }
    }

    /// Continues with the messages that were entered, and with calls that were taken.
    pub(crate) fn recover_places(
        &mut self,
        cx: &mut Context,
        now: Now,
        placed: &[(MessageKey, Placed)],
        calls: &BTreeSet<Slot>,
    ) {
        self.outbound.recover(now.mono, &cx.clock, &mut cx.store, placed);
        for s in calls {
            self.serve_again(cx, now, *s);
        }
    }

    // --- snapshots ---

    /// Writes everything that the journal needs of this peer.
    pub(crate) fn snapshot(&self, to: &mut Vec<u8>) {
        let Some((peer, hint)) = self.journaled else { return };
        Record::Peer { peer, id: self.id }.encode(to);
        if let Some(address) = hint {
            Record::Hint { peer, address }.encode(to);
        }
        if let Some(record) = self.inbound.receiver.as_ref() {
            let Said { r, hi, ets, taken, closed } = Said::of(record);
            let (_, l, free) = record.parts();
            let free = free.iter().collect();
            Record::Live { peer, r, hi, l, ets, taken, closed, free }.encode(to);
        }
        for (name, Reader { o, next, ended }) in self.inbound.readers.iter() {
            Record::Reader { peer, name, o, next, ended }.encode(to);
        }
        for (name, o, n) in self.outbound.writers.begun() {
            Record::Writer { peer, name, begun: Some((o, n)) }.encode(to);
        }
        for (s, verdict) in self.inbound.verdicts.said() {
            Record::Mark { peer, s, verdict: verdict.clone() }.encode(to);
        }
        for (name, s, void) in self.inbound.readers.voids.iter() {
            void_record(peer, name, s, void).encode(to);
        }
        let withdrawn = self.inbound.receiver.iter().flat_map(|record| record.withdrawn().iter());
        withdrawn.for_each(|run| Record::Withdraw { peer, run }.encode(to));
        for (s, attempt) in self.inbound.verdicts.attempts() {
            Record::Given { peer, s, attempt }.encode(to);
        }
        for s in self.inbound.server.calls() {
            Record::Take { peer, run: s.0..s.0 + 1, call: true }.encode(to);
        }
    }

    /// As [`Self::snapshot`], for one of the peer's messages, which may be written before or after others. What the application
    /// gave is not written again if a group from `kept` on has it.
    pub(crate) fn snapshot_letter(
        &self,
        now: Now,
        (key, letter): (MessageKey, &Letter),
        kept: u64,
        to: &mut Vec<u8>,
    ) {
        let is_kept = letter.group >= kept;
        let (Some((peer, _)), Some(id)) = (self.journaled, letter.journaled) else { return };
        match letter.bundle() {
            Some(bundle) => snapshot_span(peer, id, &heading(now, letter), bundle, is_kept, to),
            None => self.snapshot_one(now, letter, (peer, id, is_kept), to),
        }
        for at in 0..letter.bundle().map_or(1, Bundle::count) {
            let place = self.outbound.kept_place(key.nth(at));
            if place.is_some() && letter.slot_of(key.nth(at)).is_none() {
                Record::Back { letter: id.nth(at), kept: place }.encode(to);
            }
        }
    }

    fn snapshot_one(
        &self,
        now: Now,
        letter: &Letter,
        (peer, id, is_kept): (u32, LetterId, bool),
        to: &mut Vec<u8>,
    ) {
        let said = put(now, peer, id, letter);
        if is_kept { Record::Kept { letter: id, n: 1 } } else { said }.encode(to);
        let stamp = self.outbound.sender.as_ref().map_or(Stamp::NONE, Sender::stamp);
        match letter.bound {
            None => {}
            Some((s, Incarnation::UNNAMED)) => Record::Early { letter: id, s, ts: stamp }.encode(to),
            Some((s, r)) => Record::Bind { letter: id, n: 1, s, r }.encode(to),
        }
        if let (Role::Stream(mark), Some(_)) = (letter.role, letter.bound) {
            let StreamMark { age, n, link, .. } = mark;
            Record::Place { letter: id, count: 1, age, n, link }.encode(to);
        }
    }
}

fn void_record(peer: u32, name: &[u8], s: Slot, void: Void) -> Record<'_> {
    let StreamMark { age, n, link, .. } = void.mark;
    Record::Void { peer, name, s, len: void.len, age, n, link }
}

/// Writes the open messages of a bundle.
fn snapshot_span(
    peer: u32,
    first: LetterId,
    heading: &Heading<'_>,
    bundle: &Bundle,
    is_kept: bool,
    to: &mut Vec<u8>,
) {
    for (these, bound) in bundle.runs() {
        let (letter, n) = (first.nth(these.start), these.end - these.start);
        let entries = bundle.entries(these.clone());
        let body = bundle.body_len();
        let said = Record::PutSpan { letter, n, peer, heading: *heading, body, entries };
        if is_kept { Record::Kept { letter, n } } else { said }.encode(to);
        let Some((s, r)) = bound else { continue };
        Record::Bind { letter, n, s, r }.encode(to);
        if let Some(StreamMark { age, n: number, link, .. }) = bundle.mark_of(these.start) {
            Record::Place { letter, count: n, age, n: number, link }.encode(to);
        }
    }
}

/// Messages of the journal, with their places, and whether their bodies are on the shelf. If `together`, messages that have not
/// left are kept together.
fn letters(
    at: u32,
    now: Now,
    id: LetterId,
    posted: Posted,
    together: bool,
) -> impl Iterator<Item = (Letter, Placed, bool)> {
    let shelved = posted.shelved;
    let whole =
        (posted.n > 1 && together && posted.placed == Placed::Nowhere && posted.is_plain()).then(|| {
            let Posted { n, len, priority, group, ref body, .. } = posted;
            let bundle = Bundle::of(priority as u8, len, n, body.clone())?;
            let message = Outgoing { priority, ..Outgoing::default() };
            let mut letter = Letter::new(at, message, Source::Bundle(bundle), Role::Plain);
            (letter.journaled, letter.group) = (Some(id), group);
            Some((letter, Placed::Nowhere))
        });
    let whole = whole.flatten();
    let apart = if whole.is_some() { 0 } else { posted.n };
    let apart = (0..apart).map(move |n| letter(at, now, id.nth(n), posted.nth(n)));
    whole.into_iter().chain(apart).map(move |(letter, placed)| (letter, placed, shelved))
}

/// A message of the journal, and its place.
fn letter(at: u32, now: Now, id: LetterId, posted: Posted) -> (Letter, Placed) {
    let Posted { priority, early, confirm, expires, tag, trace, body, placed, group, part, place, .. } =
        posted;
    let (age, n, link) = place;
    let role = part.map_or(Role::Plain, |(end, more)| Role::Stream(StreamMark { age, n, link, end, more }));
    let deadline = expires.map(|at| now.mono + Mono(at.0).since(Mono(now.wall.0)));
    let trace = trace.map(Box::new);
    let message = Outgoing { tag, priority, deadline, early, confirm, trace, ..Outgoing::default() };
    let (source, _) = Source::whole(body);
    let mut letter = Letter::new(at, message, source, role);
    (letter.journaled, letter.group) = (Some(id), group);
    (letter, placed)
}

/// Whether the journal keeps such a message.
fn is_kept(letter: &Letter) -> bool {
    matches!(letter.role, Role::Plain | Role::Stream(_))
}

fn put(now: Now, peer: u32, id: LetterId, letter: &Letter) -> Record<'_> {
    let body = letter.source.part(0..u64::MAX);
    Record::Put { letter: id, peer, heading: heading(now, letter), body }
}

/// What the journal has of a message beside its body.
fn heading(now: Now, letter: &Letter) -> Heading<'_> {
    let Letter { priority, early, confirm, tag, deadline, trace, .. } = letter;
    let expires = deadline.map(|at| Wall(now.wall.0.saturating_add(at.0.saturating_sub(now.mono.0))));
    let (priority, early, confirm) = (*priority, *early, *confirm);
    let part = if let Role::Stream(mark) = letter.role { Some((mark.end, mark.more)) } else { None };
    Heading { priority, early, confirm, part, expires, tag, trace: trace.as_deref().copied() }
}

/// Appends what messages of a peer are bound to, and their place in their stream. The journal knows the peer of every message
/// that it has.
fn append_binding(journal: &mut Journal, peer: u32, bound: &Binding) -> Position {
    let Binding { letter, n, s, r, ref place } = *bound;
    let at = journal.append(&Record::Bind { letter, n, s, r });
    let Some(Place { mark, name, begun }) = place else { return at };
    journal.append(&Record::Place { letter, count: n, age: mark.age, n: mark.n, link: mark.link });
    journal.append(&Record::Writer { peer, name, begun: *begun })
}
