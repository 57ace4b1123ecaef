//! A group at its sender, over a node of a simulated world.
//!
//! It does what [`Drive`](crate::group::drive::Drive) does, without tasks and sockets. The verdicts, the choice of
//! members, their load, and what an outcome means are those of the library. A mistake in `Drive` itself shows only in the tests
//! of real nodes.

use core::time::Duration;
use std::collections::BTreeSet;

use exonet_proto::node::{Confirm, Early, MessageKey, Outcome, Outgoing, SendError};
use exonet_proto::{Mono, NodeId};
use exonet_sim::{NodeIndex, World};

use crate::group::ballot::{Act, Ballot, End, Verdict, Why};
use crate::group::board::{MemberState, judge};
use crate::group::choice::Choice;
use crate::group::drive::Plan;
use crate::group::load::{Ended, Path, PeakEwma};
use crate::group::{Mind, Mode, PATIENCE};
use crate::send::receipts::Settled;

/// The copy of one member.
pub(super) struct Copy {
    pub(super) to: NodeIndex,
    id: NodeId,
    hold: Hold,
    since: Mono,
    overdue: Option<Mono>,
    pub(super) withdrawn: bool,
    /// Whether the member has left the group.
    removed: bool,
    pub(super) state: MemberState,
    /// The number of the copy in the ledger, once the node has accepted it.
    pub(super) number: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    No,
    /// It waits for room in the queue to the member.
    Entering,
    Open(MessageKey),
    Ended,
}

/// A message to the group.
pub(super) struct Sent {
    pub(super) mode: Mode,
    plan: Plan,
    ballot: Ballot,
    pub(super) confirm: Confirm,
    size: usize,
    deadline: Option<Mono>,
    /// Whether the deadline has passed, as far as the ballot knows.
    expired: bool,
    pub(super) cancelled: bool,
    pub(super) copies: Vec<Copy>,
    pub(super) verdict: Option<Verdict>,
}

impl Sent {
    /// K and P, as the page on groups gives them for the mode.
    pub(super) fn sizes(&self) -> (usize, usize) {
        let n = self.copies.len();
        match self.mode {
            Mode::All => (n, n),
            Mode::Any => (n, 1),
            Mode::Quorum { send, acks } => (send, acks),
            Mode::Balanced { k } => (k, k),
        }
    }

    /// The number of copies that ended good, that are open, and that ended in doubt.
    fn counts(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for copy in &self.copies {
            match (&copy.hold, &copy.state) {
                (Hold::Open(_) | Hold::Entering, _) => counts[1] += 1,
                (Hold::Ended, MemberState::Settled(settled)) => match judge(&settled.outcome, self.confirm) {
                    End::Good => counts[0] += 1,
                    End::Doubtful => counts[2] += 1,
                    End::Never => {}
                },
                _ => {}
            }
        }
        counts
    }

    /// The largest number of members at which the message may still count as good.
    fn possible(&self) -> usize {
        let ([good, open, doubtful], (k, _)) = (self.counts(), self.sizes());
        let replaces = matches!(self.mode, Mode::Quorum { .. } | Mode::Balanced { .. }) && !self.cancelled;
        let is_spare = |copy: &&Copy| copy.hold == Hold::No && !copy.removed;
        let spares = self.copies.iter().filter(is_spare).count();
        good + open + if replaces { spares.min(k - good - open - doubtful) } else { 0 }
    }

    /// Checks a verdict at the time when it is told.
    fn check(&self, now: Mono, verdict: Verdict) {
        let ([good, ..], (_, p)) = (self.counts(), self.sizes());
        assert_eq!(self.verdict, None, "a verdict is told once");
        match verdict {
            Verdict::Reached { good: told } => assert!(told == good && good >= p, "{told} {good} of {p}"),
            Verdict::Failed { good: told, need, why } => {
                assert!(told == good && need == p && good < p, "{told} {good} of {need} {p}");
                match why {
                    Why::TooFew => {
                        assert!(self.possible() < p, "{} of {p} may still have it", self.possible());
                    }
                    Why::Deadline => {
                        // A node notices a deadline before the task of the group does.
                        assert!(self.deadline.is_some_and(|at| at <= now), "the deadline has not passed");
                    }
                }
            }
        }
    }

    /// Checks that the group has done and told everything that is due by now.
    fn check_at_rest(&self, now: Mono) {
        let ([good, open, doubtful], (k, p)) = (self.counts(), self.sizes());
        assert!(good + open + doubtful <= k, "more than {k} members may have it");
        if self.verdict.is_none() {
            assert!(good < p, "it is reached, and that was not told");
            assert!(self.possible() >= p, "it cannot be reached, and that was not told");
            assert!(
                self.deadline.is_none_or(|at| now < at),
                "the deadline has passed, and that was not told"
            );
        }
        if self.mode != Mode::All && self.verdict.is_some_and(|verdict| verdict.is_reached()) {
            let surplus = |copy: &Copy| !copy.withdrawn && matches!(copy.hold, Hold::Open(_));
            assert!(!self.copies.iter().any(surplus), "a surplus copy was not withdrawn");
        }
        let open_by_ballot = !self.ballot.is_over();
        assert_eq!(open_by_ballot, open > 0, "the ballot knows which copies are open");
    }
}

/// A group at its sender.
pub(super) struct Crew {
    pub(super) sender: NodeIndex,
    pub(super) members: Vec<NodeIndex>,
    mind: Mind,
    made: Mono,
    /// The messages under way.
    pub(super) open: Vec<Sent>,
    /// The messages that have ended at every member, and those whose sender died.
    pub(super) over: Vec<Sent>,
    /// The members to which copies were sent, in this order.
    pub(super) log: Vec<NodeIndex>,
}

impl Crew {
    pub(super) fn new(world: &World, sender: NodeIndex, members: Vec<NodeIndex>, seed: u64) -> Self {
        let (made, mind) = (world.now(), mind(seed));
        Self { sender, members, mind, made, open: Vec::new(), over: Vec::new(), log: Vec::new() }
    }

    /// Sends a message to the current members. Returns whether the mode is possible with them.
    pub(super) fn send(
        &mut self,
        world: &mut World,
        mode: Mode,
        size: usize,
        confirm: Confirm,
        deadline: Option<Duration>,
    ) -> bool {
        let Ok(plan) = mode.plan(self.members.len(), PATIENCE) else { return false };
        let (since, ids) = (world.now(), self.ids(world));
        let order = if plan.rule.replace {
            let node = world.node(self.sender).unwrap();
            let path = |id: &NodeId| Path::of(node, id);
            self.mind.cheapest(since.since(self.made), plan.rule.send, ids.len(), |at| ids.get(at), path)
        } else {
            self.mind.choice.rotate(ids.len())
        };
        let copy = |at: usize| Copy {
            to: self.members[at],
            id: ids[at],
            hold: Hold::No,
            since,
            overdue: None,
            withdrawn: false,
            removed: false,
            state: MemberState::Spare,
            number: None,
        };
        let copies: Vec<_> = order.iter().map(copy).collect();
        assert_eq!(copies.iter().map(|copy| copy.id).collect::<BTreeSet<_>>().len(), ids.len());
        let (ballot, deadline) = (Ballot::new(plan.rule, copies.len()), deadline.map(|after| since + after));
        let (expired, cancelled, verdict) = (false, false, None);
        let mut sent =
            Sent { mode, plan, ballot, confirm, size, deadline, expired, cancelled, copies, verdict };
        self.act(world, &mut sent);
        sent.check_at_rest(world.now());
        self.open.push(sent);
        true
    }

    fn ids(&self, world: &World) -> Vec<NodeId> {
        self.members.iter().map(|member| world.id(*member).unwrap()).collect()
    }

    /// Lets the world run for `span`, and notices every millisecond what has happened.
    pub(super) fn run_for(&mut self, world: &mut World, span: Duration) {
        let until = world.now() + span;
        while world.now() < until {
            world.run_for(until.since(world.now()).min(Duration::from_millis(1)));
            self.poll(world);
        }
    }

    fn each(&mut self, world: &mut World, mut what: impl FnMut(&mut Self, &mut World, &mut Sent)) {
        for mut sent in core::mem::take(&mut self.open) {
            what(self, world, &mut sent);
            if sent.ballot.is_over() { self.over.push(sent) } else { self.open.push(sent) }
        }
    }

    /// Notices the ends of copies, and what time it is.
    pub(super) fn poll(&mut self, world: &mut World) {
        self.each(world, |crew, world, sent| {
            for member in 0..sent.copies.len() {
                crew.look(world, sent, member);
            }
            if sent.deadline.is_some_and(|at| at <= world.now()) {
                crew.expire(world, sent);
            }
            for member in 0..sent.copies.len() {
                if sent.copies[member].overdue.take_if(|at| *at <= world.now()).is_some() {
                    sent.ballot.overdue(member);
                    crew.act(world, sent);
                }
            }
            sent.check_at_rest(world.now());
        });
    }

    fn look(&mut self, world: &mut World, sent: &mut Sent, member: usize) {
        if sent.copies[member].hold == Hold::Entering {
            self.enter(world, sent, member);
        }
        let copy = &sent.copies[member];
        if let (Hold::Open(_), Some(number)) = (copy.hold, copy.number)
            && let Some(outcome) = world.ledger.outcome_of(number)
        {
            self.ended(world, sent, member, outcome);
        }
    }

    fn act(&mut self, world: &mut World, sent: &mut Sent) {
        while let Some(act) = sent.ballot.next_act() {
            match act {
                Act::Send(member) => {
                    let copy = &mut sent.copies[member];
                    assert_eq!((copy.hold, copy.removed), (Hold::No, false), "sent once, and to a member");
                    assert!(sent.verdict.is_none() && !sent.cancelled, "nothing is sent after the end");
                    let now = world.now();
                    (copy.hold, copy.since, copy.state) = (Hold::Entering, now, MemberState::Queued);
                    let path = Path::of(world.node(self.sender).unwrap(), &copy.id);
                    copy.overdue = sent.plan.overdue_after(path.rtt).map(|after| now + after);
                    self.mind.sent(now.since(self.made), copy.id);
                    self.log.push(copy.to);
                    self.enter(world, sent, member);
                }
                Act::Withdraw(member) => self.withdraw(world, sent, member),
                Act::Decide(verdict) => {
                    sent.check(world.now(), verdict);
                    sent.verdict = Some(verdict);
                }
            }
        }
    }

    /// Puts a copy into the queue to its member.
    fn enter(&mut self, world: &mut World, sent: &mut Sent, member: usize) {
        let copy = &mut sent.copies[member];
        let early = if sent.plan.patience.is_some() { Early::No } else { Early::AsNode };
        let (deadline, confirm) = (sent.deadline, sent.confirm);
        let message = Outgoing { deadline, confirm, early, ..Outgoing::default() };
        match world.send_as(self.sender, copy.to, sent.size, message) {
            Ok((number, key)) => (copy.number, copy.hold) = (Some(number), Hold::Open(key)),
            Err(SendError::Full) if sent.plan.waits => {}
            Err(error) => {
                let (state, end) = MemberState::refused(error.into());
                self.end(world, sent, member, state, end, Ended::Bad);
            }
        }
    }

    fn withdraw(&mut self, world: &mut World, sent: &mut Sent, member: usize) {
        let copy = &mut sent.copies[member];
        copy.withdrawn = true;
        match copy.hold {
            Hold::No | Hold::Ended => {}
            Hold::Entering => self.ended(world, sent, member, Outcome::Cancelled),
            Hold::Open(key) => drop(world.cancel(self.sender, key)),
        }
    }

    fn ended(&mut self, world: &mut World, sent: &mut Sent, member: usize, outcome: Outcome) {
        if outcome == Outcome::Expired && sent.deadline.is_some() {
            self.expire(world, sent);
        }
        let end = judge(&outcome, sent.confirm);
        let how = Ended::of(end, outcome, sent.copies[member].withdrawn);
        let state = MemberState::Settled(Settled::without_id(outcome));
        self.end(world, sent, member, state, end, how);
    }

    fn end(
        &mut self,
        world: &mut World,
        sent: &mut Sent,
        member: usize,
        state: MemberState,
        end: End,
        how: Ended,
    ) {
        let (copy, now) = (&mut sent.copies[member], world.now());
        if copy.hold == Hold::Ended {
            return;
        }
        (copy.hold, copy.state, copy.overdue) = (Hold::Ended, state, None);
        self.mind.load.ended(now.since(self.made), &copy.id, now.since(copy.since), how);
        sent.ballot.ended(member, end);
        self.act(world, sent);
    }

    fn expire(&mut self, world: &mut World, sent: &mut Sent) {
        if core::mem::replace(&mut sent.expired, true) {
            return;
        }
        sent.ballot.deadline();
        self.act(world, sent);
        for member in 0..sent.copies.len() {
            if sent.copies[member].hold == Hold::Entering {
                self.ended(world, sent, member, Outcome::Expired);
            }
        }
    }

    // ---- what the application wants

    /// Cancels the `nth` message under way. With `abandon`, gives up its copies too.
    pub(super) fn cancel(&mut self, world: &mut World, nth: usize, abandon: bool) {
        let mut at = 0;
        self.each(world, |crew, world, sent| {
            at += 1;
            if at != nth + 1 {
                return;
            }
            sent.cancelled = true;
            sent.ballot.cancel();
            crew.act(world, sent);
            for member in 0..sent.copies.len() {
                match sent.copies[member].hold {
                    Hold::Entering if abandon => crew.ended(world, sent, member, Outcome::Cancelled),
                    Hold::Open(key) if abandon => world.abandon(crew.sender, key),
                    _ => {}
                }
                crew.look(world, sent, member);
            }
        });
    }

    /// Removes a member from the group.
    pub(super) fn remove(&mut self, world: &mut World, member: NodeIndex, now: bool) {
        self.members.retain(|other| *other != member);
        self.mind.removed(&world.id(member).unwrap());
        self.each(world, |crew, world, sent| {
            if let Some(at) = sent.copies.iter().position(|copy| copy.to == member) {
                sent.copies[at].removed = true;
                sent.ballot.removed(at, now);
                crew.act(world, sent);
            }
        });
    }

    /// The sender's process has died, and the next one makes the group again. No verdict is told any more.
    pub(super) fn died(&mut self, world: &World, seed: u64) {
        self.over.append(&mut self.open);
        (self.mind, self.made) = (mind(seed), world.now());
    }

    /// Whether any message under way has no verdict.
    pub(super) fn is_undecided(&self) -> bool {
        self.open.iter().any(|sent| sent.verdict.is_none())
    }
}

fn mind(seed: u64) -> Mind {
    Mind { load: Box::new(PeakEwma::default()), choice: Choice::new(seed) }
}
