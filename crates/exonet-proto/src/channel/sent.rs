//! The sending side of one packet number space: the packets that left, their contents, and their fates.
//!
//! Packets lie in a ring indexed by number. The items that they carry lie in one shared ring, so that sending allocates nothing
//! once the rings have grown to the size of the window. Every item ends in exactly one of [`Fate::Acked`], [`Fate::Lost`] and
//! [`Fate::Gone`]. A lost packet is remembered for a while, so that its late acknowledgement is recognised: its items, already
//! reported as lost, are then reported again as [`Fate::Late`].

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use super::EcnCounts;
use super::rate::Snapshot;
use super::retransmission::LossThreshold;
use super::skips::{SkipSeed, Skips};
use super::units::length;
use crate::Mono;

/// The most packets that the ring keeps behind a lost one only to recognise its late acknowledgement.
const REMEMBERED: usize = 16_384;

/// The fate of an item that a packet carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The packet was acknowledged.
    Acked,
    /// The packet counts as lost.
    Lost,
    /// The channel ended first: the fate will never be known.
    Gone,
    /// The packet was acknowledged after it had been reported as lost: items that were queued again need not be sent.
    Late,
}

/// An acknowledgement of a packet that was never sent: a protocol violation (RFC 9000, section 13.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packet {number} was acknowledged and never sent")]
pub struct AckOfUnsent {
    /// The packet's number: one that was skipped, or the largest of a range that ends above every number that was sent.
    pub number: u64,
}

/// What recovery needs to know of a packet that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketInfo {
    /// Size of the datagram.
    pub bytes: u16,
    /// Whether the peer must acknowledge it: true unless the packet has only ACK, PADDING and CLOSE.
    pub ack_eliciting: bool,
    /// Whether it counts against the congestion window: true unless the packet has only ACK and CLOSE.
    pub in_flight: bool,
    /// A path MTU probe: its loss says nothing about congestion (RFC 9000, section 14.4).
    pub mtu_probe: bool,
    /// The packet goes to another address than the active one: it says nothing about the active path.
    pub off_path: bool,
    /// The packet leaves marked ECT(0).
    pub marked: bool,
}

impl PacketInfo {
    /// A packet of `bytes` with data on the active path.
    pub const fn data(bytes: u16) -> Self {
        Self { bytes, ack_eliciting: true, in_flight: true, mtu_probe: false, off_path: false, marked: false }
    }

    /// A packet of `bytes` with only an ACK.
    pub const fn ack(bytes: u16) -> Self {
        Self {
            bytes,
            ack_eliciting: false,
            in_flight: false,
            mtu_probe: false,
            off_path: false,
            marked: false,
        }
    }
}

/// The state of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Outstanding,
    /// So is every number of the ring from `run` up to this one: a later ACK skips them in one step.
    Acked {
        run: u64,
    },
    Lost {
        at: Mono,
    },
    /// No packet has this number.
    Skipped,
}

/// A packet in the ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) sent_at: Mono,
    pub(super) info: PacketInfo,
    /// The congestion controller's mark.
    pub(super) tag: u8,
    /// The path on which it left: a count of path changes.
    pub(super) path: u8,
    pub(super) snapshot: Snapshot,
    state: State,
    first_item: u64,
    items: u32,
}

/// A packet that has just been resolved, and its items.
pub(super) struct Resolved<'a, C> {
    pub(super) number: u64,
    pub(super) packet: &'a Packet,
    /// The largest number acknowledged, this ACK included.
    pub(super) largest_acked: u64,
    /// The packet had been declared lost.
    pub(super) was_lost: bool,
    items: &'a VecDeque<C>,
    range: Range<usize>,
}

impl<C: Copy> Resolved<'_, C> {
    pub(super) fn items(&self) -> impl Iterator<Item = C> + '_ {
        self.items.range(self.range.clone()).copied()
    }
}

/// The packets of one packet number space, each carrying items of type `C`.
#[derive(Clone, Debug)]
pub struct Sent<C> {
    packets: VecDeque<Packet>,
    /// The number of the first packet in the ring; all packets before it are resolved.
    base: u64,
    items: VecDeque<C>,
    /// How many items have left the ring.
    items_base: u64,
    /// How many items at the end of the ring belong to the packet being assembled.
    staged: u32,
    /// No packet below this number is outstanding.
    resolved_below: u64,
    outstanding: u64,
    largest_acked: Option<u64>,
    loss_time: Option<Mono>,
    quiet_run: u32,
    skips: Skips,
    /// The ECN counts that the peer has reported.
    ecn: EcnCounts,
    /// How many packets left marked.
    marked: u64,
    /// A path number, and how many marked packets of that path were acknowledged since the peer last reported its counts.
    untold: (u8, u64),
}

impl<C> Default for Sent<C> {
    fn default() -> Self {
        Self {
            packets: VecDeque::new(),
            base: 0,
            items: VecDeque::new(),
            items_base: 0,
            staged: 0,
            resolved_below: 0,
            outstanding: 0,
            largest_acked: None,
            loss_time: None,
            quiet_run: 0,
            skips: Skips::default(),
            ecn: EcnCounts::default(),
            marked: 0,
            untold: (0, 0),
        }
    }
}

impl<C: Copy> Sent<C> {
    /// An empty space whose numbers follow one another without a gap.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty space that skips a number now and then, as `seed` determines: a peer that acknowledges packets that it did not
    /// get exposes itself.
    pub fn skipping(seed: SkipSeed) -> Self {
        Self { skips: Skips::new(seed), ..Self::default() }
    }

    /// The number of the next packet. A number is skipped only when the number behind it is used: there is always a packet above
    /// a gap, so that the peer sees the gap.
    pub fn next_number(&self) -> u64 {
        let end = self.end();
        end.saturating_add(u64::from(self.skips.skips(end)))
    }

    /// The number above every number that was used or skipped.
    fn end(&self) -> u64 {
        self.base.saturating_add(length(self.packets.len()))
    }

    /// The largest number that the peer acknowledged, for truncating packet numbers (RFC 9000, section 17.1).
    pub fn largest_acked(&self) -> Option<u64> {
        self.largest_acked
    }

    /// Adds `item` to the packet being assembled.
    pub fn carry(&mut self, item: C) {
        self.items.push_back(item);
        self.staged = self.staged.saturating_add(1);
    }

    /// How many items the packet being assembled carries so far.
    pub fn carried(&self) -> u32 {
        self.staged
    }

    /// The items that the packet being assembled carries so far.
    pub fn staged(&self) -> impl Iterator<Item = C> + '_ {
        let before = self.items.len().saturating_sub(usize::try_from(self.staged).unwrap_or(usize::MAX));
        self.items.range(before..).copied()
    }

    /// The packet being assembled is not sent: its items are dropped without a fate.
    pub fn discard(&mut self) {
        let keep = self.items.len().saturating_sub(usize::try_from(self.staged).unwrap_or(usize::MAX));
        self.items.truncate(keep);
        self.staged = 0;
    }

    /// How many packets are remembered.
    pub fn remembered(&self) -> usize {
        self.packets.len()
    }

    /// Whether no packet waits for its fate.
    pub fn is_settled(&self) -> bool {
        self.outstanding == 0
    }

    /// When a packet will count as lost because of the time that has passed. Then call
    /// [`Recovery::on_loss_timeout`](super::Recovery::on_loss_timeout).
    pub fn loss_time(&self) -> Option<Mono> {
        self.loss_time
    }

    /// How many packets were sent since the last ack-eliciting one. The peer need not acknowledge them, so they would be
    /// remembered for ever: add a PING to about every 64th.
    pub fn quiet_run(&self) -> u32 {
        self.quiet_run
    }

    /// The items of the outstanding ack-eliciting packets, packet by packet from the oldest on. Probes copy them.
    pub fn outstanding(&self) -> impl Iterator<Item = impl Iterator<Item = C>> {
        let from = self.index(self.resolved_below);
        self.packets
            .iter()
            .skip(from)
            .filter(|packet| packet.state == State::Outstanding && packet.info.ack_eliciting)
            .map(|packet| self.items_of(packet))
    }

    /// When the first packet left that should be acknowledged next: ack-eliciting, and above every acknowledged number. MTU
    /// probes, and packets to another path, do not count, since they may well be lost.
    pub fn first_unheard(&self) -> Option<Mono> {
        let from = self.largest_acked.map_or(0, |largest| largest.saturating_add(1)).max(self.resolved_below);
        let counts = |packet: &&Packet| {
            let info = &packet.info;
            packet.state == State::Outstanding && info.ack_eliciting && !info.mtu_probe && !info.off_path
        };
        self.packets
            .range(self.index(from).min(self.packets.len())..)
            .find(counts)
            .map(|packet| packet.sent_at)
    }

    /// The size of packet `number` and the items that it carries, if it is outstanding.
    pub fn still_out(&self, number: u64) -> Option<(u16, impl Iterator<Item = C>)> {
        let packet = self.packets.get(self.index(number)).filter(|_| number >= self.base)?;
        (packet.state == State::Outstanding).then(|| (packet.info.bytes, self.items_of(packet)))
    }

    /// Whether packet `number` is known to have arrived. A packet of long ago is assumed to have.
    pub fn has_arrived(&self, number: u64) -> bool {
        let packet = self.packets.get(self.index(number)).filter(|_| number >= self.base);
        packet.is_none_or(|packet| matches!(packet.state, State::Acked { .. }))
    }

    fn items_of(&self, packet: &Packet) -> impl Iterator<Item = C> {
        let range = item_range(packet, self.items_base, self.items.len());
        self.items.range(range).copied()
    }

    fn index(&self, number: u64) -> usize {
        usize::try_from(number.saturating_sub(self.base)).unwrap_or(usize::MAX)
    }

    /// The packet leaves with its items. Returns its number.
    pub(super) fn on_sent(
        &mut self,
        now: Mono,
        info: PacketInfo,
        tag: u8,
        path: u8,
        snapshot: Snapshot,
    ) -> u64 {
        let number = self.next_number();
        let behind = length(self.items.len()).saturating_sub(u64::from(self.staged));
        let packet = Packet {
            sent_at: now,
            info,
            tag,
            path,
            snapshot,
            state: State::Outstanding,
            first_item: self.items_base.saturating_add(behind),
            items: core::mem::take(&mut self.staged),
        };
        if number > self.end() {
            self.packets.push_back(Packet { state: State::Skipped, items: 0, ..packet });
            self.skips.on_skipped();
        }
        self.packets.push_back(packet);
        self.outstanding = self.outstanding.saturating_add(1);
        self.marked = self.marked.saturating_add(u64::from(info.marked));
        self.quiet_run = if info.ack_eliciting { 0 } else { self.quiet_run.saturating_add(1) };
        number
    }

    /// The peer acknowledges `ranges`, newest first. Calls `each` for every newly acknowledged packet.
    ///
    /// # Errors
    /// A range contains a number that was not sent yet, or one of the latest skipped numbers. In that case nothing has changed.
    pub(super) fn on_ack(
        &mut self,
        ranges: impl Iterator<Item = Range<u64>> + Clone,
        mut each: impl FnMut(Resolved<'_, C>),
    ) -> Result<(), AckOfUnsent> {
        if let Some(number) = ranges.clone().find_map(|range| self.unsent_in(range)) {
            return Err(AckOfUnsent { number });
        }
        for range in ranges {
            let Some(last) = range.end.checked_sub(1).filter(|last| *last >= range.start) else {
                continue;
            };
            self.largest_acked = self.largest_acked.max(Some(last));
            self.ack_range(range.start.max(self.base), last, &mut each);
        }
        Ok(())
    }

    /// A number in `range` that was never used for a packet.
    fn unsent_in(&self, range: Range<u64>) -> Option<u64> {
        let last = range.end.checked_sub(1).filter(|last| *last >= range.start)?;
        if last >= self.end() { Some(last) } else { self.skips.first_in(range) }
    }

    /// Acknowledges `first..=last`, from the end, and jumps over runs that earlier ACKs covered.
    fn ack_range(&mut self, first: u64, last: u64, each: &mut impl FnMut(Resolved<'_, C>)) {
        let largest_acked = self.largest_acked.unwrap_or(last);
        let mut lowest = last.saturating_add(1);
        while let Some(number) = lowest.checked_sub(1).filter(|number| *number >= first) {
            lowest = number;
            let at = self.index(number);
            let Some(packet) = self.packets.get_mut(at) else {
                return;
            };
            match core::mem::replace(&mut packet.state, State::Acked { run: number }) {
                State::Acked { run } => lowest = run.min(number),
                // Skipped so long ago that it is not among the latest: it settles nothing.
                State::Skipped => {}
                was => {
                    let range = item_range(packet, self.items_base, self.items.len());
                    let was_lost = was != State::Outstanding;
                    if !was_lost {
                        self.outstanding = self.outstanding.saturating_sub(1);
                    }
                    each(Resolved { number, packet, largest_acked, was_lost, items: &self.items, range });
                }
            }
        }
        let at = self.index(last);
        if let Some(packet) = self.packets.get_mut(at).filter(|_| last >= first) {
            packet.state = State::Acked { run: lowest };
        }
    }

    /// An ACK that was not overtaken acknowledges `marked` more marked packets of `path`. Returns how many such packets the peer
    /// has not reported.
    pub(super) fn on_marked_acked(&mut self, path: u8, marked: u64) -> u64 {
        let before = if self.untold.0 == path { self.untold.1 } else { 0 };
        self.untold = (path, before.saturating_add(marked));
        self.untold.1
    }

    /// Takes the peer's ECN counts from an ACK that was not overtaken. Returns their growth. None: the counts are impossible,
    /// given what left.
    pub(super) fn on_ecn(&mut self, counts: EcnCounts) -> Option<EcnCounts> {
        let grown = counts.since(&self.ecn)?;
        self.ecn = counts;
        self.untold.1 = 0;
        (counts.ect0.saturating_add(counts.ce) <= self.marked).then_some(grown)
    }

    /// Packet `number` has not left after all, and its number is not used again. Calls `each` if the packet was outstanding.
    pub(super) fn on_refused(&mut self, number: u64, mut each: impl FnMut(Resolved<'_, C>)) {
        let at = self.index(number);
        let Some(packet) = self.packets.get_mut(at).filter(|_| number >= self.base) else { return };
        if packet.state == State::Outstanding {
            packet.state = State::Acked { run: number };
            self.outstanding = self.outstanding.saturating_sub(1);
            self.marked = self.marked.saturating_sub(u64::from(packet.info.marked));
            let range = item_range(packet, self.items_base, self.items.len());
            let largest_acked = self.largest_acked.unwrap_or(0);
            each(Resolved { number, packet, largest_acked, was_lost: false, items: &self.items, range });
        }
    }

    /// Declares packets lost that are older than the newest acknowledged one by the distance or the time of the rule. Calls
    /// `each` for each of them, and finds the next [`loss_time`](Self::loss_time).
    pub(super) fn detect_lost(
        &mut self,
        now: Mono,
        rule: LossThreshold,
        mut each: impl FnMut(Resolved<'_, C>),
    ) {
        self.loss_time = None;
        let Some(largest) = self.largest_acked else { return };
        let mut number = self.resolved_below.max(self.base);
        let mut settled = true;
        // After this walk, only packets within the rule's distance below `largest` can be outstanding, so the next walk is that
        // short.
        while number < largest {
            let at = self.index(number);
            let Some(packet) = self.packets.get_mut(at) else {
                break;
            };
            if packet.state == State::Outstanding {
                let due = packet.sent_at + rule.time;
                // A skipped number does not count as a later packet.
                let above = largest - number;
                let far =
                    above >= rule.packets && above - self.skips.count_in(number..largest) >= rule.packets;
                if due <= now || far {
                    packet.state = State::Lost { at: now };
                    self.outstanding = self.outstanding.saturating_sub(1);
                    let range = item_range(packet, self.items_base, self.items.len());
                    each(Resolved {
                        number,
                        packet,
                        largest_acked: largest,
                        was_lost: false,
                        items: &self.items,
                        range,
                    });
                } else {
                    settled = false;
                    self.loss_time = Some(self.loss_time.map_or(due, |time| time.min(due)));
                }
            }
            number = number.saturating_add(1);
            if settled {
                self.resolved_below = number;
            }
        }
    }

    /// Declares every outstanding packet lost, since its path is gone. Calls `each` for each of them.
    pub(super) fn lose_all(&mut self, now: Mono, mut each: impl FnMut(Resolved<'_, C>)) {
        let (from, end) = (self.resolved_below.max(self.base), self.end());
        let largest_acked = self.largest_acked.unwrap_or(0);
        for number in from..end {
            let at = self.index(number);
            let Some(packet) = self.packets.get_mut(at).filter(|packet| packet.state == State::Outstanding)
            else {
                continue;
            };
            packet.state = State::Lost { at: now };
            let range = item_range(packet, self.items_base, self.items.len());
            each(Resolved { number, packet, largest_acked, was_lost: false, items: &self.items, range });
        }
        self.outstanding = 0;
        self.resolved_below = end;
        self.loss_time = None;
    }

    /// Forgets resolved packets at the front of the ring: acknowledged ones, and those declared lost longer than `memory` ago.
    pub(super) fn retire(&mut self, now: Mono, memory: Duration) {
        while let Some(packet) = self.packets.front() {
            let over = match packet.state {
                State::Outstanding => false,
                State::Acked { .. } | State::Skipped => true,
                State::Lost { at } => now.since(at) >= memory || self.packets.len() > REMEMBERED,
            };
            if !over {
                break;
            }
            let items = usize::try_from(packet.items).unwrap_or(usize::MAX).min(self.items.len());
            self.items.drain(..items);
            self.items_base = self.items_base.saturating_add(length(items));
            self.packets.pop_front();
            self.base = self.base.saturating_add(1);
        }
        self.resolved_below = self.resolved_below.max(self.base);
    }

    /// Empties the ring. Calls `each` for every outstanding packet.
    pub(super) fn drain(&mut self, mut each: impl FnMut(Resolved<'_, C>)) {
        self.discard();
        let next = self.end();
        let largest_acked = self.largest_acked.unwrap_or(0);
        for (number, packet) in (self.base..).zip(&self.packets) {
            if packet.state == State::Outstanding {
                let range = item_range(packet, self.items_base, self.items.len());
                each(Resolved { number, packet, largest_acked, was_lost: false, items: &self.items, range });
            }
        }
        self.packets.clear();
        self.items_base = self.items_base.saturating_add(length(self.items.len()));
        self.items.clear();
        self.base = next;
        self.resolved_below = next;
        self.outstanding = 0;
        self.loss_time = None;
    }

    #[cfg(test)]
    pub(super) fn span(&self) -> usize {
        self.packets.len()
    }
}

/// Where a packet's items lie in a ring of `len` items after `items_base` that have left.
fn item_range(packet: &Packet, items_base: u64, len: usize) -> Range<usize> {
    let start = usize::try_from(packet.first_item.saturating_sub(items_base)).map_or(len, |at| at.min(len));
    let count = usize::try_from(packet.items).unwrap_or(usize::MAX);
    start..start.saturating_add(count).min(len)
}

#[cfg(test)]
mod tests;
