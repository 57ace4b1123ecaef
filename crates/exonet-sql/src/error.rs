//! The errors of this crate.

use core::num::NonZeroU32;

use exonet::error::ServeError;

/// The errors of this crate. The application rolls its transaction back to undo what it did.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A table or column of this crate is missing.
    #[error(
        "the database has no tables of this crate, or old ones ({0}): call `exonet_sql::migrate(&pool)` when the application starts"
    )]
    NotMigrated(String),
    /// A later version of this crate made the tables.
    #[error(
        "the tables in the database are of version {found}, this crate knows versions up to {known}: update the application"
    )]
    TooNew {
        /// The version that was found.
        found: i64,
        /// The latest version that this crate knows.
        known: i64,
    },
    /// The body is longer than [`MAX_BODY`](crate::MAX_BODY).
    #[error(
        "the body has {size} bytes, a message in an outbox has at most {limit}: keep large contents elsewhere, and send where they are"
    )]
    BodyTooLarge {
        /// The length of the body in bytes.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// A tag or an order key is longer than 255 bytes; the value is its length in bytes.
    #[error("a tag and an order key have at most 255 bytes each, this one has {0}")]
    NameTooLong(usize),
    /// The node has a `doubt_timeout`, so the relay cannot know when a copy can no longer be delivered.
    #[error("the node of a relay must not give messages up: build it without `doubt_timeout`")]
    DoubtTimeout,
    /// The node itself rejects messages after some attempts, so the inbox could not count attempts correctly.
    #[error(
        "the node of an inbox must not count attempts: build it without `attempts` ({0} here), and set `InboxBuilder::attempts`"
    )]
    Attempts(NonZeroU32),
    /// The node already has a relay.
    #[error("the node has a relay already, or cannot serve calls: {0}")]
    Serve(ServeError),
    /// The node is closed.
    #[error("the node is closed")]
    Closed,
    /// The system gave no random numbers.
    #[error("the system's random generator failed: {0}")]
    Random(String),
    /// An error of the database.
    #[error("the database says: {0}")]
    Database(StoreError),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match missing(&error) {
            Some(what) => Self::NotMigrated(what),
            None => Self::Database(error),
        }
    }
}

#[cfg(any(feature = "postgres", feature = "sqlite"))]
impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        StoreError::from(error).into()
    }
}

/// An error of the database, or of the client library that runs the statements.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// An error of `sqlx`.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    #[error(transparent)]
    Sqlx(#[from] sqlx::Error),
    /// An error of another driver, or of this crate itself.
    #[error("{message}")]
    Driver {
        /// The SQLSTATE, if the database has given one.
        code: Option<String>,
        /// The text.
        message: String,
    },
}

impl StoreError {
    /// For a database, or a transaction of a handler, that is not as this crate has left it.
    pub(crate) fn wrong(message: &str) -> Self {
        Self::Driver { code: None, message: message.to_owned() }
    }
}

/// The text with which a database reports a missing table or column.
fn missing(error: &StoreError) -> Option<String> {
    let (code, text) = match error {
        #[cfg(any(feature = "postgres", feature = "sqlite"))]
        StoreError::Sqlx(error) => {
            let said = error.as_database_error()?;
            (said.code().map(String::from), said.message())
        }
        StoreError::Driver { code, message } => (code.clone(), message.as_str()),
    };
    // PostgreSQL: undefined_table, undefined_column. SQLite has no codes for these.
    let of_code = matches!(code.as_deref(), Some("42P01" | "42703"));
    let of_text = text.starts_with("no such table")
        || text.contains("no such column")
        || text.contains("has no column named");
    (of_code || of_text).then(|| text.to_owned())
}
