//! CUBIC (RFC 9438) with HyStart++ (RFC 9406).
//!
//! Windows are kept in bytes and fractions of them as `f64`; only additions, multiplications, divisions and square
//! roots are used, which IEEE 754 makes the same on every machine.

use core::time::Duration;

use super::hystart::{HyStart, Verdict};
use super::{AckInfo, CongestionControl, LossInfo, initial_window, minimum_window};
use crate::Mono;

/// The multiplicative decrease.
const BETA: f64 = 0.7;

/// How fast the window grows: segments per second cubed.
const C: f64 = 0.4;

/// RFC 9438, section 4.3: with this increase the Reno-friendly window has Reno's average for the same loss.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// The part of the state that is restored after a spurious reduction.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// Bytes.
    cwnd: f64,
    /// Slow start below this, in bytes.
    ssthresh: f64,
    /// The window before the last reduction, or less by fast convergence, in bytes.
    w_max: f64,
    /// The window before the last reduction, in bytes: `cwnd_prior`.
    prior: f64,
    /// The Reno-friendly window, in bytes.
    w_est: f64,
    /// The present period of growth; `None` until the first ACK of congestion avoidance.
    epoch: Option<Epoch>,
}

/// A period of growth.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Mono,
    /// Seconds until the cubic function reaches `w_max`.
    k: f64,
}

/// The last reduction.
#[derive(Clone, Copy, Debug)]
struct Reduction {
    /// Packets sent until then belong to this reduction: they cause no second reduction, and no growth.
    at: Mono,
    before: Window,
    /// Packets of this reduction that were declared lost, less those that arrived after all; `None`: the reduction stands in any
    /// case.
    lost: Option<u64>,
}

/// CUBIC's state for one path.
#[derive(Clone, Debug)]
pub struct Cubic {
    mtu: u16,
    window: Window,
    reduction: Option<Reduction>,
    hystart: HyStart,
    /// Since when the application has limited sending: such time does not count as growth.
    limited_since: Option<Mono>,
}

impl Cubic {
    /// The state for a path with datagrams of `mtu` bytes.
    pub fn new(mtu: u16) -> Self {
        Self {
            mtu,
            window: Window {
                cwnd: float(initial_window(mtu)),
                ssthresh: f64::INFINITY,
                w_max: 0.0,
                prior: 0.0,
                w_est: 0.0,
                epoch: None,
            },
            reduction: None,
            hystart: HyStart::new(),
            limited_since: None,
        }
    }

    /// The state after slow start, with a window of `window` bytes.
    pub(super) fn avoiding(mtu: u16, window: f64) -> Self {
        let mut cubic = Self::new(mtu);
        (cubic.window.cwnd, cubic.window.ssthresh) = (window, window);
        cubic
    }

    /// Whether the window is below the slow start threshold.
    pub fn in_slow_start(&self) -> bool {
        self.window.cwnd < self.window.ssthresh
    }

    fn segment(&self) -> f64 {
        f64::from(self.mtu)
    }

    fn floor(&self) -> f64 {
        float(minimum_window(self.mtu))
    }

    fn slow_start(&mut self, ack: &AckInfo<'_>) {
        match self.hystart.on_ack(ack.now, ack.sent_at, ack.rtt) {
            Verdict::Grow(divisor) => {
                self.window.cwnd = (self.window.cwnd + float(ack.bytes / divisor)).min(self.window.ssthresh);
            }
            Verdict::Exit => self.window.ssthresh = self.window.cwnd,
        }
    }

    fn avoid(&mut self, ack: &AckInfo<'_>) {
        let segment = self.segment();
        let w = &mut self.window;
        let epoch = *w.epoch.get_or_insert_with(|| {
            w.w_max = w.w_max.max(w.cwnd);
            w.w_est = w.cwnd;
            Epoch { start: ack.now, k: cbrt((w.w_max - w.cwnd) / segment / C) }
        });
        // RFC 9438, section 4.2: the target window one round trip ahead, at most 1.5 times the present window.
        let cubic = |at: Duration| {
            let t = at.as_secs_f64() - epoch.k;
            w.w_max + C * t * t * t * segment
        };
        let t = ack.now.since(epoch.start);
        let now = cubic(t);
        let target = cubic(t + ack.path.smoothed()).clamp(w.cwnd, 1.5 * w.cwnd);
        // Section 4.3: Reno's own increase once the window has passed the one before the reduction.
        let alpha = if w.w_est >= w.prior { 1.0 } else { ALPHA };
        let acked = float(ack.bytes);
        w.w_est += alpha * segment * acked / w.cwnd;
        if now < w.w_est {
            w.cwnd = w.cwnd.max(w.w_est);
        } else {
            w.cwnd += (target - w.cwnd) * (acked / w.cwnd).min(1.0);
        }
    }

    /// Reduces the window once for all packets sent before now. Only a reduction because of losses can be undone.
    fn reduce(&mut self, now: Mono, lost: Option<u64>) {
        let before = self.window;
        let floor = self.floor();
        let w = &mut self.window;
        // Section 4.7, fast convergence: a shrinking flow makes room.
        w.w_max = if w.cwnd < w.w_max { w.cwnd * (1.0 + BETA) / 2.0 } else { w.cwnd };
        w.prior = w.cwnd;
        w.ssthresh = (w.cwnd * BETA).max(floor);
        w.cwnd = w.ssthresh;
        w.epoch = None;
        self.reduction = Some(Reduction { at: now, before, lost });
        self.limited_since = None;
    }

    /// Whether a packet sent at `sent_at` belongs to the last reduction.
    fn in_recovery(&self, sent_at: Mono) -> bool {
        self.reduction.is_some_and(|reduction| sent_at <= reduction.at)
    }

    /// Moves the growth's start by the time in which the application limited sending (section 5.8).
    fn resume(&mut self, now: Mono) {
        if let (Some(since), Some(epoch)) = (self.limited_since.take(), &mut self.window.epoch) {
            epoch.start += now.since(since);
        }
    }
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, ack: AckInfo<'_>) {
        if ack.ce > 0 && !self.in_recovery(ack.sent_at) {
            self.reduce(ack.now, None);
        }
        if self.in_recovery(ack.sent_at) {
            return;
        }
        if self.in_slow_start() {
            // A window that was less than half used does not show that twice the window fits (RFC 9002, section 7.8).
            let used = float(ack.in_flight.saturating_add(ack.bytes));
            if !ack.app_limited || self.window.cwnd < 2.0 * used {
                self.slow_start(&ack);
            }
        } else if ack.app_limited {
            self.limited_since.get_or_insert(ack.now);
        } else {
            self.resume(ack.now);
            self.avoid(&ack);
        }
    }

    fn on_loss(&mut self, loss: LossInfo) {
        if !self.in_recovery(loss.sent_at) {
            self.reduce(loss.now, Some(0));
        }
        if let Some(lost) = self.reduction.as_mut().and_then(|reduction| reduction.lost.as_mut()) {
            *lost = lost.saturating_add(1);
        }
    }

    fn on_spurious_loss(&mut self, loss: LossInfo) {
        let Some(reduction) = self.reduction.as_mut().filter(|reduction| loss.sent_at <= reduction.at) else {
            return;
        };
        let Some(lost) = &mut reduction.lost else { return };
        *lost = lost.saturating_sub(1);
        // Section 4.9: no packet that caused the reduction was lost.
        if *lost == 0 {
            let before = reduction.before;
            self.reduction = None;
            if before.cwnd > self.window.cwnd {
                self.window = before;
            }
        }
    }

    fn on_persistent_congestion(&mut self, now: Mono) {
        // This reduction stands, whatever is acknowledged late.
        self.reduce(now, None);
        self.window.cwnd = self.floor();
        self.hystart = HyStart::new();
    }

    fn on_idle_restart(&mut self, now: Mono, idle: Duration) {
        self.limited_since.get_or_insert(now - idle);
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.window.cwnd = self.window.cwnd.max(self.floor());
    }

    fn window(&self) -> u64 {
        bytes(self.window.cwnd)
    }

    fn pacing_gain(&self) -> u64 {
        if self.in_slow_start() { 200 } else { 125 }
    }
}

/// A number of bytes as a float. It is rounded above 2^53, which no window reaches.
fn float(bytes: u64) -> f64 {
    bytes as f64
}

/// Whole bytes, at least zero.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and is never negative"
)]
fn bytes(window: f64) -> u64 {
    window as u64
}

/// The cube root of `x`, or zero if `x` is negative. The standard library's result differs between platforms.
fn cbrt(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let mut root = x.sqrt().max(1.0);
    // Newton's method from above: the value falls by a third per step while it is far off; then the number of right digits
    // doubles.
    for _ in 0..64 {
        let next = (2.0 * root + x / (root * root)) / 3.0;
        if next >= root {
            break;
        }
        root = next;
    }
    root
}

#[cfg(test)]
mod tests;
