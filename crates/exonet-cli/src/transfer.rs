//! Moves bodies between files and messages, and encodes refusals of messages.
//!
//! ```text
//! tag "exon.cp.refused"  body: JSON, from the receiver to the sender, before it takes the refused message
//! ```
//!
//! The receiver acknowledges a refused message only when the sender has acknowledged the refusal. Hence a sender that
//! gets `Delivered` and has no refusal knows that the message has been accepted.

use std::io;

use exonet::MessageId;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The tag of a refusal.
pub(crate) const TAG_REFUSED: &[u8] = b"exon.cp.refused";
/// The version of its format.
const VERSION: u8 = 1;
/// The longest refusal. A longer one is cut.
pub(crate) const LONGEST_REFUSAL: u64 = 4_096;
/// The number of bytes that are moved at a time, which is all that a transfer holds of a body.
const CHUNK: usize = 256 << 10;

/// The side of a copy that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PourError {
    #[error("cannot read: {0}")]
    Read(#[source] io::Error),
    #[error("cannot write: {0}")]
    Write(#[source] io::Error),
    #[error("it ended early")]
    Short,
}

/// Moves exactly `len` bytes, or all bytes if `len` is None. Passes each piece to `watch` first. Returns the number
/// of bytes.
pub(crate) async fn pour(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    len: impl Into<Option<u64>>,
    mut watch: impl FnMut(&[u8]),
) -> Result<u64, PourError> {
    let len = len.into();
    let most = len.unwrap_or(u64::MAX);
    let room = usize::try_from(most).unwrap_or(CHUNK).clamp(1, CHUNK);
    let mut buffer = vec![0; room];
    let mut left = most;
    while left > 0 {
        let want = usize::try_from(left).unwrap_or(room).min(room);
        let space = buffer.get_mut(..want).unwrap_or_default();
        let got = from.read(space).await.map_err(PourError::Read)?;
        let piece = space.get(..got).unwrap_or_default();
        if piece.is_empty() {
            if len.is_none() {
                break;
            }
            return Err(PourError::Short);
        }
        watch(piece);
        to.write_all(piece).await.map_err(PourError::Write)?;
        left = left.saturating_sub(u64::try_from(got).unwrap_or(u64::MAX));
    }
    to.flush().await.map_err(PourError::Write)?;
    Ok(most - left)
}

/// Reads to the end and discards the bytes. Returns their number.
pub(crate) async fn drain(body: &mut (impl AsyncRead + Unpin)) -> io::Result<u64> {
    tokio::io::copy(body, &mut tokio::io::sink()).await
}

/// The reason why a message was not stored, for its sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refused {
    v: u8,
    r: u64,
    s: u64,
    /// The reason, for people.
    pub(crate) reason: String,
}

impl Refused {
    pub(crate) fn new(id: MessageId, reason: String) -> Self {
        Self { v: VERSION, r: id.r.0, s: id.s.0, reason }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        // A struct of numbers and text can always be written as JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Decodes a refusal. None: the body is not a refusal.
    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok().filter(|refused: &Self| refused.v == VERSION)
    }

    /// The incarnation and slot of the refused message of a sender.
    pub(crate) fn message(&self) -> (u64, u64) {
        (self.r, self.s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn foreign_bytes_never_upset_the_reader(body: Vec<u8>) {
            let _ = Refused::decode(&body);
        }
    }

    #[test]
    fn a_file_that_shrinks_is_noticed() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let result = runtime.block_on(pour(&b"abc"[..], Vec::new(), 4, |_| ()));
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
