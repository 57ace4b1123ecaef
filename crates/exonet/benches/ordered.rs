//! What order costs: one message after the other between two nodes in one process, as plain messages, in a stream and in a session, taken
//! one by one and, where that can be, in batches; and what an idle stream and an idle session take in memory. Medians of interleaved runs.
//!
//! `cargo bench -p exonet --bench ordered`
//!
//! `-- --idle`: the memory, and nothing else.
//!
//! `-- --run KIND BYTES COUNT`: one run of `plain`, `plain-batch`, `stream`, `stream-batch` or `session`, and nothing else: for a profiler.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_precision_loss, clippy::print_stdout)]

use std::alloc::System;
use std::time::{Duration, Instant};

use cap::Cap;
use exonet::session::PER_PEER;
use exonet::{Allow, Node};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const RUNS: usize = 5;

/// Peers that have as many sessions as they may.
const PEERS: usize = 32;

/// Streams of one peer.
const STREAMS: usize = 10_000;

/// Messages that are taken together.
const BATCH: usize = 256;

#[derive(Clone, Copy)]
enum Kind {
    Plain,
    PlainBatch,
    Stream,
    StreamBatch,
    Session,
}

const KINDS: [(&str, Kind); 5] = [
    ("plain", Kind::Plain),
    ("plain-batch", Kind::PlainBatch),
    ("stream", Kind::Stream),
    ("stream-batch", Kind::StreamBatch),
    ("session", Kind::Session),
];

async fn node() -> Node {
    Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap()
}

/// Messages a second, from the first `send` until the last is settled.
async fn run(kind: Kind, size: usize, count: usize) -> f64 {
    let (alice, bob) = (node().await, node().await);
    let to = alice.peer(bob.peer_addr());
    let body = bytes::Bytes::from(vec![7; size]);
    let began = Instant::now();
    match kind {
        Kind::Plain | Kind::PlainBatch => {
            let takes = tokio::spawn(async move {
                let (receiver, mut left) = (bob.at_most_once(), count);
                while left > 0 {
                    if matches!(kind, Kind::Plain) {
                        receiver.recv().await.unwrap();
                        left -= 1;
                    } else {
                        left -= receiver.recv_batch(BATCH).await.unwrap().count();
                    }
                }
                bob
            });
            for _ in 0..count {
                drop(to.send(body.clone()).await.unwrap());
            }
            drop(takes.await.unwrap());
        }
        Kind::Stream | Kind::StreamBatch => {
            let takes = tokio::spawn(async move {
                let (_, mut lines) = bob.accept_stream().await.unwrap().split();
                let mut left = count;
                while left > 0 {
                    if matches!(kind, Kind::Stream) {
                        lines.recv_at_most_once().await.unwrap().unwrap();
                        left -= 1;
                    } else {
                        left -= lines.recv_batch(BATCH).await.unwrap().unwrap().count();
                    }
                }
                bob
            });
            let (mut out, _) = to.stream("s").unwrap().split();
            for _ in 0..count {
                drop(out.send(body.clone()).await.unwrap());
            }
            drop(takes.await.unwrap());
        }
        Kind::Session => {
            let takes = tokio::spawn(async move {
                let mut session = bob.accept_session().await.unwrap();
                for _ in 0..count {
                    session.recv().await.unwrap().unwrap().ack().unwrap();
                }
                (bob, session)
            });
            let mut session = to.session("s").unwrap().open().await.unwrap();
            for _ in 0..count {
                drop(session.send(body.clone()).await.unwrap());
            }
            drop(takes.await.unwrap());
        }
    }
    count as f64 / began.elapsed().as_secs_f64()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

/// Bytes that an idle stream takes, both ends together, while both applications have its handle. One message has gone each way.
async fn idle_stream() -> f64 {
    let (alice, bob) = (node().await, node().await);
    let to = alice.peer(bob.peer_addr());
    let mut kept = Vec::with_capacity(2 * STREAMS + 2);
    let mut before = 0;
    for n in 0..=STREAMS {
        let (mut here, mut back) = to.stream(format!("{n}")).unwrap().split();
        drop(here.send("x").await.unwrap());
        let (mut answers, mut there) = bob.accept_stream().await.unwrap().split();
        there.recv().await.unwrap().unwrap().ack().unwrap();
        drop(answers.send("x").await.unwrap());
        back.recv().await.unwrap().unwrap().ack().unwrap();
        kept.push((here, back));
        kept.push((answers, there));
        if n == 0 {
            // The peers are there already, and a stream beside the ones that are counted.
            tokio::time::sleep(Duration::from_secs(1)).await;
            before = ALLOCATOR.allocated();
        }
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    (ALLOCATOR.allocated() - before) as f64 / STREAMS as f64
}

/// Bytes that an idle session takes, both ends together.
async fn idle_session() -> f64 {
    let server = node().await;
    let mut kept = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..PEERS {
        let client = node().await;
        // The peers are there already, and a session beside the ones that are counted.
        kept.push(client.peer(server.peer_addr()).session("s").unwrap().open().await.unwrap());
        kept.push(server.accept_session().await.unwrap());
        clients.push(client);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = ALLOCATOR.allocated();
    for client in &clients {
        for _ in 1..PER_PEER {
            kept.push(client.peer(server.peer_addr()).session("s").unwrap().open().await.unwrap());
            kept.push(server.accept_session().await.unwrap());
        }
    }
    for session in &mut kept {
        // Acceptances are heard.
        drop(tokio::time::timeout(Duration::from_millis(1), session.recv()).await);
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    (ALLOCATOR.allocated() - before) as f64 / (PEERS * (PER_PEER - 1)) as f64
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let options: Vec<_> = std::env::args().skip(1).filter(|option| option != "--bench").collect();
    if let ["--run", kind, bytes, count] = options.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        let (_, kind) = KINDS.into_iter().find(|(name, _)| *name == kind).unwrap();
        let rate = runtime.block_on(run(kind, bytes.parse().unwrap(), count.parse().unwrap()));
        println!("{rate:.0} messages a second");
        return;
    }
    let memory = || {
        let (stream, session) = (runtime.block_on(idle_stream()), runtime.block_on(idle_session()));
        println!("an idle stream takes {stream:.0} bytes, an idle session {session:.0}, both ends together");
    };
    if options == ["--idle"] {
        return memory();
    }
    println!("messages a second, one by one, medians of {RUNS}");
    let names: String = KINDS.iter().map(|(name, _)| format!("{name:>14}")).collect();
    println!("{:>8}{names}   stream and session of plain, batches of batches", "bytes");
    for (size, count) in [(64, 100_000), (1_024, 100_000), (16_384, 20_000)] {
        let mut rates = KINDS.map(|_| Vec::new());
        for _ in 0..RUNS {
            for (rates, (_, kind)) in rates.iter_mut().zip(KINDS) {
                rates.push(runtime.block_on(run(kind, size, count)));
            }
        }
        let rates = rates.map(median);
        let shown: String = rates.iter().map(|rate| format!("{rate:>14.0}")).collect();
        let [plain, plain_batch, stream, stream_batch, session] = rates;
        let of = |rate, of| 100.0 * rate / of;
        let (a, b, c) = (of(stream, plain), of(session, plain), of(stream_batch, plain_batch));
        println!("{size:>8}{shown}   {a:.0} %, {b:.0} %, {c:.0} %");
    }
    memory();
}
