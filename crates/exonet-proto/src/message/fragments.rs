//! The parts of a fragmented message that have to be sent.

use core::ops::Range;
use core::time::Duration;

use crate::Mono;
use crate::half::IntervalSet;

/// A receiver that holds nothing of a message with a window of its own gets this many bytes of it, and no more before it holds
/// something. A receiver that takes them sends HAVE unasked (PROTOCOL.md "The probe").
pub(super) const TRIAL: u64 = 32 << 10;
const _: () = assert!(TRIAL >= super::assembly::NEWS, "a receiver that takes a trial tells so");

/// The sender's view of a message that was cut once, so that its first part could fill a packet, and of which nothing has been
/// lost. It takes no memory of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Halves {
    /// Where the second part begins.
    at: u32,
    /// The second part has been sent too.
    pub(crate) sent: bool,
    acked: [bool; 2],
}

impl Halves {
    /// The first part, of `at` bytes, is about to leave. None: there is no such part.
    pub(crate) fn new(at: u64) -> Option<Self> {
        let at = u32::try_from(at).ok().filter(|at| *at > 0)?;
        Some(Self { at, sent: false, acked: [false; 2] })
    }

    /// Where the second part begins.
    pub(crate) const fn at(&self) -> u64 {
        self.at as u64
    }

    /// `range` was acknowledged. False: it is neither of the two parts.
    pub(crate) fn acked(&mut self, range: &Range<u64>) -> bool {
        let [first, second] = &mut self.acked;
        *first |= range.start == 0 && range.end == u64::from(self.at);
        *second |= range.start == u64::from(self.at);
        range.start == u64::from(self.at) || range.start == 0 && range.end == u64::from(self.at)
    }

    /// Whether every byte has been acknowledged.
    pub(crate) fn is_acked(&self) -> bool {
        self.acked == [true; 2]
    }

    /// The same state for a message of `total` bytes as [`Fragments`], for any other event.
    pub(crate) fn into_fragments(self, total: u64) -> Fragments {
        let (mut fragments, at) = (Fragments::new(total, total), self.at());
        let [first, second] = self.acked;
        fragments.sent(0..if self.sent { total } else { at });
        fragments.acked(0..if first { at } else { 0 });
        fragments.acked(if second { at } else { total }..total);
        fragments
    }
}

/// The sender's view of one fragmented message. It is only a hint, for only a STATE settles the message.
#[derive(Debug)]
pub(crate) struct Fragments {
    total: u64,
    /// Nothing from here on was ever sent.
    next: u64,
    /// Offsets at or above are not to be sent yet.
    limit: u64,
    /// Ranges that were sent before and have to be sent again.
    lost: IntervalSet,
    acked: IntervalSet,
    /// The receiver holds everything below this, unless it gives the message back.
    held: u64,
    /// Since when the receiver seems to hold less than it did.
    doubted: Option<Mono>,
    /// Offsets at or above are held back: the receiver has found no room for what it was sent. Beyond every offset if it has.
    trial: u64,
}

impl Fragments {
    pub(crate) fn new(total: u64, limit: u64) -> Self {
        Self {
            total,
            next: 0,
            limit: limit.min(total),
            lost: IntervalSet::new(),
            acked: IntervalSet::new(),
            held: 0,
            doubted: None,
            trial: u64::MAX,
        }
    }

    /// The end of the message has become known: it lies at `total`.
    pub(crate) fn end_at(&mut self, total: u64) {
        // A receiver may have claimed to hold more.
        (self.total, self.limit) = (total, self.limit.min(total));
        (self.next, self.held) = (self.next.min(total), self.held.min(total));
    }

    /// The next range to send, of at most `max` bytes and below `available`: lost ones first.
    pub(crate) fn next(&self, max: u64, available: u64) -> Option<Range<u64>> {
        if let Some(lost) = self.first_lost() {
            return Some(lost.start..lost.end.min(lost.start.saturating_add(max)));
        }
        let end = self.limit.min(available).min(self.trial).min(self.next.saturating_add(max));
        (self.next < end).then_some(self.next..end)
    }

    /// Whether something lost waits to be sent again, and is not held back.
    pub(crate) fn has_lost(&self) -> bool {
        self.first_lost().is_some()
    }

    fn first_lost(&self) -> Option<Range<u64>> {
        let lost = self.lost.iter().next().filter(|lost| lost.start < self.trial)?;
        Some(lost.start..lost.end.min(self.trial))
    }

    pub(crate) fn sent(&mut self, range: Range<u64>) {
        self.next = self.next.max(range.end);
        self.lost.remove_range(range);
    }

    pub(crate) fn acked(&mut self, range: Range<u64>) {
        self.lost.remove_range(range.clone());
        self.acked.insert(range);
    }

    /// The bytes of `range` that were sent are lost, unless they were acknowledged. True if something has to be sent again.
    pub(crate) fn lost(&mut self, range: Range<u64>) -> bool {
        let start = range.start.max(self.held);
        for gap in self.acked.gaps(start..range.end.min(self.next).max(start)) {
            self.lost.insert(gap);
        }
        self.has_lost()
    }

    /// Whether everything has been sent at least once.
    pub(crate) fn is_sent(&self) -> bool {
        self.next == self.total && self.lost.is_empty()
    }

    /// Whether every byte has been acknowledged: only a STATE is missing.
    pub(crate) fn is_acked(&self) -> bool {
        self.acked.covers(self.held..self.total)
    }

    /// Whether everything that may be sent has been acknowledged, and no more can be sent: the window is closed, the rest is
    /// held back, or what is available ends at `available`. The receiver then has to report its state.
    pub(crate) fn is_stalled(&self, available: u64) -> bool {
        let end = self.limit.min(available).min(self.trial);
        let closed = !self.has_lost() && end <= self.next && end < self.total;
        closed && self.acked.covers(self.held..self.next.min(self.trial))
    }

    /// The receiver reports that it holds `prefix`. `Some(true)`: it has given back what it held, since it has reported this for
    /// `wait`. `Some(false)`: the report may be an old one that was overtaken, and the receiver has to be asked again.
    pub(crate) fn given_back(&mut self, now: Mono, prefix: u64, wait: Duration) -> Option<bool> {
        if prefix >= self.held {
            self.doubted = None;
            return None;
        }
        Some(*self.doubted.get_or_insert(now) + wait <= now)
    }

    /// The receiver reports that it holds `prefix` for good and takes offsets below `limit`. True if either moved.
    pub(crate) fn window(&mut self, prefix: u64, limit: u64) -> bool {
        let before = (self.held, self.limit);
        self.held = self.held.max(prefix.min(self.total));
        self.limit = self.limit.max(limit.min(self.total));
        self.next = self.next.max(self.held);
        self.acked.insert(0..self.held);
        self.lost.remove_below(self.held);
        if self.held > 0 {
            self.trial = u64::MAX;
        }
        before != (self.held, self.limit)
    }

    /// The answer to a probe: of all acknowledged bytes, the receiver has only `prefix` and `ranges`. Overrides the
    /// acknowledgements. True if something has to be sent again. `trial`: how much, if it has nothing.
    pub(crate) fn have_only(
        &mut self,
        prefix: u64,
        ranges: impl Iterator<Item = Range<u64>>,
        trial: u64,
    ) -> bool {
        self.acked.clear();
        self.acked.insert(0..prefix.max(self.held).min(self.total));
        for range in ranges {
            self.acked.insert(range.start.min(self.total)..range.end.min(self.total));
        }
        self.trial = if self.acked.is_empty() { trial } else { u64::MAX };
        for gap in self.acked.gaps(0..self.next) {
            self.lost.insert(gap);
        }
        self.has_lost()
    }

    /// The receiver holds everything below this for good: the source need not keep it.
    pub(crate) const fn held(&self) -> u64 {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_ranges_go_first_and_acked_ones_never_again() {
        let mut f = Fragments::new(100, 100);
        assert_eq!(f.next(40, 100), Some(0..40));
        f.sent(0..40);
        f.sent(40..80);
        f.acked(10..20);
        assert!(f.lost(0..40));
        assert_eq!(f.next(100, 100), Some(0..10));
        f.sent(0..10);
        assert_eq!(f.next(100, 100), Some(20..40));
        f.sent(20..40);
        assert_eq!(f.next(100, 100), Some(80..100));
    }

    #[test]
    fn the_window_and_the_source_bound_what_is_sent() {
        let mut f = Fragments::new(1_000, 100);
        assert_eq!(f.next(500, 1_000), Some(0..100));
        assert_eq!(f.next(500, 30), Some(0..30));
        f.sent(0..100);
        assert_eq!(f.next(500, 1_000), None);
        assert!(f.window(50, 300));
        assert!(!f.window(40, 200), "an older word changes nothing");
        assert_eq!(f.next(500, 1_000), Some(100..300));
    }

    #[test]
    fn a_probe_answer_overrides_acknowledgements() {
        let mut f = Fragments::new(100, 100);
        f.sent(0..100);
        f.acked(0..100);
        assert!(f.is_acked() && f.is_sent());
        assert!(f.have_only(30, std::iter::once(60..70), TRIAL));
        assert!(!f.is_acked() && !f.is_sent());
        assert_eq!(f.next(100, 100), Some(30..60));
    }

    #[test]
    fn a_receiver_without_room_gets_a_trial_until_it_holds_something() {
        let mut f = Fragments::new(1_000, 500);
        f.sent(0..400);
        f.acked(0..400);
        assert!(f.have_only(0, std::iter::empty(), 50));
        assert_eq!(f.next(100, 1_000), Some(0..50));
        f.sent(0..50);
        assert!(!f.is_stalled(u64::MAX));
        assert_eq!((f.next(100, 1_000), f.lost(300..400)), (None, false), "the rest is held back");
        assert!(f.lost(20..30), "but what was lost of the trial goes again");
        f.sent(20..30);
        f.acked(0..50);
        assert!(f.is_stalled(u64::MAX) && !f.is_acked());
        assert!(f.have_only(0, std::iter::empty(), 50));
        assert_eq!(f.next(100, 1_000), Some(0..50), "once more");
        f.sent(0..50);
        f.acked(0..50);
        assert!(f.window(50, 500));
        assert!(f.has_lost());
        assert_eq!(f.next(1_000, 1_000), Some(50..400));
        f.sent(50..400);
        assert_eq!(f.next(1_000, 1_000), Some(400..500));
    }

    #[test]
    fn a_part_beyond_a_gap_ends_a_trial_too() {
        let mut f = Fragments::new(1_000, 1_000);
        f.sent(0..400);
        f.acked(0..400);
        assert!(f.have_only(0, std::iter::empty(), 50));
        f.sent(0..50);
        f.acked(10..50);
        assert!(f.have_only(0, std::iter::once(10..50), 50));
        assert_eq!(f.next(1_000, 1_000), Some(0..10));
        f.sent(0..10);
        assert_eq!(f.next(1_000, 1_000), Some(50..400));
    }

    #[test]
    fn a_closed_window_is_a_stall_only_when_all_was_acknowledged() {
        let mut f = Fragments::new(100, 50);
        f.sent(0..50);
        f.acked(0..40);
        assert!(!f.is_stalled(u64::MAX));
        f.acked(40..50);
        assert!(f.is_stalled(u64::MAX));
        f.window(10, 60);
        assert!(!f.is_stalled(u64::MAX));
    }

    #[test]
    fn what_was_given_back_is_believed_when_it_is_said_for_long_enough() {
        let wait = Duration::from_millis(10);
        let mut f = Fragments::new(100, 100);
        f.sent(0..80);
        f.window(50, 100);
        assert_eq!(f.given_back(Mono(0), 50, wait), None);
        assert_eq!(f.given_back(Mono(0), 10, wait), Some(false));
        assert_eq!(f.given_back(Mono(9_999_999), 10, wait), Some(false));
        assert_eq!(f.given_back(Mono(9_999_999), 60, wait), None, "an old word was overtaken");
        assert_eq!(f.given_back(Mono(10_000_000), 10, wait), Some(false));
        assert_eq!(f.given_back(Mono(20_000_000), 10, wait), Some(true));
    }

    #[test]
    fn what_the_receiver_holds_for_good_is_never_lost() {
        let mut f = Fragments::new(100, 100);
        f.sent(0..100);
        f.window(80, 100);
        assert!(!f.lost(0..80));
        assert!(f.lost(0..100));
        assert_eq!(f.next(100, 100), Some(80..100));
    }
}
