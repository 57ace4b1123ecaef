//! The lives of single messages, step by step: [`Node::follow`].
//!
//! ```
//! use exonet::follow::{Follow, What};
//! # use exonet::{Allow, Node};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
//! # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
//! let follower = alice.follow(Follow::New { peer: Some(bob.id()), most: 1 })?;
//! let receipt = alice.peer(bob.peer_addr()).send("hello").await?;
//! bob.recv().await?.ack()?;
//! receipt.await;
//! let steps = follower.take().steps;
//! assert!(matches!(steps[0].what, What::Queued { size: 5, .. }));
//! assert!(matches!(steps.last(), Some(step) if step.last));
//! # Ok(())
//! # }
//! ```

use core::fmt;
use std::sync::{Arc, Weak};

use exonet_proto::Now;
use exonet_proto::node::FollowerId;
pub use exonet_proto::node::{
    Again, Bearer, Follow, FollowError, Kind, LetterId, MAX_FOLLOWED, MAX_FOLLOWERS, MAX_STEPS, Missed,
    Packet, Step, What, Word,
};

use crate::node::Node;
use crate::shared::Shared;

/// Follows messages of a node until it is dropped. It does not keep the node running.
pub struct Follower {
    shared: Weak<Shared>,
    id: FollowerId,
    began: Now,
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The steps that a [`Follower`] noted since the last call of [`Follower::take`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Steps {
    /// The steps, in order. One exception: the step that binds a message may be noted a moment late.
    pub steps: Vec<Step>,
    /// How many steps and messages were not noted because there was no room.
    pub missed: Missed,
}

impl Follower {
    /// The time at which the follower began. The times of steps use the same monotonic clock.
    pub const fn began(&self) -> Now {
        self.began
    }

    /// Returns the steps since the last call. Call it a few times a second: the follower keeps [`MAX_STEPS`], and
    /// only counts further steps.
    pub fn take(&self) -> Steps {
        let mut all = Steps::default();
        if let Some(shared) = self.shared.upgrade() {
            all.missed = shared.step_calmly(|engine, now| engine.core.steps(now, self.id, &mut all.steps));
        }
        all
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.amend(|engine| engine.core.unfollow(self.id));
        }
    }
}

impl Node {
    /// Follows messages step by step: at their sender from `send` to the outcome, at their receiver from arrival to
    /// the verdict of the application. The cost is small for each message that is followed, and nothing without a
    /// follower.
    ///
    /// # Errors
    /// [`FollowError`] says why the node cannot follow these messages.
    pub fn follow(&self, follow: Follow) -> Result<Follower, FollowError> {
        let shared = self.shared();
        let (id, began) = shared.step_calmly(|engine, now| (engine.core.follow(now, follow), now));
        Ok(Follower { shared: Arc::downgrade(shared), id: id?, began })
    }
}
