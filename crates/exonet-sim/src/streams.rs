//! Messages in streams, which are sent and taken in order. The application learns of gaps.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use exonet_proto::node::{
    Gap, InStream, IncomingBody, MessageKey, Outgoing, SendError, StreamEnd, Verdict, Word,
};
use exonet_proto::{NodeId, Now};

use crate::host::Host;
use crate::ledger::Ledger;
use crate::{NodeIndex, World, body};

/// The streams that an application reads.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// The streams of which the node has said that a message can be taken.
    ready: BTreeSet<(NodeId, Bytes)>,
    /// The names of streams that the application does not read.
    unread: BTreeSet<Bytes>,
}

impl Streams {
    pub(crate) fn ready(&mut self, peer: NodeId, name: Bytes) {
        self.ready.insert((peer, name));
    }

    /// Ends the process.
    pub(crate) fn clear(&mut self) {
        self.ready.clear();
    }
}

/// What the ledger knows of streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orders {
    /// The stream of each message in a stream: its sender, its receiver, its name.
    of: BTreeMap<u64, (NodeId, NodeId, Bytes)>,
    /// The messages of each stream, in the order in which they were sent.
    sent: BTreeMap<(NodeId, NodeId, Bytes), BTreeSet<u64>>,
    /// The last message of each stream that was taken or rejected.
    last: BTreeMap<(NodeId, NodeId, Bytes), u64>,
    /// How many times an application was told that messages are missing.
    pub(crate) missed: u64,
}

/// How a message that was taken violates the order of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disorder {
    /// A message that was sent later was taken before it.
    Late,
    /// This message comes before it, and was not taken.
    Skipped(u64),
}

impl Orders {
    pub(crate) fn sent(&mut self, message: u64, stream: (NodeId, NodeId, Bytes)) {
        self.sent.entry(stream.clone()).or_default().insert(message);
        self.of.insert(message, stream);
    }

    /// Notes that a message was taken or rejected. A `rejected` message may come once more, since its verdict may be
    /// lost with a record that is closed. `explains` says whether an earlier message may be skipped without a report.
    pub(crate) fn had(
        &mut self,
        message: u64,
        gap: Gap,
        rejected: impl Fn(u64) -> bool,
        explains: impl Fn(u64) -> bool,
    ) -> Option<Disorder> {
        self.missed += u64::from(matches!(gap, Gap::Missing(_)));
        let stream = self.of.get(&message)?;
        let last = self.last.insert(stream.clone(), message);
        if last.is_some_and(|last| last > message || (last == message && !rejected(message))) {
            return Some(Disorder::Late);
        }
        let from = last.map_or(0, |last| last + 1);
        let between = self.sent.get(stream)?.range(from.min(message)..message);
        let skipped = between.copied().find(|skipped| !explains(*skipped));
        skipped.filter(|_| gap == Gap::None).map(Disorder::Skipped)
    }
}

impl World {
    /// Sends a message of a stream, with a body of at least eight bytes. All messages of a stream name have the same
    /// priority.
    ///
    /// # Errors
    /// The errors of the core's `send_in_stream`.
    pub fn say(
        &mut self,
        from: NodeIndex,
        to: NodeIndex,
        name: &str,
        size: usize,
        end: StreamEnd,
    ) -> Result<(u64, MessageKey), SendError> {
        self.say_until(from, to, name, size, end, None)
    }

    /// Like [`World::say`], for a message that expires `deadline` from now.
    ///
    /// # Errors
    /// The errors of [`World::say`].
    pub fn say_until(
        &mut self,
        from: NodeIndex,
        to: NodeIndex,
        name: &str,
        size: usize,
        end: StreamEnd,
        deadline: Option<Duration>,
    ) -> Result<(u64, MessageKey), SendError> {
        let body = body::part(self.next_message, 0, size.max(8));
        let deadline = deadline.map(|after| self.clock(from).mono + after);
        let tag = Bytes::copy_from_slice(name.as_bytes());
        let message = Outgoing { tag, body, deadline, ..Outgoing::default() };
        let sent = self.submit(from, to, false, |node, now, id, address| {
            node.send_in_stream(now, id, &[address], message, end, false)
        })?;
        if let Some((from, to)) = self.id(from).zip(self.id(to)) {
            self.ledger.in_stream(sent.0, (from, to, Bytes::copy_from_slice(name.as_bytes())));
        }
        if deadline.is_some() {
            self.ledger.unwanted(sent.0);
        }
        Ok(sent)
    }

    /// Sets whether the application of `node` leaves streams of this name unread.
    pub fn set_unread(&mut self, node: NodeIndex, name: &str, unread: bool) {
        let name = Bytes::copy_from_slice(name.as_bytes());
        if let Some(host) = self.hosts.get_mut(&node.0) {
            if unread {
                host.streams.unread.insert(name);
            } else {
                host.streams.unread.remove(&name);
            }
        }
        self.pump(node);
    }
}

impl Host {
    /// Takes all messages that it can from the streams that the application reads.
    pub(crate) fn read_streams(&mut self, now: Now, ledger: &mut Ledger) {
        let unread = &self.streams.unread;
        let ready: Vec<_> =
            self.streams.ready.iter().filter(|(_, name)| !unread.contains(name)).cloned().collect();
        for (peer, name) in ready {
            while self.life.is_hungry() {
                let guarded = self.dice.chance(0.3);
                let next = if guarded {
                    self.node.take_stream(now, &peer, &name)
                } else {
                    self.node.recv_stream(now, &peer, &name)
                };
                let Some(said) = next else {
                    self.streams.ready.remove(&(peer, name));
                    break;
                };
                self.life.bite();
                if self.has(now, &said, guarded, ledger) {
                    let number = number_of(&said);
                    self.give_in_stream(said.message.id, number, said.gap, ledger);
                    self.take_given(now, ledger);
                }
            }
        }
    }

    /// Whether the application keeps a message that it gets.
    fn has(&mut self, now: Now, said: &InStream, guarded: bool, ledger: &mut Ledger) -> bool {
        let key = said.message.key;
        match self.dice.below(6) {
            _ if !guarded => true,
            0 => {
                self.node.release(now, key);
                false
            }
            1 => {
                let judged = self.node.judge(now, key, Verdict::new(Word::Rejected, 4, "it would not do"));
                if judged && !self.foes.contains(&said.message.id.sender) {
                    ledger.rejected(number_of(said));
                    self.note_rejected(said.message.id, number_of(said), said.gap);
                }
                false
            }
            _ => self.node.done(now, key),
        }
    }
}

fn number_of(said: &InStream) -> Option<u64> {
    let IncomingBody::Whole(content) = &said.message.body else { return None };
    body::number_of(&said.message.tag, content)
}
