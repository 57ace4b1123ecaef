//! Openings that the policy refuses, and how their senders are told (PROTOCOL.md "Refusals").

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use crate::id::{NodeId, Stamp};
use crate::opening::prefix::Prefix;
use crate::time::Mono;

/// The time over which sent refusals are counted.
const SPAN: Duration = Duration::from_millis(250);
/// How many refusals may be sent in that time: 512 a second.
const MOST: usize = 128;
/// How many of these may go to one prefix: 64 a second. Loopback is not counted.
const MOST_PER_PREFIX: usize = 16;
/// How many refused peers are remembered.
const MAX_REMEMBERED: usize = 1_024;
/// How long they are remembered. In this time the application hears of each once.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);
/// A node that was refused does not open again for messages in doubt before this time has passed.
pub(crate) const PAUSE: Duration = Duration::from_secs(4);

/// What a node remembers of the openings that it has refused lately.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// Refusals sent in the last [`SPAN`], the oldest first.
    told: VecDeque<(Mono, Option<Prefix>)>,
    /// Each refused peer with the stamp for which it was told that nothing was taken under it. This stays true, and may be
    /// repeated.
    known: BTreeMap<NodeId, Stamp>,
    /// In the order in which they were entered.
    ages: VecDeque<(Mono, NodeId)>,
}

impl Refusals {
    /// Whether one more refusal may be sent to an address with this prefix. If so, it is counted.
    pub(crate) fn admit(&mut self, now: Mono, prefix: Option<Prefix>) -> bool {
        while self.told.front().is_some_and(|(at, _)| *at + SPAN <= now) {
            self.told.pop_front();
        }
        let of_prefix = self.told.iter().filter(|(_, other)| prefix.is_some() && *other == prefix).count();
        let admitted = self.told.len() < MOST && of_prefix < MOST_PER_PREFIX;
        if admitted {
            self.told.push_back((now, prefix));
        }
        admitted
    }

    /// Notes that a peer was refused. True if the application should hear of it.
    pub(crate) fn note(&mut self, now: Mono, id: NodeId) -> bool {
        while let Some((_, old)) = self.ages.front().filter(|(since, _)| *since + REMEMBERED_FOR <= now) {
            self.known.remove(old);
            self.ages.pop_front();
        }
        if self.known.contains_key(&id) || self.known.len() >= MAX_REMEMBERED {
            return false;
        }
        self.known.insert(id, Stamp::NONE);
        self.ages.push_back((now, id));
        true
    }

    /// Whether the peer was told that nothing was taken under this stamp.
    pub(crate) fn has_refused(&self, id: &NodeId, ts: Stamp) -> bool {
        self.known.get(id) == Some(&ts)
    }

    /// The peer is told this about `ts` from now on.
    pub(crate) fn refused(&mut self, id: &NodeId, ts: Stamp) {
        if let Some(refused) = self.known.get_mut(id) {
            *refused = ts;
        }
    }

    pub(crate) fn audit(&self, say: &mut impl FnMut(&'static str, u64, u64, bool)) {
        say("refusals told", self.told.len() as u64, MOST as u64, false);
        say("peers refused", self.known.len() as u64, MAX_REMEMBERED as u64, false);
        say("peers refused, by age", self.ages.len() as u64, MAX_REMEMBERED as u64, false);
    }
}
