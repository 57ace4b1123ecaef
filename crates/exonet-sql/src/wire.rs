//! The format of the body of a message of this crate, and of the call that asks which rows are gone.
//!
//! | Bytes | Every message |
//! |---|---|
//! | 1 | version: 1 |
//! | 1 | kind: 0 a row, 1 hello, 2 fence |
//! | 16 | owner: the account that the sender's outbox has with this receiver |
//!
//! | Bytes | A row also has |
//! |---|---|
//! | 16 | key |
//! | 1 + n | length and bytes of the application's tag |
//! | 1 + n | length and bytes of the order key; 0: none |
//! | rest | the application's body |

use bytes::{BufMut, Bytes, BytesMut};

use crate::Key;

/// The tag of every message of this crate.
pub(crate) const TAG: &[u8] = b"exonet.sql";

/// The method with which a receiver asks which rows are gone.
pub(crate) const GONE: &[u8] = b"exonet.sql.gone";

/// The largest number of keys in one question.
pub(crate) const KEYS: u16 = 1_000;

/// The largest number of bytes of a question, and of its answer, which may only have keys of the question.
pub(crate) const KEYS_BYTES: u64 = 1 + 16 * KEYS as u64;

const VERSION: u8 = 1;

/// The name by which one receiver knows an outbox. It is random; the outbox makes it, and only the two know it. Any
/// node that has it speaks for the outbox. So a relay may take over from one with another identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Owner(pub(crate) [u8; 16]);

impl Owner {
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Envelope {
    /// A row of the outbox.
    Row { owner: Owner, row: Row },
    /// The sender is now the relay of the outbox.
    Hello { owner: Owner },
    /// After this message, nothing that an earlier life of the sender has sent can arrive.
    Fence { owner: Owner },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) key: Key,
    pub(crate) tag: Bytes,
    pub(crate) order: Bytes,
    pub(crate) body: Bytes,
}

/// Why bytes are not an envelope.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadEnvelope {
    #[error("it is of version {0}, which this application does not know: update it")]
    Version(u8),
    #[error("it is malformed")]
    Malformed,
}

impl Envelope {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        let (kind, owner) = match self {
            Self::Row { owner, .. } => (0, owner),
            Self::Hello { owner } => (1, owner),
            Self::Fence { owner } => (2, owner),
        };
        out.put_u8(VERSION);
        out.put_u8(kind);
        out.put_slice(&owner.0);
        if let Self::Row { row, .. } = self {
            out.reserve(18 + row.tag.len() + row.order.len() + row.body.len());
            out.put_slice(&row.key.0);
            for name in [&row.tag, &row.order] {
                // A longer name is refused when the application passes it.
                let name = name.get(..name.len().min(255)).unwrap_or_default();
                out.put_u8(u8::try_from(name.len()).unwrap_or(u8::MAX));
                out.put_slice(name);
            }
            out.put_slice(&row.body);
        }
        out.freeze()
    }

    pub(crate) fn decode(mut bytes: Bytes) -> Result<Self, BadEnvelope> {
        let take = |bytes: &mut Bytes, n: usize| {
            if bytes.len() < n { Err(BadEnvelope::Malformed) } else { Ok(bytes.split_to(n)) }
        };
        let byte = |bytes: &mut Bytes| take(bytes, 1).map(|one| one.first().copied().unwrap_or_default());
        let version = byte(&mut bytes)?;
        if version != VERSION {
            return Err(BadEnvelope::Version(version));
        }
        let kind = byte(&mut bytes)?;
        let owner = Owner::read(&take(&mut bytes, 16)?).ok_or(BadEnvelope::Malformed)?;
        match kind {
            0 => {
                let key = Key::read(&take(&mut bytes, 16)?).ok_or(BadEnvelope::Malformed)?;
                let len = byte(&mut bytes)?;
                let tag = take(&mut bytes, len.into())?;
                let len = byte(&mut bytes)?;
                let order = take(&mut bytes, len.into())?;
                Ok(Self::Row { owner, row: Row { key, tag, order, body: bytes } })
            }
            1 => Ok(Self::Hello { owner }),
            2 => Ok(Self::Fence { owner }),
            _ => Err(BadEnvelope::Malformed),
        }
    }
}

/// A list of keys: the version, and 16 bytes for each. It is used for the question which of them are gone, and for
/// the answer.
pub(crate) fn encode_keys(keys: &[Key]) -> Bytes {
    let mut out = BytesMut::with_capacity(1 + 16 * keys.len());
    out.put_u8(VERSION);
    keys.iter().for_each(|key| out.put_slice(&key.0));
    out.freeze()
}

pub(crate) fn decode_keys(bytes: &[u8]) -> Result<Vec<Key>, BadEnvelope> {
    match bytes.split_first() {
        Some((&VERSION, keys)) if keys.len() % 16 == 0 => {
            Ok(keys.chunks_exact(16).filter_map(Key::read).collect())
        }
        Some((&version, _)) if version != VERSION => Err(BadEnvelope::Version(version)),
        _ => Err(BadEnvelope::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tag: &'static str, order: &'static str, body: &'static str) -> Envelope {
        let row = Row { key: Key([7; 16]), tag: tag.into(), order: order.into(), body: body.into() };
        Envelope::Row { owner: Owner([9; 16]), row }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let owner = Owner([3; 16]);
        for envelope in [
            row("", "", ""),
            row("pay", "account 7", "42"),
            Envelope::Hello { owner },
            Envelope::Fence { owner },
        ] {
            assert_eq!(Envelope::decode(envelope.encode()), Ok(envelope));
        }
        let keys = [Key([1; 16]), Key([2; 16])];
        assert_eq!(decode_keys(&encode_keys(&keys)), Ok(keys.to_vec()));
        let most = vec![Key([1; 16]); KEYS.into()];
        assert_eq!(encode_keys(&most).len() as u64, KEYS_BYTES);
    }

    #[test]
    fn no_bytes_are_read_wrongly_or_panic() {
        let whole = row("pay", "account 7", "").encode();
        for len in 0..whole.len() {
            assert_eq!(Envelope::decode(whole.slice(..len)), Err(BadEnvelope::Malformed), "{len} bytes");
        }
        let mut later = whole.to_vec();
        later[0] = 2;
        assert_eq!(Envelope::decode(later.into()), Err(BadEnvelope::Version(2)));
        assert_eq!(decode_keys(&[]), Err(BadEnvelope::Malformed));
        assert_eq!(decode_keys(&[1, 2]), Err(BadEnvelope::Malformed));
    }
}
