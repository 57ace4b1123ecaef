//! One download from several servers.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::copy::Hex32;
use crate::share::{Part, Plan, Shape};

/// The file that is fetched, its progress, and the requests to servers.
pub(super) struct Course {
    pub(super) name: String,
    pub(super) root: Hex32,
    pub(super) shape: Shape,
    pub(super) part: Part,
    plan: Mutex<Plan>,
    changed: Notify,
}

impl Course {
    pub(super) fn new(name: String, root: Hex32, shape: Shape, part: Part, servers: usize) -> Self {
        let plan = Mutex::new(Plan::new(shape, |index| part.has(index), servers));
        Self { name, root, shape, part, plan, changed: Notify::new() }
    }

    /// The plan. The lock must be held only briefly.
    pub(super) fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there may be other work for a server.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    pub(super) fn join(&self, server: usize) {
        self.plan().join(server);
    }

    /// Assigns the requested pieces of the server to others.
    pub(super) fn leave(&self, server: usize) {
        self.plan().leave(server);
        self.changed.notify_waiters();
    }

    /// A piece is written.
    pub(super) fn came(&self, server: usize, index: u32) {
        self.plan().came(Instant::now(), server, index);
        self.changed.notify_waiters();
    }
}
