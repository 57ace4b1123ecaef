//! The answer to an opening: made at once, or when what came with the opening has been taken.

use core::time::Duration;

use super::{ANSWER_ROOM, HALF_OPEN_FOR, params_of};
use crate::channel::{Received, Sent};
use crate::crypto::{self, Opened, OpeningMac};
use crate::node::Node;
use crate::node::epoch::{Epoch, Held, Pending, Prefix};
use crate::node::event::Arrival;
use crate::node::filling::write_answer_state;
use crate::node::link::MAX_PENDING;
use crate::time::Now;
use crate::wire::{self, Bases, Params, Writer};

/// An answer waits so long for what it could say of the messages that came with the opening.
const HOLD_ANSWER: Duration = Duration::from_millis(2);

impl Node {
    /// An opening that may be answered: its frames are taken in, and the answer is made, at once or when what came
    /// with it has been taken.
    pub(super) fn take_in(
        &mut self,
        now: Now,
        arrival: Arrival,
        opening: &wire::Opening<'_>,
        opened: Opened,
        payload: &[u8],
    ) {
        let id = opened.peer();
        let Ok(theirs) = params_of(payload) else {
            self.stats.malformed += 1;
            return;
        };
        let Some(place) = self.peers.find(&id).or_else(|| self.new_peer(now, id)) else {
            self.stats.openings_refused += 1;
            return;
        };
        self.note_tentative(now, place);
        if let Some(peer) = self.peers.get_mut(place) {
            peer.note_time(now.wall, theirs.time);
        }
        // The initiator could not know our base: our numbers are relative to zero there.
        if !self.is_odd(place, &theirs) {
            if let Some(peer) = self.peers.get_mut(place) {
                peer.link.lives.hear(&theirs, now.mono);
            }
            self.on_handshake_frames(now, place, payload, Bases { sender: theirs.base, receiver: 0 });
        }
        let (index, prefix) = (self.new_index(), Prefix::told(arrival.remote.ip()));
        self.half_open.enter(prefix, *opening.mac1, index.0);
        self.routes.insert(index.0, place);
        let (remote, mac1) = (opening.index, *opening.mac1);
        let (since, until) = (now.mono, now.mono + HOLD_ANSWER);
        let held = Held { opened, arrival, theirs, index, remote, mac1, prefix, since, until };
        let full = self.peers.get_mut(place).and_then(|peer| {
            peer.link.held.reserve_exact(1);
            peer.link.held.push(held);
            (peer.link.held.len() > MAX_PENDING).then(|| peer.link.held.remove(0))
        });
        if let Some(oldest) = full {
            self.answer(now, place, oldest);
        }
        self.answer_held(now, place);
        self.touch(now, place);
    }

    /// Answers the openings that need not wait any longer: what came with them has been taken.
    pub(in crate::node) fn answer_held(&mut self, now: Now, place: u32) {
        let Some(peer) = self.peers.get_mut(place) else { return };
        if peer.link.held.is_empty() {
            return;
        }
        let waits = peer.inbound.has_pending();
        let server = &peer.inbound.server;
        let may_wait = |held: &Held| waits || server.computes_since(held.since);
        let (waiting, due) = std::mem::take(&mut peer.link.held)
            .into_iter()
            .partition(|held| held.until > now.mono && may_wait(held));
        peer.link.held = waiting;
        for held in due {
            self.answer(now, place, held);
        }
    }

    fn answer(&mut self, now: Now, place: u32, held: Held) {
        let Held { opened, arrival, theirs, index, remote, mac1, prefix, .. } = held;
        let (id, suite) = (opened.peer(), opened.suite());
        let ours = self.params(now, place, index);
        let bases = Bases { sender: ours.base, receiver: theirs.base };
        let header = wire::answer_header(suite.as_u8(), remote, index);
        let mut frames = [0; ANSWER_ROOM];
        let odd = self.is_odd(place, &theirs);
        let (frames, state) = self.answer_frames(now, place, &ours, bases, odd, &mut frames);
        let mut datagram = vec![0; header.len() + frames.len() + crypto::ANSWER_OVERHEAD];
        let (clear, noise) = datagram.split_at_mut(header.len());
        clear.copy_from_slice(&header);
        let Ok((keys, _)) = opened.answer(&header, frames, noise) else {
            self.half_open.leave(prefix, &mac1);
            self.routes.remove(&index.0);
            return;
        };
        datagram.extend_from_slice(&OpeningMac::new(&id).mac1(&datagram));
        let epoch = Epoch {
            index,
            remote,
            keys,
            suite,
            bases,
            params: theirs,
            reset_tag: None,
            sent: Sent::skipping(self.skips.fork()),
            received: Received::new(self.config.max_ack_delay),
            born: now.mono,
            initiator: false,
            sealed: 0,
            forged: 0,
        };
        let answer: Box<[u8]> = datagram.into();
        self.push_loose(arrival, answer.clone());
        let expires = now.mono + HALF_OPEN_FOR;
        if let Some(peer) = self.peers.get_mut(place) {
            let (answered, answered_at) = (arrival.remote, now.mono);
            let (again, scattered) = (false, false);
            let pending = Pending {
                epoch,
                answer,
                state,
                mac1,
                prefix,
                expires,
                answered_at,
                again,
                answered,
                scattered,
            };
            // There is one, unless the peer opens again. A Vec that grows would begin with four.
            peer.link.pending.reserve_exact(1);
            peer.link.pending.push(pending);
            if peer.link.pending.len() > MAX_PENDING {
                let oldest = peer.link.pending.remove(0);
                self.forget_pending(&oldest);
            }
        }
        self.touch(now, place);
    }

    /// PARAMS, the STATE that the opening's ASK is owed, and our own wish for slots; PARAMS alone for an `odd` opening. The number
    /// of the STATE, if any.
    fn answer_frames<'a>(
        &mut self,
        now: Now,
        place: u32,
        ours: &Params,
        bases: Bases,
        odd: bool,
        room: &'a mut [u8; ANSWER_ROOM],
    ) -> (&'a [u8], Option<u64>) {
        let mut writer = Writer::new(room, bases);
        writer.params(ours);
        let mut state = None;
        if let Some(peer) = self.peers.get_mut(place).filter(|_| !odd) {
            if peer.inbound.state_owed()
                && write_answer_state(&mut writer, &peer.inbound, &self.clock, &self.config)
            {
                peer.inbound.state_sent();
                state = Some(peer.inbound.states());
            }
            let (window, pto) = (peer.link.recovery.congestion().window(), peer.link.pto());
            if peer.outbound.ask_due
                && let Some(ask) = peer.outbound.ask(now.mono, &mut self.clock, window, pto)
            {
                writer.ask(ask.into());
            }
            if let Some((ts, time)) = peer.inbound.rejection.take() {
                writer.stamp_rejected(ts, time);
            }
            while let Some((s, status, body)) = peer.inbound.server.next_reply()
                && writer.reply(wire::Reply { s, status, body })
            {
                peer.inbound.server.sent(now.mono, s, pto);
            }
        }
        let len = writer.len();
        (room.get(..len).unwrap_or_default(), state)
    }
}
