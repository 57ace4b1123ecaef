//! Records that are closed.

use super::{EARLY, TWO, ab};
use crate::config::{Bound, Config, Drop, Grants, Memory};

#[expect(clippy::too_many_lines, reason = "a table of configurations")]
pub(super) fn configs(bound: Bound) -> Vec<Config> {
    vec![
        Config {
            name: "final",
            about: "records are closed, and then the sender cancels",
            messages: ab(bound.pick(2, 3)),
            limit: bound.pick(4, 5),
            ends: [0, 1, 0],
            cancels: 1,
            ..TWO
        },
        Config {
            name: "final-partial",
            about: "as partial, and records are closed",
            messages: ab(2),
            limit: bound.pick(4, 5),
            standby: &[0, 2],
            grants: Grants::Any,
            drop: Drop::Passed,
            ends: [0, bound.pick(1, 2), 0],
            ..TWO
        },
        Config {
            name: "final-cuts",
            about: "records are closed and evicted; a STATE claims any part of what it knows",
            messages: ab(2),
            limit: bound.pick(4, 5),
            evictions: [0, 1, 0],
            ends: [0, 1, 0],
            cuts: true,
            ..TWO
        },
        Config {
            name: "final-three",
            about: "B receives from A and C and sends to A, and closes records",
            nodes: 3,
            messages: [[0, 1, 0], [bound.pick(0, 1), 0, 0], [0, 1, 0]],
            limit: bound.pick(3, 3),
            ends: [0, 2, 0],
            ..TWO
        },
        Config {
            name: "final-crash",
            about: "a receiver without a journal closes a record, and crashes before or after",
            messages: ab(bound.pick(1, 2)),
            limit: bound.pick(4, 3),
            block: 1,
            crashes: [0, 1, 0],
            ends: [0, bound.pick(1, 2), 0],
            ..TWO
        },
        Config {
            name: "final-journal",
            about: "records are closed, and a sender with a journal crashes and cancels",
            messages: ab(bound.pick(1, 2)),
            limit: bound.pick(4, 4),
            block: 2,
            memory: Memory::Journal,
            crashes: [1, 0, 0],
            ends: [0, 1, 0],
            cancels: 1,
            ..TWO
        },
        Config {
            name: "final-journal-receiver",
            about: "records are closed, and a receiver with a journal crashes before or after",
            messages: ab(bound.pick(1, 2)),
            limit: bound.pick(4, 4),
            block: 2,
            memory: Memory::Journal,
            crashes: [0, 1, 0],
            ends: [0, 1, 0],
            ..TWO
        },
        Config {
            name: "early-final",
            about: "as early, and records are closed and evicted; a sender cancels",
            messages: ab(bound.pick(1, 2)),
            limit: bound.pick(3, 3),
            evictions: [0, 1, 0],
            ends: [0, 1, 0],
            cancels: 1,
            ..EARLY
        },
        Config {
            name: "early-final-cuts",
            about: "as early-cuts, and records are closed",
            limit: bound.pick(2, 3),
            early: bound.pick(1, 2),
            evictions: [0, 1, 0],
            ends: [0, 1, 0],
            cuts: true,
            silent: true,
            ..EARLY
        },
        Config {
            name: "early-final-crash",
            about: "as early-stray; records are closed, and a receiver without a journal crashes",
            messages: ab(bound.pick(1, 2)),
            limit: bound.pick(3, 2),
            block: 1,
            crashes: [0, 1, 0],
            ends: [0, 1, 0],
            strays: true,
            ..EARLY
        },
    ]
}
