//! An opening of a peer that this node is about to answer.

use crate::crypto::Opened;
use crate::event::Arrival;
use crate::opening::prefix::Prefix;
use crate::time::Mono;
use crate::wire::{ChannelIndex, Params};

/// An opening that is answered as soon as the messages that came with it have been taken, or in a moment.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) opened: Opened,
    pub(crate) arrival: Arrival,
    pub(crate) theirs: Params,
    /// The index of this node, and that of the peer.
    pub(crate) index: ChannelIndex,
    pub(crate) remote: ChannelIndex,
    pub(crate) mac1: [u8; 16],
    pub(crate) prefix: Option<Prefix>,
    /// When the opening came, and when it is answered at the latest.
    pub(crate) since: Mono,
    pub(crate) until: Mono,
}
