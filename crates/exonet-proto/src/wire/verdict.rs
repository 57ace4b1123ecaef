//! VERDICT: the receiving application's verdict on a message.

use super::base::{self, relative};
use super::cursor::{Put, Take};
use super::{Bases, Malformed, kind};
use crate::id::{Incarnation, Slot};

/// The longest reason of a VERDICT.
pub const MAX_REASON: usize = 200;

/// `VERDICT(r, s, word, status, attempts, reason)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// The incarnation of the message.
    pub r: Incarnation,
    /// The slot of the message.
    pub s: Slot,
    /// 0: the message was taken as it was handed out. 1: it was processed. 2: it is rejected.
    pub word: u8,
    /// A status whose meaning the two applications agree on.
    pub status: u32,
    /// How many times the message was handed out.
    pub attempts: u32,
    /// The reason as UTF-8, at most [`MAX_REASON`] bytes.
    pub reason: &'a str,
}

impl<'a> Verdict<'a> {
    pub(super) fn take(input: &mut Take<'a>, bases: Bases) -> Result<Self, Malformed> {
        let r = base::incarnation(input.varint()?, bases.sender);
        let s = base::slot(input.varint()?, bases.receiver);
        let word = input.byte()?;
        if word > 2 {
            return Err(Malformed::Reserved);
        }
        let (status, attempts) = (small(input)?, small(input)?);
        let reason = input.prefixed()?;
        if reason.len() > MAX_REASON {
            return Err(Malformed::Length);
        }
        let reason = core::str::from_utf8(reason).map_err(|_| Malformed::Reserved)?;
        Ok(Self { r, s, word, status, attempts, reason })
    }

    pub(super) fn put(&self, out: &mut Put<'_>, bases: Bases) -> Option<()> {
        out.byte(kind::VERDICT)?;
        out.varint(relative(self.r.0, bases.sender))?;
        out.varint(relative(self.s.0, bases.receiver))?;
        out.byte(self.word)?;
        out.varint(self.status.into())?;
        out.varint(self.attempts.into())?;
        out.varint(self.reason.len() as u64)?;
        out.bytes(self.reason.as_bytes())
    }
}

fn small(input: &mut Take<'_>) -> Result<u32, Malformed> {
    u32::try_from(input.varint()?).map_err(|_| Malformed::Number)
}
