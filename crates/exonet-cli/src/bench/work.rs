//! The protocol between the two ends of a measurement.

use std::time::Duration;

use exonet_proto::half::IntervalSet;
use serde::{Deserialize, Serialize};

/// The tag of a message that the server must send back.
pub(super) const ECHO: &[u8] = b"echo";
/// The method that echoes the body of a call.
pub(super) const METHOD: &str = "bench";
/// The tag of a request for a [`Report`], and of the report.
pub(super) const REPORT: &[u8] = b"report";

/// The length of the head of every message: its number, and the same number of reserved bytes.
pub(super) const HEAD: usize = 16;

/// The counts of a server for one client since the last report.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) received: u64,
    pub(super) duplicates: u64,
    /// Processor time of the server.
    pub(super) cpu_s: f64,
}

/// The numbers of one client's messages.
#[derive(Debug, Default)]
pub(super) struct Seen {
    numbers: IntervalSet,
    report: Report,
}

impl Seen {
    /// Counts a message.
    pub(super) fn note(&mut self, body: &[u8]) {
        let Some(number) = body.first_chunk().map(|number| u64::from_be_bytes(*number)) else { return };
        self.report.received += 1;
        if self.numbers.contains(number) {
            self.report.duplicates += 1;
        } else {
            self.numbers.insert(number..number.saturating_add(1));
        }
    }

    pub(super) fn report(&mut self) -> Report {
        Report { cpu_s: cpu().as_secs_f64(), ..std::mem::take(&mut self.report) }
    }
}

/// The processor time of this process, if the system reports it.
pub(super) fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name may contain anything. After it, fields 12 and 13 are the user and system time in hundredths of a
    // second.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks.saturating_mul(10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_twice_is_a_duplicate() {
        let mut seen = Seen::default();
        for number in [1_u64, 2, 5, 2, 1, 1] {
            seen.note(&number.to_be_bytes());
        }
        seen.note(b"short");
        let report = seen.report();
        assert_eq!((report.received, report.duplicates), (6, 3));
        assert_eq!(seen.report().received, 0, "since the last report");
    }
}
