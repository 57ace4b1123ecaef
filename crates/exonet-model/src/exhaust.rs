//! All states of a small model, breadth first.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;

use crate::fingerprint::Build;

/// A model small enough that each of its states is kept.
pub(crate) trait Model {
    /// A rule that can be taken away.
    type Rule: Copy;
    /// One state of everything.
    type World: Clone + Eq + Hash;

    /// The first state.
    fn start(&self) -> Self::World;

    /// Every step from a state, with its name and the state after it. If a rule is named, it is left out.
    fn steps(&self, without: Option<Self::Rule>, from: &Self::World) -> Vec<(String, Self::World)>;

    /// The promise that a state breaks.
    fn broken(&self, world: &Self::World) -> Option<&'static str>;

    /// Whether a state is a good end. From each state there has to be a way to one.
    fn is_end(&self, world: &Self::World) -> bool;
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// No violation. From each state there is a way to a good end.
    Nothing {
        /// States.
        states: usize,
    },
    /// A promise is broken, and the steps to that.
    Broken {
        /// The promise.
        what: &'static str,
        /// The shortest way.
        steps: Vec<String>,
    },
    /// From some states there is no way to a good end.
    Stuck {
        /// How many.
        states: usize,
        /// The shortest way to one of them.
        steps: Vec<String>,
    },
    /// There are too many states.
    Cut,
}

impl Found {
    /// Whether the search noticed that a rule is missing.
    pub fn is_noticed(&self) -> bool {
        matches!(self, Self::Broken { .. } | Self::Stuck { .. })
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing { states } => write!(f, "nothing in {states} states"),
            Self::Broken { what, steps } => write!(f, "{what} in {} steps", steps.len()),
            Self::Stuck { states, .. } => write!(f, "{states} states without a way to a good end"),
            Self::Cut => f.write_str("too many states"),
        }
    }
}

/// The most states of a search.
const MOST: usize = 2_000_000;

/// Searches all states. If a rule is named, it is left out.
pub(crate) fn exhaust<M: Model>(model: &M, without: Option<M::Rule>) -> Found {
    let mut space = Space::new(model, without);
    while let Some(at) = space.queue.pop_front() {
        let world = space.worlds[at].clone();
        if let Some(what) = model.broken(&world) {
            return Found::Broken { what, steps: space.way(at) };
        }
        for (_, to) in model.steps(without, &world) {
            space.reach(at, to);
        }
        if space.worlds.len() > MOST {
            return Found::Cut;
        }
    }
    space.stuck()
}

struct Space<'a, M: Model> {
    model: &'a M,
    without: Option<M::Rule>,
    index: HashMap<M::World, usize, Build>,
    worlds: Vec<M::World>,
    /// The state from which each was first reached, and all states from which it is reached.
    first: Vec<usize>,
    before: Vec<Vec<usize>>,
    queue: VecDeque<usize>,
}

impl<'a, M: Model> Space<'a, M> {
    fn new(model: &'a M, without: Option<M::Rule>) -> Self {
        let start = model.start();
        Self {
            model,
            without,
            index: [(start.clone(), 0)].into_iter().collect(),
            worlds: vec![start],
            first: vec![0],
            before: vec![Vec::new()],
            queue: VecDeque::from([0]),
        }
    }

    fn reach(&mut self, from: usize, world: M::World) {
        let next = self.worlds.len();
        let at = *self.index.entry(world).or_insert_with_key(|world| {
            self.worlds.push(world.clone());
            self.first.push(from);
            self.before.push(Vec::new());
            self.queue.push_back(next);
            next
        });
        self.before[at].push(from);
    }

    fn way(&self, to: usize) -> Vec<String> {
        let (mut at, mut steps) = (to, Vec::new());
        while at != 0 {
            let from = self.first[at];
            let all = self.model.steps(self.without, &self.worlds[from]);
            let step = all.into_iter().find(|(_, world)| *world == self.worlds[at]);
            steps.extend(step.map(|(what, _)| what));
            at = from;
        }
        steps.reverse();
        steps
    }

    /// The states from which no way leads to a good end.
    fn stuck(&self) -> Found {
        let mut ends: Vec<_> =
            (0..self.worlds.len()).filter(|at| self.model.is_end(&self.worlds[*at])).collect();
        let mut good = vec![false; self.worlds.len()];
        ends.iter().for_each(|at| good[*at] = true);
        while let Some(at) = ends.pop() {
            for from in &self.before[at] {
                if !std::mem::replace(&mut good[*from], true) {
                    ends.push(*from);
                }
            }
        }
        let states = good.iter().filter(|good| !**good).count();
        match good.iter().position(|good| !good) {
            None => Found::Nothing { states: good.len() },
            Some(at) => Found::Stuck { states, steps: self.way(at) },
        }
    }
}
