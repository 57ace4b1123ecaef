//! All configurations that are searched, by subject.

mod calls;
mod crashes;
mod early;
mod finals;
mod marks;
mod plain;
mod refusals;
mod withdrawals;

use crate::config::{Bound, Calls, Config, Drop, Grants, Memory};

const TWO: Config = Config {
    name: "two",
    about: "one node sends to another",
    nodes: 2,
    messages: [[0, 2, 0], [0; 3], [0; 3]],
    limit: 4,
    block: 0,
    standby: &[0],
    grants: Grants::Full,
    memory: Memory::Volatile,
    drop: Drop::Drained,
    crashes: [0; 3],
    evictions: [0; 3],
    ends: [0; 3],
    abandons: 0,
    cancels: 0,
    marks: 0,
    revokes: 0,
    parts: 1,
    cuts: false,
    stamps: 0,
    early: 2,
    strays: false,
    full: false,
    silent: false,
    refuses: false,
    outsiders: false,
    calls: Calls::None,
    expires: false,
    kept: 8,
    room: 10_000,
};

/// One node sends early to another.
const EARLY: Config =
    Config { name: "early", about: "the first messages leave early", limit: 3, stamps: 2, ..TWO };

/// One node calls another.
const CALLS: Config =
    Config { name: "calls", about: "one node calls another", limit: 3, calls: Calls::Frames, ..TWO };

/// This many messages from A to B, and no others.
const fn ab(n: u8) -> [[u8; 3]; 3] {
    [[0, n, 0], [0; 3], [0; 3]]
}

/// The configuration of that name.
pub fn find(name: &str, bound: Bound) -> Option<Config> {
    configs(bound).into_iter().find(|config| config.name == name)
}

/// All configurations.
pub fn configs(bound: Bound) -> Vec<Config> {
    let subjects = [
        plain::configs,
        crashes::configs,
        early::configs,
        finals::configs,
        marks::configs,
        withdrawals::configs,
        refusals::configs,
        calls::configs,
    ];
    subjects.iter().flat_map(|configs| configs(bound)).collect()
}
