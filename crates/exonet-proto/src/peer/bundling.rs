//! Small messages that are queued together are kept together: see [`Bundle`].

use core::borrow::BorrowMut;

use bytes::Bytes;

use super::{Context, Peer};
use crate::event::SendError;
use crate::half::Sender;
use crate::message::{
    BUNDLED, BUNDLED_WHOLE, Bundle, Confirm, Early, Ending, Letter, MessageKey, Outcome, Outgoing, Priority,
    Source, Store,
};
use crate::time::{Mono, Now};
use crate::wire::Role;

/// A message that may be kept together with others.
pub(crate) trait Gather {
    fn body(&self) -> &[u8];
    fn priority(&self) -> Priority;
    /// It has nothing of its own but its body and its priority.
    fn is_alike(&self) -> bool;
    fn into_outgoing(self) -> Outgoing;
}

/// A message of the caller's, or one that it lends.
pub(crate) struct Lent<M>(pub(crate) M);

impl<M: BorrowMut<Outgoing>> Gather for Lent<M> {
    fn body(&self) -> &[u8] {
        &self.0.borrow().body
    }

    fn priority(&self) -> Priority {
        self.0.borrow().priority
    }

    fn is_alike(&self) -> bool {
        let message = self.0.borrow();
        let usual = message.early == Early::AsNode && message.confirm == Confirm::Delivered;
        message.tag.is_empty() && message.deadline.is_none() && usual
    }

    fn into_outgoing(mut self) -> Outgoing {
        core::mem::take(self.0.borrow_mut())
    }
}

/// A message of a body alone, which is copied if it is not kept together with others.
pub(crate) struct Bare<B>(pub(crate) B);

impl<B: AsRef<[u8]>> Gather for Bare<B> {
    fn body(&self) -> &[u8] {
        self.0.as_ref()
    }

    fn priority(&self) -> Priority {
        Priority::default()
    }

    fn is_alike(&self) -> bool {
        true
    }

    fn into_outgoing(self) -> Outgoing {
        Outgoing { body: Bytes::copy_from_slice(self.0.as_ref()), ..Outgoing::default() }
    }
}

/// Messages that have been accepted one behind the other and are not yet queued: one, or a bundle.
struct Gathered<M> {
    first: Option<M>,
    bundle: Option<Box<Bundle>>,
    priority: Priority,
    /// Of each body.
    len: usize,
    /// How many more like them there is room for.
    left: usize,
}

impl<M> Default for Gathered<M> {
    fn default() -> Self {
        Self { first: None, bundle: None, priority: Priority::default(), len: 0, left: 0 }
    }
}

impl Peer {
    /// Queues messages while there is room, together where they are alike.
    pub(super) fn gather<M: Gather>(
        &mut self,
        cx: &mut Context,
        now: Now,
        messages: &mut impl Iterator<Item = M>,
        mut queued: impl FnMut(MessageKey, u32),
    ) -> Result<(), SendError> {
        let mut gathered = Gathered::default();
        let sent = loop {
            if gathered.left == 0 {
                if let Err(error) = self.queue(cx, now, &mut gathered, &mut queued) {
                    break Err(error);
                }
                if let Err(full) = self.reserve(cx) {
                    break Err(full);
                }
            }
            let Some(message) = messages.next() else { break Ok(()) };
            let Some(message) = gathered.join(message, &mut cx.store) else { continue };
            if let Err(error) = self.queue(cx, now, &mut gathered, &mut queued) {
                break Err(error);
            }
            let len = message.body().len();
            if message.is_alike() && self.bundles(cx, len) {
                (gathered.priority, gathered.len) = (message.priority(), len);
                gathered.left = self.room_for(cx, len).saturating_sub(1);
                gathered.first = Some(message);
                continue;
            }
            match self.accept_one(cx, now, message.into_outgoing()) {
                Ok(key) => queued(key, 1),
                Err(error) => break Err(error),
            }
        };
        self.queue(cx, now, &mut gathered, &mut queued).and(sent)
    }

    fn accept_one(
        &mut self,
        cx: &mut Context,
        now: Now,
        mut message: Outgoing,
    ) -> Result<MessageKey, SendError> {
        let source = cx.store.body(core::mem::take(&mut message.body));
        self.accept_from(cx, now, message, source, Role::Plain)
    }

    /// Queues what was gathered.
    fn queue<M: Gather>(
        &mut self,
        cx: &mut Context,
        now: Now,
        gathered: &mut Gathered<M>,
        queued: &mut impl FnMut(MessageKey, u32),
    ) -> Result<(), SendError> {
        let Gathered { first, bundle, priority, .. } = core::mem::take(gathered);
        if let Some(message) = first {
            queued(self.accept_one(cx, now, message.into_outgoing())?, 1);
        }
        if let Some(bundle) = bundle {
            let count = bundle.count();
            let common = Outgoing { priority, ..Outgoing::default() };
            let key = cx.store.insert(Letter::new(self.place, common, Source::Bundle(bundle), Role::Plain));
            self.journal_put_span(cx, key);
            self.outbound.submit(&cx.clock, &mut cx.store, key);
            cx.stats.sent += u64::from(count);
            queued(key, count);
        }
        Ok(())
    }

    /// Whether messages of this length to the peer are bundled. What may leave with an opening is not: each of it is chosen
    /// by itself; nor what the node's patience is counted for, from the departure of each; nor what is bound before it leaves, since
    /// its journal is forced to the disk; nor, but on a fast path, what may be cut to fill a packet.
    fn bundles(&self, cx: &Context, body: usize) -> bool {
        let Self { outbound, link, .. } = self;
        let most = if link.recovery.is_fast() { BUNDLED_WHOLE } else { BUNDLED };
        let fits = body <= most && body as u64 <= outbound.limits.message.min(cx.config.limits.message);
        let granted = outbound.sender.as_ref().and_then(Sender::incarnation).is_some();
        fits && granted && cx.config.doubt_timeout.is_none() && !cx.journal.is_forced()
    }

    /// How many messages of this length, and with nothing else, are taken now.
    pub(crate) fn room_for_plain(&self, cx: &Context, body: usize) -> usize {
        let found = !self.hints.is_empty() || self.link.is_connected() || self.link.is_answering();
        let fits = found && body as u64 <= self.outbound.limits.message;
        if fits && self.has_room(&cx.config.limits) { self.room_for(cx, body) } else { 0 }
    }

    /// How many messages of this length the peer's queue takes before it is full.
    fn room_for(&self, cx: &Context, body: usize) -> usize {
        let (limits, outbound) = (&cx.config.limits, &self.outbound);
        let bytes = (limits.queued_bytes as u64).saturating_sub(outbound.kept()).div_ceil(body.max(1) as u64);
        let most = limits.queued_messages.saturating_sub(outbound.letters);
        usize::try_from(bytes).unwrap_or(usize::MAX).min(most).max(usize::from(outbound.letters == 0))
    }

    /// Messages of a bundle are settled: `count` from `key` on.
    pub(super) fn end_bundled(&mut self, cx: &mut Context, key: MessageKey, count: u32, outcome: Outcome) {
        let (mut key, mut left) = (key, count);
        while left > 0 {
            let letter = cx.store.get(key);
            let bundle = letter.and_then(|letter| Some((letter, letter.bundle()?.bound(key.at))));
            let Some((letter, (bound, run))) = bundle else {
                return debug_assert!(false, "those that have not ended are there");
            };
            let n = run.clamp(1, left);
            let journaled = letter.journaled.map(|first| first.nth(key.at));

            self.outbound.forget_bundled(key, letter, bound, n);

            if let Some(held) = cx.store.end_bundled(key, n) {
                self.outbound.bundle_ended(held);
            }
            let ending =
                Ending { role: Role::Plain, confirm: false, due: Mono::NEVER, late: false, bound, journaled };
            self.conclude(cx, key, n, ending, outcome);
            (key, left) = (key.nth(n), left - n);
        }
    }

    /// A message of a bundle, which is open, leaves without a STATE to settle it.
    pub(super) fn withdraw_bundled(&mut self, cx: &mut Context, now: Now, key: MessageKey, outcome: Outcome) {
        if let Some(letter) = cx.store.get(key) {
            self.outbound.abandon_bundled(key, letter);
        }
        self.end_bundled(cx, key, 1, outcome);

        self.outbound.admit_large(&mut cx.store);
        self.outbound.note_idle(now.mono);

        self.say_sendable(cx);
    }
}

impl<M: Gather> Gathered<M> {
    /// Takes the message if it is like those before; gives it back if not.
    #[inline]
    fn join(&mut self, message: M, store: &mut Store) -> Option<M> {
        if self.left == 0 || message.priority() != self.priority || !message.is_alike() {
            return Some(message);
        }
        if let Some(first) = &self.first {
            // Whose they are may give another body each time: what is looked at here is what is taken.
            let body = first.body();
            if body.len() != self.len || message.body().len() != self.len {
                return Some(message);
            }
            self.bundle.insert(store.bundle(self.priority as u8, self.len)).push(body);
            self.first = None;
        }
        let Some(bundle) = self.bundle.as_mut() else {
            return Some(message);
        };
        if !bundle.push(message.body()) {
            return Some(message);
        }
        self.left = if bundle.is_full() { 0 } else { self.left - 1 };
        None
    }
}
