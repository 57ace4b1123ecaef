//! A file as a message: the format of `exon cp`.
//!
//! ```text
//! tag "exon.cp"          body: u16 length of the header, big endian | header, JSON | content | BLAKE3 of the content
//! tag "exon.cp.refused"  body: JSON, from the receiver to the sender, before it takes the refused message
//! ```
//!
//! The receiver takes the message only when the file is on its disk under its name, or when the sender has
//! taken the refusal. Hence a sender that hears `Delivered` and has no refusal knows that the file is stored.

use std::io;

use exonet::MessageId;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The tag of a file.
pub(crate) const TAG: &[u8] = b"exon.cp";
/// The tag of a refusal.
pub(crate) const TAG_REFUSED: &[u8] = b"exon.cp.refused";
/// Version of both formats.
const VERSION: u8 = 1;
/// A name of 255 bytes, escaped, and the rest.
const LONGEST_HEADER: u16 = 2_048;
/// Longer refusals are cut.
pub(crate) const LONGEST_REFUSAL: u64 = 4_096;
/// Bytes of the hash at the end.
const HASH_LEN: u64 = 32;
/// Bytes moved at a time: all that a transfer holds of a file.
const CHUNK: usize = 256 << 10;

/// What precedes the content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    v: u8,
    /// The name that the sender gives, not to be trusted.
    pub(crate) name: String,
    /// Bytes of the content.
    pub(crate) size: u64,
}

/// Why a body is not a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FormatError {
    #[error("its header has {0} bytes, more than {LONGEST_HEADER}")]
    HeaderTooLong(usize),
    #[error("its header is malformed: {0}")]
    Header(#[from] serde_json::Error),
    #[error("its format has version {0}, and only {VERSION} is known here")]
    Version(u8),
    #[error("the message has {total} bytes, which does not fit its header")]
    Length { total: u64 },
    #[error("the content does not match its hash")]
    Hash,
    /// The body failed or ended: nothing is wrong with the format.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Header {
    pub(crate) fn new(name: &str, size: u64) -> Self {
        Self { v: VERSION, name: name.to_owned(), size }
    }

    /// The header with its length before it.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let json = serde_json::to_vec(self)?;
        let too_long = || FormatError::HeaderTooLong(json.len());
        let len = u16::try_from(json.len()).map_err(|_| too_long())?;
        if len > LONGEST_HEADER {
            return Err(too_long());
        }
        Ok([&len.to_be_bytes(), json.as_slice()].concat())
    }

    /// Bytes of the whole body, where `encoded` is the header as encoded.
    pub(crate) fn total(&self, encoded: &[u8]) -> Result<u64, FormatError> {
        let before = u64::try_from(encoded.len()).unwrap_or(u64::MAX);
        before
            .checked_add(self.size)
            .and_then(|sum| sum.checked_add(HASH_LEN))
            .ok_or(FormatError::Length { total: u64::MAX })
    }

    /// Reads the header of a body of `total` bytes.
    pub(crate) async fn read(body: &mut (impl AsyncRead + Unpin), total: u64) -> Result<Self, FormatError> {
        let len = body.read_u16().await?;
        if len > LONGEST_HEADER {
            return Err(FormatError::HeaderTooLong(len.into()));
        }
        let mut json = vec![0; len.into()];
        body.read_exact(&mut json).await?;
        let header: Self = serde_json::from_slice(&json)?;
        if header.v != VERSION {
            return Err(FormatError::Version(header.v));
        }
        let announced = header.size.checked_add(2 + u64::from(len) + HASH_LEN);
        if announced == Some(total) { Ok(header) } else { Err(FormatError::Length { total }) }
    }
}

/// Which side of a copy failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PourError {
    #[error("cannot read: {0}")]
    Read(#[source] io::Error),
    #[error("cannot write: {0}")]
    Write(#[source] io::Error),
    #[error("it ended early")]
    Short,
}

/// Moves exactly `len` bytes, showing each piece to `watch` first.
pub(crate) async fn pour(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    len: u64,
    mut watch: impl FnMut(&[u8]),
) -> Result<(), PourError> {
    let room = usize::try_from(len).unwrap_or(CHUNK).clamp(1, CHUNK);
    let mut buffer = vec![0; room];
    let mut left = len;
    while left > 0 {
        let want = usize::try_from(left).unwrap_or(room).min(room);
        let space = buffer.get_mut(..want).unwrap_or_default();
        let got = from.read(space).await.map_err(PourError::Read)?;
        let piece = space.get(..got).unwrap_or_default();
        if piece.is_empty() {
            return Err(PourError::Short);
        }
        watch(piece);
        to.write_all(piece).await.map_err(PourError::Write)?;
        left = left.saturating_sub(u64::try_from(got).unwrap_or(u64::MAX));
    }
    to.flush().await.map_err(PourError::Write)
}

/// Writes a whole file body; `watch` hears of every piece of content.
pub(crate) async fn write_file(
    mut body: impl AsyncWrite + Unpin,
    encoded: &[u8],
    content: impl AsyncRead + Unpin,
    size: u64,
    mut watch: impl FnMut(usize),
) -> Result<(), PourError> {
    let mut hash = blake3::Hasher::new();
    body.write_all(encoded).await.map_err(PourError::Write)?;
    let seen = |piece: &[u8]| {
        hash.update(piece);
        watch(piece.len());
    };
    pour(content, &mut body, size, seen).await?;
    let hash = hash.finalize();
    body.write_all(hash.as_bytes()).await.map_err(PourError::Write)?;
    body.shutdown().await.map_err(PourError::Write)
}

/// Reads the content and the hash after it, to the end of the body; the content goes to `file`.
pub(crate) async fn read_file(
    mut body: impl AsyncRead + Unpin,
    size: u64,
    file: impl AsyncWrite + Unpin,
) -> Result<Result<blake3::Hash, FormatError>, PourError> {
    let mut hash = blake3::Hasher::new();
    pour(&mut body, file, size, |piece| {
        hash.update(piece);
    })
    .await?;
    let mut claimed = [0; 32];
    body.read_exact(&mut claimed).await.map_err(PourError::Read)?;
    // A streamed body may be taken only once its end has been seen.
    drain(&mut body).await.map_err(PourError::Read)?;
    let hash = hash.finalize();
    Ok(if hash == claimed { Ok(hash) } else { Err(FormatError::Hash) })
}

/// Reads to the end, for nothing.
pub(crate) async fn drain(body: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    tokio::io::copy(body, &mut tokio::io::sink()).await.map(|_| ())
}

/// Why a file was not stored: told to its sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refused {
    v: u8,
    r: u64,
    s: u64,
    /// For people.
    pub(crate) reason: String,
}

impl Refused {
    pub(crate) fn new(id: MessageId, reason: String) -> Self {
        Self { v: VERSION, r: id.r.0, s: id.s.0, reason }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        // A struct of numbers and a text always has a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Nothing, if it is not one.
    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok().filter(|refused: &Self| refused.v == VERSION)
    }

    /// Names the refused message among those of one sender.
    pub(crate) fn message(&self) -> (u64, u64) {
        (self.r, self.s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block_on<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn body_of(name: &str, content: &[u8]) -> Vec<u8> {
        let header = Header::new(name, content.len() as u64);
        let encoded = header.encode().unwrap();
        let mut body = Vec::new();
        block_on(write_file(&mut body, &encoded, content, header.size, |_| ())).unwrap();
        assert_eq!(body.len() as u64, header.total(&encoded).unwrap());
        body
    }

    /// What a receiver makes of `body`: the name and the content, if all is well.
    fn taken(body: &[u8]) -> Option<(String, Vec<u8>)> {
        block_on(async {
            let mut reader = body;
            let header = Header::read(&mut reader, body.len() as u64).await.ok()?;
            let mut content = Vec::new();
            read_file(reader, header.size, &mut content).await.ok()?.ok()?;
            Some((header.name, content))
        })
    }

    proptest! {
        #[test]
        fn a_file_comes_out_as_it_went_in(name in "[^\0/]{1,60}", content: Vec<u8>) {
            prop_assert_eq!(taken(&body_of(&name, &content)), Some((name, content)));
        }

        #[test]
        fn damaged_content_is_noticed(content in prop::collection::vec(any::<u8>(), 1..500), at: prop::sample::Index, bit in 0_u32..8) {
            let mut body = body_of("f", &content);
            let content_at = body.len() - 32 - content.len();
            let at = content_at + at.index(content.len() + 32);
            body[at] ^= 1_u8 << bit;
            prop_assert_eq!(taken(&body), None);
        }

        #[test]
        fn a_cut_or_longer_body_is_noticed(content: Vec<u8>, cut in 1_usize..40) {
            let body = body_of("f", &content);
            prop_assert_eq!(taken(&body[..body.len() - cut.min(body.len())]), None);
            let longer = [body.as_slice(), &[0]].concat();
            prop_assert_eq!(taken(&longer), None);
        }

        #[test]
        fn foreign_bytes_never_upset_the_reader(body: Vec<u8>) {
            let _ = taken(&body);
            let _ = Refused::decode(&body);
        }
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        let encoded = Header::new("f", u64::MAX).encode().unwrap();
        let total = encoded.len() as u64;
        assert!(block_on(Header::read(&mut encoded.as_slice(), total)).is_err());
        assert!(Header::new("f", u64::MAX).total(&encoded).is_err());
    }

    #[test]
    fn a_file_that_shrinks_is_noticed() {
        let result = block_on(pour(&b"abc"[..], Vec::new(), 4, |_| ()));
        assert!(matches!(result, Err(PourError::Short)));
    }

    #[test]
    fn a_refusal_round_trips() {
        let id = MessageId {
            sender: exonet::NodeId([1; 32]),
            r: exonet_proto::Incarnation(5),
            s: exonet_proto::Slot(6),
        };
        let refused = Refused::new(id, "no".into());
        assert_eq!(Refused::decode(&refused.encode()), Some(refused.clone()));
        assert_eq!(refused.message(), (5, 6));
    }
}
