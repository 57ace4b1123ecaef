//! A message that arrives in fragments.

use core::ops::Range;
use std::collections::{BTreeMap, VecDeque};

use bytes::{Buf, Bytes};

use super::{MAX_HEAD, POOLED, read_head};
use crate::MAX_NUMBER;
use crate::half::IntervalSet;

/// A streamed body is handed over in chunks of at most this size.
const CHUNK: u64 = 64 << 10;

/// Data beyond a gap is held in blocks of this size. The size bounds how many bytes a fragment makes the receiver write beside
/// its own.
const BLOCK: u64 = 4 << 10;

/// The sender is told about the window after this many bytes at the latest: half of the least that it keeps to send again.
pub(super) const NEWS: u64 = 32 << 10;

/// The pieces without a gap that one message may consist of while it arrives: `FEW_ISLANDS` and one for each `BYTES_PER_ISLAND` of
/// its bytes, and `MAX_ISLANDS` at most. So the record of the pieces takes no more memory than the message.
const MAX_ISLANDS: u64 = 4_096;
const FEW_ISLANDS: u64 = 16;
const BYTES_PER_ISLAND: u64 = 16;

/// A fragment that cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The fragment disagrees with the total of an earlier one, or reaches past it.
    Contradiction,
    /// The fragment lies beyond what the sender was allowed to send.
    BeyondWindow,
    /// What has arrived lies in too many pieces to record another.
    Scattered,
}

/// The receiver's view of one fragmented message. It holds only what lies within the window.
///
/// Bytes that continue the prefix are appended to it. Bytes beyond a gap wait in blocks until the prefix reaches them, and are
/// copied once. Both grow only with what has arrived, so that neither a claimed size nor an offset costs memory or time.
#[derive(Debug)]
pub(crate) struct Assembly {
    /// The length of the message; beyond every offset until it is known.
    total: u64,
    /// The length was not known when the message began.
    open: bool,
    /// Offsets below this are allowed.
    limit: u64,
    /// Everything below this has arrived.
    prefix: u64,
    /// What has arrived beyond the prefix and does not touch it.
    islands: IntervalSet,
    /// The application has read everything below this.
    read: u64,
    /// The prefix that was last reported to the sender.
    told: u64,
    /// The message is read as it comes. Otherwise it is handed over in one piece.
    streamed: bool,
    /// Full chunks of a streamed body, in order from `read` on.
    full: VecDeque<Bytes>,
    /// The bytes behind the full chunks, up to the prefix.
    front: Vec<u8>,
    /// The bytes of the islands: each block number with as much of the block as has been written.
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl Assembly {
    /// A message to be handed over in one piece. The window is the whole message, or `window` bytes that move on with what has
    /// arrived.
    pub(crate) const fn whole(total: u64, window: u64) -> Self {
        Self::new(total, window, false)
    }

    /// A message to be read as it comes, through a window of `window` bytes.
    pub(crate) const fn streamed(total: u64, window: u64) -> Self {
        Self::new(total, window, true)
    }

    /// As [`Assembly::whole`], for a message for which memory was set aside: it grows in the empty buffer `buffer`.
    pub(crate) fn pooled(total: u64, mut buffer: Vec<u8>) -> Self {
        buffer.reserve_exact(index(total.min(BLOCK)));
        Self { front: buffer, ..Self::whole(total, total) }
    }

    /// As [`Assembly::streamed`], for a message whose length is not known.
    pub(crate) fn open(window: u64) -> Self {
        Self { open: true, ..Self::streamed(MAX_NUMBER, window) }
    }

    const fn new(total: u64, window: u64, streamed: bool) -> Self {
        Self {
            total,
            open: false,
            limit: if window < total { window } else { total },
            prefix: 0,
            islands: IntervalSet::new(),
            read: 0,
            told: 0,
            streamed,
            full: VecDeque::new(),
            front: Vec::new(),
            blocks: BTreeMap::new(),
        }
    }

    /// Takes a part of a message of `total` bytes. Returns how many of its bytes were new.
    pub(crate) fn insert(&mut self, total: u64, offset: u64, bytes: &[u8]) -> Result<u64, Refused> {
        if self.open || total != self.total {
            return Err(Refused::Contradiction);
        }
        self.put(offset, bytes)
    }

    /// Takes a part of a message whose length was not known when it began. `ends`: the message ends with this part. The end
    /// counts as one more new byte.
    pub(crate) fn insert_open(&mut self, ends: bool, offset: u64, bytes: &[u8]) -> Result<u64, Refused> {
        let end = offset.saturating_add(bytes.len() as u64);
        let come = self.islands.end().unwrap_or(self.prefix);
        if !self.open || ends && (self.is_ended() && end != self.total || end < come) {
            return Err(Refused::Contradiction);
        }
        let (new, news) = (self.put(offset, bytes)?, ends && !self.is_ended());
        if news {
            self.total = end;
        }
        Ok(new + u64::from(news))
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) -> Result<u64, Refused> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(Refused::Contradiction)?;
        if end > self.total {
            return Err(Refused::Contradiction);
        }
        if end > self.limit {
            return Err(Refused::BeyondWindow);
        }
        let start = offset.max(self.prefix);
        let new: u64 = self.islands.gaps(start..end).map(|gap| gap.end - gap.start).sum();
        if new == 0 {
            return Ok(0);
        }
        if start > self.prefix {
            let beside = self.islands.overlaps(start - 1..end.saturating_add(1)).next().is_some();
            if !beside && self.pieces() >= self.max_pieces() {
                return Err(Refused::Scattered);
            }
            self.write(start, bytes);
            self.islands.insert(start..end);
        } else {
            self.append(bytes.get(index(start - offset)..).unwrap_or_default());
            self.join();
        }
        Ok(new)
    }

    fn pieces(&self) -> u64 {
        self.islands.intervals() as u64 + u64::from(self.prefix > 0)
    }

    fn max_pieces(&self) -> u64 {
        (self.total / BYTES_PER_ISLAND + FEW_ISLANDS).min(MAX_ISLANDS)
    }

    /// Moves the prefix on by `bytes`.
    fn append(&mut self, mut bytes: &[u8]) {
        self.prefix += bytes.len() as u64;
        let most = index(if self.streamed { CHUNK } else { self.total });
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(most - self.front.len()));
            reserve(&mut self.front, now.len(), most);
            self.front.extend_from_slice(now);
            if self.streamed && self.front.len() == most {
                self.full.push_back(std::mem::take(&mut self.front).into());
            }
            bytes = later;
        }
    }

    /// The prefix has grown: it takes in the island that it has reached, and drops what it has passed.
    fn join(&mut self) {
        self.islands.remove_below(self.prefix);
        if self.islands.first() == Some(self.prefix) {
            let end =
                self.islands.overlaps(self.prefix..self.limit).next().map_or(self.prefix, |run| run.end);
            self.islands.remove_below(end);
            while self.prefix < end
                && let Some(block) = self.blocks.remove(&(self.prefix / BLOCK))
            {
                let first = self.prefix / BLOCK * BLOCK;
                let run = index(self.prefix - first)..index(end.min(first + BLOCK) - first);
                self.append(block.get(run).unwrap_or_default());
                if self.islands.first().is_some_and(|next| next < first + BLOCK) {
                    self.blocks.insert(first / BLOCK, block);
                    break;
                }
            }
        }
        while let Some(passed) = self.blocks.first_entry().filter(|it| (it.key() + 1) * BLOCK <= self.prefix)
        {
            passed.remove();
        }
    }

    /// Keeps `bytes`, which lie beyond a gap.
    fn write(&mut self, mut offset: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (block, within) = (offset / BLOCK, index(offset % BLOCK));
            let size = index(BLOCK.min(self.total - block * BLOCK));
            let (now, later) = bytes.split_at(bytes.len().min(size - within));
            put(self.blocks.entry(block).or_default(), within, now, size);
            offset += now.len() as u64;
            bytes = later;
        }
    }

    /// The length of the message. None: it is not known.
    pub(crate) fn total(&self) -> Option<u64> {
        self.is_ended().then_some(self.total)
    }

    /// Whether the end of the message is known.
    const fn is_ended(&self) -> bool {
        !self.open || self.total < MAX_NUMBER
    }

    /// Whether the message shares the pool of its sender: it is not large, and this was known when it began.
    pub(crate) fn is_pooled(&self) -> bool {
        !self.open && self.total <= POOLED
    }

    pub(crate) const fn is_streamed(&self) -> bool {
        self.streamed
    }

    /// Whether enough has arrived to read the head, if it can be read at all.
    pub(crate) fn has_head(&self) -> bool {
        self.prefix >= MAX_HEAD.min(self.total) || self.open && read_head(self.front()).is_ok()
    }

    pub(crate) const fn is_complete(&self) -> bool {
        self.prefix == self.total
    }

    /// How many bytes without a gap are reported to the sender. If the length was not known at first, the end counts as a byte.
    pub(crate) fn held(&self) -> u64 {
        self.prefix + u64::from(self.open && self.is_complete())
    }

    /// Bytes held from the start without a gap.
    #[cfg(test)]
    pub(crate) const fn prefix(&self) -> u64 {
        self.prefix
    }

    /// The ranges that are held beyond the prefix.
    pub(crate) fn islands(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.islands.iter()
    }

    /// Offsets below this may be sent.
    pub(crate) const fn limit(&self) -> u64 {
        self.limit
    }

    /// Moves the window on, and returns whether that, or what has arrived since the last report, is worth reporting.
    pub(crate) fn is_news(&mut self, window: u64) -> bool {
        let news = self.advance(window) || self.prefix - self.told >= NEWS;
        if news {
            self.told = self.prefix;
        }
        news
    }

    /// Moves the window on: to `window` bytes beyond what has been read, or beyond what has arrived if the message is to be one
    /// piece. True if the window moved far enough to be worth reporting.
    fn advance(&mut self, window: u64) -> bool {
        let from = if self.streamed { self.read } else { self.prefix };
        let limit = from.saturating_add(window).min(self.total);
        let worth = limit > self.limit && (limit - self.limit >= window / 4 || limit == self.total);
        if worth {
            self.limit = limit;
        }
        worth
    }

    /// Bytes of memory in use.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> u64 {
        let full = self.full.iter().map(Bytes::len).sum::<usize>();
        let blocks = self.blocks.values().map(Vec::capacity).sum::<usize>();
        (full + self.front.capacity() + blocks) as u64
    }

    /// The first bytes that have arrived, for the head of a streamed message.
    pub(crate) fn front(&self) -> &[u8] {
        self.full.front().map_or(&self.front, |chunk| chunk)
    }

    /// The complete message.
    pub(crate) fn into_whole(self) -> Option<Vec<u8>> {
        (self.is_complete() && !self.streamed).then_some(self.front)
    }

    /// Skips the head of a streamed message, before any of it is read.
    pub(crate) fn skip(&mut self, head: u64) {
        if self.read > 0 {
            return;
        }
        self.read = head.min(self.front().len() as u64);
        match self.full.front_mut() {
            Some(chunk) => chunk.advance(index(self.read)),
            None => drop(self.front.drain(..index(self.read))),
        }
    }

    /// The next bytes of a streamed message. Each byte comes once.
    pub(crate) fn read(&mut self) -> Option<Bytes> {
        if !self.streamed {
            return None;
        }
        let rest = || (!self.front.is_empty()).then(|| std::mem::take(&mut self.front).into());
        let bytes = self.full.pop_front().or_else(rest)?;
        self.read += bytes.len() as u64;
        Some(bytes)
    }

    /// Whether every byte has been read.
    pub(crate) const fn is_read(&self) -> bool {
        self.read == self.total
    }
}

/// Converts an offset: offsets lie within a window, and everything within a window fits into memory.
fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// Makes room for `more` bytes in a buffer that grows to `most`: its size doubles, but never exceeds that.
fn reserve(buffer: &mut Vec<u8>, more: usize, most: usize) {
    let needed = buffer.len() + more;
    if needed > buffer.capacity() {
        let room = needed.max((buffer.capacity() * 2).min(most));
        buffer.reserve_exact(room - buffer.len());
    }
}

/// Writes `bytes` at `from` in a block that has `size` bytes when it is full.
fn put(block: &mut Vec<u8>, from: usize, bytes: &[u8], size: usize) {
    let end = from + bytes.len();
    if block.len() < end {
        reserve(block, end - block.len(), size);
        block.resize(end, 0);
    }
    if let Some(room) = block.get_mut(from..end) {
        room.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn body(len: usize) -> Vec<u8> {
        (0..len).map(|i| u8::try_from(i * 7 % 251).unwrap()).collect()
    }

    #[test]
    fn contradictions_and_overruns_are_refused() {
        let mut a = Assembly::whole(100, 50);
        assert_eq!(a.insert(100, 0, &[1; 10]), Ok(10));
        assert_eq!(a.insert(100, 5, &[1; 10]), Ok(5));
        assert_eq!(a.insert(101, 0, &[1; 10]), Err(Refused::Contradiction));
        assert_eq!(a.insert(100, 95, &[1; 10]), Err(Refused::Contradiction));
        assert_eq!(a.insert(100, u64::MAX, &[1; 10]), Err(Refused::Contradiction));
        assert_eq!(a.insert(100, 45, &[1; 10]), Err(Refused::BeyondWindow));
        assert_eq!(a.memory(), 20, "twice the first");
    }

    #[test]
    fn scattered_pieces_are_bounded_and_gaps_can_still_be_filled() {
        let mut a = Assembly::whole(1 << 20, 1 << 20);
        for i in 0..MAX_ISLANDS {
            assert_eq!(a.insert(1 << 20, i * 2, &[1]), Ok(1));
        }
        assert_eq!(a.insert(1 << 20, 1 << 19, &[1]), Err(Refused::Scattered));
        assert_eq!(a.insert(1 << 20, 1, &[1]), Ok(1), "it joins two");
        let mut small = Assembly::whole(1_600, 1_600);
        let taken = (0..800).filter(|i| small.insert(1_600, i * 2, &[1]).is_ok());
        assert_eq!(taken.count(), 116, "fewer of a small message");
    }

    #[test]
    fn news_comes_every_so_often_though_the_window_rests() {
        let mut a = Assembly::whole(1 << 20, 8 << 20);
        let told = (0..256_u64).filter(|i| {
            a.insert(1 << 20, i << 12, &[1; 1 << 12]).unwrap();
            a.is_news(8 << 20)
        });
        assert_eq!(told.count(), (1 << 20) / 32_768);
    }

    #[test]
    fn a_claim_of_size_costs_no_memory() {
        let mut a = Assembly::whole(1 << 40, 1 << 20);
        a.insert(1 << 40, 0, b"x").unwrap();
        assert!(a.memory() < 100);
    }

    #[test]
    fn an_offset_costs_no_memory() {
        for mut a in [Assembly::whole(1 << 20, 1 << 20), Assembly::streamed(1 << 20, 1 << 20)] {
            a.insert(1 << 20, (1 << 20) - 1, b"x").unwrap();
            assert!(a.memory() <= 4_096, "{}", a.memory());
        }
    }

    #[test]
    fn what_waits_beyond_a_gap_goes_when_the_gap_is_filled() {
        let (data, total) = (body(100_000), 100_000);
        let mut a = Assembly::whole(total, total);
        a.insert(total, 50_000, &data[50_000..]).unwrap();
        a.insert(total, 20_000, &data[20_000..30_000]).unwrap();
        a.insert(total, 0, &data[..25_000]).unwrap();
        assert_eq!((a.prefix(), a.islands().count()), (30_000, 1));
        assert_eq!(a.blocks.first_key_value().map(|(block, _)| *block), Some(50_000 / BLOCK));
        a.insert(total, 30_000, &data[30_000..50_000]).unwrap();
        assert!(a.blocks.is_empty() && a.is_complete());
        assert_eq!(a.memory(), total);
        assert!(a.into_whole().unwrap() == data);
    }

    #[test]
    fn memory_of_a_stream_is_bounded_by_its_window() {
        let (total, window) = (10 << 20, 256 << 10);
        let data = body(total);
        let mut a = Assembly::streamed(total as u64, window);
        let (mut sent, mut got, mut most) = (0, Vec::new(), 0);
        while !a.is_read() {
            while sent < usize::try_from(a.limit()).unwrap() {
                let end = (sent + 1_400).min(usize::try_from(a.limit()).unwrap());
                a.insert(total as u64, sent as u64, &data[sent..end]).unwrap();
                sent = end;
            }
            most = most.max(a.memory());
            while let Some(bytes) = a.read() {
                got.extend_from_slice(&bytes);
            }
            a.advance(window);
        }
        assert!(got == data);
        assert!(most <= window + CHUNK, "{most}");
    }

    proptest! {
        #[test]
        fn any_order_and_any_copies_give_the_message_once(
            len in 1..200_000_usize, seed in any::<u64>(), streamed in any::<bool>(),
        ) {
            let data = body(len);
            let mut order: Vec<usize> = (0..len).step_by(1_171).chain((0..len).step_by(1_999)).collect();
            let mut x = seed | 1;
            for i in (1..order.len()).rev() {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                order.swap(i, usize::try_from(x >> 33).unwrap() % (i + 1));
            }
            let total = len as u64;
            let mut a = if streamed { Assembly::streamed(total, total) } else { Assembly::whole(total, total) };
            let mut got = Vec::new();
            for from in order {
                a.insert(total, from as u64, &data[from..len.min(from + 2_500)]).unwrap();
                while let Some(bytes) = a.read() { got.extend_from_slice(&bytes); }
            }
            prop_assert!(a.is_complete());
            let whole = if streamed { got } else { a.into_whole().unwrap() };
            prop_assert!(whole == data);
        }
    }
}
