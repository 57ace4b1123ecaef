//! The pace of messages: even, and never so far ahead that the next accident comes too late.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

/// Messages per second on each side.
pub(super) const PACE: u64 = 2_000;
/// How many messages are offered together.
const STEP: u64 = 10;

/// The permission of one side to offer more messages.
#[derive(Debug)]
pub(super) struct Progress {
    ticks: Interval,
    allowed: u64,
    gate: watch::Receiver<u64>,
}

impl Progress {
    /// `gate` holds how many messages may have been offered by now.
    pub(super) fn new(gate: watch::Receiver<u64>) -> Self {
        let step = Duration::from_secs(STEP) / u32::try_from(PACE).unwrap_or(u32::MAX);
        let mut ticks = interval(step);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { ticks, allowed: 0, gate }
    }

    /// Returns when message `n`, one after the other, may be offered. Cancel-safe.
    pub(super) async fn allows(&mut self, n: u64) {
        if n >= self.allowed {
            // If the director has ended, nothing limits the pace.
            let _ = self.gate.wait_for(|gate| n < *gate).await;
            let _: Instant = self.ticks.tick().await;
            self.allowed = n + STEP;
        }
    }
}
