//! What becomes of a message to a group: as a whole, and at each member.

use std::mem::MaybeUninit;
use std::sync::{Arc, OnceLock};

use exo::group::{GroupReceipt, MemberLine, MemberState, Verdict, Why};

use crate::border::{Out, border, free, given};
use crate::fault::{exonet_code, exonet_error};
use crate::node::Inner;
use crate::queue::Event;
use crate::raw::{self, exonet_str};
use crate::receipt::exonet_outcome;
use crate::text::Text;

/// The kind of a verdict.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum exonet_verdict_kind {
    /// There is no verdict yet.
    EXONET_VERDICT_OPEN = 0,
    /// As many members as required have the message.
    EXONET_VERDICT_REACHED = 1,
    /// Too many members can no longer have it, and no other may take their place.
    EXONET_VERDICT_TOO_FEW = 2,
    /// The deadline came first.
    EXONET_VERDICT_DEADLINE = 3,
}

/// The verdict on a message to a group: given once, and final. After EXONET_VERDICT_TOO_FEW or
/// EXONET_VERDICT_DEADLINE, the message may still arrive at members.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct exonet_verdict {
    /// The kind of the verdict.
    kind: exonet_verdict_kind,
    /// The number of members that had the message at that time.
    good: u64,
}

impl exonet_verdict {
    const fn open() -> Self {
        Self { kind: exonet_verdict_kind::EXONET_VERDICT_OPEN, good: 0 }
    }
}

impl From<Verdict> for exonet_verdict {
    fn from(verdict: Verdict) -> Self {
        use exonet_verdict_kind as Kind;
        let (kind, good) = match verdict {
            Verdict::Reached { good } => (Kind::EXONET_VERDICT_REACHED, good),
            Verdict::Failed { good, why: Why::Deadline, .. } => (Kind::EXONET_VERDICT_DEADLINE, good),
            Verdict::Failed { good, .. } => (Kind::EXONET_VERDICT_TOO_FEW, good),
            _ => (Kind::EXONET_VERDICT_OPEN, 0),
        };
        Self { kind, good: u64::try_from(good).unwrap_or(u64::MAX) }
    }
}

/// The state of a message to a group at one member.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum exonet_member_state {
    /// Not chosen: nothing was sent to it. Until the verdict, it may take the place of another member.
    EXONET_MEMBER_SPARE = 0,
    /// Chosen, and certainly not delivered as far as this node knows.
    EXONET_MEMBER_QUEUED = 1,
    /// The message has left, and its outcome is not known.
    EXONET_MEMBER_IN_DOUBT = 2,
    /// Chosen, but this node did not accept the copy: nothing was sent. `reason` says why.
    EXONET_MEMBER_SKIPPED = 3,
    /// It has ended: `outcome`.
    EXONET_MEMBER_SETTLED = 4,
}

/// A member, and what has become of the message there.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct exonet_member {
    /// The id of the member, valid until the receipt is freed.
    id: exonet_str,
    /// The state of the message.
    state: exonet_member_state,
    /// For EXONET_MEMBER_SETTLED, the outcome.
    outcome: exonet_outcome,
    /// The member has acted on the message.
    has_it: bool,
    /// The member certainly has not acted on the message, and never will.
    has_it_not: bool,
    /// Why the message was skipped, rejected or refused, or empty; valid until the receipt is freed.
    reason: exonet_str,
}

/// A handle on a message that was sent to a group. Freeing it neither cancels the message nor speeds it up.
pub struct exonet_group_receipt {
    inner: Arc<Inner>,
    receipt: GroupReceipt,
    /// The members keep their places.
    texts: Vec<(Text, OnceLock<Text>)>,
}

/// Makes events of the verdict and of the end of a message.
pub(super) fn tell(inner: &Inner, mut receipt: GroupReceipt, token: u64) {
    let core = Arc::clone(inner.core());
    inner.handle().spawn(async move {
        receipt.decided().await;
        core.queue.put(Event::GroupDecided { token });
        receipt.ended().await;
        core.queue.put(Event::GroupEnded { token });
    });
}

/// Why a member has not got the message, if that is known for good.
fn reason(line: &MemberLine) -> Option<Text> {
    match &line.state {
        MemberState::Skipped(error) => Some(Text::new(error)),
        MemberState::Settled(settled) => match (&line.reason, settled.outcome) {
            (Some(reason), _) => Some(Text::new(reason)),
            (None, exo::Outcome::Refused(why)) => Some(Text::new(why)),
            _ => None,
        },
        _ => None,
    }
}

impl exonet_group_receipt {
    pub(super) fn new(inner: &Arc<Inner>, receipt: GroupReceipt) -> Self {
        let members = receipt.members().into_iter();
        let texts = members.map(|line| (Text::new(line.id), OnceLock::new())).collect();
        Self { inner: Arc::clone(inner), receipt, texts }
    }

    /// The members. What they lend is kept in this receipt.
    fn members(&self) -> impl Iterator<Item = exonet_member> + '_ {
        use exonet_member_state as State;
        self.receipt.members().into_iter().zip(&self.texts).map(|(line, (id, kept))| {
            if let Some(reason) = reason(&line) {
                // It was kept before.
                let _ = kept.set(reason);
            }
            let (state, outcome) = match &line.state {
                MemberState::Spare => (State::EXONET_MEMBER_SPARE, exonet_outcome::none()),
                MemberState::Queued => (State::EXONET_MEMBER_QUEUED, exonet_outcome::none()),
                MemberState::Skipped(_) => (State::EXONET_MEMBER_SKIPPED, exonet_outcome::none()),
                MemberState::Settled(settled) => (State::EXONET_MEMBER_SETTLED, (*settled).into()),
                _ => (State::EXONET_MEMBER_IN_DOUBT, exonet_outcome::none()),
            };
            exonet_member {
                id: id.lend(),
                state,
                outcome,
                has_it: line.state.has_it(),
                has_it_not: line.state.is_certainly_not(),
                reason: kept.get().map_or(exonet_str::empty(), Text::lend),
            }
        })
    }
}

/// Waits for the verdict, for `timeout_ms` at most: the required number of members has the message, or cannot have it
/// any more, or the deadline has come.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_group_receipt_wait(
    receipt: Option<&exonet_group_receipt>,
    timeout_ms: i64,
    verdict: Option<&mut MaybeUninit<exonet_verdict>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut verdict = Out::value(verdict, "verdict")?;
        verdict.set(exonet_verdict::open());
        let receipt = given(receipt, "receipt")?;
        // Each thread that waits has a receipt of its own.
        let mut waiting = receipt.receipt.clone();
        verdict.set(receipt.inner.wait(timeout_ms, waiting.decided())?.into());
        Ok(())
    })
}

/// Waits until the message has ended at every member that was chosen, for `timeout_ms` at most. A dead member may keep
/// it waiting for ever: see exonet_group_receipt_abandon.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_group_receipt_wait_end(
    receipt: Option<&exonet_group_receipt>,
    timeout_ms: i64,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let receipt = given(receipt, "receipt")?;
        let mut waiting = receipt.receipt.clone();
        receipt.inner.wait(timeout_ms, waiting.ended()).map(drop)
    })
}

/// Writes what is known of each member to `members`, which has room for `room` of them, in the order in which they were
/// chosen. `count` gets the number of members, which may be more, and stays the same. `members` may be NULL if `room`
/// is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_group_receipt_members(
    receipt: Option<&exonet_group_receipt>,
    members: *mut exonet_member,
    room: usize,
    count: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut count = Out::value(count, "count")?;
        count.set(0);
        let receipt = given(receipt, "receipt")?;
        // SAFETY: the caller has room for as many there.
        unsafe { raw::fill(members, room, receipt.members(), "members") }?;
        count.set(receipt.texts.len());
        Ok(())
    })
}

/// Withdraws every copy, and sends no others. A copy that has left ends with EXONET_CANCELLED if its member has not
/// taken it, else with EXONET_DELIVERED.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_group_receipt_cancel(
    receipt: Option<&exonet_group_receipt>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        given(receipt, "receipt")?.receipt.cancel();
        Ok(())
    })
}

/// Gives every copy up: those that have left end with EXONET_UNKNOWN, the others with EXONET_CANCELLED.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_group_receipt_abandon(
    receipt: Option<&exonet_group_receipt>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        given(receipt, "receipt")?.receipt.abandon();
        Ok(())
    })
}

/// Frees a receipt. The message is still delivered, and so are the requested events.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_group_receipt_free(receipt: Option<Box<exonet_group_receipt>>) {
    free(receipt);
}
