//! Retransmission: when a packet counts as lost, when the sender probes, and what it sends twice.
//!
//! Nothing here decides what is delivered: data that is sent again in vain costs bytes, and data that is sent again late costs
//! time.

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

/// When a packet counts as lost: a later packet is acknowledged, and one of these two conditions holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossThreshold {
    /// The newest acknowledged packet left this many packets later. The node accepts 1 to [`LossThreshold::MOST_PACKETS`].
    pub packets: u64,
    /// The packet left this long ago. The node accepts 1 ms to eight round trips, or to 1 s if that is longer.
    pub time: Duration,
}

impl LossThreshold {
    /// The largest [`LossThreshold::packets`] that the node accepts.
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

    /// The longest time for which the peer lets an acknowledgement wait.
    pub fn max_ack_delay(&self) -> Duration {
        self.max_ack_delay
    }

    /// One probe timeout of RFC 9002, without back-off: the smoothed round-trip time, four times its deviation (1 ms at least), and
    /// [`max_ack_delay`](Self::max_ack_delay).
    pub fn pto(&self) -> Duration {
        self.rtt.pto_base().saturating_add(self.max_ack_delay)
    }

    /// The presumed cause of the losses of the path.
    pub fn cause(&self) -> Cause {
        self.loss.cause()
    }

    /// Bytes under way that count against the congestion window.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Packets under way that elicit an acknowledgement.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Whether an application waits for what is under way.
    pub fn is_awaited(&self) -> bool {
        self.awaited
    }

    /// The bandwidth of the path in bytes per second, as congestion control has measured it; zero: unknown.
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
/// Each peer has one at a time, and a new one for each path. The node asks it, and replaces an answer out of bounds by the
/// nearest one within bounds; the bounds are given at the methods. So a policy may waste bytes or time, but can neither lose a
/// message nor deliver one twice. Data that is sent again counts against the congestion window, except the probes of a probe
/// timeout.
///
/// # Contract
/// * Time comes from outside: a policy reads no clock. If runs are to be repeatable, it draws randomness only from a seed of its
///   own.
/// * The node makes the calls under its lock, and [`probe_after`](Self::probe_after) for about every packet: each should take
///   well below a microsecond, must not block, and must not call the node.
/// * A panic unwinds through the core, which must not be used afterwards; the library `exonet` then stops the node.
/// * On a connection (TCP) the policy is not asked.
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
    /// When a packet counts as lost. The node asks after each ACK, and when the time of an earlier answer has come.
    fn loss(&mut self, now: Mono, path: &PathState<'_>) -> LossThreshold;

    /// A packet that counted as lost was acknowledged.
    fn on_spurious(&mut self, _spurious: SpuriousLoss, _path: &PathState<'_>) {}

    /// How long after the last ack-eliciting packet, or after the last probe timeout, the next probe timeout comes if nothing is
    /// acknowledged. `timeouts`: how many there were in a row; zero for the first. The node asks often, and the last answer
    /// counts.
    ///
    /// The node accepts half a round trip (1 ms at least; 1 s after 96 timeouts in a row) to 30 s, or to one
    /// [`pto`](PathState::pto) if that is longer.
    fn probe_after(&self, path: &PathState<'_>, timeouts: u32) -> Duration;

    /// The first acknowledgement after probe timeouts has arrived. `in_vain`: it acknowledges only packets that had left before the
    /// first of them, so it was late, and no probe was needed.
    fn on_probed(&mut self, _in_vain: bool, _path: &PathState<'_>) {}

    /// How many packets leave at a probe timeout, regardless of the window: new data, or copies of the oldest packets under way.
    /// `timeouts`: how many there were in a row, including this one. The node accepts 1 to 4.
    fn probes(&self, _path: &PathState<'_>, _timeouts: u32) -> u32 {
        1
    }

    /// How long to wait before a copy of a packet that leaves now and has nothing behind it that would reveal its loss. None: the
    /// packet gets no copy. `again`: it carries something that was lost before. The node asks about the last packets, 24 at most,
    /// when there is nothing more to send. A copy leaves only if the packet is not acknowledged by then, and the window has room.
    ///
    /// The node accepts at most one round trip.
    fn copy_after(&mut self, _now: Mono, _path: &PathState<'_>, _again: bool) -> Option<Duration> {
        None
    }
}
