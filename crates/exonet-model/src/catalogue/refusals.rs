//! Openings that are refused.

use super::{EARLY, ab};
use crate::config::{Bound, Config, Memory};

pub(super) fn configs(bound: Bound) -> Vec<Config> {
    vec![
        Config {
            name: "refuse",
            about: "as early; an opening is refused, or is not, each time that it comes; a record may be evicted",
            limit: bound.pick(3, 4),
            early: bound.pick(1, 2),
            evictions: [0, bound.pick(0, 1), 0],
            refuses: true,
            ..EARLY
        },
        Config {
            name: "refuse-crash",
            about: "as refuse, and a receiver without a journal crashes",
            messages: ab(bound.pick(1, 2)),
            limit: bound.pick(3, 2),
            block: 1,
            crashes: [0, 1, 0],
            strays: true,
            refuses: true,
            ..EARLY
        },
        Config {
            name: "refuse-crash-sender",
            about: "as refuse, and a sender without a journal crashes",
            messages: ab(2),
            limit: bound.pick(2, 3),
            early: 1,
            block: 1,
            crashes: [1, 0, 0],
            refuses: true,
            ..EARLY
        },
        Config {
            name: "refuse-journal",
            about: "as refuse; nodes have journals, and crash; a sender cancels",
            messages: ab(bound.pick(1, 2)),
            limit: bound.pick(4, 4),
            block: 2,
            memory: Memory::Journal,
            crashes: [1, 1, 0],
            refuses: true,
            ..EARLY
        },
        Config {
            name: "refuse-final",
            about: "as refuse, and records are closed and evicted; a STATE claims any part",
            messages: ab(bound.pick(1, 2)),
            limit: bound.pick(3, 3),
            evictions: [0, 1, 0],
            ends: [0, 1, 0],
            cuts: true,
            silent: true,
            refuses: true,
            ..EARLY
        },
    ]
}
