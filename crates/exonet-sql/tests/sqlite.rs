//! The rules, in SQLite.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)] // a failure here is the failure of a test

mod common;
#[path = "common/rules.rs"]
mod rules;

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{Pool, Sqlite};

pub(crate) type Db = Sqlite;

/// A new database.
pub(crate) async fn database(home: &Path, name: &str) -> Option<Pool<Db>> {
    let options = SqliteConnectOptions::new()
        .filename(home.join(name))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal);
    Some(SqlitePoolOptions::new().max_connections(20).connect_with(options).await.unwrap())
}
