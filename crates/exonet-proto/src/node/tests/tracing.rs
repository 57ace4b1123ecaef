//! The trace that a message is part of goes with it.

use super::*;
use crate::wire::Traceparent;

fn parent(n: u8) -> Traceparent {
    Traceparent::new([n; 16], [n; 8], 1).unwrap()
}

fn traced(n: u8) -> Outgoing {
    Outgoing { body: vec![n; 20].into(), trace: Some(Box::new(parent(n))), ..Outgoing::default() }
}

/// The trace and the length of the next message at the far end.
fn next(pair: &mut Pair) -> Option<(Option<Traceparent>, usize)> {
    let incoming = pair.ends[1].recv(pair.now)?;
    let IncomingBody::Whole(body) = &incoming.body else { panic!("{incoming:?}") };
    Some((incoming.trace.as_deref().copied(), body.len()))
}

#[test]
fn it_comes_with_messages_of_every_kind() {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.ends[1].cx.config.serves = true;
    let (id, at) = (pair.ends[1].id(), [address(1)]);
    for confirm in [Confirm::Delivered, Confirm::Processed] {
        for tag in ["", "tag"] {
            let message = Outgoing { confirm, tag: tag.into(), ..traced(1) };
            pair.ends[0].send(pair.now, id, &at, message).unwrap();
            pair.pump();
            assert_eq!(next(&mut pair), Some((Some(parent(1)), 20)));
        }
    }
    pair.ends[0].call(pair.now, id, &at, traced(2)).unwrap();
    pair.pump();
    let call = pair.ends[1].take_any_call(pair.now).unwrap();
    assert_eq!((call.trace.as_deref(), call.call.is_some()), (Some(&parent(2)), true));
    // In parts, below and above the size up to which messages are handed out whole.
    for size in [5_000, 100_000] {
        let message = Outgoing { body: vec![3; size].into(), ..traced(3) };
        pair.ends[0].send(pair.now, id, &at, message).unwrap();
        pair.pass(SECOND);
        let incoming = pair.ends[1].accept(pair.now).unwrap();
        assert_eq!(incoming.trace.as_deref(), Some(&parent(3)));
        pair.ends[1].cut(pair.now, incoming.key);
        pair.pass(SECOND);
    }
}

#[test]
fn messages_of_a_trace_are_kept_by_themselves_and_others_together() {
    let mut pair = Pair::open();
    pair.talk(0);
    let (id, at) = (pair.ends[1].id(), [address(1)]);
    let plain = |n: u8| Outgoing { trace: None, ..traced(n) };
    for confirm in [Confirm::Delivered, Confirm::Processed] {
        let all = [plain(1), plain(2), traced(3), traced(4), plain(5), plain(6)];
        let all = all.map(|message| Outgoing { confirm, tag: "t".into(), ..message });
        let mut counts = Vec::new();
        let mut messages = all.into_iter();
        pair.ends[0].send_each(pair.now, id, &at, &mut messages, |_, n| counts.push(n)).unwrap();
        assert_eq!(counts, [2, 1, 1, 2]);
        pair.pump();
        let came: Vec<_> = core::iter::from_fn(|| next(&mut pair)).map(|(trace, _)| trace).collect();
        assert_eq!(came, [None, None, Some(parent(3)), Some(parent(4)), None, None]);
        pair.pass(SECOND);
    }
}

#[test]
fn it_is_in_the_outbox() {
    let mut pair = Pair::open();
    let (id, at) = (pair.ends[1].id(), [address(1)]);
    let key = pair.ends[0].send(pair.now, id, &at, traced(7)).unwrap();
    assert_eq!(pair.ends[0].content(key, 9).unwrap().trace.as_deref(), Some(&parent(7)));
}

#[test]
fn it_is_the_same_after_a_crash() {
    use crate::journal::{Durability, Recovered};
    let key = || SecretKey::from_bytes([7; 32]);
    let boot = |records: &[u8]| {
        let journal = Some((Durability::Written, Box::new(Recovered::read(records).unwrap())));
        let (clock, latest) = (100, crate::id::Stamp(5));
        Boot::Stored { clock, life: 1, latest, strays: Vec::new(), notes: None, journal }
    };
    let now = Now::default();
    let mut first = Node::new(config(), key(), boot(&[]), [9; 32], now);
    let (peer, at) = (SecretKey::from_bytes([8; 32]).node_id(), [address(1)]);
    first.send(now, peer, &at, traced(1)).unwrap();
    first.send(now, peer, &at, Outgoing { trace: None, ..traced(2) }).unwrap();
    let next = Node::new(config(), key(), boot(&first.poll_journal().unwrap().to_vec()), [9; 32], now);
    let traces = |node: &Node| -> Vec<_> {
        let open = node.open_messages();
        open.iter().map(|open| node.content(open.key, 0).unwrap().trace.as_deref().copied()).collect()
    };
    assert_eq!(traces(&next), [Some(parent(1)), None]);
    let next = Node::new(config(), key(), boot(&next.snapshot(now)), [9; 32], now);
    assert_eq!(traces(&next), [Some(parent(1)), None], "from a snapshot too");
}
