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

/// Follows messages of a node for as long as it exists. It does not keep the node going.
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

/// The steps that a [`Follower`] has noted since the last call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Steps {
    /// The steps, in order; except that the step at which a message is bound may be noted a moment later.
    pub steps: Vec<Step>,
    /// The numbers of steps and messages for which there was no room.
    pub missed: Missed,
}

impl Follower {
    /// The time at which it began. The times of steps use the same monotonic clock.
    pub const fn began(&self) -> Now {
        self.began
    }

    /// The steps since the last call. Call it a few times a second: [`MAX_STEPS`] are kept, further steps are only
    /// counted.
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
    /// Follows messages step by step: from the call of `send` to the outcome, and from their arrival to the verdict of
    /// the application. It costs the node a little for each message that is followed, and nothing without a follower.
    ///
    /// # Errors
    /// [`FollowError`].
    pub fn follow(&self, follow: Follow) -> Result<Follower, FollowError> {
        let shared = self.shared();
        let (id, began) = shared.step_calmly(|engine, now| (engine.core.follow(follow), now));
        Ok(Follower { shared: Arc::downgrade(shared), id: id?, began })
    }
}
