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
