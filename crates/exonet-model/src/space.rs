//! States, which are the nodes and every datagram ever sent, and the steps from one to the next.
//!
//! A node depends only on the datagrams that arrive, and not on the rest of the network. So nodes and network are kept
//! separately: the effect of a step on the nodes is computed once for all networks. A state is two small numbers and a set.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::bits::Bits;
use crate::config::{Config, Grants};
use crate::datagram::{Datagram, Packet, name};
use crate::fingerprint::{Build, fingerprint};
use crate::half::{Mark, Sender};
use crate::id::{Incarnation, Slot, Stamp};
use crate::step::Step;
use crate::violation::{Checked, Kind, Violation, ensure};
use crate::world::{Out, World};

/// The nodes, by their number in the space, and what the network holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub(crate) nodes: u32,
    pub(crate) network: Bits,
}

/// The result of a step: the next state and the datagrams that it sends, or the promise that it breaks.
type Edge = Result<(u32, Box<[u16]>), Violation>;

/// A state of the nodes, and what is known of it.
#[derive(Debug)]
struct Known {
    world: World,
    /// The promise that the state of the nodes breaks by itself.
    broken: Option<Violation>,
    /// The datagrams that timers could send.
    standing: Bits,
    /// The steps that do not need the network, once worked out.
    own: Option<Vec<(Step, Edge)>>,
    /// The effects of the datagrams in `tried` when they arrive. Arrivals without any effect are left out.
    heard: Vec<(Step, Edge)>,
    tried: Bits,
    /// Arrivals that change no node and make it send: (what arrives, what it sends).
    echoes: Vec<(u16, Box<[u16]>)>,
}

/// All datagrams that a search has met, numbered.
#[derive(Debug, Default)]
struct Packets {
    all: Vec<Packet>,
    ids: HashMap<Packet, u16, Build>,
    tokens: Bits,
    asks: Bits,
    /// Tokens of two messages with one number.
    clashes: Vec<(usize, usize)>,
}

/// A configuration, the datagrams met in it, and the states of the nodes.
#[derive(Debug)]
pub struct Space {
    /// The configuration.
    pub config: Config,
    /// From every state of the nodes whose fingerprint is a multiple, all has to come to rest; 0: from none.
    pub rest_every: u64,
    pub(crate) rests: usize,
    packets: Packets,
    known: Vec<Known>,
    index: HashMap<u128, u32, Build>,
    full: bool,
}

impl Space {
    /// The space of a configuration, unexplored.
    pub fn new(config: Config, rest_every: u64) -> Self {
        let (packets, known, index) = (Packets::default(), Vec::new(), HashMap::default());
        Self { config, rest_every, rests: 0, packets, known, index, full: false }
    }

    /// The first state.
    pub fn initial(&mut self) -> Result<State, Violation> {
        let nodes = self.meet(World::new(&self.config));
        self.settle(State { nodes, network: Bits::default() })
    }

    /// How many different datagrams were met.
    pub fn datagrams(&self) -> usize {
        self.packets.all.len()
    }

    /// How many different states of the nodes were met.
    pub fn nodes(&self) -> usize {
        self.known.len()
    }

    /// Which datagrams are tokens.
    pub(crate) fn tokens(&self) -> &Bits {
        &self.packets.tokens
    }

    /// Which datagrams are ASKs.
    pub(crate) fn asks(&self) -> &Bits {
        &self.packets.asks
    }

    /// The nodes of a state.
    pub fn world(&self, state: &State) -> &World {
        &self.known[state.nodes as usize].world
    }

    /// Whether there were more datagrams than can be numbered: the search was cut.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// The steps that are possible in `state`, and the state after each. Steps that change nothing are left out.
    pub fn steps(&mut self, state: &State, steps: &mut Vec<(Step, Result<State, Violation>)>) {
        let nodes = state.nodes as usize;
        if self.known[nodes].own.is_none() {
            let own = self.own_steps(&self.known[nodes].world);
            let own = own.into_iter().map(|step| (step, self.edge(state.nodes, step)));
            let own = own.collect::<Vec<_>>();
            self.known[nodes].own =
                Some(own.into_iter().filter(|(_, edge)| leaves(state.nodes, edge)).collect());
        }
        let known = &self.known[nodes];
        let arrives = |step: &Step| match step {
            Step::Hear { packet, .. } | Step::Mark { packet, .. } => state.network.contains(*packet as usize),
            _ => true,
        };
        let edges = known.own.iter().flatten().chain(&known.heard).filter(|(step, _)| arrives(step));
        let to = |(nodes, sent): &(u32, Box<[u16]>)| {
            let mut network = state.network;
            sent.iter().for_each(|id| network.insert(usize::from(*id)));
            State { nodes: *nodes, network }
        };
        steps.extend(edges.map(|(step, edge)| (*step, edge.as_ref().map(to).map_err(Clone::clone))));
    }

    /// The state with everything in its network that can be sent while no node changes, or what is broken in it.
    pub fn settle(&mut self, mut state: State) -> Result<State, Violation> {
        let nodes = state.nodes as usize;
        if let Some(broken) = &self.known[nodes].broken {
            return Err(broken.clone());
        }
        state.network = state.network.union(&self.known[nodes].standing);
        loop {
            for id in state.network.without(&self.known[nodes].tried).iter() {
                self.try_arrival(state.nodes, id);
            }
            let before = state.network;
            let echoes =
                self.known[nodes].echoes.iter().filter(|(heard, _)| before.contains(usize::from(*heard)));
            echoes.flat_map(|(_, sent)| sent).for_each(|id| state.network.insert(usize::from(*id)));
            if state.network == before {
                break;
            }
        }
        self.check_numbers(&state.network)?;
        Ok(state)
    }

    fn try_arrival(&mut self, nodes: u32, id: usize) {
        let packet = id as u32;
        let Packet { from, to, datagram } = &self.packets.all[id];
        let grants = match (datagram, self.config.grants) {
            (Datagram::Ask { n: n @ 1.., .. }, Grants::Any) => 0..=u8::try_from(*n).unwrap_or(u8::MAX),
            _ => u8::MAX..=u8::MAX,
        };
        let node = &self.known[nodes as usize].world.nodes[*to];
        let ahead =
            matches!(datagram, Datagram::Ask { ts, .. } if self.config.strays && node.is_ahead(*from, *ts));
        let refused = matches!(datagram, Datagram::Ask { ts, .. } if self.config.refuses && *ts > 0);
        let ways = grants.flat_map(|grant| [(grant, false), (grant, true)]);
        let ways = ways.map(|(grant, astray)| (grant, astray, false)).chain([(0, false, true)]);
        for (grant, astray, refused) in ways.filter(|(_, stray, no)| (!stray || ahead) && (!no || refused)) {
            let step = Step::Hear { packet, grant, astray, refused };
            let edge = self.edge(nodes, step);
            let known = &mut self.known[nodes as usize];
            match edge {
                Ok((to, sent)) if to == nodes && !sent.is_empty() => known.echoes.push((id as u16, sent)),
                edge if leaves(nodes, &edge) => known.heard.push((step, edge)),
                _ => {}
            }
        }
        self.try_marks(nodes, id);
        self.known[nodes as usize].tried.insert(id);
    }

    /// The application may judge a message that arrives, instead of taking it.
    fn try_marks(&mut self, nodes: u32, id: usize) {
        let judges = self.known[nodes as usize].world.marks > 0;
        if !judges || !matches!(self.packets.all[id].datagram, Datagram::Token { .. }) {
            return;
        }
        for done in [false, true] {
            let step = Step::Mark { packet: id as u32, done };
            let edge = self.edge(nodes, step);
            if leaves(nodes, &edge) {
                self.known[nodes as usize].heard.push((step, edge));
            }
        }
    }

    /// The number of a state of the nodes. One met for the first time is judged.
    fn meet(&mut self, world: World) -> u32 {
        let print = fingerprint(&world);
        if let Some(nodes) = self.index.get(&print) {
            return *nodes;
        }
        let (standing, broken) = match self.judge(&world, print) {
            Ok(standing) => (standing, None),
            Err(broken) => (Bits::default(), Some(broken)),
        };
        let (own, heard, tried, echoes) = (None, Vec::new(), Bits::default(), Vec::new());
        let nodes = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        self.known.push(Known { world, broken, standing, own, heard, tried, echoes });
        self.index.insert(print, nodes);
        nodes
    }

    /// Everything that has to hold of the nodes; and what their timers could send.
    fn judge(&mut self, world: &World, print: u128) -> Result<Bits, Violation> {
        guarded(|| world.check(&self.config))?;
        if self.rest_every > 0 && print.is_multiple_of(self.rest_every.into()) {
            self.rests += 1;
            guarded(|| world.come_to_rest(&self.config))?;
        }
        let mut out = Out::new();
        world.standing(&self.config, &mut out);
        let mut standing = Bits::default();
        self.post(out).iter().for_each(|id| standing.insert(usize::from(*id)));
        Ok(standing)
    }

    /// The steps that the nodes can take by themselves.
    fn own_steps(&self, world: &World) -> Vec<Step> {
        let mut steps = Vec::new();
        for at in 0..self.config.nodes {
            for to in (0..self.config.nodes).filter(|to| *to != at) {
                self.pair_steps(world, at, to, &mut steps);
            }
            let node = &world.nodes[at];
            let at = at as u8;
            let stamps = node.clock.stamps();
            if stamps.latest().0 < self.config.stamps.into() {
                steps.push(Step::Raise(at));
            }
            if self.config.outsiders {
                let forgets = stamps.upper() < stamps.latest();
                steps.extend(forgets.then_some(Step::Outsider { at, evicted: false }));
                steps.extend((node.evictions > 0).then_some(Step::Outsider { at, evicted: true }));
            }
            let room = node.clock.wanted().is_some_and(|durable| durable <= self.config.limit);
            if room {
                steps.push(Step::Reserve(at));
            }
            if node.crashes > 0 {
                steps.push(Step::Crash { at, wrote: false });
                if room {
                    steps.push(Step::Crash { at, wrote: true });
                }
                if node.journal.is_some() {
                    steps.push(Step::Sync(at));
                }
            }
        }
        steps
    }

    fn pair_steps(&self, world: &World, at: usize, to: usize, steps: &mut Vec<Step>) {
        let node = &world.nodes[at];
        let peer = &node.peers[to];
        let drops = world.may_drop(&self.config, at, to);
        let next = world.ledger.next(&self.config, at, to).filter(|_| !self.config.replies(at, to));
        let replies = self.config.replies(at, to);
        let (at, to) = (at as u8, to as u8);
        if next.is_some() {
            steps.push(Step::Send { at, to });
        }
        if peer.sender.is_none() && self.config.stamps > 0 {
            let left = world.ledger.left(&self.config, at.into(), to.into());
            let counts = 1..=self.config.early.min(left);
            let ways = counts.flat_map(|count| (1..=self.config.stamps).map(move |ts| (count, ts)));
            steps.extend(ways.map(|(count, ts)| Step::Open { at, to, count, ts }));
        }
        if peer.bound.known().is_some() {
            steps.push(Step::Unlearn { at, from: to });
        }
        if self.config.full && peer.bound.taken().is_some() {
            steps.push(Step::Full { at, from: to });
        }
        if let Some(sender) = &peer.sender {
            let asks = |standby: u8| {
                let wanted = sender.e().0 + peer.queue.len() as u64 + u64::from(standby);
                // A mutant may ask for less than before, or more than it may.
                wanted != sender.hi().0
            };
            let standby = self.config.standby.iter().copied().filter(|n| asks(*n));
            steps.extend(standby.map(|standby| Step::Ask { at, to, standby }));
            steps.push(Step::Close { at, to });
            if world.abandons > 0 {
                let open = sender.tokens().map(|(s, ..)| s).chain(sender.early().map(|(s, _)| s));
                let open = open.filter(|s| !replies && peer.caller.get(*s).is_none());
                steps.extend(open.map(|s| Step::Abandon { at, to, s: s.0 as u8 }));
            }
        }
        if world.revokes > 0 {
            let bound = peer.sender.iter().flat_map(Sender::tokens).map(|(s, ..)| s);
            let bound = bound.filter(|s| !peer.withdrawing.contains(s));
            steps.extend(bound.map(|s| Step::Withdraw { at, to, s: s.0 as u8 }));
        }
        if world.abandons > 0 {
            let calls = world.calls(&self.config, at.into(), to.into());
            steps.extend(calls.map(|(s, _)| Step::Abandon { at, to, s: s.0 as u8 }));
        }
        steps.extend(peer.running.iter().map(|(s, _)| Step::Answer { at, from: to, s: s.0 as u8 }));
        if self.config.expires && !peer.server.is_empty() {
            steps.push(Step::Expire { at, from: to });
        }
        if world.cancels > 0 && !peer.queue.is_empty() && !replies {
            steps.push(Step::Cancel { at, to });
        }
        if drops {
            steps.push(Step::Drop { at, from: to });
        }
        let closes = peer.record.as_ref().is_some_and(|record| !record.is_closed());
        if closes && node.ends > 0 {
            steps.push(Step::End { at, from: to });
        }
        if peer.record.is_some() && node.evictions > 0 {
            steps.push(Step::Evict { at, from: to });
        }
        if !peer.parts.is_empty() {
            steps.push(Step::Forget { at, from: to });
        }
    }

    /// The effect of a step on the nodes.
    fn edge(&mut self, nodes: u32, step: Step) -> Edge {
        let mut world = self.known[nodes as usize].world.clone();
        let mut out = Out::new();
        guarded(|| self.advance(&mut world, step, &mut out))?;
        let sent = self.post(out);
        Ok((self.meet(world), sent))
    }

    fn advance(&self, world: &mut World, step: Step, out: &mut Out) -> Checked {
        let config = &self.config;
        match step {
            Step::Send { at, to } => world.send(config, at.into(), to.into(), out)?,
            Step::Cancel { at, to } => world.cancel(at.into(), to.into())?,
            Step::Ask { at, to, standby } => world.ask(at.into(), to.into(), standby.into(), out)?,
            Step::Open { at, to, count, ts } => {
                world.open(config, (at.into(), to.into()), count, Stamp(ts.into()));
            }
            Step::Hear { packet, grant, astray, refused } => {
                let packet = &self.packets.all[packet as usize];
                if let Datagram::Ask { ts, .. } = packet.datagram {
                    if refused {
                        world.refuse(packet.to, packet.from, Stamp(ts), out);
                        return Ok(());
                    }
                    if astray {
                        world.let_astray(packet.to, packet.from, Stamp(ts));
                    }
                }
                world.hear(config, packet, grant.into(), out)?;
            }
            Step::Mark { packet, done } => {
                let Packet { from, to, datagram } = &self.packets.all[packet as usize];
                if let Datagram::Token { s, r, letter, .. } = *datagram {
                    let mark = if done { Mark::Done } else { Mark::Rejected };
                    world.mark(config, (*to, *from), (Slot(s), Incarnation(r)), letter, mark, out)?;
                }
            }
            Step::Unlearn { at, from } => world.unlearn(at.into(), from.into()),
            Step::Full { at, from } => world.fold(at.into(), from.into()),
            Step::Raise(at) => world.raise(at.into()),
            Step::Outsider { at, evicted } => world.forget_outsider(at.into(), evicted),
            Step::Close { at, to } => world.close(at.into(), to.into(), out),
            Step::Abandon { at, to, s } => world.abandon(at.into(), to.into(), Slot(s.into()))?,
            Step::Withdraw { at, to, s } => world.revoke(at.into(), to.into(), Slot(s.into())),
            Step::Answer { at, from, s } => {
                world.answer(config, (at.into(), from.into()), Slot(s.into()), out)?;
            }
            Step::Expire { at, from } => world.expire(at.into(), from.into())?,
            Step::Drop { at, from } => world.drop_record(at.into(), from.into()),
            Step::End { at, from } => world.end_record(at.into(), from.into()),
            Step::Evict { at, from } => world.evict(at.into(), from.into()),
            Step::Forget { at, from } => world.nodes[usize::from(at)].peers[usize::from(from)].parts.clear(),
            Step::Reserve(at) => world.reserve(at.into()),
            Step::Sync(at) => world.sync(at.into()),
            Step::Crash { at, wrote } => world.crash(config, at.into(), wrote)?,
        }
        Ok(())
    }

    /// The numbers of datagrams, as far as there are numbers left.
    fn post(&mut self, out: Out) -> Box<[u16]> {
        let mut sent = Vec::with_capacity(out.len());
        for packet in out {
            let known = self.packets.ids.get(&packet).copied();
            match known.or_else(|| self.packets.meet(packet)) {
                Some(id) => sent.push(id),
                None => self.full = true,
            }
        }
        sent.into()
    }

    /// **D**: no two messages of one flow bear one number.
    fn check_numbers(&self, network: &Bits) -> Checked {
        let clash = self.packets.clashes.iter().find(|(a, b)| network.contains(*a) && network.contains(*b));
        ensure(clash.is_none(), Kind::D, || {
            let both = clash.map(|(a, b)| (&self.packets.all[*a].datagram, &self.packets.all[*b].datagram));
            both.map_or_else(String::new, |(a, b)| format!("one number for two messages: {a}, {b}"))
        })
    }

    /// One line: what `step` is in `state`.
    pub fn describe(&self, step: Step) -> String {
        if let Step::Mark { packet, done } = step {
            let Packet { from, to, datagram } = &self.packets.all[packet as usize];
            let word = if done { "is done with it" } else { "rejects it" };
            return format!("{} hears {datagram} of {}, and {word}", name(*to), name(*from));
        }
        let Step::Hear { packet, grant, astray, refused } = step else {
            return step.to_string();
        };
        let Packet { from, to, datagram } = &self.packets.all[packet as usize];
        let astray = if astray { ", whom it lets in as a stray" } else { "" };
        let heard = format!("{} hears {datagram} of {}{astray}", name(*to), name(*from));
        match (datagram, self.config.grants) {
            _ if refused => format!("{heard}, and refuses it"),
            (Datagram::Ask { n: 1.., .. }, Grants::Any) => format!("{heard}, willing to grant {grant}"),
            _ => heard,
        }
    }

    /// The node that `step` changes.
    pub fn place(&self, step: Step) -> usize {
        match step {
            Step::Hear { packet, .. } | Step::Mark { packet, .. } => self.packets.all[packet as usize].to,
            _ => step.at().unwrap_or_default(),
        }
    }
}

/// Whether a step has an effect.
fn leaves(nodes: u32, edge: &Edge) -> bool {
    edge.as_ref().map_or(true, |(to, sent)| *to != nodes || !sent.is_empty())
}

/// An assertion of the code that fails is a finding.
fn guarded(f: impl FnOnce() -> Checked) -> Checked {
    let done = catch_unwind(AssertUnwindSafe(f));
    done.unwrap_or_else(|_| Err(Violation { kind: Kind::Assertion, what: "the code panics".into() }))
}

impl Packets {
    /// Numbers a datagram not met before. None when there are no more numbers.
    fn meet(&mut self, packet: Packet) -> Option<u16> {
        let id = self.all.len();
        if id == Bits::CAPACITY {
            return None;
        }
        if let Some((s, letter)) = packet.datagram.body() {
            let clash = |other: &Packet| {
                let same = |(number, of)| {
                    (other.from, other.to, number) == (packet.from, packet.to, s) && of != letter
                };
                other.datagram.body().is_some_and(same)
            };
            let clashes = self.all.iter().enumerate().filter(|(_, other)| clash(other));
            self.clashes.extend(clashes.map(|(at, _)| (at, id)));
        }
        match packet.datagram {
            Datagram::Token { .. } | Datagram::Early { .. } => self.tokens.insert(id),
            Datagram::Ask { .. } => self.asks.insert(id),
            _ => {}
        }
        self.all.push(packet.clone());
        self.ids.insert(packet, id as u16);
        Some(id as u16)
    }
}
