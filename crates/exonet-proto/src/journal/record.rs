//! Records: the steps that a crash must not undo, as bytes.

use core::net::{IpAddr, SocketAddr};
use core::ops::Range;

use super::past::How;
use crate::half::{Hull, KeptPlace, Taken};
use crate::id::{Incarnation, LetterId, NodeId, Slot, Stamp};
use crate::message::{Early, Priority, Verdict, Word};
use crate::time::Wall;
use crate::wire::Traceparent;
use crate::wire::{self, Malformed, StreamEnd, Take, put_varint};

/// What the application gave for a message, or for several alike, beside the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heading<'a> {
    pub(crate) priority: Priority,
    pub(crate) early: Early,
    pub(crate) confirm: bool,
    /// For a message of the stream named by its tag: whether the stream goes on, and whether the next message continues this one.
    pub(crate) part: Option<(StreamEnd, bool)>,
    pub(crate) expires: Option<Wall>,
    pub(crate) tag: &'a [u8],
    /// The trace that the message is part of.
    pub(crate) trace: Option<Traceparent>,
}

impl Heading<'_> {
    /// The heading of a message that has only a body.
    pub(crate) const PLAIN: Self = Self {
        priority: Priority::Normal,
        early: Early::AsNode,
        confirm: false,
        part: None,
        expires: None,
        tag: b"",
        trace: None,
    };
}

/// A record of the journal. `peer` is the journal's own number of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// Names a peer.
    Peer { peer: u32, id: NodeId },
    /// The address of a peer.
    Hint { peer: u32, address: SocketAddr },
    /// The application gave a message.
    Put { letter: LetterId, peer: u32, heading: Heading<'a>, body: &'a [u8] },
    /// The application gave `n` messages that are equal except for their bodies. `entries` has the bodies, all of one length,
    /// each behind a lead of the same length, whose content has no meaning here.
    PutSpan { letter: LetterId, n: u32, peer: u32, heading: Heading<'a>, body: usize, entries: &'a [u8] },
    /// `n` messages from `letter` on are bound to `n` consecutive slots from `s` on.
    Bind { letter: LetterId, n: u32, s: Slot, r: Incarnation },
    /// The place of a bound message in its stream; the `count - 1` messages behind it have the places that follow.
    Place { letter: LetterId, count: u32, age: u64, n: u64, link: u64 },
    /// How far the messages of a stream are bound. Without `begun`, the next message opens another stream.
    Writer { peer: u32, name: &'a [u8], begun: Option<(Slot, u64)> },
    /// The message leaves early.
    Early { letter: LetterId, s: Slot, ts: Stamp },
    /// The early message has met a record.
    Convert { letter: LetterId, r: Incarnation },
    /// The message was not taken, and is not bound any more. It may keep its place in its stream.
    Back { letter: LetterId, kept: Option<KeptPlace> },
    /// Of an earlier version: `n` messages from `letter` on have their outcome.
    End { letter: LetterId, n: u32 },
    /// `n` messages to a peer, from `letter` on, have this outcome. They were bound to consecutive slots, or not
    /// at all.
    Outcome { letter: LetterId, n: u32, peer: u32, how: How<'a> },
    /// In a snapshot: an `Outcome` from before it, of messages to the peer `id`, with the first of their slots.
    Past { letter: LetterId, n: u32, id: NodeId, bound: Option<(Slot, Incarnation)>, how: How<'a> },
    /// The receiver record of a peer, and slots that are free in it besides those written before. Another incarnation replaces
    /// what was written.
    Live {
        peer: u32,
        r: Incarnation,
        hi: Slot,
        l: Slot,
        ets: Stamp,
        taken: Option<Taken>,
        closed: bool,
        free: Vec<Range<u64>>,
    },
    /// The peer has no receiver record any more.
    Drop { peer: u32 },
    /// These slots were used up, all by messages or all by calls.
    Take { peer: u32, run: Range<u64>, call: bool },
    /// How far the messages of a stream were taken or judged; the stream may have `ended` at a slot.
    Reader { peer: u32, name: &'a [u8], o: Slot, next: u64, ended: Option<Slot> },
    /// The application has given its verdict on a message.
    Mark { peer: u32, s: Slot, verdict: Verdict },
    /// The messages of these slots were withdrawn by their sender.
    Withdraw { peer: u32, run: Range<u64> },
    /// As `Withdraw`, for `len` messages of a stream from the one in `s` on, consecutive in slots and in the stream.
    Void { peer: u32, name: &'a [u8], s: Slot, len: u64, age: u64, n: u64, link: u64 },
    /// A message is handed out for the `attempt`th time.
    Given { peer: u32, s: Slot, attempt: u32 },
    /// A call needs no reply any more.
    Answered { peer: u32, s: Slot },
    /// The amnesia frontier and the hull. Every journal has them from the start.
    Front { b: Incarnation, hull: Hull },
    /// How many letters and peers have been named.
    Named { letters: u64, peers: u32 },
    /// The life of the identity that writes from here on.
    Life { life: u64 },
    /// In a snapshot: `n` messages from `letter` on are open. What the application gave is in records before the snapshot.
    Kept { letter: LetterId, n: u32 },
}

const PEER: u8 = 1;
const HINT: u8 = 2;
const PUT: u8 = 3;
const BIND: u8 = 4;
const EARLY: u8 = 5;
const CONVERT: u8 = 6;
const BACK: u8 = 7;
const END: u8 = 8;
const LIVE: u8 = 9;
const DROP: u8 = 10;
const TAKE: u8 = 11;
const ANSWERED: u8 = 12;
const FRONT: u8 = 13;
const NAMED: u8 = 14;
const LIFE: u8 = 16;
const MARK: u8 = 17;
const GIVEN: u8 = 18;
const KEPT: u8 = 19;
const WRITER: u8 = 21;
const READER: u8 = 22;
const WITHDRAW: u8 = 23;
// The numbers 15 and 20 stand for older forms of these records, without a common head and for one message only.
const PUT_SPAN: u8 = 24;
const PLACE: u8 = 25;
const VOID: u8 = 26;
const RETURNED: u8 = 27;
const OUTCOME: u8 = 28;
const PAST: u8 = 29;

impl<'a> Record<'a> {
    /// Appends the record to `to`.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        let tail = self.encode_lead(to);
        to.extend_from_slice(tail);
    }

    /// As [`Record::encode`], without the bodies at its end, which are returned: they follow what was appended.
    pub(crate) fn encode_lead(&self, to: &mut Vec<u8>) -> &'a [u8] {
        match self {
            Self::Peer { peer, id } => {
                head(to, PEER, [u64::from(*peer)]);
                to.extend_from_slice(&id.0);
            }
            Self::Hint { peer, address } => {
                head(to, HINT, [u64::from(*peer), u64::from(address.port())]);
                prefixed_ip(to, address.ip());
            }
            Self::Put { letter, peer, heading, body } => {
                head(to, PUT, [letter.get(), u64::from(*peer)]);
                heading.encode(to);
                put_varint(to, body.len() as u64);
                return body;
            }
            Self::PutSpan { letter, n, peer, heading, body, entries } => {
                head(to, PUT_SPAN, [letter.get(), u64::from(*n), u64::from(*peer)]);
                heading.encode(to);
                put_varint(to, *body as u64);
                put_varint(to, entries.len() as u64);
                return entries;
            }
            Self::Bind { letter, n, s, r } => head(to, BIND, [letter.get(), u64::from(*n), s.0, r.0]),
            Self::Place { letter, count, age, n, link } => {
                head(to, PLACE, [letter.get(), u64::from(*count), *age, *n, *link]);
            }
            Self::Writer { peer, name, begun } => put_writer(to, *peer, name, *begun),
            Self::Reader { peer, name, o, next, ended } => {
                let (over, at) = (u64::from(ended.is_some()), ended.map_or(0, |s| s.0));
                head(to, READER, [u64::from(*peer), o.0, *next, over, at]);
                prefixed(to, name);
            }
            Self::Early { letter, s, ts } => head(to, EARLY, [letter.get(), s.0, ts.0]),
            Self::Convert { letter, r } => head(to, CONVERT, [letter.get(), r.0]),
            Self::Back { letter, kept: None } => head(to, BACK, [letter.get()]),
            Self::Back { letter, kept: Some(kept) } => head(to, RETURNED, [letter.get(), kept.o.0, kept.n]),
            Self::End { letter, n } => head(to, END, [letter.get(), u64::from(*n)]),
            Self::Outcome { letter, n, peer, how } => put_outcome(to, (*letter, *n, *peer), how),
            Self::Past { letter, n, id, bound, how } => put_past(to, (*letter, *n, *id), *bound, how),
            Self::Live { peer, r, hi, l, ets, taken, closed, free } => {
                let (kts, keep) = taken.map_or((0, 0), |of| (of.ts.0, of.end.0));
                let (peer, closed) = (u64::from(*peer), u64::from(*closed));
                head(to, LIVE, [peer, r.0, hi.0, l.0, ets.0, kts, keep, closed, free.len() as u64]);
                free.iter().flat_map(|run| [run.start, run.end]).for_each(|end| put_varint(to, end));
            }
            Self::Drop { peer } => head(to, DROP, [u64::from(*peer)]),
            Self::Take { peer, run, call } => {
                head(to, TAKE, [u64::from(*peer), run.start, run.end, u64::from(*call)]);
            }
            Self::Mark { peer, s, verdict: Verdict { word, status, attempts, reason } } => {
                let [status, attempts] = [status, attempts].map(|number| u64::from(*number));
                head(to, MARK, [u64::from(*peer), s.0, *word as u64, status, attempts]);
                prefixed(to, reason.as_bytes());
            }
            Self::Withdraw { peer, run } => head(to, WITHDRAW, [u64::from(*peer), run.start, run.end]),
            Self::Void { peer, name, s, len, age, n, link } => {
                head(to, VOID, [u64::from(*peer), s.0, *len, *age, *n, *link]);
                prefixed(to, name);
            }
            Self::Given { peer, s, attempt } => head(to, GIVEN, [u64::from(*peer), s.0, u64::from(*attempt)]),
            Self::Answered { peer, s } => head(to, ANSWERED, [u64::from(*peer), s.0]),
            Self::Front { b, hull } => head(to, FRONT, [b.0, hull.above.0, hull.upto.0]),
            Self::Named { letters, peers } => head(to, NAMED, [*letters, u64::from(*peers)]),
            Self::Life { life } => head(to, LIFE, [*life]),
            Self::Kept { letter, n } => head(to, KEPT, [letter.get(), u64::from(*n)]),
        }
        &[]
    }

    /// Reads the record at the front of `from`, and leaves the rest.
    pub(crate) fn decode(from: &mut Take<'a>) -> Result<Self, Malformed> {
        Ok(match from.byte()? {
            PEER => Self::Peer { peer: small(from)?, id: NodeId(*from.array()?) },
            HINT => Self::hint(from)?,
            PUT => Self::put(from)?,
            PUT_SPAN => Self::put_span(from)?,
            BIND => {
                Self::Bind { letter: letter(from)?, n: count(from)?, s: slot(from)?, r: incarnation(from)? }
            }
            PLACE => {
                let (letter, count) = (letter(from)?, count(from)?);
                Self::Place { letter, count, age: from.varint()?, n: from.varint()?, link: from.varint()? }
            }
            WRITER => {
                let (peer, is_begun, o, n) = (small(from)?, flag(from)?, slot(from)?, from.varint()?);
                Self::Writer { peer, name: name(from)?, begun: is_begun.then_some((o, n)) }
            }
            READER => {
                let (peer, o, next) = (small(from)?, slot(from)?, from.varint()?);
                let (over, at) = (flag(from)?, slot(from)?);
                Self::Reader { peer, name: name(from)?, o, next, ended: over.then_some(at) }
            }
            EARLY => Self::Early { letter: letter(from)?, s: slot(from)?, ts: Stamp(from.varint()?) },
            CONVERT => Self::Convert { letter: letter(from)?, r: incarnation(from)? },
            BACK => Self::Back { letter: letter(from)?, kept: None },
            RETURNED => {
                let (letter, o, n) = (letter(from)?, slot(from)?, from.varint()?);
                Self::Back { letter, kept: Some(KeptPlace { o, n }) }
            }
            END => Self::End { letter: letter(from)?, n: count(from)? },
            OUTCOME => {
                let (letter, n, peer) = (letter(from)?, count(from)?, small(from)?);
                Self::Outcome { letter, n, peer, how: How::decode(from)? }
            }
            PAST => {
                let (letter, n, id) = (letter(from)?, count(from)?, NodeId(*from.array()?));
                let (is_bound, s) = (flag(from)?, slot(from)?);
                let (is_named, r) = (flag(from)?, incarnation(from)?);
                let bound = is_bound.then_some((s, if is_named { r } else { Incarnation::UNNAMED }));
                Self::Past { letter, n, id, bound, how: How::decode(from)? }
            }
            LIVE => Self::live(from)?,
            DROP => Self::Drop { peer: small(from)? },
            TAKE => Self::Take { peer: small(from)?, run: run(from)?, call: flag(from)? },
            MARK => Self::Mark { peer: small(from)?, s: slot(from)?, verdict: verdict(from)? },
            WITHDRAW => Self::Withdraw { peer: small(from)?, run: run(from)? },
            VOID => Self::void(from)?,
            GIVEN => Self::Given { peer: small(from)?, s: slot(from)?, attempt: small(from)? },
            ANSWERED => Self::Answered { peer: small(from)?, s: slot(from)? },
            FRONT => {
                let (b, above, upto) = (incarnation(from)?, Stamp(from.varint()?), Stamp(from.varint()?));
                Self::Front { b, hull: Hull { above, upto } }
            }
            NAMED => Self::Named { letters: from.varint()?, peers: small(from)? },
            LIFE => Self::Life { life: from.varint()? },
            KEPT => Self::Kept { letter: letter(from)?, n: count(from)? },
            _ => return Err(Malformed::Reserved),
        })
    }

    fn hint(from: &mut Take<'a>) -> Result<Self, Malformed> {
        let peer = small(from)?;
        let port = u16::try_from(from.varint()?).map_err(|_| Malformed::Length)?;
        let bytes = from.prefixed()?;
        let ip = match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
            (Ok(ip), _) => IpAddr::from(ip),
            (_, Ok(ip)) => IpAddr::from(ip),
            _ => return Err(Malformed::Length),
        };
        Ok(Self::Hint { peer, address: SocketAddr::new(ip, port) })
    }

    fn put(from: &mut Take<'a>) -> Result<Self, Malformed> {
        let (letter, peer, heading) = (letter(from)?, small(from)?, Heading::decode(from)?);
        Ok(Self::Put { letter, peer, heading, body: from.prefixed()? })
    }

    fn put_span(from: &mut Take<'a>) -> Result<Self, Malformed> {
        let (letter, n, peer) = (letter(from)?, count(from)?, small(from)?);
        let heading = Heading::decode(from)?;
        let body = usize::try_from(from.varint()?).map_err(|_| Malformed::Length)?;
        let entries = from.prefixed()?;
        let stride = entries.len() / n as usize;
        // Each body has a lead.
        if stride * n as usize != entries.len() || stride <= body {
            return Err(Malformed::Length);
        }
        Ok(Self::PutSpan { letter, n, peer, heading, body, entries })
    }

    fn void(from: &mut Take<'a>) -> Result<Self, Malformed> {
        let (peer, s, len) = (small(from)?, slot(from)?, from.varint()?);
        let (age, n, link) = (from.varint()?, from.varint()?, from.varint()?);
        if len == 0 || s.0.checked_add(len).is_none() {
            return Err(Malformed::Range);
        }
        Ok(Self::Void { peer, name: name(from)?, s, len, age, n, link })
    }

    fn live(from: &mut Take<'a>) -> Result<Self, Malformed> {
        let (peer, r, hi, l) = (small(from)?, incarnation(from)?, slot(from)?, slot(from)?);
        let (ets, kts, keep) = (Stamp(from.varint()?), Stamp(from.varint()?), slot(from)?);
        let taken = (keep > Slot(0)).then_some(Taken { ts: kts, end: keep });
        let (closed, runs) = (flag(from)?, from.varint()?);
        let mut free = Vec::new();
        for _ in 0..runs {
            free.push(run(from)?);
        }
        Ok(Self::Live { peer, r, hi, l, ets, taken, closed, free })
    }
}

impl<'a> Heading<'a> {
    fn encode(&self, to: &mut Vec<u8>) {
        let Self { priority, early, confirm, part, expires, tag, trace } = self;
        let kind = u64::from(*priority as u8) | early_bits(*early) << 2 | u64::from(*confirm) << 4;
        put_varint(to, kind | part_bits(*part) << 5 | u64::from(trace.is_some()) << 8);
        put_varint(to, expires.map_or(0, |at| at.0));
        prefixed(to, tag);
        if let Some(trace) = trace {
            prefixed(to, &trace.to_bytes());
        }
    }

    fn decode(from: &mut Take<'a>) -> Result<Self, Malformed> {
        let kind = from.varint()?;
        let priority = priority(kind & 3)?;
        let early = match kind >> 2 & 3 {
            0 => Early::AsNode,
            1 => Early::Yes,
            2 => Early::No,
            _ => return Err(Malformed::Reserved),
        };
        let (confirm, part, traced) = (kind >> 4 & 1 > 0, part(kind >> 5 & 7)?, kind >> 8);
        let expires = Some(from.varint()?).filter(|at| *at > 0).map(Wall);
        let tag = from.prefixed()?;
        if tag.len() > wire::MAX_TAG {
            return Err(Malformed::Length);
        }
        let trace = match traced {
            0 => None,
            1 => Some(Traceparent::from_bytes(from.prefixed()?).ok_or(Malformed::Length)?),
            _ => return Err(Malformed::Reserved),
        };
        Ok(Self { priority, early, confirm, part, expires, tag, trace })
    }
}

fn head<const N: usize>(to: &mut Vec<u8>, kind: u8, numbers: [u64; N]) {
    to.push(kind);
    numbers.into_iter().for_each(|number| put_varint(to, number));
}

fn put_outcome(to: &mut Vec<u8>, (letter, n, peer): (LetterId, u32, u32), how: &How<'_>) {
    head(to, OUTCOME, [letter.get(), u64::from(n), u64::from(peer)]);
    how.encode(to);
}

fn put_past(
    to: &mut Vec<u8>,
    (letter, n, id): (LetterId, u32, NodeId),
    bound: Option<(Slot, Incarnation)>,
    how: &How<'_>,
) {
    head(to, PAST, [letter.get(), u64::from(n)]);
    to.extend_from_slice(&id.0);
    let s = bound.map(|(s, _)| s.0);
    let r = bound.and_then(|(_, r)| (r != Incarnation::UNNAMED).then_some(r.0));
    for number in [s, r] {
        put_varint(to, number.is_some().into());
        put_varint(to, number.unwrap_or_default());
    }
    how.encode(to);
}

fn put_writer(to: &mut Vec<u8>, peer: u32, name: &[u8], begun: Option<(Slot, u64)>) {
    let (has, (o, n)) = (u64::from(begun.is_some()), begun.map_or((0, 0), |(o, n)| (o.0, n)));
    head(to, WRITER, [u64::from(peer), has, o, n]);
    prefixed(to, name);
}

fn prefixed_ip(to: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => prefixed(to, &ip.octets()),
        IpAddr::V6(ip) => prefixed(to, &ip.octets()),
    }
}

fn prefixed(to: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

const fn early_bits(early: Early) -> u64 {
    match early {
        Early::AsNode => 0,
        Early::Yes => 1,
        Early::No => 2,
    }
}

/// Zero: not in a stream. Otherwise one more than the end, plus three if the next message continues this one.
const fn part_bits(part: Option<(StreamEnd, bool)>) -> u64 {
    match part {
        None => 0,
        Some((end, more)) => 1 + end as u64 + if more { 3 } else { 0 },
    }
}

const fn part(bits: u64) -> Result<Option<(StreamEnd, bool)>, Malformed> {
    let end = match bits {
        0 => return Ok(None),
        1 | 4 => StreamEnd::Open,
        2 | 5 => StreamEnd::Last,
        3 | 6 => StreamEnd::Reset,
        _ => return Err(Malformed::Reserved),
    };
    Ok(Some((end, bits > 3)))
}

fn name<'a>(from: &mut Take<'a>) -> Result<&'a [u8], Malformed> {
    let name = from.prefixed()?;
    if name.is_empty() || name.len() > wire::MAX_TAG { Err(Malformed::Length) } else { Ok(name) }
}

fn small(from: &mut Take<'_>) -> Result<u32, Malformed> {
    u32::try_from(from.varint()?).map_err(|_| Malformed::Length)
}

fn letter(from: &mut Take<'_>) -> Result<LetterId, Malformed> {
    LetterId::new(from.varint()?).ok_or(Malformed::Length)
}

fn verdict(from: &mut Take<'_>) -> Result<Verdict, Malformed> {
    let word = u8::try_from(from.varint()?).ok().and_then(Word::of).ok_or(Malformed::Reserved)?;
    let (status, attempts) = (small(from)?, small(from)?);
    let reason = core::str::from_utf8(from.prefixed()?).map_err(|_| Malformed::Reserved)?;
    Ok(Verdict { word, status, attempts, reason: reason.into() })
}

/// A count of at least one.
fn count(from: &mut Take<'_>) -> Result<u32, Malformed> {
    match small(from)? {
        0 => Err(Malformed::Range),
        n => Ok(n),
    }
}

const fn priority(bits: u64) -> Result<Priority, Malformed> {
    Ok(match bits {
        0 => Priority::Urgent,
        1 => Priority::Normal,
        2 => Priority::Low,
        3 => Priority::Bulk,
        _ => return Err(Malformed::Reserved),
    })
}

fn slot(from: &mut Take<'_>) -> Result<Slot, Malformed> {
    from.varint().map(Slot)
}

fn incarnation(from: &mut Take<'_>) -> Result<Incarnation, Malformed> {
    from.varint().map(Incarnation)
}

fn flag(from: &mut Take<'_>) -> Result<bool, Malformed> {
    match from.varint()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed::Reserved),
    }
}

fn run(from: &mut Take<'_>) -> Result<Range<u64>, Malformed> {
    let run = from.varint()?..from.varint()?;
    if run.is_empty() { Err(Malformed::Range) } else { Ok(run) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::DurabilityLevel;
    use crate::message::{MAX_REASON, Outcome, Refusal};

    /// Messages that were judged have a level here, and those without one were late.
    fn how(outcome: Outcome, reason: &str) -> How<'_> {
        let level = match outcome {
            Outcome::Delivered => Some(DurabilityLevel::Memory),
            Outcome::Processed { .. } => Some(DurabilityLevel::Process),
            Outcome::Rejected { .. } => Some(DurabilityLevel::Sync),
            _ => None,
        };
        How { outcome, late: level.is_none(), receiver_durability: level, reason }
    }

    fn outcome(outcome: Outcome, reason: &str) -> Record<'_> {
        let letter = LetterId::new(9).unwrap();
        Record::Outcome { letter, n: 300, peer: 3, how: how(outcome, reason) }
    }

    fn all() -> Vec<Record<'static>> {
        [steps(), outcomes()].concat()
    }

    fn outcomes() -> Vec<Record<'static>> {
        let (letter, id, s) = (LetterId::new(9).unwrap(), NodeId([7; 32]), Slot(1 << 40));
        let no = how(Outcome::Rejected { status: 1, attempts: 2 }, "no");
        vec![
            outcome(Outcome::Delivered, ""),
            outcome(Outcome::Processed { status: 1 << 31 }, "done"),
            outcome(Outcome::Processed { status: 0 }, ""),
            outcome(Outcome::Rejected { status: 7, attempts: 300 }, "no such account"),
            outcome(Outcome::Expired, ""),
            outcome(Outcome::Cancelled, ""),
            outcome(Outcome::Refused(Refusal::Policy), ""),
            outcome(Outcome::Refused(Refusal::Kind), ""),
            outcome(Outcome::Refused(Refusal::Ended), ""),
            outcome(Outcome::Unknown, ""),
            Record::Past { letter, n: 3, id, bound: None, how: how(Outcome::Cancelled, "") },
            Record::Past { letter, n: 1, id, bound: Some((s, Incarnation(9))), how: no },
            Record::Past { letter, n: 1, id, bound: Some((s, Incarnation::UNNAMED)), how: no },
        ]
    }

    fn steps() -> Vec<Record<'static>> {
        let letter = LetterId::new(70_000).unwrap();
        let (s, r) = (Slot(1 << 40), Incarnation(9));
        let heading = |early, expires: Option<Wall>| Heading {
            priority: Priority::Low,
            early,
            confirm: expires.is_some(),
            part: expires.map(|_| (StreamEnd::Reset, true)),
            expires,
            tag: b"tag",
            trace: expires.and_then(|_| Traceparent::new([1; 16], [2; 8], 1)),
        };
        let put =
            |early, expires| Record::Put { letter, peer: 3, heading: heading(early, expires), body: b"body" };
        let span = |expires| {
            let heading = heading(Early::AsNode, expires);
            Record::PutSpan { letter, n: 2, peer: 3, heading, body: 2, entries: b"-ab-cd" }
        };
        let live = |closed: bool, free: &[Range<u64>]| Record::Live {
            peer: 3,
            r,
            hi: s,
            l: Slot(7),
            ets: Stamp(8),
            taken: closed.then_some(Taken { ts: Stamp(6), end: Slot(5) }),
            closed,
            free: free.to_vec(),
        };
        vec![
            Record::Peer { peer: 3, id: NodeId([7; 32]) },
            Record::Hint { peer: 3, address: "10.0.0.1:999".parse().unwrap() },
            Record::Hint { peer: 3, address: "[fe80::1]:65535".parse().unwrap() },
            put(Early::AsNode, None),
            put(Early::Yes, Some(Wall(1 << 50))),
            put(Early::No, None),
            span(None),
            span(Some(Wall(1 << 50))),
            Record::Bind { letter, n: 300, s, r },
            Record::Place { letter, count: 1, age: 1 << 33, n: 70, link: 0 },
            Record::Writer { peer: 3, name: b"a", begun: Some((s, 9)) },
            Record::Writer { peer: 3, name: b"a", begun: None },
            Record::Reader { peer: 3, name: b"a", o: s, next: 9, ended: None },
            Record::Reader { peer: 3, name: b"a", o: Slot(0), next: 0, ended: Some(s) },
            Record::Early { letter, s, ts: Stamp(5) },
            Record::Convert { letter, r },
            Record::Back { letter, kept: None },
            Record::Back { letter, kept: Some(KeptPlace { o: s, n: 7 }) },
            Record::End { letter, n: 1 },
            live(true, &[]),
            live(false, &[1..2, 5..1 << 40]),
            Record::Drop { peer: 3 },
            Record::Take { peer: 3, run: 4..9, call: true },
            Record::Mark {
                peer: 3,
                s,
                verdict: Verdict { attempts: 9, ..Verdict::new(Word::Rejected, 7, "no") },
            },
            Record::Withdraw { peer: 3, run: 4..1 << 40 },
            Record::Void { peer: 3, name: b"a", s, len: 2, age: 1 << 33, n: 70, link: 0 },
            Record::Given { peer: 3, s, attempt: 2 },
            Record::Answered { peer: 3, s },
            Record::Front { b: r, hull: Hull { above: Stamp(2), upto: Stamp(3) } },
            Record::Named { letters: 1 << 40, peers: 7 },
            Record::Life { life: 300 },
            Record::Kept { letter, n: 9 },
        ]
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut bytes = Vec::new();
        all().iter().for_each(|record| record.encode(&mut bytes));
        let mut from = Take(&bytes);
        for record in all() {
            assert_eq!(Record::decode(&mut from), Ok(record));
        }
        assert!(from.is_empty());
    }

    #[test]
    fn a_record_that_is_cut_short_is_malformed() {
        for record in all() {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            for len in 0..bytes.len() {
                assert!(Record::decode(&mut Take(&bytes[..len])).is_err(), "{record:?} at {len}");
            }
        }
        assert!(Record::decode(&mut Take(&[99])).is_err());
    }

    #[test]
    fn a_reason_is_no_longer_than_on_the_wire() {
        for (len, is_read) in [(MAX_REASON, true), (MAX_REASON + 1, false)] {
            let (reason, mut bytes) = ("x".repeat(len), Vec::new());
            outcome(Outcome::Processed { status: 0 }, &reason).encode(&mut bytes);
            assert_eq!(Record::decode(&mut Take(&bytes)).is_ok(), is_read, "{len}");
        }
    }
}
