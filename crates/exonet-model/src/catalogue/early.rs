//! Messages that leave early.

use super::{EARLY, ab};
use crate::config::{Bound, Config, Drop, Grants, Memory};

#[expect(clippy::too_many_lines, reason = "a table of configurations")]
pub(super) fn configs(bound: Bound) -> Vec<Config> {
    vec![
        Config { messages: ab(bound.pick(2, 3)), limit: bound.pick(3, 4), ..EARLY },
        Config {
            name: "early-standby",
            about: "as early, with envelopes on standby, and messages given up",
            messages: ab(bound.pick(1, 2)),
            standby: &[0, 1],
            abandons: 1,
            ..EARLY
        },
        Config {
            name: "early-partial",
            about: "as early, and any part of what is asked for is granted",
            limit: bound.pick(2, 3),
            standby: &[0, 1],
            grants: Grants::Any,
            drop: Drop::Passed,
            ..EARLY
        },
        Config {
            name: "early-cuts",
            about: "as early; a STATE claims any part, or is silent about stamps; a record may be evicted",
            limit: bound.pick(2, 3),
            evictions: [0, 1, 0],
            cuts: true,
            silent: true,
            ..EARLY
        },
        Config {
            name: "early-evict",
            about: "as early, and records are evicted",
            limit: bound.pick(2, 3),
            evictions: [0, bound.pick(1, 2), 0],
            ..EARLY
        },
        Config {
            name: "early-strangers",
            about: "as early-evict, and of strangers as well; what is lost may have no place",
            messages: ab(bound.pick(1, 2)),
            limit: bound.pick(3, 2),
            evictions: [0, 2, 0],
            outsiders: true,
            full: true,
            ..EARLY
        },
        Config {
            name: "early-killed",
            about: "as early-stray, and the process of a receiver without a journal dies",
            messages: ab(bound.pick(1, 2)),
            limit: bound.pick(3, 3),
            block: 1,
            memory: Memory::Notes,
            crashes: [0, 1, 0],
            evictions: [0, bound.pick(1, 0), 0],
            strays: true,
            ..EARLY
        },
        Config {
            name: "early-lives",
            about: "as early-evict; the sender without a journal crashes, and opens again under any stamp",
            messages: ab(2),
            limit: bound.pick(2, 3),
            early: 1,
            block: 1,
            crashes: [1, 0, 0],
            evictions: [0, bound.pick(1, 2), 0],
            ..EARLY
        },
        Config {
            name: "early-stray",
            about: "as early; a stamp that is ahead may go the slow way; a record may be evicted",
            limit: bound.pick(2, 3),
            evictions: [0, 1, 0],
            strays: true,
            ..EARLY
        },
        Config {
            name: "early-overtake",
            about: "a stamp that is ahead goes the slow way; then latest rises above it",
            limit: 2,
            stamps: 3,
            early: bound.pick(1, 2),
            strays: true,
            ..EARLY
        },
        Config {
            name: "early-crash",
            about: "as early-stray, and a receiver without a journal crashes",
            messages: ab(bound.pick(1, 2)),
            block: 1,
            crashes: [0, 1, 0],
            evictions: [0, bound.pick(1, 0), 0],
            strays: true,
            ..EARLY
        },
        Config {
            name: "early-crash-sender",
            about: "as early, and a sender without a journal crashes",
            messages: ab(bound.pick(1, 2)),
            limit: bound.pick(3, 2),
            block: 1,
            crashes: [1, 0, 0],
            ..EARLY
        },
        Config {
            name: "early-journal",
            about: "as early-stray, and a receiver with a journal crashes",
            messages: ab(bound.pick(1, 2)),
            limit: bound.pick(4, 4),
            block: 2,
            memory: Memory::Journal,
            crashes: [0, 1, 0],
            evictions: [0, bound.pick(1, 0), 0],
            strays: true,
            ..EARLY
        },
        Config {
            name: "early-journal-sender",
            about: "as early, and a sender with a journal crashes and gives up",
            limit: bound.pick(3, 4),
            block: 2,
            memory: Memory::Journal,
            crashes: [1, 0, 0],
            abandons: bound.pick(0, 1),
            ..EARLY
        },
    ]
}
