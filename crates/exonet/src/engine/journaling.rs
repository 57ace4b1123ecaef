//! What the engine writes to the journal, and what it finds there.

use exonet_proto::Now;
use exonet_proto::node::{MessageKey, OpenMessage};

use super::{Engine, Phase};
use crate::after::Log;
use crate::journal;
use crate::send::receipts::SlotIndex;

impl Engine {
    /// The node keeps this journal from now on. What a former life has left counts as sent now.
    pub(crate) fn keep_journal(&mut self, now: Now, journal: journal::Log) {
        (self.journal, self.is_journaled) = (Some(journal), true);
        for open in self.core.open_messages() {
            let slot = self.receipts.open(now.mono, open.key);
            self.recovered.push((open, slot));
        }
    }

    /// Messages that a former life has left, each with its receipt, which is the caller's from now on.
    pub(crate) fn take_recovered(&mut self) -> Vec<(OpenMessage, SlotIndex)> {
        core::mem::take(&mut self.recovered)
    }

    /// Whether the node keeps a journal.
    pub(crate) const fn is_journaled(&self) -> bool {
        self.is_journaled
    }

    /// Writes what the core has appended since. What depends on it may leave the node then. False: the journal has failed, the
    /// node has stopped, and nothing may leave.
    pub(crate) fn write_journal(&mut self, now: Now) -> bool {
        let Some(journal) = &mut self.journal else { return !self.is_journaled };
        while !journal.has_failed()
            && let Some(append) = self.core.poll_journal()
        {
            if let Err(error) = journal.append(&append) {
                return self.journal_failed(now, error.to_string());
            }
        }
        if journal.wants_snapshot()
            && let Err(error) = journal.snapshot(self.core.snapshot(now))
        {
            return self.journal_failed(now, error.to_string());
        }
        !journal.has_failed()
    }

    fn journal_failed(&mut self, now: Now, why: String) -> bool {
        self.log(Log::JournalFailed(why));
        if self.phase < Phase::Stopped {
            self.core.handle_persist_failed(now);
            self.pump(now);
        }
        false
    }

    /// Whether the next life of this identity goes on with an open message.
    pub(super) fn keeps(&self, key: MessageKey) -> bool {
        let journal = self.journal.as_ref().filter(|journal| !journal.has_failed());
        journal.is_some() && self.core.letter_id(key).is_some()
    }

    /// Gives the journal up, to be closed without the lock.
    pub(crate) fn leave_journal(&mut self) -> Option<journal::Log> {
        self.journal.take_if(|_| self.phase >= Phase::Stopped)
    }
}
