//! The lines of tasks that wait for room in the queue to a peer.

use std::sync::Arc;

use exonet_proto::NodeId;
use exonet_proto::node::SendError as CoreError;
use tokio::sync::Notify;

use crate::error::SendError;
use crate::shared::Shared;

/// A task's place in a line. If it is dropped after its turn has come, the turn goes to the next task in the line.
struct Place<'a> {
    shared: &'a Shared,
    peer: NodeId,
    notify: Arc<Notify>,
}

impl<'a> Place<'a> {
    fn take(shared: &'a Shared, peer: NodeId) -> Self {
        let notify = shared.amend(|engine| engine.room.join(peer));
        Self { shared, peer, notify }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.shared.amend(|engine| engine.leave_line(&self.peer));
    }
}

/// Repeats `attempt` until it returns anything but Full. If the caller drops the future, nothing has been done.
pub(crate) async fn wait_for_room<T>(
    shared: &Shared,
    peer: NodeId,
    mut attempt: impl FnMut() -> Result<T, CoreError>,
) -> Result<T, SendError> {
    match attempt() {
        Err(CoreError::Full) => {}
        other => return Ok(other?),
    }
    let place = Place::take(shared, peer);
    loop {
        let called = place.notify.notified();
        match attempt() {
            Err(CoreError::Full) => called.await,
            other => return Ok(other?),
        }
    }
}
