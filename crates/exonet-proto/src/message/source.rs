//! Where the bytes of an outgoing message are.

use std::collections::VecDeque;

use bytes::Bytes;

/// The body of an outgoing message.
#[derive(Debug)]
pub(crate) enum Source {
    /// All of it, shared with the application.
    Whole(Bytes),
    /// As the application writes it.
    Stream(Stream),
}

/// The part of a streamed body that is written and may be needed again: bounded by the window.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    len: u64,
    chunks: VecDeque<Bytes>,
    /// Offset of the first byte of the first chunk.
    base: u64,
    written: u64,
}

impl Source {
    pub(crate) fn stream(len: u64) -> Self {
        Self::Stream(Stream {
            len,
            ..Stream::default()
        })
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Whole(body) => body.len() as u64,
            Self::Stream(stream) => stream.len,
        }
    }

    /// Bytes there are from the start of the body, sent or not.
    pub(crate) fn available(&self) -> u64 {
        match self {
            Self::Whole(body) => body.len() as u64,
            Self::Stream(stream) => stream.written,
        }
    }

    /// Bytes kept now.
    pub(crate) fn kept(&self) -> u64 {
        match self {
            Self::Whole(body) => body.len() as u64,
            Self::Stream(stream) => stream.written - stream.base,
        }
    }

    /// Copies the body from `offset` into `out`. False when some of it is not there.
    pub(crate) fn copy(&self, offset: u64, out: &mut [u8]) -> bool {
        match self {
            Self::Whole(body) => {
                let range = usize::try_from(offset)
                    .ok()
                    .and_then(|from| Some(from..from.checked_add(out.len())?));
                range.and_then(|range| body.get(range)).is_some_and(|part| {
                    out.copy_from_slice(part);
                    true
                })
            }
            Self::Stream(stream) => stream.copy(offset, out),
        }
    }

    /// Takes what the application writes, while fewer than `room` bytes are kept. Gives how many were taken.
    pub(crate) fn write(&mut self, data: &mut Bytes, room: u64) -> usize {
        let Self::Stream(stream) = self else { return 0 };
        let left = stream.len - stream.written;
        let free = room.saturating_sub(stream.written - stream.base);
        let take = usize::try_from(left.min(free))
            .unwrap_or(usize::MAX)
            .min(data.len());
        if take > 0 {
            stream.chunks.push_back(data.split_to(take));
            stream.written += take as u64;
        }
        take
    }

    /// Nothing below `offset` is needed again.
    pub(crate) fn release(&mut self, offset: u64) {
        if let Self::Stream(stream) = self {
            stream.release(offset);
        }
    }
}

impl Stream {
    fn copy(&self, offset: u64, out: &mut [u8]) -> bool {
        let (mut at, mut rest) = (self.base, out);
        if offset < at {
            return false;
        }
        for chunk in &self.chunks {
            let end = at + chunk.len() as u64;
            let from = offset.max(at);
            let part = usize::try_from(from - at)
                .ok()
                .and_then(|skip| chunk.get(skip..))
                .unwrap_or_default();
            if !part.is_empty() {
                let n = part.len().min(rest.len());
                let (head, tail) = std::mem::take(&mut rest).split_at_mut(n);
                head.copy_from_slice(part.get(..n).unwrap_or_default());
                rest = tail;
                if rest.is_empty() {
                    return true;
                }
            }
            at = end;
        }
        rest.is_empty()
    }

    fn release(&mut self, offset: u64) {
        while let Some(chunk) = self.chunks.front() {
            let end = self.base + chunk.len() as u64;
            if end > offset {
                return;
            }
            self.base = end;
            self.chunks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_keeps_what_may_be_needed_and_no_more() {
        let mut source = Source::stream(10);
        let mut data = Bytes::from_static(b"abcdefgh");
        assert_eq!(source.write(&mut data, 5), 5);
        assert_eq!(source.write(&mut data, 5), 0);
        source.release(4);
        assert_eq!(source.kept(), 5, "a chunk goes as a whole");
        source.release(5);
        assert_eq!(source.write(&mut data, 5), 3);
        let mut out = [0; 3];
        assert!(source.copy(5, &mut out));
        assert_eq!(&out, b"fgh");
        assert!(!source.copy(4, &mut out), "released");
        assert!(!source.copy(6, &mut out), "not written");
        let mut rest = Bytes::from_static(b"ijkl");
        assert_eq!(source.write(&mut rest, 100), 2, "no more than its length");
    }

    #[test]
    fn copies_across_chunks() {
        let mut source = Source::stream(9);
        for part in [&b"abc"[..], b"def", b"ghi"] {
            source.write(&mut Bytes::copy_from_slice(part), 100);
        }
        let mut out = [0; 5];
        assert!(source.copy(2, &mut out));
        assert_eq!(&out, b"cdefg");
    }
}
