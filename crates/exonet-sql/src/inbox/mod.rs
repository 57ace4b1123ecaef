//! Takes messages from a node, and processes each in a transaction of its own.
//!
//! # Rules
//!
//! A search has verified each of these rules: without it, a message is lost or processed twice.
//!
//! * One transaction contains the record that a message is processed and the work of the handler ([`process`]).
//! * The inbox acknowledges the message after the commit, never before ([`work`]).
//! * The inbox rejects the message after its transaction was rolled back, and never if the record exists ([`work`]).
//! * The record stays until the sender has said that the row is gone ([`collect`]).
//! * After that, it stays until no handler runs that got a copy of the message before the answer ([`handed`]).

#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod builder;
mod collect;
mod fails;
mod handed;
mod process;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod tx;
mod work;

use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use exonet::{MessageId, Node, NodeId};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::database::Store;
use crate::{Error, Key, schema};

#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use builder::InboxBuilder;
pub use fails::HandlerError;
pub use process::{Failed, Process, Processed};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use tx::InboxTx;

/// A message for the handler.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InboxMessage {
    /// The node that sent the message: its id is proven, and this node's policy admits it.
    pub from: NodeId,
    /// The key of the message, which is the same each time that the message comes.
    pub key: Key,
    /// The tag that the sender has set, for dispatch.
    pub tag: Bytes,
    /// The order key. Empty: the message belongs to no order.
    pub order: Bytes,
    /// The body.
    pub body: Bytes,
    /// How many times the message has been handed out, including this time: the first time, it is 1. If this node has
    /// crashed, the message may have been handed out before the crash, and the count assumes that it was.
    pub attempt: u32,
    /// The id of the message at both nodes. Another copy of the message has another id.
    pub id: MessageId,
}

/// Figures about an inbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InboxStats {
    /// Messages whose handler's transaction was committed.
    pub processed: u64,
    /// Messages that came again after they had been processed.
    pub repeated: u64,
    /// Attempts in which a message was not processed: a handler failed, panicked or took too long, or the database
    /// was away.
    pub failed: u64,
    /// Messages that were rejected, and became dead letters of the node.
    pub rejected: u64,
    /// Inbox rows that were deleted because the sender had said that its row is gone.
    pub collected: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    processed: AtomicU64,
    repeated: AtomicU64,
    failed: AtomicU64,
    rejected: AtomicU64,
    collected: AtomicU64,
}

/// The settings of an inbox of any kind. The builder of an inbox explains them.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many messages are processed at the same time.
    pub concurrency: usize,
    /// How many times a message is handed out to a handler that fails.
    pub attempts: Option<NonZeroU32>,
    /// How often the inbox asks senders which of their rows are gone.
    pub collect_every: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { concurrency: 16, attempts: NonZeroU32::new(10), collect_every: Duration::from_secs(30) }
    }
}

/// Takes messages from a node, and processes each exactly once, in a transaction. It takes the messages that a
/// [`Relay`](crate::Relay) sends, and leaves others to the node's other receivers.
///
/// It runs until [`Self::stop`], or until the node closes. If this handle is dropped, it stops in the background.
#[derive(Debug)]
pub struct Inbox {
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
    counters: Arc<Counters>,
}

impl Inbox {
    /// Starts an inbox that uses the application's own driver. `process` processes its messages.
    ///
    /// # Errors
    /// The errors of [`InboxBuilder::start`].
    pub async fn over(
        store: Arc<dyn Store>,
        node: &Node,
        settings: &Settings,
        process: impl Process,
    ) -> Result<Self, Error> {
        if let Some(most) = node.attempts() {
            return Err(Error::Attempts(most));
        }
        schema::check(&*store).await?;
        let counters = Arc::new(Counters::default());
        let (stop, stopped) = watch::channel(false);
        let work = work::Work::new(store, node.clone(), process, settings, Arc::clone(&counters));
        let task = tokio::spawn(work.run(settings.collect_every, stopped));
        Ok(Self { stop, task: Some(task), counters })
    }

    /// Figures about the inbox.
    pub fn stats(&self) -> InboxStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { processed, repeated, failed, rejected, collected } = &*self.counters;
        InboxStats {
            processed: get(processed),
            repeated: get(repeated),
            failed: get(failed),
            rejected: get(rejected),
            collected: get(collected),
        }
    }

    /// Takes no further messages, and waits for running handlers, for `timeout` at most. Then it drops those that
    /// still run at their next await. The node hands out again the messages that were not processed.
    ///
    /// # Errors
    /// There are none yet.
    pub async fn stop(mut self, timeout: Duration) -> Result<(), Error> {
        self.stop.send_replace(true);
        if let Some(mut task) = self.task.take()
            && tokio::time::timeout(timeout, &mut task).await.is_err()
        {
            task.abort();
            let _ = task.await;
        }
        Ok(())
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counters")
    }
}
