//! Explicit congestion notification (RFC 3168, RFC 9000 section 13.4): the counts, and whether marks work on a path.

use crate::Mono;

/// The codepoint of packets that leave marked: the two ECN bits of the IP header.
pub const ECT0: u8 = 0b10;

/// How many marked packets leave before the peer has reported one (RFC 9000, appendix A.4): twice as many as the peer may report
/// at once.
const TESTED: u32 = 32;

/// How many marked packets may be acknowledged without a report of counts, beyond what lost ACKs alone can explain.
const UNTOLD: u64 = 512;

/// If this many marked packets are lost and none is reported, the path drops marked packets. Random loss takes fewer.
const DROPPED: u32 = 3;

/// After this many consecutive losses of marked packets, with no later one acknowledged, the path is tested again.
const RUN: u32 = 10;

/// How many packets arrived with each ECN codepoint since the epoch began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// Packets marked ECT(0).
    pub ect0: u64,
    /// Packets marked ECT(1).
    pub ect1: u64,
    /// Packets marked CE: congestion was experienced.
    pub ce: u64,
}

impl EcnCounts {
    /// Counts a packet by the two ECN bits of its IP header; `bits` above the low two are ignored.
    pub fn count(&mut self, bits: u8) {
        let counter = match bits & 0b11 {
            0b01 => &mut self.ect1,
            ECT0 => &mut self.ect0,
            0b11 => &mut self.ce,
            _ => return,
        };
        *counter = counter.saturating_add(1);
    }

    /// Whether any marked packet has been counted. If not, the counts need not be reported.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }

    /// The growth since `before`. None: some count has shrunk.
    pub(super) fn since(&self, before: &Self) -> Option<Self> {
        Some(Self {
            ect0: self.ect0.checked_sub(before.ect0)?,
            ect1: self.ect1.checked_sub(before.ect1)?,
            ce: self.ce.checked_sub(before.ce)?,
        })
    }
}

/// Whether packets of one path leave marked (RFC 9000, section 13.4.2 and appendix A.4).
#[derive(Clone, Copy, Debug)]
pub(super) struct Marking {
    state: State,
    /// Marked packets lost in a row.
    lost: u32,
    /// When the newest acknowledged marked packet left.
    passed: Option<Mono>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A few packets are marked: how many of them have left, and when the first left.
    Testing { sent: u32, since: Option<Mono> },
    /// The peer has reported marks.
    Capable,
    /// Marks do not arrive, or the peer does not report them, or reports wrong counts. This lasts as long as the path.
    Failed,
}

impl State {
    const TEST: Self = Self::Testing { sent: 0, since: None };
}

impl Default for Marking {
    fn default() -> Self {
        Self { state: State::TEST, lost: 0, passed: None }
    }
}

impl Marking {
    /// Whether packets that leave now are marked.
    pub(super) fn marks(&self) -> bool {
        match self.state {
            State::Testing { sent, .. } => sent < TESTED,
            State::Capable => true,
            State::Failed => false,
        }
    }

    /// A marked packet leaves.
    pub(super) fn on_sent(&mut self, now: Mono) {
        if let State::Testing { sent, since } = &mut self.state {
            *sent = sent.saturating_add(1);
            since.get_or_insert(now);
        }
    }

    /// A marked packet that left at `sent_at` was acknowledged.
    pub(super) fn on_acked(&mut self, sent_at: Mono) {
        if self.passed.is_none_or(|passed| sent_at > passed) {
            self.passed = Some(sent_at);
            self.lost = 0;
        }
    }

    /// A marked packet that left at `sent_at` was lost.
    pub(super) fn on_lost(&mut self, sent_at: Mono) {
        if self.passed.is_some_and(|passed| sent_at <= passed) {
            return;
        }
        match self.state {
            // The packet belongs to an earlier test.
            State::Testing { since, .. } if since.is_none_or(|since| sent_at < since) => return,
            _ => self.lost = self.lost.saturating_add(1),
        }
        match self.state {
            State::Testing { .. } if self.lost >= DROPPED => self.state = State::Failed,
            State::Capable if self.lost >= RUN => (self.state, self.lost) = (State::TEST, 0),
            _ => {}
        }
    }

    /// Since the last report of the peer's counts, `acked` marked packets of this path have been acknowledged, and the counts
    /// have now grown by `grown`. None: the counts are impossible. Returns how many packets were newly marked CE, as far as the
    /// counts can be trusted.
    pub(super) fn on_counts(&mut self, acked: u64, grown: Option<EcnCounts>) -> u64 {
        let sound = grown.filter(|grown| grown.ect1 == 0 && grown.ect0.saturating_add(grown.ce) >= acked);
        match sound.filter(|_| self.state != State::Failed) {
            Some(grown) => {
                if acked > 0 {
                    self.state = State::Capable;
                }
                grown.ce
            }
            None => {
                self.state = State::Failed;
                0
            }
        }
    }

    /// Since the last report of the peer's counts, `acked` marked packets of this path have been acknowledged.
    pub(super) fn on_no_counts(&mut self, acked: u64) {
        if acked >= UNTOLD {
            self.state = State::Failed;
        }
    }
}

#[cfg(test)]
mod tests;
