//! For bindings to other languages: an outbox and an inbox whose statements run on the application's own driver.
//!
//! An application that is not written in Rust has connections of its own. An inbox whose work and record are one
//! transaction must use these. So this crate decides which statements to run and in which order, and has their text;
//! the host runs them. A process that uses SQLite must also not contain a second copy of that library: when either
//! copy closes a file, the process loses its locks on that file.
//!
//! * [`outbox`] gives the statement that inserts a row.
//! * [`Relay::over`](crate::Relay::over) and [`migrate`] take a [`Store`].
//! * [`Inbox::over`](crate::Inbox::over) takes a [`Store`] for what the inbox keeps, and a [`Process`] for the
//!   transactions of the handler.
//!
//! The tables are the same as those of applications in Rust, which may share them.

use exonet::PeerAddr;

use crate::{Error, Key, OutboxMessage, schema};

pub use crate::database::{Cells, Connection, Store, Transaction, Value, Waiting};
pub use crate::error::StoreError;
pub use crate::inbox::{Failed, Process, Processed, Settings};
pub use crate::statements::{Dialect, Statement};

/// The database of a [`Relay`](crate::Relay) that uses a [`Store`].
#[derive(Clone, Copy, Debug)]
pub enum Host {}

/// Returns the key of a new row for a message, and the statement that inserts the row.
///
/// # Errors
/// [`Error::BodyTooLarge`], [`Error::NameTooLong`], [`Error::Random`].
pub fn outbox(dialect: Dialect, peer: &PeerAddr, message: OutboxMessage) -> Result<(Key, Statement), Error> {
    message.row(dialect, peer)
}

/// Creates the tables of outbox and inbox, or brings old ones up to date. Any number of processes may call it, at
/// each start.
///
/// # Errors
/// [`Error::TooNew`], and errors of the database.
pub async fn migrate(store: &dyn Store) -> Result<(), Error> {
    schema::make(store).await
}
