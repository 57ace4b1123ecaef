//! Streams (PROTOCOL.md "Streams", "Withdrawal"): a writer and a reader, over a network that loses, duplicates and delays. Messages are
//! withdrawn, given up, handed out and judged; records are evicted and closed; processes die, with a journal or without. Each rule can be
//! left out.
//!
//! The search runs the real code: records, clocks, `Writers`, `Readers` and `Voids` are the copy of
//! `exonet-proto/src/half` that this crate makes, with the mutants of `mutants/streams.txt`. The steps that a peer takes with them
//! (`peer/streaming.rs`, `withdrawing.rs`, `settle.rs`, `outbound/streams.rs`, `returned.rs`) are written again here, one by one.
//!
//! These parts are abstractions:
//!
//! * The network. Each message under each slot that it was ever bound to, and each REVOKE_STREAM, WITHDRAWN and VERDICT ever sent, may
//!   arrive at any time, any number of times. For ASK and STATE, the present one may arrive, and a few older copies that the network
//!   keeps.
//! * The receive queue. A message that arrives is taken or handed out at once, or it arrives again.
//! * A journal. It has each step at once. Disks that lag behind are searched in the half-connection, and sampled in `exonet-sim`.
//! * Time. A timer may fire at any moment.
//!
//! The search leaves out early messages, which have no place in a stream; parts of messages; and bounds of memory.

mod ledger;
mod reader;
mod steps;
mod world;
mod writer;

use std::fmt;

use crate::exhaust::{Found, Model, exhaust};
use crate::mutant::{Mutant, STREAMS, with};
use crate::wire::StreamEnd;
use world::World;

/// A message of the script.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The stream of the message: 0 or 1.
    pub stream: usize,
    /// Whether the stream goes on after the message.
    pub end: StreamEnd,
}

/// The bounds of a search.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// Its name.
    pub name: &'static str,
    /// The messages that the application sends, in this order.
    pub script: &'static [Line],
    /// Slots that the reader grants at most.
    pub slots: u64,
    /// Whether the writer and the reader have journals.
    pub journals: [bool; 2],
    /// Deaths of the process of the writer, and of the reader.
    pub crashes: [u8; 2],
    /// Records that the reader forgets for want of memory.
    pub evictions: u8,
    /// Records that the reader closes.
    pub ends: u8,
    /// Messages that are withdrawn, or cancelled when they have come back.
    pub cancels: u8,
    /// Messages in doubt that the writer gives up.
    pub gives_up: u8,
    /// Messages that the reading application judges.
    pub marks: u8,
    /// Whether messages are handed out before they are taken.
    pub hands_out: bool,
    /// Copies of ASK and STATE that the network keeps.
    pub copies: u8,
}

const A: Line = Line { stream: 0, end: StreamEnd::Open };
const A_LAST: Line = Line { stream: 0, end: StreamEnd::Last };
const B: Line = Line { stream: 1, end: StreamEnd::Open };

const THREE: Scene = Scene {
    name: "three",
    script: &[A, A, A],
    slots: 3,
    journals: [false, false],
    crashes: [0, 0],
    evictions: 0,
    ends: 0,
    cancels: 0,
    gives_up: 0,
    marks: 0,
    hands_out: false,
    copies: 1,
};

const TWO: Scene = Scene { script: &[A, A], slots: 2, ..THREE };
const ENDS: Scene = Scene { script: &[A, A_LAST, A], ..THREE };
/// Without copies that the network keeps, so that the other bounds can be larger.
const PLAIN: Scene = Scene { copies: 0, ..THREE };
const LATE: [bool; 2] = [false, true];
const BOTH: [bool; 2] = [true, true];

/// The scenes in which the rules as they stand must hold.
pub const SCENES: [Scene; 35] = [
    THREE,
    Scene { name: "two-streams", script: &[A, B, A, B], slots: 2, cancels: 1, ..THREE },
    Scene { name: "ends", ..ENDS },
    Scene { name: "ends-cancel", cancels: 1, copies: 0, ..ENDS },
    Scene { name: "ends-given-up", script: &[B, A, A_LAST], gives_up: 1, ..PLAIN },
    Scene { name: "ends-late", script: &[A, A, A_LAST, A], slots: 4, gives_up: 1, ..PLAIN },
    Scene { name: "cancel", cancels: 2, ..THREE },
    Scene { name: "given-up", gives_up: 1, ..THREE },
    Scene { name: "given-up-cancel", gives_up: 1, cancels: 1, ..PLAIN },
    Scene { name: "evict", evictions: 1, ..THREE },
    Scene { name: "evict-cancel", evictions: 1, cancels: 1, ..PLAIN },
    Scene { name: "reader-dies", crashes: [0, 1], ..THREE },
    Scene { name: "reader-dies-cancel", crashes: [0, 1], cancels: 1, ..PLAIN },
    Scene { name: "writer-dies", crashes: [1, 0], ..THREE },
    Scene { name: "writer-dies-cancel", crashes: [1, 0], cancels: 1, ..PLAIN },
    Scene { name: "writer-dies-ends", crashes: [1, 0], ..ENDS },
    Scene { name: "reader-journal", crashes: [0, 1], journals: LATE, cancels: 2, ..PLAIN },
    Scene { name: "writer-journal", crashes: [1, 0], journals: [true, false], cancels: 1, ..PLAIN },
    Scene { name: "both-journals", crashes: [1, 1], journals: BOTH, cancels: 1, ..PLAIN },
    Scene { name: "close", ends: 1, ..THREE },
    Scene { name: "close-cancel", ends: 1, cancels: 1, ..PLAIN },
    Scene { name: "close-given-up", ends: 1, gives_up: 1, ..PLAIN },
    Scene {
        name: "close-cancel-given-up",
        script: &[A, A, A, A],
        slots: 4,
        ends: 1,
        cancels: 1,
        gives_up: 1,
        ..PLAIN
    },
    Scene { name: "close-twice", ends: 2, gives_up: 1, ..PLAIN },
    Scene { name: "end-given-up", ends: 1, gives_up: 1, copies: 0, ..ENDS },
    Scene { name: "end-given-up-twice", ends: 1, gives_up: 2, copies: 0, ..ENDS },
    Scene { name: "both-given-up", script: &[A, A_LAST, A, A], slots: 4, ends: 1, gives_up: 2, ..PLAIN },
    Scene { name: "next-given-up", script: &[A_LAST, A, A], ends: 1, gives_up: 1, ..PLAIN },
    Scene { name: "end-given-up-cancel", ends: 1, gives_up: 1, cancels: 1, copies: 0, ..ENDS },
    Scene {
        name: "end-given-up-dies",
        ends: 1,
        gives_up: 1,
        crashes: [1, 0],
        journals: BOTH,
        copies: 0,
        ..ENDS
    },
    Scene { name: "close-journal", ends: 1, crashes: [1, 0], journals: BOTH, cancels: 1, ..PLAIN },
    Scene { name: "hand-out", hands_out: true, cancels: 1, ..THREE },
    Scene { name: "marks", hands_out: true, marks: 1, ..THREE },
    Scene { name: "marks-close", hands_out: true, marks: 1, ends: 1, ..PLAIN },
    Scene {
        name: "marks-journal",
        hands_out: true,
        marks: 1,
        cancels: 1,
        crashes: [0, 1],
        journals: LATE,
        copies: 0,
        ..TWO
    },
];

const CLOSE: Scene = Scene { ends: 1, cancels: 1, ..PLAIN };
const JUDGE: Scene = Scene { marks: 1, hands_out: true, ..CLOSE };

/// More of everything at once: minutes, and gigabytes.
pub const DEEP: [Scene; 14] = [
    Scene { name: "deep-marks", crashes: [0, 1], journals: LATE, ..JUDGE },
    Scene { name: "deep-marks-writer", crashes: [1, 0], journals: BOTH, ..JUDGE },
    Scene { name: "deep-given-up", crashes: [1, 0], journals: BOTH, gives_up: 1, ..CLOSE },
    Scene { name: "deep-given-up-reader", crashes: [0, 1], journals: BOTH, gives_up: 1, ..CLOSE },
    Scene { name: "deep-evict", evictions: 1, ..CLOSE },
    Scene { name: "deep-both", crashes: [1, 1], ..CLOSE },
    Scene { name: "deep-both-writer", crashes: [1, 1], journals: [true, false], ..CLOSE },
    Scene { name: "deep-both-reader", crashes: [1, 1], journals: LATE, ..CLOSE },
    Scene { name: "deep-last", script: &[A, A_LAST, A, A], cancels: 2, ..CLOSE },
    Scene { name: "deep-last-journal", script: &[A, A_LAST, A], crashes: [1, 1], journals: BOTH, ..CLOSE },
    Scene { name: "deep-four", script: &[A, A, A, A], slots: 4, cancels: 2, gives_up: 1, ..PLAIN },
    Scene {
        name: "deep-two",
        script: &[A, A],
        slots: 2,
        crashes: [1, 0],
        journals: BOTH,
        ends: 2,
        gives_up: 1,
        ..JUDGE
    },
    Scene { name: "deep-two-copies", crashes: [1, 1], ends: 1, cancels: 1, ..TWO },
    Scene { name: "deep-two-journals", script: &[A, A], slots: 2, crashes: [2, 2], journals: BOTH, ..CLOSE },
];

/// A rule that a search may leave out.
#[derive(Clone, Copy)]
pub struct Rule(pub &'static Mutant);

impl Rule {
    /// Whether, according to the list, the scene detects that the rule is missing.
    pub fn is_found_in(&self, scene: &str) -> bool {
        self.0.found_in.split_whitespace().any(|name| name == scene)
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.name)
    }
}

/// All of them.
pub fn rules() -> Vec<Rule> {
    STREAMS.iter().map(Rule).collect()
}

impl Model for Scene {
    type Rule = Rule;
    type World = World;

    fn start(&self) -> World {
        World::new(self)
    }

    fn steps(&self, without: Option<Rule>, from: &World) -> Vec<(String, World)> {
        with(without.map(|rule| rule.0), || steps::of(self, from))
    }

    fn broken(&self, world: &World) -> Option<&'static str> {
        world.wrong()
    }

    /// In the end each message has its outcome, and no record is left.
    fn is_end(&self, world: &World) -> bool {
        world.is_settled()
    }
}

/// Searches a scene, without one of the rules if that is named.
pub fn search(scene: &Scene, without: Option<Rule>) -> Found {
    exhaust(scene, without)
}
