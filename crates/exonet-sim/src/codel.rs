//! CoDel (RFC 8289): a queue that signals congestion when its packets have waited too long for a whole interval. The
//! number of packets in the queue does not matter.

/// How long in ns packets may wait in a standing queue (RFC 8289, section 4.3).
const TARGET: u64 = 5_000_000;
/// How long in ns packets have to wait too long before the first signal: a round trip of most paths (section 4.3).
const INTERVAL: u64 = 100_000_000;
/// CoDel keeps the pace of its signals if the last one was less than this many intervals ago (section 5.6).
const RECENT: u64 = 16;

/// How CoDel signals congestion to a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// It drops a packet.
    Drop,
    /// It sets the mark CE (RFC 3168). If the packet's transport does not support marks, it drops the packet.
    Mark,
}

/// The state of CoDel for one queue, with the names of the pseudo-code of RFC 8289, section 5. Times are in ns since
/// the link began.
///
/// One rule is not implemented: to spare the last packet in a queue, since the packets behind it are not known yet.
/// The rule matters on links on which a full packet takes longer than the target: those below 2.4 Mbit/s.
#[derive(Clone, Debug, Default)]
pub struct Codel {
    /// When to signal if packets still wait too long then. None: they do not.
    first_above_time: Option<u64>,
    dropping: bool,
    drop_next: u64,
    /// The number of signals since this state of dropping began.
    count: u64,
    /// The value with which `count` began.
    last_count: u64,
}

impl Codel {
    /// Handles a packet that is dequeued after it has waited for `sojourn` ns. Returns whether the packet carries the
    /// signal. If the packet is dropped, the next one is dequeued at the same time. For an empty queue this need not
    /// be called: a packet that finds the queue empty does not wait.
    pub fn dequeue(&mut self, now: u64, sojourn: u64) -> bool {
        let ok_to_drop = self.is_standing(now, sojourn);
        if !ok_to_drop {
            self.dropping = false;
            return false;
        }
        if !self.dropping {
            self.begin(now);
            return true;
        }
        let due = now >= self.drop_next;
        if due {
            self.count = self.count.saturating_add(1);
            self.drop_next = control_law(self.drop_next, self.count);
        }
        due
    }

    /// Whether packets have waited longer than the target for an interval: `dodequeue` in the RFC.
    fn is_standing(&mut self, now: u64, sojourn: u64) -> bool {
        if sojourn < TARGET {
            self.first_above_time = None;
            return false;
        }
        now >= *self.first_above_time.get_or_insert(now.saturating_add(INTERVAL))
    }

    /// Enters the state of dropping. If the last such state was recent, it keeps the pace of that one.
    fn begin(&mut self, now: u64) {
        let signals = self.count.saturating_sub(self.last_count);
        let recent = now.saturating_sub(self.drop_next) < RECENT * INTERVAL;
        self.count = if recent { signals.max(1) } else { 1 };
        self.last_count = self.count;
        self.drop_next = control_law(now, self.count);
        self.dropping = true;
    }
}

/// The time of the next signal: after `INTERVAL / sqrt(count)`, so that the rate of one TCP falls linearly.
fn control_law(time: u64, count: u64) -> u64 {
    time.saturating_add((INTERVAL * INTERVAL / count.max(1)).isqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const NONE: [u64; 0] = [];

    /// Dequeues one packet in each ms from `from` to `to`, after it has waited for `sojourn`. Returns the times in ms
    /// at which a packet carries the signal.
    fn signals(codel: &mut Codel, from: u64, to: u64, sojourn: u64) -> Vec<u64> {
        (from..to).filter(|ms| codel.dequeue(ms * MS, sojourn)).collect()
    }

    #[test]
    fn a_wait_below_the_target_is_never_too_long() {
        let mut codel = Codel::default();
        assert_eq!(signals(&mut codel, 0, 10_000, TARGET - 1), NONE);
    }

    #[test]
    fn the_first_signal_is_after_an_interval_and_the_next_follow_the_law() {
        let mut codel = Codel::default();
        // 100, then 100 / sqrt(1), 100 / sqrt(2), 100 / sqrt(3) ... later; each at the next whole ms.
        assert_eq!(signals(&mut codel, 0, 430, TARGET), [100, 200, 271, 329, 379, 424]);
    }

    #[test]
    fn a_packet_that_did_not_wait_begins_the_interval_anew() {
        let mut codel = Codel::default();
        assert_eq!(signals(&mut codel, 0, 99, TARGET), NONE);
        assert!(!codel.dequeue(99 * MS, 0));
        assert_eq!(signals(&mut codel, 100, 210, TARGET), [200]);
    }

    #[test]
    fn a_short_wait_ends_the_signals_at_once() {
        let mut codel = Codel::default();
        assert_eq!(signals(&mut codel, 0, 201, TARGET), [100, 200]);
        assert_eq!(signals(&mut codel, 201, 300, TARGET - 1), NONE);
        assert_eq!(signals(&mut codel, 300, 400, TARGET), NONE, "a whole interval again");
    }

    #[test]
    fn the_pace_is_remembered_for_sixteen_intervals() {
        let again = |pause: u64| {
            let mut codel = Codel::default();
            // After the first signal there are five more: the law continues from its fifth step.
            assert_eq!(signals(&mut codel, 0, 430, TARGET).len(), 6);
            assert!(!codel.dequeue(430 * MS, 0));
            let from = 430 + pause;
            signals(&mut codel, from, from + 201, TARGET).into_iter().map(|ms| ms - from).collect::<Vec<_>>()
        };
        assert_eq!(again(10), [100, 145, 186], "100 / sqrt(5), 100 / sqrt(6)");
        assert_eq!(again(2_000), [100, 200], "forgotten");
    }

    #[test]
    fn overdue_signals_come_together() {
        let mut codel = Codel::default();
        assert_eq!(signals(&mut codel, 0, 101, TARGET), [100]);
        // Due at 200, 270.7, 328.4, 378.4; none was dequeued meanwhile.
        let now = 350 * MS;
        assert_eq!([(); 5].map(|()| codel.dequeue(now, TARGET)), [true, true, true, false, false]);
    }
}
