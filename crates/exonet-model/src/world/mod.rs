//! The nodes. They call the half-connection as its contract says.

mod crash;
mod receiver;
mod records;
mod sender;

use crate::config::Config;
use crate::datagram::{Claimed, Datagram, Packet};
use crate::half::{Ask, Bound, Far, State, Taken};
use crate::id::{Incarnation, Slot, Stamp};
use crate::ledger::{Ledger, Letter};
use crate::mutant::{active, site};
use crate::node::{Node, Peer};
use crate::violation::Checked;

/// All nodes, and the ledger. [`crate::Space`] has the network.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub(crate) nodes: Vec<Node>,
    pub(crate) ledger: Ledger,
    pub(crate) abandons: u8,
    pub(crate) cancels: u8,
    pub(crate) marks: u8,
    pub(crate) revokes: u8,
}

/// Where datagrams go.
pub(crate) type Out = Vec<Packet>;

impl World {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            nodes: (0..config.nodes).map(|at| Node::new(config, at)).collect(),
            ledger: Ledger::new(config),
            abandons: config.abandons,
            cancels: config.cancels,
            marks: config.marks,
            revokes: config.revokes,
        }
    }

    pub(crate) fn hear(&mut self, config: &Config, packet: &Packet, grant: u64, out: &mut Out) -> Checked {
        let pair = (packet.to, packet.from);
        match &packet.datagram {
            Datagram::Ask { s, n, l, ts } => {
                let ask = Ask { s: Slot(*s), n: *n, l: Slot(*l), ts: Stamp(*ts) };
                self.on_ask(config, pair, ask, grant, out)
            }
            Datagram::Token { s, r, letter, part, answers } => {
                let named = (Slot(*s), Incarnation(*r));
                self.on_token(config, pair, named, (*letter, *part, *answers), out)
            }
            Datagram::Early { s, ts, letter } => {
                self.on_early(config, pair, (Slot(*s), Stamp(*ts)), *letter, out);
                Ok(())
            }
            Datagram::State(Claimed(state)) => self.on_state(config, pair, state, out),
            Datagram::StampRejected(_) if active(site::REJECTION_UNHEARD) => Ok(()),
            Datagram::StampRejected(ts) => self.on_stamp_rejected(pair, Stamp(*ts)),
            Datagram::Refused(ts) => self.on_refused(pair, Stamp(*ts)),
            Datagram::Verdict { s, r, mark } => self.on_verdict(pair, (Slot(*s), Incarnation(*r)), *mark),
            Datagram::Revoke { s, r } => {
                self.on_revoke(config, pair, (Slot(*s), Incarnation(*r)), out);
                Ok(())
            }
            Datagram::Withdrawn { s, r } => self.on_withdrawn(pair, (Slot(*s), Incarnation(*r))),
            call => self.hear_of_call(pair, call, out),
        }
    }

    /// Everything that a timer could send at this moment.
    pub(crate) fn standing(&self, config: &Config, out: &mut Out) {
        for (at, node) in self.nodes.iter().enumerate() {
            for (to, peer) in node.peers.iter().enumerate().filter(|(to, _)| *to != at) {
                if let Some(sender) = &peer.sender {
                    let ask = sender.repeat().map(Datagram::ask);
                    out.extend(ask.map(|datagram| Packet { from: at, to, datagram }));
                    self.resend(config, at, to, out);
                }
                if peer.record.is_some() {
                    self.push_state(config, at, to, out);
                    self.push_verdicts(at, to, out);
                    self.push_withdrawn(at, to, out);
                }
                self.push_calls(at, to, out);
                if config.cuts {
                    self.push_cuts(config, at, to, out);
                }
            }
        }
    }
}

impl Node {
    /// Whether a stamp is ahead of everything that may be accepted from a sender.
    pub(crate) fn is_ahead(&self, from: usize, ts: u64) -> bool {
        let stamps = self.clock.stamps();
        Stamp(ts) > stamps.latest() && stamps.is_new(&self.peers[from].bound, Stamp(ts))
    }
}

impl Peer {
    /// All that is left after a crash, but for the journal.
    fn found(far: Option<Far>, noted: Option<Taken>) -> Self {
        Self { bound: Bound::found(far, noted), far, noted, ..Self::default() }
    }

    fn lose(&mut self, taken: Option<Taken>) {
        self.lost.extend(taken.filter(|taken| !self.lost.contains(taken)));
    }

    /// Everything soft belongs to one incarnation.
    fn forget_record(&mut self) {
        self.record = None;
        self.parts.clear();
        self.heard = Default::default();
    }
}

fn post_state(config: &Config, (from, to): (usize, usize), state: State, out: &mut Out) {
    let silent = config.silent.then(|| State { taken: None, ..state.clone() });
    let all = std::iter::once(state).chain(silent);
    out.extend(all.map(|state| Packet { from, to, datagram: Datagram::State(Claimed(state)) }));
}

fn post_token(
    config: &Config,
    (at, to): (usize, usize),
    (s, r): (Slot, Incarnation),
    (letter, answers): (Letter, Option<u64>),
    out: &mut Out,
) {
    out.extend((0..config.parts).map(|part| {
        let datagram = Datagram::Token { s: s.0, r: r.0, letter, part, answers };
        Packet { from: at, to, datagram }
    }));
}
