//! The full search, breadth first, so that the path to a violation is as short as possible.

use crate::space::{Space, State};
use crate::step::Step;
use crate::violation::Violation;

/// The limits of a search.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// At most this many states are kept.
    pub states: usize,
    /// At most this many steps from the beginning.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { states: 20_000_000, depth: usize::MAX }
    }
}

/// Called now and then with the depth and the number of states so far.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize);

/// A violation, and a path to it.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The broken promise.
    pub violation: Violation,
    /// The steps that break it. If the promise is about the future, they lead to the state that breaks it.
    pub steps: Vec<Step>,
}

/// The figures of a search, and the violation that it found.
#[derive(Clone, Debug)]
pub struct Explored {
    /// States kept: nodes with a maximal network.
    pub states: usize,
    /// The number of different node states among these.
    pub nodes: usize,
    /// The number of those from which all came to rest.
    pub rests: usize,
    /// Steps tried.
    pub transitions: u64,
    /// Steps from the beginning to the last state.
    pub depth: usize,
    /// Different datagrams.
    pub datagrams: usize,
    /// Whether the whole space was searched: no limit was reached, and no violation was found.
    pub complete: bool,
    /// The first violation.
    pub finding: Option<Finding>,
}

/// A state, and how it was reached.
struct Kept {
    state: State,
    parent: u32,
    step: Step,
    /// No other state of the same layer contains the network of this one.
    maximal: bool,
}

struct Search<'a> {
    space: &'a mut Space,
    limits: Limits,
    kept: Vec<Kept>,
    /// For each state of the nodes, the kept states. None of their networks contains another.
    maximal: Vec<Vec<u32>>,
    transitions: u64,
    depth: usize,
}

/// Searches `space` from its beginning. Calls `progress` after every layer with the depth and the number of kept states.
pub fn explore(space: &mut Space, limits: Limits, progress: Progress<'_>) -> Explored {
    let (kept, maximal) = (Vec::new(), Vec::new());
    let mut search = Search { space, limits, kept, maximal, transitions: 0, depth: 0 };
    let ended = search.run(progress);
    let Search { space, kept, transitions, depth, .. } = search;
    Explored {
        states: kept.len(),
        nodes: space.nodes(),
        rests: space.rests,
        transitions,
        depth,
        datagrams: space.datagrams(),
        complete: matches!(ended, Ok(true)) && !space.is_full(),
        finding: ended.err(),
    }
}

impl Search<'_> {
    /// Whether the whole space was searched.
    fn run(&mut self, progress: Progress<'_>) -> Result<bool, Finding> {
        let first = self.space.initial();
        let first = first.map_err(|violation| Finding { violation, steps: Vec::new() })?;
        self.keep(first, 0, Step::Reserve(0));
        let mut steps = Vec::new();
        let mut layer = 0..self.kept.len();
        while !layer.is_empty() {
            progress(self.depth, self.kept.len());
            if self.depth == self.limits.depth {
                return Ok(false);
            }
            for id in layer.clone() {
                let Kept { state, maximal, .. } = self.kept[id];
                if !maximal {
                    continue;
                }
                self.space.steps(&state, &mut steps);
                for (step, reached) in steps.drain(..) {
                    self.transitions += 1;
                    let settled = reached.and_then(|reached| self.space.settle(reached));
                    let settled = settled.map_err(|violation| self.finding(violation, id, step))?;
                    self.keep(settled, id, step);
                }
                if self.kept.len() >= self.limits.states {
                    return Ok(false);
                }
            }
            layer = layer.end..self.kept.len();
            self.depth += usize::from(!layer.is_empty());
        }
        Ok(true)
    }

    /// Keeps a state, unless a kept state allows everything that it allows.
    fn keep(&mut self, state: State, parent: usize, step: Step) {
        let nodes = state.nodes as usize;
        if self.maximal.len() <= nodes {
            self.maximal.resize_with(nodes + 1, Vec::new);
        }
        let others = &mut self.maximal[nodes];
        let network = |id: &u32| &self.kept[*id as usize].state.network;
        if others.iter().any(|id| state.network.is_subset(network(id))) {
            return;
        }
        others.retain(|id| {
            let other = &mut self.kept[*id as usize];
            other.maximal = !other.state.network.is_subset(&state.network);
            other.maximal
        });
        others.push(u32::try_from(self.kept.len()).unwrap_or(u32::MAX));
        let parent = u32::try_from(parent).unwrap_or(u32::MAX);
        self.kept.push(Kept { state, parent, step, maximal: true });
    }

    fn finding(&self, violation: Violation, from: usize, last: Step) -> Finding {
        let mut steps = vec![last];
        let mut at = from;
        while at != 0 {
            let Kept { parent, step, .. } = self.kept[at];
            steps.push(step);
            at = parent as usize;
        }
        steps.reverse();
        Finding { violation, steps }
    }
}
