//! TCP connections through streams: what `exon forward` and `exon proxy serve` share. `docs/tunnel.md` specifies the protocol.
//!
//! Each connection is a stream of its own. Its first message says where it leads ([`Open`]), the first message back says what came of
//! that ([`Answer`]); what follows, both ways, is bytes. The *near end* is the node that ran `exon forward`, the *far end* the one
//! that serves. Either may open a connection: the near end one that came to `-L` or `-D`, the far end one that came to `-R`.
//!
//! A [`Run`] is what one process is to the other end. A connection belongs to a run of each end, and ends with either.

mod carry;
mod dial;
mod event;
mod greet;
mod life;
mod listen;
mod policy;
mod registry;
mod socks;
mod spec;
mod target;
mod wire;

use std::time::Duration;

use exonet::config::Limits;

use crate::failure::Failure;
use crate::units::Size;

pub(crate) use carry::{Closed, Course, Why, carry, finish, hold, open};
pub(crate) use dial::{connect, dial};
pub(crate) use event::{Event, Story, Tell, Totals, Way};
pub(crate) use greet::{greet, next, refuse, take_in};
pub(crate) use life::{Life, Over};
pub(crate) use listen::{accept, bind, raise_files};
pub(crate) use policy::{Pattern, Place, Policy};
pub(crate) use registry::{Registry, Seat};
pub(crate) use socks::Request as SocksRequest;
pub(crate) use spec::{Bind, Spec};
pub(crate) use target::Target;
pub(crate) use wire::{
    Answer, Code, Connected, Goal, Hello, Listened, MOST_LISTENED, Message, Name, Names, Open, Refusal,
    Reverse, Run, Welcome,
};

/// How often the near end says that it is there.
pub(crate) const BEAT: Duration = Duration::from_secs(15);
/// How long the first message of a stream, or a SOCKS client, may take.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long the near end may take to answer the far end.
pub(crate) const ANSWER: Duration = Duration::from_secs(30);
/// What a message counts beside its bytes.
pub(crate) const OVERHEAD: usize = 1 << 10;
/// The least and the most that is read ahead of the other end.
const LEAST_WINDOW: u64 = 64 << 10;
const MOST_WINDOW: u64 = 1 << 30;

/// Bytes that are read ahead of the other end.
///
/// # Errors
/// They are too few, or too many.
pub(crate) fn window(size: Size) -> Result<usize, Failure> {
    let bytes = usize::try_from(size.0).ok().filter(|_| (LEAST_WINDOW..=MOST_WINDOW).contains(&size.0));
    bytes.ok_or_else(|| {
        Failure::new(format!("a window of {size} is of no use")).hint("write --window 64KiB to --window 1GiB")
    })
}

/// Lets so many connections with one peer each read so far ahead: one whose reader is slow takes no room of others.
pub(crate) fn make_room(limits: &mut Limits, connections: usize, window: usize) {
    // A message may be read when there is room for a part of one.
    let each = window.saturating_add(64 << 10);
    limits.queued_bytes = limits.queued_bytes.max(each.saturating_mul(connections));
    limits.queued_messages = limits.queued_messages.max((each / OVERHEAD).saturating_mul(connections));
}
