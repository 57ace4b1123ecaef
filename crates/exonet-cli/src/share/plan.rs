//! Decides which server is asked for which piece, and when: a state machine without clock or I/O.
//!
//! Pieces are assigned in their order, to any server that has room. A server has room for the pieces that its path
//! holds, so fast servers get more. Pieces that a server does not deliver are assigned to others. At the end, when no
//! piece is left to assign, a piece that takes more than twice its forecast is also requested from another server, so
//! that the last pieces do not wait for the slowest server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::Shape;
use crate::units;

/// The maximum number of pieces that one server is asked for at once, and the maximum number of their bytes beyond
/// the first piece.
const MOST_UNDER_WAY: u64 = 64;
const MOST_BYTES: u64 = 64 << 20;
/// The time constant of a rate, in seconds: older samples count less and less. And the shortest time over which a
/// rate can be computed.
const LATELY: f64 = 0.5;
const SHORTEST: f64 = 1e-6;
/// An upper bound of the processing time of a piece at both ends.
const WORK: Duration = Duration::from_millis(5);
/// The maximum number of servers that are asked for one piece at once.
const COPIES: usize = 2;
/// The multiple of its forecast after which a piece is late.
const LATE: u32 = 2;

/// The figures of one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// The number of pieces that were written.
    pub(crate) pieces: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// The number of pieces that are requested at the moment.
    pub(crate) under_way: usize,
    /// Bytes a second.
    pub(crate) rate: u64,
}

/// A piece that a server was asked for.
#[derive(Clone, Copy, Debug)]
struct Flight {
    since: Instant,
    /// The expected time. None: no rate was known.
    forecast: Option<Duration>,
}

#[derive(Debug, Default)]
struct Server {
    /// The server may be asked.
    active: bool,
    rate: Rate,
    srt: Duration,
    flights: BTreeMap<u32, Flight>,
    pieces: u64,
    bytes: u64,
}

/// Bytes a second, as a mean over recent times with pieces in flight.
#[derive(Debug, Default)]
struct Rate {
    /// None: nothing has arrived yet.
    mean: Option<f64>,
    /// The time since when the next piece is in flight. None: nothing is in flight.
    since: Option<Instant>,
}

impl Rate {
    fn begin(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// Records `bytes` that arrived since the last ones.
    fn add(&mut self, now: Instant, bytes: u64) {
        let span = self.since.map_or(0.0, |since| now.saturating_duration_since(since).as_secs_f64());
        let (bytes, weight) = (units::precise(bytes), 1.0 - (-span / LATELY).exp());
        self.mean = Some(match self.mean {
            // Pieces that arrive together count as one large piece.
            Some(mean) if span < SHORTEST => mean + bytes / LATELY,
            Some(mean) => mean + weight * (bytes / span - mean),
            None => bytes / span.max(SHORTEST),
        });
        self.since = Some(now);
    }

    fn end(&mut self) {
        self.since = None;
    }
}

impl Server {
    /// The number of pieces that the server may be asked for at once: the pieces that arrive in two round trips, and
    /// one more. With the pieces of a single round trip, spare capacity would hardly be noticed. On a short path, the
    /// processing time of pieces takes the place of round trips.
    fn window(&self, piece: u32) -> usize {
        let trips = (self.srt * 2).max(WORK).as_secs_f64();
        let path = self.rate.mean.map_or(0.0, |rate| (rate * trips / f64::from(piece)).ceil());
        let most = (MOST_BYTES / u64::from(piece).max(1)).clamp(1, MOST_UNDER_WAY);
        let pieces = units::whole(path).unwrap_or(most).saturating_add(1).min(most);
        usize::try_from(pieces).unwrap_or(1)
    }

    /// The expected time of one more piece after those in flight.
    fn forecast(&self, piece: u32, rate: Option<f64>) -> Option<Duration> {
        let ahead = units::precise(self.flights.len() as u64 + 1) * f64::from(piece);
        Duration::try_from_secs_f64(ahead / rate?).ok()?.checked_add(self.srt)
    }
}

/// The download of one file.
#[derive(Debug)]
pub(crate) struct Plan {
    shape: Shape,
    /// Pieces that are neither present nor requested.
    waiting: BTreeSet<u32>,
    /// Pieces that are not present.
    missing: BTreeSet<u32>,
    servers: Vec<Server>,
    /// Pieces that came from two servers.
    doubled: u64,
}

impl Plan {
    /// A plan for a file from `servers` servers, none of which may be asked yet. `has` tells which pieces are
    /// present.
    pub(crate) fn new(shape: Shape, has: impl Fn(u32) -> bool, servers: usize) -> Self {
        let missing: BTreeSet<u32> = (0..shape.pieces()).filter(|index| !has(*index)).collect();
        let servers = (0..servers).map(|_| Server::default()).collect();
        Self { shape, waiting: missing.clone(), missing, servers, doubled: 0 }
    }

    /// Whether every piece is present.
    pub(crate) fn is_done(&self) -> bool {
        self.missing.is_empty()
    }

    /// The number of bytes that are not present.
    pub(crate) fn missing_bytes(&self) -> u64 {
        self.missing.iter().map(|index| u64::from(self.shape.len(*index))).sum()
    }

    /// Pieces that came from two servers.
    pub(crate) fn doubled(&self) -> u64 {
        self.doubled
    }

    /// The figures of a server.
    pub(crate) fn tally(&self, server: usize) -> Tally {
        let tally = |server: &Server| Tally {
            pieces: server.pieces,
            bytes: server.bytes,
            under_way: server.flights.len(),
            rate: server.rate.mean.and_then(units::whole).unwrap_or(0),
        };
        self.servers.get(server).map(tally).unwrap_or_default()
    }

    /// Whether this server has been asked for this piece, and the piece is still wanted from it.
    pub(crate) fn wants(&self, server: usize, index: u32) -> bool {
        self.servers.get(server).is_some_and(|server| server.flights.contains_key(&index))
    }

    /// Lets the server be asked from now on. Its former rate is forgotten.
    pub(crate) fn join(&mut self, server: usize) {
        if let Some(server) = self.servers.get_mut(server) {
            (server.active, server.rate) = (true, Rate::default());
        }
    }

    /// Stops asking the server. Its requested pieces are assigned to others.
    pub(crate) fn leave(&mut self, server: usize) {
        let Some(gone) = self.servers.get_mut(server) else { return };
        gone.active = false;
        gone.rate.end();
        for index in std::mem::take(&mut gone.flights).into_keys() {
            self.put_back(index);
        }
    }

    /// Makes a piece available again, if no other server is asked for it.
    fn put_back(&mut self, index: u32) {
        if self.missing.contains(&index) && self.copies(index) == 0 {
            self.waiting.insert(index);
        }
    }

    fn copies(&self, index: u32) -> usize {
        self.servers.iter().filter(|server| server.flights.contains_key(&index)).count()
    }

    /// The next piece to request from the server, if it has room. `srt` is its round-trip time.
    pub(crate) fn take(&mut self, now: Instant, server: usize, srt: Duration) -> Option<u32> {
        let asked = self.servers.get_mut(server).filter(|server| server.active)?;
        asked.srt = srt;
        if asked.flights.len() >= asked.window(self.shape.piece) {
            return None;
        }
        let index = match self.waiting.pop_first() {
            Some(index) => index,
            None => self.late(now, server)?,
        };
        let asked = self.servers.get_mut(server)?;
        let forecast = asked.forecast(self.shape.piece, asked.rate.mean);
        asked.rate.begin(now);
        asked.flights.insert(index, Flight { since: now, forecast });
        Some(index)
    }

    /// A piece that is late at another server, if this server is the fastest of the idle ones.
    fn late(&self, now: Instant, server: usize) -> Option<u32> {
        let rate = |server: &Server| server.rate.mean.unwrap_or(0.0);
        let idle = |server: &Server| server.active && server.flights.is_empty();
        let own = self.servers.get(server).filter(|server| idle(server))?;
        if self.servers.iter().any(|other| idle(other) && rate(other) > rate(own)) {
            return None;
        }
        let active = self.servers.iter().filter(|server| server.active);
        let slowest = active.filter_map(|server| server.rate.mean).min_by(f64::total_cmp);
        let is_late = |holder: &Server, flight: &Flight| {
            // If the rate of the holder is unknown, it is assumed to be as slow as the slowest other server.
            let forecast = flight.forecast.or_else(|| holder.forecast(self.shape.piece, slowest));
            let spent = now.saturating_duration_since(flight.since);
            forecast.is_some_and(|forecast| spent > forecast.saturating_mul(LATE))
        };
        let flights = self.servers.iter().flat_map(|holder| {
            holder.flights.iter().filter(|(_, flight)| is_late(holder, flight)).map(|(index, _)| *index)
        });
        flights.filter(|index| self.copies(*index) < COPIES).min()
    }

    /// Records that a piece from the server has been proven and written. False: the piece was already present.
    pub(crate) fn came(&mut self, now: Instant, server: usize, index: u32) -> bool {
        let bytes = u64::from(self.shape.len(index));
        if let Some(from) = self.servers.get_mut(server) {
            from.rate.add(now, bytes);
        }
        let new = self.missing.remove(&index);
        self.waiting.remove(&index);
        // Other servers that are asked for the piece need not deliver it any more.
        for other in &mut self.servers {
            if other.flights.remove(&index).is_some() && other.flights.is_empty() {
                other.rate.end();
            }
        }
        if new {
            if let Some(from) = self.servers.get_mut(server) {
                from.pieces += 1;
                from.bytes += bytes;
            }
        } else {
            self.doubled += 1;
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PIECE: u64 = 256 << 10;
    const RTT: Duration = Duration::from_millis(100);

    fn shape(pieces: u64) -> Shape {
        Shape::new(pieces * PIECE).unwrap()
    }

    fn plan(pieces: u64, servers: usize) -> Plan {
        let mut plan = Plan::new(shape(pieces), |_| false, servers);
        (0..servers).for_each(|server| plan.join(server));
        plan
    }

    /// All pieces that the server can be asked for now.
    fn asked(plan: &mut Plan, now: Instant, server: usize) -> Vec<u32> {
        std::iter::from_fn(|| plan.take(now, server, RTT)).collect()
    }

    #[test]
    fn pieces_go_out_in_order_and_only_what_is_missing() {
        let mut plan = Plan::new(shape(6), |index| index == 1, 2);
        let now = Instant::now();
        // No server has joined.
        assert_eq!(plan.take(now, 0, RTT), None);
        plan.join(0);
        plan.join(1);
        assert_eq!((plan.take(now, 0, RTT), plan.take(now, 1, RTT)), (Some(0), Some(2)));
        // One piece at first: nothing is known of the path.
        assert_eq!(plan.take(now, 0, RTT), None);
        assert_eq!(plan.missing_bytes(), 5 * PIECE);
        assert!(plan.came(now, 0, 0) && !plan.came(now, 0, 0));
        assert_eq!((plan.take(now, 0, RTT), plan.doubled()), (Some(3), 1));
    }

    #[test]
    fn a_server_is_asked_for_what_its_path_holds() {
        let mut plan = plan(60_000, 2);
        let mut now = Instant::now();
        let mut waits: [Vec<(u32, Instant)>; 2] = Default::default();
        // The path of the first one brings 40 pieces a second, that of the second one 400.
        let every = [Duration::from_millis(25), Duration::from_micros(2_500)];
        let mut next = [now; 2];
        for _ in 0..20_000 {
            for server in 0..2 {
                for index in asked(&mut plan, now, server) {
                    next[server] = next[server].max(now + RTT) + every[server];
                    waits[server].push((index, next[server]));
                }
                while let Some(at) = waits[server].iter().position(|(_, due)| *due <= now) {
                    let (index, _) = waits[server].remove(at);
                    plan.came(now, server, index);
                }
            }
            now += Duration::from_micros(500);
        }
        let [slow, fast] = [0, 1].map(|server| plan.tally(server));
        // Each server delivers at the rate of its path: 10 s, less the start.
        assert!((300..=400).contains(&slow.pieces), "{slow:?}");
        assert!((3_400..=4_000).contains(&fast.pieces), "{fast:?}");
        // A round trip holds 4 and 40 pieces. The same number waits at the server.
        assert!((8..=11).contains(&slow.under_way) && fast.under_way == 64, "{slow:?} {fast:?}");
    }

    #[test]
    fn a_rate_is_what_comes_in_a_second_however_it_comes() {
        let begun = Instant::now();
        let mean = |every: Duration, together: u64| {
            let (mut rate, mut now) = (Rate::default(), begun);
            rate.begin(now);
            for _ in 0..(20_000 / every.as_millis()) {
                now += every;
                (0..together).for_each(|_| rate.add(now, PIECE));
            }
            rate.mean.unwrap() / (units::precise(PIECE * together) / every.as_secs_f64())
        };
        for (every, together) in [(1, 1), (100, 1), (4_000, 1), (10, 40)] {
            let share = mean(Duration::from_millis(every), together);
            assert!((0.9..1.2).contains(&share), "{every} {together}: {share}");
        }
    }

    #[test]
    fn no_more_is_under_way_than_memory_allows() {
        let mut server = Server { srt: RTT, ..Server::default() };
        server.rate = Rate { mean: Some(1e12), since: None };
        assert_eq!(server.window(256 << 10), 64);
        assert_eq!(server.window(16 << 20), 4);
        server.rate = Rate::default();
        assert_eq!(server.window(256 << 10), 1);
        // On the shortest path, 400 MiB/s keep both ends busy.
        server.rate = Rate { mean: Some(units::precise(400 << 20)), since: None };
        server.srt = Duration::ZERO;
        assert_eq!(server.window(256 << 10), 9);
    }

    #[test]
    fn what_a_lost_server_was_asked_for_goes_to_others_first() {
        let mut plan = plan(5, 2);
        let now = Instant::now();
        assert_eq!((asked(&mut plan, now, 0), asked(&mut plan, now, 1)), (vec![0], vec![1]));
        plan.leave(0);
        assert!(!plan.wants(0, 0) && plan.wants(1, 1));
        // The server is not asked until it is back.
        assert_eq!(asked(&mut plan, now, 0), [0; 0]);
        plan.came(now, 1, 1);
        assert_eq!(plan.take(now, 1, RTT), Some(0));
        plan.join(0);
        assert_eq!(plan.take(now, 0, RTT), Some(2));
        // Its rate is as unknown as that of a new server.
        assert_eq!(plan.take(now, 0, RTT), None);
    }

    /// Two servers, of which the second has a known speed, and the first holds the last piece.
    fn at_the_end() -> (Plan, Instant) {
        let mut plan = plan(4, 3);
        let mut now = Instant::now();
        assert_eq!(plan.take(now, 0, RTT), Some(0));
        assert_eq!(plan.take(now, 1, RTT), Some(1));
        assert_eq!(plan.take(now, 2, RTT), Some(2));
        now += RTT;
        plan.came(now, 1, 1);
        assert_eq!(plan.take(now, 1, RTT), Some(3));
        now += RTT;
        plan.came(now, 1, 3);
        plan.came(now, 2, 2);
        (plan, now)
    }

    #[test]
    fn at_the_end_the_fastest_idle_server_brings_what_is_late() {
        let (mut plan, begun) = at_the_end();
        // A piece from an unknown server should take a round trip and the time of the slowest server: 300 ms and
        // more.
        assert_eq!(plan.take(begun + 3 * RTT, 1, RTT), None);
        let late = begun + 10 * RTT;
        // Neither the slower of two idle servers is asked, nor the holder.
        assert_eq!((plan.take(late, 2, RTT), plan.take(late, 0, RTT)), (None, None));
        assert_eq!(plan.take(late, 1, RTT), Some(0));
        // Two copies, and no third.
        assert_eq!(plan.take(late + 100 * RTT, 2, RTT), None);
        // The first copy to arrive ends the other.
        assert!(plan.came(late, 1, 0) && plan.is_done());
        assert!(!plan.wants(0, 0));
    }

    #[test]
    fn a_copy_that_is_lost_is_no_copy() {
        let (mut plan, begun) = at_the_end();
        let late = begun + 10 * RTT;
        assert_eq!(plan.take(late, 1, RTT), Some(0));
        plan.leave(1);
        // The other server is still asked for it.
        assert!(plan.waiting.is_empty() && plan.wants(0, 0));
        plan.leave(0);
        assert_eq!(plan.take(late, 2, RTT), Some(0));
    }

    #[test]
    fn before_the_end_nothing_is_asked_for_twice() {
        let mut plan = plan(1_000, 2);
        let now = Instant::now();
        assert_eq!(plan.take(now, 0, RTT), Some(0));
        let mut late = now;
        for expected in 1..100 {
            late += 10 * RTT;
            assert_eq!(plan.take(late, 1, Duration::ZERO), Some(expected));
            plan.came(late, 1, expected);
        }
        assert_eq!(plan.doubled(), 0);
    }

    proptest! {
        /// Servers join, leave and deliver in any order: a piece is requested from at most two servers, is never
        /// lost, and the file is completed whenever one server stays.
        #[test]
        fn every_piece_comes(pieces in 1_u64..40, steps in prop::collection::vec((0_usize..3, 0_u8..6), 0..300)) {
            let mut plan = Plan::new(shape(pieces), |_| false, 3);
            let mut now = Instant::now();
            let step = |plan: &mut Plan, now: Instant, server: usize, what: u8| {
                match what {
                    0 => plan.leave(server),
                    1 => if !plan.servers[server].active { plan.join(server) },
                    2 | 3 => {
                        plan.take(now, server, RTT);
                    }
                    _ => {
                        let first = plan.servers[server].flights.keys().next_back().copied();
                        first.map(|index| plan.came(now, server, index));
                    }
                }
                for index in 0..plan.shape.pieces() {
                    let held = plan.copies(index);
                    assert!(held <= COPIES);
                    let known = plan.waiting.contains(&index) || held > 0;
                    assert_eq!(plan.missing.contains(&index), known, "{index}");
                    assert!(held == 0 || !plan.waiting.contains(&index));
                }
            };
            for (server, what) in steps {
                now += Duration::from_millis(70);
                step(&mut plan, now, server, what);
            }
            plan.leave(0);
            plan.leave(1);
            plan.join(2);
            for _ in 0..4 * pieces {
                now += Duration::from_millis(70);
                step(&mut plan, now, 2, 2);
                step(&mut plan, now, 2, 5);
            }
            prop_assert!(plan.is_done());
            let brought: u64 = (0..3).map(|server| plan.tally(server).pieces).sum();
            prop_assert_eq!(brought, pieces);
        }
    }
}
