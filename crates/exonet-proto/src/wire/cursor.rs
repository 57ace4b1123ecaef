//! Two cursors: one reads from a slice, one writes into a slice. Neither can leave it.

use super::error::Malformed;
use super::varint;
use super::varint_len;

/// The bytes that have not been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Take<'a>(pub(crate) &'a [u8]);

impl<'a> Take<'a> {
    pub(crate) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(crate) const fn len(self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], Malformed> {
        let (array, rest) = self.0.split_first_chunk().ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(array)
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| *byte)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let first = *self.0.first().ok_or(Malformed::Truncated)?;
        Ok(match first >> 6 {
            0 => u64::from(self.byte()?),
            1 => u64::from(u16::from_be_bytes(*self.array()?) & 0x3fff),
            2 => u64::from(u32::from_be_bytes(*self.array()?) & 0x3fff_ffff),
            _ => u64::from_be_bytes(*self.array()?) & crate::MAX_NUMBER,
        })
    }

    #[inline]
    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// The bytes behind a varint that counts them.
    #[inline]
    pub(crate) fn prefixed(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.varint()?;
        self.bytes(usize::try_from(len).map_err(|_| Malformed::Truncated)?)
    }

    /// The bytes of `self` before `rest`, which is the remaining end of it.
    pub(super) fn until(self, rest: Self) -> Self {
        let read = self.0.len().saturating_sub(rest.0.len());
        Self(self.0.get(..read).unwrap_or_default())
    }
}

/// Room that is filled from its start. `None` means that it is exhausted.
pub(super) struct Put<'a> {
    room: &'a mut [u8],
    len: usize,
}

impl<'a> Put<'a> {
    pub(super) fn new(room: &'a mut [u8]) -> Self {
        Self { room, len: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn remaining(&self) -> usize {
        self.room.len().saturating_sub(self.len)
    }

    #[inline]
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len.checked_add(bytes.len())?;
        self.room.get_mut(self.len..end)?.copy_from_slice(bytes);
        self.len = end;
        Some(())
    }

    #[inline]
    pub(super) fn byte(&mut self, byte: u8) -> Option<()> {
        *self.room.get_mut(self.len)? = byte;
        self.len += 1;
        Some(())
    }

    #[inline]
    pub(super) fn varint(&mut self, value: u64) -> Option<()> {
        let coded = varint::encode(value);
        match varint_len(value) {
            1 => self.byte(coded[7]),
            2 => self.bytes(&coded[6..]),
            4 => self.bytes(&coded[4..]),
            _ => self.bytes(&coded),
        }
    }

    pub(super) fn length(&mut self, length: usize) -> Option<()> {
        self.varint(u64::try_from(length).ok()?)
    }

    /// Fills `count` bytes with zeros.
    pub(super) fn zeros(&mut self, count: usize) -> Option<()> {
        let end = self.len.checked_add(count)?;
        self.room.get_mut(self.len..end)?.fill(0);
        self.len = end;
        Some(())
    }

    /// Writes what `write` puts to `at`, over bytes that were put before.
    pub(super) fn patch(&mut self, at: usize, write: impl FnOnce(&mut Put<'_>) -> Option<()>) -> Option<()> {
        write(&mut Put::new(self.room.get_mut(at..self.len)?))
    }

    /// Moves everything from `from` on to `to`, which lies before it.
    pub(super) fn close_gap(&mut self, from: usize, to: usize) -> Option<()> {
        let gap = from.checked_sub(to)?;
        self.room.get(from..self.len)?;
        if gap > 0 {
            self.room.copy_within(from..self.len, to);
            self.len -= gap;
        }
        Some(())
    }
}
