//! The gate: which openings of other nodes this node works on, and how many at once.
//!
//! In: an opening, its source and the time. Out: a [`Verdict`]. An opening costs public-key work, and may take a place in the
//! table of half-open channels. The gate counts both, in total and by the network prefix of the source. It counts separately what
//! was spent without a proven address, so that forged addresses take nothing from a node that proves the same address. A source
//! proves its address by a cookie. The gate demands this when the part for unproven addresses runs low, or when the driver is
//! pressed. Every opening that is worked on is charged, whatever the result. Openings that wait for the application's answer are
//! in [`Asking`].

use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};

use super::asking::Asking;
use super::prefix::Prefix;
use crate::account::Account;
use crate::config::Limits;
use crate::crypto::{Cookie, CookieJar};
use crate::id::NodeId;
use crate::time::Mono;
use crate::wire;

/// The longest time for which budget is saved up. Spending is counted by prefix in periods of this length.
const PERIOD: u64 = 100_000_000;
/// The part of the budget, and of each prefix's share of it, that openings may spend without having proven their address.
const UNPROVEN: u64 = 4;

/// What the gate decides about an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The opening is worked on now.
    Work,
    /// The sender is asked to prove its address.
    Prove,
    /// The opening is dropped; it comes again.
    Drop,
}

/// The state of one prefix.
#[derive(Debug, Default)]
struct Part {
    half_open: usize,
    /// What was spent in the present period: unproven and proven.
    spent: [u64; 2],
}

#[derive(Debug)]
pub(crate) struct Gate {
    cookies: CookieJar,
    pub(crate) asking: Asking,
    /// More openings wait than there is time for: see [`crate::node::Node::press`].
    pub(crate) pressed: bool,
    half_open: usize,
    cap: usize,
    cap_per_prefix: usize,
    /// Peers that no data packet has confirmed yet, the oldest first. Some may have been confirmed since.
    doubted: VecDeque<(u32, NodeId)>,
    /// Maps the mac1 of an opening to the index of its pending epoch, so that a copy costs only a look-up.
    copies: BTreeMap<[u8; 16], u32>,
    /// The cost of an opening in nanoseconds of budget. The budget grows by one nanosecond in each nanosecond.
    price: u64,
    /// The most that is saved up, for unproven addresses and for all; and how much of it is left.
    savings: [u64; 2],
    left: [u64; 2],
    /// How much one prefix may spend in a period: the same part of the savings as its part of the table.
    share: u64,
    filled_at: Mono,
    period: u64,
    parts: BTreeMap<Prefix, Part>,
}

impl Gate {
    pub(crate) fn new(now: Mono, limits: &Limits, cookies: CookieJar) -> Self {
        let price = (1_000_000_000 / u64::from(limits.openings_per_second.max(1))).max(1);
        let all = PERIOD.max(price);
        let savings = [(all / UNPROVEN).max(price), all];
        let (part, whole) = (limits.half_open_per_prefix as u64, limits.half_open.max(1) as u64);
        Self {
            cookies,
            asking: Asking::default(),
            pressed: false,
            half_open: 0,
            cap: limits.half_open,
            cap_per_prefix: limits.half_open_per_prefix,
            doubted: VecDeque::new(),
            copies: BTreeMap::new(),
            price,
            savings,
            left: savings,
            share: all.saturating_mul(part) / whole,
            filled_at: now,
            period: now.0 / all,
            parts: BTreeMap::new(),
        }
    }

    /// Decides about `opening` from `source`. An opening that is worked on is charged.
    pub(crate) fn judge(&mut self, now: Mono, source: SocketAddr, opening: &wire::Opening<'_>) -> Verdict {
        let prefix = Prefix::told(source.ip());
        let proven = self.is_loaded(now, prefix);
        if proven && !self.is_proven(now, source, opening) {
            return Verdict::Prove;
        }
        if self.admit(now, prefix, proven) { Verdict::Work } else { Verdict::Drop }
    }

    /// Whether an opening must prove its address: half of the table is taken, more openings wait than there is time for, or there
    /// is no budget for unproven addresses.
    pub(crate) fn is_loaded(&mut self, now: Mono, prefix: Option<Prefix>) -> bool {
        let crowded = self.from(prefix) * 2 >= self.cap_per_prefix;
        let full = self.half_open * 2 >= self.cap || crowded;
        full || self.pressed || !self.affords(now, prefix, false)
    }

    /// Whether the opening bears a cookie that was given to its source. Zeros mean that it has none.
    pub(crate) fn is_proven(&self, now: Mono, source: SocketAddr, opening: &wire::Opening<'_>) -> bool {
        *opening.mac2 != [0; wire::MAC]
            && self.cookies.verify_mac2(now, source, opening.mac2_input, opening.mac2)
    }

    /// The cookie with which a source proves its address.
    pub(crate) fn cookie(&self, now: Mono, source: SocketAddr) -> Cookie {
        self.cookies.cookie(now, source)
    }

    /// Whether one more opening may be worked on. If so, it is charged.
    pub(crate) fn admit(&mut self, now: Mono, prefix: Option<Prefix>, proven: bool) -> bool {
        let fits = self.half_open < self.cap && self.from(prefix) < self.cap_per_prefix;
        let admitted = fits && self.affords(now, prefix, proven);
        if admitted {
            self.pay(prefix, proven);
        }
        admitted
    }

    /// How many half-open channels count against the share of a prefix.
    fn from(&self, prefix: Option<Prefix>) -> usize {
        prefix.and_then(|prefix| self.parts.get(&prefix)).map_or(0, |part| part.half_open)
    }

    /// Whether the budget allows an opening from `prefix`. None: it comes from this machine, whose programs are not told apart.
    fn affords(&mut self, now: Mono, prefix: Option<Prefix>, proven: bool) -> bool {
        self.refill(now);
        let [unproven_left, all_left] = self.left;
        let left = if proven { all_left } else { all_left.min(unproven_left) };
        let share = if proven { self.share } else { self.share / UNPROVEN };
        let within = |prefix| {
            let [unproven, paid] = self.parts.get(&prefix).map_or([0; 2], |part| part.spent);
            let spent = if proven { paid } else { unproven };
            spent + self.price <= share.max(self.price)
        };
        left >= self.price && prefix.is_none_or(within)
    }

    /// Charges one more opening that is worked on.
    fn pay(&mut self, prefix: Option<Prefix>, proven: bool) {
        let [unproven_left, all_left] = &mut self.left;
        *all_left = all_left.saturating_sub(self.price);
        if !proven {
            *unproven_left = unproven_left.saturating_sub(self.price);
        }
        if let Some(prefix) = prefix {
            let [unproven, paid] = &mut self.parts.entry(prefix).or_default().spent;
            *if proven { paid } else { unproven } += self.price;
        }
    }

    fn refill(&mut self, now: Mono) {
        let since = u64::try_from(now.since(self.filled_at).as_nanos()).unwrap_or(u64::MAX);
        let ([unproven_left, all_left], [unproven, all]) = (&mut self.left, self.savings);
        *all_left = all_left.saturating_add(since).min(all);
        *unproven_left = unproven_left.saturating_add(since / UNPROVEN).min(unproven);
        self.filled_at = self.filled_at.max(now);
        let period = now.0 / all;
        if period > self.period {
            self.period = period;
            self.parts.values_mut().for_each(|part| part.spent = [0; 2]);
            self.parts.retain(|_, part| part.half_open > 0);
        }
    }

    /// Enters an opening into the table; copies of it lead to `index`.
    pub(crate) fn enter(&mut self, prefix: Option<Prefix>, mac1: [u8; 16], index: u32) {
        self.half_open += 1;
        if let Some(prefix) = prefix {
            self.parts.entry(prefix).or_default().half_open += 1;
        }
        self.copies.insert(mac1, index);
    }

    pub(crate) fn leave(&mut self, prefix: Option<Prefix>, mac1: &[u8; 16]) {
        self.half_open.give_back(1);
        self.copies.remove(mac1);
        if let Some(part) = prefix.and_then(|prefix| self.parts.get_mut(&prefix)) {
            part.half_open.give_back(1);
        }
    }

    /// The index of the epoch that an opening with this mac1 has begun.
    pub(crate) fn copy_of(&self, mac1: &[u8; 16]) -> Option<u32> {
        self.copies.get(mac1).copied()
    }

    /// Adds one more peer that is not confirmed. Returns the oldest such peer when there are too many.
    pub(crate) fn doubt(&mut self, place: u32, id: NodeId) -> Option<(u32, NodeId)> {
        self.doubted.push_back((place, id));
        if self.doubted.len() > self.cap { self.doubted.pop_front() } else { None }
    }

    pub(crate) const fn half_open(&self) -> usize {
        self.half_open
    }

    /// Reports what the gate holds: each figure, its bound, and whether it must be met exactly. `pending`: half-open channels of
    /// all peers.
    pub(crate) fn audit(&self, pending: u64, say: &mut impl FnMut(&'static str, u64, u64, bool)) {
        let fullest = self.parts.values().map(|part| part.half_open).max().unwrap_or(0);
        say("half-open channels", self.half_open as u64, self.cap as u64, false);
        say("half-open channels of one prefix", fullest as u64, self.cap_per_prefix as u64, false);
        say("half-open channels counted", self.half_open as u64, pending, true);
        say("openings that are answered again", self.copies.len() as u64, pending, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{IpAddr, Ipv4Addr};
    use core::time::Duration;

    /// 1,000 a second: 100 saved up; a prefix has an eighth.
    fn gate() -> Gate {
        let limits = Limits {
            openings_per_second: 1_000,
            half_open: 64,
            half_open_per_prefix: 8,
            ..Limits::default()
        };
        Gate::new(Mono(0), &limits, CookieJar::new([0; 32]))
    }

    fn network(n: u32) -> Option<Prefix> {
        Some(Prefix::of(IpAddr::V4(Ipv4Addr::from_bits(n << 8))))
    }

    fn payer(n: u32, proven: bool) -> (Option<Prefix>, bool) {
        (network(n), proven)
    }

    /// How many of `tries` openings are paid for, spread evenly over `span`.
    fn paid(
        gate: &mut Gate,
        from: Mono,
        span: Duration,
        tries: u32,
        payer: impl Fn(u32) -> (Option<Prefix>, bool),
    ) -> u32 {
        let admits = |i: &u32| {
            let (prefix, proven) = payer(*i);
            gate.admit(from + span * *i / tries, prefix, proven)
        };
        let count = (0..tries).filter(admits).count();
        u32::try_from(count).unwrap()
    }

    #[test]
    fn all_together_spend_what_was_saved_and_what_comes_in() {
        let taken = paid(&mut gate(), Mono(0), Duration::from_secs(1), 50_000, |i| payer(i, true));
        assert!((1_095..=1_101).contains(&taken), "{taken}");
    }

    #[test]
    fn the_unproven_spend_a_quarter_and_the_proven_find_the_rest() {
        let mut gate = gate();
        let unproven = paid(&mut gate, Mono(0), Duration::from_secs(1), 50_000, |i| payer(i, false));
        assert!((270..=276).contains(&unproven), "{unproven}");
        // Both in turn, from now on.
        let mut counts = [0; 2];
        for i in 0..50_000 {
            let (now, payer) = (Mono(1_000_000_000 + u64::from(i) * 20_000), payer(i, i % 2 == 0));
            let (prefix, proven) = payer;
            counts[usize::from(proven)] += u32::from(gate.admit(now, prefix, proven));
        }
        assert!(counts[0] <= 276 && counts[1] >= 800, "{counts:?}");
    }

    #[test]
    fn one_prefix_has_its_share_and_leaves_the_rest_to_others() {
        let mut gate = gate();
        let second = Duration::from_secs(1);
        // The half-open channels of a prefix are remembered for longer than a period.
        gate.enter(network(1), [1; 16], 1);
        let one = paid(&mut gate, Mono(0), second, 50_000, |_| payer(1, true));
        assert_eq!(one, 120, "12 in each of ten periods");
        let forged = paid(&mut gate, Mono(1_000_000_000), second, 50_000, |_| payer(1, false));
        assert_eq!(forged, 30, "a quarter of it");
        // Forged addresses of the prefix take nothing from it, and in the end both begin anew.
        assert!(gate.affords(Mono(1_990_000_000), network(1), true));
        assert!(gate.affords(Mono(1_990_000_000), network(2), false));
        assert!(!gate.affords(Mono(1_990_000_000), network(1), false));
        assert!(gate.affords(Mono(2_000_000_000), network(1), false));
    }

    #[test]
    fn this_machine_has_all_of_it() {
        let here = |_| (None, true);
        let taken = paid(&mut gate(), Mono(0), Duration::from_secs(1), 50_000, here);
        assert!((1_095..=1_101).contains(&taken), "{taken}");
    }

    #[test]
    fn what_is_remembered_is_of_one_period() {
        let mut gate = gate();
        for i in 0..20_u64 {
            paid(&mut gate, Mono(i * PERIOD), Duration::from_millis(99), 1_000, |j| payer(j, true));
            assert!(gate.parts.len() <= 200, "{}", gate.parts.len());
        }
    }
}
