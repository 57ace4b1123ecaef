//! What the journal costs, beside the bare copy and the bare calls that it stands on, in turns within one run.
//!
//! `cargo bench -p exonet-store`; an argument picks the rows whose names have it. The files lie in the directory that
//! `EXONET_BENCH_DIR` names, or in the target directory. Rows are medians of seven rounds.

#![allow(missing_docs, clippy::unwrap_used, clippy::cast_precision_loss, clippy::cast_possible_truncation)]

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

use exonet_store::{Level, Options, Storage};

const ROUNDS: usize = 7;

fn main() {
    let part = std::env::args().skip(1).find(|it| !it.starts_with("--")).unwrap_or_default();
    let base = std::env::var_os("EXONET_BENCH_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let temp = tempfile::tempdir_in(base).unwrap();
    let dir = temp.path();
    let row = |name: &str, run: &dyn Fn()| {
        if name.contains(&part) {
            println!("{name}");
            run();
        }
    };
    for level in [Level::Process, Level::Sync] {
        row(&format!("append, {level}, groups of 64 x 64 B"), &|| append(dir, level, 4096, 64));
        row(&format!("append, {level}, groups of 1 KiB"), &|| append(dir, level, 1024, 1));
        row(&format!("append, {level}, groups of 64 B"), &|| append(dir, level, 64, 1));
    }
    row("forced, groups of 256 x 600 B", &|| forced(dir, 256 * 600, 100));
    row("forced, groups of 600 B", &|| forced(dir, 600, 200));
    row("open, 1,000,000 groups of 64 B", &|| full(dir));
    row("open, nothing there", &|| empty(dir));
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Nanoseconds of one call of `run`, of `count`.
fn time(count: usize, mut run: impl FnMut(usize)) -> f64 {
    let began = Instant::now();
    (0..count).for_each(&mut run);
    began.elapsed().as_nanos() as f64 / count as f64
}

fn show(name: &str, nanos: f64, count: usize, beside: &[(&str, f64)]) {
    let ratios: Vec<_> =
        beside.iter().map(|(name, other)| format!("{:.2} x {name}", nanos / other)).collect();
    println!("  {name:<28} {:>12.0} ns, {:>9.1} ns each  {}", nanos, nanos / count as f64, ratios.join(", "));
}

fn journal(dir: &Path, level: Level) -> Box<dyn Storage> {
    exonet_store::open(&dir.join("journal"), Options::new([7; 32], level)).unwrap().0
}

/// 64 MiB that were written once: as fast as a file can be.
fn written(dir: &Path) -> File {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(dir.join("bare")).unwrap();
    (0..64).for_each(|at| write_at(&file, &vec![1; 1 << 20], at << 20));
    file.sync_all().unwrap();
    file
}

fn write_at(file: &File, bytes: &[u8], at: u64) {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at).unwrap();
}

fn append(dir: &Path, level: Level, len: usize, messages: usize) {
    let count = (64 << 20) / (len + 32);
    let (body, file) = (vec![7; len], written(dir));
    let mut memory = vec![0u8; 64 << 20];
    let mut journal = journal(dir, level);
    let [mut copies, mut sums, mut calls, mut appends] = [const { Vec::new() }; 4];
    let mut through = 0;
    for round in 0..=ROUNDS {
        let copy = time(count, |n| {
            if let Some(to) = memory.get_mut(n * (len + 32)..).and_then(|to| to.get_mut(..len)) {
                to.copy_from_slice(black_box(&body));
                black_box(to);
            }
        });
        let sum = time(count, |n| {
            black_box(crc32c::crc32c(black_box(&body)));
            if let Some(to) = memory.get_mut(n * (len + 32)..).and_then(|to| to.get_mut(..len)) {
                to.copy_from_slice(black_box(&body));
                black_box(to);
            }
        });
        let call = time(count, |n| write_at(&file, black_box(&body), (n * (len + 32)) as u64));
        let append = time(count, |_| {
            through += len as u64;
            journal.append(through, black_box(&body)).unwrap();
            if journal.wants_snapshot() {
                journal.snapshot(vec![1; 64]).unwrap();
            }
        });
        // The first one fills the pool.
        if round > 0 {
            copies.push(copy);
            sums.push(sum);
            calls.push(call);
            appends.push(append);
        }
    }
    let [copy, sum, call, append] = [copies, sums, calls, appends].map(median);
    show("memcpy", copy, messages, &[]);
    show("CRC and memcpy", sum, messages, &[("memcpy", copy)]);
    show("pwrite", call, messages, &[("memcpy", copy)]);
    show("append", append, messages, &[("memcpy", copy), ("CRC and memcpy", sum), ("pwrite", call)]);
    journal.close().unwrap();
    std::fs::remove_dir_all(dir.join("journal")).unwrap();
}

fn forced(dir: &Path, len: usize, count: usize) {
    let (body, file) = (vec![7; len], written(dir));
    let mut journal = journal(dir, Level::Sync);
    let mut forcer = journal.forcer();
    let [mut bare, mut ours] = [const { Vec::new() }; 2];
    let (mut through, mut at) = (0, 0);
    for round in 0..=ROUNDS {
        let call = time(count, |_| {
            at = if at + len as u64 > 64 << 20 { 0 } else { at };
            write_at(&file, black_box(&body), at);
            file.sync_data().unwrap();
            at += len as u64;
        });
        let append = time(count, |_| {
            through += len as u64;
            journal.append(through, black_box(&body)).unwrap();
            forcer.force().unwrap();
            if journal.wants_snapshot() {
                journal.snapshot(vec![1; 64]).unwrap();
            }
        });
        // The first one fills the pool.
        if round > 0 {
            bare.push(call);
            ours.push(append);
        }
    }
    let [bare, ours] = [bare, ours].map(median);
    show("pwrite and fdatasync", bare, 1, &[]);
    show("append and force", ours, 1, &[("pwrite and fdatasync", bare)]);
    journal.close().unwrap();
    std::fs::remove_dir_all(dir.join("journal")).unwrap();
}

fn full(dir: &Path) {
    let mut log = journal(dir, Level::Process);
    for n in 1..=1_000_000 {
        log.append(n, &[7; 64]).unwrap();
    }
    drop(log);
    let [mut opens, mut reads] = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let (log, mut found) =
            exonet_store::open(&dir.join("journal"), Options::new([7; 32], Level::Process)).unwrap();
        opens.push(began.elapsed().as_secs_f64());
        let mut count = 0;
        while let Some(group) = found.groups.next_group().unwrap() {
            count += black_box(group).len() / 64;
        }
        reads.push(began.elapsed().as_secs_f64());
        assert_eq!(count, 1_000_000);
        drop(log);
    }
    println!("  opened after {:.0} ms, read after {:.0} ms", median(opens) * 1e3, median(reads) * 1e3);
    std::fs::remove_dir_all(dir.join("journal")).unwrap();
}

fn empty(dir: &Path) {
    let [mut first, mut later, mut used] = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let open = || time(1, |_| drop(journal(dir, Level::Process))) / 1e6;
        first.push(open());
        later.push(open());
        let mut log = journal(dir, Level::Process);
        (1..=5_000u64).for_each(|n| log.append(n, &[7; 4000]).unwrap());
        log.snapshot(vec![1; 64]).unwrap();
        drop(log);
        used.push(open());
        std::fs::remove_dir_all(dir.join("journal")).unwrap();
    }
    let [first, later, used] = [first, later, used].map(median);
    println!("  no journal {first:.1} ms, empty {later:.1} ms, behind a snapshot, with a pool {used:.1} ms");
}
