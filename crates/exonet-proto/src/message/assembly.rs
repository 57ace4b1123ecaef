//! A message that arrives in fragments.

use core::ops::Range;
use std::collections::BTreeMap;

use bytes::Bytes;

use crate::half::IntervalSet;

/// Streamed bodies are held in blocks of this size.
const BLOCK: u64 = 64 << 10;

/// The sender is told of so many bytes at the latest: half of the least that it keeps to send again.
const NEWS: u64 = 32 << 10;

/// Pieces without a gap that one message may consist of while it comes: at most, and a few more than one for so many
/// of its bytes, so that the account of them takes no more memory than the message.
const MAX_ISLANDS: u64 = 4_096;
const FEW_ISLANDS: u64 = 16;
const BYTES_PER_ISLAND: u64 = 16;

/// A fragment that cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It disagrees with the total of an earlier one, or reaches past it.
    Contradiction,
    /// It is beyond what the sender was allowed.
    BeyondWindow,
    /// What has come lies in too many pieces to keep account of another.
    Scattered,
}

/// The receiver's view of one fragmented message. Holds what lies within the window, never more.
#[derive(Debug)]
pub(crate) struct Assembly {
    total: u64,
    /// Offsets below are allowed.
    limit: u64,
    have: IntervalSet,
    /// The application has read everything below.
    read: u64,
    /// The prefix that the sender was last told.
    told: u64,
    data: Data,
}

#[derive(Debug)]
enum Data {
    /// Becomes one piece; grows with what has come, so that a claim of size costs nothing.
    Whole(Vec<u8>),
    /// Read as it comes: block number to bytes.
    Blocks(BTreeMap<u64, Vec<u8>>),
}

impl Assembly {
    /// To be handed over in one piece. The window is the whole message, or `window` and growing with what came.
    pub(crate) fn whole(total: u64, window: u64) -> Self {
        Self::new(total, window, Data::Whole(Vec::new()))
    }

    /// To be read as it comes, through a window of `window` bytes.
    pub(crate) fn streamed(total: u64, window: u64) -> Self {
        Self::new(total, window, Data::Blocks(BTreeMap::new()))
    }

    fn new(total: u64, window: u64, data: Data) -> Self {
        Self { total, limit: window.min(total), have: IntervalSet::new(), read: 0, told: 0, data }
    }

    /// Takes a fragment. Gives how many of its bytes were new.
    pub(crate) fn insert(&mut self, total: u64, offset: u64, bytes: &[u8]) -> Result<u64, Refused> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(Refused::Contradiction)?;
        if total != self.total || end > total {
            return Err(Refused::Contradiction);
        }
        if end > self.limit {
            return Err(Refused::BeyondWindow);
        }
        let new: u64 = self.have.gaps(offset..end).map(|gap| gap.end - gap.start).sum();
        if new > 0 {
            let beside = self.have.overlaps(offset.saturating_sub(1)..end.saturating_add(1)).next().is_some();
            if !beside && self.have.intervals() as u64 >= self.max_islands() {
                return Err(Refused::Scattered);
            }
            self.write(offset, bytes);
            self.have.insert(offset..end);
        }
        Ok(new)
    }

    fn max_islands(&self) -> u64 {
        (self.total / BYTES_PER_ISLAND + FEW_ISLANDS).min(MAX_ISLANDS)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        match &mut self.data {
            Data::Whole(buffer) => put(buffer, offset, bytes),
            Data::Blocks(blocks) => {
                let (mut offset, mut bytes) = (offset, bytes);
                while !bytes.is_empty() {
                    let (block, within) = (offset / BLOCK, offset % BLOCK);
                    let room = usize::try_from(BLOCK - within).unwrap_or(usize::MAX);
                    let (now, later) = bytes.split_at(room.min(bytes.len()));
                    // What has been read already may come again: it is not kept a second time.
                    if (block + 1) * BLOCK > self.read {
                        put(blocks.entry(block).or_default(), within, now);
                    }
                    offset += now.len() as u64;
                    bytes = later;
                }
            }
        }
    }

    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.have.covers(0..self.total)
    }

    /// Bytes held from the start without a gap.
    pub(crate) fn prefix(&self) -> u64 {
        self.have.iter().next().filter(|first| first.start == 0).map_or(0, |first| first.end)
    }

    /// What is held beyond the prefix.
    pub(crate) fn islands(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let prefix = self.prefix();
        self.have.iter().filter(move |run| run.start >= prefix && run.start > 0)
    }

    /// Offsets below may be sent.
    pub(crate) const fn limit(&self) -> u64 {
        self.limit
    }

    /// Moves the window on, and says whether that, or what has come since it was last said, is worth telling.
    pub(crate) fn is_news(&mut self, window: u64) -> bool {
        let moved = self.advance(window);
        let prefix = self.prefix();
        let news = moved || prefix - self.told.min(prefix) >= NEWS;
        if news {
            self.told = prefix;
        }
        news
    }

    /// Moves the window on: `window` bytes beyond what has been read, or has come if it is to be one piece.
    /// True when it moved by enough to be worth telling.
    fn advance(&mut self, window: u64) -> bool {
        let from = if matches!(self.data, Data::Whole(_)) { self.prefix() } else { self.read };
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
        match &self.data {
            Data::Whole(buffer) => buffer.len() as u64,
            Data::Blocks(blocks) => blocks.values().map(|block| block.len() as u64).sum(),
        }
    }

    /// The first bytes, as far as they have come: for the head of a streamed message.
    pub(crate) fn front(&self) -> &[u8] {
        let bytes: &[u8] = match &self.data {
            Data::Whole(buffer) => buffer,
            Data::Blocks(blocks) => blocks.get(&0).map(Vec::as_slice).unwrap_or_default(),
        };
        let prefix = usize::try_from(self.prefix()).unwrap_or(usize::MAX);
        bytes.get(..prefix.min(bytes.len())).unwrap_or_default()
    }

    /// The complete message.
    pub(crate) fn into_whole(self) -> Option<Bytes> {
        match self.data {
            Data::Whole(buffer) if self.have.covers(0..self.total) => Some(Bytes::from(buffer)),
            _ => None,
        }
    }

    /// Skips the head of a streamed message.
    pub(crate) fn skip(&mut self, head: u64) {
        self.read = self.read.max(head.min(self.total));
    }

    /// The next bytes of a streamed message. Each byte comes once.
    pub(crate) fn read(&mut self) -> Option<Bytes> {
        let prefix = self.prefix();
        let Data::Blocks(blocks) = &mut self.data else {
            return None;
        };
        if self.read >= prefix {
            return None;
        }
        let (block, within) = (self.read / BLOCK, self.read % BLOCK);
        let end = prefix.min((block + 1) * BLOCK);
        let whole = end == self.total || end == (block + 1) * BLOCK;
        let range = usize::try_from(within).ok()?..usize::try_from(end - block * BLOCK).ok()?;
        let bytes = if whole {
            let held = Bytes::from(blocks.remove(&block)?);
            held.get(range.clone())?;
            held.slice(range)
        } else {
            Bytes::copy_from_slice(blocks.get(&block)?.get(range)?)
        };
        self.read = end;
        Some(bytes)
    }

    /// Every byte has been read.
    pub(crate) const fn is_read(&self) -> bool {
        self.read == self.total
    }
}

/// Writes `bytes` at `offset`, which the caller has checked against a window.
fn put(buffer: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let Ok(from) = usize::try_from(offset) else { return };
    let end = from + bytes.len();
    if buffer.len() < end {
        buffer.resize(end, 0);
    }
    if let Some(room) = buffer.get_mut(from..end) {
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
        assert_eq!(a.memory(), 15);
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
        assert!(most <= window + BLOCK, "{most}");
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
            let whole = if streamed { got.into() } else { a.into_whole().unwrap() };
            prop_assert!(whole == data);
        }
    }
}
