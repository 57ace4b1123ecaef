//! How a group chooses members. The caller passes in time, randomness and what is known of members.

use core::time::Duration;
use std::collections::BTreeMap;

use exonet_proto::NodeId;

/// Once in this many choices, the group chooses a member that it has not used for [`IDLE`], if there is one: nothing
/// else would show that a slow member is fast again.
const PROBE_EVERY: u64 = 32;

/// See [`PROBE_EVERY`].
const IDLE: Duration = Duration::from_secs(1);

/// How many spares are drawn at random beside the members that are compared. Neighbours in the list of members often fail
/// together, so the first spares should not be neighbours.
const SPARES: usize = 16;

/// The order in which a message chooses members. The first places are listed. After them, the other members follow in
/// turn, so that a message to one of many members keeps no list of them all.
#[derive(Debug)]
pub(super) struct Ranking {
    first: Vec<usize>,
    /// The distances of the listed members from `from`, in ascending order.
    listed: Vec<usize>,
    /// The member from which the others are counted, around all `members`.
    from: usize,
    members: usize,
}

impl Ranking {
    fn new(first: Vec<usize>, from: usize, members: usize) -> Self {
        let mut ranking = Self { first, listed: Vec::new(), from, members };
        ranking.listed = ranking.first.iter().map(|member| ranking.distance(*member)).collect();
        ranking.listed.sort_unstable();
        ranking
    }

    const fn distance(&self, member: usize) -> usize {
        if member < self.from { member + self.members - self.from } else { member - self.from }
    }

    /// The member at a place. None: there are fewer members.
    pub(super) fn member_at(&self, place: usize) -> Option<usize> {
        let Some(after) = place.checked_sub(self.first.len()) else { return self.first.get(place).copied() };
        if place >= self.members {
            return None;
        }
        // Passes over the listed members.
        let pass = |distance, listed: &usize| distance + usize::from(*listed <= distance);
        Some(self.member_after(self.listed.iter().fold(after, pass)))
    }

    /// The member at this distance from `from`, which is below `members`.
    const fn member_after(&self, distance: usize) -> usize {
        let to_end = self.members - self.from;
        if distance < to_end { self.from + distance } else { distance - to_end }
    }

    /// The place of a member. It must be one of them.
    pub(super) fn place_of(&self, member: usize) -> usize {
        self.first.iter().position(|listed| *listed == member).unwrap_or_else(|| {
            let distance = self.distance(member);
            self.first.len() + distance - self.listed.partition_point(|listed| *listed < distance)
        })
    }

    /// The members in this order.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        let mut listed = self.listed.iter().peekable();
        let others = (0..self.members).filter(move |distance| listed.next_if_eq(&distance).is_none());
        self.first.iter().copied().chain(others.map(|distance| self.member_after(distance)))
    }
}

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
    pub(super) fn rotate(&mut self, members: usize) -> Ranking {
        let from = usize::try_from(self.made % members.max(1) as u64).unwrap_or(0);
        self.made = self.made.wrapping_add(1);
        Ranking::new(Vec::new(), from, members)
    }

    /// Returns all members, with the `k` to send to in front. Those are the cheapest of `2 k` members drawn at
    /// random, so that many senders do not all choose the same member. The rest are spares, in the order in which
    /// they take a place: the others of those drawn, [`SPARES`] more that are drawn, and then the rest in turn, from a
    /// random one.
    pub(super) fn cheapest<'a>(
        &mut self,
        now: Duration,
        k: usize,
        members: usize,
        id: impl Fn(usize) -> Option<&'a NodeId>,
        mut cost: impl FnMut(usize) -> f64,
    ) -> Ranking {
        let mut all: Vec<usize> = (0..members).collect();
        let compared = k.saturating_mul(2).min(members);
        let drawn = compared.saturating_add(SPARES).min(members);
        for at in 0..drawn {
            let other = at + self.below(members - at);
            all.swap(at, other);
        }
        let mut priced: Vec<(f64, usize)> = all.iter().take(compared).map(|at| (cost(*at), *at)).collect();
        priced.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let spares = all.iter().take(drawn).skip(compared).copied();
        let mut first: Vec<usize> = priced.into_iter().map(|(_, at)| at).chain(spares).collect();
        if self.made % PROBE_EVERY == PROBE_EVERY - 1
            && let Some(probed) = self.to_probe(now, members, id)
        {
            first.retain(|at| *at != probed);
            first.insert(0, probed);
        }
        self.made = self.made.wrapping_add(1);
        Ranking::new(first, self.below(members), members)
    }

    /// Notes that a message was sent to a member.
    pub(super) fn used(&mut self, now: Duration, member: NodeId) {
        self.used.insert(member, now);
    }

    pub(super) fn removed(&mut self, member: &NodeId) {
        self.used.remove(member);
    }

    /// The member that was not used for the longest time, if that is long.
    fn to_probe<'a>(
        &self,
        now: Duration,
        members: usize,
        id: impl Fn(usize) -> Option<&'a NodeId>,
    ) -> Option<usize> {
        let last = |at: &usize| id(*at).and_then(|id| self.used.get(id)).copied();
        let idle = |at: &usize| last(at).is_none_or(|used| now.saturating_sub(used) >= IDLE);
        (0..members).filter(idle).min_by_key(last)
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
        let mut rotate = |members| choice.rotate(members).iter().collect::<Vec<_>>();
        assert_eq!(rotate(3), [0, 1, 2]);
        assert_eq!(rotate(3), [1, 2, 0]);
        assert_eq!(rotate(3), [2, 0, 1]);
        assert!(rotate(0).is_empty());
    }

    #[test]
    fn one_that_was_not_used_is_tried_every_32nd_time() {
        let (members, mut choice) = (ids(2), Choice::new(7));
        let dear = |at: usize| if at == 1 { 100.0 } else { 1.0 };
        let mut first = Vec::new();
        for round in 0..96_u64 {
            let now = Duration::from_millis(round * 100);
            let chosen = choice.cheapest(now, 1, 2, |at| members.get(at), dear).member_at(0).unwrap();
            choice.used(now, members[chosen]);
            first.push(chosen);
        }
        let probes: Vec<_> = first.iter().enumerate().filter(|(_, at)| **at == 1).map(|(n, _)| n).collect();
        assert_eq!(probes, [31, 63, 95]);
        let mut choice = Choice::new(7);
        members.iter().for_each(|member| choice.used(Duration::ZERO, *member));
        let soon = Duration::from_millis(999);
        let mut first = || choice.cheapest(soon, 1, 2, |at| members.get(at), dear).member_at(0);
        assert!((0..64).all(|_| first() == Some(0)), "all were just used");
    }

    /// At equal costs, each member is at each of the first places about as often. The last of these places is behind those
    /// that are drawn.
    #[test]
    fn each_is_as_often_a_spare() {
        let (members, mut choice) = (ids(20), Choice::new(7));
        for place in [1, 2, 18] {
            let mut counts = [0; 20];
            for _ in 0..4_000 {
                let order = choice.cheapest(Duration::ZERO, 1, 20, |at| members.get(at), |_| 0.0);
                counts[order.member_at(place).unwrap()] += 1;
            }
            assert!(counts.iter().all(|count| (100..300).contains(count)), "{place}: {counts:?}");
        }
    }

    proptest! {
        #[test]
        fn the_best_of_twice_as_many_are_chosen(
            seed: u64, n in 1_u8..20, k in 1_usize..20, costs in proptest::collection::vec(0_u32..50, 20),
        ) {
            let (members, mut choice) = (ids(n), Choice::new(seed));
            let k = k.min(members.len());
            let mut asked = Vec::new();
            let order = choice.cheapest(Duration::ZERO, k, members.len(), |at| members.get(at), |at| {
                asked.push(at);
                f64::from(costs[at])
            });
            let all: Vec<_> = order.iter().collect();
            prop_assert_eq!(asked.len(), (2 * k).min(members.len()));
            prop_assert!(all[..asked.len()].is_sorted_by_key(|at| costs[*at]));
            asked.sort_unstable();
            let mut candidates = all[..asked.len()].to_vec();
            candidates.sort_unstable();
            prop_assert_eq!(candidates, asked);
        }

        #[test]
        fn an_order_has_each_member_at_one_place(
            seed: u64, made in 0_u64..64, n in 0_u8..80, k in 0_usize..50, rotates: bool,
        ) {
            let (members, mut choice) = (ids(n), Choice::new(seed));
            choice.made = made;
            let order = if rotates {
                choice.rotate(members.len())
            } else {
                choice.cheapest(IDLE, k, members.len(), |at| members.get(at), |at| at as f64)
            };
            let all: Vec<_> = order.iter().collect();
            for (place, member) in all.iter().enumerate() {
                prop_assert_eq!(order.member_at(place), Some(*member));
                prop_assert_eq!(order.place_of(*member), place);
            }
            prop_assert_eq!(order.member_at(members.len()), None);
            let mut sorted = all;
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..members.len()).collect::<Vec<_>>(), "each member once");
        }
    }
}
