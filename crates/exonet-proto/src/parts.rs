//! Parts of a node that an application can replace by its own types: congestion control, the scheduler, the retransmission
//! policy.
//!
//! Each part is a trait. A node makes one object for each path or peer, by the function in [`Parts`], and asks it. Whatever the
//! object answers, the node keeps its promise: an answer out of bounds is replaced by the nearest one within bounds. The
//! contracts are given at the traits, and `docs/parts.md` compares them.

use core::fmt;
use std::sync::Arc;

pub use crate::channel::congestion::{
    AckInfo, CongestionControl, Cubic, Exo, Fixed, LossInfo, MOST_WINDOW, SentInfo, TAGS, initial_window,
    minimum_window,
};
pub use crate::channel::hedge::Hedging;
pub use crate::channel::rate::Sample;
pub use crate::channel::retransmission::{
    Cause, LossThreshold, PathState, Retransmission, SpuriousLoss, Standard,
};
pub use crate::channel::rtt::Rtt;
pub use crate::message::Priority;
pub use crate::message::scheduler::{Kind, MOST_WAITING, Scheduler, Waiting};
pub use crate::time::Mono;

/// Makes a part: one for each path or peer.
///
/// ```
/// use exonet_proto::parts::{CongestionControl, Fixed, Make};
///
/// let make = Make::<dyn CongestionControl>::new(|| Box::new(Fixed::new(1 << 20)));
/// assert_eq!(make.make().window(), 1 << 20);
/// ```
pub struct Make<T: ?Sized>(Arc<dyn Fn() -> Box<T> + Send + Sync>);

impl<T: ?Sized> Make<T> {
    /// A factory that calls `make`. The node calls it under its lock, and it must not call the node.
    pub fn new(make: impl Fn() -> Box<T> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    /// Makes a new part.
    pub fn make(&self) -> Box<T> {
        (self.0)()
    }
}

impl<T: ?Sized> Clone for Make<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> PartialEq for Make<T> {
    /// Whether both are the same function.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T: ?Sized> Eq for Make<T> {}

impl<T: ?Sized> fmt::Debug for Make<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Make")
    }
}

/// The parts of a node that the application replaces. Default: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parts {
    /// Congestion control, in place of [`Config::congestion`](crate::node::Config::congestion): one for each path.
    pub congestion: Option<Make<dyn CongestionControl>>,
    /// The scheduler of the messages to a peer: one for each peer.
    pub scheduler: Option<Make<dyn Scheduler>>,
    /// What is sent again, and when. It replaces [`Config::hedging`](crate::node::Config::hedging) and the rules of the node: one
    /// for each path.
    pub retransmission: Option<Make<dyn Retransmission>>,
}

impl Parts {
    /// Sets congestion control: `make` makes one for each path.
    pub fn set_congestion<C: CongestionControl + 'static>(
        &mut self,
        make: impl Fn() -> C + Send + Sync + 'static,
    ) {
        self.congestion = Some(Make::<dyn CongestionControl>::new(move || Box::new(make())));
    }

    /// Sets the scheduler: `make` makes one for each peer.
    pub fn set_scheduler<S: Scheduler + 'static>(&mut self, make: impl Fn() -> S + Send + Sync + 'static) {
        self.scheduler = Some(Make::<dyn Scheduler>::new(move || Box::new(make())));
    }

    /// Sets the retransmission policy: `make` makes one for each path.
    pub fn set_retransmission<R: Retransmission + 'static>(
        &mut self,
        make: impl Fn() -> R + Send + Sync + 'static,
    ) {
        self.retransmission = Some(Make::<dyn Retransmission>::new(move || Box::new(make())));
    }
}
