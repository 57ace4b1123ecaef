//! A piece of a file, as the body of a call.
//!
//! ```text
//! u16 length of the head, big endian | head, JSON | data | chaining value of the data, 32 bytes
//! ```

use std::io;

use bytes::{BufMut, Bytes};
use serde::{Deserialize, Serialize};

use super::{ChainingValue, FileInfo, Hex32, PIECES, VERSION, chaining_value};

/// The longest head: a path of 4,096 bytes, escaped, and the other fields.
const LONGEST_HEAD: usize = 16 << 10;
const HASH_LEN: usize = 32;

/// The head of a piece. It has all metadata of the file, so that the receiver need not keep state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    v: u8,
    pub(crate) key: Hex32,
    #[serde(flatten)]
    pub(crate) file: FileInfo,
    /// Bytes of each piece of this file but the last.
    pub(crate) piece: u32,
    /// The offset of this piece.
    pub(crate) at: u64,
    /// This is the last piece of a file whose size was not announced.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub(crate) end: bool,
}

/// The error for a body that is not a piece.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FormatError {
    #[error("the piece is cut off")]
    Cut,
    #[error("its head has {0} bytes, more than {LONGEST_HEAD}")]
    HeadTooLong(usize),
    #[error("its head is malformed: {0}")]
    Head(#[from] serde_json::Error),
    #[error("version {0} is not known here, only {VERSION}")]
    Version(u8),
    #[error("pieces of {0} bytes are not accepted")]
    PieceSize(u32),
    #[error("{len} bytes at {at} are not a piece of its file")]
    Bounds { at: u64, len: usize },
    #[error("the data does not match its hash")]
    Hash,
}

impl Piece {
    pub(crate) fn new(key: Hex32, file: FileInfo, piece: u32, at: u64, end: bool) -> Self {
        Self { v: VERSION, key, file, piece, at, end }
    }

    /// Encodes the body. `fill` appends the data to the buffer it is given.
    pub(crate) fn encode<E: From<io::Error>>(
        &self,
        room: usize,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(Bytes, ChainingValue), E> {
        let head = serde_json::to_vec(self).map_err(io::Error::other)?;
        let len = u16::try_from(head.len()).ok().filter(|_| head.len() <= LONGEST_HEAD);
        let len = len.ok_or_else(|| io::Error::other("its path is too long"))?;
        let mut body = Vec::with_capacity(2 + head.len() + room + HASH_LEN);
        body.put_u16(len);
        body.put_slice(&head);
        let data = body.len();
        fill(&mut body)?;
        let hash = chaining_value(self.at, body.get(data..).unwrap_or_default());
        body.put_slice(&hash);
        Ok((body.into(), hash))
    }

    /// Decodes a body, and checks everything that does not depend on the stored file.
    pub(crate) fn decode(mut body: Bytes) -> Result<(Self, Bytes, ChainingValue), FormatError> {
        let mut take =
            |len: usize| if len <= body.len() { Ok(body.split_to(len)) } else { Err(FormatError::Cut) };
        let len = take(2)?.iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
        if len > LONGEST_HEAD {
            return Err(FormatError::HeadTooLong(len));
        }
        let piece: Self = serde_json::from_slice(&take(len)?)?;
        let data_len = body.len().checked_sub(HASH_LEN).ok_or(FormatError::Cut)?;
        let data = body.split_to(data_len);
        let hash = ChainingValue::try_from(body.as_ref()).map_err(|_| FormatError::Cut)?;
        piece.check(&data)?;
        if chaining_value(piece.at, &data) != hash {
            return Err(FormatError::Hash);
        }
        Ok((piece, data, hash))
    }

    fn check(&self, data: &[u8]) -> Result<(), FormatError> {
        if self.v != VERSION {
            return Err(FormatError::Version(self.v));
        }
        if !self.piece.is_power_of_two() || self.piece < PIECES.0 || self.piece > PIECES.1 {
            return Err(FormatError::PieceSize(self.piece));
        }
        let (len, full) = (data.len() as u64, u64::from(self.piece));
        let end = self.at.checked_add(len).filter(|_| self.at.is_multiple_of(full) && len <= full);
        let fits = end.is_some_and(|end| match self.file.size {
            // The piece must be full or the last one, and may lack data only if the file is empty.
            Some(size) => end <= size && (len == full || end == size) && (len > 0 || size == 0),
            None => len == full || self.end,
        });
        if fits { Ok(()) } else { Err(FormatError::Bounds { at: self.at, len: data.len() }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PIECE: u32 = 64 << 10;

    fn body(size: Option<u64>, at: u64, end: bool, data: &[u8]) -> Bytes {
        let file = FileInfo { path: "f".into(), size, mode: None, mtime: 0 };
        let piece = Piece::new(Hex32([1; 32]), file, PIECE, at, end);
        let head = serde_json::to_vec(&piece).unwrap();
        // A chaining value exists only for a possible piece.
        let proper = at.is_multiple_of(u64::from(PIECE)) && data.len() <= PIECE as usize;
        let hash = if proper { chaining_value(at, data) } else { [0; 32] };
        [&u16::try_from(head.len()).unwrap().to_be_bytes(), head.as_slice(), data, &hash].concat().into()
    }

    #[test]
    fn a_piece_has_its_place() {
        let (full, two) = (vec![7; PIECE as usize], u64::from(PIECE) * 2);
        let taken = |size, at, end, data: &[u8]| Piece::decode(body(size, at, end, data)).is_ok();
        assert!(taken(Some(two), 0, false, &full) && taken(Some(two), two / 2, false, &full));
        assert!(taken(Some(0), 0, false, b"") && taken(Some(3), 0, false, b"abc"));
        assert!(taken(None, 0, false, &full) && taken(None, two, true, b"") && taken(None, two, true, b"x"));
        // At a wrong offset, too short, too long, beyond the end, empty, and where sums overflow.
        assert!(!taken(Some(two), 1, false, &full));
        assert!(!taken(Some(two), 0, false, &full[1..]));
        assert!(!taken(Some(two * 2), 0, false, &[full.clone(), full.clone()].concat()));
        assert!(!taken(Some(two), two, false, &full));
        assert!(!taken(Some(two), two, false, b""));
        assert!(!taken(None, 0, false, b"short"));
        assert!(!taken(None, u64::MAX - u64::from(PIECE) + 1, true, &full));
    }

    #[test]
    fn sizes_of_pieces_are_bounded() {
        for piece in [0, 1, PIECE - 1, PIECE + 1, PIECES.1 * 2, u32::MAX] {
            let file = FileInfo { path: "f".into(), size: None, mode: None, mtime: 0 };
            let body = Piece::new(Hex32([1; 32]), file, piece, 0, true).encode::<io::Error>(0, |_| Ok(()));
            assert!(matches!(Piece::decode(body.unwrap().0), Err(FormatError::PieceSize(_))), "{piece}");
        }
    }

    proptest! {
        #[test]
        fn damage_is_noticed(content in prop::collection::vec(any::<u8>(), 1..500), at: prop::sample::Index, bit in 0_u32..8) {
            let mut body = body(Some(content.len() as u64), 0, false, &content).to_vec();
            let first = body.len() - 32 - content.len();
            let at = first + at.index(content.len() + 32);
            body[at] ^= 1_u8 << bit;
            prop_assert!(Piece::decode(body.into()).is_err());
        }

        #[test]
        fn foreign_bytes_never_upset_the_reader(body: Vec<u8>) {
            let _ = Piece::decode(body.into());
        }
    }
}
