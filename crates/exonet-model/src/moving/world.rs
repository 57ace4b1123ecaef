//! One state of everything, and the steps from it.

use super::{Rule, Scene};

/// Places that the identity may live at, and one more for a copy.
const PLACES: usize = 3;
const COPY: usize = PLACES;
/// Attempts at most, one for each move that begins.
const ATTEMPTS: usize = 4;

/// An identity, all but its key: its generation, and a bit for each message that it has taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Identity {
    generation: u8,
    /// Which place of its generation it is at.
    lineage: u8,
    /// How often it has moved: no node knows of this.
    stay: u8,
    taken: u8,
}

impl Identity {
    const fn term(&self) -> Term {
        Term { generation: self.generation, lineage: self.lineage }
    }
}

/// A stay of the identity as peers and the name service see it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Term {
    generation: u8,
    lineage: u8,
}

/// The part of the identity that lies on the disk of a place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kept {
    Nothing,
    Lives(Identity),
    /// It was given away by this attempt, to live as this generation.
    Ceded {
        attempt: usize,
        generation: u8,
    },
}

/// An attempt at a move, in the memory of the place that the identity is to leave.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Attempt {
    number: usize,
    to: usize,
    /// It has been cut, and this was sent.
    load: Option<Identity>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Place {
    kept: Kept,
    /// A load that has landed beside it, by its attempt, with the generation that its identity had.
    landed: Option<(usize, Identity)>,
    /// A process runs the identity.
    runs: bool,
    /// It stands still.
    still: bool,
    attempt: Option<Attempt>,
}

/// A load under way, from here on for ever or until it is lost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Load {
    to: usize,
    of: Identity,
}

/// A state.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    places: [Place; PLACES + 1],
    loads: [Option<Load>; ATTEMPTS],
    /// The new place has said that it has the load; the deed is under way.
    ready: [bool; ATTEMPTS],
    deeds: [Option<usize>; ATTEMPTS],
    begun: u8,
    deaths: u8,
    /// A copy that was made, and of which place.
    copied: Option<(usize, Identity)>,
    copies: u8,
    /// The stay that the name service takes for living.
    named: Term,
    /// The latest stay that the client has met, and what it knows to be delivered.
    met: Option<Term>,
    delivered: u8,
    /// How often each message was taken.
    takings: [u8; 2],
    /// Where the client has heard the identity last, by the number of moves and the lineage; and whether it has heard it at an earlier
    /// place after that, or at another place of the same number.
    heard: (u8, u8),
    astray: bool,
}

impl Place {
    const EMPTY: Self = Self { kept: Kept::Nothing, landed: None, runs: false, still: false, attempt: None };

    fn dies(&mut self) {
        (self.runs, self.still, self.attempt) = (false, false, None);
    }
}

impl World {
    pub(super) fn new(scene: &Scene) -> Self {
        let home = Place { kept: Kept::Lives(Identity::default()), runs: true, ..Place::EMPTY };
        Self {
            places: [home, Place::EMPTY, Place::EMPTY, Place::EMPTY],
            loads: [None; ATTEMPTS],
            ready: [false; ATTEMPTS],
            deeds: [None; ATTEMPTS],
            begun: 0,
            deaths: scene.deaths,
            copied: None,
            copies: scene.copies,
            named: Term::default(),
            met: None,
            delivered: 0,
            takings: [0; 2],
            heard: (0, 0),
            astray: false,
        }
    }

    /// The identities that can speak now.
    fn speak(&self) -> impl Iterator<Item = Identity> {
        self.places.iter().filter(|place| place.runs && !place.still).filter_map(|place| match place.kept {
            Kept::Lives(identity) => Some(identity),
            // Only without a rule.
            Kept::Ceded { .. } | Kept::Nothing => place.landed.map(|(_, identity)| identity),
        })
    }

    /// Returns the promise that this state breaks, if any.
    pub(super) fn broken(&self, scene: &Scene) -> Option<&'static str> {
        if self.astray {
            return Some("a client talks to an earlier generation, or to a second place of one");
        }
        // If no name service decides, nothing else is promised about a copy that nobody knows of.
        if self.copies < scene.copies && !scene.decides {
            return None;
        }
        if self.places.iter().filter(|place| place.runs && !place.still).count() > 1 {
            return Some("two places speak");
        }
        if self.takings.iter().any(|takings| *takings > 1) {
            return Some("taken twice");
        }
        let lacks = |identity: Identity| self.delivered & !identity.taken != 0;
        self.speak().any(lacks).then_some("delivered, and the place that speaks has it not")
    }

    /// One place speaks, and the client has nothing to send.
    pub(super) fn is_settled(&self, scene: &Scene) -> bool {
        self.speak().count() >= 1 && self.delivered.count_ones() as usize == scene.messages
    }
}

/// The steps from a state.
pub(super) struct Steps<'a> {
    scene: &'a Scene,
    without: Option<Rule>,
    from: &'a World,
    to: Vec<(String, World)>,
}

impl<'a> Steps<'a> {
    pub(super) fn of(scene: &'a Scene, without: Option<Rule>, from: &'a World) -> Vec<(String, World)> {
        let mut this = Self { scene, without, from, to: Vec::new() };
        for place in 0..=PLACES {
            this.lives(place);
            this.leaves(place);
            this.arrives(place);
            for message in 0..scene.messages {
                this.client(place, message);
            }
        }
        this.network();
        this.copy();
        this.to
    }

    fn holds(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    fn add(&mut self, what: String, change: impl FnOnce(&mut World)) {
        let mut to = self.from.clone();
        change(&mut to);
        if to != *self.from {
            self.to.push((what, to));
        }
    }

    // --- processes ---

    fn lives(&mut self, at: usize) {
        let place = self.from.places[at];
        if place.runs && self.from.deaths > 0 {
            self.add(format!("{at} dies"), |w| {
                w.deaths -= 1;
                w.places[at].dies();
            });
        }
        let term = match place.kept {
            Kept::Lives(identity) => identity.term(),
            Kept::Ceded { generation, .. } if !self.holds(Rule::CededIsSilent) => {
                Term { generation: generation - 1, lineage: 0 }
            }
            Kept::Nothing if place.landed.is_some() && !self.holds(Rule::KeyLast) => Term::default(),
            Kept::Nothing | Kept::Ceded { .. } => return,
        };
        let named = self.from.named;
        let later = named.generation > term.generation;
        let other = named.generation == term.generation && named.lineage != term.lineage;
        let taken = later || (other && self.holds(Rule::GrantedOnce));
        let refused = self.scene.decides && self.holds(Rule::Asks) && taken;
        if !place.runs && !refused {
            self.add(format!("{at} starts"), |w| {
                w.places[at].runs = true;
                if !later {
                    w.named = term;
                }
            });
        }
    }

    // --- the place that the identity leaves ---

    fn leaves(&mut self, at: usize) {
        let place = self.from.places[at];
        let Kept::Lives(identity) = place.kept else { return self.gives(at) };
        if !place.runs || at == COPY {
            return;
        }
        let Some(attempt) = place.attempt else { return self.begins(at) };
        if !place.still {
            self.add(format!("{at} stands still"), |w| w.places[at].still = true);
        }
        if attempt.load.is_none() && (place.still || !self.holds(Rule::CutStill)) {
            self.add(format!("{at} cuts"), |w| {
                w.places[at].attempt = Some(Attempt { load: Some(identity), ..attempt });
                w.loads[attempt.number] = Some(Load { to: attempt.to, of: identity });
            });
        }
        self.add(format!("{at} gives up"), |w| {
            (w.places[at].still, w.places[at].attempt) = (false, None);
        });
        let ready = self.from.ready[attempt.number] || !self.holds(Rule::LandedFirst);
        if place.still && attempt.load.is_some() && ready {
            if !self.holds(Rule::CededFirst) {
                self.add(format!("{at} sends the deed early"), |w| {
                    w.deeds[attempt.number] = Some(attempt.to);
                });
            }
            self.add(format!("{at} cedes"), |w| {
                let (attempt, to) = (attempt.number, attempt.to);
                w.places[at].dies();
                w.places[at].kept = Kept::Ceded { attempt, generation: identity.generation + 1 };
                w.deeds[attempt] = Some(to);
            });
        }
    }

    fn begins(&mut self, at: usize) {
        if self.from.begun >= self.scene.moves {
            return;
        }
        let fresh = self.holds(Rule::FreshAttempt);
        for to in (0..PLACES).filter(|to| *to != at) {
            self.add(format!("{at} begins to move to {to}"), |w| {
                let number = if fresh { w.begun as usize } else { 0 };
                w.places[at].attempt = Some(Attempt { number, to, load: None });
                w.begun += 1;
            });
        }
    }

    /// What was ceded is given again if it is asked for: the deed, not the load.
    fn gives(&mut self, at: usize) {
        if let Kept::Ceded { attempt, .. } = self.from.places[at].kept {
            // Which place that is, is on the disk too.
            let to = self.from.loads[attempt].map(|load| load.to).or(self.from.deeds[attempt]);
            self.add(format!("{at} sends the deed again"), |w| w.deeds[attempt] = to);
        }
    }

    // --- the place at which it arrives ---

    fn arrives(&mut self, at: usize) {
        let place = self.from.places[at];
        for (number, load) in self.from.loads.iter().enumerate() {
            let Some(Load { to, of }) = *load else { continue };
            let free = match place.kept {
                Kept::Nothing => true,
                Kept::Lives(_) => false,
                Kept::Ceded { generation, .. } => {
                    of.generation + 1 > generation || !self.holds(Rule::LaterLoad)
                }
            };
            let latest =
                place.landed.is_none_or(|(landed, _)| landed <= number) || !self.holds(Rule::LatestLands);
            if to == at && free && latest {
                self.add(format!("{at} has the load of {number}"), |w| {
                    w.places[at].landed = Some((number, of));
                    w.ready[number] = true;
                });
            }
        }
        let Some((number, of)) = place.landed else { return };
        let next = u8::from(self.holds(Rule::NextGeneration));
        for (deed, to) in self.from.deeds.iter().enumerate() {
            let fits = deed == number || !self.holds(Rule::DeedOfAttempt);
            if *to == Some(at) && fits {
                self.add(format!("{at} has the deed of {deed}"), |w| {
                    let (generation, stay) = (of.generation + next, of.stay + 1);
                    let identity = Identity { generation, lineage: 0, stay, ..of };
                    w.places[at] = Place { kept: Kept::Lives(identity), ..Place::EMPTY };
                });
            }
        }
    }

    // --- around it ---

    /// A message comes to a place; what it answers may be lost.
    fn client(&mut self, at: usize, message: usize) {
        let (place, bit) = (self.from.places[at], 1 << message);
        let silent = !place.runs || (place.still && self.holds(Rule::TakesNothingStill));
        let Kept::Lives(identity) = place.kept else { return };
        let met = self.from.met.unwrap_or_default();
        let earlier = met.generation > identity.generation;
        let second = met.generation == identity.generation && met.lineage != identity.lineage;
        let fenced = (earlier && self.holds(Rule::Fence)) || (second && self.holds(Rule::Lineage));
        if silent || self.from.delivered & bit != 0 || fenced {
            return;
        }
        for heard in [false, true] {
            let fate = if heard { "" } else { ", which is not heard" };
            self.add(format!("{at} takes message {message}{fate}"), |w| {
                let (stay, lineage) = w.heard;
                w.astray |= stay > identity.stay || (stay == identity.stay && lineage != identity.lineage);
                w.heard = (identity.stay, identity.lineage);
                if w.met.is_none_or(|met| met.generation < identity.generation) {
                    w.met = Some(identity.term());
                }
                if identity.taken & bit == 0 {
                    w.takings[message] += 1;
                    w.places[at].kept = Kept::Lives(Identity { taken: identity.taken | bit, ..identity });
                }
                w.delivered |= if heard { bit } else { 0 };
            });
        }
    }

    /// A message under way may be lost.
    fn network(&mut self) {
        for attempt in 0..ATTEMPTS {
            // Losing the load of an earlier attempt makes no difference to the state that is kept.
            if self.from.loads[attempt].is_some() && self.from.begun as usize == attempt + 1 {
                self.add(format!("the load of {attempt} is lost"), |w| w.loads[attempt] = None);
            }
        }
    }

    /// What has arrived at a place arrives at one more, by the same load and deed.
    fn twice(&mut self, at: usize) {
        let Kept::Lives(identity) = self.from.places[at].kept else { return };
        if self.from.copies == 0 || at == COPY || identity.generation == 0 {
            return;
        }
        // The deed is for the load of its attempt.
        let both = self.from.loads.iter().zip(self.from.deeds).filter(|(_, deed)| *deed == Some(at));
        let arrived = both.filter_map(|(load, _)| load.map(|load| load.of));
        let arrived: Vec<_> = arrived.filter(|of| of.stay + 1 == identity.stay).collect();
        for of in arrived {
            self.add(format!("what came to {at} is restored once more"), |w| {
                w.copies -= 1;
                let (generation, stay) = (of.generation + 1, of.stay + 1);
                let second = Identity { generation, lineage: 1, stay, ..of };
                w.places[COPY] = Place { kept: Kept::Lives(second), ..Place::EMPTY };
            });
        }
    }

    fn copy(&mut self) {
        if self.scene.twice {
            return (0..PLACES).for_each(|at| self.twice(at));
        }
        match self.from.copied {
            None if self.from.copies > 0 => {
                for at in 0..PLACES {
                    let Kept::Lives(identity) = self.from.places[at].kept else { continue };
                    self.add(format!("{at} is copied"), |w| w.copied = Some((at, identity)));
                }
            }
            // It is what was left behind, and another place has begun to speak.
            Some((of, identity)) if self.from.copies > 0 && self.moved_from(of) => {
                self.add("the copy is put in its place".into(), |w| {
                    w.copies -= 1;
                    w.places[COPY] = Place { kept: Kept::Lives(identity), ..Place::EMPTY };
                });
            }
            _ => {}
        }
    }

    fn moved_from(&self, at: usize) -> bool {
        let lives = |place: &Place| place.runs && matches!(place.kept, Kept::Lives(_));
        self.from.places.iter().enumerate().any(|(there, place)| there != at && lives(place))
    }
}
