//! Pooled messages that are given up behind an older open one: the peer keeps what has arrived of them for as long as the
//! frontier stands still.

use rand_chacha::ChaCha12Rng;
use rand_core::{RngCore, SeedableRng};

use super::*;
use crate::message::lane::Lane;

const WINDOW: u64 = 64 << 10;

fn small_pool() -> Pair {
    let mut pair = Pair::new([config(), limited(Limits { pool_window: WINDOW, ..Limits::default() })]);
    pair.talk(0);
    pair
}

/// A message leaves, and only the first of its packets arrives.
fn send_a_part(pair: &mut Pair, size: usize) -> MessageKey {
    pair.cut(0);
    let key = pair.send(0, size);
    pair.pump();
    let said = pair.mend(0);
    pair.deliver(1, 0, &said[0]);
    key
}

fn is_open(pair: &Pair, key: MessageKey) -> bool {
    pair.ends[0].status(key) != Status::Settled
}

#[test]
fn what_the_peer_still_holds_counts_as_open() {
    for size in [5_000, 20_000, 40_000, 50_000] {
        let mut pair = small_pool();
        let older = pair.send(0, 10_000);
        pair.pass(SECOND);
        let parts = send_a_part(&mut pair, size);
        pair.ends[0].abandon(pair.now, parts);
        pair.pass(SECOND);
        let next = pair.send(0, 60_000 - size / 2);
        pair.pass(SECOND);
        assert_eq!(pair.ends[0].status(next), Status::Queued, "{size}: no more than the window is under way");
        assert!(pair.ends[1].recv(pair.now).is_some());
        pair.pass(2 * SECOND);
        assert!(!is_open(&pair, older));
        assert!(pair.ends[1].recv(pair.now).is_some(), "{size}: there is room for it now");
        pair.pass(SECOND);
        assert!(!is_open(&pair, next));
        assert_eq!(pair.ends[1].stats().dropped_for_room, 0, "{size}: it could be kept when it came");
    }
}

#[test]
fn an_early_message_that_is_given_up_holds_nothing_up() {
    let small = limited(Limits { pool_window: WINDOW, ..Limits::default() });
    let mut pair = Pair::new([Config { early: true, ..config() }, small]);
    pair.now.wall = Wall(1_800_000_000_000_000_000);
    pair.cut(0);
    let early = pair.send(0, 800);
    pair.pump();
    assert!(matches!(pair.ends[0].status(early), Status::InDoubt { .. }), "it left with the opening");
    let next = pair.send(0, 65_000);
    pair.ends[0].abandon(pair.now, early);
    let said = pair.mend(0);
    pair.deliver(1, 0, &said[0]);
    pair.pass(SECOND);
    assert_ne!(pair.ends[0].status(next), Status::Queued, "the grant has passed what was given up");
    assert_eq!(pair.peer(0).outbound.open.bytes, 65_001);
}

#[test]
fn what_was_given_up_goes_with_the_record() {
    let mut pair = small_pool();
    let older = pair.send(0, 10_000);
    pair.pass(SECOND);
    let parts = send_a_part(&mut pair, 40_000);
    pair.ends[0].abandon(pair.now, parts);
    assert_eq!(pair.peer(0).outbound.open.bytes, 50_002);
    pair.ends[1].finish(pair.now);
    pair.pass(SECOND);
    assert_eq!(pair.ends[0].status(older), Status::Queued, "the peer has not taken it");
    assert_eq!(pair.peer(0).outbound.open.bytes, 0);
}

/// Parts of later messages make room: they may be parts of messages that are not sent any more.
#[test]
fn an_older_message_is_not_kept_out_by_parts_of_later_ones() {
    for whole in [true, false] {
        let limits = Limits { pool_window: WINDOW, ..Limits::default() };
        let (mut inbound, _, r) = granted(8, &limits);
        for s in [3, 5, 4] {
            let part = take_part(&mut inbound, (Slot(s), r), 20_000, 0, &[1; 1_000], &limits);
            assert_eq!(part, Taken::Partly);
        }
        let older = |inbound: &mut Inbound, s: u64| match whole {
            true => inbound.on_whole(s..s + 1, r, &Lane::Plain, 10_000, &limits),
            false => take_part(inbound, (Slot(s), r), 10_000, 0, &[1; 1_000], &limits),
        };
        assert_eq!(older(&mut inbound, 7), Taken::NoRoom, "nothing later is there");
        assert_ne!(older(&mut inbound, 1), Taken::NoRoom);
        assert_eq!(inbound.held.bytes(), 50_000);
        assert_eq!(
            inbound.next_have().map(|held| (held.s, held.prefix)),
            Some((Slot(5), 0)),
            "it comes again"
        );
    }
}

/// Messages of any size are sent and given up in any order, over a path that loses a fifth of the packets. Messages that are not
/// given up arrive, and the sender never assumes that it may send more than the peer takes.
#[test]
fn whatever_is_given_up_the_rest_arrives() {
    for seed in 0..20 {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let mut below = |n: u32| rng.next_u32() % n;
        let mut pair = small_pool();
        // One message was sent and taken before.
        let (mut open, mut taken) = (Vec::new(), 1);
        for _ in 0..300 {
            match below(8) {
                0..=2 => open.push(pair.send(0, 1 + below(60_000) as usize)),
                3 | 4 if !open.is_empty() => {
                    let at = below(u32::try_from(open.len()).unwrap()) as usize;
                    pair.ends[0].abandon(pair.now, open.swap_remove(at));
                }
                5 => taken += usize::from(pair.ends[1].recv(pair.now).is_some()),
                _ => {}
            }
            pair.cut(0);
            pair.pass(Duration::from_millis(u64::from(below(40))));
            for datagram in pair.mend(0) {
                if below(5) > 0 {
                    pair.deliver(1, 0, &datagram);
                }
            }
            pair.pump();
            open.retain(|key| is_open(&pair, *key));
        }
        for _ in 0..400 {
            pair.pass(100 * MS);
            taken += core::iter::from_fn(|| pair.ends[1].recv(pair.now)).count();
        }
        let stuck: Vec<_> = open.iter().filter(|key| is_open(&pair, **key)).collect();
        assert!(stuck.is_empty(), "seed {seed}: {stuck:?}");
        let delivered =
            pair.outcomes().iter().filter(|(_, outcome, _)| *outcome == Outcome::Delivered).count();
        assert!(delivered <= taken && taken > 10, "seed {seed}: {delivered} of {taken}");
        assert_eq!(pair.ends[1].stats().violations, 0, "seed {seed}");
        // A peer that has sent nothing for long enough is forgotten, with everything that was held for it.
        let held = pair.ends[1].peers.get_mut(0).map(|peer| peer.inbound.held.bytes());
        assert_eq!(held.unwrap_or_default(), 0, "seed {seed}");
    }
}

#[test]
fn a_peer_is_given_up_in_whatever_order_its_messages_stand() {
    let mut pair = Pair::open();
    // Places in the store are reused in the opposite order.
    let first: Vec<_> = (0..500).map(|_| pair.send(0, 100)).collect();
    let now = pair.now;
    first.into_iter().for_each(|key| assert_eq!(pair.ends[0].cancel(now, key), Ok(Cancel::Done)));
    for i in 0..500 {
        pair.send(0, if i % 5 == 0 { 100_000 } else { 100 });
    }
    let to = pair.ends[1].id();
    pair.ends[0].abandon_peer(now, &to);
    pair.events.extend(core::iter::from_fn(|| pair.ends[0].poll_event()));
    assert_eq!(
        pair.outcomes().iter().filter(|(_, outcome, _)| *outcome == Outcome::Cancelled).count(),
        1_000
    );
    assert_eq!(pair.ends[0].stats().open_messages, 0);
    // Later messages are not held up by earlier ones.
    pair.talk(0);
    let large = pair.send(0, 100_000);
    pair.pass(SECOND);
    assert!(pair.ends[1].recv(pair.now).is_some());
    pair.pass(SECOND);
    assert!(pair.outcomes().contains(&(large, Outcome::Delivered, false)));
}
