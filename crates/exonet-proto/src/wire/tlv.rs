//! Identified values: `id varint | length varint | value`, one behind the other.

use bytes::BufMut;

use super::cursor::Take;
use super::{Malformed, varint, varint_len};

/// One identified value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// The id of the value. At most [`MAX_NUMBER`](crate::MAX_NUMBER).
    pub id: u64,
    /// The value, uninterpreted.
    pub value: &'a [u8],
}

impl Tlv<'_> {
    /// How many bytes the value takes on the wire, with its id and its length.
    pub const fn encoded_len(&self) -> usize {
        varint_len(self.id) + varint_len(self.value.len() as u64) + self.value.len()
    }

    /// Appends the value to `out`, or nothing (`false`) if there is no room.
    pub fn encode(&self, out: &mut impl BufMut) -> bool {
        let fits = out.remaining_mut() >= self.encoded_len();
        if fits {
            put_varint(out, self.id);
            put_varint(out, self.value.len() as u64);
            out.put_slice(self.value);
        }
        fits
    }
}

pub(super) fn put_varint(out: &mut impl BufMut, value: u64) {
    let coded = varint::encode(value);
    let skip = coded.len() - varint_len(value);
    out.put_slice(coded.get(skip..).unwrap_or_default());
}

/// A well-formed run of identified values. Iterates over them in their order on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlvs<'a>(Take<'a>);

impl<'a> Tlvs<'a> {
    /// No values.
    pub const NONE: Self = Self(Take(&[]));

    /// Parses `bytes` as a run of values, including unknown ones.
    ///
    /// # Errors
    /// [`Malformed::Truncated`] if the last value is not complete.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = Take(bytes);
        while !rest.is_empty() {
            next(&mut rest)?;
        }
        Ok(Self(Take(bytes)))
    }

    /// The values not yet iterated over, in wire form.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0.0
    }

    /// Whether there are no values.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first value with this id.
    pub fn get(&self, id: u64) -> Option<&'a [u8]> {
        self.into_iter().find(|tlv| tlv.id == id).map(|tlv| tlv.value)
    }
}

impl Default for Tlvs<'_> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Tlv<'a>;

    fn next(&mut self) -> Option<Tlv<'a>> {
        next(&mut self.0).ok()
    }
}

impl core::iter::FusedIterator for Tlvs<'_> {}

fn next<'a>(rest: &mut Take<'a>) -> Result<Tlv<'a>, Malformed> {
    let id = rest.varint()?;
    let value = rest.prefixed()?;
    Ok(Tlv { id, value })
}
