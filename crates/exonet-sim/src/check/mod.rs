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

/// Half-connections of nodes with more peers are looked at when something comes from the peer or goes to it.
const FEW: usize = 8;
/// What a node holds is counted afresh once in so many of its steps, and seldomer the more that is.
const AUDIT_EVERY: usize = 64;

/// Which peers a step may have concerned.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(crate) peers: BTreeSet<NodeId>,
    pub(crate) all: bool,
}

/// Everything that is watched, and what has to be remembered for it.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) keys: Keys,
    pub(crate) addresses: Addresses,
    pairs: Pairs,
    /// Where an identity is at home. None: in two places, which voids every promise about it.
    homes: BTreeMap<NodeId, Option<usize>>,
    pub(crate) touched: Touched,
    /// The latest step of a maker of which a receiver has got something.
    newest: BTreeMap<(usize, usize), u64>,
}

impl Checks {
    /// An identity comes to life.
    pub(crate) fn settles(&mut self, id: NodeId, host: usize) {
        self.homes
            .entry(id)
            .and_modify(|home| *home = home.filter(|home| *home == host))
            .or_insert(Some(host));
    }

    /// An identity is gone for good.
    pub(crate) fn leaves(&mut self, id: &NodeId) {
        self.homes.remove(id);
    }

    /// Two nodes are said to have this identity. True if one has it, and nobody else.
    pub(crate) fn is_one(&self, id: &NodeId) -> bool {
        matches!(self.homes.get(id), Some(Some(_)))
    }

    /// Something comes to `node` that `maker` made in a step. True when something made later came before.
    pub(crate) fn is_reordered(&mut self, node: usize, (maker, made): (usize, u64)) -> bool {
        let newest = self.newest.entry((maker, node)).or_insert(made);
        *newest = made.max(*newest);
        made < *newest
    }

    /// Looks at every half-connection of `index` that the step may have changed, and at times at what it holds.
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

    /// Whether an Unknown is accounted for by what happened to the half-connection.
    pub(crate) fn explains_unknown(
        &self,
        hosts: &BTreeMap<usize, Host>,
        to: NodeId,
        id: exonet_proto::MessageId,
        delivered: bool,
    ) -> bool {
        match self.homes.get(&to) {
            Some(None) => true,
            Some(Some(home)) => {
                hosts.get(home).is_some_and(|host| self.pairs.explain_unknown(id, host, delivered))
            }
            None => false,
        }
    }
}

/// What a node holds is within its caps, and it counts right; and nothing has vanished from it.
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
    // An outcome waits until the journal has it.
    if held < waiting && !host.is_appending() {
        ledger.report(Breach::Lost { waiting, held });
    }
}
