//! Loss that the queue does not cause: random loss of the path, measured while the queue is short.
//!
//! Packets are marked with the phase in which they left. Packets that left while the queue drained were not lost for lack of
//! room: their loss bounds the estimate of random loss.

use crate::channel::congestion::TAGS;

/// The greatest random loss that the estimate may reach.
const MOST: f64 = 0.3;

/// The mark of a packet: the phase in which it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// At the rate of the path.
    Cruise = 0,
    /// Faster: losses may be caused by the queue.
    Up = 1,
    /// Slower: the queue shrinks.
    Down = 2,
}

/// An average over about this many packets.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    value: f64,
    packets: f64,
}

impl Share {
    fn update(&mut self, lost: f64, of: f64, memory: f64) {
        self.packets += of;
        let weight = (of / self.packets.min(memory).max(40.0)).min(1.0);
        self.value += (lost / of - self.value) * weight;
    }
}

/// Losses by the phase in which packets left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Baseline {
    /// Packets acknowledged and lost since the last call of [`Baseline::settle`].
    acked: [f64; TAGS],
    lost: [f64; TAGS],
    cruise: Share,
    up: Share,
    down: Share,
}

impl Baseline {
    pub(super) fn on_acked(&mut self, packets: [u32; TAGS]) {
        for (sum, packets) in self.acked.iter_mut().zip(packets) {
            *sum += f64::from(packets);
        }
    }

    pub(super) fn on_lost(&mut self, tag: u8) {
        if let Some(lost) = self.lost.get_mut(usize::from(tag)) {
            *lost += 1.0;
        }
    }

    /// A packet counted as lost has arrived: it is counted again, as acknowledged.
    pub(super) fn on_spurious(&mut self, tag: u8) {
        if let Some(lost) = self.lost.get_mut(usize::from(tag)) {
            *lost -= 1.0;
        }
    }

    /// Takes in what happened since the last call. `calm`: the queue had no part in it. `cruising`: the marks tell the phases.
    pub(super) fn settle(&mut self, calm: bool, cruising: bool) {
        let (acked, lost) = (std::mem::take(&mut self.acked), std::mem::take(&mut self.lost));
        let of = |tag: Tag| {
            let lost = lost.get(tag as usize).copied().unwrap_or_default().max(0.0);
            (lost, lost + acked.get(tag as usize).copied().unwrap_or_default())
        };
        for (share, tag, memory, counts) in [
            (&mut self.cruise, Tag::Cruise, 600.0, calm),
            (&mut self.down, Tag::Down, 400.0, calm),
            (&mut self.up, Tag::Up, 300.0, cruising),
        ] {
            let (lost, all) = of(tag);
            if counts && all > 0.0 {
                share.update(lost, all, memory);
            }
        }
    }

    /// The share of packets that the path loses regardless of what is sent.
    pub(super) fn random(&self) -> f64 {
        self.cruise.value.min(1.25 * self.down.value + 0.003).min(MOST)
    }

    /// Whether it is worth measuring how much is lost while the queue shrinks.
    pub(super) fn is_lossy(&self) -> bool {
        self.cruise.value > 0.02
    }

    /// The share lost at the rate of the path, beyond the share lost while the queue shrinks.
    pub(super) fn excess(&self) -> f64 {
        (self.cruise.value - 1.25 * self.down.value - 0.02).clamp(0.0, 0.2)
    }

    /// Whether going faster costs packets.
    pub(super) fn hurts_to_probe(&self) -> bool {
        self.up.value > 1.5 * self.down.value + 0.05
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(it: &mut Baseline, tag: Tag, acked: u32, lost: u32, calm: bool) {
        for _ in 0..100 {
            let mut packets = [0; TAGS];
            packets[tag as usize] = acked;
            it.on_acked(packets);
            (0..lost).for_each(|_| it.on_lost(tag as u8));
            it.settle(calm, true);
        }
    }

    #[test]
    fn random_loss_is_what_is_lost_while_the_queue_shrinks_too() {
        let mut it = Baseline::default();
        feed(&mut it, Tag::Cruise, 90, 10, true);
        assert!(it.random() < 0.004, "not without a word of a shrinking queue: {}", it.random());
        feed(&mut it, Tag::Down, 90, 10, true);
        assert!((it.random() - 0.1).abs() < 0.001, "{}", it.random());
        assert!(it.excess() < 0.001);
    }

    #[test]
    fn what_is_lost_with_a_long_queue_does_not_count() {
        let mut it = Baseline::default();
        feed(&mut it, Tag::Cruise, 50, 50, false);
        feed(&mut it, Tag::Down, 50, 50, false);
        assert!(it.random() < 0.001, "{}", it.random());
    }

    #[test]
    fn random_loss_is_believed_up_to_a_bound() {
        let mut it = Baseline::default();
        feed(&mut it, Tag::Cruise, 50, 50, true);
        feed(&mut it, Tag::Down, 50, 50, true);
        assert!((it.random() - MOST).abs() < 0.001, "{}", it.random());
    }

    #[test]
    fn a_loss_that_was_none_is_taken_back() {
        let mut it = Baseline::default();
        for _ in 0..100 {
            it.on_lost(Tag::Down as u8);
            it.on_spurious(Tag::Down as u8);
            it.on_acked([0, 0, 1, 0]);
            it.settle(true, true);
        }
        assert!(it.down.value.abs() < 1e-9);
    }

    #[test]
    fn losses_of_going_faster_are_told_apart() {
        let mut it = Baseline::default();
        feed(&mut it, Tag::Down, 100, 0, true);
        feed(&mut it, Tag::Up, 90, 10, false);
        assert!(it.hurts_to_probe());
        feed(&mut it, Tag::Down, 90, 10, true);
        assert!(!it.hurts_to_probe());
    }
}
