//! The rules, in PostgreSQL: a server of the tests' own.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)] // a failure here is the failure of a test

mod common;
#[path = "common/rules.rs"]
mod rules;

use std::path::Path;
use std::time::Duration;

use common::server::Server;
use common::{skipped, until, within};
use exonet::Durability;
use exonet_sql::{Inbox, Outbox, Relay};
use sqlx::{Pool, Postgres};
use tokio::sync::OnceCell;

pub(crate) type Db = Postgres;

static SERVER: OnceCell<Option<Server>> = OnceCell::const_new();

/// A new database of a server that the tests share. None: the machine has no PostgreSQL.
pub(crate) async fn database(home: &Path, name: &str) -> Option<Pool<Db>> {
    let server = SERVER.get_or_init(|| async { Server::start("").await.unwrap() }).await;
    let Some(server) = server else {
        skipped("PostgreSQL is not installed here");
        return None;
    };
    let test = home.file_name().unwrap().to_str().unwrap().replace('.', "").to_lowercase();
    Some(server.database(&format!("x{test}{name}"), 12).await.unwrap())
}

#[tokio::test]
async fn a_database_that_goes_away_is_waited_for() {
    let Some(mut server) = Server::start("").await.unwrap() else {
        return skipped("PostgreSQL is not installed here");
    };
    let home = tempfile::tempdir().unwrap();
    let (shop_db, bank_db) =
        (server.database("shop", 8).await.unwrap(), server.database("bank", 8).await.unwrap());
    for pool in [&shop_db, &bank_db] {
        exonet_sql::migrate(pool).await.unwrap();
    }
    sqlx::query("create table seen (n bigint)").execute(&bank_db).await.unwrap();
    let shop = common::node(&home.path().join("shop"), Durability::Process, "127.0.0.1:0").await;
    let bank = common::node(&home.path().join("bank"), Durability::Process, "127.0.0.1:0").await;
    let relay = Relay::start(&shop_db, &shop).await.unwrap();
    let inbox = Inbox::start(&bank_db, &bank, rules::see).await.unwrap();
    for round in 0..3_i64 {
        let mut sent = 0;
        while sent < 20 {
            // The pool may give a connection that is gone.
            let Ok(mut tx) = shop_db.begin().await else { continue };
            let body = (20 * round + sent).to_be_bytes().to_vec();
            if Outbox::send(&mut tx, bank.peer_addr(), body).await.is_ok() && tx.commit().await.is_ok() {
                sent += 1;
            }
        }
        if round < 2 {
            server.crash().unwrap();
            server.run().await.unwrap();
        }
    }
    let seen = || async {
        sqlx::query_scalar::<_, i64>("select count(*) from seen").fetch_one(&bank_db).await.unwrap_or(0)
    };
    until(|| async { seen().await >= 60 }).await;
    within(relay.stop(Duration::from_secs(60))).await.unwrap();
    let sum: (i64, i64) =
        sqlx::query_as("select count(*), sum(n)::bigint from seen").fetch_one(&bank_db).await.unwrap();
    assert_eq!(sum, (60, (0..60).sum()));
    inbox.stop(Duration::from_secs(5)).await.unwrap();
}
