//! Openings of other nodes: which of them this node works on, and which senders the policy lets in.

use super::Node;
use crate::config::Policy;
use crate::crypto::{self, Opened};
use crate::event::{Arrival, Event};
use crate::id::{NodeId, Stamp};
use crate::opening::asking::Waiting;
use crate::opening::gate::Verdict;
use crate::opening::prefix::Prefix;
use crate::peer::handshake::params_of;
use crate::peer::link::MAX_PENDING;
use crate::time::Now;
use crate::wire::{self, Bases, Frame, Frames};

/// What the policy says about the sender of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Welcome {
    Yes,
    No,
    /// Undecided: the opening waits for the application's answer, or has to come again.
    Later,
}

/// The stamp in the payload of an opening, or none.
pub(super) fn stamp_of(payload: &[u8]) -> Stamp {
    let stamp = |frame| if let Ok(Frame::Ask(ask)) = frame { Some(ask.ts) } else { None };
    Frames::new(payload, Bases::default()).find_map(stamp).unwrap_or_default()
}

/// An opening as it came, so that it can be processed again.
pub(super) fn again(opening: &wire::Opening<'_>) -> Box<[u8]> {
    [opening.mac2_input, opening.mac2].concat().into_boxed_slice()
}

impl Node {
    pub(super) fn on_opening(&mut self, now: Now, arrival: Arrival, opening: &wire::Opening<'_>) {
        if !self.cx.may_speak() || !self.mac.verify_mac1(opening.mac1_input, opening.mac1) {
            self.cx.stats.unauthentic += 1;
            return;
        }
        if self.answer_copy(now, arrival, opening) {
            return;
        }
        match self.cx.gate.judge(now.mono, arrival.remote, opening) {
            Verdict::Work => {}
            Verdict::Prove => return self.retry(now, arrival, opening),
            Verdict::Drop => {
                self.cx.stats.openings_refused += 1;
                return;
            }
        }
        let (mut payload, seed) = ([0; wire::MAX_OPENING_PAYLOAD], self.cx.seed());
        let Ok(opened) = Opened::read(&self.cx.key, opening.header, opening.noise, seed, &mut payload) else {
            self.cx.stats.unauthentic += 1;
            return;
        };
        let payload = payload.get(..opened.payload_len()).unwrap_or_default();
        if params_of(payload).is_ok_and(|theirs| self.cx.config.stay.is_superseded_by(theirs.met)) {
            return self.hear_of_later(now, opened.peer());
        }
        match self.welcome(now, opened.peer(), arrival, opening) {
            Welcome::Yes => {}
            Welcome::Later => {
                self.cx.stats.openings_refused += 1;
                return;
            }
            Welcome::No => return self.refuse_opening(now, arrival, opening, opened, payload),
        }
        // Replayed openings must not push out the opening that is in progress.
        let crowded = self.peers.find(&opened.peer()).and_then(|place| self.peers.get(place));
        if crowded.is_some_and(|peer| peer.link.pending.len() + peer.link.held.len() >= MAX_PENDING)
            && !self.cx.gate.is_proven(now.mono, arrival.remote, opening)
        {
            self.retry(now, arrival, opening);
            return;
        }
        let ts = stamp_of(payload);
        if ts.is_some() && !self.admit_stamp(now, opened.peer(), ts) {
            self.cx.stamping.defer(arrival, again(opening));
            return;
        }
        self.take_in(now, arrival, opening, opened, payload);
    }

    /// An opening is for a later generation of this node, or for another place of this one: nothing is taken of it. It has no
    /// answer, so that it stays open for the answer of the place at which the identity lives.
    fn hear_of_later(&mut self, now: Now, id: NodeId) {
        self.cx.stats.strays += 1;
        let Some(place) = self.peers.find(&id) else { return };
        if let Some((peer, cx)) = self.at(place) {
            peer.hear_of_later(cx, now);
        }
        self.after(now, place);
    }

    /// Passes an opening that may be answered to its peer.
    fn take_in(
        &mut self,
        now: Now,
        arrival: Arrival,
        opening: &wire::Opening<'_>,
        opened: Opened,
        payload: &[u8],
    ) {
        let id = opened.peer();
        let Ok(theirs) = params_of(payload) else {
            self.cx.stats.malformed += 1;
            return;
        };
        let Some(place) = self.peers.find(&id).or_else(|| self.new_peer(now, id)) else {
            self.cx.stats.openings_refused += 1;
            return;
        };
        if !self.claims_pipe(arrival.pipe, place) {
            self.cx.stats.strays += 1;
            return;
        }
        if self.peers.get_mut(place).is_some_and(|peer| peer.note_tentative(now)) {
            self.doubt_oldest(now, place, id);
        }
        if let Some((peer, cx)) = self.at(place) {
            peer.take_in(cx, now, arrival, opening, opened, (theirs, payload));
        }
        self.after(now, place);
    }

    /// One more peer has not proven that it is there. The number of such peers for which this node holds something is bounded:
    /// what it holds for the oldest of them is dropped.
    fn doubt_oldest(&mut self, now: Now, place: u32, id: NodeId) {
        let Some((oldest, id)) = self.cx.gate.doubt(place, id) else { return };
        if let Some((peer, cx)) = self.at(oldest).filter(|(peer, _)| peer.id == id) {
            peer.renounce(cx);
            self.after(now, oldest);
        }
    }

    /// Makes sure that a stamp can be judged. False: it can be judged only after a write is on the disk.
    pub(super) fn admit_stamp(&mut self, now: Now, id: NodeId, ts: Stamp) -> bool {
        let place = self.peers.find(&id);
        let admitted = match place.and_then(|place| self.at(place)) {
            Some((peer, cx)) => cx.admit_stamp(now, id, &mut peer.inbound.bound, ts),
            None => {
                let mut bound = self.cx.stamping.memo_of(&id);
                let before = bound;
                let admitted = self.cx.admit_stamp(now, id, &mut bound, ts);
                if bound != before {
                    self.cx.stamping.memo_mut(id).bound = bound;
                }
                admitted
            }
        };
        self.release_risen(now);
        admitted
    }

    /// The driver's report on the openings that wait for their share of its time. `pressed` says that there are more of them than
    /// the driver can soon pass to the node, so that senders have to prove their addresses. `dropped` is how many more openings
    /// the driver has dropped.
    pub fn press(&mut self, pressed: bool, dropped: u64) {
        self.cx.gate.pressed = pressed;
        self.cx.stats.openings_refused += dropped;
    }

    /// Answers a copy of an opening that has been answered with the same answer.
    fn answer_copy(&mut self, now: Now, arrival: Arrival, opening: &wire::Opening<'_>) -> bool {
        let place = self.cx.gate.copy_of(opening.mac1).and_then(|index| self.cx.routes.get(&index)).copied();
        let Some(place) = place.filter(|place| self.peers.get(*place).is_some()) else { return false };
        if !self.claims_pipe(arrival.pipe, place) {
            return true;
        }
        let Self { peers, cx, .. } = self;
        let Some(peer) = peers.get_mut(place) else { return false };
        let pending = peer.link.pending.iter_mut().find(|pending| pending.mac1 == *opening.mac1);
        // If nothing is found, the opening is about to be answered.
        let Some(pending) = pending else { return true };
        pending.scattered |= pending.answered != (arrival.remote, arrival.pipe);
        (pending.answered_at, pending.again) = (now.mono, true);
        let answer = pending.answer.clone();
        // The first answer was lost or is late, and two copies are likelier to arrive. Together they are smaller than the
        // opening.
        let loaded = cx.gate.is_loaded(now.mono, Prefix::told(arrival.remote.ip()));
        if !loaded && 2 * answer.len() <= wire::MIN_OPENING {
            cx.push_loose(arrival, answer.clone());
        }
        cx.push_loose(arrival, answer);
        true
    }

    fn retry(&mut self, now: Now, arrival: Arrival, opening: &wire::Opening<'_>) {
        let mut nonce = [0; crypto::RETRY_NONCE_LEN];
        rand_core::RngCore::fill_bytes(&mut self.cx.rng, &mut nonce);
        let cookie = self.cx.gate.cookie(now.mono, arrival.remote);
        let sealed = self.retry_key.seal(&nonce, &crypto::Retry { cookie, time: now.wall }, opening.mac1);
        self.cx.stats.retries += 1;
        self.cx.push_loose(arrival, Box::new(wire::retry(opening.index, &nonce, &sealed)));
    }

    /// Whether the policy lets this peer talk. If the application has to decide, the opening waits for its answer.
    fn welcome(&mut self, now: Now, id: NodeId, arrival: Arrival, opening: &wire::Opening<'_>) -> Welcome {
        let known = self.peers.find(&id).and_then(|place| self.peers.get(place));
        if id == self.cx.id {
            return Welcome::No;
        }
        match &self.cx.config.policy {
            Policy::Anyone => Welcome::Yes,
            _ if known.is_some_and(|peer| peer.admitted) => Welcome::Yes,
            Policy::Only(ids) if ids.contains(&id) => Welcome::Yes,
            Policy::Only(_) => Welcome::No,
            Policy::Ask => {
                if self.cx.gate.asking.is_asked(now.mono, &id) {
                    return Welcome::Later;
                }
                if self.cx.gate.asking.is_loaded()
                    && !self.cx.gate.is_proven(now.mono, arrival.remote, opening)
                {
                    self.retry(now, arrival, opening);
                    return Welcome::Later;
                }
                let prefix = Prefix::told(arrival.remote.ip());
                let waiting = Waiting { since: now.mono, prefix, arrival, datagram: again(opening) };
                if self.cx.gate.asking.put(id, waiting) {
                    self.cx.events.push_back(Event::Authorize { id, remote: arrival.remote });
                }
                Welcome::Later
            }
        }
    }

    /// Changes which peers may talk to this node. The policy applies to openings from now on. An answer given by [`Node::admit`]
    /// holds until another is given.
    pub fn set_policy(&mut self, policy: Policy) {
        self.cx.config.policy = policy;
    }

    /// The application's answer on a peer that asked to talk. It holds for as long as this node knows the peer.
    pub fn admit(&mut self, now: Now, id: NodeId, yes: bool) {
        let asked = self.cx.gate.asking.take(&id);
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
        // The opening may have led to nothing: the node then forgets the peer.
        if let Some(place) = self.peers.find(&id) {
            self.touch(place);
        }
    }
}
