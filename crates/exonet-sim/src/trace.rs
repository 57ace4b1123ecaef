//! The log of a run, in lines.

use core::fmt::{Display, Write as _};

use exonet_proto::Mono;

/// Lines about events, kept until the caller takes them. While it is off, it costs nothing.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    on: bool,
    begun: Mono,
    text: String,
}

impl Trace {
    /// Logs every event from now on. Times are counted from `now`.
    pub fn start(&mut self, now: Mono) {
        (self.on, self.begun) = (true, now);
    }

    /// The lines since the last call.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Logs `node` and `what` happened to it.
    pub(crate) fn tell(&mut self, now: Mono, node: usize, what: impl Display) {
        if self.on {
            let at = Moment(now.since(self.begun));
            // Writing to a String does not fail.
            let _ = writeln!(self.text, "{at} n{node:<3} {what}");
        }
    }
}

/// A time of the run as `h:mm:ss.microseconds`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(pub(crate) core::time::Duration);

impl Display for Moment {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (seconds, micros) = (self.0.as_secs(), self.0.subsec_micros());
        let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
        write!(f, "{hours}:{minutes:02}:{:02}.{micros:06}", seconds % 60)
    }
}

/// The name of a datagram's kind, by its first byte.
pub(crate) fn kind(data: &[u8]) -> &'static str {
    match data.first().map(|byte| byte & 0xf) {
        Some(1) => "opening",
        Some(2) => "answer",
        Some(3) => "retry",
        Some(4) => "data",
        Some(5) => "reset",
        Some(0xf) => "version",
        _ => "garbage",
    }
}
