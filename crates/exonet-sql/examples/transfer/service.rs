//! One of the services: it sends money to the other, and books what the other sends.

use std::error::Error;
use std::io::Write;
use std::str::FromStr;
use std::time::Duration;

use exonet::{Allow, Durability, Node, PeerAddr};
use exonet_sql::{Inbox, InboxMessage, InboxTx, Outbox, OutboxMessage, Relay};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};

pub(crate) const ACCOUNTS: i64 = 10;
pub(crate) const BALANCE: i64 = 1_000_000;

/// What this process is, as the one that starts it says.
pub(crate) struct Role {
    pub(crate) database: String,
    pub(crate) state: String,
    pub(crate) bind: String,
    /// None: it only says its address.
    pub(crate) peer: Option<String>,
    pub(crate) memory: bool,
    /// It sends nothing new.
    pub(crate) rests: bool,
}

const NAMES: [&str; 6] = [
    "TRANSFER_DATABASE",
    "TRANSFER_STATE",
    "TRANSFER_BIND",
    "TRANSFER_PEER",
    "TRANSFER_MEMORY",
    "TRANSFER_RESTS",
];

impl Role {
    pub(crate) fn of_environment() -> Option<Self> {
        let [database, state, bind, peer, memory, rests] = NAMES.map(|name| std::env::var(name).ok());
        Some(Self {
            database: database?,
            state: state?,
            bind: bind?,
            peer,
            memory: memory.is_some(),
            rests: rests.is_some(),
        })
    }

    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let yes = |yes: bool| yes.then(String::new);
        let values = [
            Some(self.database.clone()),
            Some(self.state.clone()),
            Some(self.bind.clone()),
            self.peer.clone(),
            yes(self.memory),
            yes(self.rests),
        ];
        NAMES.into_iter().zip(values).filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// One line, in the pipe whole.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(format!("@{line}\n").as_bytes());
    let _ = out.flush();
}

pub(crate) async fn serve(role: Role) -> Result<(), Box<dyn Error>> {
    let durability = if role.memory { Durability::Memory } else { Durability::Process };
    let builder = Node::builder(Allow::anyone()).state_dir(&role.state).durability(durability);
    let node = builder.bind(&role.bind).build().await?;
    say(&format!("at {}", node.peer_addr()));
    let Some(peer) = &role.peer else {
        node.close(Duration::ZERO).await;
        return Ok(());
    };
    let peer: PeerAddr = peer.parse()?;
    if role.database.starts_with("postgres:") {
        let options = PgConnectOptions::from_str(&role.database)?;
        postgres::serve(
            PgPoolOptions::new().max_connections(16).connect_with(options).await?,
            node,
            peer,
            role.rests,
        )
        .await
    } else {
        let options = SqliteConnectOptions::new()
            .filename(&role.database)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal);
        let pool = SqlitePoolOptions::new().max_connections(8).connect_with(options).await?;
        sqlite::serve(pool, node, peer, role.rests).await
    }
}

macro_rules! service {
    ($name:ident, $db:ty) => {
        mod $name {
            use super::*;

            pub(super) async fn serve(
                pool: sqlx::Pool<$db>,
                node: Node,
                peer: PeerAddr,
                rests: bool,
            ) -> Result<(), Box<dyn Error>> {
                exonet_sql::migrate(&pool).await?;
                for table in [
                    "create table if not exists account (id bigint primary key, balance bigint not null)",
                    "create table if not exists sent (key text not null, amount bigint not null)",
                    "create table if not exists booked (key text not null, amount bigint not null)",
                ] {
                    sqlx::query(table).execute(&pool).await?;
                }
                for id in 0..ACCOUNTS {
                    let open = sqlx::query("insert into account values ($1, $2) on conflict do nothing");
                    open.bind(id).bind(BALANCE).execute(&pool).await?;
                }
                let inbox = Inbox::builder(&pool, &node).collect_every(Duration::from_millis(100));
                let _inbox = inbox.start(book).await?;
                let _relay = Relay::start(&pool, &node).await?;
                say("ready");
                let mut n: i64 = std::process::id().into();
                loop {
                    if rests {
                        std::future::pending::<()>().await;
                    }
                    n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    match send(&pool, &peer, n).await {
                        Ok(()) => say("sent"),
                        // The database is away.
                        Err(error) => {
                            say(&format!("waits: {error}"));
                            tokio::time::sleep(Duration::from_millis(20)).await;
                        }
                    }
                }
            }

            /// Money leaves an account, and a message tells the other service: one transaction.
            async fn send(pool: &sqlx::Pool<$db>, peer: &PeerAddr, n: i64) -> Result<(), Box<dyn Error>> {
                let (amount, from, to) =
                    (n.rem_euclid(100) + 1, (n >> 8).rem_euclid(ACCOUNTS), (n >> 16).rem_euclid(ACCOUNTS));
                let mut tx = pool.begin().await?;
                let pay = sqlx::query("update account set balance = balance - $1 where id = $2");
                pay.bind(amount).bind(from).execute(&mut *tx).await?;
                let body = [to.to_be_bytes(), amount.to_be_bytes()].concat();
                let message = OutboxMessage::new(body).tag("transfer");
                // Some of them have to keep an order.
                let message = if n % 3 == 0 { message.order(format!("account {to}")) } else { message };
                let key = Outbox::send(&mut tx, peer, message).await?;
                let note = sqlx::query("insert into sent values ($1, $2)");
                note.bind(key.to_string()).bind(amount).execute(&mut *tx).await?;
                Ok(tx.commit().await?)
            }

            /// Money comes to an account.
            async fn book(
                mut tx: InboxTx<$db>,
                message: InboxMessage,
            ) -> Result<(), Box<dyn Error + Send + Sync>> {
                let (to, amount) = message.body.split_at_checked(8).ok_or("the message is too short")?;
                let (to, amount) =
                    (i64::from_be_bytes(to.try_into()?), i64::from_be_bytes(amount.try_into()?));
                let add = sqlx::query("update account set balance = balance + $1 where id = $2");
                add.bind(amount).bind(to).execute(&mut *tx).await?;
                let note = sqlx::query("insert into booked values ($1, $2)");
                note.bind(message.key.to_string()).bind(amount).execute(&mut *tx).await?;
                Ok(())
            }
        }
    };
}

service!(sqlite, sqlx::Sqlite);
service!(postgres, sqlx::Postgres);
