//! Calls, and calls that are answered with messages.

use super::{CALLS, ab};
use crate::config::{Bound, Calls, Config};

#[expect(clippy::too_many_lines, reason = "a table of configurations")]
pub(super) fn configs(bound: Bound) -> Vec<Config> {
    vec![
        Config { limit: bound.pick(3, 4), ..CALLS },
        Config {
            name: "calls-final",
            about: "as calls, and records are closed",
            ends: [0, bound.pick(1, 2), 0],
            ..CALLS
        },
        Config {
            name: "calls-both",
            about: "both nodes call each other",
            messages: [[0, 1, 0], [1, 0, 0], [0; 3]],
            limit: bound.pick(2, 3),
            ..CALLS
        },
        Config {
            name: "calls-three",
            about: "A and C call B, where there is room for one reply",
            nodes: 3,
            messages: [[0, 1, 0], [0; 3], [0, 1, 0]],
            limit: bound.pick(2, 3),
            room: 160,
            ..CALLS
        },
        Config {
            name: "calls-expire",
            about: "as calls; one reply is kept, and not for ever; calls are given up and cancelled",
            limit: bound.pick(3, 4),
            kept: 1,
            expires: true,
            abandons: 1,
            cancels: 1,
            ..CALLS
        },
        Config {
            name: "calls-evict",
            about: "as calls, and records are evicted",
            evictions: [0, bound.pick(1, 2), 0],
            ..CALLS
        },
        Config {
            name: "calls-crash-server",
            about: "as calls, and the server crashes",
            messages: ab(bound.pick(1, 2)),
            // As with messages: not both a second call and a third number.
            limit: bound.pick(3, 2),
            block: 1,
            crashes: [0, 1, 0],
            ..CALLS
        },
        Config {
            name: "calls-crash-caller",
            about: "as calls, and the caller crashes",
            messages: ab(bound.pick(1, 2)),
            block: 1,
            crashes: [1, 0, 0],
            ..CALLS
        },
        Config {
            name: "calls-early",
            about: "as calls, and they leave early; a record may be evicted",
            messages: ab(1),
            stamps: 2,
            evictions: [0, 1, 0],
            ..CALLS
        },
        Config {
            name: "replies",
            about: "calls are answered with messages; either record may be evicted, replies are not kept for ever",
            messages: [[0, 1, 0], [2, 0, 0], [0; 3]],
            calls: Calls::Messages,
            evictions: [1, bound.pick(0, 1), 0],
            expires: true,
            ..CALLS
        },
        Config {
            name: "replies-crash-caller",
            about: "calls are answered with messages, and the caller crashes",
            messages: [[0, 1, 0], [2, 0, 0], [0; 3]],
            limit: bound.pick(3, 4),
            calls: Calls::Messages,
            block: 1,
            crashes: [1, 0, 0],
            ..CALLS
        },
    ]
}
