//! Messages in one direction, or both, that want no answer.

use std::sync::Arc;

use super::ledger::{Ledger, Seen};
use super::{App, Meter, Stamp};

/// Processes that send to one.
const MOST_SENDERS: usize = 1_024;

/// Sends without pause if it is a source; counts each message that comes once.
pub(super) struct OneWay {
    meter: Arc<Meter>,
    source: bool,
    /// One ledger for each process that sends.
    ledgers: Vec<Ledger>,
}

impl OneWay {
    pub(super) fn new(meter: Arc<Meter>, source: bool) -> Self {
        Self { meter, source, ledgers: Vec::new() }
    }
}

impl OneWay {
    fn note(&mut self, stamp: Stamp) -> Seen {
        let actor = usize::try_from(stamp.actor).unwrap_or(usize::MAX);
        if actor >= MOST_SENDERS {
            return Seen::Absurd;
        }
        if self.ledgers.len() <= actor {
            self.ledgers.resize_with(actor + 1, Ledger::default);
        }
        self.ledgers.get_mut(actor).map_or(Seen::Absurd, |ledger| ledger.note(stamp.number))
    }
}

impl App for OneWay {
    fn next(&mut self, out: &mut [u8]) -> bool {
        let goes_on = self.source && !self.meter.is_stopped();
        if goes_on {
            Stamp { number: self.meter.send(), actor: 0 }.write(out);
        }
        goes_on
    }

    fn take(&mut self, message: &[u8]) {
        match Stamp::read(message).map(|stamp| self.note(stamp)) {
            Some(Seen::First) => self.meter.receive(),
            Some(Seen::Again) => self.meter.duplicate(),
            Some(Seen::Absurd) | None => self.meter.damage(),
        }
    }
}
