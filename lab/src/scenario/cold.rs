//! So much handed over at once to a peer that was never met.

use super::{Cell, Invited, Scenario, Wire, cell, percent};
use crate::app::Work;

/// 400 KB, 4 MB and 400 calls.
const LOADS: [(&str, u32, bool); 3] =
    [("400 messages", 400, false), ("4,000 messages", 4_000, false), ("400 calls", 400, true)];

pub(super) fn cold_start() -> Scenario {
    let mut cells: Vec<Cell> = Vec::new();
    for rtt in [10, 200] {
        for loss in [0, 5, 20] {
            for (load, messages, calls) in LOADS {
                let name = format!("{load}, {rtt} ms, {loss} %");
                let rank = match (rtt, loss, messages) {
                    (10, 0, _) | (200, 20, 400) => 0,
                    (200, 0, 400) => 1,
                    (10, 5, _) | (200, ..) => 2,
                    _ => 3,
                };
                let wire = Wire::link(100.0, rtt, percent(loss));
                cells.push(cell(name, wire, Work::Cold { messages, calls }).ranks(rank).takes([0.0, 0.0]));
            }
        }
    }
    Scenario {
        name: "cold-start",
        about: "so much handed over at once to a peer that was never met, 100 Mbit/s, loss each way",
        cells,
        invited: Invited::Principal,
    }
}
