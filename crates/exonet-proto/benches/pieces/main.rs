//! The hot pieces of the core, each alone: time, allocations and instructions of an operation.
//!
//! `cargo bench -p exonet-proto --bench pieces -- OPTION`
//!
//! * `--json`: one object a line.
//! * `--check`: exit code 1 if a piece allocates more, or takes 10 % more instructions, than `counts.txt` says.
//! * `--accept`: writes `counts.txt`.
//! * `--run NAME RUNS`: runs of one piece behind its warm-up, and nothing else: for a profiler.
//!
//! Only the times want a quiet machine. Instructions are counted by Valgrind, where it is installed: exactly, on any
//! machine, in user mode, by the processor that it emulates, whose widest vectors are of 256 bits.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod counts;
mod pair;
mod piece;

use std::alloc::System;
use std::process::{Command, ExitCode};
use std::time::Instant;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use counts::Counts;
use piece::{Allocated, Piece, RUNS};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn allocated() -> Allocated {
    let stats = ALLOCATOR.stats();
    Allocated { calls: stats.allocations + stats.reallocations, bytes: stats.bytes_allocated }
}

/// Nanoseconds of an operation, the median run's.
fn nanoseconds(piece: &mut Piece) -> f64 {
    let mut runs: Vec<_> = (0..RUNS)
        .map(|_| {
            let begin = Instant::now();
            piece.run();
            begin.elapsed().as_nanos()
        })
        .collect();
    runs.sort_unstable();
    runs[RUNS / 2] as f64 / piece.each as f64
}

/// Instructions of an operation: those of this program with [`RUNS`] runs of the piece, without those that it takes
/// with none.
fn instructions(piece: &Piece) -> Option<f64> {
    let with = |runs: usize| {
        let output = Command::new("valgrind")
            .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
            .arg(std::env::current_exe().ok()?)
            .args(["--run", piece.name, &runs.to_string()])
            .output()
            .ok()?;
        let told = String::from_utf8(output.stderr).ok()?;
        let (_, count) = told.lines().find_map(|line| line.split_once("refs:"))?;
        count.trim().replace(',', "").parse::<f64>().ok()
    };
    Some((with(RUNS)? - with(0)?) / (RUNS * piece.each) as f64)
}

fn shown(instructions: Option<f64>, none: &str) -> String {
    instructions.map_or_else(|| none.into(), |count| format!("{count:.0}"))
}

fn main() -> ExitCode {
    let options: Vec<_> = std::env::args().skip(1).filter(|option| option != "--bench").collect();
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    if let ["--run", name, runs] = options[..] {
        let mut piece = Piece::all().into_iter().find(|piece| piece.name == name).unwrap();
        piece.warm_up();
        (0..runs.parse().unwrap()).for_each(|_: usize| piece.run());
        return ExitCode::SUCCESS;
    }
    if let Some(unknown) = options.iter().find(|option| !["--json", "--check", "--accept"].contains(option)) {
        eprintln!("{unknown}: not one of --json, --check, --accept, --run NAME RUNS");
        return ExitCode::from(2);
    }
    let asked = |option| options.contains(&option);
    let mut lines =
        String::from("# piece, and of an operation: allocations, bytes allocated, instructions\n");
    let mut worse = false;
    if !asked("--json") {
        println!("{:26} {:>10} {:>11} {:>9} {:>12}", "piece", "ns", "allocations", "bytes", "instructions");
    }
    for mut piece in Piece::all() {
        piece.warm_up();
        let allocated = piece.allocated(allocated);
        let nanoseconds = nanoseconds(&mut piece);
        let counts = Counts::of(&piece, allocated, instructions(&piece));
        let Counts { allocations, bytes, instructions } = counts;
        let name = piece.name;
        if asked("--json") {
            let instructions = shown(instructions, "null");
            println!(
                r#"{{"piece":"{name}","nanoseconds":{nanoseconds:.1},"allocations":{allocations:.2},"bytes":{bytes:.2},"instructions":{instructions}}}"#
            );
        } else {
            let instructions = shown(instructions, "-");
            println!("{name:26} {nanoseconds:10.1} {allocations:11.2} {bytes:9.2} {instructions:>12}");
        }
        let instructions = shown(instructions, "-");
        lines += &format!("{name} {allocations:.2} {bytes:.2} {instructions}\n");
        if asked("--check") {
            let found =
                Counts::accepted(name).map_or_else(|| vec!["no counts".into()], |at| counts.worse_than(&at));
            found.iter().for_each(|what| eprintln!("{name}: {what}"));
            worse |= !found.is_empty();
        }
    }
    if asked("--accept") {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/pieces/counts.txt"), lines).unwrap();
    }
    ExitCode::from(u8::from(worse))
}
