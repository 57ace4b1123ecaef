//! The outcomes that applications get.

use exonet_proto::node::{Cancel, CancelError, Conflict, Event, MessageKey, Outcome, ReplyBody};
use exonet_proto::{MessageId, Slot};

use crate::check::Breach;
use crate::host::Waiting;
use crate::{NodeIndex, World, body};

impl World {
    /// Makes the application of `node` withdraw a message.
    pub fn cancel(&mut self, node: NodeIndex, key: MessageKey) -> Option<Result<Cancel, CancelError>> {
        let waiting = self.hosts.get(&node.0).and_then(|host| host.waiting.get(&key));
        let number = waiting.map(|waiting| waiting.number);
        let done = self.instruct(node, |node, now| node.cancel(now, key));
        if done == Some(Ok(Cancel::Asked)) {
            number.into_iter().for_each(|number| self.ledger.unwanted(number));
        }
        done
    }

    /// Makes the application of `node` give a message up: it ends Cancelled if it never left, and Unknown otherwise.
    pub fn abandon(&mut self, node: NodeIndex, key: MessageKey) {
        if let Some(waiting) = self.hosts.get(&node.0).and_then(|host| host.waiting.get(&key)) {
            self.ledger.excuse(waiting.number);
        }
        self.instruct(node, |node, now| node.abandon(now, key));
    }

    /// Handles the events of a node.
    pub(crate) fn heed(&mut self, index: NodeIndex) {
        let Some(host) = self.hosts.get_mut(&index.0) else {
            return;
        };
        let (mut outcomes, mut replies) = (Vec::new(), Vec::new());
        while let Some(event) = host.node.poll_event() {
            match event {
                Event::Outcome { key, count, outcome, id, late, .. } => {
                    host.writing.remove(&key);
                    for n in 0..count {
                        let id = id.map(|id| MessageId { s: Slot(id.s.0 + u64::from(n)), ..id });
                        let waiting = host.waiting.remove(&key.nth(n));
                        outcomes.extend(waiting.map(|waiting| (waiting, outcome, id, late)));
                    }
                }
                Event::Reply { key, status, body, .. } if host.waiting.contains_key(&key) => {
                    let Some(call) = host.waiting.remove(&key) else { continue };
                    match body {
                        ReplyBody::Whole(body) => replies.push((call.number, status, body)),
                        ReplyBody::Stream { delivery, .. } => host.reply_comes(delivery, call, status),
                    }
                }
                Event::Stream { peer, name } => host.streams.ready(peer, name),
                event => {
                    host.stopped |= event == Event::Stopped;
                    if let Event::IdentityConflict { peer, whose } = event {
                        let id = if whose == Conflict::Theirs { peer } else { host.node.id() };
                        self.coverage.copies_told += u64::from(host.is_copy && whose == Conflict::Moved);
                        if self.checks.is_one(&id) && !host.is_copy {
                            self.ledger.report(Breach::FalseConflict(id));
                        }
                    }
                    host.events.push(event);
                }
            }
        }
        if host.stopped {
            host.break_off();
            let node = &host.node;
            self.ledger.last_words(
                std::mem::take(&mut host.waiting)
                    .into_iter()
                    .map(|(key, waiting)| (waiting.number, node.status(key))),
            );
        }
        for (call, status, body) in replies {
            self.trace.tell(self.now, index.0, format_args!("has the reply to m{call}, {status}"));
            self.ledger.replied(call, status, body::number_of(&[], &body));
        }
        for (waiting, outcome, id, late) in outcomes {
            // A call that has left ends at its deadline.
            let ended = late && waiting.call;
            let explained =
                outcome == Outcome::Unknown && (ended || self.explains_unknown(index, waiting, id));
            let number = waiting.number;
            self.trace.tell(self.now, index.0, format_args!("hears that m{number} is {outcome:?}"));
            self.ledger.outcome(waiting.number, outcome, id, explained);
            if waiting.call && outcome == Outcome::Delivered {
                self.ledger.report(Breach::FalseReply(waiting.number));
            }
        }
        self.broken_off(index);
    }

    /// Whether a message that has left may end Unknown: a node has lost its knowledge of it, or its sender has waited
    /// as long as it may.
    fn explains_unknown(&self, sender: NodeIndex, waiting: Waiting, id: Option<MessageId>) -> bool {
        let since = self.ledger.since(waiting.number);
        // Measured by the sender's own clock.
        let impatient = self.hosts.get(&sender.0).zip(since).is_some_and(|(host, since)| {
            let [since, now] = [since, self.now].map(|at| host.life.clock.read(at).mono);
            host.config.doubt_timeout.is_some_and(|patience| since + patience <= now)
        });
        // Whether a conflict is real is checked where it is reported.
        let parted = self.hosts.get(&sender.0).is_some_and(|host| host.node.conflict(&waiting.to).is_some());
        let (taken, used) = (self.ledger.is_taken(waiting.number), self.ledger.used_slot(waiting.number));
        let explained = parted
            || id.is_some_and(|id| self.checks.explains_unknown(&self.hosts, waiting.to, id, [taken, used]));
        explained || (id.is_some() && impatient) || self.explains_no_reply(waiting)
    }
}
