//! A link, and what it does to datagrams.

use core::time::Duration;

use exonet_proto::Mono;

use crate::Dice;

/// A time during which nothing passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When it begins.
    pub from: Mono,
    /// When it ends.
    pub until: Mono,
}

/// Losses in bursts, after Gilbert and Elliott: a link is good or bad, and may change with each datagram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// The probability that a good link turns bad.
    pub enter: f64,
    /// The probability that a bad link turns good.
    pub leave: f64,
    /// The probability that a bad link loses a datagram.
    pub loss: f64,
}

/// The properties of a link in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// The probability that a datagram is lost.
    pub loss: f64,
    /// Additional losses in bursts.
    pub bursts: Option<Bursts>,
    /// The probability that a datagram arrives twice.
    pub duplicate: f64,
    /// The probability that a bit of a datagram is changed.
    pub corrupt: f64,
    /// The one-way delay.
    pub delay: Duration,
    /// A random duration up to this is added to the delay. If it is longer than the gap between datagrams, they are
    /// reordered.
    pub jitter: Duration,
    /// The probability that a copy arrives much later, up to `replay_after`.
    pub replay: f64,
    /// The longest delay of such a copy.
    pub replay_after: Duration,
    /// The rate in bytes per second. None: no limit.
    pub rate: Option<u64>,
    /// The capacity of the queue before the link, in bytes; datagrams that do not fit are dropped.
    pub queue: u64,
    /// Times during which nothing passes.
    pub outages: Vec<Outage>,
}

impl LinkConfig {
    /// A link without faults, with this one-way `delay`.
    pub const fn perfect(delay: Duration) -> Self {
        Self {
            loss: 0.0,
            bursts: None,
            duplicate: 0.0,
            corrupt: 0.0,
            delay,
            jitter: Duration::ZERO,
            replay: 0.0,
            replay_after: Duration::ZERO,
            rate: None,
            queue: 0,
            outages: Vec::new(),
        }
    }

    /// Like [`LinkConfig::perfect`], for `rate` bytes per second behind a queue of `queue` bytes.
    pub fn limited(delay: Duration, rate: u64, queue: u64) -> Self {
        Self { rate: Some(rate), queue, ..Self::perfect(delay) }
    }

    /// Whether nothing passes at `now`.
    pub fn is_down(&self, now: Mono) -> bool {
        self.outages.iter().any(|outage| outage.from <= now && now < outage.until)
    }
}

/// A copy of a datagram that arrives, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(crate) at: Mono,
    /// The index of the bit that is changed, modulo the number of bits.
    pub(crate) flipped: Option<u64>,
}

/// A link in one direction: its properties and its state.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    config: LinkConfig,
    /// Temporary properties. The last ones apply.
    weathers: Vec<(u64, LinkConfig)>,
    dice: Dice,
    /// When the last datagram of the queue leaves.
    busy: Mono,
    /// Whether the link is bad: see [`Bursts`].
    bad: bool,
}

impl Link {
    pub(crate) const fn new(config: LinkConfig, dice: Dice) -> Self {
        Self { config, weathers: Vec::new(), dice, busy: Mono(0), bad: false }
    }

    /// Gives the link the properties `config` from now on.
    pub(crate) fn set(&mut self, config: LinkConfig) {
        (self.config, self.busy, self.bad) = (config, Mono(0), false);
    }

    /// Changes the link until [`Link::clear`] is called with the same name.
    pub(crate) fn cloud(&mut self, name: u64, change: impl FnOnce(&LinkConfig) -> LinkConfig) {
        self.weathers.push((name, change(&self.config)));
    }

    pub(crate) fn clear(&mut self, name: u64) {
        self.weathers.retain(|(known, _)| *known != name);
    }

    /// The copies of a datagram of `bytes` that leaves at `now`.
    pub(crate) fn fate(&mut self, now: Mono, bytes: u64) -> Vec<Copied> {
        let Self { config, weathers, dice, .. } = self;
        let config = weathers.last().map_or(&*config, |(_, config)| config);
        let mut arrivals = Vec::new();
        if config.is_down(now) || dice.chance(config.loss) {
            return arrivals;
        }
        if let Some(bursts) = config.bursts {
            self.bad = if self.bad { !dice.chance(bursts.leave) } else { dice.chance(bursts.enter) };
            if self.bad && dice.chance(bursts.loss) {
                return arrivals;
            }
        }
        let Some(out) = leaves(config, &mut self.busy, now, bytes) else {
            return arrivals;
        };
        let copies = if dice.chance(config.duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            let at = out + config.delay + spread(config.jitter, dice);
            let flipped = dice.chance(config.corrupt).then(|| dice.below(bytes * 8));
            arrivals.push(Copied { at, flipped });
        }
        if dice.chance(config.replay) {
            arrivals.push(Copied { at: out + spread(config.replay_after, dice), flipped: None });
        }
        arrivals
    }
}

/// When the datagram leaves the queue; None when the queue is full.
fn leaves(config: &LinkConfig, busy: &mut Mono, now: Mono, bytes: u64) -> Option<Mono> {
    let Some(rate) = config.rate else {
        return Some(now);
    };
    let nanos = |bytes: u64| Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate.max(1));
    if busy.since(now) > nanos(config.queue) {
        return None;
    }
    *busy = (*busy).max(now) + nanos(bytes);
    Some(*busy)
}

fn spread(span: Duration, dice: &mut Dice) -> Duration {
    Duration::from_nanos(dice.below(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn losses_of_a_bad_time_come_together() {
        let bursts = Some(Bursts { enter: 0.01, leave: 0.1, loss: 1.0 });
        let mut link = Link::new(LinkConfig { bursts, ..LinkConfig::perfect(MS) }, Dice::new(1));
        let lost: Vec<bool> = (0..100_000).map(|_| link.fate(Mono(0), 100).is_empty()).collect();
        let total = lost.iter().filter(|lost| **lost).count();
        let runs = lost.windows(2).filter(|pair| matches!(pair, [false, true])).count();
        assert!((7_000..11_000).contains(&total), "one in eleven: {total}");
        assert!((8..12).contains(&(total / runs)), "ten in a row: {total} in {runs}");
    }

    #[test]
    fn the_last_weather_holds_and_each_ends_by_its_name() {
        let mut link = Link::new(LinkConfig::perfect(MS), Dice::new(1));
        link.cloud(1, |base| LinkConfig { delay: 10 * MS, ..base.clone() });
        link.cloud(2, |base| LinkConfig { delay: 20 * MS, ..base.clone() });
        let delay = |link: &mut Link| link.fate(Mono(0), 1).first().map(|copy| copy.at.0 / 1_000_000);
        assert_eq!(delay(&mut link), Some(20));
        link.clear(1);
        assert_eq!(delay(&mut link), Some(20));
        link.clear(2);
        assert_eq!(delay(&mut link), Some(1));
    }
}
