//! Work that a step under the node's lock leaves until the lock is free: everything that runs code of the
//! application. A waker, a subscriber of logs or the destructor of a body may call the node; under the lock, that
//! call would wait for itself. A panic of such code outside of the lock does not break the core.

use core::cell::Cell;
use core::net::SocketAddr;
use core::panic::AssertUnwindSafe;
use core::task::Waker;
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::Arc;

use bytes::Bytes;
use exonet_proto::NodeId;
use exonet_proto::node::Refusal;
use tokio::sync::{Notify, oneshot};

use crate::call::desk::Line;
use crate::comings::Coming;
use crate::engine::Todo;
use crate::receive::routes::Route;
use crate::report::Times;

/// A thread keeps the memory of this many chores at most.
const KEPT: usize = 1_024;

/// The result of a ping: the round-trip time, or None if the ping was lost; or why the peer answers no pings.
pub(crate) type Pong = Result<Option<Duration>, Refusal>;

/// One piece of work.
pub(crate) enum Chore {
    Wake(Waker),
    /// Drops a waker that is no longer needed.
    Forget(Waker),
    /// Wakes the next task of a line.
    Next(Arc<Notify>),
    /// Wakes all tasks of a line.
    All(Arc<Notify>),
    /// Wakes the server of a method: a call waits.
    Called(Arc<Line>),
    /// Tells the server of a method that the node takes no further calls of it.
    Ended(Arc<Line>),
    /// Passes the result of a ping to the task that asked. None: there will be no result.
    Pong(oneshot::Sender<Pong>, Option<Pong>),
    Log(Arc<str>, Log),
}

/// An entry for the log.
pub(crate) enum Log {
    /// The policy does not admit the peer.
    Refused(NodeId, SocketAddr),
    Connected(NodeId, SocketAddr, Coming),
    /// A peer was forgotten. True: the line has the level INFO; false: DEBUG.
    Forgotten(NodeId, bool),
    TheirsTwice(NodeId),
    OursTwice(NodeId),
    OursMoved(NodeId),
    WriteFailed,
    /// Why the node cannot write its journal.
    JournalFailed(String),
    /// There was no room for records that had to be written.
    JournalFull(String),
    CorePanicked,
    /// Why the node ended, and the number of open messages.
    Ended(String, usize),
}

/// The work that is left after a step.
#[derive(Default)]
pub(crate) struct After {
    pub(crate) todo: Todo,
    pub(crate) chores: Vec<Chore>,
    /// Bodies and tags that the core no longer needs: their destructors are code of the application.
    pub(crate) spent: Vec<Bytes>,
    /// How long messages took to be delivered, each time with the number of messages that were delivered together.
    pub(crate) took: Vec<(Duration, u32)>,
}

thread_local! {
    /// An empty value whose memory the next step reuses, so that a step allocates nothing.
    static SPARE: Cell<After> = const {
        Cell::new(After { todo: Todo::NOTHING, chores: Vec::new(), spent: Vec::new(), took: Vec::new() })
    };
}

impl After {
    /// No work yet.
    pub(crate) fn begin() -> Self {
        SPARE.try_with(Cell::take).unwrap_or_default()
    }

    pub(crate) fn wake(&mut self, waker: Option<Waker>) {
        self.chores.extend(waker.map(Chore::Wake));
    }

    pub(crate) fn forget(&mut self, waker: Option<Waker>) {
        self.chores.extend(waker.map(Chore::Forget));
    }

    /// Whether this work wakes a task.
    pub(crate) fn wakes(&self) -> bool {
        self.chores.iter().any(|chore| matches!(chore, Chore::Wake(_)))
    }

    /// Wakes the next receiver of a route if there is `more` for it, after one receiver has taken a message.
    pub(crate) fn wake_next(&mut self, route: Option<&Arc<Route>>, more: bool) {
        match route {
            None => self.todo.readable |= more,
            Some(route) => self.chores.extend(more.then(|| Chore::Next(Arc::clone(&route.readable)))),
        }
    }

    /// Adds the work of another step.
    pub(crate) fn join(&mut self, mut other: Self) {
        self.todo.join(other.todo);
        self.chores.append(&mut other.chores);
        self.spent.append(&mut other.spent);
        self.took.append(&mut other.took);
        other.keep();
    }

    /// Does all the work except [`Self::todo`]. The caller must not hold the lock.
    pub(crate) fn run(mut self, times: &Times) {
        if !self.took.is_empty() {
            let took = &mut self.took;
            shielded("the recorder of metrics", || {
                for (took, count) in took.drain(..) {
                    times.message.record_many(took.as_secs_f64(), count as usize);
                }
            });
            self.took.clear();
        }
        for chore in self.chores.drain(..) {
            shielded("a task's waker", || chore.run());
        }
        for bytes in self.spent.drain(..) {
            shielded("the destructor of a body", || drop(bytes));
        }
        self.keep();
    }

    /// Keeps the memory for the next step of this thread.
    fn keep(mut self) {
        if self.chores.capacity() <= KEPT && self.spent.capacity() <= KEPT && self.took.capacity() <= KEPT {
            self.todo = Todo::default();
            // While a thread ends, it has no place to keep it.
            let _ = SPARE.try_with(|spare| spare.set(self));
        }
    }
}

impl Chore {
    fn run(self) {
        match self {
            Self::Wake(waker) => waker.wake(),
            Self::Forget(waker) => drop(waker),
            Self::Next(line) => line.notify_one(),
            Self::All(line) => line.notify_waiters(),
            Self::Called(line) => line.called.notify_one(),
            Self::Ended(line) => line.ended.close(),
            // The task that asked may no longer wait.
            Self::Pong(asker, Some(pong)) => drop(asker.send(pong)),
            Self::Pong(asker, None) => drop(asker),
            Self::Log(node, log) => log.write(&node),
        }
    }
}

impl Log {
    fn write(self, node: &str) {
        match self {
            Self::Refused(peer, remote) => {
                tracing::info!(target: "exonet::refused", node, %peer, %remote, "refused: policy does not let it in");
            }
            Self::Connected(peer, remote, Coming::Came) => {
                tracing::info!(peer = %peer.short(), %remote, "connected");
            }
            Self::Connected(peer, remote, Coming::Moved) => {
                tracing::info!(peer = %peer.short(), %remote, "its address has changed");
            }
            Self::Connected(peer, remote, Coming::Restarted) => {
                tracing::info!(peer = %peer.short(), %remote, "it has restarted");
            }
            Self::Connected(peer, remote, Coming::Nothing) => {
                tracing::debug!(node, peer = %peer.short(), %remote, "connected");
            }
            Self::Forgotten(peer, true) => tracing::info!(peer = %peer.short(), "gone"),
            Self::Forgotten(peer, false) => tracing::debug!(node, peer = %peer.short(), "forgotten"),
            Self::TheirsTwice(peer) => {
                tracing::warn!(
                    node,
                    %peer,
                    "two nodes have this peer's identity: nothing is delivered between it and this node in this life"
                );
            }
            Self::OursTwice(peer) => {
                tracing::warn!(
                    node,
                    %peer,
                    "another node has this node's identity, says this peer: nothing is delivered between the two in this life"
                );
            }
            Self::OursMoved(peer) => {
                tracing::warn!(
                    node,
                    %peer,
                    "this node's identity has moved and lives elsewhere, says this peer: nothing is delivered between the two in this life"
                );
            }
            Self::WriteFailed => tracing::error!(node, "a write failed: the node has stopped"),
            Self::JournalFailed(why) => tracing::error!(node, "{why}. The node stops"),
            Self::JournalFull(why) => {
                tracing::error!(
                    node,
                    "{why}. The node stops, and its journal keeps what it has accepted: start it again then"
                );
            }
            Self::CorePanicked => tracing::error!(node, "the core panicked: the node has stopped"),
            Self::Ended(why, open) => tracing::warn!(node, open, "{why} before all messages were settled"),
        }
    }
}

/// Runs code of the application. Returns None if that code panicked; the panic is logged, and the node goes on.
pub(crate) fn shielded<T>(what: &str, f: impl FnOnce() -> T) -> Option<T> {
    let ran = catch_unwind(AssertUnwindSafe(f));
    if ran.is_err() {
        // The subscriber of the log may be what panicked.
        drop(catch_unwind(|| tracing::error!("{what} panicked: the node goes on")));
    }
    ran.ok()
}
