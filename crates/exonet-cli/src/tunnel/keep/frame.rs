//! The frames of a link, and how they are written.
//!
//! A frame begins with a byte that says what it is. Numbers are big-endian.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

/// The most bytes of one [`Frame::Data`].
pub(super) const MOST_DATA: usize = 16 << 10;
/// The most bytes of the text of one [`Frame::End`].
const MOST_TEXT: usize = 512;

const START: u8 = 1;
const DATA: u8 = 2;
const ACK: u8 = 3;
const FIN: u8 = 4;
const END: u8 = 5;

/// What one keeper says to the other. The end of file counts as one byte behind all bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// The first frame of a link: how many bytes have arrived here before, and how many may be on the way to the
    /// program.
    Start { have: u64, room: u64 },
    /// The next bytes.
    Data(Bytes),
    /// How many bytes the program here has taken in all.
    Ack(u64),
    /// The end of file.
    Fin,
    /// The connection has ended here. None: both directions have ended, as the programs wanted. Else it broke, for
    /// this reason.
    End(Option<String>),
}

/// Bytes that are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Garbled {
    #[error("a frame of an unknown kind, {0}")]
    Kind(u8),
    #[error("a frame of {0} bytes")]
    Length(usize),
}

impl Frame {
    pub(super) fn write(&self, out: &mut BytesMut) {
        match self {
            Self::Start { have, room } => {
                out.put_u8(START);
                out.put_u64(*have);
                out.put_u64(*room);
            }
            Self::Data(bytes) => {
                out.put_u8(DATA);
                put(out, bytes);
            }
            Self::Ack(taken) => {
                out.put_u8(ACK);
                out.put_u64(*taken);
            }
            Self::Fin => out.put_u8(FIN),
            Self::End(reason) => {
                out.put_u8(END);
                let text = reason.as_deref().unwrap_or_default();
                let fits =
                    text.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= MOST_TEXT);
                put(out, text.get(..fits.last().unwrap_or(0)).unwrap_or_default().as_bytes());
            }
        }
    }

    /// Takes the next frame from the front of `bytes`. None: there is only a part of one.
    ///
    /// # Errors
    /// There is no frame.
    pub(super) fn read(bytes: &mut BytesMut) -> Result<Option<Self>, Garbled> {
        let mut rest = &bytes[..];
        let Ok(kind) = rest.try_get_u8() else { return Ok(None) };
        let frame = match kind {
            START => match (rest.try_get_u64(), rest.try_get_u64()) {
                (Ok(have), Ok(room)) => Self::Start { have, room },
                _ => return Ok(None),
            },
            ACK => match rest.try_get_u64() {
                Ok(taken) => Self::Ack(taken),
                Err(_) => return Ok(None),
            },
            FIN => Self::Fin,
            DATA | END => {
                let most = if kind == DATA { MOST_DATA } else { MOST_TEXT };
                let Ok(len) = rest.try_get_u16().map(usize::from) else { return Ok(None) };
                if len > most || kind == DATA && len == 0 {
                    return Err(Garbled::Length(len));
                }
                if rest.len() < len {
                    return Ok(None);
                }
                bytes.advance(1 + 2);
                let body = bytes.split_to(len);
                return Ok(Some(match kind {
                    DATA => Self::Data(body.freeze()),
                    _ if body.is_empty() => Self::End(None),
                    _ => Self::End(Some(String::from_utf8_lossy(&body).into_owned())),
                }));
            }
            kind => return Err(Garbled::Kind(kind)),
        };
        let taken = bytes.len() - rest.len();
        bytes.advance(taken);
        Ok(Some(frame))
    }
}

/// Writes bytes behind their number. No frame has more than [`MOST_DATA`].
fn put(out: &mut BytesMut, bytes: &[u8]) {
    let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    out.put_u16(len);
    out.put_slice(bytes.get(..usize::from(len)).unwrap_or(bytes));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames() -> impl Strategy<Value = Frame> {
        prop_oneof![
            (any::<u64>(), any::<u64>()).prop_map(|(have, room)| Frame::Start { have, room }),
            prop::collection::vec(any::<u8>(), 1..100).prop_map(|bytes| Frame::Data(bytes.into())),
            any::<u64>().prop_map(Frame::Ack),
            Just(Frame::Fin),
            prop::option::of("[a-zü]{1,40}").prop_map(Frame::End),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_wherever_it_is_cut(all in prop::collection::vec(frames(), 0..9), cut in 1..40_usize) {
            let mut out = BytesMut::new();
            all.iter().for_each(|frame| frame.write(&mut out));
            let (mut heard, mut read) = (BytesMut::new(), Vec::new());
            for part in out.chunks(cut) {
                heard.extend_from_slice(part);
                while let Some(frame) = Frame::read(&mut heard).unwrap() {
                    read.push(frame);
                }
            }
            prop_assert_eq!(read, all);
            prop_assert!(heard.is_empty());
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>) {
            let mut heard = BytesMut::from(&bytes[..]);
            while let Ok(Some(_)) = Frame::read(&mut heard) {}
        }
    }

    #[test]
    fn a_frame_has_its_bounds() {
        for (bytes, error) in [
            (&[9][..], Garbled::Kind(9)),
            (&[DATA, 0, 0], Garbled::Length(0)),
            (&[DATA, 0x40, 1], Garbled::Length(MOST_DATA + 1)),
            (&[END, 2, 1], Garbled::Length(MOST_TEXT + 1)),
        ] {
            assert_eq!(Frame::read(&mut BytesMut::from(bytes)), Err(error));
        }
        let mut out = BytesMut::new();
        Frame::End(Some("ü".repeat(1_000))).write(&mut out);
        assert_eq!(Frame::read(&mut out), Ok(Some(Frame::End(Some("ü".repeat(MOST_TEXT / 2))))));
    }

    #[test]
    fn frames_are_as_the_page_says() {
        let page = include_str!("../../../../../docs/tunnel.md");
        for (name, frame) in [
            ("START", Frame::Start { have: 0, room: 0 }),
            ("DATA", Frame::Data(Bytes::from_static(b"x"))),
            ("ACK", Frame::Ack(0)),
            ("FIN", Frame::Fin),
            ("END", Frame::End(None)),
        ] {
            let mut out = BytesMut::new();
            frame.write(&mut out);
            assert!(page.contains(&format!("| {} | {name}", out[0])), "not on the page: {name}");
        }
        assert!(page.contains("from 1 to 16,384") && MOST_DATA == 16_384);
        assert!(page.contains("up to 512") && MOST_TEXT == 512);
    }
}
