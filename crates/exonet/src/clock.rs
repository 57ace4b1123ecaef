//! The clocks of the system, in the core's units.

use core::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use exonet_proto::{Now, Wall};

pub(crate) use monotonic::Clock;

impl Clock {
    /// Both clocks, read together.
    pub(crate) fn now(&self) -> Now {
        Now { mono: self.mono(), wall: wall() }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn wall() -> Wall {
    Wall(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanos))
}

#[cfg(target_os = "linux")]
mod monotonic {
    use core::time::Duration;

    use exonet_proto::Mono;
    use rustix::time::{ClockId, clock_gettime};

    fn read(id: ClockId) -> Duration {
        Duration::try_from(clock_gettime(id)).unwrap_or_default()
    }

    /// `CLOCK_BOOTTIME`, which counts through a suspend.
    pub(crate) struct Clock;

    impl Clock {
        pub(crate) fn start() -> Self {
            Self
        }

        pub(crate) fn mono(&self) -> Mono {
            Mono(super::nanos(read(ClockId::Boottime)))
        }

        /// How long the machine has been suspended since it booted.
        pub(crate) fn suspended(&self) -> Duration {
            // Read in this order the difference can only come out too small, never as a suspend that was none.
            let boot = read(ClockId::Boottime);
            boot.saturating_sub(read(ClockId::Monotonic))
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod monotonic {
    use core::time::Duration;
    use std::time::Instant;

    use exonet_proto::Mono;

    /// `Instant`, which may or may not count through a suspend: a late timer tells as well.
    pub(crate) struct Clock(Instant);

    impl Clock {
        pub(crate) fn start() -> Self {
            Self(Instant::now())
        }

        pub(crate) fn mono(&self) -> Mono {
            Mono(super::nanos(self.0.elapsed()))
        }

        pub(crate) fn suspended(&self) -> Duration {
            Duration::ZERO
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_run_back() {
        let clock = Clock::start();
        let mut last = clock.now();
        for _ in 0..1000 {
            let now = clock.now();
            assert!(now.mono >= last.mono);
            last = now;
        }
        assert!(last.wall.0 > 1_500_000_000_000_000_000, "nanoseconds since 1970");
    }
}
