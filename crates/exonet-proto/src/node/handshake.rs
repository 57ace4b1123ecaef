//! Openings and answers: how a channel comes to be, and how it goes.

mod answer;
pub(super) mod conflict;
mod leaving;

use core::net::SocketAddr;
use core::time::Duration;

use rand_core::RngCore;

use super::Node;
use super::asking::Waiting;
use super::budget::Payer;
use super::config::{Policy, Takes};
use super::epoch::{Carried, Epoch, Held, Pending, Prefix};
use super::event::{Arrival, Conflict, Event};
use super::filling::{write_early, write_state};
use super::link::{Link, MAX_PENDING};
use super::lives::Seen;
use super::opening::{Opening, round_trip};
use super::outbound::{Outbound, PeerLimits};
use crate::channel::path::{Path, PathAddr};
use crate::channel::{Received, Roaming, Sent};
use crate::crypto::{self, Initiator, Opened, OpeningMac};
use crate::id::{NodeId, Stamp};
use crate::message::Store;
use crate::time::{Mono, Now};
use crate::wire::{self, Bases, ChannelIndex, Frame, Frames, Params, Writer};

/// A record that an opening has made and no data packet has confirmed is kept for this: the network may have gone
/// down right behind the answer.
const TENTATIVE_FOR: Duration = Duration::from_secs(3_600);
/// A half-open epoch that no data packet confirms is forgotten after this.
const HALF_OPEN_FOR: Duration = Duration::from_secs(10);
/// Epochs that began within this of each other crossed: the smaller id's is used by both.
const CROSSING: Duration = Duration::from_secs(5);
/// Copies of an opening sent to every address for the sake of a farewell or a ping, and of a reminder.
const FAREWELLS: u32 = 6;
const REMINDERS: u32 = 2;
/// Free ranges of a record up to which its last STATE goes with the CLOSE.
const LAST_RANGES: usize = 32;
/// Room for the ASK and the head of an EARLY frame.
const EARLY_OVERHEAD: usize = 37 + 18;
/// Largest number of bytes that the frames of an answer may have.
pub(super) const ANSWER_ROOM: usize =
    wire::MAX_ANSWER - wire::ANSWER_HEADER - crypto::ANSWER_OVERHEAD - wire::MAC;

/// What policy says of the sender of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Welcome {
    Yes,
    No,
    /// Nothing yet: the opening waits for the application's word, or has to come again.
    Later,
}

impl Node {
    /// A channel index that no other channel here has. The peer's packets to us bear it.
    fn new_index(&mut self) -> ChannelIndex {
        loop {
            let random = self.rng.next_u32();
            let index = self.life.as_mut().map_or(ChannelIndex(random), |life| life.index(random));
            if !self.routes.contains_key(&index.0) {
                return index;
            }
        }
    }

    pub(super) fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        seed
    }

    /// What this node says of itself, with its base of numbers towards `place`, in the handshake of the channel `index`.
    fn params(&self, now: Now, place: u32, index: ChannelIndex) -> Params {
        let limits = &self.config.limits;
        let peer = self.peers.get(place);
        let s = peer.and_then(|peer| Some(peer.outbound.sender.as_ref()?.frontier().0));
        let r = peer.and_then(|peer| Some(peer.inbound.receiver.as_ref()?.incarnation().0));
        let below = self.clock.limit().0.saturating_sub(1);
        Params {
            // Below every number of the next life, which begins at D: so a peer can tell lives from copies.
            base: [s, r].into_iter().flatten().fold(self.clock.ck(), u64::min).min(below),
            max_ack_delay: self.config.max_ack_delay,
            boot_id: self.boot_id,
            time: now.wall,
            max_datagram: u64::from(self.config.largest_datagram()),
            pool_window: limits.pool_window(),
            body_window: limits.body_window(),
            max_bodies: limits.bodies as u64,
            max_message: limits.message.saturating_add(crate::message::MAX_HEAD).min(crate::MAX_NUMBER),
            idle_timeout: self.config.idle_timeout,
            reset: self.life.as_ref().and_then(|life| life.token(index)),
            takes: self.config.takes.bits(),
            ..Params::default()
        }
    }

    // --- begun here ---

    /// Begins an opening when there is something to say and no keys to say it under, or new keys are wanted.
    pub(super) fn open_if_wanted(&mut self, now: Now, place: u32) {
        let Some(peer) = self.peers.get(place) else { return };
        let wanted = peer.link.reopen || (!peer.link.is_connected() && peer.wants_channel(now.mono));
        if !wanted || peer.link.opening.is_some() || !peer.has_address() {
            return;
        }
        // What was refused is not asked again at once, unless the application asks.
        if peer.link.refused_until > now.mono {
            return;
        }
        if self.open(now, place).is_none() {
            // The id is no key that can be talked to: what is for it stays, and says so when asked.
            self.stats.unreachable += 1;
        }
    }

    fn open(&mut self, now: Now, place: u32) -> Option<()> {
        let (index, seed) = (self.new_index(), self.seed());
        let params = self.params(now, place, index);
        let early = self.may_send_early(place);
        let peer = self.peers.get_mut(place)?;
        peer.link.reopen = false;
        let header = wire::opening_header(self.config.suite.as_u8(), index);
        let mut initiator = Initiator::new(&self.key, &peer.id, &header, seed).ok()?;
        let mut payload = [0; wire::MAX_OPENING_PAYLOAD];
        let mut writer = Writer::new(&mut payload, Bases { sender: params.base, receiver: 0 });
        writer.params(&params);
        if peer.inbound.receiver.is_some() {
            write_state(&mut writer, &peer.inbound, &self.clock, &self.config);
        }
        if let Some(ts) = early.then(|| self.stamping.choose(now.wall, peer.told)).flatten() {
            let room = writer.remaining().saturating_sub(EARLY_OVERHEAD);
            let all = self.config.early;
            self.stats.early_sent +=
                peer.outbound.bind_early(now.mono, &mut self.clock, &mut self.store, ts, all, room);
        }
        let pto = peer.link.pto();
        let window = peer.link.recovery.congestion().window();
        let mut stamp = Stamp::NONE;
        if let Some(ask) = peer.outbound.ask(now.mono, &mut self.clock, window, pto) {
            stamp = ask.ts;
            writer.ask(ask.into());
            write_early(&mut writer, &peer.outbound, &self.store);
        }
        // Behind the frames the buffer has what was moved away or did not fit, which would be read as frames.
        let len = writer.len().max(super::opening::PAYLOAD);
        writer.padding(len - writer.len());
        let payload = payload.get(..len)?;
        let mut datagram = header.to_vec();
        datagram.resize(header.len() + payload.len() + crypto::OPENING_OVERHEAD, 0);
        let noise = datagram.get_mut(header.len()..)?;
        initiator.write_opening(payload, noise).ok()?;
        let mac = OpeningMac::new(&peer.id);
        let opening = Opening::new(now.mono, initiator, index, (params.base, stamp), datagram, &mac);
        peer.link.opening = Some(Box::new(opening));
        self.routes.insert(index.0, place);
        Some(())
    }

    /// Whether first messages may go beside the opening: nothing else can carry them, and this node's clock is not
    /// known to be far from the peer's without being known how far.
    fn may_send_early(&self, place: u32) -> bool {
        let Some(peer) = self.peers.get(place).filter(|peer| !peer.told.ended) else { return false };
        !peer.link.is_connected() && (peer.told.ahead.is_some() || !self.clock_doubted)
    }

    /// A copy of the opening under way, if one is due.
    pub(super) fn transmit_opening(
        &mut self,
        now: Now,
        place: u32,
        buf: &mut Vec<u8>,
    ) -> Option<super::event::Transmit> {
        self.tire(now, place);
        let jitter = self.rng.next_u32().to_le_bytes()[0];
        let peer = self.peers.get_mut(place)?;
        if !peer.wants_channel(now.mono) && !peer.link.is_connected() {
            self.abort_opening(place);
            return None;
        }
        if peer.link.opening.as_ref().is_none_or(|opening| !opening.is_due(now.mono)) {
            return None;
        }
        let active = peer.link.proven().map(|path| path.remote);
        let mut targets: Vec<SocketAddr> = active.into_iter().collect();
        targets.extend(peer.hints.iter().filter(|hint| Some(**hint) != active));
        let eager = peer.link.opens_eagerly(peer.outbound.has_messages());
        let (remote, data) = peer.link.opening.as_mut()?.emit(now.mono, &targets, eager, jitter)?;
        buf.extend_from_slice(data);
        peer.link.spoke(now.mono);
        Some(super::event::Transmit { remote, src_ip: None, ecn: 0, segment: buf.len(), len: buf.len() })
    }

    /// A channel for no message's sake is not worth asking for without end: the peer may be gone for good.
    ///
    /// Its own reminder brings a lost farewell again, and ours comes again in its time.
    fn tire(&mut self, now: Now, place: u32) {
        let Some(peer) = self.peers.get_mut(place).filter(|peer| !peer.outbound.has_messages()) else {
            return;
        };
        let due = peer.link.opening.as_ref().filter(|opening| opening.is_due(now.mono));
        let reminds = !peer.outbound.farewell_due && peer.link.pings.is_empty();
        let patience = if reminds { REMINDERS } else { FAREWELLS };
        if peer.link.is_connected() || due.is_none_or(|opening| opening.rounds(peer.hints.len()) < patience) {
            return;
        }
        peer.outbound.farewell_due = false;
        peer.inbound.state_sent();
        self.events.extend(peer.lose_pings(None));
        self.abort_opening(place);
    }

    pub(super) fn abort_opening(&mut self, place: u32) {
        if let Some(opening) = self.peers.get_mut(place).and_then(|peer| peer.link.opening.take()) {
            self.routes.remove(&opening.index.0);
        }
    }

    pub(super) fn on_retry(&mut self, now: Now, retry: &wire::Retry<'_>) {
        let place = self.routes.get(&retry.to.0).copied();
        let Some((place, peer)) = place.and_then(|place| Some((place, self.peers.get_mut(place)?))) else {
            self.stats.strays += 1;
            return;
        };
        let key = crypto::RetryKey::new(&peer.id);
        let opening = peer.link.opening.as_mut().filter(|opening| opening.index == retry.to);
        match opening.map(|opening| (key.open(retry.nonce, opening.mac1(), retry.sealed), opening)) {
            Some((Ok(retry), opening)) => opening.obey(now.mono, &retry.cookie),
            Some((Err(_), _)) => self.stats.unauthentic += 1,
            None => self.stats.strays += 1,
        }
        self.touch(now, place);
    }

    pub(super) fn on_answer(&mut self, now: Now, arrival: Arrival, answer: &wire::Answer<'_>) {
        if !self.mac.verify_mac1(answer.mac1_input, answer.mac1) {
            self.stats.unauthentic += 1;
            return;
        }
        let Some(place) = self.routes.get(&answer.to.0).copied() else {
            self.stats.strays += 1;
            return;
        };
        let Some(peer) = self.peers.get_mut(place) else {
            return;
        };
        let Some(opening) = peer.link.opening.as_mut().filter(|opening| opening.index == answer.to) else {
            self.stats.strays += 1;
            return;
        };
        let mut payload = [0; ANSWER_ROOM];
        let Ok((keys, len)) = opening.initiator.read_answer(answer.header, answer.noise, &mut payload) else {
            self.stats.unauthentic += 1;
            return;
        };
        let payload = payload.get(..len).unwrap_or_default();
        let (base, index, begun) = (opening.base, opening.index, opening.begun);
        let target = opening.target_for(arrival.remote);
        let round_trip = opening.round_trip(now.mono);
        let Ok(params) = params_of(payload) else {
            self.stats.malformed += 1;
            self.abort_opening(place);
            return;
        };
        if let Some(code) = close_of(payload) {
            let ts = opening.stamp;
            self.abort_opening(place);
            self.on_refused(now, place, ts, code);
            self.touch(now, place);
            return;
        }
        peer.link.opening = None;
        peer.note_time(now.wall, params.time);
        let bases = Bases { sender: base, receiver: params.base };
        let epoch = Epoch {
            index,
            remote: answer.index,
            keys,
            suite: self.config.suite,
            bases,
            params,
            reset_tag: None,
            sent: Sent::skipping(self.skips.fork()),
            received: Received::new(self.config.max_ack_delay),
            born: now.mono,
            initiator: true,
            sealed: 0,
            forged: 0,
        };
        // An address that the opening went to was chosen here. From elsewhere, the answer may be a copy.
        let chosen = Arrival { remote: target.unwrap_or(arrival.remote), ..arrival };
        if !self.install(now, place, epoch, begun, chosen, true) {
            self.touch(now, place);
            return;
        }
        if let Some(peer) = self.peers.get_mut(place) {
            peer.link.confirm = true;
            peer.link.recovery.assume_rtt(round_trip);
        }
        let from = PathAddr { remote: arrival.remote, local: arrival.local_ip };
        self.note_path(now, place, from, answer.header.len() + answer.noise.len(), true);
        self.on_handshake_frames(now, place, payload, bases.reversed());
        // Not from an opening, which may be a replay or a forgery by a thief of this node's key.
        for frame in Frames::new(payload, bases.reversed()).flatten() {
            if let Frame::Reply(reply) = frame {
                self.on_reply(now, place, &reply);
            }
        }
        self.touch(now, place);
    }

    /// The frames in the payload of a handshake message, PARAMS aside.
    fn on_handshake_frames(&mut self, now: Now, place: u32, payload: &[u8], bases: Bases) {
        for frame in Frames::new(payload, bases) {
            match frame {
                Ok(
                    frame @ (Frame::Ask(_)
                    | Frame::State(_)
                    | Frame::Have(_)
                    | Frame::Early(_)
                    | Frame::StampRejected { .. }),
                ) => self.on_half_frame(now, place, frame),
                Ok(_) => {}
                Err(_) => {
                    self.stats.malformed += 1;
                    return;
                }
            }
        }
    }

    // --- begun there ---

    pub(super) fn on_opening(&mut self, now: Now, arrival: Arrival, opening: &wire::Opening<'_>) {
        if !self.may_speak() || !self.mac.verify_mac1(opening.mac1_input, opening.mac1) {
            self.stats.unauthentic += 1;
            return;
        }
        if self.answer_copy(now, arrival, opening) {
            return;
        }
        let prefix = Prefix::told(arrival.remote.ip());
        let loaded = self.half_open.is_loaded(now.mono, prefix);
        let proven = loaded && self.is_proven(now, arrival, opening);
        if loaded && !proven {
            self.retry(now, arrival, opening);
            return;
        }
        if !self.half_open.admit(now.mono, Payer { prefix, proven }) {
            self.stats.openings_refused += 1;
            return;
        }
        let (mut payload, seed) = ([0; wire::MAX_OPENING_PAYLOAD], self.seed());
        let Ok(opened) = Opened::read(&self.key, opening.header, opening.noise, seed, &mut payload) else {
            self.stats.unauthentic += 1;
            return;
        };
        let payload = payload.get(..opened.payload_len()).unwrap_or_default();
        match self.welcome(now, opened.peer(), arrival, opening) {
            Welcome::Yes => {}
            Welcome::Later => {
                self.stats.openings_refused += 1;
                return;
            }
            Welcome::No => return self.refuse_opening(now, arrival, opening, opened, payload),
        }
        // Recorded openings must not push out the one that is under way.
        let crowded = self.peers.find(&opened.peer()).and_then(|place| self.peers.get(place));
        if crowded.is_some_and(|peer| peer.link.pending.len() + peer.link.held.len() >= MAX_PENDING)
            && !self.is_proven(now, arrival, opening)
        {
            self.retry(now, arrival, opening);
            return;
        }
        if !self.may_judge(now, opened.peer(), payload) {
            self.stamping.defer(arrival, [opening.mac2_input, opening.mac2].concat().into_boxed_slice());
            return;
        }
        self.take_in(now, arrival, opening, opened, payload);
    }

    /// The driver's word on the openings that wait for their share of its time: `pressed`, that there are more than
    /// it can give to the node soon, so that one has to prove its address; and how many more it has dropped.
    pub fn press(&mut self, pressed: bool, dropped: u64) {
        self.half_open.pressed = pressed;
        self.stats.openings_refused += dropped;
    }

    /// Whether the stamp in an opening can be judged, or must wait for the disk.
    fn may_judge(&mut self, now: Now, id: NodeId, payload: &[u8]) -> bool {
        let stamp_of = |frame| if let Ok(Frame::Ask(ask)) = frame { Some(ask.ts) } else { None };
        let Some(ts) = Frames::new(payload, Bases::default()).find_map(stamp_of) else { return true };
        self.admit_stamp(now, id, ts)
    }

    /// It bears a cookie that was given to the address that it comes from. Zeros say that there is none.
    fn is_proven(&self, now: Now, arrival: Arrival, opening: &wire::Opening<'_>) -> bool {
        *opening.mac2 != [0; wire::MAC]
            && self.cookies.verify_mac2(now.mono, arrival.remote, opening.mac2_input, opening.mac2)
    }

    /// A copy of an opening that has been answered gets the same answer again.
    fn answer_copy(&mut self, now: Now, arrival: Arrival, opening: &wire::Opening<'_>) -> bool {
        let place = self.half_open.copies.get(opening.mac1).and_then(|index| self.routes.get(index));
        let Some(peer) = place.and_then(|place| self.peers.get_mut(*place)) else { return false };
        let pending = peer.link.pending.iter_mut().find(|pending| pending.mac1 == *opening.mac1);
        // Or it is about to be answered.
        let Some(pending) = pending else { return true };
        pending.scattered |= pending.answered != arrival.remote;
        (pending.answered_at, pending.again) = (now.mono, true);
        let answer = pending.answer.clone();
        // The first answer was lost, or is late: two are likelier to arrive. They are smaller than what has come.
        let loaded = self.half_open.is_loaded(now.mono, Prefix::told(arrival.remote.ip()));
        if !loaded && 2 * answer.len() <= wire::MIN_OPENING {
            self.push_loose(arrival, answer.clone());
        }
        self.push_loose(arrival, answer);
        true
    }

    fn retry(&mut self, now: Now, arrival: Arrival, opening: &wire::Opening<'_>) {
        let mut nonce = [0; crypto::RETRY_NONCE_LEN];
        self.rng.fill_bytes(&mut nonce);
        let cookie = self.cookies.cookie(now.mono, arrival.remote);
        let sealed = self.retry_key.seal(&nonce, &crypto::Retry { cookie, time: now.wall }, opening.mac1);
        self.stats.retries += 1;
        self.push_loose(arrival, Box::new(wire::retry(opening.index, &nonce, &sealed)));
    }

    /// Whether policy lets this peer talk. If the application has to say, the opening waits for its word.
    fn welcome(&mut self, now: Now, id: NodeId, arrival: Arrival, opening: &wire::Opening<'_>) -> Welcome {
        let known = self.peers.find(&id).and_then(|place| self.peers.get(place));
        if id == self.id {
            return Welcome::No;
        }
        match &self.config.policy {
            Policy::Anyone => Welcome::Yes,
            _ if known.is_some_and(|peer| peer.admitted) => Welcome::Yes,
            Policy::Only(ids) if ids.contains(&id) => Welcome::Yes,
            Policy::Only(_) => Welcome::No,
            Policy::Ask => {
                if self.asking.is_asked(now.mono, &id) {
                    return Welcome::Later;
                }
                if self.asking.is_loaded() && !self.is_proven(now, arrival, opening) {
                    self.retry(now, arrival, opening);
                    return Welcome::Later;
                }
                let datagram = [opening.mac2_input, opening.mac2].concat().into_boxed_slice();
                let prefix = Prefix::told(arrival.remote.ip());
                if self.asking.put(id, Waiting { since: now.mono, prefix, arrival, datagram }) {
                    self.events.push_back(Event::Authorize { id, remote: arrival.remote });
                }
                Welcome::Later
            }
        }
    }

    /// The application's word on a peer that asked to talk, for as long as that peer is known here.
    pub fn admit(&mut self, now: Now, id: NodeId, yes: bool) {
        let asked = self.asking.take(&id);
        if !yes {
            if let Some(peer) = self.peers.find(&id).and_then(|place| self.peers.get_mut(place)) {
                peer.admitted = false;
            }
            if let Some(mut asking) = asked {
                self.refuse_waiting(now, asking.arrival, &mut asking.datagram);
            }
            return;
        }
        let place = self.peers.find(&id).or_else(|| self.new_peer(now, id));
        if let Some(peer) = place.and_then(|place| self.peers.get_mut(place)) {
            peer.admitted = true;
        }
        if let Some(mut asking) = asked {
            self.handle_datagram(now, asking.arrival, &mut asking.datagram);
        }
        // Nobody may have come after all.
        if let Some(place) = self.peers.find(&id) {
            self.touch(now, place);
        }
    }

    fn forget_held(&mut self, held: &Held) {
        self.half_open.leave(held.prefix, &held.mac1);
        self.routes.remove(&held.index.0);
    }

    fn forget_pending(&mut self, pending: &Pending) {
        self.half_open.leave(pending.prefix, &pending.mac1);
        self.routes.remove(&pending.epoch.index.0);
    }

    // --- keys change ---

    /// A data packet has opened under `index`: a pending epoch is confirmed by it. False: nothing may come under it.
    pub(super) fn promote(&mut self, now: Now, place: u32, index: ChannelIndex, arrival: Arrival) -> bool {
        let Some(peer) = self.peers.get_mut(place) else {
            return true;
        };
        let Some(at) = peer.link.pending.iter().position(|pending| pending.epoch.index == index) else {
            return true;
        };
        let pending = peer.link.pending.remove(at);
        if peer.link.pending.is_empty() {
            // There will be none for long.
            peer.link.pending = Vec::new();
        }
        self.half_open.leave(pending.prefix, &pending.mac1);
        // Only message 2 could give it the keys, and that went to one address alone: there it is.
        let proven = !pending.scattered && pending.answered == arrival.remote;
        // The keys follow from what was drawn for the answer.
        let begun = pending.epoch.born;
        if !self.install(now, place, pending.epoch, begun, arrival, proven) {
            return false;
        }
        let Some(peer) = self.peers.get_mut(place) else { return true };
        let waited = now.mono.since(pending.answered_at);
        peer.link.recovery.assume_rtt(round_trip(waited, pending.again));
        if let Some(nth) = pending.state {
            peer.inbound.state_arrived(now.mono, nth, &self.config);
        }
        true
    }

    /// New keys are in use from now on. The old ones still open packets for a while.
    ///
    /// `proven`: the peer is at the address of `arrival`. Otherwise a copy may have come from there, and a path that
    /// stands is kept. `begun`: the peer has lived since then, for its keys follow from what was drawn here at that time. False:
    /// they are not used, since they are of a process that is gone, or of a node whose identity another one has too.
    fn install(
        &mut self,
        now: Now,
        place: u32,
        mut epoch: Epoch,
        begun: Mono,
        arrival: Arrival,
        proven: bool,
    ) -> bool {
        self.stats.handshakes += 1;
        let Some(peer) = self.peers.get_mut(place) else {
            return false;
        };
        let seen = peer.link.lives.judge(&epoch.params, begun);
        if peer.conflict.is_some() || seen == Seen::Twice {
            self.part(now, place, Conflict::Theirs, Some((epoch, arrival)));
            return false;
        }
        if seen == Seen::Stale {
            self.stats.strays += 1;
            self.routes.remove(&epoch.index.0);
            return false;
        }
        peer.link.lives.enter(&epoch.params, now.mono);
        epoch.reset_tag = epoch.params.reset.take().map(|token| self.resets.expect(&token, epoch.index));
        let id = self.id;
        let challenge = self.rng.next_u64().to_be_bytes();
        let config = &self.config;
        let Some(peer) = self.peers.get_mut(place) else {
            return false;
        };
        let params = epoch.params;
        let restarted = seen == Seen::Restarted;
        if peer.link.tentative.take().is_some() {
            // What its opening asked for is its own wish now: it is reminded of it, though it may say nothing more.
            peer.inbound.engaged(now.mono, peer.link.pto() * 3);
        }
        peer.outbound.limits = PeerLimits::of(&params);
        peer.link.heard_at = now.mono;
        let begun_by_smaller = epoch.initiator == (id < peer.id);
        let crossed = peer.link.current.as_ref().is_some_and(|current| {
            let theirs = current.initiator == (id < peer.id);
            !restarted && theirs && !begun_by_smaller && now.mono.since(current.born) < CROSSING
        });
        let until = now.mono + peer.link.pto() * 3;
        let replaced = if crossed {
            peer.link.previous.replace((Box::new(epoch), until))
        } else {
            let old = peer.link.current.replace(Box::new(epoch));
            let replaced = peer.link.previous.take();
            peer.link.previous = old.map(|old| (old, until));
            replaced
        };
        let from = PathAddr { remote: arrival.remote, local: arrival.local_ip };
        let same = peer.link.roaming.as_ref().is_some_and(|roaming| roaming.active().addr().same(&from))
            || (peer.link.roaming.is_some() && !proven);
        if !same {
            if peer.link.roaming.is_some() || peer.link.recovery.rtt().is_measured() {
                peer.link.on_path_change(now.mono, config);
            }
            let timing = peer.link.recovery.timing();
            peer.link.roaming = Some(if proven {
                Roaming::new(Path::proven(from))
            } else {
                Roaming::unproven(now.mono, from, timing, challenge)
            });
        }
        peer.link.cap_datagrams(now.mono, config, params.max_datagram, !same);
        peer.link.recovery.set_max_ack_delay(params.max_ack_delay);
        if proven {
            peer.add_hint(arrival.remote);
        }
        let (peer_id, remote) = (peer.id, arrival.remote);
        if peer.outbound.largest > peer.outbound.limits.message {
            self.withdraw_oversized(now, place);
        }
        self.withdraw_untaken(now, place);
        if let Some((gone, _)) = replaced {
            self.end_epoch(now, place, *gone);
        }
        if restarted {
            self.end_previous(now, place);
            if let Some(peer) = self.peers.get_mut(place) {
                peer.outbound.on_restart(now.mono);
            }
        }
        self.events.push_back(Event::Connected { peer: peer_id, remote, restarted });
        true
    }

    // --- time ---

    /// What time alone brings about on a link.
    pub(super) fn link_timeout(&mut self, now: Now, place: u32) {
        self.expire_pending(now, place);
        self.answer_held(now, place);
        self.detect_losses(now, place);
        let config = &self.config;
        let Some(peer) = self.peers.get_mut(place) else {
            return;
        };
        if let Some(roaming) = peer.link.roaming.as_mut() {
            roaming.on_timeout(now.mono);
        }
        if peer.link.pto_at().is_some_and(|at| at <= now.mono) {
            let link = &mut peer.link;
            let probe = link.recovery.on_pto(now.mono);
            link.probes = probe.packets;
            let packets = link.current.iter().flat_map(|epoch| epoch.sent.outstanding());
            peer.outbound.probe(&mut self.store, packets, probe.packets);
            if link.recovery.is_random() {
                peer.outbound.ask_again(now.mono);
            }
        }
        if peer.link.take_doubt(now.mono) {
            peer.link.reopen |= peer.wants_channel(now.mono) || peer.link.is_kept(config);
        }
        let link = &mut peer.link;
        copy_lone(now, link, &mut peer.outbound, &mut self.store);
        let wears_out = link.current.as_ref().is_some_and(|epoch| epoch.wears_out());
        if link.opening.is_none() && (wears_out || link.rekey_at(config) <= now.mono) {
            link.reopen = true;
        }
        if link.keepalive_at(config) <= now.mono {
            link.confirm = true;
            link.used_at = now.mono;
        }
        if link.refused_until <= now.mono {
            link.refused_until = Mono(0);
        }
        let idle = link.idle_at(config) <= now.mono;
        if link.previous.as_ref().is_some_and(|(_, until)| *until <= now.mono) {
            self.end_previous(now, place);
        }
        if idle {
            self.leave(now, place);
        }
    }

    fn expire_pending(&mut self, now: Now, place: u32) {
        let Some(peer) = self.peers.get_mut(place) else {
            return;
        };
        let expired: Vec<Pending> =
            peer.link.pending.extract_if(.., |pending| pending.expires <= now.mono).collect();
        for pending in &expired {
            self.forget_pending(pending);
        }
    }

    /// A peer is heard of for the first time, by an opening that may be a replay: what it makes us hold is bounded
    /// in number and time.
    fn note_tentative(&mut self, now: Now, place: u32) {
        let Some(peer) = self.peers.get_mut(place) else { return };
        let known = peer.link.lives.is_known() || peer.link.is_connected() || peer.outbound.has_messages();
        if known || peer.link.tentative.is_some() {
            return;
        }
        peer.link.tentative = Some(now.mono + TENTATIVE_FOR);
        if let Some((oldest, id)) = self.half_open.doubt(place, peer.id)
            && self.peers.get(oldest).is_some_and(|peer| peer.id == id)
        {
            self.renounce(oldest);
            self.touch(now, oldest);
        }
    }

    /// A peer that has not proved to be there is given up when its time is over, or when there is no record that it
    /// could miss.
    pub(super) fn doubt(&mut self, now: Now, place: u32) {
        let Some(peer) = self.peers.get(place) else { return };
        let empty = peer.link.pending.is_empty() && peer.inbound.receiver.is_none();
        if peer.link.tentative.is_some_and(|until| until <= now.mono || empty) {
            self.renounce(place);
        }
    }

    /// A peer never proved to be there: what it made us hold goes.
    fn renounce(&mut self, place: u32) {
        let Some(peer) = self.peers.get_mut(place) else { return };
        if peer.link.tentative.take().is_some() {
            self.stats.evictions += u64::from(peer.inbound.renounce(&mut self.clock));
        }
    }

    fn detect_losses(&mut self, now: Now, place: u32) {
        let mut fates = std::mem::take(&mut self.scratch.fates);
        if let Some(peer) = self.peers.get_mut(place) {
            let link = &mut peer.link;
            let current = link.current.as_deref_mut();
            let previous = link.previous.as_mut().map(|(epoch, _)| &mut **epoch);
            for epoch in current.into_iter().chain(previous) {
                if epoch.sent.loss_time().is_some_and(|at| at <= now.mono) {
                    let keep = |fate, item| fates.push((item, fate));
                    let report = link.recovery.on_loss_timeout(now.mono, &mut epoch.sent, keep);
                    link.packets_lost += report.lost;
                    self.stats.packets_lost += report.lost;
                }
            }
        }
        self.apply(now, place, &mut fates);
        self.scratch.fates = fates;
    }
}

/// Packets that had nothing behind them, and of which nothing was heard yet, go again.
fn copy_lone(now: Now, link: &mut Link, outbound: &mut Outbound, store: &mut Store) {
    while let Some((_, index, number)) = link.hedges.front().copied().filter(|(at, ..)| *at <= now.mono) {
        link.hedges.pop_front();
        let Some(epoch) = link.current.as_ref().filter(|epoch| epoch.index == index) else { continue };
        let Some((bytes, items)) = epoch.sent.still_out(number) else { continue };
        if link.recovery.has_room(bytes) {
            outbound.send_again(store, items.filter(|item| *item != Carried::Ask));
            link.copies.push_back(number);
        }
    }
}

/// PARAMS, which comes first in either handshake message.
pub(super) fn params_of(payload: &[u8]) -> Result<Params, wire::Malformed> {
    match Frames::new(payload, Bases::default()).next() {
        Some(Ok(Frame::Params(params))) => Ok(params),
        Some(Err(malformed)) => Err(malformed),
        _ => Err(wire::Malformed::Truncated),
    }
}

/// Why the answer begins no channel, if it does not.
fn close_of(payload: &[u8]) -> Option<u64> {
    let code = |frame| if let Frame::Close { code } = frame { Some(code) } else { None };
    Frames::new(payload, Bases::default()).map_while(Result::ok).find_map(code)
}

impl PeerLimits {
    fn of(params: &Params) -> Self {
        Self {
            pool_window: params.pool_window,
            body_window: params.body_window.max(crate::message::POOLED),
            bodies: params.max_bodies,
            message: params.max_message.saturating_sub(crate::message::MAX_HEAD),
            takes: Takes::of_bits(params.takes),
        }
    }
}
