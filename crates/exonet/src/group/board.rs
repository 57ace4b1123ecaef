//! The state of a message to a group: its task writes it, and its receipt reads it.

use core::fmt;
use core::future::{Future, IntoFuture};
use core::pin::Pin;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake as _;

use exonet_proto::node::{Confirm, Outcome};
use exonet_proto::{MessageId, NodeId};
use tokio::sync::Notify;

use crate::error::SendError;
use crate::group::Remove;
use crate::group::ballot::{End, Verdict};
use crate::group::candidates::Candidates;
use crate::group::ready::{Bell, Ready};
use crate::send::receipts::Settled;

/// The state of a message to a group at one member.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberState {
    /// The member was not chosen, and nothing was sent to it. Until the [`Verdict`] it may still take the place of
    /// another member.
    Spare,
    /// The member was chosen, and its copy has not left, as far as this node has looked: the task looks at the
    /// verdict, and when it withdraws the copy.
    Queued,
    /// The copy has left, and is in doubt until it ends.
    Bound(MessageId),
    /// The member was chosen, but this node did not accept the copy: certainly nothing was sent.
    Skipped(SendError),
    /// The copy has ended.
    Settled(Settled),
}

impl MemberState {
    /// The state of a copy that this node has not accepted, or may not have.
    pub(super) fn refused(error: SendError) -> (Self, End) {
        match error {
            SendError::InDoubt => {
                let settled = Settled::without_id(Outcome::Unknown);
                (Self::Settled(settled), End::Doubtful)
            }
            error => (Self::Skipped(error), End::Never),
        }
    }

    /// Whether the state is final. A [spare](Self::Spare) changes only before the verdict.
    pub const fn has_ended(&self) -> bool {
        matches!(self, Self::Skipped(_) | Self::Settled(_))
    }

    /// Whether the member has acted on the message: [`Outcome::Delivered`] or [`Outcome::Processed`].
    pub const fn has_it(&self) -> bool {
        matches!(self, Self::Settled(Settled { outcome: Outcome::Delivered | Outcome::Processed { .. }, .. }))
    }

    /// Whether the member has certainly not acted on the message and never will: the copy was not sent, or its
    /// outcome says so.
    pub fn is_certainly_not(&self) -> bool {
        match self {
            Self::Spare | Self::Skipped(_) => true,
            Self::Queued | Self::Bound(_) => false,
            Self::Settled(settled) => judge(&settled.outcome, Confirm::Delivered) == End::Never,
        }
    }
}

/// What the outcome of a copy means for the group.
pub(super) fn judge(outcome: &Outcome, confirm: Confirm) -> End {
    match outcome {
        Outcome::Processed { .. } => End::Good,
        // The message asked for more. The member may have processed it without confirming that.
        Outcome::Delivered if confirm == Confirm::Processed => End::Doubtful,
        Outcome::Delivered => End::Good,
        Outcome::Rejected { .. } | Outcome::Expired | Outcome::Cancelled | Outcome::Refused(_) => End::Never,
        Outcome::Unknown | Outcome::Kept => End::Doubtful,
    }
}

/// One line in the table of members of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberLine {
    /// The member.
    pub id: NodeId,
    /// The state of the message at this member.
    pub state: MemberState,
    /// The reason that the member's application gave, if any.
    pub reason: Option<Arc<str>>,
}

/// What the application wants for a message that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    Cancel,
    Abandon,
    Removed(NodeId, Remove),
}

#[derive(Default)]
struct State {
    /// The lines of the members up to the last one that the message was sent to.
    lines: Vec<MemberLine>,
    /// All members of the message. The lines of those behind `lines` say [`MemberState::Spare`].
    candidates: Option<Arc<Candidates>>,
    verdict: Option<Verdict>,
    /// The members whose lines have changed since the application read them, each once: those that `unread` marks.
    changed: VecDeque<usize>,
    unread: Vec<bool>,
    orders: Vec<Order>,
    over: bool,
}

pub(super) struct Board {
    state: Mutex<State>,
    /// Notified when anything on the board has changed.
    told: Notify,
    /// Notified when the verdict is known, and when the message has ended at every member.
    ends: Notify,
    /// Wakes the task when the application gives an order.
    bell: Arc<Bell>,
}

impl MemberLine {
    const fn spare(id: NodeId) -> Self {
        Self { id, state: MemberState::Spare, reason: None }
    }
}

impl State {
    /// Makes the lines up to this place, if there are none yet.
    fn reach(&mut self, place: usize) {
        let Self { lines, candidates: Some(candidates), unread, .. } = self else { return };
        let added = (lines.len()..=place).filter_map(|place| candidates.get(place));
        lines.extend(added.map(|member| MemberLine::spare(member.id)));
        unread.resize(lines.len(), false);
    }

    fn all_lines(&self) -> Vec<MemberLine> {
        let all = self.candidates.iter().flat_map(|candidates| candidates.iter());
        let spares = all.skip(self.lines.len()).map(|member| MemberLine::spare(member.id));
        self.lines.iter().cloned().chain(spares).collect()
    }
}

impl Board {
    /// A board of these members. `at` is the number of the future that an order wakes.
    pub(super) fn new(members: impl IntoIterator<Item = NodeId>, ready: &Arc<Ready>, at: usize) -> Arc<Self> {
        let lines: Vec<_> = members.into_iter().map(MemberLine::spare).collect();
        Self::with(State { unread: vec![false; lines.len()], lines, ..State::default() }, ready, at)
    }

    /// A board of these candidates, as [`Self::new`].
    pub(super) fn of(candidates: &Arc<Candidates>, ready: &Arc<Ready>, at: usize) -> Arc<Self> {
        Self::with(State { candidates: Some(Arc::clone(candidates)), ..State::default() }, ready, at)
    }

    fn with(state: State, ready: &Arc<Ready>, at: usize) -> Arc<Self> {
        let (told, ends) = (Notify::new(), Notify::new());
        Arc::new(Self { state: Mutex::new(state), told, ends, bell: Bell::new(at, ready) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- for the task

    pub(super) fn set(&self, member: usize, to: MemberState, reason: Option<Arc<str>>) {
        let mut state = self.state();
        state.reach(member);
        let State { lines, changed, unread, .. } = &mut *state;
        let Some(line) = lines.get_mut(member).filter(|line| line.state != to) else { return };
        (line.state, line.reason) = (to, reason);
        let marked = unread.get_mut(member).is_some_and(|unread| core::mem::replace(unread, true));
        if !marked {
            changed.push_back(member);
        }
        drop(state);
        self.told.notify_waiters();
    }

    pub(super) fn decide(&self, verdict: Verdict) {
        self.state().verdict = Some(verdict);
        self.told.notify_waiters();
        self.ends.notify_waiters();
    }

    pub(super) fn end(&self) {
        self.state().over = true;
        self.told.notify_waiters();
        self.ends.notify_waiters();
    }

    pub(super) fn take_orders(&self) -> Vec<Order> {
        self.bell.poll(|_| core::mem::take(&mut self.state().orders))
    }

    // ---- for the application

    pub(super) fn order(&self, order: Order) {
        self.state().orders.push(order);
        self.bell.wake_by_ref();
    }

    /// Waits until `look` returns something. It calls `look` again whenever `told` is notified.
    async fn wait<T>(&self, told: &Notify, mut look: impl FnMut(&mut State) -> Option<T>) -> T {
        loop {
            // Created before the look, so that no change between the look and the wait is missed.
            let told = told.notified();
            if let Some(found) = look(&mut self.state()) {
                return found;
            }
            told.await;
        }
    }
}

/// The handle that [`Group::send`](crate::group::Group::send) returns. It tells how the message ends, as a whole and
/// at each member.
///
/// In every case the message ends in exactly one [`Verdict`], and in one state at each chosen member. Dropping the
/// receipt neither cancels the message nor speeds it up.
///
/// Clones are receipts of the same message, for several tasks. [`Self::changed`] returns each change to one of them.
#[derive(Clone)]
#[must_use = "a receipt says what became of the message; drop it only if that does not matter"]
pub struct GroupReceipt {
    board: Arc<Board>,
}

impl GroupReceipt {
    pub(super) const fn new(board: Arc<Board>) -> Self {
        Self { board }
    }

    /// The verdict, if there is one yet.
    pub fn verdict(&self) -> Option<Verdict> {
        self.board.state().verdict
    }

    /// Waits for the verdict. Cancel-safe; the result is the same every time.
    pub async fn decided(&mut self) -> Verdict {
        self.board.wait(&self.board.ends, |state| state.verdict).await
    }

    /// The lines of all members, in the order in which they were chosen.
    pub fn members(&self) -> Vec<MemberLine> {
        self.board.state().all_lines()
    }

    /// Waits until the state of the message at some member has changed, and returns the line of that member. Several
    /// changes at one member between two calls are returned as one. None: no line can change any more. Cancel-safe.
    pub async fn changed(&mut self) -> Option<MemberLine> {
        let next = |state: &mut State| match state.changed.pop_front() {
            Some(member) => {
                state.unread.get_mut(member).into_iter().for_each(|unread| *unread = false);
                Some(state.lines.get(member).cloned())
            }
            None => state.over.then_some(None),
        };
        self.board.wait(&self.board.told, next).await
    }

    /// Waits until the message has ended at every chosen member, and returns the final table. Cancel-safe; the result
    /// is the same every time. If a member is dead, this waits for as long as the node's `doubt_timeout`, which by
    /// default has no limit: see [`Self::abandon`].
    pub async fn ended(&mut self) -> Vec<MemberLine> {
        self.board.wait(&self.board.ends, |state| state.over.then(|| state.all_lines())).await
    }

    /// Withdraws every copy, and sends no others. A copy that has left ends Cancelled if its member has not taken it,
    /// and otherwise as the member says.
    pub fn cancel(&self) {
        self.board.order(Order::Cancel);
    }

    /// Gives up every copy: those that have left end Unknown, the others Cancelled.
    pub fn abandon(&self) {
        self.board.order(Order::Abandon);
    }
}

impl IntoFuture for GroupReceipt {
    type Output = Verdict;
    type IntoFuture = Pin<Box<dyn Future<Output = Verdict> + Send>>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move { self.decided().await })
    }
}

impl fmt::Debug for GroupReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupReceipt").field("verdict", &self.verdict()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_is_told_again_when_it_changes_again_and_once_for_several_changes() {
        let ids = [1, 2].map(|n| NodeId([n; 32]));
        let board = Board::new(ids, &Arc::default(), usize::MAX);
        let mut receipt = GroupReceipt::new(Arc::clone(&board));
        let cancelled = Settled::without_id(Outcome::Cancelled);
        let states =
            [MemberState::Queued, MemberState::Skipped(SendError::Full), MemberState::Settled(cancelled)];
        for state in states {
            board.set(1, MemberState::Spare, None);
            board.set(1, state.clone(), None);
            board.set(0, state.clone(), None);
            assert_eq!(board.state().changed, [1, 0]);
            let lines = [receipt.changed().await.unwrap(), receipt.changed().await.unwrap()];
            assert_eq!(lines.clone().map(|line| line.id), [ids[1], ids[0]]);
            assert_eq!(lines.map(|line| line.state), [state.clone(), state]);
        }
        board.end();
        assert_eq!(receipt.changed().await, None, "each was told once");
        assert_eq!(receipt.ended().await.len(), 2);
    }
}
