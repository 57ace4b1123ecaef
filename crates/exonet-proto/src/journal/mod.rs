//! The journal: what a node must find again after a crash, and what waits until it would.
//!
//! Every step that a crash must not undo appends one [`Record`] before anything that depends on it leaves the node. A
//! *position* in the journal is *safe* once a crash keeps everything before it. What depends on a position that is not safe
//! waits, or says less:
//!
//! | Record | Waits until it is safe |
//! |---|---|
//! | `Put` | the application's message counts as accepted |
//! | `Bind`, `Place`, `Writer`, `Early`, `Convert` | every frame that bears the message under that name |
//! | `Back`, `End` | an ASK whose `l` passes the slot, the farewell; of `End` the outcome too |
//! | `Live` | a STATE that claims the record, or slots that it grants |
//! | `Drop`, `Front` | a STATE that claims no record |
//! | `Take` | a STATE that claims the slot to be used, and the application's message or acknowledgement |
//! | `Mark`, `Withdraw`, `Void` | the VERDICT, the WITHDRAWN |
//! | `Reader` | as the `Take` or the `Mark` before it |
//! | `Answered` | nothing: if it is lost, the caller hears once more that the call has failed |
//!
//! Not written, since the boot from `D` stands for it: numbers asked for and granted, envelopes, `T`, fragments.
//! Without a journal every position is safe, and nothing is written.

mod record;
mod recovered;
mod shelf;
mod spans;

pub(crate) use record::{Heading, Record};
pub use recovered::{BadJournal, OpenLetter, Recovered};
pub(crate) use recovered::{Known, Placed, Posted};
pub use shelf::{Keep, Shelf};

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::half::{Clock, Hull};
use crate::id::{Incarnation, LetterId, Slot};
use crate::wire::StreamMark;

/// A position in the journal of one process: how many bytes lie before it. Zero is always safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// When a record of the journal is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Once it is appended. The driver writes what [`crate::node::Node::poll_journal`] gives before it acts on any output of
    /// the node: before it sends a datagram, hands a message to the application, or tells an outcome. The death of the
    /// process loses nothing then.
    Written,
    /// Once [`crate::node::Node::handle_journaled`] says so: the driver has forced it to the disk, which keeps it when the
    /// power fails.
    Forced,
}

/// Records to write behind all others. A store keeps the bytes of one append together, or loses them together with all that
/// follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Append<'a> {
    /// Where the journal ends with them.
    pub through: Position,
    bytes: &'a [u8],
    shared: &'a [(usize, Bytes)],
}

impl<'a> Append<'a> {
    /// The bytes of the records, in pieces that follow each other: bodies are where the messages have them, not copied.
    pub fn parts(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (bytes, shared) = (self.bytes, self.shared);
        let starts = core::iter::once(0).chain(shared.iter().map(|(at, _)| *at));
        let ends = shared.iter().map(|(at, _)| *at).chain(core::iter::once(bytes.len()));
        let between = starts.zip(ends).map(|(start, end)| bytes.get(start..end).unwrap_or_default());
        let bodies = shared.iter().map(|(_, body)| &**body).chain(core::iter::once(&[][..]));
        between.zip(bodies).flat_map(|(lead, body)| [lead, body]).filter(|part| !part.is_empty())
    }

    /// The bytes of the records in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        self.parts().collect::<Vec<_>>().concat()
    }
}

/// `n` messages from `letter` on are bound to as many slots from `s` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    pub(crate) letter: LetterId,
    pub(crate) n: u32,
    pub(crate) s: Slot,
    pub(crate) r: Incarnation,
    /// That of the first, if they are of a stream: such are not joined.
    pub(crate) place: Option<Place>,
}

/// The place that a message has got in its stream, and how far the stream is with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) mark: StreamMark,
    pub(crate) name: Bytes,
    /// The opening slot, and how many were bound. None: the stream has ended.
    pub(crate) begun: Option<(Slot, u64)>,
}

impl Binding {
    /// Whether a message that is bound so goes on where this ends.
    pub(crate) fn is_followed_by(&self, letter: LetterId, s: Slot, r: Incarnation) -> bool {
        let next = self.s.0.checked_add(u64::from(self.n)).map(Slot);
        self.place.is_none() && self.r == r && next == Some(s) && self.letter.nth(self.n) == letter
    }
}

/// Bytes of memory that are kept for the records of the next append.
const KEPT: usize = 256 << 10;
/// From this length on bodies are shared with the messages; to copy a shorter one costs less.
const SHARED: usize = 512;

/// The journal of a node.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    durability: Option<Durability>,
    /// Appended, and not given to the driver yet; or the last that was given, until there is more.
    pending: Vec<u8>,
    /// Groups that were given to the driver in this and all lives before.
    groups: u64,
    /// Bodies that lie before these places of them.
    shared: Vec<(usize, Bytes)>,
    appended: Position,
    given: Position,
    safe: Position,
    letters: u64,
    peers: u32,
    life: u64,
    /// `b` and the hull as they were last written.
    front: Option<(Incarnation, Hull)>,
    /// The places of peers that wait for a position.
    pub(crate) waiting: BTreeSet<u32>,
}

impl Journal {
    /// The journal of a node that begins, or goes on with what it has found.
    pub(crate) fn begin(durability: Durability, found: &Recovered, life: u64) -> Self {
        let mut this = Self {
            life,
            durability: Some(durability),
            letters: found.letters,
            peers: found.peers,
            front: found.front,
            groups: found.end,
            ..Self::default()
        };
        this.append(&Record::Life { life });
        this
    }

    /// Whether this node writes a journal.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.durability.is_some()
    }

    /// Whether a record is not safe as soon as it is appended.
    pub(crate) const fn is_forced(&self) -> bool {
        matches!(self.durability, Some(Durability::Forced))
    }

    /// Appends a record: the position behind it. Zero without a journal.
    pub(crate) fn append(&mut self, record: &Record<'_>) -> Position {
        self.append_sharing(record, None)
    }

    /// The same of a record that ends with the bytes of `body`.
    pub(crate) fn append_sharing(&mut self, record: &Record<'_>, body: Option<&Bytes>) -> Position {
        if !self.is_on() {
            return Position(0);
        }
        if self.given == self.appended {
            self.shared.clear();
            self.pending.clear();
            self.pending.shrink_to(KEPT);
        }
        let before = self.pending.len();
        let tail = record.encode_lead(&mut self.pending);
        self.appended.0 += (self.pending.len() - before + tail.len()) as u64;
        match body.filter(|body| body.len() >= SHARED) {
            Some(body) => self.shared.push((self.pending.len(), body.clone())),
            None => self.pending.extend_from_slice(tail),
        }
        self.appended
    }

    /// `b` and the hull, if they have grown since they were last written.
    pub(crate) fn append_front(&mut self, clock: &Clock) -> Position {
        let front = (clock.b(), clock.stamps().hull());
        if self.front.replace(front) == Some(front) {
            return Position(0);
        }
        let (b, hull) = front;
        self.append(&Record::Front { b, hull })
    }

    /// What of the journal concerns no peer.
    pub(crate) fn snapshot(&self, clock: &Clock, to: &mut Vec<u8>) {
        Record::Front { b: clock.b(), hull: clock.stamps().hull() }.encode(to);
        Record::Named { letters: self.letters, peers: self.peers }.encode(to);
        Record::Life { life: self.life }.encode(to);
    }

    /// The group that the next record will be in, counted from 1 through all lives.
    pub(crate) const fn group(&self) -> u64 {
        self.groups + 1
    }

    /// Whether a crash keeps everything before `at`.
    pub(crate) fn is_safe(&self, at: Position) -> bool {
        !self.is_forced() || at <= self.safe
    }

    /// Bytes that a crash may take.
    pub(crate) fn lag(&self) -> u64 {
        if self.is_forced() { self.appended.0.saturating_sub(self.safe.0) } else { 0 }
    }

    /// The end.
    pub(crate) const fn end(&self) -> Position {
        self.appended
    }

    /// What is to be written.
    pub(crate) fn poll(&mut self) -> Option<Append<'_>> {
        if self.given == self.appended {
            return None;
        }
        self.given = self.appended;
        self.groups += 1;
        Some(Append { through: self.appended, bytes: &self.pending, shared: &self.shared })
    }

    /// Everything before `through` is safe.
    pub(crate) fn persisted(&mut self, through: Position) {
        self.safe = self.safe.max(through.min(self.given));
    }

    /// The name of a message, and of `n - 1` more behind it. None without a journal.
    pub(crate) fn next_letters(&mut self, n: u32) -> Option<LetterId> {
        let first = self.letters + 1;
        self.letters += u64::from(n) * u64::from(self.is_on());
        LetterId::new(first).filter(|_| self.is_on())
    }

    pub(crate) fn next_peer(&mut self) -> u32 {
        self.peers += 1;
        self.peers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Early, Priority};

    #[test]
    fn a_long_body_is_not_copied_and_stands_where_it_belongs() {
        let mut journal = Journal::begin(Durability::Written, &Recovered::default(), 1);
        journal.poll();
        let mut expected = Vec::new();
        for n in [SHARED, 3, SHARED * 2, SHARED - 1] {
            let body = Bytes::from(vec![7; n]);
            let letter = LetterId::new(n as u64).unwrap();
            let (priority, early) = (Priority::Normal, Early::AsNode);
            let heading = Heading { priority, early, ..Heading::PLAIN };
            let record = Record::PutSpan { letter, n: 1, peer: 1, heading, body: 2, entries: &body };
            record.encode(&mut expected);
            let end = journal.append_sharing(&record, Some(&body));
            Record::Back { letter }.encode(&mut expected);
            assert_eq!(journal.append(&Record::Back { letter }).0, expected.len() as u64 + 2, "{end:?}");
        }
        let append = journal.poll().unwrap();
        assert_eq!(append.to_vec(), expected);
        assert_eq!(append.parts().count(), 5, "two are pieces of their own");
        assert!(append.parts().all(|part| !part.is_empty()));
    }

    #[test]
    fn bindings_are_joined_where_they_go_on() {
        let id = |id| LetterId::new(id).unwrap();
        let bound = Binding { letter: id(7), n: 3, s: Slot(20), r: Incarnation(5), place: None };
        assert!(bound.is_followed_by(id(10), Slot(23), Incarnation(5)));
        assert!(!bound.is_followed_by(id(10), Slot(24), Incarnation(5)));
        assert!(!bound.is_followed_by(id(11), Slot(23), Incarnation(5)));
        assert!(!bound.is_followed_by(id(10), Slot(23), Incarnation(6)));
    }
}
