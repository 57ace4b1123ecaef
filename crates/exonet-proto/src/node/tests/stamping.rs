//! What is written down about senders whose clocks are far ahead.

use super::*;
use crate::half::{Bound, Far, Hull, Stamps, Taken};
use crate::id::{NodeId, Slot, Stamp};
use crate::opening::stamping::{Admission, Memo, Stamping, Told};

fn id(n: u8) -> NodeId {
    SecretKey::from_bytes([n; 32]).node_id()
}

/// This many seconds after 1970.
fn at(seconds: u64) -> Now {
    Now { mono: Mono(seconds * 1_000_000_000), wall: Wall(seconds * 1_000_000_000) }
}

fn stamp(seconds: u64) -> Stamp {
    Stamp(seconds * 1_000_000_000)
}

fn far(lo: u64, hi: u64) -> Far {
    Far { lo: stamp(lo), hi: stamp(hi) }
}

fn taken(seconds: u64, end: u64) -> Taken {
    Taken { ts: stamp(seconds), end: Slot(end) }
}

/// A stamp has to wait only for `latest`.
#[test]
fn a_stamp_that_is_covered_waits_for_nothing_though_it_be_far_ahead() {
    let mut stamping = Stamping::new(false, 2, [], None);
    let (mut stamps, mut bound) = (Stamps::ephemeral(), Bound::default());
    stamps.persisted(stamp(9_000));
    assert_eq!(stamping.admit(at(1_000), &mut stamps, id(1), &mut bound, stamp(5_000)), Admission::Now);
    assert_eq!(bound, Bound::default(), "and it is no stray");
}

/// An old copy of an opening does not make the disk forget another stamp.
#[test]
fn the_line_of_a_stray_never_shrinks() {
    let mut stamping = Stamping::new(false, 2, [], None);
    let (mut stamps, mut bound) = (Stamps::ephemeral(), Bound::default());
    let mut lines = |ts| {
        assert_eq!(stamping.admit(at(1_000), &mut stamps, id(1), &mut bound, ts), Admission::Later);
        stamping.write(&stamps).1.unwrap()
    };
    assert_eq!(*lines(stamp(3_000)), [(id(1), far(3_000, 3_000))]);
    assert_eq!(*lines(stamp(2_000)), [(id(1), far(2_000, 3_000))]);
    assert_eq!(*lines(stamp(2_500)), [(id(1), far(2_000, 3_000))]);
}

/// A sender whose clock was once ahead can use the fast way as soon as its clock is right, and from the disk on as well.
#[test]
fn a_stray_with_a_right_stamp_is_like_any_other() {
    let strays = vec![(id(1), far(9_000, 9_500))];
    let boot = Boot::Stored { clock: 0, life: 0, latest: stamp(1_000), strays, notes: None, journal: None };
    let mut node = Node::new(config(), SecretKey::from_bytes([7; 32]), boot, [7; 32], at(1_990));
    assert!(!node.admit_stamp(at(1_990), id(1), stamp(1_990)), "latest has to follow");
    let batch = node.poll_persist().unwrap();
    node.handle_persisted(at(1_990), batch.lsn);
    assert!(node.admit_stamp(at(1_990), id(1), stamp(1_990)));
    let is_new = |node: &Node, ts| node.clock().stamps().is_new(&node.bound(&id(1)), stamp(ts));
    assert!(is_new(&node, 1_990) && !is_new(&node, 9_000) && !is_new(&node, 9_500));
}

/// The bound of a stray covers its refused stamps before the disk loses its line.
#[test]
fn a_stray_that_latest_has_passed_has_a_bound() {
    let strays = vec![(id(1), far(1_500, 2_000)), (id(2), far(9_000, 9_000))];
    let boot = Boot::Stored { clock: 0, life: 0, latest: stamp(1_000), strays, notes: None, journal: None };
    let mut node = Node::new(config(), SecretKey::from_bytes([7; 32]), boot, [7; 32], at(1_990));
    let mut lines = None;
    // Stamps of other senders raise `latest`; a third stray causes all lines to be written.
    for (n, ts) in [(3, 1_995), (4, 2_001), (5, 9_999)] {
        node.admit_stamp(at(1_995), id(n), stamp(ts));
        let batch = node.poll_persist().unwrap();
        node.handle_persisted(at(1_995), batch.lsn);
        lines = batch.strays;
        assert_eq!(node.bound(&id(1)).far().is_some(), ts < 2_000);
        assert_eq!(node.clock().stamps().hull().upto, stamp(1_000), "nothing more is forgotten");
    }
    assert!(node.bound(&id(1)).known() >= Some(stamp(2_000)));
    assert!(node.bound(&id(2)).far().is_some());
    let kept: BTreeSet<_> = lines.unwrap().iter().map(|(id, _)| *id).collect();
    assert_eq!(kept, BTreeSet::from([id(2), id(5)]));
}

/// The cap limits the senders that are ahead now, even if nothing is ever written.
#[test]
fn strays_make_room_once_latest_has_passed_them() {
    let limits = Limits { strays: 1, ..Limits::default() };
    let mut node =
        Node::new(limited(limits), SecretKey::from_bytes([7; 32]), Boot::Ephemeral, [7; 32], at(1_000));
    let is_stray = |node: &Node, n| node.bound(&id(n)).far().is_some();
    node.admit_stamp(at(1_000), id(1), stamp(2_000));
    node.admit_stamp(at(1_000), id(2), stamp(2_000));
    assert!(is_stray(&node, 1) && !is_stray(&node, 2));
    node.admit_stamp(at(2_000), id(3), stamp(2_000));
    node.admit_stamp(at(2_000), id(2), stamp(3_000));
    assert!(!is_stray(&node, 1) && is_stray(&node, 2));
}

/// What a sender knows about its own clock and the receiver's memory keeps it from sending what would end Unknown.
#[test]
fn no_stamp_is_chosen_that_proves_nothing() {
    const S: i64 = 1_000_000_000;
    let year = 2_000_000_000;
    let choose = |now, ahead, wary| {
        Stamping::default().choose(at(now).wall, Told { ahead, wary: stamp(wary), ended: false })
    };
    assert_eq!(choose(year, None, 0), Some(stamp(year)));
    assert_eq!(choose(10, None, 0), None, "1970");
    assert_eq!(choose(10, Some(0), 0), Some(stamp(10)), "both of them");
    assert_eq!(choose(year, Some(3_600 * S), 0), Some(stamp(year - 3_600)), "who is ahead goes back");
    assert_eq!(choose(year, Some(-5 * S), 0), Some(stamp(year + 5)), "who is a little behind goes on");
    assert_eq!(choose(year, Some(-3_600 * S), 0), None, "who is far behind does not");
    assert_eq!(choose(year, None, year), None, "what was accepted under it may be forgotten");
    assert_eq!(choose(year, None, year - 1), Some(stamp(year)));
}

/// What a peer has forgotten about stamps that are still to come is kept until they have come, for as many peers as there is room
/// for, and no timer waits for that.
#[test]
fn what_a_peer_has_forgotten_of_the_future_outlives_its_memo() {
    let (mut stamping, mut stamps) = (Stamping::new(true, 0, [], None), Stamps::ephemeral());
    let told = |wary| Told { ahead: Some(0), wary: stamp(wary), ended: false };
    let peer = |n: u16| {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&n.to_be_bytes());
        NodeId(bytes)
    };
    let mut forget = |stamping: &mut Stamping, since: u64, n, wary| {
        let memo = Memo { told: told(wary), ..Memo::default() };
        stamping.remember(at(since), &mut stamps, peer(n), memo);
        stamping.forget(at(since + 300), &mut stamps);
        assert_eq!(stamping.forget_at(), None);
    };
    forget(&mut stamping, 1_000, 1, 1_299);
    forget(&mut stamping, 1_000, 2, 1_300);
    assert_eq!(stamping.recall(&peer(1)).told, Told::default(), "it has come");
    assert_eq!(stamping.recall(&peer(2)).told, told(1_300));
    assert_eq!(stamping.recall(&peer(2)).told, Told::default(), "its peer knows it now");
    for n in 0..=1_024 {
        forget(&mut stamping, 1_000, n, 2_000);
    }
    assert_eq!(stamping.recall(&peer(1_024)).told, Told::default(), "no room");
    forget(&mut stamping, 2_000, 1_024, 9_000);
    assert_eq!(stamping.recall(&peer(1_024)).told, told(9_000), "the others have come");
    assert_eq!(stamping.recall(&peer(0)).told, Told::default());
}

/// A receiver does not raise `latest` towards its own clock, which is years ahead.
#[test]
fn latest_follows_the_stamps() {
    let mut stamping = Stamping::new(false, 2, [], None);
    let mut stamps = Stamps::ephemeral();
    for (now, ts, most) in [(9_000, 2_000, 2_001), (2_000, 2_005, 2_005), (3_000, 3_000, 3_001)] {
        let mut bound = Bound::default();
        assert_eq!(stamping.admit(at(now), &mut stamps, id(1), &mut bound, stamp(ts)), Admission::Later);
        let (latest, _) = stamping.write(&stamps);
        assert!(stamp(ts) <= latest && latest <= stamp(most), "{latest:?}");
        stamps.persisted(latest);
    }
}

/// A peer that has forgotten present stamps had a former life with a clock ahead, and does not say how far.
#[test]
fn nothing_leaves_early_for_a_while_to_who_has_forgotten_the_stamps_of_now() {
    let year = 2_000_000_000;
    let told = |ts| {
        let mut told = Told::default();
        told.forgot(at(year).wall, stamp(ts));
        move |now| Stamping::default().choose(at(now).wall, told).is_some()
    };
    let now = told(year - 1);
    assert!(!now(year) && !now(year + 3_600) && now(year + 3_601));
    assert!(told(year - 60)(year), "what it took before it started; since then it forgets nothing");
}

/// What records took early is written for the next life, which is told of it, and keeps it in bounded memory.
#[test]
fn notes_are_taken_by_nodes_that_are_stored_and_keep_no_journal() {
    let boot = |notes| Boot::Stored {
        clock: 0,
        life: 0,
        latest: stamp(1_000),
        strays: Vec::new(),
        notes,
        journal: None,
    };
    let node = |boot| Node::new(config(), SecretKey::from_bytes([7; 32]), boot, [7; 32], at(1_990));
    let hull = Hull { above: stamp(1), upto: stamp(2) };
    let found = Notes { hull: Some(hull), taken: vec![(id(1), taken(900, 3)), (id(1), taken(800, 7))] };
    let mut again = node(boot(Some(found)));
    assert_eq!(again.clock().stamps().hull(), hull);
    assert_eq!(again.bound(&id(1)).taken(), Some(taken(800, 7)));
    let all = Notes { hull: Some(hull), taken: vec![(id(1), taken(800, 7))] };
    assert_eq!(again.poll_notes(), Some(all), "the new life writes all of it first");
    again.cx.stamping.note(id(2), taken(1_001, 1));
    assert_eq!(again.poll_notes(), Some(Notes { hull: None, taken: vec![(id(2), taken(1_001, 1))] }));
    assert_eq!(again.poll_notes(), None);
    for n in 0..4_096 {
        again.cx.stamping.note(id(2), taken(1_001, n));
    }
    assert!(again.poll_notes().unwrap().hull.is_some(), "what is not needed any more goes");
    let mut lost = node(boot(None));
    assert_eq!(lost.clock().stamps().hull(), Hull::up_to(stamp(1_000)), "all is forgotten");
    assert!(lost.poll_notes().is_some());
    let mut ephemeral = node(Boot::Ephemeral);
    ephemeral.cx.stamping.note(id(2), taken(1_001, 1));
    assert_eq!(ephemeral.poll_notes(), None);
}

#[test]
fn of_too_many_lost_records_the_oldest_is_in_the_hull() {
    let (mut stamping, mut stamps) = (Stamping::new(true, 0, [], None), Stamps::ephemeral());
    let peer = |n: u32| {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&n.to_be_bytes());
        NodeId(bytes)
    };
    for n in 0..=65_536 {
        let memo = Memo { bound: Bound::found(None, Some(taken(100 + u64::from(n), 1))), ..Memo::default() };
        stamping.remember(at(1_000), &mut stamps, peer(n), memo);
    }
    stamping.forget(at(9_000), &mut stamps);
    assert_eq!(stamps.hull(), Hull { above: Stamp(stamp(100).0 - 1), upto: stamp(100) });
    assert_eq!(stamping.memo_of(&peer(0)), Bound::default());
    assert!([1, 65_536].iter().all(|n| stamping.memo_of(&peer(*n)).taken().is_some()));
}
