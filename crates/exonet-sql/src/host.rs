//! For bindings to other languages: an outbox and an inbox whose statements run on the application's own driver.
//!
//! An application that is not written in Rust has connections of its own, and an inbox whose work and record are one
//! transaction has to use these. So this crate decides what is done, and in which order, and has the text of all
//! statements; the host runs them. A process that uses SQLite must not have a second copy of that library besides: the
//! locks of a process on a file are lost when either copy closes the file.
//!
//! * [`outbox`] gives the statement that inserts a row; after it has run, the host calls [`inserted`].
//! * [`Relay::over`](crate::Relay::over) and [`migrate`] take a [`Store`].
//! * [`Inbox::over`](crate::Inbox::over) takes a [`Store`] for its bookkeeping, and a [`Process`] for the transactions
//!   of the handler.
//!
//! The tables are those of applications in Rust, which may share them.

use core::fmt;
use std::borrow::Cow;
use std::error::Error as StdError;

use exonet::PeerAddr;
use sqlx::error::{DatabaseError, ErrorKind};

use crate::{Error, Key, OutboxMessage, schema};

pub use crate::database::{Cells, Connection, Store, Transaction, Value, Waiting};
pub use crate::inbox::{Failed, Process, Processed, Settings};
pub use crate::relay::commits::inserted;
pub use crate::statements::{Dialect, Statement};
/// The error of a [`Store`]: a [`DriverError`] becomes one.
pub use sqlx::Error as StoreError;

/// The database of a [`Relay`](crate::Relay) that was started over a [`Store`].
#[derive(Clone, Copy, Debug)]
pub enum Host {}

/// The key of a new row for a message, and the statement that inserts it.
///
/// # Errors
/// [`Error::BodyTooLarge`], [`Error::NameTooLong`], [`Error::Random`].
pub fn outbox(dialect: Dialect, peer: &PeerAddr, message: OutboxMessage) -> Result<(Key, Statement), Error> {
    message.row(dialect, peer)
}

/// See [`migrate`](crate::migrate).
///
/// # Errors
/// [`Error::TooNew`], and errors of the database.
pub async fn migrate(store: &dyn Store) -> Result<(), Error> {
    schema::make(store).await
}

/// An error of the application's driver.
#[derive(Clone, Debug)]
pub struct DriverError {
    /// The SQLSTATE, if the database has said one.
    pub code: Option<String>,
    /// The text.
    pub message: String,
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for DriverError {}

impl DatabaseError for DriverError {
    fn message(&self) -> &str {
        &self.message
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        self.code.as_deref().map(Cow::Borrowed)
    }

    fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}
