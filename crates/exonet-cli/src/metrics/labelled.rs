//! The peers that have series of their own.

use std::collections::BTreeSet;

use exonet::NodeId;

/// How many peers have series of their own; the others are summed up. A scraper keeps each series for weeks.
pub(super) const PEERS: usize = 100;

/// A peer keeps its series as long as the node knows it, so that its counts never jump.
#[derive(Debug, Default)]
pub(super) struct Labelled(BTreeSet<NodeId>);

impl Labelled {
    /// Splits the peers that are known now into those with series of their own, and the others.
    pub(super) fn part(&mut self, known: &[NodeId]) -> (Vec<NodeId>, Vec<NodeId>) {
        let there: BTreeSet<_> = known.iter().copied().collect();
        self.0.retain(|peer| there.contains(peer));
        for peer in known {
            if self.0.len() >= PEERS {
                break;
            }
            self.0.insert(*peer);
        }
        let others = known.iter().copied().filter(|peer| !self.0.contains(peer));
        (self.0.iter().copied().collect(), others.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_keeps_its_series_and_others_get_places_that_are_free() {
        let all: Vec<NodeId> = (0..=u8::MAX).map(|n| NodeId([n; 32])).collect();
        let mut labelled = Labelled::default();
        let (named, others) = labelled.part(&all[100..220]);
        assert_eq!((named.len(), others.len()), (PEERS, 20));
        // Peers with smaller ids join; the peers with series keep them.
        assert_eq!(labelled.part(&all[..220]).0, named);
        // When one of these peers goes, another one gets its place.
        let (then, others) = labelled.part(&all[101..220]);
        assert_eq!((then.len(), others.len()), (PEERS, 19));
        assert_eq!(named.iter().filter(|peer| then.contains(peer)).count(), PEERS - 1);
        assert_eq!(labelled.part(&all[..3]).0.len(), 3);
    }
}
