//! Openings that policy does not take, and what is said of it (PROTOCOL.md "Refusals").

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use super::Node;
use super::commands::Fates;
use super::epoch::Prefix;
use super::event::{Arrival, Event, Outcome, Refusal};
use super::handshake::ANSWER_ROOM;
use super::node::Settled;
use super::stamping::Memo;
use crate::crypto::{self, Opened, OpeningMac};
use crate::half::Receiver;
use crate::id::{NodeId, Stamp};
use crate::time::{Mono, Now};
use crate::wire::{self, Bases, ChannelIndex, Datagram, Frame, Frames, Params, Writer, close};

/// The time over which refusals that are told are counted.
const SPAN: Duration = Duration::from_millis(250);
/// Refusals told in that time: 512 a second.
const MOST: usize = 128;
/// Of these, to one prefix: 64 a second. Loopback is not counted.
const MOST_PER_PREFIX: usize = 16;
/// Refused peers that are remembered.
const MAX_REMEMBERED: usize = 1_024;
/// They are remembered for this, and the application hears of each once in this time.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);
/// A node that was refused opens again after this for messages in doubt, and not before.
pub(super) const PAUSE: Duration = Duration::from_secs(4);

/// What a node keeps of the openings that it has refused lately.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// Told in the last [`SPAN`], the oldest first.
    told: VecDeque<(Mono, Option<Prefix>)>,
    /// With the stamp of which it was said that nothing was taken under it: that stays true, and may be said again.
    known: BTreeMap<NodeId, Stamp>,
    /// In the order in which they were entered.
    ages: VecDeque<(Mono, NodeId)>,
}

impl Refusals {
    /// Whether one more may be told, to an address with this prefix. It counts if it may.
    fn admit(&mut self, now: Mono, prefix: Option<Prefix>) -> bool {
        while self.told.front().is_some_and(|(at, _)| *at + SPAN <= now) {
            self.told.pop_front();
        }
        let of_prefix = self.told.iter().filter(|(_, other)| prefix.is_some() && *other == prefix).count();
        let admitted = self.told.len() < MOST && of_prefix < MOST_PER_PREFIX;
        if admitted {
            self.told.push_back((now, prefix));
        }
        admitted
    }

    /// Notes that a peer was refused. True if the application is to hear of it.
    fn note(&mut self, now: Mono, id: NodeId) -> bool {
        while let Some((_, old)) = self.ages.front().filter(|(since, _)| *since + REMEMBERED_FOR <= now) {
            self.known.remove(old);
            self.ages.pop_front();
        }
        if self.known.contains_key(&id) || self.known.len() >= MAX_REMEMBERED {
            return false;
        }
        self.known.insert(id, Stamp::NONE);
        self.ages.push_back((now, id));
        true
    }

    pub(super) fn audit(&self, say: &mut impl FnMut(&'static str, u64, u64, bool)) {
        say("refusals told", self.told.len() as u64, MOST as u64, false);
        say("peers refused", self.known.len() as u64, MAX_REMEMBERED as u64, false);
        say("peers refused, by age", self.ages.len() as u64, MAX_REMEMBERED as u64, false);
    }
}

impl Node {
    /// Policy does not take this opening. Its sender is told, if the owner of this node wants that.
    pub(super) fn refuse_opening(
        &mut self,
        now: Now,
        arrival: Arrival,
        opening: &wire::Opening<'_>,
        opened: Opened,
        payload: &[u8],
    ) {
        let id = opened.peer();
        self.stats.openings_refused += 1;
        if id == self.id {
            return;
        }
        if self.refusals.note(now.mono, id) {
            self.events.push_back(Event::Refused { peer: id, remote: arrival.remote });
        }
        let stamp_of = |frame| if let Ok(Frame::Ask(ask)) = frame { Some(ask.ts) } else { None };
        let ts = Frames::new(payload, Bases::default()).find_map(stamp_of).unwrap_or_default();
        let prefix = Prefix::told(arrival.remote.ip());
        if !self.config.tell_refused || !self.refusals.admit(now.mono, prefix) {
            return;
        }
        let Some(certain) = self.refuse_stamp(now, id, ts) else {
            self.stamping.defer(arrival, [opening.mac2_input, opening.mac2].concat().into_boxed_slice());
            return;
        };
        self.stats.refusals_told += 1;
        self.tell_refused(arrival, opening.index, opened, certain);
    }

    /// The application has refused the sender of this opening.
    pub(super) fn refuse_waiting(&mut self, now: Now, arrival: Arrival, datagram: &mut [u8]) {
        let Ok(Datagram::Opening(opening)) = Datagram::parse(datagram) else { return };
        let (mut payload, seed) = ([0; wire::MAX_OPENING_PAYLOAD], self.seed());
        if let Ok(opened) = Opened::read(&self.key, opening.header, opening.noise, seed, &mut payload) {
            let payload = payload.get(..opened.payload_len()).unwrap_or_default();
            self.refuse_opening(now, arrival, &opening, opened, payload);
        }
    }

    /// Whether it may be said that nothing was taken under this stamp, and that nothing will be; None: not before `latest` is on the
    /// disk. This node neither answers for a stamp that is far ahead nor writes it down: else strangers could raise `latest`.
    fn refuse_stamp(&mut self, now: Now, id: NodeId, ts: Stamp) -> Option<bool> {
        if !ts.is_some() || self.refusals.known.get(&id) == Some(&ts) {
            return Some(ts.is_some());
        }
        if self.stamping.is_near(now, ts) && !self.admit_stamp(now, id, ts) {
            return None;
        }
        let certain = match self.peers.find(&id).and_then(|place| self.peers.get_mut(place)) {
            Some(peer) => Receiver::refuse(&mut peer.inbound.bound, &mut self.clock, ts),
            None => {
                let mut bound = self.stamping.memo_of(&id);
                let certain = Receiver::refuse(&mut bound, &mut self.clock, ts);
                if certain {
                    let told = self.stamping.told_of(&id);
                    self.stamping.remember(now, self.clock.stamps_mut(), id, Memo { bound, told });
                }
                certain
            }
        };
        if certain && let Some(refused) = self.refusals.known.get_mut(&id) {
            *refused = ts;
        }
        Some(certain)
    }

    /// An ANSWER that begins no channel. It is shorter than a twelfth of what asked for it.
    fn tell_refused(&mut self, arrival: Arrival, to: ChannelIndex, opened: Opened, certain: bool) {
        let id = opened.peer();
        let header = wire::answer_header(opened.suite().as_u8(), to, ChannelIndex(0));
        let mut frames = [0; ANSWER_ROOM];
        let mut writer = Writer::new(&mut frames, Bases::default());
        // Nothing is declared: no channel follows, and a stranger learns no more than has to be said.
        writer.params(&Params::default());
        writer.close(if certain { close::REFUSED } else { close::REFUSED_IN_DOUBT });
        let len = writer.len();
        let frames = frames.get(..len).unwrap_or_default();
        let mut datagram = vec![0; header.len() + len + crypto::ANSWER_OVERHEAD];
        let (clear, noise) = datagram.split_at_mut(header.len());
        clear.copy_from_slice(&header);
        if opened.answer(&header, frames, noise).is_ok() {
            datagram.extend_from_slice(&OpeningMac::new(&id).mac1(&datagram));
            self.push_loose(arrival, datagram.into());
        }
    }

    // --- refused by others ---

    /// The peer has ended, and its identity with it: nothing more will be known of what is in doubt.
    pub(super) fn on_end(&mut self, now: Now, place: u32) {
        self.abort_opening(place);
        let unbound = Outcome::Refused(Refusal::Ended);
        self.turn_away(now, place, &Fates { unbound, bound: Some(Outcome::Unknown) });
    }

    /// The peer begins no channel, and says so in answer to an opening that bore the stamp `ts`.
    pub(super) fn on_refused(&mut self, now: Now, place: u32, ts: Stamp, code: u64) {
        let Some(peer) = self.peers.get_mut(place) else { return };
        peer.link.refused_until = now.mono + PAUSE;
        let certain = code == close::REFUSED;
        // What was let in before goes on under the keys that there are, and an unknown code says nothing of messages.
        if peer.link.is_connected() || !(certain || code == close::REFUSED_IN_DOUBT) {
            return;
        }
        self.stats.refused += 1;
        let mut settled = std::mem::take(&mut self.scratch.settled);
        if let Some(sender) = peer.outbound.sender.as_mut().filter(|_| certain && ts.is_some()) {
            let outcome = Outcome::Refused(Refusal::Policy);
            sender.on_refused(ts, |_, key| Settled::push(&mut settled, key, outcome));
        }
        self.settle(now.mono, place, &mut settled);
        self.scratch.settled = settled;
        self.turn_away(now, place, &Fates { unbound: Outcome::Refused(Refusal::Policy), bound: None });
    }
}
