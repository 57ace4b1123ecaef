//! Retransmission: when a packet counts as lost, when the sender probes, and what it sends twice.
//!
//! Nothing here decides what is delivered: what is sent again in vain costs bytes, and what is sent again late costs time.

mod policy;
mod standard;

use core::fmt::Debug;
use core::time::Duration;

pub use super::loss::Cause;
pub(super) use policy::Policy;
pub use standard::Standard;

use super::congestion::CongestionControl;
use super::loss::Loss;
use super::{MtuSearch, Rtt};
use crate::Mono;

/// When a packet counts as lost: a later packet is acknowledged, and either holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossThreshold {
    /// The newest acknowledged packet left so many packets later. The node takes 1 to [`LossThreshold::MOST_PACKETS`].
    pub packets: u64,
    /// The packet left so long ago. The node takes 1 ms to eight round trips, or to 1 s if that is longer.
    pub time: Duration,
}

impl LossThreshold {
    /// The node takes no more than this for [`LossThreshold::packets`].
    pub const MOST_PACKETS: u64 = 1_000;
}

/// A packet that counted as lost was acknowledged.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SpuriousLoss {
    /// When the acknowledgement arrived.
    pub now: Mono,
    /// How many packets later the newest acknowledged packet left.
    pub distance: u64,
    /// How long ago the packet left.
    pub age: Duration,
}

/// What a node knows of a path.
#[derive(Clone, Copy, Debug)]
pub struct PathState<'a> {
    pub(super) rtt: &'a Rtt,
    pub(super) loss: &'a Loss,
    pub(super) congestion: &'a dyn CongestionControl,
    pub(super) mtu: &'a MtuSearch,
    pub(super) max_ack_delay: Duration,
    pub(super) in_flight: u64,
    pub(super) packets: u64,
    pub(super) awaited: bool,
}

impl PathState<'_> {
    /// The round-trip time.
    pub fn rtt(&self) -> &Rtt {
        self.rtt
    }

    /// How long the peer lets an acknowledgement wait at most.
    pub fn max_ack_delay(&self) -> Duration {
        self.max_ack_delay
    }

    /// One probe timeout of RFC 9002, without back-off: the smoothed round-trip time, four times its deviation (1 ms at least), and
    /// [`max_ack_delay`](Self::max_ack_delay).
    pub fn pto(&self) -> Duration {
        self.rtt.pto_base().saturating_add(self.max_ack_delay)
    }

    /// What the losses of the path are taken to come from.
    pub fn cause(&self) -> Cause {
        self.loss.cause()
    }

    /// Bytes under way that count against the congestion window.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Packets under way that ask for an acknowledgement.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Whether an application waits for what is under way.
    pub fn is_awaited(&self) -> bool {
        self.awaited
    }

    /// Bytes per second that the path was seen to give, as congestion control says; zero: unknown.
    pub fn bandwidth(&self) -> u64 {
        self.congestion.bandwidth()
    }

    /// Bytes of a full datagram.
    pub fn datagram(&self) -> u16 {
        self.mtu.current()
    }
}

/// A retransmission policy of one path: when a packet counts as lost, when the sender probes, and what it sends twice.
///
/// Each peer has one at a time, and a new one for each path. The node asks it, and takes an answer that is out of bounds for the
/// nearest that is not; the bounds stand at the methods. So a policy may waste bytes or time, and can neither lose a message nor
/// deliver one twice. What is sent again counts against the congestion window, but for the probes of a probe timeout.
///
/// # Contract
/// * Time comes from outside: a policy reads no clock, and draws no randomness but from a seed of its own, if runs are to be repeated.
/// * The calls are made under the node's lock, and [`probe_after`](Self::probe_after) for about every packet: each should take well below a
///   microsecond, must not block, and must not call the node.
/// * A panic passes through the core, which is of no use afterwards; the library `exonet` stops the node then.
/// * On a connection (TCP) nothing of this is asked.
///
/// ```
/// use core::time::Duration;
/// use exonet_proto::Mono;
/// use exonet_proto::parts::{LossThreshold, PathState, Retransmission};
///
/// /// RFC 9002 to the letter: three packets or nine eighths of a round trip, timeouts that double.
/// #[derive(Debug)]
/// struct Rfc9002;
///
/// impl Retransmission for Rfc9002 {
///     fn loss(&mut self, _: Mono, path: &PathState<'_>) -> LossThreshold {
///         let rtt = path.rtt().smoothed().max(path.rtt().latest());
///         LossThreshold { packets: 3, time: rtt * 9 / 8 }
///     }
///
///     fn probe_after(&self, path: &PathState<'_>, timeouts: u32) -> Duration {
///         path.pto().saturating_mul(2_u32.saturating_pow(timeouts))
///     }
/// }
/// ```
pub trait Retransmission: Debug + Send {
    /// When a packet counts as lost. Asked after each ACK, and when the time of an earlier answer has come.
    fn loss(&mut self, now: Mono, path: &PathState<'_>) -> LossThreshold;

    /// A packet counted as lost and was not.
    fn on_spurious(&mut self, _spurious: SpuriousLoss, _path: &PathState<'_>) {}

    /// How long after the last packet that asks for an acknowledgement, or after the last probe timeout, the next probe timeout comes,
    /// if nothing is acknowledged. `timeouts`: how many there were in a row; zero for the first. Asked often, and the last answer
    /// counts.
    ///
    /// The node takes half a round trip (1 ms at least; 1 s after 96 timeouts in a row) to 30 s, or to one
    /// [`pto`](PathState::pto) if that is longer.
    fn probe_after(&self, path: &PathState<'_>, timeouts: u32) -> Duration;

    /// How many packets leave at a probe timeout, whatever the window says: new data, or copies of the oldest packets under way.
    /// `timeouts` in a row, this one included. The node takes 1 to 4.
    fn probes(&self, _path: &PathState<'_>, _timeouts: u32) -> u32 {
        1
    }

    /// How long to wait before a copy of a packet that leaves now and has nothing behind it that would reveal its loss; None: it gets no
    /// copy. `again`: it carries what was lost before. Asked for the last packets, 24 at most, when there is nothing more to
    /// send. A copy leaves only if the packet is not acknowledged by then, and the window has room.
    ///
    /// The node takes at most one round trip.
    fn copy_after(&mut self, _now: Mono, _path: &PathState<'_>, _again: bool) -> Option<Duration> {
        None
    }
}
