//! The clocks of one machine, with their errors.

use core::time::Duration;

use exonet_proto::{Mono, Now, Wall};

/// How a machine's clocks differ from the world's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockConfig {
    /// The monotonic clock gains this many nanoseconds per millisecond: within about ±1,000 on real machines.
    pub drift_ppm: i32,
    /// The wall clock is ahead by this many seconds. The number may be negative.
    pub skew_seconds: i64,
    /// Whether the monotonic clock begins again with every boot.
    pub reboots: bool,
}

/// The clocks of one machine. Monotonic time never runs back between two boots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachineClock {
    config: ClockConfig,
    /// The world's time at which the monotonic clock showed `base`.
    since: Mono,
    /// What the monotonic clock showed at `since`.
    base: u64,
    /// How far the wall clock is ahead of the world, in nanoseconds.
    wall: i128,
}

/// The wall clock at the world's origin: decades after 1970, so that a clock that is years behind is still valid.
pub(crate) const EPOCH: u64 = 1_700_000_000_000_000_000;

const MILLION: i128 = 1_000_000;

impl MachineClock {
    /// Makes clocks that agree with the world's at `now`, except as `config` says.
    pub(crate) fn new(now: Mono, config: ClockConfig) -> Self {
        let wall = i128::from(config.skew_seconds) * 1_000_000_000;
        Self { config, since: now, base: now.0, wall }
    }

    /// Starts the machine at `now`.
    pub(crate) fn boot(&mut self, now: Mono) {
        if self.config.reboots {
            (self.since, self.base) = (now, 1_000_000_000);
        }
    }

    /// Sets the wall clock forward or back by `seconds`.
    pub(crate) fn set_wall(&mut self, seconds: i64) {
        self.wall += i128::from(seconds) * 1_000_000_000;
    }

    /// What the machine's clocks show when the world's time is `at`.
    pub(crate) fn read(&self, at: Mono) -> Now {
        let true_span = i128::from(at.0.saturating_sub(self.since.0));
        let span = true_span + true_span * i128::from(self.config.drift_ppm) / MILLION;
        let wall = i128::from(EPOCH) + i128::from(at.0) + self.wall;
        let clamp = |nanos: i128| u64::try_from(nanos.max(0)).unwrap_or(u64::MAX);
        Now { mono: Mono(clamp(i128::from(self.base) + span)), wall: Wall(clamp(wall)) }
    }

    /// The world's time at which this machine's monotonic clock reaches `mono`.
    pub(crate) fn reaches(&self, mono: Mono) -> Mono {
        if mono == Mono::NEVER {
            return mono;
        }
        let span = i128::from(mono.0.saturating_sub(self.base));
        let true_span = span * MILLION / (MILLION + i128::from(self.config.drift_ppm));
        let mut at = self.since + Duration::from_nanos(u64::try_from(true_span).unwrap_or(u64::MAX));
        // Rounding causes an error of a nanosecond or two.
        while self.read(at).mono < mono {
            at += Duration::from_nanos(1);
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_rings_when_the_machine_reads_that_time_and_not_before() {
        for drift_ppm in [-900, -200, -1, 0, 1, 200, 900] {
            let config = ClockConfig { drift_ppm, skew_seconds: -5, reboots: true };
            let mut clock = MachineClock::new(Mono(1_000), config);
            for boot in [1_000, 7_000_000_123] {
                clock.boot(Mono(boot));
                for ahead in [0, 1, 999, 1_000_001, 86_400_000_000_007] {
                    let wanted = clock.read(Mono(boot)).mono + Duration::from_nanos(ahead);
                    let at = clock.reaches(wanted);
                    assert!(clock.read(at).mono >= wanted);
                    assert!(
                        at == Mono(boot) || clock.read(Mono(at.0 - 2)).mono < wanted,
                        "{drift_ppm} {ahead}"
                    );
                }
            }
        }
    }
}
