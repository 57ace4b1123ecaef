//! Effects of the network on packets.

use core::time::Duration;

/// The network, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Lost packets, in thousandths.
    pub loss: u32,
    /// Packets that arrive twice, in thousandths.
    pub duplicate: u32,
    /// How long a packet travels.
    pub delay: Duration,
    /// Up to this is added to the delay, at random: packets overtake each other.
    pub jitter: Duration,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            loss: 200,
            duplicate: 50,
            delay: Duration::from_millis(150),
            jitter: Duration::from_millis(100),
        }
    }
}
