//! Openings that this node begins, and the answers to them.

use rand_core::RngCore;

use super::{ANSWER_ROOM, EARLY_OVERHEAD, FAREWELLS, REMINDERS, close_of, params_of};
use crate::crypto::{self, Initiator, OpeningMac};
use crate::event::{Arrival, Event, Transmit};
use crate::id::Stamp;
use crate::opening::initiate::{Goal, Opening};
use crate::peer::epoch::{Agreed, Epoch};
use crate::peer::filling::{write_early, write_state};
use crate::peer::{Context, Peer};
use crate::time::Now;
use crate::wire::{self, Bases, ChannelIndex, Frame, Frames, Params, Writer};

impl Peer {
    /// This node's parameters in the handshake of the channel `index`, with its base of numbers towards the peer.
    pub(super) fn params(&self, cx: &Context, now: Now, index: ChannelIndex) -> Params {
        let limits = &cx.config.limits;
        let s = self.outbound.sender.as_ref().map(|sender| sender.frontier().0);
        let r = self.inbound.receiver.as_ref().map(|record| record.incarnation().0);
        let below = cx.clock.limit().0.saturating_sub(1);
        Params {
            // The base lies above every base of the former lives, and below every number of the next life, which begins at D. So
            // a peer can tell lives from copies.
            base: [s, r]
                .into_iter()
                .flatten()
                .filter(|own| *own >= cx.born)
                .fold(cx.clock.ck(), u64::min)
                .min(below),
            max_ack_delay: cx.config.max_ack_delay,
            boot_id: cx.boot_id,
            time: now.wall,
            max_datagram: u64::from(cx.config.largest_datagram()),
            pool_window: limits.pool_window(),
            body_window: limits.body_window(),
            max_bodies: limits.bodies as u64,
            max_message: limits.message.saturating_add(crate::message::MAX_HEAD).min(crate::MAX_NUMBER),
            idle_timeout: cx.config.idle_timeout,
            reset: cx.life.as_ref().and_then(|life| life.token(index)),
            takes: cx.config.takes.bits(),
            lane_window: limits.lane_window.min(crate::MAX_NUMBER),
            lane_pool: limits.lane_pool.min(crate::MAX_NUMBER),
            lanes: limits.lanes as u64,
            stay: cx.config.stay,
            met: self.link.lives.stay(),
            durability: cx.config.durability.number(),
            ..Params::default()
        }
    }

    /// Begins an opening if there is something to send and there are no keys for it, or if new keys are wanted.
    pub(in crate::peer) fn open_if_wanted(&mut self, cx: &mut Context, now: Now) {
        let wanted = self.link.reopen || (!self.link.is_connected() && self.wants_channel(now.mono));
        if !wanted || self.link.opening.is_some() || !self.has_address() {
            return;
        }
        // After a refusal, the node does not ask again at once unless the application asks.
        if self.link.refused_until > now.mono {
            return;
        }
        if self.open(cx, now).is_none() {
            // The id is not a valid key: messages for it stay, and report this when asked.
            cx.stats.unreachable += 1;
        }
    }

    fn open(&mut self, cx: &mut Context, now: Now) -> Option<()> {
        self.journal_record(cx);
        let (index, seed) = (cx.new_index(), cx.seed());
        let params = self.params(cx, now, index);
        let early = self.may_send_early(cx);
        self.link.reopen = false;
        let header = wire::opening_header(cx.config.suite.as_u8(), index);
        let mut initiator = Initiator::new(&cx.key, &self.id, &header, seed).ok()?;
        let mut payload = [0; wire::MAX_OPENING_PAYLOAD];
        let mut writer = Writer::new(&mut payload, Bases { sender: params.base, receiver: 0 });
        writer.params(&params);
        if self.inbound.receiver.is_some() {
            write_state(&mut writer, &self.inbound, &cx.clock);
        }
        if let Some(ts) = early.then(|| cx.stamping.choose(now.wall, self.told)).flatten() {
            let room = writer.remaining().saturating_sub(EARLY_OVERHEAD);
            let all = cx.config.early;
            cx.stats.early_sent +=
                self.outbound.bind_early(now.mono, &mut cx.clock, &mut cx.store, ts, all, room);
            self.journal_early(cx);
        }
        let pto = self.link.pto();
        let window = self.link.recovery.congestion().window();
        let mut stamp = Stamp::NONE;
        if let Some(ask) = self.outbound.ask(now.mono, &mut cx.clock, window, pto) {
            stamp = ask.ts;
            writer.ask(ask.into());
            write_early(&mut writer, &self.outbound, &cx.store);
        }
        // Behind the frames, the buffer has bytes that were moved away or did not fit. A reader would take them for frames.
        let len = writer.len().max(crate::opening::initiate::PAYLOAD);
        writer.padding(len - writer.len());
        let payload = payload.get(..len)?;
        let mut datagram = header.to_vec();
        datagram.resize(header.len() + payload.len() + crypto::OPENING_OVERHEAD, 0);
        let noise = datagram.get_mut(header.len()..)?;
        initiator.write_opening(payload, noise).ok()?;
        let mac = OpeningMac::new(&self.id);
        let opening = Opening::new(now.mono, initiator, index, (params.base, stamp), datagram, &mac);
        self.link.opening = Some(Box::new(opening));
        cx.routes.insert(index.0, self.place);
        Some(())
    }

    /// Whether messages may leave beside the opening: nothing else can carry them, and it is not the case that this node's clock
    /// is known to be far from the peer's without a known distance.
    fn may_send_early(&self, cx: &Context) -> bool {
        // An opening does not wait for a forced write.
        let certain = !self.told.ended && !cx.journal.is_forced();
        certain && !self.link.is_connected() && (self.told.ahead.is_some() || !cx.clock_doubted)
    }

    /// A copy of the opening under way, if one is due.
    pub(in crate::peer) fn transmit_opening(
        &mut self,
        cx: &mut Context,
        now: Now,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.tire(cx, now);
        let jitter = cx.rng.next_u32().to_le_bytes()[0];
        if !self.wants_channel(now.mono) && !self.link.is_connected() {
            self.abort_opening(cx);
            return None;
        }
        if self.link.opening.as_ref().is_none_or(|opening| !opening.is_due(now.mono)) {
            return None;
        }
        self.ask_for_pipe(cx, now);
        let goals = self.goals(cx);
        let eager = self.link.opens_eagerly(self.outbound.has_messages());
        let opening = self.link.opening.as_mut()?;
        if goals.is_empty() {
            opening.postpone(now.mono);
        }
        let emitted = opening.emit(now.mono, &goals, eager, jitter).map(|(goal, data)| {
            buf.extend_from_slice(data);
            goal
        });
        // Beside a working connection, the lack of an answer says nothing about the peer.
        let trial = self.link.dialling.is_trial();
        if !trial {
            self.link.spoke(now.mono);
        }
        if !trial && self.link.is_out_of_reach(now.mono) {
            let since = self.link.goes_away();
            cx.events.extend(since.map(|since| Event::Away { peer: self.id, since }));
        }
        let Goal { remote, pipe } = emitted?;
        if let Some(pipe) = pipe {
            cx.pipes.spend(pipe, buf.len());
        }
        self.follow_opening(cx, remote, pipe);
        Some(Transmit { remote, src_ip: None, ecn: 0, segment: buf.len(), len: buf.len(), pipe })
    }

    /// Gives up an opening after a while if it serves no message: the peer may be gone for good.
    ///
    /// If a farewell is lost, the peer's own reminder brings it again, and this node's reminder comes again in its time.
    fn tire(&mut self, cx: &mut Context, now: Now) {
        if self.outbound.has_messages() {
            return;
        }
        let due = self.link.opening.as_ref().filter(|opening| opening.is_due(now.mono));
        let reminds = !self.outbound.farewell_due && self.link.pings.is_empty();
        let patience = if reminds { REMINDERS } else { FAREWELLS };
        if self.link.is_connected() || due.is_none_or(|opening| opening.rounds(self.hints.len()) < patience) {
            return;
        }
        self.outbound.farewell_due = false;
        self.inbound.state_sent();
        cx.events.extend(self.lose_pings(None));
        self.abort_opening(cx);
    }

    pub(in crate::peer) fn abort_opening(&mut self, cx: &mut Context) {
        if let Some(opening) = self.link.opening.take() {
            cx.routes.remove(&opening.index.0);
        }
    }

    /// RETRY: the peer asks for proof of this node's address.
    pub(crate) fn on_retry(&mut self, cx: &mut Context, now: Now, retry: &wire::Retry<'_>) {
        let key = crypto::RetryKey::new(&self.id);
        let opening = self.link.opening.as_mut().filter(|opening| opening.index == retry.to);
        match opening.map(|opening| (key.open(retry.nonce, opening.mac1(), retry.sealed), opening)) {
            Some((Ok(retry), opening)) => opening.obey(now.mono, &retry.cookie),
            Some((Err(_), _)) => cx.stats.unauthentic += 1,
            None => cx.stats.strays += 1,
        }
    }

    /// ANSWER to an opening that this node began.
    pub(crate) fn on_answer(
        &mut self,
        cx: &mut Context,
        now: Now,
        arrival: Arrival,
        answer: &wire::Answer<'_>,
    ) {
        let Some(opening) = self.link.opening.as_mut().filter(|opening| opening.index == answer.to) else {
            cx.stats.strays += 1;
            return;
        };
        let Some(target) = opening.target_for(Goal { remote: arrival.remote, pipe: arrival.pipe }) else {
            cx.stats.strays += 1;
            return;
        };
        let mut payload = [0; ANSWER_ROOM];
        let Ok((keys, len)) = opening.initiator.read_answer(answer.header, answer.noise, &mut payload) else {
            cx.stats.unauthentic += 1;
            return;
        };
        let payload = payload.get(..len).unwrap_or_default();
        let (base, index, begun) = (opening.base, opening.index, opening.begun);
        let round_trip = opening.round_trip(now.mono);
        let Ok(params) = params_of(payload) else {
            cx.stats.malformed += 1;
            self.abort_opening(cx);
            return;
        };
        if let Some(code) = close_of(payload) {
            if self.link.lives.is_superseded(&params) {
                // The process that the peer left behind when it moved does not speak for the peer.
                cx.stats.strays += 1;
                return;
            }
            let ts = opening.stamp;
            self.abort_opening(cx);
            self.on_refused(cx, now, ts, code);
            return;
        }
        self.link.opening = None;
        self.note_time(now.wall, params.time);
        let bases = Bases { sender: base, receiver: params.base };
        let keys = Agreed { keys, suite: cx.config.suite, index, remote: answer.index, bases, params };
        let epoch = Epoch::new(now.mono, keys, true, cx.skips.fork(), cx.config.max_ack_delay);
        // This node chose the addresses that the opening went to. An answer from elsewhere may be a copy.
        let chosen = Arrival { remote: target, ..arrival };
        if !self.install(cx, now, epoch, begun, chosen, true) {
            return;
        }
        self.link.confirm = true;
        self.link.recovery.assume_rtt(round_trip);
        let from = arrival.path();
        self.note_path(cx, now, from, answer.header.len() + answer.noise.len(), true);
        self.on_handshake_frames(cx, now, payload, bases.reversed());
        // REPLY is not taken from an opening, which may be a replay, or a forgery by a thief of this node's key.
        for frame in Frames::new(payload, bases.reversed()).flatten() {
            if let Frame::Reply(reply) = frame {
                self.on_reply(cx, now, &reply);
            }
        }
    }

    /// The frames in the payload of a handshake message, except PARAMS.
    pub(super) fn on_handshake_frames(&mut self, cx: &mut Context, now: Now, payload: &[u8], bases: Bases) {
        for frame in Frames::new(payload, bases) {
            match frame {
                Ok(
                    frame @ (Frame::Ask(_)
                    | Frame::State(_)
                    | Frame::Have(_)
                    | Frame::Early(_)
                    | Frame::StampRejected { .. }),
                ) => self.on_half_frame(cx, now, frame),
                Ok(_) => {}
                Err(_) => {
                    cx.stats.malformed += 1;
                    return;
                }
            }
        }
    }
}
