//! The configurations: the nodes, the faults, and the number of each.

use crate::ledger::Letter;

/// How many slots a node is willing to grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grants {
    /// As many as the sender asks for.
    Full,
    /// Any number from none to all.
    Any,
}

/// The state that survives a crash, beside `D`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Nothing.
    Volatile,
    /// The notes about early messages: only the process dies.
    Notes,
    /// Everything, once written.
    Journal,
}

/// When a drained record is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// At any time: a linger of any length.
    Drained,
    /// Only once the sender has passed it.
    Passed,
}

/// The most numbers of a node.
pub(crate) const MAX_NUMBERS: u64 = 60;

/// Which messages are calls, and how they are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// None.
    None,
    /// All messages, and each reply is a frame.
    Frames,
    /// The messages of the first node. Each reply is a message: one of the second node, the same number for each call.
    Messages,
}

/// The size of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// All configurations within a minute.
    Quick,
    /// All configurations within some minutes and some gigabytes.
    Deep,
}

impl Bound {
    /// The figure for this bound.
    pub(crate) fn pick<T>(self, quick: T, deep: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Deep => deep,
        }
    }
}

/// A world to search.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name.
    pub name: &'static str,
    /// The contents of the configuration.
    pub about: &'static str,
    /// The number of nodes: 2 or 3.
    pub nodes: usize,
    /// `messages[i][j]` go from node `i` to node `j`.
    pub messages: [[u8; 3]; 3],
    /// The numbers of each node end here, so that the space is finite. While all comes to rest there are more.
    pub limit: u64,
    /// The block in which the numbers are reserved. 0: all at once, and the disk plays no part.
    pub block: u64,
    /// The values of `N` that a sender may ask with.
    pub standby: &'static [u8],
    /// The slots that receivers grant.
    pub grants: Grants,
    /// The state that survives a crash.
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
    /// Whether there may be no room to remember what lost records took early.
    pub full: bool,
    /// Whether a STATE may leave out stamps.
    pub silent: bool,
    /// Whether nodes may refuse openings with a stamp.
    pub refuses: bool,
    /// Whether bounds of senders outside this world are forgotten, and records of them evicted.
    pub outsiders: bool,
    /// Which messages are calls.
    pub calls: Calls,
    /// Whether kept replies expire.
    pub expires: bool,
    /// Replies that are kept for one peer.
    pub kept: usize,
    /// The most bytes of all replies of a node. In the model a reply has 160 bytes.
    pub room: u64,
}

impl Config {
    /// Every message: its place, its sender and its receiver.
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
