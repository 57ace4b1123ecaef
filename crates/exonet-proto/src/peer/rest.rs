//! How long a receiver of bulk may leave arriving datagrams in the socket.
//!
//! A receiver that every packet wakes pays for a wake-up, a read of the socket and an acknowledgement each time. A packet of bulk
//! has waited in queues for longer than it would wait for the next packets, so the receiver takes several at once.

use core::time::Duration;

use crate::time::Mono;

/// How many long packets in a row count as bulk. Their distance is measured over this many.
const RUN: u32 = 64;

/// A packet of this length counts as long. Bulk fills its packets; a message that an application waits for seldom does.
pub(crate) const LONG: usize = 1_000;

/// The longest rest: half of the time that a train takes to leave. The sender learns the capacity of the link from the gaps
/// within trains. Without them it loses its share to other senders.
const MOST: Duration = Duration::from_micros(500);

/// The longest rest as a part of the round trip, so that the sender hears of losses hardly later.
const ROUND_SHARE: u32 = 16;

/// The longest rest in packets: far fewer than a socket has room for.
const PACKETS: u32 = 16;

/// The long packets that came in a row.
#[derive(Debug, Default)]
pub(crate) struct Run {
    packets: u32,
    since: Mono,
    /// The shortest round trip to their senders.
    rtt: Duration,
    /// The rest that the last whole run allows.
    rest: Duration,
}

impl Run {
    /// A long packet has come from a peer that only sends, over a path of this round trip.
    pub(crate) fn goes_on(&mut self, now: Mono, rtt: Duration) {
        if self.packets == 0 {
            (self.since, self.rtt) = (now, rtt);
        }
        self.packets += 1;
        self.rtt = self.rtt.min(rtt);
        if self.packets > RUN {
            self.rest = rest(now.since(self.since) / RUN, self.rtt);
            (self.packets, self.since, self.rtt) = (1, now, rtt);
        }
    }

    /// A packet has come that an application may wait for.
    pub(crate) fn ends(&mut self) {
        *self = Self::default();
    }

    /// How long arriving datagrams may wait.
    pub(crate) const fn rest(&self) -> Duration {
        self.rest
    }
}

/// How long to rest where packets come `apart`. Zero where fewer than two would come.
fn rest(apart: Duration, rtt: Duration) -> Duration {
    let rest = MOST.min(rtt / ROUND_SHARE).min(apart * PACKETS);
    if rest < apart * 2 { Duration::ZERO } else { rest }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSECOND: Duration = Duration::from_micros(1);

    /// The rest that long packets `apart` microseconds allow, over a path of `rtt` milliseconds.
    fn allowed(packets: u32, apart: u32, rtt: u64) -> Duration {
        let mut run = Run::default();
        for n in 0..packets {
            run.goes_on(Mono(0) + MICROSECOND * apart * n, Duration::from_millis(rtt));
        }
        run.rest()
    }

    #[test]
    fn bulk_may_wait_for_half_a_train_or_a_sixteenth_of_a_round_trip() {
        assert_eq!(allowed(65, 116, 100), MOST);
        assert_eq!(allowed(65, 116, 4), MOST / 2);
        assert_eq!(allowed(65, 12, 100), 12 * MICROSECOND * PACKETS, "a socket has room for so many");
    }

    #[test]
    fn nothing_waits_where_fewer_than_two_packets_would_come() {
        assert_eq!(allowed(65, 251, 100), Duration::ZERO);
        assert_eq!(allowed(65, 116, 2), Duration::ZERO);
    }

    #[test]
    fn bulk_is_bulk_after_a_while_and_until_something_else_comes() {
        assert_eq!(allowed(64, 116, 100), Duration::ZERO);
        let mut run = Run::default();
        (0..200).for_each(|n| run.goes_on(Mono(0) + 116 * MICROSECOND * n, 100 * MOST));
        assert_eq!(run.rest(), MOST);
        run.ends();
        assert_eq!(run.rest(), Duration::ZERO);
    }

    #[test]
    fn the_nearest_of_the_senders_decides() {
        let mut run = Run::default();
        for n in 0..65 {
            let rtt = if n == 30 { 8 * MOST } else { 100 * MOST };
            run.goes_on(Mono(0) + 100 * MICROSECOND * n, rtt);
        }
        assert_eq!(run.rest(), MOST / 2);
    }
}
