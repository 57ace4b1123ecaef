//! A random world: real clocks and records over a network that keeps every datagram ever sent and delivers any of them, any
//! number of times, in any order; with partial grants, crashes, evictions and slow disks. The invariants of the algorithm are
//! checked on every step. In the end everything must come to rest under a fair network. Senders choose any stamp, and receivers
//! forget bounds at any time.

mod check;
mod walk;

use core::ops::Range;
use std::collections::{BTreeMap, VecDeque};

use super::ledger::{Checked, Ledger, Outcome, ensure};
use super::*;
pub(super) use walk::Random;

#[derive(Clone, Debug)]
enum Datagram {
    Ask(Ask),
    Token(Slot, Incarnation, usize),
    Early(Slot, Stamp, usize),
    State(State),
    StampRejected(Stamp),
    Revoke(Range<u64>, Incarnation),
    Withdrawn(Range<u64>, Incarnation),
}

#[derive(Clone, Debug)]
struct Packet {
    from: usize,
    to: usize,
    datagram: Datagram,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Send(usize, usize),
    Open {
        at: usize,
        to: usize,
        count: usize,
        ts: u64,
    },
    Deliver {
        packet: usize,
        grant: u64,
    },
    Raise(usize),
    Forget(usize, usize),
    AskAgain {
        at: usize,
        to: usize,
        standby: u64,
    },
    Resend(usize, usize),
    PushState(usize, usize),
    Retry {
        at: usize,
        from: usize,
        grant: u64,
    },
    Close(usize, usize),
    Abandon(usize, usize),
    Withdraw(usize, usize),
    Drop {
        at: usize,
        from: usize,
    },
    End(usize, usize),
    Evict(usize, usize),
    Persist(usize),
    Persisted(usize),
    /// With `kept`, only the process dies: the notes on early messages of a node without a journal survive.
    Crash {
        at: usize,
        wrote: bool,
        kept: bool,
    },
}

/// What a journaled node finds after a crash, besides its sender records.
type Journaled = Option<(Incarnation, Slot, Slot, IntervalSet, Stamp, Option<Taken>, bool, IntervalSet)>;

struct Peer {
    sender: Option<Sender<usize>>,
    queue: VecDeque<usize>,
    record: Option<Receiver>,
    journal: Journaled,
    bound: Bound,
    /// `X` on the disk.
    far: Option<Far>,
    /// What lost records took early, by the world's own account.
    lost: Vec<Taken>,
}

struct Node {
    clock: Clock,
    disk: u64,
    /// `latest` on the disk.
    latest: u64,
    writing: Option<u64>,
    block: u64,
    journaled: bool,
    /// The amnesia frontier, by the world's own account.
    b: u64,
    /// The node has forgotten everything about stamps in this hull, by the world's own account.
    forgot: Hull,
    peers: Vec<Peer>,
}

struct World {
    random: Random,
    nodes: Vec<Node>,
    network: Vec<Packet>,
    ledger: Ledger,
    trace: Vec<Step>,
    /// Whether records may be forgotten: crashes of memory-only nodes and evictions.
    amnesia: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let count = 2 + random.index(2);
        let nodes = (0..count).map(|_| Node::new(count, &mut random)).collect();
        let amnesia = random.chance(2);
        let (network, ledger, trace) = (Vec::new(), Ledger::default(), Vec::new());
        Self { random, nodes, network, ledger, trace, amnesia }
    }

    fn apply(&mut self, step: Step) -> Checked {
        self.trace.push(step);
        match step {
            Step::Send(at, to) => self.send(at, to),
            Step::Open { at, to, count, ts } => self.open(at, to, count, Stamp(ts)),
            Step::Deliver { packet, grant } => self.deliver(packet, grant),
            Step::Raise(at) => {
                self.nodes[at].raise();
                Ok(())
            }
            Step::Forget(at, from) => {
                let node = &mut self.nodes[at];
                node.clock.stamps_mut().forget(&mut node.peers[from].bound);
                Ok(())
            }
            Step::AskAgain { at, to, standby } => {
                self.pump(at, to)?;
                self.ask(at, to, standby)
            }
            Step::Resend(at, to) => self.resend(at, to),
            Step::PushState(at, to) => self.push_state(at, to),
            Step::Retry { at, from, grant } => self.retry(at, from, grant),
            Step::Close(at, to) => self.close(at, to),
            Step::Abandon(at, to) => self.abandon(at, to),
            Step::Withdraw(at, to) => self.withdraw(at, to),
            Step::Drop { at, from } => self.drop_drained(at, from),
            Step::End(at, from) => {
                self.nodes[at].peers[from].record.iter_mut().for_each(Receiver::close);
                self.journal(at, from);
                Ok(())
            }
            Step::Evict(at, from) => self.evict(at, from),
            Step::Persist(at) => self.nodes[at].persist(),
            Step::Persisted(at) => self.nodes[at].persisted(),
            Step::Crash { at, wrote, kept } => self.crash(at, wrote, kept),
        }
    }

    fn post(&mut self, from: usize, to: usize, datagram: Datagram) {
        self.network.push(Packet { from, to, datagram });
    }

    fn send(&mut self, at: usize, to: usize) -> Checked {
        let m = self.ledger.send(at, to);
        let node = &mut self.nodes[at];
        let peer = &mut node.peers[to];
        peer.queue.push_back(m);
        peer.sender.get_or_insert_with(|| Sender::open(&node.clock));
        self.pump(at, to)?;
        let standby = self.random.below(3);
        self.ask(at, to, standby)
    }

    /// Sends the first messages beside the first ASK.
    fn open(&mut self, at: usize, to: usize, count: usize, ts: Stamp) -> Checked {
        let node = &mut self.nodes[at];
        let peer = &mut node.peers[to];
        if peer.sender.is_some() || node.clock.limit().0 < node.clock.ck() + count as u64 {
            return Ok(());
        }
        let letters: Vec<_> = (0..count).map(|_| self.ledger.send(at, to)).collect();
        peer.sender = Sender::open_early(&mut node.clock, ts, letters);
        for (s, m) in peer.sender.iter().flat_map(Sender::early) {
            self.ledger.bind(*m, s)?;
        }
        self.resend(at, to)?;
        self.ask(at, to, 0)
    }

    fn pump(&mut self, at: usize, to: usize) -> Checked {
        let peer = &mut self.nodes[at].peers[to];
        let Some(sender) = &mut peer.sender else {
            return Ok(());
        };
        while let Some(m) = peer.queue.pop_front() {
            let Ok((s, r)) = sender.bind(m) else {
                peer.queue.push_front(m);
                break;
            };
            self.ledger.bind(m, s)?;
            let datagram = Datagram::Token(s, r, m);
            self.network.push(Packet { from: at, to, datagram });
        }
        Ok(())
    }

    fn ask(&mut self, at: usize, to: usize, standby: u64) -> Checked {
        let node = &mut self.nodes[at];
        let peer = &mut node.peers[to];
        let queued = peer.queue.len() as u64;
        let Some(sender) = &mut peer.sender else {
            return Ok(());
        };
        let Some(ask) = sender.ask(&mut node.clock, queued, standby) else {
            return Ok(());
        };
        let (end, disk) = (ask.end(), node.disk);
        ensure(end <= Some(Slot(disk)), || format!("{at} asks up to {end:?}, durable {disk}"))?;
        self.post(at, to, Datagram::Ask(ask));
        Ok(())
    }

    fn resend(&mut self, at: usize, to: usize) -> Checked {
        let sender = &self.nodes[at].peers[to].sender;
        let tokens = sender.iter().flat_map(Sender::tokens);
        let tokens: Vec<_> = tokens.map(|(s, r, m)| Datagram::Token(s, r, *m)).collect();
        let early = sender.iter().flat_map(|sender| sender.early().map(|(s, m)| (s, sender.stamp(), *m)));
        let early: Vec<_> = early.map(|(s, ts, m)| Datagram::Early(s, ts, m)).collect();
        for token in tokens.into_iter().chain(early) {
            self.post(at, to, token);
        }
        Ok(())
    }

    /// A STATE of the whole record, or of any part of it.
    fn push_state(&mut self, at: usize, to: usize) -> Checked {
        // The stamp that the STATE mentions does not matter; usually it is that of the sender.
        let own = self.nodes[to].peers[at].sender.as_ref().map_or(Stamp::NONE, Sender::stamp);
        let ts = if self.random.chance(4) { Stamp(self.random.below(8)) } else { own };
        let node = &self.nodes[at];
        let peer = &node.peers[to];
        let mut state = State::of(peer.record.as_ref(), &peer.bound, &node.clock, ts);
        if let Some(claim) = state.live.as_mut().filter(|_| self.random.chance(2)) {
            let skipped = self.random.below(claim.up.0 - claim.lo.0 + 1);
            claim.lo.0 += skipped;
            claim.part = skipped > 0;
            claim.up.0 -= self.random.below(claim.up.0 - claim.lo.0 + 1);
            claim.free.remove_below(claim.lo.0);
            claim.free.remove_range(claim.up.0..u64::MAX);
        }
        self.post(at, to, Datagram::State(state));
        Ok(())
    }

    fn deliver(&mut self, packet: usize, grant: u64) -> Checked {
        let Packet { from, to: at, datagram } = self.network[packet].clone();
        match datagram {
            Datagram::Ask(ask) => self.on_ask(at, from, ask, grant),
            Datagram::Token(s, r, m) => self.on_token(at, from, (s, r), m),
            Datagram::Early(s, ts, m) => self.on_early(at, from, (s, ts), m),
            Datagram::State(state) => self.on_state(at, from, &state),
            Datagram::StampRejected(ts) => self.on_stamp_rejected(at, from, ts),
            Datagram::Revoke(run, r) => self.on_revoke(at, from, run, r),
            Datagram::Withdrawn(run, r) => self.on_withdrawn(at, from, run, r),
        }
    }

    fn on_ask(&mut self, at: usize, from: usize, ask: Ask, grant: u64) -> Checked {
        let choice = self.random.below(3);
        self.nodes[at].let_in(from, ask.ts, choice);
        let mut answer = Answer::Nothing;
        self.advance(at, from, |record, bound, clock| {
            answer = Receiver::on_ask(record, bound, clock, ask, grant);
        })?;
        match answer {
            Answer::Nothing => Ok(()),
            Answer::State => self.push_state(at, from),
            Answer::StampRejected => {
                self.post(at, from, Datagram::StampRejected(ask.ts));
                Ok(())
            }
        }
    }

    /// A message that was sent early gets the name of the incarnation that it has met, and is a token from then on.
    fn on_early(&mut self, at: usize, from: usize, (s, ts): (Slot, Stamp), m: usize) -> Checked {
        let name = self.nodes[at].peers[from].record.as_mut().and_then(|record| record.name(s, ts));
        match name {
            // The message may wait for the application, while everything else goes on.
            Some(r) if self.random.chance(4) => {
                self.network.push(Packet { from, to: at, datagram: Datagram::Token(s, r, m) });
                Ok(())
            }
            Some(r) => self.on_token(at, from, (s, r), m),
            None => self.push_state(at, from),
        }
    }

    fn on_stamp_rejected(&mut self, at: usize, from: usize, ts: Stamp) -> Checked {
        let mut unknown = Vec::new();
        if let Some(sender) = &mut self.nodes[at].peers[from].sender {
            sender.on_stamp_rejected(ts, |_, m| unknown.push(m));
        }
        unknown.into_iter().try_for_each(|m| self.ledger.settle(m, Outcome::LetGo))
    }

    fn retry(&mut self, at: usize, from: usize, grant: u64) -> Checked {
        let mut granted = false;
        self.advance(at, from, |record, bound, clock| {
            granted = Receiver::retry(record, bound, clock, grant);
        })?;
        if granted { self.push_state(at, from) } else { Ok(()) }
    }

    /// Lets a record and the clock advance, and checks that a new incarnation is new and durable.
    fn advance(
        &mut self,
        at: usize,
        from: usize,
        go: impl FnOnce(&mut Option<Receiver>, &mut Bound, &mut Clock),
    ) -> Checked {
        let node = &mut self.nodes[at];
        let Peer { record, bound, .. } = &mut node.peers[from];
        let before = record.as_ref().map(Receiver::incarnation);
        go(record, bound, &mut node.clock);
        if let Some(r) = record.as_ref().map(Receiver::incarnation).filter(|r| Some(*r) != before) {
            let disk = node.disk;
            ensure(r.0 < disk, || format!("{at} hands out {r:?}, durable {disk}"))?;
            self.ledger.born(at, r)?;
        }
        if record.is_some() || before.is_some() {
            self.journal(at, from);
        }
        Ok(())
    }

    fn on_token(&mut self, at: usize, from: usize, (s, r): (Slot, Incarnation), m: usize) -> Checked {
        let record = &mut self.nodes[at].peers[from].record;
        let accepts = record.as_ref().is_some_and(|record| record.accepts(s, r));
        let taken = record.as_mut().is_some_and(|record| record.take(s, r));
        ensure(accepts == taken, || format!("{at} accepts {s:?} but takes it not"))?;
        if taken {
            self.ledger.deliver(at, m)?;
            self.journal(at, from);
        }
        self.push_state(at, from)
    }

    /// The sender withdraws a message, and some that lie behind it, whether they are open or not.
    fn withdraw(&mut self, at: usize, to: usize) -> Checked {
        let open: Vec<_> = self.nodes[at].peers[to].sender.iter().flat_map(Sender::tokens).collect();
        if open.is_empty() {
            return Ok(());
        }
        let (s, r, _) = open[self.random.index(open.len())];
        let run = s.0..s.0 + 1 + self.random.below(3);
        self.post(at, to, Datagram::Revoke(run, r));
        Ok(())
    }

    fn on_revoke(&mut self, at: usize, from: usize, run: Range<u64>, r: Incarnation) -> Checked {
        if let Some(record) = &mut self.nodes[at].peers[from].record {
            for withdrawn in record.withdraw(run, r) {
                ensure(!record.accepts_run(withdrawn.clone(), r), || format!("{withdrawn:?} is withdrawn"))?;
            }
            self.journal(at, from);
        }
        self.push_withdrawn(at, from);
        self.push_state(at, from)
    }

    fn push_withdrawn(&mut self, at: usize, to: usize) {
        let record = self.nodes[at].peers[to].record.iter();
        let all = record.flat_map(|record| record.withdrawn().iter().map(|run| (run, record.incarnation())));
        for (run, r) in all.collect::<Vec<_>>() {
            self.post(at, to, Datagram::Withdrawn(run, r));
        }
    }

    fn on_withdrawn(&mut self, at: usize, from: usize, run: Range<u64>, r: Incarnation) -> Checked {
        let mut settled = Vec::new();
        if let Some(sender) = &mut self.nodes[at].peers[from].sender {
            sender.on_withdrawn(run, r, |_, m| settled.push(m));
        }
        settled.into_iter().try_for_each(|m| self.ledger.settle(m, Outcome::Cancelled))
    }

    fn on_state(&mut self, at: usize, from: usize, state: &State) -> Checked {
        let node = &mut self.nodes[at];
        let Some(sender) = &mut node.peers[from].sender else {
            if state.live.is_some() {
                let farewell = Ask::farewell(&node.clock);
                self.post(at, from, Datagram::Ask(farewell));
            }
            return Ok(());
        };
        let mut settled = Vec::new();
        let ts = sender.stamp();
        let mut returned = Vec::new();
        let progress = sender.on_state(state, |s, r, m, verdict| match verdict {
            Proof::NotTaken => returned.push((s, m)),
            _ => settled.push((s, r, m, verdict)),
        });
        returned.sort_unstable();
        for (_, m) in returned.into_iter().rev() {
            self.ledger.take_back(m)?;
            node.peers[from].queue.push_front(m);
        }
        for (s, r, m, verdict) in settled {
            let unknown = verdict == Proof::Unknown;
            let peer = &self.nodes[from];
            let forgotten =
                r.map_or_else(|| peer.has_forgotten_early(at, ts, s), |r| peer.has_forgotten(at, r));
            ensure(!unknown || forgotten, || format!("{m} Unknown, but {r:?} is not forgotten"))?;
            self.ledger.settle(m, if unknown { Outcome::Unknown } else { Outcome::Delivered })?;
        }
        self.pump(at, from)?;
        let standby = self.random.below(3);
        for (s, r) in progress.converted {
            let m = self.nodes[at].peers[from].sender.as_ref().and_then(|sender| sender.token(s));
            let token = m.map(|(_, m)| Datagram::Token(s, r, *m));
            self.post(at, from, token.ok_or_else(|| format!("{s:?} is not converted"))?);
        }
        if progress.granted { self.ask(at, from, standby) } else { Ok(()) }
    }

    fn close(&mut self, at: usize, to: usize) -> Checked {
        let node = &mut self.nodes[at];
        let peer = &mut node.peers[to];
        if !peer.queue.is_empty() {
            return Ok(());
        }
        if let Some(farewell) = Sender::close(&mut peer.sender, &mut node.clock) {
            self.post(at, to, Datagram::Ask(farewell));
        }
        Ok(())
    }

    fn abandon(&mut self, at: usize, to: usize) -> Checked {
        let Some(sender) = &mut self.nodes[at].peers[to].sender else {
            return Ok(());
        };
        let mut open: Vec<_> = sender.tokens().map(|(s, _, _)| s).collect();
        open.extend(sender.early().map(|(s, _)| s));
        if open.is_empty() {
            return Ok(());
        }
        let s = open[self.random.index(open.len())];
        let given_up = sender.abandon(s);
        let gone = sender.token(s).is_none() && sender.early().all(|(open, _)| open != s);
        ensure(given_up.is_some() && gone, || format!("{s:?} is not given up"))?;
        given_up.map_or(Ok(()), |m| self.ledger.settle(m, Outcome::LetGo))
    }

    /// Drops a drained record. This is written before a STATE says so.
    fn drop_drained(&mut self, at: usize, from: usize) -> Checked {
        let peer = &mut self.nodes[at].peers[from];
        if peer.record.as_ref().is_some_and(Receiver::is_drained) {
            peer.record = None;
            peer.journal = None;
        }
        Ok(())
    }

    fn evict(&mut self, at: usize, from: usize) -> Checked {
        let node = &mut self.nodes[at];
        if let Some(record) = node.peers[from].record.take() {
            node.b = node.b.max(record.incarnation().0 + 1);
            let peer = &mut node.peers[from];
            peer.lost.extend(record.taken());
            record.evict(&mut peer.bound, &mut node.clock);
            peer.journal = None;
            // The journal has no `A`.
            if node.journaled || self.random.chance(3) {
                node.clock.stamps_mut().fold(&mut peer.bound);
                node.forgot = node.clock.stamps().hull();
            }
        }
        Ok(())
    }

    fn journal(&mut self, at: usize, from: usize) {
        let peer = &mut self.nodes[at].peers[from];
        peer.journal = peer.record.as_ref().map(|record| {
            let (hi, l, free) = record.parts();
            (
                record.incarnation(),
                hi,
                l,
                free.clone(),
                record.stamp(),
                record.taken(),
                record.is_closed(),
                record.withdrawn().clone(),
            )
        });
    }

    fn crash(&mut self, at: usize, wrote: bool, kept: bool) -> Checked {
        let node = &mut self.nodes[at];
        if !node.journaled && !self.amnesia {
            return Ok(());
        }
        let writing = node.writing.take().filter(|_| wrote);
        node.disk = node.disk.max(writing.unwrap_or(0));
        if node.journaled {
            node.recover();
            return Ok(());
        }
        let hull = if kept { node.clock.stamps().hull() } else { Hull::up_to(Stamp(node.latest)) };
        node.clock = Clock::restart(node.disk, Stamp(node.latest), hull, node.block);
        (node.b, node.forgot) = (node.disk, hull);
        for peer in &mut node.peers {
            let mut lost = std::mem::take(&mut peer.lost);
            let written = peer.record.as_ref().and_then(Receiver::taken);
            lost.extend(written);
            peer.bound.taken().into_iter().chain(written).for_each(|taken| peer.bound.lose(taken));
            let taken = peer.bound.taken().filter(|_| kept);
            *peer = Peer { lost, ..Peer::found(peer.far, taken) };
        }
        for m in 0..self.ledger.letters.len() {
            if self.ledger.letters[m].from == at && self.ledger.is_open(m) {
                self.ledger.settle(m, Outcome::LetGo)?;
            }
        }
        Ok(())
    }
}

impl Peer {
    fn found(far: Option<Far>, taken: Option<Taken>) -> Self {
        let (sender, queue, record, journal) = (None, VecDeque::new(), None, None);
        let bound = Bound::found(far, taken);
        Self { sender, queue, record, journal, bound, far, lost: Vec::new() }
    }
}

impl Node {
    fn new(count: usize, random: &mut Random) -> Self {
        let block = 1 + random.below(8);
        let start = random.below(4);
        Self {
            clock: Clock::boot(start, Stamp(1), block),
            disk: start,
            latest: 1,
            writing: None,
            block,
            journaled: random.chance(3),
            b: start,
            forgot: Hull::up_to(Stamp(1)),
            peers: (0..count).map(|_| Peer::found(None, None)).collect(),
        }
    }

    /// `latest` rises, durably.
    fn raise(&mut self) {
        self.latest += 1;
        self.clock.stamps_mut().persisted(Stamp(self.latest));
    }

    /// A stamp that is too new is accepted by raising `latest`, refused durably and for good, or not admitted at all.
    fn let_in(&mut self, from: usize, ts: Stamp, choice: u64) {
        let peer = &mut self.peers[from];
        self.clock.stamps_mut().catch_up(&mut peer.bound);
        if ts <= self.clock.stamps().latest() || !self.clock.stamps().is_new(&peer.bound, ts) {
            return;
        }
        match choice {
            0 => {
                self.latest = ts.0;
                self.clock.stamps_mut().persisted(ts);
            }
            1 => {
                peer.bound.refuse(Far::one(ts));
                peer.far = peer.bound.far();
            }
            _ => {}
        }
    }

    /// Whether a message of `peer` in `s`, sent early under `ts`, may end Unknown: a record that is lost may have taken it.
    fn has_forgotten_early(&self, peer: usize, ts: Stamp, s: Slot) -> bool {
        let took = self.peers[peer].lost.iter().any(|lost| lost.ts == ts && s < lost.end);
        took || self.forgot.contains(ts)
    }

    fn persist(&mut self) -> Checked {
        self.writing = self.writing.or(self.clock.wanted());
        Ok(())
    }

    fn persisted(&mut self) -> Checked {
        if let Some(durable) = self.writing.take() {
            ensure(durable > self.disk, || format!("{durable} wanted over {}", self.disk))?;
            self.disk = durable;
            self.clock.persisted(durable);
        }
        Ok(())
    }

    /// Whether messages of `peer` under `r` may end Unknown: `r` is below the frontier and is not live.
    fn has_forgotten(&self, peer: usize, r: Incarnation) -> bool {
        let live = self.peers[peer].record.as_ref().map(Receiver::incarnation);
        r.0 < self.b && live != Some(r)
    }

    /// Boots from the journal, which has everything.
    fn recover(&mut self) {
        let stamps = Stamps::recover(Stamp(self.latest), self.clock.stamps().hull());
        let clock = Clock::recover(self.disk, self.clock.b(), stamps, self.block);
        for peer in &mut self.peers {
            let sender = peer.sender.take().filter(|sender| !sender.is_idle() || !peer.queue.is_empty());
            peer.sender = sender.map(|sender| {
                let tokens = sender.tokens().map(|(s, r, m)| (s, r, *m));
                Sender::recover(&clock, tokens, sender.stamp(), sender.early().map(|(s, m)| (s, *m)))
            });
            let journal = peer.journal.clone();
            peer.record = journal.map(|(r, hi, l, free, ets, taken, closed, withdrawn)| {
                Receiver::recover(r, hi, l, free, (ets, taken), closed, (BTreeMap::new(), withdrawn))
            });
            peer.bound = Bound::found(peer.far, None);
        }
        self.clock = clock;
    }

    fn show(&self) -> String {
        let peers = self.peers.iter().map(|peer| format!("{:?} {:?}", peer.sender, peer.record));
        format!("{:?} {}", self.clock, peers.collect::<Vec<_>>().join("; "))
    }
}
