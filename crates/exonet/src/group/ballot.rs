//! Decides the verdict on a message to a group from the ends of its copies.
//!
//! A ballot has no clock, no randomness and no I/O. Members have numbers, in the order in which they were chosen. The
//! caller tells the ballot what happens, and does what the ballot wants. The tests go through every order of events
//! for four members.

use std::collections::VecDeque;

/// The rule of a message to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// K: the number of members that get the message in the beginning. At least `need`.
    pub(super) send: usize,
    /// P: the number of members at which the message has to arrive. At least 1.
    pub(super) need: usize,
    /// Whether another member takes the place of one that certainly does not have the message.
    pub(super) replace: bool,
    /// Whether the open copies are withdrawn once `need` members have the message.
    pub(super) withdraw: bool,
}

/// The end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The member has the message: delivered or processed, whichever the message asked for.
    Good,
    /// The member has certainly not acted on the message, and never will.
    Never,
    /// The member may have the message.
    Doubtful,
}

/// Why a message to a group has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// Too few members can still confirm the message, and no other member may take the place of one that cannot.
    TooFew,
    /// The deadline of the message has passed.
    Deadline,
}

/// How a message to a group ended. There is exactly one verdict, and it is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// As many members as required have the message.
    Reached {
        /// The number of members that had the message at that time.
        good: usize,
    },
    /// Fewer members than required had the message in time, or enough of them never will. Some members may have it
    /// nevertheless, and others may still get it: see the lines of the members.
    Failed {
        /// The number of members that had the message at that time.
        good: usize,
        /// The required number.
        need: usize,
        /// Why the message failed.
        why: Why,
    },
}

impl Verdict {
    /// Whether this is [`Self::Reached`].
    pub const fn is_reached(&self) -> bool {
        matches!(self, Self::Reached { .. })
    }
}

/// An action that a ballot wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Send a copy to the member.
    Send(usize),
    /// Withdraw the member's copy. Once that is certain, call [`Ballot::ended`] with [`End::Never`].
    Withdraw(usize),
    /// Report the verdict. Happens once.
    Decide(Verdict),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Place {
    Spare,
    /// A spare that left the group before it got a place.
    Gone,
    Open,
    Ended,
}

/// One message to a group.
#[derive(Clone, Debug)]
pub(super) struct Ballot {
    rule: Rule,
    places: Vec<Place>,
    /// All places from here on are spares. A place that is no spare never becomes one again.
    spares_from: usize,
    good: usize,
    open: usize,
    verdict: Option<Verdict>,
    acts: VecDeque<Act>,
}

impl Ballot {
    /// Makes the ballot of a message to `members` members. The first `rule.send` of them get it.
    pub(super) fn new(rule: Rule, members: usize) -> Self {
        let places = vec![Place::Spare; members];
        let acts = VecDeque::with_capacity(rule.send.min(members));
        let mut ballot = Self { rule, places, spares_from: 0, good: 0, open: 0, verdict: None, acts };
        for _ in 0..rule.send {
            ballot.choose_next();
        }
        ballot.judge();
        ballot
    }

    #[cfg(test)]
    const fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }

    /// Returns the next action; None if there is nothing to do before something else happens.
    pub(super) fn next_act(&mut self) -> Option<Act> {
        self.acts.pop_front()
    }

    /// Whether no copy is open. A copy is open from the time its member is chosen until it ends.
    pub(super) const fn is_over(&self) -> bool {
        self.open == 0
    }

    /// Notes that the copy of a member has ended.
    pub(super) fn ended(&mut self, member: usize, end: End) {
        match self.places.get_mut(member) {
            Some(place @ Place::Open) => *place = Place::Ended,
            _ => return,
        }
        self.open -= 1;
        match end {
            End::Good => self.good += 1,
            // Not after the verdict: more members than asked for might then have the message.
            End::Never if self.rule.replace && self.verdict.is_none() => self.choose_next(),
            End::Never | End::Doubtful => {}
        }
        self.judge();
    }

    /// Notes that a member's copy takes longer than it would elsewhere. If there is a spare, the copy is withdrawn;
    /// if not, the ballot waits for this member.
    pub(super) fn overdue(&mut self, member: usize) {
        let open = self.places.get(member) == Some(&Place::Open);
        if open && self.rule.replace && self.verdict.is_none() && self.places.contains(&Place::Spare) {
            self.acts.push_back(Act::Withdraw(member));
        }
    }

    /// Notes that a member has left the group. A copy that was sent to it goes on, unless `now` asks to withdraw it.
    pub(super) fn removed(&mut self, member: usize, now: bool) {
        match self.places.get_mut(member) {
            Some(place @ Place::Spare) => *place = Place::Gone,
            Some(Place::Open) if now => self.acts.push_back(Act::Withdraw(member)),
            _ => {}
        }
    }

    /// Notes that the application cancels the message: every copy is withdrawn, and no other is sent.
    pub(super) fn cancel(&mut self) {
        self.places.iter_mut().filter(|place| **place == Place::Spare).for_each(|place| *place = Place::Gone);
        self.withdraw_open();
    }

    /// Notes that the deadline has passed.
    pub(super) fn deadline(&mut self) {
        if self.verdict.is_none() {
            self.fail(Why::Deadline);
        }
    }

    fn choose_next(&mut self) {
        let mut places = self.places.iter_mut().enumerate().skip(self.spares_from);
        let spare = places.find(|(_, place)| **place == Place::Spare);
        self.spares_from = spare.as_ref().map_or(usize::MAX, |(member, _)| member + 1);
        if let Some((member, place)) = spare {
            *place = Place::Open;
            self.open += 1;
            self.acts.push_back(Act::Send(member));
        }
    }

    /// A spare takes a place in the same step in which the place becomes empty. So only members that have a copy, or
    /// will get one, can still confirm.
    fn judge(&mut self) {
        if self.verdict.is_some() {
            return;
        }
        if self.good >= self.rule.need {
            self.decide(Verdict::Reached { good: self.good });
            if self.rule.withdraw {
                self.withdraw_open();
            }
        } else if self.good + self.open < self.rule.need {
            self.fail(Why::TooFew);
        }
    }

    fn fail(&mut self, why: Why) {
        self.decide(Verdict::Failed { good: self.good, need: self.rule.need, why });
    }

    fn decide(&mut self, verdict: Verdict) {
        self.verdict = Some(verdict);
        self.acts.push_back(Act::Decide(verdict));
    }

    fn withdraw_open(&mut self) {
        let open = self.places.iter().enumerate().filter(|(_, place)| **place == Place::Open);
        self.acts.extend(open.map(|(member, _)| Act::Withdraw(member)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// What surrounds the ballot in the search.
    #[derive(Clone, Default)]
    struct World {
        sent: BTreeSet<usize>,
        open: BTreeSet<usize>,
        good: usize,
        doubtful: usize,
        decided: Option<Verdict>,
        late: bool,
        removed: BTreeSet<usize>,
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        End(usize, End),
        Overdue(usize),
        Removed(usize, bool),
        Deadline,
        Cancel,
    }

    /// Does what the ballot wants. The copies of the members in `left` have left their sender, so they do not end at
    /// once when they are withdrawn.
    fn settle(ballot: &mut Ballot, world: &mut World, rule: Rule, left: u8) {
        while let Some(act) = ballot.next_act() {
            match act {
                Act::Send(member) => {
                    assert!(world.decided.is_none(), "nothing is sent after the verdict");
                    assert!(!world.removed.contains(&member), "nothing is sent to one that has left");
                    assert!(world.sent.insert(member), "no member is sent it twice");
                    assert!(world.open.insert(member));
                    let may_have = world.open.len() + world.good + world.doubtful;
                    assert!(may_have <= rule.send, "more than K members may have it");
                }
                Act::Withdraw(member) if left & (1 << member) == 0 && world.open.remove(&member) => {
                    ballot.ended(member, End::Never);
                }
                Act::Withdraw(_) => {}
                Act::Decide(verdict) => {
                    assert_eq!(world.decided.replace(verdict), None, "told once");
                    assert_eq!(ballot.verdict(), Some(verdict));
                    match verdict {
                        Verdict::Reached { good } => assert!(good == world.good && good >= rule.need),
                        Verdict::Failed { good, why, .. } => {
                            assert!(good == world.good && good < rule.need);
                            assert_eq!(why == Why::Deadline, world.late);
                        }
                    }
                }
            }
        }
        if rule.withdraw && world.decided.is_some_and(|verdict| verdict.is_reached()) {
            assert!(world.open.iter().all(|member| left & (1 << member) != 0), "a surplus copy is open");
        }
        assert!(world.decided.is_some() || world.good < rule.need, "it is told at once");
        assert!(world.decided.is_some() || world.good + world.open.len() >= rule.need, "so is a failure");
    }

    fn apply(ballot: &mut Ballot, world: &mut World, rule: Rule, left: u8, step: Step) {
        match step {
            Step::End(member, end) => {
                if !world.open.remove(&member) {
                    return;
                }
                world.good += usize::from(end == End::Good);
                world.doubtful += usize::from(end == End::Doubtful);
                ballot.ended(member, end);
            }
            Step::Overdue(member) => ballot.overdue(member),
            Step::Removed(member, now) => {
                world.removed.insert(member);
                ballot.removed(member, now);
            }
            Step::Deadline => {
                world.late = true;
                ballot.deadline();
            }
            Step::Cancel => ballot.cancel(),
        }
        settle(ballot, world, rule, left);
    }

    /// Searches every continuation. Returns whether one of them reaches the goal.
    fn search(ballot: &Ballot, world: &World, rule: Rule, left: u8) -> bool {
        let mut reaches = world.decided.is_some_and(|verdict| verdict.is_reached());
        let over = world.decided.is_some();
        if over && world.open.is_empty() {
            return reaches;
        }
        let ends = world
            .open
            .iter()
            .flat_map(|member| [End::Good, End::Never, End::Doubtful].map(|end| Step::End(*member, end)));
        let more = world.open.iter().flat_map(|member| [Step::Overdue(*member)]);
        let late = (!over && !world.late).then_some(Step::Deadline);
        for step in ends.chain(more.filter(|_| !over)).chain(late) {
            let (mut ballot, mut world) = (ballot.clone(), world.clone());
            let before = (world.open.clone(), world.sent.len());
            apply(&mut ballot, &mut world, rule, left, step);
            if before != (world.open.clone(), world.sent.len()) || matches!(step, Step::Deadline) {
                reaches |= search(&ballot, &world, rule, left);
            }
        }
        assert!(over || reaches, "it is decided only when nothing else is possible: {ballot:?}");
        reaches
    }

    fn begin(rule: Rule, members: usize, left: u8) -> (Ballot, World) {
        let (mut ballot, mut world) = (Ballot::new(rule, members), World::default());
        settle(&mut ballot, &mut world, rule, left);
        (ballot, world)
    }

    fn rules(members: usize) -> impl Iterator<Item = Rule> {
        let sizes = (1..=members).flat_map(|send| (1..=send).map(move |need| (send, need)));
        sizes.flat_map(|(send, need)| {
            [(false, false), (false, true), (true, false), (true, true)].map(|(replace, withdraw)| Rule {
                send,
                need,
                replace,
                withdraw,
            })
        })
    }

    #[test]
    fn every_order_of_ends_is_judged_as_it_should_be() {
        for members in 1..=4 {
            for rule in rules(members) {
                // The members whose copies have left their sender before they are withdrawn.
                for left in 0..1_u8 << members {
                    let (ballot, world) = begin(rule, members, left);
                    search(&ballot, &world, rule, left);
                }
            }
        }
    }

    #[test]
    fn one_that_may_have_it_is_never_replaced() {
        let rule = Rule { send: 1, need: 1, replace: true, withdraw: true };
        let (mut ballot, mut world) = begin(rule, 3, 0);
        apply(&mut ballot, &mut world, rule, 0, Step::End(0, End::Doubtful));
        assert_eq!(world.sent.len(), 1);
        assert_eq!(world.decided, Some(Verdict::Failed { good: 0, need: 1, why: Why::TooFew }));
        let (mut ballot, mut world) = begin(rule, 3, 0);
        apply(&mut ballot, &mut world, rule, 0, Step::End(0, End::Never));
        assert_eq!((world.sent.len(), world.decided), (2, None));
    }

    #[test]
    fn the_last_that_may_be_asked_is_waited_for() {
        let rule = Rule { send: 1, need: 1, replace: true, withdraw: true };
        let (mut ballot, mut world) = begin(rule, 2, 0);
        apply(&mut ballot, &mut world, rule, 0, Step::Overdue(0));
        assert!(world.open.contains(&1));
        apply(&mut ballot, &mut world, rule, 0, Step::Overdue(1));
        assert!(world.open.contains(&1) && world.decided.is_none());
    }

    fn any_step(members: usize) -> impl Strategy<Value = Step> {
        let end = prop_oneof![Just(End::Good), Just(End::Never), Just(End::Doubtful)];
        prop_oneof![
            6 => (0..members, end).prop_map(|(member, end)| Step::End(member, end)),
            1 => (0..members).prop_map(Step::Overdue),
            1 => (0..members, any::<bool>()).prop_map(|(member, now)| Step::Removed(member, now)),
            1 => Just(Step::Deadline),
            1 => Just(Step::Cancel),
        ]
    }

    proptest! {
        #[test]
        fn whatever_happens_the_invariants_hold(
            (members, send, need) in (1_usize..8).prop_flat_map(|n| (Just(n), 1..=n))
                .prop_flat_map(|(n, k)| (Just(n), Just(k), 1..=k)),
            replace: bool,
            withdraw: bool,
            left: u8,
            steps in proptest::collection::vec(any_step(8), 0..40),
        ) {
            let rule = Rule { send, need, replace, withdraw };
            let (mut ballot, mut world) = begin(rule, members, left);
            for step in steps {
                apply(&mut ballot, &mut world, rule, left, step);
            }
            for member in 0..members {
                apply(&mut ballot, &mut world, rule, left, Step::End(member, End::Doubtful));
            }
            prop_assert!(world.decided.is_some() && world.open.is_empty(), "it ends when all have ended");
        }
    }
}
