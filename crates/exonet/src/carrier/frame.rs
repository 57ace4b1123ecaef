//! Datagrams in a stream of bytes: a length (u16, big-endian) and a datagram, repeated.

/// The number of bytes of the length before each datagram.
pub(crate) const LENGTH: usize = 2;
/// The longest datagram that a peer may send, in bytes.
pub(crate) const MAX_FRAME: usize = 16_384;
/// The longest datagram that a stranger may send first, in bytes: an opening, with some room.
pub(crate) const MAX_FIRST: usize = 1_500;
/// An empty buffer that is larger than this is freed.
const KEPT: usize = 4_096;
/// How many bytes are read at once beyond the current frame.
const AHEAD: usize = 49_152;

/// A length is not allowed: nothing after it can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {len} bytes, where 1 to {most} are taken")]
pub(crate) struct BadLength {
    len: usize,
    most: usize,
}

/// Appends the datagrams in `data` to `to`, as frames. Each datagram has `segment` bytes; only the last may be
/// shorter.
pub(crate) fn frame(data: &[u8], segment: usize, to: &mut Vec<u8>) {
    for datagram in data.chunks(segment.max(1)) {
        // The core makes no longer datagrams, so this skips none.
        let Ok(len) = u16::try_from(datagram.len()) else { continue };
        to.extend_from_slice(&len.to_be_bytes());
        to.extend_from_slice(datagram);
    }
}

/// Finds the frames in bytes that were read.
#[derive(Debug)]
pub(crate) struct Unframer {
    memory: Vec<u8>,
    /// The bytes between `from` and `to` were read, and not yet handed out.
    from: usize,
    to: usize,
    most: usize,
}

impl Unframer {
    /// Makes an unframer for the frames of a stranger.
    pub(crate) const fn new() -> Self {
        Self { memory: Vec::new(), from: 0, to: 0, most: MAX_FIRST }
    }

    /// Notes that the other end is a known peer: accepts frames as long as peers may send.
    pub(crate) const fn trust(&mut self) {
        self.most = MAX_FRAME;
    }

    /// The buffer to read into. The caller calls [`filled`](Self::filled) afterwards.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.memory.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        let ahead = if self.most > MAX_FIRST { AHEAD } else { 0 };
        let wanted = (LENGTH + self.most + ahead).max(self.to + LENGTH);
        if self.memory.len() < wanted {
            self.memory.resize(wanted, 0);
        }
        self.memory.get_mut(self.to..).unwrap_or_default()
    }

    /// Adds bytes that were read elsewhere.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let wanted = self.room().len().max(bytes.len()).saturating_add(self.to);
        if self.memory.len() < wanted {
            self.memory.resize(wanted, 0);
        }
        if let Some(to) = self.memory.get_mut(self.to..self.to + bytes.len()) {
            to.copy_from_slice(bytes);
        }
        self.filled(bytes.len());
    }

    /// Notes that `count` bytes were read into the buffer.
    pub(crate) fn filled(&mut self, count: usize) {
        self.to = self.to.saturating_add(count).min(self.memory.len());
    }

    /// The next datagram, if it is complete.
    pub(crate) fn next(&mut self) -> Result<Option<&mut [u8]>, BadLength> {
        let read = self.memory.get(self.from..self.to).unwrap_or_default();
        let Some((length, rest)) = read.split_first_chunk::<LENGTH>() else { return Ok(None) };
        let len = usize::from(u16::from_be_bytes(*length));
        if len == 0 || len > self.most {
            return Err(BadLength { len, most: self.most });
        }
        if rest.len() < len {
            return Ok(None);
        }
        let begin = self.from + LENGTH;
        self.from = begin + len;
        Ok(self.memory.get_mut(begin..begin + len))
    }

    /// Frees memory that is not needed while nothing arrives.
    pub(crate) fn rest(&mut self) {
        if self.from == self.to && self.memory.len() > KEPT {
            (self.memory, self.from, self.to) = (Vec::new(), 0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Reads `stream` in pieces of these lengths, and begins again with the first when they are used up.
    fn read(stream: &[u8], cuts: &[usize], trusted: bool) -> Result<Vec<Vec<u8>>, BadLength> {
        let (mut unframer, mut found, mut rest) = (Unframer::new(), Vec::new(), stream);
        if trusted {
            unframer.trust();
        }
        for cut in cuts.iter().cycle() {
            let first = (*cut).min(rest.len()).min(256);
            unframer.add(&rest[..first]);
            rest = &rest[first..];
            let room = unframer.room();
            let count = (*cut - first).min(rest.len()).min(room.len());
            room[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            unframer.filled(count);
            while let Some(datagram) = unframer.next()? {
                found.push(datagram.to_vec());
            }
            unframer.rest();
            if rest.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    proptest! {
        /// The frames are the same, however the stream is divided.
        #[test]
        fn any_split_of_the_stream_gives_the_same_frames(
            datagrams in vec(vec(any::<u8>(), 1..MAX_FRAME), 0..12),
            cuts in vec(1..20_000_usize, 1..40),
        ) {
            let mut stream = Vec::new();
            datagrams.iter().for_each(|datagram| frame(datagram, datagram.len(), &mut stream));
            prop_assert_eq!(read(&stream, &cuts, true), Ok(datagrams));
        }

        /// For any input, no frame is longer than allowed, and every frame is a part of the input.
        #[test]
        fn any_stream_is_frames_or_an_error(
            stream in vec(any::<u8>(), 0..5_000),
            cuts in vec(1..500_usize, 1..10),
        ) {
            if let Ok(frames) = read(&stream, &cuts, false) {
                prop_assert!(frames.iter().all(|frame| (1..=MAX_FIRST).contains(&frame.len())));
                let mut again = Vec::new();
                frames.iter().for_each(|datagram| frame(datagram, datagram.len(), &mut again));
                prop_assert!(stream.starts_with(&again));
            }
        }
    }

    #[test]
    fn one_byte_at_a_time_is_enough() {
        let mut stream = Vec::new();
        frame(&[1, 2, 3, 4, 5], 2, &mut stream);
        assert_eq!(stream, [0, 2, 1, 2, 0, 2, 3, 4, 0, 1, 5]);
        assert_eq!(read(&stream, &[1], false), Ok(vec![vec![1, 2], vec![3, 4], vec![5]]));
    }

    #[test]
    fn a_length_that_is_not_allowed_is_an_error_at_once() {
        let first = u16::try_from(MAX_FIRST + 1).unwrap().to_be_bytes();
        assert_eq!(read(&first, &[2], false), Err(BadLength { len: MAX_FIRST + 1, most: MAX_FIRST }));
        assert_eq!(read(&first, &[2], true), Ok(vec![]));
        let longest = u16::try_from(MAX_FRAME + 1).unwrap().to_be_bytes();
        assert_eq!(read(&longest, &[1], true), Err(BadLength { len: MAX_FRAME + 1, most: MAX_FRAME }));
        assert_eq!(read(&[0, 0, 0, 1, 9], &[5], true), Err(BadLength { len: 0, most: MAX_FRAME }));
    }

    #[test]
    fn a_stranger_gets_little_memory_and_an_idle_peer_none() {
        let mut unframer = Unframer::new();
        assert_eq!(unframer.room().len(), LENGTH + MAX_FIRST);
        unframer.trust();
        assert!(unframer.room().len() > MAX_FRAME);
        unframer.rest();
        assert_eq!(unframer.memory.capacity(), 0);
    }
}
