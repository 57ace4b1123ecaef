//! A window that never changes: for tests, and for carriers that control congestion themselves.

use super::{AckInfo, CongestionControl, LossInfo};
use crate::Mono;

/// A constant window, without pacing of its own.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    window: u64,
}

impl Fixed {
    /// A window of `bytes`.
    pub const fn new(bytes: u64) -> Self {
        Self { window: bytes }
    }
}

impl CongestionControl for Fixed {
    fn on_ack(&mut self, _ack: AckInfo<'_>) {}

    fn on_loss(&mut self, _loss: LossInfo) {}

    fn on_persistent_congestion(&mut self, _now: Mono) {}

    fn on_mtu(&mut self, _mtu: u16) {}

    fn window(&self) -> u64 {
        self.window
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(u64::MAX)
    }
}
