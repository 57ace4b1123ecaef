//! Groups: one message to many nodes.

mod receipt;

use std::mem::MaybeUninit;
use std::sync::Arc;

use exo::PeerAddr;
use exo::group::{Group, GroupError, Mode, Remove};

use crate::border::{Out, border, free, given, look};
use crate::fault::{Fault, exonet_code, exonet_error};
use crate::node::{Inner, exonet_node};
use crate::options::{exonet_group_options, exonet_send_options};
use crate::raw::{self, exonet_bytes, exonet_str};
use receipt::exonet_group_receipt;

/// All members get the message, and all must have it.
pub const EXONET_MODE_ALL: u32 = 0;
/// All members get the message, and one must have it. Then the other copies are withdrawn.
pub const EXONET_MODE_ANY: u32 = 1;
/// `send` members get the message, the cheapest by what is known of them, and `acks` of them must have it. A member
/// that certainly does not get it is replaced. Then the other copies are withdrawn.
pub const EXONET_MODE_QUORUM: u32 = 2;
/// The `send` cheapest members get the message, and all of these must have it. A member that certainly does not get it,
/// or does not take it for a while, is replaced.
pub const EXONET_MODE_BALANCED: u32 = 3;

/// Peers that messages are sent to together. Messages that were sent continue when it is freed.
pub struct exonet_group {
    inner: Arc<Inner>,
    group: Group,
}

impl From<GroupError> for Fault {
    fn from(error: GroupError) -> Self {
        let code = match error {
            GroupError::Closed => return Self::closed(),
            GroupError::InDoubt => exonet_code::EXONET_IN_DOUBT,
            GroupError::Empty
            | GroupError::NoAcks
            | GroupError::TooManyAcks { .. }
            | GroupError::TooFewMembers { .. }
            | GroupError::Double(_)
            | GroupError::Unknown(_)
            | GroupError::Myself => exonet_code::EXONET_USAGE,
            GroupError::Random(_) => exonet_code::EXONET_SYSTEM,
            _ => exonet_code::EXONET_NOT_SENT,
        };
        Self::new(code, error)
    }
}

/// The mode with this number.
fn mode(mode: u32, send: u64, acks: u64) -> Result<Mode, Fault> {
    let number = |name: &str, value: u64| {
        usize::try_from(value).map_err(|_| Fault::usage(format!("{name} is {value}: more than there can be")))
    };
    match (mode, send, acks) {
        (EXONET_MODE_ALL, 0, 0) => Ok(Mode::All),
        (EXONET_MODE_ANY, 0, 0) => Ok(Mode::Any),
        (EXONET_MODE_QUORUM, ..) => {
            Ok(Mode::Quorum { send: number("send", send)?, acks: number("acks", acks)? })
        }
        (EXONET_MODE_BALANCED, _, 0) => Ok(Mode::Balanced { k: number("send", send)? }),
        (EXONET_MODE_ALL | EXONET_MODE_ANY | EXONET_MODE_BALANCED, ..) => Err(Fault::usage(format!(
            "send is {send} and acks is {acks}: acks is for EXONET_MODE_QUORUM, and send for it and EXONET_MODE_BALANCED"
        ))),
        (other, ..) => Err(Fault::usage(format!("{other} is not a mode: see EXONET_MODE_ALL"))),
    }
}

fn address(inner: &Inner, member: &exonet_str) -> Result<PeerAddr, Fault> {
    Ok(inner.peer(member)?.addr().clone())
}

/// Makes a group of `count` peers, each given as for exonet_send. Nothing is sent. `members` may be NULL if `count` is
/// 0, and `options` may be NULL. EXONET_USAGE: a member is named twice, or is this node.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_group_open(
    node: Option<&exonet_node>,
    members: *const exonet_str,
    count: usize,
    options: *const exonet_group_options,
    group: Option<&mut MaybeUninit<*mut exonet_group>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::handle(group, "group")?;
        let inner = given(node, "node")?.inner();
        // SAFETY: the caller gives NULL, or options with their size.
        let options: exonet_group_options = unsafe { raw::options(options, "options") }?;
        // SAFETY: the caller has `count` texts there.
        let members = unsafe { raw::texts(members, count, "members") }?;
        let members = members.iter().map(|member| address(inner, member)).collect::<Result<Vec<_>, _>>()?;
        let group = options.of(inner.core().node.group(members)).build()?;
        place.give(exonet_group { inner: Arc::clone(inner), group });
        Ok(())
    })
}

/// The number of members. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_group_size(group: Option<&exonet_group>) -> usize {
    look(0, || Some(group?.group.members().len()))
}

/// Adds a member, given as for exonet_send. It gets later messages, and none that were sent before.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_group_add(
    group: Option<&exonet_group>,
    member: exonet_str,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let exonet_group { inner, group } = given(group, "group")?;
        Ok(group.add(address(inner, &member)?)?)
    })
}

/// Removes a member, given by its id or as for exonet_send. It gets no later messages. Messages that were sent to it
/// continue and count, or with `now` are withdrawn: then the member is replaced, or counts as one that does not have
/// the message, once that is certain.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_group_remove(
    group: Option<&exonet_group>,
    member: exonet_str,
    now: bool,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let exonet_group { inner, group } = given(group, "group")?;
        let how = if now { Remove::Now } else { Remove::Drain };
        Ok(group.remove(&inner.peer(&member)?.id(), how)?)
    })
}

/// Sends a message to members of the group. `mode` is EXONET_MODE_ALL or another. For EXONET_MODE_QUORUM, `send` is the
/// number of members that get the message, and `acks` the number that must have it; for EXONET_MODE_BALANCED, `send` is
/// both. Otherwise the two are 0.
///
/// The message is queued at once wherever there is room; no member waits for another. `options` and `receipt` may be
/// NULL. `no_wait` cannot be set. With `notify`, the verdict and the end are events: EXONET_EVENT_GROUP_DECIDED and
/// EXONET_EVENT_GROUP_ENDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_group_send(
    group: Option<&exonet_group>,
    mode: u32,
    send: u64,
    acks: u64,
    body: exonet_bytes,
    options: *const exonet_send_options,
    receipt: Option<&mut MaybeUninit<*mut exonet_group_receipt>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::optional(receipt);
        let exonet_group { inner, group } = given(group, "group")?;
        // SAFETY: the caller gives NULL, or options with their size.
        let options: exonet_send_options = unsafe { raw::options(options, "options") }?;
        if options.no_wait() {
            let text = "a message to a group waits for no member: options->no_wait must not be set";
            return Err(Fault::usage(text));
        }
        let (mode, message) = (self::mode(mode, send, acks)?, options.message(&body, inner.journal())?);
        let sent = inner.block_on(group.send(mode, message))?;
        if let Some(token) = options.token() {
            receipt::tell(inner, sent.clone(), token);
        }
        if let Some(place) = &mut place {
            place.give(exonet_group_receipt::new(inner, sent));
        }
        Ok(())
    })
}

/// Frees a group. Messages that were sent continue.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_group_free(group: Option<Box<exonet_group>>) {
    free(group);
}
