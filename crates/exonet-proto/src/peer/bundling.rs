//! Keeps small messages together that are queued together: see [`Bundle`].

use core::borrow::BorrowMut;
use core::ops::Range;

use bytes::Bytes;

use super::withdrawing::is_withdrawn;
use super::{Context, Peer};
use crate::event::SendError;
use crate::half::Sender;
use crate::id::Slot;
use crate::message::{
    Alike, BUNDLED, BUNDLED_WHOLE, Bundle, Ending, Letter, MessageKey, Outcome, Outgoing, Source, Store,
};
use crate::time::{Mono, Now};
use crate::wire::{ALIKE_HEAD, MAX_EARLY, Role};

/// A message that may be kept together with others.
pub(crate) trait Gather {
    fn body(&self) -> &[u8];
    /// Whether the message has exactly what `alike` says, as another message of the same call does, and nothing else of its own
    /// but its body.
    fn is(&self, alike: &Alike) -> bool;
    /// What the message may have in common with others. None: it is kept by itself.
    fn alike(&self) -> Option<Alike>;
    fn into_outgoing(self) -> Outgoing;
}

/// A message that the caller gives or lends. Either all messages of a call belong to streams, or none does.
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
        alike.is_of(self.message.borrow())
    }

    fn alike(&self) -> Option<Alike> {
        Alike::of(self.message.borrow(), self.in_stream)
    }

    fn into_outgoing(mut self) -> Outgoing {
        core::mem::take(self.message.borrow_mut())
    }
}

/// The body of a message that has everything else in common with all messages of a call. The body is copied if the message is not
/// kept together with others.
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

/// Consecutive messages that have been accepted and are not yet queued: one message, or a bundle.
struct Gathered<M> {
    first: Option<M>,
    bundle: Option<Box<Bundle>>,
    alike: Alike,
    /// The length of each body.
    len: usize,
    /// How many more messages like these there is room for.
    left: usize,
}

impl<M> Default for Gathered<M> {
    fn default() -> Self {
        Self { first: None, bundle: None, alike: Alike::default(), len: 0, left: 0 }
    }
}

impl Peer {
    /// Queues messages while there is room. Messages that are alike are queued together.
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
            if self.bundles(cx, len)
                && let Some(alike) = message.alike().filter(Alike::is_sound)
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

    /// Queues the gathered messages.
    fn queue<M: Gather>(
        &mut self,
        cx: &mut Context,
        now: Now,
        gathered: &mut Gathered<M>,
        queued: &mut impl FnMut(MessageKey, u32),
    ) -> Result<(), SendError> {
        if gathered.is_empty() {
            return Ok(());
        }
        let Gathered { first, bundle, alike, .. } = core::mem::take(gathered);
        if let Some(message) = first {
            queued(self.accept_one(cx, now, message.into_outgoing(), alike.role())?, 1);
        }
        if let Some(bundle) = bundle {
            let (count, common) = (bundle.count(), alike.with(Bytes::new()));
            let due = cx.due(now.mono, alike.deadline);
            let letter = Letter::new(self.place, common, Source::Bundle(bundle), alike.role());
            let key = cx.store.insert(letter);
            self.journal_put_span(cx, now, key);
            self.outbound.submit(&cx.clock, &mut cx.store, key);
            if let Some(at) = due {
                cx.look_again(key, at);
            }
            cx.follow_accepted(self, key, count);
            cx.stats.sent += u64::from(count);
            queued(key, count);
        }
        Ok(())
    }

    /// Whether messages of this length to the peer are bundled. Messages that may leave with an opening are not: nothing has been
    /// granted, few of them wait, and each is chosen by itself. Nor are messages that are bound before they leave, since their
    /// journal is forced to the disk. Messages that may be cut to fill a packet are bundled only on a fast path.
    fn bundles(&self, cx: &Context, body: usize) -> bool {
        let Self { outbound, link, .. } = self;
        let most = if link.recovery.is_fast() { BUNDLED_WHOLE } else { BUNDLED };
        let fits =
            body <= most && body as u64 <= outbound.limits.message.min(cx.config.limits.largest_whole());
        let granted = outbound.sender.as_ref().and_then(Sender::incarnation).is_some();
        // A message behind this many others does not leave with an opening.
        let behind = outbound.unbound() > u64::from(MAX_EARLY);
        fits && (granted || behind) && !cx.journal.is_forced()
    }

    /// How many messages of this length, and with nothing but a body, are accepted now.
    pub(crate) fn room_for_plain(&self, cx: &Context, body: usize) -> usize {
        let found = !self.hints.is_empty() || self.link.is_connected() || self.link.is_answering();
        let fits = found && body as u64 <= self.outbound.limits.message;
        if fits && self.has_room(&cx.config.limits) { self.room_for(cx, body) } else { 0 }
    }

    /// How many messages of this length the peer's queue takes before it is full.
    fn room_for(&self, cx: &Context, body: usize) -> usize {
        let (limits, outbound) = (&cx.config.limits, &self.outbound);
        let bytes = self.bytes_left(limits).div_ceil(body.max(1) as u64);
        let most = limits.queued_messages.saturating_sub(outbound.letters);
        usize::try_from(bytes).unwrap_or(usize::MAX).min(most).max(usize::from(outbound.letters == 0))
    }

    /// Settles messages of a bundle: `count` from `key` on.
    pub(super) fn end_bundled(
        &mut self,
        cx: &mut Context,
        key: MessageKey,
        count: u32,
        outcome: Outcome,
        reason: &str,
    ) {
        let (mut key, mut left) = (key, count);
        while left > 0 {
            let letter = cx.store.get(key);
            let bundle = letter.and_then(|letter| Some((letter, letter.bundle()?.bound(key.at))));
            let Some((letter, (bound, run))) = bundle else {
                return debug_assert!(false, "those that have not ended are there");
            };
            let n = run.clamp(1, left);
            let journaled = letter.journaled.map(|first| first.nth(key.at));
            let (due, lane) = (letter.due, letter.lane);
            // The bundle stays due until its last message has ended.
            let ending = Ending { bound, journaled, due: Mono::NEVER, ..letter.ending() };

            self.outbound.forget_bundled(key, letter, bound, n);

            if let Some(held) = cx.store.end_bundled(key, n) {
                self.outbound.bundle_ended(lane, held);
                if due != Mono::NEVER {
                    cx.deadlines.remove(&(due, key.first()));
                }
            }
            self.conclude(cx, key, n, ending, outcome, reason);
            (key, left) = (key.nth(n), left - n);
        }
    }

    /// As [`Peer::expire`], for messages that were queued together. They have one deadline, and leave at different times.
    pub(super) fn expire_bundled(&mut self, cx: &mut Context, now: Now, key: MessageKey) {
        let passed = self.expire_unbound(cx, now, key);
        let Some(letter) = cx.store.get_mut(key) else { return };
        letter.late |= passed;
        let (deadline, goes) = (letter.deadline.filter(|_| !passed), is_withdrawn(letter.role));
        let mut next = deadline.unwrap_or(Mono::NEVER);
        for (these, bound) in open_runs(letter) {
            // A message is in doubt from when it was bound. A message that has not left is not in doubt.
            let since = bound.map_or(now.mono, |(since, _)| since);
            let given_up = cx.config.doubt_timeout.map_or(Mono::NEVER, |patience| since + patience);
            if given_up <= now.mono {
                these.for_each(|at| self.withdraw_bundled(cx, now, key.nth(at), Outcome::Unknown));
                continue;
            }
            next = next.min(given_up);
            if let Some((_, s)) = bound.filter(|_| passed && goes) {
                let slots = (s.0..).map(Slot).take(these.len());
                slots.for_each(|s| self.outbound.revoke(now.mono, s, Outcome::Expired));
            }
        }
        if next != Mono::NEVER {
            cx.look_again(key, next);
        }
    }

    /// Ends the messages of a bundle that have not left, if their deadline has passed. False: the deadline has not passed.
    fn expire_unbound(&mut self, cx: &mut Context, now: Now, key: MessageKey) -> bool {
        let letter = cx.store.get(key).filter(|letter| letter.deadline.is_some_and(|at| at <= now.mono));
        let Some(letter) = letter else { return false };
        for (these, _) in open_runs(letter).into_iter().filter(|(_, bound)| bound.is_none()) {
            let count = these.end - these.start;
            self.end_bundled(cx, key.nth(these.start), count, Outcome::Expired, "");
        }
        self.make_way(cx, now);
        true
    }

    /// An open message of a bundle leaves the store without a STATE to settle it.
    pub(super) fn withdraw_bundled(&mut self, cx: &mut Context, now: Now, key: MessageKey, outcome: Outcome) {
        if let Some(letter) = cx.store.get(key) {
            self.outbound.abandon_bundled(key, letter);
        }
        self.end_bundled(cx, key, 1, outcome, "");

        self.make_way(cx, now);
    }

    /// Makes use of the room that ended messages leave.
    fn make_way(&mut self, cx: &mut Context, now: Now) {
        self.outbound.admit_large(&mut cx.store);
        self.outbound.note_idle(now.mono);

        self.say_sendable(cx);
    }
}

/// Consecutive messages of a bundle; if they are bound, also since when and from which slot on.
type OpenRun = (Range<u32>, Option<(Mono, Slot)>);

/// The runs of a bundle that are open.
fn open_runs(letter: &Letter) -> Vec<OpenRun> {
    let Some(bundle) = letter.bundle() else { return Vec::new() };
    let since = |these: &Range<u32>| bundle.bound_at(these.start);
    let runs = bundle.runs().map(|(these, bound)| (these.clone(), bound.map(|(s, _)| (since(&these), s))));
    runs.collect()
}

impl<M: Gather> Gathered<M> {
    const fn is_empty(&self) -> bool {
        self.first.is_none() && self.bundle.is_none()
    }

    /// Takes the message if it is like the messages before it; otherwise gives it back.
    #[inline]
    fn join(&mut self, message: M, store: &mut Store) -> Option<M> {
        if self.left == 0 || !message.is(&self.alike) {
            return Some(message);
        }
        if let Some(first) = &self.first {
            // The caller's code may return another body each time: the body that is checked here is the one that is taken.
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
