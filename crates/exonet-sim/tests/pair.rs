//! Two nodes on bad links, over many seeds.

use core::time::Duration;

use exonet_proto::node::{Config, Policy};
use exonet_sim::{LinkConfig, World};

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_first_message_takes_three_trips() {
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let (a, b) = (world.add(Config::new(Policy::Anyone), false), world.add(Config::new(Policy::Anyone), false));
    world.send(a, b, 100).unwrap();
    world.run_for(30 * MS);
    assert_eq!(world.ledger.totals().taken, 1);
    world.run_for(11 * MS);
    assert_eq!(world.ledger.totals().delivered, 1);
    assert_eq!(world.ledger.violations(), []);
}

fn bad_link(loss: f64) -> LinkConfig {
    LinkConfig {
        loss,
        duplicate: 0.02,
        corrupt: 0.01,
        jitter: 8 * MS,
        replay: 0.01,
        replay_after: Duration::from_secs(20),
        ..LinkConfig::perfect(10 * MS)
    }
}

fn quiet(world: &World) -> bool {
    (0..2).all(|n| world.node(exonet_sim::NodeIndex(n)).is_some_and(|node| node.stats().peers == 0))
}

#[test]
fn everything_arrives_once_and_is_forgotten() {
    for seed in 0..100 {
        let loss = [0.0, 0.02, 0.1, 0.3, 0.5][usize::try_from(seed % 5).unwrap()];
        let mut world = World::new(seed, bad_link(loss));
        let (a, b) = (world.add(Config::new(Policy::Anyone), false), world.add(Config::new(Policy::Anyone), true));
        for i in 0..200_usize {
            let size = [8, 100, 1_000, 1_400, 5_000, 70_000][i % 6].min(if loss > 0.2 { 5_000 } else { 70_000 });
            let (from, to) = if i % 3 == 0 { (b, a) } else { (a, b) };
            world.send(from, to, size).unwrap();
            if i % 20 == 0 {
                world.run_for(50 * MS);
            }
        }
        assert!(world.run_until_settled(Duration::from_secs(600)), "seed {seed}: {:?}", world.ledger.totals());
        assert_eq!(world.ledger.violations(), [], "seed {seed}");
        let totals = world.ledger.totals();
        assert_eq!((totals.delivered, totals.taken), (200, 200), "seed {seed}");
        world.run_for(Duration::from_secs(400));
        if !quiet(&world) { world.dump(a); world.dump(b); } assert!(quiet(&world), "seed {seed}");
    }
}
