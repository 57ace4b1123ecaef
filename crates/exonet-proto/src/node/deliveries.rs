//! What the application asks for: receiving.

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
    /// The next message, handed out and not yet taken: [`Node::done`] takes it, [`Node::release`] gives it back.
    /// Calls wait apart if the node serves: see [`Node::take_call`].
    ///
    /// None when nothing waits; [`crate::event::Event::Readable`] says when something does again.
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

    /// The next message, taken at once; a streamed one still waits for [`Node::done`] after its end.
    pub fn recv(&mut self, now: Now) -> Option<Incoming> {
        loop {
            let arrived = self.pop()?;
            if let Some(incoming) = self.hand_over(now, arrived) {
                return Some(incoming);
            }
        }
    }

    /// As [`Node::recv`], and with the next message up to `most` that came with it or right behind it.
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

    /// The next message, once the journal keeps its grant. Until then it waits, and those behind it, which have the same
    /// disk to wait for.
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

    /// The next call of a method, as [`Node::recv`] gives messages. Calls that are not taken consume no slot, so that
    /// their callers run out of them; other methods, and messages, are not held up.
    ///
    /// None when none waits; [`crate::event::Event::Called`] says when one does again.
    pub fn take_call(&mut self, now: Now, method: &Bytes) -> Option<Incoming> {
        loop {
            let arrived = self.cx.inbox.pop_call(method)?;
            if let Some(incoming) = self.hand_over(now, arrived) {
                return Some(incoming);
            }
        }
    }

    /// As [`Node::take_call`], for an application that does not tell methods apart.
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

    /// The peer at `place`, if it is still the one that has sent a message.
    fn sender_of(&mut self, place: u32, sender: NodeId) -> Option<(&mut Peer, &mut Context)> {
        self.at(place).filter(|(peer, _)| peer.id == sender)
    }

    /// A message has left the receive queue whose sender is forgotten.
    fn drop_orphan(&mut self, arrived: &Arrived) {
        self.cx.received.give_back(arrived.held());
        self.cx.inbox.stale_left();
    }

    /// Takes a message that was handed out: its slot is consumed, and it is delivered.
    ///
    /// False: its record died meanwhile, or a streamed one has not been read to its end. It has **not** been
    /// delivered here, and must not be acted upon.
    pub fn done(&mut self, now: Now, key: DeliveryKey) -> bool {
        self.end(now, key, Peer::take)
    }

    /// As [`Node::done`], for an application that does not say what becomes of the message: a sender that wants to be told that it
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

    /// Takes a call, or a reply, that was handed out, whether or not it has been read to its end: the rest is not
    /// wanted. Its sender counts it as delivered. False as [`Node::done`].
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

    /// Ends a message that was handed out with what the application says of it: its sender is told by a VERDICT, and the message is
    /// never handed out again. A streamed message need not have been read. How many times it was handed out the node knows.
    ///
    /// False: its record died meanwhile, and what becomes of the message is not known.
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

    /// Gives a message back, as [`Node::release`] does, once `at` has come.
    pub fn release_at(&mut self, key: DeliveryKey, at: Mono) {
        self.cx.inbox.wait_until(key, at);
    }

    /// Messages whose time has come are handed out again.
    pub(super) fn release_due(&mut self, now: Now) {
        while let Some(key) = self.cx.inbox.due(now.mono) {
            self.release(now, key);
        }
    }

    /// Gives a message back: it is handed out again. Of a streamed one everything comes again from the start.
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

    /// A message that was handed out is over, and its sender is forgotten.
    fn drop_taken(&mut self, arrived: &Arrived) {
        self.cx.received.give_back(arrived.held());
    }

    /// Once enough of the receive queue is stale, all of that goes.
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
