//! A message that does not fit into the rest of a packet fills it.

use super::*;
use crate::channel::Fate;
use crate::channel::congestion::{AckInfo, CongestionControl, LossInfo};
use crate::config::CongestionChoice;
use crate::peer::epoch::Carried;
use crate::peer::piece::{Cuts, Next, Piece, Room};
use crate::wire::Bases;

const EMPTY: Room = Room {
    left: 1_400,
    empty: 1_400,
    bases: Bases { sender: 0, receiver: 0 },
    open: None,
    behind: None,
    cuts: Cuts::All,
};
const REST: Room = Room { left: 500, ..EMPTY };

/// The next piece for a packet.
fn next(pair: &mut Pair, room: Room) -> Next {
    let now = pair.now.mono;
    let Node { peers, cx, .. } = &mut pair.ends[0];
    let store = &mut cx.store;
    peers.get_mut(0).unwrap().outbound.next(now, store, room)
}

/// As [`next`], where the piece is a part of a message.
fn part(pair: &mut Pair, room: Room) -> (Slot, Incarnation, core::ops::Range<u64>) {
    let Next::Piece(Piece::Fragment { s, r, range, .. }) = next(pair, room) else {
        panic!("whole, or nothing")
    };
    (s, r, range)
}

/// Messages of 1,001 bytes wait.
fn waiting(messages: usize) -> Pair {
    let mut pair = Pair::open();
    pair.talk(0);
    (0..messages).for_each(|_| _ = pair.send(0, 1_000));
    pair
}

#[test]
fn the_first_part_fills_the_packet_and_the_rest_begins_the_next() {
    let mut pair = waiting(2);
    let (s, r, first) = part(&mut pair, REST);
    assert_eq!(first, 0..REST.part(1_001, 0, s, r));
    assert_eq!(part(&mut pair, EMPTY), (s, r, first.end..1_001));
    assert!(matches!(next(&mut pair, EMPTY), Next::Piece(Piece::Whole { .. })));
}

#[test]
fn the_last_that_waits_goes_whole() {
    let mut pair = waiting(1);
    assert_eq!(next(&mut pair, REST), Next::PacketFull);
    assert!(matches!(next(&mut pair, EMPTY), Next::Piece(Piece::Whole { .. })));
}

#[test]
fn a_small_rest_is_not_filled() {
    let mut pair = waiting(2);
    assert_eq!(next(&mut pair, Room { left: 60, ..REST }), Next::PacketFull);
    let large = Room { empty: 60_000, ..REST };
    assert_eq!(next(&mut pair, large), Next::PacketFull, "of a large packet");
    assert_eq!(part(&mut pair, Room { left: 90, ..REST }).2.start, 0);
}

#[test]
fn calls_are_cut_only_where_all_are_and_nothing_where_none_is() {
    let mut pair = waiting(2);
    assert_eq!(next(&mut pair, Room { cuts: Cuts::None, ..REST }), Next::PacketFull);
    part(&mut pair, Room { cuts: Cuts::Plain, ..REST });
    let mut pair = Pair::open();
    pair.talk(0);
    let (id, body) = (pair.ends[1].id(), Bytes::from(vec![7; 1_000]));
    for _ in 0..2 {
        let call = Outgoing { body: body.clone(), ..Outgoing::default() };
        pair.ends[0].call(pair.now, id, &[], call).unwrap();
    }
    assert_eq!(next(&mut pair, Room { cuts: Cuts::Plain, ..REST }), Next::PacketFull);
    part(&mut pair, REST);
}

#[test]
fn a_part_that_was_lost_goes_again_and_one_that_arrived_does_not() {
    let mut pair = waiting(2);
    let (s, r, first) = part(&mut pair, REST);
    let (.., second) = part(&mut pair, EMPTY);
    let carried = |range: &core::ops::Range<u64>| {
        let len = u32::try_from(range.end - range.start).unwrap();
        Carried::Fragment { r, s, offset: range.start, len }
    };
    pair.apply(0, &mut vec![(carried(&second), Fate::Acked), (carried(&first), Fate::Lost)]);
    assert_eq!(part(&mut pair, EMPTY), (s, r, first.clone()));
    assert!(matches!(next(&mut pair, EMPTY), Next::Piece(Piece::Whole { .. })), "it is the other message");
    pair.apply(0, &mut vec![(carried(&first), Fate::Acked)]);
    assert!(pair.ends[0].cx.store.iter().any(|(_, letter)| letter.acked));
}

#[test]
fn a_message_whose_parts_have_arrived_waits_for_its_state() {
    let mut pair = waiting(2);
    let (s, r, first) = part(&mut pair, REST);
    let at = u32::try_from(first.end).unwrap();
    part(&mut pair, EMPTY);
    let halves = [
        Carried::Fragment { r, s, offset: 0, len: at },
        Carried::Fragment { r, s, offset: first.end, len: 1_001 - at },
    ];
    for (part, acked) in halves.into_iter().zip([0, 1]) {
        pair.apply(0, &mut vec![(part, Fate::Acked)]);
        assert_eq!(pair.ends[0].cx.store.iter().filter(|(_, letter)| letter.acked).count(), acked);
    }
}

#[test]
fn what_was_lost_whole_fills_packets_too() {
    let mut pair = waiting(2);
    let mut lost = Vec::new();
    for _ in 0..2 {
        let Next::Piece(Piece::Whole { s, r, .. }) = next(&mut pair, EMPTY) else { panic!("it fits") };
        lost.push((Carried::Messages { r, s, n: 1 }, Fate::Lost));
    }
    pair.apply(0, &mut lost);
    let (s, r, first) = part(&mut pair, REST);
    assert_eq!(first, 0..REST.part(1_001, 0, s, r));
    assert_eq!(part(&mut pair, EMPTY), (s, r, first.end..1_001));
}

#[test]
fn packets_are_filled_while_the_path_holds_messages_up() {
    let narrow = Config { congestion: CongestionChoice::Fixed(20_000), ..config() };
    let mut pair = Pair::new([narrow, config()]);
    pair.talk(0);
    (0..10).for_each(|_| _ = pair.send(0, 1_000));
    pair.cut(0);
    pair.pump();
    assert_eq!(pair.peer(0).link.cuts(0), None, "they have all left");
    (0..40).for_each(|_| _ = pair.send(0, 1_000));
    pair.pump();
    assert_eq!(pair.peer(0).link.cuts(0), Some(Cuts::All));
    for datagram in pair.mend(0) {
        pair.deliver(1, 0, &datagram);
    }
    pair.pass(SECOND);
    assert_eq!(pair.peer(0).link.cuts(0), None);
    assert_eq!((0..50).filter(|_| pair.ends[1].recv(pair.now).is_some()).count(), 50);
}

#[test]
fn where_packets_are_lost_neither_calls_nor_short_queues_are_cut() {
    let mut pair = waiting(60);
    pair.cut(0);
    pair.pump();
    let withheld = pair.mend(0);
    for datagram in withheld.iter().skip(2) {
        pair.deliver(1, 0, datagram);
    }
    pair.pass(SECOND);
    let link = &mut pair.peer(0).link;
    link.held_up = true;
    let long = 4 * link.recovery.congestion().window();
    assert_eq!((link.cuts(long - 1), link.cuts(long)), (None, Some(Cuts::Plain)));
}

#[test]
fn what_follows_a_message_that_just_fits_is_sent_again_if_it_was_lost() {
    for short in 30..50 {
        let mut pair = Pair::open();
        pair.talk(0);
        let size = usize::from(pair.peer(0).link.recovery.datagram_size());
        pair.send(0, size - short);
        (0..5).for_each(|_| _ = pair.send(0, 1));
        pair.cut(0);
        pair.pump();
        pair.mend(0);
        pair.pass(5 * SECOND);
        assert_eq!(core::iter::from_fn(|| pair.ends[1].recv(pair.now)).count(), 6, "{short}");
    }
}

/// A path that gives this many bytes per second.
#[derive(Debug)]
pub(super) struct Gives(pub(super) u64);

impl CongestionControl for Gives {
    fn on_ack(&mut self, _: AckInfo<'_>) {}

    fn on_loss(&mut self, _: LossInfo) {}

    fn on_persistent_congestion(&mut self, _: Mono) {}

    fn on_mtu(&mut self, _: u16) {}

    fn bandwidth(&self) -> u64 {
        self.0
    }

    fn window(&self) -> u64 {
        1 << 20
    }
}

#[test]
fn nothing_is_cut_where_the_path_takes_more_than_a_gigabit() {
    let mut pair = Pair::open();
    pair.talk(0);
    for (rate, cuts) in [(125_000_000, Some(Cuts::All)), (250_000_000, None)] {
        let now = pair.now.mono;
        let link = &mut pair.peer(0).link;
        link.recovery.on_path_change(now, 1_452, Box::new(Gives(rate)));
        link.held_up = true;
        assert_eq!(link.cuts(0), cuts);
    }
}
