//! The clocks of the system, in the units of the core.

use core::time::Duration;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use exonet_proto::{Mono, Now, Wall};

use monotonic::Monotonic;

/// For this many nanoseconds, the clock extrapolates the time of day from the monotonic clock; then it reads the time
/// of day again.
const WALL_EVERY: u64 = 1_000_000;

/// The monotonic clock and the time of day. The node reads them several times per datagram, so this reads the time of
/// day from the system only once a millisecond.
pub(crate) struct Clock {
    monotonic: Monotonic,
    /// When this last read the time of day, and the time that it read.
    read_at: AtomicU64,
    wall: AtomicU64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let clock =
            Self { monotonic: Monotonic::start(), read_at: AtomicU64::new(0), wall: AtomicU64::new(0) };
        clock.look(clock.mono());
        clock
    }

    pub(crate) fn mono(&self) -> Mono {
        self.monotonic.read()
    }

    /// Returns the time of both clocks. The caller must hold the node's lock, since `read_at` and `wall` belong
    /// together.
    pub(crate) fn now(&self) -> Now {
        let mono = self.mono();
        let since = mono.0.saturating_sub(self.read_at.load(Ordering::Relaxed));
        if since < WALL_EVERY {
            return Now { mono, wall: Wall(self.wall.load(Ordering::Relaxed) + since) };
        }
        Now { mono, wall: self.look(mono) }
    }

    fn look(&self, mono: Mono) -> Wall {
        let wall = wall();
        self.read_at.store(mono.0, Ordering::Relaxed);
        self.wall.store(wall.0, Ordering::Relaxed);
        wall
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

    /// `CLOCK_BOOTTIME`, which goes on while the machine is suspended.
    pub(super) struct Monotonic;

    impl Monotonic {
        pub(super) fn start() -> Self {
            Self
        }

        pub(super) fn read(&self) -> Mono {
            Mono(super::nanos(read(ClockId::Boottime)))
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod monotonic {
    use std::time::Instant;

    use exonet_proto::Mono;

    /// `Instant`, which on some systems stands still while the machine is suspended.
    pub(super) struct Monotonic(Instant);

    impl Monotonic {
        pub(super) fn start() -> Self {
            Self(Instant::now())
        }

        pub(super) fn read(&self) -> Mono {
            Mono(super::nanos(self.0.elapsed()))
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
