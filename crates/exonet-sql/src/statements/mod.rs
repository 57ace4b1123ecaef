//! The statements of this crate, in the dialect of each database. Only this module knows the tables.

mod postgres;
mod sqlite;

use crate::database::Value;

/// The dialect of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// PostgreSQL.
    Postgres,
    /// SQLite, 3.41 or later. A version from 3.35 on works too, if each connection has the functions `unhex` (of
    /// 3.41) and `unixepoch` (of 3.38).
    Sqlite,
}

impl Dialect {
    /// The statements in this dialect.
    pub(crate) fn statements(self) -> &'static Statements {
        match self {
            Self::Postgres => &postgres::STATEMENTS,
            Self::Sqlite => &sqlite::STATEMENTS,
        }
    }

    /// Whether `send` can notify a sleeping relay. A relay that is awake looks by itself.
    pub(crate) fn notifies(self) -> bool {
        self == Self::Postgres
    }

    /// Converts arguments into the form that the statements take: SQLite has no lists, so it gets them as JSON.
    pub fn arguments(self, args: Vec<Value>) -> Vec<Value> {
        match self {
            Self::Postgres => args,
            Self::Sqlite => args.into_iter().map(sqlite::plain).collect(),
        }
    }
}

/// A statement and its arguments. `$1` is the first argument, and may occur several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The text.
    pub sql: &'static str,
    /// The arguments.
    pub args: Vec<Value>,
}

/// The statements that this crate runs. Each comment lists the arguments in order, and the columns of the result.
pub(crate) struct Statements {
    /// Creates the tables: run these in order, in one transaction.
    pub(crate) migrate: &'static [&'static str],
    /// The version of the tables.
    pub(crate) version: &'static str,
    /// Inserts a row, and wakes a sleeping relay: key, lane, peer, addr, ord, tag, body.
    pub(crate) send: &'static str,
    /// Deletes rows of lanes that this node owns: node, ids.
    pub(crate) settle: &'static str,
    /// Like `settle`, if rows are kept for a while: node, ids.
    pub(crate) settle_and_keep: &'static str,
    /// Marks a row as one that cannot be processed: node, id, reason.
    pub(crate) fail: &'static str,
    /// Deletes rows that were settled long ago: seconds, limit.
    pub(crate) purge: &'static str,
    /// Returns rows to hand over, in order: node, ids that are under way, peers that take no more now, peer and ord
    /// of the rows under way, limit, lowest id. Columns: id, key, lane, peer, addr, ord, tag, body, account.
    pub(crate) read: &'static str,
    /// Returns the lowest id of a row that is not settled, of any lane.
    pub(crate) first: &'static str,
    /// Makes an account for a receiver: peer, addr, account.
    pub(crate) add_peer: &'static str,
    /// Returns all receivers: peer, addr, account.
    pub(crate) peers: &'static str,
    /// Returns all lanes: lane, node, beat.
    pub(crate) lanes: &'static str,
    /// Returns all lanes with a former owner that has not left: lane, node.
    pub(crate) prevs: &'static str,
    /// Notes that a node is alive: node.
    pub(crate) beat: &'static str,
    /// Locks a lane, and returns its node and beat: lane.
    pub(crate) lock_lane: &'static str,
    /// Assigns the locked lane to a node, or to none: lane, node.
    pub(crate) own_lane: &'static str,
    /// Records that a node had the lane: lane, node.
    pub(crate) add_prev: &'static str,
    /// Notes that a node has left lanes: node, lanes.
    pub(crate) leave: &'static str,
    /// Sets whether `send` must wake the owner: node, 1 or 0.
    pub(crate) sleep: &'static str,
    /// Returns 1 if a transaction with rows in the outbox has not ended, else 0.
    pub(crate) writers: &'static str,
    /// Returns those of these keys that have no row any more, provided that every former owner has left and this is
    /// not a copy of the database: keys.
    pub(crate) gone: &'static str,
    /// Records that a message is processed: owner, key.
    pub(crate) process: &'static str,
    /// Sets the node that speaks for an outbox: owner, this node, that node.
    pub(crate) set_sender: &'static str,
    /// Returns the outboxes that send to this node: this node. Columns: owner, node.
    pub(crate) senders: &'static str,
    /// Returns the inbox rows of an owner that follow a key: owner, key, limit. Columns: keys.
    pub(crate) processed: &'static str,
    /// Deletes inbox rows: owner, keys.
    pub(crate) collect: &'static str,
    /// Returns 1 if a power failure may undo a commit, else 0.
    pub(crate) unforced: &'static str,
}
