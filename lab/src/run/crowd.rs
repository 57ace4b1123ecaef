//! A crowd connects before it is measured.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Flow, order};

/// So long is waited for all clients.
const TO_GATHER: Duration = Duration::from_secs(60);

/// How many clients the server had heard of when they were let send.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) clients: u64,
    /// The number of all clients.
    pub(crate) of: u32,
    /// The time until then, in s.
    pub(crate) after: f64,
}

impl Gathered {
    /// In words.
    pub(crate) fn tell(&self) -> String {
        format!("{} of {} connected after {:.1} s", self.clients, self.of, self.after)
    }
}

/// Waits until the servers have heard of all clients, each of which sends one message, or long enough; then lets them send.
pub(super) fn gather(flows: &mut [Flow], of: u32, began: Instant) -> Result<Gathered> {
    loop {
        let marks = order(flows, "mark")?;
        let clients = marks.iter().map(|[_, server]| server.received).min().unwrap_or_default();
        let waited = began.elapsed();
        if clients >= u64::from(of) || waited > TO_GATHER {
            order(flows, "start")?;
            return Ok(Gathered { clients, of, after: waited.as_secs_f64() });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
