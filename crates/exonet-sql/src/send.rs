//! Sends messages in the application's transaction.

use exonet::PeerAddr;

use crate::outbox::OutboxMessage;
use crate::pooled::INSERTED;
use crate::pooled::sealed::Sql;
use crate::statements::Statement;
use crate::{Error, Key};

/// Stores messages in the application's own transactions. It needs no node: a [`Relay`](crate::Relay), in this
/// process or another, hands the messages to a node.
#[derive(Clone, Copy, Debug)]
pub struct Outbox;

impl Outbox {
    /// Sends a message to a peer as soon as the transaction `tx` is committed; if it is rolled back, nothing is sent.
    /// Returns the key of the message, by which the receiver's inbox recognizes it.
    ///
    /// The addresses in `peer` are stored with the row; if the relay knows the peer, none are needed. `tx` is a
    /// transaction of the database for which [`migrate`](crate::migrate) was called. It may also be a connection,
    /// which sends the message at once.
    ///
    /// # Errors
    /// [`Error`]. The application must then roll the transaction back.
    pub async fn send<T: Tx>(
        tx: &mut T,
        peer: impl Into<PeerAddr>,
        message: impl Into<OutboxMessage>,
    ) -> Result<Key, Error> {
        let (key, Statement { sql, args }) = message.into().row(T::Database::DIALECT, &peer.into())?;
        T::Database::execute(tx.connection(), sql, args).await?;
        INSERTED.notify_waiters();
        Ok(key)
    }
}

/// A transaction or a connection: [`sqlx::Transaction`], [`sqlx::pool::PoolConnection`], the connections of the
/// databases, and [`InboxTx`](crate::InboxTx).
pub trait Tx: sealed::Connected {}

impl<T: sealed::Connected> Tx for T {}

mod sealed {
    use sqlx::Transaction;
    use sqlx::pool::PoolConnection;

    use crate::InboxTx;
    use crate::pooled::Database;

    /// Sealed: other crates cannot implement it.
    pub trait Connected: Send {
        type Database: Database;

        fn connection(&mut self) -> &mut <Self::Database as sqlx::Database>::Connection;
    }

    impl<DB: Database> Connected for Transaction<'_, DB> {
        type Database = DB;

        fn connection(&mut self) -> &mut DB::Connection {
            self
        }
    }

    impl<DB: Database> Connected for PoolConnection<DB> {
        type Database = DB;

        fn connection(&mut self) -> &mut DB::Connection {
            self
        }
    }

    impl<DB: Database> Connected for InboxTx<DB> {
        type Database = DB;

        fn connection(&mut self) -> &mut DB::Connection {
            self
        }
    }

    #[cfg(feature = "postgres")]
    impl Connected for sqlx::PgConnection {
        type Database = sqlx::Postgres;

        fn connection(&mut self) -> &mut Self {
            self
        }
    }

    #[cfg(feature = "sqlite")]
    impl Connected for sqlx::SqliteConnection {
        type Database = sqlx::Sqlite;

        fn connection(&mut self) -> &mut Self {
            self
        }
    }
}
