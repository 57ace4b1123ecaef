//! A pool of `sqlx` as a store.

use std::sync::{Arc, LazyLock};

use sqlx::Pool;
use tokio::sync::Notify;

use crate::database::{Cells, Connection, Store, Transaction, Value, Waiting};
use crate::kept::{Held, Kept, OpenTx, State};
use crate::statements::Dialect;

/// Notified when this process has inserted a row into any database.
pub(crate) static INSERTED: LazyLock<Notify> = LazyLock::new(Notify::new);

/// A database that can contain an outbox and an inbox: [`sqlx::Postgres`] and [`sqlx::Sqlite`].
pub trait Database: sealed::Sql {}

/// A pool of `sqlx`.
pub(crate) struct Pooled<DB: Database>(Arc<Kept<DB>>);

impl<DB: Database> Pooled<DB> {
    pub(crate) fn new(pool: Pool<DB>) -> Self {
        Self(Kept::new(pool))
    }
}

impl<DB: Database> Store for Pooled<DB> {
    fn dialect(&self) -> Dialect {
        DB::DIALECT
    }

    fn acquire(&self) -> Waiting<'_, Box<dyn Connection>> {
        Box::pin(async { Ok(Box::new(self.0.take().await?) as Box<dyn Connection>) })
    }

    fn begin(&self) -> Waiting<'_, Box<dyn Transaction>> {
        Box::pin(async { Ok(Box::new(OpenTx::begin(&self.0).await?) as Box<dyn Transaction>) })
    }

    fn listen<'a>(&'a self, wake: &'a (dyn Fn() + Send + Sync)) -> Waiting<'a, ()> {
        DB::listen(self.0.pool(), wake)
    }
}

impl<DB: Database> Connection for Held<DB> {
    fn execute<'a>(&'a mut self, sql: &'static str, args: Vec<Value>) -> Waiting<'a, u64> {
        Box::pin(async move {
            self.state = State::InUse;
            let changed = DB::execute(self, sql, args).await?;
            self.state = State::Sound;
            Ok(changed)
        })
    }

    fn fetch<'a>(&'a mut self, sql: &'static str, args: Vec<Value>) -> Waiting<'a, Vec<Cells>> {
        Box::pin(async move {
            self.state = State::InUse;
            let rows = DB::fetch(self, sql, args).await?;
            self.state = State::Sound;
            Ok(rows)
        })
    }
}

impl<DB: Database> Connection for OpenTx<DB> {
    fn execute<'a>(&'a mut self, sql: &'static str, args: Vec<Value>) -> Waiting<'a, u64> {
        DB::execute(self, sql, args)
    }

    fn fetch<'a>(&'a mut self, sql: &'static str, args: Vec<Value>) -> Waiting<'a, Vec<Cells>> {
        DB::fetch(self, sql, args)
    }
}

impl<DB: Database> Transaction for OpenTx<DB> {
    fn commit(self: Box<Self>) -> Waiting<'static, ()> {
        Box::pin((*self).commit())
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

        /// Whether a transaction can be committed. If a statement in it has failed, PostgreSQL can only roll it back,
        /// and answers a commit as if that had succeeded. Fails if there is no transaction any more: PostgreSQL answers
        /// that commit in the same way.
        fn can_commit(conn: &mut Self::Connection) -> Waiting<'_, bool>;

        /// See [`Store::listen`](super::Store::listen).
        fn listen<'a>(pool: &'a Pool<Self>, wake: &'a (dyn Fn() + Send + Sync)) -> Waiting<'a, ()>;
    }
}
