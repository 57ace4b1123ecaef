//! Filters over rounds: the round counter, and the greatest value of the last rounds.

use std::collections::VecDeque;

/// Counts round trips by what has been delivered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    count: u64,
    ends_at: u64,
    /// When the last round ended.
    since: f64,
}

impl Rounds {
    /// A packet is acknowledged that left when `prior` bytes had been delivered; now `delivered` bytes are. True when a round
    /// ends: the packet left after the last round had ended, and that was at least `least` seconds ago.
    pub(super) fn on_ack(&mut self, now: f64, least: f64, prior: Option<u64>, delivered: u64) -> bool {
        let ended = now - self.since >= least && prior.is_some_and(|prior| prior >= self.ends_at);
        if ended {
            self.count += 1;
            (self.ends_at, self.since) = (delivered, now);
        }
        ended
    }

    /// How many rounds have ended.
    pub(super) fn count(&self) -> u64 {
        self.count
    }
}

/// The greatest value of the last rounds.
#[derive(Clone, Debug)]
pub(super) struct MaxFilter {
    span: u64,
    /// In ascending order of rounds and descending order of values.
    values: VecDeque<(u64, f64)>,
}

impl MaxFilter {
    /// A filter over `span` rounds before the present one.
    pub(super) const fn new(span: u64) -> Self {
        Self { span, values: VecDeque::new() }
    }

    pub(super) fn update(&mut self, round: u64, value: f64) {
        while self.values.back().is_some_and(|(_, last)| *last <= value) {
            self.values.pop_back();
        }
        self.values.push_back((round, value));
        while self.values.front().is_some_and(|(first, _)| first + self.span < round) {
            self.values.pop_front();
        }
    }

    /// Forgets all values but `value`.
    pub(super) fn reset(&mut self, round: u64, value: f64) {
        self.values.clear();
        self.values.push_back((round, value));
    }

    /// The greatest value; zero before the first.
    pub(super) fn get(&self) -> f64 {
        self.values.front().map_or(0.0, |(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_ends_with_a_packet_sent_after_the_last_end() {
        let mut rounds = Rounds::default();
        assert!(rounds.on_ack(0.0, 0.0, Some(0), 1_000));
        assert!(!rounds.on_ack(0.1, 0.0, Some(500), 2_000));
        assert!(!rounds.on_ack(0.2, 0.0, None, 3_000));
        assert!(rounds.on_ack(0.3, 0.0, Some(1_000), 4_000));
        assert_eq!(rounds.count(), 2);
    }

    #[test]
    fn a_round_lasts_as_long_as_it_has_to() {
        let mut rounds = Rounds::default();
        assert!(rounds.on_ack(0.5, 0.004, Some(0), 1_000));
        assert!(!rounds.on_ack(0.503, 0.004, Some(1_000), 2_000));
        assert!(rounds.on_ack(0.504, 0.004, Some(1_500), 3_000));
        assert!(!rounds.on_ack(0.509, 0.004, Some(2_500), 4_000), "it left in the last one");
    }

    #[test]
    fn the_greatest_lasts_as_many_rounds_as_said() {
        let mut filter = MaxFilter::new(10);
        assert!(filter.get().abs() < f64::EPSILON);
        filter.update(1, 9.0);
        filter.update(5, 7.0);
        filter.update(6, 3.0);
        for (round, greatest) in [(11, 9.0), (12, 7.0), (15, 7.0), (16, 3.0)] {
            filter.update(round, 1.0);
            assert!((filter.get() - greatest).abs() < f64::EPSILON, "{round}");
        }
        filter.reset(17, 2.0);
        assert!((filter.get() - 2.0).abs() < f64::EPSILON);
    }
}
