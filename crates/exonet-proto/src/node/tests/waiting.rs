//! Messages that wait for a peer that is away.

use std::sync::{Arc, Mutex};

use super::*;
use crate::id::{NodeId, Stamp};
use crate::journal::{Durability, Recovered};
use crate::message::SMALL;
use crate::message::{Keep, Shelf};

/// Counts the bodies that it is given.
#[derive(Debug, Default)]
struct Counted(Mutex<Vec<usize>>);

impl Keep for Counted {
    fn keep(&self, body: &[u8]) -> Option<Bytes> {
        self.0.lock().unwrap().push(body.len());
        Some(Bytes::copy_from_slice(body))
    }
}

impl Counted {
    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn node(found: Recovered) -> Node {
    let journal = Some((Durability::Written, Box::new(found)));
    let boot = Boot::Stored { clock: 7, life: 1, latest: Stamp(5), strays: Vec::new(), notes: None, journal };
    Node::new(config(), SecretKey::from_bytes([7; 32]), boot, [9; 32], Now::default())
}

fn away() -> NodeId {
    SecretKey::from_bytes([8; 32]).node_id()
}

fn send(node: &mut Node, body: Vec<u8>) -> MessageKey {
    let message = Outgoing { body: body.into(), ..Outgoing::default() };
    node.send(Now::default(), away(), &["10.0.0.2:7".parse().unwrap()], message).unwrap()
}

/// Sends `n` messages of 30 bytes at once. Returns how many were kept together.
fn send_together(node: &mut Node, n: u8) -> Vec<u32> {
    let (mut bodies, mut kept) = ((0..n).map(|n| [n; 30]), Vec::new());
    let hints = ["10.0.0.2:7".parse().unwrap()];
    let alike = crate::message::Alike::default();
    node.send_bodies(Now::default(), away(), &hints, &alike, &mut bodies, |_, n| kept.push(n)).unwrap();
    kept
}

fn bodies(node: &Node) -> Vec<Bytes> {
    node.open_messages().iter().map(|open| node.content(open.key, 9_999).unwrap().body).collect()
}

fn audited(node: &Node) {
    node.audit(|holding| assert!(!holding.exact || holding.held == holding.bound, "{holding:?}"));
}

#[test]
fn beyond_what_memory_has_bodies_wait_on_the_shelf() {
    let counted = Arc::new(Counted::default());
    let mut node = node(Recovered::on(Shelf::new(counted.clone(), 1_000)));
    let keys: Vec<_> = (0..6).map(|n| send(&mut node, vec![n; 400])).collect();
    assert_eq!(counted.take(), [400, 400, 400], "1,200 bytes are in memory");
    audited(&node);
    send(&mut node, vec![7; SMALL]);
    assert_eq!(counted.take(), [0; 0], "there is no room to be won");
    for key in &keys[..2] {
        node.cancel(Now::default(), *key).unwrap();
    }
    send(&mut node, vec![8; 400]);
    assert_eq!(counted.take(), [0; 0], "there is room again");
    let mut lens: Vec<_> = bodies(&node).iter().map(|body| (body[0], body.len())).collect();
    lens.sort_unstable();
    assert_eq!(lens, [(2, 400), (3, 400), (4, 400), (5, 400), (7, SMALL), (8, 400)]);
    audited(&node);
}

#[test]
fn what_waits_behind_many_is_kept_together_and_so_it_is_found_again() {
    let counted = Arc::new(Counted::default());
    let mut first = node(Recovered::on(Shelf::new(counted.clone(), 0)));
    assert_eq!(send_together(&mut first, 64), [1; 64], "some may leave with the opening");
    assert_eq!(send_together(&mut first, 200), [200]);
    assert_eq!(send_together(&mut first, 100), [100]);
    assert_eq!(counted.take(), [3_200], "the first fits into memory; none is in memory beside it");
    audited(&first);
    let (expected, written) = (bodies(&first), first.poll_journal().unwrap().to_vec());
    for records in [written, first.snapshot(Now::default())] {
        let mut found = Recovered::on(Shelf::new(counted.clone(), 0));
        found.add(&records).unwrap();
        assert_eq!(found.open_letters().map(|open| open.body).collect::<Vec<_>>(), expected);
        let again = node(found);
        assert_eq!(bodies(&again), expected);
        let together: Vec<_> = again.open_together().iter().map(|(_, n)| *n).collect();
        assert_eq!(together, [vec![1; 64], vec![200, 100]].concat());
        assert_eq!(counted.take(), [3_200]);
        audited(&again);
    }
}

#[test]
fn what_was_cancelled_before_the_end_is_not_found_again() {
    let mut first = node(Recovered::default());
    send_together(&mut first, 64);
    send_together(&mut first, 200);
    let keys: Vec<_> = first.open_messages().iter().map(|open| open.key).collect();
    for key in keys.iter().skip(100).step_by(3) {
        first.cancel(Now::default(), *key).unwrap();
    }
    let expected = bodies(&first);
    let again = node(Recovered::read(&first.poll_journal().unwrap().to_vec()).unwrap());
    assert_eq!(bodies(&again), expected);
    audited(&again);
}
