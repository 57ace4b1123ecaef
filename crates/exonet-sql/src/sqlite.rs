//! SQLite by `sqlx`, and polling for commits.

use core::time::Duration;

use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Arguments, Column, Pool, Row, Sqlite, TypeInfo, ValueRef};
use tokio::time::timeout;

use crate::database::{Cells, Value, Waiting};
use crate::error::StoreError;
use crate::pooled::sealed::Sql;
use crate::pooled::{Database, INSERTED};
use crate::statements::Dialect;

impl Database for Sqlite {}

/// How often this asks whether another connection has committed a transaction.
const POLL: Duration = Duration::from_millis(10);
/// How often and how many times this asks after this process has inserted a row, since the transaction is about to be
/// committed.
const SOON: Duration = Duration::from_millis(1);
const SOON_TIMES: u32 = 50;

impl Sql for Sqlite {
    const DIALECT: Dialect = Dialect::Sqlite;

    fn execute<'a>(conn: &'a mut Self::Connection, sql: &'static str, args: Vec<Value>) -> Waiting<'a, u64> {
        Box::pin(async move { Ok(sqlx::query_with(sql, bind(args)?).execute(conn).await?.rows_affected()) })
    }

    fn fetch<'a>(
        conn: &'a mut Self::Connection,
        sql: &'static str,
        args: Vec<Value>,
    ) -> Waiting<'a, Vec<Cells>> {
        Box::pin(async move {
            let rows = sqlx::query_with(sql, bind(args)?).fetch_all(conn).await?;
            rows.iter().map(read).collect()
        })
    }

    /// `data_version` changes with each commit of another connection. SQLite reads it from shared memory.
    fn can_commit(_: &mut Self::Connection) -> Waiting<'_, bool> {
        Box::pin(async { Ok(true) })
    }

    fn listen<'a>(pool: &'a Pool<Self>, wake: &'a (dyn Fn() + Send + Sync)) -> Waiting<'a, ()> {
        Box::pin(async move {
            let mut conn = pool.acquire().await?;
            let (mut seen, mut soon) = (None, 0);
            loop {
                let inserted = INSERTED.notified();
                let version: i64 = sqlx::query_scalar("pragma data_version").fetch_one(&mut *conn).await?;
                if seen.replace(version) != Some(version) {
                    wake();
                }
                if soon > 0 {
                    soon -= 1;
                    tokio::time::sleep(SOON).await;
                } else if timeout(POLL, inserted).await.is_ok() {
                    soon = SOON_TIMES;
                }
            }
        })
    }
}

fn bind<'q>(args: Vec<Value>) -> Result<SqliteArguments<'q>, sqlx::Error> {
    let mut bound = SqliteArguments::default();
    for arg in Dialect::Sqlite.arguments(args) {
        let added = match arg {
            // By now, lists have become text.
            Value::Null | Value::Ints(_) | Value::Blobs(_) => bound.add(None::<i64>),
            Value::Int(int) => bound.add(int),
            Value::Bytes(bytes) => bound.add(bytes),
            Value::Text(text) => bound.add(text),
        };
        added.map_err(sqlx::Error::Encode)?;
    }
    Ok(bound)
}

fn read(row: &SqliteRow) -> Result<Cells, StoreError> {
    let cell = |n: usize| {
        let raw = row.try_get_raw(n)?;
        let kind = raw.type_info();
        Ok(match kind.name() {
            "NULL" => Value::Null,
            _ if raw.is_null() => Value::Null,
            "INTEGER" => Value::Int(row.try_get(n)?),
            "BLOB" => Value::Bytes(row.try_get(n)?),
            _ => Value::Text(row.try_get(n)?),
        })
    };
    let cells: Result<Vec<_>, StoreError> =
        row.columns().iter().map(|column| cell(column.ordinal())).collect();
    Ok(cells?.into())
}
