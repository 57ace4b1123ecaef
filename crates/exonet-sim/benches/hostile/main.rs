//! What attacks cost their victim: memory and time per hostile packet, beside the time per friendly packet in the same
//! run, and what is left for friends when one hostile packet comes with each of theirs.
//!
//! `cargo bench -p exonet-sim --bench hostile`; with `-- --json` the last line is the table as JSON. Any other
//! argument picks the attacks whose names have it.

#![allow(unreachable_pub, clippy::cast_precision_loss, missing_docs)]

mod attacks;
mod stage;

use std::alloc::System;
use std::time::Duration;

use cap::Cap;
use stage::Stage;

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

/// Hostile packets of one run, and runs of which the fastest counts: what else the machine does only adds.
const PACKETS: u32 = 500;
const RUNS: usize = 5;
/// Messages of the friend in one run.
const FRIENDLY: usize = 1_000;

struct Row {
    name: &'static str,
    bytes_of_packet: f64,
    state: f64,
    hostile: f64,
    friendly: f64,
    kept: f64,
}

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    println!(
        "{:42} {:>6} {:>12} {:>12} {:>12} {:>6} {:>7}",
        "attack", "size", "state B/pkt", "hostile ns", "friendly ns", "cost", "kept"
    );
    let part = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    let rows: Vec<Row> = attacks::ALL.iter().filter(|it| it.name.contains(&part)).map(measure).collect();
    let most =
        |of: fn(&Row) -> f64| rows.iter().max_by(|a, b| of(a).total_cmp(&of(b))).map_or("", |row| row.name);
    let (time, state) = (most(|row| row.hostile), most(|row| row.state));
    println!("most time per hostile packet: {time}; most memory: {state}");
    if json {
        let row = |row: &Row| {
            let Row { name, bytes_of_packet, state, hostile, friendly, kept } = row;
            format!(
                "{{\"attack\":\"{name}\",\"packet_bytes\":{bytes_of_packet:.0},\"state_bytes\":{state:.1},\
                 \"hostile_ns\":{hostile:.0},\"friendly_ns\":{friendly:.0},\"kept\":{kept:.3}}}"
            )
        };
        let all: Vec<String> = rows.iter().map(row).collect();
        println!("{{\"attacks\":[{}],\"most_time\":\"{time}\",\"most_state\":\"{state}\"}}", all.join(","));
    }
}

fn measure(attack: &attacks::Attack) -> Row {
    let fastest = |best: Row, next: Row| {
        let friendly = best.friendly.min(next.friendly);
        let row = if next.hostile < best.hostile { next } else { best };
        Row { friendly, ..row }
    };
    let row = (1..RUNS).map(|_| run(attack)).fold(run(attack), fastest);
    println!(
        "{:42} {:6.0} {:12.1} {:12.0} {:12.0} {:5.1}x {:6.1}%",
        row.name,
        row.bytes_of_packet,
        row.state,
        row.hostile,
        row.friendly,
        row.hostile / row.friendly,
        row.kept * 100.0
    );
    row
}

fn run(attack: &attacks::Attack) -> Row {
    // The friend alone.
    let mut stage = Stage::new();
    stage.friendly(200, |_| {});
    let (alone, datagrams) = stage.friendly(FRIENDLY, |_| {});
    let friendly = nanos(alone) / datagrams.max(1) as f64;

    // The attack alone: memory and time.
    let mut stage = Stage::new();
    stage.friendly(200, |_| {});
    let mut packets = (attack.packets)(&mut stage, PACKETS);
    let bytes: usize = packets.iter().map(|(_, data)| data.len()).sum();
    let count = packets.len().max(1) as f64;
    let (before, worked) = (MEMORY.allocated(), stage.worked);
    for (from, data) in &mut packets {
        stage.pass(Duration::from_micros(100));
        stage.reach(*from, data);
        stage.elsewhere.clear();
    }
    let state = MEMORY.allocated() as f64 - before as f64;
    let hostile = nanos(stage.worked - worked) / count;

    // Both, one for one: the victim's time for its friend, of its time for both.
    let mut stage = Stage::new();
    stage.friendly(200, |_| {});
    let mut packets = (attack.packets)(&mut stage, PACKETS).into_iter();
    // The friend's messages are taken, whatever the attack needed.
    stage.reads = true;
    let begun = stage.worked;
    let (own, datagrams) = stage.friendly(FRIENDLY, |stage| {
        if let Some((from, mut data)) = packets.next() {
            stage.reach(from, &mut data);
            stage.elsewhere.clear();
        }
    });
    let met = (count - packets.len() as f64).max(1.0);
    let foes = (nanos(stage.worked - begun) - nanos(own)).max(0.0);
    let pair = nanos(own) / datagrams.max(1) as f64 + foes / met;
    Row {
        name: attack.name,
        bytes_of_packet: bytes as f64 / count,
        state: state / count,
        hostile,
        friendly,
        // Both measured in this run: what else the machine does weighs on either.
        kept: nanos(own) / datagrams.max(1) as f64 / pair,
    }
}

fn nanos(span: Duration) -> f64 {
    span.as_secs_f64() * 1e9
}
