//! Small messages that are queued together are kept together: see [`Bundle`].

use core::borrow::BorrowMut;

use bytes::Bytes;

use super::{Context, Peer};
use crate::event::SendError;
use crate::half::Sender;
use crate::message::{
    Alike, BUNDLED, BUNDLED_WHOLE, Bundle, Ending, Letter, MessageKey, Outcome, Outgoing, Source, Store,
};
use crate::time::Now;
use crate::wire::{ALIKE_HEAD, Role};

/// A message that may be kept together with others.
pub(crate) trait Gather {
    fn body(&self) -> &[u8];
    /// Whether it has all this, and nothing of its own but its body.
    fn is(&self, alike: &Alike) -> bool;
    /// What it may have in common with others. None: it is kept by itself.
    fn alike(&self) -> Option<Alike>;
    fn into_outgoing(self) -> Outgoing;
}

/// A message of the caller's, or one that it lends; of a stream or not, as all of a call.
pub(crate) struct Lent<M> {
    pub(crate) message: M,
    pub(crate) in_stream: bool,
}

impl<M: BorrowMut<Outgoing>> Gather for Lent<M> {
    fn body(&self) -> &[u8] {
        &self.message.borrow().body
    }

    #[inline]
    fn is(&self, alike: &Alike) -> bool {
        alike.in_stream == self.in_stream && alike.is_of(self.message.borrow())
    }

    fn alike(&self) -> Option<Alike> {
        Alike::of(self.message.borrow(), self.in_stream)
    }

    fn into_outgoing(mut self) -> Outgoing {
        core::mem::take(self.message.borrow_mut())
    }
}

/// The body of a message whose rest it has in common with all of a call. It is copied if it is not kept together with others.
pub(crate) struct Bare<'a, B> {
    pub(crate) body: B,
    pub(crate) alike: &'a Alike,
}

impl<B: AsRef<[u8]>> Gather for Bare<'_, B> {
    fn body(&self) -> &[u8] {
        self.body.as_ref()
    }

    #[inline]
    fn is(&self, _: &Alike) -> bool {
        true
    }

    fn alike(&self) -> Option<Alike> {
        Some(self.alike.clone())
    }

    fn into_outgoing(self) -> Outgoing {
        self.alike.with(Bytes::copy_from_slice(self.body.as_ref()))
    }
}

/// Messages that have been accepted one behind the other and are not yet queued: one, or a bundle.
struct Gathered<M> {
    first: Option<M>,
    bundle: Option<Box<Bundle>>,
    alike: Alike,
    /// Of each body.
    len: usize,
    /// How many more like them there is room for.
    left: usize,
}

impl<M> Default for Gathered<M> {
    fn default() -> Self {
        Self { first: None, bundle: None, alike: Alike::default(), len: 0, left: 0 }
    }
}

impl Peer {
    /// Queues messages while there is room, together where they are alike.
    pub(super) fn gather<M: Gather>(
        &mut self,
        cx: &mut Context,
        now: Now,
        messages: &mut impl Iterator<Item = M>,
        role: Role,
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
            if let Some(alike) = message.alike()
                && self.bundles(cx, &alike, len)
            {
                (gathered.alike, gathered.len) = (alike, len);
                gathered.left = self.room_for(cx, len).saturating_sub(1);
                gathered.first = Some(message);
                continue;
            }
            match self.accept_one(cx, now, message.into_outgoing(), role) {
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
        role: Role,
    ) -> Result<MessageKey, SendError> {
        let source = cx.store.body(core::mem::take(&mut message.body));
        self.accept_from(cx, now, message, source, role)
    }

    /// Queues what was gathered.
    fn queue<M: Gather>(
        &mut self,
        cx: &mut Context,
        now: Now,
        gathered: &mut Gathered<M>,
        queued: &mut impl FnMut(MessageKey, u32),
    ) -> Result<(), SendError> {
        let Gathered { first, bundle, alike, .. } = core::mem::take(gathered);
        if let Some(message) = first {
            queued(self.accept_one(cx, now, message.into_outgoing(), alike.role())?, 1);
        }
        if let Some(bundle) = bundle {
            let (count, common) = (bundle.count(), alike.with(Bytes::new()));
            let letter = Letter::new(self.place, common, Source::Bundle(bundle), alike.role());
            let key = cx.store.insert(letter);
            self.journal_put_span(cx, key);
            self.outbound.submit(&cx.clock, &mut cx.store, key);
            cx.stats.sent += u64::from(count);
            queued(key, count);
        }
        Ok(())
    }

    /// Whether messages of this length to the peer are bundled. What may leave with an opening is not: each of it is chosen
    /// by itself; nor what the node's patience is counted for, from the departure of each; nor what is bound before it leaves, since
    /// its journal is forced to the disk; nor, but on a fast path, what may be cut to fill a packet. The
    /// journal has no word for a head that several have.
    fn bundles(&self, cx: &Context, alike: &Alike, body: usize) -> bool {
        let Self { outbound, link, .. } = self;
        let most = if link.recovery.is_fast() { BUNDLED_WHOLE } else { BUNDLED };
        let fits = body <= most && body as u64 <= outbound.limits.message.min(cx.config.limits.message);
        let granted = outbound.sender.as_ref().and_then(Sender::incarnation).is_some();
        let journaled = cx.journal.is_on() && (cx.journal.is_forced() || !alike.is_plain());
        fits && granted && cx.config.doubt_timeout.is_none() && !journaled
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
            let (ending, lane) = (Ending { bound, journaled, ..letter.ending() }, letter.lane);

            self.outbound.forget_bundled(key, letter, bound, n);

            if let Some(held) = cx.store.end_bundled(key, n) {
                self.outbound.bundle_ended(lane, held);
            }
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
        if self.left == 0 || !message.is(&self.alike) {
            return Some(message);
        }
        if let Some(first) = &self.first {
            // Whose they are may give another body each time: what is looked at here is what is taken.
            let body = first.body();
            if body.len() != self.len || message.body().len() != self.len {
                return Some(message);
            }
            let plain = self.alike.is_plain().then_some(self.alike.priority as u8);
            let bundle = store.bundle(plain.unwrap_or(ALIKE_HEAD[0]), self.len);
            self.bundle.insert(bundle).push(body);
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
