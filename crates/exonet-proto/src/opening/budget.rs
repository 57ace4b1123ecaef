//! What openings may cost: a budget of public-key work, and how much of it each network prefix may spend.

use std::collections::BTreeMap;

use super::prefix::Prefix;
use crate::config::Limits;
use crate::time::Mono;

/// Budget is saved up for this long at most, and counted by prefix in periods of it.
const PERIOD: u64 = 100_000_000;
/// The part of the budget, and of each prefix's share of it, that openings may spend without having proven their address.
const UNPROVEN: u64 = 4;

/// The network that pays for an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Payer {
    /// Where it says that it comes from. None: from this machine, whose programs are not told apart.
    pub(crate) prefix: Option<Prefix>,
    /// It has returned a cookie, so that it does come from there.
    pub(crate) proven: bool,
}

/// Nanoseconds of budget: there are as many as pass, and an opening has its price in them.
///
/// What forged addresses spend is counted apart everywhere, so that it takes nothing from a node that proves the same address.
#[derive(Debug)]
pub(crate) struct Budget {
    price: u64,
    /// The most that is saved up, by all and by those unproven.
    savings: u64,
    unproven_savings: u64,
    /// What one prefix may spend in a period.
    share: u64,
    left: u64,
    unproven_left: u64,
    filled_at: Mono,
    /// What each has spent in the period that is counted.
    spent: BTreeMap<Payer, u64>,
    period: u64,
}

impl Budget {
    /// A prefix's share of the budget is its share of the half-open table.
    pub(crate) fn new(now: Mono, limits: &Limits) -> Self {
        let price = 1_000_000_000 / u64::from(limits.openings_per_second.max(1));
        let price = price.max(1);
        let savings = PERIOD.max(price);
        let unproven_savings = (savings / UNPROVEN).max(price);
        let (part, whole) = (limits.half_open_per_prefix as u64, limits.half_open.max(1) as u64);
        Self {
            price,
            savings,
            unproven_savings,
            share: savings.saturating_mul(part) / whole,
            left: savings,
            unproven_left: unproven_savings,
            filled_at: now,
            spent: BTreeMap::new(),
            period: now.0 / savings,
        }
    }

    /// Whether `payer` can pay for an opening.
    pub(crate) fn affords(&mut self, now: Mono, payer: Payer) -> bool {
        self.refill(now);
        let left = if payer.proven { self.left } else { self.left.min(self.unproven_left) };
        let share = if payer.proven { self.share } else { self.share / UNPROVEN };
        let spent = self.spent.get(&payer).copied().unwrap_or(0);
        left >= self.price && (payer.prefix.is_none() || spent + self.price <= share.max(self.price))
    }

    /// One more opening is worked on.
    pub(crate) fn pay(&mut self, payer: Payer) {
        self.left = self.left.saturating_sub(self.price);
        if !payer.proven {
            self.unproven_left = self.unproven_left.saturating_sub(self.price);
        }
        *self.spent.entry(payer).or_default() += self.price;
    }

    fn refill(&mut self, now: Mono) {
        let since = u64::try_from(now.since(self.filled_at).as_nanos()).unwrap_or(u64::MAX);
        self.left = self.left.saturating_add(since).min(self.savings);
        self.unproven_left = self.unproven_left.saturating_add(since / UNPROVEN).min(self.unproven_savings);
        self.filled_at = self.filled_at.max(now);
        let period = now.0 / self.savings;
        if period > self.period {
            self.period = period;
            self.spent.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{IpAddr, Ipv4Addr};
    use core::time::Duration;

    /// 1,000 a second: 100 saved up; a prefix has an eighth.
    fn budget() -> Budget {
        let limits = Limits {
            openings_per_second: 1_000,
            half_open: 64,
            half_open_per_prefix: 8,
            ..Limits::default()
        };
        Budget::new(Mono(0), &limits)
    }

    fn payer(network: u32, proven: bool) -> Payer {
        let ip = IpAddr::V4(Ipv4Addr::from_bits(network << 8));
        Payer { prefix: Some(Prefix::of(ip)), proven }
    }

    /// How many of `tries` openings are paid for, spread evenly over `span`.
    fn paid(
        budget: &mut Budget,
        from: Mono,
        span: Duration,
        tries: u32,
        payer: impl Fn(u32) -> Payer,
    ) -> u32 {
        let afford = |i: &u32| {
            let can = budget.affords(from + span * *i / tries, payer(*i));
            if can {
                budget.pay(payer(*i));
            }
            can
        };
        let count = (0..tries).filter(afford).count();
        u32::try_from(count).unwrap()
    }

    #[test]
    fn all_together_spend_what_was_saved_and_what_comes_in() {
        let taken = paid(&mut budget(), Mono(0), Duration::from_secs(1), 50_000, |i| payer(i, true));
        assert!((1_095..=1_101).contains(&taken), "{taken}");
    }

    #[test]
    fn the_unproven_spend_a_quarter_and_the_proven_find_the_rest() {
        let mut budget = budget();
        let unproven = paid(&mut budget, Mono(0), Duration::from_secs(1), 50_000, |i| payer(i, false));
        assert!((270..=276).contains(&unproven), "{unproven}");
        // Both in turn, from now on.
        let mut counts = [0; 2];
        for i in 0..50_000 {
            let (now, payer) = (Mono(1_000_000_000 + u64::from(i) * 20_000), payer(i, i % 2 == 0));
            if budget.affords(now, payer) {
                budget.pay(payer);
                counts[usize::from(payer.proven)] += 1;
            }
        }
        assert!(counts[0] <= 276 && counts[1] >= 800, "{counts:?}");
    }

    #[test]
    fn one_prefix_has_its_share_and_leaves_the_rest_to_others() {
        let mut budget = budget();
        let second = Duration::from_secs(1);
        let one = paid(&mut budget, Mono(0), second, 50_000, |_| payer(1, true));
        assert_eq!(one, 120, "12 in each of ten periods");
        let forged = paid(&mut budget, Mono(1_000_000_000), second, 50_000, |_| payer(1, false));
        assert_eq!(forged, 30, "a quarter of it");
        // Those who forge its address take nothing from it, and in the end both begin anew.
        assert!(budget.affords(Mono(1_990_000_000), payer(1, true)));
        assert!(budget.affords(Mono(1_990_000_000), payer(2, false)));
        assert!(!budget.affords(Mono(1_990_000_000), payer(1, false)));
        assert!(budget.affords(Mono(2_000_000_000), payer(1, false)));
    }

    #[test]
    fn this_machine_has_all_of_it() {
        let here = |_| Payer { prefix: None, proven: true };
        let taken = paid(&mut budget(), Mono(0), Duration::from_secs(1), 50_000, here);
        assert!((1_095..=1_101).contains(&taken), "{taken}");
    }

    #[test]
    fn what_is_remembered_is_of_one_period() {
        let mut budget = budget();
        for i in 0..20_u64 {
            paid(&mut budget, Mono(i * PERIOD), Duration::from_millis(99), 1_000, |j| payer(j, true));
            assert!(budget.spent.len() <= 200, "{}", budget.spent.len());
        }
    }
}
