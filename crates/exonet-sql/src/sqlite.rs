//! SQLite by `sqlx`.

use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Arguments, Column, Pool, Row, Sqlite, TypeInfo, ValueRef};

use crate::database::{Cells, Value, Waiting};
use crate::error::StoreError;
use crate::pooled::Database;
use crate::pooled::sealed::Sql;
use crate::statements::Dialect;

impl Database for Sqlite {}

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

    fn listen<'a>(_: &'a Pool<Self>, _: &'a (dyn Fn() + Send + Sync)) -> Waiting<'a, ()> {
        Box::pin(async { Ok(()) })
    }
}

fn bind<'q>(args: Vec<Value>) -> Result<SqliteArguments<'q>, sqlx::Error> {
    let mut bound = SqliteArguments::default();
    for arg in Dialect::Sqlite.arguments(args) {
        let added = match arg {
            // Lists are text by now.
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
