//! The wire format of sessions: the bodies of the messages in their streams. See `docs/sessions.md`, "On the wire".

use core::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The version of the format.
const VERSION: u8 = 1;

/// Bits of the kind of a message that carries a part of an application's message.
const DATA: u8 = 0x10;
const FIRST: u8 = 0x01;
const LAST: u8 = 0x02;

const OPEN: u8 = 0x01;
const ACCEPT: u8 = 0x02;
const BYE: u8 = 0x03;

/// The length in bytes of the longest head, which is that of the last of several parts: its kind, and the length of
/// the whole message.
pub(super) const TAIL_HEAD: usize = 1 + 8;

/// The longest reason, in bytes.
const LONGEST_REASON: usize = 200;

/// Why one end sends nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// This end has sent everything.
    Closed,
    /// The application does not want the session.
    Refused,
    /// The session has reached its limit of silence or of total time.
    Expired,
    /// This end does not know the session.
    Forgotten,
    /// The node has reached its limit of sessions, with this peer or with all peers.
    TooMany,
}

impl Code {
    const ALL: [Self; 5] = [Self::Closed, Self::Refused, Self::Expired, Self::Forgotten, Self::TooMany];

    const fn number(self) -> u8 {
        self as u8
    }
}

/// An item of the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The client opens the session. The durations are the silence and the total time after which it ends; zero means
    /// never.
    Open { idle: Duration, life: Duration },
    /// The server accepts the session.
    Accept,
    /// A part of a message: whether it is the first, whether it is the last, and the length of the message if the
    /// last part has it.
    Part { first: bool, last: bool, total: Option<u64>, data: Bytes },
    /// The sending end sends nothing more, for this reason.
    Bye(Code, Box<str>),
}

impl Said {
    pub(super) fn bye(code: Code, reason: &str) -> Self {
        Self::Bye(code, clip(reason).into())
    }

    pub(super) fn write(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Self::Open { idle, life } => {
                out.put_u8(OPEN);
                out.put_u8(VERSION);
                for span in [idle, life] {
                    out.put_u64(u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
                }
            }
            Self::Accept => out.put_u8(ACCEPT),
            Self::Part { first, last, total, data } => {
                out.reserve(TAIL_HEAD + data.len());
                let bits = if *first { FIRST } else { 0 } | if *last { LAST } else { 0 };
                out.put_u8(DATA | bits);
                if let Some(total) = total.filter(|_| *last && !*first) {
                    out.put_u64(total);
                }
                out.put_slice(data);
            }
            Self::Bye(code, reason) => {
                out.put_u8(BYE);
                out.put_u8(code.number());
                out.put_slice(reason.as_bytes());
            }
        }
        out.freeze()
    }

    /// None: this version does not know the item.
    pub(super) fn read(mut from: Bytes) -> Option<Self> {
        let kind = from.try_get_u8().ok()?;
        match kind {
            OPEN => {
                let version = from.try_get_u8().ok()?;
                let mut span = || from.try_get_u64().ok().map(Duration::from_millis);
                let (idle, life) = (span()?, span()?);
                (version == VERSION).then_some(Self::Open { idle, life })
            }
            ACCEPT => Some(Self::Accept),
            BYE => {
                let code = from.try_get_u8().ok()?;
                let code = Code::ALL.into_iter().find(|known| known.number() == code);
                let reason = String::from_utf8_lossy(&from);
                // A code that only later versions know ends the session too.
                Some(Self::bye(code.unwrap_or(Code::Refused), &reason))
            }
            _ if kind & !(FIRST | LAST) == DATA => {
                let (first, last) = (kind & FIRST != 0, kind & LAST != 0);
                let total = if last && !first { Some(from.try_get_u64().ok()?) } else { None };
                Some(Self::Part { first, last, total, data: from })
            }
            _ => None,
        }
    }
}

/// The beginning of a text, cut at the boundary of a character.
fn clip(text: &str) -> &str {
    let mut end = text.len().min(LONGEST_REASON);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let part = |first, last, total| Said::Part { first, last, total, data: Bytes::from_static(b"data") };
        for said in [
            Said::Open { idle: Duration::from_millis(86_400_000), life: Duration::ZERO },
            Said::Accept,
            part(true, true, None),
            part(true, false, None),
            part(false, false, None),
            part(false, true, Some(12)),
            Said::bye(Code::Closed, ""),
            Said::bye(Code::TooMany, "64 are open"),
        ] {
            assert_eq!(Said::read(said.write()), Some(said));
        }
    }

    #[test]
    fn what_is_not_known_is_nothing() {
        for bytes in
            [&[][..], &[0], &[OPEN], &[OPEN, 1, 0, 0, 0, 0, 0, 0, 0, 0], &[DATA | LAST, 1, 2], &[0x14]]
        {
            assert_eq!(Said::read(Bytes::copy_from_slice(bytes)), None);
        }
        let later = [&[OPEN, 2][..], &[0; 16]].concat();
        assert_eq!(Said::read(Bytes::from(later)), None);
        assert_eq!(Said::read(Bytes::from_static(&[BYE, 99])), Some(Said::bye(Code::Refused, "")));
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let Said::Bye(_, reason) = Said::bye(Code::Refused, &"ä".repeat(150)) else { panic!() };
        assert_eq!(reason.len(), 200);
        let Said::Bye(_, reason) = Said::bye(Code::Refused, &format!("x{}", "ä".repeat(150))) else {
            panic!()
        };
        assert_eq!(reason.len(), 199);
    }
}
