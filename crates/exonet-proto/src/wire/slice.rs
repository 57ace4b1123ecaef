//! SLICE: messages of consecutive slots, cut where packets end.

use super::base;
use super::cursor::Take;
use super::messages::{Entries, MAX_ENTRIES};
use super::{Bases, Fragment, Frame, Malformed, Messages};
use crate::{MAX_NUMBER, Slot};

/// What a SLICE stands for, frame by frame: FRAGMENT of its first message, of which only the end is in it, MESSAGES of
/// those that are whole, FRAGMENT of the last, of which the end is not in it.
#[derive(Clone, Debug)]
pub(super) struct Slice<'a> {
    first: Option<Fragment<'a>>,
    whole: Option<Messages<'a>>,
    last: Option<Fragment<'a>>,
}

impl<'a> Slice<'a> {
    pub(super) const EMPTY: Self = Self { first: None, whole: None, last: None };

    /// Reads to a total of 0, or to the end of the packet.
    pub(super) fn take(input: &mut Take<'a>, bases: Bases) -> Result<Self, Malformed> {
        let r = base::incarnation(input.varint()?, bases.receiver);
        let begin = base::slot(input.varint()?, bases.sender).0;
        let mut offset = input.varint()?;
        let (mut slice, mut s) = (Self::EMPTY, begin);
        // The first whole message, and what is left behind the last.
        let (mut from, mut to, mut count) = (*input, *input, 0);
        while slice.last.is_none() && !input.is_empty() {
            let before = *input;
            let total = input.varint()?;
            if total == 0 {
                break;
            }
            if s - begin == u64::from(MAX_ENTRIES) {
                return Err(Malformed::Count);
            }
            if s > MAX_NUMBER {
                return Err(Malformed::Number);
            }
            let rest = total.checked_sub(offset).filter(|rest| *rest > 0).ok_or(Malformed::Range)?;
            let data = input.bytes(usize::try_from(rest).unwrap_or(usize::MAX).min(input.0.len()))?;
            if data.is_empty() {
                return Err(Malformed::Truncated);
            }
            let part = Fragment { r, s: Slot(s), total, offset, data };
            if (data.len() as u64) < rest {
                slice.last = Some(part);
            } else if offset > 0 {
                slice.first = Some(part);
            } else {
                from = if count == 0 { before } else { from };
                (to, count) = (*input, count + 1);
            }
            (s, offset) = (s + 1, 0);
        }
        if s == begin {
            return Err(Malformed::Count);
        }
        if count > 0 {
            let s = Slot(begin + u64::from(slice.first.is_some()));
            slice.whole = Some(Messages { r, s, entries: Entries::new(from.until(to), count, s) });
        }
        Ok(slice)
    }

    /// The next of the frames that it stands for.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Frame<'a>> {
        if let Some(first) = self.first.take() {
            return Some(Frame::Fragment(first));
        }
        if let Some(whole) = self.whole.take() {
            return Some(Frame::Messages(whole));
        }
        self.last.take().map(Frame::Fragment)
    }
}
