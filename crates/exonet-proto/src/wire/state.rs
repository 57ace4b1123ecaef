//! STATE and HAVE: the claims of the receiver of tokens.

use core::ops::Range;

use super::base::{self, relative};
use super::cursor::{Put, Take};
use super::kind;
use super::{Bases, Malformed, Ranges, ranges, varint_len};
use crate::{Incarnation, MAX_NUMBER, Slot, Stamp};

/// The most ranges of a HAVE.
pub const MAX_HAVE_RANGES: usize = 32;

const LIVE: u8 = 1;
const STAMPED: u8 = 2;
const FINAL: u8 = 4;
const TAKEN: u8 = 8;
const PART: u8 = 16;

/// The claim of a live record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The grant frontier.
    pub hi: Slot,
    /// The claim begins here.
    pub lo: Slot,
    /// The claim ends before here; at least `lo`.
    pub up: Slot,
    /// The STATE is final: the record is closed, and its free slots are never consumed.
    pub closed: bool,
    /// The claim begins within the record: the STATE says nothing about the slots below `lo`. Otherwise the frame's receiver
    /// has said that it has nothing open below `lo`.
    pub part: bool,
}

/// `STATE(b, r, live, hi, lo, up, free, ts, end)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State<'a> {
    /// The amnesia frontier: the outcomes of messages under lower incarnations that are not live are unknown.
    pub b: Incarnation,
    /// The live record's incarnation, or the frame sender's clock.
    pub r: Incarnation,
    /// `ts` and `end`: of what was sent early under this stamp, a record that is lost may have taken the slots below `end`. None:
    /// the STATE does not say.
    pub taken: Option<(Stamp, Slot)>,
    /// The claim of the live record, if there is one.
    pub live: Option<Claim>,
    /// The free slots of the claim, ascending: every other slot of the claim was delivered.
    pub free: Ranges<'a>,
}

impl<'a> State<'a> {
    pub(super) fn take(input: &mut Take<'a>, bases: Bases) -> Result<Self, Malformed> {
        let flags = input.byte()?;
        if flags & !(LIVE | STAMPED | FINAL | TAKEN | PART) != 0
            || flags & LIVE == 0 && flags & (FINAL | PART) != 0
            || flags & (STAMPED | TAKEN) == TAKEN
        {
            return Err(Malformed::Reserved);
        }
        let b = base::incarnation(input.varint()?, bases.sender);
        let r = base::incarnation(input.varint()?, bases.sender);
        let taken = if flags & STAMPED == 0 {
            None
        } else {
            let ts = base::stamp(input)?;
            let end = match flags & TAKEN {
                0 => Slot(0),
                _ => base::slot(input.varint()?, bases.receiver),
            };
            if flags & TAKEN != 0 && end == Slot(0) {
                return Err(Malformed::Number);
            }
            Some((ts, end))
        };
        if flags & LIVE == 0 {
            return Ok(Self { b, r, taken, live: None, free: Ranges::NONE });
        }
        let hi = base::slot(input.varint()?, bases.receiver);
        let lo = base::slot(input.varint()?, bases.receiver);
        let up = lo.0.checked_add(input.varint()?).filter(|up| *up <= MAX_NUMBER);
        let up = Slot(up.ok_or(Malformed::Number)?);
        let free = Ranges::take(input, lo.0..up.0)?;
        let (closed, part) = (flags & FINAL != 0, flags & PART != 0);
        Ok(Self { b, r, taken, live: Some(Claim { hi, lo, up, closed, part }), free })
    }
}

/// Puts the STATE of a node that has no record; `r` is its clock.
pub(super) fn put_gone(out: &mut Put<'_>, bases: Bases, of: Named) -> Option<()> {
    put_names(out, bases, 0, of)
}

/// `b`, `r`, and `ts` with `end`.
type Named = (Incarnation, Incarnation, Option<(Stamp, Slot)>);

fn put_names(out: &mut Put<'_>, bases: Bases, flags: u8, (b, r, taken): Named) -> Option<()> {
    let some = taken.is_some_and(|(_, end)| end > Slot(0));
    let said = if taken.is_some() { STAMPED } else { 0 } | if some { TAKEN } else { 0 };
    out.byte(kind::STATE)?;
    out.byte(flags | said)?;
    out.varint(relative(b.0, bases.sender))?;
    out.varint(relative(r.0, bases.sender))?;
    let Some((ts, end)) = taken else { return Some(()) };
    out.varint(ts.0)?;
    if some { out.varint(relative(end.0, bases.receiver)) } else { Some(()) }
}

/// Puts the STATE of a live record with as many ranges as fit. Returns where its claim ends.
pub(super) fn put_live(
    out: &mut Put<'_>,
    bases: Bases,
    of: Named,
    claim: Claim,
    free: impl Iterator<Item = Range<u64>>,
    max_ranges: u16,
) -> Option<Slot> {
    let flags = LIVE | if claim.closed { FINAL } else { 0 } | if claim.part { PART } else { 0 };
    put_names(out, bases, flags, of)?;
    out.varint(relative(claim.hi.0, bases.receiver))?;
    out.varint(relative(claim.lo.0, bases.receiver))?;

    // The end of the claim and the number of ranges stand before the ranges, but are known only after them. So the most room that
    // they can take is left for them, and the unused part is closed in the end.
    let head = out.len();
    let whole = claim.up.0.checked_sub(claim.lo.0)?;
    let room = varint_len(whole) + varint_len(u64::from(max_ranges));
    out.zeros(room)?;
    let body = out.len();
    let (count, up) = put_free(out, claim, free, max_ranges);

    let span = up.checked_sub(claim.lo.0)?;
    let used = varint_len(span) + varint_len(count);
    out.patch(head, |gap| {
        gap.varint(span)?;
        gap.varint(count)
    })?;
    out.close_gap(body, head + used)?;
    Some(Slot(up))
}

/// Puts the free ranges within the claim. The claim ends before the first range that is left out: up to there it is true.
fn put_free(
    out: &mut Put<'_>,
    claim: Claim,
    free: impl Iterator<Item = Range<u64>>,
    max_ranges: u16,
) -> (u64, u64) {
    let (mut count, mut at) = (0, claim.lo.0);
    for range in free {
        let range = range.start.max(at)..range.end.min(claim.up.0);
        if range.is_empty() {
            continue;
        }
        let size = varint_len(range.start - at) + varint_len(range.end - range.start);
        if count >= u64::from(max_ranges) || size > out.remaining() || ranges::put(out, at, &range).is_none()
        {
            return (count, range.start);
        }
        count += 1;
        at = range.end;
    }
    (count, claim.up.0)
}

/// `HAVE(r, s, prefix, limit, ranges)`: which bytes of an incomplete message have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Have<'a> {
    /// The incarnation of the message.
    pub r: Incarnation,
    /// The slot of the message.
    pub s: Slot,
    /// How many bytes are held from 0 on, for good.
    pub prefix: u64,
    /// The sender may send offsets below this; 0 leaves the limit as it is.
    pub limit: u64,
    /// The ranges that are held beyond `prefix`, ascending.
    pub ranges: Ranges<'a>,
}

impl<'a> Have<'a> {
    pub(super) fn take(input: &mut Take<'a>, bases: Bases) -> Result<Self, Malformed> {
        let r = base::incarnation(input.varint()?, bases.sender);
        let s = base::slot(input.varint()?, bases.receiver);
        let prefix = input.varint()?;
        let limit = input.varint()?;
        let ranges = Ranges::take(input, prefix..MAX_NUMBER)?;
        if ranges.remaining() > MAX_HAVE_RANGES as u64 {
            return Err(Malformed::Count);
        }
        Ok(Self { r, s, prefix, limit, ranges })
    }
}

/// Puts a HAVE with as many ranges as fit. Leaving some out only makes the sender send more.
pub(super) fn put_have(
    out: &mut Put<'_>,
    bases: Bases,
    (r, s): (Incarnation, Slot),
    (prefix, limit): (u64, u64),
    held: impl Iterator<Item = Range<u64>>,
) -> Option<()> {
    out.byte(kind::HAVE)?;
    out.varint(relative(r.0, bases.sender))?;
    out.varint(relative(s.0, bases.receiver))?;
    out.varint(prefix)?;
    out.varint(limit)?;
    // At most 32 ranges: the count always takes one byte, and can be patched.
    let count_at = out.len();
    out.byte(0)?;
    let (mut count, mut at) = (0_u8, prefix);
    for range in held {
        let range = range.start.max(at)..range.end.min(MAX_NUMBER);
        if range.is_empty() {
            continue;
        }
        let size = varint_len(range.start - at) + varint_len(range.end - range.start);
        if usize::from(count) == MAX_HAVE_RANGES || size > out.remaining() {
            break;
        }
        ranges::put(out, at, &range)?;
        count += 1;
        at = range.end;
    }
    out.patch(count_at, |gap| gap.byte(count))
}
