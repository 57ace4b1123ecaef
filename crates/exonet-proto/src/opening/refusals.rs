//! Openings that policy does not take, and what is said of it (PROTOCOL.md "Refusals").

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use crate::id::{NodeId, Stamp};
use crate::opening::prefix::Prefix;
use crate::time::Mono;

/// The time over which refusals that are told are counted.
const SPAN: Duration = Duration::from_millis(250);
/// Refusals told in that time: 512 a second.
const MOST: usize = 128;
/// Of these, to one prefix: 64 a second. Loopback is not counted.
const MOST_PER_PREFIX: usize = 16;
/// Refused peers that are remembered.
const MAX_REMEMBERED: usize = 1_024;
/// They are remembered for this, and the application hears of each once in this time.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);
/// A node that was refused opens again after this for messages in doubt, and not before.
pub(crate) const PAUSE: Duration = Duration::from_secs(4);

/// What a node keeps of the openings that it has refused lately.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// Told in the last [`SPAN`], the oldest first.
    told: VecDeque<(Mono, Option<Prefix>)>,
    /// With the stamp of which it was said that nothing was taken under it: that stays true, and may be said again.
    known: BTreeMap<NodeId, Stamp>,
    /// In the order in which they were entered.
    ages: VecDeque<(Mono, NodeId)>,
}

impl Refusals {
    /// Whether one more may be told, to an address with this prefix. It counts if it may.
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

    /// Notes that a peer was refused. True if the application is to hear of it.
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

    /// Whether it was said of this stamp that nothing was taken under it.
    pub(crate) fn has_refused(&self, id: &NodeId, ts: Stamp) -> bool {
        self.known.get(id) == Some(&ts)
    }

    /// It is said from now on.
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
