//! The thread that forces a journal to disk, with one write for all records that wait.

use core::time::Duration;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use exonet_proto::node::Position;
use exonet_store::Force;

use crate::shared::Shared;

/// Tells the thread up to where to force. Its destructor ends the thread.
#[derive(Default)]
pub(crate) struct Teller(Wanted);

impl Teller {
    /// Notes that the journal was appended up to `through`.
    pub(super) fn appended(&self, through: Position) {
        self.0.appended(through);
    }

    /// What the thread waits for.
    pub(super) fn wanted(&self) -> Wanted {
        self.0.clone()
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[derive(Clone, Default)]
pub(crate) struct Wanted(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    /// Up to where the journal was appended.
    appended: u64,
    forced: u64,
    ended: bool,
}

impl Wanted {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn appended(&self, through: Position) {
        let mut state = self.state();
        let idle = state.appended == state.forced;
        state.appended = through.0;
        drop(state);
        if idle {
            self.0.1.notify_one();
        }
    }

    /// Ends the thread, since nothing is appended any more.
    fn end(&self) {
        self.state().ended = true;
        self.0.1.notify_one();
    }

    /// Waits until there is something to force, and then collects more for `interval`. Returns false once there will
    /// be nothing more.
    fn wait(&self, interval: Duration) -> bool {
        let idle = |state: &mut State| state.appended == state.forced && !state.ended;
        let state = self.0.1.wait_while(self.state(), idle).unwrap_or_else(PoisonError::into_inner);
        if state.ended || interval.is_zero() {
            return !state.ended;
        }
        let waited = self.0.1.wait_timeout_while(state, interval, |state| !state.ended);
        !waited.unwrap_or_else(PoisonError::into_inner).0.ended
    }

    fn forced(&self, through: u64) {
        self.state().forced = through;
    }
}

/// Starts the thread, which forces the journal of a node for as long as the node exists. Each write covers everything
/// that was appended before it.
///
/// # Errors
/// The system cannot create a thread.
pub(crate) fn start(
    node: &Arc<Shared>,
    mut force: Box<dyn Force>,
    wanted: Wanted,
    interval: Duration,
) -> io::Result<()> {
    let node = Arc::downgrade(node);
    let run = move || {
        while wanted.wait(interval) {
            let forced = force.force();
            let Some(node) = Weak::upgrade(&node) else { return };
            match forced {
                Ok(through) => {
                    wanted.forced(through);
                    node.journaled(Position(through));
                }
                Err(error) => return node.journal_failed(&error),
            }
        }
    };
    thread::Builder::new().name("exonet-journal".to_owned()).spawn(run).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_something_to_force_while_less_is_forced_than_was_appended() {
        let wanted = Wanted::default();
        wanted.appended(Position(5));
        assert!(wanted.wait(Duration::ZERO));
        wanted.forced(3);
        assert!(wanted.wait(Duration::ZERO), "more was appended meanwhile");
        wanted.forced(5);
        wanted.end();
        assert!(!wanted.wait(Duration::ZERO));
        assert!(!wanted.wait(Duration::MAX));
    }
}
