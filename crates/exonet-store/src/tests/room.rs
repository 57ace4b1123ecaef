//! Tests of a disk that has no room, on the simulated disk.

use super::rules::{SEGMENT, again, five, open, try_open};
use super::sim::Sim;
use super::*;

#[test]
fn a_full_disk_refuses_a_group_and_takes_it_once_there_is_room() {
    let sim = Sim::new(1);
    let (mut log, _) = open(&sim, Level::Sync);
    sim.world().fill(3);
    let (mut through, mut count) = (0, 0);
    let error = loop {
        match log.append(through + 1, &[count; 80]) {
            Ok(()) => (through, count) = (through + 1, count + 1),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert_eq!(sim.names(), [SEGMENT, "run"], "nothing is left of the segment");
    assert!(matches!(log.append(through + 1, &[0; 80]), Err(StoreError::Full { .. })));
    // Groups that still fit are accepted.
    let before = sim.names();
    assert!(log.room() >= 40, "{}", log.room());
    log.append(through + 1, &[count; 5]).unwrap();
    sim.world().capacity = usize::MAX;
    log.append(through + 2, &[count + 1; 80]).unwrap();
    assert!(sim.names().len() > before.len());
    assert_eq!(log.forcer().force().unwrap(), through + 2);
    log.close().unwrap();
    let (trust, read) = again(&sim, Level::Sync);
    assert_eq!((trust, read), (Trust::Trusted, (0..=count + 1).collect()));
}

#[test]
fn what_is_new_is_refused_while_there_is_room_for_what_follows() {
    let sim = Sim::new(1);
    let (mut log, _) = open(&sim, Level::Sync);
    sim.world().fill(3);
    let mut through = 0;
    while log.has_reserve(80) {
        through += 1;
        log.append(through, &[7; 80]).unwrap();
    }
    assert!(through > 5, "{through}");
    for _ in 0..8 {
        through += 1;
        log.append(through, &[8; 40]).unwrap();
    }
    sim.world().capacity = usize::MAX;
    assert!(log.has_reserve(80) && log.has_reserve(1 << 16));
}

#[test]
fn a_reserve_is_made_though_the_usual_segments_have_grown() {
    let sim = Sim::new(1);
    let (mut log, _) = open(&sim, Level::Sync);
    for through in 1..=70 {
        log.append(through, &[1; 3_000]).unwrap();
    }
    for len in [5_000, 8_000, 20_000] {
        assert!(log.has_reserve(len), "{len}");
    }
    log.append(71, &[2; 20_000]).unwrap();
}

#[test]
fn what_has_a_reserve_is_appended_though_the_disk_is_full_and_so_is_what_follows() {
    // Groups that the current segment takes, that a segment of the pool takes, and that are longer than a segment,
    // with numbers of free pages: too few, and enough. A segment has 16 pages. The second group needs two segments,
    // of which the first attempt makes one.
    for (len, few, enough) in [(2_500, 15, 16), (3_500, 31, 16), (4_000, 31, 32), (10_000, 47, 48)] {
        let sim = Sim::new(1);
        let (mut log, _) = open(&sim, Level::Sync);
        log.append(1, &[1; 600]).unwrap();
        sim.world().fill(few);
        assert!(!log.has_reserve(len as u64), "{len}");
        log.append(2, &[2; 40]).unwrap();
        sim.world().fill(enough);
        assert!(log.has_reserve(len as u64), "{len}");
        sim.world().fill(0);
        log.append(3, &vec![3; len]).unwrap();
        // A quarter of a segment.
        let mut through = 3;
        for _ in 0..12 {
            through += 1;
            log.append(through, &[4; 40]).unwrap();
        }
        let all = [&[1, 2, 3][..], &[4; 12]].concat();
        sim.world().capacity = usize::MAX;
        assert_eq!(again(&sim, Level::Sync), (Trust::Trusted, all), "{len}");
    }
}

#[test]
fn what_was_reserved_and_not_appended_takes_room_once() {
    let sim = Sim::new(1);
    let (mut log, _) = open(&sim, Level::Sync);
    for len in [20_000, 30_000, 25_000, 40_000] {
        assert!(log.has_reserve(len));
    }
    let len = |name: &String| disk::Disk::open(&sim, name).unwrap().unwrap().len().unwrap();
    let mut lens: Vec<_> = sim.names().iter().filter(|name| name.contains(".seg-")).map(len).collect();
    lens.sort_unstable();
    assert_eq!(lens, [4096, 4096, 40_960]);
    // What is short does not use it up.
    log.append(1, &[1; 3_900]).unwrap();
    log.append(2, &[2; 3_900]).unwrap();
    sim.world().fill(0);
    log.append(3, &[3; 40_000]).unwrap();
    assert!(!log.has_reserve(1 << 40), "no group is as long");
}

#[test]
fn a_snapshot_that_finds_no_room_leaves_the_log_and_is_not_wanted_at_once() {
    let sim = Sim::new(1);
    let (mut log, _) = try_open(&sim, Options { snapshot_after: 2000, ..options(Level::Sync) }).unwrap();
    let mut through = 0;
    while !log.wants_snapshot() {
        through += 1;
        log.append(through, &[1; 100]).unwrap();
    }
    // There is room for the next segment, but not for the snapshot.
    sim.world().fill(16 + 3);
    log.snapshot(vec![9; 5000]).unwrap();
    assert!(!log.wants_snapshot(), "it is being written");
    // The next call must wait for it, and returns its error.
    assert!(matches!(log.snapshot(vec![8; 10]), Err(StoreError::Full { .. })));
    assert!(!log.wants_snapshot());
    let before = through;
    while !log.wants_snapshot() {
        through += 1;
        log.append(through, &[1; 100]).unwrap();
    }
    assert_eq!(through - before, 4, "a quarter of what it takes otherwise");
    sim.world().capacity = usize::MAX;
    log.snapshot(vec![8; 10]).unwrap();
    log.append(through + 1, &[3; 100]).unwrap();
    log.close().unwrap();
    assert_eq!(again(&sim, Level::Sync), (Trust::Trusted, vec![8, 3]));
    assert!(!sim.names().iter().any(|name| name.ends_with(".new")));
}

#[test]
fn a_group_that_was_refused_is_not_found() {
    let (sim, mut log) = five(Level::Sync);
    sim.world().refuses = 1;
    assert!(matches!(log.append(6, &[6; 100]), Err(StoreError::Full { .. })));
    assert_eq!(again(&sim, Level::Sync), (Trust::Trusted, vec![1, 2, 3, 4, 5]));
    // The same, with another group in its place.
    let (sim, mut log) = five(Level::Sync);
    sim.world().refuses = 1;
    log.append(6, &[6; 100]).unwrap_err();
    log.append(6, &[7; 20]).unwrap();
    assert_eq!(again(&sim, Level::Sync), (Trust::Trusted, vec![1, 2, 3, 4, 5, 7]));
    // It cannot be taken back in.
    let (sim, mut log) = five(Level::Sync);
    sim.world().refuses = 2;
    assert!(
        matches!(log.append(6, &[6; 100]), Err(StoreError::Io { .. })),
        "nobody knows whether it is there"
    );
    assert!(matches!(log.append(6, &[7; 20]), Err(StoreError::Io { .. })));
}
