//! The task of one message to a group: it tells the [`Ballot`] what happens, and does what the ballot wants.

use core::future::Future;
use core::pin::Pin;
use core::task::Poll;
use core::time::Duration;
use std::sync::Arc;

use exonet_proto::node::{Cancel, Outcome, Status};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};

use crate::error::SendError;
use crate::group::ballot::{Act, Ballot, End, Rule, Verdict};
use crate::group::board::{Board, MemberState, Order, judge};
use crate::group::candidates::Candidates;
use crate::group::load::Ended;
use crate::group::ready::{Bell, Ready};
use crate::group::{Common, Remove};
use crate::peer::Target;
use crate::peer_addr::PeerAddr;
use crate::send::message::Message;
use crate::send::receipt::Receipt;
use crate::send::receipts::Settled;
use crate::shared::Shared;

/// How long a member whose round-trip time is not known may keep a copy before another member gets it.
const STRANGER: Duration = Duration::from_secs(1);

/// A future that waits for room in the queue to a member, or for its address.
type Entering = Pin<Box<dyn Future<Output = Result<Receipt, SendError>> + Send>>;

/// The copy of one member.
enum Hold {
    /// No copy was sent.
    No,
    Entering(Entering),
    Open(Receipt),
    Ended,
}

struct Copy {
    to: Arc<PeerAddr>,
    hold: Hold,
    bell: Option<Arc<Bell>>,
    since: Instant,
    /// When another member would probably be faster.
    overdue: Option<Instant>,
    withdrawn: bool,
}

/// How to send a message.
pub(super) struct Plan {
    pub(super) rule: Rule,
    /// Whether the task waits for room in a full queue. If not, it skips a member whose queue is full.
    pub(super) waits: bool,
    /// How long at least a member may keep a copy that has not left before another member gets it. None: no limit.
    pub(super) patience: Option<Duration>,
}

impl Plan {
    /// The time after which a copy to a member with this round-trip time is overdue: the longer of four round trips and the
    /// patience of the group. None: never.
    pub(super) fn overdue_after(&self, rtt: Option<Duration>) -> Option<Duration> {
        let least = self.patience?;
        Some(rtt.map_or(STRANGER, |rtt| rtt.saturating_mul(4)).max(least))
    }
}

pub(super) struct Drive {
    shared: Arc<Shared>,
    common: Arc<Common>,
    message: Message,
    plan: Plan,
    candidates: Arc<Candidates>,
    /// The copies at the places up to the last one that a message was sent to. The other members are spares.
    copies: Vec<Copy>,
    ballot: Ballot,
    board: Arc<Board>,
    ready: Arc<Ready>,
    deadline: Option<Instant>,
    /// Held while a copy waits for room: the number of messages with such copies is limited.
    permit: Option<OwnedSemaphorePermit>,
    acting: bool,
}

impl Drive {
    /// Makes the task of a message to the first of these candidates.
    pub(super) fn new(
        shared: &Arc<Shared>,
        common: &Arc<Common>,
        candidates: Candidates,
        message: Message,
        plan: Plan,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let now = Instant::now();
        let (ready, candidates) = (Arc::default(), Arc::new(candidates));
        let board = Board::of(&candidates, &ready, usize::MAX);
        let ballot = Ballot::new(plan.rule, candidates.len());
        Self {
            shared: Arc::clone(shared),
            common: Arc::clone(common),
            deadline: message.deadline_is().and_then(|deadline| now.checked_add(deadline)),
            message,
            copies: Vec::with_capacity(plan.rule.send.min(candidates.len())),
            plan,
            candidates,
            ballot,
            board,
            ready,
            permit: Some(permit),
            acting: false,
        }
    }

    pub(super) const fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// Queues the copies for which there is room.
    pub(super) fn begin(&mut self) {
        self.act();
        self.settle_permit();
    }

    /// Runs until the message has ended at every member.
    pub(super) async fn run(mut self) {
        loop {
            for order in self.board.take_orders() {
                self.obey(order);
            }
            for member in self.ready.take() {
                self.poll(member);
            }
            self.on_time(Instant::now());
            self.settle_permit();
            if self.ballot.is_over() {
                return;
            }
            let wake = self.wake_at();
            let ring = async {
                match wake {
                    Some(at) => sleep_until(at).await,
                    None => core::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.ready.rung.notified() => {}
                () = ring => {}
            }
        }
    }

    /// Does what the ballot wants. A loop does the actions that follow from others, without recursion, since there
    /// may be many spares.
    fn act(&mut self) {
        if core::mem::replace(&mut self.acting, true) {
            return;
        }
        while let Some(act) = self.ballot.next_act() {
            match act {
                Act::Send(member) => self.send(member),
                Act::Withdraw(member) => self.withdraw(member),
                Act::Decide(verdict) => self.decide(verdict),
            }
        }
        self.acting = false;
    }

    fn decide(&mut self, verdict: Verdict) {
        for (member, copy) in self.copies.iter().enumerate() {
            if let Hold::Open(receipt) = &copy.hold
                && let Status::InDoubt { id, .. } = receipt.status()
            {
                self.board.set(member, MemberState::Bound(id), None);
            }
        }
        tracing::debug!(?verdict, "a message to a group is decided");
        self.board.decide(verdict);
    }

    // ---- one member

    fn send(&mut self, member: usize) {
        let (message, now) = (self.rest_of_message(), Instant::now());
        self.reach(member, now);
        let overdue = self.overdue_at(member, now);
        let Some(copy) = self.copies.get_mut(member) else { return };
        (copy.since, copy.overdue) = (now, overdue);
        self.board.set(member, MemberState::Queued, None);
        self.common.sent(copy.to.id);
        let target = Target { shared: &self.shared, to: &copy.to };
        let hold = match target.try_send(message) {
            Ok(receipt) => Hold::Open(receipt),
            Err(SendError::Full) if self.plan.waits => Hold::Entering(self.enter(member)),
            Err(SendError::NoAddress(_)) if !copy.to.has_no_names() => Hold::Entering(self.enter(member)),
            Err(error) => return self.skip(member, error),
        };
        let bell = Bell::new(member, &self.ready);
        if let Some(copy) = self.copies.get_mut(member) {
            (copy.hold, copy.bell) = (hold, Some(bell));
        }
        self.poll(member);
    }

    /// Makes the copies up to this place, if there are none yet.
    fn reach(&mut self, member: usize, now: Instant) {
        let Self { candidates, copies, .. } = self;
        let copy = |to: &Arc<PeerAddr>| Copy {
            to: Arc::clone(to),
            hold: Hold::No,
            bell: None,
            since: now,
            overdue: None,
            withdrawn: false,
        };
        copies.extend((copies.len()..=member).filter_map(|place| candidates.get(place)).map(copy));
    }

    /// A future that queues the copy of a member as soon as there is room.
    fn enter(&self, member: usize) -> Entering {
        let to = self.copies.get(member).map(|copy| Arc::clone(&copy.to));
        let (shared, message) = (Arc::clone(&self.shared), self.message.clone());
        let (deadline, waits) = (self.deadline, self.plan.waits);
        Box::pin(async move {
            let Some(to) = to else { return Err(SendError::Closed) };
            let target = Target { shared: &shared, to: &to };
            if waits {
                return target.send_when_room(|| shortened(message.clone(), deadline)).await;
            }
            shared.resolve(&to).await?;
            target.try_send(shortened(message, deadline))
        })
    }

    /// Polls the receipt of a member's copy.
    fn poll(&mut self, member: usize) {
        let Some(copy) = self.copies.get_mut(member) else { return };
        let Some(bell) = &copy.bell else { return };
        if let Hold::Entering(entering) = &mut copy.hold {
            match bell.poll(|cx| entering.as_mut().poll(cx)) {
                Poll::Pending => return,
                Poll::Ready(Ok(receipt)) => copy.hold = Hold::Open(receipt),
                Poll::Ready(Err(error)) => return self.skip(member, error),
            }
        }
        let Hold::Open(receipt) = &mut copy.hold else { return };
        if let Poll::Ready(settled) = bell.poll(|cx| Pin::new(&mut *receipt).poll(cx)) {
            let reason = receipt.reason();
            self.ended(member, settled, reason);
        }
    }

    fn skip(&mut self, member: usize, error: SendError) {
        let (state, end) = MemberState::refused(error);
        self.end(member, state, None, end, Ended::Bad);
    }

    fn ended(&mut self, member: usize, settled: Settled, reason: Option<Arc<str>>) {
        // The node's clock may be ahead of this task's. Then the deadline has passed, and no other member takes the
        // place.
        if settled.outcome == Outcome::Expired && self.deadline.is_some() {
            self.expire();
        }
        let end = judge(&settled.outcome, self.message.confirm_is());
        let withdrawn = self.copies.get(member).is_some_and(|copy| copy.withdrawn);
        let how = Ended::of(end, settled.outcome, withdrawn);
        self.end(member, MemberState::Settled(settled), reason, end, how);
    }

    fn end(&mut self, member: usize, state: MemberState, reason: Option<Arc<str>>, end: End, how: Ended) {
        let Some(copy) = self.copies.get_mut(member) else { return };
        (copy.hold, copy.bell, copy.overdue) = (Hold::Ended, None, None);
        self.common.ended(&copy.to.id, copy.since.elapsed(), how);
        self.board.set(member, state, reason);
        self.ballot.ended(member, end);
        self.act();
    }

    fn withdraw(&mut self, member: usize) {
        let Some(copy) = self.copies.get_mut(member) else { return };
        copy.withdrawn = true;
        match &copy.hold {
            Hold::No | Hold::Ended => {}
            Hold::Entering(_) => self.ended(member, Settled::without_id(Outcome::Cancelled), None),
            // If the copy is already settled, its receipt has the outcome.
            Hold::Open(receipt) => {
                if receipt.cancel() != Ok(Cancel::Done)
                    && let Status::InDoubt { id, .. } = receipt.status()
                {
                    self.board.set(member, MemberState::Bound(id), None);
                }
            }
        }
    }

    fn give_up(&mut self, member: usize) {
        match self.copies.get(member).map(|copy| &copy.hold) {
            Some(Hold::Entering(_)) => self.ended(member, Settled::without_id(Outcome::Cancelled), None),
            Some(Hold::Open(receipt)) => receipt.abandon(),
            Some(Hold::No | Hold::Ended) | None => {}
        }
    }

    // ---- events from outside

    fn obey(&mut self, order: Order) {
        match order {
            Order::Cancel => self.ballot.cancel(),
            Order::Abandon => {
                self.ballot.cancel();
                self.act();
                (0..self.copies.len()).for_each(|member| self.give_up(member));
            }
            Order::Removed(id, how) => {
                if let Some(member) = self.candidates.place_of(&id) {
                    self.ballot.removed(member, how == Remove::Now);
                }
            }
        }
        self.act();
    }

    fn on_time(&mut self, now: Instant) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.expire();
        }
        if self.plan.patience.is_none() {
            return;
        }
        for member in 0..self.copies.len() {
            let due = self.copies.get_mut(member).and_then(|copy| copy.overdue.take_if(|at| *at <= now));
            if due.is_some() {
                self.ballot.overdue(member);
                self.act();
            }
        }
    }

    /// Ends the copies that wait for room, since the deadline has passed. Queued copies have a deadline of their own.
    fn expire(&mut self) {
        self.deadline = None;
        self.ballot.deadline();
        self.act();
        for member in 0..self.copies.len() {
            if self.copies.get(member).is_some_and(|copy| matches!(copy.hold, Hold::Entering(_))) {
                self.ended(member, Settled::without_id(Outcome::Expired), None);
            }
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        // Without patience, no copy is ever overdue.
        let copies = self.plan.patience.map_or(&[][..], |_| &self.copies);
        copies.iter().filter_map(|copy| copy.overdue).chain(self.deadline).min()
    }

    fn overdue_at(&self, member: usize, now: Instant) -> Option<Instant> {
        // The path is looked up only if it matters.
        self.plan.patience?;
        let rtt = self.common.path(&self.shared, &self.copies.get(member)?.to.id).rtt;
        now.checked_add(self.plan.overdue_after(rtt)?)
    }

    fn rest_of_message(&self) -> Message {
        shortened(self.message.clone(), self.deadline)
    }

    fn settle_permit(&mut self) {
        if self.permit.is_some() && !self.copies.iter().any(|copy| matches!(copy.hold, Hold::Entering(_))) {
            self.permit = None;
        }
    }
}

/// The message with what is left of its deadline.
pub(super) fn shortened(message: Message, deadline: Option<Instant>) -> Message {
    match deadline {
        None => message,
        Some(deadline) => message.deadline(deadline.saturating_duration_since(Instant::now())),
    }
}

impl Drop for Drive {
    /// If the runtime ends first, the outcomes of open copies are unknown.
    fn drop(&mut self) {
        self.ballot.cancel();
        while self.ballot.next_act().is_some() {}
        for member in 0..self.copies.len() {
            if self
                .copies
                .get(member)
                .is_some_and(|copy| matches!(copy.hold, Hold::Entering(_) | Hold::Open(_)))
            {
                let unknown = Settled::without_id(Outcome::Unknown);
                self.ended(member, unknown, None);
            }
        }
        self.common.forget(&self.board);
        self.board.end();
    }
}
