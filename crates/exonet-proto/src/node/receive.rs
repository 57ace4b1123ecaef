//! Datagrams come in here: routed, opened, and their frames given to the halves.

use super::Node;
use super::epoch::{Carried, Epoch};
use super::event::{Arrival, Conflict, Event};
use super::handshake::conflict::{MINE_TWICE, YOURS_TWICE};
use super::rest;
use crate::channel::path::PathAddr;
use crate::channel::received;
use crate::channel::recovery::Ack;
use crate::channel::{EcnCounts, Fate};
use crate::time::Now;
use crate::wire::{self, ChannelIndex, Data, Datagram, Frame, Frames, Malformed};

/// Adds what became of an item. Messages of one incarnation that were acknowledged packet by packet, the newest first, are told
/// of together where their numbers follow each other.
pub(super) fn join_fate(fates: &mut Vec<(Carried, Fate)>, item: Carried, fate: Fate) {
    if let Carried::Messages { r, s, n } = item
        && fate == Fate::Acked
        && let Some((Carried::Messages { r: later, s: first, n: count }, Fate::Acked)) = fates.last_mut()
        && *later == r
        && s.0.checked_add(u64::from(n)) == Some(first.0)
        && let Some(sum) = count.checked_add(n)
    {
        (*first, *count) = (s, sum);
        return;
    }
    fates.push((item, fate));
}

impl Node {
    /// A datagram has arrived. It is decrypted in place.
    pub fn handle_datagram(&mut self, now: Now, arrival: Arrival, data: &mut [u8]) {
        self.stats.datagrams_in += 1;
        self.stats.bytes_in += data.len() as u64;
        if self.stopped {
            return;
        }
        let len = data.len();
        match Datagram::parse(data) {
            Ok(Datagram::Data(packet)) => self.on_data(now, arrival, len, packet),
            Ok(Datagram::Opening(opening)) => self.on_opening(now, arrival, &opening),
            Ok(Datagram::Answer(answer)) => self.on_answer(now, arrival, &answer),
            Ok(Datagram::Retry(retry)) => self.on_retry(now, &retry),
            Ok(Datagram::Reset(reset)) => self.on_reset(now, &reset),
            // A hint at best: this release speaks one version.
            Ok(Datagram::Version(_)) => self.stats.strays += 1,
            Err(malformed) => {
                self.stats.malformed += 1;
                if let (Malformed::Version(_), Some(hint)) = (malformed, wire::version_answer(data)) {
                    self.push_loose(arrival, Box::new(hint));
                }
            }
        }
    }

    fn on_data(&mut self, now: Now, arrival: Arrival, len: usize, packet: Data<'_>) {
        let index = packet.index;
        let Some(place) = self.routes.get(&index.0).copied() else {
            self.on_stray(now, arrival, index);
            return;
        };
        let Some(epoch) = self.peers.get_mut(place).and_then(|peer| peer.link.epoch_mut(index)) else {
            self.stats.strays += 1;
            return;
        };
        let newest_so_far = epoch.received.largest().map(|largest| largest.number);
        let number = wire::expand(packet.number, newest_so_far);
        if epoch.received.check(number) != received::Arrival::Fresh {
            self.stats.replayed += 1;
            return;
        }
        let Ok(payload) = epoch.keys.open.open_in_place(number, packet.header, packet.sealed) else {
            self.stats.unauthentic += 1;
            epoch.forged += 1;
            if epoch.is_worn_out() {
                self.drop_channel(now, place);
                self.touch(now, place);
            }
            return;
        };
        let payload: &[u8] = payload;
        let newest = epoch.received.is_newest(number);
        let bases = epoch.bases.reversed();
        if !self.promote(now, place, index, arrival) {
            self.touch(now, place);
            return;
        }
        // Under older keys nothing is new.
        let current = self.peers.get(place).and_then(|peer| peer.link.current.as_ref());
        let newest = newest && current.is_some_and(|current| current.index == index);
        let from = PathAddr { remote: arrival.remote, local: arrival.local_ip };
        self.note_path(now, place, from, len, newest);
        match self.on_frames(now, place, index, from, Frames::new(payload, bases)) {
            Ok(eliciting) => {
                if eliciting {
                    self.note_bulk(now, place, len);
                }
                if let Some(epoch) = self.epoch(place, index) {
                    let noted = epoch.received.on_packet(now.mono, number, eliciting, arrival.ecn);
                    debug_assert_eq!(noted, received::Arrival::Fresh, "a packet is processed once");
                }
            }
            Err(_) => {
                // Authentic and wrong: the peer's software is broken, or ours. Either way this channel is over.
                self.stats.malformed += 1;
                self.drop_channel(now, place);
            }
        }
        self.touch(now, place);
    }

    fn epoch(&mut self, place: u32, index: ChannelIndex) -> Option<&mut Epoch> {
        self.peers.get_mut(place)?.link.epoch_mut(index)
    }

    /// Notes a packet of `len` bytes with something for this node. It is bulk if others like it come before and after.
    fn note_bulk(&mut self, now: Now, place: u32, len: usize) {
        let Some(peer) = self.peers.get(place) else { return };
        let rtt = peer.link.recovery.rtt();
        // The caller waits for its reply, however long the call is.
        if len < rest::LONG || !rtt.is_measured() || !peer.inbound.server.is_empty() {
            self.bulk.ends();
        } else {
            self.bulk.goes_on(now.mono, rtt.min());
        }
    }

    /// An authentic packet: the peer lives, and may have moved.
    pub(super) fn note_path(&mut self, now: Now, place: u32, from: PathAddr, len: usize, newest: bool) {
        let (config, rng) = (&self.config, &mut self.rng);
        let Some(peer) = self.peers.get_mut(place) else {
            return;
        };
        peer.link.heard_at = now.mono;
        peer.inbound.heard(now.mono);
        let timing = peer.link.recovery.timing();
        let Some(roaming) = peer.link.roaming.as_mut() else {
            return;
        };
        let mut random = || rand_core::RngCore::next_u64(rng).to_be_bytes();
        let moved = roaming.on_packet_from(now.mono, from, len as u64, newest, timing, &mut random);
        if moved.is_some_and(|moved| !moved.keep_congestion) {
            peer.link.on_path_change(now.mono, config);
        }
    }

    /// The frames of a data packet. True when it has to be acknowledged.
    fn on_frames(
        &mut self,
        now: Now,
        place: u32,
        index: ChannelIndex,
        from: PathAddr,
        frames: Frames<'_>,
    ) -> Result<bool, Malformed> {
        let (mut eliciting, mut challenge, mut acks) = (false, None, None);
        for frame in frames {
            let frame = frame?;
            eliciting |= frame.is_ack_eliciting();
            match frame {
                // After a STATE beside it, which settles most of what is acknowledged: that need not be looked up.
                Frame::Ack(ack) => {
                    if let Some(before) = acks.replace(ack) {
                        self.on_ack(now, place, index, &before)?;
                    }
                }
                Frame::Ping => {
                    if let Some(epoch) = self.epoch(place, index) {
                        epoch.received.ack_at_once(now.mono);
                    }
                    if let Some(peer) = self.peers.get_mut(place) {
                        // It asks for the time: waiting would add to it.
                        peer.link.ride_until = now.mono;
                    }
                }
                Frame::Close { code } => {
                    match code {
                        YOURS_TWICE => self.part(now, place, Conflict::Ours, None),
                        MINE_TWICE => self.part(now, place, Conflict::Theirs, None),
                        _ => self.drop_channel(now, place),
                    }
                    if code == wire::close::FOR_GOOD {
                        self.on_end(now, place);
                    }
                    return Ok(false);
                }
                Frame::PathChallenge(data) => challenge = Some(data),
                Frame::PathResponse(data) => self.on_response(now, place, from, data),
                frame => self.on_half_frame(now, place, frame),
            }
        }
        if let Some(ack) = acks {
            self.on_ack(now, place, index, &ack)?;
        }
        // One for a packet, which is no shorter: an address that is not proven gets no more than came from it.
        if let (Some(data), Some(peer)) = (challenge, self.peers.get_mut(place)) {
            peer.link.respond(from, data);
        }
        Ok(eliciting)
    }

    /// A frame for the halves: of a data packet or of a handshake message.
    pub(super) fn on_half_frame(&mut self, now: Now, place: u32, frame: Frame<'_>) {
        let engages = matches!(
            frame,
            Frame::Ask(_)
                | Frame::Messages(_)
                | Frame::Early(_)
                | Frame::Fragment(_)
                | Frame::Token { .. }
                | Frame::Abandoned { .. }
        );
        let calls = matches!(frame, Frame::Reply(_) | Frame::ReplyAck(_) | Frame::Probe(_));
        match frame {
            Frame::Ask(ask) => self.on_ask(now, place, ask),
            Frame::State(state) => self.on_state(now, place, &state),
            Frame::Messages(messages) => self.on_messages(now, place, messages.r, messages.entries),
            Frame::Early(early) => self.on_early(now, place, &early),
            Frame::StampRejected { ts, time } => self.on_stamp_rejected(now, place, ts, time),
            Frame::Fragment(fragment) => self.on_fragment(now, place, &fragment),
            Frame::Token { r, s } => self.on_probe(now, place, r, s),
            Frame::Have(have) => self.on_have(now, place, &have),
            Frame::Abandoned { r, bytes } => self.on_abandoned(now, place, r, bytes),
            Frame::Reply(reply) => self.on_reply(now, place, &reply),
            Frame::ReplyAck(s) => self.on_reply_ack(now, place, s),
            Frame::Probe(s) => self.on_call_probe(place, s),
            Frame::NoCall(s) => self.on_no_call(now, place, s),
            Frame::Computing(s) => self.on_computing(now, place, s),
            _ => {}
        }
        if let Some(peer) = self.peers.get_mut(place).filter(|_| engages || calls) {
            peer.link.used_at = now.mono;
            if engages && peer.link.tentative.is_none() {
                peer.inbound.engaged(now.mono, peer.link.pto() * 3);
            }
        }
    }

    fn on_response(&mut self, now: Now, place: u32, from: PathAddr, data: [u8; 8]) {
        let config = &self.config;
        let Some(peer) = self.peers.get_mut(place) else {
            return;
        };
        let timing = peer.link.recovery.timing();
        let moved = peer.link.roaming.as_mut().and_then(|r| r.on_response(now.mono, &from, data, timing));
        if let Some(moved) = moved {
            if !moved.keep_congestion {
                peer.link.on_path_change(now.mono, config);
            }
            // Where the challenge went, wherever the answer seems to come from: the next opening goes there first.
            let Some(remote) = peer.link.remote() else { return };
            peer.add_hint(remote);
            let peer = peer.id;
            self.events.push_back(Event::Connected { peer, remote, restarted: false });
        }
    }

    fn on_ack(
        &mut self,
        now: Now,
        place: u32,
        index: ChannelIndex,
        ack: &wire::Ack<'_>,
    ) -> Result<(), Malformed> {
        let mut fates = std::mem::take(&mut self.scratch.fates);
        let Some(peer) = self.peers.get_mut(place) else {
            return Ok(());
        };
        let link = &mut peer.link;
        let epoch = match (link.current.as_deref_mut(), link.previous.as_mut()) {
            (Some(epoch), _) if epoch.index == index => epoch,
            (_, Some((epoch, _))) if epoch.index == index => epoch,
            _ => return Ok(()),
        };
        let report = link.recovery.on_ack(
            now.mono,
            &mut epoch.sent,
            Ack {
                ranges: ack.ranges.map(|range| range.start..range.end),
                delay: ack.delay,
                arrival: ack.arrival,
                ecn: ack.ecn.map(|ecn| EcnCounts { ect0: ecn.ect0, ect1: ecn.ect1, ce: ecn.ce }),
            },
            |fate, item| join_fate(&mut fates, item, fate),
        );
        let report = report.map_err(|_| Malformed::Number)?;
        link.packets_lost = (link.packets_lost + report.lost).saturating_sub(report.spurious);
        self.stats.packets_lost += report.lost;
        self.apply(now, place, &mut fates);
        self.scratch.fates = fates;
        Ok(())
    }

    /// The halves learn what became of what was carried.
    pub(super) fn apply(&mut self, now: Now, place: u32, fates: &mut Vec<(Carried, Fate)>) {
        let Some(peer) = self.peers.get_mut(place) else {
            fates.clear();
            return;
        };
        let wait = peer.link.pto() * 2;
        let rtt = peer.link.recovery.rtt().latest();
        let (out, store) = (&mut peer.outbound, &mut self.store);
        for (item, fate) in fates.drain(..) {
            let arrived = matches!(fate, Fate::Acked | Fate::Late);
            match item {
                Carried::Messages { r, s, n } if arrived => {
                    out.on_acked(now.mono, store, r, s, u64::from(n), wait);
                }
                Carried::Messages { r, s, n } => out.on_lost(store, r, s, u64::from(n)),
                Carried::Fragment { r, s, offset, len } => {
                    let range = offset..offset + u64::from(len);
                    if arrived {
                        out.on_fragment_acked(now.mono, store, r, s, range, wait);
                    } else {
                        out.on_fragment_lost(store, r, s, range);
                    }
                }
                Carried::Ack { index, largest } if arrived => {
                    // Every set of keys counts its packets from zero.
                    if let Some(epoch) = peer.link.epoch_mut(index) {
                        epoch.received.forget_below(largest);
                    }
                }
                Carried::Copy { index, of } if fate == Fate::Acked => {
                    let saved = peer.link.epoch_mut(index).is_some_and(|epoch| !epoch.sent.has_arrived(of));
                    self.stats.hedges_saved += u64::from(saved);
                }
                Carried::Ping { cookie } if fate != Fate::Late => {
                    let rtt = arrived.then_some(rtt);
                    peer.link.pinging = peer.link.pinging.saturating_sub(1);
                    self.events.push_back(Event::Pong { peer: peer.id, cookie, rtt, refused: None });
                }
                Carried::Ask if !arrived => out.on_ask_lost(),
                Carried::Early if fate == Fate::Lost => out.send_early_again(),
                Carried::Farewell if fate == Fate::Lost => out.farewell_due |= out.sender.is_none(),
                Carried::Abandoned if !arrived => out.abandoned_due = true,
                Carried::State { .. } if fate == Fate::Lost => peer.inbound.owe_state(now.mono),
                Carried::State { nth } if arrived => peer.inbound.state_arrived(now.mono, nth, &self.config),
                Carried::Have { s } if !arrived => peer.inbound.have_again(s),
                Carried::Reply { s } if !arrived => peer.inbound.server.again(s),
                _ => {}
            }
        }
    }
}
