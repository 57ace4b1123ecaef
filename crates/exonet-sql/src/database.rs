//! The interface to a database: what connects to it and runs statements.
//!
//! All statements except those of a handler's transaction go through [`Store`]. In Rust, `sqlx` implements it; in
//! other languages, the application's own driver does ([`host`](crate::host)).

use core::future::Future;
use core::pin::Pin;

use crate::error::StoreError;
use crate::statements::Dialect;

/// The future of a method of this interface.
pub type Waiting<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Connects to one database.
pub trait Store: Send + Sync + 'static {
    /// The dialect of the database.
    fn dialect(&self) -> Dialect;

    /// Returns a connection on which each statement is a transaction of its own.
    fn acquire(&self) -> Waiting<'_, Box<dyn Connection>>;

    /// Returns a connection with an open transaction.
    fn begin(&self) -> Waiting<'_, Box<dyn Transaction>>;

    /// Calls `wake` whenever a transaction may have been committed: for PostgreSQL at each notification
    /// `exonet_outbox`, for SQLite at each change of `data_version`, and once at the beginning. Ends when its
    /// connection is lost.
    fn listen<'a>(&'a self, wake: &'a (dyn Fn() + Send + Sync)) -> Waiting<'a, ()>;
}

/// Runs statements. If one of its futures is dropped before its end, the connection is not used again.
pub trait Connection: Send {
    /// Runs a statement, and returns how many rows it has changed.
    fn execute<'a>(&'a mut self, sql: &'static str, args: Vec<Value>) -> Waiting<'a, u64>;

    /// Runs a statement, and returns its rows.
    fn fetch<'a>(&'a mut self, sql: &'static str, args: Vec<Value>) -> Waiting<'a, Vec<Cells>>;
}

/// A transaction. If it is dropped, it is rolled back.
pub trait Transaction: Connection {
    /// Commits it.
    fn commit(self: Box<Self>) -> Waiting<'static, ()>;
}

/// An argument of a statement, or a column of its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Null, of any type. It occurs only in results.
    Null,
    /// An integer.
    Int(i64),
    /// Bytes, or null.
    Bytes(Option<Vec<u8>>),
    /// A string, or null.
    Text(Option<String>),
    /// A list of integers, for a search.
    Ints(Vec<i64>),
    /// A list of byte strings, for a search.
    Blobs(Vec<Vec<u8>>),
}

impl Value {
    pub(crate) fn blob(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Bytes(Some(bytes.into()))
    }
}

/// A row of a result.
#[derive(Debug)]
pub struct Cells(std::vec::IntoIter<Value>);

impl From<Vec<Value>> for Cells {
    fn from(row: Vec<Value>) -> Self {
        Self(row.into_iter())
    }
}

impl Cells {
    fn wrong() -> StoreError {
        StoreError::wrong("a column has another type than this crate gave it")
    }

    pub(crate) fn int(&mut self) -> Result<i64, StoreError> {
        match self.0.next() {
            Some(Value::Int(int)) => Ok(int),
            _ => Err(Self::wrong()),
        }
    }

    pub(crate) fn maybe_bytes(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        match self.0.next() {
            Some(Value::Bytes(bytes)) => Ok(bytes),
            Some(Value::Null) => Ok(None),
            _ => Err(Self::wrong()),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        self.maybe_bytes()?.ok_or_else(Self::wrong)
    }

    pub(crate) fn maybe_text(&mut self) -> Result<Option<String>, StoreError> {
        match self.0.next() {
            Some(Value::Text(text)) => Ok(text),
            Some(Value::Null) => Ok(None),
            _ => Err(Self::wrong()),
        }
    }
}
