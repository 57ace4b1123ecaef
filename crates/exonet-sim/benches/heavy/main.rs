//! What heavy loss costs, and what overload does, on virtual time: 100 messages, a first call, the tail of a long queue,
//! and a crowd after a stall.
//!
//! `cargo bench -p exonet-sim --bench heavy`; an argument picks the rows whose names have it, `--seeds=N` has so many
//! worlds a row (1,000).

#![allow(unreachable_pub, missing_docs, clippy::unwrap_used, clippy::panic)]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::indexing_slicing
)]

#[path = "../../tests/common/mod.rs"]
mod common;

use core::time::Duration;

use common::heavy::{Crowd, first_call, hundred, quantile, tail, times};
use common::{MS, SECOND};

fn main() {
    let arguments = || std::env::args().skip(1).filter(|argument| argument != "--bench");
    let part = arguments().find(|it| !it.starts_with("--")).unwrap_or_default();
    let number = |name: &str| arguments().find_map(|it| it.strip_prefix(name)?.parse().ok());
    let seeds = number("--seeds=").unwrap_or(1_000);
    let wants = |name: &str| name.contains(&part);
    for met in [false, true] {
        for loss in [0.0, 0.3, 0.5] {
            let met_or_fresh = if met { "met" } else { "fresh" };
            let name = format!("100 messages, RTT 20 ms, {:.0} %, {met_or_fresh}", loss * 100.0);
            if wants(&name) {
                row(&name, &times(0..seeds, |seed| hundred(seed, 20 * MS, loss, met)));
            }
        }
    }
    for loss in [0.0, 0.3, 0.5] {
        let name = format!("first call, RTT 10 ms, {:.0} %", loss * 100.0);
        if wants(&name) {
            row(&name, &times(0..seeds, |seed| first_call(seed, 10 * MS, loss)));
        }
    }
    for open in [4_096, 16_384] {
        for bursts in [false, true] {
            let name =
                format!("tail, RTT 10 ms, 30 %{}, {open} open", if bursts { " in bursts" } else { "" });
            if wants(&name) {
                let span = if open > 5_000 { 5 * SECOND } else { 2 * SECOND };
                row(&name, &times(0..(seeds / 100).max(3), |seed| tail(seed, 10 * MS, open, bursts, span)));
            }
        }
    }
    for (rtt, queue) in [(1, 800_000), (1, 40_000), (20, 800_000), (20, 40_000)] {
        let name = format!("crowd of 1,000, RTT {rtt} ms, queue {} kB", queue / 1_000);
        if wants(&name) {
            crowd(&name, Crowd::new(1, 1_000, rtt * MS, queue));
        }
    }
}

fn row(name: &str, times: &[Duration]) {
    let ms = |share| quantile(times, share).as_secs_f64() * 1e3;
    println!(
        "{name:44} p50 {:8.1} ms  p90 {:8.1} ms  p99 {:8.1} ms  max {:8.1} ms  of {}",
        ms(0.5),
        ms(0.9),
        ms(0.99),
        ms(1.0),
        times.len(),
    );
}

/// Second by second: two of calm, two in which the server takes a quarter, and what follows.
fn crowd(name: &str, mut crowd: Crowd) {
    println!("{name}: messages taken of those offered, datagrams for each, dropped");
    for second in 0..12 {
        if second == 2 {
            crowd.slow(4);
        } else if second == 4 {
            crowd.slow(1);
        }
        let it = crowd.second();
        println!(
            "  {second:2} s  taken {:5.2}  datagrams {:5.2}  dropped {:4.1} %",
            it.taken,
            it.copies,
            it.dropped * 100.0
        );
    }
}
