//! What openings may cost: the count of half-open peers, and a budget for public-key work.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::{BTreeMap, VecDeque};

use super::config::Limits;
use super::epoch::Prefix;
use crate::id::NodeId;
use crate::time::Mono;

/// Counts half-open epochs and the openings on which public-key work is spent.
#[derive(Debug)]
pub(super) struct HalfOpen {
    len: usize,
    /// Peers that no data packet has confirmed yet, the oldest first. Some may have been confirmed since.
    doubted: VecDeque<(u32, NodeId)>,
    by_prefix: BTreeMap<Prefix, usize>,
    /// mac1 of an opening to the index of its pending epoch: a copy costs a look-up.
    pub(super) copies: BTreeMap<[u8; 16], u32>,
    /// Openings that may be worked on, in nanoseconds of budget.
    budget: u64,
    filled_at: Mono,
    cap: usize,
    cap_per_prefix: usize,
    /// Nanoseconds of budget for one opening, and the most that is saved up.
    price: u64,
    savings: u64,
}

/// Budget saved up at most: a burst of a tenth of a second.
const BURST: u64 = 100_000_000;

impl HalfOpen {
    pub(super) fn new(now: Mono, limits: &Limits) -> Self {
        let price = 1_000_000_000 / u64::from(limits.openings_per_second.max(1));
        let savings = BURST.max(price);
        Self {
            len: 0,
            doubted: VecDeque::new(),
            by_prefix: BTreeMap::new(),
            copies: BTreeMap::new(),
            budget: savings,
            filled_at: now,
            cap: limits.half_open,
            cap_per_prefix: limits.half_open_per_prefix,
            price,
            savings,
        }
    }

    /// One more peer that is not confirmed. Gives the oldest when there are too many.
    pub(super) fn doubt(&mut self, place: u32, id: NodeId) -> Option<(u32, NodeId)> {
        self.doubted.push_back((place, id));
        if self.doubted.len() > self.cap { self.doubted.pop_front() } else { None }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Half-open channels of the prefix that has the most, loopback aside.
    pub(super) fn fullest(&self) -> usize {
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)].map(Prefix::of);
        let others = self.by_prefix.iter().filter(|(prefix, _)| !loopback.contains(prefix));
        others.map(|(_, count)| *count).max().unwrap_or(0)
    }

    /// From half full on, or short of budget, an opening must prove its address.
    pub(super) fn is_loaded(&mut self, now: Mono) -> bool {
        self.refill(now);
        self.len * 2 >= self.cap || self.budget < self.savings / 2
    }

    fn refill(&mut self, now: Mono) {
        let since = u64::try_from(now.since(self.filled_at).as_nanos()).unwrap_or(u64::MAX);
        self.budget = self.budget.saturating_add(since).min(self.savings);
        self.filled_at = self.filled_at.max(now);
    }

    /// Whether one more opening may be worked on; pays for it.
    pub(super) fn admit(&mut self, now: Mono, prefix: Prefix, loopback: bool) -> bool {
        self.refill(now);
        let from_there = self.by_prefix.get(&prefix).copied().unwrap_or(0);
        let fits = self.len < self.cap && (loopback || from_there < self.cap_per_prefix);
        if !fits || self.budget < self.price {
            return false;
        }
        self.budget -= self.price;
        true
    }

    pub(super) fn enter(&mut self, prefix: Prefix, mac1: [u8; 16], index: u32) {
        self.len += 1;
        *self.by_prefix.entry(prefix).or_default() += 1;
        self.copies.insert(mac1, index);
    }

    pub(super) fn leave(&mut self, prefix: Prefix, mac1: &[u8; 16]) {
        self.len = self.len.saturating_sub(1);
        self.copies.remove(mac1);
        if let Some(count) = self.by_prefix.get_mut(&prefix) {
            *count -= 1;
            if *count == 0 {
                self.by_prefix.remove(&prefix);
            }
        }
    }
}
