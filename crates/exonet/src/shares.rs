//! Peers share the driver's time.
//!
//! A datagram of an admitted peer may cost forty times what another does. If all were worked on in the order in which they come, the
//! peer that sends the dearest, as fast as it can, would leave next to nothing to the others: their datagrams would wait
//! in the socket behind its own, until that is full and the system drops them.
//!
//! So the driver measures what each peer's datagrams take ([`Shares::charge`]). As long as it keeps up with the socket,
//! nothing else happens. Once it has not for [`BEHIND`], it is *pressed*: it empties the socket into a queue for each
//! peer ([`Shares::put`]), which is much faster than working on what is in it, and then works on the datagram of the peer that has had the
//! least time ([`Shares::take`]), one after the other. Each peer so has an equal part of the time, as far as it wants it, and what
//! one does not want is shared by the others. No time is left unused, and a peer is never refused time that nobody
//! else wants.
//!
//! A datagram is dropped only where the queue of its peer is full: the peer then sends more than its part. All queues share
//! [`ROOM`]. A peer that takes less than its part never has more than a few datagrams in its queue, and loses none.
//!
//! A peer is known by the channel index of the datagram, before anything is decrypted. An observer of datagrams can write that
//! index on others, and so take the part of the peer with that index, but of no other peer. A datagram without a known index
//! belongs to no peer; the driver looks at it at once, which costs little. Openings have a share of their own (`openings.rs`).

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use exonet_proto::Mono;
use exonet_proto::node::Seat;

/// The driver is pressed when it has been behind with the socket for so long.
const BEHIND: Duration = Duration::from_millis(2);

/// And it is not any more when nothing has been left waiting for so long.
const RELIEF: Duration = Duration::from_millis(50);

/// What waits is worked on for so long before the socket is emptied again, and for as long at least as that took last: what comes
/// meanwhile fits into the buffer of most systems.
const SLICE: Duration = Duration::from_micros(200);
const LONGEST: Duration = Duration::from_millis(2);

/// A peer that was silent for so long does not count.
const LATELY: Duration = Duration::from_secs(1);

/// Bytes that may wait, if one peer has any waiting. Of several, each has its part of it.
const ROOM: usize = 4 << 20;

/// What a datagram that waits takes beside its bytes.
const OVERHEAD: usize = 128;

/// A peer that has not wanted any time is ahead of the others by so much when it does.
const HEAD_START: Duration = Duration::from_millis(1);

#[derive(Debug)]
struct Line<T> {
    waiting: VecDeque<(T, usize)>,
    bytes: usize,
    /// Time that it had, or that it could have had and did not want.
    had: Duration,
    heard_at: Mono,
}

/// How much of the driver's time each peer has had, and which datagrams wait for it.
#[derive(Debug)]
pub(crate) struct Shares<T> {
    /// The peers that were heard lately.
    lines: BTreeMap<Seat, Line<T>>,
    /// Those of them for whom something waits, by the time that they had.
    order: BTreeSet<(Duration, Seat)>,
    /// The time of the peers that had a turn last: no peer is far below it.
    level: Duration,
    /// The driver has been behind with the socket since then.
    behind: Option<Mono>,
    /// So long it stays pressed at least.
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
    /// Datagrams of a peer were worked on for `span`.
    pub(crate) fn charge(&mut self, now: Mono, seat: Seat, span: Duration) {
        let least = self.level.saturating_sub(HEAD_START);
        let line = self.lines.entry(seat).or_insert_with(|| Line::new(least));
        line.heard_at = now;
        if self.pressed_until.is_none() && line.waiting.is_empty() {
            // While nobody has to wait nobody takes anything from others.
            return;
        }
        let before = (line.had, seat);
        line.had = line.had.max(least) + span;
        if !line.waiting.is_empty() {
            self.order.remove(&before);
            self.order.insert((line.had, seat));
        }
    }

    /// The driver has taken what there was in the socket, which is `full` if there is more by now.
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

    /// There was nothing in the socket.
    pub(crate) fn keeps_up(&mut self) {
        if self.order.is_empty() {
            self.behind = None;
        }
    }

    /// What has come at once has taken the driver from `begun` until `now`, and is not done: the rest of it is to wait.
    pub(crate) fn takes_long(&mut self, begun: Mono, now: Mono) -> bool {
        let long = now.since(begun) >= BEHIND && self.are_several();
        if long {
            self.pressed_until = Some(now + RELIEF);
        }
        long
    }

    /// Whether datagrams are to be put aside.
    pub(crate) const fn is_pressed(&self) -> bool {
        self.pressed_until.is_some()
    }

    /// For how long to work on what waits, after the socket was emptied in `span`.
    pub(crate) fn slice(span: Duration) -> Duration {
        span.clamp(SLICE, LONGEST)
    }

    /// Nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// More than one peer was heard lately: there is somebody to share with.
    fn are_several(&self) -> bool {
        self.lines.len() > 1
    }

    /// Puts a datagram of `len` bytes aside. False: it is dropped, and `item` is not made.
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

    /// The next datagram of the peer that has had the least time. What it takes is to be [charged](Self::charge).
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
    /// As if the driver had been behind for long.
    pub(crate) fn press(&mut self, now: Mono) {
        self.pressed_until = Some(now + RELIEF);
    }

    /// The bytes of `count` datagrams that take all room.
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

    /// A peer that sends a datagram every so often, each of which takes so long; but never has more than `window` on their way.
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
        /// The longest that one has waited.
        waited: Duration,
    }

    /// A driver as ours, which has one part in `parts` of its thread's time, beside an application that has the rest. The socket
    /// has room for `socket` datagrams.
    fn drive(senders: &[Sender], parts: u32, socket: usize, span: Duration) -> Vec<Fate> {
        let (mut shares, mut fates) = (Shares::default(), vec![Fate::default(); senders.len()]);
        let (mut now, mut buffer) = (Mono(0), VecDeque::new());
        let mut due = vec![Mono(0); senders.len()];
        // The time goes on by `span`, in which datagrams come.
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
                    // To read one takes a little, whatever is done with it.
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
            // The application's time; or a little, if there is nothing to do.
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
    /// The dearest that there is, as fast as a processor makes them.
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
        // What was there before the driver was pressed.
        assert!(light.dropped < light.sent / 100, "{light:?}");
    }

    #[test]
    fn a_heavy_peer_has_all_the_time_that_a_light_one_leaves_though_an_application_is_busy() {
        for parts in [1, 2, 10] {
            let [heavy, light] = drive(&[HEAVY, LIGHT], parts, 4_096, SECOND)[..] else { panic!() };
            assert_eq!(light.dropped, 0, "{parts}: {light:?}");
            assert_eq!(heavy.dropped, 0, "{parts}: {heavy:?}");
            // The rest is for reading.
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
