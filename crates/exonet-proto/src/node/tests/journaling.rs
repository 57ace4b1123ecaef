//! Nodes that write a journal.

use super::*;
use crate::event::BodyRead;
use crate::half::{Ask, Clock, IntervalSet, Receiver, Stamps};
use crate::id::{Incarnation, Slot, Stamp};
use crate::journal::{Durability, Position, Recovered};
use crate::message::IncomingBody;
use crate::peer::outbound::Outbound;
use crate::peer::write_state;
use crate::wire::{Bases, Frame, Frames, Role, Writer};

fn boot(clock: u64, journal: &[u8]) -> Boot {
    let found = Recovered::read(journal).unwrap();
    let journal = Some((Durability::Written, Box::new(found)));
    Boot::Stored { clock, life: 1, latest: Stamp(5), strays: Vec::new(), notes: None, journal }
}

/// A node whose records are safe only once it is told so.
fn forced() -> Node {
    let journal = Some((Durability::Forced, Box::default()));
    node(Boot::Stored { clock: 7, life: 1, latest: Stamp(5), strays: Vec::new(), notes: None, journal })
}

fn node(boot: Boot) -> Node {
    let now = Now::default();
    Node::new(config(), SecretKey::from_bytes([7; 32]), boot, [9; 32], now)
}

fn frontiers(node: &Node) -> (Incarnation, Stamp) {
    (node.clock().b(), node.clock().stamps().hull().upto)
}

#[test]
fn a_journal_that_begins_knows_nothing_of_lives_before() {
    let mut first = node(boot(100, &[]));
    assert_eq!(frontiers(&first), (Incarnation(100), Stamp(5)));
    let records = first.poll_journal().unwrap().to_vec();
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
    let written = Recovered::read(&first.poll_journal().unwrap().to_vec()).unwrap();
    let snapshot = Recovered::read(&first.snapshot(now)).unwrap();
    assert_eq!(written.open_count(), 4);
    assert_eq!(written, snapshot);
}

/// A journal of messages, each in a group of its own, some of which have ended. Returns the whole journal as read, a snapshot of
/// it that relies on the groups from `kept` on as read, and those groups.
fn kept(kept: u64) -> (Recovered, Recovered, Vec<(u64, Vec<u8>)>) {
    let mut node = node(boot(100, &[]));
    let (now, peer) = (Now::default(), SecretKey::from_bytes([8; 32]).node_id());
    let (mut keys, mut groups) = (Vec::new(), Vec::new());
    for n in 1..10 {
        let message = Outgoing { body: vec![n; usize::from(n) * 100].into(), ..Outgoing::default() };
        keys.push(node.send(now, peer, &["10.0.0.2:7".parse().unwrap()], message).unwrap());
        groups.push((u64::from(n), node.poll_journal().unwrap().to_vec()));
    }
    for key in keys.iter().step_by(2) {
        node.cancel(now, *key).unwrap();
    }
    groups.push((10, node.poll_journal().unwrap().to_vec()));
    let needed: Vec<_> = node.needed_groups();
    assert_eq!(needed.len(), 4);
    assert!(needed.iter().all(|(group, bytes)| group % 2 == 0 && *bytes == group * 100 + 1), "{needed:?}");
    let (mut whole, mut found) = (Recovered::default(), Recovered::default());
    groups.iter().for_each(|(group, records)| whole.add_group(*group, records).unwrap());
    found.add_group(0, &node.snapshot_keeping(now, kept)).unwrap();
    groups.retain(|(group, _)| *group >= kept);
    (whole.finish(10).unwrap(), found, groups)
}

#[test]
fn a_snapshot_does_not_say_again_what_is_kept() {
    for from in 1..12 {
        let (mut whole, mut found, groups) = kept(from);
        groups.iter().for_each(|(group, records)| found.add_kept(*group, records).unwrap());
        for posted in whole.open.runs_mut().filter(|posted| posted.group < from) {
            posted.group = 0;
        }
        assert_eq!(found.finish(10).unwrap(), whole);
    }
}

#[test]
fn a_snapshot_that_counts_on_what_is_missing_is_no_journal() {
    let (_, mut found, groups) = kept(4);
    groups.iter().skip(1).for_each(|(group, records)| found.add_kept(*group, records).unwrap());
    assert!(found.finish(10).is_err());
    let (_, found, _) = kept(9);
    assert!(found.finish(10).is_ok(), "nothing that is open is kept");
}

#[test]
fn an_outcome_is_told_once_it_is_safe() {
    let mut node = forced();
    let (now, peer) = (Now::default(), SecretKey::from_bytes([8; 32]).node_id());
    let message = Outgoing { body: Bytes::from_static(b"x"), ..Outgoing::default() };
    let key = node.send(now, peer, &["10.0.0.2:7".parse().unwrap()], message).unwrap();
    node.cancel(now, key).unwrap();
    let through = node.poll_journal().unwrap().through;
    assert_eq!((node.poll_event(), node.journal_lag()), (None, through.0));
    node.handle_journaled(now, through);
    assert!(matches!(node.poll_event(), Some(Event::Outcome { outcome: Outcome::Cancelled, .. })));
    assert_eq!(node.journal_lag(), 0);
}

/// A sending direction with a message without a slot, and a lower slot whose end is not safe.
fn ending() -> (Outbound, Clock, crate::message::Store) {
    let mut clock = Clock::boot(7, Stamp::NONE, 100);
    clock.persisted(200);
    let (mut store, mut out) = (crate::message::Store::default(), Outbound::new(Mono(0), true));
    let source = crate::message::Source::Whole(Bytes::from_static(b"x"));
    let key = store.insert(crate::message::Letter::new(0, Outgoing::default(), source, Role::Plain));
    out.submit(&clock, &mut store, key);
    out.ends_at(Position(9), Slot(3));
    (out, clock, store)
}

#[test]
fn an_ask_passes_no_end_that_is_not_safe() {
    let (mut out, mut clock, mut store) = ending();
    let mut l = |out: &mut Outbound| {
        let ask: Option<Ask> = out.ask(Mono(0), &mut clock, 12_000, MS);
        ask.map(|ask| ask.l)
    };
    assert_eq!(l(&mut out), Some(Slot(3)));
    out.on_safe(&mut store, |at| at < Position(9));
    assert_eq!(l(&mut out), Some(Slot(3)));
    out.on_safe(&mut store, |at| at <= Position(9));
    assert_eq!(l(&mut out), Some(Slot(7)));
}

#[test]
fn a_sender_record_closes_when_its_ends_are_safe() {
    let (mut out, mut clock, mut store) = ending();
    let key = store.iter().map(|(key, _)| key).next().unwrap();
    let letter = store.remove(key).unwrap();
    out.forget(key, &letter);
    out.close_if_idle(Mono(0) + 60 * SECOND, &mut clock, SECOND);
    assert!(out.sender.is_some());
    out.on_safe(&mut store, |_| true);
    out.close_if_idle(Mono(0) + 60 * SECOND, &mut clock, SECOND);
    assert!(out.sender.is_none() && out.farewell_due);
}

/// The claim of a STATE: its grant frontier, and its free slots.
fn claimed(inbound: &Inbound) -> Option<(u64, Vec<[u64; 2]>)> {
    let clock = Clock::recover(50, Incarnation(0), Stamps::boot(Stamp::NONE), 9);
    let mut room = [0; 200];
    let mut writer = Writer::new(&mut room, Bases::default());
    write_state(&mut writer, inbound, &clock)?;
    let len = writer.len();
    match Frames::new(&room[..len], Bases::default()).next() {
        Some(Ok(Frame::State(state))) => {
            Some((state.live?.up.0, state.free.map(|run| [run.start, run.end]).collect()))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_state_says_no_more_than_is_safe() {
    let mut inbound = Inbound::new(Mono(0));
    let mut free = IntervalSet::new();
    free.insert(4..9);
    let (r, hi, l) = (Incarnation(3), Slot(9), Slot(2));
    inbound.receiver =
        Some(Receiver::recover(r, hi, l, free, (Stamp::NONE, None), false, Default::default()));
    assert_eq!(claimed(&inbound), Some((9, vec![[4, 9]])));
    inbound.unsaid.take(Position(1), 2..3);
    inbound.unsaid.grow(Position(2), Slot(6));
    assert_eq!(claimed(&inbound), Some((6, vec![[2, 3], [4, 6]])), "used, and granted, but not for certain");
    assert!(inbound.unsaid.on_safe(|at| at <= Position(1)));
    assert_eq!(claimed(&inbound), Some((6, vec![[4, 6]])));
    inbound.unsaid.replace(Position(3));
    assert_eq!(claimed(&inbound), None);
    assert!(inbound.unsaid.on_safe(|_| true));
    assert_eq!(claimed(&inbound), Some((9, vec![[4, 9]])));
}

#[test]
fn a_body_without_an_end_is_forgotten_when_its_process_dies() {
    let mut pair = Pair::open();
    let secret = pair.ends[0].cx.key.expose().to_owned();
    let life = |clock, journal: &[u8], now| {
        let mut node = Node::new(config(), SecretKey::from_bytes(secret), boot(clock, journal), [9; 32], now);
        let batch = node.poll_persist().unwrap();
        node.handle_persisted(now, batch.lsn);
        node
    };
    pair.ends[0] = life(1 << 40, &[], pair.now);
    pair.talk(0);
    let (id, at) = (pair.ends[1].id(), address(1));
    let key = pair.ends[0].send_stream(pair.now, id, &[at], Outgoing::default(), None).unwrap();
    pair.ends[0].body_write(pair.now, key, &mut Bytes::from_static(b"begun"));
    pair.send(0, 100);
    pair.pass(SECOND);
    let mut deliveries = [(); 2].map(|()| pair.ends[1].accept(pair.now).unwrap());
    deliveries.sort_by_key(|incoming| matches!(incoming.body, IncomingBody::Whole(_)));
    let [begun, whole] = deliveries.map(|incoming| incoming.key);
    assert!(matches!(pair.ends[1].body_read(pair.now, begun), BodyRead::Data(data) if data == "begun"));

    let mut records = Vec::new();
    while let Some(append) = pair.ends[0].poll_journal() {
        records.extend(append.to_vec());
    }
    let found = Recovered::read(&records).unwrap();
    assert_eq!(found.open_count(), 1, "the other, which waits to be taken");
    pair.ends[0] = life(1 << 41, &records, pair.now);
    pair.pass(SECOND);
    assert!(pair.ends[1].done(pair.now, whole));
    // Until the record is closed.
    pair.pass(10 * SECOND);
    assert_eq!(pair.ends[1].body_read(pair.now, begun), BodyRead::Aborted);
    assert!(pair.ends[1].accept(pair.now).is_none(), "neither comes again");
    assert_eq!(pair.outcomes().len(), 2, "what was told before, and the message that was whole");
}

#[test]
fn a_journal_is_that_of_the_last_life_or_of_none() {
    let mut node = node(boot(100, &[]));
    let found = Recovered::read(&node.poll_journal().unwrap().to_vec()).unwrap();
    assert!(!found.is_empty() && Recovered::default().is_empty());
    // The node booted as life 1, so it is life 2: its own file may give either number when it dies.
    assert!(found.is_of(1) && found.is_of(2), "whether or not the file was written");
    assert!(!found.is_of(3), "another life has come between");
    assert!(!Recovered::default().is_of(0));
    let snapshot = Recovered::read(&node.snapshot(Now::default())).unwrap();
    assert!(snapshot.is_of(2) && !snapshot.is_of(3));
}
