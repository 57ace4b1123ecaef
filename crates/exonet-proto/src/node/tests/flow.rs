//! The figures of a peer for a watcher.

use super::*;

fn flow(pair: &Pair, end: usize) -> PeerFlow {
    pair.ends[end].peer_flow(pair.now, &pair.ends[1 - end].id()).unwrap()
}

#[test]
fn what_goes_between_two_nodes_is_counted_at_both() {
    let mut pair = Pair::open();
    for _ in 0..3 {
        pair.talk(0);
    }
    let (near, far) = (flow(&pair, 0), flow(&pair, 1));
    assert_eq!((near.messages_out, near.messages_in), (3, 0));
    assert_eq!((far.messages_out, far.messages_in), (0, 3));
    assert_eq!((near.bytes_out, near.bytes_in), (far.bytes_in, far.bytes_out));
    assert!(near.bytes_out > 300);
    assert_eq!((near.presence, near.oldest_in_doubt), (Presence::Up, None));
}

#[test]
fn the_oldest_message_in_doubt_is_the_one_that_was_bound_first_and_is_still_open() {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.cut(1);
    let first = pair.send(0, 100);
    pair.pass(2 * SECOND);
    pair.send(0, 100);
    pair.pass(SECOND);
    assert_eq!(flow(&pair, 0).oldest_in_doubt, Some(3 * SECOND));
    pair.ends[0].abandon(pair.now, first);
    assert!(flow(&pair, 0).oldest_in_doubt.is_some_and(|age| age <= SECOND));
}

#[test]
fn a_peer_that_does_not_answer_is_opening_then_away_and_one_that_is_not_needed_is_idle() {
    let mut pair = Pair::open();
    pair.cut(0);
    pair.send(0, 100);
    pair.pump();
    assert_eq!(flow(&pair, 0).presence, Presence::Opening);
    pair.pass(5 * SECOND);
    assert_eq!(flow(&pair, 0).presence, Presence::Away);
    let mut pair = Pair::open();
    pair.talk(0);
    pair.peer(0).link.current = None;
    assert_eq!(flow(&pair, 0).presence, Presence::Idle);
}
