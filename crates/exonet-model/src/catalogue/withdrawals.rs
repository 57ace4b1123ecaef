//! Messages that are withdrawn.

use super::{EARLY, TWO, ab};
use crate::config::{Bound, Config, Grants, Memory};

#[expect(clippy::too_many_lines, reason = "a table of configurations")]
pub(super) fn configs(bound: Bound) -> Vec<Config> {
    vec![
        Config {
            name: "withdraw",
            about: "a sender withdraws bound messages; records are evicted and closed",
            messages: ab(2),
            limit: bound.pick(4, 5),
            evictions: [0, 1, 0],
            ends: [0, 1, 0],
            revokes: 2,
            ..TWO
        },
        Config {
            name: "withdraw-linger",
            about: "as withdraw; records go at any time, any part is granted and claimed, and the application judges",
            messages: ab(2),
            limit: bound.pick(3, 4),
            standby: &[0, 1],
            grants: Grants::Any,
            cuts: true,
            marks: bound.pick(1, 2),
            revokes: bound.pick(1, 2),
            ..TWO
        },
        Config {
            name: "withdraw-fragments",
            about: "messages of two fragments are withdrawn, and given up",
            messages: ab(2),
            limit: bound.pick(3, 4),
            parts: 2,
            abandons: bound.pick(0, 1),
            revokes: bound.pick(1, 2),
            ..TWO
        },
        Config {
            name: "withdraw-both",
            about: "both nodes send, and withdraw; one clock serves both roles",
            messages: [[0, 1, 0], [1, 0, 0], [0; 3]],
            limit: bound.pick(3, 4),
            revokes: 2,
            ..TWO
        },
        Config {
            name: "withdraw-crash",
            about: "a sender withdraws, and a receiver without a journal crashes",
            messages: ab(bound.pick(1, 2)),
            limit: bound.pick(4, 3),
            block: 1,
            crashes: [0, 1, 0],
            revokes: bound.pick(1, 2),
            ..TWO
        },
        Config {
            name: "withdraw-journal",
            about: "a sender withdraws; both nodes have journals, and crash; a record may be evicted",
            messages: ab(bound.pick(1, 2)),
            limit: bound.pick(4, 4),
            block: 2,
            memory: Memory::Journal,
            crashes: [1, 1, 0],
            evictions: [0, 1, 0],
            marks: bound.pick(0, 1),
            revokes: bound.pick(1, 2),
            ..TWO
        },
        Config {
            name: "withdraw-early",
            about: "as early; what was sent early is withdrawn once it has a record; a record may be evicted or closed",
            messages: ab(bound.pick(1, 2)),
            limit: bound.pick(3, 3),
            evictions: [0, 1, 0],
            ends: [0, bound.pick(0, 1), 0],
            revokes: bound.pick(1, 2),
            ..EARLY
        },
        Config {
            name: "withdraw-early-journal",
            about: "as withdraw-early; nodes have journals, and crash",
            messages: ab(bound.pick(1, 2)),
            limit: bound.pick(3, 4),
            block: 2,
            memory: Memory::Journal,
            crashes: [1, 1, 0],
            revokes: bound.pick(1, 2),
            ..EARLY
        },
    ]
}
