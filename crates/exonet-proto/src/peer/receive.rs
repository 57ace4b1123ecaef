//! Data packets come in here: they are opened, and their frames go to the halves.

use super::fates::join_fate;
use super::handshake::{MINE_TWICE, YOURS_MOVED, YOURS_TWICE};
use super::{Context, Peer};
use crate::channel::EcnCounts;
use crate::channel::path::PathAddr;
use crate::channel::received;
use crate::channel::recovery::Ack;
use crate::event::{Arrival, Conflict, Event};
use crate::peer::rest;
use crate::time::{Mono, Now};
use crate::wire::{self, ChannelIndex, Data, Frame, Frames, Malformed};

impl Peer {
    /// A data packet of `len` bytes has arrived that bears an index of this peer. It is decrypted in place. False: the packet is
    /// a copy or a forgery, and changes nothing.
    pub(crate) fn on_packet(
        &mut self,
        cx: &mut Context,
        now: Now,
        arrival: Arrival,
        len: usize,
        packet: Data<'_>,
    ) -> bool {
        let index = packet.index;
        let Some(epoch) = self.link.epoch_mut(index) else {
            cx.stats.strays += 1;
            return false;
        };
        let newest_so_far = epoch.received.largest().map(|largest| largest.number);
        let number = wire::expand(packet.number, newest_so_far);
        if epoch.received.check(number) != received::Arrival::Fresh {
            cx.stats.replayed += 1;
            return false;
        }
        let Ok(payload) = epoch.keys.open.open_in_place(number, packet.header, packet.sealed) else {
            cx.stats.unauthentic += 1;
            epoch.forged += 1;
            let ends = epoch.is_worn_out();
            if ends {
                self.drop_channel(cx, now);
            }
            return ends;
        };
        let payload: &[u8] = payload;
        let newest = epoch.received.is_newest(number);
        let bases = epoch.bases.reversed();
        self.link.bytes_in += len as u64;
        if !self.promote(cx, now, index, arrival) {
            return true;
        }
        // A packet under older keys is never the newest.
        let current = self.link.current.as_ref();
        let newest = newest && current.is_some_and(|current| current.index == index);
        let from = arrival.path();
        self.note_path(cx, now, from, len, newest);
        match self.on_frames(cx, now, index, from, Frames::new(payload, bases)) {
            Ok(eliciting) => {
                if eliciting {
                    self.note_bulk(cx, now.mono, len);
                }
                if let Some(epoch) = self.link.epoch_mut(index) {
                    let noted = epoch.received.on_packet(now.mono, number, eliciting, arrival.ecn);
                    debug_assert_eq!(noted, received::Arrival::Fresh, "a packet is processed once");
                }
            }
            Err(_) => {
                // The packet is authentic and malformed: the peer's software or this node's is broken. Either way this channel
                // has ended.
                cx.stats.malformed += 1;
                self.drop_channel(cx, now);
            }
        }
        true
    }

    /// Notes a packet of `len` bytes with something for this node. The packet is bulk if others like it come before and after it.
    fn note_bulk(&self, cx: &mut Context, now: Mono, len: usize) {
        let rtt = self.link.recovery.rtt();
        // A caller waits for its reply, however long the call is.
        if len < rest::LONG || !rtt.is_measured() || !self.inbound.server.is_empty() {
            cx.bulk.ends();
        } else {
            cx.bulk.goes_on(now, rtt.min());
        }
    }

    /// The peer lives.
    pub(super) fn on_heard(&mut self, cx: &mut Context, now: Mono) {
        self.inbound.heard(now);
        if self.link.hear(now) {
            cx.events.push_back(Event::Back { peer: self.id });
        }
    }

    /// An authentic packet has come: the peer lives, and may have moved.
    pub(super) fn note_path(&mut self, cx: &mut Context, now: Now, from: PathAddr, len: usize, newest: bool) {
        self.on_heard(cx, now.mono);
        let rng = &mut cx.rng;
        let timing = self.link.recovery.timing();
        let Some(roaming) = self.link.roaming.as_mut() else {
            return;
        };
        let mut random = || rand_core::RngCore::next_u64(rng).to_be_bytes();
        let moved = roaming.on_packet_from(now.mono, from, len as u64, newest, timing, &mut random);
        if moved.is_some_and(|moved| !moved.keep_congestion) {
            self.on_path_change(cx, now);
        }
    }

    /// Processes the frames of a data packet. True if the packet has to be acknowledged.
    fn on_frames(
        &mut self,
        cx: &mut Context,
        now: Now,
        index: ChannelIndex,
        from: PathAddr,
        frames: Frames<'_>,
    ) -> Result<bool, Malformed> {
        let (mut eliciting, mut challenge, mut acks) = (false, None, None);
        for frame in frames {
            let frame = frame?;
            eliciting |= frame.is_ack_eliciting();
            match frame {
                // An ACK comes after a STATE beside it. The STATE settles most of what is acknowledged, which then need not be
                // looked up.
                Frame::Ack(ack) => {
                    if let Some(before) = acks.replace(ack) {
                        self.on_ack(cx, now, index, &before)?;
                    }
                }
                Frame::Ping => {
                    if let Some(epoch) = self.link.epoch_mut(index) {
                        epoch.received.ack_at_once(now.mono);
                    }
                    // The PING measures the time: a wait would add to it.
                    self.link.ride_until = now.mono;
                }
                Frame::Close { code } => {
                    match code {
                        YOURS_TWICE => self.part(cx, now, Conflict::Ours, None),
                        MINE_TWICE => self.part(cx, now, Conflict::Theirs, None),
                        YOURS_MOVED => self.part(cx, now, Conflict::Moved, None),
                        _ => self.drop_channel(cx, now),
                    }
                    if code == wire::close::FOR_GOOD {
                        self.on_end(cx, now);
                    }
                    return Ok(false);
                }
                Frame::PathChallenge(data) => challenge = Some(data),
                Frame::PathResponse(data) => self.on_response(cx, now, from, data),
                frame => self.on_half_frame(cx, now, frame),
            }
        }
        if let Some(ack) = acks {
            self.on_ack(cx, now, index, &ack)?;
        }
        // One response for each packet, and the packet is no shorter: an unproven address gets no more than came from it.
        if let Some(data) = challenge {
            self.link.respond(from, data);
        }
        Ok(eliciting)
    }

    /// Processes a frame for the halves, from a data packet or a handshake message.
    pub(crate) fn on_half_frame(&mut self, cx: &mut Context, now: Now, frame: Frame<'_>) {
        let engages =
            matches!(frame, Frame::Ask(_) | Frame::Messages(_) | Frame::Early(_) | Frame::Token { .. });
        let calls = matches!(frame, Frame::Reply(_) | Frame::ReplyAck(_) | Frame::Probe(_));
        match frame {
            Frame::Ask(ask) => self.on_ask(cx, now, ask),
            Frame::State(state) => self.on_state(cx, now, &state),
            Frame::Messages(messages) => self.on_messages(cx, now, &messages),
            Frame::Early(early) => self.on_early(cx, now, &early),
            Frame::StampRejected { ts, time } => self.on_stamp_rejected(cx, now, ts, time),
            Frame::Token { r, s } => self.inbound.on_probe(now.mono, s, r),
            Frame::Revoke { r, s, n } => self.on_revoke(cx, now, s.0..s.0.saturating_add(n), r),
            Frame::RevokeStream(revoke) => self.on_revoke_stream(cx, now, &revoke),
            Frame::Withdrawn { r, s, n } => self.on_withdrawn(cx, now, s.0..s.0.saturating_add(n), r),
            Frame::Have(have) => self.on_have(cx, now, &have),
            Frame::Verdict(verdict) => self.on_verdict(cx, now, &verdict),
            Frame::Reply(reply) => self.on_reply(cx, now, &reply),
            Frame::ReplyAck(s) => self.on_reply_ack(cx, now, s),
            Frame::Probe(s) => self.on_call_probe(s),
            Frame::NoCall(s) => self.on_no_call(cx, now, s),
            Frame::Computing(s) => self.on_computing(now, s),
            _ => {}
        }
        if engages || calls {
            self.link.used_at = now.mono;
            if engages && self.link.tentative.is_none() {
                self.inbound.engaged(now.mono, self.link.pto() * 3);
            }
        }
    }

    fn on_response(&mut self, cx: &mut Context, now: Now, from: PathAddr, data: [u8; 8]) {
        let timing = self.link.recovery.timing();
        let moved = self.link.roaming.as_mut().and_then(|r| r.on_response(now.mono, &from, data, timing));
        if let Some(moved) = moved {
            if !moved.keep_congestion {
                self.on_path_change(cx, now);
            }
            // This is where the challenge went, wherever the answer seems to come from: the next opening goes there first.
            let Some(remote) = self.link.remote() else {
                return debug_assert!(false, "it has just moved there");
            };
            if self.link.pipe().is_none() {
                self.add_hint(remote);
            }
            self.journal_address(cx);
            let peer = self.id;
            cx.events.push_back(Event::Connected { peer, remote, restarted: false });
        }
    }

    fn on_ack(
        &mut self,
        cx: &mut Context,
        now: Now,
        index: ChannelIndex,
        ack: &wire::Ack<'_>,
    ) -> Result<(), Malformed> {
        let mut fates = std::mem::take(&mut cx.scratch.fates);
        let link = &mut self.link;
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
        cx.stats.packets_lost += report.lost;
        self.apply(cx, now, &mut fates);
        cx.scratch.fates = fates;
        Ok(())
    }
}
