//! A search of everything that can happen, and of a little more: a proof where it finds nothing.
//!
//! For every state of the nodes **one** network is kept, the union of all that it was reached with. So a datagram may
//! arrive that was sent on another way to the same state of the nodes. Whatever can happen, happens here: if nothing
//! is broken, nothing can be broken. If something is, the way there is walked again with the network as it would be;
//! if that fails, nothing is known, and [`crate::explore()`] has to say.

use std::collections::VecDeque;

use crate::bits::Bits;
use crate::explore::{Explored, Finding, Limits};
use crate::space::{Space, State};
use crate::step::Step;
use crate::violation::Violation;

struct Cover<'a> {
    space: &'a mut Space,
    /// For each state of the nodes: what the network may hold, how it was first reached, its depth, and whether it
    /// waits to be followed again.
    covered: Vec<Covered>,
    waiting: VecDeque<u32>,
    transitions: u64,
    depth: usize,
}

#[derive(Clone)]
struct Covered {
    network: Bits,
    parent: u32,
    step: Step,
    depth: usize,
    waits: bool,
}

/// Covers `space` from its beginning. `progress` is told now and then: the depth, and the states of the nodes.
pub fn cover(space: &mut Space, limits: Limits, progress: impl FnMut(usize, usize)) -> Explored {
    let (covered, waiting) = (Vec::new(), VecDeque::new());
    let mut search = Cover { space, covered, waiting, transitions: 0, depth: 0 };
    let ended = search.run(limits, progress);
    let Cover { space, transitions, depth, .. } = search;
    let real = ended.as_ref().is_err_and(|finding| happens(space, finding));
    if let Err(f) = &ended && !real { eprintln!("SPURIOUS {}", crate::report::trace(space, f)); }
    Explored {
        states: space.nodes(),
        nodes: space.nodes(),
        rests: space.rests,
        transitions,
        depth,
        datagrams: space.datagrams(),
        complete: matches!(ended, Ok(true)) && !space.is_full(),
        finding: ended.err().filter(|_| real),
    }
}

/// Whether the way to a violation can be walked.
fn happens(space: &mut Space, finding: &Finding) -> bool {
    let mut state = space.initial();
    let mut steps = Vec::new();
    for step in &finding.steps {
        let Ok(from) = &state else { return false };
        steps.clear();
        space.steps(from, &mut steps);
        let Some((_, reached)) = steps.iter().find(|(other, _)| other == step) else {
            return false;
        };
        state = reached.clone().and_then(|reached| space.settle(reached));
    }
    state.is_err()
}

impl Cover<'_> {
    fn run(&mut self, limits: Limits, mut progress: impl FnMut(usize, usize)) -> Result<bool, Finding> {
        let first = self.space.initial();
        let first = first.map_err(|violation| Finding { violation, steps: Vec::new() })?;
        self.reach(first, 0, Step::Reserve(0), 0);
        let mut steps = Vec::new();
        while let Some(id) = self.waiting.pop_front() {
            let Covered { network, depth, .. } = self.covered[id as usize];
            self.covered[id as usize].waits = false;
            if depth > self.depth {
                self.depth = depth;
                progress(depth, self.space.nodes());
            }
            self.space.steps(&State { nodes: id, network }, &mut steps);
            for (step, reached) in steps.drain(..) {
                self.transitions += 1;
                let settled = reached.and_then(|reached| self.space.settle(reached));
                let settled = settled.map_err(|violation| self.finding(violation, id, step))?;
                self.reach(settled, id, step, depth + 1);
            }
            if self.space.nodes() >= limits.states {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn reach(&mut self, state: State, parent: u32, step: Step, depth: usize) {
        let nodes = state.nodes as usize;
        if self.covered.len() <= nodes {
            let new = Covered { network: Bits::default(), parent, step, depth: usize::MAX, waits: false };
            self.covered.resize(nodes + 1, new);
        }
        let covered = &mut self.covered[nodes];
        let new = covered.depth == usize::MAX;
        if new {
            (covered.parent, covered.step, covered.depth) = (parent, step, depth);
        }
        if new || !state.network.is_subset(&covered.network) {
            covered.network = covered.network.union(&state.network);
            if !covered.waits {
                covered.waits = true;
                self.waiting.push_back(state.nodes);
            }
        }
    }

    fn finding(&self, violation: Violation, from: u32, last: Step) -> Finding {
        let mut steps = vec![last];
        let mut at = from;
        while self.covered[at as usize].depth > 0 {
            let Covered { parent, step, .. } = &self.covered[at as usize];
            steps.push(*step);
            at = *parent;
        }
        steps.reverse();
        Finding { violation, steps }
    }
}
