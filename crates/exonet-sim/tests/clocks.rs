//! Everything arrives exactly once, whatever clocks show.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::common::{MS, SECOND, all_delivered, bad_link, forgotten, open, settled};
use exonet_proto::node::{Config, Outcome};
use exonet_sim::{ClockConfig, LinkConfig, Serving, World};

const DAY: i64 = 86_400;
const YEAR: i64 = 365 * DAY;

/// The node whose clock is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Sender,
    Receiver,
    /// The sender's, and the receiver's in the other direction.
    Both,
}

/// Name, initial offset in seconds, and the seconds by which the clock is set before each further round, in turn.
const CLOCKS: [(&str, i64, &[i64]); 20] = [
    ("seconds ahead", 3, &[0]),
    ("seconds behind", -3, &[0]),
    ("a minute ahead", 60, &[0]),
    ("a minute behind", -60, &[0]),
    ("a day ahead", DAY, &[0]),
    ("a day behind", -DAY, &[0]),
    ("years ahead", 3 * YEAR, &[0]),
    ("years behind", -3 * YEAR, &[0]),
    ("at 1970", -60 * YEAR, &[0]),
    ("in 2100", 77 * YEAR, &[0]),
    ("above the largest number", 200 * YEAR, &[0]),
    ("at 1970, then right", -60 * YEAR, &[60 * YEAR, 0, 0, 0]),
    ("in 2100, then right", 77 * YEAR, &[-77 * YEAR, 0, 0, 0]),
    ("above the largest number, then right", 200 * YEAR, &[-200 * YEAR, 0, 0, 0]),
    ("running back by seconds", 0, &[-3]),
    ("running back by days", 0, &[-DAY]),
    ("running ahead by hours", 0, &[3_600]),
    ("jumping by minutes", 0, &[60, -60]),
    ("jumping by days", 0, &[DAY, -2 * DAY]),
    ("jumping by years", 0, &[-YEAR, YEAR, 10 * YEAR, -10 * YEAR]),
];

#[test]
fn everything_arrives_once_whatever_clocks_show() {
    for (seed, (name, start, steps)) in (0..).zip(CLOCKS) {
        for whose in [Whose::Sender, Whose::Receiver, Whose::Both] {
            let what = format!("{whose:?} {name}");
            let mut world = World::new(seed, bad_link(0.1));
            let nodes = [world.add(open(), true), world.add(open(), true)];
            let wrong = [(whose != Whose::Receiver, 1), (whose != Whose::Sender, -1)].map(|(is, sign)| {
                let sign = if whose == Whose::Both { sign } else { 1 };
                if is { sign } else { 0 }
            });
            for (node, sign) in nodes.into_iter().zip(wrong) {
                world.set_clock(node, ClockConfig { skew_seconds: sign * start, ..ClockConfig::default() });
            }
            // The pauses are longer than the life of a channel, and than the memory of a forgotten peer.
            for (round, pause) in [1, 100, 1, 1_000, 40, 1_000, 100, 5_000].into_iter().enumerate() {
                let back = if round % 2 == 0 { 1 } else { 0 };
                world.send(nodes[0], nodes[1], 100).unwrap();
                world.send(nodes[back], nodes[1 - back], 100).unwrap();
                settled(&mut world, 3 * SECOND, &format!("{what}, round {round}"));
                world.run_for(SECOND * pause);
                for (node, sign) in nodes.into_iter().zip(wrong) {
                    world.set_wall(node, sign * steps[round % steps.len()]);
                }
            }
            all_delivered(&world, &what);
            forgotten(&mut world, &nodes, 20, &what);
        }
    }
}

/// Like the test above, but the clocks are set while messages are in flight, and the test does not wait between
/// rounds.
#[test]
fn everything_arrives_once_whenever_clocks_are_set() {
    for (seed, (name, start, steps)) in (0..).zip(CLOCKS) {
        let mut world = World::new(seed, bad_link(0.2));
        let nodes = [world.add(open(), true), world.add(open(), true)];
        world.set_wall(nodes[0], start);
        for round in 0..40 {
            let from = world.dice().below(2) as usize;
            world.send(nodes[from], nodes[1 - from], 100).unwrap();
            let pause = MS * u32::try_from(world.dice().below(60_000)).unwrap();
            world.run_for(pause);
            let whose = world.dice().below(2) as usize;
            world.set_wall(nodes[whose], steps[round % steps.len()]);
        }
        settled(&mut world, 300 * MS, name);
        all_delivered(&world, name);
    }
}

/// A first call leaves under a stamp, like a first message; its id does not come from a wall clock.
#[test]
fn calls_run_once_and_are_answered_whatever_clocks_show() {
    for (seed, (name, start, steps)) in (0..).zip(CLOCKS) {
        let mut world = World::new(seed, bad_link(0.1));
        let serving = Config { serves: true, early: true, ..open() };
        let nodes = [world.add(serving.clone(), true), world.add(serving, true)];
        for node in nodes {
            world.serve(node, Serving { within: 2_000 * MS, size: 300, ..Serving::default() });
        }
        world.set_wall(nodes[0], start);
        for (round, pause) in [1, 100, 1, 1_000, 40, 5_000].into_iter().enumerate() {
            world.call(nodes[0], nodes[1], 100).unwrap();
            world.call(nodes[1], nodes[0], 100).unwrap();
            settled(&mut world, 6 * SECOND, &format!("{name}, round {round}"));
            world.run_for(SECOND * pause);
            world.set_wall(nodes[round % 2], steps[round % steps.len()]);
        }
        all_delivered(&world, name);
    }
}

/// A sender measures its patience by its own clock.
#[test]
fn a_sender_whose_clock_runs_fast_gives_up_in_its_own_time() {
    let mut world = World::new(1, LinkConfig { loss: 1.0, ..LinkConfig::perfect(10 * MS) });
    let patient = Config { doubt_timeout: Some(120 * SECOND), ..open() };
    let (a, b) = (world.add(patient, false), world.add(open(), true));
    world.set_clock(a, ClockConfig { drift_ppm: 200, ..ClockConfig::default() });
    let number = world.send(a, b, 100).unwrap();
    world.run_for(120 * SECOND);
    assert_eq!(world.ledger.outcome_of(number), Some(Outcome::Unknown));
    assert_eq!(world.ledger.violations(), []);
}
