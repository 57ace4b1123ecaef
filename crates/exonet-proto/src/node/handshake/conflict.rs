//! Two nodes with one identity: both are told, and nothing is promised from then on (PROTOCOL.md "Two nodes of one identity").

use crate::node::Node;
use crate::node::epoch::Epoch;
use crate::node::event::{Arrival, Conflict, Event};
use crate::time::Now;
use crate::wire::Params;

/// The code of a CLOSE: another node has the identity of its reader, or of its writer.
pub(in crate::node) const YOURS_TWICE: u64 = 8;
pub(in crate::node) const MINE_TWICE: u64 = 9;
/// Room for a packet of a CLOSE.
const WORD: usize = 64;

impl Node {
    /// Whether two nodes are known to use the identity of `peer`, or this node's as `peer` says.
    pub fn conflict(&self, peer: &crate::id::NodeId) -> Option<Conflict> {
        self.conflicts.get(peer)
    }

    /// What an opening says is not to be taken: it is of a node whose identity another one has too, or may be. Its keys have to
    /// show first that it is fresh.
    pub(in crate::node) fn is_odd(&self, place: u32, theirs: &Params) -> bool {
        let odd = |peer: &crate::node::Peer| peer.conflict.is_some() || peer.link.lives.is_odd(theirs);
        self.peers.get(place).is_some_and(odd)
    }

    /// Two nodes use the peer's identity, or two use this node's. This node tells every process that it shares keys with,
    /// the one behind `last` included, and tells a process again that opens again.
    pub(in crate::node) fn part(
        &mut self,
        now: Now,
        place: u32,
        whose: Conflict,
        last: Option<(Epoch, Arrival)>,
    ) {
        let Some(peer) = self.peers.get_mut(place) else { return };
        let id = peer.id;
        // The first verdict stays.
        let whose = *peer.conflict.get_or_insert(whose);
        let code = match whose {
            Conflict::Theirs => YOURS_TWICE,
            Conflict::Ours => MINE_TWICE,
        };
        let mut words = Vec::new();
        let says = |epoch: &mut Epoch| {
            let mut word = Vec::new();
            let said = epoch.seal(&mut word, WORD, |_, writer| {
                writer.close(code);
            });
            said.map(|_| word)
        };
        let answers = last.is_some();
        if let Some((mut epoch, from)) = last {
            self.routes.remove(&epoch.index.0);
            words.extend(says(&mut epoch).map(|word| (from, word)));
        }
        if let Some(path) = peer.link.proven().filter(|_| answers) {
            let to = Arrival { remote: path.remote, local_ip: path.local, ecn: 0 };
            let previous = peer.link.previous.as_mut().map(|(epoch, _)| epoch);
            for epoch in peer.link.current.as_mut().into_iter().chain(previous) {
                words.extend(says(epoch).map(|word| (to, word)));
            }
        }
        for (to, word) in words {
            self.push_loose(to, word.into());
        }
        self.end_link(now, place);
        if self.conflicts.insert(id, whose) {
            self.events.push_back(Event::IdentityConflict { peer: id, whose });
        }
        self.keep_apart(now, place);
        self.touch(now, place);
    }

    /// Nothing goes to a node whose identity another one has too, and nothing of what it has sent is claimed: numbers that both
    /// use say nothing.
    pub(in crate::node) fn keep_apart(&mut self, now: Now, place: u32) {
        let Some(peer) = self.peers.get_mut(place).filter(|peer| peer.conflict.is_some()) else { return };
        let id = peer.id;
        self.events.extend(peer.lose_pings(None));
        self.stats.evictions += u64::from(peer.inbound.renounce(&mut self.clock));
        if peer.outbound.has_messages() {
            self.abandon_peer(now, &id);
        }
        self.forget_replies(now, place);
        if let Some(peer) = self.peers.get_mut(place) {
            peer.outbound.part(&mut self.clock);
        }
    }
}
