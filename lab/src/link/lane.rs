//! One direction of a link, as a machine without clock or sockets.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use exonet_sim::{Codel, Signal};
use fastrand::Rng;

use super::loss::Losing;
use super::{LaneStats, Shape, ecn};

/// Bytes of a full packet.
const FULL: usize = 1_500;

/// Times are nanoseconds since the link began.
#[derive(Debug)]
pub(super) struct Lane {
    shape: Shape,
    codel: Codel,
    losing: Losing,
    dice: Rng,
    /// When the line is done with all that it has taken.
    free_at: u64,
    /// When the line is done with each packet that waits or is on it, and its length.
    queue: VecDeque<(u64, usize)>,
    queued: usize,
    flying: BinaryHeap<Reverse<Flight>>,
    /// Orders packets that arrive at the same time.
    serial: u64,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    due: u64,
    serial: u64,
    packet: Vec<u8>,
}

fn nanos(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Lane {
    pub(super) fn new(shape: Shape, seed: u64) -> Self {
        Self {
            codel: Codel::default(),
            losing: Losing::new(shape.loss, shape.serialisation(FULL)),
            dice: Rng::with_seed(seed),
            shape,
            free_at: 0,
            queue: VecDeque::new(),
            queued: 0,
            flying: BinaryHeap::new(),
            serial: 0,
            spare: Vec::new(),
        }
    }

    /// A packet comes from the host. What becomes of it is known at once: nothing that comes later is before it on the
    /// line.
    pub(super) fn enter(&mut self, now: u64, packet: &mut [u8], stats: &mut LaneStats) {
        stats.packets += 1;
        stats.bytes += packet.len() as u64;
        while let Some(&(done, length)) = self.queue.front()
            && done <= now
        {
            self.queue.pop_front();
            self.queued -= length;
        }
        if self.queued + packet.len() > self.shape.queue {
            stats.dropped += 1;
            return;
        }
        let begins = self.free_at.max(now);
        if !self.passes(begins, begins - now, packet, stats) {
            stats.dropped += 1;
            return;
        }
        stats.waited.saturating_record(begins - now);
        self.free_at = begins + self.shape.serialisation(packet.len());
        self.queue.push_back((self.free_at, packet.len()));
        self.queued += packet.len();
        // The dice are thrown for each packet, also in an outage: what follows it does not depend on it.
        let lost = self.losing.next(self.free_at, &mut self.dice);
        if lost || self.is_out(self.free_at) {
            stats.lost += 1;
            return;
        }
        let mut due = self.free_at + nanos(self.shape.delay);
        if let Some(reorder) = self.shape.reorder
            && self.dice.f64() < reorder.share
        {
            due += nanos(reorder.by);
        }
        self.launch(due, packet);
        if self.shape.duplicate > 0.0 && self.dice.f64() < self.shape.duplicate {
            self.launch(due, packet);
        }
    }

    /// Whether CoDel lets a packet on the line, which it may mark, at a time and after a wait in ns.
    fn passes(&mut self, begins: u64, sojourn: u64, packet: &mut [u8], stats: &mut LaneStats) -> bool {
        let Some(signal) = self.shape.codel else { return true };
        if !self.codel.dequeue(begins, sojourn) {
            return true;
        }
        let marked = signal == Signal::Mark && ecn::mark(packet);
        stats.marked += u64::from(marked);
        marked
    }

    fn is_out(&self, at: u64) -> bool {
        self.shape.outages.is_some_and(|outages| {
            let (every, last) = (nanos(outages.every).max(1), nanos(outages.last));
            at >= every && at % every < last
        })
    }

    fn launch(&mut self, due: u64, packet: &[u8]) {
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(packet);
        self.serial += 1;
        self.flying.push(Reverse(Flight { due, serial: self.serial, packet: copy }));
    }

    /// When the next packet arrives.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.flying.peek().map(|Reverse(flight)| flight.due)
    }

    /// A packet that has arrived by now, if there is one.
    pub(super) fn leave(&mut self, now: u64, stats: &mut LaneStats) -> Option<Vec<u8>> {
        let due = self.next_due().filter(|due| *due <= now)?;
        let Reverse(flight) = self.flying.pop()?;
        stats.arrived += 1;
        stats.late.saturating_record(now - due);
        Some(flight.packet)
    }

    /// Takes back the memory of a packet.
    pub(super) fn recycle(&mut self, packet: Vec<u8>) {
        self.spare.push(packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Loss, Outages, Reorder};
    use std::time::Duration;

    /// 1 byte a microsecond, 5 ms one way.
    fn shape() -> Shape {
        Shape { queue: 3_000, ..Shape::new(8.0, Duration::from_millis(10), Loss::None) }
    }

    /// The time and the first byte of every packet that ever arrives.
    fn arrivals(lane: &mut Lane, stats: &mut LaneStats) -> Vec<(u64, u8)> {
        let mut all = Vec::new();
        while let Some(due) = lane.next_due() {
            let packet = lane.leave(due, stats).unwrap();
            all.push((due, packet[0]));
            lane.recycle(packet);
        }
        all
    }

    #[test]
    fn packets_queue_for_the_line_and_then_fly() {
        let (mut lane, mut stats) = (Lane::new(shape(), 1), LaneStats::default());
        lane.enter(0, &mut [1; 1_000], &mut stats);
        lane.enter(0, &mut [2; 1_000], &mut stats);
        lane.enter(5_000_000, &mut [3; 1_000], &mut stats);
        assert!(lane.leave(5_999_999, &mut stats).is_none(), "not before its time");
        assert_eq!(arrivals(&mut lane, &mut stats), [(6_000_000, 1), (7_000_000, 2), (11_000_000, 3)]);
        assert!((990_000..1_010_000).contains(&stats.waited.max()), "the second waited for the first");
    }

    #[test]
    fn the_queue_drops_what_it_cannot_hold_and_forgets_what_has_left() {
        let (mut lane, mut stats) = (Lane::new(shape(), 1), LaneStats::default());
        for number in 1..=4 {
            lane.enter(0, &mut [number; 1_000], &mut stats);
        }
        assert_eq!(stats.dropped, 1);
        lane.enter(999_999, &mut [5; 1_000], &mut stats);
        assert_eq!(stats.dropped, 2, "the first is still on the line");
        lane.enter(1_000_000, &mut [6; 1_000], &mut stats);
        let numbers: Vec<u8> =
            arrivals(&mut lane, &mut stats).into_iter().map(|(_, number)| number).collect();
        assert_eq!(numbers, [1, 2, 3, 6]);
        assert_eq!((stats.packets, stats.bytes, stats.arrived), (6, 6_000, 4));
    }

    /// Two bytes a microsecond for 400 ms, on a line of one: how many packets were dropped, marked, and came marked.
    fn overload(codel: Option<Signal>, tos: u8) -> (u64, u64, usize) {
        let deep = Shape { codel, queue: 1 << 20, ..shape() };
        let (mut lane, mut stats) = (Lane::new(deep, 1), LaneStats::default());
        for at in (0..400_000_000).step_by(500_000) {
            let mut packet = [0; 1_000];
            packet[..2].copy_from_slice(&[0x45, tos]);
            lane.enter(at, &mut packet, &mut stats);
        }
        let mut came = 0;
        while let Some(due) = lane.next_due() {
            came += usize::from(lane.leave(due, &mut stats).unwrap()[1] == 0b11);
        }
        assert_eq!(stats.arrived + stats.dropped, stats.packets);
        assert_eq!(stats.waited.len(), stats.arrived, "who is dropped waits for nothing");
        (stats.dropped, stats.marked, came)
    }

    #[test]
    fn codel_marks_who_knows_marks_and_drops_others() {
        const ECT: u8 = 0b10;
        assert_eq!(overload(None, ECT), (0, 0, 0));
        let (dropped, marked, came) = overload(Some(Signal::Drop), ECT);
        assert!(dropped > 10 && (marked, came) == (0, 0), "{dropped} dropped, {marked} marked");
        let (dropped, marked, came) = overload(Some(Signal::Mark), ECT);
        assert!(marked > 10 && dropped == 0, "{dropped} dropped, {marked} marked");
        assert_eq!(came as u64, marked);
        let (dropped, marked, _) = overload(Some(Signal::Mark), 0);
        assert!(dropped > 10 && marked == 0, "{dropped} dropped, {marked} marked");
    }

    #[test]
    fn what_codel_drops_does_not_take_the_line() {
        let codel = Shape { codel: Some(Signal::Drop), queue: 1 << 20, ..shape() };
        let (mut lane, mut stats) = (Lane::new(codel, 1), LaneStats::default());
        // Of 1 ms each, that all come at once: the sixth waits too long, and the one that is due 100 ms after it goes.
        for number in 0..=110 {
            lane.enter(0, &mut [number; 1_000], &mut stats);
        }
        let numbers = arrivals(&mut lane, &mut stats);
        assert_eq!(stats.dropped, 1);
        assert_eq!(numbers[104..=105], [(110_000_000, 104), (111_000_000, 106)]);
    }

    #[test]
    fn a_queue_with_codel_has_an_end_too() {
        let short = Shape { codel: Some(Signal::Mark), ..shape() };
        let (mut lane, mut stats) = (Lane::new(short, 1), LaneStats::default());
        for number in 1..=4 {
            lane.enter(0, &mut [number; 1_000], &mut stats);
        }
        assert_eq!((stats.dropped, stats.marked), (1, 0));
    }

    #[test]
    fn what_is_lost_has_used_the_line() {
        let lost = Shape { loss: Loss::Random(1.0), ..shape() };
        let (mut lane, mut stats) = (Lane::new(lost, 1), LaneStats::default());
        for _ in 0..4 {
            lane.enter(0, &mut [0; 1_000], &mut stats);
        }
        assert_eq!((stats.lost, stats.dropped), (3, 1));
        assert!(lane.next_due().is_none());
    }

    #[test]
    fn an_outage_begins_and_ends() {
        let outages = Some(Outages { every: Duration::from_millis(100), last: Duration::from_millis(10) });
        let (mut lane, mut stats) = (Lane::new(Shape { outages, ..shape() }, 1), LaneStats::default());
        for (number, at) in [(1, 0), (2, 99_500_000), (3, 108_000_000), (4, 110_000_000)] {
            lane.enter(at, &mut [number; 1_000], &mut stats);
        }
        let numbers: Vec<u8> =
            arrivals(&mut lane, &mut stats).into_iter().map(|(_, number)| number).collect();
        assert_eq!(numbers, [1, 4]);
    }

    #[test]
    fn packets_are_doubled_and_overtaken() {
        let twice = Shape { duplicate: 1.0, ..shape() };
        let (mut lane, mut stats) = (Lane::new(twice, 1), LaneStats::default());
        lane.enter(0, &mut [7; 100], &mut stats);
        assert_eq!(arrivals(&mut lane, &mut stats).len(), 2);

        let reorder = Some(Reorder { share: 0.5, by: Duration::from_millis(3) });
        let wide = Shape { reorder, queue: 1 << 20, ..shape() };
        let mut lane = Lane::new(wide, 1);
        for number in 0..100 {
            lane.enter(0, &mut [number; 100], &mut stats);
        }
        let numbers: Vec<u8> =
            arrivals(&mut lane, &mut stats).into_iter().map(|(_, number)| number).collect();
        assert_eq!(numbers.len(), 100);
        assert!(!numbers.is_sorted());
    }

    #[test]
    fn a_seed_decides_everything() {
        let run = |seed| {
            let lossy = Shape { loss: Loss::Random(0.3), queue: 1 << 20, ..shape() };
            let (mut lane, mut stats) = (Lane::new(lossy, seed), LaneStats::default());
            for number in 0..200 {
                lane.enter(0, &mut [number; 100], &mut stats);
            }
            arrivals(&mut lane, &mut stats)
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}
