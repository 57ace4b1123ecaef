//! Messages that the application takes: the step in which a slot is consumed and a message is delivered.

use core::ops::Range;
use core::time::Duration;

use super::{Context, Peer};
use crate::account::Account;
use crate::event::BodyRead;
use crate::follow::What;
use crate::id::{CallId, MessageId, Slot};
use crate::message::arrived::{Arrived, ArrivedBody, Front};
use crate::message::lane::Lane;
use crate::message::run::Run;
use crate::message::{DeliveryKey, Incoming, IncomingBody};
use crate::time::{Mono, Now};
use crate::wire::Role;

impl Peer {
    /// Whether the messages of the receive queue could still be delivered, all of them.
    pub(crate) fn waits_for(&self, front: &Front) -> bool {
        match (self.id == front.sender, front.whole) {
            (false, _) => false,
            (true, true) => self.inbound.is_pending(front.slots.clone(), front.r),
            (true, false) => self.inbound.is_announced(Slot(front.slots.start), front.r),
        }
    }

    /// Writes the record under which a message may be handed out. After a crash between the hand-out and the end of the message,
    /// the node then hands the message out again under the same id, and its attempts are counted.
    pub(crate) fn keep_record(&mut self, cx: &mut Context) {
        self.journal_record(cx);
    }

    /// Whether a crash keeps the grant of a message that is to be handed out. A message that was sent early may be handed out
    /// before.
    pub(crate) fn keeps(&self, front: &Front) -> bool {
        let Some(record) = self.inbound.receiver.as_ref().filter(|record| record.incarnation() == front.r)
        else {
            return true;
        };
        let unsaid = &self.inbound.unsaid;
        !unsaid.is_mute() && front.slots.start < unsaid.hi(record.parts().0).0
    }

    /// Takes a message in one piece, or hands a streamed message out. None: its record is gone.
    pub(crate) fn hand_over(&mut self, cx: &mut Context, now: Now, arrived: Arrived) -> Option<Incoming> {
        if !self.waits_for(&arrived.front()) {
            self.drop_stale(cx, &arrived);
            return None;
        }
        if !matches!(arrived.body, ArrivedBody::Whole(_)) {
            return Some(self.hand_out(cx, now.mono, arrived));
        }
        let call = call_of(cx, &arrived);
        let attempt = self.inbound.verdicts.next_attempt(arrived.id.s);
        let taken = self.take_at_once(cx, now, &arrived);
        let ArrivedBody::Whole(body) = arrived.body else { return None };
        let (id, tag, priority, trace) = (arrived.id, arrived.tag, arrived.priority, arrived.trace);
        let (key, body) = (DeliveryKey::NONE, IncomingBody::Whole(body));
        taken.then_some(Incoming { key, id, call, tag, priority, attempt, trace, body })
    }

    /// Hands out a message that the application has not taken yet.
    pub(crate) fn hand_out(&mut self, cx: &mut Context, now: Mono, arrived: Arrived) -> Incoming {
        let (id, tag, priority) = (arrived.id, arrived.tag.clone(), arrived.priority);
        let trace = arrived.trace.clone();
        let call = call_of(cx, &arrived);
        let body = match &arrived.body {
            ArrivedBody::Whole(body) => IncomingBody::Whole(body.clone()),
            ArrivedBody::Stream { len } => IncomingBody::Stream { len: *len },
        };
        self.keep_record(cx);
        let attempt = self.attempt(cx, &arrived);
        let streamed = matches!(body, IncomingBody::Stream { .. });
        self.inbound.note_handed(id.s, id.r, true);
        cx.follow_came(id, 1, What::HandedOut { attempt }, false);
        let key = cx.inbox.hand_out(now, arrived);
        if streamed && let Some(partial) = self.inbound.partial(id.s) {
            partial.stream = Some(key);
        }
        Incoming { key, id, call, tag, priority, attempt, trace, body }
    }

    /// Whether a streamed message that was handed out has been read to its end.
    pub(crate) fn is_read(&mut self, s: Slot) -> bool {
        self.inbound.partial(s).is_some_and(|partial| partial.assembly.is_read())
    }

    /// Takes a message: its slot is consumed. False: its record died meanwhile.
    pub(crate) fn take(&mut self, cx: &mut Context, now: Now, arrived: &Arrived) -> bool {
        self.discard(cx, arrived.held());
        let s = arrived.id.s;
        let taken = self.consume(cx, now, arrived.id, s.0..s.0 + 1, arrived.wire_len, &arrived.lane());
        if taken && arrived.role == Role::Call {
            self.serve(cx, now, s);
        }
        if taken {
            self.stream_goes_on(cx, arrived);
        }
        taken
    }

    /// Takes messages that came together: all, or none.
    pub(crate) fn take_run(&mut self, cx: &mut Context, now: Now, run: &Run) -> bool {
        self.discard(cx, run.held());
        self.consume(cx, now, run.id(), run.slots(), run.wire_len(), &Lane::Plain)
    }

    /// Consumes the slots of `run`, which begins with `id`, all or none. `len` is the length of their messages.
    #[inline]
    fn consume(
        &mut self,
        cx: &mut Context,
        now: Now,
        id: MessageId,
        run: Range<u64>,
        len: u64,
        lane: &Lane,
    ) -> bool {
        let messages = run.end - run.start;
        let taken = self.id == id.sender && self.inbound.take(run.clone(), id.r, len, lane);
        if taken {
            self.journal_take(cx, run, matches!(lane, Lane::Method(_)));
            cx.stats.received += messages;
            self.taken += messages;
            let goes_on = cx.config.serves && matches!(lane, Lane::Method(_));
            cx.follow_came(id, messages, What::Taken, !goes_on);
            self.owe_claim(cx, now, messages, matches!(lane, Lane::Method(_)));
        }
        taken
    }

    /// The application is done with `messages`: a STATE is owed that says so. The other waiting messages of this peer will be taken
    /// soon, and their STATE covers these as well. The STATE of a call goes with the reply.
    pub(super) fn owe_claim(&mut self, cx: &mut Context, now: Now, messages: u64, is_call: bool) {
        let soon = is_call || self.inbound.has_pending();
        let wait = if soon { cx.config.max_ack_delay } else { Duration::ZERO };
        if !is_call {
            self.inbound.on_used(now.mono, messages, self.link.recovery.rtt().min());
        }
        self.inbound.owe_state(now.mono + wait);
        self.inbound.retry(now.mono, &mut cx.clock, &cx.config.limits);
    }

    /// A message whose record is gone has left the receive queue.
    pub(crate) fn drop_stale(&mut self, cx: &mut Context, arrived: &Arrived) {
        self.discard(cx, arrived.held());
        cx.follow_came(arrived.id, 1, What::Dropped, true);
        self.inbound.drop_stale(arrived.id.r, &arrived.lane(), arrived.wire_len);
        cx.inbox.stale_left();
    }

    /// Gives back the memory of messages in the queue.
    pub(super) fn discard(&mut self, cx: &mut Context, held: u64) {
        cx.received.give_back(held);
        self.inbound.waiting.give_back(held);
    }

    /// A streamed message that was handed out has to come again from its start.
    pub(crate) fn start_over(&mut self, s: Slot) {
        self.inbound.drop_partial(s);
    }

    /// The next bytes of the streamed message `id`.
    pub(crate) fn body_read(&mut self, cx: &Context, id: MessageId, key: DeliveryKey) -> BodyRead {
        let record = self.inbound.receiver.as_ref();
        if !record.is_some_and(|record| record.accepts(id.s, id.r)) {
            return BodyRead::Aborted;
        }
        let Some(partial) = self.inbound.partial(id.s).filter(|partial| partial.stream == Some(key)) else {
            return BodyRead::Aborted;
        };
        let Some(data) = partial.assembly.read() else {
            return if partial.assembly.is_read() { BodyRead::End } else { BodyRead::Pending };
        };
        self.inbound.on_read(id.s, &cx.config.limits);
        BodyRead::Data(data)
    }
}

/// The name of a call that the application has to answer.
fn call_of(cx: &Context, arrived: &Arrived) -> Option<CallId> {
    let answers = cx.config.serves && arrived.role == Role::Call;
    answers.then_some(CallId { caller: arrived.id.sender, s: arrived.id.s })
}
