//! A link: what it does to a datagram.

use core::time::Duration;

use exonet_proto::Mono;

use crate::Dice;

/// A time during which nothing passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Begins.
    pub from: Mono,
    /// Ends.
    pub until: Mono,
}

/// What a link does to datagrams, one way.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// Probability that a datagram is lost.
    pub loss: f64,
    /// Probability that it comes twice.
    pub duplicate: f64,
    /// Probability that a bit of it is changed.
    pub corrupt: f64,
    /// One-way delay.
    pub delay: Duration,
    /// Up to this is added to it, at random: more than the gap between datagrams reorders them.
    pub jitter: Duration,
    /// Probability that a copy comes back much later, up to `replay_after`.
    pub replay: f64,
    /// See `replay`.
    pub replay_after: Duration,
    /// Bytes per second; None: as many as come.
    pub rate: Option<u64>,
    /// Bytes that wait for the rate; what does not fit is dropped.
    pub queue: u64,
    /// Nothing passes.
    pub outages: Vec<Outage>,
}

impl LinkConfig {
    /// Nothing goes wrong; `delay` one way.
    pub const fn perfect(delay: Duration) -> Self {
        Self {
            loss: 0.0,
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

    /// As [`LinkConfig::perfect`], for `rate` bytes per second behind a queue of `queue` bytes.
    pub fn limited(delay: Duration, rate: u64, queue: u64) -> Self {
        Self { rate: Some(rate), queue, ..Self::perfect(delay) }
    }

    /// Whether nothing passes at `now`.
    pub fn is_down(&self, now: Mono) -> bool {
        self.outages.iter().any(|outage| outage.from <= now && now < outage.until)
    }
}

/// A link one way, and how busy it is.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) config: LinkConfig,
    /// The last datagram of the queue has left by then.
    busy: Mono,
}

impl Link {
    pub(crate) const fn new(config: LinkConfig) -> Self {
        Self { config, busy: Mono(0) }
    }

    /// When copies of a datagram of `bytes` that leaves at `now` arrive, and whether each is corrupt.
    pub(crate) fn fate(&mut self, now: Mono, bytes: u64, dice: &mut Dice) -> Vec<(Mono, bool)> {
        let mut arrivals = Vec::new();
        let config = &self.config;
        if config.is_down(now) || dice.chance(config.loss) {
            return arrivals;
        }
        let Some(out) = self.leaves(now, bytes) else {
            return arrivals;
        };
        let config = &self.config;
        let copies = if dice.chance(config.duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            let at = out + config.delay + spread(config.jitter, dice);
            arrivals.push((at, dice.chance(config.corrupt)));
        }
        if dice.chance(config.replay) {
            arrivals.push((out + spread(config.replay_after, dice), false));
        }
        arrivals
    }

    /// When it has passed the queue; None when that is full.
    fn leaves(&mut self, now: Mono, bytes: u64) -> Option<Mono> {
        let Some(rate) = self.config.rate else {
            return Some(now);
        };
        let nanos = |bytes: u64| Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate.max(1));
        if self.busy.since(now) > nanos(self.config.queue) {
            return None;
        }
        self.busy = self.busy.max(now) + nanos(bytes);
        Some(self.busy)
    }
}

fn spread(span: Duration, dice: &mut Dice) -> Duration {
    Duration::from_nanos(dice.below(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
}
