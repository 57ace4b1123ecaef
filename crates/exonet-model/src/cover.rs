//! A fast search that covers every possible run, and some impossible ones. If it finds no violation, there is none.
//!
//! For every state of the nodes the search keeps **one** network: the union of all networks with which the state was reached.
//! So a datagram may arrive that was sent on another path to the same state. If the search finds a violation, it walks the
//! path again with the real network. If the violation does not occur there, the search begins again, and tells states apart by
//! the tokens that were sent, and then also by the STATEs.

use std::collections::{HashMap, VecDeque};

use crate::bits::Bits;
use crate::explore::{Explored, Finding, Limits, Progress, explore};
use crate::fingerprint::Build;
use crate::space::{Space, State};
use crate::step::Step;
use crate::violation::Violation;

/// The features by which states of the network are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Apart {
    /// Nothing.
    Nothing,
    /// Which tokens were sent.
    Tokens,
    /// Which tokens and STATEs were sent.
    TokensAndStates,
}

struct Cover<'a> {
    space: &'a mut Space,
    apart: Apart,
    covered: Vec<Covered>,
    /// The place of a state of the nodes, with what is told apart.
    places: HashMap<(u32, Bits), usize, Build>,
    waiting: VecDeque<usize>,
    transitions: u64,
    depth: usize,
}

/// A state of the nodes, with all that the network may hold, and how it was first reached.
struct Covered {
    state: State,
    parent: usize,
    step: Step,
    depth: usize,
    /// The search has to follow the state, perhaps again.
    waits: bool,
}

/// Covers `space` from its beginning. If that does not decide, explores it.
pub fn search(space: &mut Space, limits: Limits, progress: Progress<'_>) -> Explored {
    let covered = cover(space, limits, progress);
    covered.unwrap_or_else(|| explore(space, limits, progress))
}

/// Covers `space` from its beginning, and tells more states apart as long as the violations found cannot happen. Calls
/// `progress` now and then with the depth and the number of covered states. None: only a full search can decide.
fn cover(space: &mut Space, limits: Limits, progress: Progress<'_>) -> Option<Explored> {
    for apart in [Apart::Nothing, Apart::Tokens, Apart::TokensAndStates] {
        let (covered, places, waiting) = (Vec::new(), HashMap::default(), VecDeque::new());
        let mut search = Cover { space, apart, covered, places, waiting, transitions: 0, depth: 0 };
        let ended = search.run(limits, progress);
        let Cover { covered, transitions, depth, .. } = search;
        let seen = Explored {
            states: covered.len(),
            nodes: space.nodes(),
            rests: space.rests,
            transitions,
            depth,
            datagrams: space.datagrams(),
            complete: matches!(ended, Ok(true)) && !space.is_full(),
            finding: None,
        };
        match ended {
            Ok(_) => return Some(seen),
            Err(finding) if happens(space, &finding) => {
                return Some(Explored { finding: Some(finding), ..seen });
            }
            Err(_) => {}
        }
    }
    None
}

/// Whether the path to a violation can be walked.
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
    fn run(&mut self, limits: Limits, progress: Progress<'_>) -> Result<bool, Finding> {
        let first = self.space.initial();
        let first = first.map_err(|violation| Finding { violation, steps: Vec::new() })?;
        self.reach(first, 0, Step::Reserve(0), 0);
        let mut steps = Vec::new();
        while let Some(place) = self.waiting.pop_front() {
            let Covered { state, depth, .. } = self.covered[place];
            self.covered[place].waits = false;
            if depth > self.depth {
                self.depth = depth;
                progress(depth, self.covered.len());
            }
            self.space.steps(&state, &mut steps);
            for (step, reached) in steps.drain(..) {
                self.transitions += 1;
                let settled = reached.and_then(|reached| self.space.settle(reached));
                let settled = settled.map_err(|violation| self.finding(violation, place, step))?;
                self.reach(settled, place, step, depth + 1);
            }
            if self.covered.len() >= limits.states {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn reach(&mut self, state: State, parent: usize, step: Step, depth: usize) {
        let key = match self.apart {
            Apart::Nothing => Bits::default(),
            Apart::Tokens => state.network.common(self.space.tokens()),
            Apart::TokensAndStates => state.network.without(self.space.asks()),
        };
        let next = self.covered.len();
        let place = *self.places.entry((state.nodes, key)).or_insert(next);
        if place == next {
            self.covered.push(Covered { state, parent, step, depth, waits: true });
            self.waiting.push_back(place);
            return;
        }
        let covered = &mut self.covered[place];
        if !state.network.is_subset(&covered.state.network) {
            covered.state.network = covered.state.network.union(&state.network);
            if !covered.waits {
                covered.waits = true;
                self.waiting.push_back(place);
            }
        }
    }

    fn finding(&self, violation: Violation, from: usize, last: Step) -> Finding {
        let mut steps = vec![last];
        let mut at = from;
        while at != 0 {
            let Covered { parent, step, .. } = &self.covered[at];
            steps.push(*step);
            at = *parent;
        }
        steps.reverse();
        Finding { violation, steps }
    }
}
