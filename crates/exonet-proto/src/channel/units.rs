//! Conversions between spans, bytes and rates that saturate instead of failing.

use core::time::Duration;

/// Nanoseconds in a second.
pub(super) const SECOND: u64 = 1_000_000_000;

/// Nanoseconds in a microsecond.
pub(super) const MICROSECOND: u64 = 1_000;

/// A span in nanoseconds.
pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// `a * b / c`, rounded down; the largest number if `c` is zero or the result does not fit.
pub(super) fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    (u128::from(a) * u128::from(b))
        .checked_div(u128::from(c))
        .and_then(|x| u64::try_from(x).ok())
        .unwrap_or(u64::MAX)
}

/// How many bytes pass in `span` at `rate` bytes per second.
pub(super) fn bytes_in(rate: u64, span: Duration) -> u64 {
    mul_div(rate, nanos(span), SECOND)
}

/// A span times a factor that is not negative.
pub(super) fn scale(span: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(span.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

/// A length in bytes.
pub(super) fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
