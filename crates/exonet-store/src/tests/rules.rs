//! Tests of each rule of opening alone, on the simulated disk.

use std::sync::Arc;

use super::sim::{Failure, Jobs, Sim};
use super::*;
use crate::format::{GROUP, HEADER};
use crate::log::Log;

pub(super) fn try_open(sim: &Sim, options: Options) -> Result<(Box<Log>, Found), StoreError> {
    recover::open(Arc::new(sim.clone()), Arc::new(Jobs::default()), Options { segment: 4096, ..options })
}

pub(super) fn open(sim: &Sim, level: Level) -> (Box<Log>, Found) {
    try_open(sim, options(level)).unwrap()
}

/// A journal of five groups, not ended cleanly.
pub(super) fn five(level: Level) -> (Sim, Box<Log>) {
    let sim = Sim::new(1);
    let (mut log, _) = open(&sim, level);
    for n in 1..=5u8 {
        log.append(u64::from(n), &[n; 100]).unwrap();
    }
    (sim, log)
}

/// The first byte of each group, which identifies it.
fn first_bytes(found: Found) -> Vec<u8> {
    read(found).iter().map(|group| group[0]).collect()
}

/// Opens the journal again after the process was killed.
pub(super) fn again(sim: &Sim, level: Level) -> (Trust, Vec<u8>) {
    let sim = sim.killed();
    let looked = recover::read(Arc::new(sim.clone()), options(level)).unwrap();
    let looked = looked.map(|(trust, groups)| (trust, groups.map(|group| group.unwrap()[0]).collect()));
    let (_, found) = open(&sim, level);
    let opened = (found.trust, first_bytes(found));
    let trusted = if opened.0 == Trust::Trusted { opened.1.clone() } else { Vec::new() };
    assert_eq!(looked, Some((opened.0, trusted)), "a look sees what the next life finds");
    opened
}

pub(super) const SEGMENT: &str = "log-1.seg-0";

#[test]
fn a_killed_process_loses_nothing_and_a_boot_is_noticed_at_its_level_only() {
    for (level, cut) in [(Level::Process, false), (Level::Batched, true), (Level::Sync, true)] {
        let (sim, log) = five(level);
        log.forcer().force().unwrap();
        let sim = if cut { sim.cut() } else { sim.killed() };
        assert_eq!(again(&sim, level), (Trust::Trusted, vec![1, 2, 3, 4, 5]));
    }
    let (sim, log) = five(Level::Process);
    log.forcer().force().unwrap();
    let (trust, read) = again(&sim.cut(), Level::Process);
    assert_eq!(trust, Trust::Untrusted(Reason::Rebooted));
    assert_eq!(read, [1, 2, 3, 4, 5], "what is left is told all the same");
}

#[test]
fn a_journal_that_is_not_trusted_is_told_of_until_its_successor_has_something() {
    let (sim, log) = five(Level::Process);
    log.forcer().force().unwrap();
    let mut sim = sim.cut();
    for _ in 0..3 {
        assert_eq!(again(&sim, Level::Process), (Trust::Untrusted(Reason::Rebooted), vec![1, 2, 3, 4, 5]));
        assert!(sim.names().contains(&"untrusted-1.seg-0".to_owned()));
        sim = sim.killed();
    }
    let (mut log, _) = open(&sim, Level::Process);
    log.append(1, &[9; 9]).unwrap();
    let sim = sim.killed();
    assert_eq!(again(&sim, Level::Process), (Trust::Trusted, vec![9]));
    // At most one log is put aside.
    let sim = sim.killed().cut();
    assert_eq!(again(&sim, Level::Process).0, Trust::Untrusted(Reason::Rebooted));
    let logs: Vec<_> = sim.names().into_iter().filter(|name| name.starts_with("untrusted-1.")).collect();
    assert_eq!(logs, Vec::<String>::new());
}

#[test]
fn a_clean_end_is_trusted_after_a_boot_and_only_with_the_log_that_was_noted() {
    let (sim, log) = five(Level::Process);
    log.close().unwrap();
    let sim = sim.cut();
    let put_back = sim.image();
    assert_eq!(again(&sim, Level::Process), (Trust::Trusted, vec![1, 2, 3, 4, 5]));

    // With one group fewer.
    put_back(&sim);
    let at = HEADER + 4 * (GROUP + 104);
    sim.tamper(SEGMENT, |bytes| bytes[at] ^= 1);
    assert!(matches!(try_open(&sim.killed(), options(Level::Process)), Err(StoreError::Corrupt { .. })));

    // With one group more, from the history of another journal.
    let (other, mut log) = five(Level::Process);
    log.append(6, &[6; 100]).unwrap();
    log.close().unwrap();
    let mut bytes = Vec::new();
    other.tamper(SEGMENT, |theirs| bytes.clone_from(theirs));
    put_back(&sim);
    sim.tamper(SEGMENT, |ours| *ours = bytes);
    assert_eq!(again(&sim, Level::Process).0, Trust::Untrusted(Reason::RolledBack));
}

#[test]
fn damage_in_the_part_that_was_forced_is_an_error_and_behind_it_is_the_end() {
    for level in [Level::Sync, Level::Process] {
        for damaged in 0..5usize {
            let (sim, mut log) = five(level);
            log.forcer().force().unwrap();
            // This group says up to where the log was forced.
            log.append(6, &[6; 100]).unwrap();
            sim.world().dead = true;
            let at = |group: usize| HEADER + group * (GROUP + 104) + 50;
            sim.tamper(SEGMENT, |bytes| bytes[at(damaged)] ^= 1);
            let error = try_open(&sim.killed(), options(level)).err();
            assert!(matches!(error, Some(StoreError::Corrupt { .. })), "{level} {damaged}: {error:?}");
        }
    }
    let (sim, _log) = five(Level::Sync);
    sim.tamper(SEGMENT, |bytes| bytes[HEADER + 2 * (GROUP + 104) + 50] ^= 1);
    assert_eq!(again(&sim, Level::Sync), (Trust::Trusted, vec![1, 2]));
}

#[test]
fn what_the_last_run_found_was_forced_then() {
    let (sim, log) = five(Level::Sync);
    drop(log);
    let sim = sim.killed();
    drop(open(&sim, Level::Sync));
    sim.tamper(SEGMENT, |bytes| bytes[HEADER + 4 * (GROUP + 104) + 50] ^= 1);
    assert!(matches!(try_open(&sim.killed(), options(Level::Sync)), Err(StoreError::Corrupt { .. })));
}

#[test]
fn a_hole_in_memory_is_not_trusted_and_the_witness_sees_a_lost_end() {
    let (sim, _log) = five(Level::Process);
    sim.tamper(SEGMENT, |bytes| bytes[HEADER + 2 * (GROUP + 104) + 50] ^= 1);
    assert_eq!(again(&sim, Level::Process), (Trust::Untrusted(Reason::PagesLost), vec![1, 2]));

    let (sim, _log) = five(Level::Process);
    sim.tamper(SEGMENT, |bytes| bytes[HEADER + 4 * (GROUP + 104) + 50] ^= 1);
    assert_eq!(again(&sim, Level::Process).0, Trust::Untrusted(Reason::CutShort));

    let (sim, _log) = five(Level::Process);
    sim.world().has_witness = false;
    sim.tamper(SEGMENT, |bytes| bytes[HEADER + 4 * (GROUP + 104) + 50] ^= 1);
    assert_eq!(again(&sim, Level::Process).0, Trust::Trusted, "nothing shows it");
}

#[test]
fn a_log_that_lacks_what_its_snapshot_counts_on_is_not_trusted() {
    for (level, lost) in [(Level::Process, false), (Level::Process, true), (Level::Sync, true)] {
        let (sim, mut log) = five(level);
        log.snapshot_keeping(2, b"S".to_vec()).unwrap();
        drop(log);
        sim.world().has_witness = false;
        if lost {
            sim.tamper(SEGMENT, |bytes| bytes[HEADER + 4 * (GROUP + 104) + 50] ^= 1);
            // The segment after it does not show either that there was more.
            sim.tamper("log-1.seg-1", |bytes| bytes[..HEADER].fill(0));
        }
        let sim = sim.killed();
        let opened = try_open(&sim, options(level));
        if lost && level == Level::Sync {
            assert!(matches!(opened, Err(StoreError::Corrupt { .. })));
            continue;
        }
        let (_, mut found) = opened.unwrap();
        let lacking = Trust::Untrusted(Reason::PagesLost);
        assert_eq!(found.trust, if lost { lacking } else { Trust::Trusted });
        let mut read = Vec::new();
        while let Some(FoundGroup { lsn, kept, bytes }) = found.groups.next_found().unwrap() {
            read.push((lsn, kept, bytes[0]));
        }
        let all = [(0, false, b'S'), (1, true, 1), (2, true, 2), (3, true, 3), (4, true, 4), (5, true, 5)];
        assert_eq!(read, all[..if lost { 5 } else { 6 }]);
    }
}

#[test]
fn what_is_kept_is_not_much_more_than_what_is_needed() {
    let sim = Sim::new(1);
    let (mut log, _) = open(&sim, Level::Sync);
    for n in 1..=3 {
        log.append(n, &[7; 3_000]).unwrap();
    }
    // The first segment, of 4 KiB, has one group. So do the others.
    assert_eq!(log.keep_from(&[]), u64::MAX);
    assert_eq!(log.keep_from(&[(3, 1_000)]), 3);
    assert_eq!(log.keep_from(&[(1, 10), (3, 1_000)]), 3, "the first is copied");
    assert_eq!(log.keep_from(&[(1, 1_000), (3, 2_000)]), 1);
    assert_eq!(log.keep_from(&[(1, 1_000), (1, 2_000), (0, 9_000)]), 1);
    assert_eq!(log.keep_from(&[(1, 2_000)]), u64::MAX);
}

#[test]
fn a_disk_that_was_rolled_back_under_a_running_system_is_noticed() {
    let (sim, mut log) = five(Level::Process);
    let put_back = sim.image();
    log.append(6, &[6; 100]).unwrap();
    put_back(&sim);
    assert_eq!(again(&sim, Level::Process).0, Trust::Untrusted(Reason::CutShort));

    // Rolled back by a whole run, which had appended nothing.
    let (sim, _log) = five(Level::Process);
    let put_back = sim.image();
    drop(open(&sim.killed(), Level::Process));
    put_back(&sim);
    assert_eq!(again(&sim, Level::Process).0, Trust::Untrusted(Reason::CutShort));

    // Only the file that says how the last run ended was rolled back.
    let (sim, log) = five(Level::Sync);
    log.close().unwrap();
    let mut run = Vec::new();
    sim.tamper("run", |bytes| run.clone_from(bytes));
    let (mut log, _) = open(&sim, Level::Sync);
    log.append(1, &[6; 100]).unwrap();
    log.close().unwrap();
    sim.tamper("run", |bytes| *bytes = run);
    assert_eq!(again(&sim, Level::Sync).0, Trust::Untrusted(Reason::RolledBack));
}

#[test]
fn after_a_failed_sync_memory_is_not_trusted_and_the_forced_part_is() {
    for failure in [Failure::Kept, Failure::Dropped] {
        for level in [Level::Process, Level::Sync] {
            let (sim, mut log) = five(level);
            log.forcer().force().unwrap();
            log.append(6, &[6; 100]).unwrap();
            sim.world().fails_in = Some((0, failure));
            let error = log.forcer().force().unwrap_err();
            assert!(matches!(error, StoreError::Sync { .. }), "{error}");
            assert_eq!(log.append(7, b"x").unwrap_err().to_string(), error.to_string());
            assert_eq!(log.snapshot(vec![1]).unwrap_err().to_string(), error.to_string());
            drop(log);
            let (trust, read) = again(&sim, level);
            assert!(read.starts_with(&[1, 2, 3, 4, 5]));
            match level {
                Level::Process => assert_eq!(trust, Trust::Untrusted(Reason::SyncFailed)),
                _ => assert_eq!(trust, Trust::Trusted),
            }
            if failure == Failure::Kept && level == Level::Sync {
                // The groups that were found are now on disk, although the system had treated them as written.
                let (_, read) = again(&sim.cut(), level);
                assert_eq!(read, [1, 2, 3, 4, 5, 6]);
            }
        }
    }
}

#[test]
fn a_sync_that_fails_at_the_opening_takes_the_trust_in_memory() {
    let (sim, _log) = five(Level::Process);
    let sim = sim.killed();
    sim.world().has_witness = false;
    sim.world().fails_in = Some((0, Failure::Kept));
    let (_, found) = open(&sim, Level::Process);
    assert_eq!(found.trust, Trust::Untrusted(Reason::SyncFailed));

    for (last, next) in
        [(Level::Sync, Level::Sync), (Level::Sync, Level::Process), (Level::Process, Level::Sync)]
    {
        let (sim, _log) = five(last);
        let sim = sim.killed();
        sim.world().fails_in = Some((0, Failure::Kept));
        let opened = try_open(&sim, options(next)).map(|(_, found)| found.trust);
        match last {
            Level::Process => assert_eq!(opened.unwrap(), Trust::Untrusted(Reason::SyncFailed)),
            _ => assert!(matches!(opened, Err(StoreError::Sync { .. }))),
        }
    }
}

/// A journal of five groups that a killed process has left and the next process has opened, with the jobs of the
/// latter.
fn reopened() -> (Sim, Box<Log>, Arc<Jobs>) {
    let (sim, _log) = five(Level::Process);
    let (sim, jobs) = (sim.killed(), Arc::new(Jobs::default()));
    let options = Options { segment: 4096, snapshot_after: 10, ..options(Level::Process) };
    let (log, found) =
        recover::open(Arc::new(sim.clone()), Arc::clone(&jobs) as Arc<dyn shared::Helper>, options).unwrap();
    assert_eq!(first_bytes(found), [1, 2, 3, 4, 5]);
    (sim, log, jobs)
}

#[test]
fn what_a_witness_vouches_for_is_forced_once_the_node_runs() {
    let (_, mut log, jobs) = reopened();
    assert_eq!(log.forced(), 0);
    assert!(!shared::Helper::help(&*jobs), "the caller still reads");
    log.append(1, &[6; 100]).unwrap();
    assert!(!log.wants_snapshot(), "its segments must stay");
    assert!(shared::Helper::help(&*jobs));
    assert_eq!(log.forced(), 5);
    assert!(log.wants_snapshot());

    // A forced write, a snapshot and a clean end must wait for it.
    let (_, log, _) = reopened();
    log.forcer().force().unwrap();
    assert_eq!(log.forced(), 5);
    let (_, mut log, jobs) = reopened();
    log.snapshot(vec![9]).unwrap();
    assert_eq!(log.forced(), 5);
    while shared::Helper::help(&*jobs) {}
    let (_, mut log, jobs) = reopened();
    log.append(1, &[6; 100]).unwrap();
    drop(log);
    assert!(!shared::Helper::help(&*jobs), "nothing writes once the log is gone");
    for appends in [false, true] {
        let (sim, mut log, _) = reopened();
        if appends {
            log.append(1, &[6; 100]).unwrap();
        }
        log.close().unwrap();
        let (trust, read) = again(&sim.cut(), Level::Process);
        assert_eq!((trust, read.len()), (Trust::Trusted, if appends { 6 } else { 5 }));
    }
}

#[test]
fn what_a_failed_sync_took_for_written_is_on_the_disk_at_a_clean_end() {
    let (sim, _log) = five(Level::Process);
    // Another caller has got the error that the sync failed.
    let file = disk::Disk::open(&sim, SEGMENT).unwrap().unwrap();
    sim.world().fails_in = Some((0, Failure::Kept));
    file.syncer().sync().unwrap_err();
    let sim = sim.killed();
    let (log, _) = open(&sim, Level::Process);
    log.close().unwrap();
    assert_eq!(again(&sim.cut(), Level::Process), (Trust::Trusted, vec![1, 2, 3, 4, 5]));
}

#[test]
fn a_log_that_is_lost_before_it_is_forced_is_not_trusted_and_no_damage() {
    let (sim, log, _) = reopened();
    drop(log);
    sim.tamper(SEGMENT, |bytes| bytes[HEADER + 4 * (GROUP + 104) + 50] ^= 1);
    assert_eq!(again(&sim, Level::Process).0, Trust::Untrusted(Reason::CutShort));

    let (sim, mut log, jobs) = reopened();
    sim.world().fails_in = Some((0, Failure::Dropped));
    log.append(1, &[6; 100]).unwrap();
    assert!(shared::Helper::help(&*jobs));
    assert!(matches!(log.append(2, b"x"), Err(StoreError::Sync { .. })));
    drop(log);
    assert_eq!(again(&sim, Level::Process).0, Trust::Untrusted(Reason::SyncFailed));
}

#[test]
fn without_the_file_of_the_last_run_nothing_is_trusted() {
    let (sim, log) = five(Level::Sync);
    log.close().unwrap();
    disk::Disk::remove(&sim, "run").unwrap();
    let (_, found) = open(&sim.killed(), Level::Sync);
    assert_eq!(found.trust, Trust::Untrusted(Reason::NoRun));
    assert_eq!(found.generation, 2, "above all that are known of");
    assert_eq!(first_bytes(found), [1, 2, 3, 4, 5]);
}

#[test]
fn the_generation_rises_with_each_run() {
    let sim = Sim::new(1);
    for generation in 1..5 {
        let (_, found) = open(&sim, Level::Sync);
        assert_eq!(found.generation, generation);
    }
}

#[test]
fn the_level_process_needs_a_boot_id_and_a_local_disk() {
    let sim = Sim::new(1);
    sim.world().has_boot = false;
    assert!(matches!(try_open(&sim, options(Level::Process)), Err(StoreError::NoBootId)));
    open(&sim, Level::Sync);
    sim.world().has_boot = true;
    sim.world().remote = Some("NFS");
    let error = try_open(&sim, options(Level::Process)).err().unwrap();
    assert!(matches!(error, StoreError::Remote { kind: "NFS", .. }));
    assert!(error.to_string().contains("use the level sync or batched"), "{error}");
    open(&sim, Level::Batched);
}

#[test]
fn a_snapshot_waits_for_who_reads_what_was_found() {
    let (sim, log) = five(Level::Sync);
    drop(log);
    let (mut log, mut found) = open(&sim.killed(), Level::Sync);
    assert_eq!(found.groups.next_group().unwrap().unwrap()[0], 1);
    assert!(matches!(log.snapshot(vec![1]), Err(StoreError::Reading)));
    assert_eq!(found.groups.next().unwrap().unwrap()[0], 2);
    drop(found);
    log.snapshot(vec![1]).unwrap();
}

#[test]
fn a_group_longer_than_a_segment_gets_one_of_its_own() {
    let (sim, mut log) = five(Level::Sync);
    log.append(6, &[6; 20_000]).unwrap();
    log.append(7, &[7; 10]).unwrap();
    drop(log);
    let (mut log, found) = open(&sim.killed(), Level::Sync);
    assert_eq!(first_bytes(found), [1, 2, 3, 4, 5, 6, 7]);
    log.snapshot(vec![8]).unwrap();
    log.close().unwrap();
    let len = |name: &String| disk::Disk::open(&sim, name).unwrap().unwrap().len().unwrap();
    assert!(sim.names().iter().all(|name| len(name) <= 4096), "it is not kept");
    let (_, found) = open(&sim.killed(), Level::Sync);
    assert_eq!(first_bytes(found), [8]);
}

#[test]
fn misuse_is_told() {
    let (sim, mut log) = five(Level::Sync);
    assert!(matches!(log.append(5, b"x"), Err(StoreError::Backwards { through: 5, last: 5 })));
    log.append(6, b"").unwrap();
    assert_eq!(log.forcer().force().unwrap(), 5, "nothing is no group");
    drop(log);
    assert_eq!(again(&sim, Level::Sync), (Trust::Trusted, vec![1, 2, 3, 4, 5]));
}

#[test]
fn a_group_that_is_appended_while_the_disk_stalls_is_not_safe_by_that() {
    let (sim, mut log) = five(Level::Sync);
    let (began_to, began) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel();
    sim.world().stalls = Some((began_to, ends));
    let mut forcer = log.forcer();
    let forcing = std::thread::spawn(move || forcer.force());
    began.recv().unwrap();
    // Nothing delays the thread that appends.
    log.append(6, &[6; 100]).unwrap();
    end.send(()).unwrap();
    assert_eq!(forcing.join().unwrap().unwrap(), 5);
    assert_eq!(log.forcer().force().unwrap(), 6);
}

#[test]
fn a_damaged_snapshot_is_an_error() {
    for clean in [true, false] {
        let (sim, mut log) = five(Level::Sync);
        log.snapshot(vec![8; 1000]).unwrap();
        // Waits for the previous snapshot.
        log.snapshot(vec![9; 1000]).unwrap();
        if clean {
            log.close().unwrap();
        } else {
            drop(log);
        }
        let put_back = sim.image();
        assert_eq!(again(&sim, Level::Sync), (Trust::Trusted, vec![9]));
        for at in [0, 100, HEADER + 999] {
            put_back(&sim);
            sim.tamper("log-1.snapshot", |bytes| bytes[at] ^= 1);
            let opened = try_open(&sim.killed(), options(Level::Sync)).map(|(_, found)| found);
            assert!(matches!(opened, Err(StoreError::Corrupt { .. })), "{clean} {at}: {opened:?}");
        }
    }
}

#[test]
fn a_group_of_a_lost_run_does_not_count_in_a_segment_that_was_begun_again() {
    let sim = Sim::new(1);
    let (mut log, _) = open(&sim, Level::Sync);
    log.append(1, &[1; 3900]).unwrap();
    log.append(2, &[2; 3900]).unwrap();
    log.snapshot(vec![3]).unwrap();
    log.close().unwrap();
    let mut head = Vec::new();
    sim.tamper(SEGMENT, |bytes| head.extend_from_slice(&bytes[..HEADER]));

    let (mut log, _) = open(&sim, Level::Sync);
    log.append(1, &[4; 3900]).unwrap();
    log.append(2, &[5; 10]).unwrap();
    drop(log);
    // The power fails. The page with the group is on disk, the page with the header is not.
    sim.tamper(SEGMENT, |bytes| {
        assert_ne!(bytes[..HEADER], head);
        bytes[..HEADER].copy_from_slice(&head);
    });
    let sim = sim.killed();
    let (mut log, found) = open(&sim, Level::Sync);
    assert_eq!(first_bytes(found), [3, 4]);
    // The segment is begun again in the same place.
    log.snapshot(vec![6]).unwrap();
    sim.world().dead = true;
    drop(log);
    assert_eq!(again(&sim, Level::Sync), (Trust::Trusted, vec![3, 4]));
}

#[test]
fn a_header_that_is_damaged_does_not_hide_what_was_forced() {
    let (sim, mut log) = five(Level::Sync);
    log.forcer().force().unwrap();
    log.append(6, &[6; 100]).unwrap();
    drop(log);
    sim.tamper(SEGMENT, |bytes| bytes[20] ^= 1);
    assert!(matches!(try_open(&sim.killed(), options(Level::Sync)), Err(StoreError::Corrupt { .. })));
}

#[test]
fn a_segment_that_a_lost_run_had_begun_does_not_count_again() {
    let sim = Sim::new(1);
    let (mut log, _) = open(&sim, Level::Sync);
    for (n, len) in [(1, 1900), (2, 1900), (3, 50), (4, 1000)] {
        log.append(u64::from(n), &vec![n; len]).unwrap();
    }
    let other = "log-1.seg-1";
    let mut head = Vec::new();
    sim.tamper(other, |bytes| head.extend_from_slice(&bytes[..HEADER]));
    drop(log);
    sim.tamper(SEGMENT, |bytes| bytes[HEADER + 2 * 1936 + 40] ^= 1);
    let sim = sim.killed();
    let (mut log, found) = open(&sim, Level::Sync);
    assert_eq!(first_bytes(found), [1, 2]);
    log.append(1, &[9; 50]).unwrap();
    // The groups after it would begin in the other segment, with the LSN that this one had before.
    log.snapshot(vec![8]).unwrap();
    log.snapshot(vec![8]).unwrap();
    sim.world().dead = true;
    drop(log);
    sim.tamper(other, |bytes| bytes[..HEADER].copy_from_slice(&head));
    assert_eq!(again(&sim, Level::Sync), (Trust::Trusted, vec![8]));
}

#[test]
fn what_lies_aside_is_told_after_a_cut_too() {
    for seed in 0..40 {
        let sim = Sim::new(seed);
        let (mut log, _) = open(&sim, Level::Process);
        log.append(1, &[1; 100]).unwrap();
        log.close().unwrap();
        let (log, _) = open(&sim, Level::Process);
        drop(log);
        let mut sim = sim.cut();
        for _ in 0..4 {
            // Killed at once: after the opening, nothing forces names.
            let (log, found) = open(&sim, Level::Process);
            assert_eq!((found.trust, first_bytes(found)), (Trust::Untrusted(Reason::Rebooted), vec![1]));
            sim.world().dead = true;
            drop(log);
            sim = sim.cut();
        }
    }
}

#[test]
fn a_note_of_the_last_run_that_is_older_than_the_log_is_noticed() {
    let run_of = |sim: &Sim| {
        let mut run = Vec::new();
        sim.tamper("run", |bytes| run.clone_from(bytes));
        run
    };
    // The log has groups of a later run.
    let (sim, _log) = five(Level::Sync);
    let run = run_of(&sim);
    let sim = sim.killed();
    let (mut log, _) = open(&sim, Level::Sync);
    log.append(1, &[6; 100]).unwrap();
    sim.tamper("run", |bytes| *bytes = run);
    let (_, found) = open(&sim.killed(), Level::Sync);
    assert_eq!((found.trust, found.generation), (Trust::Untrusted(Reason::RolledBack), 3));

    // The log has another group in the place of the one that was noted.
    let (sim, _log) = five(Level::Sync);
    let put_back = sim.image();
    let sim = sim.killed();
    let (mut log, _) = open(&sim, Level::Sync);
    log.append(1, &[6; 100]).unwrap();
    let sim = sim.killed();
    drop(open(&sim, Level::Sync));
    let run = run_of(&sim);
    put_back(&sim);
    let sim = sim.killed();
    let (mut log, _) = open(&sim, Level::Sync);
    log.append(1, &[7; 100]).unwrap();
    sim.tamper("run", |bytes| *bytes = run);
    assert_eq!(again(&sim, Level::Sync).0, Trust::Untrusted(Reason::RolledBack));

    // There is a later log.
    let (sim, log) = five(Level::Process);
    log.forcer().force().unwrap();
    let run = run_of(&sim);
    let sim = sim.cut();
    let (mut log, _) = open(&sim, Level::Process);
    log.append(1, &[8; 100]).unwrap();
    sim.tamper("run", |bytes| *bytes = run);
    let (_, found) = open(&sim.killed(), Level::Process);
    assert_eq!((found.trust, found.generation), (Trust::Untrusted(Reason::RolledBack), 3));
    assert_eq!(first_bytes(found), [8], "the later one is told");
}

#[test]
fn the_next_segment_shows_that_the_end_of_one_was_lost() {
    for (level, begun) in [(Level::Sync, false), (Level::Process, false), (Level::Process, true)] {
        let sim = Sim::new(1);
        sim.world().has_witness = false;
        let (mut log, _) = open(&sim, level);
        log.append(1, &[1; 1900]).unwrap();
        log.append(2, &[2; 1900]).unwrap();
        if level == Level::Sync {
            log.forcer().force().unwrap();
        }
        log.append(3, &[3; 1900]).unwrap();
        sim.tamper(SEGMENT, |bytes| bytes[HEADER + 1936 + 50] ^= 1);
        if begun {
            // Only the header is there, not the whole group.
            sim.tamper("log-1.seg-1", |bytes| bytes[HEADER + 50] ^= 1);
        }
        let opened = try_open(&sim.killed(), options(level)).map(|(_, found)| found.trust);
        match level {
            Level::Sync => assert!(matches!(opened, Err(StoreError::Corrupt { .. })), "{opened:?}"),
            _ => assert_eq!(opened.unwrap(), Trust::Untrusted(Reason::PagesLost)),
        }
    }
}

#[test]
fn the_level_that_counts_is_that_of_the_last_run() {
    for (first, last) in [(Level::Process, Level::Sync), (Level::Sync, Level::Process)] {
        let (sim, log) = five(first);
        log.close().unwrap();
        let (mut log, _) = open(&sim, last);
        log.append(1, &[6; 100]).unwrap();
        log.forcer().force().unwrap();
        let (trust, read) = again(&sim.cut(), last);
        assert_eq!(trust == Trust::Trusted, last == Level::Sync);
        assert_eq!(read, [1, 2, 3, 4, 5, 6]);
    }
}

#[test]
fn a_segment_is_forced_before_it_is_used() {
    let (sim, mut log) = five(Level::Process);
    sim.world().fails_in = Some((0, Failure::Kept));
    assert!(matches!(log.append(6, &[6; 4000]), Err(StoreError::Sync { .. })));
}

#[test]
fn no_snapshot_is_wanted_while_one_is_being_written() {
    let (sim, jobs) = (Sim::new(1), Arc::new(Jobs::default()));
    let small = Options { snapshot_after: 1000, segment: 4096, ..options(Level::Sync) };
    let helper = Arc::clone(&jobs) as Arc<dyn crate::shared::Helper>;
    let (mut log, _) = recover::open(Arc::new(sim.clone()), helper, small).unwrap();
    log.append(1, &[1; 2000]).unwrap();
    assert!(log.wants_snapshot());
    log.snapshot(vec![2]).unwrap();
    log.append(2, &[1; 2000]).unwrap();
    assert!(!log.wants_snapshot());
    // Waits for the previous snapshot, which replaced only the first group.
    log.snapshot(vec![3]).unwrap();
    log.snapshot(vec![4]).unwrap();
    while crate::shared::Helper::help(&*jobs) {}
    log.append(3, &[1; 100]).unwrap();
    assert!(!log.wants_snapshot(), "hardly anything came behind it");
    log.close().unwrap();
    let (log, _) = try_open(&sim, Options { snapshot_after: 1000, ..options(Level::Sync) }).unwrap();
    assert!(!log.wants_snapshot());
    assert_eq!(log.room(), 4096 - 128 - 136 + 2 * (4096 - 128), "of the pool too");
}

#[test]
fn what_was_filled_only_in_part_is_not_used_and_no_more_wait_than_are_allowed() {
    let (sim, mut log) = five(Level::Sync);
    for through in 6..12 {
        log.append(through, &[6; 3900]).unwrap();
    }
    log.snapshot(vec![7]).unwrap();
    log.close().unwrap();
    let mut part = disk::Disk::create(&sim, "log-1.seg-77").unwrap();
    part.write_at(0, &[&[0; 4096]]).unwrap();
    for pool in [3, 1] {
        let (log, _) = try_open(&sim, Options { pool, ..options(Level::Sync) }).unwrap();
        let names = sim.names();
        assert!(!names.contains(&"log-1.seg-77".to_owned()), "{names:?}");
        assert_eq!(names.iter().filter(|name| name.contains(".seg-")).count(), 1 + pool);
        log.close().unwrap();
    }
}
