//! Many clients in one process.

use std::sync::Arc;
use std::time::Duration;

use super::{Meter, Stamp};

/// What the clients share.
#[derive(Clone)]
pub(crate) struct Crowd {
    meter: Arc<Meter>,
    bytes: usize,
    /// How long a client waits between two messages.
    pub(crate) pause: Duration,
}

/// Clients are this far apart in time when they begin.
pub(crate) const NUMBERS_APART: Duration = Duration::from_micros(500);

impl Crowd {
    pub(crate) fn new(meter: Arc<Meter>, bytes: usize, per_second: u32) -> Self {
        Self { meter, bytes, pause: Duration::from_secs(1) / per_second.max(1) }
    }

    /// The next message of any of the clients; None when it is over.
    pub(crate) fn message(&self) -> Option<Vec<u8>> {
        if self.meter.is_stopped() {
            return None;
        }
        let mut message = vec![0x5a; self.bytes];
        Stamp { number: self.meter.send(), actor: 0 }.write(&mut message);
        Some(message)
    }
}
