//! What messages cost that wait for somebody who is away: `cargo bench -p exonet --bench waiting`.
//!
//! A process queues them and dies; another recovers what it left, and dies too; a third finds a journal with nothing in it. Each says
//! how long it took and what memory it has. Behind `--` stand rows (`name=messages,bytes,batch`) in place of the usual ones, and what
//! has a slash says where the journal lies: `-- ten=10000000,64,256 /var/tmp`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_precision_loss)] // a failure here ends the bench

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use exonet::{Allow, Durability, Node, NodeId, PeerAddr};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROWS: [(&str, u64, usize, usize); 4] = [
    ("1 M of 64 B, in batches", 1_000_000, 64, 256),
    ("1 M of 64 B, one by one", 1_000_000, 64, 1),
    ("1 M of 1 KiB, one by one", 1_000_000, 1_024, 1),
    ("10 M of 64 B, in batches", 10_000_000, 64, 256),
];

/// Mebibytes of memory: of this process alone, and of files that the system may take back.
fn memory() -> [f64; 2] {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ["RssAnon:", "RssFile:"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib: Option<f64> = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        kib.unwrap_or_default() / 1_024.0
    })
}

/// Processor time of this process so far.
fn worked() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

async fn node(home: &Path) -> Node {
    let builder = Node::builder(Allow::anyone()).bind("127.0.0.1:0").state_dir(home.join("node"));
    let limits = |limits: &mut exonet::config::Limits| {
        (limits.queued_messages, limits.queued_bytes) = (usize::MAX / 2, usize::MAX / 2);
    };
    builder.durability(Durability::Process).limits(limits).build().await.unwrap()
}

fn say(what: &str, began: Instant, before: [f64; 2], messages: u64) {
    let [own, files] = memory();
    println!(
        "  {what:<10} {:>8.0} ms, processor {:>6} ms; memory {own:>6.0} MiB, files {files:>6.0} MiB; {:>6.1} B a message",
        began.elapsed().as_secs_f64() * 1_000.0,
        worked().as_millis(),
        (own - before[0]) * 1_048_576.0 / messages.max(1) as f64,
    );
}

/// One process of a row. It ends as if it was killed.
async fn part(part: &str, home: &Path, messages: u64, bytes: usize, batch: usize) {
    let before = memory();
    let began = Instant::now();
    let node = node(home).await;
    if part == "queue" {
        let away = PeerAddr::from((NodeId([2; 32]), SocketAddr::from(([127, 0, 0, 1], 9))));
        let (peer, body) = (node.peer(away), vec![7; bytes]);
        let bodies = vec![&body[..]; batch];
        for _ in 0..messages / batch as u64 {
            if batch == 1 {
                drop(peer.send(body.clone()).await.unwrap());
            } else {
                drop(peer.send_bodies(&bodies).await.unwrap());
            }
        }
    }
    say(part, began, before, messages);
    if part == "recover" {
        let found = node.recovered().len();
        assert!(found as u64 == messages / batch as u64 * batch as u64, "{found} were found");
    }
    if part == "empty" {
        node.close(Duration::ZERO).await;
    }
    std::process::abort();
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    if let [name, home, row] = &args[..]
        && ["queue", "recover", "empty"].contains(&&**name)
    {
        let numbers: Vec<u64> = row.split(',').map(|number| number.parse().unwrap()).collect();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        return runtime.block_on(part(
            name,
            Path::new(home),
            numbers[0],
            usize::try_from(numbers[1]).unwrap(),
            usize::try_from(numbers[2]).unwrap(),
        ));
    }
    let place = args.iter().find(|arg| arg.contains('/') && !arg.contains('='));
    let place = place.map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let chosen: Vec<_> = args.iter().filter_map(|arg| arg.split_once('=')).collect();
    let usual: Vec<_> =
        ROWS.iter().map(|(name, n, bytes, batch)| (*name, format!("{n},{bytes},{batch}"))).collect();
    let rows = if chosen.is_empty() {
        usual
    } else {
        chosen.iter().map(|(name, row)| (*name, (*row).to_owned())).collect()
    };
    let run = |part: &str, home: &Path, row: &str| {
        let me = std::env::current_exe().unwrap();
        Command::new(me).args([part, home.to_str().unwrap(), row]).status().unwrap()
    };
    for (name, row) in rows {
        println!("{name}");
        let home = tempfile::tempdir_in(&place).unwrap();
        for part in ["queue", "recover"] {
            run(part, home.path(), &row);
        }
    }
    println!("nothing");
    let home = tempfile::tempdir_in(&place).unwrap();
    for _ in 0..3 {
        run("empty", home.path(), "0,0,1");
    }
}
