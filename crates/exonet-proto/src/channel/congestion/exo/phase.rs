//! The phases of Exo: start-up, then rounds at the rate of the path, with a probe for more and a drain in turn.

use super::yielding::Yielding;
use super::{Exo, float};
use crate::channel::congestion::{AckInfo, LossInfo, initial_window};

/// Gain of the pacing rate in start-up: 4 ln 2, doubling the rate in each round.
const STARTUP_GAIN: f64 = 2.77;
/// In start-up the rate exceeds that of the narrowest link, if it is known, by this factor: enough to see whether it was measured
/// too low, and little enough for the queue.
pub(super) const STARTUP_EXCESS: f64 = 1.4;
/// A path that delivers this many times the assumed rate of its narrowest link has refuted that rate.
const REFUTED: f64 = 1.25;
/// A path that delivers this part of the rate of its narrowest link is full if there is a queue.
const FULL: f64 = 0.9;
/// The most bytes under way for which it is enough that the first packets have shown a fast link.
pub(super) const LEAP: f64 = 512_000.0;
/// A train is a millisecond's worth of packets, at least one packet and at most this many.
const TRAIN: f64 = 0.001;
const TRAIN_PACKETS: f64 = 45.0;
/// The rounds after marks in which probes for more rate are small.
const WARY_ROUNDS: u64 = 30;
/// The least number of rounds between two alarms.
const ALARM_EVERY: u64 = 12;

/// Doubles the rate until it does not grow any more, or the queue grows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Startup {
    window: f64,
    /// The rate that was reached, and the number of rounds in which it grew by less than a quarter.
    reached: f64,
    stalled: u32,
}

impl Startup {
    pub(super) const fn new(window: f64) -> Self {
        Self { window, reached: 0.0, stalled: 0 }
    }
}

/// The queue has stayed long: half the rate for two rounds shows which sender fills it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alarm {
    /// Bytes under way when it began.
    in_flight: f64,
    /// The queue then.
    queue: f64,
}

/// What Exo is doing. Each phase lasts for rounds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    Startup(Startup),
    /// Empties the queue that start-up has filled.
    Drain,
    /// At the rate of the path, for this many rounds.
    Cruise {
        rounds: u64,
    },
    /// Faster, to see whether the path gives more; `rate` is the rate before the last step.
    Up {
        gain: f64,
        rate: f64,
    },
    /// Slower, until the queue is gone.
    Down,
    /// See [`Alarm`].
    Alarm(Alarm),
    /// With half of the pipe full, until then, to see whether the delay has risen for good.
    ProbeRtt {
        until: Option<f64>,
        risen: f64,
    },
}

impl Exo {
    // --- each acknowledgement ---

    /// Acts on what does not wait for the end of a round.
    pub(super) fn advance(&mut self, acked: f64) {
        let pipe = self.pipe();
        match self.phase {
            Phase::Startup(startup) => self.start_up(startup, acked),
            Phase::Drain => {
                if self.in_flight <= pipe + 2.0 * self.segment() || self.lasted() > 5 {
                    self.cruise();
                }
            }
            Phase::Up { .. } => {
                if self.lasted() >= 1 && self.over(0.15) > 0.0 {
                    self.enter(Phase::Down);
                }
            }
            Phase::Down => {
                let empty = self.in_flight <= pipe + self.segment() + self.rate.get() * 0.0005;
                // A whole drained round measures random loss. Without it, losses would always be attributed to the queue.
                let measuring = self.baseline.is_lossy() && self.lasted() < 1;
                if empty && !measuring || self.lasted() > 2 {
                    self.cruise();
                }
            }
            Phase::ProbeRtt { until, risen } => self.probe_rtt(until, risen),
            Phase::Cruise { .. } | Phase::Alarm(_) => {}
        }
    }

    fn start_up(&mut self, mut startup: Startup, acked: f64) {
        let target = 2.0 * self.pipe() + 2.0 * self.segment() + self.rate.get() * 0.0005;
        if startup.window < target || startup.reached == 0.0 {
            startup.window += acked;
        }
        if startup.reached > 0.0 {
            startup.window = startup.window.min(target.max(float(initial_window(self.mtu))));
        }
        // Takes the leap at once instead of doubling up to it.
        startup.window = startup.window.max((1.25 * self.train * self.delay.base()).min(LEAP));
        self.phase = Phase::Startup(startup);
        // The narrowest link is full. The end of the round would show it only when the queue is full, too.
        if self.train > 0.0 && self.rate.get() > FULL * self.train && self.over(0.25) > 0.0 {
            self.enter(Phase::Drain);
        }
    }

    fn probe_rtt(&mut self, until: Option<f64>, risen: f64) {
        match until {
            None if self.in_flight <= (0.5 * self.pipe()).max(self.floor()) + self.segment() => {
                let until = self.now + 1.5 * self.delay.base().max(0.02);
                self.delay.watch();
                self.phase = Phase::ProbeRtt { until: Some(until), risen };
            }
            Some(until) if self.now > until => {
                self.delay.accept(risen);
                self.cruise();
            }
            _ => {}
        }
    }

    /// Cruises for five to seven rounds: flows that share a link must not fall into step.
    pub(super) fn cruise(&mut self) {
        let dice = self.start.map_or(0, |start| start.0).wrapping_add(super::bytes(self.now * 1e6));
        let rounds = 5 + (dice.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % 3;
        self.enter(Phase::Cruise { rounds });
    }

    // --- each round ---

    /// A round has ended, and its delays are known.
    pub(super) fn on_round(&mut self, ack: &AckInfo<'_>, app_limited: bool) {
        match self.phase {
            Phase::Startup(startup) => self.startup_round(startup, app_limited),
            _ if app_limited || !self.is_probing() => {}
            _ if self.competition.is_some() => self.competing_round(),
            _ => self.probing_round(ack),
        }
    }

    fn startup_round(&mut self, mut startup: Startup, app_limited: bool) {
        let (rate, queue, base) = (self.rate.get(), self.delay.round.queue, self.delay.base());
        let slack = self.slack();
        if rate <= 0.0 {
            return;
        }
        if queue > 0.5 * base + slack {
            self.enter(Phase::Drain);
            return;
        }
        if app_limited {
            return;
        }
        if rate >= 1.25 * startup.reached {
            (startup.reached, startup.stalled) = (rate, 0);
        } else {
            startup.stalled += 1;
        }
        self.phase = Phase::Startup(startup);
        let burdened = queue > 0.25 * base + slack || self.lost > 0.3 * (self.acked + self.lost);
        if startup.stalled >= 3 || startup.stalled >= 1 && burdened {
            self.enter(Phase::Drain);
        }
    }

    fn probing_round(&mut self, ack: &AckInfo<'_>) {
        self.note_fall();
        self.heed_marks();
        self.make_room(ack);
        self.high_rounds =
            if self.queue_is_long() { self.high_rounds + 1 } else { self.high_rounds.saturating_sub(3) };
        if let Phase::Alarm(alarm) = self.phase {
            if self.lasted() >= 2 {
                self.judge(alarm);
            }
            return;
        }
        let rested = self.alarmed.is_none_or(|round| self.rounds.count() > round + ALARM_EVERY);
        if self.queue_is_long() && self.high_rounds >= 3 && rested {
            if self.fell.is_none_or(|round| self.rounds.count() > round + 8) {
                self.rate_before = self.long_rate.get();
            }
            self.enter(Phase::Alarm(Alarm { in_flight: self.before, queue: self.delay.round.queue }));
        } else if self.high_rounds >= 10 {
            self.compete(self.before);
        } else {
            self.next_phase();
        }
    }

    fn next_phase(&mut self) {
        let rate = self.rate.get();
        match self.phase {
            Phase::Up { gain, rate: before } if self.lasted() >= 2 => {
                if rate > 1.1 * before {
                    self.phase = Phase::Up { gain: (1.4 * gain).min(2.5), rate };
                } else {
                    self.enter(Phase::Down);
                }
            }
            Phase::Cruise { rounds } if self.lasted() >= rounds => {
                let room = self.delay.round.queue < 0.2 * self.delay.base() + self.slack();
                let gentle = self.baseline.hurts_to_probe() || self.within(WARY_ROUNDS, self.warned);
                let gain = if gentle { 1.08 } else { 1.25 };
                self.enter(if room { Phase::Up { gain, rate } } else { Phase::Down });
            }
            _ => {}
        }
    }

    /// Heeds marks of packets that left at the rate of the path: lowers the rate in proportion to the share of marked packets.
    pub(super) fn heed_marks(&mut self) {
        if self.ce > 0.0 && self.has_settled() {
            let share = (self.ce / self.packets.max(1.0)).min(1.0);
            self.rate.reset(self.busy_rounds, self.rate.get() * (1.0 - 0.5 * share).max(0.7));
        }
    }

    /// Makes room if a standing queue signalled congestion though Exo sends at the rate of the path: another sender shares the
    /// queue.
    fn make_room(&mut self, ack: &AckInfo<'_>) {
        if self.yielding.as_ref().is_some_and(Yielding::is_over) {
            self.yielding = None;
        }
        if let Some(sent_at) = self.told
            && self.has_settled()
            && self.delay.stands(self.now)
        {
            let (mtu, window, marked) = (self.mtu, self.before, self.ce > 0.0);
            let signal = LossInfo { now: ack.now, bytes: 0, sent_at, tag: 0, in_flight: ack.in_flight };
            self.yielding.get_or_insert_with(|| Yielding::begin(mtu, window)).on_signal(signal, marked);
        }
    }

    /// Whether the packets acknowledged now left at the rate of the path.
    fn has_settled(&self) -> bool {
        matches!(self.phase, Phase::Cruise { .. }) && self.lasted() >= 2
    }

    /// If the path delivers much less than before and the queue grows, accepts the lower rate.
    fn note_fall(&mut self) {
        let rested = self.fell.is_none_or(|round| self.rounds.count() > round + 2);
        let fallen = self.delay.round.queue > 0.5 * self.delay.base() + self.slack()
            && self.sample < 0.7 * self.rate.get();
        if fallen && rested && !matches!(self.phase, Phase::Alarm(_)) {
            self.rate_before = self.long_rate.get();
            self.rate.reset(self.busy_rounds, self.sample / (1.0 - self.baseline.random()));
            self.fell = Some(self.rounds.count());
        }
    }

    /// Judges the alarm after two rounds at half the rate.
    fn judge(&mut self, alarm: Alarm) {
        let round = self.delay.round;
        let fell = (alarm.queue - round.queue) / alarm.queue;
        let spread = (round.high - round.low) / alarm.queue;
        self.alarmed = Some(self.rounds.count());
        if fell > 0.5 || self.queue_is_short() {
            // The queue was this node's own.
            self.enter(Phase::Down);
        } else if fell.abs() < 0.08 && spread < 0.15 {
            // This is not a queue: the path has become longer.
            self.delay.reroute(self.now, round.low);
            self.rate.reset(self.busy_rounds, self.rate_before);
            self.high_rounds = 0;
            self.cruise();
        } else {
            self.compete(alarm.in_flight);
        }
    }

    fn competing_round(&mut self) {
        let round = super::competition::Round {
            now: self.now,
            srtt: self.srtt,
            rate: self.sample,
            capacity: self.capacity(),
            low: self.queue_is_short(),
            high: self.queue_is_long(),
            loss: self.lost / (self.acked + self.lost).max(1.0) - self.baseline.random(),
        };
        let Self { competition, delay, rivals, .. } = self;
        let Some(competition) = competition.as_mut() else { return };
        if competition.on_round(round, delay, rivals) {
            self.competition = None;
            self.high_rounds = 0;
            self.enter(Phase::Down);
        }
    }

    /// The path marks packets: reacts as to a loss at the top of the queue, whatever the delays show.
    pub(super) fn on_marks(&mut self, ack: &AckInfo<'_>) {
        (self.marked, self.warned) = (Some(self.rounds.count()), Some(self.rounds.count()));
        let loss =
            LossInfo { now: ack.now, bytes: 0, sent_at: ack.sent_at, tag: 0, in_flight: ack.in_flight };
        if let Some(competition) = self.competition.as_mut() {
            competition.on_congestion(self.now, self.srtt, loss);
        } else if matches!(self.phase, Phase::Up { .. } | Phase::Startup(_)) {
            self.enter(Phase::Down);
        }
    }

    // --- window and rate ---

    /// The bytes of a train: a millisecond's worth at `rate`.
    fn train(&self, rate: f64) -> f64 {
        (rate * TRAIN).clamp(self.segment(), TRAIN_PACKETS * self.segment())
    }

    /// The most bytes that may be under way.
    pub(super) fn limit(&self) -> f64 {
        let (pipe, base) = (self.pipe(), self.delay.base());
        if let Some(competition) = self.competition.as_deref() {
            return competition.window(self.capacity(), base + self.delay.queue);
        }
        // What is under way besides: trains, data whose acknowledgements wait, and acknowledgements queued on the way back.
        let beside = self.train(self.pace())
            + 2.0 * self.segment()
            + self.rate.get() * (TRAIN + self.delay.reverse(self.srtt).min(0.3));
        let window = match self.phase {
            Phase::Startup(startup) => startup.window,
            Phase::ProbeRtt { .. } => 0.5 * pipe,
            Phase::Drain => 2.0 * pipe + beside,
            Phase::Up { gain, .. } => (gain + 0.25).clamp(1.5, 2.25) * pipe + beside,
            Phase::Alarm(alarm) => 0.6 * alarm.in_flight,
            Phase::Cruise { .. } | Phase::Down => (1.5 - self.over(0.1).clamp(0.0, 0.4)) * pipe + beside,
        };
        let window = if self.within(1, self.warned) { 0.85 * window } else { window };
        self.yielding.as_ref().map_or(window, |yielding| window.min(yielding.window()))
    }

    /// Whether `round` was one of the last `rounds`.
    fn within(&self, rounds: u64, round: Option<u64>) -> bool {
        round.is_some_and(|round| self.rounds.count() <= round + rounds)
    }

    /// The pace of start-up: doubling, but at once at the rate that the first trains have shown, and not much above the rate of
    /// the link.
    fn startup_pace(&self) -> f64 {
        let (rate, link) = (self.rate.get(), self.train.max(self.capacity.unwrap_or(0.0)));
        let doubling = STARTUP_GAIN * rate;
        if self.train <= 0.0 || rate > REFUTED * link {
            return doubling;
        }
        doubling.min(STARTUP_EXCESS * link).max(self.train)
    }

    /// Bytes per second.
    pub(super) fn pace(&self) -> f64 {
        let rate = self.rate.get();
        let initial = float(initial_window(self.mtu)) / self.srtt.max(0.001);
        if rate <= 0.0 {
            return STARTUP_GAIN * float(initial_window(self.mtu)) / self.delay.base().clamp(0.001, 0.1);
        }
        if let Some(competition) = self.competition.as_deref() {
            return 1.25 * competition.bytes() / self.srtt.max(0.001);
        }
        let gain = match self.phase {
            Phase::Startup(_) => return self.startup_pace().max(initial),
            Phase::Drain => 0.4,
            Phase::Up { gain, .. } => gain,
            Phase::Down => 0.75,
            Phase::Alarm(_) => 0.5,
            Phase::ProbeRtt { .. } => 1.0,
            Phase::Cruise { .. } => {
                let queue = (0.5 * self.over(0.08).max(0.0)).min(0.2);
                (1.0 - queue) * (1.0 - self.baseline.excess())
            }
        };
        let most = self.yielding.as_ref().map(|it| 1.25 * it.window() / self.srtt.max(0.001));
        most.unwrap_or(f64::INFINITY).min(gain * rate)
    }
}
