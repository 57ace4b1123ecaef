//! The lines of tasks that wait for room in a peer's queue.

use std::sync::Arc;

use exonet_proto::NodeId;
use exonet_proto::node::SendError as CoreError;
use tokio::sync::Notify;

use crate::error::SendError;
use crate::shared::Shared;

/// A place in line. It is given up when dropped; a wake-up that had already come is then passed on to the next in line.
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

/// Repeats `attempt` until it returns anything but Full. If the future is dropped, nothing has been done.
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
