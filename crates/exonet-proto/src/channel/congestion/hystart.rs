//! HyStart++ (RFC 9406): leaves slow start when the round-trip time rises, before the queue overflows.

use core::time::Duration;

use crate::Mono;

const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;

/// What slow start does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Grow by the number of acknowledged bytes, divided by this.
    Grow(u64),
    /// Slow start is over.
    Exit,
}

/// Watches the round-trip times of slow start, round by round.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    /// The round ends with the acknowledgement of a packet sent at this time or later.
    round_start: Option<Mono>,
    last_round_min: Option<Duration>,
    round_min: Option<Duration>,
    samples: u32,
    /// Conservative slow start: the minimum at its beginning, and rounds spent in it.
    css: Option<(Duration, u32)>,
}

impl HyStart {
    pub(super) const fn new() -> Self {
        Self { round_start: None, last_round_min: None, round_min: None, samples: 0, css: None }
    }

    /// An ACK in slow start of a packet sent at `sent_at`, with a sample of round-trip time if it gave one.
    pub(super) fn on_ack(&mut self, now: Mono, sent_at: Mono, rtt: Option<Duration>) -> Verdict {
        if self.round_start.is_none_or(|start| sent_at >= start) && self.next_round(now) {
            return Verdict::Exit;
        }
        if let Some(rtt) = rtt {
            self.samples = self.samples.saturating_add(1);
            self.round_min = Some(self.round_min.map_or(rtt, |min| min.min(rtt)));
        }
        if self.samples >= N_RTT_SAMPLE {
            self.judge();
        }
        Verdict::Grow(if self.css.is_some() { CSS_GROWTH_DIVISOR } else { 1 })
    }

    /// Begins a round; true if conservative slow start has lasted long enough.
    fn next_round(&mut self, now: Mono) -> bool {
        let first = self.round_start.replace(now).is_none();
        self.last_round_min = self.round_min.take();
        self.samples = 0;
        match &mut self.css {
            Some((_, rounds)) if !first => {
                *rounds += 1;
                *rounds >= CSS_ROUNDS
            }
            _ => false,
        }
    }

    fn judge(&mut self) {
        let Some(current) = self.round_min else { return };
        match self.css {
            // RFC 9406, section 4.2: the rise was not due to a queue, so standard slow start continues.
            Some((baseline, _)) if current < baseline => self.css = None,
            Some(_) => {}
            None => {
                let Some(last) = self.last_round_min else { return };
                let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if current >= last + threshold {
                    self.css = Some((current, 0));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
