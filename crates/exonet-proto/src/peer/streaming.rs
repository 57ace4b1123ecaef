//! Messages of streams: when the application may have them (PROTOCOL.md "Streams").

use bytes::Bytes;

use super::{Context, Peer};
use crate::config::Config;
use crate::event::Event;
use crate::half::{Gap, Readers, Receiver, Writers, may_follow};
use crate::id::{MessageId, Slot};
use crate::message::MessageKey;
use crate::message::arrived::Arrived;
use crate::message::waiting::Waiting;
use crate::time::Mono;
use crate::wire::Role;

/// Whether it is the turn of a waiting message of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The application may have the message, and hears what comes before it.
    Now(Gap),
    /// A message before it may still come, or is at the application.
    Later,
    /// A message that follows it in its stream was taken: its turn never comes.
    Never,
    /// The record of the message is gone, or its slot is.
    Stale,
}

impl Peer {
    /// Whether it is the turn of a message of a stream.
    pub(crate) fn turn_of(&self, cx: &Context, waiting: &Waiting) -> Turn {
        let front = waiting.first();
        let s = Slot(front.slots.start);
        let (true, Some((name, mark))) = (self.waits_for(&front), waiting.stream()) else {
            return Turn::Stale;
        };
        let readers = &self.inbound.readers;
        let Some(gap) = readers.gap(name, s, mark) else { return Turn::Never };
        let known = gap == Gap::None || readers.has_room(name, cx.config.limits.lanes);
        let first = may_follow(self.inbound.receiver.as_ref(), &readers.voids, name, s, mark);
        if first && known && self.keeps(&front) { Turn::Now(gap) } else { Turn::Later }
    }

    /// When streams with nothing under way are forgotten: for this long their other end has not been heard, or nothing was sent
    /// to it, so neither end is expected to continue them.
    pub(super) fn streams_until(&self, config: &Config) -> Mono {
        let (inbound, outbound) = (&self.inbound, &self.outbound);
        let lasts = |some: bool, since: Mono| if some { since + config.dead_after } else { Mono::NEVER };
        let read = lasts(!inbound.readers.is_empty() && inbound.receiver.is_none(), inbound.heard_at());
        let written = lasts(!outbound.writers.is_empty() && outbound.is_empty(), outbound.idle_since());
        read.min(written)
    }

    /// Forgets streams: see [`Peer::streams_until`].
    pub(super) fn forget_streams(&mut self, cx: &Context, now: Mono) {
        if self.streams_until(&cx.config) <= now {
            let none =
                self.inbound.receiver.is_none() && self.inbound.heard_at() + cx.config.dead_after <= now;
            if none {
                self.inbound.readers = Readers::default();
            }
            if self.outbound.is_empty() && self.outbound.idle_since() + cx.config.dead_after <= now {
                self.outbound.writers = Writers::default();
            }
        }
    }

    /// Tells the application about a stream if the first message of the stream may be taken.
    pub(crate) fn tell_stream(&self, cx: &mut Context, name: &Bytes) {
        let ready = |first: &Waiting| matches!(self.turn_of(cx, first), Turn::Now(_));
        if cx.inbox.untold(self.place, name).is_some_and(ready) {
            cx.inbox.say_of(self.place, name, true);
            cx.events.push_back(Event::Stream { peer: self.id, name: name.clone() });
        }
    }

    /// As [`Peer::tell_stream`], for all streams of the peer: something has changed for several of them.
    pub(crate) fn tell_streams(&self, cx: &mut Context) {
        let names: Vec<_> = cx.inbox.streams_of(self.place).cloned().collect();
        names.iter().for_each(|name| self.tell_stream(cx, name));
    }

    /// The application has taken or judged a message of a stream: the messages behind it may be taken, and none before it.
    pub(super) fn stream_goes_on(&mut self, cx: &mut Context, arrived: &Arrived) {
        let Role::Stream(mark) = arrived.role else { return };
        if let Some(reader) = self.inbound.readers.take(&arrived.tag, arrived.id.s, mark) {
            self.journal_reader(cx, &arrived.tag, reader);
        }
    }

    /// The application has heard that the stream breaks before this message: it hears that once.
    pub(crate) fn stream_broke(&mut self, cx: &mut Context, name: &Bytes, next: MessageId) {
        let lives = self.inbound.receiver.as_ref().is_some_and(|record| record.incarnation() == next.r);
        if lives && let Some(reader) = self.inbound.readers.break_off(name, next.s) {
            self.journal_reader(cx, name, reader);
        }
    }

    /// A message that was bound has gone back into its queue.
    pub(super) fn journal_stream_back(&mut self, cx: &mut Context, key: MessageKey) {
        let letter = cx.store.get(key).filter(|letter| matches!(letter.role, Role::Stream(_)));
        if let Some(name) = letter.map(|letter| letter.tag.clone()) {
            self.journal_writer(cx, &name);
        }
    }

    /// A message that may not be taken any more leaves its row. Its slot stays as it is.
    pub(crate) fn drop_passed(&mut self, cx: &mut Context, arrived: &Arrived) {
        let MessageId { s, r, .. } = arrived.id;
        self.discard(cx, arrived.held());
        self.inbound.evict_pending(s, r, Some(&arrived.lane()), arrived.wire_len);
    }

    /// Drops the messages at the front of a stream that are not wanted any more, so that the messages behind them are seen.
    pub(super) fn drop_stale_of(&mut self, cx: &mut Context, name: &Bytes) {
        let stale = |peer: &Self, first: &Waiting| !peer.waits_for(&first.first());
        while cx.inbox.first_of(self.place, name).is_some_and(|first| stale(self, first))
            && let Some(arrived) = cx.inbox.pop_of(self.place, name)
        {
            self.drop_stale(cx, &arrived);
        }
    }

    /// Whether the frontier `l` passes free slots: messages that were to follow those in them may be taken.
    pub(super) fn passes_free(&self, l: Slot) -> bool {
        let free = |record: &Receiver| {
            let (_, _, free) = record.parts();
            free.first().is_some_and(|first| first < l.0)
        };
        self.inbound.receiver.as_ref().is_some_and(free)
    }
}
