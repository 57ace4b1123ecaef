//! A node: the table of peers, and the polls and inputs that a driver calls.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use rand_chacha::ChaCha12Rng;
use rand_core::{RngCore, SeedableRng};

use super::peers::{Census, Peers};
use super::timers::Timers;
use crate::config::Config;
use crate::crypto::{OpeningMac, RetryKey, SecretKey};
use crate::event::{Batch, Conflict, Event, Lsn, Notes, SendError};
use crate::half::{Clock, Far, Hull, Receiver, Stamps};
use crate::id::{LetterId, NodeId, Stamp, Stay};
use crate::journal::{Append, Durability, Journal, PastOutcome, Position, Recovered};
use crate::message::{Letter, MessageKey};
use crate::opening::life::Life;
use crate::opening::refusals::Refusals;
use crate::opening::stamping::{Memo, Stamping};
use crate::peer::{Context, Peer};
use crate::stats::{PeerStats, Stats};
use crate::time::{Mono, Now};

/// How a node comes to life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Boot {
    /// The identity dies with the process: nothing is stored.
    Ephemeral,
    /// The identity is stored, with the `D` of its last write. The first [`Node::poll_persist`] gives the block of numbers that
    /// this run may use. Nothing leaves until that write is durable.
    Stored {
        /// `D`.
        clock: u64,
        /// The life that wrote last; 0 before the first.
        life: u64,
        /// `latest`.
        latest: Stamp,
        /// The strays in the last write that had any.
        strays: Vec<(NodeId, Far)>,
        /// The notes on early messages that the former process wrote, complete as they were when it died: see
        /// [`Node::poll_notes`]. None: some may be lost, so what it took early is forgotten.
        notes: Option<Notes>,
        /// The contents of the journal, and when its records are safe. None: the node keeps no journal, and has forgotten what
        /// the former process knew.
        journal: Option<(Durability, Box<Recovered>)>,
    },
}

/// The node looks at due work no more often than this.
const GRANULARITY: Duration = Duration::from_millis(1);
/// A peer with due work that cannot leave is looked at again after twice `GRANULARITY`, and in the end after this time.
const MAX_STUCK: Duration = Duration::from_millis(1_024);
/// How many peers are examined to find one that makes room.
const SEARCH: usize = 64;
/// How many peers are examined at once for memory to take back, and how long they must have been silent.
const RECLAIMED: usize = 16;
const SILENT: Duration = Duration::from_secs(60);
/// A longer gap between calls means that the machine was suspended.
const SUSPENDED: Duration = Duration::from_secs(10);

/// About how many bytes the records of a message take in a snapshot beside its body.
const RECORDS: u64 = 48;

/// A node of the protocol: the state of one identity, on all its channels. See the [module](super) for the contract.
#[derive(Debug)]
pub struct Node {
    /// The state that all peers share.
    pub(super) cx: Context,
    pub(super) peers: Peers,
    pub(super) census: Census,
    timers: Timers,
    pub(super) ready: VecDeque<u32>,
    /// The peer whose datagrams were last given out for sending, until the next ones are.
    pub(super) last_sent: Option<u32>,
    pub(super) last_poll: Mono,
    persisting: Option<Batch>,
    /// Where the journal last recorded the hull.
    front_at: Position,
    lsn: Lsn,
    pub(super) mac: OpeningMac,
    pub(super) retry_key: RetryKey,
    pub(super) refusals: Refusals,
}

impl Node {
    /// A node with the identity `key`. `seed` is fresh randomness: the node draws all its random numbers from it.
    pub fn new(config: Config, key: SecretKey, boot: Boot, seed: [u8; 32], now: Now) -> Self {
        let mut rng = ChaCha12Rng::from_seed(seed);
        let (mut boot_id, mut jar) = ([0; 8], [0; 32]);
        rng.fill_bytes(&mut boot_id);
        rng.fill_bytes(&mut jar);
        let (begun, journal) = match boot {
            Boot::Ephemeral => {
                let stamping = Stamping::new(true, config.limits.strays, [], None);
                ((Clock::ephemeral(), None, stamping), None)
            }
            Boot::Stored { clock, life, latest, strays, notes, journal } => {
                let front = journal.as_ref().and_then(|(_, found)| found.front);
                // A life with a journal takes no notes.
                let (hull, taken) = match notes.filter(|_| journal.is_none()) {
                    Some(notes) => (notes.hull.unwrap_or_default(), notes.taken),
                    None => (Hull::up_to(latest), Vec::new()),
                };
                let mut clock = match front {
                    // What a process without a journal knew is forgotten, except for its notes.
                    None => Clock::restart(clock, latest, hull, config.clock_block),
                    Some((b, hull)) => {
                        let stamps = Stamps::recover(latest, hull);
                        Clock::recover(clock, b, stamps, config.clock_block)
                    }
                };
                let taken = journal.is_none().then_some(taken);
                let life = Some(Life::new(&key, life.saturating_add(1), &jar));
                let mut stamping = Stamping::new(false, config.limits.strays, strays, taken);
                stamping.fold_oldest(clock.stamps_mut());
                ((clock, life, stamping), journal)
            }
        };
        let id = key.node_id();
        let mut this = Self {
            cx: Context::new(config, key, rng, boot_id, (seed, jar), begun, now.mono),
            peers: Peers::default(),
            census: Census::default(),
            timers: Timers::default(),
            ready: VecDeque::new(),
            last_sent: None,
            last_poll: now.mono,
            persisting: None,
            front_at: Position(0),
            lsn: Lsn(0),
            mac: OpeningMac::new(&id),
            retry_key: RetryKey::new(&id),
            refusals: Refusals::default(),
        };
        if let Some((durability, found)) = journal {
            this.recover(now, durability, *found);
        }
        this
    }

    /// Continues with the contents of the journal.
    fn recover(&mut self, now: Now, durability: Durability, found: Recovered) {
        let life = self.cx.life.as_ref().map_or(0, Life::number);
        self.cx.journal = Journal::begin(durability, &found, life);
        self.cx.shelf = found.shelf.clone();
        self.cx.journal.append_front(&self.cx.clock);
        // The file says that this life has begun only once the journal says so.
        self.front_at = self.cx.journal.end();
        // Messages are many, and go one by one into the store, so that they are not in memory twice.
        self.cx.store.reserve(found.open.len());
        let sends: BTreeSet<u32> = found.open.runs().map(|(_, posted)| posted.peer).collect();
        let mut entered = BTreeMap::new();
        for (number, known) in &found.known {
            if known.is_over() && !sends.contains(number) {
                continue;
            }
            // A journal never has more peers than the node had.
            let place = self.peers.find(&known.id).unwrap_or_else(|| self.enter_peer(now, known.id));
            if let Some((peer, cx)) = self.at(place) {
                peer.recover(cx, now, *number, known);
            }
            entered.insert(*number, (place, Vec::new()));
        }
        for (id, posted) in found.open.into_runs() {
            if let Some((place, placed)) = entered.get_mut(&posted.peer)
                && let Some((peer, cx)) = self.at(*place)
            {
                peer.recover_letters(cx, now, id, posted, placed);
            }
        }
        for (number, (place, placed)) in entered {
            if let Some((peer, cx)) = self.at(place)
                && let Some(known) = found.known.get(&number)
            {
                peer.recover_places(cx, now, &placed, &known.calls);
            }
            self.after(now, place);
        }
    }

    /// The id of this node.
    pub fn id(&self) -> NodeId {
        self.cx.id
    }

    /// The peer at `place`, and the state that it shares with the others. [`Node::after`] follows every input of a peer.
    pub(super) fn at(&mut self, place: u32) -> Option<(&mut Peer, &mut Context)> {
        Some((self.peers.get_mut(place)?, &mut self.cx))
    }

    /// Follows every input of a peer: the node does what the peer asks for, and looks at the peer at the next poll.
    #[inline]
    pub(super) fn after(&mut self, now: Now, place: u32) {
        if self.cx.asks() {
            self.obey(now);
        }
        self.touch(place);
    }

    /// Does what a peer has asked for: tells the followers the time, releases strays, takes memory back, forgets replies beyond
    /// the cap, and sweeps the receive queue.
    fn obey(&mut self, now: Now) {
        self.cx.followers.stamp(now.mono);
        self.release_risen(now);
        if std::mem::take(&mut self.cx.short_of_memory) {
            self.reclaim(now);
        }
        self.bound_replies(now);
        self.sweep();
    }

    /// Calls `act` for every peer.
    fn each(&mut self, now: Now, mut act: impl FnMut(&mut Peer, &mut Context)) {
        let all: Vec<u32> = self.peers.iter().map(|(place, _)| place).collect();
        for place in all {
            if let Some((peer, cx)) = self.at(place) {
                act(peer, cx);
            }
            self.after(now, place);
        }
    }

    // --- the disk ---

    /// The next write to make durable, if any.
    pub fn poll_persist(&mut self) -> Option<Batch> {
        if self.persisting.is_some() || self.cx.stopped {
            return None;
        }
        // The life counts as begun once the journal says so.
        if !self.cx.journal.is_safe(self.front_at) {
            return None;
        }
        let wanted = self.cx.clock.wanted();
        if wanted.is_none() && !self.cx.stamping.wants_write(self.cx.clock.stamps()) {
            return None;
        }
        self.lsn = Lsn(self.lsn.0 + 1);
        let clock = wanted.unwrap_or(self.cx.clock.limit().0);
        let (latest, strays) = self.cx.stamping.write(self.cx.clock.stamps());
        let life = self.cx.life.as_ref().map_or(0, Life::number);
        self.persisting = Some(Batch { lsn: self.lsn, clock, life, latest, strays });
        self.persisting.clone()
    }

    /// Every write up to `through` is durable.
    pub fn handle_persisted(&mut self, now: Now, through: Lsn) {
        let Some(batch) = self.persisting.take_if(|batch| batch.lsn <= through) else {
            return;
        };
        self.cx.clock.persisted(batch.clock);
        self.cx.clock.stamps_mut().persisted(batch.latest);
        for (id, far) in batch.strays.iter().flatten() {
            let Self { peers, cx, .. } = self;
            let bound = match peers.find(id).and_then(|place| peers.get_mut(place)) {
                Some(peer) => &mut peer.inbound.bound,
                None => &mut cx.stamping.memo_mut(*id).bound,
            };
            bound.refuse(*far);
        }
        self.release_strays(now);
        for (arrival, mut datagram) in self.cx.stamping.take_deferred() {
            self.handle_datagram(now, arrival, &mut datagram);
        }
        self.each(now, |peer, cx| peer.on_persisted(cx, now));
    }

    /// If `latest` may have risen, releases the strays that it has caught up with.
    pub(super) fn release_risen(&mut self, now: Now) {
        if std::mem::take(&mut self.cx.latest_rose) {
            self.release_strays(now);
        }
    }

    /// Strays that `latest` has caught up with become ordinary senders: the stamps refused for each become its bound.
    fn release_strays(&mut self, now: Now) {
        let Self { peers, cx, .. } = self;
        for id in cx.stamping.take_caught_up(cx.clock.stamps().latest()) {
            let stamps = cx.clock.stamps_mut();
            match peers.find(&id).and_then(|place| peers.get_mut(place)) {
                Some(peer) => stamps.catch_up(&mut peer.inbound.bound),
                None => {
                    let memo = cx.stamping.recall(&id);
                    cx.stamping.remember(now, stamps, id, memo);
                }
            }
        }
    }

    /// A write failed. The node cannot keep its promises any more, and stops.
    pub fn handle_persist_failed(&mut self, _now: Now) {
        self.cx.stopped = true;
        self.cx.events.push_back(Event::Stopped);
    }

    /// The notes on early messages that a node without a journal has to write, if any. The driver writes them before it acts on
    /// any output of the node: before it sends a datagram, or hands a message to the application. What is written must survive
    /// the process; it need not be forced to the disk.
    pub fn poll_notes(&mut self) -> Option<Notes> {
        if !self.cx.stamping.has_notes() {
            return None;
        }
        if let Some(taken) = self.cx.stamping.take_notes() {
            return Some(Notes { hull: None, taken });
        }
        let hull = Some(self.cx.clock.stamps().hull());
        let known = self.peers.iter().flat_map(|(_, peer)| {
            let record = peer.inbound.receiver.as_ref().and_then(Receiver::taken);
            let all = peer.inbound.bound.taken().into_iter().chain(record);
            all.map(|taken| (peer.id, taken))
        });
        let taken = self.cx.stamping.all_notes().chain(known).collect();
        Some(Notes { hull, taken })
    }

    /// The next records to append to the journal, if any.
    pub fn poll_journal(&mut self) -> Option<Append<'_>> {
        self.cx.journal.poll()
    }

    /// A crash keeps the journal up to `through`, which was forced to the disk: [`Durability::Forced`].
    pub fn handle_journaled(&mut self, now: Now, through: Position) {
        self.cx.journal.persisted(through);
        self.cx.report_safe();
        for place in std::mem::take(&mut self.cx.journal.waiting) {
            if let Some((peer, cx)) = self.at(place) {
                peer.on_journaled(cx, now);
            }
            self.after(now, place);
        }
    }

    /// The present end of the journal. What the node has just said or handed out is safe once this position is safe.
    pub fn journal_end(&self) -> Position {
        self.cx.journal.end()
    }

    /// Whether a crash keeps the journal up to `at`.
    pub fn is_safe(&self, at: Position) -> bool {
        self.cx.journal.is_safe(at)
    }

    /// The journal's name of an unsettled message. None: the message is not journaled.
    pub fn letter_id(&self, key: MessageKey) -> Option<LetterId> {
        Some(self.cx.store.open(key)?.journaled?.nth(key.at))
    }

    /// The group of the journal that has an unsettled message, as [`Node::journal_group`] counts them. Zero: a snapshot has it.
    /// None: the message is not journaled.
    pub fn letter_group(&self, key: MessageKey) -> Option<u64> {
        self.cx.store.open(key).filter(|letter| letter.journaled.is_some()).map(|letter| letter.group)
    }

    /// The newest outcomes of journaled messages that had slots, of this life and those before, the newest last: up to 1,024, where
    /// messages that ended together count as one. None without a journal.
    pub fn past_outcomes(&self) -> impl Iterator<Item = &PastOutcome> {
        self.cx.journal.past.iter()
    }

    /// Everything that the journal must keep, without what has ended, except for [`Node::past_outcomes`]. Once a store has this on
    /// the disk, it may delete what was appended up to the present [`Node::journal_end`].
    pub fn snapshot(&self, now: Now) -> Vec<u8> {
        self.snapshot_keeping(now, u64::MAX)
    }

    /// As [`Node::snapshot`], for a store that keeps all groups of the journal from `kept` on. What the application gave is not
    /// written again if one of these groups has it. [`Recovered::add_kept`] reads them.
    pub fn snapshot_keeping(&self, now: Now, kept: u64) -> Vec<u8> {
        let letters = self.cx.store.iter();
        let letters = letters.filter_map(|(key, letter)| Some((letter.journaled?, (key, letter))));
        let letters: BTreeMap<_, _> = letters.collect();
        // A vector that grows would be copied several times, with all waiting messages.
        let room = |(_, letter): &(_, &Letter)| {
            let said = if letter.group >= kept { 0 } else { letter.source.kept() };
            said + RECORDS * u64::from(letter.open())
        };
        let room = letters.values().map(room).sum::<u64>();
        let mut to = Vec::with_capacity(usize::try_from(room).unwrap_or(0));
        self.peers.iter().for_each(|(_, peer)| peer.snapshot(&mut to));
        for (key, letter) in letters.into_values() {
            if let Some(peer) = self.peers.get(letter.peer) {
                peer.snapshot_letter(now, (key, letter), kept, &mut to);
            }
        }
        self.cx.journal.snapshot(&self.cx.clock, &mut to);
        to
    }

    /// The number of the last group that [`Node::poll_journal`] gave, counted over all lives.
    pub fn journal_group(&self) -> u64 {
        self.cx.journal.group() - 1
    }

    /// The groups of the journal that have open messages, each with the number of bytes of these messages. They are in no order,
    /// and some come several times.
    pub fn needed_groups(&self) -> Vec<(u64, u64)> {
        let letters =
            self.cx.store.iter().filter(|(_, letter)| letter.journaled.is_some() && letter.group > 0);
        letters.map(|(_, letter)| (letter.group, letter.source.kept() + u64::from(letter.open()))).collect()
    }

    /// Whether [`Node::poll_transmit`] may have something to send.
    pub fn has_ready(&self) -> bool {
        self.cx.may_speak() && !(self.ready.is_empty() && self.cx.loose() == 0)
    }

    // --- time ---

    /// The next time at which [`Node::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Mono> {
        if self.cx.stopped {
            return None;
        }
        let deadline = self.cx.deadlines.first().map(|(at, _)| *at);
        let due = [self.timers.next(), deadline, self.cx.stamping.forget_at(), self.cx.inbox.next_due()];
        due.into_iter().flatten().min()
    }

    /// How long arriving datagrams may wait in the socket from now on, so that the driver reads several packets at once. Zero,
    /// unless this node has nothing to send and receives long packets in quick succession.
    pub fn may_rest(&self) -> Duration {
        if self.cx.store.len() == 0 { self.cx.bulk.rest() } else { Duration::ZERO }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Now) {
        self.note_gap(now);
        self.expire(now);
        self.release_due(now);
        self.cx.stamping.forget(now, self.cx.clock.stamps_mut());
        while let Some(place) = self.timers.pop(now.mono) {
            if let Some(schedule) = self.peers.schedule(place) {
                (schedule.deadline, schedule.looked_at) = (Mono::NEVER, now.mono);
            }
            if let Some((peer, cx)) = self.at(place) {
                peer.on_timeout(cx, now);
            }
            self.after(now, place);
        }
    }

    /// After a long gap between calls, perhaps a suspend, the network may have changed: opens every channel anew, at once.
    fn note_gap(&mut self, now: Now) {
        let due = self.poll_timeout().unwrap_or(Mono::NEVER).max(self.last_poll);
        let absence = now.mono.since(due);
        if absence > SUSPENDED {
            self.peers.iter_mut().for_each(|peer| peer.inbound.excuse(now.mono, absence));
            self.rebind(now);
        }
        self.last_poll = now.mono;
    }

    /// The local socket has changed, or the machine has slept: opens every wanted channel anew.
    pub fn rebind(&mut self, now: Now) {
        self.each(now, |peer, _| peer.link.hurry(now.mono));
    }

    /// The network may be back, as when an interface is up again: repeats at once what silent peers have not answered.
    pub fn hasten(&mut self, now: Now) {
        let silent = self.peers.iter().filter(|(_, peer)| peer.is_silent(now.mono));
        let silent: Vec<u32> = silent.map(|(place, _)| place).collect();
        for place in silent {
            if let Some((peer, cx)) = self.at(place) {
                peer.hasten(cx, now);
            }
            self.after(now, place);
        }
    }

    // --- peers ---

    /// The place of a peer that the application sends to. The peer is entered if necessary.
    pub(super) fn peer_to(&mut self, now: Now, id: NodeId, hints: &[SocketAddr]) -> Result<u32, SendError> {
        if id == self.cx.id {
            return Err(SendError::Myself);
        }
        if let Some(index) = self.peers.find(&id) {
            if let Some((peer, cx)) = self.at(index) {
                peer.admitted = true;
                peer.link.refused_until = Mono(0);
                hints.iter().rev().for_each(|hint| peer.choose(cx, *hint));
                // A message that an opening has brought can be answered on the channel that the opening began.
                if peer.hints.is_empty() && !peer.link.is_connected() && !peer.link.is_answering() {
                    return Err(SendError::NoAddress(id));
                }
            }
            return Ok(index);
        }
        if hints.is_empty() {
            return Err(SendError::NoAddress(id));
        }
        let index = self.new_peer(now, id).ok_or(SendError::TooManyPeers(self.cx.config.limits.peers))?;
        if let Some((peer, cx)) = self.at(index) {
            peer.admitted = true;
            hints.iter().rev().for_each(|hint| peer.choose(cx, *hint));
        }
        Ok(index)
    }

    pub(super) fn new_peer(&mut self, now: Now, id: NodeId) -> Option<u32> {
        if self.peers.len() >= self.cx.config.limits.peers {
            self.make_room(now);
        }
        if self.peers.len() >= self.cx.config.limits.peers {
            return None;
        }
        Some(self.enter_peer(now, id))
    }

    fn enter_peer(&mut self, now: Now, id: NodeId) -> u32 {
        let cx = &mut self.cx;
        self.peers.insert(id, |place| {
            let mut peer = Peer::new(id, place, now.mono, cx);
            peer.conflict = cx.conflicts.get(&id);
            Memo { bound: peer.inbound.bound, told: peer.told } = cx.stamping.recall(&id);
            peer
        })
    }

    /// The table is full: a peer that is not connected, and for which this node has nothing to lose, makes room. The messages
    /// that this peer had in doubt here end Unknown at the peer.
    fn make_room(&mut self, now: Now) {
        for _ in 0..SEARCH {
            let Some(place) = self.peers.next_place() else { return };
            if let Some((peer, cx)) = self.at(place).filter(|(peer, _)| peer.makes_room()) {
                peer.evict(cx, now);
                self.forget_peer(now, place);
                return;
            }
        }
    }

    /// Memory is short: gives up the incomplete messages of silent peers. The peers send them again.
    fn reclaim(&mut self, now: Now) {
        for _ in 0..RECLAIMED {
            let Some(place) = self.peers.next_place() else { return };
            let silent = self.peers.get_mut(place);
            if silent.is_some_and(|peer| peer.inbound.give_up_parts(now.mono, SILENT)) {
                self.touch(place);
            }
        }
    }

    /// Whether something can be sent to `peer` without a hint: the address of the peer is known, or the peer is connected.
    pub fn has_address(&self, peer: &NodeId) -> bool {
        let known = self.peers.find(peer).and_then(|index| self.peers.get(index));
        known.is_some_and(|peer| peer.has_address() || peer.link.is_connected() || peer.link.is_answering())
    }

    /// Adds an address at which `peer` may be found, if the node knows the peer. The node tries it where no other address works.
    pub fn suggest(&mut self, now: Now, peer: &NodeId, address: SocketAddr) {
        let Some(index) = self.peers.find(peer) else { return };
        if let Some((peer, cx)) = self.at(index).filter(|(peer, _)| !peer.hints.contains(&address)) {
            peer.choose(cx, address);
            if !peer.link.is_connected() || peer.link.is_away() {
                peer.link.hurry(now.mono);
            }
        }
        self.touch(index);
    }

    /// Whether `peer` leaves everything unanswered that is under way to it: from [`Event::Away`] to [`Event::Back`].
    pub fn is_away(&self, peer: &NodeId) -> bool {
        let known = self.peers.find(peer).and_then(|index| self.peers.get(index));
        known.is_some_and(|peer| peer.link.is_away())
    }

    /// From now on, what the application has given and the node needs no more is kept for [`Node::take_spent`]. This is for an
    /// application whose destructors must not run within calls of the node. Empty bytes are not kept.
    pub fn keep_spent(&mut self) {
        self.cx.store.keep_spent();
    }

    /// Adds to `spent` the bodies and tags that the node does not need any more.
    pub fn take_spent(&mut self, spent: &mut Vec<Bytes>) {
        self.cx.store.take_spent(spent);
    }

    /// Adds another address at which `peer` may be found.
    pub fn add_hint(&mut self, now: Now, peer: NodeId, address: SocketAddr) {
        let Some(index) = self.peers.find(&peer) else {
            return;
        };
        if let Some((peer, cx)) = self.at(index) {
            peer.choose(cx, address);
            peer.link.hurry(now.mono);
        }
        self.touch(index);
    }

    /// Keeps the path to `peer` open: a keepalive leaves after each silence of `every`. None: as the node is configured. This
    /// holds for as long as the node knows the peer.
    pub fn keep_alive(&mut self, _now: Now, peer: &NodeId, every: Option<Duration>) {
        let Some(index) = self.peers.find(peer) else { return };
        if let Some(peer) = self.peers.get_mut(index) {
            peer.link.keepalive = every;
        }
        self.touch(index);
    }

    /// Measures the round trip to `peer`, opening a channel if there is none. [`Event::Pong`] with `cookie` reports it.
    ///
    /// # Errors
    /// [`SendError`] when the peer cannot be addressed.
    pub fn ping(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        cookie: u64,
    ) -> Result<(), SendError> {
        if self.cx.closing || self.cx.stopped {
            return Err(SendError::Closed);
        }
        let index = self.peer_to(now, peer, hints)?;
        if let Some((peer, cx)) = self.at(index) {
            peer.ping(cx, cookie);
        }
        self.after(now, index);
        Ok(())
    }

    /// Makes the next poll look at the peer.
    pub(super) fn touch(&mut self, place: u32) {
        let Some((peer, schedule)) = self.peers.scheduled(place) else { return };
        self.census.count(&mut schedule.counted, peer.standing());
        if !std::mem::replace(&mut schedule.ready, true) {
            self.ready.push_back(place);
        }
    }

    /// A peer has nothing to send now: decides when to look at it again, or forgets it.
    pub(super) fn rest(&mut self, now: Now, place: u32) {
        let Some((peer, schedule)) = self.peers.scheduled(place) else { return };
        self.census.count(&mut schedule.counted, peer.standing());
        if peer.is_forgettable() {
            self.forget_peer(now, place);
            return;
        }
        let (old, mut new) = (schedule.deadline, peer.next_deadline(&self.cx));
        if new <= now.mono && new <= schedule.looked_at {
            // The node has looked at the peer since. What is due cannot leave yet, and the longer that lasts, the less it helps
            // to look again.
            new = now.mono + schedule.stuck.next(GRANULARITY * 2, MAX_STUCK);
            // The deadline that is already set is never put off: under steady traffic it would never come.
            if old > now.mono {
                new = new.min(old);
            }
        } else if new > now.mono {
            schedule.stuck.reset();
        }
        if old != new {
            schedule.deadline = new;
            self.timers.set(place, old, new);
        }
    }

    fn forget_peer(&mut self, now: Now, place: u32) {
        if let Some((peer, cx)) = self.at(place) {
            peer.account(cx);
            peer.journal_record(cx);
            peer.forget_replies(cx, now);
        }
        let Some((peer, schedule)) = self.peers.remove(place) else { return };
        self.timers.set(place, schedule.deadline, Mono::NEVER);
        self.census.leave(schedule.counted);
        let memo = Memo { bound: peer.inbound.bound, told: peer.told };
        self.cx.stamping.remember(now, self.cx.clock.stamps_mut(), peer.id, memo);
        if peer.admitted {
            self.cx.events.push_back(Event::Forgotten { peer: peer.id });
        }
    }

    // --- events and figures ---

    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.cx.events.pop_front();
        if self.cx.events.is_empty() && self.cx.events.capacity() > 65_536 {
            self.cx.events.shrink_to(1_024);
        }
        event
    }

    /// Refuses new work and drains: as messages settle, peers are told that no more follow.
    pub fn close(&mut self, now: Now) {
        self.cx.closing = true;
        self.each(now, |_, _| {});
    }

    /// Ends the node for good: nothing more is taken or granted. Messages that arrived and were not taken are certainly not
    /// delivered, and every peer that can be told at once is told so.
    pub fn finish(&mut self, now: Now) {
        self.close(now);
        self.cx.config.limits.slots = 0;
        self.each(now, |peer, cx| peer.finish(cx, now));
    }

    /// After [`Node::finish`]: every peer that can be told has heard which messages were not taken.
    pub fn is_finished(&self) -> bool {
        let told = |peer: &Peer| !peer.inbound.is_closing() || !peer.link.is_connected();
        self.cx.config.limits.slots == 0 && self.peers.iter().all(|(_, peer)| told(peer))
    }

    /// After [`Node::finish`] and before [`Node::leave_all`]: an identity that ends with this node tells the peers that had
    /// something for it. Returns after how long to call this again, in case the notice is lost. None: there is no peer to tell.
    pub fn foretell_end(&mut self) -> Option<Duration> {
        let Self { peers, cx, .. } = self;
        peers.iter_mut().filter_map(|peer| peer.foretell(cx)).max()
    }

    /// Ends every channel, and tells the peers.
    pub fn leave_all(&mut self, now: Now) {
        let Self { peers, cx, .. } = self;
        peers.iter_mut().for_each(|peer| peer.leave(cx, now));
    }

    /// Whether two nodes are known to use the identity of `peer`, or the identity of this node as `peer` reports.
    pub fn conflict(&self, peer: &NodeId) -> Option<Conflict> {
        self.cx.conflicts.get(peer)
    }

    /// The latest place of a peer that this node has met, for as long as the peer is known.
    pub fn stay_of(&self, peer: &NodeId) -> Option<Stay> {
        let at = self.peers.find(peer)?;
        self.peers.get(at).map(|peer| peer.link.lives.stay())
    }

    /// Whether nothing is open to send and nothing is owed to a peer: O(1).
    pub fn is_quiet(&self) -> bool {
        self.cx.store.len() == 0 && self.cx.loose() == 0 && self.census.busy == 0
    }

    /// Whether a call of a peer is being computed, or a reply is not known to have arrived. This looks at every peer.
    pub fn owes_replies(&self) -> bool {
        self.peers.iter().any(|(_, peer)| !peer.inbound.server.is_empty())
    }

    /// The peers known now.
    pub fn peers(&self) -> Vec<NodeId> {
        self.peers.iter().map(|(_, peer)| peer.id).collect()
    }

    /// The counts of [`Node::stats`], with zero for the figures of what is there now: O(1).
    pub const fn counts(&self) -> &Stats {
        &self.cx.stats
    }

    /// The settings that the node was made with.
    pub const fn config(&self) -> &Config {
        &self.cx.config
    }

    /// Figures of the node: O(1).
    pub fn stats(&self) -> Stats {
        let Census { senders, receivers, .. } = self.census;
        Stats {
            peers: self.peers.len(),
            half_open: self.cx.gate.half_open(),
            sender_records: senders,
            receiver_records: receivers,
            open_messages: self.cx.store.len(),
            computing: self.cx.replies.computing,
            replies: self.cx.replies.counts().0,
            waiting: self.cx.inbox.len(),
            received_bytes: usize::try_from(self.cx.received).unwrap_or(usize::MAX),
            ..self.cx.stats
        }
    }

    /// Figures of a peer.
    pub fn peer_stats(&self, peer: &NodeId) -> Option<PeerStats> {
        let peer = self.peers.get(self.peers.find(peer)?)?;
        let in_doubt = peer.outbound.sender.as_ref().map_or(0, |sender| sender.in_doubt());
        Some(PeerStats {
            remote: peer.link.remote(),
            piped: peer.link.pipe().is_some(),
            rtt: peer.link.recovery.rtt().smoothed(),
            min_rtt: peer.link.recovery.rtt().min(),
            clock_ahead: peer.told.ahead,
            mtu: peer.link.recovery.datagram_size(),
            window: peer.link.recovery.congestion().window(),
            in_flight: peer.link.recovery.in_flight(),
            packets_sent: peer.link.packets_sent,
            packets_lost: peer.link.packets_lost,
            queued: usize::try_from(peer.outbound.unbound()).unwrap_or(usize::MAX),
            in_doubt: usize::try_from(in_doubt).unwrap_or(usize::MAX),
            envelopes: peer.outbound.sender.as_ref().map_or(0, |sender| sender.envelopes()),
            free_slots: peer.inbound.receiver.as_ref().map_or(0, |record| record.free()),
            work: peer.work,
        })
    }
}
