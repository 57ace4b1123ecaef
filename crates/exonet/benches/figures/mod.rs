//! What benches measure with.

use std::time::Duration;

/// Processor time of this process so far.
pub(crate) fn worked() -> Duration {
    #[cfg(target_os = "linux")]
    return nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID.now().unwrap().into();
    #[cfg(not(target_os = "linux"))]
    Duration::ZERO
}

/// The figure in the middle.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
