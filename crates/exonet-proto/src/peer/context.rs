//! The state that the peers of one node share, and the outputs that a peer leaves for its node.

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rand_chacha::ChaCha12Rng;
use rand_core::RngCore;

use crate::channel::path::Pipe;
use crate::channel::pipes::Pipes;
use crate::channel::{Fate, SkipSeed};
use crate::config::Config;
use crate::crypto::{CookieJar, SecretKey};
use crate::event::{Arrival, Dial, Event, Transmit};
use crate::follow::Followers;
use crate::half::{Bound, Clock, IntervalSet};
use crate::id::{NodeId, Stamp};
use crate::journal::{Journal, Position};
use crate::message::arena::Arena;
use crate::message::inbox::Inbox;
use crate::message::{MessageKey, Outcome, Shelf, Store};
use crate::opening::gate::Gate;
use crate::opening::life::Life;
use crate::opening::lives::Conflicts;
use crate::opening::resets::Resets;
use crate::opening::stamping::{Admission, Stamping};
use crate::pattern::call::Replies;
use crate::peer::epoch::Carried;
use crate::peer::rest;
use crate::stats::Stats;
use crate::time::{Mono, Now};
use crate::wire::ChannelIndex;

/// Datagrams that wait to leave outside of any channel: answers, RETRYs, version hints. Further ones are dropped, as the network
/// might drop them.
pub(crate) const MAX_LOOSE: usize = 1_024;

/// A datagram that belongs to no channel.
#[derive(Debug)]
struct Loose {
    remote: SocketAddr,
    src_ip: Option<IpAddr>,
    pipe: Option<Pipe>,
    data: Box<[u8]>,
}

/// The outcome that a STATE gave `count` messages that were queued together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    pub(crate) key: MessageKey,
    pub(crate) count: u32,
    pub(crate) outcome: Outcome,
}

impl Settled {
    /// Adds one message.
    pub(crate) fn push(all: &mut Vec<Self>, key: MessageKey, outcome: Outcome) {
        match all.last_mut() {
            Some(last) if last.outcome == outcome && last.key.nth(last.count) == key => last.count += 1,
            _ => all.push(Self { key, count: 1, outcome }),
        }
    }
}

/// Buffers that every call reuses.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) free: IntervalSet,
    pub(crate) settled: Vec<Settled>,
    pub(crate) fates: Vec<(Carried, Fate)>,
}

/// The state that all peers of a node share. A peer reads settings, draws randomness, keeps messages and reports events here.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) config: Config,
    /// The node's identity, and the random id of this process.
    pub(crate) id: NodeId,
    pub(crate) key: SecretKey,
    pub(crate) boot_id: [u8; 8],
    /// The lives of a stored identity.
    pub(crate) life: Option<Life>,
    pub(crate) rng: ChaCha12Rng,
    /// Determines which packet numbers are skipped.
    pub(crate) skips: SkipSeed,
    pub(crate) clock: Clock,
    /// `ck` when this process began: the numbers in its journal lie below.
    pub(crate) born: u64,
    pub(crate) stamping: Stamping,
    /// A peer has said that this node's clock is far ahead of its own, and no peer has agreed with this node's clock since.
    pub(crate) clock_doubted: bool,
    /// The records of everything that must outlive a crash.
    pub(crate) journal: Journal,
    /// Where bodies that the journal has wait.
    pub(crate) shelf: Shelf,
    /// Events that wait for a position of the journal.
    unsafe_events: VecDeque<(Position, Event)>,
    /// The messages to send, and when the node looks at those with a deadline.
    pub(crate) store: Store,
    pub(crate) deadlines: BTreeSet<(Mono, MessageKey)>,
    pub(crate) replies: Replies,
    /// The messages that have arrived, and the memory of small ones.
    pub(crate) inbox: Inbox,
    pub(crate) arena: Arena,
    /// Bytes received and not yet taken.
    pub(crate) received: u64,
    /// The long packets in a row, which decide whether a receiver of bulk may rest.
    pub(crate) bulk: rest::Run,
    /// Maps a channel index to the peer's place.
    pub(crate) routes: BTreeMap<u32, u32>,
    pub(crate) gate: Gate,
    pub(crate) pipes: Pipes,
    /// Connections that the driver should open.
    pub(crate) dials: VecDeque<Dial>,
    pub(crate) resets: Resets,
    pub(crate) conflicts: Conflicts,
    loose: VecDeque<Loose>,
    pub(crate) events: VecDeque<Event>,
    /// The followers of single messages: mostly none.
    pub(crate) followers: Followers,
    pub(crate) stats: Stats,
    pub(crate) scratch: Scratch,
    /// The node refuses new work, and drains.
    pub(crate) closing: bool,
    /// A write has failed: the node sends nothing.
    pub(crate) stopped: bool,
    /// A peer has found no memory: the node takes some back from silent peers.
    pub(crate) short_of_memory: bool,
    /// `latest` has risen: strays that it has caught up with are no longer strays.
    pub(crate) latest_rose: bool,
}

impl Context {
    /// Reports `event` once the journal is safe up to `at`.
    pub(crate) fn report(&mut self, at: Position, event: Event) {
        if self.unsafe_events.is_empty() && self.journal.is_safe(at) {
            self.events.push_back(event);
        } else {
            self.unsafe_events.push_back((at, event));
        }
    }

    /// The journal is safe up to a later position: reports the events that have waited for it.
    pub(crate) fn report_safe(&mut self) {
        while let Some((at, _)) = self.unsafe_events.front()
            && self.journal.is_safe(*at)
        {
            self.events.extend(self.unsafe_events.pop_front().map(|(_, event)| event));
        }
    }

    /// The initial state. `key`, `boot_id`, `seed` and `jar` are the node's identity and randomness.
    pub(crate) fn new(
        config: Config,
        key: SecretKey,
        rng: ChaCha12Rng,
        boot_id: [u8; 8],
        (seed, jar): ([u8; 32], [u8; 32]),
        (clock, life, stamping): (Clock, Option<Life>, Stamping),
        now: Mono,
    ) -> Self {
        Self {
            born: clock.ck(),
            gate: Gate::new(now, &config.limits, CookieJar::new(jar)),
            config,
            id: key.node_id(),
            key,
            boot_id,
            life,
            rng,
            skips: SkipSeed::new(seed),
            clock,
            stamping,
            clock_doubted: false,
            journal: Journal::default(),
            shelf: Shelf::default(),
            unsafe_events: VecDeque::new(),
            store: Store::default(),
            deadlines: BTreeSet::new(),
            replies: Replies::default(),
            inbox: Inbox::default(),
            arena: Arena::default(),
            received: 0,
            bulk: rest::Run::default(),
            routes: BTreeMap::new(),
            pipes: Pipes::default(),
            dials: VecDeque::new(),
            resets: Resets::new(&jar),
            conflicts: Conflicts::default(),
            loose: VecDeque::new(),
            events: VecDeque::new(),
            followers: Followers::default(),
            stats: Stats::default(),
            scratch: Scratch::default(),
            closing: false,
            stopped: false,
            short_of_memory: false,
            latest_rose: false,
        }
    }

    /// A channel index that no other channel of this node has. The peer's packets to this node bear it.
    pub(crate) fn new_index(&mut self) -> ChannelIndex {
        loop {
            let random = self.rng.next_u32();
            let index = self.life.as_mut().map_or(ChannelIndex(random), |life| life.index(random));
            if !self.routes.contains_key(&index.0) {
                return index;
            }
        }
    }

    /// The secret of one handshake.
    pub(crate) fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        seed
    }

    /// Makes sure that the stamp `ts` of `sender`, whose bound is `bound`, can be judged. False: it can be judged only after a
    /// write is on the disk.
    pub(crate) fn admit_stamp(&mut self, now: Now, sender: NodeId, bound: &mut Bound, ts: Stamp) -> bool {
        let before = self.clock.stamps().latest();
        let admission = self.stamping.admit(now, self.clock.stamps_mut(), sender, bound, ts);
        if self.clock.stamps().latest() > before {
            self.latest_rose = true;
            self.clock.stamps_mut().catch_up(bound);
        }
        admission == Admission::Now
    }

    /// Whether the node may speak: a booted clock has a block to use.
    pub(crate) fn may_speak(&self) -> bool {
        !self.stopped && self.clock.limit().0 > self.born
    }

    /// Whether nothing can be delivered to this node any more: its identity ends with it.
    pub(crate) fn ends_for_good(&self) -> bool {
        self.life.is_none() && self.closing && self.config.limits.slots == 0
    }

    /// Whether a peer has requested something from the node.
    #[inline]
    pub(crate) fn asks(&self) -> bool {
        self.latest_rose
            || self.short_of_memory
            || self.inbox.has_stale()
            || self.followers.any()
            || self.replies.exceed(self.config.limits.reply_bytes as u64)
    }

    /// How long a sender record with nothing to send stays open.
    pub(crate) fn linger(&self) -> core::time::Duration {
        if self.closing { core::time::Duration::ZERO } else { self.config.sender_linger }
    }

    /// Queues a datagram outside of any channel. If the queue is full, the datagram is dropped.
    pub(crate) fn push_loose(&mut self, to: Arrival, data: Box<[u8]>) {
        if self.loose.len() < MAX_LOOSE {
            self.loose.push_back(Loose { remote: to.remote, src_ip: to.local_ip, pipe: to.pipe, data });
        }
    }

    /// The next datagram outside of any channel.
    pub(crate) fn pop_loose(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let Loose { remote, src_ip, pipe, data } = self.loose.pop_front()?;
        buf.extend_from_slice(&data);
        self.count_out(1, buf.len());
        if let Some(pipe) = pipe {
            self.pipes.spend(pipe, buf.len());
        }
        Some(Transmit { remote, src_ip, ecn: 0, segment: buf.len(), len: buf.len(), pipe })
    }

    /// The number of datagrams that wait outside of any channel.
    pub(crate) fn loose(&self) -> usize {
        self.loose.len()
    }

    pub(crate) fn count_out(&mut self, datagrams: usize, bytes: usize) {
        self.stats.datagrams_out += datagrams as u64;
        self.stats.bytes_out += bytes as u64;
    }
}
