//! One node and very many others that each send once.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::common::{MS, SECOND, forgotten, open};
use exonet_proto::node::Config;
use exonet_sim::{LinkConfig, World};

#[test]
fn twenty_thousand_senders_leave_nothing() {
    let mut world = World::new(1, LinkConfig::perfect(2 * MS));
    let host = world.add(Config { dead_after: 60 * SECOND, ..open() }, true);
    let mut senders = std::collections::VecDeque::new();
    let mut most = 0;
    for i in 0..20_000_u64 {
        let sender = world.add(open(), false);
        world.send(sender, host, 100).unwrap();
        world.run_for(5 * MS);
        // Most close in an orderly way; the rest vanish when their message is delivered.
        if i % 20 != 0 {
            world.with(sender, |node, now| node.close(now));
        }
        senders.push_back(sender);
        if senders.len() > 4 {
            world.remove(senders.pop_front().unwrap());
        }
        if i % 1_000 == 0 {
            most = most.max(world.node(host).unwrap().stats().peers);
        }
    }
    world.run_for(SECOND);
    while let Some(sender) = senders.pop_front() {
        world.remove(sender);
    }
    let totals = world.ledger.totals();
    assert_eq!((totals.taken, totals.delivered), (20_000, 20_000));
    assert_eq!(world.ledger.violations(), []);
    assert!(most > 500, "{most}");
    world.run_for(100 * SECOND);
    forgotten(&mut world, &[host], 20, "all have gone");
    let stats = world.node(host).unwrap().stats();
    assert_eq!((stats.receiver_records, stats.sender_records, stats.half_open), (0, 0, 0));
}
