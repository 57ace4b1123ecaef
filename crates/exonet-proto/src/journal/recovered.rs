//! The contents of a journal once all of it is read.

use core::net::SocketAddr;
use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::spans::Spans;
use super::{Heading, Past, PastOutcome, Record};
use crate::half::{Hull, IntervalSet, KeptPlace, Reader, Readers, Receiver, Taken};
use crate::id::{Incarnation, LetterId, MessageId, NodeId, Slot, Stamp};
use crate::message::{Confirm, Early, Priority, SMALL, Shelf, Verdict};
use crate::time::Wall;
use crate::wire::Traceparent;
use crate::wire::{Malformed, StreamEnd, StreamMark, Take};

/// The records of a journal are not in the format of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the journal cannot be read at byte {at}: {why}")]
pub struct BadJournal {
    /// Where the unreadable record begins.
    pub at: u64,
    /// Why it is malformed.
    pub why: Malformed,
}

/// What a node finds in its journal: its durable state.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    pub(super) letters: u64,
    pub(super) peers: u32,
    /// The last life of the identity that wrote to the journal.
    life: Option<u64>,
    /// `b` and the hull; None: there is no journal yet.
    pub(crate) front: Option<(Incarnation, Hull)>,
    /// Peers, by the journal's number.
    pub(crate) known: BTreeMap<u32, Known>,
    /// Open messages, in the order of sending.
    pub(crate) open: Spans,
    /// The newest outcomes of messages that had slots.
    pub(super) past: Past,
    /// How many open messages have records before the snapshot that were not read yet.
    missing: u64,
    /// The group that is being read, and the last group of the journal.
    group: u64,
    pub(crate) end: u64,
    /// The shelf for bodies, and how many bytes of bodies are in memory.
    pub(crate) shelf: Shelf,
    resident: u64,
}

/// The shelf is ignored.
impl PartialEq for Recovered {
    fn eq(&self, other: &Self) -> bool {
        let numbers = |found: &Self| (found.letters, found.peers, found.life, found.missing, found.end);
        numbers(self) == numbers(other)
            && (self.front, &self.known, &self.open) == (other.front, &other.known, &other.open)
            && self.past == other.past
    }
}

impl Eq for Recovered {}

/// A message of a journal that is not settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenLetter<'a> {
    /// The number of the message in the journal.
    pub letter: LetterId,
    /// The node that it is for.
    pub peer: NodeId,
    /// The addresses of that node, the latest last.
    pub hints: &'a [SocketAddr],
    /// The class of the message.
    pub priority: Priority,
    /// When the message expires, if it has not left.
    pub expires: Option<Wall>,
    /// For dispatch.
    pub tag: &'a Bytes,
    /// The body.
    pub body: Bytes,
    /// Slot and incarnation, if the message may have left. The incarnation is [`Incarnation::UNNAMED`] as long as it is not
    /// known.
    pub bound: Option<(Slot, Incarnation)>,
}

/// The journal's state of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) id: NodeId,
    /// The addresses, the latest last.
    pub(crate) hints: Vec<SocketAddr>,
    record: Option<Live>,
    /// Calls that were taken, if the caller is not known to have an answer.
    pub(crate) calls: BTreeSet<Slot>,
    /// The application's verdicts on messages of the record.
    pub(crate) verdicts: BTreeMap<Slot, Verdict>,
    /// Slots of the record whose messages were withdrawn.
    withdrawn: IntervalSet,
    /// How many times messages of the record were handed out, from the second time on.
    pub(crate) attempts: BTreeMap<Slot, u32>,
    /// Streams to the peer that have begun: the opening slot, and how many messages were bound.
    pub(crate) writers: BTreeMap<Bytes, (Slot, u64)>,
    /// Streams from the peer.
    pub(crate) readers: Readers,
}

/// A receiver record.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Live {
    r: Incarnation,
    hi: Slot,
    l: Slot,
    ets: Stamp,
    taken: Option<Taken>,
    closed: bool,
    free: IntervalSet,
}

/// Unsettled messages with consecutive names that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Posted {
    /// How many messages there are.
    pub(crate) n: u32,
    /// The length of each body.
    pub(crate) len: usize,
    pub(crate) peer: u32,
    pub(crate) priority: Priority,
    pub(crate) early: Early,
    pub(crate) confirm: Confirm,
    pub(crate) expires: Option<Wall>,
    pub(crate) tag: Bytes,
    pub(crate) trace: Option<Traceparent>,
    /// The body. For several messages: all bodies as they stand in a frame.
    pub(crate) body: Bytes,
    /// The binding of the first message.
    pub(crate) placed: Placed,
    /// For a message of a stream: the end of the stream, and whether the next message continues this one.
    pub(crate) part: Option<(StreamEnd, bool)>,
    /// The place in the stream, once bound: age, number, link.
    pub(crate) place: (u64, u64, u64),
    /// The group that has the record; zero: the snapshot.
    pub(crate) group: u64,
    /// The body is on the shelf.
    pub(crate) shelved: bool,
    /// The record of the message was not read yet.
    pub(super) missing: bool,
}

impl Posted {
    /// `n` messages with this heading and a body of `len` bytes each, as they stand in `body`.
    pub(super) fn alike(peer: u32, heading: &Heading<'_>, n: u32, len: usize, body: Bytes) -> Self {
        let Heading { priority, early, confirm, part, expires, tag, trace } = *heading;
        let confirm = if confirm { Confirm::Processed } else { Confirm::Delivered };
        let (tag, placed, place) = (Bytes::copy_from_slice(tag), Placed::Nowhere, (0, 0, 0));
        let (group, shelved, missing) = (0, false, false);
        Self {
            n,
            len,
            peer,
            priority,
            early,
            confirm,
            expires,
            tag,
            trace,
            body,
            placed,
            part,
            place,
            group,
            shelved,
            missing,
        }
    }

    /// Messages of which nothing is known yet.
    fn unknown(n: u32) -> Self {
        Self { missing: true, ..Self::alike(u32::MAX, &Heading::PLAIN, n, 0, Bytes::new()) }
    }

    /// Whether each message has only a body.
    pub(crate) fn is_plain(&self) -> bool {
        let bare =
            self.tag.is_empty() && self.part.is_none() && self.expires.is_none() && self.trace.is_none();
        bare && self.confirm == Confirm::Delivered && self.early == Early::AsNode
    }

    /// How many bytes of memory the shelf would save.
    fn resident(&self) -> u64 {
        if self.shelved || self.body.len() <= SMALL { 0 } else { self.body.len() as u64 }
    }
}

/// The binding of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    Nowhere,
    /// It has no slot, but a place in its stream.
    Returned(KeptPlace),
    Bound(Slot, Incarnation),
    Early(Slot, Stamp),
}

impl Placed {
    /// Slot and incarnation, if the message may have left.
    const fn slot(self) -> Option<(Slot, Incarnation)> {
        match self {
            Self::Nowhere | Self::Returned(_) => None,
            Self::Bound(s, r) => Some((s, r)),
            Self::Early(s, _) => Some((s, Incarnation::UNNAMED)),
        }
    }
}

impl Recovered {
    /// An empty state. Bodies that are too many for memory are put on the shelf, which the node uses from then on.
    pub fn on(shelf: Shelf) -> Self {
        Self { shelf, ..Self::default() }
    }

    /// Reads the records of a journal, from its start to its end.
    ///
    /// # Errors
    /// [`BadJournal`]: the bytes are not a journal, or one of another version. A store that checks what it reads never passes a
    /// torn record to this function.
    pub fn read(records: &[u8]) -> Result<Self, BadJournal> {
        let mut this = Self::default();
        this.add(records)?;
        Ok(this)
    }

    /// Continues to read: the records of one or several appends, behind those that were read before.
    ///
    /// # Errors
    /// As [`Recovered::read`], where [`BadJournal::at`] counts from the start of `records`.
    pub fn add(&mut self, records: &[u8]) -> Result<(), BadJournal> {
        let mut from = Take(records);
        while !from.is_empty() {
            let at = (records.len() - from.len()) as u64;
            Record::decode(&mut from)
                .and_then(|record| self.replay(record))
                .map_err(|why| BadJournal { at, why })?;
        }
        Ok(())
    }

    /// As [`Recovered::add`], for the group with this number, as the store counts groups: a snapshot may refer to it later. Zero:
    /// the snapshot.
    ///
    /// # Errors
    /// As [`Recovered::add`].
    pub fn add_group(&mut self, group: u64, records: &[u8]) -> Result<(), BadJournal> {
        self.group = group;
        self.add(records)
    }

    /// Reads a group that lies before the snapshot. The snapshot has been read, and refers to the group:
    /// [`Node::snapshot_keeping`].
    ///
    /// # Errors
    /// As [`Recovered::add`].
    ///
    /// [`Node::snapshot_keeping`]: crate::node::Node::snapshot_keeping
    pub fn add_kept(&mut self, group: u64, records: &[u8]) -> Result<(), BadJournal> {
        let mut from = Take(records);
        while !from.is_empty() {
            let at = (records.len() - from.len()) as u64;
            let record = Record::decode(&mut from).map_err(|why| BadJournal { at, why })?;
            let (Record::Put { letter, .. } | Record::PutSpan { letter, .. }) = record else { continue };
            let n = if let Record::PutSpan { n, .. } = record { n } else { 1 };
            if !self.open.among(letter, n).any(|(_, open)| open.missing) {
                continue;
            }
            self.group = group;
            let posted = self.posted(&record).map_err(|why| BadJournal { at, why })?;
            self.find(letter, posted);
        }
        Ok(())
    }

    /// Ends reading. The next group that is written has the number behind `end`.
    ///
    /// # Errors
    /// [`BadJournal`]: the snapshot refers to a message that is not present.
    pub fn finish(mut self, end: u64) -> Result<Self, BadJournal> {
        (self.group, self.end) = (0, end);
        if self.missing == 0 { Ok(self) } else { Err(BadJournal { at: 0, why: Malformed::Reserved }) }
    }

    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.front.is_none() && self.life.is_none()
    }

    /// Whether this is the journal of an identity whose file says that its last life was `life`. If not, a life without this
    /// journal has used numbers since, or the journal is an older copy.
    pub fn is_of(&self, life: u64) -> bool {
        self.life.is_some_and(|known| known >= life)
    }

    /// How many messages are not settled.
    pub fn open_count(&self) -> usize {
        self.open.count()
    }

    /// Messages that are not settled, in the order in which the application gave them.
    pub fn open_letters(&self) -> impl Iterator<Item = OpenLetter<'_>> {
        self.open
            .runs()
            .flat_map(|(first, posted)| (0..posted.n).map(move |at| (first.nth(at), posted, posted.nth(at))))
            .filter_map(|(letter, run, posted)| {
                let Known { id, hints, .. } = self.known.get(&posted.peer)?;
                let bound = posted.placed.slot();
                Some(OpenLetter {
                    letter,
                    peer: *id,
                    hints,
                    priority: posted.priority,
                    expires: posted.expires,
                    tag: &run.tag,
                    body: posted.body,
                    bound,
                })
            })
    }

    /// The newest outcomes of messages that had slots, the newest last: up to 1,024, where messages that ended together count as one.
    pub fn past_outcomes(&self) -> impl Iterator<Item = &PastOutcome> {
        self.past.iter()
    }

    /// Streams to and from peers that have begun and have not ended: the peer, its addresses, the latest last, and the name. A name is
    /// there once.
    pub fn streams(&self) -> impl Iterator<Item = (NodeId, &[SocketAddr], &Bytes)> {
        self.known.values().flat_map(|Known { id, hints, writers, readers, .. }| {
            let read = readers.iter().filter(|(_, reader)| reader.ended.is_none());
            let names: BTreeSet<_> = writers.keys().chain(read.map(|(name, _)| name)).collect();
            names.into_iter().map(move |name| (*id, hints.as_slice(), name))
        })
    }

    /// Messages that were handed out more than once and are not acknowledged: their names at both ends, and how many times they
    /// were handed out. The first time is not journaled.
    pub fn unacked(&self) -> impl Iterator<Item = (MessageId, u32)> {
        self.known.values().flat_map(|known| {
            let record = known.record.as_ref();
            let name = move |s| Some(MessageId { sender: known.id, r: record?.r, s });
            known.attempts.iter().filter_map(move |(s, attempts)| Some((name(*s)?, *attempts)))
        })
    }

    /// The messages of a Put or a PutSpan.
    fn posted(&mut self, record: &Record<'_>) -> Result<Posted, Malformed> {
        let (peer, heading, n, len, bytes) = match record {
            Record::Put { peer, heading, body, .. } => (*peer, heading, 1, body.len(), *body),
            Record::PutSpan { n, peer, heading, body, entries, .. } => (*peer, heading, *n, *body, *entries),
            _ => return Err(Malformed::Reserved),
        };
        self.peer(peer)?;
        let (bytes, shelved) = self.take_in(bytes);
        Ok(Posted { group: self.group, shelved, ..Posted::alike(peer, heading, n, len, bytes) })
    }

    /// Messages that the snapshot has kept are these, from `first` on; those of them that are open.
    fn find(&mut self, first: LetterId, posted: Posted) {
        let (n, before) = (posted.n, posted.resident());
        let mut after = 0;
        let mut rest = Spans::default();
        let mut fill = |missing: &mut u64, open: &mut Posted, posted: Posted| {
            *missing -= u64::from(posted.n);
            after += posted.resident();
            *open = Posted { placed: open.placed, place: open.place, ..posted };
        };
        match self.open.exactly(first, n) {
            Some(open) => fill(&mut self.missing, open, posted),
            None => {
                rest.insert(first, posted);
                for (letter, open) in self.open.among(first, n).filter(|(_, open)| open.missing) {
                    rest.remove(letter, open.n, |posted| fill(&mut self.missing, open, posted));
                }
            }
        }
        // Bodies of messages that have ended are dropped here.
        self.resident = (self.resident + after).saturating_sub(before);
    }

    fn replay(&mut self, record: Record<'_>) -> Result<(), Malformed> {
        match record {
            Record::Peer { peer, id } => {
                self.known.insert(peer, Known::new(id));
                self.peers = self.peers.max(peer);
            }
            Record::Hint { peer, address } => self.peer(peer)?.hint(address),
            Record::Put { letter, .. } => {
                let posted = self.posted(&record)?;
                self.open.insert(letter, posted);
                self.letters = self.letters.max(letter.get());
            }
            Record::PutSpan { letter, n, .. } => {
                let posted = self.posted(&record)?;
                self.open.insert(letter, posted);
                self.letters = self.letters.max(letter.nth(n - 1).get());
            }
            Record::Kept { letter, n } => {
                self.open.insert(letter, Posted::unknown(n));
                self.missing += u64::from(n);
                self.letters = self.letters.max(letter.nth(n.saturating_sub(1)).get());
            }
            Record::Bind { letter, n, s, r } => self.bind(letter, n, s, r)?,
            Record::Place { letter, count, age, n, link } => {
                let first = StreamMark { age, n, link, ..StreamMark::OPEN };
                for at in 0..count {
                    let StreamMark { age, n, link, .. } = first.nth(at.into()).ok_or(Malformed::Range)?;
                    self.letter(letter.nth(at))?.place = (age, n, link);
                }
            }
            Record::Writer { peer, name, begun } => self.peer(peer)?.writer(name, begun),
            Record::Reader { peer, name, o, next, ended } => {
                let reader = Reader { o, next, ended };
                self.peer(peer)?.readers.put(Bytes::copy_from_slice(name), reader);
            }
            Record::Early { letter, s, ts } => self.letter(letter)?.placed = Placed::Early(s, ts),
            Record::Convert { letter, r } => self.convert(letter, r)?,
            Record::Back { letter, kept } => {
                self.letter(letter)?.placed = kept.map_or(Placed::Nowhere, Placed::Returned);
            }
            Record::End { letter, n } => self.end(letter, n).map(drop)?,
            Record::Outcome { letter, n, peer, how } => {
                let (peer, bound) = (self.peer(peer)?.id, self.end(letter, n)?);
                self.past.extend([PastOutcome::new((letter, n), peer, bound, &how)]);
            }
            Record::Past { letter, n, id, bound, how } => {
                self.past.extend([PastOutcome::new((letter, n), id, bound, &how)]);
            }
            Record::Live { peer, r, hi, l, ets, taken, closed, free } => {
                self.peer(peer)?.live(Live { r, hi, l, ets, taken, closed, free: IntervalSet::new() }, free);
            }
            Record::Drop { peer } => self.peer(peer)?.drop_record(),
            Record::Take { peer, run, call } => self.peer(peer)?.take(run, call)?,
            Record::Mark { peer, s, verdict } => self.peer(peer)?.mark(s, verdict),
            Record::Withdraw { peer, run } => self.peer(peer)?.withdrawn.insert(run),
            Record::Void { peer, name, s, len, age, n, link } => {
                self.peer(peer)?.void(name, (s, len), StreamMark { age, n, link, ..StreamMark::OPEN });
            }
            Record::Given { peer, s, attempt } => {
                self.peer(peer)?.attempts.insert(s, attempt);
            }
            Record::Answered { peer, s } => {
                self.peer(peer)?.calls.remove(&s);
            }
            Record::Front { b, hull } => self.front = Some((b, hull)),
            Record::Life { life } => self.life = Some(life),
            Record::Named { letters, peers } => {
                (self.letters, self.peers) = (self.letters.max(letters), self.peers.max(peers));
            }
        }
        Ok(())
    }

    fn bind(&mut self, letter: LetterId, n: u32, s: Slot, r: Incarnation) -> Result<(), Malformed> {
        let mut left = n;
        for (at, posted) in self.open.among(letter, n) {
            posted.placed = Placed::Bound(Slot(s.0 + (at.get() - letter.get())), r);
            left -= posted.n.min(left);
        }
        if left > 0 { Err(Malformed::Reserved) } else { Ok(()) }
    }

    /// An early message has its incarnation.
    fn convert(&mut self, letter: LetterId, r: Incarnation) -> Result<(), Malformed> {
        let placed = &mut self.letter(letter)?.placed;
        let Placed::Early(s, _) = *placed else { return Err(Malformed::Reserved) };
        *placed = Placed::Bound(s, r);
        Ok(())
    }

    /// Messages have ended: returns the slot of the first, if it had one.
    fn end(&mut self, letter: LetterId, n: u32) -> Result<Option<(Slot, Incarnation)>, Malformed> {
        let (resident, mut first) = (&mut self.resident, None);
        let all = self.open.remove(letter, n, |gone| {
            first.get_or_insert(gone.placed);
            *resident = resident.saturating_sub(gone.resident());
            self.missing -= u64::from(gone.n) * u64::from(gone.missing);
        });
        if all { Ok(first.and_then(Placed::slot)) } else { Err(Malformed::Reserved) }
    }

    fn peer(&mut self, peer: u32) -> Result<&mut Known, Malformed> {
        self.known.get_mut(&peer).ok_or(Malformed::Reserved)
    }

    fn letter(&mut self, letter: LetterId) -> Result<&mut Posted, Malformed> {
        self.open.single(letter).ok_or(Malformed::Reserved)
    }

    /// Keeps one or several bodies. Returns where they are, and whether that is the shelf.
    fn take_in(&mut self, body: &[u8]) -> (Bytes, bool) {
        if let Some(kept) = self.shelf.put(self.resident, body) {
            return (kept, true);
        }
        self.resident += if body.len() > SMALL { body.len() as u64 } else { 0 };
        (Bytes::copy_from_slice(body), false)
    }
}

impl Known {
    fn new(id: NodeId) -> Self {
        let (calls, verdicts, attempts) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        let (writers, readers) = (BTreeMap::new(), Readers::default());
        let (hints, withdrawn) = (Vec::new(), IntervalSet::new());
        Self { id, hints, record: None, calls, verdicts, withdrawn, attempts, writers, readers }
    }

    /// The newest address comes last.
    fn hint(&mut self, address: SocketAddr) {
        self.hints.retain(|known| *known != address);
        self.hints.push(address);
    }

    /// A stream to the peer has begun, or has ended.
    fn writer(&mut self, name: &[u8], begun: Option<(Slot, u64)>) {
        match begun {
            Some(begun) => drop(self.writers.insert(Bytes::copy_from_slice(name), begun)),
            None => drop(self.writers.remove(name)),
        }
    }

    /// The application has given its verdict on a message.
    fn mark(&mut self, s: Slot, verdict: Verdict) {
        self.attempts.remove(&s);
        self.verdicts.insert(s, verdict);
    }

    /// `len` messages of a stream, from `s` on, were withdrawn.
    fn void(&mut self, name: &[u8], (s, len): (Slot, u64), mark: StreamMark) {
        self.withdrawn.insert(s.0..s.0 + len);
        self.readers.voids.insert(name, s, len, mark);
    }

    fn drop_record(&mut self) {
        self.record = None;
        self.readers.forget_ended();
        self.verdicts.clear();
        self.withdrawn.clear();
        self.attempts.clear();
    }

    fn live(&mut self, live: Live, free: Vec<Range<u64>>) {
        let before = self.record.take().filter(|before| before.r == live.r);
        if before.is_none() {
            self.drop_record();
        }
        self.readers.pass(live.l);
        self.verdicts = self.verdicts.split_off(&live.l);
        self.withdrawn.remove_below(live.l.0);
        self.attempts = self.attempts.split_off(&live.l);
        let mut live = Live { free: before.map_or_else(IntervalSet::new, |before| before.free), ..live };
        free.into_iter().for_each(|run| live.free.insert(run));
        live.free.remove_below(live.l.0);
        self.record = Some(live);
    }

    fn take(&mut self, run: Range<u64>, call: bool) -> Result<(), Malformed> {
        match self.record.as_mut() {
            Some(live) => {
                live.free.remove_range(run.clone());
                if !self.attempts.is_empty() {
                    self.attempts.retain(|s, _| !run.contains(&s.0));
                }
            }
            // A call outlives the record under which it came.
            None if call => {}
            None => return Err(Malformed::Reserved),
        }
        self.calls.extend(run.filter(|_| call).map(Slot));
        Ok(())
    }

    /// Whether nothing is known of the peer that could be missed.
    pub(crate) fn is_over(&self) -> bool {
        let in_streams = !self.writers.is_empty() || !self.readers.is_empty();
        self.record.is_none() && self.calls.is_empty() && !in_streams
    }

    /// The receiver record.
    pub(crate) fn receiver(&self) -> Option<Receiver> {
        let Live { r, hi, l, ets, taken, closed, free } = self.record.clone()?;
        let marks = self.verdicts.iter().filter(|(s, _)| free.contains(s.0));
        let marks: BTreeMap<_, _> = marks.map(|(s, verdict)| (*s, verdict.word.mark())).collect();
        let mut withdrawn = IntervalSet::new();
        for run in self.withdrawn.iter() {
            free.overlaps(run).for_each(|open| withdrawn.insert(open));
        }
        marks.keys().for_each(|s| {
            withdrawn.remove(s.0);
        });
        Some(Receiver::recover(r, hi, l, free, (ets, taken), closed, (marks, withdrawn)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(records: &[Record<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        records.iter().for_each(|record| record.encode(&mut bytes));
        bytes
    }

    const HEADING: Heading<'static> = Heading::PLAIN;

    fn put(letter: u64) -> Record<'static> {
        Record::Put { letter: LetterId::new(letter).unwrap(), peer: 1, heading: HEADING, body: b"x" }
    }

    fn live(r: u64, hi: u64, l: u64, free: Range<u64>) -> Record<'static> {
        let free = Some(free).filter(|run| !run.is_empty()).into_iter().collect();
        Record::Live {
            peer: 1,
            r: Incarnation(r),
            hi: Slot(hi),
            l: Slot(l),
            ets: Stamp(0),
            taken: None,
            closed: false,
            free,
        }
    }

    const PEER: Record<'static> = Record::Peer { peer: 1, id: NodeId([7; 32]) };

    #[test]
    fn a_message_is_where_its_last_record_has_it() {
        let id = |n| LetterId::new(n).unwrap();
        let (s, r) = (Slot(4), Incarnation(2));
        let bytes = journal(&[
            PEER,
            put(1),
            put(2),
            put(3),
            put(4),
            Record::Bind { letter: id(1), n: 1, s, r },
            Record::Early { letter: id(2), s: Slot(9), ts: Stamp(5) },
            Record::Bind { letter: id(3), n: 1, s: Slot(5), r },
            Record::Back { letter: id(3), kept: None },
            Record::End { letter: id(4), n: 1 },
        ]);
        let found = Recovered::read(&bytes).unwrap();
        let placed: Vec<_> = found.open.each().map(|(_, posted)| posted.placed).collect();
        assert_eq!(placed, [Placed::Bound(s, r), Placed::Early(Slot(9), Stamp(5)), Placed::Nowhere]);
        assert_eq!((found.letters, found.peers), (4, 1));
        let bound: Vec<_> = found.open_letters().map(|open| (open.letter, open.bound)).collect();
        let early = Some((Slot(9), Incarnation::UNNAMED));
        assert_eq!(bound, [(id(1), Some((s, r))), (id(2), early), (id(3), None)]);
        assert!(found.open_letters().all(|open| open.peer == NodeId([7; 32]) && open.body == "x"));
        let more = journal(&[Record::Convert { letter: id(2), r }]);
        let found = Recovered::read(&[bytes, more].concat()).unwrap();
        assert_eq!(found.open.each().nth(1).unwrap().1.placed, Placed::Bound(Slot(9), r));
    }

    #[test]
    fn a_record_grows_and_shrinks_and_gives_way() {
        let take = |run, call| Record::Take { peer: 1, run, call };
        let mut all = vec![PEER, live(3, 8, 0, 2..8), take(3..5, false), live(3, 12, 4, 10..12)];
        let receiver = |all: &[Record<'_>]| Recovered::read(&journal(all)).unwrap().known[&1].receiver();
        let found = receiver(&all).unwrap();
        let (hi, l, free) = found.parts();
        assert_eq!((hi, l, free.iter().collect::<Vec<_>>()), (Slot(12), Slot(4), vec![5..8, 10..12]));
        all.extend([live(4, 20, 20, 20..20), take(11..12, true)]);
        let found = receiver(&all).unwrap();
        assert_eq!((found.incarnation(), found.free()), (Incarnation(4), 0));
        let known = &Recovered::read(&journal(&all)).unwrap().known[&1];
        assert_eq!(known.calls, [Slot(11)].into());
        all.extend([Record::Answered { peer: 1, s: Slot(11) }, Record::Drop { peer: 1 }]);
        let known = &Recovered::read(&journal(&all)).unwrap().known[&1];
        assert!(known.calls.is_empty() && known.receiver().is_none());
    }

    #[test]
    fn what_a_snapshot_has_kept_is_found_with_its_place() {
        let id = |n| LetterId::new(n).unwrap();
        let (s, r) = (Slot(4), Incarnation(2));
        let put = |n| Record::Put { letter: id(n), peer: 1, heading: HEADING, body: &[7; 100] };
        let entries: Vec<u8> = (2..=5).flat_map(|n| [&[0], &[n; 100][..]].concat()).collect();
        let span =
            Record::PutSpan { letter: id(2), n: 4, peer: 1, heading: HEADING, body: 100, entries: &entries };
        let mut found = Recovered::default();
        let snapshot = [
            PEER,
            Record::Kept { letter: id(1), n: 1 },
            Record::Bind { letter: id(1), n: 1, s, r },
            Record::Kept { letter: id(3), n: 2 },
            Record::Bind { letter: id(4), n: 1, s: Slot(9), r },
        ];
        found.add_group(0, &journal(&snapshot)).unwrap();
        assert!(found.clone().finish(7).is_err(), "three are missing");
        found.add_kept(5, &journal(&[put(1), span, put(6)])).unwrap();
        assert_eq!(found.resident, 100 + 2 * 101, "the others are over");
        let found = found.finish(7).unwrap();
        let all =
            found.open.each().map(|(id, it)| (id.get(), it.body[0], it.body.len(), it.placed, it.group));
        let bound = |s| Placed::Bound(Slot(s), r);
        let expected = [(1, 7, bound(4)), (3, 3, Placed::Nowhere), (4, 4, bound(9))];
        assert!(all.eq(expected.map(|(id, first, placed)| (id, first, 100, placed, 5))));
    }

    #[test]
    fn what_names_nothing_is_said_with_its_place() {
        let bad = |records: &[Record<'_>]| Recovered::read(&journal(records)).unwrap_err().at;
        assert_eq!(bad(&[put(1)]), 0);
        assert_eq!(bad(&[PEER, Record::End { letter: LetterId::new(1).unwrap(), n: 1 }]), 34);
        assert_eq!(bad(&[PEER, Record::Take { peer: 1, run: 0..1, call: false }]), 34);
        assert_eq!(Recovered::read(&[99]).unwrap_err().at, 0);
        assert_eq!(Recovered::read(&[]), Ok(Recovered::default()));
    }
}
