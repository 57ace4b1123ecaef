//! What can go wrong.

use core::num::NonZeroU32;

use exonet::error::ServeError;

/// Why something was not done. What was begun in the application's transaction is undone by rolling that back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A table or a column of this crate is missing.
    #[error(
        "the database has no tables of this crate, or old ones ({0}): call `exonet_sql::migrate(&pool)` when the application starts"
    )]
    NotMigrated(String),
    /// The tables are of a later version of this crate.
    #[error(
        "the tables in the database are of version {found}, this crate knows versions up to {known}: update the application"
    )]
    TooNew {
        /// What is there.
        found: i64,
        /// What is known.
        known: i64,
    },
    /// The body is longer than [`MAX_BODY`](crate::MAX_BODY).
    #[error(
        "the body has {size} bytes, a message in an outbox has at most {limit}: keep large contents elsewhere, and send where they are"
    )]
    BodyTooLarge {
        /// Its bytes.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// A tag or an order key has at most 255 bytes.
    #[error("a tag and an order key have at most 255 bytes each, this one has {0}")]
    NameTooLong(usize),
    /// The node gives messages up, so the relay cannot know when a copy is dead.
    #[error("the node of a relay must not give messages up: build it without `doubt_timeout`")]
    DoubtTimeout,
    /// The node rejects messages by itself, so the inbox's own count of attempts would not hold.
    #[error(
        "the node of an inbox must not count attempts: build it without `attempts` ({0} here), and set `InboxBuilder::attempts`"
    )]
    Attempts(NonZeroU32),
    /// The node has a relay already.
    #[error("the node has a relay already, or cannot serve calls: {0}")]
    Serve(ServeError),
    /// The node is closed.
    #[error("the node is closed")]
    Closed,
    /// The system gives no random numbers.
    #[error("the system's random generator failed: {0}")]
    Random(String),
    /// What the database says.
    #[error("the database says: {0}")]
    Database(sqlx::Error),
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        match missing(&error) {
            Some(what) => Self::NotMigrated(what),
            None => Self::Database(error),
        }
    }
}

/// What a database says of a table or column that it does not have.
fn missing(error: &sqlx::Error) -> Option<String> {
    let said = error.as_database_error()?;
    let (code, text) = (said.code(), said.message());
    // PostgreSQL: undefined_table, undefined_column. SQLite has no code of its own for these.
    let of_code = matches!(code.as_deref(), Some("42P01" | "42703"));
    let of_text = text.starts_with("no such table")
        || text.contains("no such column")
        || text.contains("has no column named");
    (of_code || of_text).then(|| text.to_owned())
}
