//! The application protocol of `exon cp`: files as calls. `docs/copy.md` specifies it.
//!
//! The sender offers entries ([`OFFER`]), the receiver answers what it lacks of each, the sender sends the missing
//! pieces ([`PIECE`]), and the piece that completes a file stores it. Directories get their mode and time when all
//! that is in them has arrived ([`SEAL`]). Every call may be repeated without harm.

mod digest;
mod piece;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub(crate) use digest::{ChainingValue, chaining_value, root};
pub(crate) use piece::Piece;

/// Asks what the receiver lacks of some entries, and makes directories and links.
pub(crate) const OFFER: &str = "exon.cp.offer";
/// Brings a piece of a file.
pub(crate) const PIECE: &str = "exon.cp.piece";
/// Gives directories their modes and times.
pub(crate) const SEAL: &str = "exon.cp.seal";
/// The version of all of them.
pub(crate) const VERSION: u8 = 1;

/// The longest body of an offer and of any reply, in bytes.
pub(crate) const LONGEST_OFFER: u64 = 1 << 20;
/// The most entries of one offer.
pub(crate) const MOST_ENTRIES: usize = 1_000;
/// The least and the most bytes of a piece.
pub(crate) const PIECES: (u32, u32) = (64 << 10, 1 << 20);
/// The longest body of a piece: its data, its head and what is around them.
pub(crate) const LONGEST_PIECE: u64 = (1 << 20) + (64 << 10);

/// How large the pieces of a file are, if nothing of it is there yet.
pub(crate) fn piece_size(size: Option<u64>) -> u32 {
    const LARGE: u64 = 64 << 20;
    if size.is_some_and(|size| size >= LARGE) { 1 << 20 } else { 256 << 10 }
}

/// 32 bytes, in hexadecimal where they are text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Hex32(pub(crate) [u8; 32]);

impl fmt::Display for Hex32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl Serialize for Hex32 {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl<'de> Deserialize<'de> for Hex32 {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        blake3::Hash::from_hex(text).map(|hash| Self(hash.into())).map_err(de::Error::custom)
    }
}

/// A file as its sender describes it. Nothing in it is to be trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileInfo {
    /// Where it is to be: components separated by `/`.
    pub(crate) path: String,
    /// Bytes; absent if only its end tells.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) size: Option<u64>,
    /// Permission bits; absent: as the receiver likes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) mode: Option<u32>,
    /// When it was last modified, in nanoseconds since 1970.
    pub(crate) mtime: i64,
}

/// Something to copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Entry {
    File {
        #[serde(flatten)]
        file: FileInfo,
        /// BLAKE3 of the content. With it, the content decides whether the file is there, and not its time.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        hash: Option<Hex32>,
    },
    Dir {
        path: String,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        mode: Option<u32>,
        mtime: i64,
    },
    Link {
        path: String,
        target: String,
    },
}

impl Entry {
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::File { file, .. } => &file.path,
            Self::Dir { path, .. } | Self::Link { path, .. } => path,
        }
    }
}

/// The body of [`OFFER`] and [`SEAL`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Offer {
    pub(crate) v: u8,
    /// A secret of the sender's: only who knows it goes on with what was begun under it.
    pub(crate) key: Hex32,
    pub(crate) entries: Vec<Entry>,
}

/// What the receiver says to one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub(crate) enum Answer {
    /// The file is stored already.
    There,
    /// The directory or the link is there now.
    Made,
    /// A file of this name and size is there: only its hash tells whether it is the same.
    Hash,
    /// These bytes are there, as ranges from and to; the rest is missing.
    Missing {
        /// Bytes of each piece but the last.
        piece: u32,
        have: Vec<(u64, u64)>,
        /// Another version of the file had been begun, and has been dropped.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        anew: bool,
    },
    /// The receiver cannot tell now, as when its disk is full: the same may be asked again.
    Later {
        /// For people; not escaped.
        reason: String,
    },
    Refused {
        /// For people; not escaped.
        reason: String,
    },
}

/// The reply to [`OFFER`] and [`SEAL`]: an answer to each entry, in their order.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answers {
    pub(crate) v: u8,
    pub(crate) answers: Vec<Answer>,
}

/// The reply to [`PIECE`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub(crate) enum PieceAnswer {
    /// It has been verified and written.
    Held,
    /// With it, the file was complete, and is stored. BLAKE3 of the whole content, unless the file was there before.
    Stored {
        #[serde(skip_serializing_if = "Option::is_none", default)]
        hash: Option<Hex32>,
    },
    /// As [`Answer::Later`].
    Later {
        reason: String,
    },
    Refused {
        reason: String,
    },
}

/// Whether a link at `path` to `target` leads to nothing outside of what is copied with it: a relative target that
/// climbs no higher than the first component of `path`, and climbs only at its beginning. What comes after a name
/// may be a link itself, and `..` behind a link leads elsewhere than it seems.
pub(crate) fn stays_inside(path: &str, target: &str) -> bool {
    if target.is_empty() || target.starts_with('/') {
        return false;
    }
    let depth = path.split('/').count().saturating_sub(2);
    let parts = || target.split('/').filter(|part| !part.is_empty() && *part != ".");
    let climbs = parts().take_while(|part| *part == "..").count();
    climbs <= depth && parts().skip(climbs).all(|part| part != "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_out_are_known() {
        for (path, target) in
            [("d/l", "x"), ("d/l", "./x/y"), ("d/e/l", "../x"), ("d/e/f/l", "../../x"), ("d/l", "e/")]
        {
            assert!(stays_inside(path, target), "{path} -> {target}");
        }
        for (path, target) in [
            ("d/l", ""),
            ("d/l", "/etc/passwd"),
            ("d/l", ".."),
            ("d/l", "../x"),
            ("d/e/l", "../../x"),
            ("d/e/l", "./../../x"),
            // Inside as it is written, but not if `x` is a link to a directory.
            ("d/e/l", "x/../.."),
            ("d/e/l", "x/../y"),
        ] {
            assert!(!stays_inside(path, target), "{path} -> {target}");
        }
        // A link of its own has no tree to stay in but the name beside it.
        assert!(stays_inside("l", "x") && !stays_inside("l", "../x"));
    }

    #[test]
    fn an_offer_reads_as_it_is_specified() {
        let text = r#"{"v":1,"key":"0707070707070707070707070707070707070707070707070707070707070707",
            "entries":[{"kind":"file","path":"a","size":3,"mode":420,"mtime":5},
            {"kind":"dir","path":"d","mtime":-1},{"kind":"link","path":"l","target":"a"},
            {"kind":"file","path":"s","mtime":9}]}"#;
        let offer: Offer = serde_json::from_str(text).unwrap();
        assert_eq!(offer.key, Hex32([7; 32]));
        let file = FileInfo { path: "a".into(), size: Some(3), mode: Some(0o644), mtime: 5 };
        assert_eq!(offer.entries[0], Entry::File { file, hash: None });
        let Entry::File { file, .. } = &offer.entries[3] else { panic!() };
        assert_eq!(file.size, None);
        let answer =
            serde_json::to_string(&Answer::Missing { piece: 65_536, have: vec![(0, 9)], anew: false })
                .unwrap();
        assert_eq!(answer, r#"{"state":"missing","piece":65536,"have":[[0,9]]}"#);
    }
}
