//! Checkers that watch every step of a world.

mod addresses;
mod keys;
mod pairs;
mod quiet;
mod violation;

use std::collections::{BTreeMap, BTreeSet};

use exonet_proto::NodeId;
use exonet_proto::node::MessageKey;

pub(crate) use addresses::Addresses;
pub(crate) use keys::Keys;
pub(crate) use pairs::Pairs;
pub(crate) use quiet::quiet;
pub(crate) use violation::short;
pub use violation::{Breach, Violation};

use crate::Ledger;
use crate::host::Host;

/// If a node has more peers than this, a half-connection is checked only when something arrives from the peer or goes
/// to it.
const FEW: usize = 8;
/// The holdings of a node are counted after this many of its steps; less often if it holds more.
const AUDIT_EVERY: usize = 64;

/// The peers that a step may have affected.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(crate) peers: BTreeSet<NodeId>,
    pub(crate) all: bool,
}

/// All checkers and their state.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) keys: Keys,
    pub(crate) addresses: Addresses,
    pairs: Pairs,
    /// The host of each identity. None: two hosts have it, so no guarantee holds for it.
    homes: BTreeMap<NodeId, Option<usize>>,
    pub(crate) touched: Touched,
    /// The latest step of a maker from which a receiver has received something.
    newest: BTreeMap<(usize, usize), u64>,
}

impl Checks {
    /// Notes that a host starts with an identity.
    pub(crate) fn settles(&mut self, id: NodeId, host: usize) {
        self.homes
            .entry(id)
            .and_modify(|home| *home = home.filter(|home| *home == host))
            .or_insert(Some(host));
    }

    /// Notes that an identity is gone for good.
    pub(crate) fn leaves(&mut self, id: &NodeId) {
        self.homes.remove(id);
    }

    /// Notes that a conflict was reported for this identity. Returns whether exactly one host has it.
    pub(crate) fn is_one(&self, id: &NodeId) -> bool {
        matches!(self.homes.get(id), Some(Some(_)))
    }

    /// Notes that a datagram which `maker` made in a step arrives at `node`. Returns whether one that was made later
    /// has arrived before.
    pub(crate) fn is_reordered(&mut self, node: usize, (maker, made): (usize, u64)) -> bool {
        let newest = self.newest.entry((maker, node)).or_insert(made);
        *newest = made.max(*newest);
        made < *newest
    }

    /// Checks every half-connection of `index` that the step may have changed, and now and then counts its holdings.
    pub(crate) fn look(&mut self, index: usize, hosts: &BTreeMap<usize, Host>, ledger: &mut Ledger) {
        let Touched { mut peers, all } = std::mem::take(&mut self.touched);
        let Some(host) = hosts.get(&index) else { return };
        let id = host.node.id();
        if self.homes.get(&id) != Some(&Some(index)) {
            return;
        }
        if all || host.node.peer_count() <= FEW {
            peers.extend(host.node.all_records().map(|(peer, _)| peer));
        }
        for peer in peers {
            let home = match self.homes.get(&peer) {
                Some(None) => continue,
                Some(Some(home)) => hosts.get(home),
                None => None,
            };
            self.pairs.look(host, peer, home, ledger);
            if let Some(other) = home {
                self.pairs.look(other, id, Some(host), ledger);
            }
        }
    }

    /// Whether the history of the half-connection accounts for an Unknown.
    pub(crate) fn explains_unknown(
        &self,
        hosts: &BTreeMap<usize, Host>,
        to: NodeId,
        id: exonet_proto::MessageId,
        fate: [bool; 2],
    ) -> bool {
        match self.homes.get(&to) {
            Some(None) => true,
            Some(Some(home)) => {
                hosts.get(home).is_some_and(|host| self.pairs.explain_unknown(id, host, fate))
            }
            None => false,
        }
    }
}

/// Checks that the holdings of a node are within their limits and correctly counted, and that no message has
/// vanished.
pub(crate) fn audit(host: &mut Host, ledger: &mut Ledger) {
    let node = host.node.id();
    host.audit_in = AUDIT_EVERY + host.node.peer_count() * 4 + host.waiting.len();
    host.node.audit(|holding| {
        if !holding.is_sound() {
            ledger.report(Breach::Held { node, holding });
        }
    });
    let open = |key: &MessageKey| host.node.status(*key) != exonet_proto::node::Status::Settled;
    let (waiting, held) = (host.waiting.len(), host.waiting.keys().filter(|key| open(key)).count());
    // An outcome waits until the journal is safe.
    if held < waiting && !host.is_appending() {
        ledger.report(Breach::Lost { waiting, held });
    }
}
