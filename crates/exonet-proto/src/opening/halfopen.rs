//! What openings may hold: the count of half-open peers, and when one more is let in.

use std::collections::{BTreeMap, VecDeque};

use super::prefix::Prefix;
use crate::account::Account;
use crate::config::Limits;
use crate::id::NodeId;
use crate::opening::budget::{Budget, Payer};
use crate::time::Mono;

/// Counts half-open epochs and the openings on which public-key work is spent.
#[derive(Debug)]
pub(crate) struct HalfOpen {
    len: usize,
    /// Peers that no data packet has confirmed yet, the oldest first. Some may have been confirmed since.
    doubted: VecDeque<(u32, NodeId)>,
    by_prefix: BTreeMap<Prefix, usize>,
    /// mac1 of an opening to the index of its pending epoch: a copy costs a look-up.
    pub(crate) copies: BTreeMap<[u8; 16], u32>,
    budget: Budget,
    /// More openings wait than there is time for: see [`crate::node::Node::press`].
    pub(crate) pressed: bool,
    cap: usize,
    cap_per_prefix: usize,
}

impl HalfOpen {
    pub(crate) fn new(now: Mono, limits: &Limits) -> Self {
        Self {
            len: 0,
            doubted: VecDeque::new(),
            by_prefix: BTreeMap::new(),
            copies: BTreeMap::new(),
            budget: Budget::new(now, limits),
            pressed: false,
            cap: limits.half_open,
            cap_per_prefix: limits.half_open_per_prefix,
        }
    }

    /// One more peer that is not confirmed. Gives the oldest when there are too many.
    pub(crate) fn doubt(&mut self, place: u32, id: NodeId) -> Option<(u32, NodeId)> {
        self.doubted.push_back((place, id));
        if self.doubted.len() > self.cap { self.doubted.pop_front() } else { None }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Half-open channels of the prefix that has the most.
    pub(crate) fn fullest(&self) -> usize {
        self.by_prefix.values().copied().max().unwrap_or(0)
    }

    /// From half full on, when more wait than there is time for, or when there is no budget for those unproven, an
    /// opening must prove its address.
    pub(crate) fn is_loaded(&mut self, now: Mono, prefix: Option<Prefix>) -> bool {
        let crowded = self.from(prefix) * 2 >= self.cap_per_prefix;
        let full = self.len * 2 >= self.cap || crowded;
        full || self.pressed || !self.budget.affords(now, Payer { prefix, proven: false })
    }

    /// Half-open channels that count against the share of a prefix.
    fn from(&self, prefix: Option<Prefix>) -> usize {
        prefix.and_then(|prefix| self.by_prefix.get(&prefix)).copied().unwrap_or(0)
    }

    /// Whether one more opening may be worked on; pays for it.
    pub(crate) fn admit(&mut self, now: Mono, payer: Payer) -> bool {
        let fits = self.len < self.cap && self.from(payer.prefix) < self.cap_per_prefix;
        let admitted = fits && self.budget.affords(now, payer);
        if admitted {
            self.budget.pay(payer);
        }
        admitted
    }

    pub(crate) fn enter(&mut self, prefix: Option<Prefix>, mac1: [u8; 16], index: u32) {
        self.len += 1;
        if let Some(prefix) = prefix {
            *self.by_prefix.entry(prefix).or_default() += 1;
        }
        self.copies.insert(mac1, index);
    }

    pub(crate) fn leave(&mut self, prefix: Option<Prefix>, mac1: &[u8; 16]) {
        self.len.give_back(1);
        self.copies.remove(mac1);
        if let Some(prefix) = prefix
            && let Some(count) = self.by_prefix.get_mut(&prefix)
        {
            *count -= 1;
            if *count == 0 {
                self.by_prefix.remove(&prefix);
            }
        }
    }
}
