//! A node: the table of peers, and the polls and inputs that a driver calls.

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use rand_chacha::ChaCha12Rng;
use rand_core::{RngCore, SeedableRng};

use super::arena::Arena;
use super::asking::Asking;
use super::calls::Replies;
use super::config::Config;
use super::event::{Arrival, Batch, Event, Lsn, MessageKey, Outcome, SendError};
use super::halfopen::HalfOpen;
use super::inbox::Inbox;
use super::life::Life;
use super::link::Link;
use super::lives::Conflicts;
use super::peer::{Census, Peer, Peers};
use super::refusals::Refusals;
use super::resets::Resets;
use super::rest;
use super::stamping::{Memo, Stamping, astray};
use super::stats::{PeerStats, Stats};
use super::timers::Timers;
use super::transmit::Train;
use crate::channel::SkipSeed;
use crate::crypto::{CookieJar, OpeningMac, RetryKey, SecretKey};
use crate::half::{Clock, IntervalSet};
use crate::id::{NodeId, Stamp};
use crate::message::Store;
use crate::time::{Mono, Now};

/// How a node comes to life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Boot {
    /// Its identity dies with the process: nothing is stored.
    Ephemeral,
    /// Its identity is stored, with the `D` of its last write. The first [`Node::poll_persist`] gives the block
    /// that this run may use; until that is durable, nothing leaves.
    Stored {
        /// `D`.
        clock: u64,
        /// The life that wrote last; 0 before the first.
        life: u64,
        /// `latest`.
        latest: Stamp,
        /// The strays of the last write that had any.
        strays: Vec<(NodeId, Stamp)>,
    },
}

/// Datagrams that wait to leave outside of any channel: answers, RETRYs, version hints. More are dropped, as the
/// network might.
pub(super) const MAX_LOOSE: usize = 1_024;
/// Nothing that is due is looked at more often than this.
const GRANULARITY: core::time::Duration = core::time::Duration::from_millis(1);
/// Doublings of that for a peer whose due things cannot leave.
const MAX_STUCK: u32 = 10;
/// Peers looked at to find one that makes room.
const SEARCH: usize = 64;
/// A datagram that belongs to no channel.
#[derive(Debug)]
pub(super) struct Loose {
    pub(super) remote: SocketAddr,
    pub(super) src_ip: Option<core::net::IpAddr>,
    pub(super) data: Box<[u8]>,
}

/// What a STATE has brought: of a message, or of so many that were queued together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settled {
    pub(super) key: MessageKey,
    pub(super) count: u32,
    pub(super) outcome: Outcome,
}

impl Settled {
    /// Notes one more.
    pub(super) fn push(all: &mut Vec<Self>, key: MessageKey, outcome: Outcome) {
        match all.last_mut() {
            Some(last) if last.outcome == outcome && last.key.nth(last.count) == key => last.count += 1,
            _ => all.push(Self { key, count: 1, outcome }),
        }
    }
}

/// Buffers that are used again by every call.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) free: IntervalSet,
    pub(super) settled: Vec<Settled>,
    pub(super) fates: Vec<(super::epoch::Carried, crate::channel::Fate)>,
}

/// A node of the protocol: what one identity knows, on all its channels. See the [module](super) for the contract.
#[derive(Debug)]
pub struct Node {
    pub(super) config: Config,
    pub(super) id: NodeId,
    pub(super) key: SecretKey,
    pub(super) rng: ChaCha12Rng,
    /// Which packet numbers are skipped.
    pub(super) skips: SkipSeed,
    pub(super) boot_id: [u8; 8],
    pub(super) clock: Clock,
    /// The lives of a stored identity.
    pub(super) life: Option<Life>,
    pub(super) stamping: Stamping,
    /// A peer has said that this node's clock is far ahead of its own, and none has since agreed with it.
    pub(super) clock_doubted: bool,
    persisting: Option<Batch>,
    lsn: Lsn,
    pub(super) peers: Peers,
    pub(super) census: Census,
    pub(super) conflicts: Conflicts,
    /// Channel index to the peer's place.
    pub(super) routes: BTreeMap<u32, u32>,
    pub(super) half_open: HalfOpen,
    pub(super) asking: Asking,
    pub(super) store: Store,
    pub(super) replies: Replies,
    pub(super) deadlines: BTreeSet<(Mono, MessageKey)>,
    pub(super) inbox: Inbox,
    pub(super) arena: Arena,
    /// Bytes received and not yet taken.
    pub(super) received: u64,
    pub(super) timers: Timers,
    pub(super) ready: VecDeque<u32>,
    pub(super) loose: VecDeque<Loose>,
    pub(super) events: VecDeque<Event>,
    pub(super) scratch: Scratch,
    pub(super) mac: OpeningMac,
    pub(super) retry_key: RetryKey,
    pub(super) cookies: CookieJar,
    pub(super) refusals: Refusals,
    pub(super) resets: Resets,
    pub(super) stats: Stats,
    pub(super) closing: bool,
    pub(super) stopped: bool,
    pub(super) last_poll: Mono,
    /// What was last given to be sent, until the next is.
    pub(super) last_train: Option<Train>,
    /// The long packets in a row, by which a receiver of bulk may rest.
    pub(super) bulk: rest::Run,
}

impl Node {
    /// A node with the identity `key`. `seed` is fresh randomness: all that the node ever draws follows from it.
    pub fn new(config: Config, key: SecretKey, boot: Boot, seed: [u8; 32], now: Now) -> Self {
        let mut rng = ChaCha12Rng::from_seed(seed);
        let (mut boot_id, mut jar) = ([0; 8], [0; 32]);
        rng.fill_bytes(&mut boot_id);
        rng.fill_bytes(&mut jar);
        let (clock, life, stamping) = match boot {
            Boot::Ephemeral => (Clock::ephemeral(), None, Stamping::new(true, config.limits.strays, [])),
            Boot::Stored { clock, life, latest, strays } => (
                Clock::boot(clock, latest, config.clock_block),
                Some(Life::new(&key, life.saturating_add(1), &jar)),
                Stamping::new(false, config.limits.strays, strays),
            ),
        };
        let id = key.node_id();
        Self {
            half_open: HalfOpen::new(now.mono, &config.limits),
            config,
            id,
            key,
            rng,
            skips: SkipSeed::new(seed),
            boot_id,
            clock,
            life,
            stamping,
            clock_doubted: false,
            persisting: None,
            lsn: Lsn(0),
            peers: Peers::default(),
            census: Census::default(),
            conflicts: Conflicts::default(),
            routes: BTreeMap::new(),
            asking: Asking::default(),
            store: Store::default(),
            replies: Replies::default(),
            deadlines: BTreeSet::new(),
            inbox: Inbox::default(),
            arena: Arena::default(),
            received: 0,
            timers: Timers::default(),
            ready: VecDeque::new(),
            loose: VecDeque::new(),
            events: VecDeque::new(),
            scratch: Scratch::default(),
            mac: OpeningMac::new(&id),
            retry_key: RetryKey::new(&id),
            cookies: CookieJar::new(jar),
            refusals: Refusals::default(),
            resets: Resets::new(&jar),
            stats: Stats::default(),
            closing: false,
            stopped: false,
            last_poll: now.mono,
            last_train: None,
            bulk: rest::Run::default(),
        }
    }

    /// The id of this node.
    pub fn id(&self) -> NodeId {
        self.id
    }

    // --- the disk ---

    /// The next write to make durable, if there is one.
    pub fn poll_persist(&mut self) -> Option<Batch> {
        if self.persisting.is_some() || self.stopped {
            return None;
        }
        let wanted = self.clock.wanted();
        if wanted.is_none() && !self.stamping.wants_write(self.clock.stamps()) {
            return None;
        }
        self.lsn = Lsn(self.lsn.0 + 1);
        let clock = wanted.unwrap_or(self.clock.limit().0);
        let (latest, strays) = self.stamping.write(self.clock.stamps());
        let life = self.life.as_ref().map_or(0, Life::number);
        self.persisting = Some(Batch { lsn: self.lsn, clock, life, latest, strays });
        self.persisting.clone()
    }

    /// Every write up to `through` is durable.
    pub fn handle_persisted(&mut self, now: Now, through: Lsn) {
        let Some(batch) = self.persisting.take_if(|batch| batch.lsn <= through) else {
            return;
        };
        self.clock.persisted(batch.clock);
        self.clock.stamps_mut().persisted(batch.latest);
        for (id, ts) in batch.strays.iter().flatten() {
            let place = self.peers.find(id);
            let bound = match place.and_then(|place| self.peers.get_mut(place)) {
                Some(peer) => &mut peer.inbound.bound,
                None => &mut self.stamping.memo_mut(*id).bound,
            };
            *bound = astray(*bound, *ts);
        }
        self.release_strays(now);
        for (arrival, mut datagram) in self.stamping.take_deferred() {
            self.handle_datagram(now, arrival, &mut datagram);
        }
        let waiting: Vec<u32> = self.peers.iter().map(|(index, _)| index).collect();
        for index in waiting {
            if let Some(peer) = self.peers.get_mut(index) {
                peer.inbound.retry(now.mono, &mut self.clock, &self.config.limits);
                peer.outbound.ask_due |= peer.outbound.unbound() > 0;
            }
            self.touch(now, index);
        }
    }

    /// Strays that `latest` has caught up with become senders like any others: what was forgotten of them is in the
    /// node's own `tb` before the disk loses their line.
    pub(super) fn release_strays(&mut self, now: Now) {
        for id in self.stamping.take_caught_up(self.clock.stamps().latest()) {
            let stamps = self.clock.stamps_mut();
            match self.peers.find(&id).and_then(|place| self.peers.get_mut(place)) {
                Some(peer) => stamps.catch_up(&mut peer.inbound.bound),
                None => {
                    let memo = self.stamping.recall(&id);
                    self.stamping.remember(now, stamps, id, memo);
                }
            }
        }
    }

    /// A write failed: the node cannot keep its promises any more, and stops.
    pub fn handle_persist_failed(&mut self, _now: Now) {
        self.stopped = true;
        self.events.push_back(Event::Stopped);
    }

    /// Whether the node may speak: a booted clock has a block to use.
    pub(super) fn may_speak(&self) -> bool {
        !self.stopped && self.clock.limit().0 > self.clock.b().0.min(self.clock.ck())
    }

    /// Whether [`Node::poll_transmit`] may have something to say.
    pub fn has_ready(&self) -> bool {
        self.may_speak() && !(self.ready.is_empty() && self.loose.is_empty())
    }

    // --- time ---

    /// The next time at which [`Node::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Mono> {
        if self.stopped {
            return None;
        }
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        [self.timers.next(), deadline, self.stamping.forget_at()].into_iter().flatten().min()
    }

    /// How long what arrives may wait in the socket from now on, so that several packets cost one look at it. Zero, unless
    /// this node has nothing to send and receives long packets in quick succession.
    pub fn may_rest(&self) -> core::time::Duration {
        if self.store.len() == 0 { self.bulk.rest() } else { core::time::Duration::ZERO }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Now) {
        self.note_gap(now);
        self.expire(now);
        self.stamping.forget(now, self.clock.stamps_mut());
        while let Some(index) = self.timers.pop(now.mono) {
            if let Some(peer) = self.peers.get_mut(index) {
                peer.deadline = Mono::NEVER;
            }
            self.on_peer_timeout(now, index);
            self.touch(now, index);
        }
    }

    /// After a long gap between calls, a suspend perhaps, the world may have changed: open anew, at once.
    fn note_gap(&mut self, now: Now) {
        let due = self.poll_timeout().unwrap_or(Mono::NEVER).max(self.last_poll);
        let absence = now.mono.since(due);
        if absence > core::time::Duration::from_secs(10) {
            self.peers.iter_mut().for_each(|peer| peer.inbound.excuse(now.mono, absence));
            self.rebind(now);
        }
        self.last_poll = now.mono;
    }

    fn on_peer_timeout(&mut self, now: Now, index: u32) {
        self.link_timeout(now, index);
        let Some(peer) = self.peers.get_mut(index) else {
            return;
        };
        peer.looked_at = now.mono;
        let wait = peer.link.pto() * 2;
        peer.outbound.on_timeout(now.mono, &self.store, wait, peer.link.patience());
        self.close_if_idle(now, index);
        let Some(peer) = self.peers.get_mut(index) else {
            return;
        };
        let caller = peer.inbound.is_callers();
        if peer.inbound.on_timeout(now.mono, &mut self.clock, &self.config) {
            self.stats.evictions += 1;
            self.stats.callers_evicted += u64::from(caller);
        }
        self.replies_timeout(now, index);
    }

    /// The local socket has changed, or the machine has slept: every channel that is wanted is opened anew.
    pub fn rebind(&mut self, now: Now) {
        let all: Vec<u32> = self.peers.iter().map(|(index, _)| index).collect();
        for index in all {
            if let Some(peer) = self.peers.get_mut(index) {
                peer.link.hurry(now.mono);
            }
            self.touch(now, index);
        }
    }

    // --- peers ---

    /// The place of a peer that is to be sent to, made if need be.
    pub(super) fn peer_to(&mut self, now: Now, id: NodeId, hints: &[SocketAddr]) -> Result<u32, SendError> {
        if id == self.id {
            return Err(SendError::Myself);
        }
        if let Some(index) = self.peers.find(&id) {
            if let Some(peer) = self.peers.get_mut(index) {
                peer.admitted = true;
                peer.link.refused_until = Mono(0);
                hints.iter().rev().for_each(|hint| peer.add_hint(*hint));
                // What an opening has brought can be answered under the channel that it has begun.
                if peer.hints.is_empty() && !peer.link.is_connected() && !peer.link.is_answering() {
                    return Err(SendError::NoAddress(id));
                }
            }
            return Ok(index);
        }
        if hints.is_empty() {
            return Err(SendError::NoAddress(id));
        }
        let index = self.new_peer(now, id).ok_or(SendError::TooManyPeers(self.config.limits.peers))?;
        if let Some(peer) = self.peers.get_mut(index) {
            peer.admitted = true;
            hints.iter().rev().for_each(|hint| peer.add_hint(*hint));
        }
        Ok(index)
    }

    pub(super) fn new_peer(&mut self, now: Now, id: NodeId) -> Option<u32> {
        if self.peers.len() >= self.config.limits.peers {
            self.make_room(now);
        }
        if self.peers.len() >= self.config.limits.peers {
            return None;
        }
        let link = Link::new(now.mono, &self.config);
        let mut peer = Peer::new(id, now.mono, link);
        peer.conflict = self.conflicts.get(&id);
        Memo { bound: peer.inbound.bound, told: peer.told } = self.stamping.recall(&id);
        Some(self.peers.insert(peer))
    }

    /// The table is full: a peer that is not connected and has nothing of ours to lose makes room. What it had in
    /// doubt here is Unknown to it.
    fn make_room(&mut self, now: Now) {
        for _ in 0..SEARCH {
            let Some(index) = self.peers.next_place() else { return };
            let Some(peer) = self.peers.get_mut(index) else { continue };
            let idle = peer.link.current.is_none() && peer.link.previous.is_none();
            let busy = peer.outbound.letters > 0 || peer.inbound.server.computes();
            if !idle || busy || !peer.link.pings.is_empty() {
                continue;
            }
            self.stats.evictions += u64::from(peer.inbound.renounce(&mut self.clock));
            peer.outbound.drop_record(&mut self.clock);
            self.end_link(now, index);
            self.forget_peer(now, index);
            return;
        }
    }

    /// Whether something can be sent to `peer` without a hint: its address is known, or it is connected.
    pub fn has_address(&self, peer: &NodeId) -> bool {
        let known = self.peers.find(peer).and_then(|index| self.peers.get(index));
        known.is_some_and(|peer| peer.has_address() || peer.link.is_connected() || peer.link.is_answering())
    }

    /// An address at which `peer` may be found, if it is known at all: tried where nothing else works.
    pub fn suggest(&mut self, now: Now, peer: &NodeId, address: SocketAddr) {
        let Some(index) = self.peers.find(peer) else { return };
        if let Some(peer) = self.peers.get_mut(index).filter(|peer| !peer.hints.contains(&address)) {
            peer.add_hint(address);
            if !peer.link.is_connected() {
                peer.link.hurry(now.mono);
            }
        }
        self.touch(now, index);
    }

    /// From now on what the application has given and the node needs no more is kept for [`Node::take_spent`], for an
    /// application that cannot have its destructors run within the calls of the node. Bytes without content are not kept.
    pub fn keep_spent(&mut self) {
        self.store.keep_spent();
    }

    /// Adds to `spent` the bodies and tags that the node needs no more.
    pub fn take_spent(&mut self, spent: &mut Vec<Bytes>) {
        self.store.take_spent(spent);
    }

    /// Another address at which `peer` may be found.
    pub fn add_hint(&mut self, now: Now, peer: NodeId, address: SocketAddr) {
        let Some(index) = self.peers.find(&peer) else {
            return;
        };
        if let Some(peer) = self.peers.get_mut(index) {
            peer.add_hint(address);
            peer.link.hurry(now.mono);
        }
        self.touch(now, index);
    }

    /// Keeps the path to `peer` open by a sign of life after every so much silence; None: as the node is set.
    /// For as long as the peer is known.
    pub fn keep_alive(&mut self, now: Now, peer: &NodeId, every: Option<core::time::Duration>) {
        let Some(index) = self.peers.find(peer) else { return };
        if let Some(peer) = self.peers.get_mut(index) {
            peer.link.keepalive = every;
        }
        self.touch(now, index);
    }

    /// Measures the round trip to `peer`, opening a channel if there is none: [`Event::Pong`] with `cookie`.
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
        if self.closing || self.stopped {
            return Err(SendError::Closed);
        }
        let index = self.peer_to(now, peer, hints)?;
        let room = self.peers.get_mut(index).is_some_and(|place| place.link.ping(cookie));
        if !room {
            self.events.push_back(Event::Pong { peer, cookie, rtt: None, refused: None });
        }
        self.touch(now, index);
        Ok(())
    }

    /// After anything that concerns a peer: the next poll looks at it.
    pub(super) fn touch(&mut self, _now: Now, index: u32) {
        self.count(index);
        if let Some(peer) = self.peers.get_mut(index).filter(|peer| !peer.ready) {
            peer.ready = true;
            self.ready.push_back(index);
        }
    }

    /// Counts a peer as it stands now.
    fn count(&mut self, index: u32) {
        if let Some(peer) = self.peers.get_mut(index) {
            let standing = peer.standing();
            if standing != peer.counted {
                self.census.leave(peer.counted);
                self.census.enter(standing);
                peer.counted = standing;
            }
        }
    }

    /// What has come to its end at a peer ends.
    pub(super) fn wind_up(&mut self, now: Now, index: u32) {
        self.doubt(now, index);
        self.keep_apart(now, index);
        self.close_if_idle(now, index);
        let Some(peer) = self.peers.get_mut(index) else {
            return;
        };
        if peer.inbound.drop_if_passed() && self.inbox.is_empty() {
            self.arena.rest();
            self.store.rest();
        }
        self.account(index);
    }

    /// A sender record with nothing to send closes in its time, and the peer is told; not by a node that closes, if it has
    /// never heard the peer and so might tell nobody.
    fn close_if_idle(&mut self, now: Now, index: u32) {
        let linger = if self.closing { core::time::Duration::ZERO } else { self.config.sender_linger };
        let Some(peer) = self.peers.get_mut(index) else { return };
        peer.outbound.close_if_idle(now.mono, &mut self.clock, linger);
        peer.outbound.farewell_due &= !self.closing || peer.link.has_heard();
    }

    /// What partly received messages held and hold no more is given back, and their readers are told.
    pub(super) fn account(&mut self, index: u32) {
        let Some(peer) = self.peers.get_mut(index) else {
            return;
        };
        self.received = self.received.saturating_sub(peer.inbound.take_freed());
        for key in peer.inbound.aborted.drain(..) {
            self.events.push_back(Event::BodyReadable { key });
        }
        self.inbox.note_stale(peer.inbound.take_stale());
    }

    /// A peer has nothing to send now: when is it to be looked at again, or can it be forgotten?
    pub(super) fn rest(&mut self, now: Now, index: u32) {
        self.count(index);
        let Some(peer) = self.peers.get_mut(index) else {
            return;
        };
        if peer.is_forgettable() {
            self.forget_peer(now, index);
            return;
        }
        let linger = if self.closing { core::time::Duration::ZERO } else { self.config.sender_linger };
        let (old, mut new) = (peer.deadline, peer.next_deadline(linger, &self.config));
        if new <= now.mono && new <= peer.looked_at {
            // It has been looked at since: what is due cannot leave yet, and the longer that is so the less it helps
            // to look again.
            peer.stuck = (peer.stuck + 1).min(MAX_STUCK);
            new = now.mono + GRANULARITY * (1 << peer.stuck);
            // Never put off what is set already: under steady traffic it would never come.
            if old > now.mono {
                new = new.min(old);
            }
        } else if new > now.mono {
            peer.stuck = 0;
        }
        if old != new {
            peer.deadline = new;
            self.timers.set(index, old, new);
        }
    }

    fn forget_peer(&mut self, now: Now, index: u32) {
        self.account(index);
        self.forget_replies(now, index);
        let Some(peer) = self.peers.remove(index) else {
            return;
        };
        self.timers.set(index, peer.deadline, Mono::NEVER);
        self.census.leave(peer.counted);
        let memo = Memo { bound: peer.inbound.bound, told: peer.told };
        self.stamping.remember(now, self.clock.stamps_mut(), peer.id, memo);
        if peer.admitted {
            self.events.push_back(Event::Forgotten { peer: peer.id });
        }
    }

    // --- events and figures ---

    /// What has happened since the last call.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if self.events.is_empty() && self.events.capacity() > 65_536 {
            self.events.shrink_to(1_024);
        }
        event
    }

    /// Puts a datagram into the queue of those outside of any channel; a full queue drops it.
    pub(super) fn push_loose(&mut self, to: Arrival, data: Box<[u8]>) {
        if self.loose.len() < MAX_LOOSE {
            self.loose.push_back(Loose { remote: to.remote, src_ip: to.local_ip, data });
        }
    }

    /// Refuses new work and drains: as messages settle, peers are told that nothing more comes.
    pub fn close(&mut self, now: Now) {
        self.closing = true;
        let all: Vec<u32> = self.peers.iter().map(|(index, _)| index).collect();
        for index in all {
            self.touch(now, index);
        }
    }

    /// The node ends for good: nothing more is taken or granted. What came and was not taken is certainly not delivered,
    /// and peers are told so that can be told at once.
    pub fn finish(&mut self, now: Now) {
        self.close(now);
        self.config.limits.slots = 0;
        let all: Vec<u32> = self.peers.iter().map(|(index, _)| index).collect();
        for index in all {
            if let Some(peer) = self.peers.get_mut(index) {
                let wait = peer.link.is_connected().then(|| peer.link.pto() * 2);
                peer.inbound.close(now.mono, wait);
                self.inbox.note_stale(peer.inbound.take_stale());
                self.on_peer_timeout(now, index);
            }
            self.account(index);
            self.touch(now, index);
        }
        self.sweep();
    }

    /// After [`Node::finish`]: every peer that can be told has heard what was not taken.
    pub fn is_finished(&self) -> bool {
        let told = |peer: &Peer| !peer.inbound.is_closing() || !peer.link.is_connected();
        self.config.limits.slots == 0 && self.peers.iter().all(|(_, peer)| told(peer))
    }

    /// After [`Node::finish`], before [`Node::leave_all`]: an identity that ends with this node tells the peers that had something
    /// for it. After how long to call this again, in case that is lost; None: there is nobody to tell.
    pub fn foretell_end(&mut self) -> Option<core::time::Duration> {
        let all: Vec<u32> = self.peers.iter().map(|(index, _)| index).collect();
        all.into_iter().filter_map(|index| self.foretell(index)).max()
    }

    /// Ends every channel, with a word to the peer.
    pub fn leave_all(&mut self, now: Now) {
        let all: Vec<u32> = self.peers.iter().map(|(index, _)| index).collect();
        all.into_iter().for_each(|index| self.leave(now, index));
    }

    /// Nothing is open to send, nothing owed to say: O(1).
    pub fn is_quiet(&self) -> bool {
        self.store.len() == 0 && self.loose.is_empty() && self.census.busy == 0
    }

    /// The peers known now.
    pub fn peers(&self) -> Vec<NodeId> {
        self.peers.iter().map(|(_, peer)| peer.id).collect()
    }

    /// The counts of [`Node::stats`] without those of what is there now, which are zero: O(1).
    pub const fn counts(&self) -> &Stats {
        &self.stats
    }

    /// Figures of the node: O(1).
    pub fn stats(&self) -> Stats {
        let Census { senders, receivers, .. } = self.census;
        Stats {
            peers: self.peers.len(),
            half_open: self.half_open.len(),
            sender_records: senders,
            receiver_records: receivers,
            open_messages: self.store.len(),
            computing: self.replies.computing,
            replies: self.replies.counts().0,
            waiting: self.inbox.len(),
            received_bytes: usize::try_from(self.received).unwrap_or(usize::MAX),
            ..self.stats
        }
    }

    /// Figures of a peer.
    pub fn peer_stats(&self, peer: &NodeId) -> Option<PeerStats> {
        let peer = self.peers.get(self.peers.find(peer)?)?;
        let in_doubt = peer.outbound.sender.as_ref().map_or(0, |sender| sender.in_doubt());
        Some(PeerStats {
            remote: peer.link.remote(),
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
