//! Random walks, for spaces that are too large to be searched.

use crate::explore::Finding;
use crate::space::{Space, State};
use crate::step::Step;
use crate::violation::Violation;

/// The figures of random walks, and the violation that they found.
#[derive(Clone, Debug)]
pub struct Walked {
    /// Steps taken.
    pub steps: u64,
    /// Walks.
    pub walks: u64,
    /// The first violation, and the way there.
    pub finding: Option<Finding>,
}

/// SplitMix64: the walks follow from the seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % (n.max(1) as u64)) as usize
    }
}

/// A step, and the state after it.
type Taken = (Step, Result<State, Violation>);

/// The steps of one walk. After them all has to come to rest.
const LENGTH: usize = 120;

/// Walks `steps` steps in all. Every state is checked, and from the end of each walk all has to come to rest.
pub fn walk(space: &mut Space, seed: u64, steps: u64) -> Walked {
    let mut random = Random(seed);
    let mut walked = Walked { steps: 0, walks: 0, finding: None };
    while walked.steps < steps && walked.finding.is_none() {
        // Every walk has its own datagrams, so that there are numbers for all.
        *space = Space::new(space.config.clone(), 0);
        let mut taken = Vec::new();
        let end = one(space, &mut random, &mut taken);
        walked.steps += taken.len() as u64;
        walked.walks += 1;
        walked.finding = end.err().map(|violation| Finding { violation, steps: taken });
    }
    walked
}

fn one(space: &mut Space, random: &mut Random, taken: &mut Vec<Step>) -> Result<(), Violation> {
    let mut state = space.initial()?;
    let mut steps = Vec::new();
    while taken.len() < LENGTH && !space.is_full() {
        space.steps(&state, &mut steps);
        let Some((step, reached)) = pick(&mut steps, random) else { break };
        steps.clear();
        taken.push(step);
        state = space.settle(reached?)?;
    }
    space.world(&state).come_to_rest(&space.config)
}

/// Picks the next step at random. It prefers steps that are no arrivals, because there are fewer of them. Among arrivals, it prefers
/// the latest.
fn pick(steps: &mut Vec<Taken>, random: &mut Random) -> Option<Taken> {
    let own = steps.iter().take_while(|(step, _)| !matches!(step, Step::Hear { .. })).count();
    let heard = steps.len() - own;
    let late = random.below(3) > 0;
    let at = match random.below(5) {
        0 | 1 if own > 0 => random.below(own),
        _ if heard > 0 && late => steps.len() - 1 - random.below(heard.min(6)),
        _ => random.below(steps.len()),
    };
    (at < steps.len()).then(|| steps.swap_remove(at))
}

/// The fingerprint of where steps lead: the same in every run.
#[cfg(test)]
fn end_of(space: &mut Space, seed: u64) -> u128 {
    let mut taken = Vec::new();
    let ended = one(space, &mut Random(seed), &mut taken);
    crate::fingerprint::fingerprint(&(format!("{taken:?}"), ended.is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::configs;
    use crate::config::Bound;

    #[test]
    fn a_walk_follows_from_its_seed() {
        for config in configs(Bound::Quick) {
            let ends = [1, 1, 2].map(|seed| end_of(&mut Space::new(config.clone(), 0), seed));
            assert!(ends[0] == ends[1] && ends[0] != ends[2]);
        }
    }
}
