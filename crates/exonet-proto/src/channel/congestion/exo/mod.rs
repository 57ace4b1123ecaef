//! Exo: a model of the path that judges congestion by delay.
//!
//! On the links that Exo is made for, loss alone does not mean congestion, so loss does not reduce the window. The rate is the
//! greatest rate delivered over ten rounds, plus what the path loses at random. The window holds the queue to a fraction of a
//! round trip. If halving the rate for two rounds does not shorten a long queue, another sender keeps it full; then Exo competes
//! with a window (see [`competition`]). If a standing queue signals congestion, Exo makes room (see [`yielding`]).
//! `docs/congestion.md` says why, and what was measured.
//!
//! Times are in seconds since the first acknowledgement, sizes in bytes. Only additions, multiplications, divisions and
//! comparisons are used, which IEEE 754 makes the same on every machine.

mod baseline;
mod competition;
mod delay;
mod filter;
mod phase;
mod yielding;

use core::time::Duration;

use super::{AckInfo, CongestionControl, LossInfo, initial_window, minimum_window};
use crate::Mono;
use crate::channel::rate::Sample;
use baseline::{Baseline, Tag};
use competition::{Competition, Rivals};
use delay::Delay;
use filter::{MaxFilter, Rounds};
use phase::{Phase, Startup};
use yielding::Yielding;

/// The rounds over which the greatest rate counts, and those over which it is remembered for changes of route.
const RATE_ROUNDS: u64 = 10;
const LONG_ROUNDS: u64 = 30;

/// For this many seconds after a path has lost a packet while no queue stood, it counts as a path that loses packets by chance.
const CHANCE_MEMORY: f64 = 10.0;

/// The least time that a round after start-up lasts, in seconds. On shorter paths, scheduling on the two machines delays packets
/// by more than the path does. In a round of microseconds this would look like a queue, and whose queue it is would depend on
/// what the machines do just then.
const LEAST_ROUND: f64 = 0.004;

/// Exo's state for one path.
#[derive(Clone, Debug)]
pub struct Exo {
    mtu: u16,
    start: Option<Mono>,
    now: f64,
    srtt: f64,
    delay: Delay,
    rounds: Rounds,
    /// Rounds in which the path, not the application, limited sending. Only these rounds age the filters.
    busy_rounds: u64,
    rate: MaxFilter,
    long_rate: MaxFilter,
    /// The last sample, the greatest rate ever, and the rate of the narrowest link, if known.
    sample: f64,
    peak: f64,
    capacity: Option<f64>,
    /// The rate of the narrowest link that the best train of packets has shown. Zero: no train has shown one.
    train: f64,
    baseline: Baseline,
    /// The bytes acknowledged and lost in the present round, and its packets: all of them, and the marked ones.
    acked: f64,
    lost: f64,
    packets: f64,
    ce: f64,
    /// Bytes under way before and after the last acknowledgement.
    before: f64,
    in_flight: f64,
    phase: Phase,
    /// The round in which the phase began.
    since: u64,
    competition: Option<Box<Competition>>,
    rivals: Rivals,
    /// Rounds with a long queue, less three for each round without.
    high_rounds: u64,
    /// The rounds of the last alarm, and of the last fall of the rate.
    alarmed: Option<u64>,
    fell: Option<u64>,
    /// The rate before it fell, for changes of route.
    rate_before: f64,
    /// The round in which Exo last reacted to marks.
    marked: Option<u64>,
    /// The round in which the path last signalled congestion, by a mark or by a loss from a standing queue.
    warned: Option<u64>,
    /// When the newest packet left that carried a signal of a queue in the present round: it was marked, or lost from a standing
    /// queue.
    told: Option<Mono>,
    /// When a packet was last lost while no queue stood.
    lost_by_chance: Option<f64>,
    yielding: Option<Yielding>,
    /// The results, in bytes and bytes per second. They are read for every packet, and change with every acknowledgement or loss.
    window: u64,
    pacing_rate: u64,
}

impl Exo {
    /// The state for a path with datagrams of `mtu` bytes.
    pub fn new(mtu: u16) -> Self {
        let mut exo = Self {
            mtu,
            start: None,
            now: 0.0,
            srtt: 0.1,
            delay: Delay::default(),
            rounds: Rounds::default(),
            busy_rounds: 0,
            rate: MaxFilter::new(RATE_ROUNDS),
            long_rate: MaxFilter::new(LONG_ROUNDS),
            sample: 0.0,
            peak: 0.0,
            capacity: None,
            train: 0.0,
            baseline: Baseline::default(),
            acked: 0.0,
            lost: 0.0,
            packets: 0.0,
            ce: 0.0,
            before: 0.0,
            in_flight: 0.0,
            phase: Phase::Startup(Startup::new(float(initial_window(mtu)))),
            since: 0,
            competition: None,
            rivals: Rivals::default(),
            high_rounds: 0,
            alarmed: None,
            fell: None,
            rate_before: 0.0,
            marked: None,
            warned: None,
            told: None,
            lost_by_chance: None,
            yielding: None,
            window: 0,
            pacing_rate: 0,
        };
        exo.conclude();
        exo
    }

    /// The model has changed: computes the window and the rate anew.
    fn conclude(&mut self) {
        self.window = bytes(self.limit().max(self.floor()));
        self.pacing_rate = bytes(self.pace()).max(1);
    }

    fn segment(&self) -> f64 {
        f64::from(self.mtu)
    }

    fn floor(&self) -> f64 {
        float(minimum_window(self.mtu))
    }

    /// The bytes under way that fill the path without a queue.
    fn pipe(&self) -> f64 {
        self.rate.get() * self.delay.base()
    }

    /// The rate of the narrowest link.
    fn capacity(&self) -> f64 {
        self.capacity.map_or(self.peak, |capacity| capacity.max(self.rate.get()))
    }

    /// The inaccuracy of the measured queue, in seconds: timers, and the packets of the link.
    fn slack(&self) -> f64 {
        0.0003 + 1.5 * self.segment() / self.peak.max(1.0)
    }

    /// By what part of a propagation time the queue exceeds `share` of one plus the slack.
    fn over(&self, share: f64) -> f64 {
        let base = self.delay.base();
        (self.delay.queue - share * base - self.slack()) / base
    }

    fn queue_is_short(&self) -> bool {
        self.delay.round.queue < 0.1 * self.delay.base() + self.slack()
    }

    fn queue_is_long(&self) -> bool {
        // Two packets are not a long queue, however slow the link is.
        let two = 0.0003 + 2.0 * self.segment() / self.peak.max(1.0);
        self.delay.round.queue > (0.3 * self.delay.base() + 0.5 * self.slack()).max(two)
    }

    fn is_probing(&self) -> bool {
        !matches!(self.phase, Phase::Startup(_) | Phase::Drain | Phase::ProbeRtt { .. })
    }

    fn enter(&mut self, phase: Phase) {
        (self.phase, self.since) = (phase, self.rounds.count());
    }

    /// How many rounds the phase has lasted.
    fn lasted(&self) -> u64 {
        self.rounds.count() - self.since
    }

    /// Takes the rate of a sample, with the random loss added.
    fn take_sample(&mut self, sample: Sample, round_ended: bool) {
        self.sample = float(sample.rate());
        let rate = self.sample / (1.0 - self.baseline.random());
        if sample.app_limited && rate < self.rate.get() {
            return;
        }
        self.busy_rounds += u64::from(round_ended && !sample.app_limited);
        self.rate.update(self.busy_rounds, rate);
        self.long_rate.update(self.busy_rounds, rate);
        self.peak = self.peak.max(self.rate.get());
    }

    fn take_delay(&mut self, forward: Duration) {
        self.delay.on_sample(self.now, forward.as_secs_f64(), self.srtt);
        self.delay.note_standing(self.now, 3.0 * self.segment() / self.peak.max(1.0));
    }

    /// Forgets old minima of the delay. If the queue may be the reason for the rise, first measures the delay with a short queue.
    fn roll(&mut self, app_limited: bool) {
        if let Err(risen) = self.delay.roll(self.now, self.competition.is_some()) {
            let look = self.is_probing() && self.competition.is_none() && !app_limited;
            if look {
                self.enter(Phase::ProbeRtt { until: None, risen });
            } else {
                self.delay.believe(risen);
            }
        }
    }

    /// On a path that loses no other packets, a loss from a standing queue may be a signal of the queue.
    fn judge_loss(&mut self, loss: LossInfo) {
        if !self.delay.stands(self.now) {
            self.lost_by_chance = Some(self.now);
            self.yielding = self.yielding.take().filter(Yielding::is_marked);
        } else if self.lost_by_chance.is_none_or(|at| self.now - at > CHANCE_MEMORY) {
            self.told = self.told.max(Some(loss.sent_at));
            self.warned = Some(self.rounds.count());
        }
    }

    fn compete(&mut self, window: f64) {
        let share = self.sample / self.capacity().max(1.0);
        let begun = Competition::begin(self.now, self.mtu, window, share, &self.rivals);
        self.competition = Some(Box::new(begun));
        self.high_rounds = 0;
        self.yielding = None;
        self.enter(Phase::Down);
    }
}

impl CongestionControl for Exo {
    fn on_ack(&mut self, ack: AckInfo<'_>) {
        let start = *self.start.get_or_insert(ack.now);
        self.now = ack.now.since(start).as_secs_f64();
        self.srtt = ack.path.smoothed().as_secs_f64();
        self.in_flight = float(ack.in_flight);
        self.before = float(ack.in_flight.saturating_add(ack.bytes));
        self.acked += float(ack.bytes);
        let least = if matches!(self.phase, Phase::Startup(_)) { 0.0 } else { LEAST_ROUND };
        let prior = ack.rate.map(|sample| sample.prior_delivered);
        let round_ended = self.rounds.on_ack(self.now, least, prior, ack.delivered);
        if let Some(forward) = ack.forward {
            self.take_delay(forward);
        }
        self.roll(ack.app_limited);
        self.baseline.on_acked(ack.packets);
        let probing = self.is_probing() && self.competition.is_none();
        self.baseline.settle(probing && self.delay.is_calm(self.slack()), probing);
        if let Some(sample) = ack.rate {
            self.take_sample(sample, round_ended);
        }
        self.capacity = ack.capacity.map(float).or(self.capacity);
        self.train = ack.train.map_or(self.train, float);
        self.packets += f64::from(ack.packets.iter().sum::<u32>());
        self.ce += float(ack.ce);
        if ack.ce > 0 {
            self.told = self.told.max(Some(ack.sent_at));
        }
        if ack.ce > 0 && self.marked.is_none_or(|round| self.rounds.count() > round + 1) {
            self.on_marks(&ack);
        }
        if let Some(yielding) = self.yielding.as_mut() {
            yielding.on_ack(&ack);
        }
        if round_ended {
            let limited = ack.rate.is_some_and(|sample| sample.app_limited);
            if self.delay.end_round() {
                self.on_round(&ack, limited);
            }
            (self.acked, self.lost, self.packets, self.ce) = (0.0, 0.0, 0.0, 0.0);
            self.told = None;
        }
        match self.competition.as_mut() {
            Some(competition) => competition.on_ack(&ack),
            None => self.advance(float(ack.bytes)),
        }
        self.conclude();
    }

    fn on_loss(&mut self, loss: LossInfo) {
        self.lost += float(loss.bytes);
        self.baseline.on_lost(loss.tag);
        if let Some(competition) = self.competition.as_mut() {
            if self.delay.is_near_ceiling() {
                competition.on_congestion(self.now, self.srtt, loss);
                self.conclude();
            }
        } else if self.is_probing() {
            self.judge_loss(loss);
            self.conclude();
        }
    }

    fn on_spurious_loss(&mut self, loss: LossInfo) {
        self.baseline.on_spurious(loss.tag);
    }

    fn on_persistent_congestion(&mut self, now: Mono) {
        if let Some(competition) = self.competition.as_mut() {
            competition.on_silence(now);
            self.conclude();
        }
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.conclude();
    }

    fn bandwidth(&self) -> u64 {
        bytes(self.rate.get())
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.pacing_rate)
    }

    fn tag_for_next_packet(&self) -> u8 {
        let tag = match self.phase {
            _ if self.competition.is_some() => Tag::Up,
            Phase::Down => Tag::Down,
            Phase::Cruise { .. } | Phase::Alarm(_) => Tag::Cruise,
            _ => Tag::Up,
        };
        tag as u8
    }
}

fn float(bytes: u64) -> f64 {
    bytes as f64
}

/// Whole bytes, at least zero.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and is never negative"
)]
fn bytes(x: f64) -> u64 {
    x as u64
}

#[cfg(test)]
mod tests;
