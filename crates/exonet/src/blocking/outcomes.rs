//! The outcomes of messages, for a thread that blocks.

use core::time::Duration;
use std::sync::Arc;

use super::runtime::Runtime;
use crate::error::Closed;
use crate::send::Ended;

/// The outcomes of a node's messages: see [`crate::send::Outcomes`]. It is an iterator that waits for the next
/// outcome, and ends when the node has ended.
pub struct Outcomes {
    outcomes: crate::send::Outcomes,
    runtime: Arc<Runtime>,
}

impl Outcomes {
    pub(super) fn new(outcomes: crate::send::Outcomes, runtime: &Arc<Runtime>) -> Self {
        Self { outcomes, runtime: Arc::clone(runtime) }
    }

    /// Waits for the next outcome.
    ///
    /// # Errors
    /// [`Closed`] if the node has ended and all outcomes have been returned.
    pub fn recv(&mut self) -> Result<Ended, Closed> {
        self.runtime.wait(self.outcomes.recv())
    }

    /// Waits for the next outcome, for `timeout` at most. None: no message was settled.
    ///
    /// # Errors
    /// The errors of [`Self::recv`].
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Option<Ended>, Closed> {
        self.runtime.wait_for(timeout, self.outcomes.recv()).transpose()
    }
}

impl Iterator for Outcomes {
    type Item = Ended;

    fn next(&mut self) -> Option<Ended> {
        self.recv().ok()
    }
}

debugs!(Outcomes.outcomes);
