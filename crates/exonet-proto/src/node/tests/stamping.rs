//! What is written down of senders whose clocks are far ahead.

use super::*;
use crate::half::{Bound, Stamps};
use crate::id::{NodeId, Stamp};
use crate::opening::stamping::{Admission, Memo, Stamping, Told};

fn id(n: u8) -> NodeId {
    SecretKey::from_bytes([n; 32]).node_id()
}

/// So many seconds after 1970.
fn at(seconds: u64) -> Now {
    Now { mono: Mono(seconds * 1_000_000_000), wall: Wall(seconds * 1_000_000_000) }
}

fn stamp(seconds: u64) -> Stamp {
    Stamp(seconds * 1_000_000_000)
}

/// `latest` is the only thing that a stamp has to wait for.
#[test]
fn a_stamp_that_is_covered_waits_for_nothing_though_it_be_far_ahead() {
    let mut stamping = Stamping::new(false, 2, []);
    let (mut stamps, mut bound) = (Stamps::ephemeral(), Bound::Unknown);
    stamps.persisted(stamp(9_000));
    assert_eq!(stamping.admit(at(1_000), &mut stamps, id(1), &mut bound, stamp(5_000)), Admission::Now);
    assert_eq!(bound, Bound::Unknown, "and it is no stray");
}

/// What an old copy of an opening brings does not make the disk forget the stamp of a later one.
#[test]
fn the_line_of_a_stray_never_falls() {
    let mut stamping = Stamping::new(false, 2, []);
    let (mut stamps, mut bound) = (Stamps::ephemeral(), Bound::Unknown);
    for ts in [stamp(3_000), stamp(2_000)] {
        assert_eq!(stamping.admit(at(1_000), &mut stamps, id(1), &mut bound, ts), Admission::Later);
        let (_, lines) = stamping.write(&stamps);
        assert_eq!(lines.as_deref(), Some(&[(id(1), stamp(3_000))][..]));
    }
}

/// What was forgotten of a stray is said to everybody, before the disk loses its line.
#[test]
fn a_stray_that_latest_has_passed_leaves_its_amnesia_to_the_node() {
    let strays = vec![(id(1), stamp(2_000)), (id(2), stamp(9_000))];
    let boot = Boot::Stored { clock: 0, life: 0, latest: stamp(1_000), strays, journal: None };
    let mut node = Node::new(config(), SecretKey::from_bytes([7; 32]), boot, [7; 32], at(1_990));
    let mut lines = None;
    // Stamps of others bring `latest` on; a third stray has all lines written.
    for (n, ts) in [(3, 1_995), (4, 2_001), (5, 9_999)] {
        node.admit_stamp(at(1_995), id(n), stamp(ts));
        let batch = node.poll_persist().unwrap();
        node.handle_persisted(at(1_995), batch.lsn);
        lines = batch.strays;
        let told = node.clock().stamps().amnesia(Bound::Unknown);
        assert_eq!(told, if ts < 2_000 { stamp(1_000) } else { stamp(2_000) });
    }
    assert!(matches!(node.bound(&id(1)), Bound::Known(ts) if ts >= stamp(2_000)));
    assert!(matches!(node.bound(&id(2)), Bound::Stray { .. }));
    let kept: BTreeSet<_> = lines.unwrap().iter().map(|(id, _)| *id).collect();
    assert_eq!(kept, BTreeSet::from([id(2), id(5)]));
}

/// The cap is one of senders that are ahead now, also where nothing is ever written.
#[test]
fn strays_make_room_once_latest_has_passed_them() {
    let limits = Limits { strays: 1, ..Limits::default() };
    let mut node =
        Node::new(limited(limits), SecretKey::from_bytes([7; 32]), Boot::Ephemeral, [7; 32], at(1_000));
    let is_stray = |node: &Node, n| matches!(node.bound(&id(n)), Bound::Stray { .. });
    node.admit_stamp(at(1_000), id(1), stamp(2_000));
    node.admit_stamp(at(1_000), id(2), stamp(2_000));
    assert!(is_stray(&node, 1) && !is_stray(&node, 2));
    node.admit_stamp(at(2_000), id(3), stamp(2_000));
    node.admit_stamp(at(2_000), id(2), stamp(3_000));
    assert!(!is_stray(&node, 1) && is_stray(&node, 2));
}

/// What a sender knows of its own clock and the receiver's memory keeps it from what would end Unknown.
#[test]
fn no_stamp_is_chosen_that_proves_nothing() {
    const S: i64 = 1_000_000_000;
    let year = 2_000_000_000;
    let choose = |now, ahead, tb| {
        Stamping::default().choose(at(now).wall, Told { ahead, tb: stamp(tb), ended: false })
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

/// What a peer has forgotten of stamps that are still to come is kept until they have come, of as many peers as there is
/// room for, and no timer waits for that.
#[test]
fn what_a_peer_has_forgotten_of_the_future_outlives_its_memo() {
    let (mut stamping, mut stamps) = (Stamping::new(true, 0, []), Stamps::ephemeral());
    let told = |tb| Told { ahead: Some(0), tb: stamp(tb), ended: false };
    let peer = |n: u16| {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&n.to_be_bytes());
        NodeId(bytes)
    };
    let mut forget = |stamping: &mut Stamping, since: u64, n, tb| {
        let memo = Memo { told: told(tb), ..Memo::default() };
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

/// A receiver whose clock is years ahead does not take its `latest` along.
#[test]
fn latest_follows_the_stamps() {
    let mut stamping = Stamping::new(false, 2, []);
    let mut stamps = Stamps::ephemeral();
    for (now, ts, most) in [(9_000, 2_000, 2_001), (2_000, 2_005, 2_005), (3_000, 3_000, 3_001)] {
        let mut bound = Bound::Unknown;
        assert_eq!(stamping.admit(at(now), &mut stamps, id(1), &mut bound, stamp(ts)), Admission::Later);
        let (latest, _) = stamping.write(&stamps);
        assert!(stamp(ts) <= latest && latest <= stamp(most), "{latest:?}");
        stamps.persisted(latest);
    }
}
