//! Takes messages from a node, and processes each in its own transaction.
//!
//! # Rules
//!
//! Each of these rules was verified by a search: without it a message is lost, or processed twice.
//!
//! * The record that a message is processed, and the work of the handler, are one transaction ([`process`]).
//! * The message is acknowledged after the commit, never before ([`work`]).
//! * The message is rejected after its transaction was rolled back, and never if the record is there ([`work`]).
//! * The record stays until the sender has said that the row is gone ([`collect`]).
//! * After that, it stays until no handler runs that got a copy of the message before the answer ([`handed`]).

mod collect;
mod fails;
mod handed;
mod process;
mod tx;
mod work;

use core::fmt;
use core::future::Future;
use core::num::NonZeroU32;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use exonet::{MessageId, Node, NodeId};
use sqlx::Pool;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::database::{Database, Pooled, Store};
use crate::{Error, Key, schema};

pub use fails::HandlerError;
pub use process::{Failed, Process, Processed};
pub use tx::InboxTx;

/// A message for the handler.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InboxMessage {
    /// The node that has sent it: proven, and admitted by the policy of this node.
    pub from: NodeId,
    /// Its key, the same each time it comes.
    pub key: Key,
    /// The tag for dispatch, as the sender set it.
    pub tag: Bytes,
    /// The key of the order that it belongs to; empty: none.
    pub order: Bytes,
    /// The body.
    pub body: Bytes,
    /// The number of times that the message has been handed out, this time included: the first is 1. If this node has
    /// crashed, the message may have been handed out before the crash, and the count assumes that it was.
    pub attempt: u32,
    /// Its id at both nodes, this time.
    pub id: MessageId,
}

/// Figures about an inbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InboxStats {
    /// Messages whose handler's transaction was committed.
    pub processed: u64,
    /// Messages that came again after they were processed.
    pub repeated: u64,
    /// Attempts at which a message was not processed: a handler failed, panicked or took too long, or the database was
    /// away.
    pub failed: u64,
    /// Messages that were rejected, and are dead letters of the node.
    pub rejected: u64,
    /// Inbox rows that were deleted because the sender has said that its row is gone.
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

/// Settings of an inbox to be started: created by [`Inbox::builder`].
#[must_use = "an inbox begins with `start`"]
pub struct InboxBuilder<DB: Database> {
    pool: Pool<DB>,
    node: Node,
    handler_timeout: Option<Duration>,
    settings: Settings,
}

/// Settings of an inbox, whoever processes its messages: see the methods of [`InboxBuilder`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// The number of messages that are processed at once.
    pub concurrency: usize,
    /// How often a message is handed out to a handler that fails.
    pub attempts: Option<NonZeroU32>,
    /// How often senders are asked which of their rows are gone.
    pub collect_every: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { concurrency: 16, attempts: NonZeroU32::new(10), collect_every: Duration::from_secs(30) }
    }
}

impl<DB: Database> InboxBuilder<DB> {
    /// The number of handlers that run at once, each with a connection of the pool. Default: 16.
    pub fn concurrency(mut self, most: usize) -> Self {
        self.settings.concurrency = most.max(1);
        self
    }

    /// How long a handler may take. One that takes longer is dropped at its next await, its transaction is rolled back,
    /// and it gets the message again. Default: one minute. None: without limit.
    pub fn handler_timeout(mut self, most: impl Into<Option<Duration>>) -> Self {
        self.handler_timeout = most.into();
        self
    }

    /// How often a message is handed out to a handler that fails. After the last time it is rejected with the handler's
    /// error: it becomes a [dead letter](exonet::dead) of the node, and its row at the sender is marked as failed. A
    /// hand-out that ended because the inbox or the node stopped counts; one that ended because the database was away
    /// does not. Default: 10. None: without limit.
    pub fn attempts(mut self, most: impl Into<Option<NonZeroU32>>) -> Self {
        self.settings.attempts = most.into();
        self
    }

    /// How often senders are asked which of their rows are gone. Default: 30 s.
    pub fn collect_every(mut self, interval: Duration) -> Self {
        self.settings.collect_every = interval;
        self
    }

    /// Starts the inbox, on its own tasks. `handler` is an async function that gets each message with a transaction:
    /// its work there is committed if it returns `Ok`, and rolled back if not. A handler that fails gets the message
    /// again, after growing waits of up to a minute, until the message is rejected after [`Self::attempts`]; other
    /// messages go on. A handler rejects a message at once with [`HandlerError::reject`].
    ///
    /// The handler must not leave work behind that uses the transaction.
    ///
    /// # Errors
    /// [`Error::Attempts`], [`Error::NotMigrated`], and errors of the database.
    pub async fn start<F, Fut, E>(self, handler: F) -> Result<Inbox, Error>
    where
        F: Fn(InboxTx<DB>, InboxMessage) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<HandlerError> + Send + 'static,
    {
        let Self { pool, node, handler_timeout, settings } = self;
        let store = Arc::new(Pooled(pool.clone()));
        let handled = process::Handled { pool, handler, most: handler_timeout };
        Inbox::over(store, &node, &settings, handled).await
    }
}

/// Takes messages from a node, and processes each in a transaction, exactly once. It takes the messages that a
/// [`Relay`](crate::Relay) sends, and leaves others to the node's other receivers.
///
/// It runs until [`Self::stop`], or until the node closes; when this handle is dropped, it stops in the background.
#[derive(Debug)]
pub struct Inbox {
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
    counters: Arc<Counters>,
}

impl Inbox {
    /// Starts an inbox with the default settings: see [`InboxBuilder::start`].
    ///
    /// # Errors
    /// As for [`InboxBuilder::start`].
    pub async fn start<DB, F, Fut, E>(pool: &Pool<DB>, node: &Node, handler: F) -> Result<Self, Error>
    where
        DB: Database,
        F: Fn(InboxTx<DB>, InboxMessage) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<HandlerError> + Send + 'static,
    {
        Self::builder(pool, node).start(handler).await
    }

    /// Begins to build an inbox in this database, for messages that this node receives.
    pub fn builder<DB: Database>(pool: &Pool<DB>, node: &Node) -> InboxBuilder<DB> {
        InboxBuilder {
            pool: pool.clone(),
            node: node.clone(),
            handler_timeout: Some(Duration::from_secs(60)),
            settings: Settings::default(),
        }
    }

    /// Starts an inbox that reaches its database by the application's own driver, and whose messages `process`
    /// processes.
    ///
    /// # Errors
    /// As for [`InboxBuilder::start`].
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

    /// Takes no further messages, waits until the handlers that run have ended, for `timeout` at most, then drops them
    /// at their next await. The node hands messages out again that were not processed.
    ///
    /// # Errors
    /// None yet.
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

impl<DB: Database> fmt::Debug for InboxBuilder<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboxBuilder").field("node", &self.node).finish_non_exhaustive()
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counters")
    }
}
