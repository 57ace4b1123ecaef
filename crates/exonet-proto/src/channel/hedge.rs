//! Hedging: sends a copy of a packet that has nothing behind it to reveal its loss.
//!
//! The loss of a lone request shows only after a probe timeout. On a path that loses packets and has room, a copy leaves a moment
//! later instead. Duplicates are harmless, so a copy costs only bytes; a token bucket bounds them.

use core::time::Duration;

use super::Rtt;
use super::loss::Loss;
use crate::Mono;

/// A copy leaves after this, or after a sixteenth of a round trip if that is less: whatever loses one packet may last a while.
const WAIT: Duration = Duration::from_millis(1);
/// With more than this many packets under way, or more than this share of what the path holds, other packets are behind.
const LONE_PACKETS: f64 = 24.0;
const LONE_SHARE: f64 = 0.35;
/// The same limits for packets with data that was lost before, since something waits for it.
const AGAIN_BYTES: f64 = 20_000.0;
const AGAIN_SHARE: f64 = 0.9;
/// How many copies per round trip any path may have, unless that is more than twice its measured rate.
const LEAST: f64 = 10.0;
/// The most copies saved up: those of a round trip, or this many.
const SAVED: f64 = 4.0;

/// Whether lone packets are copied, and how much that may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hedging {
    /// Never.
    Off,
    /// Copies on paths that lose packets by chance, up to this percentage of the measured rate of the path. On slow paths up to
    /// ten packets per round trip or twice that rate, whichever is less.
    Share(u8),
}

impl Default for Hedging {
    fn default() -> Self {
        Self::Share(25)
    }
}

/// The state of a path that hedging needs to know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room<'a> {
    pub(super) rtt: &'a Rtt,
    pub(super) loss: Loss,
    /// The measured bandwidth of the path in bytes per second; zero: unknown.
    pub(super) rate: f64,
    /// Bytes under way.
    pub(super) in_flight: f64,
    /// Bytes of a full datagram.
    pub(super) datagram: f64,
}

/// Decides which packets get a copy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hedge {
    tokens: f64,
    filled: Mono,
}

impl Hedge {
    /// How long to wait before a copy of the packet that leaves now. None: the packet gets no copy. `again`: it carries something
    /// that was lost before.
    pub(super) fn copy(
        &mut self,
        now: Mono,
        hedging: Hedging,
        room: Room<'_>,
        again: bool,
    ) -> Option<Duration> {
        let Hedging::Share(percent) = hedging else { return None };
        if !room.loss.is_random() || !room.rtt.is_measured() {
            return None;
        }
        let srtt = room.rtt.smoothed();
        self.fill(now, room, percent);
        let pipe = room.rate * room.rtt.min().as_secs_f64();
        let fits = if again {
            room.in_flight < (AGAIN_SHARE * pipe).max(AGAIN_BYTES)
        } else {
            let calm = srtt < room.rtt.min() * 5 / 4 + WAIT;
            calm && room.in_flight < (LONE_SHARE * pipe).max(LONE_PACKETS * room.datagram)
        };
        if !fits || self.tokens < 1.0 {
            return None;
        }
        self.tokens -= 1.0;
        Some((srtt / 16).min(WAIT))
    }

    fn fill(&mut self, now: Mono, room: Room<'_>, percent: u8) {
        let srtt = room.rtt.smoothed().as_secs_f64().max(0.01);
        let least = LEAST * room.datagram / srtt;
        let least = if room.rate > 0.0 { least.min(2.0 * room.rate) } else { least };
        let rate = (f64::from(percent) / 100.0 * room.rate).max(least) / room.datagram;
        let earned = now.since(self.filled).as_secs_f64() * rate;
        self.tokens = (self.tokens + earned).min((rate * srtt).max(SAVED));
        self.filled = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn rtt() -> Rtt {
        let mut rtt = Rtt::default();
        rtt.on_sample(Mono(0), 10 * MS, Duration::ZERO);
        rtt
    }

    fn room(rtt: &Rtt) -> Room<'_> {
        Room { rtt, loss: losing(99, 1), rate: 100_000.0, in_flight: 1_200.0, datagram: 1_200.0 }
    }

    fn losing(acked: u64, lost: u64) -> Loss {
        let mut loss = Loss::default();
        loss.on_fates(acked, lost);
        loss
    }

    fn copies(hedging: Hedging, room: Room<'_>, again: bool) -> bool {
        Hedge::default().copy(Mono(1_000_000_000), hedging, room, again).is_some()
    }

    #[test]
    fn a_lone_packet_on_a_lossy_path_is_copied_soon() {
        let rtt = rtt();
        let wait = Hedge::default().copy(Mono(1_000_000_000), Hedging::default(), room(&rtt), false);
        assert_eq!(wait, Some(10 * MS / 16));
    }

    #[test]
    fn there_is_none_without_loss_or_if_switched_off_or_before_the_first_round_trip() {
        let rtt = rtt();
        assert!(!copies(Hedging::default(), Room { loss: losing(100, 0), ..room(&rtt) }, false));
        assert!(!copies(Hedging::Off, room(&rtt), false));
        assert!(!copies(Hedging::default(), room(&Rtt::default()), false));
    }

    #[test]
    fn there_is_none_for_who_has_more_than_it_can_take() {
        let rtt = rtt();
        let mut loss = losing(99, 1);
        (0..2).for_each(|_| loss.on_delay(50 * MS, 10 * MS));
        (0..9).for_each(|_| loss.on_fates(0, 1));
        let drowned = Room { loss, ..room(&rtt) };
        assert!(!copies(Hedging::default(), drowned, false) && !copies(Hedging::default(), drowned, true));
    }

    #[test]
    fn there_is_none_with_others_behind_or_a_queue() {
        let mut waited = rtt();
        let crowd = Room { in_flight: 24.0 * 1_200.0, ..room(&waited) };
        assert!(!copies(Hedging::default(), crowd, false));
        for i in 0..20 {
            waited.on_sample(Mono(i), 20 * MS, Duration::ZERO);
        }
        assert!(!copies(Hedging::default(), room(&waited), false));
        assert!(copies(Hedging::default(), room(&waited), true), "it was lost before");
        let full = Room { in_flight: 20_000.0, ..room(&waited) };
        assert!(!copies(Hedging::default(), full, true));
    }

    #[test]
    fn the_budget_bounds_copies() {
        let rtt = rtt();
        // A quarter of ten megabytes per second is 2,083 packets per second.
        let wide = Room { rate: 10_000_000.0, ..room(&rtt) };
        for (percent, least, most) in [(25, 2_050, 2_120), (50, 4_100, 4_250)] {
            let mut hedge = Hedge::default();
            let count = (0..100_000_u64)
                .filter(|i| {
                    let now = Mono(1_000_000_000 + i * 10_000);
                    hedge.copy(now, Hedging::Share(percent), wide, false).is_some()
                })
                .count();
            assert!((least..most).contains(&count), "{percent}: {count}");
        }
    }
}
