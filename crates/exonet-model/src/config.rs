//! The configurations: which nodes, which faults, how much of each.

use crate::ledger::Letter;

/// How many slots a node is willing to grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grants {
    /// All that are asked for.
    Full,
    /// Any number from none to all.
    Any,
}

/// What survives a crash beside `D`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Nothing.
    Volatile,
    /// What was noted of early messages: only the process dies.
    Notes,
    /// Everything, once written.
    Journal,
}

/// When a drained record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// At any time: a linger of any length.
    Drained,
    /// Once the sender has passed it, and never for having lingered.
    Passed,
}

/// Numbers of a node at most.
pub(crate) const MAX_NUMBERS: u64 = 60;

/// Which messages are calls, and how they are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// None.
    None,
    /// All are, and a reply is a frame.
    Frames,
    /// Those of the first node are, and a reply is a message: those of the second, the same number for each call.
    Messages,
}

/// How much of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// All configurations within a minute.
    Quick,
    /// Within some minutes, and some gigabytes.
    Deep,
}

/// A world to search.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name.
    pub name: &'static str,
    /// What is in it.
    pub about: &'static str,
    /// How many nodes: 2 or 3.
    pub nodes: usize,
    /// `messages[i][j]` go from node `i` to node `j`.
    pub messages: [[u8; 3]; 3],
    /// The numbers of each node end here, so that the space is finite; at rest there are more.
    pub limit: u64,
    /// The block in which they are reserved; 0: all at once, and no disk is seen.
    pub block: u64,
    /// The values of `N` that a sender may ask with.
    pub standby: &'static [u8],
    /// What receivers grant.
    pub grants: Grants,
    /// What survives.
    pub memory: Memory,
    /// When drained records go.
    pub drop: Drop,
    /// Crashes of each node.
    pub crashes: [u8; 3],
    /// Evictions at each node.
    pub evictions: [u8; 3],
    /// Records closed at each node.
    pub ends: [u8; 3],
    /// Messages given up, in all.
    pub abandons: u8,
    /// Messages cancelled, in all.
    pub cancels: u8,
    /// Messages that the application judges instead of taking them, in all.
    pub marks: u8,
    /// Bound messages that their sender withdraws, in all.
    pub revokes: u8,
    /// Fragments of each message: 1 or 2.
    pub parts: u8,
    /// Whether a STATE may claim any part of what it knows.
    pub cuts: bool,
    /// Stamps are 1 to this, and `latest` is 1 at first. 0: no message leaves early.
    pub stamps: u8,
    /// Messages of an opening.
    pub early: u8,
    /// Whether a sender with a stamp above `latest` may be let in as a stray.
    pub strays: bool,
    /// Whether what lost records took early may have no place.
    pub full: bool,
    /// Whether a STATE may be silent about stamps.
    pub silent: bool,
    /// Whether nodes refuse openings that bear a stamp, at times.
    pub refuses: bool,
    /// Whether bounds of senders outside this world are forgotten, and records of them evicted.
    pub outsiders: bool,
    /// Which messages are calls.
    pub calls: Calls,
    /// Whether replies are kept for a while only.
    pub expires: bool,
    /// Replies that are kept for one peer.
    pub kept: usize,
    /// Bytes that all replies of a node may take. Here a reply takes 160.
    pub room: u64,
}

impl Config {
    /// Every message: its place, from where, to where.
    pub fn letters(&self) -> impl Iterator<Item = (Letter, usize, usize)> + '_ {
        let pairs = (0..self.nodes).flat_map(|i| (0..self.nodes).map(move |j| (i, j)));
        let flows = pairs.flat_map(|(i, j)| (0..self.messages[i][j]).map(move |_| (i, j)));
        (0..).zip(flows).map(|(letter, (i, j))| (letter, i, j))
    }

    /// Whether the messages of a flow are calls.
    pub(crate) fn calls(&self, from: usize, to: usize) -> bool {
        self.calls == Calls::Frames || self.calls == Calls::Messages && from < to
    }

    /// Whether the messages of a flow are replies.
    pub(crate) fn replies(&self, from: usize, to: usize) -> bool {
        self.calls == Calls::Messages && from > to
    }

    /// The call that a message is the reply to.
    pub(crate) fn answered_by(&self, reply: Letter) -> Option<Letter> {
        let (calls, replies) = (self.messages[0][1], self.messages[1][0]);
        let place = reply.checked_sub(calls).filter(|_| self.calls == Calls::Messages)?;
        Some(place / (replies / calls))
    }

    /// The block of `D`, as a clock wants it.
    pub(crate) fn block(&self) -> u64 {
        self.block.max(1)
    }
}

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

/// The configuration of that name.
pub fn find(name: &str, bound: Bound) -> Option<Config> {
    configs(bound).into_iter().find(|config| config.name == name)
}

/// All configurations.
pub fn configs(bound: Bound) -> Vec<Config> {
    let deep = bound == Bound::Deep;
    let pick = |quick: u8, more: u8| if deep { more } else { quick };
    let limit = |quick: u64, more: u64| if deep { more } else { quick };
    let ab = |n: u8| [[0, n, 0], [0; 3], [0; 3]];
    vec![
        Config { messages: ab(pick(3, 4)), limit: limit(5, 7), ..TWO },
        Config {
            name: "standby",
            about: "the number of envelopes on standby varies",
            messages: ab(pick(2, 3)),
            limit: limit(4, 5),
            standby: &[0, 1, 2],
            ..TWO
        },
        Config {
            name: "partial",
            about: "any part of what is asked for is granted; a record goes only when it is passed",
            messages: ab(pick(2, 3)),
            limit: limit(4, 5),
            standby: &[0, 2],
            grants: Grants::Any,
            drop: Drop::Passed,
            ..TWO
        },
        Config {
            name: "linger",
            about: "as partial, but a drained record goes at any time",
            messages: ab(pick(2, 3)),
            limit: limit(4, 5),
            standby: &[0, 2],
            grants: Grants::Any,
            ..TWO
        },
        Config {
            name: "both",
            about: "both nodes send: one clock serves both roles",
            messages: [[0, 1, 0], [2, 0, 0], [0; 3]],
            limit: limit(4, 5),
            ..TWO
        },
        Config {
            name: "three",
            about: "B receives from A and C and sends to A, with one clock",
            nodes: 3,
            messages: [[0, 1, 0], [pick(0, 1), 0, 0], [0, pick(1, 1), 0]],
            limit: limit(3, 3),
            ..TWO
        },
        Config {
            name: "cuts",
            about: "a STATE claims any part of what it knows; a record may be evicted",
            messages: ab(pick(2, 3)),
            limit: limit(4, 5),
            evictions: [0, 1, 0],
            cuts: true,
            ..TWO
        },
        Config {
            name: "fragments",
            about: "messages of two fragments, forgotten at any time; a record may be evicted",
            messages: ab(pick(2, 2)),
            limit: limit(3, 5),
            evictions: [0, 1, 0],
            parts: 2,
            ..TWO
        },
        Config {
            name: "evict",
            about: "records are evicted",
            messages: ab(2),
            limit: limit(4, 5),
            standby: &[0, 1],
            evictions: [0, 1, 0],
            ..TWO
        },
        Config {
            name: "evict-three",
            about: "B receives from A and C, and evicts records of either",
            nodes: 3,
            messages: [[0, 1, 0], [0; 3], [0, 1, 0]],
            limit: limit(3, 4),
            evictions: [0, 2, 0],
            ..TWO
        },
        Config {
            name: "abandon",
            about: "messages are given up, and cancelled",
            messages: ab(pick(2, 3)),
            limit: limit(4, 5),
            standby: &[0, 1],
            abandons: 1,
            cancels: 1,
            ..TWO
        },
        Config {
            name: "crash-receiver",
            about: "a receiver without a journal crashes; its numbers are reserved one by one",
            messages: ab(2),
            // A second crash and a fourth number together are too much.
            limit: limit(4, 3),
            block: 1,
            crashes: [0, pick(1, 2), 0],
            ..TWO
        },
        Config {
            name: "crash-sender",
            about: "a sender without a journal crashes; its numbers are reserved two by two",
            messages: ab(pick(2, 3)),
            limit: limit(4, 5),
            block: 2,
            standby: &[0, 1],
            crashes: [pick(1, 2), 0, 0],
            ..TWO
        },
        Config {
            name: "crash-both",
            about: "both nodes send, both crash, neither has a journal",
            messages: [[0, 1, 0], [pick(0, 1), 0, 0], [0; 3]],
            limit: limit(4, 3),
            block: 1,
            crashes: [1, 1, 0],
            ..TWO
        },
        Config {
            name: "journal",
            about: "both nodes have journals, and crash",
            messages: ab(2),
            limit: limit(4, 6),
            block: 2,
            memory: Memory::Journal,
            crashes: [1, 1, 0],
            ..TWO
        },
        Config {
            name: "journal-evict",
            about: "nodes with journals crash, evict, give up and cancel",
            messages: ab(pick(1, 2)),
            limit: limit(4, 3),
            block: 2,
            memory: Memory::Journal,
            crashes: [1, 1, 0],
            evictions: [0, 1, 0],
            abandons: 1,
            cancels: 1,
            ..TWO
        },
        Config { messages: ab(pick(2, 3)), limit: limit(3, 4), ..EARLY },
        Config {
            name: "early-standby",
            about: "as early, with envelopes on standby, and messages given up",
            messages: ab(pick(1, 2)),
            standby: &[0, 1],
            abandons: 1,
            ..EARLY
        },
        Config {
            name: "early-partial",
            about: "as early, and any part of what is asked for is granted",
            limit: limit(2, 3),
            standby: &[0, 1],
            grants: Grants::Any,
            drop: Drop::Passed,
            ..EARLY
        },
        Config {
            name: "early-cuts",
            about: "as early; a STATE claims any part, or is silent about stamps; a record may be evicted",
            limit: limit(2, 3),
            evictions: [0, 1, 0],
            cuts: true,
            silent: true,
            ..EARLY
        },
        Config {
            name: "early-evict",
            about: "as early, and records are evicted",
            limit: limit(2, 3),
            evictions: [0, pick(1, 2), 0],
            ..EARLY
        },
        Config {
            name: "early-strangers",
            about: "as early-evict, and of strangers as well; what is lost may have no place",
            messages: ab(pick(1, 2)),
            limit: limit(3, 2),
            evictions: [0, 2, 0],
            outsiders: true,
            full: true,
            ..EARLY
        },
        Config {
            name: "early-killed",
            about: "as early-stray, and the process of a receiver without a journal dies",
            messages: ab(pick(1, 2)),
            limit: limit(3, 3),
            block: 1,
            memory: Memory::Notes,
            crashes: [0, 1, 0],
            evictions: [0, pick(1, 0), 0],
            strays: true,
            ..EARLY
        },
        Config {
            name: "early-lives",
            about: "as early-evict; the sender without a journal crashes, and opens again under any stamp",
            messages: ab(2),
            limit: limit(2, 3),
            early: 1,
            block: 1,
            crashes: [1, 0, 0],
            evictions: [0, pick(1, 2), 0],
            ..EARLY
        },
        Config {
            name: "early-stray",
            about: "as early; a stamp that is ahead may go the slow way; a record may be evicted",
            limit: limit(2, 3),
            evictions: [0, 1, 0],
            strays: true,
            ..EARLY
        },
        Config {
            name: "early-overtake",
            about: "a stamp that is ahead goes the slow way; then latest rises above it",
            limit: 2,
            stamps: 3,
            early: pick(1, 2),
            strays: true,
            ..EARLY
        },
        Config {
            name: "early-crash",
            about: "as early-stray, and a receiver without a journal crashes",
            messages: ab(pick(1, 2)),
            block: 1,
            crashes: [0, 1, 0],
            evictions: [0, pick(1, 0), 0],
            strays: true,
            ..EARLY
        },
        Config {
            name: "early-crash-sender",
            about: "as early, and a sender without a journal crashes",
            messages: ab(pick(1, 2)),
            limit: limit(3, 2),
            block: 1,
            crashes: [1, 0, 0],
            ..EARLY
        },
        Config {
            name: "early-journal",
            about: "as early-stray, and a receiver with a journal crashes",
            messages: ab(pick(1, 2)),
            limit: limit(4, 4),
            block: 2,
            memory: Memory::Journal,
            crashes: [0, 1, 0],
            evictions: [0, pick(1, 0), 0],
            strays: true,
            ..EARLY
        },
        Config {
            name: "early-journal-sender",
            about: "as early, and a sender with a journal crashes and gives up",
            limit: limit(3, 4),
            block: 2,
            memory: Memory::Journal,
            crashes: [1, 0, 0],
            abandons: pick(0, 1),
            ..EARLY
        },
        Config {
            name: "final",
            about: "records are closed, and then the sender cancels",
            messages: ab(pick(2, 3)),
            limit: limit(4, 5),
            ends: [0, 1, 0],
            cancels: 1,
            ..TWO
        },
        Config {
            name: "final-partial",
            about: "as partial, and records are closed",
            messages: ab(2),
            limit: limit(4, 5),
            standby: &[0, 2],
            grants: Grants::Any,
            drop: Drop::Passed,
            ends: [0, pick(1, 2), 0],
            ..TWO
        },
        Config {
            name: "final-cuts",
            about: "records are closed and evicted; a STATE claims any part of what it knows",
            messages: ab(2),
            limit: limit(4, 5),
            evictions: [0, 1, 0],
            ends: [0, 1, 0],
            cuts: true,
            ..TWO
        },
        Config {
            name: "final-three",
            about: "B receives from A and C and sends to A, and closes records",
            nodes: 3,
            messages: [[0, 1, 0], [pick(0, 1), 0, 0], [0, 1, 0]],
            limit: limit(3, 3),
            ends: [0, 2, 0],
            ..TWO
        },
        Config {
            name: "final-crash",
            about: "a receiver without a journal closes a record, and crashes before or after",
            messages: ab(pick(1, 2)),
            limit: limit(4, 3),
            block: 1,
            crashes: [0, 1, 0],
            ends: [0, pick(1, 2), 0],
            ..TWO
        },
        Config {
            name: "final-journal",
            about: "records are closed, and a sender with a journal crashes and cancels",
            messages: ab(pick(1, 2)),
            limit: limit(4, 4),
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
            messages: ab(pick(1, 2)),
            limit: limit(4, 4),
            block: 2,
            memory: Memory::Journal,
            crashes: [0, 1, 0],
            ends: [0, 1, 0],
            ..TWO
        },
        Config {
            name: "early-final",
            about: "as early, and records are closed and evicted; a sender cancels",
            messages: ab(pick(1, 2)),
            limit: limit(3, 3),
            evictions: [0, 1, 0],
            ends: [0, 1, 0],
            cancels: 1,
            ..EARLY
        },
        Config {
            name: "early-final-cuts",
            about: "as early-cuts, and records are closed",
            limit: limit(2, 3),
            early: pick(1, 2),
            evictions: [0, 1, 0],
            ends: [0, 1, 0],
            cuts: true,
            silent: true,
            ..EARLY
        },
        Config {
            name: "early-final-crash",
            about: "as early-stray; records are closed, and a receiver without a journal crashes",
            messages: ab(pick(1, 2)),
            limit: limit(3, 2),
            block: 1,
            crashes: [0, 1, 0],
            ends: [0, 1, 0],
            strays: true,
            ..EARLY
        },
        Config {
            name: "marks",
            about: "the application judges messages; a record may be evicted or closed; a sender gives up",
            messages: ab(2),
            limit: limit(4, 5),
            evictions: [0, pick(0, 1), 0],
            ends: [0, 1, 0],
            abandons: pick(0, 1),
            marks: 2,
            ..TWO
        },
        Config {
            name: "marks-linger",
            about: "the application judges messages; records go at any time, and any part is granted and claimed",
            messages: ab(2),
            limit: limit(3, 4),
            standby: &[0, 1],
            grants: Grants::Any,
            evictions: [0, 1, 0],
            cuts: true,
            marks: pick(1, 2),
            ..TWO
        },
        Config {
            name: "marks-journal",
            about: "the application judges messages; both nodes have journals, and crash",
            messages: ab(pick(1, 2)),
            limit: limit(4, 4),
            block: 2,
            memory: Memory::Journal,
            crashes: [1, 1, 0],
            marks: pick(1, 2),
            ..TWO
        },
        Config {
            name: "marks-early",
            about: "the application judges messages, some of which came early; a receiver without a journal crashes",
            messages: ab(pick(1, 2)),
            limit: limit(3, 2),
            block: 1,
            crashes: [0, 1, 0],
            marks: pick(1, 2),
            ..EARLY
        },
        Config {
            name: "marks-killed",
            about: "as marks-early, but only the process dies",
            messages: ab(pick(1, 2)),
            limit: limit(3, 2),
            block: 1,
            memory: Memory::Notes,
            crashes: [0, 1, 0],
            marks: pick(1, 2),
            ..EARLY
        },
        Config {
            name: "withdraw",
            about: "a sender withdraws bound messages; records are evicted and closed",
            messages: ab(2),
            limit: limit(4, 5),
            evictions: [0, 1, 0],
            ends: [0, 1, 0],
            revokes: 2,
            ..TWO
        },
        Config {
            name: "withdraw-linger",
            about: "as withdraw; records go at any time, any part is granted and claimed, and the application judges",
            messages: ab(2),
            limit: limit(3, 4),
            standby: &[0, 1],
            grants: Grants::Any,
            cuts: true,
            marks: pick(1, 2),
            revokes: pick(1, 2),
            ..TWO
        },
        Config {
            name: "withdraw-fragments",
            about: "messages of two fragments are withdrawn, and given up",
            messages: ab(2),
            limit: limit(3, 4),
            parts: 2,
            abandons: pick(0, 1),
            revokes: pick(1, 2),
            ..TWO
        },
        Config {
            name: "withdraw-both",
            about: "both nodes send, and withdraw; one clock serves both roles",
            messages: [[0, 1, 0], [1, 0, 0], [0; 3]],
            limit: limit(3, 4),
            revokes: 2,
            ..TWO
        },
        Config {
            name: "withdraw-crash",
            about: "a sender withdraws, and a receiver without a journal crashes",
            messages: ab(pick(1, 2)),
            limit: limit(4, 3),
            block: 1,
            crashes: [0, 1, 0],
            revokes: pick(1, 2),
            ..TWO
        },
        Config {
            name: "withdraw-journal",
            about: "a sender withdraws; both nodes have journals, and crash; a record may be evicted",
            messages: ab(pick(1, 2)),
            limit: limit(4, 4),
            block: 2,
            memory: Memory::Journal,
            crashes: [1, 1, 0],
            evictions: [0, 1, 0],
            marks: pick(0, 1),
            revokes: pick(1, 2),
            ..TWO
        },
        Config {
            name: "withdraw-early",
            about: "as early; what was sent early is withdrawn once it has a record; a record may be evicted or closed",
            messages: ab(pick(1, 2)),
            limit: limit(3, 3),
            evictions: [0, 1, 0],
            ends: [0, pick(0, 1), 0],
            revokes: pick(1, 2),
            ..EARLY
        },
        Config {
            name: "withdraw-early-journal",
            about: "as withdraw-early; nodes have journals, and crash",
            messages: ab(pick(1, 2)),
            limit: limit(3, 4),
            block: 2,
            memory: Memory::Journal,
            crashes: [1, 1, 0],
            revokes: pick(1, 2),
            ..EARLY
        },
        Config {
            name: "refuse",
            about: "as early; an opening is refused, or is not, each time that it comes; a record may be evicted",
            limit: limit(3, 4),
            early: pick(1, 2),
            evictions: [0, pick(0, 1), 0],
            refuses: true,
            ..EARLY
        },
        Config {
            name: "refuse-crash",
            about: "as refuse, and a receiver without a journal crashes",
            messages: ab(pick(1, 2)),
            limit: limit(3, 2),
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
            limit: limit(2, 3),
            early: 1,
            block: 1,
            crashes: [1, 0, 0],
            refuses: true,
            ..EARLY
        },
        Config {
            name: "refuse-journal",
            about: "as refuse; nodes have journals, and crash; a sender cancels",
            messages: ab(pick(1, 2)),
            limit: limit(4, 4),
            block: 2,
            memory: Memory::Journal,
            crashes: [1, 1, 0],
            refuses: true,
            ..EARLY
        },
        Config {
            name: "refuse-final",
            about: "as refuse, and records are closed and evicted; a STATE claims any part",
            messages: ab(pick(1, 2)),
            limit: limit(3, 3),
            evictions: [0, 1, 0],
            ends: [0, 1, 0],
            cuts: true,
            silent: true,
            refuses: true,
            ..EARLY
        },
        Config { limit: limit(3, 4), ..CALLS },
        Config {
            name: "calls-final",
            about: "as calls, and records are closed",
            ends: [0, pick(1, 2), 0],
            ..CALLS
        },
        Config {
            name: "calls-both",
            about: "both nodes call each other",
            messages: [[0, 1, 0], [1, 0, 0], [0; 3]],
            limit: limit(2, 3),
            ..CALLS
        },
        Config {
            name: "calls-three",
            about: "A and C call B, where there is room for one reply",
            nodes: 3,
            messages: [[0, 1, 0], [0; 3], [0, 1, 0]],
            limit: limit(2, 3),
            room: 160,
            ..CALLS
        },
        Config {
            name: "calls-expire",
            about: "as calls; one reply is kept, and not for ever; calls are given up and cancelled",
            limit: limit(3, 4),
            kept: 1,
            expires: true,
            abandons: 1,
            cancels: 1,
            ..CALLS
        },
        Config {
            name: "calls-evict",
            about: "as calls, and records are evicted",
            evictions: [0, pick(1, 2), 0],
            ..CALLS
        },
        Config {
            name: "calls-crash-server",
            about: "as calls, and the server crashes",
            messages: ab(pick(1, 2)),
            // As with messages: not both a second call and a third number.
            limit: limit(3, 2),
            block: 1,
            crashes: [0, 1, 0],
            ..CALLS
        },
        Config {
            name: "calls-crash-caller",
            about: "as calls, and the caller crashes",
            messages: ab(pick(1, 2)),
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
            evictions: [1, pick(0, 1), 0],
            expires: true,
            ..CALLS
        },
        Config {
            name: "replies-crash-caller",
            about: "calls are answered with messages, and the caller crashes",
            messages: [[0, 1, 0], [2, 0, 0], [0; 3]],
            limit: limit(3, 4),
            calls: Calls::Messages,
            block: 1,
            crashes: [1, 0, 0],
            ..CALLS
        },
    ]
}
