//! The checkpoint of a running node.

use std::path::Path;
use std::time::{Duration, Instant};

use exonet_proto::NodeId;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::application::state_of;
use super::{Ceded, Checkpoint, Draft};
use crate::node::Node;
use crate::state::StateDir;
use crate::state::error::StateError;

/// How long an unfinished write may hold a directory that a node has closed, and the interval between two attempts.
const HOLD: Duration = Duration::from_millis(200);
const AGAIN: Duration = Duration::from_millis(1);

impl Node {
    /// Writes the identity of the node to one new file for the node `to`, with everything that is under way and the
    /// state of `application`. First [freezes](Self::freeze) the node, and waits for `timeout` at most. When this method
    /// returns, the node has ended, and only the file has the identity: no process can open it here again.
    /// [`restore_file`](crate::state::restore_file) restores it.
    ///
    /// If the caller drops the future after the freeze has begun, the node ends. The identity may still be ceded, as
    /// after an error.
    ///
    /// # Errors
    /// [`StateError`]. With [`StateError::Temporary`], or if [`Draft::check`] fails, the node goes on. After any other
    /// error the node has ended. Then
    /// [`ceded`](crate::state::ceded) tells whether the identity still lives in its directory. If it does
    /// not, [`finish_file`](crate::state::finish_file) finishes the file.
    pub async fn checkpoint(
        &self,
        timeout: Duration,
        to: &NodeId,
        application: &impl Checkpoint,
        file: impl AsRef<Path>,
    ) -> Result<Ceded, StateError> {
        let place = self.shared().place.clone().ok_or(StateError::Temporary)?;
        let (to, id, file) = (*to, self.id(), file.as_ref().to_owned());
        let aim = file.clone();
        blocking(move || Draft::check(aim, &id, &to)).await?;
        self.freeze(timeout).await;
        let state = state_of(application, &place)?;
        let dir = StateDir::open_again(place).await?;
        blocking(move || dir.checkpoint_file(&to, &state, file)).await
    }
}

impl StateDir {
    /// Opens the directory `path`, which a node of this process has just closed. An unfinished write may hold it a little
    /// longer, and this method waits until it is released.
    ///
    /// # Errors
    /// The errors of [`Self::open`]. [`StateError::Locked`]: the directory was not released.
    pub async fn open_again(path: impl AsRef<Path>) -> Result<Self, StateError> {
        let until = Instant::now() + HOLD;
        loop {
            let path = path.as_ref().to_owned();
            match blocking(move || Self::open(path)).await {
                Err(StateError::Locked { .. }) if Instant::now() < until => sleep(AGAIN).await,
                opened => return opened,
            }
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StateError> + Send + 'static,
) -> Result<T, StateError> {
    let ended = |_| super::checkpoint("the runtime has ended");
    spawn_blocking(work).await.map_err(ended)?
}
