//! The interface to a database: who connects and runs statements.
//!
//! All but the handler's part of a transaction goes through [`Store`], which is `sqlx` in Rust, and the application's
//! own driver in other languages ([`host`](crate::host)).

use core::future::Future;
use core::pin::Pin;

use sqlx::pool::PoolConnection;
use sqlx::{Pool, Transaction as SqlxTransaction};

use crate::statements::Dialect;

/// A database that an outbox and an inbox can live in: [`sqlx::Postgres`] and [`sqlx::Sqlite`].
pub trait Database: sealed::Sql {}

/// A future of this interface.
pub type Waiting<'a, T> = Pin<Box<dyn Future<Output = Result<T, sqlx::Error>> + Send + 'a>>;

/// Connects to one database.
pub trait Store: Send + Sync + 'static {
    /// The dialect of the database.
    fn dialect(&self) -> Dialect;

    /// A connection on which each statement is a transaction of its own.
    fn acquire(&self) -> Waiting<'_, Box<dyn Connection>>;

    /// A connection with an open transaction.
    fn begin(&self) -> Waiting<'_, Box<dyn Transaction>>;

    /// Calls `wake` at each notification `exonet_outbox` of PostgreSQL, and once when it listens. Ends when its
    /// connection is lost. No other database is asked for this.
    fn listen<'a>(&'a self, wake: &'a (dyn Fn() + Send + Sync)) -> Waiting<'a, ()>;
}

/// Runs statements. If one of its futures is dropped, nothing is asked of it any more.
pub trait Connection: Send {
    /// The number of rows that a statement has changed.
    fn execute<'a>(&'a mut self, sql: &'static str, args: Vec<Value>) -> Waiting<'a, u64>;

    /// The rows that a statement returns.
    fn fetch<'a>(&'a mut self, sql: &'static str, args: Vec<Value>) -> Waiting<'a, Vec<Cells>>;
}

/// A transaction: it is rolled back when it is dropped.
pub trait Transaction: Connection {
    /// Commits it.
    fn commit(self: Box<Self>) -> Waiting<'static, ()>;
}

/// An argument of a statement, or a column of its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Null, of any type. Only read, never passed.
    Null,
    /// An integer.
    Int(i64),
    /// Bytes, or null.
    Bytes(Option<Vec<u8>>),
    /// A string, or null.
    Text(Option<String>),
    /// A list of integers, to search.
    Ints(Vec<i64>),
    /// A list of byte strings, to search.
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
    fn wrong() -> sqlx::Error {
        sqlx::Error::Decode("a column has another type than this crate gave it".into())
    }

    pub(crate) fn int(&mut self) -> Result<i64, sqlx::Error> {
        match self.0.next() {
            Some(Value::Int(int)) => Ok(int),
            _ => Err(Self::wrong()),
        }
    }

    pub(crate) fn maybe_bytes(&mut self) -> Result<Option<Vec<u8>>, sqlx::Error> {
        match self.0.next() {
            Some(Value::Bytes(bytes)) => Ok(bytes),
            Some(Value::Null) => Ok(None),
            _ => Err(Self::wrong()),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, sqlx::Error> {
        self.maybe_bytes()?.ok_or_else(Self::wrong)
    }

    pub(crate) fn maybe_text(&mut self) -> Result<Option<String>, sqlx::Error> {
        match self.0.next() {
            Some(Value::Text(text)) => Ok(text),
            Some(Value::Null) => Ok(None),
            _ => Err(Self::wrong()),
        }
    }
}

/// A pool of `sqlx`.
pub(crate) struct Pooled<DB: Database>(pub(crate) Pool<DB>);

impl<DB: Database> Store for Pooled<DB> {
    fn dialect(&self) -> Dialect {
        DB::DIALECT
    }

    fn acquire(&self) -> Waiting<'_, Box<dyn Connection>> {
        Box::pin(async { Ok(Box::new(self.0.acquire().await?) as Box<dyn Connection>) })
    }

    fn begin(&self) -> Waiting<'_, Box<dyn Transaction>> {
        Box::pin(async { Ok(Box::new(self.0.begin().await?) as Box<dyn Transaction>) })
    }

    fn listen<'a>(&'a self, wake: &'a (dyn Fn() + Send + Sync)) -> Waiting<'a, ()> {
        DB::listen(&self.0, wake)
    }
}

impl<DB: Database> Connection for PoolConnection<DB> {
    fn execute<'a>(&'a mut self, sql: &'static str, args: Vec<Value>) -> Waiting<'a, u64> {
        DB::execute(self, sql, args)
    }

    fn fetch<'a>(&'a mut self, sql: &'static str, args: Vec<Value>) -> Waiting<'a, Vec<Cells>> {
        DB::fetch(self, sql, args)
    }
}

impl<DB: Database> Connection for SqlxTransaction<'static, DB> {
    fn execute<'a>(&'a mut self, sql: &'static str, args: Vec<Value>) -> Waiting<'a, u64> {
        DB::execute(self, sql, args)
    }

    fn fetch<'a>(&'a mut self, sql: &'static str, args: Vec<Value>) -> Waiting<'a, Vec<Cells>> {
        DB::fetch(self, sql, args)
    }
}

impl<DB: Database> Transaction for SqlxTransaction<'static, DB> {
    fn commit(self: Box<Self>) -> Waiting<'static, ()> {
        Box::pin(async { (*self).commit().await })
    }
}

pub(crate) mod sealed {
    use super::{Cells, Dialect, Pool, Value, Waiting};

    /// Sealed: other crates cannot implement it.
    pub trait Sql: sqlx::Database {
        const DIALECT: Dialect;

        fn execute<'a>(
            conn: &'a mut Self::Connection,
            sql: &'static str,
            args: Vec<Value>,
        ) -> Waiting<'a, u64>;
        fn fetch<'a>(
            conn: &'a mut Self::Connection,
            sql: &'static str,
            args: Vec<Value>,
        ) -> Waiting<'a, Vec<Cells>>;

        /// See [`Store::listen`](super::Store::listen).
        fn listen<'a>(pool: &'a Pool<Self>, wake: &'a (dyn Fn() + Send + Sync)) -> Waiting<'a, ()>;
    }
}
