//! How a group chooses members. The caller passes in time, randomness and what is known of members.

use core::time::Duration;
use std::collections::BTreeMap;

use exonet_proto::NodeId;

/// Once in this many choices, the group chooses a member that it has not used for [`IDLE`], if there is one: nothing
/// else would show that a slow member is fast again.
const PROBE_EVERY: u64 = 32;

/// See [`PROBE_EVERY`].
const IDLE: Duration = Duration::from_secs(1);

/// What a group remembers of its choices.
#[derive(Debug)]
pub(super) struct Choice {
    random: u64,
    made: u64,
    used: BTreeMap<NodeId, Duration>,
}

impl Choice {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: seed, made: 0, used: BTreeMap::new() }
    }

    /// Returns all members in the order of sending. Each order begins with another member, so that no member is
    /// always the last when all get the message.
    pub(super) fn rotate(&mut self, members: usize) -> Vec<usize> {
        let first = usize::try_from(self.made % members.max(1) as u64).unwrap_or(0);
        self.made = self.made.wrapping_add(1);
        (first..members).chain(0..first).collect()
    }

    /// Returns all members, with the `k` to send to in front. Those are the cheapest of `2 k` members drawn at
    /// random, so that many senders do not all choose the same member. The rest are spares, in the order in which
    /// they take a place.
    pub(super) fn cheapest(
        &mut self,
        now: Duration,
        k: usize,
        members: &[NodeId],
        mut cost: impl FnMut(usize) -> f64,
    ) -> Vec<usize> {
        let mut order: Vec<usize> = (0..members.len()).collect();
        // Draws members at random: the first `2 k` places.
        for at in 0..members.len() {
            let other = at + self.below(members.len() - at);
            order.swap(at, other);
        }
        let drawn = k.saturating_mul(2).min(order.len());
        let (candidates, _) = order.split_at_mut(drawn);
        let mut priced: Vec<(f64, usize)> = candidates.iter().map(|at| (cost(*at), *at)).collect();
        priced.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        candidates.iter_mut().zip(priced).for_each(|(place, (_, at))| *place = at);
        if self.made % PROBE_EVERY == PROBE_EVERY - 1 {
            self.probe(now, members, &mut order);
        }
        self.made = self.made.wrapping_add(1);
        order
    }

    /// Notes that a message was sent to a member.
    pub(super) fn used(&mut self, now: Duration, member: NodeId) {
        self.used.insert(member, now);
    }

    pub(super) fn removed(&mut self, member: &NodeId) {
        self.used.remove(member);
    }

    /// Moves a member that was not used for long to the front.
    fn probe(&self, now: Duration, members: &[NodeId], order: &mut [usize]) {
        let last = |at: &usize| members.get(*at).and_then(|id| self.used.get(id)).copied();
        let idle = |at: &usize| last(at).is_none_or(|used| now.saturating_sub(used) >= IDLE);
        let longest = order.iter().enumerate().filter(|(_, at)| idle(at)).min_by_key(|(_, at)| last(at));
        if let Some((place, _)) = longest
            && let Some(front) = order.get_mut(..=place)
        {
            front.rotate_right(1);
        }
    }

    /// A random number below `n`; 0 if `n` is 0.
    fn below(&mut self, n: usize) -> usize {
        // SplitMix64.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        usize::try_from(z % (n.max(1) as u64)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids(n: u8) -> Vec<NodeId> {
        (0..n).map(|i| NodeId([i; 32])).collect()
    }

    #[test]
    fn each_is_first_in_turn() {
        let mut choice = Choice::new(1);
        assert_eq!(choice.rotate(3), [0, 1, 2]);
        assert_eq!(choice.rotate(3), [1, 2, 0]);
        assert_eq!(choice.rotate(3), [2, 0, 1]);
        assert!(choice.rotate(0).is_empty());
    }

    #[test]
    fn one_that_was_not_used_is_tried_every_32nd_time() {
        let (members, mut choice) = (ids(2), Choice::new(7));
        let dear = |at: usize| if at == 1 { 100.0 } else { 1.0 };
        let mut first = Vec::new();
        for round in 0..96_u64 {
            let now = Duration::from_millis(round * 100);
            let order = choice.cheapest(now, 1, &members, dear);
            choice.used(now, members[order[0]]);
            first.push(order[0]);
        }
        let probes: Vec<_> = first.iter().enumerate().filter(|(_, at)| **at == 1).map(|(n, _)| n).collect();
        assert_eq!(probes, [31, 63, 95]);
        let mut choice = Choice::new(7);
        members.iter().for_each(|member| choice.used(Duration::ZERO, *member));
        let soon = Duration::from_millis(999);
        assert!((0..64).all(|_| choice.cheapest(soon, 1, &members, dear)[0] == 0), "all were just used");
    }

    proptest! {
        #[test]
        fn the_best_of_twice_as_many_are_chosen(
            seed: u64, n in 1_u8..20, k in 1_usize..20, costs in proptest::collection::vec(0_u32..50, 20),
        ) {
            let (members, mut choice) = (ids(n), Choice::new(seed));
            let k = k.min(members.len());
            let mut asked = Vec::new();
            let order = choice.cheapest(Duration::ZERO, k, &members, |at| {
                asked.push(at);
                f64::from(costs[at])
            });
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..members.len()).collect::<Vec<_>>(), "each member once");
            prop_assert_eq!(asked.len(), (2 * k).min(members.len()));
            prop_assert!(order[..asked.len()].is_sorted_by_key(|at| costs[*at]));
            asked.sort_unstable();
            let mut candidates = order[..asked.len()].to_vec();
            candidates.sort_unstable();
            prop_assert_eq!(candidates, asked);
        }
    }
}
