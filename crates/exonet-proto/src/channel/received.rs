//! The receiving side of one packet number space: replay protection, and what to acknowledge.
//!
//! One bitmap serves both. It covers the newest packet and at least [`WINDOW`] packets before it, so that any of them can be told
//! apart whatever the pattern of losses; everything below its floor counts as seen. So no number is ever accepted twice, and
//! memory is bounded: none when idle, about 2 KiB at most. Losses and skipped numbers leave gaps that never fill (numbers are not
//! reused), so a list of ranges could not guarantee both.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use super::EcnCounts;
use super::units::length;
use crate::Mono;

/// How many packets behind the newest can at least be told apart.
pub const WINDOW: u64 = 16_384;

/// The most ranges that [`Received::ranges`] gives.
pub const MAX_RANGES: usize = 64;

/// How long an acknowledgement waits for other frames.
pub const MAX_ACK_DELAY: Duration = Duration::from_millis(1);

/// How many ack-eliciting packets elicit an ACK at once (RFC 9000, section 13.2.2).
const ACK_EVERY: u32 = 2;

/// Bits in a word.
const WORD: u64 = 64;

/// One more than the window needs: the newest packet may be the first of its word.
const MAX_WORDS: u64 = WINDOW / WORD + 1;

/// Beyond this many words, all words are allocated at once: senders skip numbers, so a space that is used for long comes to that.
const FEW: u64 = 8;

/// How a packet number relates to this space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Never seen: process the packet.
    Fresh,
    /// Seen before.
    Duplicate,
    /// Below the window: it may have been seen.
    TooOld,
}

/// What an ACK says about its newest packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Largest {
    /// Its number.
    pub number: u64,
    /// When it arrived.
    pub arrived: Mono,
}

/// What arrived in one packet number space.
#[derive(Clone, Debug)]
pub struct Received {
    /// Bit `i` of word `w`: packet `base + 64 w + i` was seen. The words grow and shrink with what must be remembered.
    words: VecDeque<u64>,
    /// The first number that the words cover, a multiple of 64; all numbers below count as seen.
    base: u64,
    /// Numbers below this are not acknowledged any more: the peer knows about them.
    acknowledge_from: u64,
    largest: Option<Largest>,
    ecn: EcnCounts,
    /// The counts that were last reported to the peer.
    ecn_told: EcnCounts,
    max_ack_delay: Duration,
    /// Ack-eliciting packets since the last ACK.
    unacked: u32,
    due: Option<Mono>,
}

impl Default for Received {
    fn default() -> Self {
        Self::new(MAX_ACK_DELAY)
    }
}

/// How many marked packets are reported at once.
const ECN_EVERY: u64 = 16;

impl Received {
    /// An empty space whose acknowledgements wait at most `max_ack_delay`.
    pub fn new(max_ack_delay: Duration) -> Self {
        Self {
            words: VecDeque::new(),
            base: 0,
            acknowledge_from: 0,
            largest: None,
            ecn: EcnCounts::default(),
            ecn_told: EcnCounts::default(),
            max_ack_delay,
            unacked: 0,
            due: None,
        }
    }

    /// How `number` would be classified. For use before the packet is authenticated: changes nothing.
    pub fn check(&self, number: u64) -> Arrival {
        let Some(offset) = number.checked_sub(self.base) else {
            return Arrival::TooOld;
        };
        if self.word(offset / WORD) >> (offset % WORD) & 1 == 1 { Arrival::Duplicate } else { Arrival::Fresh }
    }

    /// Whether `number` is newer than every number that arrived.
    pub fn is_newest(&self, number: u64) -> bool {
        self.largest.is_none_or(|largest| number > largest.number)
    }

    /// Takes an authenticated packet; `ecn` are the two ECN bits of its IP header. Only if the result is [`Arrival::Fresh`] has
    /// anything changed, and may the packet be processed.
    pub fn on_packet(&mut self, now: Mono, number: u64, ack_eliciting: bool, ecn: u8) -> Arrival {
        let expected = self.largest.map_or(0, |largest| largest.number.saturating_add(1));
        let arrival = self.insert(now, number);
        if arrival == Arrival::Fresh {
            self.ecn.count(ecn);
            if ack_eliciting {
                // RFC 9000, section 13.2.1: a packet out of order, a gap, or CE is reported at once.
                let at_once = number != expected || ecn & 0b11 == 0b11;
                self.owe(now, at_once);
            }
        }
        arrival
    }

    fn owe(&mut self, now: Mono, at_once: bool) {
        self.unacked = self.unacked.saturating_add(1);
        if at_once || self.unacked >= ACK_EVERY {
            self.due = Some(self.due.map_or(now, |due| due.min(now)));
        } else if self.due.is_none() {
            self.due = Some(now + self.max_ack_delay);
        }
    }

    /// Marks `number` as seen.
    fn insert(&mut self, now: Mono, number: u64) -> Arrival {
        let arrival = self.check(number);
        if arrival != Arrival::Fresh {
            return arrival;
        }
        self.cover(number);
        let offset = number.saturating_sub(self.base);
        let at = usize::try_from(offset / WORD).ok();
        if let Some(word) = at.and_then(|at| self.words.get_mut(at)) {
            *word |= 1 << (offset % WORD);
        }
        if self.is_newest(number) {
            self.largest = Some(Largest { number, arrived: now });
        }
        // The packet is late, and still worth acknowledging: the peer may take it for lost.
        self.acknowledge_from = self.acknowledge_from.min(number);
        arrival
    }

    /// Moves and extends the words so that they cover `number`, which is not below them.
    fn cover(&mut self, number: u64) {
        let word = number / WORD;
        let first = self.base / WORD;
        let keep_from = (word + 1).saturating_sub(MAX_WORDS).max(first);
        let held = length(self.words.len());
        let drop = (keep_from - first).min(held);
        self.words.drain(..usize::try_from(drop).unwrap_or(usize::MAX).min(self.words.len()));
        self.base = keep_from * WORD;
        if word - keep_from >= FEW {
            // There is a gap behind that never fills: the words will reach their largest number, and then grow no more.
            let most = usize::try_from(MAX_WORDS).unwrap_or(usize::MAX);
            self.words.reserve_exact(most.saturating_sub(self.words.len()));
        }
        while length(self.words.len()) <= word - keep_from {
            self.words.push_back(0);
        }
    }

    fn word(&self, at: u64) -> u64 {
        usize::try_from(at).ok().and_then(|at| self.words.get(at)).copied().unwrap_or(0)
    }

    /// When an ACK is owed: now or in the past means at once. Ask after each batch of received packets, so
    /// that a batch costs one ACK.
    pub fn ack_due(&self) -> Option<Mono> {
        self.due
    }

    /// Whether an ACK would report an ack-eliciting packet that no ACK has reported: then it is worth adding to a packet that
    /// leaves anyway.
    pub fn owes_ack(&self) -> bool {
        self.due.is_some()
    }

    /// The packet just taken measures the round-trip time: the ACK is owed now.
    pub fn ack_at_once(&mut self, now: Mono) {
        self.due = Some(self.due.map_or(now, |due| due.min(now)));
    }

    /// An ACK of [`ranges`](Self::ranges) leaves.
    pub fn on_ack_sent(&mut self) {
        self.unacked = 0;
        self.due = None;
    }

    /// The newest packet and when it arrived.
    pub fn largest(&self) -> Option<Largest> {
        self.largest
    }

    /// How long the newest packet has waited, for the ACK's delay field.
    pub fn delay(&self, now: Mono) -> Duration {
        self.largest.map_or(Duration::ZERO, |largest| now.since(largest.arrived))
    }

    /// The ECN counts, if the ACK that leaves now is to carry them. The next ACK reports each of the first few marks and each CE;
    /// other marks are reported sixteen at a time.
    pub fn ecn_to_tell(&mut self) -> Option<EcnCounts> {
        let EcnCounts { ect0, ect1, ce } = self.ecn.since(&self.ecn_told)?;
        let marked = ect0.saturating_add(ect1);
        let few = self.ecn.ect0.saturating_add(self.ecn.ect1) <= ECN_EVERY;
        let due = ce > 0 || marked >= ECN_EVERY || marked > 0 && few;
        due.then(|| {
            self.ecn_told = self.ecn;
            self.ecn
        })
    }

    /// The peer has seen an acknowledgement of everything below `number`: it need not be repeated.
    pub fn forget_below(&mut self, number: u64) {
        self.acknowledge_from = self.acknowledge_from.max(number);
        // Full words need not be kept: all numbers below the base count as seen.
        while self.words.front() == Some(&u64::MAX) && self.base + WORD <= self.acknowledge_from {
            self.words.pop_front();
            self.base += WORD;
        }
    }

    /// The numbers to acknowledge: ranges, newest first, disjoint and not adjacent, at most [`MAX_RANGES`].
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let floor = self.base.max(self.acknowledge_from);
        let mut top = self.largest.map_or(floor, |largest| largest.number.saturating_add(1));
        core::iter::from_fn(move || {
            let end = self.last_before(top, floor, true)? + 1;
            let start = self.last_before(end, floor, false).map_or(floor, |clear| clear + 1);
            top = start;
            Some(start..end)
        })
        .take(MAX_RANGES)
    }

    /// The largest number in `floor..top` that was seen, or that was not seen if `seen` is false.
    fn last_before(&self, top: u64, floor: u64, seen: bool) -> Option<u64> {
        let mut top = top;
        while top > floor {
            let last = top - 1;
            let offset = last.checked_sub(self.base)?;
            let word = self.word(offset / WORD);
            let wanted = if seen { word } else { !word };
            let up_to_last = wanted << (WORD - 1 - offset % WORD);
            if up_to_last != 0 {
                let found = last.checked_sub(u64::from(up_to_last.leading_zeros()))?;
                return (found >= floor).then_some(found);
            }
            top = last - offset % WORD;
        }
        None
    }
}

#[cfg(test)]
mod tests;
