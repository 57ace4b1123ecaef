//! A member of a balanced group whose link turns slow, and fast again.

use super::*;

/// A message is sent every so often: five times in the round trip of a fast link.
const EVERY: Duration = Duration::from_millis(2);

/// Sends `messages` messages, each to the cheapest member. Returns how many copies the first member got, and how many the
/// others.
fn spread(world: &mut World, crew: &mut Crew, messages: usize) -> [usize; 2] {
    let begun = crew.log.len();
    for _ in 0..messages {
        assert!(crew.send(world, Mode::Balanced { k: 1 }, 100, Confirm::Delivered, None));
        crew.run_for(world, EVERY);
    }
    let first = crew.members[0];
    let got = crew.log[begun..].iter().filter(|to| **to == first).count();
    [got, crew.log.len() - begun - got]
}

/// A round trip of 8 to 10 ms, and one of 200 ms.
fn link(delay: Duration) -> LinkConfig {
    LinkConfig { jitter: MS, ..LinkConfig::perfect(delay) }
}

const FAST: Duration = Duration::from_millis(4);
const SLOW: Duration = Duration::from_millis(100);

/// The slow member keeps its time of 200 ms until something shows that it is fast again. Every 32nd choice may do so, once
/// in a second at most, and each time moves the mean by about a tenth. So the way back takes longer than the way out.
#[test]
fn a_member_that_turns_slow_is_left_in_three_round_trips_and_has_its_share_again_after_16_000_choices() {
    for seed in 0..4 {
        let mut world = World::new(seed, link(FAST));
        let sender = world.add(config(), true);
        let nodes: Vec<_> = (0..4).map(|_| world.add(config(), true)).collect();
        let mut crew = Crew::new(&world, sender, nodes.clone(), seed);
        let relink = |world: &mut World, delay: Duration| {
            world.set_link(sender, nodes[0], link(delay));
            world.set_link(nodes[0], sender, link(delay));
        };
        spread(&mut world, &mut crew, 500);
        let [before, _] = spread(&mut world, &mut crew, 1_000);
        assert!(before > 125, "seed {seed}: a quarter would be its share: {before}");
        relink(&mut world, SLOW);
        // Three round trips of a fast link.
        let [leaving, _] = spread(&mut world, &mut crew, 15);
        let [probes, others] = spread(&mut world, &mut crew, 1_000);
        assert!(leaving < 8 && probes <= 1_000 / 32, "seed {seed}: {leaving}, {probes}");
        assert_eq!(others, 1_000 - probes, "seed {seed}: no message was sent to a second member");
        // So it stays for as long as it is slow.
        let [still, _] = spread(&mut world, &mut crew, 1_000);
        assert!(still <= 1_000 / 32, "seed {seed}: {still}");
        relink(&mut world, FAST);
        let [returning, _] = spread(&mut world, &mut crew, 16_000);
        let [back, _] = spread(&mut world, &mut crew, 1_000);
        assert!(back > 125, "seed {seed}: {returning}, then {back}");
    }
}
