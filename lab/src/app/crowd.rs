//! Many clients in one process, or in a few.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, Interval, interval_at};

use super::{Meter, Stamp};

/// The state that the clients of a process share.
#[derive(Clone)]
pub(crate) struct Crowd {
    meter: Arc<Meter>,
    /// The process, which numbers its messages by itself.
    part: u32,
    bytes: usize,
    clients: u32,
    /// How long a client waits between two messages.
    pause: Duration,
}

/// One of them.
pub(crate) struct Visitor {
    crowd: Crowd,
    n: u32,
    greeted: bool,
    clock: Option<Interval>,
}

/// Clients of a process: each may take a socket and a timer, and systems let a process open no more than 20,000 files.
pub(crate) const CROWD_PART: u32 = 2_500;

/// Clients are this far apart in time when they begin.
pub(crate) const NUMBERS_APART: Duration = Duration::from_micros(500);

impl Crowd {
    pub(crate) fn new(meter: Arc<Meter>, part: u32, bytes: usize, (clients, per_second): (u32, u32)) -> Self {
        Self { meter, part, bytes, clients, pause: Duration::from_secs(1) / per_second.max(1) }
    }

    pub(crate) fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }

    /// The n-th client.
    pub(crate) fn visitor(&self, n: u32) -> Visitor {
        Visitor { crowd: self.clone(), n, greeted: false, clock: None }
    }

    /// How long after the start a client sends: all of them, one after the other, within a pause.
    fn turn(&self, n: u32) -> Duration {
        self.pause * n / self.clients.max(1)
    }

    /// The next message of any of the clients; None when it is over.
    fn message(&self) -> Option<Vec<u8>> {
        if self.meter.is_stopped() {
            return None;
        }
        let mut message = vec![0x5a; self.bytes];
        Stamp { number: self.meter.send(), actor: self.part }.write(&mut message);
        Some(message)
    }
}

impl Visitor {
    /// Its next message, when that is to leave: one at once, by which the server hears of it, the others at their pace
    /// from the start on, never when it is over. What is dropped while it waits has taken nothing.
    pub(crate) async fn message(&mut self) -> Vec<u8> {
        if self.greeted {
            if self.clock.is_none() {
                self.crowd.meter.started().await;
            }
            let first = || interval_at(Instant::now() + self.crowd.turn(self.n), self.crowd.pause);
            self.clock.get_or_insert_with(first).tick().await;
        }
        self.greeted = true;
        match self.crowd.message() {
            Some(message) => message,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[tokio::test]
    async fn a_client_sends_one_message_before_the_start() {
        let meter = Arc::new(Meter::new());
        let mut visitor = Crowd::new(Arc::clone(&meter), 3, 64, (10, 10)).visitor(0);
        let sent = visitor.message().await;
        assert_eq!(Stamp::read(&sent), Some(Stamp { number: 0, actor: 3 }));
        let poll = |visitor: &mut Visitor| {
            pin!(visitor.message()).poll(&mut Context::from_waker(Waker::noop())).map(|_| ())
        };
        assert_eq!(poll(&mut visitor), Poll::Pending, "others still connect");
        assert_eq!(meter.mark().sent, 1);
        meter.start();
        let sent = visitor.message().await;
        assert_eq!(Stamp::read(&sent), Some(Stamp { number: 1, actor: 3 }));
    }

    #[test]
    fn clients_take_turns_within_a_pause() {
        let crowd = Crowd::new(Arc::new(Meter::new()), 0, 64, (2_500, 10));
        let turns: Vec<Duration> = (0..2_500).map(|n| crowd.turn(n)).collect();
        assert!(turns.windows(2).all(|two| two[1] - two[0] == Duration::from_micros(40)));
        assert_eq!((turns[0], turns[1_250]), (Duration::ZERO, Duration::from_millis(50)));
    }
}
