//! Requests of the application: receiving.

use bytes::Bytes;

use super::Node;
use crate::account::Account;
use crate::event::{BodyRead, Event};
use crate::follow::What;
use crate::id::NodeId;
use crate::message::arrived::{Arrived, ArrivedBody, Front};
use crate::message::run::IncomingRun;
use crate::message::{DeliveryKey, Incoming, Verdict};
use crate::peer::{Context, Peer};
use crate::time::{Mono, Now};

impl Node {
    /// The next message, handed out and not yet taken. [`Node::done`] takes it, and [`Node::release`] gives it back. If the node
    /// serves calls, they wait apart: see [`Node::take_call`].
    ///
    /// None when nothing waits; [`crate::event::Event::Readable`] tells when something waits again.
    pub fn accept(&mut self, now: Now) -> Option<Incoming> {
        loop {
            let arrived = self.pop()?;
            let Some((peer, cx)) = self.sender_of(arrived.peer, arrived.id.sender) else {
                self.drop_orphan(&arrived);
                continue;
            };
            if peer.waits_for(&arrived.front()) {
                return Some(peer.hand_out(cx, now.mono, arrived));
            }
            peer.drop_stale(cx, &arrived);
        }
    }

    /// The next message, taken at once. A streamed message still needs [`Node::done`] after its end.
    pub fn recv(&mut self, now: Now) -> Option<Incoming> {
        loop {
            let arrived = self.pop()?;
            if let Some(incoming) = self.hand_over(now, arrived) {
                return Some(incoming);
            }
        }
    }

    /// As [`Node::recv`], for up to `most` messages: the next one, and those that came with it or right behind it.
    pub fn recv_run(&mut self, now: Now, most: usize) -> Option<IncomingRun> {
        let front = self.cx.inbox.front(most)?;
        let waits = |peer: &Peer| front.whole && peer.waits_for(&front);
        if self.peers.get(front.peer).is_some_and(waits)
            && let Some(run) = self.cx.inbox.pop_run(most)
            && let Some((peer, cx)) = self.at(front.peer)
        {
            let taken = peer.take_run(cx, now, &run);
            self.after(now, front.peer);
            if taken {
                return Some(IncomingRun::run(run));
            }
        }
        self.recv(now).map(IncomingRun::one)
    }

    /// The next message, once the journal keeps its grant. Until then the message waits. So do the messages behind it, which wait
    /// for the same disk.
    fn pop(&mut self) -> Option<Arrived> {
        let front = self.cx.inbox.front(1)?;
        if let Some((peer, cx)) = self.sender_of(front.peer, front.sender) {
            peer.keep_record(cx);
        }
        if self.keeps(&front) { self.cx.inbox.pop() } else { None }
    }

    fn keeps(&self, front: &Front) -> bool {
        self.peers.get(front.peer).is_none_or(|peer| peer.id != front.sender || peer.keeps(front))
    }

    /// Whether a message waits for [`Node::recv`], or seems to.
    pub fn has_waiting(&self) -> bool {
        self.cx.inbox.front(1).is_some_and(|front| self.keeps(&front))
    }

    /// The next call of a method, as [`Node::recv`] gives messages. A call that is not taken consumes no slot, so its caller runs
    /// out of slots. Other methods, and messages, are not held up.
    ///
    /// None when no call waits; [`crate::event::Event::Called`] tells when one waits again.
    pub fn take_call(&mut self, now: Now, method: &Bytes) -> Option<Incoming> {
        loop {
            let arrived = self.cx.inbox.pop_call(method)?;
            if let Some(incoming) = self.hand_over(now, arrived) {
                return Some(incoming);
            }
        }
    }

    /// As [`Node::take_call`], for an application that does not distinguish methods.
    pub fn take_any_call(&mut self, now: Now) -> Option<Incoming> {
        loop {
            let arrived = self.cx.inbox.pop_any_call()?;
            if let Some(incoming) = self.hand_over(now, arrived) {
                return Some(incoming);
            }
        }
    }

    fn hand_over(&mut self, now: Now, arrived: Arrived) -> Option<Incoming> {
        let place = arrived.peer;
        let Some((peer, cx)) = self.sender_of(place, arrived.id.sender) else {
            self.drop_orphan(&arrived);
            return None;
        };
        let incoming = peer.hand_over(cx, now, arrived);
        self.after(now, place);
        incoming
    }

    /// The peer at `place`, if it is still the peer that sent a message.
    fn sender_of(&mut self, place: u32, sender: NodeId) -> Option<(&mut Peer, &mut Context)> {
        self.at(place).filter(|(peer, _)| peer.id == sender)
    }

    /// A message has left the receive queue, and its sender is forgotten.
    fn drop_orphan(&mut self, arrived: &Arrived) {
        self.cx.received.give_back(arrived.held());
        self.cx.inbox.stale_left();
    }

    /// Whether [`Node::done`] would take this message now.
    pub fn would_take(&mut self, key: DeliveryKey) -> bool {
        let Some(arrived) = self.cx.inbox.handed(key) else {
            return false;
        };
        let (place, id) = (arrived.peer, arrived.id);
        let whole = !matches!(arrived.body, ArrivedBody::Stream { .. });
        let Some((peer, _)) = self.sender_of(place, id.sender) else {
            return false;
        };
        let record = peer.inbound.receiver.as_ref();
        record.is_some_and(|record| record.accepts(id.s, id.r)) && (whole || peer.is_read(id.s))
    }

    /// Takes a message that was handed out: its slot is consumed, and the message is delivered.
    ///
    /// False: the record of the message died meanwhile, or a streamed message has not been read to its end. The message has
    /// **not** been delivered here, and must not be acted upon.
    pub fn done(&mut self, now: Now, key: DeliveryKey) -> bool {
        self.end(now, key, Peer::take)
    }

    /// As [`Node::done`], for an application that gives no verdict on the message. A sender that wants to hear that the message
    /// was processed hears only that it was delivered.
    pub fn taken(&mut self, now: Now, key: DeliveryKey) -> bool {
        self.end(now, key, Peer::take_at_once)
    }

    fn end(
        &mut self,
        now: Now,
        key: DeliveryKey,
        take: fn(&mut Peer, &mut Context, Now, &Arrived) -> bool,
    ) -> bool {
        let Some(arrived) = self.cx.inbox.take_back(key) else {
            return false;
        };
        let (place, s) = (arrived.peer, arrived.id.s);
        let Some((peer, cx)) = self.sender_of(place, arrived.id.sender) else {
            self.drop_taken(&arrived);
            return false;
        };
        peer.inbound.note_handed(s, arrived.id.r, false);
        let whole = !matches!(arrived.body, ArrivedBody::Stream { .. }) || peer.is_read(s);
        if !whole {
            peer.start_over(s);
        }
        let taken = whole && take(peer, cx, now, &arrived);
        self.stream_moved(place, arrived.role, &arrived.tag);
        self.after(now, place);
        taken
    }

    /// Takes a call or a reply that was handed out, whether or not it has been read to its end: the rest is not wanted. Its
    /// sender counts it as delivered. False as for [`Node::done`].
    pub fn cut(&mut self, now: Now, key: DeliveryKey) -> bool {
        let Some(arrived) = self.cx.inbox.take_back(key) else { return false };
        let Some((peer, cx)) = self.sender_of(arrived.peer, arrived.id.sender) else {
            self.drop_taken(&arrived);
            return false;
        };
        peer.inbound.note_handed(arrived.id.s, arrived.id.r, false);
        let taken = peer.take(cx, now, &arrived);
        self.after(now, arrived.peer);
        taken
    }

    /// Ends a message that was handed out with the application's verdict. A VERDICT tells the sender, and the message is never
    /// handed out again. A streamed message need not have been read. The node itself knows how many times the message was handed
    /// out.
    ///
    /// False: the record of the message died meanwhile, and the outcome of the message is not known.
    pub fn judge(&mut self, now: Now, key: DeliveryKey, verdict: Verdict) -> bool {
        let Some(arrived) = self.cx.inbox.take_back(key) else { return false };
        let Some((peer, cx)) = self.sender_of(arrived.peer, arrived.id.sender) else {
            self.drop_taken(&arrived);
            return false;
        };
        peer.inbound.note_handed(arrived.id.s, arrived.id.r, false);
        let judged = peer.judge(cx, now, &arrived, verdict);
        self.stream_moved(arrived.peer, arrived.role, &arrived.tag);
        self.after(now, arrived.peer);
        judged
    }

    /// Gives a message back as [`Node::release`] does, but not before `at`.
    pub fn release_at(&mut self, key: DeliveryKey, at: Mono) {
        self.cx.inbox.wait_until(key, at);
    }

    /// Hands out again the messages whose time has come.
    pub(super) fn release_due(&mut self, now: Now) {
        while let Some(key) = self.cx.inbox.due(now.mono) {
            self.release(now, key);
        }
    }

    /// Gives a message back, so that it is handed out again. A streamed message comes again from its start.
    pub fn release(&mut self, now: Now, key: DeliveryKey) {
        let Some(arrived) = self.cx.inbox.take_back(key) else {
            return;
        };
        if let Some((peer, _)) = self.sender_of(arrived.peer, arrived.id.sender) {
            peer.inbound.note_handed(arrived.id.s, arrived.id.r, false);
            peer.came_back(&arrived);
            self.cx.follow_came(arrived.id, 1, What::GivenBack, false);
        }
        if !matches!(arrived.body, ArrivedBody::Stream { .. }) {
            let cx = &mut self.cx;
            let (place, role, name) = (arrived.peer, arrived.role, arrived.tag.clone());
            cx.events.extend(cx.inbox.give_back(arrived, cx.config.serves).map(Event::from));
            self.stream_moved(place, role, &name);
        } else if let Some((peer, _)) = self.sender_of(arrived.peer, arrived.id.sender) {
            peer.start_over(arrived.id.s);
            self.after(now, arrived.peer);
        }
    }

    /// The next bytes of a streamed message.
    pub fn body_read(&mut self, now: Now, key: DeliveryKey) -> BodyRead {
        let Some(arrived) = self.cx.inbox.handed(key) else {
            return BodyRead::Aborted;
        };
        let (place, id) = (arrived.peer, arrived.id);
        let Some((peer, cx)) = self.sender_of(place, id.sender) else {
            return BodyRead::Aborted;
        };
        let read = peer.body_read(cx, id, key);
        if matches!(read, BodyRead::Data(_)) {
            self.after(now, place);
        }
        read
    }

    /// A message that was handed out has ended, and its sender is forgotten.
    fn drop_taken(&mut self, arrived: &Arrived) {
        self.cx.received.give_back(arrived.held());
    }

    /// Drops the stale messages of the receive queue once there are enough of them.
    pub(super) fn sweep(&mut self) {
        let peers = &self.peers;
        let stale =
            self.cx.inbox.sweep(|front| peers.get(front.peer).is_some_and(|peer| peer.waits_for(front)));
        for arrived in stale {
            match self.sender_of(arrived.peer, arrived.id.sender) {
                Some((peer, cx)) => peer.drop_stale(cx, &arrived),
                None => self.drop_orphan(&arrived),
            }
        }
    }
}
