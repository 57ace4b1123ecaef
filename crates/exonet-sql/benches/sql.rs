//! What outbox and inbox cost, beside what the databases do alone in the same run.
//!
//! `cargo bench -p exonet-sql`: with PostgreSQL, in two servers of its own; the server's defaults, commits forced.
//!
//! * *alone*: two databases at once, each with as many clients, of which each begins, inserts a row, updates one, and commits.
//!   A client keeps its connection: a pool would ask the database twice for each transaction whether the connection works.
//! * *in its place*: the insert is the outbox's at the sender and the inbox's at the receiver; the application updates.
//! * *besides*: the application inserts and updates at both sides, and the message comes on top.
//! * *latency*: one message at a time, from the return of the sender's commit to the return of the receiver's.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // it measures, or it ends

#[path = "../tests/common/server.rs"]
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use exonet::{Allow, Node, PeerAddr};
use exonet_sql::{Inbox, InboxMessage, InboxTx, Outbox, Relay};
use server::Server;
use sqlx::{Connection, PgConnection, PgPool, Postgres};
use tokio::sync::mpsc;

const CLIENTS: u64 = 16;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(4);
const LATENCIES: usize = 400;
/// The rows of which each transaction updates one. There are so many that transactions hardly ever wait for each other.
const ACCOUNTS: u64 = 10_000;

/// The application's own work: one insert, if it is to be, and one update.
async fn work(conn: &mut PgConnection, account: u64, inserts: bool) -> Result<(), sqlx::Error> {
    let account = i64::try_from(account % ACCOUNTS).unwrap_or_default();
    if inserts {
        let insert = sqlx::query("insert into entry (account, text) values ($1, $2)");
        insert.bind(account).bind("forty-two bytes of what an application says").execute(&mut *conn).await?;
    }
    let update = sqlx::query("update account set balance = balance + 1 where id = $1");
    update.bind(account).execute(conn).await.map(drop)
}

/// Transactions a second, of clients that send what `peer` says.
async fn clients(pool: &PgPool, peer: Option<PeerAddr>, inserts: bool, done: Arc<AtomicU64>) {
    let until = Instant::now() + ROUND;
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        let (pool, peer, done) = (pool.clone(), peer.clone(), Arc::clone(&done));
        tasks.spawn(async move {
            let mut connection = pool.acquire().await.unwrap();
            let mut account = client * ACCOUNTS / CLIENTS;
            while Instant::now() < until {
                account += 1;
                let mut tx = connection.begin().await.unwrap();
                work(&mut tx, account, inserts).await.unwrap();
                if let Some(peer) = &peer {
                    let body = [account, u64::from(inserts)].map(u64::to_be_bytes).concat();
                    Outbox::send(&mut tx, peer, body).await.unwrap();
                }
                tx.commit().await.unwrap();
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

/// Waits until outbox and inbox are empty, so that no measurement pays for the one before.
async fn empty(outbox: &PgPool, inbox: &PgPool) {
    for (pool, table) in [(outbox, "exonet_outbox"), (inbox, "exonet_inbox")] {
        let some = format!("select exists (select from {table})");
        while sqlx::query_scalar(&some).fetch_one(pool).await.unwrap() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn per_second(count: u64, began: Instant) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / began.elapsed().as_secs_f64()
}

#[tokio::main]
#[expect(clippy::too_many_lines, reason = "one measurement after the other")]
async fn main() {
    let (Some(one), Some(two)) = (Server::start("").await.unwrap(), Server::start("").await.unwrap()) else {
        println!("SKIPPED: PostgreSQL is not installed here");
        return;
    };
    let (shop_db, bank_db) =
        (one.database("shop", 40).await.unwrap(), two.database("bank", 40).await.unwrap());
    for pool in [&shop_db, &bank_db] {
        exonet_sql::migrate(pool).await.unwrap();
        for sql in [
            "create table entry (id bigint generated always as identity primary key, account bigint, text text)",
            "create table account (id bigint primary key, balance bigint not null)",
            "insert into account select generate_series(0, 9999), 0",
        ] {
            sqlx::query(sql).execute(pool).await.unwrap();
        }
    }
    let home = tempfile::tempdir().unwrap();
    let node = |name: &str| {
        Node::builder(Allow::anyone()).state_dir(home.path().join(name)).bind("127.0.0.1:0").build()
    };
    let (shop, bank) = (node("shop").await.unwrap(), node("bank").await.unwrap());
    let inbox = Inbox::builder(&bank_db, &bank).concurrency(16).collect_every(Duration::from_secs(1));
    let handler = move |mut tx: InboxTx<Postgres>, message: InboxMessage| async move {
        let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap_or_default());
        work(&mut tx, number(&message.body[..8]), number(&message.body[8..]) == 1).await
    };
    let inbox = inbox.start(handler).await.unwrap();
    let inbox = Arc::new(inbox);
    let relay = Relay::start(&shop_db, &shop).await.unwrap();
    let (mut alone, mut sent, mut through) = (Vec::new(), [Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..ROUNDS {
        let (a, b) = (Arc::default(), Arc::default());
        let began = Instant::now();
        let (one, two) = (Arc::clone(&a), Arc::clone(&b));
        tokio::join!(clients(&shop_db, None, true, one), clients(&bank_db, None, true, two));
        alone.push(per_second(a.load(Ordering::Relaxed).min(b.load(Ordering::Relaxed)), began));
        for besides in [false, true] {
            let (count, before, began) = (Arc::default(), inbox.stats().processed, Instant::now());
            clients(&shop_db, Some(bank.peer_addr()), besides, Arc::clone(&count)).await;
            let all = count.load(Ordering::Relaxed);
            sent[usize::from(besides)].push(per_second(all, began));
            while inbox.stats().processed < before + all {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            through[usize::from(besides)].push(per_second(all, began));
            empty(&shop_db, &bank_db).await;
        }
    }
    let alone = median(alone);
    println!("transactions a second at each side, {CLIENTS} clients, medians of {ROUNDS} rounds");
    println!("  both databases alone, one insert and one update    {alone:>8.0}");
    for (what, (sent, through)) in
        ["in its place", "besides     "].into_iter().zip(sent.into_iter().zip(through))
    {
        let (sent, through) = (median(sent), median(through));
        println!(
            "  {what}: sent                                 {sent:>8.0}   {:>4.0} %",
            100.0 * sent / alone
        );
        println!(
            "  {what}: sent and processed                   {through:>8.0}   {:>4.0} %",
            100.0 * through / alone
        );
    }

    // Tells when something more is processed. A thread of its own, since a timer of the runtime takes a millisecond or two.
    let (teller, mut hears) = mpsc::unbounded_channel::<()>();
    let watched = Arc::clone(&inbox);
    std::thread::spawn(move || {
        let mut before = watched.stats().processed;
        loop {
            let now = watched.stats().processed;
            if core::mem::replace(&mut before, now) != now && teller.send(()).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    });

    tokio::time::sleep(Duration::from_secs(2)).await;
    while hears.try_recv().is_ok() {}
    let mut latencies = Vec::new();
    for _ in 0..LATENCIES {
        let mut tx = shop_db.begin().await.unwrap();
        Outbox::send(&mut tx, bank.peer_addr(), [1_u64, 0].map(u64::to_be_bytes).concat()).await.unwrap();
        tx.commit().await.unwrap();
        let began = Instant::now();
        hears.recv().await.unwrap();
        latencies.push(began.elapsed().as_secs_f64() * 1_000.0);
        // Some come after silence.
        tokio::time::sleep(Duration::from_millis(if latencies.len() % 20 == 0 { 300 } else { 7 })).await;
    }
    latencies.sort_by(f64::total_cmp);
    let at = |percent: usize| latencies[(latencies.len() * percent / 100).min(latencies.len() - 1)];
    println!("from commit to processed, ms, one at a time: p50 {:.2}, p99 {:.2}", at(50), at(99));
    relay.stop(Duration::from_secs(60)).await.unwrap();
}
