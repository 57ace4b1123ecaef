//! An identity that moves from place to place by `exon move`. The search has every order of the steps, deaths of each process,
//! requests that arrive twice or late, and copies of what was left behind. It also runs without each of the rules. There are no
//! slots: a place has the set of messages that it has taken.

mod world;

use crate::exhaust::{Found, Model, exhaust};
use world::{Steps, World};

/// The bounds of a search.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// Its name.
    pub name: &'static str,
    /// Messages that the client has to send: 1 or 2.
    pub messages: usize,
    /// Moves that begin.
    pub moves: u8,
    /// Processes that die.
    pub deaths: u8,
    /// Copies of an identity that are made while it lives, and started after it has moved. If `twice`: further arrivals of a load
    /// that has arrived already.
    pub copies: u8,
    /// Whether the copies are of what has arrived.
    pub twice: bool,
    /// Whether a name service decides which generation lives.
    pub decides: bool,
}

const ONE: Scene =
    Scene { name: "one", messages: 1, moves: 2, deaths: 2, copies: 0, twice: false, decides: false };

/// The scenes in which the rules as they stand must hold.
pub const SCENES: [Scene; 8] = [
    ONE,
    Scene { name: "messages", messages: 2, moves: 2, deaths: 1, ..ONE },
    Scene { name: "back", moves: 3, deaths: 1, ..ONE },
    Scene { name: "decided", decides: true, ..ONE },
    Scene { name: "copy", moves: 1, deaths: 1, copies: 1, ..ONE },
    Scene { name: "copy-decided", moves: 1, deaths: 1, copies: 1, decides: true, ..ONE },
    Scene { name: "twice", messages: 2, deaths: 1, copies: 1, twice: true, ..ONE },
    Scene { name: "twice-decided", messages: 2, deaths: 1, copies: 1, twice: true, decides: true, ..ONE },
];

/// A rule that a search may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A frozen place takes nothing.
    TakesNothingStill,
    /// The load is made while the place is frozen.
    CutStill,
    /// A move that begins again has another attempt's number.
    FreshAttempt,
    /// The identity is ceded only when its load is on the disk of the new place.
    LandedFirst,
    /// The deed leaves when the identity is ceded, not before.
    CededFirst,
    /// An identity that was ceded does not start.
    CededIsSilent,
    /// A load alone starts nothing: the key comes with the deed.
    KeyLast,
    /// A deed is for the load of its attempt.
    DeedOfAttempt,
    /// A load of an earlier attempt does not land where that of a later one is: the door hears the one that has asked it last.
    LatestLands,
    /// A load of an earlier generation lands on nothing that has lived since.
    LaterLoad,
    /// An identity that arrives lives in the next generation.
    NextGeneration,
    /// A peer that has met a generation talks to no earlier one.
    Fence,
    /// A peer that has met one place of a generation talks to no other place of it.
    Lineage,
    /// Where a name service decides, it is asked before a place says anything.
    Asks,
    /// The name service grants a generation to the first place that claims it.
    GrantedOnce,
}

/// All of them.
pub const RULES: [Rule; 15] = [
    Rule::TakesNothingStill,
    Rule::CutStill,
    Rule::FreshAttempt,
    Rule::LandedFirst,
    Rule::CededFirst,
    Rule::CededIsSilent,
    Rule::KeyLast,
    Rule::DeedOfAttempt,
    Rule::LatestLands,
    Rule::LaterLoad,
    Rule::NextGeneration,
    Rule::Fence,
    Rule::Lineage,
    Rule::Asks,
    Rule::GrantedOnce,
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

    /// In the end one place speaks, and has all that the client has sent.
    fn is_end(&self, world: &World) -> bool {
        world.is_settled(self)
    }
}

/// Searches a scene, without one of the rules if that is named.
pub fn search(scene: &Scene, without: Option<Rule>) -> Found {
    exhaust(scene, without)
}
