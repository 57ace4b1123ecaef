//! Openings wait here for their share of the driver's time.
//!
//! An opening may cost a hundred times as much as a packet of a channel, and anyone may send one. So the driver puts
//! openings aside, and handles the datagrams of channels first:
//!
//! * while channels receive nothing, openings get all of the time, [`BITE`] by bite;
//! * while channels receive something, openings get a [`SHARE`]th of all time, including the time between two turns in which
//!   other tasks run. With a share of the driver's own time only, openings would wait long on a busy machine.
//!
//! Openings with a mac2, whose senders have proven their address, wait apart from those without. While both kinds
//! wait, each gets half of the openings' time, whatever one opening costs. Within each kind, a network prefix gets a
//! limited number of places. The driver drops an opening that finds no place before it computes anything, as the
//! network might have dropped it; the sender repeats it. If most openings find no place, the system drops them before
//! they reach the node ([`Sieve`]).

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use exonet_proto::node::{Arrival, Prefix};
use exonet_proto::{Mono, wire};

use crate::sieve::Sieve;

/// While channels keep the driver busy, openings get one part in this many of the time.
const SHARE: u32 = 16;

/// How long the driver handles openings at a time; it always finishes one that it has begun.
const BITE: Duration = Duration::from_micros(250);

/// At most this much time between two turns counts, so that the openings of one turn do not delay channels for long.
const LONGEST_TURN: Duration = Duration::from_millis(10);

/// How many openings of each kind may wait. Once half of the places for openings without a mac2 are taken, the node
/// demands a mac2.
const PLACES: usize = 256;

/// How many of these places one prefix may take.
const PLACES_OF_PREFIX: usize = PLACES / 16;

/// An opening that waits.
pub(crate) struct Waiting {
    pub(crate) arrival: Arrival,
    pub(crate) datagram: Box<[u8]>,
    /// None: the opening comes from this machine. The node does not distinguish the programs of its own machine.
    prefix: Option<Prefix>,
}

/// Openings of one kind, the oldest first.
#[derive(Default)]
struct Line {
    waiting: VecDeque<Waiting>,
    by_prefix: BTreeMap<Prefix, usize>,
    /// The time spent on this kind since either kind last ran out of openings.
    spent: Duration,
}

#[derive(Default)]
pub(crate) struct Openings {
    /// The openings without a mac2, and those with one.
    lines: [Line; 2],
    /// The time that openings may still take while channels have work.
    earned: Duration,
    /// The time by which openings have exceeded that.
    owed: Duration,
    /// The time of the last turn.
    turn: Mono,
    dropped: u64,
    pub(crate) sieve: Sieve,
}

impl Openings {
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| line.waiting.is_empty())
    }

    /// Puts an opening aside, or drops it.
    pub(crate) fn put(&mut self, arrival: Arrival, datagram: &[u8]) {
        let prefix = Prefix::told(arrival.remote.ip());
        let [plain, proving] = &mut self.lines;
        let proves = wire::bears_cookie(datagram);
        let line = if proves { proving } else { plain };
        let of_prefix = prefix.and_then(|prefix| line.by_prefix.get(&prefix)).copied().unwrap_or(0);
        let fits = datagram.len() <= wire::MAX_OPENING;
        let placed = fits && line.waiting.len() < PLACES && of_prefix < PLACES_OF_PREFIX;
        self.sieve.note(arrival.remote.ip(), proves, placed);
        if !placed {
            self.dropped += 1;
            return;
        }
        if let Some(prefix) = prefix {
            *line.by_prefix.entry(prefix).or_default() += 1;
        }
        line.waiting.push_back(Waiting { arrival, datagram: datagram.into(), prefix });
    }

    /// Takes the next opening, of the kind that has had less time.
    pub(crate) fn take(&mut self) -> Option<(Kind, Waiting)> {
        let [plain, proving] = &mut self.lines;
        let kind = match (plain.waiting.is_empty(), proving.waiting.is_empty()) {
            (true, true) => return None,
            (false, false) => Kind(proving.spent <= plain.spent),
            (plain_is_empty, _) => {
                // A kind that had no openings for a while has no claim to that time.
                (plain.spent, proving.spent) = (Duration::ZERO, Duration::ZERO);
                Kind(plain_is_empty)
            }
        };
        let line = if kind.0 { proving } else { plain };
        let waiting = line.waiting.pop_front()?;
        if let Some(prefix) = waiting.prefix
            && let Some(count) = line.by_prefix.get_mut(&prefix)
        {
            *count -= 1;
            if *count == 0 {
                line.by_prefix.remove(&prefix);
            }
        }
        if line.waiting.is_empty() {
            line.waiting.shrink_to(PLACES / 16);
        }
        Some((kind, waiting))
    }

    /// Whether more openings wait than will soon be handled, or would wait if the system did not drop some. Then the
    /// driver handles no opening without a mac2.
    pub(crate) fn are_many(&self) -> bool {
        let [plain, _] = &self.lines;
        plain.waiting.len() * 2 >= PLACES || self.sieve.sifts_plain()
    }

    /// How many openings were dropped since the last call.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        core::mem::take(&mut self.dropped)
    }

    /// Notes the time of a turn, and whether channels have work in it. If so, openings earn their share of the time since the
    /// last turn.
    pub(crate) fn note_turn(&mut self, now: Mono, busy: bool) {
        let span = now.since(core::mem::replace(&mut self.turn, now)).min(LONGEST_TURN);
        if busy {
            self.earn(span);
        }
    }

    /// Channels have had work for `span`. Openings earn their share of it. They save up one bite, or this
    /// share if it is longer.
    fn earn(&mut self, span: Duration) {
        let part = span / SHARE;
        self.earned = (self.earned + part.saturating_sub(self.owed)).min(part.max(BITE));
        self.owed = self.owed.saturating_sub(part);
    }

    /// How long the driver may handle openings now. `busy` says whether channels have work.
    pub(crate) fn allowance(&self, busy: bool) -> Duration {
        if busy { self.earned } else { BITE }
    }

    /// Notes that an opening of this kind took `span`.
    pub(crate) fn spend(&mut self, kind: Kind, busy: bool, span: Duration) {
        let [plain, proving] = &mut self.lines;
        let line = if kind.0 { proving } else { plain };
        line.spent += span;
        if busy {
            // The bound is for a machine that stood still in between: later openings do not pay for that.
            self.owed = (self.owed + span.saturating_sub(self.earned)).min(BITE * 4);
            self.earned = self.earned.saturating_sub(span);
        } else {
            self.owed = Duration::ZERO;
        }
    }
}

/// Whether an opening bears a mac2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind(bool);

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    const MICRO: Duration = Duration::from_micros(1);

    fn arrival(network: u32) -> Arrival {
        let ip = Ipv4Addr::from_bits(network << 8 | 1);
        Arrival { remote: (ip, 9).into(), local_ip: None, ecn: 0, pipe: None }
    }

    fn opening(proves: bool) -> Vec<u8> {
        let mut opening = vec![0x11; wire::MIN_OPENING];
        opening.last_chunk_mut::<16>().unwrap().fill(u8::from(proves));
        opening
    }

    /// Runs `turns` turns. In each, channels take `for_channels`, and `come` openings of each kind arrive. An opening
    /// without a mac2 takes 5 us, one with a mac2 125 us. Returns how many of each kind were handled.
    fn worked(turns: u32, for_channels: Duration, come: u32) -> ([u32; 2], Duration) {
        let (mut openings, mut counts, mut time) = (Openings::default(), [0; 2], Duration::ZERO);
        let (busy, mut now) = (!for_channels.is_zero(), Mono(0));
        for turn in 0..turns {
            for i in 0..come {
                openings.put(arrival(turn * come + i), &opening(false));
                openings.put(arrival(turn * come + i), &opening(true));
            }
            now += for_channels;
            openings.note_turn(now, busy);
            let (allowed, mut taken) = (openings.allowance(busy), Duration::ZERO);
            while taken < allowed
                && let Some((kind, _)) = openings.take()
            {
                let span = MICRO * if kind.0 { 125 } else { 5 };
                openings.spend(kind, busy, span);
                counts[usize::from(kind.0)] += 1;
                taken += span;
            }
            (time, now) = (time + taken, now + taken);
        }
        (counts, time)
    }

    #[test]
    fn while_channels_are_busy_openings_have_their_share() {
        let (counts, time) = worked(10_000, MICRO * 100, 10);
        let all = time + MICRO * 1_000_000;
        assert!(time.abs_diff(all / SHARE) < MICRO * 200, "{time:?} of {all:?}");
        assert!(counts[1] > 0 && counts[0].abs_diff(counts[1] * 25) <= 50, "half of it each: {counts:?}");
    }

    #[test]
    fn while_nothing_else_comes_they_have_all_of_the_time() {
        let (_, time) = worked(1_000, Duration::ZERO, 100);
        assert!(time >= BITE * 1_000, "{time:?}");
    }

    #[test]
    fn time_between_turns_counts_while_channels_have_work() {
        let (mut openings, turn) = (Openings::default(), Duration::from_millis(1));
        openings.note_turn(Mono(0) + turn, false);
        assert_eq!(openings.allowance(true), Duration::ZERO, "channels had no work");
        openings.note_turn(Mono(0) + turn * 2, true);
        assert_eq!(openings.allowance(true), turn / SHARE);
        // The driver had slept.
        openings.note_turn(Mono(0) + turn * 10_000, true);
        assert_eq!(openings.allowance(true), LONGEST_TURN / SHARE);
    }

    #[test]
    fn what_was_idle_is_not_owed_later() {
        let mut openings = Openings::default();
        openings.earn(BITE * SHARE);
        openings.earn(BITE);
        assert_eq!(openings.allowance(true), BITE, "less than it could have earned");
        openings.earn(BITE * 4 * SHARE);
        assert_eq!(openings.allowance(true), BITE * 4, "its part, however long that was");
        let kind = Kind(true);
        openings.spend(kind, true, Duration::from_secs(10));
        assert_eq!(openings.allowance(true), Duration::ZERO);
        openings.earn(BITE * 5 * SHARE);
        assert!(openings.allowance(true) > Duration::ZERO, "a debt is forgiven in time");
    }

    #[test]
    fn one_prefix_does_not_take_all_places_and_no_kind_those_of_the_other() {
        let mut openings = Openings::default();
        for _ in 0..1_000 {
            openings.put(arrival(1), &opening(false));
        }
        assert_eq!(openings.take_dropped(), 1_000 - PLACES_OF_PREFIX as u64);
        assert!(!openings.are_many());
        for network in 2..1_000 {
            openings.put(arrival(network), &opening(false));
        }
        assert!(openings.are_many());
        assert_eq!(openings.take_dropped(), 998 - (PLACES - PLACES_OF_PREFIX) as u64);
        openings.put(arrival(1), &opening(true));
        assert_eq!((openings.take_dropped(), openings.take().unwrap().0), (0, Kind(true)));
        while openings.take().is_some() {}
        assert!(!openings.are_many());
        openings.sieve.review(Mono(1));
        assert!(openings.are_many(), "most come no further than the sieve");
        assert!(openings.is_empty() && openings.lines.iter().all(|line| line.by_prefix.is_empty()));
    }

    #[test]
    fn this_machine_has_all_places() {
        let mut openings = Openings::default();
        for _ in 0..PLACES {
            let here = Arrival { remote: ([127, 0, 0, 1], 9).into(), local_ip: None, ecn: 0, pipe: None };
            openings.put(here, &opening(false));
        }
        assert_eq!(openings.take_dropped(), 0);
    }
}
