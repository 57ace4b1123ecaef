//! A dead letter, and its form in a file.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blake2::{Blake2s256, Digest};
use bytes::{Buf, BufMut, Bytes};
use exonet_proto::{Incarnation, MessageId, NodeId, Slot, Traceparent};

/// The first bytes of a letter's file.
const MAGIC: &[u8; 16] = b"exonet-dead-1\r\n\n";

/// The length of a checksum in bytes.
const SUM: usize = 32;

/// The largest number of bytes that a file has besides the body: magic, checksum, numbers, trace, tag, reason.
const MOST_HEADER: usize = 16 + SUM + 192 + 255 + 200;

/// A message that the application has rejected: see the [module](crate::dead).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The id of the message: the same at both ends.
    pub id: MessageId,
    /// The node that sent it.
    pub from: NodeId,
    /// The tag for dispatch.
    pub tag: Bytes,
    /// The status that the application gave when it rejected the message.
    pub status: u32,
    /// How many times the node handed the message out.
    pub attempts: u32,
    /// Why the application rejected the message.
    pub reason: Box<str>,
    /// When the message was rejected.
    pub at: SystemTime,
    /// The length of the body in bytes. None: the sender had not announced it, and the body was incomplete.
    pub len: Option<u64>,
    /// The body. None: it is in a file and the caller did not ask for it, or it was [not kept](Self::not_kept).
    pub body: Option<Bytes>,
    /// Why the body was not kept. None: it was kept, or an older version of this crate has written the letter.
    pub not_kept: Option<NotKept>,
    /// The trace that the message belongs to, as its sender gave it. Older versions of this crate do not keep it.
    pub traceparent: Option<Traceparent>,
}

/// Why a dead letter has no body. This concerns large bodies, which the application reads while they arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotKept {
    /// The application had read a part of the body when it rejected the message: only the application has that part.
    #[error("the application had begun to read it as it came")]
    Read,
    /// The body was incomplete when the application rejected the message, and the sender does not send the rest.
    #[error("not all of it had come when the message was rejected")]
    Incomplete,
}

impl DeadLetter {
    pub(super) fn size(&self) -> usize {
        self.body.as_ref().map_or(0, Bytes::len) + self.tag.len() + self.reason.len()
    }

    /// Writes the letter as the content of a file.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut to = Vec::with_capacity(MOST_HEADER + self.size());
        let since = self.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        to.put_slice(MAGIC);
        to.put_slice(&[0; SUM]);
        to.put_slice(&self.id.sender.0);
        to.put_u64(self.id.r.0);
        to.put_u64(self.id.s.0);
        to.put_u64(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
        to.put_u32(self.status);
        to.put_u32(self.attempts);
        to.put_u64(self.len.unwrap_or(u64::MAX));
        let body = self.body.as_deref();
        for part in [Some(&*self.tag), Some(self.reason.as_bytes()), body] {
            put_part(&mut to, part);
        }
        to.put_u8(match self.not_kept {
            None => 0,
            Some(NotKept::Read) => 1,
            Some(NotKept::Incomplete) => 2,
        });
        let trace = self.traceparent.map(|trace| trace.to_string());
        put_part(&mut to, trace.as_ref().map(String::as_bytes));
        let sum = Self::sum(to.get(MAGIC.len() + SUM..).unwrap_or_default());
        if let Some(place) = to.get_mut(MAGIC.len()..MAGIC.len() + SUM) {
            place.copy_from_slice(&sum);
        }
        to
    }

    /// Reads the content of a file.
    pub(super) fn decode(content: &Bytes) -> Result<Self, &'static str> {
        let rest = content.strip_prefix(MAGIC).ok_or("it is no dead letter of this version")?;
        let (sum, _) = rest.split_at_checked(SUM).ok_or("it is cut short")?;
        let mut from = content.slice(MAGIC.len() + SUM..);
        if Self::sum(&from) != *sum {
            return Err("its checksum does not match");
        }
        Self::fields(&mut from).ok_or("it is cut short")
    }

    fn fields(from: &mut Bytes) -> Option<Self> {
        let mut sender = [0; 32];
        from.try_copy_to_slice(&mut sender).ok()?;
        let sender = NodeId(sender);
        let (r, s) = (Incarnation(from.try_get_u64().ok()?), Slot(from.try_get_u64().ok()?));
        let at = UNIX_EPOCH.checked_add(Duration::from_nanos(from.try_get_u64().ok()?))?;
        let (status, attempts) = (from.try_get_u32().ok()?, from.try_get_u32().ok()?);
        let len = Some(from.try_get_u64().ok()?).filter(|len| *len != u64::MAX);
        let (tag, reason, body) = (part(from)?, part(from)?, part(from)?);
        let reason = core::str::from_utf8(&reason?).ok()?.into();
        // Letters of earlier versions end before one of the next two fields.
        let not_kept = match from.try_get_u8() {
            Ok(1) => Some(NotKept::Read),
            Ok(2) => Some(NotKept::Incomplete),
            _ => None,
        };
        let trace = part(from).flatten();
        let traceparent = trace.and_then(|trace| core::str::from_utf8(&trace).ok()?.parse().ok());
        Some(Self {
            id: MessageId { sender, r, s },
            from: sender,
            tag: tag?,
            status,
            attempts,
            reason,
            at,
            len,
            body,
            not_kept,
            traceparent,
        })
    }

    fn sum(bytes: &[u8]) -> [u8; SUM] {
        Blake2s256::digest(bytes).into()
    }
}

/// Writes an optional part.
fn put_part(to: &mut Vec<u8>, part: Option<&[u8]>) {
    to.put_u8(u8::from(part.is_some()));
    let part = part.unwrap_or_default();
    to.put_u64(part.len() as u64);
    to.put_slice(part);
}

/// Reads an optional part. None: the content ends too early. `Some(None)`: the part is absent.
fn part(from: &mut Bytes) -> Option<Option<Bytes>> {
    let there = from.try_get_u8().ok()? != 0;
    let len = usize::try_from(from.try_get_u64().ok()?).ok()?;
    if len > from.len() {
        return None;
    }
    let part = from.split_to(len);
    Some(there.then_some(part))
}

#[cfg(test)]
mod tests {
    use super::super::tests::letter;
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let whole = letter(9, 100);
        let not_kept = Some(NotKept::Read);
        let bare = DeadLetter {
            body: None,
            len: None,
            not_kept,
            reason: "".into(),
            tag: Bytes::new(),
            ..letter(1, 0)
        };
        let cut = DeadLetter { not_kept: Some(NotKept::Incomplete), ..bare.clone() };
        let traced = DeadLetter { traceparent: Traceparent::new([1; 16], [2; 8], 1), ..letter(3, 5) };
        for letter in [whole, bare, cut, traced] {
            assert_eq!(DeadLetter::decode(&letter.encode().into()), Ok(letter));
        }
    }

    #[test]
    fn a_letter_of_an_earlier_version_is_read() {
        let letter = letter(9, 100);
        let mut content = letter.encode();
        // One version wrote nothing after the body; the next one ended with the reason why there is no body.
        for fields in [9, 1] {
            content.truncate(content.len() - fields);
            let sum = DeadLetter::sum(&content[MAGIC.len() + SUM..]);
            content[MAGIC.len()..MAGIC.len() + SUM].copy_from_slice(&sum);
            assert_eq!(DeadLetter::decode(&content.clone().into()), Ok(letter.clone()));
        }
    }

    #[test]
    fn a_file_that_is_damaged_or_cut_short_is_found_out() {
        let content = letter(9, 100).encode();
        for at in 0..content.len() {
            let mut damaged = content.clone();
            damaged[at] ^= 1;
            assert!(DeadLetter::decode(&damaged.into()).is_err(), "at {at}");
            assert!(DeadLetter::decode(&Bytes::copy_from_slice(&content[..at])).is_err(), "to {at}");
        }
    }
}
