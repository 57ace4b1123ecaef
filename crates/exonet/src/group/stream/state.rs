//! The state of a stream to a group: its members, and the messages that are open at some of them.
//!
//! Each member has a queue of its own, from which its messages go in order into the node's queue to it. Like any
//! message to a group, a message of the stream has a [`Ballot`] and a [`Board`]. It goes to every member that was in
//! the stream when it was sent.

use core::pin::Pin;
use core::task::Poll;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use exonet_proto::NodeId;
use exonet_proto::node::{Outcome, Priority, Status, StreamEnd};
use tokio::time::Instant;

use super::member::{Cause, Departure, Entry, Member, Next};
use super::pace::{Pace, WhenFull, pace};
use crate::error::SendError;
use crate::group::ballot::{Act, Ballot, End, Rule};
use crate::group::board::{Board, MemberState, Order, judge};
use crate::group::drive::shortened;
use crate::group::ready::{Bell, Ready};
use crate::group::{GroupError, Mode, Remove};
use crate::send::message::Message;
use crate::send::receipt::Receipt;
use crate::send::receipts::Settled;
use crate::stream::lane::{Claim, Lane};

/// A message of the stream, until it has ended at every member.
struct Sent {
    ballot: Ballot,
    board: Arc<Board>,
    /// Empty once no copy waits any more.
    message: Message,
    deadline: Option<Instant>,
    /// The copies that have not ended, by the place of their member.
    copies: Vec<Option<usize>>,
    open: usize,
    waiting: usize,
    acting: bool,
}

/// The copy of a message for one member.
struct Copy {
    of: usize,
    /// The place of the member in the message's table.
    at: usize,
    member: usize,
    /// None: the copy waits to be queued.
    receipt: Option<(Receipt, Arc<Bell>)>,
}

/// The settings of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) queue: usize,
    pub(super) when_full: WhenFull,
    pub(super) priority: Priority,
}

pub(super) struct State {
    pub(super) settings: Settings,
    ready: Arc<Ready>,
    members: Vec<Member>,
    sent: BTreeMap<usize, Sent>,
    copies: BTreeMap<usize, Copy>,
    deadlines: BTreeSet<(Instant, usize)>,
    /// The next number for a member, a message or a copy. No two of them have the same number.
    next: usize,
    /// The member to which the next message goes first: another one each time.
    first: usize,
    departures: VecDeque<Departure>,
    /// Whether the stream was closed or reset.
    ended: bool,
    /// Whether the application has dropped all handles.
    pub(super) orphan: bool,
    /// Whether the task has ended, so that nothing goes on.
    pub(super) over: bool,
    /// Whether something has changed: some member may have more messages, or has departed.
    pub(super) stirred: bool,
}

impl State {
    pub(super) fn new(settings: Settings, ready: &Arc<Ready>) -> Self {
        Self {
            settings,
            ready: Arc::clone(ready),
            members: Vec::new(),
            sent: BTreeMap::new(),
            copies: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next: 0,
            first: 0,
            departures: VecDeque::new(),
            ended: false,
            orphan: false,
            over: false,
            stirred: false,
        }
    }

    fn number(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    fn member(&mut self, key: usize) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.key == key)
    }

    fn active(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.active)
    }

    // ---- members

    /// Sets the priority of all later messages.
    pub(super) fn set_priority(&mut self, priority: Priority) {
        self.settings.priority = priority;
        self.members.iter_mut().for_each(|member| member.lane.priority = priority);
    }

    pub(super) fn ids(&self) -> Vec<NodeId> {
        self.active().map(Member::id).collect()
    }

    pub(super) fn backlog(&self, id: &NodeId) -> Option<usize> {
        self.active().find(|member| member.id() == *id).map(|member| member.open)
    }

    pub(super) const fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn next_departure(&mut self) -> Option<Departure> {
        self.departures.pop_front()
    }

    /// Takes the receiving direction of a member. It can be taken once.
    pub(super) fn hear(&mut self, id: &NodeId) -> Option<Arc<Claim>> {
        let mut members = self.members.iter_mut().filter(|member| member.active && !member.heard);
        let member = members.find(|member| member.id() == *id)?;
        member.heard = true;
        Some(Arc::clone(&member.lane.claim))
    }

    /// Adds a member, which gets later messages. `claim` reserves the name of its stream; it fails if a departing
    /// member of the same id still has it.
    pub(super) fn join(
        &mut self,
        id: NodeId,
        claim: impl FnOnce() -> Result<Claim, GroupError>,
    ) -> Result<(), GroupError> {
        if self.ended || self.over {
            return Err(GroupError::Ended);
        }
        match self.members.iter_mut().find(|member| member.id() == id) {
            Some(member) if member.active => return Err(GroupError::Double(id)),
            Some(member) => member.active = true,
            None => {
                let lane = Lane::new(Arc::new(claim()?), self.settings.priority);
                let key = self.number();
                self.members.push(Member::new(key, lane));
            }
        }
        self.stirred = true;
        Ok(())
    }

    pub(super) fn remove(&mut self, id: &NodeId, how: Remove) -> Result<(), GroupError> {
        let found = self.active().find(|member| member.id() == *id).map(|member| member.key);
        self.depart(found.ok_or(GroupError::Unknown(*id))?, Cause::Removed(how));
        Ok(())
    }

    /// Removes a member, which gets no later messages. Its stream ends: if it drains, after all messages that were
    /// sent to it; else by a reset after those that have left.
    fn depart(&mut self, key: usize, cause: Cause) {
        let Some(member) = self.member(key).filter(|member| member.active) else { return };
        member.active = false;
        let id = member.id();
        tracing::debug!(member = %id, ?cause, "a member has left a stream to a group");
        let drains = cause == Cause::Removed(Remove::Drain);
        self.departures.push_back(Departure { id, cause });
        self.stirred = true;
        if !drains {
            self.withdraw_all(key);
        }
        let Some(member) = self.member(key) else { return };
        let end = if drains { StreamEnd::Last } else { StreamEnd::Reset };
        // Otherwise the item would begin a stream only to end it.
        if member.lane.has_begun() || (drains && member.open > 0) {
            member.waiting.push_back(Next { copy: None, end });
        }
        self.pump(key);
    }

    /// Withdraws the messages that have not left for a member.
    fn withdraw_all(&mut self, key: usize) {
        let Some(member) = self.member(key) else { return };
        let dropped = member.drop_backlog();
        member.lane.cancel();
        for copy in dropped {
            self.end(copy, MemberState::Settled(Settled::without_id(Outcome::Cancelled)), None, End::Never);
        }
    }

    // ---- messages

    /// Sends a message to the current members.
    pub(super) fn send(&mut self, mode: Mode, message: Message) -> Result<Arc<Board>, GroupError> {
        if self.ended {
            return Err(GroupError::Ended);
        }
        mode.plan_in_stream(self.active().count())?;
        let (keys, open): (Vec<_>, Vec<_>) = self.active().map(|member| (member.key, member.open)).unzip();
        match pace(self.settings.when_full, self.settings.queue, &open, mode.need_of_stream()) {
            Pace::Wait => return Err(GroupError::Full),
            Pace::GoWithout(slow) => {
                let slow: Vec<_> = slow.into_iter().filter_map(|at| keys.get(at).copied()).collect();
                slow.into_iter().for_each(|key| self.depart(key, Cause::Full));
            }
        }
        let rule = mode.plan_in_stream(self.active().count())?;
        Ok(self.say(rule, message, StreamEnd::Open))
    }

    /// Ends the stream at every member: after everything that was sent, or after the messages that have left.
    pub(super) fn close(&mut self, end: StreamEnd) -> Result<Arc<Board>, GroupError> {
        if self.ended {
            return Err(GroupError::Ended);
        }
        let rule = Mode::All.plan_in_stream(self.active().count())?;
        self.ended = true;
        let keys: Vec<_> = self.active().map(|member| member.key).collect();
        if end == StreamEnd::Reset {
            keys.iter().for_each(|key| self.withdraw_all(*key));
        }
        let board = self.say(rule, Message::default(), end);
        for key in keys {
            self.member(key).into_iter().for_each(|member| member.active = false);
            self.pump(key);
        }
        self.stirred = true;
        Ok(board)
    }

    /// Queues a message for every active member.
    fn say(&mut self, rule: Rule, message: Message, end: StreamEnd) -> Arc<Board> {
        let mut members: Vec<_> = self.active().map(|member| (member.key, member.id())).collect();
        let first = self.first.checked_rem(members.len()).unwrap_or_default();
        members.rotate_left(first);
        self.first = first + 1;
        let key = self.number();
        let board = Board::new(members.iter().map(|(_, id)| *id), &self.ready, key);
        let deadline = message.deadline_is().and_then(|deadline| Instant::now().checked_add(deadline));
        self.deadlines.extend(deadline.map(|deadline| (deadline, key)));
        let sent = Sent {
            ballot: Ballot::new(rule, members.len()),
            board: Arc::clone(&board),
            message,
            deadline,
            copies: vec![None; members.len()],
            open: members.len(),
            waiting: members.len(),
            acting: false,
        };
        self.sent.insert(key, sent);
        let mut copies = Vec::with_capacity(members.len());
        for (at, (member, _)) in members.iter().enumerate() {
            let copy = self.number();
            self.copies.insert(copy, Copy { of: key, at, member: *member, receipt: None });
            self.member(*member).into_iter().for_each(|member| member.open += 1);
            board.set(at, MemberState::Queued, None);
            copies.push(Some(copy));
        }
        self.sent.get_mut(&key).into_iter().for_each(|sent| sent.copies.clone_from(&copies));
        self.act(key);
        for ((member, _), copy) in members.into_iter().zip(copies) {
            self.member(member).into_iter().for_each(|member| member.waiting.push_back(Next { copy, end }));
            self.pump(member);
        }
        board
    }

    /// Does what the ballot of a message wants. The message was already sent to every member.
    fn act(&mut self, key: usize) {
        loop {
            let Some(sent) = self.sent.get_mut(&key).filter(|sent| !sent.acting) else { return };
            let Some(act) = sent.ballot.next_act() else { break };
            match act {
                Act::Send(_) => {}
                Act::Withdraw(at) => {
                    sent.acting = true;
                    let copy = sent.copies.get(at).copied().flatten();
                    copy.into_iter().for_each(|copy| self.withdraw(copy));
                    self.sent.get_mut(&key).into_iter().for_each(|sent| sent.acting = false);
                }
                Act::Decide(verdict) => {
                    let copies: Vec<_> = sent.copies.iter().copied().flatten().collect();
                    let board = Arc::clone(&sent.board);
                    copies.into_iter().for_each(|copy| self.look(copy));
                    board.decide(verdict);
                }
            }
        }
        if let Some(sent) = self.sent.get(&key).filter(|sent| sent.open == 0) {
            sent.board.end();
            if let Some(deadline) = sent.deadline {
                self.deadlines.remove(&(deadline, key));
            }
            self.sent.remove(&key);
        }
    }

    /// Looks up whether a copy has left.
    fn look(&self, copy: usize) {
        let Some(Copy { of, at, receipt: Some((receipt, _)), .. }) = self.copies.get(&copy) else { return };
        if let (Status::InDoubt { id, .. }, Some(sent)) = (receipt.status(), self.sent.get(of)) {
            sent.board.set(*at, MemberState::Bound(id), None);
        }
    }

    /// Withdraws a copy if it has not left.
    fn withdraw(&mut self, copy: usize) {
        match self.copies.get(&copy).map(|copy| &copy.receipt) {
            None => {}
            // If the copy is already settled, its receipt has the outcome.
            Some(Some((receipt, _))) => {
                let _ = receipt.cancel();
                self.look(copy);
            }
            Some(None) => self.end_waiting(copy, Outcome::Cancelled),
        }
    }

    /// Ends a copy that waits to be queued.
    fn end_waiting(&mut self, copy: usize, outcome: Outcome) {
        let Some(member) = self.copies.get(&copy).map(|copy| copy.member) else { return };
        self.member(member).into_iter().for_each(|member| member.drop_waiting(copy));
        self.end(copy, MemberState::Settled(Settled::without_id(outcome)), None, End::Never);
        self.pump(member);
    }

    /// Ends a copy.
    fn end(&mut self, copy: usize, state: MemberState, reason: Option<Arc<str>>, end: End) {
        let Some(Copy { of, at, member, receipt }) = self.copies.remove(&copy) else { return };
        self.member(member).into_iter().for_each(|member| member.open = member.open.saturating_sub(1));
        self.stirred = true;
        let Some(sent) = self.sent.get_mut(&of) else { return };
        if receipt.is_none() {
            sent.has_one_waiting_less();
        }
        sent.copies.get_mut(at).into_iter().for_each(|place| *place = None);
        sent.open -= 1;
        sent.board.set(at, state, reason);
        sent.ballot.ended(at, end);
        self.act(of);
    }

    // ---- the queue of a member

    /// Queues the items that wait for a member, as long as there is room. A departed member is forgotten once no item
    /// waits.
    fn pump(&mut self, key: usize) {
        while let Some(member) = self.member(key).filter(|member| member.entry.is_none()) {
            let Some(next) = member.waiting.pop_front() else { break };
            let lane = member.lane.clone();
            let Some((message, deadline)) = self.content(next) else { continue };
            let queued = lane.try_queue(shortened(message.clone(), deadline), next.end);
            let waits = match &queued {
                Err(SendError::Full) => true,
                Err(SendError::NoAddress(_)) => !lane.claim.to.has_no_names(),
                _ => false,
            };
            if !waits {
                self.entered(key, next, queued);
                continue;
            }
            let end = next.end;
            let entering =
                Box::pin(
                    async move { lane.queue_when_room(|| shortened(message.clone(), deadline), end).await },
                );
            let number = self.number();
            let bell = Bell::new(number, &self.ready);
            let Some(member) = self.member(key) else { return };
            member.entry = Some(Entry { next, entering, bell });
            self.poll_entry(key);
        }
        self.members.retain(|member| member.key != key || member.active || member.has_backlog());
    }

    /// The message of the next item, and its deadline. None: the message was withdrawn.
    fn content(&self, next: Next) -> Option<(Message, Option<Instant>)> {
        let Some(copy) = next.copy else { return Some((Message::default(), None)) };
        let sent = self.sent.get(&self.copies.get(&copy)?.of)?;
        Some((sent.message.clone(), sent.deadline))
    }

    fn poll_entry(&mut self, key: usize) {
        let Some(member) = self.member(key) else { return };
        let Some(Entry { entering, bell, .. }) = &mut member.entry else { return };
        let Poll::Ready(queued) = bell.poll(|cx| entering.as_mut().poll(cx)) else { return };
        let Some(Entry { next, .. }) = member.entry.take() else { return };
        self.entered(key, next, queued);
    }

    /// Notes that an item of a member was queued, or never will be. In the latter case the member gets no later
    /// messages, since it could not see the gap.
    fn entered(&mut self, key: usize, next: Next, queued: Result<Receipt, SendError>) {
        match (next.copy, queued) {
            (Some(copy), Ok(receipt)) => {
                let bell = Bell::new(copy, &self.ready);
                let Some(Copy { of, receipt: place, .. }) = self.copies.get_mut(&copy) else { return };
                *place = Some((receipt, bell));
                let of = *of;
                self.sent.get_mut(&of).into_iter().for_each(Sent::has_one_waiting_less);
                self.poll_copy(copy);
            }
            (Some(copy), Err(error)) => {
                let (state, end) = MemberState::refused(error.clone());
                self.end(copy, state, None, end);
                self.depart(key, Cause::Failed(error));
            }
            // An end without a copy has no outcome to note.
            (None, queued) => drop(queued),
        }
    }

    fn poll_copy(&mut self, number: usize) {
        let Some(Copy { of, receipt: Some((receipt, bell)), .. }) = self.copies.get_mut(&number) else {
            return;
        };
        let Poll::Ready(settled) = bell.poll(|cx| Pin::new(&mut *receipt).poll(cx)) else { return };
        let (of, reason) = (*of, receipt.reason());
        // The node's clock may be ahead of this task's, so the deadline has passed.
        if settled.outcome == Outcome::Expired {
            self.expire(of);
        }
        let confirm = self.sent.get(&of).map(|sent| sent.message.confirm_is()).unwrap_or_default();
        let end = judge(&settled.outcome, confirm);
        self.end(number, MemberState::Settled(settled), reason, end);
    }

    // ---- for the task

    /// Handles what woke a member, a message or a copy with this number.
    pub(super) fn rung(&mut self, number: usize) {
        if self.copies.contains_key(&number) {
            return self.poll_copy(number);
        }
        if self.sent.contains_key(&number) {
            return self.obey(number);
        }
        let waits = |member: &&Member| member.entry.as_ref().is_some_and(|entry| entry.bell.is(number));
        if let Some(key) = self.members.iter().find(waits).map(|member| member.key) {
            self.poll_entry(key);
            self.pump(key);
        }
    }

    /// Does what the application ordered for a message.
    fn obey(&mut self, key: usize) {
        let orders = self.sent.get(&key).map(|sent| sent.board.take_orders()).unwrap_or_default();
        for order in orders {
            let Some(sent) = self.sent.get_mut(&key) else { return };
            sent.ballot.cancel();
            let copies: Vec<_> = sent.copies.iter().copied().flatten().collect();
            self.act(key);
            if let Order::Abandon = order {
                let receipts = copies.iter().filter_map(|copy| self.copies.get(copy)?.receipt.as_ref());
                receipts.for_each(|(receipt, _)| receipt.abandon());
            }
        }
    }

    pub(super) fn on_time(&mut self, now: Instant) {
        while let Some((_, key)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.deadlines.pop_first();
            self.expire(key);
        }
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Ends the copies of a message that wait to be queued, since its deadline has passed. Queued copies have a
    /// deadline of their own.
    fn expire(&mut self, key: usize) {
        let Some(sent) = self.sent.get_mut(&key) else { return };
        let Some(deadline) = sent.deadline.take() else { return };
        sent.ballot.deadline();
        let copies: Vec<_> = sent.copies.iter().copied().flatten().collect();
        self.deadlines.remove(&(deadline, key));
        self.act(key);
        for copy in copies {
            if self.copies.get(&copy).is_some_and(|copy| copy.receipt.is_none()) {
                self.end_waiting(copy, Outcome::Expired);
            }
        }
    }

    /// Whether nothing is left to do. Releases the names of members for which no item waits.
    pub(super) fn is_done(&mut self) -> bool {
        if self.orphan {
            self.members.retain(Member::has_backlog);
        }
        self.orphan && self.members.is_empty() && self.sent.is_empty()
    }

    /// Ends the task, perhaps with its runtime: the outcomes of open copies are unknown.
    pub(super) fn give_up(&mut self) {
        (self.over, self.ended, self.stirred) = (true, true, true);
        self.members.iter_mut().for_each(|member| drop(member.drop_backlog()));
        let open: Vec<_> = self.copies.keys().copied().collect();
        for copy in open {
            let waits = self.copies.get(&copy).is_some_and(|copy| copy.receipt.is_none());
            let (outcome, end) =
                if waits { (Outcome::Cancelled, End::Never) } else { (Outcome::Unknown, End::Doubtful) };
            self.end(copy, MemberState::Settled(Settled::without_id(outcome)), None, end);
        }
        self.members.clear();
    }
}

impl Sent {
    /// Notes that one copy fewer waits. The content is kept while any copy waits.
    fn has_one_waiting_less(&mut self) {
        self.waiting -= 1;
        if self.waiting == 0 {
            let confirm = self.message.confirm_is();
            self.message = Message::default().confirm(confirm);
        }
    }
}
