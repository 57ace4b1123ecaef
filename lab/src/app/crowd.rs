//! Many clients in one process, or in a few.

use std::sync::Arc;
use std::time::Duration;

use super::{Meter, Stamp};

/// What the clients share.
#[derive(Clone)]
pub(crate) struct Crowd {
    meter: Arc<Meter>,
    /// The process, which numbers its messages by itself.
    part: u32,
    bytes: usize,
    /// How long a client waits between two messages.
    pub(crate) pause: Duration,
}

/// Clients of a process: each may take a socket and a timer, and systems let a process open no more than 20,000 files.
pub(crate) const CROWD_PART: u32 = 2_500;

/// Clients are this far apart in time when they begin.
pub(crate) const NUMBERS_APART: Duration = Duration::from_micros(500);

impl Crowd {
    pub(crate) fn new(meter: Arc<Meter>, part: u32, bytes: usize, per_second: u32) -> Self {
        Self { meter, part, bytes, pause: Duration::from_secs(1) / per_second.max(1) }
    }

    /// The next message of any of the clients; None when it is over.
    pub(crate) fn message(&self) -> Option<Vec<u8>> {
        if self.meter.is_stopped() {
            return None;
        }
        let mut message = vec![0x5a; self.bytes];
        Stamp { number: self.meter.send(), actor: self.part }.write(&mut message);
        Some(message)
    }
}
