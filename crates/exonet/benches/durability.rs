//! What durability costs, beside a node without a journal and beside the same disk: `cargo bench -p exonet --bench durability`.
//!
//! Two nodes in one process over loopback. Each figure is the median of three interleaved runs. What is named behind `--`
//! chooses rows and levels, and what has a slash says where the journals lie:
//! `cargo bench -p exonet --bench durability -- batches memory process /var/tmp`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_precision_loss)] // a failure here ends the bench

mod figures;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use exonet::{Allow, Durability, Node, Peer};
use figures::{median, worked};
use tokio::sync::Semaphore;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 3;
/// After this time, a journal has made the segments that it uses in turn. To force a new segment takes a disk tens of
/// milliseconds.
const WARM_UP: Duration = Duration::from_secs(2);
const SPAN: Duration = Duration::from_secs(1);

const LEVELS: [(&str, Durability); 4] = [
    ("memory", Durability::Memory),
    ("process", Durability::Process),
    ("batched 2 ms", Durability::Batched(Duration::from_millis(2))),
    ("sync", Durability::Sync),
];

/// How messages are handed over.
#[derive(Clone, Copy)]
enum Way {
    /// By this many tasks, each of which sends and awaits the outcome.
    Tasks(usize),
    /// In batches of borrowed bodies.
    Batches(usize),
    /// One by one by one task, with this many receipts open.
    Window(usize),
    /// In batches, in a stream.
    Stream(usize),
}

const ROWS: [(&str, usize, Way); 8] = [
    ("1 KiB, one by one", 1_024, Way::Window(1_024)),
    ("64 B, one by one", 64, Way::Window(4_096)),
    ("1 KiB, batches of 64", 1_024, Way::Batches(64)),
    ("64 B, batches of 256", 64, Way::Batches(256)),
    ("1 KiB, stream, 64", 1_024, Way::Stream(64)),
    ("64 B, stream, 256", 64, Way::Stream(256)),
    ("600 B, 256 tasks", 600, Way::Tasks(256)),
    ("600 B, alone", 600, Way::Tasks(1)),
];

async fn node(home: &Path, name: &str, durability: Durability) -> Node {
    let builder = Node::builder(Allow::anyone()).bind("127.0.0.1:0");
    builder.state_dir(home.join(name)).durability(durability).build().await.unwrap()
}

async fn send(peer: Peer, size: usize, way: Way) {
    let body = vec![7_u8; size];
    match way {
        Way::Tasks(n) => {
            let task = |peer: Peer, body: Vec<u8>| async move {
                while let Ok(receipt) = peer.send(body.clone()).await {
                    receipt.await;
                }
            };
            let tasks: Vec<_> = (0..n).map(|_| tokio::spawn(task(peer.clone(), body.clone()))).collect();
            for task in tasks {
                let _ = task.await;
            }
        }
        Way::Batches(n) => {
            let bodies = vec![&body[..]; n];
            while peer.send_bodies(&bodies).await.is_ok() {}
        }
        Way::Stream(n) => {
            let (mut rows, _) = peer.stream("rows").unwrap().split();
            let body = bytes::Bytes::from(body);
            while rows.send_batch(std::iter::repeat_n(body.clone(), n)).await.is_ok() {}
        }
        Way::Window(n) => {
            let window = Arc::new(Semaphore::new(n));
            loop {
                let turn = Arc::clone(&window).acquire_owned().await.unwrap();
                let Ok(receipt) = peer.send(body.clone()).await else { return };
                tokio::spawn(async move {
                    receipt.await;
                    drop(turn);
                });
            }
        }
    }
}

/// Messages a second that the receiving application gets, and the nanoseconds of processor time that each takes at both ends together.
fn measure(home: &Path, durability: Durability, size: usize, way: Way) -> (f64, f64) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let home = tempfile::tempdir_in(home).unwrap();
    runtime.block_on(async {
        let here = node(home.path(), "here", durability).await;
        let there = node(home.path(), "there", durability).await;
        let sender = tokio::spawn(send(here.peer(there.peer_addr()), size, way));
        let receiver = there.clone();
        let rate = tokio::spawn(async move {
            let messages = receiver.at_most_once();
            let mut rows = match way {
                Way::Stream(_) => Some(receiver.accept_stream().await.unwrap().split().1),
                _ => None,
            };
            let mut take = async |span: Duration| {
                let (begun, before, mut count) = (Instant::now(), worked(), 0);
                while begun.elapsed() < span {
                    let batch = match &mut rows {
                        Some(rows) => rows.recv_batch(256).await.unwrap().unwrap(),
                        None => messages.recv_batch(256).await.unwrap(),
                    };
                    count += batch.len();
                }
                let each = (worked() - before).as_nanos() as f64 / count as f64;
                (count as f64 / begun.elapsed().as_secs_f64(), each)
            };
            take(WARM_UP).await;
            take(SPAN).await
        });
        let rate = rate.await.unwrap();
        here.close(Duration::ZERO).await;
        there.close(Duration::ZERO).await;
        let _ = sender.await;
        rate
    })
}

/// Groups of bytes a second that the disk takes, each written and forced.
fn forced(home: &Path, group: usize) -> f64 {
    let file = tempfile::NamedTempFile::new_in(home).unwrap();
    let (mut file, bytes): (&File, _) = (file.as_file(), vec![7; group]);
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < SPAN / 2 {
        file.write_all(&bytes).unwrap();
        file.sync_data().unwrap();
        count += 1;
    }
    f64::from(count) / begun.elapsed().as_secs_f64()
}

fn main() {
    let place = std::env::args().skip(1).find(|arg| arg.contains('/'));
    // On the disk of the build, not in memory.
    let home = PathBuf::from(place.unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").to_owned()));
    println!(
        "messages a second, the part of what a node without a journal does, processor time of a message at both ends"
    );
    let chosen: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-') && !arg.contains('/')).collect();
    let is_chosen = |name: &str| chosen.iter().any(|part| name.contains(part));
    let rows = ROWS.into_iter().filter(|(name, ..)| is_chosen(name));
    let levels = LEVELS.into_iter().filter(|(name, _)| is_chosen(name));
    let (mut rows, mut levels): (Vec<_>, Vec<_>) = (rows.collect(), levels.collect());
    if rows.is_empty() {
        rows.extend(ROWS);
    }
    if levels.is_empty() {
        levels.extend(LEVELS);
    }
    for (name, size, way) in rows {
        let mut rates = vec![Vec::new(); levels.len()];
        for _ in 0..RUNS {
            for (rates, (_, level)) in rates.iter_mut().zip(levels.iter().copied()) {
                rates.push(measure(&home, level, size, way));
            }
        }
        let medians: Vec<(f64, f64)> = rates
            .into_iter()
            .map(|figures: Vec<(f64, f64)>| {
                let (rates, each) = figures.into_iter().unzip();
                (median(rates), median(each))
            })
            .collect();
        print!("{name:<22}");
        for ((level, _), (rate, each)) in levels.iter().zip(&medians) {
            print!("  {level} {rate:.0} ({:.0} %, {each:.0} ns)", 100.0 * rate / medians[0].0);
        }
        println!();
    }
    for (name, group) in [("600 B", 600), ("256 x 600 B", 256 * 600)] {
        let rate = median((0..RUNS).map(|_| forced(&home, group)).collect());
        println!("this disk: {rate:.0} groups of {name} a second, each written and forced alone");
    }
}
