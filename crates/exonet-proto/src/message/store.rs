//! Every message that this node was asked to send and that is not settled.

use core::ops::Range;

use bytes::Bytes;

use super::fragments::TRIAL;
use super::lane::{LaneKey, Load};
use super::{Bundle, Flow, Fragments, Halves, POOLED, Shelf, Source};
use super::{Confirm, Early, MessageKey, Outgoing, Priority};
use crate::id::{Incarnation, LetterId, Slot};
use crate::time::Mono;
use crate::wire::Traceparent;
use crate::wire::{Role, StreamMark};

/// The longest head that is written: flags, the tag's length, a tag of 255 bytes, the role, the trace.
pub(crate) const HEAD_ROOM: usize = 257 + Role::MAX + Traceparent::MAX;

/// The longest body of a message of a stream, in bytes. A longer body is sent in several messages that say so.
pub const MAX_STREAM_BODY: usize = (64 << 10) - HEAD_ROOM;
const _: () = assert!(MAX_STREAM_BODY as u64 + HEAD_ROOM as u64 <= POOLED);

/// An outgoing message.
#[derive(Debug)]
pub(crate) struct Letter {
    /// The place of the peer in the node's table.
    pub(crate) peer: u32,
    pub(crate) tag: Bytes,
    /// See [`Letter::set_mark`].
    pub(crate) role: Role,
    /// The bytes of the head.
    head: u16,
    /// The lane of the letter to the peer, once it is queued.
    pub(crate) lane: LaneKey,
    pub(crate) priority: Priority,
    pub(crate) source: Source,
    pub(crate) deadline: Option<Mono>,
    /// When the node next looks at the letter for its deadline or its time in doubt; usually never.
    pub(crate) due: Mono,
    /// The deadline passed after the message had left.
    pub(crate) late: bool,
    /// Whether the message may leave beside an opening.
    pub(crate) early: Early,
    /// The sender wants to be told that the message was processed.
    pub(crate) confirm: bool,
    /// The trace that the message is part of.
    pub(crate) trace: Option<Box<Traceparent>>,
    /// The slot, once bound; under [`Incarnation::UNNAMED`] while the message is early.
    pub(crate) bound: Option<(Slot, Incarnation)>,
    /// When it was bound.
    pub(crate) bound_at: Mono,
    /// The number of the message among those to its peer, in the order in which they were accepted.
    pub(crate) order: u64,
    /// The journal's name of the message, if it is journaled.
    pub(crate) journaled: Option<LetterId>,
    /// The group of the journal that has the message. Zero: only the snapshot has it.
    pub(crate) group: u64,
    /// Bytes of memory that wait with the letter, as the store counts them.
    resident: u64,
    /// The message is bound, and waits until that is safe: see [`crate::journal`].
    pub(crate) unsafe_yet: bool,
    /// The message is a call that was delivered: it waits for the reply, without its body.
    pub(crate) served: bool,
    /// The channel reported every byte as acknowledged.
    pub(crate) acked: bool,
    /// The message is one of the large messages under way.
    pub(crate) counted: bool,
    /// The message is in the send queue.
    pub(crate) queued: bool,
    /// A streamed write was refused for lack of room.
    pub(crate) writer_waits: bool,
    /// Present while the message is cut in two and none of it was lost.
    pub(crate) halves: Option<Halves>,
    /// Present once the message has been cut otherwise.
    pub(crate) fragments: Option<Box<Fragments>>,
}

impl Letter {
    /// `peer` is the peer's place; the body is in `source`.
    pub(crate) fn new(peer: u32, message: Outgoing, source: Source, role: Role) -> Self {
        Self {
            peer,
            head: head_len(&message.tag, role, message.trace.is_some()),
            tag: message.tag,
            role,
            lane: LaneKey::PLAIN,
            priority: message.priority,
            source,
            deadline: message.deadline,
            due: Mono::NEVER,
            late: false,
            early: message.early,
            confirm: message.confirm == Confirm::Processed,
            trace: message.trace,
            bound: None,
            bound_at: Mono(0),
            order: 0,
            journaled: None,
            group: 0,
            resident: 0,
            unsafe_yet: false,
            served: false,
            acked: false,
            counted: false,
            queued: false,
            writer_waits: false,
            halves: None,
            fragments: None,
        }
    }

    /// The messages that were queued together. The bundle has what differs among them; the letter has the rest.
    pub(crate) fn bundle(&self) -> Option<&Bundle> {
        match &self.source {
            Source::Bundle(bundle) => Some(bundle),
            _ => None,
        }
    }

    pub(crate) fn bundle_mut(&mut self) -> Option<&mut Bundle> {
        match &mut self.source {
            Source::Bundle(bundle) => Some(bundle),
            _ => None,
        }
    }

    /// How many messages are not settled.
    pub(crate) fn open(&self) -> u32 {
        self.bundle().map_or(1, Bundle::open)
    }

    /// How many unsettled messages have no slot.
    pub(crate) fn unbound(&self) -> u32 {
        self.bundle().map_or(u32::from(self.bound.is_none()), Bundle::unbound)
    }

    /// The slot of one of its messages, once bound.
    pub(crate) fn slot_of(&self, key: MessageKey) -> Option<(Slot, Incarnation)> {
        self.bundle().map_or(self.bound, |bundle| bundle.bound(key.at).0)
    }

    /// Whether the channel reported every byte of one of the messages as acknowledged.
    pub(crate) fn is_acked(&self, key: MessageKey) -> bool {
        self.bundle().map_or(self.acked, |bundle| bundle.is_acked(key.at))
    }

    /// Notes that the message of `key`, which is bound, is acknowledged, and up to `most` in all of those behind it that are
    /// bound to consecutive slots. Returns how many.
    pub(crate) fn note_acked(&mut self, key: MessageKey, most: u64) -> u32 {
        let Some(bundle) = self.bundle_mut() else {
            self.acked = true;
            return 1;
        };
        let (_, bound) = bundle.bound(key.at);
        let n = u32::try_from(most).unwrap_or(u32::MAX).min(bound).max(1);
        bundle.note_acked(key.at..key.at.saturating_add(n));
        n
    }

    /// The message was not acknowledged after all.
    pub(crate) fn note_missed(&mut self, key: MessageKey) {
        match self.bundle_mut() {
            Some(bundle) => bundle.note_missed(key.at),
            None => self.acked = false,
        }
    }

    /// The body of one of the messages, as far as it lies in one piece.
    #[inline]
    pub(crate) fn body_of(&self, key: MessageKey) -> &[u8] {
        match &self.source {
            Source::Bundle(bundle) => bundle.body_of(key.at),
            source => source.part(0..u64::MAX),
        }
    }

    #[inline]
    pub(crate) fn head_len(&self) -> u64 {
        u64::from(self.head)
    }

    /// Sets the place of the message in its stream.
    pub(crate) fn set_mark(&mut self, mark: StreamMark) {
        self.role = Role::Stream(mark);
        self.head = head_len(&self.tag, self.role, self.trace.is_some());
    }

    /// Whether the message answers a call: its outcome concerns only the node.
    pub(crate) const fn is_reply(&self) -> bool {
        matches!(self.role, Role::Reply { .. })
    }

    /// The role of one of the messages.
    pub(crate) fn role_of(&self, key: MessageKey) -> Role {
        match (self.role, self.bundle().and_then(|bundle| bundle.mark_of(key.at))) {
            (Role::Stream(_), Some(mark)) => Role::Stream(mark),
            (role, _) => role,
        }
    }

    /// As [`Letter::wire_len`], for one of the messages.
    pub(crate) fn wire_len_of(&self, key: MessageKey) -> u64 {
        let own = self.role_of(key).encoded_len() as u64;
        self.wire_len() + own - self.role.encoded_len() as u64
    }

    /// The length of the wire form: head and body. If the length was not known at first, the end counts as a byte, and lies
    /// beyond every offset until it is known.
    #[inline]
    pub(crate) fn wire_len(&self) -> u64 {
        self.head_len() + self.source.extent()
    }

    /// The length that is sent with each part. None if it was not known at first.
    pub(crate) fn said_len(&self) -> Option<u64> {
        (!self.source.is_unmeasured()).then(|| self.wire_len())
    }

    /// Whether everything that can be sent of the message has been acknowledged: only a report of the receiver allows more.
    pub(crate) fn is_spent(&self) -> bool {
        if let Some(halves) = &self.halves {
            return halves.is_acked();
        }
        let available = if self.writer_waits { self.available() } else { u64::MAX };
        self.fragments.as_ref().is_some_and(|cut| cut.is_acked() || cut.is_stalled(available))
    }

    /// Whether the message has been cut: it does not go whole any more.
    pub(crate) fn is_cut(&self) -> bool {
        self.halves.is_some() || self.fragments.is_some()
    }

    /// The record of its parts, if the message has been cut.
    pub(crate) fn parts_mut(&mut self) -> Option<&mut Fragments> {
        if let Some(halves) = self.halves.take() {
            self.fragments = Some(Box::new(halves.into_fragments(self.wire_len())));
        }
        self.fragments.as_deref_mut()
    }

    /// Whether all of the message has left at least once.
    pub(crate) fn is_sent(&self) -> bool {
        self.halves.is_none_or(|halves| halves.sent) && self.fragments.as_ref().is_none_or(|f| f.is_sent())
    }

    /// Whether the message has a window of its own.
    pub(crate) fn is_large(&self) -> bool {
        self.source.is_unmeasured() || self.wire_len() > POOLED
    }

    /// How many bytes of the message a peer gets that has found no room for it, before it holds something of it: all of one
    /// that shares the pool.
    pub(crate) fn trial(&self) -> u64 {
        if self.is_large() { TRIAL } else { u64::MAX }
    }

    /// How many bytes of the wire form are available.
    pub(crate) fn available(&self) -> u64 {
        self.head_len() + self.source.available()
    }

    /// The wire form at `range`, as a part of the head and a part of the body. Shorter if the body does not lie in one piece or
    /// is not available.
    pub(crate) fn part<'a>(&'a self, range: Range<u64>, room: &'a mut [u8; HEAD_ROOM]) -> [&'a [u8]; 2] {
        let head_len = self.head_len();
        let head = if range.start < head_len { self.head(room) } else { &[] };
        let from = usize::try_from(range.start).unwrap_or(usize::MAX).min(head.len());
        let to = usize::try_from(range.end).unwrap_or(usize::MAX).min(head.len());
        let start = range.start.max(head_len);
        let body = self.source.part(start - head_len..range.end.max(start) - head_len);
        [head.get(from..to).unwrap_or_default(), body]
    }

    /// How many bytes of `range` [`Letter::part`] would return.
    pub(crate) fn part_len(&self, range: Range<u64>) -> u64 {
        let head_len = self.head_len();
        let start = range.start.max(head_len);
        let body = self.source.part(start - head_len..range.end.max(start) - head_len);
        let len = start.min(range.end) - range.start + body.len() as u64;
        let end = range.start + len + 1;
        let ends = self.source.is_unmeasured() && end == range.end && end == self.wire_len();
        len + u64::from(ends)
    }

    /// The head of a message without a tag and a role: its flags.
    pub(crate) fn short_head(&self) -> Option<[u8; 1]> {
        let bare = self.tag.is_empty() && self.role == Role::Plain;
        let short = bare && !self.confirm && self.trace.is_none();
        short.then_some([self.priority as u8])
    }

    /// Whether one of the messages, right behind a message of `other` in a frame, is alike to it (PROTOCOL.md "Message head"),
    /// and is shorter because of that.
    pub(crate) fn is_alike(&self, key: MessageKey, other: &Self, before: MessageKey) -> bool {
        let next = match other.role_of(before) {
            Role::Stream(mark) => mark.nth(1).map(Role::Stream),
            Role::Plain => Some(Role::Plain),
            Role::Call | Role::Reply { .. } => None,
        };
        next == Some(self.role_of(key))
            && self.short_head().is_none()
            && self.trace.is_none()
            && other.trace.is_none()
            && (&self.tag, self.priority, self.confirm) == (&other.tag, other.priority, other.confirm)
    }

    /// What is needed to end the message.
    pub(crate) fn ending(&self) -> Ending {
        let Self { role, confirm, due, late, bound, journaled, .. } = *self;
        Ending { role, confirm, due, late, bound, journaled }
    }

    /// The load of each message in its lane once it is bound, if it is pooled. Places in a stream differ in length, so each
    /// counts as the longest.
    pub(crate) fn pooled(&self) -> Load {
        match (self.role, self.bundle()) {
            _ if self.is_large() => Load::default(),
            (Role::Stream(mark), Some(_)) => {
                Load::one(self.wire_len() + (StreamMark::MAX - mark.encoded_len()) as u64)
            }
            _ => Load::one(self.wire_len()),
        }
    }

    /// The flow in which the message queues.
    pub(crate) fn flow(&self) -> Flow {
        let large = self.is_large();
        let laned = !large && self.lane != LaneKey::PLAIN;
        if laned { Flow::laned(self.priority) } else { Flow::of(self.priority, large) }
    }

    /// The head as PROTOCOL.md "Message head" lays it out.
    pub(crate) fn head<'a>(&self, room: &'a mut [u8; HEAD_ROOM]) -> &'a [u8] {
        self.head_as(self.role, room)
    }

    /// As [`Letter::head`], for one of the messages.
    pub(crate) fn head_of<'a>(&self, key: MessageKey, room: &'a mut [u8; HEAD_ROOM]) -> &'a [u8] {
        self.head_as(self.role_of(key), room)
    }

    fn head_as<'a>(&self, role: Role, room: &'a mut [u8; HEAD_ROOM]) -> &'a [u8] {
        let tag = self.tag.len();
        let trace = self.trace.as_deref();
        let written = 1 + if tag > 0 { 1 + tag } else { 0 } + role.encoded_len_with(trace.is_some());
        let [flags, rest @ ..] = room;
        let kind = match role {
            Role::Plain => 0,
            Role::Call | Role::Reply { .. } => 1 << 3,
            Role::Stream(_) => 1 << 4,
        };
        *flags = self.priority as u8 | u8::from(tag > 0) << 2 | kind;
        *flags |= u8::from(self.confirm) << 5 | u8::from(trace.is_some()) << 3;
        let (front, behind) = rest.split_at_mut(if tag > 0 { (1 + tag).min(256) } else { 0 });
        if let [len, room @ ..] = front {
            *len = u8::try_from(tag).unwrap_or(u8::MAX);
            room.iter_mut().zip(self.tag.iter()).for_each(|(to, from)| *to = *from);
        }
        role.encode_with(trace, behind);
        room.get(..written).unwrap_or_default()
    }
}

/// The bytes of a head: the flags, the tag behind its length, the role, the trace.
fn head_len(tag: &Bytes, role: Role, traced: bool) -> u16 {
    let tag = if tag.is_empty() { 0 } else { 1 + tag.len() };
    u16::try_from(1 + tag + role.encoded_len_with(traced)).unwrap_or(u16::MAX)
}

/// What is kept of a letter when its outcome is reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    pub(crate) role: Role,
    pub(crate) confirm: bool,
    pub(crate) due: Mono,
    pub(crate) late: bool,
    pub(crate) bound: Option<(Slot, Incarnation)>,
    pub(crate) journaled: Option<LetterId>,
}

#[derive(Debug)]
struct Place {
    generation: u32,
    letter: Option<Letter>,
}

/// How many bytes of memory of bundles are kept to be reused: usually what one STATE on a fast path settles.
const SPARE: usize = 2 << 20;

/// A slab of letters: a dense index for tables beside it, and a generation, so that a stale key finds nothing.
#[derive(Debug, Default)]
pub(crate) struct Store {
    places: Vec<Place>,
    free: Vec<u32>,
    /// How many messages are open.
    len: usize,
    /// Bytes of memory that wait with journaled messages.
    resident: u64,
    /// The generation of a new place: above that of every place that was given back.
    fresh: u32,
    /// Bundles that have ended, to be reused, with their boxes, as letters hold them.
    #[allow(clippy::vec_box)]
    spare: Vec<Box<Bundle>>,
    /// Bytes of memory of these bundles.
    spared: usize,
    /// What the application gave and the node does not need any more, if it is to be kept.
    spent: Vec<Bytes>,
    keeps: bool,
}

impl Store {
    /// Makes room for `more` letters.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.places.reserve_exact(more);
    }

    /// How many letters there are at most.
    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn insert(&mut self, letter: Letter) -> MessageKey {
        self.len += letter.open() as usize;
        while let Some(index) = self.free.pop() {
            if let Some(place) = self.places.get_mut(index as usize) {
                place.letter = Some(letter);
                return MessageKey { index, generation: place.generation, at: 0 };
            }
        }
        let index = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        self.places.push(Place { generation: self.fresh, letter: Some(letter) });
        MessageKey { index, generation: self.fresh, at: 0 }
    }

    /// A bundle without messages.
    pub(crate) fn bundle(&mut self, flags: u8, body: usize) -> Box<Bundle> {
        let mut bundle = self.spare.pop().unwrap_or_default();
        self.spared = self.spared.saturating_sub(bundle.memory());
        bundle.begin(flags, body);
        bundle
    }

    /// The letter that holds a message. The message itself may be settled if it was queued together with others.
    pub(crate) fn get(&self, key: MessageKey) -> Option<&Letter> {
        let place = self.places.get(key.index as usize)?;
        place.letter.as_ref().filter(|_| place.generation == key.generation)
    }

    /// As [`Store::get`].
    pub(crate) fn get_mut(&mut self, key: MessageKey) -> Option<&mut Letter> {
        let place = self.places.get_mut(key.index as usize)?;
        let current = place.generation == key.generation;
        place.letter.as_mut().filter(|_| current)
    }

    /// As [`Store::get`], if the message is open.
    pub(crate) fn open(&self, key: MessageKey) -> Option<&Letter> {
        let own = |letter: &&Letter| letter.bundle().map_or(key.at == 0, |bundle| bundle.is_open(key.at));
        self.get(key).filter(own)
    }

    pub(crate) fn keep_spent(&mut self) {
        self.keeps = true;
    }

    pub(crate) fn take_spent(&mut self, spent: &mut Vec<Bytes>) {
        spent.append(&mut self.spent);
    }

    /// Drops bytes of the application that are not needed any more. Their destructor may belong to the application too.
    pub(crate) fn let_go(&mut self, bytes: Bytes) {
        if self.keeps && !bytes.is_empty() {
            self.spent.push(bytes);
        }
    }

    /// Drops a body that is not needed any more.
    pub(crate) fn let_go_body(&mut self, source: Source) {
        match source {
            Source::Whole(body) => self.let_go(body),
            Source::Stream(stream) => stream.into_chunks().for_each(|chunk| self.let_go(chunk)),
            Source::Small { .. } | Source::Bundle(_) => {}
        }
    }

    /// The body of a message in the form in which it is kept.
    pub(crate) fn body(&mut self, body: Bytes) -> Source {
        let (source, rest) = Source::whole(body);
        self.let_go(rest);
        source
    }

    /// Keeps the bytes that wait with a journaled message in memory, if there is room, or on the shelf.
    pub(crate) fn keep(&mut self, key: MessageKey, shelf: &Shelf) {
        let resident = self.resident;
        let Some(letter) = self.get_mut(key) else { return };
        let waiting = letter.source.waiting();
        match shelf.put(resident, waiting) {
            Some(kept) => {
                let given = letter.source.move_to(kept);
                self.let_go(given);
            }
            None => {
                letter.resident = waiting.len() as u64;
                self.resident += letter.resident;
            }
        }
    }

    /// Bytes of memory that wait with journaled messages: the running count and a fresh one.
    pub(crate) fn resident(&self) -> (u64, u64) {
        (self.resident, self.iter().map(|(_, letter)| letter.resident).sum())
    }

    /// Drops a letter that has left the store.
    pub(crate) fn bury(&mut self, letter: Letter) {
        self.let_go(letter.tag);
        self.let_go_body(letter.source);
    }

    pub(crate) fn remove(&mut self, key: MessageKey) -> Option<Letter> {
        let letter =
            self.places.get_mut(key.index as usize).filter(|place| place.generation == key.generation);
        let letter = letter?.letter.take()?;
        self.resident -= letter.resident;
        self.vacate(key, letter.open());
        Some(letter)
    }

    /// As [`Store::remove`], for a letter that only `look` still sees.
    pub(crate) fn drop_after<T>(&mut self, key: MessageKey, look: impl FnOnce(&Letter) -> T) -> Option<T> {
        let letter = self.get(key)?;
        let (open, seen) = (letter.open(), look(letter));
        let letter = self.places.get_mut(key.index as usize).and_then(|place| place.letter.take());
        self.vacate(key, open);
        if let Some(letter) = letter {
            self.resident -= letter.resident;
            self.bury(letter);
        }
        Some(seen)
    }

    /// Removes `n` messages of a bundle from `key` on, all bound or none, and with the last message the bundle. In that case
    /// returns the bytes that the bundle held for messages that had ended before.
    pub(crate) fn end_bundled(&mut self, key: MessageKey, n: u32) -> Option<u64> {
        let bundle = self.get_mut(key).and_then(Letter::bundle_mut)?;
        let ended = bundle.end(key.at..key.at.saturating_add(n));
        let (over, held) = (bundle.open() == 0, bundle.held());
        self.len -= ended as usize;
        if over && let Some(Letter { source: Source::Bundle(bundle), tag, .. }) = self.remove(key) {
            self.let_go(tag);
            if self.spared + bundle.memory() <= SPARE {
                self.spared += bundle.memory();
                self.spare.push(bundle);
            }
        }
        over.then_some(held)
    }

    /// Frees the place of a letter that is gone, with `open` of its messages.
    fn vacate(&mut self, key: MessageKey, open: u32) {
        let Some(place) = self.places.get_mut(key.index as usize) else { return };
        place.generation = place.generation.wrapping_add(1);
        self.free.push(key.index);
        self.len -= open as usize;
        if self.len == 0 && self.places.len() > 4_096 {
            self.shrink();
        }
    }

    /// Frees memory after a burst; a stale key still finds nothing.
    fn shrink(&mut self) {
        let newest = self.places.iter().map(|place| place.generation).max().unwrap_or(0);
        self.fresh = newest.wrapping_add(1);
        self.places = Vec::new();
        self.free = Vec::new();
    }

    /// Frees memory that is kept only for speed.
    pub(crate) fn rest(&mut self) {
        (self.spare, self.spared) = (Vec::new(), 0);
    }

    /// How many messages are open.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Every letter, under the key of its first message.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (MessageKey, &Letter)> {
        letters(0, &self.places)
    }

    /// Every open message, with its letter.
    pub(crate) fn messages(&self) -> impl Iterator<Item = (MessageKey, &Letter)> {
        messages(self.iter())
    }

    /// The open messages in `n` places from `from` on, and the place behind these, if there is one.
    pub(crate) fn messages_from(
        &self,
        from: u32,
        n: u32,
    ) -> (impl Iterator<Item = (MessageKey, &Letter)>, Option<u32>) {
        let rest = self.places.get(from as usize..).unwrap_or_default();
        let part = rest.get(..n as usize).unwrap_or(rest);
        let next = (part.len() < rest.len()).then(|| from.saturating_add(n));
        (messages(letters(from, part)), next)
    }
}

/// The letters in `places`, the first of which has the index `from`.
fn letters(from: u32, places: &[Place]) -> impl Iterator<Item = (MessageKey, &Letter)> {
    (from..).zip(places).filter_map(|(index, place)| {
        let key = MessageKey { index, generation: place.generation, at: 0 };
        place.letter.as_ref().map(|letter| (key, letter))
    })
}

/// The open messages of letters.
fn messages<'a>(
    letters: impl Iterator<Item = (MessageKey, &'a Letter)>,
) -> impl Iterator<Item = (MessageKey, &'a Letter)> {
    letters.flat_map(|(key, letter)| {
        let bundled = letter.bundle().into_iter().flat_map(Bundle::iter);
        let lone = letter.bundle().is_none().then_some(0);
        bundled.chain(lone).map(move |at| (key.nth(at), letter))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(tag: &'static [u8], body: &'static [u8]) -> Letter {
        let message = Outgoing { tag: tag.into(), priority: Priority::Low, ..Outgoing::default() };
        Letter::new(0, message, Source::Whole(body.into()), Role::Plain)
    }

    #[test]
    fn the_wire_form_can_be_cut_anywhere() {
        let letter = letter(b"tag", b"body");
        let form = b"\x06\x03tagbody";
        assert_eq!(letter.wire_len(), form.len() as u64);
        for from in 0..form.len() {
            for to in from..=form.len() {
                let mut room = [0; HEAD_ROOM];
                let part = letter.part(from as u64..to as u64, &mut room).concat();
                assert_eq!(part, form[from..to]);
                assert_eq!(letter.part_len(from as u64..to as u64), part.len() as u64);
            }
        }
        assert_eq!(letter.part_len(5..20), 4, "no more than there is");
    }

    #[test]
    fn a_stale_key_finds_nothing_even_after_shrinking() {
        let mut store = Store::default();
        let keys: Vec<_> = (0..5_000).map(|_| store.insert(letter(b"", b"x"))).collect();
        for key in &keys {
            assert!(store.remove(*key).is_some());
            assert!(store.remove(*key).is_none());
        }
        assert_eq!(store.len(), 0);
        let new: Vec<_> = (0..5_000).map(|_| store.insert(letter(b"", b"y"))).collect();
        assert!(keys.iter().all(|key| store.get(*key).is_none()));
        assert!(new.iter().all(|key| store.get(*key).is_some()));
    }
}
