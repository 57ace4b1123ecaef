//! Shares the driver's time among peers.
//!
//! A datagram of an admitted peer may cost forty times as much as another. If the driver handled all datagrams in the
//! order of arrival, a peer that sends the most expensive ones as fast as it can would leave next to no time for the
//! others: their datagrams would wait in the socket behind its own, until the socket is full and the system drops
//! them.
//!
//! So the driver measures the time that each peer's datagrams take ([`Shares::charge`]). As long as the driver keeps
//! up with the socket, nothing else happens. Once it has not kept up for [`BEHIND`], it is *pressed*. Then it empties
//! the socket into one queue per peer ([`Shares::put`]), which is much faster than handling the datagrams, and
//! handles one datagram at a time, always from the peer that has had the least time ([`Shares::take`]). So each peer
//! gets an equal share of the time if it needs that much, and the others share what it leaves. The driver never idles
//! while a datagram waits, and never refuses a peer time that no other peer needs.
//!
//! The driver drops a datagram only if the queue of its peer is full, because the peer sends more than its share. All
//! queues together have [`ROOM`] bytes. A peer that needs less than its share never has more than a few datagrams in
//! its queue, and loses none.
//!
//! The driver tells peers apart by the channel index of the datagram, before it decrypts anything. An attacker who
//! has seen datagrams can write their index on others, and so use up the share of that peer, but of no other peer. A
//! datagram without a known index belongs to no peer: the driver handles it at once, which costs little. Openings
//! have a share of their own (`openings.rs`).

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use exonet_proto::Mono;
use exonet_proto::node::Seat;

/// The driver is pressed once it has been behind with the socket for this long.
const BEHIND: Duration = Duration::from_millis(2);

/// The driver is no longer pressed once nothing was left waiting for this long.
const RELIEF: Duration = Duration::from_millis(50);

/// How long the driver handles waiting datagrams before it empties the socket again: as long as it took to empty the
/// socket last time, but at least `SLICE` and at most `LONGEST`. Datagrams that arrive in that time fit into the
/// socket's buffer on most systems.
const SLICE: Duration = Duration::from_micros(200);
const LONGEST: Duration = Duration::from_millis(2);

/// A peer that was silent for this long gets no share.
const LATELY: Duration = Duration::from_secs(1);

/// The queues may hold this many bytes in total. Peers that have datagrams waiting share them equally.
const ROOM: usize = 4 << 20;

/// The bytes of memory that a waiting datagram takes besides its content.
const OVERHEAD: usize = 128;

/// How far the time of a peer that needed little may lie behind that of the others: its head start when it sends
/// again.
const HEAD_START: Duration = Duration::from_millis(1);

#[derive(Debug)]
struct Line<T> {
    waiting: VecDeque<(T, usize)>,
    bytes: usize,
    /// The time that the peer had, or could have had but did not need.
    had: Duration,
    heard_at: Mono,
}

/// How much time each peer has had, and the datagrams of each that wait.
#[derive(Debug)]
pub(crate) struct Shares<T> {
    /// The peers that sent something lately.
    lines: BTreeMap<Seat, Line<T>>,
    /// Those of them that have datagrams waiting, ordered by the time that they had.
    order: BTreeSet<(Duration, Seat)>,
    /// The time of the peer that had a turn last: no peer lies far below it.
    level: Duration,
    /// Since when the driver has been behind with the socket.
    behind: Option<Mono>,
    /// Until when at least the driver stays pressed.
    pressed_until: Option<Mono>,
    swept_at: Mono,
}

impl<T> Default for Shares<T> {
    fn default() -> Self {
        Self {
            lines: BTreeMap::new(),
            order: BTreeSet::new(),
            level: Duration::ZERO,
            behind: None,
            pressed_until: None,
            swept_at: Mono(0),
        }
    }
}

impl<T> Shares<T> {
    /// Charges a peer for the `span` that its datagrams took.
    pub(crate) fn charge(&mut self, now: Mono, seat: Seat, span: Duration) {
        let least = self.level.saturating_sub(HEAD_START);
        let line = self.lines.entry(seat).or_insert_with(|| Line::new(least));
        line.heard_at = now;
        if self.pressed_until.is_none() && line.waiting.is_empty() {
            // While no peer waits, nobody takes time from anyone.
            return;
        }
        let before = (line.had, seat);
        line.had = line.had.max(least) + span;
        if !line.waiting.is_empty() {
            self.order.remove(&before);
            self.order.insert((line.had, seat));
        }
    }

    /// Notes that the driver has emptied the socket; or, if `full`, that more datagrams have arrived meanwhile.
    pub(crate) fn note(&mut self, now: Mono, full: bool) {
        if full {
            self.behind.get_or_insert(now);
        } else {
            self.keeps_up();
        }
        if !self.order.is_empty() {
            self.pressed_until = Some(now + RELIEF);
        }
        if now.since(self.swept_at) >= LATELY {
            self.swept_at = now;
            self.lines.retain(|_, line| !line.waiting.is_empty() || now.since(line.heard_at) < LATELY);
        }
        if self.behind.is_some_and(|since| now.since(since) >= BEHIND) && self.are_several() {
            self.pressed_until = Some(now + RELIEF);
        }
        self.pressed_until = self.pressed_until.filter(|until| *until > now);
    }

    /// Notes that the socket was empty.
    pub(crate) fn keeps_up(&mut self) {
        if self.order.is_empty() {
            self.behind = None;
        }
    }

    /// Notes that datagrams of one system call have kept the driver busy from `begun` until `now`, and that some are
    /// left. Returns whether those have to be put aside.
    pub(crate) fn takes_long(&mut self, begun: Mono, now: Mono) -> bool {
        let long = now.since(begun) >= BEHIND && self.are_several();
        if long {
            self.pressed_until = Some(now + RELIEF);
        }
        long
    }

    /// Whether the driver puts datagrams aside.
    pub(crate) const fn is_pressed(&self) -> bool {
        self.pressed_until.is_some()
    }

    /// How long to handle waiting datagrams, if it took `span` to empty the socket.
    pub(crate) fn slice(span: Duration) -> Duration {
        span.clamp(SLICE, LONGEST)
    }

    /// Whether no datagram waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether more than one peer sent something lately, so that there is something to share.
    fn are_several(&self) -> bool {
        self.lines.len() > 1
    }

    /// Puts a datagram of `len` bytes aside. If the queue is full, returns false and does not call `item`: the caller
    /// drops the datagram.
    pub(crate) fn put(&mut self, now: Mono, seat: Seat, len: usize, item: impl FnOnce() -> T) -> bool {
        let least = self.level.saturating_sub(HEAD_START);
        let line = self.lines.entry(seat).or_insert_with(|| Line::new(least));
        line.heard_at = now;
        let others = self.order.len() - usize::from(!line.waiting.is_empty());
        let len = len + OVERHEAD;
        if line.bytes + len > ROOM / (others + 1) {
            return false;
        }
        if line.waiting.is_empty() {
            line.had = line.had.max(least);
            self.order.insert((line.had, seat));
        }
        line.bytes += len;
        line.waiting.push_back((item(), len));
        true
    }

    /// Takes the next datagram of the peer that has had the least time. The caller [charges](Self::charge) the peer
    /// for it.
    pub(crate) fn take(&mut self) -> Option<(Seat, T)> {
        let (had, seat) = *self.order.first()?;
        let line = self.lines.get_mut(&seat)?;
        let (item, len) = line.waiting.pop_front()?;
        line.bytes -= len;
        self.level = self.level.max(had);
        if line.waiting.is_empty() {
            self.order.remove(&(had, seat));
        }
        Some((seat, item))
    }
}

#[cfg(test)]
impl<T> Shares<T> {
    /// Makes the driver pressed at once, for tests.
    pub(crate) fn press(&mut self, now: Mono) {
        self.pressed_until = Some(now + RELIEF);
    }

    /// The length in bytes of `count` datagrams that together take all room.
    pub(crate) const fn room(count: usize) -> usize {
        ROOM - OVERHEAD * count
    }
}

impl<T> Line<T> {
    const fn new(had: Duration) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, had, heard_at: Mono(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: Duration = Duration::from_micros(1);
    const LEN: usize = 1_400;

    /// A peer that sends a datagram at a fixed interval, with at most `window` of them unanswered. Each takes the
    /// driver a fixed time.
    #[derive(Clone, Copy)]
    struct Sender {
        every: Duration,
        costs: Duration,
        window: u64,
    }

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    struct Fate {
        sent: u64,
        served: u64,
        dropped: u64,
        worked: Duration,
        /// The longest time that a datagram waited.
        waited: Duration,
    }

    /// A driver like the real one, which gets one part in `parts` of its thread's time; an application gets the rest.
    /// The socket has room for `socket` datagrams.
    fn drive(senders: &[Sender], parts: u32, socket: usize, span: Duration) -> Vec<Fate> {
        let (mut shares, mut fates) = (Shares::default(), vec![Fate::default(); senders.len()]);
        let (mut now, mut buffer) = (Mono(0), VecDeque::new());
        let mut due = vec![Mono(0); senders.len()];
        // Lets `span` pass, during which datagrams arrive.
        let pass =
            |now: &mut Mono, span, buffer: &mut VecDeque<_>, fates: &mut Vec<Fate>, due: &mut Vec<Mono>| {
                *now += span;
                while let Some((who, at)) =
                    due.iter().copied().enumerate().min_by_key(|(_, at)| *at).filter(|(_, at)| at <= now)
                {
                    due[who] = at + senders[who].every;
                    let Fate { sent, served, dropped, .. } = fates[who];
                    if sent - served - dropped >= senders[who].window {
                        continue;
                    }
                    fates[who].sent += 1;
                    if buffer.len() < socket {
                        buffer.push_back((who, at));
                    } else {
                        fates[who].dropped += 1;
                    }
                }
            };
        while now < Mono(0) + span {
            let begun = now;
            for _ in 0..16 {
                let batch: Vec<_> = buffer.drain(..buffer.len().min(128)).collect();
                let (full, took_from) = (batch.len() == 128, now);
                for (who, at) in batch {
                    // Reading a datagram takes a little time in any case.
                    pass(&mut now, MICRO / 4, &mut buffer, &mut fates, &mut due);
                    let seat = Seat::from(u32::try_from(who).unwrap());
                    if shares.is_pressed() || shares.takes_long(took_from, now) {
                        if !shares.put(now, seat, LEN, || (who, at)) {
                            fates[who].dropped += 1;
                        }
                        continue;
                    }
                    pass(&mut now, senders[who].costs, &mut buffer, &mut fates, &mut due);
                    shares.charge(now, seat, senders[who].costs);
                    fates[who].serve(senders[who].costs, now.since(at));
                }
                let more = full || now.since(took_from) >= SLICE;
                shares.note(now, more);
                if !more {
                    break;
                }
            }
            let until = now + Shares::<()>::slice(now.since(begun));
            while now < until
                && let Some((seat, (who, at))) = shares.take()
            {
                pass(&mut now, senders[who].costs, &mut buffer, &mut fates, &mut due);
                shares.charge(now, seat, senders[who].costs);
                fates[who].serve(senders[who].costs, now.since(at));
            }
            // The time of the application; or a little time, if there is nothing to do.
            let others = now.since(begun) * (parts - 1);
            pass(&mut now, others.max(MICRO), &mut buffer, &mut fates, &mut due);
        }
        fates
    }

    impl Fate {
        fn serve(&mut self, costs: Duration, waited: Duration) {
            self.served += 1;
            self.worked += costs;
            self.waited = self.waited.max(waited);
        }
    }

    const SECOND: Duration = Duration::from_secs(1);
    const LIGHT: Sender = Sender { every: Duration::from_micros(100), costs: MICRO, window: 64 };
    /// A peer that sends the most expensive datagrams as fast as a processor can make them.
    const DEAR: Sender =
        Sender { every: Duration::from_micros(3), costs: Duration::from_micros(38), window: u64::MAX };
    const HEAVY: Sender = Sender { every: Duration::from_nanos(500), costs: MICRO, window: 1_000 };

    #[test]
    fn a_light_peer_beside_one_that_takes_all_time_loses_nothing() {
        for parts in [1, 2] {
            let [light, dear] = drive(&[LIGHT, DEAR], parts, 4_096, SECOND)[..] else { panic!() };
            assert_eq!(light.dropped, 0, "{parts}: {light:?}");
            assert!(light.sent - light.served < 40, "{light:?}");
            assert!(light.waited < Duration::from_millis(60), "{light:?}");
            assert!(dear.dropped > dear.sent / 2 && dear.served > 1_000, "{dear:?}");
        }
    }

    #[test]
    fn a_socket_with_little_room_is_emptied_in_time() {
        let slow = Sender { every: Duration::from_micros(8), ..DEAR };
        let [light, _] = drive(&[LIGHT, slow], 1, 180, SECOND)[..] else { panic!() };
        // The socket dropped these before the driver was pressed.
        assert!(light.dropped < light.sent / 100, "{light:?}");
    }

    #[test]
    fn a_heavy_peer_has_all_the_time_that_a_light_one_leaves_though_an_application_is_busy() {
        for parts in [1, 2, 10] {
            let [heavy, light] = drive(&[HEAVY, LIGHT], parts, 4_096, SECOND)[..] else { panic!() };
            assert_eq!(light.dropped, 0, "{parts}: {light:?}");
            assert_eq!(heavy.dropped, 0, "{parts}: {heavy:?}");
            // The rest is the time for reading.
            let part = SECOND / parts;
            let worked = heavy.worked + light.worked;
            assert!(worked > part * 7 / 10, "{parts}: {heavy:?}");
        }
    }

    #[test]
    fn a_heavy_peer_alone_loses_nothing_for_its_share_and_nothing_is_put_aside() {
        let mut shares = Shares::default();
        let (mut now, seat) = (Mono(0), Seat::from(1));
        for _ in 0..10_000 {
            assert!(!shares.is_pressed() && !shares.takes_long(Mono(0), now));
            now += MICRO * 300;
            shares.charge(now, seat, MICRO * 300);
            shares.note(now, true);
        }
        shares.charge(now, Seat::from(2), MICRO);
        shares.note(now, true);
        assert!(shares.is_pressed(), "somebody else has come");
        let put = |shares: &mut Shares<()>| shares.put(now, seat, LEN, || ());
        let room = ROOM / (LEN + OVERHEAD);
        assert_eq!((0..room).filter(|_| put(&mut shares)).count(), room, "more than a socket holds");
        assert!(!put(&mut shares));
    }

    #[test]
    fn two_heavy_peers_have_half_of_the_time_each_whatever_a_datagram_costs() {
        let endless = Sender { window: u64::MAX, ..HEAVY };
        let [dear, cheap] = drive(&[DEAR, endless], 1, 4_096, SECOND)[..] else { panic!() };
        let ratio = dear.worked.as_secs_f64() / cheap.worked.as_secs_f64();
        assert!((0.8..1.25).contains(&ratio), "{dear:?} {cheap:?}");
    }

    #[test]
    fn who_was_silent_has_saved_up_no_time() {
        let mut shares = Shares::default();
        let (now, [old, new]) = (Mono(0), [1, 2].map(Seat::from));
        shares.put(now, old, LEN, || ());
        shares.charge(now, old, SECOND);
        shares.put(now, old, LEN, || ());
        shares.take().unwrap();
        shares.charge(now, old, Duration::ZERO);
        for _ in 0..20 {
            shares.put(now, old, LEN, || ());
            shares.put(now, new, LEN, || ());
        }
        let mut turns = Vec::new();
        while let Some((seat, ())) = shares.take() {
            shares.charge(now, seat, HEAD_START / 4);
            turns.push(seat);
        }
        let firsts = turns.iter().take_while(|seat| **seat == new).count();
        assert!((1..8).contains(&firsts), "{turns:?}");
    }

    #[test]
    fn each_of_several_has_its_part_of_the_room() {
        let mut shares = Shares::default();
        let mut fill = |seat: u32| {
            let mut placed = 0;
            while shares.put(Mono(0), Seat::from(seat), LEN, || ()) {
                placed += LEN + OVERHEAD;
            }
            placed
        };
        let parts: Vec<usize> = (1..=4).map(|seat| ROOM / fill(seat)).collect();
        assert_eq!(parts, [1, 2, 3, 4]);
    }

    #[test]
    fn a_driver_that_keeps_up_puts_nothing_aside_and_is_soon_relieved() {
        let mut shares: Shares<()> = Shares::default();
        let mut now = Mono(0);
        for seat in [1, 2] {
            shares.charge(now, Seat::from(seat), MICRO);
        }
        for _ in 0..100 {
            now += BEHIND - MICRO;
            shares.note(now, true);
            shares.note(now, false);
            assert!(!shares.is_pressed());
        }
        shares.note(now, true);
        now += BEHIND;
        shares.note(now, true);
        assert!(shares.is_pressed());
        shares.note(now, false);
        assert!(shares.is_pressed(), "not at once");
        now += RELIEF;
        shares.note(now, false);
        assert!(!shares.is_pressed());
        now += LATELY;
        shares.note(now, true);
        now += BEHIND;
        shares.note(now, true);
        assert!(!shares.is_pressed() && shares.lines.is_empty(), "nobody was heard lately");
    }
}
