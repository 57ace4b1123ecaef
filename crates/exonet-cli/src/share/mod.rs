//! The application protocol of `exon share` and `exon get`: one file from several servers. `docs/sharing-files.md`
//! specifies it.
//!
//! A file is cut into pieces, each a subtree of BLAKE3's tree. A server reports the size and the BLAKE3 hash of a
//! file ([`INFO`]), and returns single pieces with the hashes that prove their place in the file ([`PIECE`]). So
//! pieces of one file may come from any number of servers, and no server has to be trusted. Every call is
//! self-contained and idempotent.

mod part;
mod place;
mod plan;
mod shelf;
mod tree;

use serde::{Deserialize, Serialize};

pub(crate) use part::{Part, PartError, vacant};
pub(crate) use plan::{Plan, Tally};
pub(crate) use shelf::{Refused, Shelf};
pub(crate) use tree::{Outline, proven};

use crate::copy::Hex32;

/// Lists the shared files.
pub(crate) const LIST: &str = "exon.share.list";
/// Asks for the size and the hash of a file.
pub(crate) const INFO: &str = "exon.share.info";
/// Asks for a piece of a file.
pub(crate) const PIECE: &str = "exon.share.piece";
/// The version of these methods.
pub(crate) const VERSION: u8 = 1;

/// Statuses of replies, in addition to those of the library. Their bodies have the details, for people.
pub(crate) mod status {
    /// No such file is shared: it does not exist, or is not accessible to others.
    pub(crate) const NOT_SHARED: u32 = 2;
    /// The content of the file does not have, or no longer has, the requested hash.
    pub(crate) const CHANGED: u32 = 3;
    /// The file cannot be read now, or is too large.
    pub(crate) const UNREADABLE: u32 = 4;
}

/// The longest body of a question, and of an answer other than a piece, in bytes.
pub(crate) const LONGEST_QUESTION: u64 = 16 << 10;
pub(crate) const LONGEST_ANSWER: u64 = 1 << 20;
/// The most files in one answer.
pub(crate) const MOST_LISTED: usize = 1_000;

/// The minimum size of a piece, the maximum number of pieces of a file, and the maximum size of a piece.
const LEAST_PIECE: u32 = 256 << 10;
const MOST_PIECES: u64 = 65_536;
const MOST_PIECE: u32 = 16 << 20;
/// The largest file, in bytes: 1 TiB.
pub(crate) const LARGEST: u64 = MOST_PIECES * MOST_PIECE as u64;
/// The longest reply to [`PIECE`]: the data, and a hash for each level of the tree above it.
pub(crate) const LONGEST_PIECE: u64 = MOST_PIECE as u64 + 512;

/// The division of a file into pieces, which depends only on its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) size: u64,
    /// Bytes of each piece but the last: a power of two.
    pub(crate) piece: u32,
}

impl Shape {
    /// The shape of a file of `size` bytes. None: the file is too large.
    pub(crate) fn new(size: u64) -> Option<Self> {
        let wanted = size.div_ceil(MOST_PIECES).max(LEAST_PIECE.into()).checked_next_power_of_two()?;
        let piece = u32::try_from(wanted).ok().filter(|piece| *piece <= MOST_PIECE)?;
        Some(Self { size, piece })
    }

    /// The number of pieces; zero for an empty file.
    pub(crate) fn pieces(self) -> u32 {
        // At most 65,536.
        u32::try_from(self.size.div_ceil(self.piece.into())).unwrap_or(u32::MAX)
    }

    /// The offset of a piece.
    pub(crate) fn at(self, index: u32) -> u64 {
        u64::from(index) * u64::from(self.piece)
    }

    /// The length of a piece in bytes; 0 if there is no such piece.
    pub(crate) fn len(self, index: u32) -> u32 {
        let rest = self.size.saturating_sub(self.at(index)).min(self.piece.into());
        u32::try_from(rest).unwrap_or(self.piece)
    }
}

/// The body of [`LIST`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ListQuestion {
    pub(crate) v: u8,
    /// Lists only names after this one; if it is empty, all names.
    #[serde(default)]
    pub(crate) after: String,
}

/// A shared file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listed {
    /// Components separated by `/`. The reader must check it.
    pub(crate) name: String,
    pub(crate) size: u64,
}

/// The reply to [`LIST`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Listing {
    pub(crate) v: u8,
    pub(crate) files: Vec<Listed>,
    /// There are more files after the last of these.
    pub(crate) more: bool,
}

/// The body of [`INFO`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InfoQuestion {
    pub(crate) v: u8,
    pub(crate) name: String,
}

/// The reply to [`INFO`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Info {
    pub(crate) v: u8,
    pub(crate) size: u64,
    /// The same as [`Shape::piece`], for the reader to check.
    pub(crate) piece: u32,
    /// BLAKE3 of the content.
    pub(crate) root: Hex32,
}

impl Info {
    /// The shape of the file. None: the reply does not conform to the protocol.
    pub(crate) fn shape(&self) -> Option<Shape> {
        Shape::new(self.size).filter(|shape| self.v == VERSION && self.piece == shape.piece)
    }
}

/// The body of [`PIECE`]. The reply has the hashes that [`proven`] needs, from the piece up, and then the data.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PieceQuestion {
    pub(crate) v: u8,
    pub(crate) name: String,
    /// BLAKE3 of the whole file.
    pub(crate) root: Hex32,
    /// The index of the piece, from 0.
    pub(crate) index: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_cut_by_its_size() {
        const KIB: u64 = 1 << 10;
        for (size, piece, pieces, last) in [
            (0, 256 * KIB, 0, 0),
            (1, 256 * KIB, 1, 1),
            (256 * KIB, 256 * KIB, 1, 256 * KIB),
            (256 * KIB + 1, 256 * KIB, 2, 1),
            (256 * KIB * 65_536, 256 * KIB, 65_536, 256 * KIB),
            (256 * KIB * 65_536 + 1, 512 * KIB, 32_769, 1),
            (LARGEST, 16 << 20, 65_536, 16 << 20),
        ] {
            let shape = Shape::new(size).unwrap();
            let end = shape.pieces().saturating_sub(1);
            let found = (u64::from(shape.piece), u64::from(shape.pieces()), u64::from(shape.len(end)));
            assert_eq!(found, (piece, pieces, last), "{size}");
            assert_eq!(shape.len(shape.pieces()), 0);
        }
        assert_eq!((Shape::new(LARGEST + 1), Shape::new(u64::MAX)), (None, None));
    }

    #[test]
    fn an_info_that_is_cut_otherwise_is_none() {
        let info = Info { v: VERSION, size: 1 << 20, piece: 256 << 10, root: Hex32([7; 32]) };
        assert!(info.shape().is_some());
        assert_eq!(Info { v: 2, ..info }.shape(), None);
        assert_eq!(Info { piece: 1 << 20, ..info }.shape(), None);
        assert_eq!(Info { size: u64::MAX, ..info }.shape(), None);
        let text = serde_json::to_string(&info).unwrap();
        let root = "07".repeat(32);
        assert_eq!(text, format!(r#"{{"v":1,"size":1048576,"piece":262144,"root":"{root}"}}"#));
    }
}
