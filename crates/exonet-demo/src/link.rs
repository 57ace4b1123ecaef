//! What the network does to a packet.

use core::time::Duration;

/// Both directions of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// So many of a thousand packets are lost.
    pub loss: u32,
    /// So many of a thousand arrive twice.
    pub duplicate: u32,
    /// How long a packet takes.
    pub delay: Duration,
    /// Up to this is added, by chance: packets overtake each other.
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
