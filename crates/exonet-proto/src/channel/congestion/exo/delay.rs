//! What delays show: the propagation time, the queue now and over a round, and the deepest queue seen.

/// How many seconds a bucket of the least delay lasts; longer where rivals hardly ever leave the queue empty.
const BUCKET: f64 = 5.0;
const BUCKET_IN_COMPETITION: f64 = 20.0;

/// When the buckets change, the depth seen shrinks to this share.
const FADE: f64 = 0.8;

/// A rise of the least delay by no more than this share plus these seconds is accepted at once.
const RISE: f64 = 0.05;
const RISE_SECONDS: f64 = 0.0005;

/// A queue counts as standing if it is a little shorter than CoDel's target or longer, for a little less than CoDel's interval
/// (RFC 8289, section 4.3).
const STANDING: f64 = 0.004;
const STANDS_AFTER: f64 = 0.09;

/// Delays of one path, in seconds.
#[derive(Clone, Debug)]
pub(super) struct Delay {
    base: Option<f64>,
    /// The least delay of this bucket and of the one before.
    bucket: f64,
    bucket_before: f64,
    bucket_since: f64,
    /// The least delay of about the last half round trip, in two parts.
    recent: f64,
    recent_before: f64,
    recent_since: f64,
    /// The least and the greatest delay of the present round.
    low: f64,
    high: f64,
    /// The previous round.
    pub(super) round: Round,
    /// The delay measured last.
    latest: f64,
    /// The queue now.
    pub(super) queue: f64,
    /// The deepest queue seen lately.
    pub(super) ceiling: f64,
    smoothed: Option<f64>,
    /// Since when the queue has not been shorter than CoDel allows.
    standing: Option<f64>,
}

/// The delays of a round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    /// The least queue in it.
    pub(super) queue: f64,
    /// The least and the greatest delay.
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Default for Delay {
    fn default() -> Self {
        Self {
            base: None,
            bucket: f64::INFINITY,
            bucket_before: f64::INFINITY,
            bucket_since: 0.0,
            recent: f64::INFINITY,
            recent_before: f64::INFINITY,
            recent_since: 0.0,
            low: f64::INFINITY,
            high: 0.0,
            round: Round::default(),
            latest: 0.0,
            queue: 0.0,
            ceiling: 0.0,
            smoothed: None,
            standing: None,
        }
    }
}

impl Delay {
    /// The propagation time. It is a tenth of a second before the first sample.
    pub(super) fn base(&self) -> f64 {
        self.base.unwrap_or(0.1).max(1e-6)
    }

    /// Takes a delay measured at `now`; `srtt` is the smoothed round trip.
    pub(super) fn on_sample(&mut self, now: f64, delay: f64, srtt: f64) {
        self.low = self.low.min(delay);
        self.high = self.high.max(delay);
        let base = self.base.map_or(delay, |base| base.min(delay));
        self.base = Some(base);
        self.bucket = self.bucket.min(delay);
        if now - self.recent_since > srtt / 4.0 {
            self.recent_before = std::mem::replace(&mut self.recent, f64::INFINITY);
            self.recent_since = now;
        }
        self.recent = self.recent.min(delay);
        self.latest = delay;
        self.queue = (self.recent.min(self.recent_before) - base).max(0.0);
        self.ceiling = self.ceiling.max(delay - base);
        self.smoothed = Some(self.smoothed.map_or(delay, |smoothed| smoothed + (delay - smoothed) / 8.0));
    }

    /// Notes whether the queue is longer than CoDel allows, and longer than `least`.
    pub(super) fn note_standing(&mut self, now: f64, least: f64) {
        if self.latest - self.base() < STANDING.max(least) {
            self.standing = None;
        } else {
            self.standing.get_or_insert(now);
        }
    }

    /// Whether the queue has been long for such a time that CoDel would signal it.
    pub(super) fn stands(&self, now: f64) -> bool {
        self.standing.is_some_and(|since| now - since > STANDS_AFTER)
    }

    /// Forgets old minima. `Err`: none of them was as low as the propagation time, and the difference is so great that the queue
    /// may be the reason. The value is the new propagation time if the queue is not.
    pub(super) fn roll(&mut self, now: f64, competing: bool) -> Result<(), f64> {
        if now - self.bucket_since <= if competing { BUCKET_IN_COMPETITION } else { BUCKET } {
            return Ok(());
        }
        let least = self.bucket.min(self.bucket_before);
        self.bucket_before = std::mem::replace(&mut self.bucket, f64::INFINITY);
        self.bucket_since = now;
        self.ceiling *= FADE;
        match self.base {
            Some(base) if least.is_finite() && least > base => {
                if least > base * (1.0 + RISE) + RISE_SECONDS {
                    return Err(least);
                }
                self.base = Some(least);
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes `base` as the propagation time.
    pub(super) fn believe(&mut self, base: f64) {
        self.base = Some(base);
    }

    /// Counts only delays from now on, which are measured with a short queue: see [`Delay::accept`].
    pub(super) fn watch(&mut self) {
        self.bucket = f64::INFINITY;
    }

    /// Takes the least delay since [`Delay::watch`] as the propagation time, at most `most`.
    pub(super) fn accept(&mut self, most: f64) {
        if self.bucket.is_finite() {
            self.base = Some(self.bucket.min(most));
        }
    }

    /// The route has changed: `base` is the propagation time, and nothing is known of queues.
    pub(super) fn reroute(&mut self, now: f64, base: f64) {
        self.base = Some(base);
        (self.bucket, self.bucket_before, self.bucket_since) = (base, base, now);
        self.ceiling = 0.0;
    }

    /// A round has ended. False: nothing was measured in it.
    pub(super) fn end_round(&mut self) -> bool {
        let measured = self.low.is_finite();
        if measured {
            self.round = Round { queue: (self.low - self.base()).max(0.0), low: self.low, high: self.high };
        }
        (self.low, self.high) = (f64::INFINITY, 0.0);
        measured
    }

    /// The queue on the way back, and the time for which the peer waits, given the smoothed round trip.
    pub(super) fn reverse(&self, srtt: f64) -> f64 {
        self.smoothed.map_or(0.0, |smoothed| (srtt - smoothed).max(0.0))
    }

    /// Whether the queue was near the deepest queue seen, and that was not small: the queue is likely to have caused a loss.
    pub(super) fn is_near_ceiling(&self) -> bool {
        let queue = self.queue.max(self.latest - self.base());
        queue > 0.6 * self.ceiling && self.ceiling > 0.2 * self.base()
    }

    /// Whether the queue is far from the deepest queue seen, or that was hardly a queue: a loss is likely to have another cause.
    /// `slack` is the inaccuracy of the measurement.
    pub(super) fn is_calm(&self, slack: f64) -> bool {
        self.queue < 0.5 * self.base()
            && (self.queue < 0.4 * self.ceiling || self.ceiling < 0.15 * self.base() + slack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn the_queue_is_what_the_least_delay_lately_has_above_the_least_of_all() {
        let mut delay = Delay::default();
        delay.on_sample(0.0, 0.010, 0.01);
        delay.on_sample(0.1, 0.025, 0.01);
        delay.on_sample(0.2, 0.016, 0.01);
        delay.on_sample(0.201, 0.030, 0.01);
        assert!(near(delay.queue, 0.006), "{}", delay.queue);
        assert!(near(delay.ceiling, 0.020));
        assert!(delay.end_round());
        assert!(near(delay.round.high, 0.030) && near(delay.round.low, 0.010));
        assert!(!delay.end_round(), "nothing measured");
    }

    #[test]
    fn a_small_rise_is_taken_and_a_large_one_is_asked_about() {
        let mut delay = Delay::default();
        delay.on_sample(0.0, 0.010, 0.01);
        assert_eq!(delay.roll(5.1, false), Ok(()));
        delay.on_sample(5.2, 0.0107, 0.01);
        assert_eq!(delay.roll(5.3, false), Ok(()));
        assert_eq!(delay.roll(10.2, false), Ok(()), "the bucket before still has the old one");
        delay.on_sample(10.3, 0.0107, 0.01);
        assert_eq!(delay.roll(15.4, false), Ok(()));
        assert!(near(delay.base(), 0.0107));
        delay.on_sample(15.5, 0.020, 0.01);
        assert_eq!(delay.roll(20.5, true), Ok(()), "patience in competition");
        assert_eq!(delay.roll(20.5, false), Ok(()));
        delay.on_sample(20.6, 0.020, 0.01);
        assert_eq!(delay.roll(25.7, false), Err(0.020));
        assert!(near(delay.base(), 0.0107), "not believed yet");
        delay.watch();
        delay.on_sample(26.0, 0.015, 0.01);
        delay.accept(0.020);
        assert!(near(delay.base(), 0.015));
    }

    #[test]
    fn losses_at_the_ceiling_are_the_queues() {
        let mut delay = Delay::default();
        delay.on_sample(0.0, 0.010, 0.01);
        assert!(delay.is_calm(0.0003));
        delay.on_sample(1.0, 0.020, 0.01);
        assert!(delay.is_near_ceiling());
        delay.on_sample(1.0, 0.015, 0.01);
        delay.on_sample(2.0, 0.013, 0.01);
        delay.on_sample(3.0, 0.013, 0.01);
        assert!(!delay.is_near_ceiling());
        assert!(delay.is_calm(0.0003));
    }
}
