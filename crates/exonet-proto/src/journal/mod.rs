//! The journal: what a node must find again after a crash, and what waits until it would find it.
//!
//! Every step that a crash must not undo appends one [`Record`] before anything that depends on it leaves the node. A *position*
//! in the journal is *safe* once a crash keeps everything before it. What depends on a position that is not safe waits, or claims
//! less:
//!
//! | Record | Waits until it is safe |
//! |---|---|
//! | `Put` | the application's message counts as accepted |
//! | `Bind`, `Place`, `Writer`, `Early`, `Convert` | every frame that bears the message under that name |
//! | `Back`, `End`, `Outcome` | an ASK whose `l` passes the slot, the farewell; of `End` and `Outcome` the outcome too |
//! | `Live` | a STATE that claims the record, or slots that it grants |
//! | `Drop`, `Front` | a STATE that claims no record |
//! | `Take` | a STATE that claims the slot to be used, and the application's message or acknowledgement |
//! | `Mark`, `Withdraw`, `Void` | the VERDICT, the WITHDRAWN |
//! | `Reader` | as the `Take` or the `Mark` before it |
//! | `Answered` | nothing: if it is lost, the caller hears once more that the call has failed |
//!
//! The journal does not have numbers that were asked for and granted, envelopes, `T` and fragments: the boot from `D` makes up
//! for them.
//! Without a journal every position is safe, and nothing is written.

mod past;
mod record;
mod recovered;
mod spans;

pub use past::PastOutcome;
pub(crate) use past::{How, Past};
pub(crate) use record::{Heading, Record};
pub use recovered::{BadJournal, OpenLetter, Recovered};
pub(crate) use recovered::{Known, Placed, Posted};

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
    /// Once it is appended. The driver writes what [`crate::node::Node::poll_journal`] gives before it acts on any output of the
    /// node: before it sends a datagram, hands a message to the application, or reports an outcome. Then the death of the process
    /// loses nothing.
    Written,
    /// Once [`crate::node::Node::handle_journaled`] reports it: the driver has forced the record to the disk, which keeps it if
    /// the power fails.
    Forced,
}

/// Records to append. A store keeps the bytes of one append together, or loses them together with everything behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Append<'a> {
    /// The end of the journal with these records.
    pub through: Position,
    bytes: &'a [u8],
    shared: &'a [(usize, Bytes)],
}

impl<'a> Append<'a> {
    /// The bytes of the records, in consecutive pieces: bodies are shared with the messages, not copied.
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

/// `n` messages from `letter` on are bound to `n` consecutive slots from `s` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    pub(crate) letter: LetterId,
    pub(crate) n: u32,
    pub(crate) s: Slot,
    pub(crate) r: Incarnation,
    /// The place of the first message, if they belong to a stream: such bindings are not joined.
    pub(crate) place: Option<Place>,
}

/// The place that a message has got in its stream, and how far the stream has come with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) mark: StreamMark,
    pub(crate) name: Bytes,
    /// The opening slot, and how many messages were bound. None: the stream has ended.
    pub(crate) begun: Option<(Slot, u64)>,
}

impl Binding {
    /// Whether a message with this binding continues this one.
    pub(crate) fn is_followed_by(&self, letter: LetterId, s: Slot, r: Incarnation) -> bool {
        let next = self.s.0.checked_add(u64::from(self.n)).map(Slot);
        self.place.is_none() && self.r == r && next == Some(s) && self.letter.nth(self.n) == letter
    }
}

/// How many bytes of memory are kept for the records of the next append.
const KEPT: usize = 256 << 10;
/// Bodies of at least this length are shared with the messages; copying a shorter one costs less.
const SHARED: usize = 512;

/// The journal of a node.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    durability: Option<Durability>,
    /// Bytes that were appended and have not been given to the driver; or the last ones that were given, until there are more.
    pending: Vec<u8>,
    /// How many groups were given to the driver in this and all former lives.
    groups: u64,
    /// Bodies, each with the place in `pending` before which it lies.
    shared: Vec<(usize, Bytes)>,
    appended: Position,
    given: Position,
    safe: Position,
    letters: u64,
    peers: u32,
    life: u64,
    /// `b` and the hull as they were last written.
    front: Option<(Incarnation, Hull)>,
    /// The newest outcomes.
    pub(crate) past: Past,
    /// The places of peers that wait for a position.
    pub(crate) waiting: BTreeSet<u32>,
}

impl Journal {
    /// The journal of a node that begins, or continues with what it has found.
    pub(crate) fn begin(durability: Durability, found: &Recovered, life: u64) -> Self {
        let mut this = Self {
            life,
            durability: Some(durability),
            letters: found.letters,
            peers: found.peers,
            front: found.front,
            past: found.past.clone(),
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

    /// Appends a record. Returns the position behind it; zero without a journal.
    pub(crate) fn append(&mut self, record: &Record<'_>) -> Position {
        self.append_sharing(record, None)
    }

    /// As [`Journal::append`], for a record that ends with the bytes of `body`.
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

    /// Appends `b` and the hull if they have grown since they were last written.
    pub(crate) fn append_front(&mut self, clock: &Clock) -> Position {
        let front = (clock.b(), clock.stamps().hull());
        if self.front.replace(front) == Some(front) {
            return Position(0);
        }
        let (b, hull) = front;
        self.append(&Record::Front { b, hull })
    }

    /// Writes the part of a snapshot that concerns no peer.
    pub(crate) fn snapshot(&self, clock: &Clock, to: &mut Vec<u8>) {
        Record::Front { b: clock.b(), hull: clock.stamps().hull() }.encode(to);
        Record::Named { letters: self.letters, peers: self.peers }.encode(to);
        Record::Life { life: self.life }.encode(to);
        for past in self.past.iter() {
            let PastOutcome { letter, peer: id, bound, count: n, .. } = *past;
            Record::Past { letter, n, id, bound, how: past.how() }.encode(to);
        }
    }

    /// The number of the group that the next record will be in, counted from 1 over all lives.
    pub(crate) const fn group(&self) -> u64 {
        self.groups + 1
    }

    /// Whether a crash keeps everything before `at`.
    pub(crate) fn is_safe(&self, at: Position) -> bool {
        !self.is_forced() || at <= self.safe
    }

    /// How many bytes a crash may take.
    pub(crate) fn lag(&self) -> u64 {
        if self.is_forced() { self.appended.0.saturating_sub(self.safe.0) } else { 0 }
    }

    /// The end of the journal.
    pub(crate) const fn end(&self) -> Position {
        self.appended
    }

    /// The next records to write.
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

    /// The names of `n` messages: returns the first. None without a journal.
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
            Record::Back { letter, kept: None }.encode(&mut expected);
            assert_eq!(
                journal.append(&Record::Back { letter, kept: None }).0,
                expected.len() as u64 + 2,
                "{end:?}"
            );
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
