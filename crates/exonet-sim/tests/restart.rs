//! A receiver that is killed and comes back: the messages to it that end Unknown.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use core::time::Duration;

use crate::common::{MS, SECOND, open, settled};
use exonet_sim::{LinkConfig, World};

/// Messages a second.
const RATE: u64 = 2_000;

/// How long the receiver is away.
const AWAY: [Duration; 5] =
    [Duration::ZERO, Duration::from_millis(3), Duration::from_millis(40), SECOND, Duration::from_secs(3)];

/// The outcomes of the traffic to a stored receiver.
struct Course {
    /// Messages that ended Unknown.
    unknown: u64,
    /// Messages that were delivered within 200 ms of its return.
    soon: u64,
}

/// A stored receiver is killed amid steady traffic at [`RATE`], over a round trip of 20 ms, and is back after `away`.
fn killed(seed: u64, away: Duration, loss: f64) -> Course {
    let link = LinkConfig { loss, ..LinkConfig::perfect(10 * MS) };
    let mut world = World::new(seed, link);
    let (sender, receiver) = (world.add(open(), false), world.add(open(), true));
    let gap = SECOND / RATE as u32;
    let steady = |world: &mut World, span: Duration| {
        let until = world.now() + span;
        while world.now() < until {
            world.send(sender, receiver, 100).unwrap();
            world.run_for(gap);
        }
    };
    let before = Duration::from_micros(world.dice().below(500_000));
    steady(&mut world, SECOND / 2 + before);
    world.kill(receiver);
    steady(&mut world, away);
    let delivered = world.ledger.totals().delivered;
    world.boot(receiver);
    steady(&mut world, 200 * MS);
    let soon = world.ledger.totals().delivered - delivered;
    settled(&mut world, 3 * SECOND, &format!("seed {seed}"));
    Course { unknown: world.ledger.totals().unknown, soon }
}

#[test]
fn only_what_was_under_way_is_in_doubt_when_a_receiver_is_killed() {
    for seed in 0..100 {
        let away = AWAY[seed as usize % AWAY.len()];
        let Course { unknown, soon } = killed(seed, away, 0.0);
        assert!((1..100).contains(&unknown), "seed {seed}, away for {away:?}: {unknown} Unknown");
        // A receiver that is away for longer is probed less often. The sender notices by itself only after a second.
        assert!(away >= SECOND || soon > 100, "seed {seed}, away for {away:?}: {soon} soon");
    }
}

#[test]
fn losses_do_not_make_more_of_it_doubtful() {
    for seed in 100..150 {
        let away = AWAY[seed as usize % AWAY.len()];
        let Course { unknown, .. } = killed(seed, away, 0.05);
        assert!(unknown < 150, "seed {seed}, away for {away:?}: {unknown} Unknown");
    }
}
