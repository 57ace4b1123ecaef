//! Where the bytes of an outgoing message are.

use core::ops::Range;
use std::collections::VecDeque;

use bytes::Bytes;

use super::Bundle;

/// Bodies up to this length are copied. This is no more than fits beside the other variants.
pub(crate) const SMALL: usize = 64;

/// The assumed end of a body whose end is not known: no window reaches it.
const ENDLESS: u64 = 1 << 61;

/// The body of an outgoing message.
#[derive(Debug)]
pub(crate) enum Source {
    /// The whole body, shared with the application.
    Whole(Bytes),
    /// The whole body of a small message: sharing would cost more than the copy.
    Small { len: u8, bytes: [u8; SMALL] },
    /// A body that the application writes.
    Stream(Stream),
    /// The bodies of messages that were queued together.
    Bundle(Box<Bundle>),
}

/// The part of a streamed body that is written and may be needed again. The window bounds it.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// None: the length is not known yet.
    len: Option<u64>,
    /// The length was not known at first.
    unmeasured: bool,
    chunks: VecDeque<Bytes>,
    /// Offset of the first byte of the first chunk.
    base: u64,
    written: u64,
}

impl Source {
    /// Stores `body`. Also returns the bytes that are not needed any more: all of `body` if it was copied.
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

    /// Whether the length was not known when the message began.
    pub(crate) const fn is_unmeasured(&self) -> bool {
        matches!(self, Self::Stream(Stream { unmeasured: true, .. }))
    }

    /// Ends the body at what has been written. False if the length is known already.
    pub(crate) fn end(&mut self) -> bool {
        let Self::Stream(stream @ Stream { len: None, .. }) = self else { return false };
        stream.len = Some(stream.written);
        true
    }

    /// The length of the body, plus one if it was not known at first, since the end is sent like a byte. [`ENDLESS`] until it is
    /// known.
    #[inline]
    pub(crate) fn extent(&self) -> u64 {
        match self {
            Self::Stream(Stream { len: None, .. }) => ENDLESS,
            Self::Stream(Stream { len: Some(len), unmeasured: true, .. }) => len + 1,
            _ => self.len(),
        }
    }

    /// The length of one body. If it is not known, the bytes that have been written.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bundle(bundle) => bundle.body_len() as u64,
            Self::Whole(body) => body.len() as u64,
            Self::Small { len, .. } => u64::from(*len),
            Self::Stream(stream) => stream.len.unwrap_or(stream.written),
        }
    }

    /// How many bytes from the start of the body are available, sent or not. The end counts as in [`Source::extent`].
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

    /// How many bytes are kept now.
    pub(crate) fn kept(&self) -> u64 {
        match self {
            Self::Bundle(bundle) => bundle.body_len() as u64 * u64::from(bundle.open()),
            Self::Whole(body) => body.len() as u64,
            Self::Small { len, .. } => u64::from(*len),
            Self::Stream(stream) => stream.written - stream.base,
        }
    }

    /// The body at `range`, or as much of its beginning as lies in one piece. Nothing for a bundle, whose messages are not cut.
    pub(crate) fn part(&self, range: Range<u64>) -> &[u8] {
        match self {
            Self::Bundle(_) => &[],
            Self::Whole(body) => cut(body, range),
            Self::Small { len, bytes } => cut(bytes.get(..usize::from(*len)).unwrap_or_default(), range),
            Self::Stream(stream) => stream.part(range),
        }
    }

    /// The bytes that can be kept elsewhere than in memory: they occupy memory for as long as the message is open. Streams are
    /// bounded by their windows.
    pub(super) fn waiting(&self) -> &[u8] {
        match self {
            Self::Whole(body) => body,
            Self::Bundle(bundle) => bundle.shared(),
            Self::Small { .. } | Self::Stream(_) => &[],
        }
    }

    /// Replaces the bytes by the same bytes, which are now elsewhere. Returns the body that they were in, if it is the
    /// application's.
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

    /// Joins a complete streamed body into one piece. Returns the pieces, which are not needed any more.
    pub(crate) fn join(&mut self) -> VecDeque<Bytes> {
        let Self::Stream(stream) = self else { return VecDeque::new() };
        let chunks = std::mem::take(&mut stream.chunks);
        let whole: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.iter().copied()).collect();
        *self = Self::Whole(whole.into());
        chunks
    }

    /// Takes what the application writes, while fewer than `room` bytes are kept. Returns how many bytes were taken.
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

    /// Nothing below `offset` is needed again. Returns the pieces that lie below it.
    pub(crate) fn release(&mut self, offset: u64) -> Vec<Bytes> {
        let mut passed = Vec::new();
        if let Self::Stream(stream) = self {
            stream.release(offset, &mut passed);
        }
        passed
    }
}

impl Stream {
    /// The remaining chunks.
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

/// The part of `range` that `bytes` has.
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
