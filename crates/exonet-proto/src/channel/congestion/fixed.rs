//! A window that never changes, for tests and for carriers that control congestion themselves.

use super::{AckInfo, CongestionControl, LossInfo, MOST_WINDOW, minimum_window};
use crate::Mono;

/// A constant window within the bounds of the path, without pacing of its own.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    bytes: u64,
    window: u64,
}

impl Fixed {
    /// A window of `bytes`.
    pub const fn new(bytes: u64) -> Self {
        Self { bytes, window: bytes }
    }
}

impl CongestionControl for Fixed {
    fn on_ack(&mut self, _ack: AckInfo<'_>) {}

    fn on_loss(&mut self, _loss: LossInfo) {}

    fn on_persistent_congestion(&mut self, _now: Mono) {}

    fn on_mtu(&mut self, mtu: u16) {
        self.window = self.bytes.clamp(minimum_window(mtu), MOST_WINDOW);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_as_it_was_said_within_the_bounds_of_the_path() {
        let window = |bytes, mtu| {
            let mut fixed = Fixed::new(bytes);
            fixed.on_mtu(mtu);
            fixed.window()
        };
        assert_eq!([window(0, 1_200), window(0, 9_000)], [4_800, 36_000]);
        assert_eq!([window(1 << 20, 1_200), window(u64::MAX, 1_200)], [1 << 20, MOST_WINDOW]);
    }
}
