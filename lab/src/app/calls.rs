//! Requests and answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::ledger::{Ledger, Seen};
use super::{App, Meter, Stamp};

/// Actors, each of which asks again as soon as it is answered.
pub(super) struct Caller {
    meter: Arc<Meter>,
    /// Actors that ask next.
    ready: VecDeque<u32>,
    /// The request of each actor that is under way.
    open: Vec<Option<(u64, Instant)>>,
}

impl Caller {
    pub(super) fn new(meter: Arc<Meter>, actors: u32) -> Self {
        Self { meter, ready: (0..actors).collect(), open: (0..actors).map(|_| None).collect() }
    }
}

impl App for Caller {
    fn next(&mut self, out: &mut [u8]) -> bool {
        if self.meter.is_stopped() {
            return false;
        }
        let Some(actor) = self.ready.pop_front() else { return false };
        let number = self.meter.send();
        if let Some(open) = self.open.get_mut(actor as usize) {
            *open = Some((number, Instant::now()));
        }
        Stamp { number, actor }.write(out);
        true
    }

    fn take(&mut self, message: &[u8]) {
        let Some(stamp) = Stamp::read(message) else { return self.meter.damage() };
        let Some(open) = self.open.get_mut(stamp.actor as usize) else { return self.meter.damage() };
        match open.take_if(|(number, _)| *number == stamp.number) {
            Some((_, asked)) => {
                self.meter.latency(asked.elapsed());
                self.meter.receive();
                self.ready.push_back(stamp.actor);
            }
            None => self.meter.duplicate(),
        }
    }
}

/// Answers each request once.
pub(super) struct Answerer {
    meter: Arc<Meter>,
    ledger: Ledger,
    answers: VecDeque<Stamp>,
    /// The number of requests in all. Zero: the number is not known.
    last: u64,
}

impl Answerer {
    pub(super) fn new(meter: Arc<Meter>) -> Self {
        Self { meter, ledger: Ledger::default(), answers: VecDeque::new(), last: 0 }
    }

    /// An answerer for this number of requests.
    pub(super) fn of(meter: Arc<Meter>, requests: u32) -> Self {
        Self { last: u64::from(requests), ..Self::new(meter) }
    }
}

impl App for Answerer {
    fn next(&mut self, out: &mut [u8]) -> bool {
        let Some(stamp) = self.answers.pop_front() else { return false };
        self.meter.send();
        stamp.write(out);
        true
    }

    fn take(&mut self, message: &[u8]) {
        let Some(stamp) = Stamp::read(message) else { return self.meter.damage() };
        match self.ledger.note(stamp.number) {
            Seen::First => {
                self.meter.receive();
                self.answers.push_back(stamp);
                self.last = self.last.saturating_sub(1);
                if self.last == 0 {
                    self.meter.finish();
                }
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
    fn each_actor_has_one_request_under_way() {
        let (asking, answering) = (Arc::new(Meter::new()), Arc::new(Meter::new()));
        let mut caller = Caller::new(Arc::clone(&asking), 2);
        let mut answerer = Answerer::new(Arc::clone(&answering));
        let mut message = [0; 64];
        assert!(caller.next(&mut message));
        answerer.take(&message);
        answerer.take(&message);
        assert!(caller.next(&mut message));
        assert!(!caller.next(&mut message), "both are under way");
        assert!(answerer.next(&mut message));
        assert!(!answerer.next(&mut [0; 64]), "a copy is not answered");
        caller.take(&message);
        caller.take(&message);
        let (asking, answering) = (asking.mark(), answering.mark());
        assert_eq!((asking.received, asking.duplicates), (1, 1));
        assert_eq!((answering.received, answering.duplicates), (1, 1));
        assert!(caller.next(&mut message), "who was answered asks again");
    }
}
