//! Messages in one direction, or both, that want no answer.

use std::sync::Arc;

use super::ledger::{Ledger, Seen};
use super::{App, Meter, Stamp};

/// Sends without pause if it is a source; counts each message that comes once.
pub(super) struct OneWay {
    meter: Arc<Meter>,
    source: bool,
    ledger: Ledger,
}

impl OneWay {
    pub(super) fn new(meter: Arc<Meter>, source: bool) -> Self {
        Self { meter, source, ledger: Ledger::default() }
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
        match Stamp::read(message).map(|stamp| self.ledger.note(stamp.number)) {
            Some(Seen::First) => self.meter.receive(),
            Some(Seen::Again) => self.meter.duplicate(),
            Some(Seen::Absurd) | None => self.meter.damage(),
        }
    }
}
