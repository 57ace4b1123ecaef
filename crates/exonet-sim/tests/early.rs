//! First messages in the opening: one trip where clocks agree, exactly once whatever clocks show.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::common::{
    MS, SECOND, all_delivered, bad_link, forgotten, forgotten_after_copies, open, pair, settled,
};
use exonet_proto::node::{Config, Early, Outcome, Outgoing, Stats};
use exonet_sim::{ClockConfig, Disk, LinkConfig, NodeIndex, World};

const YEAR: i64 = 365 * 86_400;

fn stats(world: &World, node: NodeIndex) -> Stats {
    world.node(node).unwrap().stats()
}

/// Two nodes with disks; the clock of the first one is ahead by `skew_seconds`.
fn askew(seed: u64, link: LinkConfig, skew_seconds: i64) -> (World, NodeIndex, NodeIndex) {
    let mut world = World::new(seed, link);
    let (a, b) = (world.add(open(), true), world.add(open(), true));
    world.set_clock(a, ClockConfig { skew_seconds, ..ClockConfig::default() });
    (world, a, b)
}

#[test]
fn a_first_message_takes_one_trip() {
    let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS));
    world.send(a, b, 900).unwrap();
    world.run_for(10 * MS);
    assert_eq!(world.ledger.totals().taken, 1, "after one way");
    assert_eq!(world.ledger.totals().delivered, 0);
    world.run_for(10 * MS);
    assert_eq!(world.ledger.totals().delivered, 1, "told after one round trip");
    assert_eq!((stats(&world, a).early_sent, stats(&world, b).early_received), (1, 1));
    forgotten(&mut world, &[a, b], 20, "a first message");
}

#[test]
fn what_fits_goes_at_once_and_the_rest_follows() {
    let mut world = World::new(1, LinkConfig::perfect(100 * MS));
    // The messages queue until the sender may send.
    let (a, b) = (world.add_on(open(), Some(Disk::slow(50 * MS))), world.add(open(), false));
    for size in [0, 300, 300, 300, 300, 20_000] {
        world.send(a, b, size).unwrap();
    }
    world.run_for(150 * MS);
    assert_eq!(world.ledger.totals().taken, 4, "0 and thrice 300 fit");
    settled(&mut world, SECOND, "the rest");
    all_delivered(&world, "the rest");
}

#[test]
fn who_wants_forward_secrecy_waits_for_the_channel() {
    for (config, early) in [
        (Config { early: false, ..open() }, Early::AsNode),
        (open(), Early::No),
        (Config { early: false, ..open() }, Early::Yes),
    ] {
        let mut world = World::new(1, LinkConfig::perfect(10 * MS));
        let (a, b) = (world.add(config.clone(), false), world.add(open(), true));
        world.send_as(a, b, 100, Outgoing { early, ..Outgoing::default() }).unwrap();
        world.run_for(10 * MS);
        assert_eq!(world.ledger.totals().taken, u64::from(early == Early::Yes), "{early:?}");
        settled(&mut world, 300 * MS, "by the channel");
        all_delivered(&world, "by the channel");
    }
}

#[test]
fn a_loss_of_either_datagram_costs_time_and_nothing_else() {
    for seed in 0..200 {
        let link = LinkConfig { loss: 0.5, ..bad_link(0.5) };
        let (mut world, a, b) = pair(seed, link);
        for _ in 0..3 {
            world.send(a, b, 200).unwrap();
        }
        settled(&mut world, 15 * SECOND, &format!("seed {seed}"));
        all_delivered(&world, &format!("seed {seed}"));
        forgotten_after_copies(&mut world, &[a, b], 200, &format!("seed {seed}"));
    }
}

/// Clocks decide how fast messages arrive, never whether they do.
#[test]
fn clocks_that_are_wrong_cost_speed_and_nothing_else() {
    let skews = [1, 8, 30, 3_600, 86_400, 70 * YEAR];
    for skew in skews.iter().flat_map(|skew| [*skew, -skew]) {
        let (mut world, a, b) = askew(1, LinkConfig::perfect(10 * MS), skew);
        for round in 0..4 {
            world.send(a, b, 100).unwrap();
            world.send(b, a, 100).unwrap();
            settled(&mut world, 300 * MS, &format!("{skew} s ahead, round {round}"));
            all_delivered(&world, &format!("{skew} s ahead, round {round}"));
            // In half of the rounds the peer is forgotten except for its bound, in the others it is not.
            world.run_for(if round % 2 == 0 { 100 * SECOND } else { 1_000 * SECOND });
        }
        forgotten(&mut world, &[a, b], 20, &format!("{skew} s ahead"));
    }
}

#[test]
fn a_sender_far_ahead_goes_the_slow_way_once_and_learns() {
    let (mut world, a, b) = askew(1, LinkConfig::perfect(10 * MS), 3_600);
    world.send(a, b, 100).unwrap();
    settled(&mut world, 300 * MS, "the slow way");
    let refused = stats(&world, a);
    assert_eq!((refused.early_sent, refused.early_slowed, refused.early_rejected), (1, 1, 0));
    let why = stats(&world, b);
    assert!(why.stamps_astray > 0);
    assert_eq!((why.stamps_stale, why.stamps_ahead), (0, 0));
    // The sender knows by how much its clock is wrong, and the peer knows that its stamp was ahead: later stamps are
    // below the peer's bound.
    world.run_for(100 * SECOND);
    world.send(a, b, 100).unwrap();
    settled(&mut world, 300 * MS, "slow as well");
    all_delivered(&world, "either way");
}

/// The receiver's clock was ahead for a while, so `latest` stays ahead. A stamp between the two need not wait.
#[test]
fn a_receiver_whose_clock_was_set_back_takes_first_messages() {
    let (mut world, a, b) = askew(1, LinkConfig::perfect(10 * MS), 3_600);
    let other = world.add(open(), false);
    world.set_wall(other, 86_400);
    world.set_wall(b, 86_400);
    world.send(other, b, 100).unwrap();
    settled(&mut world, 300 * MS, "`latest` has followed");
    world.set_wall(b, -86_400);
    world.send(a, b, 100).unwrap();
    settled(&mut world, 300 * MS, "above the bound, below `latest`");
    all_delivered(&world, "both");
    assert_eq!(stats(&world, a).early_slowed, 0);
    assert_eq!(world.disk(b).unwrap().strays, [], "no stray");
}

/// The receiver's clock was years ahead when it took stamps, and is right when it starts again: no sender is slower
/// for it.
#[test]
fn a_start_after_a_clock_of_the_future_costs_nothing() {
    let (mut world, a, b) = askew(1, LinkConfig::perfect(10 * MS), 0);
    world.set_wall(b, 77 * YEAR);
    for _ in 0..3 {
        world.send(a, b, 100).unwrap();
        settled(&mut world, 300 * MS, "in 2100");
        world.run_for(100 * SECOND);
    }
    world.set_wall(b, -77 * YEAR);
    world.crash(b);
    let other = world.add(open(), false);
    for from in [a, other] {
        world.send(from, b, 100).unwrap();
        settled(&mut world, 300 * MS, "in our time");
    }
    all_delivered(&world, "either way");
    assert_eq!(stats(&world, other).early_slowed, 0);
}

/// The power failed with a `latest` that the clock has yet to reach: that slows one batch of each sender, not every
/// one.
#[test]
fn what_a_peer_has_forgotten_is_remembered_of_it() {
    let (mut world, a, b) = askew(1, LinkConfig::perfect(10 * MS), 0);
    world.send(a, b, 100).unwrap();
    settled(&mut world, 300 * MS, "`latest` is written");
    world.cut_power(b);
    world.set_wall(b, -86_400);
    world.set_wall(a, -86_400);
    world.run_for(100 * SECOND);
    // Two of the pauses are longer than the memory of a forgotten peer.
    for (round, pause) in [100, 100, 1_000, 2_000, 1].into_iter().enumerate() {
        let number = world.send(a, b, 100).unwrap();
        settled(&mut world, 300 * MS, "a day ago");
        let outcome = if round == 0 { Outcome::Unknown } else { Outcome::Delivered };
        assert_eq!(world.ledger.outcome_of(number), Some(outcome), "round {round}");
        world.run_for(SECOND * pause);
    }
    // A day later, first messages take one trip again.
    world.run_for(SECOND * 86_400);
    let early = stats(&world, a).early_sent;
    world.send(a, b, 100).unwrap();
    world.run_for(10 * MS);
    assert_eq!((stats(&world, a).early_sent, stats(&world, b).early_received), (early + 1, 1));
}

/// Processes start again, and clocks are wrong by any amount, at either end, before or after: that costs trips, but no
/// message becomes uncertain.
#[test]
fn restarts_under_wrong_clocks_leave_nothing_unknown() {
    let skews = [5, 60, 86_400, 70 * YEAR];
    let skews = skews.iter().flat_map(|skew| [*skew, -skew]);
    for (skew, wrong, dies) in skews.flat_map(|skew| [0, 1].map(|wrong| (skew, wrong, 1 - wrong))).flat_map(
        |(skew, wrong, other)| {
            [(skew, wrong, vec![wrong]), (skew, wrong, vec![other]), (skew, wrong, vec![0, 1])]
        },
    ) {
        let what = format!("the clock of {wrong} is {skew} s ahead, and {dies:?} start again");
        let (mut world, a, b) = askew(1, LinkConfig::perfect(10 * MS), 0);
        let nodes = [a, b];
        let say = |world: &mut World| {
            world.send(a, b, 100).unwrap();
            world.send(b, a, 100).unwrap();
            settled(world, 300 * MS, &what);
        };
        let start = |world: &mut World| {
            world.run_for(100 * SECOND);
            dies.iter().for_each(|at| world.crash(nodes[*at]));
        };
        say(&mut world);
        world.set_wall(nodes[wrong], skew);
        start(&mut world);
        say(&mut world);
        start(&mut world);
        say(&mut world);
        // The clock is set right, and that costs nothing either.
        world.set_wall(nodes[wrong], -skew);
        start(&mut world);
        say(&mut world);
        start(&mut world);
        say(&mut world);
        all_delivered(&world, &what);
        forgotten(&mut world, &nodes, 20, &what);
    }
}

/// A first message is in flight when the receiver starts again: it ends Unknown only if it had been taken.
#[test]
fn a_first_message_that_never_ran_is_not_unknown() {
    let mut outcomes = [0; 2];
    for (at, skew) in (0..45).flat_map(|at| [0, 3_600, -3_600].map(|skew| (at, skew))) {
        let (mut world, a, b) = askew(1, LinkConfig::perfect(10 * MS), skew);
        world.run_for(SECOND);
        // The receiver's datagrams are lost for a while.
        world.set_link(b, a, LinkConfig { loss: 1.0, ..LinkConfig::perfect(10 * MS) });
        let number = world.send(a, b, 100).unwrap();
        world.run_for(MS * at);
        let taken = world.ledger.totals().taken;
        world.crash(b);
        world.set_link(b, a, LinkConfig::perfect(10 * MS));
        settled(&mut world, 30 * SECOND, &format!("{at} ms, {skew} s"));
        let expected = if taken > 0 { Outcome::Unknown } else { Outcome::Delivered };
        assert_eq!(world.ledger.outcome_of(number), Some(expected), "{at} ms, {skew} s");
        outcomes[taken as usize] += 1;
    }
    assert!(outcomes.iter().all(|count| *count > 20), "{outcomes:?}");
}

/// A sender's clock was far ahead once. As soon as it is right, the sender's first messages take one trip, though the
/// receiver remembers.
#[test]
fn a_sender_that_was_ahead_once_recovers_by_itself() {
    for skew in [60, YEAR] {
        let (mut world, a, b) = askew(1, LinkConfig::perfect(10 * MS), skew);
        world.send(a, b, 100).unwrap();
        settled(&mut world, 300 * MS, "far ahead");
        assert_eq!((stats(&world, a).early_slowed, world.disk(b).unwrap().strays.len()), (1, 1));
        world.run_for(100 * SECOND);
        world.set_wall(a, -skew);
        // The sender has forgotten its former clock; the receiver remembers it, and starts again too.
        world.crash(a);
        world.crash(b);
        world.run_for(SECOND);
        world.send(a, b, 100).unwrap();
        world.run_for(10 * MS);
        assert_eq!(world.ledger.totals().taken, 2, "{skew} s: after one way");
        settled(&mut world, 300 * MS, "right");
        all_delivered(&world, "both");
    }
}

#[test]
fn clocks_that_are_set_while_messages_are_under_way() {
    for seed in 0..100 {
        let (mut world, a, b) = askew(seed, bad_link(0.2), 0);
        for _ in 0..20 {
            let (from, to) = if world.dice().chance(0.5) { (a, b) } else { (b, a) };
            world.send(from, to, 100).unwrap();
            let pause = MS * u32::try_from(world.dice().below(40_000)).unwrap();
            world.run_for(pause);
            let by = [0, 5, -5, 60, -60, 86_400, -86_400, YEAR, -YEAR][world.dice().below(9) as usize];
            let whose = if world.dice().chance(0.5) { a } else { b };
            world.set_wall(whose, by);
        }
        settled(&mut world, 300 * MS, &format!("seed {seed}"));
        all_delivered(&world, &format!("seed {seed}"));
        forgotten(&mut world, &[a, b], 100, &format!("seed {seed}"));
    }
}

/// Every datagram ever sent arrives again, at once, hours later, when all is forgotten, and after crashes: nothing is
/// delivered again.
#[test]
fn replays_of_everything_deliver_nothing() {
    for seed in 0..24 {
        let skew = [0, 3_600, -3_600][seed as usize % 3];
        let (mut world, a, b) = askew(seed, LinkConfig { loss: 0.1, ..LinkConfig::perfect(10 * MS) }, skew);
        world.wiretap.recording = true;
        for _ in 0..3 {
            world.send(a, b, 100).unwrap();
            settled(&mut world, 800 * MS, &format!("seed {seed}"));
            world.run_for(200 * SECOND);
        }
        world.wiretap.recording = false;
        let tape: Vec<_> = world.wiretap.recorded.drain(..).collect();
        for (after, crashes) in [(0, false), (400, false), (40_000, false), (0, true), (400, true)] {
            world.run_for(SECOND * after);
            if crashes {
                world.crash(b);
            }
            for datagram in &tape {
                world.inject(datagram.from, datagram.to, datagram.data.clone());
                world.run_for(3 * MS);
            }
            assert_eq!(world.ledger.violations(), [], "seed {seed}, {after} s, {crashes}");
            assert_eq!(world.ledger.totals().taken, 3, "seed {seed}");
        }
        forgotten_after_copies(&mut world, &[a, b], 20, &format!("seed {seed}"));
    }
}

/// A refused stamp of a stray is remembered across restarts: messages that it sent before the crash are not delivered
/// after it.
#[test]
fn a_stray_is_remembered_across_crashes() {
    for skew in [60, 3_600] {
        let (mut world, a, b) = askew(1, LinkConfig::perfect(10 * MS), skew);
        world.wiretap.recording = true;
        world.send(a, b, 100).unwrap();
        settled(&mut world, 300 * MS, "a stray");
        assert_eq!(world.disk(b).unwrap().strays.len(), 1);
        let tape: Vec<_> = world.wiretap.recorded.drain(..).collect();
        world.wiretap.recording = false;
        world.crash(b);
        // By now its stamp is in the past.
        world.run_for(SECOND * u32::try_from(2 * skew).unwrap());
        world.send(b, a, 10).unwrap();
        let at = world.address(b).unwrap();
        for datagram in tape.iter().filter(|datagram| datagram.to == at) {
            world.inject(datagram.from, datagram.to, datagram.data.clone());
            world.run_for(100 * MS);
        }
        settled(&mut world, 300 * MS, "nothing came again");
        assert_eq!(world.ledger.totals().taken, 2);
    }
}

/// Far more senders with future clocks than a disk should store: those above the limit end Unknown, and are told why.
#[test]
fn strays_beyond_the_cap_are_rejected() {
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let host = world.add(open(), true);
    let mut last = None;
    for _ in 0..1_026 {
        let node = world.add(open(), false);
        world.set_clock(node, ClockConfig { skew_seconds: YEAR, ..ClockConfig::default() });
        last = Some(world.send(node, host, 10).unwrap()).map(|number| (node, number));
        world.run_for(50 * MS);
        if stats(&world, node).early_rejected == 0 {
            world.remove(node);
        }
    }
    let (node, number) = last.unwrap();
    world.run_for(SECOND);
    assert_eq!(world.ledger.outcome_of(number), Some(Outcome::Unknown));
    assert_eq!((stats(&world, node).early_rejected, stats(&world, host).stamps_ahead), (1, 2));
    // The sender has learned: its next message goes the slow way, since its stamp is not above its bound or is not
    // sent.
    let number = world.send(node, host, 10).unwrap();
    world.run_for(SECOND);
    assert_eq!(world.ledger.outcome_of(number), Some(Outcome::Delivered));
    assert_eq!(world.ledger.violations(), []);
}

#[test]
fn an_application_that_does_not_read_holds_nothing_up_for_long() {
    let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS));
    world.set_reads(b, false);
    for _ in 0..50 {
        world.send(a, b, 100).unwrap();
    }
    world.run_for(5 * SECOND);
    assert_eq!(world.ledger.totals().delivered, 0);
    assert_eq!(stats(&world, b).waiting, 50, "all have come");
    world.set_reads(b, true);
    settled(&mut world, 300 * MS, "it reads");
    all_delivered(&world, "it reads");
}

#[test]
fn a_slow_disk_delays_the_first_stamp_and_loses_nothing() {
    for seed in 0..20 {
        let mut world = World::new(seed, bad_link(0.1));
        let slow = Some(Disk::slow(400 * MS));
        let (a, b) = (world.add(open(), true), world.add_on(open(), slow));
        world.run_for(SECOND);
        for _ in 0..5 {
            world.send(a, b, 100).unwrap();
            let pause = SECOND * u32::try_from(world.dice().below(90)).unwrap();
            world.run_for(pause);
            if world.dice().chance(0.3) {
                world.crash(b);
            }
        }
        settled(&mut world, 300 * MS, &format!("seed {seed}"));
        forgotten(&mut world, &[a, b], 20, &format!("seed {seed}"));
    }
}
