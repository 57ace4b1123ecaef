//! Messages at a steady pace on many lanes, each of which keeps its order.

use std::sync::Arc;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use super::ledger::{Ledger, Seen};
use super::stamp::HEAD;
use super::{App, Meter, Stamp, Tally};

/// Bytes of the time, behind the head.
const TIME: usize = 8;

/// By a clock that all processes of the machine share.
pub(crate) fn machine_time() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from)
}

/// Makes messages at their due times, on each lane in turn.
///
/// A message carries the time at which it was due. The delay of a message that waits for a blocked sender is therefore counted.
pub(crate) struct Pacer {
    meter: Arc<Meter>,
    lanes: u32,
    pause: Duration,
    bytes: usize,
    due: Duration,
    lane: u32,
}

impl Pacer {
    /// The first message is due now.
    pub(crate) fn new(meter: &Arc<Meter>, (lanes, per_second): (u32, u32), bytes: usize) -> Self {
        let pause = Duration::from_secs(1) / per_second.max(1);
        Self { meter: Arc::clone(meter), lanes: lanes.max(1), pause, bytes, due: machine_time(), lane: 0 }
    }

    /// The time at which the last message was due.
    pub(crate) fn last_due(&self) -> Duration {
        self.due.saturating_sub(self.pause)
    }

    fn wait(&self) -> Duration {
        self.due.saturating_sub(machine_time())
    }

    /// The message that is due, and its lane; None after the end of the run.
    fn message(&mut self) -> Option<(u32, Vec<u8>)> {
        if self.meter.is_stopped() {
            return None;
        }
        let message = stamped(self.meter.send(), self.lane, self.due, self.bytes);
        let lane = self.lane;
        self.lane = (lane + 1) % self.lanes;
        self.due += self.pause;
        Some((lane, message))
    }

    /// Waits until a message is due. After the end of the run this waits for ever.
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

    /// Blocks the thread until a message is due. Returns None after the end of the run.
    #[cfg(has_sctp)]
    pub(crate) fn next_blocking(&mut self) -> Option<(u32, Vec<u8>)> {
        std::thread::sleep(self.wait());
        self.message()
    }
}

/// A message with its number, its lane and the time at which it is due.
pub(super) fn stamped(number: u64, lane: u32, due: Duration, bytes: usize) -> Vec<u8> {
    let mut message = vec![0x5a; bytes];
    Stamp { number, actor: lane }.write(&mut message);
    let due = u64::try_from(due.as_nanos()).unwrap_or(u64::MAX);
    if let Some(to) = message.get_mut(HEAD..HEAD + TIME) {
        to.copy_from_slice(&due.to_be_bytes());
    }
    message
}

/// Records the delay of each message, and checks the order within each lane.
pub(crate) struct Taker {
    meter: Arc<Meter>,
    ledger: Ledger,
    /// One more than the last number, per lane. None: the order is not checked.
    next: Option<Vec<u64>>,
    /// None: the delay of every message counts.
    tally: Option<Arc<Tally>>,
}

impl Taker {
    pub(super) fn new(meter: Arc<Meter>, lanes: Option<u32>) -> Self {
        let next = lanes.map(|lanes| vec![0; lanes as usize]);
        Self { meter, ledger: Ledger::default(), next, tally: None }
    }

    /// For one of the members that share `tally`: only the delay of the copy that completes a message counts.
    pub(crate) fn of_member(meter: Arc<Meter>, tally: Arc<Tally>) -> Self {
        Self { tally: Some(tally), ..Self::new(meter, None) }
    }

    /// The stamp and the due time of a message. None: the message is damaged, or its lane is out of order.
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
                if self.tally.as_ref().is_none_or(|tally| tally.completes(stamp.number)) {
                    self.meter.latency(machine_time().saturating_sub(due));
                }
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
