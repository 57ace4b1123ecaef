//! Where the bytes of an outgoing message are.

use core::ops::Range;
use std::collections::VecDeque;

use bytes::Bytes;

use super::Bundle;

/// Bodies up to this length are copied. No more than fits beside the others.
pub(crate) const SMALL: usize = 64;

/// Where the end of a body lies that is not known: no window reaches it.
const ENDLESS: u64 = 1 << 61;

/// The body of an outgoing message.
#[derive(Debug)]
pub(crate) enum Source {
    /// All of it, shared with the application.
    Whole(Bytes),
    /// All of a small one: sharing would cost more than the copy.
    Small { len: u8, bytes: [u8; SMALL] },
    /// As the application writes it.
    Stream(Stream),
    /// Those of messages that were queued together.
    Bundle(Box<Bundle>),
}

/// The part of a streamed body that is written and may be needed again: bounded by the window.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// None: it is not known yet.
    len: Option<u64>,
    /// It was not known at first.
    unmeasured: bool,
    chunks: VecDeque<Bytes>,
    /// Offset of the first byte of the first chunk.
    base: u64,
    written: u64,
}

impl Source {
    /// Gives what is not needed of `body` as well: all of it if it was copied.
    pub(crate) fn whole(body: Bytes) -> (Self, Bytes) {
        match u8::try_from(body.len()) {
            Ok(len) if body.len() <= SMALL => {
                let mut bytes = [0; SMALL];
                if let Some(room) = bytes.get_mut(..body.len()) {
                    room.copy_from_slice(&body);
                }
                (Self::Small { len, bytes }, body)
            }
            _ => (Self::Whole(body), Bytes::new()),
        }
    }

    pub(crate) fn stream(len: Option<u64>) -> Self {
        Self::Stream(Stream { len, unmeasured: len.is_none(), ..Stream::default() })
    }

    /// Its length was not known when it began.
    pub(crate) const fn is_unmeasured(&self) -> bool {
        matches!(self, Self::Stream(Stream { unmeasured: true, .. }))
    }

    /// Nothing more is written: what there is is all. False where the length is known already.
    pub(crate) fn end(&mut self) -> bool {
        let Self::Stream(stream @ Stream { len: None, .. }) = self else { return false };
        stream.len = Some(stream.written);
        true
    }

    /// Its length, and one more where that was not known at first: the end is sent as a byte is. [`ENDLESS`] until it is known.
    #[inline]
    pub(crate) fn extent(&self) -> u64 {
        match self {
            Self::Stream(Stream { len: None, .. }) => ENDLESS,
            Self::Stream(Stream { len: Some(len), unmeasured: true, .. }) => len + 1,
            _ => self.len(),
        }
    }

    /// Of one body; what has been written of it, if that is not known.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bundle(bundle) => bundle.body_len() as u64,
            Self::Whole(body) => body.len() as u64,
            Self::Small { len, .. } => u64::from(*len),
            Self::Stream(stream) => stream.len.unwrap_or(stream.written),
        }
    }

    /// Bytes there are from the start of the body, sent or not; the end counts as in [`Source::extent`].
    pub(crate) fn available(&self) -> u64 {
        match self {
            Self::Bundle(bundle) => bundle.body_len() as u64,
            Self::Whole(body) => body.len() as u64,
            Self::Small { len, .. } => u64::from(*len),
            Self::Stream(Stream { len, unmeasured, written, .. }) => {
                written + u64::from(*unmeasured && len.is_some())
            }
        }
    }

    /// Bytes kept now.
    pub(crate) fn kept(&self) -> u64 {
        match self {
            Self::Bundle(bundle) => bundle.body_len() as u64 * u64::from(bundle.open()),
            Self::Whole(body) => body.len() as u64,
            Self::Small { len, .. } => u64::from(*len),
            Self::Stream(stream) => stream.written - stream.base,
        }
    }

    /// The body at `range`, or as much of its beginning as is in one piece. Of a bundle, whose messages are not cut, nothing.
    pub(crate) fn part(&self, range: Range<u64>) -> &[u8] {
        match self {
            Self::Bundle(_) => &[],
            Self::Whole(body) => cut(body, range),
            Self::Small { len, bytes } => cut(bytes.get(..usize::from(*len)).unwrap_or_default(), range),
            Self::Stream(stream) => stream.part(range),
        }
    }

    /// What can be kept elsewhere than in memory: bytes that cost some for as long as the message is open. Streams are bounded by
    /// their windows.
    pub(super) fn waiting(&self) -> &[u8] {
        match self {
            Self::Whole(body) => body,
            Self::Bundle(bundle) => bundle.shared(),
            Self::Small { .. } | Self::Stream(_) => &[],
        }
    }

    /// The same bytes, which are elsewhere now. Gives back the body that they were in, if it is the application's.
    pub(super) fn move_to(&mut self, kept: Bytes) -> Bytes {
        match self {
            Self::Whole(body) => core::mem::replace(body, kept),
            Self::Bundle(bundle) => {
                bundle.move_to(kept);
                Bytes::new()
            }
            Self::Small { .. } | Self::Stream(_) => Bytes::new(),
        }
    }

    /// The whole body, if it is shared with the application.
    pub(crate) const fn shared(&self) -> Option<&Bytes> {
        match self {
            Self::Whole(body) => Some(body),
            _ => None,
        }
    }

    /// A streamed body that is complete, in one piece. Gives the pieces, which are not needed any more.
    pub(crate) fn join(&mut self) -> VecDeque<Bytes> {
        let Self::Stream(stream) = self else { return VecDeque::new() };
        let chunks = std::mem::take(&mut stream.chunks);
        let whole: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.iter().copied()).collect();
        *self = Self::Whole(whole.into());
        chunks
    }

    /// Takes what the application writes, while fewer than `room` bytes are kept. Gives how many were taken.
    pub(crate) fn write(&mut self, data: &mut Bytes, room: u64) -> usize {
        let Self::Stream(stream) = self else { return 0 };
        let left = stream.len.unwrap_or(u64::MAX) - stream.written;
        let free = room.saturating_sub(stream.written - stream.base);
        let take = usize::try_from(left.min(free)).unwrap_or(usize::MAX).min(data.len());
        if take > 0 {
            stream.chunks.push_back(data.split_to(take));
            stream.written += take as u64;
        }
        take
    }

    /// Whether everything that was written is still there.
    pub(crate) const fn is_intact(&self) -> bool {
        match self {
            Self::Whole(_) | Self::Small { .. } | Self::Bundle(_) => true,
            Self::Stream(stream) => stream.base == 0,
        }
    }

    /// Nothing below `offset` is needed again. Gives the pieces that lie below it.
    pub(crate) fn release(&mut self, offset: u64) -> Vec<Bytes> {
        let mut passed = Vec::new();
        if let Self::Stream(stream) = self {
            stream.release(offset, &mut passed);
        }
        passed
    }
}

impl Stream {
    /// What is left of it.
    pub(super) fn into_chunks(self) -> impl Iterator<Item = Bytes> {
        self.chunks.into_iter()
    }

    fn part(&self, range: Range<u64>) -> &[u8] {
        let mut at = self.base;
        for chunk in &self.chunks {
            let end = at + chunk.len() as u64;
            if range.start < end {
                return if range.start < at { &[] } else { cut(chunk, range.start - at..range.end - at) };
            }
            at = end;
        }
        &[]
    }

    fn release(&mut self, offset: u64, passed: &mut Vec<Bytes>) {
        while let Some(chunk) = self.chunks.front_mut() {
            let end = self.base + chunk.len() as u64;
            if end > offset {
                let part = offset.saturating_sub(self.base);
                bytes::Buf::advance(chunk, usize::try_from(part).unwrap_or(0));
                self.base += part;
                return;
            }
            self.base = end;
            passed.extend(self.chunks.pop_front());
        }
    }
}

/// What `bytes` has of `range`.
fn cut(bytes: &[u8], range: Range<u64>) -> &[u8] {
    let from = usize::try_from(range.start).unwrap_or(usize::MAX).min(bytes.len());
    let to = usize::try_from(range.end).unwrap_or(usize::MAX).clamp(from, bytes.len());
    bytes.get(from..to).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_keeps_what_may_be_needed_and_no_more() {
        let mut source = Source::stream(Some(10));
        let mut data = Bytes::from_static(b"abcdefgh");
        assert_eq!(source.write(&mut data, 5), 5);
        assert_eq!(source.write(&mut data, 5), 0);
        source.release(4);
        assert_eq!(source.kept(), 1, "what is released leaves room");
        source.release(5);
        assert_eq!(source.write(&mut data, 5), 3);
        assert_eq!(source.part(5..8), b"fgh");
        assert_eq!(source.part(6..20), b"gh", "not written yet");
        assert_eq!(source.part(4..8), b"", "released");
        let mut rest = Bytes::from_static(b"ijkl");
        assert_eq!(source.write(&mut rest, 100), 2, "no more than its length");
    }

    #[test]
    fn a_part_ends_with_its_piece_until_the_body_is_joined() {
        let mut source = Source::stream(Some(9));
        for part in [&b"abc"[..], b"def", b"ghi"] {
            source.write(&mut Bytes::copy_from_slice(part), 100);
        }
        assert_eq!(source.part(2..7), b"c");
        assert_eq!(source.part(4..9), b"ef");
        source.join();
        assert_eq!(source.part(2..7), b"cdefg");
    }

    #[test]
    fn a_small_body_is_copied_and_a_larger_one_is_not() {
        for len in [0, 1, SMALL, SMALL + 1] {
            let body: Bytes = (0..).take(len).collect::<Vec<u8>>().into();
            let (source, _) = Source::whole(body.clone());
            assert_eq!(
                (source.part(0..u64::MAX), source.len(), source.kept()),
                (&*body, len as u64, len as u64)
            );
            assert_eq!(source.part(0..u64::MAX).as_ptr() == body.as_ptr(), len > SMALL);
            assert_eq!(source.part(1..3), body.get(1..3.min(len)).unwrap_or_default());
        }
    }
}
