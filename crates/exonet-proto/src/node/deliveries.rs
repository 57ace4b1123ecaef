//! What the application asks for: receiving.

use core::ops::Range;
use core::time::Duration;

use bytes::Bytes;

use super::Node;
use super::calls::CallId;
use super::event::{BodyRead, DeliveryKey, Incoming, IncomingBody};
use super::inbox::{Arrived, ArrivedBody, Front};
use super::peer::Peers;
use super::run::{IncomingRun, Run};
use crate::id::{MessageId, NodeId, Slot};
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
            if is_waited_for(&self.peers, &arrived.front()) {
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

    /// As [`Node::recv`], and with the next message up to `most` that came with it or right behind it.
    pub fn recv_run(&mut self, now: Now, most: usize) -> Option<IncomingRun> {
        let front = self.inbox.front(most)?;
        if front.whole
            && is_waited_for(&self.peers, &front)
            && let Some(run) = self.inbox.pop_run(most)
            && self.take_run(now, &run)
        {
            return Some(IncomingRun::run(run));
        }
        self.recv(now).map(IncomingRun::one)
    }

    /// Whether a message waits for [`Node::recv`], or seems to.
    pub fn has_waiting(&self) -> bool {
        self.inbox.has_messages()
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
        if !is_waited_for(&self.peers, &arrived.front()) {
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
        taken.then_some(Incoming { key: DeliveryKey::NONE, id, call, tag, priority, body })
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
        self.discard(arrived.peer, arrived.id.sender, arrived.held());
        let s = arrived.id.s.0;
        let taken = self.consume(now, arrived.peer, arrived.id, s..s + 1, arrived.wire_len, arrived.role);
        if taken && arrived.role == Role::Call {
            self.serve(now, arrived.peer, arrived.id.s);
        }
        taken
    }

    fn take_run(&mut self, now: Now, run: &Run) -> bool {
        self.discard(run.peer, run.id().sender, run.held());
        self.consume(now, run.peer, run.id(), run.slots(), run.wire_len(), Role::Plain)
    }

    /// The slots of `run`, which begins with `id`, are consumed, all or none; `len` is the length of their messages.
    fn consume(
        &mut self,
        now: Now,
        index: u32,
        id: MessageId,
        run: Range<u64>,
        len: u64,
        role: Role,
    ) -> bool {
        let Some(peer) = self.peers.get_mut(index).filter(|peer| peer.id == id.sender) else {
            return false;
        };
        let messages = run.end - run.start;
        let taken = peer.inbound.take(run, id.r, len, role);
        if taken {
            self.stats.received += messages;
            // Others of this peer that wait will be taken soon; their STATE covers this one. That of a call goes with the
            // reply.
            let soon = role == Role::Call || peer.inbound.has_pending();
            let wait = if soon { self.config.max_ack_delay } else { Duration::ZERO };
            peer.inbound.owe_state(now.mono + wait);
            peer.inbound.retry(now.mono, &mut self.clock, &self.config.limits);
        }
        self.touch(now, index);
        taken
    }

    /// What a message is called as a call that the application is to answer.
    fn call_of(&self, arrived: &Arrived) -> Option<CallId> {
        let answers = self.config.serves && arrived.role == Role::Call;
        answers.then_some(CallId { caller: arrived.id.sender, s: arrived.id.s })
    }

    /// A message that nobody waits for has left the receive queue.
    fn drop_stale(&mut self, arrived: &Arrived) {
        self.discard(arrived.peer, arrived.id.sender, arrived.held());
        if let Some(peer) = self.peers.get_mut(arrived.peer).filter(|peer| peer.id == arrived.id.sender) {
            peer.inbound.drop_stale(arrived.id.r, arrived.wire_len);
        }
        self.inbox.stale_left();
    }

    /// Once enough of the receive queue is stale, all of that goes.
    pub(super) fn sweep(&mut self) {
        for arrived in self.inbox.sweep(|front| is_waited_for(&self.peers, front)) {
            self.drop_stale(&arrived);
        }
    }

    /// The memory of messages in the queue is given back.
    fn discard(&mut self, index: u32, sender: NodeId, held: u64) {
        self.received = self.received.saturating_sub(held);
        if let Some(peer) = self.peers.get_mut(index).filter(|peer| peer.id == sender) {
            peer.inbound.waiting = peer.inbound.waiting.saturating_sub(held);
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

/// Whether messages of the receive queue could still be delivered, all of them.
fn is_waited_for(peers: &Peers, front: &Front) -> bool {
    let peer = peers.get(front.peer).filter(|peer| peer.id == front.sender);
    peer.is_some_and(|peer| match front.whole {
        true => peer.inbound.is_pending(front.slots.clone(), front.r),
        false => peer.inbound.is_announced(Slot(front.slots.start), front.r),
    })
}
