//! A move of the identity by the process that runs it.

use std::fmt;
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::JoinHandle;

use super::{Departing, Moved, Undone};
use crate::control::protocol::Reply;
use crate::failure::Failure;

/// A move that continues when the node is frozen, and the client that gets the result.
pub(crate) struct Departure {
    pub(crate) departing: Departing,
    pub(crate) client: Asker,
}

/// The client that has asked for a move.
pub(crate) struct Asker {
    /// Receives the last reply.
    pub(crate) last: oneshot::Sender<Reply>,
    /// The task that forwards replies to the client.
    pub(crate) bringer: JoinHandle<()>,
    /// The permit for the move: there is one move at a time.
    pub(crate) place: OwnedSemaphorePermit,
}

impl Departure {
    /// Continues the move. No process runs the identity any more, which has been frozen since `began`.
    pub(crate) async fn go_on(self, began: Instant) -> Result<(), Undone> {
        let Self { departing, client } = self;
        match departing.finish(began).await {
            Ok(moved) => {
                client.tell(Ok(moved)).await;
                Ok(())
            }
            Err(Undone::Stays(failure)) => {
                let failure = failure.hint("the identity has not moved, and still lives here");
                client.tell(Err(&failure)).await;
                Err(Undone::Stays(failure))
            }
            Err(Undone::Ceded(failure)) => {
                client.tell(Err(&failure)).await;
                Err(Undone::Ceded(failure))
            }
        }
    }
}

impl Asker {
    /// Sends the result, and waits until it is sent.
    pub(crate) async fn tell(self, how: Result<Moved, &Failure>) {
        let last = match how {
            Ok(moved) => Reply::Moved(moved),
            Err(failure) => {
                let (error, hint) = failure.in_parts();
                Reply::Error { error, hint }
            }
        };
        // The client may have disconnected.
        let _ = self.last.send(last);
        let _ = self.bringer.await;
        drop(self.place);
    }
}

impl fmt::Debug for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Departure")
    }
}
