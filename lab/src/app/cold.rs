//! So many messages, or calls, handed over at once to a peer that was never met, and no more.

use std::sync::Arc;

use super::ledger::{Ledger, Seen};
use super::{App, Meter, Stamp};

/// Hands all of them over; done when the other end says that it has them, or has answered each.
pub(super) struct Source {
    meter: Arc<Meter>,
    left: u32,
    /// Messages from the other end that are awaited: one for all, or one for each.
    awaited: u64,
    heard: Ledger,
}

impl Source {
    pub(super) fn new(meter: Arc<Meter>, messages: u32, calls: bool) -> Self {
        let awaited = if calls { u64::from(messages) } else { 1 };
        Self { meter, left: messages, awaited, heard: Ledger::default() }
    }
}

impl App for Source {
    fn next(&mut self, out: &mut [u8]) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.meter.hand_over();
        self.left = left;
        Stamp { number: self.meter.send(), actor: 0 }.write(out);
        true
    }

    fn take(&mut self, message: &[u8]) {
        match Stamp::read(message).map(|stamp| self.heard.note(stamp.number)) {
            Some(Seen::First) => {
                self.meter.receive();
                self.awaited = self.awaited.saturating_sub(1);
                if self.awaited == 0 {
                    self.meter.finish();
                }
            }
            Some(Seen::Again) => self.meter.duplicate(),
            Some(Seen::Absurd) | None => self.meter.damage(),
        }
    }
}

/// Takes them, and says so once it has all.
pub(super) struct Sink {
    meter: Arc<Meter>,
    left: u32,
    ledger: Ledger,
    /// The receipt that it sends.
    receipt: Option<Stamp>,
}

impl Sink {
    pub(super) fn new(meter: Arc<Meter>, messages: u32) -> Self {
        Self { meter, left: messages, ledger: Ledger::default(), receipt: None }
    }
}

impl App for Sink {
    fn next(&mut self, out: &mut [u8]) -> bool {
        self.receipt.take().is_some_and(|stamp| {
            stamp.write(out);
            true
        })
    }

    fn take(&mut self, message: &[u8]) {
        let Some(stamp) = Stamp::read(message) else { return self.meter.damage() };
        match self.ledger.note(stamp.number) {
            Seen::First => {
                self.meter.receive();
                self.left = self.left.saturating_sub(1);
                if self.left == 0 {
                    self.meter.finish();
                    self.receipt = Some(stamp);
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
    fn the_last_message_is_answered_and_ends_it() {
        let (sending, taking) = (Arc::new(Meter::new()), Arc::new(Meter::new()));
        let mut source = Source::new(Arc::clone(&sending), 3, false);
        let mut sink = Sink::new(Arc::clone(&taking), 3);
        let mut message = [0; 64];
        for n in 0..3 {
            assert!(source.next(&mut message));
            assert!(!sink.next(&mut [0; 64]), "{n}");
            sink.take(&message);
            sink.take(&message);
        }
        assert!(!source.next(&mut message));
        assert!(sink.next(&mut message));
        assert!(taking.mark().finished.is_some() && sending.mark().finished.is_none());
        source.take(&message);
        let (sending, taking) = (sending.mark(), taking.mark());
        assert!(sending.finished > sending.begun && sending.begun.is_some());
        assert_eq!((sending.sent, taking.received, taking.duplicates), (3, 3, 3));
    }

    #[test]
    fn calls_end_with_the_last_answer() {
        let meter = Arc::new(Meter::new());
        let mut source = Source::new(Arc::clone(&meter), 2, true);
        let mut messages = [[0; 64]; 2];
        assert!(messages.iter_mut().all(|message| source.next(message)));
        source.take(&messages[0]);
        source.take(&messages[0]);
        assert!(meter.mark().finished.is_none());
        source.take(&messages[1]);
        assert!(meter.mark().finished.is_some());
    }
}
