//! PostgreSQL: statements, and LISTEN.

use core::time::Duration;
use std::sync::Arc;

use sqlx::postgres::{PgArguments, PgListener, PgRow};
use sqlx::{Arguments, Column, Pool, Postgres, Row, TypeInfo, ValueRef};
use tokio::sync::Notify;

use crate::database::sealed::Sql;
use crate::database::{Cells, Database, Statements, Value, Waiting};

impl Database for Postgres {}

static STATEMENTS: Statements = Statements {
    migrate: &[
        "select pg_advisory_xact_lock(7308613583)",
        "create table if not exists exonet_schema (version bigint primary key)",
        "create table if not exists exonet_lane (lane bigint primary key, node bytea, beat bigint not null default 0,
           asleep boolean not null default true)",
        "create table if not exists exonet_prev (lane bigint not null, node bytea not null, primary key (lane, node))",
        // A relay reads over dead rows at the front of the index, so they are vacuumed early.
        "create table if not exists exonet_outbox (key bytea primary key, id bigint generated always as identity,
           lane bigint not null, peer bytea not null, addr text, ord bytea, tag bytea not null, body bytea not null,
           at timestamptz not null default now(), failed text, settled_at timestamptz)
           with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000)",
        "create unique index if not exists exonet_outbox_open on exonet_outbox (id)
           where settled_at is null and failed is null",
        "create table if not exists exonet_peer (peer bytea primary key, addr text, account bytea not null)",
        "create table if not exists exonet_inbox (owner bytea not null, key bytea not null,
           at timestamptz not null default now(), primary key (owner, key))",
        "create table if not exists exonet_sender (owner bytea primary key, me bytea not null, node bytea not null)",
        "insert into exonet_lane (lane) select generate_series(0, 7) on conflict do nothing",
        "insert into exonet_schema (version) values (1) on conflict do nothing",
    ],
    version: "select coalesce(max(version), 0) from exonet_schema",
    // NOTIFY makes commits wait for each other, so only a relay that sleeps is woken with it.
    send: "with row as (insert into exonet_outbox (key, lane, peer, addr, ord, tag, body) values ($1, $2, $3, $4, $5, $6, $7))
           select pg_notify('exonet_outbox', '')::text from exonet_lane where lane = $2 and asleep",
    // The lock on the lane makes a relay that takes the lane over wait for the end of this statement.
    settle: "with own as (select lane from exonet_lane where node = $1 for share)
             delete from exonet_outbox o using own where o.lane = own.lane and o.id = any($2)
               and o.settled_at is null and o.failed is null",
    settle_and_keep: "with own as (select lane from exonet_lane where node = $1 for share)
             update exonet_outbox o set settled_at = now() from own where o.lane = own.lane and o.id = any($2)
               and o.settled_at is null and o.failed is null",
    fail: "with own as (select lane from exonet_lane where node = $1 for share)
           update exonet_outbox o set failed = $3 from own where o.lane = own.lane and o.id = $2
             and o.settled_at is null and o.failed is null",
    purge: "delete from exonet_outbox where key in (select key from exonet_outbox
              where settled_at < now() - $1 * interval '1 second' limit $2)",
    read: "select o.id, o.key, o.lane, o.peer, o.addr, o.ord, o.tag, o.body, p.account from exonet_outbox o
           left join exonet_peer p on p.peer = o.peer
           where o.settled_at is null and o.failed is null
             and o.lane in (select lane from exonet_lane where node = $1)
             and o.id <> all($2) and o.peer <> all($3) and (o.ord is null or o.peer || o.ord <> all($4))
           order by o.id limit $5",
    add_peer: "insert into exonet_peer (peer, addr, account) values ($1, $2, $3) on conflict (peer) do nothing",
    peers: "select peer, addr, account from exonet_peer",
    lanes: "select lane, node, beat from exonet_lane order by lane",
    prevs: "select lane, node from exonet_prev order by lane",
    beat: "update exonet_lane set beat = beat + 1 where node = $1",
    lock_lane: "select node, beat from exonet_lane where lane = $1 for update",
    own_lane: "update exonet_lane set node = $2, beat = beat + 1, asleep = true where lane = $1",
    add_prev: "insert into exonet_prev (lane, node) values ($1, $2) on conflict do nothing",
    leave: "delete from exonet_prev where node = $1 and lane = any($2)",
    sleep: "update exonet_lane set asleep = ($2 = 1) where node = $1",
    writers: "select exists (select from pg_locks where relation = 'exonet_outbox'::regclass
                and mode = 'RowExclusiveLock' and pid <> pg_backend_pid())::int::bigint",
    gone: "select k.key from unnest($1) k (key)
           where not exists (select from exonet_outbox o where o.key = k.key)
             and not exists (select from exonet_prev) and not pg_is_in_recovery()",
    process: "insert into exonet_inbox (owner, key) values ($1, $2) on conflict do nothing",
    set_sender: "insert into exonet_sender (owner, me, node) values ($1, $2, $3)
                 on conflict (owner) do update set me = excluded.me, node = excluded.node",
    senders: "select owner, node from exonet_sender where me = $1",
    processed: "select key from exonet_inbox where owner = $1 and key > $2 order by key limit $3",
    collect: "delete from exonet_inbox where owner = $1 and key = any($2)",
    unforced: "select (current_setting('synchronous_commit') = 'off' or current_setting('fsync') = 'off')::int::bigint",
};

/// How long a listener that has lost its connection waits before it reconnects.
const RECONNECT: Duration = Duration::from_secs(1);

impl Sql for Postgres {
    const STATEMENTS: &'static Statements = &STATEMENTS;
    const NOTIFIES: bool = true;

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

    fn watch(pool: Pool<Self>, wake: Arc<Notify>) -> Waiting<'static, ()> {
        Box::pin(async move {
            loop {
                let lost = listen(&pool, &wake).await;
                tracing::warn!(error = ?lost.err(), "the connection that listens for new rows is lost");
                tokio::time::sleep(RECONNECT).await;
                // Rows may have been committed meanwhile.
                wake.notify_one();
            }
        })
    }
}

async fn listen(pool: &Pool<Postgres>, wake: &Notify) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen("exonet_outbox").await?;
    wake.notify_one();
    loop {
        // None: the connection was lost and is restored, and a notification may have been missed.
        let _ = listener.try_recv().await?;
        wake.notify_one();
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

fn read(row: &PgRow) -> Result<Cells, sqlx::Error> {
    let cell = |n: usize, kind: &str| {
        Ok(match kind {
            _ if row.try_get_raw(n)?.is_null() => Value::Null,
            "INT8" => Value::Int(row.try_get(n)?),
            "BYTEA" => Value::Bytes(row.try_get(n)?),
            _ => Value::Text(row.try_get(n)?),
        })
    };
    let cells: Result<Vec<_>, sqlx::Error> =
        row.columns().iter().map(|column| cell(column.ordinal(), column.type_info().name())).collect();
    Ok(Cells(cells?.into_iter()))
}
