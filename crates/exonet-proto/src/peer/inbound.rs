//! The receiving direction from one peer: its record, what is being assembled, and what is owed to it.

mod parts;
mod patience;
mod revoked;
mod unsaid;
mod verdicts;

use core::ops::Range;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use crate::backoff::Backoff;
use crate::config::{Config, Limits};
use crate::half::{self, Answer, Ask, Bound, Clock, IntervalSet, Readers, Receiver};
use crate::id::{Incarnation, Slot, Stamp};
use crate::message::lane::{Held as InLanes, Lane, Load};
use crate::message::{DeliveryKey, POOLED};
use crate::pattern::call::Server;
use crate::time::{Mono, Wall};
pub(crate) use parts::ANNOUNCED;
use parts::Partial;
use revoked::Revoked;
pub(crate) use unsaid::{Said, Unsaid};
use verdicts::Verdicts;

/// Time between two STATEs.
const STATE_EVERY: Duration = Duration::from_millis(1);
/// The least time between two STATEs of which the second speaks of one message.
const LONE_STATE_EVERY: Duration = Duration::from_micros(50);
/// HAVE frames owed at once; a token that finds no room is probed again.
pub(crate) const MAX_HAVES: usize = 32;
/// The unanswered STATE of an idle record is repeated at most this seldom: a node may have met very many peers
/// that vanished, and each try costs an opening.
const MAX_BACKOFF: Duration = Duration::from_secs(600);
/// A sender that is to be given up is reminded at least three times before, but no sender more often than this: one that is
/// silent for less may well be between two messages.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
/// A sender that has the last STATE learns nothing by a reminder, which only asks whether it is alive. By then its record has
/// closed by itself, by default.
const AT_REST: Duration = Duration::from_secs(15);

/// What was delivered under a record. Replies aside: they are sent until they are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Delivered {
    #[default]
    Nothing,
    Calls,
    Messages,
}

/// What became of a token's bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The message is complete: it goes to the receive queue.
    Complete(Vec<u8>),
    /// Whole messages wait in the receive queue.
    Whole,
    /// A streamed message can be announced: its head is there.
    Announce,
    /// A streamed message that was announced has more.
    Readable(DeliveryKey),
    /// Kept.
    Partly,
    /// A copy, or of a slot or an incarnation that takes nothing.
    Ignored,
    /// Beyond what this peer may have under way: as if it had been lost.
    NoRoom,
    /// The node has no memory for it: as if it had been lost.
    NoMemory,
    /// Not a message.
    Malformed,
    /// The peer broke a rule.
    Violation,
}

/// What a HAVE says.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) s: Slot,
    pub(crate) r: Incarnation,
    pub(crate) prefix: u64,
    pub(crate) limit: u64,
    pub(crate) islands: Vec<Range<u64>>,
}

/// The receiving direction from one peer.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub(crate) receiver: Option<Receiver>,
    /// What is known of the peer's stamps.
    pub(crate) bound: Bound,
    /// The stamp of the last ASK: a STATE speaks of it.
    asked: Stamp,
    /// What was written last of what the record took early.
    pub(crate) noted: Option<half::Taken>,
    /// A stamp to be refused, and what this node's clock showed then.
    pub(crate) rejection: Option<(Stamp, Wall)>,
    /// The last stamp that was refused.
    pub(crate) rejected: Stamp,
    /// Slots whose message is complete and has not been taken: copies are suppressed.
    pending: IntervalSet,
    partial: BTreeMap<Slot, Partial>,
    /// Of the partly received messages, the large ones.
    pub(crate) large: usize,
    /// Of the partly received messages, those that are known to be calls.
    calls_in_part: usize,
    /// What was delivered under the record.
    delivered: Delivered,
    /// Pooled messages that are complete and not taken, or of which a part has come.
    pub(crate) held: InLanes,
    /// Of the pending slots, those of large messages.
    large_pending: IntervalSet,
    /// An ASK that was granted nothing, for want of room, while there is no record.
    wants: Option<Ask>,
    /// A STATE has to leave by then.
    state_at: Mono,
    /// None leaves before: in dense traffic one claim speaks for many messages.
    state_from: Mono,
    /// Messages that were used up since the last STATE left, calls aside, whose replies settle them.
    used: u64,
    /// When messages for the peer left last.
    answered_at: Mono,
    /// STATEs that have left, or are not owed any more.
    states: u64,
    /// HAVEs owed.
    pub(crate) haves: VecDeque<Slot>,
    /// See [`Inbound::claim_from`].
    claim_from: Slot,
    /// When the peer was last heard, and when it is reminded of its free slots.
    heard_at: Mono,
    remind_at: Mono,
    remind_after: Backoff,
    /// Time between two STATEs of a record that is closed.
    closed_again: Duration,
    reminding: bool,
    /// Bytes of memory set aside for partial messages.
    promised: u64,
    /// Bytes of memory of its messages in the receive queue, those handed out included.
    pub(crate) waiting: u64,
    /// Of what was set aside, given back and not yet counted by the node.
    freed: u64,
    /// Messages in the receive queue that nobody waits for any more, and that the node does not know of yet.
    stale: usize,
    /// Deliveries whose message will not go on: their readers have to be told.
    pub(crate) aborted: Vec<DeliveryKey>,
    /// What STATEs do not say yet.
    pub(crate) unsaid: Unsaid,
    /// What the application has said of messages that are open.
    pub(crate) verdicts: Verdicts,
    /// What it is to be told of messages that it has withdrawn.
    pub(crate) revoked: Revoked,
    /// Slots of messages that are at the application: these are not withdrawn.
    handed: IntervalSet,
    /// Its calls.
    pub(crate) server: Server,
    /// Its streams.
    pub(crate) readers: Readers,
}

impl Inbound {
    pub(crate) fn new(now: Mono) -> Self {
        Self {
            receiver: None,
            bound: Bound::default(),
            asked: Stamp::NONE,
            noted: None,
            rejection: None,
            rejected: Stamp::NONE,
            pending: IntervalSet::new(),
            partial: BTreeMap::new(),
            large: 0,
            calls_in_part: 0,
            delivered: Delivered::Nothing,
            held: InLanes::default(),
            large_pending: IntervalSet::new(),
            wants: None,
            state_at: Mono::NEVER,
            state_from: Mono(0),
            used: 0,
            answered_at: Mono(0),
            haves: VecDeque::new(),
            claim_from: Slot(0),
            heard_at: now,
            remind_at: Mono::NEVER,
            remind_after: Backoff::default(),
            closed_again: Duration::ZERO,
            states: 0,
            reminding: false,
            promised: 0,
            waiting: 0,
            freed: 0,
            stale: 0,
            aborted: Vec::new(),
            unsaid: Unsaid::default(),
            verdicts: Verdicts::default(),
            revoked: Revoked::default(),
            handed: IntervalSet::new(),
            server: Server::default(),
            readers: Readers::default(),
        }
    }

    /// Bytes of memory set aside now.
    pub(crate) const fn promised(&self) -> u64 {
        self.promised
    }

    /// Messages that are partly there.
    pub(crate) fn parts(&self) -> usize {
        self.partial.len()
    }

    /// Bytes of memory given back and not yet counted by the node.
    pub(crate) const fn freed(&self) -> u64 {
        self.freed
    }

    /// Bytes of memory that this peer takes.
    pub(crate) const fn memory(&self) -> u64 {
        self.promised.saturating_add(self.waiting)
    }

    /// Bytes of memory given back since the last call, completed messages aside.
    pub(crate) fn take_freed(&mut self) -> u64 {
        std::mem::take(&mut self.freed)
    }

    /// Messages of this peer in the receive queue that have become stale since the last call.
    pub(crate) fn take_stale(&mut self) -> usize {
        std::mem::take(&mut self.stale)
    }

    /// Slots that this node is willing to grant beyond those that are free.
    fn grant(&self, limits: &Limits) -> u64 {
        limits.slots.saturating_sub(self.granted())
    }

    /// Free slots that count: where there are lanes, not those of messages that wait in one, which its window bounds. So no lane
    /// can hold all slots.
    pub(crate) fn granted(&self) -> u64 {
        let free = self.receiver.as_ref().map_or(0, Receiver::free);
        let waits = self.pending.count() - self.large_pending.count();
        if self.held.limits().is_some() { free.saturating_sub(waits) } else { free }
    }

    pub(crate) fn on_ask(&mut self, now: Mono, clock: &mut Clock, limits: &Limits, ask: Ask) -> Answer {
        let before = self.receiver.as_ref().map(Receiver::incarnation);
        let grant = self.grant(limits);
        let free = self.receiver.as_ref().map_or(0, Receiver::free);
        let answer = Receiver::on_ask(&mut self.receiver, &mut self.bound, clock, ask, grant);
        let wants = answer == Answer::State;
        self.wants = (self.receiver.is_none() && wants).then_some(ask);
        self.note_record(before);
        if ask.n > 0 {
            self.asked = ask.ts;
        }
        self.note_stale();
        if wants {
            // A sender that asks for few beside those that it has does not wait for them: a reply may take the STATE along.
            self.owe_state(if ask.n > free / 2 { now } else { now + STATE_EVERY });
        }
        self.forget_below(ask.l);
        self.readers.pass(ask.l);
        self.verdicts.pass(ask.l);
        answer
    }

    /// Whether the journal has the record, and the grant of these slots.
    pub(crate) fn is_journaled(&self, run: &Range<u64>) -> bool {
        let r = self.receiver.as_ref().map(Receiver::incarnation);
        self.unsaid.journaled.is_some_and(|said| Some(said.r) == r && run.end <= said.hi.0)
    }

    /// What a STATE says of the stamp that the peer asked under.
    pub(crate) fn taken(&self, clock: &Clock) -> Option<(Stamp, Slot)> {
        let taken = half::Taken::of(self.receiver.as_ref(), &self.bound, clock, self.asked)?;
        Some((taken.ts, taken.end))
    }

    /// Complete messages wait for the application.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Room may have appeared.
    #[inline]
    pub(crate) fn retry(&mut self, now: Mono, clock: &mut Clock, limits: &Limits) {
        if self.wants.is_some() || self.receiver.as_ref().is_some_and(Receiver::wants_room) {
            self.ask_again(now, clock, limits);
        }
    }

    #[cold]
    fn ask_again(&mut self, now: Mono, clock: &mut Clock, limits: &Limits) {
        if let Some(ask) = self.wants.take() {
            let _: Answer = self.on_ask(now, clock, limits, ask);
            return;
        }
        let grant = self.grant(limits);
        // A trickle of single slots would cost a STATE each.
        if grant >= limits.slots / 4 && Receiver::retry(&mut self.receiver, &mut self.bound, clock, grant) {
            self.owe_state(now);
        }
    }

    /// *close*: nothing more is taken of the peer in this life. What waits for the application and what has come in
    /// part is forgotten. The peer is told, each time that `wait` has passed, until it has passed every slot that it had
    /// here; where there is no `wait`, only if it asks.
    pub(crate) fn close(&mut self, now: Mono, wait: Option<Duration>) {
        self.wants = None;
        let Some(record) = self.receiver.as_mut() else { return };
        record.close();
        // A sender may still ask what was said of its messages.
        let (verdicts, revoked) = (std::mem::take(&mut self.verdicts), std::mem::take(&mut self.revoked));
        self.clear();
        (self.verdicts, self.revoked) = (verdicts, revoked);
        self.closed_again = wait.unwrap_or_default();
        // The node may be gone before it would say this at its leisure.
        self.state_from = now.min(self.state_from);
        self.remind_at = if wait.is_some() { now } else { Mono::NEVER };
    }

    /// Whether the peer is still to be told that nothing more is taken.
    pub(crate) fn is_closing(&self) -> bool {
        self.receiver.as_ref().is_some_and(Receiver::is_closed)
    }

    /// Whether this node ended while the peer had a record here: it may have more for this node.
    pub(crate) fn was_closed(&self) -> bool {
        !self.closed_again.is_zero()
    }

    /// Everything soft belongs to one incarnation.
    fn note_record(&mut self, before: Option<Incarnation>) {
        if before != self.receiver.as_ref().map(Receiver::incarnation) {
            self.readers.forget_ended();
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.stale += usize::try_from(self.pending.count()).unwrap_or(usize::MAX);
        self.pending.clear();
        while let Some((_, partial)) = self.partial.pop_first() {
            self.release_partial(&partial);
        }
        self.large = 0;
        self.delivered = Delivered::Nothing;
        self.large_pending.clear();
        self.held.clear();
        self.haves.clear();
        self.verdicts.clear();
        self.revoked.clear();
        self.handed.clear();
    }

    /// Messages that wait for the application although the sender has given them up serve nobody.
    fn note_stale(&mut self) {
        let Some(record) = self.receiver.as_ref() else { return };
        let (_, lo, _) = record.parts();
        let passed: u64 = self.pending.overlaps(0..lo.0).map(|run| run.end - run.start).sum();
        self.stale += usize::try_from(passed).unwrap_or(usize::MAX);
        self.pending.remove_below(lo.0);
        self.large_pending.remove_below(lo.0);
        self.handed.remove_below(lo.0);
    }

    /// A message of the record `r` is at the application from now on, or is not any more.
    pub(crate) fn note_handed(&mut self, s: Slot, r: Incarnation, is: bool) {
        if self.receiver.as_ref().is_some_and(|record| record.incarnation() == r) {
            if is {
                self.handed.insert(s.0..s.0.saturating_add(1));
            } else {
                self.handed.remove(s.0);
            }
        }
    }

    /// The sender withdraws its messages of `run` under `r`: those that may be delivered and are not at the application. What was
    /// kept of them goes. Gives these.
    pub(crate) fn withdraw(&mut self, run: Range<u64>, r: Incarnation) -> Vec<Range<u64>> {
        let Some(record) = self.receiver.as_mut() else { return Vec::new() };
        let (hi, lo, _) = record.parts();
        let run = run.start.max(lo.0)..run.end.min(hi.0);
        let here: Vec<_> = self.handed.gaps(run).collect();
        let gone: Vec<_> = here.into_iter().flat_map(|run| record.withdraw(run, r)).collect();
        for run in &gone {
            let waiting: u64 = self.pending.overlaps(run.clone()).map(|run| run.end - run.start).sum();
            self.stale += usize::try_from(waiting).unwrap_or(usize::MAX);
            self.pending.remove_range(run.clone());
            self.large_pending.remove_range(run.clone());
            while let Some(s) = self.partial.range(Slot(run.start)..Slot(run.end)).next().map(|(s, _)| *s)
                && let Some(partial) = self.partial.remove(&s)
            {
                self.release_partial(&partial);
            }
            self.haves.retain(|s| !run.contains(&s.0));
            self.verdicts.are_over(run.clone());
        }
        gone
    }

    /// Such a message, of incarnation `r`, has left the receive queue.
    pub(crate) fn drop_stale(&mut self, r: Incarnation, lane: &Lane, len: u64) {
        // A record that is closed holds nothing any more.
        let held =
            self.receiver.as_ref().is_some_and(|record| record.incarnation() == r && !record.is_closed());
        if held && len <= POOLED {
            self.held.give_back(Some(lane), Load::one(len));
        }
    }

    /// Whole messages of one lane, of the slots of `run`, `len` bytes in wire form together: to wait in the receive queue,
    /// all of them or none.
    pub(crate) fn on_whole(
        &mut self,
        run: Range<u64>,
        r: Incarnation,
        lane: &Lane,
        len: u64,
        limits: &Limits,
    ) -> Taken {
        if !self.accepts(run.clone(), r) {
            return Taken::Ignored;
        }
        if len > POOLED {
            return Taken::Violation;
        }
        let load = Load { messages: run.end - run.start, bytes: len };
        if !self.finds_room(Slot(run.start), Some(lane), load, limits) {
            return Taken::NoRoom;
        }
        while let Some(s) = self.partial.range(Slot(run.start)..Slot(run.end)).next().map(|(s, _)| *s)
            && let Some(partial) = self.partial.remove(&s)
        {
            self.release_partial(&partial);
        }
        self.held.add(Some(lane), load);
        self.pending.insert(run);
        Taken::Whole
    }

    /// Whether there is room for messages of a lane from `s` on.
    #[inline]
    fn finds_room(&mut self, s: Slot, lane: Option<&Lane>, load: Load, limits: &Limits) -> bool {
        self.held.takes(lane, load, limits.pool_window()) || self.makes_room(s, lane, load, limits)
    }

    /// Parts of later messages of a lane make room, the last first: were they of messages given up behind an older one, they would
    /// else keep it out for ever.
    #[cold]
    fn makes_room(&mut self, s: Slot, lane: Option<&Lane>, load: Load, limits: &Limits) -> bool {
        while !self.held.takes(lane, load, limits.pool_window()) {
            let alike = |partial: &Partial| self.held.limits().is_none() || partial.lane.as_ref() == lane;
            let gives_way = |partial: &Partial| partial.assembly.is_pooled() && alike(partial);
            let mut later = self.partial.range(Slot(s.0.saturating_add(1))..).rev();
            let last = later.find(|(_, partial)| gives_way(partial)).map(|(last, _)| *last);
            let Some(last) = last else { return false };
            self.drop_partial(last);
        }
        true
    }

    /// Whether whole messages would be taken, if there were memory for them.
    pub(crate) fn would_take(
        &self,
        run: Range<u64>,
        r: Incarnation,
        lane: &Lane,
        len: u64,
        limits: &Limits,
    ) -> bool {
        let load = Load { messages: run.end - run.start, bytes: len };
        self.accepts(run, r) && self.held.takes(Some(lane), load, limits.pool_window())
    }

    fn accepts(&self, run: Range<u64>, r: Incarnation) -> bool {
        self.receiver.as_ref().is_some_and(|record| record.accepts_run(run.clone(), r))
            && self.pending.first_in(run).is_none()
    }

    /// Messages in one piece wait in the receive queue, and all of them can be taken.
    pub(crate) fn is_pending(&self, run: Range<u64>, r: Incarnation) -> bool {
        self.pending.covers(run.clone())
            && self.receiver.as_ref().is_some_and(|record| record.accepts_run(run, r))
    }

    /// The application takes the messages of `run`: their slots are consumed, all or none. False when their record
    /// died.
    ///
    /// `len` is the length of their wire forms, `lane` that of each of them.
    pub(crate) fn take(&mut self, run: Range<u64>, r: Incarnation, len: u64, lane: &Lane) -> bool {
        let Some(record) = self.receiver.as_mut().filter(|record| record.incarnation() == r) else {
            return false;
        };
        let taken = record.take_run(run.clone(), r);
        self.verdicts.are_over(run.clone());
        self.release_content(run, len, lane);
        self.delivered = match (lane, self.delivered) {
            (Lane::Plain, _) if taken => Delivered::Messages,
            (Lane::Stream(_), _) if taken => Delivered::Messages,
            (Lane::Method(_), Delivered::Nothing) if taken => Delivered::Calls,
            (_, before) => before,
        };
        taken
    }

    /// The application has judged a message of the record `r`: nothing of it is held any more. Its slot stays as it is.
    pub(crate) fn let_go(&mut self, s: Slot, r: Incarnation, lane: &Lane, len: u64) {
        if self.receiver.as_ref().is_some_and(|record| record.incarnation() == r) {
            self.release_content(s.0..s.0 + 1, len, lane);
            self.delivered = Delivered::Messages;
        }
    }

    /// What was held of messages that the application has had.
    fn release_content(&mut self, run: Range<u64>, len: u64, lane: &Lane) {
        self.pending.remove_range(run.clone());
        // A large message is taken by itself.
        let pooled = len <= POOLED || run.end - run.start > 1;
        if pooled {
            self.held.give_back(Some(lane), Load { messages: run.end - run.start, bytes: len });
        } else {
            self.large_pending.remove_range(run.clone());
        }
        // One that was read as it came.
        if !self.partial.is_empty()
            && let Some(mut partial) = self.partial.remove(&Slot(run.start))
        {
            partial.stream = None;
            self.release_partial(&partial);
        }
    }

    /// A complete message is not held any more, though its slot is free: it has to come again. It has no lane if its head is
    /// malformed.
    pub(crate) fn drop_pending(&mut self, s: Slot, r: Incarnation, lane: Option<&Lane>, len: u64) {
        if self.evict_pending(s, r, lane, len) {
            self.owe_have(s);
        }
    }

    /// As [`Inbound::drop_pending`], and the sender hears of it when it asks.
    pub(crate) fn evict_pending(&mut self, s: Slot, r: Incarnation, lane: Option<&Lane>, len: u64) -> bool {
        let held = self.receiver.as_ref().is_some_and(|record| record.incarnation() == r)
            && self.pending.remove(s.0);
        if held {
            if len <= POOLED {
                self.held.give_back(lane, Load::one(len));
            }
            self.large_pending.remove(s.0);
        }
        held
    }

    /// A TOKEN without body asks after a message: STATE, and HAVE when it is not complete.
    pub(crate) fn on_probe(&mut self, now: Mono, s: Slot, r: Incarnation) {
        self.owe_state(now);
        self.claim_from = s;
        if self.accepts(s.0..s.0 + 1, r) {
            self.owe_have(s);
        }
        if let Some(record) = self.receiver.as_ref().filter(|record| record.incarnation() == r) {
            self.verdicts.owe(s);
            self.revoked.owe(record, s.0..s.0.saturating_add(1));
        }
    }

    /// REVOKE asks as TOKEN does: of its first message, and of those that are withdrawn.
    pub(crate) fn on_revoke(&mut self, now: Mono, run: Range<u64>, r: Incarnation) {
        self.on_probe(now, Slot(run.start), r);
        if let Some(record) = self.receiver.as_ref().filter(|record| record.incarnation() == r) {
            self.revoked.owe(record, run);
        }
    }

    /// Where the next STATE begins if it cannot say everything: at the token that it answers, else where the last
    /// ended.
    pub(crate) const fn claim_from(&self) -> Slot {
        self.claim_from
    }

    /// The last STATE claimed up to here.
    pub(crate) fn claimed(&mut self, up: Slot) {
        let all = self.receiver.as_ref().is_none_or(|record| up >= record.up());
        self.claim_from = if all { Slot(0) } else { up };
    }

    // --- what is owed ---

    pub(crate) fn owe_state(&mut self, by: Mono) {
        self.state_at = self.state_at.min(by.max(self.state_from));
    }

    /// The application has used up `messages` that are no calls. The sender of one may wait for its outcome before it sends the
    /// next, so its STATE leaves earlier than others, unless
    ///
    /// * other messages wait here, whose STATE will cover it; or
    /// * messages leave for the peer, of which the next can take the STATE along.
    ///
    /// A sender that waits takes at least a round trip, `rtt`, for each message. Those that come closer together are a flow, of
    /// which one STATE speaks.
    pub(crate) fn on_used(&mut self, now: Mono, messages: u64, rtt: Duration) {
        self.used = self.used.saturating_add(messages);
        if self.used == 1 && self.pending.is_empty() && now.since(self.answered_at) >= STATE_EVERY {
            let every = (rtt / 2).clamp(LONE_STATE_EVERY, STATE_EVERY);
            self.state_from = self.state_from - (STATE_EVERY - every);
        }
    }

    /// Messages for the peer leave.
    pub(crate) const fn on_answer(&mut self, now: Mono) {
        self.answered_at = now;
    }

    fn owe_have(&mut self, s: Slot) {
        if self.haves.len() < MAX_HAVES && !self.haves.contains(&s) {
            self.haves.push_back(s);
        }
    }

    pub(crate) fn state_due(&self, now: Mono) -> bool {
        self.state_at <= now
    }

    pub(crate) const fn state_owed(&self) -> bool {
        self.state_at.0 != Mono::NEVER.0
    }

    /// A STATE is owed, and the last one is long enough ago. `alone`: it would go with an ACK and no data, for which half as
    /// long is enough. A receiver of bulk, which acknowledges a little more often than it may claim, would send both
    /// by turns otherwise.
    pub(crate) fn state_may_leave(&self, now: Mono, alone: bool) -> bool {
        let early = if alone { STATE_EVERY / 2 } else { Duration::ZERO };
        self.state_owed() && self.state_from <= now + early && !self.unsaid.is_mute()
    }

    pub(crate) fn state_left(&mut self, now: Mono) {
        self.state_from = now + STATE_EVERY;
        self.used = 0;
        self.state_sent();
    }

    /// The STATE owed is a reminder: nothing has come from the peer for a while.
    pub(crate) fn reminds(&self) -> bool {
        self.receiver.is_some() && self.reminding
    }

    pub(crate) fn state_sent(&mut self) {
        self.state_at = Mono::NEVER;
        self.states += 1;
    }

    /// The number of the last STATE.
    pub(crate) const fn states(&self) -> u64 {
        self.states
    }

    /// The peer has STATE `nth`. If that was the last, there is nothing to remind it of for a while.
    pub(crate) fn state_arrived(&mut self, now: Mono, nth: u64, config: &Config) {
        if nth == self.states && !self.state_owed() {
            let rest = AT_REST.min(self.slowest(config));
            self.reminding = false;
            self.remind_after.set(self.remind_after.last().max(rest));
            self.remind_at = self.remind_at.max(now + self.remind_after.last());
        }
    }

    pub(crate) fn next_have(&mut self) -> Option<Held> {
        let s = self.haves.pop_front()?;
        let r = self.receiver.as_ref()?.incarnation();
        let Some(partial) = self.partial.get(&s) else {
            return Some(Held { s, r, prefix: 0, limit: 0, islands: Vec::new() });
        };
        let assembly = &partial.assembly;
        let limit = if assembly.is_pooled() { 0 } else { assembly.limit() };
        let islands = assembly.islands().take(crate::wire::MAX_HAVE_RANGES).collect();
        Some(Held { s, r, prefix: assembly.held(), limit, islands })
    }

    pub(crate) fn owes_have(&self) -> bool {
        !self.haves.is_empty()
    }

    /// A HAVE for `s` was lost.
    pub(crate) fn have_again(&mut self, s: Slot) {
        if self.partial.contains_key(&s) {
            self.owe_have(s);
        }
    }
}
