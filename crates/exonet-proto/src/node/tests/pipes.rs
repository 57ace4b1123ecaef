//! Connections in place of datagrams.

mod world;

use rand_chacha::ChaCha12Rng;
use rand_core::{RngCore, SeedableRng};

use self::world::{CONTROL, ROOM, World};
use super::*;

#[test]
fn messages_go_both_ways_over_a_connection_and_nothing_is_repeated() {
    let mut world = World::new(Carrier::Tcp);
    // At first the delay is far longer than any probe timeout.
    world.delay = 900 * MS;
    let keys: Vec<_> = (0..300).map(|n| world.send(0, n, 3_000).unwrap()).collect();
    world.pass(60 * SECOND);
    let answers: Vec<_> = (0..300).map(|n| world.send(1, n, 3_000).unwrap()).collect();
    world.pass(60 * SECOND);
    let all = |keys: &[MessageKey]| keys.iter().map(|key| (*key, Outcome::Delivered)).collect::<Vec<_>>();
    let sorted = |outcomes: &[(MessageKey, Outcome)]| {
        let mut outcomes = outcomes.to_vec();
        outcomes.sort_by_key(|(key, _)| *key);
        outcomes
    };
    assert_eq!(sorted(&world.outcomes[0]), all(&keys));
    assert_eq!(sorted(&world.outcomes[1]), all(&answers));
    assert_eq!(world.taken.each_ref().map(Vec::len), [300; 2]);
    assert_eq!(world.ends.each_ref().map(|end| end.stats().packets_lost), [0; 2]);
    assert!(world.most > ROOM / 2 && world.most <= ROOM + CONTROL, "{}", world.most);
    assert_eq!(world.opened, 1);
}

#[test]
fn whatever_happens_to_connections_each_message_comes_once() {
    // With the last seed, the path on trial has a longer round trip than three probe timeouts of the active path.
    for seed in (0..100).chain([924]) {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let mut world = World::new(if seed % 3 == 0 { Carrier::Auto } else { Carrier::Tcp });
        let (mut sent, auto) = ([0_u64; 2], seed % 3 == 0);
        for _ in 0..150 {
            match rng.next_u32() % 13 {
                0 => world.cut(),
                1 => world.lines.iter_mut().for_each(|line| line.is_numb = true),
                2 => world.takes = !world.takes,
                3 if auto => world.passes[(rng.next_u32() % 2) as usize] ^= true,
                4 => world.look(),
                12 => {
                    let now = world.now;
                    world.ends[(rng.next_u32() % 2) as usize].rebind(now);
                }
                5 => world.delay = MS * (1 + rng.next_u32() % 300),
                n => {
                    let from = (n % 2) as usize;
                    // The server may not know where the client is.
                    for _ in 0..rng.next_u32() % 20 {
                        let size = 8 + (rng.next_u32() % 5_000) as usize;
                        sent[from] += u64::from(world.send(from, sent[from], size).is_ok());
                    }
                }
            }
            world.pass(MS * (rng.next_u32() % 700));
        }
        world.takes = true;
        // The datagrams of the client open a path for the server.
        for _ in 0..20 {
            sent[0] += u64::from(world.send(0, sent[0], 8).is_ok());
            world.pass(10 * SECOND);
            world.look();
        }
        for (from, sent) in sent.into_iter().enumerate() {
            let taken = &mut world.taken[1 - from];
            taken.sort_unstable();
            assert!(taken.iter().copied().eq(0..sent), "seed {seed}: {sent} were sent by {from}: {taken:?}");
            let outcomes = &world.outcomes[from];
            assert_eq!(outcomes.len() as u64, sent, "seed {seed}");
            assert!(outcomes.iter().all(|(_, outcome)| *outcome == Outcome::Delivered), "seed {seed}");
        }
        assert!(world.most <= ROOM + 4 * CONTROL, "seed {seed}: {}", world.most);
        // Everything is forgotten in the end, and no connection is kept.
        world.pass(200 * SECOND);
        world.look();
        assert!(world.lines.is_empty(), "seed {seed}");
        assert_eq!(world.ends.each_ref().map(|end| end.stats().peers), [0; 2], "seed {seed}");
    }
}

#[test]
fn where_datagrams_are_blocked_either_way_a_connection_is_opened_within_a_second() {
    for passes in [[false, false], [true, false], [false, true]] {
        let mut world = World::new(Carrier::Auto);
        world.send(0, 0, 100).unwrap();
        world.pass(SECOND);
        world.send(1, 0, 100).unwrap();
        world.pass(SECOND);
        assert_eq!((world.is_piped(), world.opened), ([false; 2], 0));
        world.passes = passes;
        world.send(0, 1, 100).unwrap();
        world.pass(SECOND);
        world.send(1, 1, 100).unwrap();
        world.pass(SECOND);
        assert_eq!(
            (world.taken.each_ref().map(Vec::len), world.is_piped()),
            ([2; 2], [true; 2]),
            "{passes:?}"
        );
    }
}

#[test]
fn where_datagrams_never_pass_first_contact_takes_a_connection() {
    let mut world = World::new(Carrier::Auto);
    world.passes = [false; 2];
    world.send(0, 0, 100).unwrap();
    world.pass(SECOND);
    assert_eq!((world.taken[1].len(), world.is_piped(), world.opened), (1, [true; 2], 1));
}

#[test]
fn a_channel_comes_back_to_datagrams_and_waits_longer_after_each_relapse() {
    let mut world = World::new(Carrier::Auto);
    let mut n = 0;
    let mut keep = |world: &mut World, span: Duration| {
        for _ in 0..span.as_secs() {
            n += 1;
            world.send(0, n, 100).unwrap();
            world.pass(SECOND);
            world.look();
        }
    };
    keep(&mut world, SECOND);
    for wait in [10, 20, 40] {
        world.passes = [false; 2];
        keep(&mut world, 3 * SECOND);
        assert_eq!(world.is_piped(), [true; 2]);
        world.passes = [true; 2];
        keep(&mut world, (wait - 5) * SECOND);
        assert_eq!(world.is_piped(), [true; 2], "not yet, of {wait} s");
        keep(&mut world, 5 * SECOND);
        assert_eq!((world.is_piped(), world.lines.len()), ([false; 2], 0), "after {wait} s");
    }
    assert_eq!(world.taken[1].len() as u64, n);
}

#[test]
fn a_trial_of_datagrams_in_vain_disturbs_nothing() {
    let mut world = World::new(Carrier::Auto);
    world.passes = [false; 2];
    for n in 0..60 {
        world.send(0, n, 100).unwrap();
        world.pass(SECOND);
        world.look();
    }
    assert_eq!((world.taken[1].len(), world.opened, world.is_piped()), (60, 1, [true; 2]));
    assert_eq!(world.ends.each_ref().map(|end| end.stats().packets_lost), [0; 2]);
}

#[test]
fn a_node_of_connections_hears_no_datagrams() {
    let mut world = World::new(Carrier::Tcp);
    world.passes = [true; 2];
    world.takes = false;
    let mut opening = {
        let mut other = World::new(Carrier::Udp);
        other.send(0, 0, 100).unwrap();
        other.passes = [true; 2];
        other.speak();
        other.datagrams.pop_front().unwrap().2
    };
    let now = world.now;
    world.ends[1].handle_datagram(now, arrival(0), &mut opening);
    assert!(world.ends[1].poll_transmit(now, 16, &mut Vec::new()).is_none());
    world.send(0, 0, 100).unwrap();
    world.pass(10 * SECOND);
    assert_eq!((world.datagrams.len(), world.wishes.len()), (0, 1), "nor says any");
}

#[test]
fn a_connection_that_no_opening_came_by_carries_nothing() {
    let mut world = World::new(Carrier::Tcp);
    world.send(0, 0, 100).unwrap();
    world.pass(SECOND);
    assert_eq!(world.taken[1].len(), 1);
    // An attacker on the path copies the client's packets to a connection of its own.
    world.send(0, 1, 100).unwrap();
    world.speak();
    let (now, strays) = (world.now, world.ends[1].stats().strays);
    let mut copy = world.lines[0].under_way[0].back().unwrap().1.clone();
    let pipe = world.ends[1].pipe_accepted(ROOM);
    let arrival = Arrival { pipe: Some(pipe), ..arrival(8) };
    world.ends[1].handle_datagram(now, arrival, &mut copy);
    assert_eq!(world.ends[1].stats().strays, strays + 1);
    assert!(!world.ends[1].uses_pipe(pipe));
    world.pass(SECOND);
    assert_eq!(world.taken[1].len(), 2);
}

#[test]
fn an_answer_by_a_connection_that_was_not_asked_is_none() {
    let mut world = World::new(Carrier::Auto);
    world.send(0, 0, 100).unwrap();
    world.speak();
    world.now.mono += world.delay;
    world.hear();
    world.speak();
    // An attacker takes the answer out of the network, and delivers it by a connection of its own.
    let (_, from, mut answer) = world.datagrams.pop_front().unwrap();
    let pipe = Some(world.ends[0].pipe_accepted(ROOM));
    let now = world.now;
    world.ends[0].handle_datagram(now, Arrival { pipe, ..arrival(from) }, &mut answer);
    assert_eq!((world.ends[0].stats().strays, world.ends[0].stats().handshakes), (1, 0));
    world.pass(SECOND);
    assert_eq!((world.taken[1].len(), world.is_piped()), (1, [false; 2]));
}

#[test]
fn a_connection_that_has_gone_numb_is_replaced_also_while_new_keys_are_wanted() {
    // After a minute the channel is forgotten, and its connection with it.
    for (carrier, waits, opened) in [(Carrier::Tcp, 0, 2), (Carrier::Tcp, 60, 3), (Carrier::Auto, 0, 2)] {
        let mut world = World::new(carrier);
        world.passes = [false; 2];
        world.send(0, 0, 100).unwrap();
        world.pass(SECOND);
        world.lines[0].is_numb = true;
        let now = world.now;
        world.ends[0].rebind(now);
        world.pass(waits * SECOND);
        world.send(0, 1, 100).unwrap();
        world.pass(10 * SECOND);
        assert_eq!((world.taken[1].len(), world.opened), (2, opened), "{carrier:?}, {waits} s");
    }
}

#[test]
fn a_silent_connection_is_replaced_at_once_when_the_network_is_back() {
    for (silent, opened) in [(100 * MS, 1), (300 * MS, 2)] {
        let mut world = World::new(Carrier::Tcp);
        world.send(0, 0, 100).unwrap();
        world.pass(SECOND);
        world.lines[0].is_numb = true;
        world.send(0, 1, 100).unwrap();
        world.pass(silent);
        let now = world.now;
        world.ends[0].hasten(now);
        // The wish for a connection is heard in the second.
        (0..2).for_each(|_| world.pass(50 * MS));
        assert_eq!((world.taken[1].len(), world.opened), (opened, opened), "{silent:?}");
    }
}

#[test]
fn who_is_heard_and_acknowledges_nothing_gets_a_connection() {
    let mut world = World::new(Carrier::Auto);
    world.send(0, 0, 100).unwrap();
    world.pass(SECOND);
    // The server's data for the client still arrives, and is not acknowledged either.
    world.passes = [false, true];
    for n in 0..100 {
        world.send(1, n, 100).unwrap();
        if n == 50 {
            world.send(0, 1, 100).unwrap();
        }
        world.pass(40 * MS);
    }
    assert_eq!((world.taken.each_ref().map(Vec::len), world.is_piped()), ([100, 2], [true; 2]));
    assert_eq!(world.opened, 1);
}

#[test]
fn who_waits_for_a_peer_that_is_gone_has_little_to_do() {
    for (carrier, most) in [(Carrier::Tcp, 1_000), (Carrier::Auto, 1_000)] {
        let mut world = World::new(carrier);
        world.passes = [false; 2];
        world.send(0, 0, 100).unwrap();
        world.pass(SECOND);
        assert_eq!(world.is_piped(), [true; 2]);
        (world.takes, world.turns) = (false, 0);
        world.lines[0].is_numb = true;
        world.send(0, 1, 100).unwrap();
        world.pass(600 * SECOND);
        assert!(world.turns < most, "{carrier:?}: {}", world.turns);
        world.takes = true;
        world.cut();
        world.pass(10 * SECOND);
        assert_eq!(world.taken[1].len(), 2, "{carrier:?}");
    }
}
