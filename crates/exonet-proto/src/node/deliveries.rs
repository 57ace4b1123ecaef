//! What the application asks for: receiving.

use bytes::Bytes;

use super::Node;
use super::calls::CallId;
use super::event::{BodyRead, DeliveryKey, Incoming, IncomingBody};
use super::inbox::{Arrived, ArrivedBody};
use super::peer::Peers;
use crate::time::Now;
use crate::wire::Role;

impl Node {
    /// The next message, handed out and not yet taken: [`Node::done`] takes it, [`Node::release`] gives it back.
    /// Calls wait apart if the node serves: see [`Node::take_call`].
    ///
    /// None when nothing waits; [`super::Event::Readable`] says when something does again.
    pub fn accept(&mut self, _now: Now) -> Option<Incoming> {
        loop {
            let arrived = self.inbox.pop()?;
            if is_waited_for(&self.peers, &arrived) {
                return Some(self.hand_out(arrived));
            }
            self.drop_stale(&arrived);
        }
    }

    /// The next message, taken at once; a streamed one still waits for [`Node::done`] after its end.
    pub fn recv(&mut self, now: Now) -> Option<Incoming> {
        loop {
            let arrived = self.inbox.pop()?;
            if let Some(incoming) = self.hand_over(now, arrived) {
                return Some(incoming);
            }
        }
    }

    /// The next call of a method, as [`Node::recv`] gives messages. Calls that are not taken consume no slot, so that
    /// their callers run out of them; other methods, and messages, are not held up.
    ///
    /// None when none waits; [`super::Event::Called`] says when one does again.
    pub fn take_call(&mut self, now: Now, method: &Bytes) -> Option<Incoming> {
        loop {
            let arrived = self.inbox.pop_call(method)?;
            if let Some(incoming) = self.hand_over(now, arrived) {
                return Some(incoming);
            }
        }
    }

    /// As [`Node::take_call`], for an application that does not tell methods apart.
    pub fn take_any_call(&mut self, now: Now) -> Option<Incoming> {
        loop {
            let arrived = self.inbox.pop_any_call()?;
            if let Some(incoming) = self.hand_over(now, arrived) {
                return Some(incoming);
            }
        }
    }

    /// Takes a message in one piece, hands a streamed one out. None: nobody waits for it any more.
    fn hand_over(&mut self, now: Now, arrived: Arrived) -> Option<Incoming> {
        if !is_waited_for(&self.peers, &arrived) {
            self.drop_stale(&arrived);
            return None;
        }
        if !matches!(arrived.body, ArrivedBody::Whole(_)) {
            return Some(self.hand_out(arrived));
        }
        let call = self.call_of(&arrived);
        let taken = self.take(now, &arrived);
        let ArrivedBody::Whole(body) = arrived.body else { return None };
        let (id, tag, priority) = (arrived.id, arrived.tag, arrived.priority);
        let body = IncomingBody::Whole(body);
        taken.then_some(Incoming { key: DeliveryKey(u64::MAX), id, call, tag, priority, body })
    }

    fn hand_out(&mut self, arrived: Arrived) -> Incoming {
        let (id, tag, priority) = (arrived.id, arrived.tag.clone(), arrived.priority);
        let call = self.call_of(&arrived);
        let body = match &arrived.body {
            ArrivedBody::Whole(body) => IncomingBody::Whole(body.clone()),
            ArrivedBody::Stream { len } => IncomingBody::Stream { len: *len },
        };
        let (peer, s, streamed) = (arrived.peer, id.s, matches!(body, IncomingBody::Stream { .. }));
        let key = self.inbox.hand_out(arrived);
        if streamed && let Some(partial) = self.peers.get_mut(peer).and_then(|p| p.inbound.partial(s)) {
            partial.stream = Some(key);
        }
        Incoming { key, id, call, tag, priority, body }
    }

    /// Takes a message that was handed out: its slot is consumed, and it is delivered.
    ///
    /// False: its record died meanwhile, or a streamed one has not been read to its end. It has **not** been
    /// delivered here, and must not be acted upon.
    pub fn done(&mut self, now: Now, key: DeliveryKey) -> bool {
        let Some(arrived) = self.inbox.take_back(key) else {
            return false;
        };
        if matches!(arrived.body, ArrivedBody::Stream { .. }) {
            let partial =
                self.peers.get_mut(arrived.peer).and_then(|peer| peer.inbound.partial(arrived.id.s));
            if !partial.is_some_and(|partial| partial.assembly.is_read()) {
                self.start_over(now, &arrived);
                return false;
            }
        }
        self.take(now, &arrived)
    }

    /// Takes a call, or a reply, that was handed out, whether or not it has been read to its end: the rest is not
    /// wanted. Its sender counts it as delivered. False as [`Node::done`].
    pub fn cut(&mut self, now: Now, key: DeliveryKey) -> bool {
        self.inbox.take_back(key).is_some_and(|arrived| self.take(now, &arrived))
    }

    /// Gives a message back: it is handed out again. Of a streamed one everything comes again from the start.
    pub fn release(&mut self, now: Now, key: DeliveryKey) {
        let Some(arrived) = self.inbox.take_back(key) else {
            return;
        };
        if matches!(arrived.body, ArrivedBody::Stream { .. }) {
            self.start_over(now, &arrived);
        } else {
            self.events.extend(self.inbox.give_back(arrived, self.config.serves));
        }
    }

    /// The next bytes of a streamed message.
    pub fn body_read(&mut self, now: Now, key: DeliveryKey) -> BodyRead {
        let Some(arrived) = self.inbox.handed(key) else {
            return BodyRead::Aborted;
        };
        let (index, s, alive) = (arrived.peer, arrived.id.s, self.is_alive(arrived));
        let limits = &self.config.limits;
        let Some(peer) = self.peers.get_mut(index).filter(|_| alive) else {
            return BodyRead::Aborted;
        };
        let Some(partial) = peer.inbound.partial(s).filter(|partial| partial.stream == Some(key)) else {
            return BodyRead::Aborted;
        };
        let Some(data) = partial.assembly.read() else {
            return if partial.assembly.is_read() { BodyRead::End } else { BodyRead::Pending };
        };
        peer.inbound.on_read(s, limits);
        self.touch(now, index);
        BodyRead::Data(data)
    }

    /// Whether the record that a message arrived under still stands.
    fn is_alive(&self, arrived: &Arrived) -> bool {
        let peer = self.peers.get(arrived.peer).filter(|peer| peer.id == arrived.id.sender);
        let record = peer.and_then(|peer| peer.inbound.receiver.as_ref());
        record.is_some_and(|record| record.accepts(arrived.id.s, arrived.id.r))
    }

    fn take(&mut self, now: Now, arrived: &Arrived) -> bool {
        self.discard(arrived);
        let len = arrived.wire_len;
        let Some(peer) = self.peers.get_mut(arrived.peer).filter(|peer| peer.id == arrived.id.sender) else {
            return false;
        };
        let taken = peer.inbound.take(now.mono, arrived.id.s, arrived.id.r, len);
        if taken {
            self.stats.received += 1;
            // Others that wait will be taken soon; their STATE covers this one.
            let wait =
                if self.inbox.is_empty() { core::time::Duration::ZERO } else { self.config.max_ack_delay };
            peer.inbound.owe_state(now.mono + wait);
            peer.inbound.retry(now.mono, &mut self.clock, &self.config.limits);
            if arrived.role == Role::Call {
                self.serve(now, arrived.peer, arrived.id.s);
            }
        }
        self.touch(now, arrived.peer);
        taken
    }

    /// What a message is called as a call that the application is to answer.
    fn call_of(&self, arrived: &Arrived) -> Option<CallId> {
        let answers = self.config.serves && arrived.role == Role::Call;
        answers.then_some(CallId { caller: arrived.id.sender, s: arrived.id.s })
    }

    /// A message that nobody waits for has left the receive queue.
    fn drop_stale(&mut self, arrived: &Arrived) {
        self.discard(arrived);
        if let Some(peer) = self.peers.get_mut(arrived.peer).filter(|peer| peer.id == arrived.id.sender) {
            peer.inbound.drop_stale(arrived.id.r, arrived.wire_len);
        }
        self.inbox.stale_left();
    }

    /// Once enough of the receive queue is stale, all of that goes.
    pub(super) fn sweep(&mut self) {
        for arrived in self.inbox.sweep(|arrived| is_waited_for(&self.peers, arrived)) {
            self.drop_stale(&arrived);
        }
    }

    /// The memory of a message in the queue is given back.
    fn discard(&mut self, arrived: &Arrived) {
        self.received = self.received.saturating_sub(arrived.held());
        if let Some(peer) = self.peers.get_mut(arrived.peer).filter(|peer| peer.id == arrived.id.sender) {
            peer.inbound.waiting = peer.inbound.waiting.saturating_sub(arrived.held());
        }
    }

    fn start_over(&mut self, now: Now, arrived: &Arrived) {
        let Some(peer) = self.peers.get_mut(arrived.peer).filter(|peer| peer.id == arrived.id.sender) else {
            return;
        };
        peer.inbound.drop_partial(arrived.id.s);
        self.touch(now, arrived.peer);
    }
}

/// Whether a message of the receive queue could still be delivered.
fn is_waited_for(peers: &Peers, arrived: &Arrived) -> bool {
    let peer = peers.get(arrived.peer).filter(|peer| peer.id == arrived.id.sender);
    peer.is_some_and(|peer| match arrived.body {
        ArrivedBody::Whole(_) => peer.inbound.is_pending(arrived.id.s, arrived.id.r),
        ArrivedBody::Stream { .. } => peer.inbound.is_announced(arrived.id.s, arrived.id.r),
    })
}
