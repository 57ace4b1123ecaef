//! The ACK frame: which packets arrived, and when the newest arrived. After RFC 9000, section 19.3.

use core::ops::Range;
use core::time::Duration;

use super::Malformed;
use super::cursor::{Put, Take};
use super::kind;

/// The most ranges that a written ACK has. A reader accepts more.
pub const MAX_ACK_RANGES: usize = 64;

/// Arrival times count modulo this many microseconds, about 18 minutes: they take at most four bytes.
pub const ARRIVAL_SPAN: u64 = 1 << 30;

const HAS_ECN: u8 = 1;

/// How many packets arrived with each ECN codepoint, since the channel began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ecn {
    /// Packets marked ECT(0).
    pub ect0: u64,
    /// Packets marked ECT(1).
    pub ect1: u64,
    /// Packets marked CE: congestion was experienced.
    pub ce: u64,
}

/// Which packets arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// The largest packet number that arrived.
    pub largest: u64,
    /// How long this acknowledgement waited since `largest` arrived, in whole microseconds.
    pub delay: Duration,
    /// When `largest` arrived, on the acknowledging node's own clock, in whole microseconds modulo [`ARRIVAL_SPAN`]. The origin
    /// is arbitrary but fixed for the path: only differences have a meaning.
    pub arrival: Duration,
    /// The ECN counts, if the acknowledging node sees them.
    pub ecn: Option<Ecn>,
    /// The packets that arrived, newest first; the first range ends with `largest`.
    pub ranges: AckRanges<'a>,
}

/// Ranges of packet numbers, newest first, disjoint and not adjacent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckRanges<'a> {
    rest: Take<'a>,
    left: u64,
    /// The next range to return.
    current: Option<(u64, u64)>,
}

impl<'a> Ack<'a> {
    pub(super) fn take(input: &mut Take<'a>) -> Result<Self, Malformed> {
        let flags = input.byte()?;
        if flags & !HAS_ECN != 0 {
            return Err(Malformed::Reserved);
        }
        let largest = input.varint()?;
        let delay = Duration::from_micros(input.varint()?);
        let arrival = input.varint()?;
        if arrival >= ARRIVAL_SPAN {
            return Err(Malformed::Range);
        }
        let arrival = Duration::from_micros(arrival);
        let ranges = AckRanges::take(input, largest)?;
        let ecn = if flags & HAS_ECN != 0 {
            Some(Ecn { ect0: input.varint()?, ect1: input.varint()?, ce: input.varint()? })
        } else {
            None
        };
        Ok(Self { largest, delay, arrival, ecn, ranges })
    }
}

impl<'a> AckRanges<'a> {
    fn take(input: &mut Take<'a>, largest: u64) -> Result<Self, Malformed> {
        let left = input.varint()?;
        let smallest = largest.checked_sub(input.varint()?).ok_or(Malformed::Range)?;
        let start = *input;
        let mut below = smallest;
        for _ in 0..left {
            (below, _) = next(input, below)?;
        }
        Ok(Self { rest: start.until(*input), left, current: Some((smallest, largest)) })
    }
}

/// The next older range, smallest and largest, below one that ends at `smallest`.
fn next(input: &mut Take<'_>, smallest: u64) -> Result<(u64, u64), Malformed> {
    // RFC 9000, section 19.3.1: a gap of g leaves g + 1 packets out.
    let gap = input.varint()?;
    let len = input.varint()?;
    let largest = smallest.checked_sub(2).and_then(|x| x.checked_sub(gap)).ok_or(Malformed::Range)?;
    Ok((largest.checked_sub(len).ok_or(Malformed::Range)?, largest))
}

impl Iterator for AckRanges<'_> {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        let (smallest, largest) = self.current?;
        self.current = self.left.checked_sub(1).and_then(|left| {
            self.left = left;
            next(&mut self.rest, smallest).ok()
        });
        Some(smallest..largest.saturating_add(1))
    }
}

impl core::iter::FusedIterator for AckRanges<'_> {}

/// Puts an ACK of the newest ranges that fit. Returns how many did.
pub(super) fn put(
    out: &mut Put<'_>,
    delay: Duration,
    arrival: Duration,
    ecn: Option<Ecn>,
    mut ranges: impl Iterator<Item = Range<u64>>,
) -> Option<usize> {
    let first = ranges.next()?;
    let largest = first.end.checked_sub(1)?;
    out.byte(kind::ACK)?;
    out.byte(if ecn.is_some() { HAS_ECN } else { 0 })?;
    out.varint(largest)?;
    out.varint(micros(delay))?;
    out.varint(micros(arrival) % ARRIVAL_SPAN)?;
    // At most 63 further ranges: the count always takes one byte, and can be patched.
    let count_at = out.len();
    out.byte(0)?;
    out.varint(largest.checked_sub(first.start)?)?;
    let tail = ecn_len(ecn);
    let mut further = 0_u8;
    let mut below = first.start;
    for range in ranges.take(MAX_ACK_RANGES - 1) {
        let Some((gap, len)) = older(below, &range) else {
            break;
        };
        if out.remaining() < super::varint_len(gap) + super::varint_len(len) + tail {
            break;
        }
        out.varint(gap)?;
        out.varint(len)?;
        further += 1;
        below = range.start;
    }
    out.patch(count_at, |count| count.byte(further))?;
    if let Some(Ecn { ect0, ect1, ce }) = ecn {
        out.varint(ect0)?;
        out.varint(ect1)?;
        out.varint(ce)?;
    }
    Some(usize::from(further) + 1)
}

/// Gap and length of `range` below one that starts at `below`; `None` if it is empty, newer or adjacent.
fn older(below: u64, range: &Range<u64>) -> Option<(u64, u64)> {
    let len = range.end.checked_sub(range.start)?.checked_sub(1)?;
    let gap = below.checked_sub(range.end)?.checked_sub(1)?;
    Some((gap, len))
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

const fn ecn_len(ecn: Option<Ecn>) -> usize {
    match ecn {
        Some(Ecn { ect0, ect1, ce }) => {
            super::varint_len(ect0) + super::varint_len(ect1) + super::varint_len(ce)
        }
        None => 0,
    }
}
