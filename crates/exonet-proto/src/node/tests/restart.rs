//! The effects of the restart of a peer.

use super::judging::Lives;
use super::streams::{heard, say};
use super::*;
use crate::journal::Durability;

/// `ends[1]` is another process, and `ends[0]` learns of it.
fn restarted(pair: &mut Pair, config: Config) {
    pair.restart(1, config);
    pair.send(1, 100);
    pair.pass(10 * MS);
}

#[test]
fn slots_of_a_process_that_is_gone_are_let_go_of() {
    let mut pair = Pair::open();
    pair.talk(0);
    restarted(&mut pair, config());
    let key = pair.send(0, 100);
    pair.pass(SECOND);
    assert!(pair.ends[1].recv(pair.now).is_some());
    pair.pass(SECOND);
    assert!(pair.outcomes().contains(&(key, Outcome::Delivered, false)));
}

#[test]
fn what_is_queued_when_the_peer_restarts_leaves() {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.pass(15 * SECOND);
    pair.cut(0);
    let key = pair.send(0, 100);
    pair.pump();
    assert_eq!((pair.ends[0].status(key), pair.mend(0).len()), (Status::Queued, 1), "an ASK was lost");
    restarted(&mut pair, config());
    pair.pass(5 * SECOND);
    assert!(pair.ends[1].recv(pair.now).is_some());
    pair.pass(SECOND);
    assert!(pair.outcomes().contains(&(key, Outcome::Delivered, false)));
}

#[test]
fn what_became_of_tokens_is_asked_at_once() {
    // If more slots are wanted, the node asks for them, and the answer also tells the fates of tokens. With one slot, all have
    // been asked for. A message that is not large would leave again, which asks as well.
    for slots in [100, 1] {
        let limits = Limits { slots, ..Limits::default() };
        let mut pair = Pair::new([config(), limited(limits)]);
        pair.talk(0);
        let key = pair.send(0, 100_000);
        pair.pass(10 * SECOND + 300 * MS);
        restarted(&mut pair, config());
        assert!(pair.outcomes().contains(&(key, Outcome::Unknown, false)), "{slots}");
    }
}

#[test]
fn what_became_of_calls_is_asked_at_once() {
    let serving = Config { serves: true, ..config() };
    let mut pair = Pair::new([config(), serving.clone()]);
    let key = pair.call(0);
    pair.pass(SECOND);
    assert!(pair.ends[1].take_any_call(pair.now).is_some());
    pair.pass(20 * SECOND);
    restarted(&mut pair, serving);
    assert!(pair.outcomes().contains(&(key, Outcome::Unknown, false)));
}

/// Time passes, and what the peer writes meanwhile is safe soon.
fn pass(lives: &mut Lives, span: Duration) {
    for _ in 0..10 {
        lives.pair.pass(span / 10);
        lives.write();
    }
}

/// The peer has its record again, from its journal, and nothing of what its former process held.
#[test]
fn what_the_former_process_held_leaves_again_at_once() {
    let mut lives = Lives::new(Durability::Written);
    lives.pair.talk(0);
    for _ in 0..300 {
        say(&mut lives.pair, 0, "a", "1");
    }
    let cut = [20_000, 2_000].map(|size| lives.pair.send(0, size));
    pass(&mut lives, SECOND);
    lives.die();
    lives.pair.send(1, 100);
    pass(&mut lives, 100 * MS);
    assert_eq!(heard(&mut lives.pair, 1, "a").len(), 300);
    assert!(cut.iter().all(|_| lives.pair.ends[1].recv(lives.pair.now).is_some()));
    pass(&mut lives, SECOND);
    let outcomes = lives.pair.outcomes();
    assert_eq!(outcomes.len(), 303);
    assert!(outcomes.iter().all(|(_, outcome, _)| *outcome == Outcome::Delivered));
}
