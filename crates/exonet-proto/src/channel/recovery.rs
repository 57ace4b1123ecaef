//! Loss recovery of one path (RFC 9002), and everything else that decides how much may leave, and when.
//!
//! Up to three epochs share a path. The packets of each epoch are in its own [`Sent`]; round-trip time, thresholds, timers,
//! congestion and pacing are here. See the [call contract](super) of the channel.

use core::ops::Range;
use core::time::Duration;

use super::congestion::{AckInfo, CongestionControl, LossInfo, SentInfo, TAGS};
use super::dispersion::Dispersion;
use super::ecn::Marking;
use super::hedge::Hedging;
use super::loss::Loss;
use super::mtu::{BASE, MtuSearch};
use super::one_way::OneWay;
use super::pto::Pto;
use super::rate::RateEstimator;
use super::retransmission::{PathState, Policy, Retransmission, SpuriousLoss, Standard};
use super::rtt::{GRANULARITY, INITIAL_RTT};
use super::sent::{AckOfUnsent, Fate, Packet, PacketInfo, Resolved, Sent};
use super::train::Train;
use super::{EcnCounts, Pacer, Rtt};
use crate::Mono;

/// The state that the policy sees. This is a macro, since the policy is borrowed beside it.
macro_rules! path_state {
    ($recovery:ident) => {
        PathState {
            rtt: &$recovery.rtt,
            loss: &$recovery.loss,
            congestion: &*$recovery.congestion,
            mtu: &$recovery.mtu,
            max_ack_delay: $recovery.config.max_ack_delay,
            in_flight: $recovery.in_flight,
            packets: $recovery.eliciting,
            awaited: $recovery.awaited,
        }
    };
}

mod sending;

pub use sending::Allowance;

/// This many consecutive probe timeouts are persistent congestion. Two or three happen at random on lossy paths.
const PERSISTENT: u32 = 5;

/// For how many probe timeouts a lost packet is remembered.
const LOST_MEMORY: u32 = 2;

/// The settings that a path begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The round-trip time assumed before the first sample.
    pub initial_rtt: Duration,
    /// The longest time that an ACK waits, as the peer promises.
    pub max_ack_delay: Duration,
    /// The largest datagram to try: see [`ethernet`](super::mtu::ethernet).
    pub max_datagram: u16,
    /// The carrier delivers everything in order and controls congestion: loss detection, probe timeouts, window, pacing and path
    /// MTU discovery are off. Datagrams may have `max_datagram` bytes at once.
    pub reliable: bool,
    /// Whether lone packets are copied.
    pub hedging: Hedging,
    /// Whether packets leave marked ECT(0) on paths where marks are found to work.
    pub ecn: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            initial_rtt: INITIAL_RTT,
            max_ack_delay: super::received::MAX_ACK_DELAY,
            max_datagram: BASE,
            reliable: false,
            hedging: Hedging::default(),
            ecn: true,
        }
    }
}

/// An ACK frame.
#[derive(Clone, Copy, Debug)]
pub struct Ack<R> {
    /// The acknowledged numbers: newest first, disjoint.
    pub ranges: R,
    /// How long the ACK waited since its newest packet arrived.
    pub delay: Duration,
    /// When its newest packet arrived, by the peer's clock of unknown origin, modulo
    /// [`ARRIVAL_SPAN`](crate::wire::ARRIVAL_SPAN) microseconds.
    pub arrival: Duration,
    /// The peer's ECN counts.
    pub ecn: Option<EcnCounts>,
}

/// The results of an ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Packets newly acknowledged.
    pub acked: u64,
    /// The acknowledged packets that had been declared lost.
    pub spurious: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// The sample of round-trip time, if the ACK gave one.
    pub rtt: Option<Duration>,
    /// The size of datagrams has changed: see [`Recovery::datagram_size`].
    pub mtu_changed: bool,
}

/// What to do about a probe timeout (RFC 9002, section 6.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Probe timeouts in a row, this one included.
    pub count: u32,
    /// How many ack-eliciting packets to send now, regardless of the window: new data, copies of what the oldest packets under
    /// way carry, or PING.
    pub packets: u32,
}

/// Loss detection, congestion control, pacing and path MTU of one path.
#[derive(Debug)]
pub struct Recovery {
    config: Config,
    rtt: Rtt,
    congestion: Box<dyn CongestionControl>,
    rate: RateEstimator,
    one_way: OneWay,
    dispersion: Dispersion,
    train: Train,
    pacer: Pacer,
    mtu: MtuSearch,
    marking: Marking,
    loss: Loss,
    policy: Policy,
    pto: Pto,
    /// Counts path changes: packets of another path do not change the state of this one.
    path: u8,
    /// Bytes of this path's packets under way that count against the window.
    in_flight: u64,
    /// When a packet that counts against the window last left.
    last_sent: Option<Mono>,
    /// Ack-eliciting packets under way, of any path.
    eliciting: u64,
    /// When something ack-eliciting was last newly acknowledged.
    heard_at: Mono,
    /// An application waits for what these packets carry: the first probe comes early.
    awaited: bool,
}

/// The totals of one ACK, for the congestion controller.
#[derive(Default)]
struct Tally {
    report: Report,
    bytes: u64,
    packets: [u32; TAGS],
    /// Marked packets of this path.
    marked: u64,
    eliciting: bool,
    /// The newest packet of this path.
    newest: Option<(u64, Packet)>,
}

impl Recovery {
    /// A path under `congestion`, with the [`Standard`] policy of retransmission.
    pub fn new(now: Mono, config: Config, congestion: Box<dyn CongestionControl>) -> Self {
        Self {
            rtt: Rtt::new(config.initial_rtt),
            rate: RateEstimator::default(),
            one_way: OneWay::default(),
            dispersion: Dispersion::default(),
            train: Train::default(),
            pacer: Pacer::new(now, BASE),
            mtu: MtuSearch::new(config.max_datagram),
            marking: Marking::default(),
            loss: Loss::default(),
            policy: Policy::Standard(Standard::new(config.hedging)),
            pto: Pto::default(),
            path: 0,
            in_flight: 0,
            last_sent: None,
            eliciting: 0,
            heard_at: Mono(0),
            awaited: false,
            congestion,
            config,
        }
    }

    /// The peer has moved to another path: everything learnt about the old path is forgotten. Packets under way are still
    /// acknowledged or lost, without any effect on the new path.
    pub fn on_path_change(&mut self, now: Mono, max_datagram: u16, congestion: Box<dyn CongestionControl>) {
        let config = Config { max_datagram, ..self.config };
        let (path, eliciting, awaited) = (self.path.wrapping_add(1), self.eliciting, self.awaited);
        *self = Self { path, eliciting, awaited, ..Self::new(now, config, congestion) };
        self.pto.on_sent(now);
    }

    /// Gives the path a retransmission policy of the application's own. Call this before anything has left.
    pub fn set_retransmission(&mut self, policy: Box<dyn Retransmission>) {
        self.policy = Policy::Custom(policy);
    }

    /// The handshake took `rtt`: a better guess than the default, until a packet is acknowledged.
    pub fn assume_rtt(&mut self, rtt: Duration) {
        if !self.rtt.is_measured() {
            self.rtt = Rtt::new(rtt.max(GRANULARITY));
        }
    }

    /// Sets the longest time that an ACK waits, as the peer promises.
    pub fn set_max_ack_delay(&mut self, max_ack_delay: Duration) {
        self.config.max_ack_delay = max_ack_delay;
    }

    /// A packet leaves in `sent`, with the items carried there. Returns its number.
    pub fn on_sent<C: Copy>(&mut self, now: Mono, sent: &mut Sent<C>, info: PacketInfo) -> u64 {
        let tag = self.congestion.tag_for_next_packet();
        let counted = info.in_flight && !info.off_path;
        let bytes = u64::from(info.bytes);
        if counted && self.in_flight == 0 {
            let idle = self.last_sent.map_or(Duration::ZERO, |last| now.since(last));
            if idle > self.pto_interval() {
                self.congestion.on_idle_restart(now, idle);
            }
        }
        let snapshot = self.rate.on_sent(now, if counted { self.in_flight } else { u64::MAX });
        let number = sent.on_sent(now, info, tag, self.path, snapshot);
        if info.mtu_probe {
            self.mtu.on_probe_sent(info.bytes);
        }
        if info.marked {
            self.marking.on_sent(now);
        }
        if counted {
            self.in_flight = self.in_flight.saturating_add(bytes);
            self.last_sent = Some(now);
            self.congestion.on_sent(SentInfo { now, bytes, in_flight: self.in_flight, tag });
            self.pacer.on_sent(now, bytes);
        }
        if info.ack_eliciting {
            self.eliciting = self.eliciting.saturating_add(1);
            self.pto.on_sent(now);
        }
        number
    }

    /// An ACK of packets in `sent` arrived. Reports the fate of every item that it settles to `fate`: first the acknowledged
    /// items, then the lost ones.
    ///
    /// # Errors
    /// The peer acknowledged what was never sent: close the channel.
    pub fn on_ack<C: Copy>(
        &mut self,
        now: Mono,
        sent: &mut Sent<C>,
        ack: Ack<impl Iterator<Item = Range<u64>> + Clone>,
        mut fate: impl FnMut(Fate, C),
    ) -> Result<Report, AckOfUnsent> {
        let largest_before = sent.largest_acked();
        let mut tally = Tally::default();
        sent.on_ack(ack.ranges, |resolved| {
            self.on_packet_acked(now, &resolved, &mut tally);
            let kind = if resolved.was_lost { Fate::Late } else { Fate::Acked };
            resolved.items().for_each(|item| fate(kind, item));
        })?;
        if tally.eliciting {
            if let Some((_, newest)) = tally.newest
                && let Some(in_vain) = self.pto.was_early(newest.sent_at)
            {
                self.policy.on_probed(in_vain, &path_state!(self));
            }
            self.pto.on_progress();
            self.heard_at = now;
        }
        let delay = ack.delay.min(self.config.max_ack_delay);
        let advanced = sent.largest_acked() > largest_before;
        // RFC 9000, section 13.4.2.1: the counts of an ACK that was overtaken are ignored.
        let untold = sent.on_marked_acked(self.path, if advanced { tally.marked } else { 0 });
        let ce = match ack.ecn.filter(|_| advanced) {
            Some(counts) => self.marking.on_counts(untold, sent.on_ecn(counts)),
            None => {
                self.marking.on_no_counts(untold);
                0
            }
        };
        self.settle_ack(
            now,
            &mut tally,
            delay,
            ack.arrival,
            ce,
            advanced.then(|| sent.largest_acked()).flatten(),
        );
        self.detect_lost(now, sent, &mut tally.report, &mut fate);
        self.loss.conclude();
        Ok(tally.report)
    }

    fn on_packet_acked<C: Copy>(&mut self, now: Mono, resolved: &Resolved<'_, C>, tally: &mut Tally) {
        let packet = resolved.packet;
        let bytes = u64::from(packet.info.bytes);
        let here = packet.path == self.path && !packet.info.off_path;
        tally.report.acked += 1;
        tally.report.spurious += u64::from(resolved.was_lost);
        tally.eliciting |= packet.info.ack_eliciting;
        if !resolved.was_lost {
            self.settle(packet);
            if here && !packet.info.mtu_probe {
                self.loss.on_acked();
            }
        } else if here {
            let distance = resolved.largest_acked.saturating_sub(resolved.number);
            let spurious = SpuriousLoss { now, distance, age: now.since(packet.sent_at) };
            self.policy.on_spurious(spurious, &path_state!(self));
            if packet.info.in_flight && !packet.info.mtu_probe {
                self.congestion.on_spurious_loss(self.loss_info(now, packet));
            }
        }
        if here && packet.info.marked {
            tally.marked += 1;
            self.marking.on_acked(packet.sent_at);
        }
        if !here || !packet.info.in_flight {
            return;
        }
        tally.bytes = tally.bytes.saturating_add(bytes);
        if let Some(count) = tally.packets.get_mut(usize::from(packet.tag)) {
            *count = count.saturating_add(1);
        }
        if tally.newest.is_none_or(|(number, _)| resolved.number > number) {
            tally.newest = Some((resolved.number, *packet));
        }
        self.rate.on_delivered(now, packet.sent_at, bytes, packet.snapshot);
        self.dispersion.on_delivered(resolved.number, packet.sent_at, bytes);
        self.train.on_delivered(resolved.number, packet.sent_at, bytes);
        if packet.info.mtu_probe {
            tally.report.mtu_changed |= self.mtu.on_probe_acked(now, packet.info.bytes, packet.sent_at);
        } else {
            self.mtu.on_acked(packet.info.bytes, packet.sent_at);
        }
    }

    /// Takes the round-trip time and informs the controller. `largest` is given if the largest number of the ACK is new.
    fn settle_ack(
        &mut self,
        now: Mono,
        tally: &mut Tally,
        delay: Duration,
        arrival: Duration,
        ce: u64,
        largest: Option<u64>,
    ) {
        let Some((number, newest)) = tally.newest else {
            return;
        };
        // RFC 9002, section 5.1: a sample comes only from the largest number, if it is newly acknowledged and its packet was
        // ack-eliciting.
        let sampled = largest == Some(number) && newest.info.ack_eliciting;
        let rtt = sampled.then(|| now.since(newest.sent_at));
        let forward = rtt.map(|rtt| {
            self.rtt.on_sample(now, rtt, delay);
            self.one_way.on_sample(now, newest.sent_at, arrival, self.rtt.adjusted())
        });
        if let Some(forward) = forward {
            self.loss.on_delay(forward, self.rtt.min());
        }
        if largest == Some(number) {
            self.dispersion.on_ack(number, newest.sent_at, arrival);
            self.train.on_ack(number, newest.sent_at, arrival);
        }
        tally.report.rtt = rtt;
        let rate = self.rate.sample(now, self.rtt.min());
        self.congestion.on_ack(AckInfo {
            now,
            bytes: tally.bytes,
            packets: tally.packets,
            in_flight: self.in_flight,
            sent_at: newest.sent_at,
            app_limited: newest.snapshot.app_limited(),
            path: &self.rtt,
            rtt,
            ack_delay: delay,
            forward,
            capacity: self.dispersion.rate(),
            train: self.train.rate(),
            rate,
            delivered: self.rate.delivered(),
            ce,
        });
        if tally.report.mtu_changed {
            self.on_mtu();
        }
    }

    /// The [`loss_time`](Sent::loss_time) of `sent` has come.
    pub fn on_loss_timeout<C: Copy>(
        &mut self,
        now: Mono,
        sent: &mut Sent<C>,
        mut fate: impl FnMut(Fate, C),
    ) -> Report {
        let mut report = Report::default();
        self.detect_lost(now, sent, &mut report, &mut fate);
        self.loss.conclude();
        report
    }

    fn detect_lost<C: Copy>(
        &mut self,
        now: Mono,
        sent: &mut Sent<C>,
        report: &mut Report,
        fate: &mut impl FnMut(Fate, C),
    ) {
        if !self.config.reliable {
            let rule = self.policy.loss(now, &path_state!(self));
            sent.detect_lost(now, rule, |resolved| {
                self.on_packet_lost(now, resolved.packet, report);
                resolved.items().for_each(|item| fate(Fate::Lost, item));
            });
        }
        sent.retire(now, self.pto_interval().saturating_mul(LOST_MEMORY));
    }

    fn on_packet_lost(&mut self, now: Mono, packet: &Packet, report: &mut Report) {
        report.lost += 1;
        self.settle(packet);
        if packet.path != self.path || packet.info.off_path {
            return;
        }
        if packet.info.marked {
            self.marking.on_lost(packet.sent_at);
        }
        // The loss of an MTU probe is attributed to its size.
        if packet.info.mtu_probe {
            self.mtu.on_probe_lost(now, packet.info.bytes);
            return;
        }
        self.loss.on_lost();
        if !packet.info.in_flight {
            return;
        }
        self.congestion.on_loss(self.loss_info(now, packet));
        if self.mtu.on_lost(packet.info.bytes, packet.sent_at) {
            report.mtu_changed = true;
            self.on_mtu();
        }
    }

    fn loss_info(&self, now: Mono, packet: &Packet) -> LossInfo {
        LossInfo {
            now,
            bytes: u64::from(packet.info.bytes),
            sent_at: packet.sent_at,
            tag: packet.tag,
            in_flight: self.in_flight,
        }
    }

    /// Removes an outstanding packet from the counts.
    fn settle(&mut self, packet: &Packet) {
        if packet.info.ack_eliciting {
            self.eliciting = self.eliciting.saturating_sub(1);
            self.awaited &= self.eliciting > 0;
        }
        if packet.info.in_flight && !packet.info.off_path && packet.path == self.path {
            self.in_flight = self.in_flight.saturating_sub(u64::from(packet.info.bytes));
        }
    }

    fn on_mtu(&mut self) {
        let mtu = self.mtu.current();
        self.congestion.on_mtu(mtu);
        self.pacer.set_mtu(mtu);
    }

    /// The system refused to send the packets `numbers` of `sent`, of `size` bytes, as too large for the first link. They have
    /// not left, and are [`Fate::Lost`], with no effect except on the size of datagrams.
    pub fn on_refused<C: Copy>(
        &mut self,
        now: Mono,
        sent: &mut Sent<C>,
        numbers: Range<u64>,
        size: u16,
        mut fate: impl FnMut(Fate, C),
    ) {
        if size <= BASE {
            // There is no smaller size to try: the packets count as lost when their time has come.
            return;
        }
        for number in numbers {
            sent.on_refused(number, |resolved| {
                self.settle(resolved.packet);
                resolved.items().for_each(|item| fate(Fate::Lost, item));
            });
        }
        if self.mtu.on_refused(now, size) {
            self.on_mtu();
        }
    }

    /// The path that carried what is in `sent` is gone, and this says nothing about other paths: every item under way is
    /// [`Fate::Lost`]. Returns the number of packets.
    pub fn on_broken<C: Copy>(
        &mut self,
        now: Mono,
        sent: &mut Sent<C>,
        mut fate: impl FnMut(Fate, C),
    ) -> u64 {
        let mut lost = 0;
        sent.lose_all(now, |resolved| {
            lost += 1;
            self.settle(resolved.packet);
            resolved.items().for_each(|item| fate(Fate::Lost, item));
        });
        sent.retire(now, self.pto_interval().saturating_mul(LOST_MEMORY));
        lost
    }

    /// Whether the carrier delivers everything in order: [`Config::reliable`].
    pub fn is_reliable(&self) -> bool {
        self.config.reliable
    }

    /// Sets whether the carrier of the next path is reliable. Call [`Self::on_path_change`] next.
    pub fn set_reliable(&mut self, reliable: bool) {
        self.config.reliable = reliable;
    }

    /// Whether anything under way elicits an acknowledgement.
    pub fn is_asking(&self) -> bool {
        self.eliciting > 0
    }

    /// The epoch of `sent` ends: every item under way is [`Fate::Gone`].
    pub fn on_gone<C: Copy>(&mut self, sent: &mut Sent<C>, mut fate: impl FnMut(Fate, C)) {
        sent.drain(|resolved| {
            self.settle(resolved.packet);
            resolved.items().for_each(|item| fate(Fate::Gone, item));
        });
    }

    /// The silence was due to the peer, not the path: the probe timeout starts again without back-off.
    pub fn on_peer_restart(&mut self) {
        self.pto.on_progress();
    }

    /// An application waits for what is about to leave: until everything under way is settled, the first probe comes early.
    pub fn set_awaited(&mut self) {
        self.awaited = true;
    }

    /// When a probe is due, if anything ack-eliciting is under way.
    pub fn pto_at(&self) -> Option<Mono> {
        let armed = self.eliciting > 0 && !self.config.reliable;
        armed.then(|| self.pto.deadline(self.policy.probe_after(&path_state!(self), self.pto.waits())))
    }

    /// The time of [`pto_at`](Self::pto_at) has come. Nothing counts as lost because of it.
    pub fn on_pto(&mut self, now: Mono) -> Probe {
        let count = self.pto.on_timeout(now);
        if count == PERSISTENT {
            self.congestion.on_persistent_congestion(now);
        }
        let packets = self.policy.probes(&path_state!(self), count);
        Probe { count, packets }
    }

    /// The network may be back: if probes are unanswered, and not because of overload, the next one is due, and their waits begin
    /// anew.
    pub fn hasten(&mut self, now: Mono) {
        if !self.loss.is_overloaded() {
            self.pto.hasten(now);
        }
    }

    /// How many consecutive probe timeouts passed without an answer.
    pub fn pto_count(&self) -> u32 {
        self.pto.count()
    }

    /// Whether an acknowledgement of what is under way in `sent` is overdue: none has come for `max(4 var, rtt / 4, 1 ms)` beyond
    /// the round trip and the delay that the peer may add. False before the first sample.
    pub fn is_unheard<C: Copy>(&self, now: Mono, sent: &Sent<C>) -> bool {
        let (rtt, slack) = (&self.rtt, GRANULARITY.max(self.rtt.variance() * 4).max(self.rtt.smoothed() / 4));
        let slack = slack.saturating_add(self.config.max_ack_delay);
        let overdue = |first: Mono| self.heard_at.max(first + rtt.smoothed()) + slack <= now;
        let counts = rtt.is_measured() && !self.config.reliable && self.heard_at + slack <= now;
        counts && sent.first_unheard().is_some_and(overdue)
    }

    /// One probe timeout without back-off, the peer's acknowledgement delay included.
    pub fn pto_interval(&self) -> Duration {
        self.rtt.pto_base().saturating_add(self.config.max_ack_delay)
    }

    /// The round-trip time.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// The congestion controller, for statistics.
    pub fn congestion(&self) -> &dyn CongestionControl {
        &*self.congestion
    }

    /// Bytes under way on this path.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// What [`Roaming`](super::Roaming) needs to know of the active path.
    pub fn timing(&self) -> super::roaming::Timing {
        super::roaming::Timing { rtt: self.rtt.smoothed(), pto: self.pto_interval() }
    }
}

#[cfg(test)]
mod tests;
