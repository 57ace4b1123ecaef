//! Durations, which the library reports to a recorder of metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use exonet::stats::TIMES;
use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};

/// The upper bounds of the buckets in seconds: from a round trip on loopback to a peer that is away.
pub(super) const BOUNDS: [f64; 18] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    60.0, 600.0,
];

/// The durations of one kind.
#[derive(Clone)]
pub(super) struct Times {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    buckets: Arc<Buckets>,
}

#[derive(Debug, Default)]
struct Buckets {
    counts: [AtomicU64; BOUNDS.len() + 1],
    /// In nanoseconds, since a sum of seconds would lose small durations.
    nanos: AtomicU64,
}

impl HistogramFn for Buckets {
    fn record(&self, seconds: f64) {
        let at = BOUNDS.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let span = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default();
        self.nanos.fetch_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Times {
    /// The number of durations up to each bound, the number of all, and their sum in seconds.
    pub(super) fn read(&self) -> (Vec<u64>, u64, f64) {
        let mut sum = 0;
        let mut counts: Vec<u64> = Vec::new();
        for count in &self.buckets.counts {
            sum += count.load(Ordering::Relaxed);
            counts.push(sum);
        }
        counts.pop();
        let nanos = self.buckets.nanos.load(Ordering::Relaxed);
        (counts, sum, std::time::Duration::from_nanos(nanos).as_secs_f64())
    }
}

static ALL: LazyLock<Vec<Times>> = LazyLock::new(|| {
    let times = TIMES.iter().map(|(name, about)| Times { name, about, buckets: Arc::default() });
    times.collect()
});

/// Records the durations that nodes report from now on.
pub(super) fn record() -> &'static [Times] {
    // The process installs no other recorder.
    let _ = metrics::set_global_recorder(Clerk);
    &ALL
}

/// Only durations are recorded: counts and levels are read from the node when a client asks for them.
struct Clerk;

impl Recorder for Clerk {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        match ALL.iter().find(|times| times.name == key.name()) {
            Some(times) => Histogram::from_arc(Arc::clone(&times.buckets)),
            None => Histogram::noop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_count_all_that_is_as_long_or_shorter() {
        let times = Times { name: "x", about: "", buckets: Arc::default() };
        for seconds in [0.00005, 0.0001, 0.3, 1_000.0, -1.0] {
            times.buckets.record(seconds);
        }
        let (counts, all, sum) = times.read();
        assert_eq!(counts.len(), BOUNDS.len());
        assert_eq!((counts[0], counts[10], counts[11], counts[17], all), (3, 3, 4, 4, 5));
        assert!((sum - 1_000.300_15).abs() < 1e-6, "{sum}");
    }
}
