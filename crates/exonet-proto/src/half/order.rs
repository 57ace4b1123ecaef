//! Streams: which message of a stream may be taken next (PROTOCOL.md "Streams").
//!
//! A message gets its place in the stream when it is bound, so one that is withdrawn before leaves no gap. It names the slot of
//! the message before it while that may be free. The receiver takes it once that slot is free no more. One that is withdrawn later
//! keeps its place: what names it waits for the one before it instead ([`Voids`]). One that comes back keeps its place if a message
//! behind it is open or was given up ([`KeptPlace`]).

use core::ops::Range;
use std::collections::BTreeMap;

use bytes::Bytes;

use super::{IntervalSet, Receiver, Voids};
use crate::id::Slot;
use crate::wire::{StreamEnd, StreamMark};

/// The streams to one peer that have begun and not ended, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Writers(BTreeMap<Bytes, Writer>);

/// A stream to a peer, and those of the same name before it of which messages are open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Writer {
    /// The slot of the opening message. None: the next message opens a stream.
    o: Option<Slot>,
    /// How many of its messages were bound.
    n: u64,
    /// The slots of messages of this name that are bound and not settled.
    open: IntervalSet,
    /// If a message below this slot is open, a message behind it may have been given up.
    given_up: Slot,
}

/// The place of a message that came back and leaves again at the same place: its stream, and the messages before it there.
///
/// A message behind it is open or was given up, so the reader has to hear what is missing behind it, and before what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeptPlace {
    /// The slot that names the stream.
    pub o: Slot,
    /// How many messages of the stream were bound before it.
    pub n: u64,
}

/// Why a message of a stream has come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    /// It is to leave again.
    Again,
    /// It is to leave again, at the place that it has kept since it came back before.
    Kept,
    /// Its sender has withdrawn it: it ends.
    Withdrawn,
}

impl KeptPlace {
    /// The place of the `i`th message behind it.
    pub fn nth(self, i: u64) -> Self {
        Self { n: self.n.saturating_add(i), ..self }
    }
}

impl Writers {
    /// What a message that is bound to `s` now says of its place, which may be `kept`.
    pub fn mark(
        &self,
        name: &Bytes,
        s: Slot,
        kept: Option<KeptPlace>,
        end: StreamEnd,
        more: bool,
    ) -> StreamMark {
        let none = Writer::default();
        let writer = self.0.get(name).unwrap_or(&none);
        let distance = |from: Slot| s.0.saturating_sub(from.0);
        let link = writer.open.end().map_or(0, |end| distance(Slot(end - 1)));
        let place = kept.or_else(|| writer.o.map(|o| KeptPlace { o, n: writer.n }));
        let (age, n) = place.map_or((0, 0), |KeptPlace { o, n }| (distance(o), n));
        StreamMark { age, n, link, end, more }
    }

    /// `n` messages, of which the first says `mark`, are bound to `s` and the slots behind it. Where there are several, the stream goes on
    /// behind each. If their places are `kept`, what is bound next has the place that it would have had.
    pub fn bind(&mut self, name: &Bytes, s: Slot, n: u64, mark: StreamMark, kept: bool) {
        if !self.0.contains_key(name) {
            self.0.insert(name.clone(), Writer::default());
        }
        let Some(writer) = self.0.get_mut(name) else { return };
        writer.open.insert(s.0..s.0 + n);
        if !kept {
            writer.place_behind(s, n, mark);
        }
    }

    /// Messages of this name, bound to the slots of `run`, are open no more.
    pub fn settle(&mut self, name: &Bytes, run: Range<u64>) {
        let Some(writer) = self.0.get_mut(name) else { return };
        writer.open.remove_range(run);
        if writer.o.is_none() && writer.open.is_empty() {
            self.0.remove(name);
        }
    }

    /// The message of this name that is bound to `s` is given up: its outcome is unknown.
    pub fn give_up(&mut self, name: &Bytes, s: Slot) {
        if let Some(writer) = self.0.get_mut(name) {
            writer.given_up = writer.given_up.max(s);
        }
    }

    /// The message that says `mark` was certainly not taken from `s`: it is bound again, before all that follow it in its stream.
    /// Those come back too, before anything is bound, the last first. Gives the place that it keeps, if it does.
    ///
    /// Its place is free again, unless a message of this name behind it is open or was given up: otherwise another could take the
    /// place of that one, and the reader would not miss it. The place of a withdrawn one is free only if all behind it have come back,
    /// since they may have been taken.
    pub fn give_back(&mut self, name: &Bytes, s: Slot, mark: StreamMark, why: Returned) -> Option<KeptPlace> {
        let writer = self.0.entry(name.clone()).or_default();
        writer.open.remove(s.0);
        let o = opening(s, mark);
        let is_last = writer.o == o && writer.n == mark.n.saturating_add(1);
        let is_before_open = writer.open.end().is_some_and(|end| s.0 + 1 < end);
        let stays = why != Returned::Again || s < writer.given_up || is_before_open;
        let kept = if stays && !is_last {
            o.filter(|_| why != Returned::Withdrawn).map(|o| KeptPlace { o, n: mark.n })
        } else {
            (writer.o, writer.n) = (o.filter(|_| mark.n > 0), mark.n);
            None
        };
        self.drop_if_over(name);
        kept
    }

    /// The stream goes on as it was left by the process before.
    pub fn recover(&mut self, name: Bytes, o: Slot, n: u64) {
        let writer = self.0.entry(name).or_default();
        (writer.o, writer.n) = (Some(o), n);
    }

    /// The streams that have begun and not ended: name, opening slot, messages bound.
    pub fn begun(&self) -> impl Iterator<Item = (&Bytes, Slot, u64)> {
        self.0.iter().filter_map(|(name, writer)| Some((name, writer.o?, writer.n)))
    }

    /// The opening slot of a stream, and how many of its messages were bound. None: the next opens it.
    pub fn begun_of(&self, name: &Bytes) -> Option<(Slot, u64)> {
        let writer = self.0.get(name)?;
        writer.o.map(|o| (o, writer.n))
    }

    /// The former process bound a message of this name to `s`, above all others. This process does not know whether the former one
    /// gave up messages behind it.
    pub fn reopen(&mut self, name: &Bytes, s: Slot) {
        let writer = self.0.entry(name.clone()).or_default();
        writer.open.insert(s.0..s.0 + 1);
        writer.given_up = Slot(s.0 + 1);
    }

    /// Whether no stream has begun, and none has anything open.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many names are known.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn drop_if_over(&mut self, name: &Bytes) {
        if self.0.get(name).is_some_and(|writer| writer.o.is_none() && writer.open.is_empty()) {
            self.0.remove(name);
        }
    }
}

impl Writer {
    fn place_behind(&mut self, s: Slot, n: u64, mark: StreamMark) {
        let goes_on = mark.end == StreamEnd::Open;
        (self.o, self.n) = if goes_on { (opening(s, mark), mark.n + n) } else { (None, 0) };
    }
}

/// The slot of the message that opened the stream of one that is bound to `s`. None: no honest sender says so.
pub fn opening(s: Slot, mark: StreamMark) -> Option<Slot> {
    s.0.checked_sub(mark.age).map(Slot)
}

/// The streams from one peer of which something was taken, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Readers {
    readers: BTreeMap<Bytes, Reader>,
    /// Streams that have ended, by the slot of their last message: they are forgotten once the sender has passed it.
    ended: BTreeMap<Slot, Bytes>,
    /// Messages that were withdrawn and that no message behind them was taken for.
    pub voids: Voids,
}

/// Whether the message at `s` of the stream `name`, which says `mark`, waits for no other: the one before it cannot come any more, or has
/// been taken. If that is withdrawn, the one before that counts.
pub fn may_follow(record: Option<&Receiver>, voids: &Voids, name: &Bytes, s: Slot, mark: StreamMark) -> bool {
    let mut before = s.0.checked_sub(mark.link).filter(|_| mark.link > 0).map(Slot);
    while let Some(slot) = before {
        if record.is_some_and(|record| record.is_open(slot)) {
            return false;
        }
        before = voids.before(name, slot);
    }
    true
}

/// How far a stream was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reader {
    /// The slot of its opening message.
    pub o: Slot,
    /// The least place that a message may have that is taken next.
    pub next: u64,
    /// Nothing more of it is taken: its last message was, from this slot, or the stream breaks before the message at this slot.
    pub ended: Option<Slot>,
}

/// What lies between the message of a stream that was taken last and this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gap {
    /// Nothing: it is the next.
    None,
    /// Nothing: it opens the stream.
    Opens,
    /// It belongs to another stream of the same name, and the one before has not been ended by its sender.
    Breaks,
    /// This many messages, which this node has not taken: their sender was told that their outcome is unknown.
    Missing(u64),
    /// This many messages came before it, which this process knows nothing of: another has taken them, or nobody has.
    Continues(u64),
}

impl Readers {
    /// What comes before the message at `s` that says `mark`. None: it may not be taken any more.
    pub fn gap(&self, name: &Bytes, s: Slot, mark: StreamMark) -> Option<Gap> {
        let o = opening(s, mark)?;
        // How many messages lie before it, from a place on. What was withdrawn is not missed.
        let since = |from: u64| {
            let all = mark.n.saturating_sub(from);
            if self.voids.is_empty() {
                all
            } else {
                all.saturating_sub(self.voids.count(name, o, s, from, mark.n))
            }
        };
        let begins = || if since(0) == 0 { Gap::Opens } else { Gap::Continues(since(0)) };
        let Some(reader) = self.readers.get(name) else { return Some(begins()) };
        if o > reader.o {
            return Some(if reader.ended.is_some() { begins() } else { Gap::Breaks });
        }
        if o < reader.o || reader.ended.is_some() || mark.n < reader.next {
            return None;
        }
        let missing = since(reader.next);
        Some(if missing == 0 { Gap::None } else { Gap::Missing(missing) })
    }

    /// The message at `s` that says `mark` is taken, or judged. Gives how far the stream is now.
    pub fn take(&mut self, name: &Bytes, s: Slot, mark: StreamMark) -> Option<Reader> {
        let o = opening(s, mark)?;
        let ended = (mark.end != StreamEnd::Open).then_some(s);
        let reader = Reader { o, next: mark.n.saturating_add(1), ended };
        match self.readers.get_mut(name) {
            // Mostly: it goes on.
            Some(before) if before.ended.is_none() && ended.is_none() && self.voids.is_empty() => {
                *before = reader;
            }
            _ => self.put(name.clone(), reader),
        }
        Some(reader)
    }

    /// The application has heard that the stream breaks before the message at `s`, which is of the next stream of this name: nothing more
    /// of it is taken. Gives how far it is.
    pub fn break_off(&mut self, name: &Bytes, s: Slot) -> Option<Reader> {
        let reader = self.readers.get(name).map(|reader| Reader { ended: Some(s), ..*reader })?;
        self.put(name.clone(), reader);
        Some(reader)
    }

    /// The stream stands so.
    pub fn put(&mut self, name: Bytes, reader: Reader) {
        self.voids.pass(&name, reader.o, reader.next);
        if let Some(before) = self.readers.insert(name.clone(), reader)
            && let Some(s) = before.ended
        {
            self.ended.remove(&s);
        }
        if let Some(s) = reader.ended {
            self.ended.insert(s, name);
        }
    }

    /// The sender has nothing open below `l`: nothing of streams that ended below can come.
    pub fn pass(&mut self, l: Slot) {
        while let Some(first) = self.ended.first_entry()
            && *first.key() < l
        {
            let name = first.remove();
            self.readers.remove(&name);
        }
    }

    /// Nothing that was sent under an earlier record can come.
    pub fn forget_ended(&mut self) {
        self.pass(Slot(u64::MAX));
    }

    /// The streams, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Bytes, Reader)> {
        self.readers.iter().map(|(name, reader)| (name, *reader))
    }

    /// Whether the stream is known, or another may be.
    pub fn has_room(&self, name: &Bytes, most: usize) -> bool {
        self.readers.len() < most || self.readers.contains_key(name)
    }

    /// Whether nothing is remembered of any stream.
    pub fn is_empty(&self) -> bool {
        self.readers.is_empty() && self.voids.is_empty()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.readers.len()
    }
}
