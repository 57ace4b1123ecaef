//! The sending direction to one peer: its record, its queue, its window, and what has to be sent again.

mod ahead;
mod asking;
mod bundled;
mod early;
mod fate;
mod given_up;
mod lanes;
mod pieces;
mod returned;
mod revoking;
mod scheduling;
mod streams;

use core::ops::Range;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

pub(crate) use bundled::Followed;
pub(crate) use fate::Had;
use given_up::GivenUp;
use lanes::Lanes;
pub(crate) use revoking::Revoke;
use revoking::Revoking;
use scheduling::Scheduling;

use crate::account::Account;
use crate::backoff::Backoff;
use crate::config::Takes;
use crate::half::{Clock, IntervalSet, KeptPlace, Sender, Writers};
use crate::id::{Incarnation, Slot};
use crate::journal::{Binding, Position};
use crate::level::DurabilityLevel;
use crate::message::arrived::ARRIVED;
use crate::message::lane::{Lane, LaneKey, LaneLimits, Load};
use crate::message::{Flow, HEAD_ROOM, Letter, MessageKey, POOLED, SendQueue, Source, Store};
use crate::pattern::call::Caller;
use crate::peer::piece::WHOLE_OVERHEAD;
use crate::time::Mono;
use crate::wire::Role;

/// The most that the re-asking and re-probing of a silent peer backs off to.
const MAX_BACKOFF: Duration = Duration::from_secs(1);
/// Tokens probed at once.
const PROBES: usize = 32;
/// Messages that go again at once to a peer that has no room.
const TRIALS: usize = 4;
/// Messages in doubt up to which silence of the peer holds nothing back: a few messages should not wait for a lost packet.
const FEW: u64 = 16;
/// Envelopes wanted on standby: at least, and at most.
const STANDBY: Range<u64> = 16..16_384;

/// What a peer has said of itself in its handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerLimits {
    pub(crate) pool_window: u64,
    pub(crate) body_window: u64,
    pub(crate) bodies: u64,
    pub(crate) message: u64,
    pub(crate) takes: Takes,
    pub(crate) durability: DurabilityLevel,
    /// None: this end or the other knows no lanes.
    pub(crate) lanes: Option<LaneLimits>,
}

impl Default for PeerLimits {
    /// Until it has: the least that every node must take.
    fn default() -> Self {
        let takes = Takes::default();
        let durability = DurabilityLevel::default();
        Self {
            pool_window: POOLED,
            body_window: POOLED,
            bodies: 1,
            message: u64::MAX,
            takes,
            durability,
            lanes: None,
        }
    }
}

/// The sending direction to one peer.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub(crate) sender: Option<Sender<MessageKey>>,
    queue: SendQueue,
    /// None: the queue alone chooses.
    scheduling: Option<Box<Scheduling>>,
    /// Large messages that wait until fewer are under way. Those that are over are found out when it is their turn, or when
    /// there are as many of them as of others.
    waiting: VecDeque<(Flow, MessageKey)>,
    /// Of these, those that are over.
    waiting_over: usize,
    /// Calls that have left.
    pub(crate) caller: Caller,
    /// Large messages under way, and those given up of which the peer may still hold parts.
    pub(crate) bodies: u64,
    /// Messages given up, of which the peer may hold parts until the frontier has passed them. What took their place
    /// might find none there, and an older one never come: the frontier would stand still for ever.
    given_up: GivenUp,
    /// Slots of messages of which something has to be sent again.
    lost: IntervalSet,
    /// Messages that have no slot yet, in `queue` or `waiting` or with their writer.
    unbound: u64,
    /// Messages and bytes accepted and not settled.
    pub(crate) letters: usize,
    pub(crate) bytes: u64,
    /// Bytes of messages that are settled, kept with others that are not.
    pub(crate) held: u64,
    /// No message here is longer.
    pub(crate) largest: u64,
    /// The application was refused, and is to be told of room.
    pub(crate) refused: bool,
    pub(crate) limits: PeerLimits,
    /// Plain pooled messages that the peer may hold: bound and not settled, or given up and not yet passed by the frontier.
    pub(crate) open: Load,
    /// Bytes that a plain pooled message that is bound now may have.
    left: u64,
    /// Those of other lanes.
    pub(crate) lanes: Lanes,
    /// The streams to it.
    pub(crate) writers: Writers,
    /// The places that messages have kept when they came back.
    kept_places: BTreeMap<MessageKey, KeptPlace>,
    /// Messages accepted in all.
    accepted: u64,
    /// Early messages are open, and are to be sent (again) under the channel.
    pub(crate) early_due: bool,
    /// Messages are bound before they leave, by [`Outbound::bind_ahead`], since what names them has to be forced to the disk first.
    binds_ahead: bool,
    /// What was bound since the last [`Outbound::take_bound`].
    bound: Vec<Binding>,
    /// Messages whose binding is not safe yet, in the order of the journal.
    ahead: VecDeque<(Position, Slot, MessageKey)>,
    /// Bytes of those.
    ahead_bytes: u64,
    /// Slots whose end is not safe yet: no ASK passes them.
    ends: VecDeque<(Position, Slot)>,
    /// The peer may be gone, and enough is in doubt: nothing new is bound.
    holds: bool,
    pub(crate) ask_due: bool,
    /// Messages were given up: the peer is to be told below which number nothing is open.
    frontier_due: bool,
    /// Something was given up under this record: the peer needs the frontier to make room of it.
    gave_up: bool,
    ask_at: Mono,
    ask_backoff: Backoff,
    probe_at: Mono,
    probe_backoff: Backoff,
    /// The most that either backs off to, as the path is.
    most: Duration,
    /// Tokens to probe, in the next packet.
    pub(crate) probes: VecDeque<(Slot, Incarnation)>,
    probe_from: Slot,
    /// The peer has found no room for a message that it acknowledged, and room for none since.
    no_room: bool,
    /// Messages that the peer found no room for, and that may go again before the next probe.
    trials: usize,
    /// When to probe those messages below `overdue_below` that are still in doubt while later ones settle.
    overdue_at: Mono,
    overdue_below: Slot,
    overdue_backoff: Backoff,
    revoking: Revoking,
    /// Since when there is nothing to send.
    idle_since: Mono,
    /// The record has closed and the peer has to be told.
    pub(crate) farewell_due: bool,
}

impl Outbound {
    /// `binds_ahead`: the node forces its journal to the disk.
    pub(crate) fn new(now: Mono, binds_ahead: bool) -> Self {
        Self {
            binds_ahead,
            bound: Vec::new(),
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            ends: VecDeque::new(),
            sender: None,
            queue: SendQueue::default(),
            scheduling: None,
            waiting: VecDeque::new(),
            waiting_over: 0,
            caller: Caller::default(),
            bodies: 0,
            given_up: GivenUp::default(),
            lost: IntervalSet::new(),
            unbound: 0,
            letters: 0,
            bytes: 0,
            held: 0,
            largest: 0,
            refused: false,
            limits: PeerLimits::default(),
            open: Load::default(),
            left: POOLED,
            lanes: Lanes::default(),
            writers: Writers::default(),
            kept_places: BTreeMap::new(),
            accepted: 0,
            early_due: false,
            holds: false,
            ask_due: false,
            frontier_due: false,
            gave_up: false,
            ask_at: Mono::NEVER,
            ask_backoff: Backoff::default(),
            probe_at: Mono::NEVER,
            probe_backoff: Backoff::default(),
            most: MAX_BACKOFF,
            probes: VecDeque::new(),
            probe_from: Slot(0),
            no_room: false,
            trials: PROBES,
            overdue_at: Mono::NEVER,
            overdue_below: Slot(0),
            overdue_backoff: Backoff::default(),
            revoking: Revoking::default(),
            idle_since: now,
            farewell_due: false,
        }
    }

    /// Accepts a message; opens the record if there is none.
    pub(crate) fn submit(&mut self, clock: &Clock, store: &mut Store, key: MessageKey) {
        self.sender.get_or_insert_with(|| Sender::open(clock));
        self.farewell_due = false;
        let Some(letter) = store.get_mut(key) else {
            return debug_assert!(false, "it was put there just now");
        };
        let none = self.letters == 0;
        self.number(letter);
        self.join_lane(letter);
        self.unbound += u64::from(letter.open());
        self.letters += letter.open() as usize;
        self.bytes = self.bytes.saturating_add(letter.source.kept());
        self.largest = if none { letter.source.len() } else { self.largest.max(letter.source.len()) };
        self.enqueue(key, letter);
        self.ask_due = true;
    }

    /// Puts a message into the queue if it has something to send and is not there.
    pub(crate) fn enqueue(&mut self, key: MessageKey, letter: &mut Letter) {
        let large = letter.is_large();
        let stays = letter.queued || letter.unsafe_yet;
        if stays || (!large && letter.available() < letter.wire_len()) {
            return;
        }
        letter.queued = true;
        let flow = letter.flow();
        if large && !letter.counted {
            if self.bodies >= self.limits.bodies.max(1) {
                self.waiting.push_back((flow, key));
                return;
            }
            letter.counted = true;
            self.bodies += 1;
        }
        self.queue.push(flow, letter.lane, key);
    }

    /// The peer keeps nothing of what was given up below the frontier: others may take its place.
    fn pass_given_up(&mut self) {
        let frontier = self.sender.as_ref().map(Sender::frontier);
        let Some(passed) = self.given_up.pass(frontier) else { return };
        self.bodies.give_back(passed.large);
        passed.pooled.into_iter().for_each(|(lane, load)| self.close_open(lane, load));
        // Whatever has moved the frontier, the peer has to hear of it.
        self.says_frontier();
    }

    /// Lets large messages in as far as the peer takes more of them at once.
    pub(crate) fn admit_large(&mut self, store: &mut Store) {
        self.pass_given_up();
        while self.bodies < self.limits.bodies.max(1) {
            let Some((flow, key)) = self.waiting.pop_front() else {
                break;
            };
            let Some(letter) = store.get_mut(key) else {
                self.waiting_over.give_back(1);
                continue;
            };
            letter.counted = true;
            self.bodies += 1;
            self.queue.push(flow, letter.lane, key);
        }
        if self.waiting_over > self.waiting.len() / 2 {
            self.waiting.retain(|(_, key)| store.get(*key).is_some());
            self.waiting_over = 0;
        }
    }

    /// The peer keeps something until it hears how far the frontier is.
    pub(crate) fn says_frontier(&mut self) {
        (self.ask_due, self.frontier_due) = (true, true);
    }

    /// Whether anything could be sent, given a packet.
    pub(crate) fn has_something(&self) -> bool {
        self.ask_due
            || self.caller.has_probes()
            || self.early_due
            || self.farewell_due
            || !self.lost.is_empty()
            || !self.probes.is_empty()
            || self.has_revokes()
            || (!self.queue.is_empty() && self.may_bind())
            || self.has_bound_front()
    }

    /// Whether acknowledgements are overdue: then what is bound now would only be more in doubt if the peer has died.
    pub(crate) fn heed_silence(&mut self, unheard: bool) {
        self.holds = unheard && self.sender.as_ref().is_some_and(|sender| sender.in_doubt() >= FEW);
    }

    /// There is an envelope, and it may be used.
    fn may_bind(&self) -> bool {
        !self.holds && self.sender.as_ref().is_some_and(|sender| sender.envelopes() > 0)
    }

    /// Bytes that all open messages and their frames could take in a packet.
    pub(crate) fn most(&self) -> usize {
        let frames = self.letters.saturating_mul(HEAD_ROOM + WHOLE_OVERHEAD);
        usize::try_from(self.bytes).unwrap_or(usize::MAX).saturating_add(frames)
    }

    /// About how many bytes of messages wait for their first packet.
    pub(crate) fn queued(&self) -> u64 {
        self.unbound.saturating_mul(self.bytes.checked_div(self.letters as u64).unwrap_or_default())
    }

    /// Bytes of memory of bodies.
    pub(crate) const fn kept(&self) -> u64 {
        self.bytes + self.held
    }

    /// Messages are queued or in doubt.
    pub(crate) const fn has_messages(&self) -> bool {
        self.letters > 0
    }

    /// Whether there is anything that is worth opening a channel for.
    pub(crate) fn wants_channel(&self) -> bool {
        self.letters > 0 || self.farewell_due
    }

    fn has_bound_front(&self) -> bool {
        self.sender.as_ref().is_some_and(|s| !s.is_idle()) && !self.queue.is_empty()
    }

    /// Messages accepted in all.
    pub(crate) const fn accepted(&self) -> u64 {
        self.accepted
    }

    /// A message gets its place in the order of what was accepted.
    fn number(&mut self, letter: &mut Letter) {
        self.accepted += 1;
        letter.order = self.accepted;
    }

    /// A message joins its lane before it is queued.
    fn join_lane(&mut self, letter: &mut Letter) {
        if letter.role != Role::Plain {
            letter.lane = self.lanes.enter(Lane::of(letter.role, &letter.tag));
        }
    }

    /// Of each flow of lanes the lane that comes next: one that has had its turn, or has no room for its next message, lets
    /// others go before it.
    fn choose_lanes(&mut self, now: Mono, store: &Store) {
        for flow in self.queue.laned() {
            while let Some(key) = self.queue.front(flow) {
                let Some(letter) = store.get(key) else {
                    self.queue.pop(flow);
                    continue;
                };
                if letter.bound.is_some() {
                    break;
                }
                let parks = !self.lanes.may_open(now, letter.lane, letter.wire_len());
                if !parks && !self.queue.is_spent(flow) {
                    break;
                }
                self.queue.next_lane(flow, parks);
            }
        }
    }

    /// A pooled message whose lane has a window of its own.
    fn has_own_window(&self, letter: &Letter) -> bool {
        letter.lane != LaneKey::PLAIN && self.lanes.are_known()
    }

    /// The flow whose turn it is: the front of one must be bound, or find an envelope and room in the window.
    /// `envelopes`: there are some, and they may be used.
    fn turn(&mut self, store: &Store, envelopes: bool) -> Option<Flow> {
        let left = self.window_left();
        let apart = self.lanes.are_known();
        // What shares the window of plain messages.
        let shares = |letter: &&Letter| !letter.is_large() && (letter.lane == LaneKey::PLAIN || !apart);
        let Self { queue, .. } = self;
        if envelopes && let Some(flow) = queue.alone() {
            // Nothing is to be chosen.
            let flow = queue.go_on(flow);
            let front = queue.front(flow).and_then(|key| store.get(key));
            let new = front.filter(|letter| letter.bound.is_none()).filter(shares);
            return new.is_none_or(|letter| letter.wire_len() <= left).then_some(flow);
        }
        if !envelopes {
            // One that waits for an envelope does not hold up those of its flow that have theirs.
            queue.bring_forward(|key| store.get(key).is_none_or(|letter| letter.bound.is_some()));
        }
        let (mut can_go, mut pooled) = ([envelopes; Flow::COUNT], [None; Flow::COUNT]);
        for (flow, key) in queue.fronts() {
            let new = store.get(key).filter(|letter| letter.bound.is_none());
            if let (Some(goes), Some(needs)) = (can_go.get_mut(flow.index()), pooled.get_mut(flow.index())) {
                *goes |= new.is_none();
                *needs = new.filter(shares).map(Letter::wire_len);
            }
        }
        let open = |flow: Flow| can_go.get(flow.index()).copied().unwrap_or_default();
        let needs = |flow: Flow| pooled.get(flow.index()).copied().flatten();
        let alone = queue.alone().filter(|flow| open(*flow));
        let flow = alone.map(|flow| queue.go_on(flow)).or_else(|| queue.turn(open))?;
        if needs(flow).is_none_or(|len| len <= left) {
            return Some(flow);
        }
        // Whose turn it is waits for room in the window. No other takes that from under it.
        queue.turn(|flow| open(flow) && needs(flow).is_none())
    }

    /// What a message counts beside its bytes, where both ends know lanes.
    fn overhead(&self) -> u64 {
        if self.lanes.are_known() { ARRIVED } else { 0 }
    }

    /// Bytes of the window of plain messages that are left. Where lanes are not known, all share it.
    fn window_room(&self) -> u64 {
        let Load { messages, bytes } = self.open;
        let others = if self.lanes.are_known() { messages * ARRIVED } else { self.lanes.bytes() };
        self.limits.pool_window.saturating_sub(bytes).saturating_sub(others)
    }

    /// Bytes that a plain pooled message that is bound now may have. The window takes one message at least, so no STATE that is
    /// lost can stop the sender for good.
    fn window_left(&self) -> u64 {
        self.left
    }

    /// What is open has changed, or what may be.
    #[inline]
    fn note_window(&mut self) {
        let left = self.window_room().saturating_sub(self.overhead());
        self.left = if self.open.is_empty() && self.lanes.are_known() { left.max(POOLED) } else { left };
    }

    /// How many plain messages of `len` bytes the window takes.
    fn plain_left(&self, len: u64) -> u64 {
        let some = self.window_room() / (len + self.overhead()).max(1);
        some.max(u64::from(len <= self.window_left()))
    }

    /// The peer does not hold these pooled messages any more.
    fn close_open(&mut self, lane: LaneKey, load: Load) {
        if lane == LaneKey::PLAIN {
            self.open.give_back(load);
        } else {
            self.lanes.close(lane, load);
            self.wake_lanes();
        }
        self.note_window();
    }

    /// The lanes that have room again have their turn.
    fn wake_lanes(&mut self) {
        while let Some(lane) = self.lanes.woken() {
            self.queue.wake(lane);
        }
    }

    /// What the peer has declared.
    pub(crate) fn set_limits(&mut self, limits: PeerLimits) {
        self.limits = limits;
        self.lanes.set_limits(limits.lanes);
        self.note_window();
        self.wake_lanes();
    }

    fn bind(&mut self, now: Mono, key: MessageKey, letter: &mut Letter) {
        let Some(Ok((s, r))) = self.sender.as_mut().map(|sender| sender.bind(key)) else {
            return debug_assert!(false, "there was an envelope");
        };
        letter.bound = Some((s, r));
        letter.bound_at = now;
        self.enter_stream(key, letter, s);
        self.note_bound(letter, 1, s, r);
        if letter.role == Role::Call {
            self.caller.bound(s, key);
        }
        self.unbound.give_back(1);
        self.note_open(letter.lane, letter.pooled());
    }

    /// The peer may hold these pooled messages from now on.
    #[inline]
    fn note_open(&mut self, lane: LaneKey, load: Load) {
        if lane == LaneKey::PLAIN {
            self.open = self.open.with(load);
        } else {
            self.lanes.open(lane, load);
        }
        self.note_window();
    }

    /// A message leaves this direction, settled or withdrawn; [`Outbound::admit_large`] is due afterwards.
    pub(crate) fn forget(&mut self, key: MessageKey, letter: &Letter) {
        self.release(key, letter);
        self.forget_places(key, 1);
        self.letters.give_back(1);
        match letter.bound {
            None => self.unbound.give_back(1),
            Some((s, _)) => {
                self.caller.ended(s);
                self.revoked(s);
                self.leave_stream(letter, s, 1);
                self.close_open(letter.lane, if letter.served { Load::default() } else { letter.pooled() });
            }
        }
        if letter.lane != LaneKey::PLAIN {
            self.lanes.leave(letter.lane);
        }
    }

    /// A call was delivered: what was kept to send it again, which is given back, is not needed any more.
    pub(crate) fn served(&mut self, key: MessageKey, letter: &mut Letter) -> Source {
        self.release(key, letter);
        self.close_open(letter.lane, letter.pooled());
        letter.served = true;
        (letter.queued, letter.counted, letter.unsafe_yet) = (false, false, false);
        (letter.halves, letter.fragments) = (None, None);
        core::mem::replace(&mut letter.source, Source::Whole(bytes::Bytes::new()))
    }

    /// Nothing of a message is to be sent.
    fn release(&mut self, key: MessageKey, letter: &Letter) {
        if letter.queued {
            // What is large and not counted has not come as far as the queue.
            if letter.is_large() && !letter.counted {
                self.waiting_over += 1;
            } else {
                self.queue.remove(letter.flow(), letter.lane, key);
            }
        }
        self.leave_ahead(letter);
        self.bytes.give_back(letter.source.kept());
        if let Some((s, _)) = letter.bound {
            self.lost.remove(s.0);
        }
        self.bodies.give_back(u64::from(letter.counted));
    }

    /// Gives up a bound message; [`Outbound::admit_large`] is due afterwards. Its bytes count as open until the frontier has
    /// passed it, for the peer may hold them until then.
    pub(crate) fn abandon(&mut self, letter: &Letter) {
        let Some((s, r)) = letter.bound.filter(|_| !letter.served) else { return };
        self.bodies += u64::from(letter.counted);
        self.give_up_place(letter, s);
        let pooled = (!letter.is_large()).then(|| (letter.lane, letter.pooled()));
        self.give_up(s, r, pooled);
    }

    fn give_up(&mut self, s: Slot, r: Incarnation, pooled: Option<(LaneKey, Load)>) {
        if let Some(sender) = self.sender.as_mut() {
            sender.abandon(s);
        }
        self.given_up.insert(s, r, pooled, self.sender.as_ref());
        match pooled {
            Some((LaneKey::PLAIN, load)) => self.open = self.open.with(load),
            Some((lane, load)) => self.lanes.give_up(lane, load),
            None => {}
        }
        self.note_window();
        self.gave_up = true;
    }

    /// An ASK was lost.
    pub(crate) fn on_ask_lost(&mut self) {
        // It may have been the one that said how far the peer may forget.
        self.frontier_due |= self.gave_up;
        self.ask_due |= self.unbound > 0 || self.frontier_due;
    }

    /// The record closes after `linger` with nothing to send.
    pub(crate) fn close_if_idle(&mut self, now: Mono, clock: &mut Clock, linger: Duration) {
        if self.letters > 0 || !self.ends.is_empty() || self.close_at(linger) > now {
            return;
        }
        self.close(clock);
    }

    /// Ends the record, if nothing is bound: the peer is told.
    fn close(&mut self, clock: &mut Clock) {
        if Sender::close(&mut self.sender, clock).is_some() {
            self.forget_given_up();
            self.farewell_due = true;
            self.ask_at = Mono::NEVER;
            (self.probe_at, self.overdue_at, self.no_room) = (Mono::NEVER, Mono::NEVER, false);
            self.lost.clear();
            self.queue.shrink();
        }
    }

    /// The record goes at once: there is nothing in it, and nobody to tell.
    pub(crate) fn drop_record(&mut self, clock: &mut Clock) {
        if self.ends.is_empty() && Sender::close(&mut self.sender, clock).is_some() {
            self.forget_given_up();
            (self.overdue_at, self.no_room) = (Mono::NEVER, false);
        }
        self.farewell_due = false;
    }

    /// The record is gone, and with it all that the peer could hold of what was given up.
    fn forget_given_up(&mut self) {
        self.pass_given_up();
        (self.gave_up, self.ask_due, self.frontier_due) = (false, false, false);
    }

    /// Nothing is owed to the peer any more. Its messages have been given up.
    pub(crate) fn part(&mut self, clock: &mut Clock) {
        self.drop_record(clock);
        self.caller.owe_nothing();
        self.ask_due = false;
        (self.ask_at, self.probe_at, self.overdue_at) = (Mono::NEVER, Mono::NEVER, Mono::NEVER);
    }

    fn close_at(&self, linger: Duration) -> Mono {
        if self.sender.is_some() && self.letters == 0 { self.idle_since + linger } else { Mono::NEVER }
    }

    /// `connected`: what is owed can leave.
    pub(crate) fn deadline(&self, linger: Duration, connected: bool) -> Mono {
        let own = self
            .ask_at
            .min(self.probe_at)
            .min(self.overdue_at)
            .min(self.close_at(linger))
            .min(self.revoke_at());
        own.min(self.caller.deadline(connected))
    }

    /// Nothing is open, nothing is to be said.
    pub(crate) fn is_silent(&self) -> bool {
        self.letters == 0 && self.sender.is_none() && self.caller.counts() == (0, 0) && !self.farewell_due
    }

    /// Nothing is held for the peer.
    pub(crate) fn is_empty(&self) -> bool {
        self.letters == 0 && self.sender.is_none()
    }

    /// Since when there is nothing to send.
    pub(crate) const fn idle_since(&self) -> Mono {
        self.idle_since
    }

    pub(crate) fn note_idle(&mut self, now: Mono) {
        if self.letters == 0 {
            self.idle_since = now;
        }
    }

    /// Large messages that were given up, and count as under way.
    pub(crate) fn large_given_up(&self) -> u64 {
        self.given_up.large()
    }

    /// Pooled messages that were given up, and count as open.
    pub(crate) fn pooled_given_up(&self) -> impl Iterator<Item = (LaneKey, Load)> {
        self.given_up.pooled()
    }

    /// What each lane has open, as it is counted.
    pub(crate) fn loads(&self) -> impl Iterator<Item = (LaneKey, Load)> {
        core::iter::once((LaneKey::PLAIN, self.open)).chain(self.lanes.loads())
    }

    /// What is kept of messages that were given up, and the most that may be kept while `most` messages are in doubt.
    pub(crate) fn given_up_runs(&self, in_doubt: usize) -> (usize, usize) {
        self.given_up.runs(in_doubt)
    }

    /// Messages without a slot.
    pub(crate) const fn unbound(&self) -> u64 {
        self.unbound
    }
}
