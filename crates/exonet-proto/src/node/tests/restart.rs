//! The effects of the restart of a peer.

use super::*;

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
    // been asked for.
    for slots in [100, 1] {
        let limits = Limits { slots, ..Limits::default() };
        let mut pair = Pair::new([config(), limited(limits)]);
        pair.talk(0);
        let key = pair.send(0, 100);
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
