//! Crashes, with journals and without.

use super::{TWO, ab};
use crate::config::{Bound, Config, Memory};

pub(super) fn configs(bound: Bound) -> Vec<Config> {
    vec![
        Config {
            name: "crash-receiver",
            about: "a receiver without a journal crashes; its numbers are reserved one by one",
            messages: ab(2),
            // A second crash and a fourth number together are too much.
            limit: bound.pick(4, 3),
            block: 1,
            crashes: [0, bound.pick(1, 2), 0],
            ..TWO
        },
        Config {
            name: "crash-sender",
            about: "a sender without a journal crashes; its numbers are reserved two by two",
            messages: ab(bound.pick(2, 3)),
            limit: bound.pick(4, 5),
            block: 2,
            standby: &[0, 1],
            crashes: [bound.pick(1, 2), 0, 0],
            ..TWO
        },
        Config {
            name: "crash-both",
            about: "both nodes send, both crash, neither has a journal",
            messages: [[0, 1, 0], [bound.pick(0, 1), 0, 0], [0; 3]],
            limit: bound.pick(4, 3),
            block: 1,
            crashes: [1, 1, 0],
            ..TWO
        },
        Config {
            name: "journal",
            about: "both nodes have journals, and crash",
            messages: ab(2),
            limit: bound.pick(4, 6),
            block: 2,
            memory: Memory::Journal,
            crashes: [1, 1, 0],
            ..TWO
        },
        Config {
            name: "journal-evict",
            about: "nodes with journals crash, evict, give up and cancel",
            messages: ab(bound.pick(1, 2)),
            limit: bound.pick(4, 3),
            block: 2,
            memory: Memory::Journal,
            crashes: [1, 1, 0],
            evictions: [0, 1, 0],
            abandons: 1,
            cancels: 1,
            ..TWO
        },
    ]
}
