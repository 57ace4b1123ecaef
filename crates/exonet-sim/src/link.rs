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

/// What a link does to datagrams, each way.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// Probability that a datagram is lost.
    pub loss: f64,
    /// Probability that it comes twice.
    pub duplicate: f64,
    /// Probability that a byte of it is changed.
    pub corrupt: f64,
    /// One-way delay.
    pub delay: Duration,
    /// Up to this is added to it, at random: more than the gap between datagrams reorders them.
    pub jitter: Duration,
    /// Probability that a copy comes back much later, up to `replay_after`.
    pub replay: f64,
    /// See `replay`.
    pub replay_after: Duration,
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
            outages: Vec::new(),
        }
    }

    /// When copies of a datagram that leaves at `now` arrive, and whether each is corrupt.
    pub(crate) fn fate(&self, now: Mono, dice: &mut Dice) -> Vec<(Mono, bool)> {
        let mut arrivals = Vec::new();
        let down = self.outages.iter().any(|outage| outage.from <= now && now < outage.until);
        if !down && !dice.chance(self.loss) {
            let copies = if dice.chance(self.duplicate) { 2 } else { 1 };
            for _ in 0..copies {
                arrivals.push((self.arrival(now, dice), dice.chance(self.corrupt)));
            }
            if dice.chance(self.replay) {
                arrivals.push((now + spread(self.replay_after, dice), false));
            }
        }
        arrivals
    }

    fn arrival(&self, now: Mono, dice: &mut Dice) -> Mono {
        now + self.delay + spread(self.jitter, dice)
    }
}

fn spread(span: Duration, dice: &mut Dice) -> Duration {
    Duration::from_nanos(dice.below(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
}
