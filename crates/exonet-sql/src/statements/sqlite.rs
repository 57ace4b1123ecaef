//! The statements, for SQLite.

use super::Statements;
use crate::database::Value;

pub(super) static STATEMENTS: Statements = Statements {
    migrate: &[
        "create table if not exists exonet_schema (version integer primary key)",
        "create table if not exists exonet_lane (lane integer primary key, node blob, beat integer not null default 0)",
        "create table if not exists exonet_prev (lane integer not null, node blob not null, primary key (lane, node))",
        "create table if not exists exonet_outbox (id integer primary key autoincrement, key blob not null unique,
           lane integer not null, peer blob not null, addr text, ord blob, tag blob not null, body blob not null,
           at text not null default current_timestamp, failed text, settled_at integer)",
        "create index if not exists exonet_outbox_open on exonet_outbox (id)
           where settled_at is null and failed is null",
        "create table if not exists exonet_peer (peer blob primary key, addr text, account blob not null)",
        "create table if not exists exonet_inbox (owner blob not null, key blob not null,
           at text not null default current_timestamp, primary key (owner, key)) without rowid",
        "create table if not exists exonet_sender (owner blob primary key, me blob not null, node blob not null)",
        "insert into exonet_lane (lane) values (0), (1), (2), (3), (4), (5), (6), (7) on conflict do nothing",
        "insert into exonet_schema (version) values (1) on conflict do nothing",
    ],
    version: "select coalesce(max(version), 0) from exonet_schema",
    send: "insert into exonet_outbox (key, lane, peer, addr, ord, tag, body) values ($1, $2, $3, $4, $5, $6, $7)",
    // One statement is one transaction, and there is one writer at a time, so nothing needs a lock.
    settle: "delete from exonet_outbox where lane in (select lane from exonet_lane where node = $1)
               and id in (select value from json_each($2)) and settled_at is null and failed is null",
    settle_and_keep: "update exonet_outbox set settled_at = unixepoch()
               where lane in (select lane from exonet_lane where node = $1)
               and id in (select value from json_each($2)) and settled_at is null and failed is null",
    fail: "update exonet_outbox set failed = $3 where lane in (select lane from exonet_lane where node = $1)
             and id = $2 and settled_at is null and failed is null",
    purge: "delete from exonet_outbox where id in (select id from exonet_outbox
              where settled_at < unixepoch() - $1 limit $2)",
    read: "select o.id, o.key, o.lane, o.peer, o.addr, o.ord, o.tag, o.body, p.account from exonet_outbox o
           left join exonet_peer p on p.peer = o.peer
           where o.settled_at is null and o.failed is null and o.id >= $6
             and o.lane in (select lane from exonet_lane where node = $1)
             and o.id not in (select value from json_each($2))
             and hex(o.peer) not in (select value from json_each($3))
             and (o.ord is null or hex(o.peer) || hex(o.ord) not in (select value from json_each($4)))
           order by o.id limit $5",
    first: "select id from exonet_outbox where settled_at is null and failed is null order by id limit 1",
    add_peer: "insert into exonet_peer (peer, addr, account) values ($1, $2, $3) on conflict (peer) do nothing",
    peers: "select peer, addr, account from exonet_peer",
    lanes: "select lane, node, beat from exonet_lane order by lane",
    prevs: "select lane, node from exonet_prev order by lane",
    beat: "update exonet_lane set beat = beat + 1 where node = $1",
    lock_lane: "update exonet_lane set beat = beat where lane = $1 returning node, beat",
    own_lane: "update exonet_lane set node = $2, beat = beat + 1 where lane = $1",
    add_prev: "insert into exonet_prev (lane, node) values ($1, $2) on conflict do nothing",
    leave: "delete from exonet_prev where node = $1 and lane in (select value from json_each($2))",
    sleep: "select $1, $2",
    writers: "select 0",
    gone: "select unhex(k.value) from json_each($1) k
           where not exists (select 1 from exonet_outbox o where o.key = unhex(k.value))
             and not exists (select 1 from exonet_prev)",
    process: "insert into exonet_inbox (owner, key) values ($1, $2) on conflict do nothing",
    set_sender: "insert into exonet_sender (owner, me, node) values ($1, $2, $3)
                 on conflict (owner) do update set me = excluded.me, node = excluded.node",
    senders: "select owner, node from exonet_sender where me = $1",
    processed: "select key from exonet_inbox where owner = $1 and key > $2 order by key limit $3",
    collect: "delete from exonet_inbox where owner = $1 and key in (select unhex(value) from json_each($2))",
    unforced: "select case (select synchronous from pragma_synchronous) when 0 then 1 when 1 then 1 else 0 end",
};

/// Converts an argument into a form that SQLite takes.
pub(super) fn plain(arg: Value) -> Value {
    match arg {
        Value::Ints(ints) => Value::Text(Some(list(&ints, |int, out| out.push_str(&int.to_string())))),
        Value::Blobs(blobs) => Value::Text(Some(list(&blobs, |blob, out| {
            out.push('"');
            blob.iter().for_each(|byte| out.push_str(&format!("{byte:02X}")));
            out.push('"');
        }))),
        plain => plain,
    }
}

/// A list as JSON. Bytes are hexadecimal digits, as `hex` of SQLite writes them.
fn list<T>(items: &[T], put: impl Fn(&T, &mut String)) -> String {
    let mut out = String::from("[");
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        put(item, &mut out);
    }
    out.push(']');
    out
}
