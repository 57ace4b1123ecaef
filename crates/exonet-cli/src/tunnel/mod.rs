//! TCP connections over streams: the code that `exon forward` and `exon proxy serve` share. `docs/tunnel.md`
//! specifies the protocol.
//!
//! Each connection is a separate stream. Its first message names the target ([`Open`]), and the first message back
//! has the result ([`Answer`](wire::Answer)). All further messages, in both directions, are bytes. The *near end* is the node of
//! `exon forward`, and the *far end* is the node that serves. Either may open a connection: the near end for a
//! connection to `-L` or `-D`, the far end for a connection to `-R`.
//!
//! A [`Run`] identifies one process to the other end. A connection belongs to a run of each end, and ends with either
//! run, unless both ends keep it ([`keep`]).

mod carry;
mod dial;
mod ends;
mod event;
mod greet;
pub(crate) mod keep;
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
pub(crate) use ends::{Host, Opened, carry_accepted, carry_opened, carry_resumed};
pub(crate) use event::{Event, Story, Tell, Totals, Way};
pub(crate) use greet::{GONE, greet, next, refuse, take_in};
pub(crate) use life::{Life, Over};
pub(crate) use listen::{accept, bind, raise_files};
pub(crate) use policy::{Pattern, Place, Policy, Ruling};
pub(crate) use registry::{Registry, Seat};
pub(crate) use socks::Request as SocksRequest;
pub(crate) use spec::{Bind, Spec};
pub(crate) use target::Target;
pub(crate) use wire::{
    Code, Connected, Goal, Hello, Listened, MOST_LISTENED, Message, Name, Names, Open, Refusal, Reverse, Run,
    Welcome,
};

/// The interval at which the near end announces that it is present.
pub(crate) const BEAT: Duration = Duration::from_secs(15);
/// The time limit for the first message of a stream, and for the request of a SOCKS client.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);
/// The time limit for the near end to answer the far end.
pub(crate) const ANSWER: Duration = Duration::from_secs(30);
/// The overhead with which a message counts, in addition to its bytes.
pub(crate) const OVERHEAD: usize = 1 << 10;
/// The minimum and the maximum number of bytes that are read ahead of the other end.
const LEAST_WINDOW: u64 = 64 << 10;
const MOST_WINDOW: u64 = 1 << 30;

/// Checks the number of bytes that are read ahead of the other end.
///
/// # Errors
/// The number is too small, or too large.
pub(crate) fn window(size: Size) -> Result<usize, Failure> {
    let bytes = usize::try_from(size.0).ok().filter(|_| (LEAST_WINDOW..=MOST_WINDOW).contains(&size.0));
    bytes.ok_or_else(|| {
        Failure::new(format!("a window of {size} is not allowed"))
            .hint("choose from --window 64KiB to --window 1GiB")
    })
}

/// Raises the limits so that `connections` connections with one peer can each read `window` bytes ahead. A connection
/// with a slow reader then takes no room from others.
pub(crate) fn make_room(limits: &mut Limits, connections: usize, window: usize) {
    // A message is read as soon as there is room for a part of it.
    let each = window.saturating_add(64 << 10);
    limits.queued_bytes = limits.queued_bytes.max(each.saturating_mul(connections));
    limits.queued_messages = limits.queued_messages.max((each / OVERHEAD).saturating_mul(connections));
}
