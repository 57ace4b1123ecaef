//! So much handed over at once to a peer that was never met.

use super::{Cell, Invited, Scenario, Wire, cell, percent};
use crate::app::Work;
use crate::link::Loss;

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

/// A file in chunks, as in the evaluation of the paper on one-to-many communication.
pub(super) fn transfer() -> Scenario {
    const CHUNK: usize = 65_536;
    let cells = [1_u32, 2, 4, 8, 16, 32].map(|megabytes| {
        let work = Work::Cold { messages: megabytes * 16, calls: false };
        let cell = cell(format!("{megabytes} MiB"), Wire::link(100.0, 10, Loss::None), work);
        Cell { bytes: CHUNK, ..cell.ranks(2).takes([0.0, 0.0]) }
    });
    Scenario {
        name: "transfer",
        about: "a file in chunks of 64 KiB, 100 Mbit/s, RTT 10 ms",
        cells: cells.into(),
        invited: Invited::Only(
            &[
                "exonet",
                "exonet-window-1",
                "exonet-window-32",
                "exonet-window-128",
                "tcp-cubic",
                "tcp-bbr",
                "quinn-bbr",
                "sctp",
            ],
            "the scenario compares windows",
        ),
    }
}
