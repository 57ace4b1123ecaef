//! Messages that the application judges.

use super::{EARLY, TWO, ab};
use crate::config::{Bound, Config, Grants, Memory};

pub(super) fn configs(bound: Bound) -> Vec<Config> {
    vec![
        Config {
            name: "marks",
            about: "the application judges messages; a record may be evicted or closed; a sender gives up",
            messages: ab(2),
            limit: bound.pick(4, 5),
            evictions: [0, bound.pick(0, 1), 0],
            ends: [0, 1, 0],
            abandons: bound.pick(0, 1),
            marks: 2,
            ..TWO
        },
        Config {
            name: "marks-linger",
            about: "the application judges messages; records go at any time, and any part is granted and claimed",
            messages: ab(2),
            limit: bound.pick(3, 4),
            standby: &[0, 1],
            grants: Grants::Any,
            evictions: [0, 1, 0],
            cuts: true,
            marks: bound.pick(1, 2),
            ..TWO
        },
        Config {
            name: "marks-journal",
            about: "the application judges messages; both nodes have journals, and crash",
            messages: ab(bound.pick(1, 2)),
            limit: bound.pick(4, 4),
            block: 2,
            memory: Memory::Journal,
            crashes: [1, 1, 0],
            marks: bound.pick(1, 2),
            ..TWO
        },
        Config {
            name: "marks-early",
            about: "the application judges messages, some of which came early; a receiver without a journal crashes",
            messages: ab(bound.pick(1, 2)),
            limit: bound.pick(3, 2),
            block: 1,
            crashes: [0, 1, 0],
            marks: bound.pick(1, 2),
            ..EARLY
        },
        Config {
            name: "marks-killed",
            about: "as marks-early, but only the process dies",
            messages: ab(bound.pick(1, 2)),
            limit: bound.pick(3, 2),
            block: 1,
            memory: Memory::Notes,
            crashes: [0, 1, 0],
            marks: bound.pick(1, 2),
            ..EARLY
        },
    ]
}
