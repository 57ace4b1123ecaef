//! Makes packets.

use super::{Context, Peer};
use crate::channel::PacketInfo;
use crate::channel::ecn::ECT0;
use crate::channel::path::PathAddr;
use crate::channel::recovery::Allowance;
use crate::event::Transmit;
use crate::follow::Again;
use crate::peer::epoch::{Carried, Epoch, OVERHEAD};
use crate::peer::filling::{Filling, write_state};
use crate::peer::inbound::Inbound;
use crate::peer::outbound::Outbound;
use crate::peer::piece::{Cuts, Room};
use crate::time::{Mono, Now};
use crate::wire::{ChannelIndex, Writer};

/// How many packets in a row may elicit no acknowledgement before one does. This keeps the acknowledgements of both directions
/// short.
const QUIET_PACKETS: u32 = 32;
/// A packet that is shorter than its train by no more than this share is padded, so that the train continues.
const PAD_SHARE: usize = 8;
/// The most bytes of a train: what one UDP datagram could carry, and so what the system accepts to cut into datagrams.
const MAX_TRAIN: usize = 65_507;
/// The most packets that one epoch remembers. A node does not talk for ever to a peer that acknowledges nothing.
pub(crate) const MAX_REMEMBERED: usize = 1 << 18;
/// The size of challenges, and of packets with acknowledgements alone.
const FULL: usize = 1_200;
/// No packet is made smaller than this, whatever an unproven address allows.
const LEAST: usize = 64;

/// The train that was last given out to send: packets of `epoch` from `first` on, of `size` bytes each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Train {
    epoch: ChannelIndex,
    first: u64,
    size: u16,
}

impl Peer {
    /// The next datagrams for the peer, appended to `buf`: up to `segments` of equal size. `ends`: the node closes, and has no
    /// other peer to talk to. None: there is nothing to send until time passes or something arrives.
    pub(crate) fn poll_transmit(
        &mut self,
        cx: &mut Context,
        now: Now,
        segments: usize,
        ends: bool,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.last_train = None;
        let current = self.link.current.as_ref();
        if current.is_some_and(|epoch| epoch.is_worn_out() || epoch.sent.remembered() > MAX_REMEMBERED) {
            self.drop_channel(cx, now);
        }
        self.open_if_wanted(cx, now);
        self.bind_ahead(cx, now);
        cx.follow_bound();
        if let Some(transmit) = self.transmit_opening(cx, now, buf) {
            return Some(transmit);
        }
        let from = self.link.current.as_ref().map(|epoch| (epoch.index, epoch.sent.next_number()));
        let mut assembler = Assembler { now: now.mono, cx, ends, marks: false };
        let transmit = assembler
            .off_path(self, buf)
            .or_else(|| assembler.mirror(self, buf))
            .or_else(|| assembler.previous(self, buf))
            .or_else(|| assembler.mtu_probe(self, buf))
            .or_else(|| assembler.train(self, segments, buf));
        self.journal_bound(cx);
        let transmit = transmit?;
        self.link.bytes_out += transmit.len as u64;
        self.last_train = from.map(|(epoch, first)| Train { epoch, first, size: size_of(transmit.segment) });
        if std::mem::take(&mut self.link.closed) {
            self.drop_channel(cx, now);
        }
        Some(transmit)
    }

    /// The system has refused the last train as too large for the first link: none of it has left.
    pub(crate) fn on_refused_train(&mut self, cx: &mut Context, now: Now) {
        let Some(Train { epoch: channel, first, size }) = self.last_train.take() else { return };
        let Some(epoch) = self.link.current.as_deref_mut().filter(|epoch| epoch.index == channel) else {
            return;
        };
        let mut fates = std::mem::take(&mut cx.scratch.fates);
        let numbers = first..epoch.sent.next_number();
        let recovery = &mut self.link.recovery;
        recovery.on_refused(now.mono, &mut epoch.sent, numbers, size, |fate, item| fates.push((item, fate)));
        self.apply(cx, now, &mut fates);
        cx.scratch.fates = fates;
    }
}

/// Fills packets for one peer, for the duration of one transmit.
struct Assembler<'a> {
    now: Mono,
    cx: &'a mut Context,
    /// The node closes, and has no other peer to talk to.
    ends: bool,
    /// The packets leave marked ECT(0).
    marks: bool,
}

/// The purpose of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Anything that waits, as far as the window allows.
    Data,
    /// A probe, regardless of the window.
    Probe,
    /// Only ACK and STATE, which nothing holds up.
    Control,
}

/// What a packet contains.
#[derive(Clone, Copy, Default)]
struct Made {
    eliciting: bool,
    /// The packet carries something for the halves or the application.
    serves: bool,
    /// The packet carries messages, or pieces of them.
    letters: bool,
    /// More waits than fitted.
    more: bool,
    /// The packet ends the channel.
    closes: bool,
    /// Something was lost and has not left again.
    again: bool,
    /// The packet is a copy of this packet.
    copy: Option<u64>,
}

impl Assembler<'_> {
    /// Challenges and their answers, and copies of ACK and STATE, to addresses on trial.
    fn off_path(&mut self, peer: &mut Peer, buf: &mut Vec<u8>) -> Option<Transmit> {
        let link = &mut peer.link;
        let (epoch, roaming) = (link.current.as_deref_mut()?, link.roaming.as_mut()?);
        let challenge = roaming.challenge(self.now);
        let (to, data) = match challenge {
            Some(challenge) => challenge,
            None => link.responses.pop_front()?,
        };
        let padded = roaming.allowance(&to) >= FULL as u64;
        let answers = challenge.is_none();
        let bytes = epoch.seal(buf, if padded || answers { FULL } else { 64 }, |_, writer| {
            if answers {
                writer.path_response(data)
            } else {
                writer.path_challenge(data)
            };
            let rest = if padded { writer.remaining() } else { 0 };
            writer.padding(rest);
        })?;
        if !answers {
            roaming.on_challenge_sent(self.now, &to);
        }
        roaming.on_sent(&to, bytes as u64);
        let off_path = !roaming.active().addr().same(&to);
        let info = PacketInfo { off_path, ..PacketInfo::data(size_of(bytes)) };
        link.recovery.on_sent(self.now, &mut epoch.sent, info);
        link.packets_sent += 1;
        Some(transmit(to, bytes, bytes))
    }

    /// A copy of the latest ACK and STATE for the address on trial: the peer may be there and nowhere else.
    fn mirror(&mut self, peer: &mut Peer, buf: &mut Vec<u8>) -> Option<Transmit> {
        let link = &mut peer.link;
        let (epoch, roaming) = (link.current.as_deref_mut()?, link.roaming.as_mut()?);
        let to = roaming.mirror().filter(|_| std::mem::take(&mut link.mirror_due))?;
        let cap = permitted(FULL, roaming.allowance(&to))?;
        let (inbound, clock) = (&peer.inbound, &self.cx.clock);
        let bytes = epoch.seal(buf, cap, |epoch, writer| {
            epoch.repeat_ack(self.now, writer);
            write_state(writer, inbound, clock);
        })?;
        roaming.on_sent(&to, bytes as u64);
        let info = PacketInfo { off_path: true, ..PacketInfo::ack(size_of(bytes)) };
        link.recovery.on_sent(self.now, &mut epoch.sent, info);
        Some(transmit(to, bytes, bytes))
    }

    /// Acknowledgements under the previous keys.
    fn previous(&mut self, peer: &mut Peer, buf: &mut Vec<u8>) -> Option<Transmit> {
        let link = &mut peer.link;
        let (epoch, _) = link.previous.as_mut()?;
        epoch.received.ack_due().filter(|at| *at <= self.now)?;
        let roaming = link.roaming.as_mut()?;
        let to = roaming.active().addr();
        let (now, cap) = (self.now, permitted(FULL, roaming.allowance(&to))?);
        let bytes = epoch.seal(buf, cap, |epoch, writer| {
            epoch.write_ack(now, writer);
        })?;
        roaming.on_sent(&to, bytes as u64);
        link.recovery.on_sent(self.now, &mut epoch.sent, PacketInfo::ack(size_of(bytes)));
        Some(transmit(to, bytes, bytes))
    }

    /// A packet of PING and PADDING that tries a larger size, while there are messages that would profit from it.
    fn mtu_probe(&mut self, peer: &mut Peer, buf: &mut Vec<u8>) -> Option<Transmit> {
        if peer.outbound.letters == 0 {
            return None;
        }
        let link = &mut peer.link;
        let (epoch, to) = (link.current.as_deref_mut()?, link.roaming.as_ref()?.active());
        let to = to.is_validated().then(|| to.addr())?;
        let size = link.recovery.mtu_probe(self.now, peer.outbound.most())?;
        let bytes = epoch.seal(buf, usize::from(size), |_, writer| {
            writer.ping();
            let rest = writer.remaining();
            writer.padding(rest);
        })?;
        let info = PacketInfo { mtu_probe: true, ..PacketInfo::data(size_of(bytes)) };
        link.recovery.on_sent(self.now, &mut epoch.sent, info);
        Some(transmit(to, bytes, bytes))
    }

    /// As many packets of equal size as there are contents, room and permission for.
    fn train(&mut self, peer: &mut Peer, segments: usize, buf: &mut Vec<u8>) -> Option<Transmit> {
        let roaming = peer.link.roaming.as_ref()?;
        let to = roaming.active().addr();
        let allowance = roaming.allowance(&to);
        // A packet gets no more room than its contents may need: all of it is zeroed before it is filled.
        let mut segment =
            usize::from(peer.link.recovery.datagram_size()).min(peer.outbound.most().saturating_add(FULL));
        let full = segment;
        // The system marks a train as a whole.
        self.marks = peer.link.recovery.marks();
        for _ in 0..segments {
            let before = buf.len();
            if before + segment > MAX_TRAIN {
                break;
            }
            let Some(cap) = permitted(segment, allowance.saturating_sub(before as u64)) else { break };
            let Some(made) = self.packet(peer, cap, (before > 0 && cap == segment).then_some(full), buf)
            else {
                break;
            };
            let bytes = buf.len() - before;
            if before == 0 {
                segment = bytes;
            }
            if bytes < segment || !made.more || made.closes {
                break;
            }
        }
        if buf.is_empty() {
            return None;
        }
        if let Some(roaming) = peer.link.roaming.as_mut() {
            roaming.on_sent(&to, buf.len() as u64);
        }
        peer.link.pace_at = peer.link.pace_at.max(self.now);
        let ecn = if self.marks { ECT0 } else { 0 };
        Some(Transmit { ecn, ..transmit(to, segment, buf.len()) })
    }

    /// Appends one packet of at most `cap` bytes to `buf`. `full`: the packet follows others of exactly that size, in a train
    /// whose first packet might have had `full` bytes. A message that would fit there begins the next train, and is not cut.
    fn packet(
        &mut self,
        peer: &mut Peer,
        cap: usize,
        full: Option<usize>,
        buf: &mut Vec<u8>,
    ) -> Option<Made> {
        let purpose = self.purpose(peer, cap)?;
        let mut epoch = peer.link.current.take()?;
        if purpose == Purpose::Probe && peer.link.probes > 0 && !peer.outbound.has_something() {
            // There are fewer messages than probes.
            peer.outbound.probe(&mut self.cx.store, epoch.sent.outstanding(), 1);
            peer.follow_copies(self.cx, &epoch, None, Again::Probe);
        }
        let again = peer.outbound.has_lost();
        if !again {
            peer.link.copies.clear();
        }
        let copy = if purpose == Purpose::Control { None } else { peer.link.copies.pop_front() };
        let mut made = Made { again, copy, ..Made::default() };
        let size = epoch.seal(buf, cap, |epoch, writer| {
            self.fill(peer, purpose, (cap, full), epoch, writer, &mut made);
        });
        match size {
            Some(bytes) => {
                if self.cx.followers.any() {
                    peer.follow_packet(self.cx, epoch.sent.next_number(), epoch.sent.staged());
                }
                self.note_sent(peer, &mut epoch, bytes, made);
            }
            None => {
                epoch.sent.discard();
                if purpose == Purpose::Data && !made.more {
                    peer.link.recovery.on_app_limited();
                }
            }
        }
        peer.link.held_up &= size.is_none() || made.more || purpose == Purpose::Control;
        peer.link.current = Some(epoch);
        size.map(|_| made)
    }

    /// Fills a packet: first control, then requests and replies, then messages.
    fn fill(
        &mut self,
        peer: &mut Peer,
        purpose: Purpose,
        (cap, full): (usize, Option<usize>),
        epoch: &mut Epoch,
        writer: &mut Writer<'_>,
        made: &mut Made,
    ) {
        let Peer { link, outbound, inbound, .. } = peer;
        let alone = !outbound.has_something();
        let fills = made.copy.is_none() && purpose == Purpose::Data;
        let cuts = link.cuts(outbound.bytes).filter(|_| fills).unwrap_or(Cuts::None);
        let mut fill = Filling { now: self.now, epoch, writer, eliciting: false, farewell: false };
        link.mirror_due |= fill.control(inbound, &self.cx.clock, &self.cx.journal, alone);
        fill.owed_to_calls(outbound, inbound);
        if purpose != Purpose::Control {
            let (window, pto) = (link.recovery.congestion().window(), link.recovery.pto_interval());
            fill.requests(outbound, &mut self.cx.clock, window, pto);
            fill.early(outbound, &self.cx.store);
            link.pinging = link.pinging.saturating_add(fill.pings(&mut link.pings));
            made.more = !link.pings.is_empty();
            made.more |= fill.replies(&mut inbound.server, pto);
            made.closes = self.ends && fill.farewell && done(outbound, inbound) && fill.writer.close(0);
            let before = fill.epoch.sent.carried();
            let empty = full.unwrap_or(cap) - OVERHEAD;
            let room = Room { left: 0, empty, bases: fill.writer.bases(), open: None, behind: None, cuts };
            made.more |= fill.messages(outbound, &mut self.cx.store, room);
            made.letters = fill.epoch.sent.carried() > before;
        }
        let lonely =
            purpose == Purpose::Probe || link.confirm || fill.epoch.sent.quiet_run() >= QUIET_PACKETS;
        made.serves = fill.eliciting;
        if lonely && !fill.eliciting {
            fill.eliciting |= fill.writer.ping();
        }
        made.eliciting = fill.eliciting;
        let short = cap - OVERHEAD - fill.writer.len();
        if full.is_some() && made.more && short > 0 && short <= cap / PAD_SHARE {
            fill.writer.padding(short);
        }
    }

    /// A packet of `bytes` leaves: updates the channel and the link.
    fn note_sent(&mut self, peer: &mut Peer, epoch: &mut Epoch, bytes: usize, made: Made) {
        let Peer { link, outbound, inbound, .. } = peer;
        match made.copy {
            Some(of) => {
                epoch.sent.carry(Carried::Copy { index: epoch.index, of });
                self.cx.stats.hedged += 1;
                self.cx.stats.hedged_bytes += bytes as u64;
            }
            None if made.letters => {
                inbound.on_answer(self.now);
                link.note_lone(epoch.index, epoch.sent.next_number(), made.again);
                if !made.more && !outbound.has_something() {
                    link.hedge(self.now);
                }
            }
            None => {}
        }
        let kind = if made.eliciting { PacketInfo::data } else { PacketInfo::ack };
        let info = PacketInfo { marked: self.marks, ..kind(size_of(bytes)) };
        link.recovery.on_sent(self.now, &mut epoch.sent, info);
        if let Some(pipe) = link.pipe() {
            self.cx.pipes.spend(pipe, bytes);
        }
        link.packets_sent += 1;
        link.ride_until = Mono(0);
        link.closed = made.closes;
        if made.serves {
            link.used_at = self.now;
        }
        if made.eliciting {
            if outbound.has_messages() || !inbound.server.is_empty() {
                link.recovery.set_awaited();
            }
            link.confirm = false;
            link.probes = link.probes.saturating_sub(1);
            link.spoke(self.now);
        }
    }

    /// What may leave now. None: nothing, until time passes or something arrives.
    fn purpose(&mut self, peer: &mut Peer, cap: usize) -> Option<Purpose> {
        let link = &mut peer.link;
        link.pace_at = Mono::NEVER;
        peer.outbound.heed_silence(link.is_unheard(self.now));
        if link.probes > 0 || link.confirm {
            return Some(Purpose::Probe);
        }
        let claims = link.ack_due(self.now) || peer.inbound.state_due(self.now);
        let urgent = peer.inbound.owes_have()
            || peer.inbound.verdicts.owes(|at| self.cx.journal.is_safe(at))
            || peer.inbound.revoked.owes(|at| self.cx.journal.is_safe(at))
            || peer.inbound.server.owes_answers()
            || peer.outbound.caller.reply_acks_due(self.now)
            || peer.inbound.rejection.is_some();
        let control = claims || urgent;
        let replies = peer.inbound.server.has_ready();
        let data = peer.outbound.has_something() || replies || !link.pings.is_empty();
        if !data {
            link.recovery.on_app_limited();
        }
        let full = link.pipe().is_some_and(|pipe| !self.cx.pipes.has_room(pipe, cap));
        let allowance = match full {
            true => Allowance::Blocked,
            false => link.recovery.allowance(self.now, size_of(cap), peer.outbound.queued()),
        };
        match allowance {
            Allowance::Bytes(_) if data || control => Some(Purpose::Data),
            Allowance::At(at) if data => {
                link.held_up = true;
                link.pace_at = at;
                let alone = urgent || claims && !link.claims_may_ride(self.now, at);
                alone.then_some(Purpose::Control)
            }
            Allowance::Blocked if data => {
                link.held_up = true;
                let alone = urgent || claims && !link.claims_may_ride(self.now, self.now);
                alone.then_some(Purpose::Control)
            }
            _ => control.then_some(Purpose::Control),
        }
    }
}

/// Whether neither end needs anything from the other any more.
fn done(outbound: &Outbound, inbound: &Inbound) -> bool {
    outbound.is_silent() && inbound.is_empty(true)
}

/// The size of a packet that may be as large as `wanted` and as an unproven address allows.
fn permitted(wanted: usize, allowance: u64) -> Option<usize> {
    let cap = usize::try_from(allowance).unwrap_or(usize::MAX).min(wanted);
    (cap >= LEAST).then_some(cap)
}

fn size_of(bytes: usize) -> u16 {
    u16::try_from(bytes).unwrap_or(u16::MAX)
}

fn transmit(to: PathAddr, segment: usize, len: usize) -> Transmit {
    Transmit { remote: to.remote, src_ip: to.local, ecn: 0, segment, len, pipe: to.pipe }
}
