//! RESET: a node that has restarted tells the peers of its former life that their channels are gone (PROTOCOL.md "A restarted
//! peer"). A RESET ends a channel, which holds no promise, and decides no outcome.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use crate::crypto::ResetTags;
use crate::opening::prefix::Prefix;
use crate::time::Mono;
use crate::wire::{self, ChannelIndex, ResetToken};

/// The time over which RESETs are counted.
const SPAN: Duration = Duration::from_millis(20);
/// How many RESETs may leave in that time: 8,192 a second. Each index gets one.
const MOST: usize = 163;
/// How many of these may go to one prefix: 512 a second.
const MOST_PER_PREFIX: usize = 10;

/// A node's state about RESETs: those that it has sent lately, and those that it would accept.
#[derive(Debug)]
pub(crate) struct Resets {
    /// RESETs sent in the last [`SPAN`], the oldest first.
    sent: VecDeque<(Mono, ChannelIndex, Option<Prefix>)>,
    tags: ResetTags,
    /// Maps the tag of a token that a peer has announced to the index of its epoch at this node.
    known: BTreeMap<[u8; wire::RESET_TOKEN], ChannelIndex>,
}

impl Resets {
    pub(crate) fn new(seed: &[u8; 32]) -> Self {
        Self { sent: VecDeque::new(), tags: ResetTags::new(seed), known: BTreeMap::new() }
    }

    /// Whether one more RESET may leave now, about `index` and to an address with this prefix. If so, it is counted.
    pub(crate) fn admit(&mut self, now: Mono, index: ChannelIndex, prefix: Option<Prefix>) -> bool {
        while self.sent.front().is_some_and(|(at, ..)| *at + SPAN <= now) {
            self.sent.pop_front();
        }
        let of_prefix = self.sent.iter().filter(|(.., other)| prefix.is_some() && *other == prefix).count();
        let admitted = self.sent.len() < MOST
            && of_prefix < MOST_PER_PREFIX
            && self.sent.iter().all(|(_, other, _)| *other != index);
        if admitted {
            self.sent.push_back((now, index, prefix));
        }
        admitted
    }

    /// The token ends the epoch `index` of this node. Returns the tag that stands for the token from now on.
    pub(crate) fn expect(&mut self, token: &ResetToken, index: ChannelIndex) -> [u8; wire::RESET_TOKEN] {
        let tag = self.tags.tag(&token.0);
        self.known.insert(tag, index);
        tag
    }

    /// The epoch `index` has ended.
    pub(crate) fn forget(&mut self, tag: &[u8; wire::RESET_TOKEN], index: ChannelIndex) {
        if self.known.get(tag) == Some(&index) {
            self.known.remove(tag);
        }
    }

    /// The epoch of this node that this token ends.
    pub(crate) fn find(&self, token: &[u8; wire::RESET_TOKEN]) -> Option<ChannelIndex> {
        self.known.get(&self.tags.tag(token)).copied()
    }

    pub(crate) fn known(&self) -> usize {
        self.known.len()
    }
}
