//! A member of a balanced group whose link turns slow, and fast again.

use super::*;

/// A message is sent every so often: once in the round trip of a fast link.
const EVERY: Duration = Duration::from_millis(10);

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

#[test]
fn measure() {
    for seed in 0..4 {
        let fast = || LinkConfig { jitter: MS, ..LinkConfig::perfect(4 * MS) };
        let slow = || LinkConfig { jitter: MS, ..LinkConfig::perfect(100 * MS) };
        let mut world = World::new(seed, fast());
        let sender = world.add(config(), true);
        let nodes: Vec<_> = (0..4).map(|_| world.add(config(), true)).collect();
        let mut crew = Crew::new(&world, sender, nodes.clone(), seed);
        let relink = |world: &mut World, link: &dyn Fn() -> LinkConfig| {
            world.set_link(sender, nodes[0], link());
            world.set_link(nodes[0], sender, link());
        };
        eprintln!("seed {seed}");
        for _ in 0..4 {
            eprintln!("fast {:?}", spread(&mut world, &mut crew, 200));
        }
        relink(&mut world, &slow);
        for _ in 0..30 {
            eprint!("{:?} ", spread(&mut world, &mut crew, 1));
        }
        eprintln!();
        for _ in 0..10 {
            eprintln!("slow {:?}", spread(&mut world, &mut crew, 200));
        }
        relink(&mut world, &fast);
        for n in 0..60 {
            eprintln!("again {n} {:?}", spread(&mut world, &mut crew, 200));
        }
    }
}
