//! A move that a process makes of the identity which it runs.

use std::fmt;
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::JoinHandle;

use super::{Departing, Moved, Undone};
use crate::control::protocol::Reply;
use crate::failure::Failure;

/// A move that goes on when the node stands still, and the client that is told how it ends.
pub(crate) struct Departure {
    pub(crate) departing: Departing,
    pub(crate) client: Asker,
}

/// The client that has asked for a move.
pub(crate) struct Asker {
    /// Takes the last word.
    pub(crate) last: oneshot::Sender<Reply>,
    /// Brings it to the client.
    pub(crate) bringer: JoinHandle<()>,
    /// There is one at a time.
    pub(crate) place: OwnedSemaphorePermit,
}

impl Departure {
    /// No process runs the identity any more, which stood still from `began` on.
    pub(crate) async fn go_on(self, began: Instant) -> Result<(), Undone> {
        let Self { departing, client } = self;
        match departing.finish(began).await {
            Ok(moved) => {
                client.tell(Ok(moved)).await;
                Ok(())
            }
            Err(Undone::Stays(failure)) => {
                let failure = failure.hint("the identity has not moved, and goes on here");
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
    /// Says how it ended, and waits until that is said.
    pub(crate) async fn tell(self, how: Result<Moved, &Failure>) {
        let last = match how {
            Ok(moved) => Reply::Moved(moved),
            Err(failure) => {
                let (error, hint) = failure.in_parts();
                Reply::Error { error, hint }
            }
        };
        // It may have left.
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
