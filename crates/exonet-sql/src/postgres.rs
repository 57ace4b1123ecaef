//! PostgreSQL by `sqlx`.

use sqlx::postgres::{PgArguments, PgListener, PgRow};
use sqlx::{Arguments, Column, Pool, Postgres, Row, TypeInfo, ValueRef};

use crate::database::{Cells, Value, Waiting};
use crate::error::StoreError;
use crate::pooled::Database;
use crate::pooled::sealed::Sql;
use crate::statements::Dialect;

impl Database for Postgres {}

impl Sql for Postgres {
    const DIALECT: Dialect = Dialect::Postgres;

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

    fn can_commit(conn: &mut Self::Connection) -> Waiting<'_, bool> {
        Box::pin(async move {
            // It fails in a transaction that has failed, and outside of one.
            let Err(error) = sqlx::query("savepoint exonet").execute(conn).await else { return Ok(true) };
            let code = error.as_database_error().and_then(|error| error.code().map(String::from));
            match code.as_deref() {
                // in_failed_sql_transaction
                Some("25P02") => Ok(false),
                // no_active_sql_transaction
                Some("25P01") => Err(StoreError::wrong(
                    "the handler has ended its transaction: it must neither commit nor roll back, the inbox does so",
                )),
                _ => Err(error.into()),
            }
        })
    }

    fn listen<'a>(pool: &'a Pool<Self>, wake: &'a (dyn Fn() + Send + Sync)) -> Waiting<'a, ()> {
        Box::pin(async move {
            let mut listener = PgListener::connect_with(pool).await?;
            listener.listen("exonet_outbox").await?;
            wake();
            loop {
                // None: the connection was lost and restored, and a notification may have been missed.
                let _ = listener.try_recv().await?;
                wake();
            }
        })
    }
}

fn bind(args: Vec<Value>) -> Result<PgArguments, sqlx::Error> {
    let mut bound = PgArguments::default();
    for arg in args {
        let added = match arg {
            Value::Null => bound.add(None::<i64>),
            Value::Int(int) => bound.add(int),
            Value::Bytes(bytes) => bound.add(bytes),
            Value::Text(text) => bound.add(text),
            Value::Ints(ints) => bound.add(ints),
            Value::Blobs(blobs) => bound.add(blobs),
        };
        added.map_err(sqlx::Error::Encode)?;
    }
    Ok(bound)
}

fn read(row: &PgRow) -> Result<Cells, StoreError> {
    let cell = |n: usize, kind: &str| {
        Ok(match kind {
            _ if row.try_get_raw(n)?.is_null() => Value::Null,
            "INT8" => Value::Int(row.try_get(n)?),
            "BYTEA" => Value::Bytes(row.try_get(n)?),
            _ => Value::Text(row.try_get(n)?),
        })
    };
    let cells: Result<Vec<_>, StoreError> =
        row.columns().iter().map(|column| cell(column.ordinal(), column.type_info().name())).collect();
    Ok(cells?.into())
}
