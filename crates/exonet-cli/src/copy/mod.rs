//! The application protocol of `exon cp`: files as calls. `docs/copy.md` specifies it.
//!
//! The sender offers entries ([`OFFER`]), the receiver answers with the missing parts of each, the sender sends the
//! missing pieces ([`PIECE`]), and the receiver stores a file when its last piece arrives. Directories get their mode
//! and time when all their entries have arrived ([`SEAL`]). Every call is idempotent.

mod digest;
mod piece;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub(crate) use digest::{ChainingValue, chaining_value, root};
pub(crate) use piece::Piece;

/// Asks for the missing parts of some entries, and makes directories and links.
pub(crate) const OFFER: &str = "exon.cp.offer";
/// Sends a piece of a file.
pub(crate) const PIECE: &str = "exon.cp.piece";
/// Sets the modes and times of directories.
pub(crate) const SEAL: &str = "exon.cp.seal";
/// The version of these methods.
pub(crate) const VERSION: u8 = 1;

/// The longest body of an offer and of any reply, in bytes.
pub(crate) const LONGEST_OFFER: u64 = 1 << 20;
/// The maximum number of entries of one offer.
pub(crate) const MOST_ENTRIES: usize = 1_000;
/// The minimum and the maximum size of a piece, in bytes.
pub(crate) const PIECES: (u32, u32) = (64 << 10, 1 << 20);
/// The longest body of a piece: its data, its head and the framing.
pub(crate) const LONGEST_PIECE: u64 = (1 << 20) + (64 << 10);

/// The size of the pieces of a file, if no part of it is present yet.
pub(crate) fn piece_size(size: Option<u64>) -> u32 {
    const LARGE: u64 = 64 << 20;
    if size.is_some_and(|size| size >= LARGE) { 1 << 20 } else { 256 << 10 }
}

/// 32 bytes, written as hexadecimal in text.
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

/// A file as its sender describes it. The receiver must check every field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileInfo {
    /// The path at the receiver: components separated by `/`.
    pub(crate) path: String,
    /// The size in bytes; absent if it is known only at the end of the file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) size: Option<u64>,
    /// Permission bits. If absent, the receiver chooses them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) mode: Option<u32>,
    /// The time of the last modification, in nanoseconds since 1970.
    pub(crate) mtime: i64,
}

/// An entry to copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Entry {
    File {
        #[serde(flatten)]
        file: FileInfo,
        /// BLAKE3 of the content. If it is given, the content and not the time decides whether the file is present.
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
    /// A secret of the sender. Only a sender that knows it can resume a copy that was begun with it.
    pub(crate) key: Hex32,
    pub(crate) entries: Vec<Entry>,
}

/// The answer of the receiver to one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub(crate) enum Answer {
    /// The file is stored already.
    There,
    /// The directory or the link exists now.
    Made,
    /// A file of this name and size exists. The hash is needed to tell whether it is the same.
    Hash,
    /// The bytes that are present, as ranges from and to. The rest is missing.
    Missing {
        /// Bytes of each piece but the last.
        piece: u32,
        have: Vec<(u64, u64)>,
        /// A part of another version of the file existed, and has been removed.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        anew: bool,
    },
    /// The receiver cannot answer now, for example because its disk is full. The sender may ask again.
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
    /// The piece has been verified and written.
    Held,
    /// The piece completed the file, which is stored. `hash` is BLAKE3 of the whole content, absent if the file
    /// existed before.
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

/// Whether a link at `path` to `target` stays within the copied tree: a relative target that climbs no higher than
/// the first component of `path`, and climbs only at its beginning. A name within the target may itself be a link,
/// and `..` after a link leads elsewhere than it seems.
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
            // Inside as written, but not if `x` is a link to a directory.
            ("d/e/l", "x/../.."),
            ("d/e/l", "x/../y"),
        ] {
            assert!(!stays_inside(path, target), "{path} -> {target}");
        }
        // A link that is copied alone may only lead to a name beside it.
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
