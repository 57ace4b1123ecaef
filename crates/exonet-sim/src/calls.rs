//! Calls in a world: making, serving and dropping them.

use bytes::Bytes;
use exonet_proto::node::{MessageKey, Outcome, Outgoing, SendError};

use crate::host::{Host, Waiting};
use crate::life::Running;
use crate::serving::Serving;
use crate::{NodeIndex, World, body};

impl World {
    /// Makes a call, which the ledger follows until its reply.
    ///
    /// # Errors
    /// The errors of the core's `call`.
    pub fn call(&mut self, from: NodeIndex, to: NodeIndex, size: usize) -> Result<u64, SendError> {
        self.call_as(from, to, size, Outgoing::default()).map(|(number, _)| number)
    }

    /// Like [`World::call`], for a method: its name must not be eight bytes long, and the body has at least eight
    /// bytes.
    ///
    /// # Errors
    /// The errors of the core's `call`.
    pub fn call_method(
        &mut self,
        from: NodeIndex,
        to: NodeIndex,
        method: &str,
        size: usize,
    ) -> Result<u64, SendError> {
        let tag = Bytes::copy_from_slice(method.as_bytes());
        self.call_as(from, to, size, Outgoing { tag, ..Outgoing::default() }).map(|(number, _)| number)
    }

    /// Like [`World::call`], with every property of a message except its body. Without a tag, the world also chooses
    /// the tag.
    ///
    /// # Errors
    /// The errors of the core's `call`.
    pub fn call_as(
        &mut self,
        from: NodeIndex,
        to: NodeIndex,
        size: usize,
        message: Outgoing,
    ) -> Result<(u64, MessageKey), SendError> {
        let (tag, body) = match message.tag.is_empty() {
            true => body::message(self.next_message, size),
            false => (message.tag.clone(), body::part(self.next_message, 0, size)),
        };
        let message = Outgoing { tag, body, ..message };
        let serves = self.hosts.get(&to.0).is_some_and(|host| host.config.serves);
        let sent =
            self.submit(from, to, true, |node, now, id, address| node.call(now, id, &[address], message))?;
        if !serves {
            self.ledger.dropped(sent.0);
        }
        Ok(sent)
    }

    /// Sets how the application of `node` answers calls. Its core must be configured to serve.
    pub fn serve(&mut self, node: NodeIndex, serving: Serving) {
        if let Some(host) = self.hosts.get_mut(&node.0) {
            host.desk.serving = serving;
        }
    }

    /// Makes the application of `node` answer its pending calls at once.
    pub(crate) fn hurry_calls(&mut self, node: NodeIndex) {
        let now = self.clock(node);
        if let Some(host) = self.hosts.get_mut(&node.0) {
            host.desk.hurry(now.mono);
        }
        self.pump(node);
    }

    /// Makes the application of `node` drop the calls that it would never answer.
    pub fn drop_calls(&mut self, node: NodeIndex) {
        let now = self.clock(node);
        if let Some(host) = self.hosts.get_mut(&node.0) {
            host.desk.drop_stuck(now, &mut host.node, &mut self.ledger);
        }
        self.pump(node);
    }

    /// Handles large replies that will not be read to their end: their calls have run, and the callers do not get
    /// their results.
    pub(crate) fn broken_off(&mut self, index: NodeIndex) {
        let Some(host) = self.hosts.get_mut(&index.0) else { return };
        let calls = core::mem::take(&mut host.broken_off);
        // The caller may have lost the half-connection of the reply too.
        let own = host.stopped || host.node.counts().evictions > 0;
        for call in calls {
            let explained = own || self.explains_no_reply(call);
            self.trace.tell(self.now, index.0, format_args!("reads the reply to m{} in part", call.number));
            self.ledger.outcome(call.number, Outcome::Unknown, None, explained);
        }
    }

    /// Whether a call that was taken may end without its reply: its server has died meanwhile, or has forgotten
    /// replies.
    pub(crate) fn explains_no_reply(&self, waiting: Waiting) -> bool {
        let Some(then) = self.ledger.keeper(waiting.number).filter(|_| waiting.call) else { return false };
        let server = self.hosts.values().find(|host| host.node.id() == waiting.to);
        let lives = |host: &Host| host.boots == then.boots && host.life.running != Running::Down;
        server.is_none_or(|now| !lives(now) || now.node.counts().replies_forgotten > then.forgotten)
    }
}
