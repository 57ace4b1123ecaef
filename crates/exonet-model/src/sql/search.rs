//! All states of a scene, breadth first.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use super::world::{Steps, World};
use super::{Rule, Scene};

/// What a search has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing. From each state there is a way to one in which nothing is kept.
    Nothing {
        /// States.
        states: usize,
    },
    /// A promise is broken, and the steps to that.
    Broken {
        /// Which.
        what: &'static str,
        /// The shortest way.
        steps: Vec<String>,
    },
    /// From some states there is no way to one in which nothing is kept.
    Leak {
        /// How many.
        states: usize,
        /// The shortest way to one of them.
        steps: Vec<String>,
    },
    /// There are too many states.
    Cut,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing { states } => write!(f, "nothing in {states} states"),
            Self::Broken { what, steps } => write!(f, "{what} in {} steps", steps.len()),
            Self::Leak { states, .. } => write!(f, "{states} states from which nothing is cleaned up"),
            Self::Cut => f.write_str("too many states"),
        }
    }
}

/// States at most.
const MOST: usize = 2_000_000;

/// Searches a scene, without one of the rules if that is named.
pub fn search(scene: &Scene, without: Option<Rule>) -> Found {
    let mut space = Space::new(scene, without);
    while let Some(at) = space.queue.pop_front() {
        let world = space.worlds[at].clone();
        if let Some(what) = world.broken(scene) {
            return Found::Broken { what, steps: space.way(at) };
        }
        for (_, to) in Steps::of(scene, without, &world) {
            space.reach(at, to);
        }
        if space.worlds.len() > MOST {
            return Found::Cut;
        }
    }
    space.leaks()
}

struct Space<'a> {
    scene: &'a Scene,
    without: Option<Rule>,
    index: HashMap<World, usize>,
    worlds: Vec<World>,
    /// Where each was first reached from, and all from which it is reached.
    first: Vec<usize>,
    before: Vec<Vec<usize>>,
    queue: VecDeque<usize>,
}

impl<'a> Space<'a> {
    fn new(scene: &'a Scene, without: Option<Rule>) -> Self {
        let start = World::new(scene);
        Self {
            scene,
            without,
            index: HashMap::from([(start.clone(), 0)]),
            worlds: vec![start],
            first: vec![0],
            before: vec![Vec::new()],
            queue: VecDeque::from([0]),
        }
    }

    fn reach(&mut self, from: usize, world: World) {
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
            let all = Steps::of(self.scene, self.without, &self.worlds[from]);
            let step = all.into_iter().find(|(_, world)| *world == self.worlds[at]);
            steps.extend(step.map(|(what, _)| what));
            at = from;
        }
        steps.reverse();
        steps
    }

    /// From where nothing can be cleaned up any more.
    fn leaks(&self) -> Found {
        let mut ends: Vec<_> = (0..self.worlds.len()).filter(|at| self.worlds[*at].is_clean()).collect();
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
            Some(at) => Found::Leak { states, steps: self.way(at) },
        }
    }
}
