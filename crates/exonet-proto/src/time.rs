//! Time as the core sees it: passed in from outside, never read.
//!
//! Both clocks count nanoseconds in 64 bits: 584 years, so arithmetic saturates rather than fails.

use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A point on a monotonic clock, in nanoseconds from an origin of the caller's choice.
///
/// It must count through a suspend of the machine where the system offers such a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(pub u64);

impl Mono {
    /// A point that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// The span since `earlier`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Mono {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }
}

impl AddAssign<Duration> for Mono {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Duration> for Mono {
    type Output = Self;
    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }
}

/// A point on the wall clock, in nanoseconds since 1970-01-01 UTC. It may be wrong and may jump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(pub u64);

/// The time at which the core is called: both clocks, read together by the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Every timer depends on it.
    pub mono: Mono,
    /// It never decides correctness; it travels in a RETRY and, later, in stamps.
    pub wall: Wall,
}
