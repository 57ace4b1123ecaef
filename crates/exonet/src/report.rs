//! What a node reports for monitoring, every second: metrics, and figures in the event trace.

use core::time::Duration;
use std::io;

use exonet_proto::Mono;
use exonet_proto::node::{Figure, Stats};
use metrics::{Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, gauge, histogram};
use tokio::task::JoinHandle;

use crate::after::shielded;
use crate::stats;

/// How often the figures are read. A reading costs a turn of the driver, and time for each peer.
const EVERY: Duration = Duration::from_secs(1);

/// Histograms of durations, in seconds.
pub(crate) struct Times {
    /// The time of a message, from queueing to Delivered.
    pub(crate) message: Histogram,
    /// The time of a call at its caller, from start to end.
    pub(crate) call: Histogram,
    /// The time of a peer's call at this server, from start to answer.
    pub(crate) serve: Histogram,
}

impl Times {
    pub(crate) fn new(node: &str) -> Self {
        let node = node.to_owned();
        Self {
            message: histogram!(stats::MESSAGE.0, "node" => node.clone()),
            call: histogram!(stats::CALL.0, "node" => node.clone()),
            serve: histogram!(stats::SERVE.0, "node" => node),
        }
    }
}

/// A figure as a metric.
enum Metric {
    Counter(Counter),
    Gauge(Gauge),
}

impl Metric {
    fn of(figure: &Figure, node: &str) -> Self {
        let (about, node) = (figure.about.trim_start(), node.to_owned());
        if figure.counts {
            let name = format!("exonet_{}_total", figure.metric);
            describe_counter!(name.clone(), about);
            Self::Counter(counter!(name, "node" => node))
        } else {
            let name = format!("exonet_{}", figure.metric);
            describe_gauge!(name.clone(), about);
            Self::Gauge(gauge!(name, "node" => node))
        }
    }

    fn publish(&self, now: u64, before: u64) {
        match self {
            Self::Counter(counter) => counter.increment(now.saturating_sub(before)),
            // An f64 holds the value exactly up to 2^53.
            Self::Gauge(gauge) => gauge.set(now as f64),
        }
    }
}

/// Publishes the changes of [`Stats`]. Nothing happens while nothing changes.
pub(crate) struct Report {
    /// One for each of [`Stats::FIGURES`].
    metrics: Vec<Metric>,
    sink: Sink,
    last: Stats,
    next: Mono,
    quiet: bool,
}

impl Report {
    pub(crate) fn new(node: &str, sink: Option<Box<dyn io::Write + Send>>) -> Self {
        Self {
            metrics: Stats::FIGURES.iter().map(|figure| Metric::of(figure, node)).collect(),
            sink: sink.map_or(Sink::None, Sink::Idle),
            last: Stats::default(),
            next: Mono(0),
            quiet: true,
        }
    }

    /// Whether the figures are due to be read.
    pub(crate) fn is_due(&self, now: Mono) -> bool {
        now >= self.next
    }

    /// Takes new figures. Returns them if they should be published: they have changed, or the node ends.
    pub(crate) fn look(&mut self, now: Mono, stats: Stats, end: bool) -> Option<Stats> {
        self.next = now + EVERY;
        self.quiet = stats == self.last;
        (end || !self.quiet).then_some(stats)
    }

    /// Publishes the figures. The caller must not hold the node's lock: the recorder is code of the application.
    pub(crate) fn publish(&mut self, stats: &Stats) {
        let (metrics, last) = (&self.metrics, &self.last);
        shielded("the recorder of metrics", || {
            for (metric, Figure { of, .. }) in metrics.iter().zip(Stats::FIGURES) {
                metric.publish(of(stats), of(last));
            }
        });
        self.last = *stats;
    }

    /// Returns when to read the figures next. `happened` says whether anything may have changed them.
    pub(crate) fn wake_at(&mut self, happened: bool) -> Mono {
        self.quiet &= !happened;
        if self.quiet { Mono::NEVER } else { self.next }
    }

    /// Whether lines of the event trace can be written now.
    pub(crate) const fn can_write(&self) -> bool {
        !matches!(self.sink, Sink::Busy(_))
    }

    /// Begins to write lines of the event trace, on a thread that may block. After a sink has failed, it is not used
    /// again.
    pub(crate) fn write(&mut self, lines: &mut String) {
        if lines.is_empty() {
            return;
        }
        match core::mem::replace(&mut self.sink, Sink::None) {
            Sink::Idle(sink) => {
                let lines = core::mem::take(lines);
                self.sink = Sink::Busy(tokio::task::spawn_blocking(move || write(sink, &lines)));
            }
            other => {
                self.sink = other;
                lines.clear();
            }
        }
    }

    /// Waits until the write in progress has ended. Cancel-safe.
    pub(crate) async fn written(&mut self) {
        if let Sink::Busy(task) = &mut self.sink {
            // If the runtime ends, the task fails, so an error is expected.
            self.sink = task.await.ok().flatten().map_or(Sink::None, Sink::Idle);
        }
    }
}

/// The destination of the event trace.
enum Sink {
    /// There is no sink, or it has failed.
    None,
    Idle(Trail),
    /// A thread is writing to it.
    Busy(JoinHandle<Option<Trail>>),
}

type Trail = Box<dyn io::Write + Send>;

/// Writes lines. Returns the sink, or None if it failed.
fn write(mut sink: Trail, lines: &str) -> Option<Trail> {
    let write = || sink.write_all(lines.as_bytes()).and_then(|()| sink.flush());
    let panicked = || Err(io::Error::other("it panicked"));
    match shielded("the event trace", write).unwrap_or_else(panicked) {
        Ok(()) => Some(sink),
        Err(error) => {
            tracing::warn!(%error, "the event trace cannot be written and ends here");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

    use metrics::{Key, KeyName, Metadata, Recorder, SharedString, Unit};

    use super::*;

    /// Counters by name.
    #[derive(Default)]
    struct Counted(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

    impl Recorder for Counted {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            let cell = Arc::new(AtomicU64::new(0));
            if let Ok(mut cells) = self.0.lock() {
                cells.insert(key.name().to_owned(), Arc::clone(&cell));
            }
            Counter::from_arc(cell)
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    impl Counted {
        fn of(&self, name: &str) -> Option<u64> {
            self.0.lock().ok()?.get(name).map(|cell| cell.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn metrics_tell_that_the_fast_way_was_refused_and_why() {
        let recorder = Counted::default();
        let mut report = metrics::with_local_recorder(&recorder, || Report::new("n", None));
        let mut stats = Stats::default();
        (stats.early_sent, stats.early_received, stats.early_slowed) = (6, 5, 4);
        (stats.early_rejected, stats.stamps_stale) = (3, 2);
        (stats.stamps_astray, stats.stamps_ahead) = (1, 7);
        let changed = report.look(Mono(0), stats, false).unwrap();
        report.publish(&changed);
        assert!(report.look(Mono(0), stats, false).is_none(), "nothing has changed");
        assert!(report.look(Mono(0), stats, true).is_some(), "but it is the end");
        let named = |name: &str| recorder.of(&format!("exonet_{name}_total"));
        assert_eq!((named("early_sent"), named("early_received")), (Some(6), Some(5)));
        assert_eq!((named("early_slowed"), named("early_rejected")), (Some(4), Some(3)));
        assert_eq!(named("stamps_stale"), Some(2));
        assert_eq!((named("stamps_astray"), named("stamps_ahead")), (Some(1), Some(7)));
    }
}
