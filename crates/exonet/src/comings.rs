//! Chooses the log lines about peers that connect, move and go: one line for each event, at a limited rate.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use exonet_proto::{Mono, NodeId};

/// The number of peers whose addresses are remembered. If one more connects, all are forgotten, and each counts as
/// new when it connects again.
const REMEMBERED: usize = 1_024;
/// The number of lines that may be logged at once; afterwards, one line per [`GAP`].
const BURST: u32 = 20;
const GAP: Duration = Duration::from_millis(100);

/// An event of a connected peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coming {
    Came,
    Moved,
    Restarted,
    /// The peer only has new keys, or the limit on lines is reached.
    Nothing,
}

#[derive(Debug, Default)]
pub(crate) struct Comings {
    at: BTreeMap<NodeId, SocketAddr>,
    /// The number of lines in this burst. The burst ends when [`GAP`] would allow the next line anyway.
    said: u32,
    since: Mono,
}

impl Comings {
    pub(crate) fn connected(
        &mut self,
        now: Mono,
        peer: NodeId,
        remote: SocketAddr,
        restarted: bool,
    ) -> Coming {
        if self.at.len() >= REMEMBERED && !self.at.contains_key(&peer) {
            self.at.clear();
        }
        let coming = match self.at.insert(peer, remote) {
            _ if restarted => Coming::Restarted,
            None => Coming::Came,
            Some(before) if before != remote => Coming::Moved,
            Some(_) => Coming::Nothing,
        };
        if coming == Coming::Nothing || self.may_say(now) { coming } else { Coming::Nothing }
    }

    /// Notes that a peer was forgotten. Returns whether that deserves a line.
    pub(crate) fn forgotten(&mut self, now: Mono, peer: &NodeId) -> bool {
        self.at.remove(peer).is_some() && self.may_say(now)
    }

    fn may_say(&mut self, now: Mono) -> bool {
        if now.since(self.since) >= GAP * (self.said + 1) {
            (self.said, self.since) = (0, now);
        }
        let may = self.said < BURST;
        self.said += u32::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    #[test]
    fn a_peer_comes_moves_and_goes_once() {
        let mut comings = Comings::default();
        let (peer, now) = (NodeId([7; 32]), Mono(1_000_000_000));
        assert_eq!(comings.connected(now, peer, at(1), false), Coming::Came);
        assert_eq!(comings.connected(now, peer, at(1), false), Coming::Nothing, "new keys");
        assert_eq!(comings.connected(now, peer, at(2), false), Coming::Moved);
        assert_eq!(comings.connected(now, peer, at(2), true), Coming::Restarted);
        assert!(comings.forgotten(now, &peer));
        assert!(!comings.forgotten(now, &peer));
        assert_eq!(comings.connected(now, peer, at(2), false), Coming::Came);
    }

    #[test]
    fn many_at_once_get_few_lines() {
        let mut comings = Comings::default();
        let mut lines = 0;
        for n in 0..5_000_u32 {
            let mut id = [0; 32];
            id[..4].copy_from_slice(&n.to_be_bytes());
            let now = Mono(1_000_000_000 + u64::from(n) * 1_000_000);
            lines += u32::from(comings.connected(now, NodeId(id), at(1), false) == Coming::Came);
            assert!(comings.at.len() <= REMEMBERED);
        }
        // Five seconds pass: one line per gap, and the first burst.
        assert!((40..=80).contains(&lines), "{lines}");
    }
}
