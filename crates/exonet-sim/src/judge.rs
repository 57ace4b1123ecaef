//! An application that decides the fate of each message.

use core::time::Duration;

use exonet_proto::node::{DeliveryKey, IncomingBody, Verdict, Word};
use exonet_proto::{MessageId, Now};

use crate::body;
use crate::host::{Host, Read, Reading};
use crate::ledger::Ledger;

/// A message that the application has and has not yet decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guarded {
    key: DeliveryKey,
    id: MessageId,
    number: Option<u64>,
}

impl Host {
    /// Takes messages under guards, and decides them at once or later.
    pub(crate) fn judge_all(&mut self, now: Now, ledger: &mut Ledger) {
        while let Some(incoming) = self.node.accept(now) {
            if let IncomingBody::Whole(content) = &incoming.body {
                let number = body::number_of(&incoming.tag, content);
                self.guarded.push(Guarded { key: incoming.key, id: incoming.id, number });
            } else {
                let reading = Reading::new(Read::Message(incoming.id, incoming.call));
                self.reading.insert(incoming.key, reading);
            }
        }
        for guarded in std::mem::take(&mut self.guarded) {
            self.judge(now, guarded, ledger);
        }
    }

    fn judge(&mut self, now: Now, guarded: Guarded, ledger: &mut Ledger) {
        let Guarded { key, id, number } = guarded;
        let taken = match self.dice.below(12) {
            0 => {
                let wait = Duration::from_micros(self.dice.below(300_000));
                return self.node.release_at(key, now.mono + wait);
            }
            1 => return self.node.release(now, key),
            2 => return self.guarded.push(guarded),
            3 | 4 => {
                let verdict = Verdict::new(Word::Rejected, 4, "it would not do");
                if self.node.judge(now, key, verdict) {
                    ledger.rejected(number);
                }
                return;
            }
            5 => self.node.judge(now, key, Verdict::new(Word::Processed, 9, "")),
            6 => self.node.taken(now, key),
            _ => self.node.done(now, key),
        };
        if taken {
            self.give(id, None, number, ledger);
            self.take_given(now, ledger);
        }
    }
}
