//! Outbox and inbox in the application's own database, over [`exonet`]. With a transaction at the sender and a
//! transaction at the receiver, every message is processed **exactly once**, whatever crashes. There is no broker,
//! and no time limit after which duplicates can occur.
//!
//! * The sender leaves a message with [`Outbox::send`], in the transaction that does the work which the message
//!   reports. The database commits both, or neither.
//! * A [`Relay`] hands committed rows to a node, and deletes each row once its message is processed.
//! * The receiver's [`Inbox`] calls a handler with a transaction. This transaction has the handler's work and the
//!   record that the message is processed. Only after its commit does the inbox acknowledge the message.
//!
//! The crate supports PostgreSQL (feature `postgres`) and SQLite (feature `sqlite`), with [`sqlx`]. The two sides may
//! use different databases.
//!
//! ```
//! use exonet::{Allow, Node};
//! use exonet_sql::{Inbox, InboxMessage, InboxTx, Outbox, Relay};
//! use sqlx::{Sqlite, SqlitePool};
//!
//! async fn credit(mut tx: InboxTx<Sqlite>, message: InboxMessage) -> Result<(), sqlx::Error> {
//!     let amount = i64::from_be_bytes(message.body[..].try_into().unwrap_or_default());
//!     sqlx::query("update account set balance = balance + $1").bind(amount).execute(&mut *tx).await?;
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let home = tempfile::tempdir()?;
//! # let open = |name: &str| {
//! #     let options = sqlx::sqlite::SqliteConnectOptions::new().filename(home.path().join(name)).create_if_missing(true);
//! #     SqlitePool::connect_with(options)
//! # };
//! # let (shop_pool, bank_pool) = (open("shop").await?, open("bank").await?);
//! # for pool in [&shop_pool, &bank_pool] {
//! #     sqlx::query("create table account (balance integer)").execute(pool).await?;
//! #     sqlx::query("insert into account values (100)").execute(pool).await?;
//! # }
//! # let shop = Node::builder(Allow::anyone()).bind("127.0.0.1:0").state_dir(home.path().join("a")).build().await?;
//! # let bank = Node::builder(Allow::anyone()).bind("127.0.0.1:0").state_dir(home.path().join("b")).build().await?;
//! exonet_sql::migrate(&shop_pool).await?;
//! exonet_sql::migrate(&bank_pool).await?;
//!
//! // At the bank.
//! let inbox = Inbox::start(&bank_pool, &bank, credit).await?;
//!
//! // At the shop.
//! let relay = Relay::start(&shop_pool, &shop).await?;
//! let mut tx = shop_pool.begin().await?;
//! sqlx::query("update account set balance = balance - 42").execute(&mut *tx).await?;
//! Outbox::send(&mut tx, bank.peer_addr(), 42_i64.to_be_bytes().to_vec()).await?;
//! tx.commit().await?;
//! # let balance = || sqlx::query_scalar::<_, i64>("select balance from account").fetch_one(&bank_pool);
//! # while balance().await? != 142 {
//! #     tokio::time::sleep(std::time::Duration::from_millis(5)).await;
//! # }
//! # relay.stop(std::time::Duration::from_secs(5)).await?;
//! # inbox.stop(std::time::Duration::from_secs(5)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! If the row of a message is committed, the message is processed once: its handler's transaction is committed once.
//! This holds for any number of crashes of either process, of relays and of databases, over any network, and for
//! nodes with or without a journal, provided that
//!
//! * databases keep what they have committed (`fsync` and `synchronous_commit` of PostgreSQL, `synchronous = full` of
//!   SQLite: otherwise a warning is logged);
//! * the handler does its work in its transaction. Other effects may happen more than once;
//! * the node of an inbox leaves the count of attempts to the inbox: it has no
//!   [`attempts`](exonet::Builder::attempts);
//! * nodes give up no message: they have no [`doubt_timeout`](exonet::Builder::doubt_timeout) (a relay refuses a node
//!   with one), and nobody calls [`Peer::abandon`](exonet::Peer::abandon) on the node of a relay;
//! * operators treat a database that was restored from a backup as `docs/sql.md` describes.
//!
//! # Why inbox rows can be deleted
//!
//! With a call, a receiver asks the sender which rows are gone. If a row is gone, the sender does not hand it over
//! again, and no copy of it is under way that could still be taken: each slot to which it was ever bound is used up
//! or dead. So the receiver can delete its inbox row. Other inboxes assume a longest time for a copy, and process it
//! twice if it takes longer.
//!
//! # Differences from the searched model
//!
//! A search went through all cases of the algorithm, also with each rule removed once. The tables differ from the
//! model of that search as follows. Former owners of lanes are a table (`exonet_prev`) in both databases. `owner` in
//! the inbox is a random name that the outbox has with each receiver (`exonet_peer`); in the model it is a mapping of
//! node ids, which an operator would have to maintain. A relay does not know the rows of the messages that a former
//! life of its node has left, and waits for all of them, peer by peer.
#![deny(missing_docs)]

mod database;
mod error;
pub mod host;
mod inbox;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod kept;
mod key;
mod outbox;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod pooled;
#[cfg(feature = "postgres")]
mod postgres;
mod relay;
mod schema;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod send;
#[cfg(feature = "sqlite")]
mod sqlite;
mod statements;
mod wire;

pub use error::Error;
pub use inbox::{HandlerError, Inbox, InboxMessage, InboxStats};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use inbox::{InboxBuilder, InboxTx};
pub use key::Key;
pub use outbox::{MAX_BODY, OutboxMessage};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use pooled::Database;
pub use relay::{Relay, RelayBuilder, RelayStats};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use schema::migrate;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use send::{Outbox, Tx};
