//! The statements, for PostgreSQL.

use super::Statements;

pub(super) static STATEMENTS: Statements = Statements {
    migrate: &[
        "select pg_advisory_xact_lock(7308613583)",
        "create table if not exists exonet_schema (version bigint primary key)",
        "create table if not exists exonet_lane (lane bigint primary key, node bytea, beat bigint not null default 0,
           asleep boolean not null default true)",
        "create table if not exists exonet_prev (lane bigint not null, node bytea not null, primary key (lane, node))",
        // A relay has to skip dead rows at the front of the index, so they are vacuumed early.
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
    // With NOTIFY, commits wait for each other, so it is used only to wake a sleeping relay.
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
    // PostgreSQL compares a row with each element of an array that is a parameter, but hashes a subquery. It would take
    // a join with the lanes for a sign of few rows, and then read and sort the whole table.
    read: "select o.id, o.key, o.lane, o.peer, o.addr, o.ord, o.tag, o.body, p.account from exonet_outbox o
           left join exonet_peer p on p.peer = o.peer
           where o.settled_at is null and o.failed is null and o.id >= $6
             and o.lane = any(array(select lane from exonet_lane where node = $1))
             and o.id not in (select unnest($2::bigint[])) and o.peer not in (select unnest($3::bytea[]))
             and (o.ord is null or o.peer || o.ord not in (select unnest($4::bytea[])))
           order by o.id limit $5",
    first: "select id from exonet_outbox where settled_at is null and failed is null order by id limit 1",
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
    gone: "select k.key from unnest($1::bytea[]) k (key)
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
