//! From one database to another: rows of an outbox, nodes, and an inbox in the receiver's database. The search goes through the
//! steps of `exonet-sql` with every crash, every order and every copy. It also runs without each of the rules.

mod world;

use crate::exhaust::{Found, Model, exhaust};
use world::{Steps, World};

/// The bounds of a search.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// Its name.
    pub name: &'static str,
    /// Rows of the outbox: 1 or 2.
    pub rows: usize,
    /// Whether a second relay, with a node of its own, may take the lane over, and how often that happens.
    pub takeovers: u8,
    /// Whether the nodes of the sender and of the receiver have journals.
    pub journals: [bool; 2],
    /// Whether a relay that begins anew knows the rows of the messages that are open. If not, it waits for these to end.
    pub joins: bool,
    /// Deaths of nodes of the sender, of relays whose node lives, and of the receiver.
    pub deaths: [u8; 3],
    /// Handlers that fail.
    pub failures: u8,
    /// Restores of the sender's database from a backup.
    pub restores: u8,
    /// Whether rows are kept for as long as a backup may be restored.
    pub retains: bool,
}

const ONE: Scene = Scene {
    name: "one",
    rows: 1,
    takeovers: 0,
    journals: [false, false],
    joins: true,
    deaths: [2, 2, 2],
    failures: 1,
    restores: 0,
    retains: false,
};

/// The scenes in which the rules as they stand must hold.
pub const SCENES: [Scene; 13] = [
    ONE,
    Scene { name: "journals", journals: [true, true], ..ONE },
    Scene { name: "journal-sender", journals: [true, false], ..ONE },
    Scene { name: "journal-receiver", journals: [false, true], ..ONE },
    Scene { name: "forgetful", joins: false, ..ONE },
    Scene { name: "forgetful-journals", joins: false, journals: [true, true], ..ONE },
    Scene { name: "rows", rows: 2, deaths: [1, 1, 1], ..ONE },
    Scene { name: "rows-journal", rows: 2, journals: [false, true], deaths: [1, 1, 1], failures: 0, ..ONE },
    Scene { name: "relays", takeovers: 2, deaths: [2, 1, 1], ..ONE },
    Scene { name: "relays-journals", takeovers: 2, journals: [true, true], deaths: [1, 1, 1], ..ONE },
    Scene { name: "relays-journal", takeovers: 2, journals: [false, true], deaths: [2, 1, 1], ..ONE },
    Scene {
        name: "relays-forgetful",
        takeovers: 2,
        joins: false,
        journals: [true, true],
        deaths: [1, 1, 1],
        ..ONE
    },
    Scene { name: "restored", restores: 2, retains: true, ..ONE },
];

/// The sender's database is restored from a backup after its rows are gone: no rule helps.
pub const RESTORED_LATE: Scene = Scene { name: "restored-late", restores: 1, ..ONE };

/// A rule that a search may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The inbox has a row for each message that was processed, and such a message is not processed again.
    Inbox,
    /// The slot is used up after the handler's transaction, not before.
    CommitFirst,
    /// A row is deleted when its message is processed, not when it is handed over.
    KeepRow,
    /// Unknown is not the end of a row.
    UnknownIsOpen,
    /// A message that ended Unknown is handed over again.
    HandOverAgain,
    /// An inbox row is kept when the message is done.
    KeepInbox,
    /// No inbox row goes for its age.
    NoTimeout,
    /// An inbox row goes when no handler that began before runs with its key.
    Barrier,
    /// A row is not handed over while a message of it is open.
    OneOpen,
    /// A later life of a node ends the slots of its earlier lives.
    Fence,
    /// A message whose slot is dead is not handed to a handler.
    NotStale,
    /// A message is not handed over again because its node gave it up.
    NotAbandoned,
    /// A log that a power cut may have shortened is not trusted.
    NotTrusted,
    /// A row is gone when it is deleted, not when a later one is.
    ByKey,
    /// A takeover of a lane writes down the node that had it.
    Recorded,
    /// The row goes in a transaction that finds its node the owner of the lane.
    OwnerDeletes,
    /// A node that has not signed off does not take its lane back.
    SignedOff,
    /// No row is gone while a former owner has not signed off.
    OldOwners,
    /// A node signs off when nothing of it can arrive any more.
    FencedSignOff,
    /// Inbox rows are collected.
    Collected,
}

/// All of them.
pub const RULES: [Rule; 20] = [
    Rule::Inbox,
    Rule::CommitFirst,
    Rule::KeepRow,
    Rule::UnknownIsOpen,
    Rule::HandOverAgain,
    Rule::KeepInbox,
    Rule::NoTimeout,
    Rule::Barrier,
    Rule::OneOpen,
    Rule::Fence,
    Rule::NotStale,
    Rule::NotAbandoned,
    Rule::NotTrusted,
    Rule::ByKey,
    Rule::Recorded,
    Rule::OwnerDeletes,
    Rule::SignedOff,
    Rule::OldOwners,
    Rule::FencedSignOff,
    Rule::Collected,
];

impl Model for Scene {
    type Rule = Rule;
    type World = World;

    fn start(&self) -> World {
        World::new(self)
    }

    fn steps(&self, without: Option<Rule>, from: &World) -> Vec<(String, World)> {
        Steps::of(self, without, from)
    }

    fn broken(&self, world: &World) -> Option<&'static str> {
        world.broken(self)
    }

    /// In the end nothing is kept.
    fn is_end(&self, world: &World) -> bool {
        world.is_clean()
    }
}

/// Searches a scene, without one of the rules if that is named.
pub fn search(scene: &Scene, without: Option<Rule>) -> Found {
    exhaust(scene, without)
}
