//! Clients that call for the first time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::ledger::{Ledger, Seen};
use super::{Meter, Stamp};

/// A client begins so long after the one before.
pub(crate) const CLIENTS_APART: Duration = Duration::from_millis(5);

/// The application of all clients.
#[derive(Clone)]
pub(crate) struct Asker {
    pub(crate) meter: Arc<Meter>,
    bytes: usize,
}

impl Asker {
    pub(crate) const fn new(meter: Arc<Meter>, bytes: usize) -> Self {
        Self { meter, bytes }
    }

    /// The next request, and what its answer has to be.
    pub(crate) fn request(&self) -> Vec<u8> {
        let mut message = vec![0x5a; self.bytes];
        Stamp { number: self.meter.send(), actor: 0 }.write(&mut message);
        message
    }

    /// Takes what came back, so long after it was asked for.
    pub(crate) fn answer(&self, request: &[u8], answer: &[u8], after: Duration) {
        if request != answer {
            return self.meter.damage();
        }
        self.meter.latency(after);
        self.meter.receive();
    }
}

/// The application of the server.
#[derive(Clone)]
pub(crate) struct Answers {
    meter: Arc<Meter>,
    ledger: Arc<Mutex<Ledger>>,
    work: Duration,
}

impl Answers {
    pub(crate) fn new(meter: &Arc<Meter>) -> Self {
        Self { meter: Arc::clone(meter), ledger: Arc::default(), work: Duration::ZERO }
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// With so much work on each request.
    pub(crate) const fn working(mut self, ms: u32) -> Self {
        self.work = Duration::from_millis(ms as u64);
        self
    }

    /// As [`Self::note`], and then does the work on it: a timer, which leaves the processor to the transport. The answer
    /// may leave when this is done.
    pub(crate) async fn work(&self, request: &[u8]) {
        self.note(request);
        if !self.work.is_zero() {
            tokio::time::sleep(self.work).await;
        }
    }

    /// Notes that a request runs; the answer is its copy. An empty one belongs to an earlier visit, which is not measured.
    pub(crate) fn note(&self, request: &[u8]) {
        if request.is_empty() {
            return;
        }
        let Some(stamp) = Stamp::read(request) else { return self.meter.damage() };
        match self.ledger.lock().unwrap_or_else(PoisonError::into_inner).note(stamp.number) {
            Seen::First => self.meter.receive(),
            Seen::Again => self.meter.duplicate(),
            Seen::Absurd => self.meter.damage(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[tokio::test]
    async fn a_request_is_noted_before_the_work_on_it_and_answered_behind() {
        let meter = Arc::new(Meter::new());
        let request = Asker::new(Arc::new(Meter::new()), 64).request();
        let poll = |ms| {
            let answers = Answers::new(&meter).working(ms);
            pin!(answers.work(&request)).poll(&mut Context::from_waker(Waker::noop()))
        };
        assert_eq!(poll(60_000), Poll::Pending);
        assert_eq!(meter.mark().received, 1);
        assert_eq!(poll(0), Poll::Ready(()), "there is nothing to do");
    }

    #[test]
    fn a_request_that_runs_twice_is_seen_and_so_is_a_wrong_answer() {
        let (asking, answering) = (Arc::new(Meter::new()), Arc::new(Meter::new()));
        let (asker, answers) = (Asker::new(Arc::clone(&asking), 64), Answers::new(&answering));
        let request = asker.request();
        answers.note(&request);
        answers.note(&request);
        asker.answer(&request, &request, Duration::from_millis(1));
        asker.answer(&request, &asker.request(), Duration::from_millis(1));
        let (asking, answering) = (asking.mark(), answering.mark());
        assert_eq!((asking.received, asking.damaged), (1, 1));
        assert_eq!((answering.received, answering.duplicates), (1, 1));
    }
}
