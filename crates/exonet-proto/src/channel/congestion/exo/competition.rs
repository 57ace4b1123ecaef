//! Windows that compete with senders that fill the queue.
//!
//! A sender that reacts to delay alone starves beside such senders. Against loss-based rivals, Exo uses a CUBIC window that
//! reacts only to losses at the top of the queue. Against rivals that ignore loss as well, it uses an additive window that aims
//! at half of the link.

use super::delay::Delay;
use crate::channel::congestion::{AckInfo, CongestionControl, Cubic, LossInfo};

/// A rival that keeps the queue full, but leaves it empty for a moment now and then, is taken for a BBR-like sender for this many
/// seconds.
const DIP_MEMORY: f64 = 25.0;
/// The share of the link below which a CUBIC window has lost: beside a BBR-like rival, and where none was seen.
const LOSING: f64 = 0.40;
const STARVING: f64 = 0.20;
/// How long the additive window is tried if no BBR-like rival was seen, and how long it is not tried again afterwards, in
/// seconds.
const TRIAL: f64 = 12.0;
const NO_TRIAL: f64 = 60.0;
/// Growth of the first ramp per round trip.
const RAMP: f64 = 0.12;

/// A window that competes.
#[derive(Clone, Debug)]
enum Window {
    /// Before the first loss caused by the queue: grows by [`RAMP`].
    Ramp(f64),
    /// A CUBIC window.
    Cubic(Box<Cubic>),
    /// In bytes. This window aims at half of the link.
    Additive(f64),
}

/// State that outlives one period of competition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rivals {
    /// When a BBR-like rival was last seen, and when a trial without one last ended in vain.
    dip: Option<f64>,
    vain: Option<f64>,
}

impl Rivals {
    fn dipped(&self, now: f64, within: f64) -> bool {
        self.dip.is_some_and(|at| now - at < within)
    }
}

/// A period of competition.
#[derive(Clone, Debug)]
pub(super) struct Competition {
    window: Window,
    mtu: u16,
    since: f64,
    /// This node's share of the link, smoothed, and since when it has been too small.
    share: f64,
    lost_since: f64,
    /// Since when the queue has been short; `low_began`: when a short queue began that may end as a dip.
    low_since: f64,
    low_began: Option<f64>,
    /// The additive window is on trial.
    trial: bool,
    /// When the window last shrank.
    reduced: f64,
}

/// What a competitor learns from a round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) now: f64,
    pub(super) srtt: f64,
    /// The bytes delivered per second in the round, and the rate of the narrowest link in bytes per second.
    pub(super) rate: f64,
    pub(super) capacity: f64,
    /// The queue was short, or long.
    pub(super) low: bool,
    pub(super) high: bool,
    /// The share lost beyond what the path loses anyway.
    pub(super) loss: f64,
}

impl Competition {
    /// Begins with `window` bytes under way.
    pub(super) fn begin(now: f64, mtu: u16, window: f64, share: f64, rivals: &Rivals) -> Self {
        let window = window.max(4.0 * f64::from(mtu));
        let window = if rivals.dipped(now, DIP_MEMORY + 5.0) {
            Window::Additive(window)
        } else {
            Window::Ramp(window)
        };
        Self {
            window,
            mtu,
            since: now,
            share: share.min(0.5),
            lost_since: now,
            low_since: now,
            low_began: None,
            trial: false,
            reduced: f64::NEG_INFINITY,
        }
    }

    /// The window in bytes. `reach`: how many seconds of the link's capacity the link and its queue hold now.
    pub(super) fn window(&self, capacity: f64, reach: f64) -> f64 {
        match &self.window {
            Window::Additive(window) => *window,
            _ => self.bytes().min(0.58 * capacity * reach + 2.0 * f64::from(self.mtu)),
        }
    }

    /// The window before bounds are applied, for pacing.
    pub(super) fn bytes(&self) -> f64 {
        match &self.window {
            Window::Ramp(window) | Window::Additive(window) => *window,
            Window::Cubic(cubic) => cubic.window() as f64,
        }
    }

    pub(super) fn on_ack(&mut self, ack: &AckInfo<'_>) {
        let used = ack.in_flight.saturating_add(ack.bytes) as f64 > 0.6 * self.bytes();
        match &mut self.window {
            Window::Ramp(window) if used => *window += RAMP * ack.bytes as f64,
            Window::Cubic(cubic) if used => cubic.on_ack(*ack),
            _ => {}
        }
    }

    /// A loss at the top of the queue, or a mark. At most one per round trip counts.
    pub(super) fn on_congestion(&mut self, now: f64, srtt: f64, loss: LossInfo) {
        if now - self.reduced <= srtt {
            return;
        }
        self.reduced = now;
        if let Window::Ramp(window) = self.window {
            self.window = Window::Cubic(Box::new(Cubic::avoiding(self.mtu, window)));
        }
        if let Window::Cubic(cubic) = &mut self.window {
            cubic.on_loss(loss);
        }
    }

    /// Nothing has been heard for several probe timeouts.
    pub(super) fn on_silence(&mut self, now: crate::Mono) {
        if let Window::Cubic(cubic) = &mut self.window {
            cubic.on_persistent_congestion(now);
        }
    }

    /// A round trip has ended. True: the queue has been empty for so long that no rival is left.
    pub(super) fn on_round(&mut self, round: Round, delay: &Delay, rivals: &mut Rivals) -> bool {
        let Round { now, srtt, capacity, .. } = round;
        let capacity = capacity.max(1.0);
        self.share += (round.rate / capacity - self.share) * (srtt / 0.5).clamp(0.02, 0.25);
        self.note_dips(round, rivals);
        let seen = rivals.dipped(now, DIP_MEMORY);
        if let Window::Additive(_) = self.window {
            if !seen && (!self.trial || now - self.since > TRIAL) {
                rivals.vain = Some(now);
                self.turn(now, Window::Cubic(Box::new(Cubic::avoiding(self.mtu, self.bytes()))));
                return false;
            }
            self.grow(round, delay);
        } else {
            let limit = if seen { LOSING } else { STARVING };
            if self.share > limit || now - self.since < 1.0 || matches!(self.window, Window::Ramp(_)) {
                self.lost_since = now;
            }
            let allowed = seen || rivals.vain.is_none_or(|at| now - at > NO_TRIAL);
            if allowed && now - self.lost_since > (12.0 * srtt).max(1.5) {
                self.trial = !seen;
                self.turn(now, Window::Additive(self.bytes()));
            }
        }
        if !round.low {
            self.low_since = now;
        }
        now - self.low_since > (4.0 * srtt).max(0.45)
    }

    fn turn(&mut self, now: f64, window: Window) {
        (self.window, self.since, self.lost_since) = (window, now, now);
    }

    /// Notes a queue that is short for a moment and then long again: a rival measured the propagation time.
    fn note_dips(&mut self, round: Round, rivals: &mut Rivals) {
        if round.low {
            self.low_began.get_or_insert(round.now);
        } else if round.high
            && let Some(began) = self.low_began.take()
            && round.now - began < (6.0 * round.srtt).max(0.6)
        {
            rivals.dip = Some(round.now);
        }
    }

    /// Updates the additive window: it grows towards half of the link, and shrinks by the share that is lost.
    fn grow(&mut self, round: Round, delay: &Delay) {
        let Window::Additive(window) = &mut self.window else { return };
        *window += 0.08 * (0.5 - self.share).max(0.0) * round.capacity * delay.base();
        *window *= 1.0 - 0.5 * round.loss.clamp(0.0, 0.3);
        if self.share > 0.53 {
            *window *= 0.95;
        }
        let most = 0.55 * round.capacity * (delay.base() + delay.ceiling.max(delay.queue));
        *window = window.min(most).max(4.0 * f64::from(self.mtu));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mono;

    const MTU: u16 = 1_200;
    const LINK: f64 = 1_000_000.0;

    fn delay() -> Delay {
        let mut delay = Delay::default();
        delay.on_sample(0.0, 0.1, 0.1);
        delay.on_sample(0.1, 0.2, 0.1);
        delay
    }

    fn round(now: f64, rate: f64, low: bool) -> Round {
        Round { now, srtt: 0.1, rate, capacity: LINK, low, high: !low, loss: 0.0 }
    }

    fn loss(now: f64) -> LossInfo {
        let now = Mono(0) + core::time::Duration::from_secs_f64(now);
        LossInfo { now, bytes: 1_200, sent_at: now, tag: 0, in_flight: 0 }
    }

    /// Runs rounds from `from` on at this share of the link. Returns the time of the last.
    fn rounds(it: &mut Competition, rivals: &mut Rivals, from: f64, count: u32, part: f64) -> f64 {
        let mut now = from;
        for _ in 0..count {
            now += 0.1;
            assert!(!it.on_round(round(now, LINK * part, false), &delay(), rivals));
        }
        now
    }

    #[test]
    fn one_reduction_per_round_trip() {
        let mut it = Competition::begin(0.0, MTU, 100_000.0, 0.5, &Rivals::default());
        it.on_congestion(1.0, 0.1, loss(1.0));
        assert!((it.bytes() - 70_000.0).abs() < 1.0);
        it.on_congestion(1.05, 0.1, loss(1.05));
        assert!((it.bytes() - 70_000.0).abs() < 1.0);
        it.on_congestion(1.2, 0.1, loss(1.2));
        assert!((it.bytes() - 49_000.0).abs() < 1.0);
    }

    #[test]
    fn a_starving_window_tries_the_other_kind_and_gives_up_on_it() {
        let (mut it, mut rivals) =
            (Competition::begin(0.0, MTU, 50_000.0, 0.1, &Rivals::default()), Rivals::default());
        let now = rounds(&mut it, &mut rivals, 0.0, 40, 0.1);
        assert!(matches!(it.window, Window::Ramp(_)), "the ramp is not over");
        it.on_congestion(now, 0.1, loss(now));
        let now = rounds(&mut it, &mut rivals, now, 20, 0.1);
        assert!(matches!(it.window, Window::Additive(_)));
        let before = it.bytes();
        let now = rounds(&mut it, &mut rivals, now, 50, 0.1);
        assert!(it.bytes() > before, "it grows while the share is small");
        let now = rounds(&mut it, &mut rivals, now, 80, 0.1);
        assert!(matches!(it.window, Window::Cubic(_)), "nobody of that kind was seen");
        rounds(&mut it, &mut rivals, now, 200, 0.1);
        assert!(matches!(it.window, Window::Cubic(_)), "not again so soon");
    }

    #[test]
    fn a_dip_of_the_queue_betrays_a_rival() {
        let (mut it, mut rivals) =
            (Competition::begin(0.0, MTU, 50_000.0, 0.4, &Rivals::default()), Rivals::default());
        it.on_congestion(0.5, 0.1, loss(0.5));
        it.on_round(round(1.0, LINK, true), &delay(), &mut rivals);
        it.on_round(round(1.3, LINK, false), &delay(), &mut rivals);
        assert!(rivals.dipped(1.4, DIP_MEMORY));
        let again = Competition::begin(2.0, MTU, 50_000.0, 0.4, &rivals);
        assert!(matches!(again.window, Window::Additive(_)));
    }

    #[test]
    fn an_empty_queue_for_long_ends_it() {
        let (mut it, mut rivals) =
            (Competition::begin(0.0, MTU, 50_000.0, 0.4, &Rivals::default()), Rivals::default());
        assert!(!it.on_round(round(0.3, LINK, true), &delay(), &mut rivals));
        assert!(it.on_round(round(0.5, LINK, true), &delay(), &mut rivals));
    }

    #[test]
    fn the_additive_window_keeps_to_half_of_the_link_and_shrinks_by_loss() {
        let mut rivals = Rivals { dip: Some(0.0), vain: None };
        let mut it = Competition::begin(0.0, MTU, 50_000.0, 0.1, &rivals);
        rounds(&mut it, &mut rivals, 0.0, 200, 0.3);
        assert!(it.bytes() <= 0.55 * LINK * 0.2 + 1.0);
        let before = it.bytes();
        it.on_round(Round { loss: 0.2, ..round(20.1, LINK * 0.5, false) }, &delay(), &mut rivals);
        assert!(it.bytes() < 0.92 * before);
    }
}
