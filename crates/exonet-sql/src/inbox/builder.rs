//! An inbox whose handler is written in Rust and gets a transaction of `sqlx`.

use core::fmt;
use core::future::Future;
use core::num::NonZeroU32;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::sync::Arc;

use exonet::Node;
use futures_util::FutureExt;
use sqlx::Pool;
use tokio::time::timeout;

use crate::Error;
use crate::error::StoreError;
use crate::inbox::tx::Lent;
use crate::inbox::{Failed, HandlerError, Inbox, InboxMessage, InboxTx, Process, Processed, Settings};
use crate::kept::{Kept, OpenTx};
use crate::pooled::{Database, Pooled};
use crate::statements::Statement;

/// How long a rollback may take. If it takes longer, the inbox no longer waits for it, and treats the database as
/// away.
const ROLLBACK: Duration = Duration::from_secs(10);

/// The settings of an inbox that is not yet started. [`Inbox::builder`] creates it.
#[must_use = "an inbox begins with `start`"]
pub struct InboxBuilder<DB: Database> {
    pool: Pool<DB>,
    node: Node,
    handler_timeout: Option<Duration>,
    settings: Settings,
}

impl<DB: Database> InboxBuilder<DB> {
    /// How many handlers run at the same time, each with a connection of the pool. Default: 16.
    pub fn concurrency(mut self, most: usize) -> Self {
        self.settings.concurrency = most.max(1);
        self
    }

    /// How long a handler may take. At its next await after that, the inbox drops it and rolls its transaction back,
    /// and the handler gets the message again. None: no limit. Default: one minute.
    pub fn handler_timeout(mut self, most: impl Into<Option<Duration>>) -> Self {
        self.handler_timeout = most.into();
        self
    }

    /// How many times a message is handed out to a handler that fails. After the last time, the inbox rejects the
    /// message with the handler's error: the message becomes a [dead letter](exonet::dead) of the node, and its row
    /// at the sender is marked as failed. An attempt counts even if it ended because the inbox or the node stopped,
    /// but not if the database was away. None: no limit. Default: 10.
    pub fn attempts(mut self, most: impl Into<Option<NonZeroU32>>) -> Self {
        self.settings.attempts = most.into();
        self
    }

    /// How often the inbox asks senders which of their rows are gone. Default: 30 s.
    pub fn collect_every(mut self, interval: Duration) -> Self {
        self.settings.collect_every = interval;
        self
    }

    /// Starts the inbox, in tasks of its own. `handler` is an async function that gets each message with a
    /// transaction. If it returns `Ok`, the inbox commits its work there; otherwise it rolls the work back. If a
    /// handler fails, it gets the message again, after growing pauses of up to a minute, until the message is
    /// rejected after [`Self::attempts`]; other messages go on. With [`HandlerError::reject`], a handler rejects a
    /// message at once.
    ///
    /// The handler must neither commit nor roll back. After it has returned, nothing that it has started may use the
    /// transaction. The handler of another message may get the same connection next. The hooks of the pool do not run in
    /// between.
    ///
    /// In PostgreSQL, a statement that fails makes its transaction fail. A handler that hides such an error and returns
    /// `Ok` counts as one that has failed. To go on after an error, run the statement in a nested transaction.
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
        let store = Arc::new(Pooled::new(pool.clone()));
        let handled = Handled { kept: Kept::new(pool), handler, most: handler_timeout };
        Inbox::over(store, &node, &settings, handled).await
    }
}

impl Inbox {
    /// Starts an inbox with the default settings: see [`InboxBuilder::start`].
    ///
    /// # Errors
    /// The errors of [`InboxBuilder::start`].
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
}

impl<DB: Database> fmt::Debug for InboxBuilder<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboxBuilder").field("node", &self.node).finish_non_exhaustive()
    }
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        StoreError::from(error).into()
    }
}

/// A handler in Rust that gets a transaction of `sqlx`.
struct Handled<DB: Database, F> {
    /// No relay uses these connections, since handlers may change settings of theirs.
    kept: Arc<Kept<DB>>,
    handler: F,
    most: Option<Duration>,
}

impl<DB, F, Fut, E> Process for Handled<DB, F>
where
    DB: Database,
    F: Fn(InboxTx<DB>, InboxMessage) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<HandlerError> + Send + 'static,
{
    async fn process(&self, record: Statement, message: InboxMessage) -> Result<Processed, Failed> {
        let mut tx = OpenTx::begin(&self.kept).await?;
        if DB::execute(&mut tx, record.sql, record.args).await? == 0 {
            // Whether this succeeds makes no difference.
            let _ = timeout(ROLLBACK, tx.rollback()).await;
            return Ok(Processed::Before);
        }
        let (lent, tx) = Lent::lend(tx).await;
        let mut handled = self.handle(tx, message).await;
        let Some(mut tx) = lent.back() else {
            return Err(Failed::Database(
                "its handler has kept the transaction, and may still use it".into(),
            ));
        };
        if handled.is_ok() && !DB::can_commit(&mut tx).await? {
            handled = Err("a statement of the handler has failed, so its transaction cannot be committed, but the handler has returned Ok".into());
        }
        if let Err(why) = handled {
            let undone = timeout(ROLLBACK, tx.rollback()).await;
            undone.map_err(|_| Failed::Database(format!("no rollback within {ROLLBACK:?}")))??;
            return Err(Failed::Handler(why));
        }
        tx.commit().await?;
        Ok(Processed::Now)
    }
}

impl<DB, F, Fut, E> Handled<DB, F>
where
    DB: Database,
    F: Fn(InboxTx<DB>, InboxMessage) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<HandlerError> + Send + 'static,
{
    /// Calls the handler. A panic ends only the handler.
    async fn handle(&self, tx: InboxTx<DB>, message: InboxMessage) -> Result<(), HandlerError> {
        let handling = AssertUnwindSafe(async { (self.handler)(tx, message).await }).catch_unwind();
        let ended = match self.most {
            None => handling.await,
            Some(most) => timeout(most, handling)
                .await
                .map_err(|_| HandlerError::from(format!("the handler has taken longer than {most:?}")))?,
        };
        match ended {
            Ok(ended) => ended.map_err(Into::into),
            Err(_) => Err("the handler has panicked".into()),
        }
    }
}
