//! Calls in a world: made, served, dropped.

use exonet_proto::node::{MessageKey, Outgoing, SendError};

use crate::host::Waiting;
use crate::serving::Serving;
use crate::{NodeIndex, World, body};

impl World {
    /// Calls: a message that the ledger follows until its reply.
    ///
    /// # Errors
    /// As the core's `call`.
    pub fn call(&mut self, from: NodeIndex, to: NodeIndex, size: usize) -> Result<u64, SendError> {
        self.call_as(from, to, size, Outgoing::default()).map(|(number, _)| number)
    }

    /// As [`World::call`], with all that a message may have but its tag and its body.
    ///
    /// # Errors
    /// As the core's `call`.
    pub fn call_as(
        &mut self,
        from: NodeIndex,
        to: NodeIndex,
        size: usize,
        message: Outgoing,
    ) -> Result<(u64, MessageKey), SendError> {
        let (tag, body) = body::message(self.next_message, size);
        let message = Outgoing { tag, body, ..message };
        self.submit(from, to, true, |node, now, id, address| node.call(now, id, &[address], message))
    }

    /// How the application of `node` answers calls; its core must be set to.
    pub fn serve(&mut self, node: NodeIndex, serving: Serving) {
        if let Some(host) = self.hosts.get_mut(&node.0) {
            host.desk.serving = serving;
        }
    }

    /// Nobody will answer this call: its receiver does not serve.
    pub fn expect_failure(&mut self, call: u64) {
        self.ledger.dropped(call);
    }

    /// The application of `node` drops the calls that it would never answer.
    pub fn drop_calls(&mut self, node: NodeIndex) {
        let now = self.clock(node);
        if let Some(host) = self.hosts.get_mut(&node.0) {
            host.desk.drop_stuck(now, &mut host.node, &mut self.ledger);
        }
        self.pump(node);
    }

    /// Whether a call may end without its reply though it was delivered: its server has died since, or has forgotten
    /// replies.
    pub(crate) fn explains_no_reply(&self, waiting: Waiting) -> bool {
        let server = self.hosts.values().find(|host| host.node.id() == waiting.to);
        waiting.call.is_some_and(|boots| {
            server.is_none_or(|host| host.boots > boots || host.node.counts().replies_forgotten > 0)
        })
    }
}
