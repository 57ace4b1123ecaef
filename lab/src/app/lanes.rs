//! Messages at a steady pace on many lanes, each of which keeps its order.

use std::sync::Arc;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use super::ledger::{Ledger, Seen};
use super::stamp::HEAD;
use super::{App, Meter, Stamp};

/// Bytes of the time, behind the head.
const TIME: usize = 8;

/// By a clock that all processes of the machine share.
pub(crate) fn machine_time() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from)
}

/// Makes messages when they are due, on one lane after the other.
///
/// A message carries the time at which it was due, so that what waits for a sender that is held up counts as late.
pub(crate) struct Pacer {
    meter: Arc<Meter>,
    lanes: u32,
    pause: Duration,
    bytes: usize,
    due: Duration,
    lane: u32,
}

impl Pacer {
    /// Begins now.
    pub(crate) fn new(meter: &Arc<Meter>, (lanes, per_second): (u32, u32), bytes: usize) -> Self {
        let pause = Duration::from_secs(1) / per_second.max(1);
        Self { meter: Arc::clone(meter), lanes: lanes.max(1), pause, bytes, due: machine_time(), lane: 0 }
    }

    /// When the message that came last was due.
    pub(crate) fn last_due(&self) -> Duration {
        self.due.saturating_sub(self.pause)
    }

    fn wait(&self) -> Duration {
        self.due.saturating_sub(machine_time())
    }

    /// The message that is due, and its lane. None: it is over.
    fn message(&mut self) -> Option<(u32, Vec<u8>)> {
        if self.meter.is_stopped() {
            return None;
        }
        let mut message = vec![0x5a; self.bytes];
        Stamp { number: self.meter.send(), actor: self.lane }.write(&mut message);
        let due = u64::try_from(self.due.as_nanos()).unwrap_or(u64::MAX);
        if let Some(to) = message.get_mut(HEAD..HEAD + TIME) {
            to.copy_from_slice(&due.to_be_bytes());
        }
        let lane = self.lane;
        self.lane = (lane + 1) % self.lanes;
        self.due += self.pause;
        Some((lane, message))
    }

    /// Waits until a message is due. Never, when it is over.
    pub(crate) async fn next(&mut self) -> (u32, Vec<u8>) {
        let wait = self.wait();
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        match self.message() {
            Some(message) => message,
            None => std::future::pending().await,
        }
    }

    /// As [`Self::next`], for a thread. None: it is over.
    #[cfg(has_sctp)]
    pub(crate) fn next_blocking(&mut self) -> Option<(u32, Vec<u8>)> {
        std::thread::sleep(self.wait());
        self.message()
    }
}

/// Notes how late each message is, and whether its lane kept the order, where there are lanes.
pub(super) struct Taker {
    meter: Arc<Meter>,
    ledger: Ledger,
    /// Of each lane, one more than the last number. None: there are no lanes.
    next: Option<Vec<u64>>,
}

impl Taker {
    pub(super) fn new(meter: Arc<Meter>, lanes: Option<u32>) -> Self {
        Self { meter, ledger: Ledger::default(), next: lanes.map(|lanes| vec![0; lanes as usize]) }
    }

    /// The time at which a message was due, if it is sound and not before one that its lane has had.
    fn due(&mut self, message: &[u8]) -> Option<(Stamp, Duration)> {
        let stamp = Stamp::read(message)?;
        let time = message.get(HEAD..)?.first_chunk::<TIME>()?;
        if let Some(lanes) = &mut self.next {
            let next = lanes.get_mut(stamp.actor as usize)?;
            if stamp.number + 1 < *next {
                return None;
            }
            *next = stamp.number + 1;
        }
        Some((stamp, Duration::from_nanos(u64::from_be_bytes(*time))))
    }
}

impl App for Taker {
    fn next(&mut self, _: &mut [u8]) -> bool {
        false
    }

    fn take(&mut self, message: &[u8]) {
        let Some((stamp, due)) = self.due(message) else { return self.meter.damage() };
        match self.ledger.note(stamp.number) {
            Seen::First => {
                self.meter.latency(machine_time().saturating_sub(due));
                self.meter.receive();
            }
            Seen::Again => self.meter.duplicate(),
            Seen::Absurd => self.meter.damage(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_take_turns_and_what_breaks_their_order_is_seen() {
        let (sending, taking) = (Arc::new(Meter::new()), Arc::new(Meter::new()));
        let mut pacer = Pacer::new(&sending, (2, 1_000), 64);
        let began = pacer.due;
        let messages: Vec<_> = (0..4).filter_map(|_| pacer.message()).collect();
        assert_eq!(messages.iter().map(|(lane, _)| *lane).collect::<Vec<_>>(), [0, 1, 0, 1]);
        assert_eq!(pacer.due - began, Duration::from_millis(4));
        let mut taker = Taker::new(Arc::clone(&taking), Some(2));
        // Another lane may be ahead.
        [1, 3, 0, 2].iter().for_each(|n: &usize| taker.take(&messages[*n].1));
        taker.take(&messages[2].1);
        let mark = taking.mark();
        assert_eq!((mark.received, mark.duplicates, mark.damaged), (4, 1, 0));
        taker.take(&messages[0].1);
        assert_eq!(taking.mark().damaged, 1, "it came behind one that was sent later");
    }
}
