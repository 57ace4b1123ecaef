//! RESET: a node that has restarted says to the peers of its former life that their channels are gone (PROTOCOL.md "A restarted
//! peer"). It ends a channel, which holds no promise, and decides no outcome.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use super::Node;
use super::epoch::Prefix;
use super::event::Arrival;
use crate::channel::Roaming;
use crate::channel::path::Path;
use crate::crypto::ResetTags;
use crate::time::{Mono, Now};
use crate::wire::{self, ChannelIndex, ResetToken};

/// The time over which RESETs are counted.
const SPAN: Duration = Duration::from_millis(20);
/// RESETs in that time: 8,192 a second. One index has one.
const MOST: usize = 163;
/// Of these, to one prefix: 512 a second.
const MOST_PER_PREFIX: usize = 10;

/// What a node has to do with RESETs: those that it has sent lately, and those that it would believe.
#[derive(Debug)]
pub(super) struct Resets {
    /// Sent in the last [`SPAN`], the oldest first.
    sent: VecDeque<(Mono, ChannelIndex, Option<Prefix>)>,
    tags: ResetTags,
    /// The tag of what a peer has announced, to the index that its epoch has here.
    known: BTreeMap<[u8; wire::RESET_TOKEN], ChannelIndex>,
}

impl Resets {
    pub(super) fn new(seed: &[u8; 32]) -> Self {
        Self { sent: VecDeque::new(), tags: ResetTags::new(seed), known: BTreeMap::new() }
    }

    /// Whether one more may leave now, about `index` and to an address with this prefix. It counts if it may.
    pub(super) fn admit(&mut self, now: Mono, index: ChannelIndex, prefix: Option<Prefix>) -> bool {
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

    /// The epoch `index` of this node is over once the token is shown. Gives what stands for it from now on.
    pub(super) fn expect(&mut self, token: &ResetToken, index: ChannelIndex) -> [u8; wire::RESET_TOKEN] {
        let tag = self.tags.tag(&token.0);
        self.known.insert(tag, index);
        tag
    }

    /// The epoch `index` has ended.
    pub(super) fn forget(&mut self, tag: &[u8; wire::RESET_TOKEN], index: ChannelIndex) {
        if self.known.get(tag) == Some(&index) {
            self.known.remove(tag);
        }
    }

    /// The one of our epochs that this token ends.
    fn find(&self, token: &[u8; wire::RESET_TOKEN]) -> Option<ChannelIndex> {
        self.known.get(&self.tags.tag(token)).copied()
    }

    pub(super) fn known(&self) -> usize {
        self.known.len()
    }
}

impl Node {
    /// A data packet bears an index that no channel here has. If a former life has chosen it, the peer is told, and nobody else
    /// learns anything: the answer is shorter than any question, and is never answered.
    pub(super) fn on_stray(&mut self, now: Now, arrival: Arrival, index: ChannelIndex) {
        self.stats.strays += 1;
        let life = self.life.as_ref().filter(|_| self.may_speak());
        let Some(token) = life.and_then(|life| life.former_token(index)) else { return };
        if self.resets.admit(now.mono, index, Prefix::told(arrival.remote.ip())) {
            self.stats.resets_sent += 1;
            self.push_loose(arrival, Box::new(wire::reset(index, &token)));
        }
    }

    /// Only the peer that has chosen `reset.index`, or a holder of its secret, can know the token: it has restarted, and the
    /// channel is gone. Wherever the datagram comes from, nothing else follows, and nothing at all from a copy.
    pub(super) fn on_reset(&mut self, now: Now, reset: &wire::Reset<'_>) {
        let index = self.resets.find(reset.token);
        let place = index.and_then(|index| self.routes.get(&index.0)).copied();
        let epoch =
            place.zip(index).and_then(|(place, index)| self.peers.get_mut(place)?.link.epoch_mut(index));
        let (Some(place), true) = (place, epoch.is_some_and(|epoch| epoch.remote == reset.index)) else {
            self.stats.strays += 1;
            return;
        };
        self.stats.resets_heeded += 1;
        let path = self.peers.get(place).and_then(|peer| peer.link.proven());
        self.drop_channel(now, place);
        if let Some(peer) = self.peers.get_mut(place) {
            peer.outbound.renounce();
            let link = &mut peer.link;
            // What is known of the path stays, and the opening goes there.
            link.roaming = path.map(|path| Roaming::new(Path::proven(path)));
            link.recovery.on_peer_restart();
            link.reopen |= link.is_kept(&self.config);
            if let Some(opening) = link.opening.as_mut() {
                opening.hurry(now.mono);
            }
        }
        self.touch(now, place);
    }
}
