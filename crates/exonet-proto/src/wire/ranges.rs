//! Ascending ranges of numbers, as STATE and HAVE carry them: `count | (gap, length)*`.

use core::ops::Range;

use super::Malformed;
use super::cursor::{Put, Take};

/// Ascending, disjoint and validated ranges: none is empty, and all lie within the bounds of their frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges<'a> {
    rest: Take<'a>,
    left: u64,
    /// Where the next gap begins.
    at: u64,
}

impl<'a> Ranges<'a> {
    /// No ranges.
    pub const NONE: Self = Self { rest: Take(&[]), left: 0, at: 0 };

    /// Takes `count | (gap, length)*` off `input`: each length at least 1, all within `bounds`.
    pub(super) fn take(input: &mut Take<'a>, bounds: Range<u64>) -> Result<Self, Malformed> {
        let left = input.varint()?;
        let start = *input;
        let mut at = bounds.start;
        for _ in 0..left {
            let range = next(input, at)?;
            if range.end > bounds.end {
                return Err(Malformed::Range);
            }
            at = range.end;
        }
        Ok(Self { rest: start.until(*input), left, at: bounds.start })
    }

    /// How many ranges are left. The size of the frame that held them bounds it.
    pub const fn remaining(&self) -> u64 {
        self.left
    }
}

fn next(input: &mut Take<'_>, at: u64) -> Result<Range<u64>, Malformed> {
    // Sums of varints: at most 2^63 each time, and `at` stays below 2^62 because bounds do.
    let start = at.checked_add(input.varint()?).ok_or(Malformed::Range)?;
    let end = start.checked_add(input.varint()?).ok_or(Malformed::Range)?;
    if start == end { Err(Malformed::Range) } else { Ok(start..end) }
}

/// Puts one range behind those that ended at `at`.
pub(super) fn put(out: &mut Put<'_>, at: u64, range: &Range<u64>) -> Option<()> {
    out.varint(range.start.checked_sub(at)?)?;
    out.varint(range.end.checked_sub(range.start)?)
}

impl Iterator for Ranges<'_> {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        self.left = self.left.checked_sub(1)?;
        let range = next(&mut self.rest, self.at).ok()?;
        self.at = range.end;
        Some(range)
    }
}

impl core::iter::FusedIterator for Ranges<'_> {}
