//! One transaction: the record that a message is processed, and the work of the handler.

use core::fmt;
use core::future::Future;
use core::time::Duration;

use sqlx::Pool;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::Instrument;

use crate::database::Database;
use crate::inbox::tx::Lent;
use crate::inbox::{HandlerError, InboxMessage, InboxTx};
use crate::statements::Statement;

/// How long a rollback may take. The inbox does not wait for a longer one, which counts as a database that is away.
const ROLLBACK: Duration = Duration::from_secs(10);

/// The end of a transaction that is no failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processed {
    /// It is committed.
    Now,
    /// The record was there: the message was processed before. The handler was not called.
    Before,
}

/// The reason for which a message is not processed this time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The handler failed, and its transaction is rolled back.
    Handler(HandlerError),
    /// The database failed. It is not known whether the transaction has ended.
    Database(String),
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error.to_string())
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handler(HandlerError::Retry(why)) => write!(f, "its handler failed: {why}"),
            Self::Handler(HandlerError::Reject { status, reason }) => {
                write!(f, "its handler rejects it: {reason} (status {status})")
            }
            Self::Database(why) => write!(f, "the database says: {why}"),
        }
    }
}

/// Processes messages, each in a transaction of the inbox's database.
pub trait Process: Send + Sync + 'static {
    /// Begins a transaction and runs `record` in it, as its first statement. If that changes no row, the message was
    /// processed before. If it changes one, calls the handler, and commits.
    ///
    /// If this future is dropped, the transaction must not be begun any more; one that has run `record` by then may
    /// end in either way.
    ///
    /// # Errors
    /// [`Failed::Handler`] only when the transaction is certainly rolled back.
    fn process(
        &self,
        record: Statement,
        message: InboxMessage,
    ) -> impl Future<Output = Result<Processed, Failed>> + Send;
}

/// A handler in Rust, with a transaction of `sqlx`.
pub(super) struct Handled<DB: Database, F> {
    pub(super) pool: Pool<DB>,
    pub(super) handler: F,
    pub(super) most: Option<Duration>,
}

impl<DB, F, Fut, E> Process for Handled<DB, F>
where
    DB: Database,
    F: Fn(InboxTx<DB>, InboxMessage) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<HandlerError> + Send + 'static,
{
    async fn process(&self, record: Statement, message: InboxMessage) -> Result<Processed, Failed> {
        let mut tx = self.pool.begin().await?;
        if DB::execute(&mut tx, record.sql, record.args).await? == 0 {
            return Ok(Processed::Before);
        }
        let (lent, tx) = Lent::lend(tx).await;
        let handled = self.handle(tx, message).await;
        let Some(tx) = lent.back() else {
            return Err(Failed::Database(
                "its handler has kept the transaction, and may still use it".into(),
            ));
        };
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
    /// Calls the handler, on its own task, to which a panic is confined.
    async fn handle(&self, tx: InboxTx<DB>, message: InboxMessage) -> Result<(), HandlerError> {
        let begin = core::panic::AssertUnwindSafe(|| (self.handler)(tx, message));
        let Ok(handling) = std::panic::catch_unwind(begin) else {
            return Err("the handler has panicked".into());
        };
        let mut task = JoinSet::new();
        task.spawn(handling.in_current_span());
        let ended = match self.most {
            None => task.join_next().await,
            Some(most) => match timeout(most, task.join_next()).await {
                Ok(ended) => ended,
                Err(_) => {
                    task.shutdown().await;
                    return Err(format!("the handler has taken longer than {most:?}").into());
                }
            },
        };
        match ended {
            Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(error.into()),
            Some(Err(_)) | None => Err("the handler has panicked".into()),
        }
    }
}
