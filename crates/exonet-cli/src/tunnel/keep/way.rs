//! One direction of a kept connection, at its sender and at its receiver. No I/O.
//!
//! Bytes are numbered from the first byte of the connection, whatever link carries them. The end of file counts as one
//! byte behind all bytes.

use std::collections::VecDeque;

use bytes::Bytes;

use super::frame::{Frame, MOST_DATA};

/// A larger buffer is given back when it is empty.
const SMALL: usize = 64 << 10;

/// What the other end has said that cannot be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Lie {
    #[error("it has {0} bytes, of {1} that were sent")]
    Have(u64, u64),
    #[error("it takes back what it had")]
    Less,
    #[error("it sends more than may be on the way")]
    Full,
    #[error("it sends behind the end of file")]
    Behind,
    #[error("a frame comes before the first one, or the first one twice")]
    Order,
    #[error("it has ended before all has arrived")]
    Early,
}

/// The sending side: the bytes that were read from the program here and that the program there has not taken yet.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// The bytes from `acked` to the last.
    held: VecDeque<u8>,
    /// The number of bytes that the program there has taken.
    acked: u64,
    /// The number of bytes that were sent before or over this link.
    sent: u64,
    /// The largest `sent` that there was over any link.
    furthest: u64,
    /// The number of bytes that were read from the program here.
    read: u64,
    /// The program here has ended its direction.
    fin: bool,
    /// The most bytes to hold.
    window: usize,
    /// The most bytes that the other end holds.
    room: u64,
}

impl Outgoing {
    pub(super) fn new(window: usize) -> Self {
        let [acked, sent, furthest, read, room] = [0; 5];
        Self { held: VecDeque::new(), acked, sent, furthest, read, fin: false, window, room }
    }

    /// How many bytes to read from the program now.
    pub(super) fn room(&self) -> usize {
        if self.fin { 0 } else { self.window.saturating_sub(self.held.len()) }
    }

    /// The program has said this.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.held.extend(bytes);
        self.read += bytes.len() as u64;
    }

    /// The program has said all.
    pub(super) fn finish(&mut self) {
        self.fin = true;
    }

    fn total(&self) -> u64 {
        self.read + u64::from(self.fin)
    }

    /// The number of bytes that the program here has said.
    pub(super) fn read(&self) -> u64 {
        self.read
    }

    /// Whether the program there has taken everything, the end of file included.
    pub(super) fn is_done(&self) -> bool {
        self.fin && self.acked == self.total()
    }

    /// A new link begins, and the other end has this many bytes.
    ///
    /// # Errors
    /// It cannot have them.
    pub(super) fn resume(&mut self, have: u64, room: u64) -> Result<(), Lie> {
        if have < self.acked {
            return Err(Lie::Less);
        }
        if have > self.furthest {
            return Err(Lie::Have(have, self.furthest));
        }
        (self.sent, self.room) = (have, room);
        Ok(())
    }

    /// The program there has taken this many bytes.
    ///
    /// # Errors
    /// It cannot have taken them.
    pub(super) fn ack(&mut self, taken: u64) -> Result<(), Lie> {
        let more = taken.checked_sub(self.acked).ok_or(Lie::Less)?;
        if taken > self.sent {
            return Err(Lie::Have(taken, self.sent));
        }
        // The last one may be the end of file, which is not held.
        let more = usize::try_from(more).unwrap_or(usize::MAX).min(self.held.len());
        drop(self.held.drain(..more));
        if self.held.is_empty() && self.held.capacity() > SMALL {
            self.held = VecDeque::new();
        }
        self.acked = taken;
        Ok(())
    }

    /// The next frame to send.
    pub(super) fn next(&mut self) -> Option<Frame> {
        let limit = self.read.min(self.acked.saturating_add(self.room));
        if let Some(ready) = limit.checked_sub(self.sent).filter(|ready| *ready > 0) {
            let skip = usize::try_from(self.sent - self.acked).unwrap_or(usize::MAX);
            let take = usize::try_from(ready).unwrap_or(usize::MAX).min(MOST_DATA);
            let bytes: Bytes = part(&self.held, skip, take);
            self.sent += bytes.len() as u64;
            self.furthest = self.furthest.max(self.sent);
            return Some(Frame::Data(bytes));
        }
        if self.fin && self.sent == self.read {
            self.sent += 1;
            self.furthest = self.furthest.max(self.sent);
            return Some(Frame::Fin);
        }
        None
    }
}

/// The bytes of a queue behind `skip`, at most `take`.
fn part(queue: &VecDeque<u8>, skip: usize, take: usize) -> Bytes {
    let (front, back) = queue.as_slices();
    let behind = front.get(skip..).unwrap_or_default();
    let first = behind.get(..take).unwrap_or(behind);
    let rest = back.get(skip.saturating_sub(front.len())..).unwrap_or_default();
    let second = rest.get(..take - first.len()).unwrap_or(rest);
    if second.is_empty() { Bytes::copy_from_slice(first) } else { [first, second].concat().into() }
}

/// The receiving side: the bytes that have arrived and that the program here has not taken yet.
#[derive(Debug)]
pub(super) struct Incoming {
    held: VecDeque<Bytes>,
    /// The number of bytes that have arrived, and that the program has taken.
    arrived: u64,
    taken: u64,
    /// The end of file has arrived.
    fin: bool,
    /// The last number of taken bytes that was told over this link.
    told: u64,
    /// The most bytes to hold.
    room: u64,
}

/// What the program here is to get next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Give {
    Bytes(Bytes),
    /// The end of file.
    Fin,
}

impl Incoming {
    pub(super) fn new(window: usize) -> Self {
        let [arrived, taken, told] = [0; 3];
        Self { held: VecDeque::new(), arrived, taken, fin: false, told, room: window as u64 }
    }

    /// The first frame of a link. What was told before may be lost.
    pub(super) fn resume(&mut self) -> Frame {
        self.told = 0;
        Frame::Start { have: self.arrived, room: self.room }
    }

    /// # Errors
    /// The other end may not send this.
    pub(super) fn data(&mut self, bytes: Bytes) -> Result<(), Lie> {
        if self.fin {
            return Err(Lie::Behind);
        }
        let len = bytes.len() as u64;
        if self.arrived - self.taken + len > self.room {
            return Err(Lie::Full);
        }
        self.arrived += len;
        self.held.push_back(bytes);
        Ok(())
    }

    /// # Errors
    /// The end of file has arrived before.
    pub(super) fn finish(&mut self) -> Result<(), Lie> {
        if self.fin {
            return Err(Lie::Behind);
        }
        (self.fin, self.arrived) = (true, self.arrived + 1);
        Ok(())
    }

    /// What the program gets next, when it has taken what it got before.
    pub(super) fn next(&mut self) -> Option<Give> {
        match self.held.pop_front() {
            Some(bytes) => Some(Give::Bytes(bytes)),
            None => (self.fin && self.taken + 1 == self.arrived).then_some(Give::Fin),
        }
    }

    /// The program has taken this many bytes of what it got; the end of file counts as one.
    pub(super) fn took(&mut self, bytes: u64) {
        self.taken = self.arrived.min(self.taken + bytes);
    }

    /// The number of bytes that the program has taken.
    pub(super) fn taken(&self) -> u64 {
        self.taken - u64::from(self.is_done())
    }

    /// Whether the program has taken everything, the end of file included.
    pub(super) fn is_done(&self) -> bool {
        self.fin && self.taken == self.arrived
    }

    /// The acknowledgement to send.
    pub(super) fn ack(&mut self) -> Option<Frame> {
        let news = self.taken > self.told;
        self.told = self.taken;
        news.then_some(Frame::Ack(self.taken))
    }
}
