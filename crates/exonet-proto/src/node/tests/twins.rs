//! Two nodes with one identity: how a peer finds out, what does not show it, and what follows.

use super::*;
use crate::node::Conflict;
use crate::{Generation, Lineage, Stay};

/// A node with the key of `ends[1]`, started with this clock.
fn twin(pair: &Pair, clock: u64, seed: u8) -> Node {
    twin_of(pair, Stay::default(), clock, seed)
}

/// A node with the key of `ends[1]`, at this place, started with this clock.
fn twin_of(pair: &Pair, stay: Stay, clock: u64, seed: u8) -> Node {
    let key = SecretKey::from_bytes(pair.ends[1].cx.key.expose().to_owned());
    let boot = Boot::Stored {
        clock,
        life: clock >> 40,
        latest: crate::id::Stamp::NONE,
        strays: Vec::new(),
        notes: None,
        journal: None,
    };
    let mut node = Node::new(Config { stay, ..config() }, key, boot, [seed; 32], pair.now);
    let batch = node.poll_persist().unwrap();
    node.handle_persisted(pair.now, batch.lsn);
    node
}

/// One of the places to which an identity that was made elsewhere may have moved.
fn first_move(lineage: u64) -> Stay {
    Stay { generation: Generation(1), lineage: Lineage(lineage) }
}

/// `ends[1]` has talked, and then another node in its place. Returns the first one.
fn taken_turns(first: u64, second: u64) -> (Pair, Node) {
    let mut pair = Pair::open();
    pair.ends[1] = twin(&pair, first, 21);
    pair.talk(1);
    let second = twin(&pair, second, 22);
    let first = std::mem::replace(&mut pair.ends[1], second);
    (pair, first)
}

fn conflicts(pair: &Pair) -> usize {
    pair.events.iter().filter(|event| matches!(event, Event::IdentityConflict { .. })).count()
}

/// What `ends[1]` knows about a conflict with its peer.
fn told(pair: &Pair) -> Option<Conflict> {
    pair.ends[1].conflict(&pair.ends[0].id())
}

/// `ends[1]` opens anew, and has the keys. Returns what it sends under them.
fn confirmation(pair: &mut Pair) -> Vec<Vec<u8>> {
    let id = pair.ends[0].id();
    let place = pair.ends[1].peers.find(&id).unwrap();
    pair.ends[1].peers.get_mut(place).unwrap().link.reopen = true;
    pair.touch(1);
    for (_, said) in pair.says(1) {
        pair.deliver(0, 1, &said);
    }
    for (_, said) in pair.says(0) {
        pair.deliver(1, 0, &said);
    }
    pair.says(1).into_iter().map(|(_, said)| said).collect()
}

#[test]
fn who_comes_back_after_another_is_a_conflict() {
    let (mut pair, mut first) = taken_turns(1 << 40, 1 << 41);
    pair.talk(1);
    assert_eq!(conflicts(&pair), 0, "a later life");
    std::mem::swap(&mut pair.ends[1], &mut first);
    let key = pair.send(1, 100);
    pair.pass(5 * SECOND);
    assert_eq!((conflicts(&pair), told(&pair)), (1, Some(Conflict::Ours)));
    assert!(pair.ends[0].recv(pair.now).is_none());
    let outcome = core::iter::from_fn(|| pair.ends[1].poll_event()).find_map(|event| match event {
        Event::Outcome { key: settled, outcome, .. } if settled == key => Some(outcome),
        _ => None,
    });
    assert!(matches!(outcome, Some(Outcome::Unknown | Outcome::Cancelled)), "{outcome:?}");
}

#[test]
fn a_base_that_is_not_above_the_one_before_is_a_conflict() {
    for second in [1 << 40, 1 << 39] {
        let (mut pair, _) = taken_turns(1 << 40, second);
        pair.send(1, 100);
        pair.pass(5 * SECOND);
        assert_eq!((conflicts(&pair), told(&pair)), (1, Some(Conflict::Ours)), "{second}");
        assert!(pair.ends[0].recv(pair.now).is_none());
    }
}

#[test]
fn a_late_packet_of_a_former_life_is_no_conflict() {
    let mut pair = Pair::open();
    pair.ends[1] = twin(&pair, 1 << 40, 21);
    pair.talk(1);
    let late = confirmation(&mut pair);
    assert!(!late.is_empty());
    pair.ends[1] = twin(&pair, 1 << 41, 22);
    pair.talk(1);
    let strays = pair.ends[0].counts().strays;
    for packet in &late {
        pair.deliver(0, 1, packet);
    }
    assert!(pair.ends[0].counts().strays > strays, "it has come under keys that were pending");
    pair.talk(1);
    pair.talk(0);
    assert_eq!((conflicts(&pair), told(&pair)), (0, None));
}

#[test]
fn nothing_is_taken_from_an_opening_that_may_be_a_copys() {
    for (second, taken) in [(1 << 41, true), (1 << 40, false)] {
        let mut pair = Pair::open();
        pair.ends[1] = twin(&pair, 1 << 40, 21);
        pair.talk(1);
        pair.pass(12 * SECOND);
        assert!(pair.peer(0).inbound.receiver.is_none(), "what the first has used is forgotten");
        pair.ends[1] = twin(&pair, second, 22);
        pair.now.wall = Wall(1_800_000_000_000_000_000);
        pair.ends[1].cx.config.early = true;
        pair.send(1, 100);
        for (_, said) in pair.says(1) {
            pair.deliver(0, 1, &said);
        }
        assert_eq!(pair.ends[1].counts().early_sent, 1);
        assert_eq!(pair.ends[0].recv(pair.now).is_some(), taken, "{second}");
    }
}

/// What `ends[0]` has said reaches `ends[1]`, which can write down what it has to.
fn reach(pair: &mut Pair, said: &[(SocketAddr, Vec<u8>)]) {
    for (_, said) in said {
        pair.deliver(1, 0, said);
    }
    while let Some(batch) = pair.ends[1].poll_persist() {
        pair.ends[1].handle_persisted(pair.now, batch.lsn);
    }
}

/// `ends[1]` has moved, and `ends[0]` has met the later generation, with which it has no channel any more. Returns what `ends[1]` has
/// left behind.
fn moved() -> (Pair, Node) {
    let mut pair = Pair::open();
    pair.ends[1] = twin(&pair, 1 << 40, 21);
    pair.talk(1);
    let later = twin_of(&pair, first_move(1), 1 << 48, 22);
    let left = std::mem::replace(&mut pair.ends[1], later);
    pair.talk(1);
    pair.with(0, |peer, cx, now| peer.drop_channel(cx, now));
    (pair, left)
}

/// `ends[0]`, which has no channel, sends a message early. Returns what it says.
fn sends_early(pair: &mut Pair) -> Vec<(SocketAddr, Vec<u8>)> {
    pair.pass(12 * SECOND);
    pair.now.wall = Wall(1_800_000_000_000_000_000);
    pair.ends[0].cx.config.early = true;
    pair.send(0, 100);
    let said = pair.says(0);
    assert_eq!(pair.ends[0].counts().early_sent, 1);
    said
}

#[test]
fn what_is_left_behind_takes_nothing_that_comes_early_for_the_later_generation() {
    let (mut pair, left) = moved();
    let said = sends_early(&mut pair);

    let later = std::mem::replace(&mut pair.ends[1], left);
    let stranger = twin(&pair, 1 << 41, 23);
    for copy in [stranger, later] {
        reach(&mut pair, &said);
        assert!(pair.ends[1].recv(pair.now).is_none(), "nothing is taken");
        assert!(pair.says(1).is_empty(), "an answer would end the opening");
        pair.ends[1] = copy;
    }
    reach(&mut pair, &said);
    assert!(pair.ends[1].recv(pair.now).is_some(), "the same opening brings the message to the new place");
}

/// A checkpoint was restored twice. The second holder has begun later, so it would pass for the next life of the first.
#[test]
fn of_two_holders_of_one_generation_the_peer_keeps_the_one_that_it_has_met() {
    let mut pair = Pair::open();
    pair.ends[1] = twin(&pair, 1 << 40, 21);
    pair.talk(1);
    pair.ends[1] = twin_of(&pair, first_move(1), 1 << 48, 22);
    pair.talk(1);
    let second = twin_of(&pair, first_move(2), (1 << 48) + (1 << 40), 23);
    let first = std::mem::replace(&mut pair.ends[1], second);
    pair.send(1, 100);
    pair.pass(5 * SECOND);
    assert!(pair.ends[0].recv(pair.now).is_none(), "nothing of the second is taken");
    assert_eq!(told(&pair), Some(Conflict::Moved));

    pair.with(0, |peer, cx, now| peer.drop_channel(cx, now));
    let said = sends_early(&mut pair);
    reach(&mut pair, &said);
    assert!(pair.ends[1].recv(pair.now).is_none(), "the second takes nothing");
    pair.ends[1] = first;
    reach(&mut pair, &said);
    assert!(pair.ends[1].recv(pair.now).is_some(), "the first goes on");
    pair.talk(1);
    assert_eq!((conflicts(&pair), told(&pair)), (0, None));
}

#[test]
fn what_is_left_behind_learns_from_an_opening_that_its_identity_has_moved() {
    let (mut pair, left) = moved();
    pair.send(0, 100);
    let said = pair.says(0);
    pair.ends[1] = left;
    reach(&mut pair, &said);
    assert_eq!(told(&pair), Some(Conflict::Moved));
}

#[test]
fn an_opening_that_is_replayed_is_no_conflict() {
    let mut pair = Pair::open();
    pair.ends[1] = twin(&pair, 1 << 40, 21);
    pair.send(1, 100);
    let recorded: Vec<_> = pair.says(1).into_iter().map(|(_, said)| said).collect();
    pair.talk(1);
    pair.ends[1] = twin(&pair, 1 << 41, 22);
    pair.talk(1);
    // The answer to this reaches no node.
    for packet in &recorded {
        pair.deliver(0, 1, packet);
    }
    pair.talk(1);
    pair.talk(0);
    assert_eq!((conflicts(&pair), told(&pair)), (0, None));
}

#[test]
fn both_are_told_at_once() {
    let (mut pair, mut first) = taken_turns(1 << 40, 1 << 41);
    pair.talk(1);
    std::mem::swap(&mut pair.ends[1], &mut first);
    for packet in confirmation(&mut pair) {
        pair.deliver(0, 1, &packet);
    }
    let words: Vec<_> = pair.says(0).into_iter().map(|(_, said)| said).collect();
    for end in 0..2 {
        for word in &words {
            pair.deliver(1, 0, word);
        }
        assert_eq!(told(&pair), Some(Conflict::Ours), "{end}");
        std::mem::swap(&mut pair.ends[1], &mut first);
    }
}

#[test]
fn a_conflict_outlives_the_peer() {
    let (mut pair, _) = taken_turns(1 << 40, 1 << 40);
    pair.send(1, 100);
    pair.pass(200 * SECOND);
    assert_eq!((conflicts(&pair), pair.ends[0].peers.len()), (1, 0));
    // A later life is told too: it is not known what the other one has done meanwhile.
    pair.ends[1] = twin(&pair, 1 << 42, 23);
    pair.send(1, 100);
    pair.pass(5 * SECOND);
    assert!(pair.ends[0].recv(pair.now).is_none());
    assert_eq!((conflicts(&pair), told(&pair)), (1, Some(Conflict::Ours)));
    // So is a process that does not know about it.
    let key = pair.send(0, 100);
    pair.pass(5 * SECOND);
    assert!(pair.outcomes().contains(&(key, Outcome::Cancelled, false)), "it has never left");
}

#[test]
fn who_was_told_tells_who_has_forgotten() {
    let (mut pair, _) = taken_turns(1 << 40, 1 << 40);
    pair.send(1, 100);
    pair.pass(5 * SECOND);
    pair.restart(0, config());
    let key = pair.send(0, 100);
    pair.events.clear();
    pair.pass(5 * SECOND);
    assert_eq!(pair.ends[0].conflict(&pair.ends[1].id()), Some(Conflict::Theirs));
    assert!(pair.outcomes().iter().any(|(of, outcome, _)| *of == key && *outcome != Outcome::Delivered));
}

#[test]
fn a_close_of_any_other_code_ends_the_channel_alone() {
    for code in [0, 1, 7, 10] {
        let mut pair = Pair::open();
        pair.talk(0);
        let mut datagram = Vec::new();
        pair.epoch(1).seal(&mut datagram, 64, |_, writer| {
            writer.close(code);
        });
        pair.deliver(0, 1, &datagram);
        assert!(!pair.peer(0).link.is_connected());
        assert_eq!(conflicts(&pair), 0);
    }
}
