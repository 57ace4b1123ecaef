//! The counts of a process, which it tells when it is asked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

/// Shared by the application, the peer and the line to who started the process.
#[derive(Debug)]
pub(crate) struct Meter {
    began: Instant,
    stop: AtomicBool,
    start: watch::Sender<bool>,
    stopped: Notify,
    /// Another process whose processor time, memory and threads are added to this one's.
    other: OnceLock<u32>,
    /// Messages that the application has handed over.
    sent: AtomicU64,
    /// Different messages that the application has got.
    received: AtomicU64,
    duplicates: AtomicU64,
    damaged: AtomicU64,
    /// Times from requests to answers, in ns.
    latency: Mutex<Histogram<u64>>,
    /// For work that ends: when it was handed over, and when it was done; by the clock of the machine, in s.
    begun: OnceLock<f64>,
    finished: OnceLock<f64>,
}

/// The state of a process at one time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// Since the process began, in s.
    pub(crate) time: f64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) duplicates: u64,
    pub(crate) damaged: u64,
    /// Processor time of the process, in s, in user space and in the kernel.
    pub(crate) cpu: f64,
    /// The most memory that it has had, in bytes.
    pub(crate) peak_rss: u64,
    /// Threads that it has now.
    #[serde(default)]
    pub(crate) threads: u64,
    pub(crate) latency: Quantiles,
    /// For work that ends, in s. Processes of one machine agree on these times.
    #[serde(default)]
    pub(crate) begun: Option<f64>,
    #[serde(default)]
    pub(crate) finished: Option<f64>,
}

impl std::iter::Sum for Mark {
    /// The sum over several processes that do the work of one. The time and the latencies are those of the first.
    fn sum<I: Iterator<Item = Self>>(mut marks: I) -> Self {
        let first = marks.next().unwrap_or_default();
        marks.fold(first, |all, one| Self {
            sent: all.sent + one.sent,
            received: all.received + one.received,
            duplicates: all.duplicates + one.duplicates,
            damaged: all.damaged + one.damaged,
            cpu: all.cpu + one.cpu,
            peak_rss: all.peak_rss + one.peak_rss,
            threads: all.threads + one.threads,
            ..all
        })
    }
}

/// Latencies since they were last forgotten, in ms.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

/// The most memory that a process has had, in bytes, and its threads. (What `getrusage` tells includes the memory of who
/// started it.)
fn memory_and_threads(process: &str) -> Option<[u64; 2]> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let of = |name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some([of("VmHWM:")? * 1024, of("Threads:")?])
}

/// The processor time of a process in user space and in the kernel, in s.
fn processor_time(process: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, which is in brackets, may hold blanks; the 14th and 15th fields are ticks.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<u32>().ok()?.saturating_add(fields.next()?.parse().ok()?);
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    #[allow(clippy::cast_precision_loss)] // a hundred
    let per_second = per_second as f64;
    Some(f64::from(ticks) / per_second)
}

/// By a clock that all processes of the machine share, in s.
fn machine_time() -> f64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0.0, |time| std::time::Duration::from(time).as_secs_f64())
}

impl Meter {
    pub(crate) fn new() -> Self {
        #[allow(clippy::expect_used)] // the bounds are constants
        let latency = Histogram::new_with_max(600_000_000_000, 3).expect("bounds of a histogram");
        Self {
            began: Instant::now(),
            stop: AtomicBool::new(false),
            start: watch::Sender::new(false),
            stopped: Notify::new(),
            other: OnceLock::new(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            duplicates: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
            latency: Mutex::new(latency),
            begun: OnceLock::new(),
            finished: OnceLock::new(),
        }
    }

    /// Adds the processor time, the memory and the threads of this other process to every later mark.
    pub(crate) fn count_too(&self, process: u32) {
        self.other.get_or_init(|| process);
    }

    /// From now on applications begin nothing new.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.stopped.notify_one();
    }

    /// Lets what waits begin.
    pub(crate) fn start(&self) {
        self.start.send_replace(true);
    }

    /// Waits for [`Self::start`].
    pub(crate) async fn started(&self) {
        // Fails only where nobody could start anything any more.
        let _ = self.start.subscribe().wait_for(|started| *started).await;
    }

    /// Waits for [`Self::stop`]; for one task only.
    pub(crate) async fn stopped(&self) {
        self.stopped.notified().await;
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// All that there is to do is handed over: from the first call on, time counts. To be called before connecting.
    pub(crate) fn hand_over(&self) {
        self.begun.get_or_init(machine_time);
    }

    /// It is done.
    pub(crate) fn finish(&self) {
        self.finished.get_or_init(machine_time);
    }

    /// A message leaves; returns its number.
    pub(crate) fn send(&self) -> u64 {
        self.sent.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn receive(&self) {
        self.received.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn duplicate(&self) {
        self.duplicates.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn damage(&self) {
        self.damaged.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn latency(&self, span: Duration) {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        self.latency.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(nanos);
    }

    pub(crate) fn forget_latencies(&self) {
        self.latency.lock().unwrap_or_else(PoisonError::into_inner).reset();
    }

    /// How things stand.
    pub(crate) fn mark(&self) -> Mark {
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
        #[allow(clippy::cast_precision_loss)] // microseconds of a process' life
        let seconds = |micros: i64| micros as f64 / 1e6;
        let cpu = usage.map_or(0.0, |usage| {
            seconds(usage.user_time().num_microseconds() + usage.system_time().num_microseconds())
        });
        let cpu = cpu + self.other.get().and_then(|process| processor_time(*process)).unwrap_or(0.0);
        let [peak_rss, threads] = std::iter::once("self".to_owned())
            .chain(self.other.get().map(u32::to_string))
            .filter_map(|process| memory_and_threads(&process))
            .fold([0; 2], |[memory, threads], [more, others]| [memory + more, threads + others]);
        let latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        #[allow(clippy::cast_precision_loss)] // below 2^53
        let ms = |nanos: u64| nanos as f64 / 1e6;
        Mark {
            time: self.began.elapsed().as_secs_f64(),
            sent: self.sent.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
            duplicates: self.duplicates.load(Ordering::Relaxed),
            damaged: self.damaged.load(Ordering::Relaxed),
            cpu,
            peak_rss,
            threads,
            latency: Quantiles {
                p50: ms(latency.value_at_quantile(0.5)),
                p99: ms(latency.value_at_quantile(0.99)),
                p999: ms(latency.value_at_quantile(0.999)),
                max: ms(latency.max()),
            },
            begun: self.begun.get().copied(),
            finished: self.finished.get().copied(),
        }
    }
}
