//! Inspection of a node, for verification and diagnostics: its records, and what it holds against its limits.

use std::collections::BTreeMap;

use super::Node;
use super::peers::Census;
use crate::channel::received::MAX_RANGES;
use crate::config::Limits;
use crate::half::{Bound, Clock, Receiver, Sender};
use crate::id::{NodeId, Stamp};
use crate::message::Bundle;
use crate::message::MessageKey;
use crate::message::arrived::ARRIVED;
use crate::message::lane::{Lane, LaneKey, Load};
use crate::opening::asking::MAX_ASKING;
use crate::pattern::call::{MAX_ANSWERS, MAX_REPLY_ACKS};
use crate::peer::MAX_LOOSE;
use crate::peer::MAX_REMEMBERED;
use crate::peer::inbound::{Inbound, MAX_HAVES};
use crate::peer::link::{MAX_PENDING, MAX_PINGS, MAX_RESPONSES};
use crate::peer::outbound::Outbound;
use crate::peer::{MAX_HINTS, Peer};
use crate::time::Mono;
use crate::wire::Role;

/// The present half-connections with one peer.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    /// `S`: the sender record. None while there is nothing to send to the peer.
    pub sender: Option<&'a Sender<MessageKey>>,
    /// `R`: the receiver record. None while the peer wants nothing.
    pub receiver: Option<&'a Receiver>,
    /// `T`, `X` and `A`: what is known of the peer's stamps.
    pub bound: Bound,
    /// The last of the peer's stamps that was refused.
    pub rejected: Stamp,
    /// When something authentic last came from the peer, or its record was made. The time for which this node was itself absent
    /// is added.
    pub heard: Mono,
    /// Nothing has proven yet that the peer is there.
    pub tentative: bool,
}

/// An amount that a node holds, with its cap or the amount that it must equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The peer that it is held for. None: it is held for the node.
    pub peer: Option<NodeId>,
    /// What is held.
    pub what: &'static str,
    /// How much is held.
    pub held: u64,
    /// How much may be held, or must be.
    pub bound: u64,
    /// `held` must equal `bound`: they are two counts of the same thing.
    pub exact: bool,
}

impl Holding {
    /// Whether the amount is within its bound, or equals it if it must.
    pub const fn is_sound(&self) -> bool {
        if self.exact { self.held == self.bound } else { self.held <= self.bound }
    }
}

/// A peer's messages in the store.
#[derive(Clone, Default)]
struct Letters {
    count: u64,
    unbound: u64,
    bodies: u64,
    bytes: u64,
    held: u64,
    served: u64,
    pooled: BTreeMap<LaneKey, Load>,
    calls: u64,
    replies: u64,
}

/// The most packets that the calls add between two checks of what is remembered.
const TRAIN: usize = 64;

impl Node {
    /// The node's clock: `ck`, `b` and `D`.
    pub const fn clock(&self) -> &Clock {
        &self.cx.clock
    }

    /// How many peers are known now.
    pub fn peer_count(&self) -> usize {
        self.peers.len()
    }

    /// The half-connections with a peer. None if it is not known.
    pub fn records(&self, peer: &NodeId) -> Option<Records<'_>> {
        self.peers.get(self.peers.find(peer)?).map(Peer::records)
    }

    /// What is known of the stamps of a peer, whether or not the peer is in the table.
    pub fn bound(&self, peer: &NodeId) -> Bound {
        let known = self.peers.find(peer).and_then(|place| self.peers.get(place));
        known.map_or_else(|| self.cx.stamping.memo_of(peer), |known| known.inbound.bound)
    }

    /// The half-connections with every peer that is known.
    pub fn all_records(&self) -> impl Iterator<Item = (NodeId, Records<'_>)> {
        self.peers.iter().map(|(_, peer)| (peer.id, peer.records()))
    }

    /// Reports everything that the node holds for others with its cap, and each running count with a fresh count. O(all that it
    /// holds).
    pub fn audit(&self, mut report: impl FnMut(Holding)) {
        let mut letters: BTreeMap<u32, Letters> = BTreeMap::new();
        for (_, letter) in self.cx.store.iter() {
            let sum = letters.entry(letter.peer).or_default();
            sum.count += u64::from(letter.open());
            sum.unbound += u64::from(letter.unbound());
            sum.bodies += u64::from(letter.counted);
            sum.bytes += letter.source.kept();
            sum.held += letter.bundle().map_or(0, Bundle::held);
            sum.served += u64::from(letter.served);
            let open = match (letter.bundle(), letter.bound) {
                (Some(bundle), _) => bundle.open() - bundle.unbound(),
                (None, bound) => u32::from(bound.is_some() && !letter.served),
            };
            let pooled = sum.pooled.entry(letter.lane).or_default();
            (0..open).for_each(|_| *pooled = pooled.with(letter.pooled()));
            sum.calls += u64::from(letter.role == Role::Call && letter.bound.is_some());
            sum.replies += u64::from(letter.is_reply());
        }
        self.audit_node(&mut report);
        let (held, bound) = self.cx.store.resident();
        report(Holding { peer: None, what: "bytes of bodies that wait in memory", held, bound, exact: true });
        for (index, peer) in self.peers.iter() {
            self.audit_peer(peer, letters.remove(&index).unwrap_or_default(), &mut report);
        }
        let lost = letters.values().map(|sum| sum.count).sum();
        report(Holding { peer: None, what: "messages of no peer", held: lost, bound: 0, exact: true });
    }

    fn audit_node(&self, report: &mut impl FnMut(Holding)) {
        let mut say = |what, held: u64, bound: u64, exact| {
            report(Holding { peer: None, what, held, bound, exact });
        };
        let limits = &self.cx.config.limits;
        let sum = |count: fn(&Peer) -> u64| self.peers.iter().map(|(_, peer)| count(peer)).sum::<u64>();
        let pending = sum(|peer| (peer.link.pending.len() + peer.link.held.len()) as u64);
        let routes = sum(|peer| {
            let link = &peer.link;
            let answered = link.pending.len() + link.held.len();
            (usize::from(link.opening.is_some()) + link.epochs().count() + answered) as u64
        });
        let promised = sum(|peer| peer.inbound.promised() + peer.inbound.freed());
        let messages = sum(|peer| peer.inbound.parts() as u64) + self.cx.inbox.pieces() as u64;
        // The node always lets one message in.
        let room = if messages > 1 { limits.received_bytes as u64 } else { u64::MAX };
        say("peers", self.peers.len() as u64, limits.peers as u64, false);
        let mut census = Census::default();
        self.peers.iter().for_each(|(_, peer)| census.enter(peer.standing()));
        say("sender records counted", self.census.senders as u64, census.senders as u64, true);
        say("receiver records counted", self.census.receivers as u64, census.receivers as u64, true);
        say("peers counted that are busy", self.census.busy as u64, census.busy as u64, true);
        self.cx.gate.audit(pending, &mut say);
        say("channel indices", self.cx.routes.len() as u64, routes, true);
        say("datagrams outside of channels", self.cx.loose() as u64, MAX_LOOSE as u64, false);
        say("openings that wait for a word", self.cx.gate.asking.len() as u64, MAX_ASKING as u64, false);
        say("received bytes counted", self.cx.received, promised + self.cx.inbox.held(), true);
        say("received bytes", self.cx.received, room, false);
        self.cx.stamping.audit(&mut say);
        self.refusals.audit(&mut say);
        let (replies, bytes) = self.cx.replies.counts();
        let kept = sum(|peer| peer.inbound.server.recount().1 as u64);
        let kept_bytes = sum(|peer| peer.inbound.server.recount().2);
        let computed = sum(|peer| peer.inbound.server.recount().0 as u64);
        say("calls computed for all peers", self.cx.replies.computing as u64, computed, true);
        let tags = self.peers.iter().flat_map(|(_, peer)| peer.link.epochs());
        let tags = tags.filter(|epoch| epoch.reset_tag.is_some()).count() as u64;
        say("tokens of peers", self.cx.resets.known() as u64, tags, false);
        say("replies", replies as u64, kept, true);
        say("bytes of replies counted", bytes, kept_bytes, true);
        say("bytes of replies", bytes, if replies > 1 { limits.reply_bytes as u64 } else { u64::MAX }, false);
        say("deadlines", self.cx.deadlines.len() as u64, self.cx.store.len() as u64, false);
    }

    fn audit_peer(&self, peer: &Peer, letters: Letters, report: &mut impl FnMut(Holding)) {
        let mut say = |what, held: u64, bound: u64, exact| {
            report(Holding { peer: Some(peer.id), what, held, bound, exact });
        };
        let (limits, link) = (&self.cx.config.limits, &peer.link);
        let (inbound, outbound) = (&peer.inbound, &peer.outbound);
        let in_doubt = outbound.sender.as_ref().map_or(0, Sender::in_doubt);
        // The slots of a closed record are granted to no sender.
        let closed = inbound.receiver.as_ref().is_some_and(Receiver::is_closed);
        let free = if closed { 0 } else { inbound.granted() };
        let remembered = link.epochs().map(|epoch| epoch.sent.remembered()).max().unwrap_or(0);
        let ranges = link.epochs().map(|epoch| epoch.received.ranges().count()).max().unwrap_or(0);
        say("ranges to acknowledge", ranges as u64, MAX_RANGES as u64, false);
        say("messages counted", outbound.letters as u64, letters.count, true);
        say("messages without a slot", outbound.unbound(), letters.unbound, true);
        say("messages in doubt", in_doubt, letters.count - letters.unbound - letters.served, true);
        let given_up = outbound.large_given_up();
        say("large messages under way", outbound.bodies, letters.bodies + given_up, true);
        audit_open(outbound, letters.pooled, &mut say);
        say("bytes to send", outbound.bytes, letters.bytes, true);
        say("bytes kept with others", outbound.held, letters.held, true);
        let (runs, most) = outbound.given_up_runs(limits.queued_messages.max(1) + limits.replies.max(1));
        say("runs of messages given up", runs as u64, most as u64, false);
        say("messages", letters.count - letters.replies, limits.queued_messages.max(1) as u64, false);
        let (calls, reply_acks) = outbound.caller.counts();
        let (computing, replies, answers) = inbound.server.counts();
        let (computed, kept, _) = inbound.server.recount();
        say("calls that have left", calls as u64, letters.calls, true);
        say("REPLY_ACKs owed", reply_acks as u64, MAX_REPLY_ACKS as u64, false);
        say("calls that are computed", computing as u64, computed as u64, true);
        say("replies of one peer counted", replies as u64, kept as u64, true);
        say("replies of one peer", replies as u64, limits.replies.max(1) as u64, false);
        say("answers to probes of calls", answers as u64, MAX_ANSWERS as u64, false);
        // The slot of a waiting message does not count. It counts, and holds back grants, once the message is judged, or if the
        // message has not come again after a crash.
        let waited = limits.pool_window() / ARRIVED;
        say("free slots", free, limits.slots + waited, false);
        say("messages that are judged", inbound.verdicts.len() as u64, limits.slots + waited, false);
        audit_lanes(inbound, limits, &mut say);
        say("large messages coming", inbound.large as u64, limits.bodies as u64, false);
        say("HAVEs owed", inbound.haves.len() as u64, MAX_HAVES as u64, false);
        say("half-open channels of one peer", link.pending.len() as u64, MAX_PENDING as u64, false);
        say("openings about to be answered", link.held.len() as u64, MAX_PENDING as u64, false);
        say("pings", link.pings.len() as u64, MAX_PINGS as u64, false);
        say("path responses", link.responses.len() as u64, MAX_RESPONSES as u64, false);
        say("address hints", peer.hints.len() as u64, MAX_HINTS as u64, false);
        say("packets remembered", remembered as u64, (MAX_REMEMBERED + TRAIN) as u64, false);
    }
}

/// The running and the fresh counts of what each lane has open at the peer.
fn audit_open(
    outbound: &Outbound,
    mut open: BTreeMap<LaneKey, Load>,
    say: &mut impl FnMut(&'static str, u64, u64, bool),
) {
    for (lane, load) in outbound.pooled_given_up() {
        let sum = open.entry(lane).or_default();
        *sum = sum.with(load);
    }
    for (lane, load) in outbound.loads() {
        let counted = open.remove(&lane).unwrap_or_default();
        say("bytes open at the peer", load.bytes, counted.bytes, true);
        say("messages open at the peer", load.messages, counted.messages, true);
    }
    say("bytes open in no lane", open.values().map(|load| load.bytes).sum(), 0, true);
    let lanes = &outbound.lanes;
    say("bytes open in lanes", lanes.bytes(), lanes.loads().map(|(_, load)| load.bytes).sum(), true);
    for (counted, recounted) in lanes.shares().into_iter().chain([lanes.count()]) {
        say("shares of lanes open at the peer", counted, recounted, true);
    }
}

/// What each lane holds, with its window.
fn audit_lanes(inbound: &Inbound, limits: &Limits, say: &mut impl FnMut(&'static str, u64, u64, bool)) {
    let held = &inbound.held;
    say("pooled bytes", held.each().map(|(_, load)| load.bytes).sum(), held.bytes(), true);
    let Some(lanes) = held.limits() else {
        return say("bytes of the pool", held.bytes(), limits.pool_window(), false);
    };
    let mut apart = 0;
    for (lane, load) in held.each() {
        // An empty lane takes one message of any length.
        let open = if load.messages > 1 { load.open() } else { 0 };
        match lane {
            None | Some(Lane::Plain) => say("bytes of the pool", open, limits.pool_window(), false),
            Some(_) => {
                apart += 1;
                say("bytes of a lane", open, lanes.window.saturating_add(lanes.pool), false);
            }
        }
    }
    let (counted, recounted) = held.shares();
    say("shares of lanes counted", counted, recounted, true);
    say("shares of lanes", recounted, lanes.pool, false);
    say("lanes that hold something", apart, lanes.lanes, false);
}

impl Peer {
    fn records(&self) -> Records<'_> {
        let Self { outbound, inbound, link, .. } = self;
        Records {
            sender: outbound.sender.as_ref(),
            receiver: inbound.receiver.as_ref(),
            bound: inbound.bound,
            rejected: inbound.rejected,
            heard: inbound.heard_at(),
            tentative: link.tentative.is_some(),
        }
    }
}
