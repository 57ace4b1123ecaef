//! Congestion control: how much may be under way on a path, and how fast it leaves.

mod bounded;
mod cubic;
mod exo;
mod fixed;
mod hystart;

use core::fmt::Debug;
use core::time::Duration;

use super::Rtt;
use super::rate::Sample;
use crate::Mono;

pub use bounded::{Bounded, MOST_WINDOW};
pub use cubic::Cubic;
pub use exo::Exo;
pub use fixed::Fixed;

/// How many kinds of packet a controller can tell apart by [`CongestionControl::tag_for_next_packet`].
pub const TAGS: usize = 4;

/// The initial window (RFC 9002, section 7.2) for datagrams of `mtu` bytes.
pub fn initial_window(mtu: u16) -> u64 {
    let mtu = u64::from(mtu);
    (10 * mtu).min((2 * mtu).max(14_720))
}

/// The smallest window: enough for a lost packet to be noticed by those behind it.
pub fn minimum_window(mtu: u16) -> u64 {
    4 * u64::from(mtu)
}

/// A packet that counts against the window leaves.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SentInfo {
    /// When.
    pub now: Mono,
    /// Size of the datagram in bytes.
    pub bytes: u64,
    /// Bytes under way, this packet included.
    pub in_flight: u64,
    /// The tag of the packet.
    pub tag: u8,
}

/// An ACK that newly acknowledges packets which counted against the window of this path. One per ACK frame.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AckInfo<'a> {
    /// When the ACK arrived.
    pub now: Mono,
    /// Bytes newly acknowledged, packets formerly declared lost included.
    pub bytes: u64,
    /// Packets newly acknowledged, by tag.
    pub packets: [u32; TAGS],
    /// Bytes under way after this ACK.
    pub in_flight: u64,
    /// When the newest of the packets left.
    pub sent_at: Mono,
    /// When that packet left the application, not the window, limited sending.
    pub app_limited: bool,
    /// The round-trip time of the path, with any sample of this ACK taken.
    pub path: &'a Rtt,
    /// The sample of round-trip time, if the newest packet of the ACK gave one: raw, peer's delay included.
    pub rtt: Option<Duration>,
    /// How long the peer says that the ACK waited, limited to its `max_ack_delay`.
    pub ack_delay: Duration,
    /// The round trip of the newest packet without the queue on the way back and without the peer's delay, as far as arrival
    /// times show: it grows only with the queue on the way there. Given when `rtt` is.
    pub forward: Option<Duration>,
    /// The rate of the narrowest link in bytes per second, as far as the gaps between arrivals show.
    pub capacity: Option<u64>,
    /// The same rate, as one train of packets has shown it. It is known after a round trip, and is too low rather than too high.
    pub train: Option<u64>,
    /// The delivery rate.
    pub rate: Option<Sample>,
    /// Bytes delivered on the path so far, including these: compare with [`Sample::prior_delivered`] to count round trips.
    pub delivered: u64,
    /// Packets that the peer newly reports as marked CE.
    pub ce: u64,
}

/// A packet which counted against the window of this path is declared lost. One per packet; a controller that
/// reacts at most once per round trip compares `sent_at` with the time of its last reaction.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LossInfo {
    /// When it is declared lost.
    pub now: Mono,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it left.
    pub sent_at: Mono,
    /// Its tag.
    pub tag: u8,
    /// Bytes under way, this packet no longer included.
    pub in_flight: u64,
}

/// A congestion controller of one path. [`Recovery`](super::Recovery) calls it; the window counts bytes of
/// whole datagrams, rates are bytes per second.
///
/// Path MTU probes are reported as sent and acknowledged, never as lost.
///
/// # Contract
/// The node asks an application's own controller, given by [`Parts::congestion`](crate::parts::Parts::congestion), in the same
/// way as its own.
/// * Each path has a controller of its own: a peer that moves to another address begins with a new one. The first call is
///   [`on_mtu`](Self::on_mtu).
/// * Time comes from outside: a controller reads no clock. If runs are to be repeatable, it draws randomness only from a seed of
///   its own.
/// * The node makes the calls under its lock, and some of them for each packet: each should take well below a microsecond, must
///   not block, and must not call the node.
/// * The node replaces an answer out of bounds by the nearest one within bounds; the bounds are given at the methods. So a
///   controller may be slow, or take more than its share of a network, but can neither lose a message nor stop a path.
/// * ACKs, probes of a probe timeout and packets that validate an address leave regardless of the window. What an unvalidated
///   address may get, and what a peer or this node holds, has bounds of its own; no controller is asked about them.
/// * A panic unwinds through the core, which must not be used afterwards; the library `exonet` then stops the node.
/// * On a connection (TCP) the controller is told what happens, and its answers are ignored.
pub trait CongestionControl: Debug + Send {
    /// A packet leaves.
    fn on_sent(&mut self, _sent: SentInfo) {}

    /// Packets were acknowledged.
    fn on_ack(&mut self, ack: AckInfo<'_>);

    /// A packet was lost.
    fn on_loss(&mut self, loss: LossInfo);

    /// A packet reported to [`on_loss`](Self::on_loss) arrived after all. [`on_ack`](Self::on_ack) counts
    /// it too, afterwards.
    fn on_spurious_loss(&mut self, _loss: LossInfo) {}

    /// Several consecutive probe timeouts have passed without any answer. Loss alone never leads to this call.
    fn on_persistent_congestion(&mut self, now: Mono);

    /// The first packet leaves after nothing had been under way for `idle`, longer than a probe timeout.
    fn on_idle_restart(&mut self, _now: Mono, _idle: Duration) {}

    /// Datagrams are now at most `mtu` bytes.
    fn on_mtu(&mut self, mtu: u16);

    /// The bandwidth of the path in bytes per second, as measured; zero: unknown. It bounds how many lone packets are copied on
    /// lossy paths, and decides how messages are cut on fast paths; it does not bound what leaves.
    fn bandwidth(&self) -> u64 {
        0
    }

    /// The most bytes that may be under way. The node accepts [`minimum_window`] to [`MOST_WINDOW`].
    fn window(&self) -> u64;

    /// Bytes per second at which packets leave. `None`: derived from window and round-trip time, see
    /// [`pacing_gain`](Self::pacing_gain). `u64::MAX`: packets are not paced. The node uses at least one [`minimum_window`] a
    /// second.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// The percentage of one window that leaves per round trip if there is no [`pacing_rate`](Self::pacing_rate). The node
    /// accepts 10 to 1,000.
    fn pacing_gain(&self) -> u64 {
        125
    }

    /// A mark for the next packet, below [`TAGS`]. The node returns it with the fate of the packet.
    fn tag_for_next_packet(&self) -> u8 {
        0
    }
}

#[cfg(test)]
mod tests;
