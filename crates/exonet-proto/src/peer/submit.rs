//! Messages from the application: checked, counted and queued.

use std::collections::VecDeque;

use bytes::Bytes;

use super::{Context, Gather, Peer};
use crate::event::{BodyWrite, SendError};
use crate::message::{Letter, MAX_STREAM_BODY, MessageKey, Outgoing, Source};
use crate::time::{Mono, Now};
use crate::wire::Role;

impl Context {
    /// Whether this node sends such a message at all.
    pub(crate) fn check(&self, message: &Outgoing, source: &Source, role: Role) -> Result<(), SendError> {
        if self.closing || self.stopped {
            return Err(SendError::Closed);
        }
        if message.tag.len() > 255 {
            return Err(SendError::TagTooLong(message.tag.len()));
        }
        let in_stream = matches!(role, Role::Stream(_));
        if in_stream && message.tag.is_empty() {
            return Err(SendError::NoName);
        }
        let limits = &self.config.limits;
        let is_written = matches!(source, Source::Stream(_));
        let longest = if in_stream { MAX_STREAM_BODY as u64 } else { u64::MAX };
        let limit = longest.min(if is_written { limits.message } else { limits.largest_whole() });
        if source.len() > limit {
            return Err(SendError::TooLarge { size: source.len(), limit });
        }
        Ok(())
    }

    /// A message is not accepted.
    pub(crate) fn refuse(&mut self, message: Outgoing, source: Source) {
        self.store.let_go(message.tag);
        self.store.let_go(message.body);
        self.store.let_go_body(source);
    }

    /// When the node first looks at a message with this deadline that is accepted now.
    pub(super) fn due(&self, now: Mono, deadline: Option<Mono>) -> Option<Mono> {
        let patience = self.config.doubt_timeout.map(|patience| now + patience);
        [deadline, patience].into_iter().flatten().min()
    }

    /// Makes the node look at the message at `at`.
    pub(super) fn look_again(&mut self, key: MessageKey, at: Mono) {
        if let Some(letter) = self.store.get_mut(key) {
            letter.due = at;
            self.deadlines.insert((at, key));
        }
    }
}

impl Peer {
    /// Queues one message, if there is room.
    pub(crate) fn submit(
        &mut self,
        cx: &mut Context,
        now: Now,
        message: Outgoing,
        source: Source,
        role: Role,
    ) -> Result<MessageKey, SendError> {
        if let Err(full) = self.reserve(cx) {
            cx.refuse(message, source);
            return Err(full);
        }
        let key = self.accept_from(cx, now, message, source, role)?;
        self.withdraw_untaken(cx, now);
        Ok(key)
    }

    /// Queues messages of one role while there is room. Accepted messages are reported to `queued`.
    pub(crate) fn submit_all<M: Gather>(
        &mut self,
        cx: &mut Context,
        now: Now,
        messages: &mut impl Iterator<Item = M>,
        role: Role,
        queued: impl FnMut(MessageKey, u32),
    ) -> Result<(), SendError> {
        let sent = self.gather(cx, now, messages, role, queued);
        self.withdraw_untaken(cx, now);
        sent
    }

    /// Whether there is room for one more message. If not, the application is told once there is room.
    pub(super) fn reserve(&mut self, cx: &Context) -> Result<(), SendError> {
        if self.takes_more(cx) { Ok(()) } else { Err(SendError::Full) }
    }

    /// As [`Peer::reserve`], for an application that asks.
    pub(crate) fn takes_more(&mut self, cx: &Context) -> bool {
        let room = self.has_room(&cx.config.limits);
        self.outbound.refused |= !room;
        room
    }

    /// Queues a message for which there is room.
    pub(super) fn accept_from(
        &mut self,
        cx: &mut Context,
        now: Now,
        message: Outgoing,
        source: Source,
        role: Role,
    ) -> Result<MessageKey, SendError> {
        let largest = self.outbound.limits.message;
        let fits = source.len() <= largest;
        let too_large = SendError::TooLarge { size: source.len(), limit: largest };
        if let Err(error) = cx.check(&message, &source, role).and(if fits { Ok(()) } else { Err(too_large) })
        {
            cx.refuse(message, source);
            return Err(error);
        }
        let due = cx.due(now.mono, message.deadline);
        let key = cx.store.insert(Letter::new(self.place, message, source, role));
        self.outbound.submit(&cx.clock, &mut cx.store, key);
        if let Some(at) = due {
            cx.look_again(key, at);
        }
        self.journal_put(cx, now, key);
        cx.follow_accepted(self, key, 1);
        cx.stats.sent += 1;
        cx.stats.calls += u64::from(role == Role::Call);
        Ok(key)
    }

    /// Writes the next bytes of a message whose body the application gives piece by piece.
    pub(crate) fn body_write(
        &mut self,
        cx: &mut Context,
        now: Now,
        key: MessageKey,
        data: &mut Bytes,
    ) -> BodyWrite {
        let window = cx.config.limits.body_window();
        let limit = cx.config.limits.message.min(self.outbound.limits.message);
        let Some(letter) = cx.store.get_mut(key).filter(|letter| !letter.served) else {
            return BodyWrite::Gone;
        };
        if letter.source.is_unmeasured() && letter.source.len().saturating_add(data.len() as u64) > limit {
            return BodyWrite::TooLarge { limit };
        }
        let mut pieces = VecDeque::new();
        let room = if letter.is_large() { window } else { letter.wire_len() };
        let taken = letter.source.write(data, room);
        letter.writer_waits = !data.is_empty();
        self.outbound.bytes = self.outbound.bytes.saturating_add(taken as u64);
        self.outbound.largest = self.outbound.largest.max(letter.source.len());
        if !letter.is_large() && letter.available() == letter.wire_len() {
            pieces = letter.source.join();
        }
        if letter.is_cut() {
            let wait = self.link.pto() * 2;
            self.outbound.on_written(now.mono, letter, wait);
        }
        self.outbound.enqueue(key, letter);
        pieces.into_iter().for_each(|piece| cx.store.let_go(piece));
        BodyWrite::Taken(taken)
    }

    /// Ends a message whose length was not known: it has been written to its end.
    pub(crate) fn body_end(&mut self, now: Now, letter: &mut Letter, key: MessageKey) -> bool {
        if letter.served || !letter.source.end() {
            return false;
        }
        letter.writer_waits = false;
        let total = letter.wire_len();
        if let Some(fragments) = letter.fragments.as_mut() {
            fragments.end_at(total);
            let wait = self.link.pto() * 2;
            self.outbound.on_written(now.mono, letter, wait);
        }
        self.outbound.enqueue(key, letter);
        true
    }
}
