//! Nodes that write a journal.

use super::*;
use crate::id::{Incarnation, Stamp};
use crate::journal::{Durability, Recovered};

fn boot(clock: u64, journal: &[u8]) -> Boot {
    let found = Recovered::read(journal).unwrap();
    let journal = Some((Durability::Written, Box::new(found)));
    Boot::Stored { clock, life: 1, latest: Stamp(5), strays: Vec::new(), journal }
}

fn node(boot: Boot) -> Node {
    let now = Now::default();
    Node::new(config(), SecretKey::from_bytes([7; 32]), boot, [9; 32], now)
}

fn frontiers(node: &Node) -> (Incarnation, Stamp) {
    (node.clock().b(), node.clock().stamps().tb())
}

#[test]
fn a_journal_that_begins_knows_nothing_of_lives_before() {
    let mut first = node(boot(100, &[]));
    assert_eq!(frontiers(&first), (Incarnation(100), Stamp(5)));
    let records = first.poll_journal().unwrap().records;
    assert_eq!(first.poll_journal(), None);
    let next = node(boot(200, &records));
    assert_eq!(frontiers(&next), (Incarnation(100), Stamp(5)), "the life before is remembered");
    assert_eq!(next.clock().ck(), 200);
}

#[test]
fn a_snapshot_says_what_the_journal_says() {
    let mut first = node(boot(100, &[]));
    let now = Now::default();
    let peer = SecretKey::from_bytes([8; 32]).node_id();
    let hints = ["10.0.0.2:7".parse().unwrap()];
    let message = |n: u8| Outgoing { body: vec![n; 30].into(), ..Outgoing::default() };
    let keys: Vec<_> = (0..9).map(|n| first.send(now, peer, &hints, message(n)).unwrap()).collect();
    for key in keys.iter().step_by(2) {
        first.cancel(now, *key).unwrap();
    }
    let written = Recovered::read(&first.poll_journal().unwrap().records).unwrap();
    let snapshot = Recovered::read(&first.snapshot(now)).unwrap();
    assert_eq!(written.open.len(), 4);
    assert_eq!(written, snapshot);
}
