//! Small messages of one length that were queued together: what they have in common is stored once.

use core::ops::Range;

use bytes::Bytes;

use crate::id::{Incarnation, Slot};
use crate::time::Mono;
use crate::wire::{self, StreamMark};

/// The most messages of a bundle: each of them has a bit.
const MOST: u32 = 256;
/// The longest body that is bundled on any path.
pub(crate) const BUNDLED: usize = 256;
/// The longest body that is bundled on a fast path, where nothing is cut: it fits into any packet.
pub(crate) const BUNDLED_WHOLE: usize = 1_100;
/// A bundle takes no more messages once they have this many bytes: all are kept while one of them is open.
const FULL: usize = 32 << 10;

/// Messages that are equal except for their bodies: they have one length, one head and one deadline, which their letter stores.
/// Each has a slot and an outcome of its own. They leave in order, except those that are withdrawn before. If they belong to a
/// stream, each has a place in it, which follows from the place of the first message of its stretch.
#[derive(Debug, Default)]
pub(crate) struct Bundle {
    /// The messages as they stand in a frame, each behind its length.
    entries: Vec<u8>,
    /// The same bytes once they are shared; `entries` is then empty.
    shared: Bytes,
    /// Bytes of memory of the shared bytes.
    capacity: usize,
    /// The bytes before each body in a frame, their number, and the length of each body.
    lead: ([u8; 9], usize),
    body: usize,
    count: u32,
    /// The first open message that has not left; `count` if there is none.
    next: u32,
    open: u32,
    unbound: u32,
    /// The messages that are settled or withdrawn.
    over: Bits,
    /// The messages that the channel reported as acknowledged to the last byte.
    acked: Bits,
    /// What the messages that have left are bound to, in the order of the messages.
    stretches: Vec<Stretch>,
}

/// The messages from `at` on, up to the next stretch, are bound to consecutive slots from `s` on.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    at: u32,
    end: u32,
    s: Slot,
    r: Incarnation,
    /// The place of the first message in its stream, if the messages belong to one.
    mark: Option<StreamMark>,
    /// When they were bound, if that matters.
    since: Mono,
}

impl Stretch {
    /// The stretch from its `n`th message on.
    fn from(self, n: u32) -> Self {
        let (at, s) = (self.at + n, Slot(self.s.0 + u64::from(n)));
        Self { at, s, mark: self.mark_of(n), ..self }
    }

    /// The place of its `n`th message in the stream.
    fn mark_of(&self, n: u32) -> Option<StreamMark> {
        self.mark?.nth(n.into())
    }

    /// Whether `next` continues this stretch.
    fn is_followed_by(&self, next: &Self) -> bool {
        self.end == next.at
            && (self.r, self.since) == (next.r, next.since)
            && self.s.0 + u64::from(next.at - self.at) == next.s.0
            && self.mark_of(next.at - self.at) == next.mark
    }
}

impl Bundle {
    /// Starts again, for messages that stand behind these flags in a frame and have bodies of `body` bytes. The buffers are kept.
    pub(crate) fn begin(&mut self, flags: u8, body: usize) {
        let mut buffers = std::mem::take(self);
        if !buffers.shared.is_empty() && buffers.capacity > 0 {
            // This is the same buffer, unless another holder shares it. A buffer truncated to zero length would be freed.
            buffers.shared.truncate(1);
            buffers.entries = buffers.shared.into();
        }
        buffers.entries.clear();
        buffers.stretches.clear();
        let Self { entries, stretches, .. } = buffers;
        *self = Self { entries, stretches, body, lead: wire::entry_lead(flags, body), ..Self::default() };
    }

    /// Adds a message of the announced length. False if it has another length.
    #[inline]
    pub(crate) fn push(&mut self, body: &[u8]) -> bool {
        let fits = body.len() == self.body && !self.is_full() && self.shared.is_empty();
        if fits {
            let (lead, len) = &self.lead;
            self.entries.reserve(lead.len() + body.len());
            self.entries.extend_from_slice(lead.get(..*len).unwrap_or_default());
            self.entries.extend_from_slice(body);
            self.count += 1;
            self.open += 1;
            self.unbound += 1;
        }
        fits
    }

    /// All messages as they stand in a frame, for others to share. None is added from here on.
    pub(crate) fn share(&mut self) -> &Bytes {
        if self.shared.is_empty() {
            self.capacity = self.entries.capacity();
            self.shared = std::mem::take(&mut self.entries).into();
        }
        &self.shared
    }

    /// The messages, if they are shared.
    pub(super) fn shared(&self) -> &[u8] {
        &self.shared
    }

    /// Replaces the messages by the same bytes, which are now elsewhere than in memory.
    pub(super) fn move_to(&mut self, kept: Bytes) {
        (self.shared, self.capacity) = (kept, 0);
    }

    /// A bundle of `n` messages that stand in `shared` as if they had been pushed. None: they do not.
    pub(crate) fn of(flags: u8, body: usize, n: u32, shared: Bytes) -> Option<Box<Self>> {
        let mut this = Box::new(Self::default());
        this.begin(flags, body);
        let (lead, len) = this.lead;
        let lead = lead.get(..len).unwrap_or_default();
        let stands = n > 0 && n <= MOST && shared.len() == this.stride().checked_mul(n as usize)?;
        if !stands || !shared.chunks_exact(this.stride()).all(|entry| entry.starts_with(lead)) {
            return None;
        }
        (this.count, this.open, this.unbound, this.shared) = (n, n, n, shared);
        Some(this)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.count >= MOST || self.entries.len() >= FULL
    }

    /// Bytes of memory that the bundle takes.
    pub(crate) const fn memory(&self) -> usize {
        let stretches = self.stretches.capacity() * size_of::<Stretch>();
        size_of::<Self>() + self.entries.capacity() + self.capacity + stretches
    }

    /// The length of each body.
    pub(crate) const fn body_len(&self) -> usize {
        self.body
    }

    /// Bytes that each message takes in a frame.
    pub(crate) const fn stride(&self) -> usize {
        self.lead.1 + self.body
    }

    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    /// Messages that are neither settled nor withdrawn.
    pub(crate) const fn open(&self) -> u32 {
        self.open
    }

    /// Bytes of the bodies of messages that have ended. They are kept because of the other messages.
    pub(crate) fn held(&self) -> u64 {
        self.body as u64 * u64::from(self.count - self.open)
    }

    /// Open messages that have not left.
    pub(crate) const fn unbound(&self) -> u32 {
        self.unbound
    }

    pub(crate) fn is_open(&self, at: u32) -> bool {
        at < self.count && !self.over.get(at)
    }

    /// The messages that are open.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        (0..self.count).filter(|at| self.is_open(*at))
    }

    /// The next messages to leave, as far as they are consecutive.
    pub(crate) fn ready(&self) -> Range<u32> {
        let over = self.over.first_from(self.next).map_or(self.count, |over| over.min(self.count));
        // Behind a message that has come back there may be others that are bound.
        let behind = self.stretches.last().is_some_and(|last| last.at > self.next);
        let end = if behind { over.min(self.next + self.bound(self.next).1) } else { over };
        self.next..end
    }

    /// Messages in wire form, each behind its length.
    pub(crate) fn entries(&self, of: Range<u32>) -> &[u8] {
        let place = |at: u32| self.stride().saturating_mul(at as usize);
        let all = if self.shared.is_empty() { &self.entries[..] } else { &self.shared[..] };
        all.get(place(of.start)..place(of.end)).unwrap_or_default()
    }

    pub(crate) fn body_of(&self, at: u32) -> &[u8] {
        let entry = self.entries(at..at.saturating_add(1));
        entry.get(entry.len() - self.body.min(entry.len())..).unwrap_or_default()
    }

    /// Binds the first `n` messages that are [`Bundle::ready`] to slots from `s` on under `r`, at the time `since` if it matters,
    /// otherwise zero. The first of them has the place `mark` in its stream, if they belong to one.
    pub(crate) fn bind(
        &mut self,
        n: u32,
        (s, r): (Slot, Incarnation),
        since: Mono,
        mark: Option<StreamMark>,
    ) {
        let Range { start: at, end } = self.ready();
        let end = at.saturating_add(n).min(end);
        self.unbound -= end - at;
        let next = Stretch { at, end, s, r, mark, since };
        let place = self.stretches.partition_point(|stretch| stretch.end <= at);
        match place.checked_sub(1).and_then(|before| self.stretches.get_mut(before)) {
            Some(last) if last.is_followed_by(&next) => last.end = end,
            _ => self.stretches.insert(place, next),
        }
        self.next = end;
        self.skip();
    }

    /// What the message is bound to, and how many messages from it on are bound to consecutive slots; or how many from it on are
    /// not bound.
    pub(crate) fn bound(&self, at: u32) -> (Option<(Slot, Incarnation)>, u32) {
        let behind = self.stretches.partition_point(|stretch| stretch.end <= at);
        match self.stretches.get(behind) {
            Some(on) if on.at <= at => (Some((Slot(on.s.0 + u64::from(at - on.at)), on.r)), on.end - at),
            Some(next) => (None, next.at - at),
            None => (None, self.count.saturating_sub(at)),
        }
    }

    /// The place of a bound message in its stream.
    pub(crate) fn mark_of(&self, at: u32) -> Option<StreamMark> {
        let on = self.stretch_of(at)?;
        on.mark_of(at - on.at)
    }

    /// When a bound message was bound, if that matters.
    pub(crate) fn bound_at(&self, at: u32) -> Mono {
        self.stretch_of(at).map_or(Mono(0), |on| on.since)
    }

    fn stretch_of(&self, at: u32) -> Option<&Stretch> {
        let behind = self.stretches.partition_point(|stretch| stretch.end <= at);
        self.stretches.get(behind).filter(|on| on.at <= at)
    }

    /// The open messages in runs of consecutive ones, each bound to consecutive slots with the binding of its first message, or
    /// not bound.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (Range<u32>, Option<(Slot, Incarnation)>)> {
        let mut from = 0;
        core::iter::from_fn(move || {
            let at = (from..self.count).find(|at| !self.over.get(*at))?;
            let (bound, n) = self.bound(at);
            let over = self.over.first_from(at).unwrap_or(self.count);
            from = over.min(at + n.max(1)).min(self.count);
            Some((at..from, bound))
        })
    }

    /// The open messages of `these`, all bound or none, are settled or withdrawn. Returns their number.
    pub(crate) fn end(&mut self, these: Range<u32>) -> u32 {
        let these = these.start..these.end.min(self.count);
        let bound = self.bound(these.start).0.is_some();
        let ended = self.over.set(these);
        self.open -= ended;
        if !bound {
            self.unbound -= ended;
            self.skip();
        }
        ended
    }

    /// Passes messages that were withdrawn before they could leave, and messages that are bound behind one that has come back.
    fn skip(&mut self) {
        let bound = self.stretches.last().map_or(0, |last| last.end);
        while self.next < self.count
            && (self.over.get(self.next) || (self.next < bound && self.bound(self.next).0.is_some()))
        {
            self.next += 1;
        }
    }

    /// Removes the binding of an open, bound message: it leaves again as if for the first time. False if there is no such
    /// message.
    pub(crate) fn unbind(&mut self, at: u32) -> bool {
        let place = self.stretches.partition_point(|stretch| stretch.end <= at);
        let Some(on) = self.stretches.get(place).copied().filter(|on| on.at <= at && self.is_open(at)) else {
            return false;
        };
        let behind = on.from(at + 1 - on.at);
        let parts = [Stretch { end: at, ..on }, behind];
        self.stretches.splice(place..=place, parts.into_iter().filter(|part| part.at < part.end));
        self.acked.clear(at);
        self.unbound += 1;
        self.next = self.next.min(at);
        true
    }

    pub(crate) fn is_acked(&self, at: u32) -> bool {
        self.acked.get(at)
    }

    pub(crate) fn note_acked(&mut self, these: Range<u32>) {
        self.acked.set(these);
    }

    /// The message was not acknowledged after all.
    pub(crate) fn note_missed(&mut self, at: u32) {
        self.acked.clear(at);
    }
}

const WORDS: usize = MOST as usize / 64;

/// A bit for each message.
#[derive(Clone, Copy, Debug, Default)]
struct Bits([u64; WORDS]);

impl Bits {
    fn get(&self, at: u32) -> bool {
        self.0.get(at as usize / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Sets the bits. Returns how many were not set before.
    fn set(&mut self, these: Range<u32>) -> u32 {
        let mut new = 0;
        for (word, first) in self.0.iter_mut().zip((0..).step_by(64)) {
            let from = these.start.clamp(first, first + 64) - first;
            let to = these.end.clamp(first, first + 64) - first;
            if from < to {
                let mask = u64::MAX >> (64 - (to - from)) << from;
                new += (mask & !*word).count_ones();
                *word |= mask;
            }
        }
        new
    }

    fn clear(&mut self, at: u32) {
        if let Some(word) = self.0.get_mut(at as usize / 64) {
            *word &= !(1 << (at % 64));
        }
    }

    /// The first set bit from `from` on.
    fn first_from(&self, from: u32) -> Option<u32> {
        let words = self.0.iter().zip((0..).step_by(64)).skip(from as usize / 64);
        let masked =
            words.map(|(word, first)| (word & (u64::MAX << from.saturating_sub(first).min(63)), first));
        masked.into_iter().find(|(word, _)| *word != 0).map(|(word, first)| first + word.trailing_zeros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const R: Incarnation = Incarnation(3);

    fn bundle(count: u8, body: usize) -> Bundle {
        let mut bundle = Bundle::default();
        bundle.begin(1, body);
        (0..count).for_each(|i| assert!(bundle.push(&vec![i; body])));
        bundle
    }

    #[test]
    fn bits_are_set_in_ranges() {
        for from in 0..MOST {
            for to in (from..=MOST).step_by(7) {
                let mut bits = Bits::default();
                assert_eq!((bits.set(from..to), bits.set(from..to)), (to - from, 0));
                assert!((0..MOST).all(|at| bits.get(at) == (from..to).contains(&at)), "{from}..{to}");
                assert_eq!(bits.first_from(0), (from < to).then_some(from));
                assert_eq!(bits.first_from(to), None);
                if from + 1 < to {
                    assert_eq!(bits.first_from(from + 1), Some(from + 1));
                    bits.clear(from);
                    assert_eq!(bits.first_from(0), Some(from + 1));
                }
            }
        }
    }

    #[test]
    fn messages_stand_one_behind_the_other_as_in_a_frame() {
        let bundle = bundle(3, 2);
        assert_eq!(bundle.entries(0..3), [3, 1, 0, 0, 3, 1, 1, 1, 3, 1, 2, 2]);
        assert_eq!(bundle.entries(1..2), [3, 1, 1, 1]);
        assert_eq!(bundle.body_of(2), [2, 2]);
        assert_eq!(bundle.body_of(3), [0; 0]);
    }

    #[test]
    fn one_length_and_so_many_and_no_more() {
        let mut one = bundle(0, 5);
        assert!(!one.push(b"four"));
        assert_eq!((0..1_000).take_while(|_| one.push(b"fives")).count(), MOST as usize);
        let mut wide = bundle(0, BUNDLED);
        while wide.push(&[7; BUNDLED]) {}
        assert!(wide.entries.len() < FULL + wide.stride() && wide.count() < MOST);
    }

    #[test]
    fn what_is_withdrawn_is_passed_and_the_rest_keeps_its_order() {
        let mut bundle = bundle(10, 1);
        bundle.bind(2, (Slot(100), R), Mono(0), None);
        assert_eq!(bundle.end(4..5), 1);
        assert_eq!((bundle.ready(), bundle.unbound(), bundle.open()), (2..4, 7, 9));
        bundle.bind(2, (Slot(102), R), Mono(0), None);
        assert_eq!(bundle.ready(), 5..10);
        assert_eq!(bundle.end(5..6), 1);
        bundle.bind(4, (Slot(104), R), Mono(0), None);
        assert_eq!((bundle.ready(), bundle.unbound()), (10..10, 0));
        let bound = |at| bundle.bound(at);
        assert_eq!(bound(0), (Some((Slot(100), R)), 4), "bound in two steps, number after number");
        assert_eq!(bound(3), (Some((Slot(103), R)), 1));
        assert_eq!(bound(4), (None, 2));
        assert_eq!(bound(7), (Some((Slot(105), R)), 3));
    }

    #[test]
    fn what_comes_back_leaves_again_and_nothing_else_does() {
        let mut bundle = bundle(8, 1);
        bundle.bind(6, (Slot(100), R), Mono(0), None);
        assert_eq!(bundle.end(1..2), 1);
        assert!(!bundle.unbind(1), "settled");
        assert!(!bundle.unbind(7), "never bound");
        assert!([4, 2, 3].into_iter().all(|at| bundle.unbind(at)));
        assert!(!bundle.unbind(3));
        assert_eq!((bundle.ready(), bundle.unbound(), bundle.open()), (2..5, 5, 7));
        assert_eq!(bundle.bound(0), (Some((Slot(100), R)), 2));
        assert_eq!(bundle.bound(5), (Some((Slot(105), R)), 1));
        bundle.bind(2, (Slot(200), R), Mono(0), None);
        assert_eq!((bundle.bound(3), bundle.ready()), ((Some((Slot(201), R)), 1), 4..5));
        bundle.bind(9, (Slot(300), R), Mono(0), None);
        assert_eq!((bundle.bound(4).0, bundle.ready()), (Some((Slot(300), R)), 6..8), "5 is bound");
        bundle.bind(2, (Slot(400), R), Mono(0), None);
        assert_eq!((bundle.bound(7).0, bundle.unbound()), (Some((Slot(401), R)), 0));
    }

    #[test]
    fn each_ends_once() {
        let mut bundle = bundle(6, 1);
        bundle.bind(4, (Slot(0), R), Mono(0), None);
        assert_eq!((bundle.end(1..3), bundle.end(0..4), bundle.end(0..4)), (2, 2, 0));
        assert_eq!((bundle.open(), bundle.unbound()), (2, 2));
        assert_eq!((bundle.end(4..9), bundle.open(), bundle.unbound()), (2, 0, 0));
        assert_eq!(bundle.iter().count(), 0);
    }

    #[test]
    fn what_was_shared_is_used_again_unless_it_is_held() {
        for spare in [0, 100] {
            let mut bundle = bundle(20, 30);
            let alike = bundle.entries(0..20).to_vec();
            bundle.entries.shrink_to_fit();
            bundle.entries.reserve_exact(spare);
            let (place, memory) = (bundle.entries.as_ptr(), bundle.memory());
            let held = bundle.share().clone();
            assert!(held == alike && bundle.entries(0..20) == alike && bundle.body_of(19) == [19; 30]);
            assert!(held.as_ptr() == place && bundle.memory() == memory);
            assert!(!bundle.push(&[1; 30]), "it is what others hold");
            drop(held);
            bundle.begin(1, 30);
            assert!(bundle.push(&[1; 30]) && bundle.entries.as_ptr() == place && bundle.memory() == memory);
            let held = bundle.share().clone();
            bundle.begin(1, 30);
            assert!(bundle.push(&[2; 30]) && bundle.body_of(0) == [2; 30]);
            assert!(held.ends_with(&[1; 30]) && bundle.share().as_ptr() != held.as_ptr());
        }
    }

    #[test]
    fn what_was_written_down_is_the_same_again() {
        let mut first = bundle(9, 30);
        let written = Bytes::copy_from_slice(first.share());
        let mut again = Bundle::of(1, 30, 9, written.clone()).unwrap();
        assert_eq!((again.entries(0..9), again.ready(), again.open()), (first.entries(0..9), 0..9, 9));
        assert!(!again.push(&[9; 30]));
        again.begin(1, 30);
        assert!(again.push(&[9; 30]) && written == first.entries(0..9));
        for (flags, body, n) in [(2, 30, 9), (1, 29, 9), (1, 30, 8), (1, 30, 0), (1, usize::MAX - 9, 9)] {
            assert!(Bundle::of(flags, body, n, written.clone()).is_none());
        }
        let many = Bytes::from(vec![1; 2 * (MOST as usize + 1)]);
        assert!(Bundle::of(1, 0, MOST + 1, many).is_none());
    }

    #[test]
    fn what_is_elsewhere_takes_no_memory() {
        let mut bundle = bundle(9, 30);
        let all = Bytes::copy_from_slice(bundle.share());
        bundle.move_to(all.clone());
        assert!(bundle.entries(0..9) == all && bundle.memory() == size_of::<Bundle>());
    }

    #[test]
    fn what_its_slots_take_is_memory_too() {
        let mut bundle = bundle(100, 0);
        let before = bundle.memory();
        (0..100).for_each(|i| bundle.bind(1, (Slot(i * 2), R), Mono(0), None));
        assert!(bundle.memory() >= before + 100 * size_of::<Stretch>());
    }

    #[test]
    fn another_begins_with_nothing_of_the_last() {
        let mut bundle = bundle(6, 1);
        bundle.bind(6, (Slot(0), R), Mono(0), None);
        bundle.end(0..3);
        bundle.note_acked(4..5);
        bundle.begin(0, 2);
        assert!(bundle.push(b"ab"));
        assert_eq!((bundle.count(), bundle.open(), bundle.unbound(), bundle.bound(0)), (1, 1, 1, (None, 1)));
        assert!(!bundle.is_acked(4) && bundle.is_open(0) && !bundle.is_open(1));
    }
}
