//! Messages from one node to another, and among three.

use super::{TWO, ab};
use crate::config::{Bound, Config, Drop, Grants};

#[expect(clippy::too_many_lines, reason = "a table of configurations")]
pub(super) fn configs(bound: Bound) -> Vec<Config> {
    vec![
        Config { messages: ab(bound.pick(3, 4)), limit: bound.pick(5, 7), ..TWO },
        Config {
            name: "standby",
            about: "the number of envelopes on standby varies",
            messages: ab(bound.pick(2, 3)),
            limit: bound.pick(4, 5),
            standby: &[0, 1, 2],
            ..TWO
        },
        Config {
            name: "partial",
            about: "any part of what is asked for is granted; a record goes only when it is passed",
            messages: ab(bound.pick(2, 3)),
            limit: bound.pick(4, 5),
            standby: &[0, 2],
            grants: Grants::Any,
            drop: Drop::Passed,
            ..TWO
        },
        Config {
            name: "linger",
            about: "as partial, but a drained record goes at any time",
            messages: ab(bound.pick(2, 3)),
            limit: bound.pick(4, 5),
            standby: &[0, 2],
            grants: Grants::Any,
            ..TWO
        },
        Config {
            name: "both",
            about: "both nodes send: one clock serves both roles",
            messages: [[0, 1, 0], [2, 0, 0], [0; 3]],
            limit: bound.pick(4, 5),
            ..TWO
        },
        Config {
            name: "three",
            about: "B receives from A and C and sends to A, with one clock",
            nodes: 3,
            messages: [[0, 1, 0], [bound.pick(0, 1), 0, 0], [0, bound.pick(1, 1), 0]],
            limit: bound.pick(3, 3),
            ..TWO
        },
        Config {
            name: "cuts",
            about: "a STATE claims any part of what it knows; a record may be evicted",
            messages: ab(bound.pick(2, 3)),
            limit: bound.pick(4, 5),
            evictions: [0, 1, 0],
            cuts: true,
            ..TWO
        },
        Config {
            name: "fragments",
            about: "messages of two fragments, forgotten at any time; a record may be evicted",
            messages: ab(bound.pick(2, 2)),
            limit: bound.pick(3, 5),
            evictions: [0, 1, 0],
            parts: 2,
            ..TWO
        },
        Config {
            name: "evict",
            about: "records are evicted",
            messages: ab(2),
            limit: bound.pick(4, 5),
            standby: &[0, 1],
            evictions: [0, 1, 0],
            ..TWO
        },
        Config {
            name: "evict-three",
            about: "B receives from A and C, and evicts records of either",
            nodes: 3,
            messages: [[0, 1, 0], [0; 3], [0, 1, 0]],
            limit: bound.pick(3, 4),
            evictions: [0, 2, 0],
            ..TWO
        },
        Config {
            name: "abandon",
            about: "messages are given up, and cancelled",
            messages: ab(bound.pick(2, 3)),
            limit: bound.pick(4, 5),
            standby: &[0, 1],
            abandons: 1,
            cancels: 1,
            ..TWO
        },
    ]
}
