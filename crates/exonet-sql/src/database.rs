//! The interface to a database: the statements that differ between databases, and two ways to run one.

use core::future::Future;
use core::pin::Pin;
use std::sync::Arc;

use sqlx::Pool;
use tokio::sync::Notify;

/// A database that an outbox and an inbox can live in: [`sqlx::Postgres`] and [`sqlx::Sqlite`].
pub trait Database: sealed::Sql {}

pub(crate) type Waiting<'a, T> = Pin<Box<dyn Future<Output = Result<T, sqlx::Error>> + Send + 'a>>;

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
pub struct Cells(pub(crate) std::vec::IntoIter<Value>);

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

/// The statements that this crate runs. Each comment lists the arguments in order, and the columns of the result.
pub struct Statements {
    /// Make the tables: in this order, in one transaction.
    pub migrate: &'static [&'static str],
    /// The version of the tables.
    pub version: &'static str,
    /// Inserts a row, and wakes a relay that sleeps: key, lane, peer, addr, ord, tag, body.
    pub send: &'static str,
    /// Deletes rows of lanes that this node owns: node, ids.
    pub settle: &'static str,
    /// Like `settle`, if rows are kept for a while: node, ids.
    pub settle_and_keep: &'static str,
    /// Marks a row as one that cannot be processed: node, id, reason.
    pub fail: &'static str,
    /// Deletes rows that were settled long ago: seconds, limit.
    pub purge: &'static str,
    /// Rows to hand over, in order: node, ids that are under way, peers that take no more now, peer and ord of the rows
    /// under way, limit. Returns id, key, lane, peer, addr, ord, tag, body, account.
    pub read: &'static str,
    /// Makes an account for a receiver: peer, addr, account.
    pub add_peer: &'static str,
    /// All receivers: peer, addr, account.
    pub peers: &'static str,
    /// All lanes: lane, node, beat.
    pub lanes: &'static str,
    /// All lanes that have a former owner which has not left: lane, node.
    pub prevs: &'static str,
    /// Notes that a node is alive: node.
    pub beat: &'static str,
    /// Locks a lane, and returns its node and beat: lane.
    pub lock_lane: &'static str,
    /// Assigns the locked lane to a node, or to none: lane, node.
    pub own_lane: &'static str,
    /// Records that a node had the lane: lane, node.
    pub add_prev: &'static str,
    /// Notes that a node has left lanes: node, lanes.
    pub leave: &'static str,
    /// Sets whether `send` has to wake the owner: node, 1 or 0.
    pub sleep: &'static str,
    /// 1 if a transaction that has rows in the outbox has not ended, else 0.
    pub writers: &'static str,
    /// Those of these keys that have no row any more, provided that every former owner has left and this is not a copy
    /// of the database: keys.
    pub gone: &'static str,
    /// Records that a message is processed: owner, key.
    pub process: &'static str,
    /// Sets the node that speaks for an outbox: owner, this node, that node.
    pub set_sender: &'static str,
    /// The outboxes that send to this node: this node. Returns owner, node.
    pub senders: &'static str,
    /// Inbox rows of an owner, after a key: owner, key, limit. Returns keys.
    pub processed: &'static str,
    /// Deletes inbox rows: owner, keys.
    pub collect: &'static str,
    /// 1 if a power failure may undo a commit, else 0.
    pub unforced: &'static str,
}

pub(crate) mod sealed {
    use super::{Arc, Cells, Notify, Pool, Statements, Value, Waiting};

    /// Sealed: other crates cannot implement it.
    pub trait Sql: sqlx::Database {
        const STATEMENTS: &'static Statements;
        /// Whether `send` notifies a relay that sleeps; a relay that is awake looks by itself.
        const NOTIFIES: bool;

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

        /// Notifies `wake` whenever something may have been committed. Runs until it is dropped.
        fn watch(pool: Pool<Self>, wake: Arc<Notify>) -> Waiting<'static, ()>;

        /// Notes that this process has inserted a row.
        fn hint() {}
    }
}
