//! Messages that are sent together.

use exonet_proto::node::{MessageKey, Outgoing};

use crate::host::Waiting;
use crate::{NodeIndex, World, body};

impl World {
    /// Like [`World::send_as`], for `count` messages at once. Returns those that are accepted.
    pub fn send_together(
        &mut self,
        (from, to): (NodeIndex, NodeIndex),
        size: usize,
        count: u32,
        message: &Outgoing,
    ) -> Vec<(u64, MessageKey)> {
        let (now, first) = (self.clock(from), self.next_message);
        let Some((id, address)) = self.look_up(from, to) else { return Vec::new() };
        let Some(host) = self.hosts.get_mut(&from.0) else { return Vec::new() };
        let mut messages = (first..).take(count as usize).map(|number| {
            let (tag, body) = body::message(number, size);
            Outgoing { tag, body, ..message.clone() }
        });
        let mut keys = Vec::new();
        // A message that is refused has no key.
        let _ = host.node.send_each(now, id, &[address], &mut messages, |key, n| {
            keys.extend((0..n).map(|n| key.nth(n)));
        });
        let sent: Vec<_> = (first..).zip(keys).collect();
        self.next_message += sent.len() as u64;
        for (number, key) in &sent {
            host.waiting.insert(*key, Waiting { number: *number, to: id, call: false });
            host.sent_at.insert(*key, host.node.journal_end());
            self.ledger.sent(*number, id, false);
            self.trace.tell(self.now, from.0, format_args!("sends m{number} to n{}", to.0));
        }
        self.checks.touched.peers.insert(id);
        self.pump(from);
        sent
    }
}
