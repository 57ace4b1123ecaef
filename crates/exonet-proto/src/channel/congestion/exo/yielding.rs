//! Makes room for others in a queue that is kept short by its own signals, as CoDel does (RFC 8289).
//!
//! Such a queue signals one packet per interval, of hundreds: as a share this is close to zero. It signals most often to the
//! sender with the most packets in it, and relies on each sender to make room. So a sender that gets a signal keeps no larger a
//! window than CUBIC would have after the same signals, until CUBIC's window has grown past the window at the signal.

use crate::channel::congestion::{AckInfo, CongestionControl, Cubic, LossInfo};

/// When CUBIC's window is this many times the window at the last signal, no sender is left to make room for.
const PAST: f64 = 1.25;
/// CUBIC's window does not grow while less than this part of it is under way.
const USED: f64 = 0.6;

/// A bound on the window.
#[derive(Clone, Debug)]
pub(super) struct Yielding {
    cubic: Box<Cubic>,
    /// The window at the last signal.
    told_at: f64,
    /// A mark signalled it, which is not due to chance.
    marked: bool,
}

impl Yielding {
    /// Begins with `window` bytes under way.
    pub(super) fn begin(mtu: u16, window: f64) -> Self {
        Self { cubic: Box::new(Cubic::avoiding(mtu, window)), told_at: window, marked: false }
    }

    /// The bound in bytes.
    pub(super) fn window(&self) -> f64 {
        self.cubic.window() as f64
    }

    /// The queue has signalled congestion, by a mark or by a loss. All packets that left before the last signal count as one.
    pub(super) fn on_signal(&mut self, signal: LossInfo, marked: bool) {
        let before = self.window();
        self.cubic.on_loss(signal);
        self.note(before, marked);
    }

    pub(super) fn on_ack(&mut self, ack: &AckInfo<'_>) {
        let before = self.window();
        let unused = ack.in_flight.saturating_add(ack.bytes) as f64 <= USED * before;
        self.cubic.on_ack(AckInfo { app_limited: ack.app_limited || unused, ..*ack });
        self.note(before, ack.ce > 0);
    }

    fn note(&mut self, before: f64, marked: bool) {
        self.marked |= marked;
        if self.window() < before {
            self.told_at = before;
        }
    }

    /// Whether a mark has signalled congestion.
    pub(super) fn is_marked(&self) -> bool {
        self.marked
    }

    /// Whether no sender is left to make room for.
    pub(super) fn is_over(&self) -> bool {
        self.window() > PAST * self.told_at
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::super::bytes;
    use super::*;
    use crate::Mono;
    use crate::channel::Rtt;
    use crate::channel::congestion::tests::ack;

    const MTU: u16 = 1_200;

    fn at(seconds: f64) -> Mono {
        Mono(0) + Duration::from_secs_f64(seconds)
    }

    fn signal(seconds: f64) -> LossInfo {
        LossInfo { now: at(seconds), bytes: 0, sent_at: at(seconds), tag: 0, in_flight: 0 }
    }

    /// Acknowledges for `seconds`, with this part of the window under way. Returns the time afterwards.
    fn acks(it: &mut Yielding, from: f64, seconds: f64, used: f64) -> f64 {
        let mut path = Rtt::default();
        path.on_sample(at(from), Duration::from_millis(100), Duration::ZERO);
        let mut now = from;
        while now < from + seconds {
            now += 0.01;
            let in_flight = bytes(used * it.window());
            it.on_ack(&AckInfo { in_flight, ..ack(at(now), 12_000, &path) });
        }
        now
    }

    #[test]
    fn a_signal_costs_what_it_costs_cubic() {
        let mut it = Yielding::begin(MTU, 120_000.0);
        it.on_signal(signal(1.0), false);
        assert!((it.window() - 0.7 * 120_000.0).abs() < 1.0);
        it.on_signal(signal(1.0), false);
        assert!((it.window() - 0.7 * 120_000.0).abs() < 1.0, "the same loss again");
        let now = acks(&mut it, 1.0, 4.0, 1.0);
        assert!(!it.is_over(), "the same loss counts where it counted first");
        let before = it.window();
        it.on_signal(signal(now), false);
        assert!((it.window() - 0.7 * before).abs() < 1.0);
        acks(&mut it, now, 4.0, 1.0);
        assert!(!it.is_over(), "from the second on");
    }

    #[test]
    fn a_mark_costs_the_same_and_once() {
        let mut it = Yielding::begin(MTU, 120_000.0);
        let mut path = Rtt::default();
        path.on_sample(at(1.0), Duration::from_millis(100), Duration::ZERO);
        let marked = AckInfo { ce: 1, in_flight: 120_000, sent_at: at(0.9), ..ack(at(1.0), 1_200, &path) };
        it.on_ack(&marked);
        it.on_signal(LossInfo { sent_at: at(0.9), ..signal(1.05) }, true);
        assert!((it.window() - 0.7 * 120_000.0).abs() < 1.0 && it.is_marked());
        acks(&mut it, 1.1, 4.0, 1.0);
        assert!(!it.is_over(), "{}", it.window());
    }

    #[test]
    fn it_ends_when_the_window_has_grown_past_where_it_was_told() {
        let mut it = Yielding::begin(MTU, 120_000.0);
        it.on_signal(signal(1.0), false);
        // CUBIC is back after cbrt(30 / 0.4) = 4.2 s.
        let now = acks(&mut it, 1.0, 4.0, 1.0);
        assert!(it.window() < 121_000.0 && !it.is_over(), "{}", it.window());
        acks(&mut it, now, 6.0, 1.0);
        assert!(it.is_over(), "{}", it.window());
    }

    #[test]
    fn who_does_not_use_it_gets_no_more() {
        let mut it = Yielding::begin(MTU, 120_000.0);
        it.on_signal(signal(1.0), false);
        let now = acks(&mut it, 1.0, 10.0, 0.4);
        assert!(it.window() < 85_000.0, "{}", it.window());
        acks(&mut it, now, 1.0, 1.0);
        assert!(it.window() < 115_000.0, "such time is none to grow in: {}", it.window());
    }
}
