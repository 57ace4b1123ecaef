//! One transaction: the record that a message is processed, and the work of the handler.

use core::fmt;
use core::future::Future;

use crate::error::StoreError;
use crate::inbox::{HandlerError, InboxMessage};
use crate::statements::Statement;

/// How a transaction ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processed {
    /// It is committed.
    Now,
    /// The record was already there, since the message was processed before. The handler was not called.
    Before,
}

/// Why a message is not processed this time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The handler failed, and its transaction was rolled back.
    Handler(HandlerError),
    /// The database failed. Nobody knows whether the transaction has ended.
    Database(String),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
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
    /// Begins a transaction, and runs `record` in it as its first statement. If that changes no row, the message was
    /// processed before. If it changes one, calls the handler, and commits. In PostgreSQL, it must first make sure that no
    /// statement of the transaction has failed: the database rolls such a transaction back, and answers the commit as if
    /// it had succeeded.
    ///
    /// If this future is dropped, it must not begin the transaction any more. If the transaction has already run
    /// `record`, it may end in either way.
    ///
    /// # Errors
    /// [`Failed::Handler`] only if the transaction was certainly rolled back.
    fn process(
        &self,
        record: Statement,
        message: InboxMessage,
    ) -> impl Future<Output = Result<Processed, Failed>> + Send;
}
