//! Tests that every [`Store`] has to pass: the log of this crate, and other implementations.
//!
//! [`check`] panics at the first failure. It cannot cut the power, so a store also needs its own tests with bytes that
//! were not forced. It drops a journal in place of killing a process, so a store also needs a test that kills a process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::path::{Path, PathBuf};

use crate::{Found, Level, Options, Reason, Runtime, Storage, Store, StoreError, Trust};

const IDENTITY: [u8; 32] = *b"a tag of an identity in the test";

/// Runs all tests of this module, in directories below `temp`. `temp` must exist.
pub fn check(store: &dyn Store, temp: &Path) {
    for level in [Level::Process, Level::Batched, Level::Sync] {
        let bench = |name: &str| Bench { store, dir: temp.join(format!("{name}-{level}")), level };
        groups_are_found_again(&bench("groups"));
        a_group_is_found_as_a_whole(&bench("long"));
        positions_rise(&bench("positions"));
        forcing_tells_the_position(&bench("forcing"));
        a_snapshot_replaces_groups(&bench("snapshot"));
        a_snapshot_keeps_groups(&bench("kept"));
        what_is_kept_is_not_much_more_than_what_is_needed(&bench("sparse"));
        snapshots_are_wanted_as_the_log_grows(&bench("wanted"));
        a_boot_is_noticed(&bench("boot"));
        a_clean_end_outlives_a_boot(&bench("clean"));
        a_journal_belongs_to_one_identity(&bench("identity"));
        a_journal_belongs_to_one_store(&bench("store"));
        room_is_found_for_what_begins(&bench("room"));
        #[cfg(unix)]
        a_journal_that_is_removed_is_noticed(&bench("removed"));
    }
    the_level_process_needs_a_boot_id(&Bench { store, dir: temp.join("no-boot"), level: Level::Process });
    the_level_of_the_last_run_counts(&Bench { store, dir: temp.join("levels"), level: Level::Sync });
}

/// A journal in a directory of its own.
struct Bench<'a> {
    store: &'a dyn Store,
    dir: PathBuf,
    level: Level,
}

fn first_boot() -> Option<[u8; 16]> {
    Some([1; 16])
}

fn second_boot() -> Option<[u8; 16]> {
    Some([2; 16])
}

fn no_boot() -> Option<[u8; 16]> {
    None
}

type Boot = fn() -> Option<[u8; 16]>;

impl Bench<'_> {
    fn options(&self, boot: Boot) -> Options {
        Options {
            runtime: Runtime::None,
            segment: 64 << 10,
            snapshot_after: 256 << 10,
            boot,
            ..Options::new(IDENTITY, self.level)
        }
    }

    fn try_open(&self, boot: Boot) -> Result<(Box<dyn Storage>, Found), StoreError> {
        self.store.open(&self.dir, self.options(boot))
    }

    fn open(&self) -> (Box<dyn Storage>, Found) {
        self.try_open(first_boot).unwrap()
    }

    /// Opens the journal as the next run, which dies at once. Returns what that run has found.
    fn again(&self, boot: Boot) -> (Trust, Vec<(u64, bool, Vec<u8>)>) {
        let (_storage, found) = self.try_open(boot).unwrap();
        (found.trust, all(found.groups))
    }
}

/// All groups. Each has its LSN, whether it is kept, and its bytes.
fn all(mut groups: crate::Groups) -> Vec<(u64, bool, Vec<u8>)> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some(group) = groups.next_found().unwrap() {
        bytes += group.bytes.len() as u64;
        found.push((group.lsn, group.kept, group.bytes.to_vec()));
    }
    assert!(bytes <= groups.bytes(), "{bytes} {}", groups.bytes());
    found
}

/// Groups of `len` bytes with these LSNs. Each consists of the last byte of its LSN.
fn plain(lsns: impl IntoIterator<Item = u64>, len: usize) -> Vec<(u64, bool, Vec<u8>)> {
    lsns.into_iter().map(|lsn| (lsn, false, vec![lsn.to_le_bytes()[0]; len])).collect()
}

/// Appends such groups.
fn fill(storage: &mut dyn Storage, lsns: core::ops::RangeInclusive<u64>, len: usize) {
    for (lsn, _, bytes) in plain(lsns, len) {
        storage.append(lsn, &bytes).unwrap();
        assert_eq!(storage.lsn(), lsn);
    }
}

fn groups_are_found_again(bench: &Bench<'_>) {
    let (mut storage, found) = bench.open();
    assert!(found.is_new && found.trust == Trust::Trusted && found.generation == 1);
    assert!(all(found.groups).is_empty());
    fill(&mut *storage, 1..=5, 100);
    drop(storage);
    for generation in 2..4 {
        let (storage, found) = bench.open();
        assert!(!found.is_new && found.trust == Trust::Trusted && found.generation == generation);
        assert_eq!(storage.lsn(), 5);
        assert_eq!(all(found.groups), plain(1..=5, 100));
    }
    assert_eq!(bench.again(first_boot), (Trust::Trusted, plain(1..=5, 100)));
    let (mut storage, found) = bench.open();
    drop(found);
    storage.append_parts(1, &[b"in ", b"", b"parts"]).unwrap();
    storage.append(2, b"").unwrap();
    storage.append_parts(2, &[]).unwrap();
    assert_eq!(storage.lsn(), 6, "no parts make no group");
    drop(storage);
    let (_, groups) = bench.again(first_boot);
    assert_eq!(groups[5], (6, false, b"in parts".to_vec()));
}

fn a_group_is_found_as_a_whole(bench: &Bench<'_>) {
    let (mut storage, _) = bench.open();
    let long: Vec<u8> = (0..20_u32 << 20).map(|at| at.to_le_bytes()[1]).collect();
    assert!(storage.has_reserve(long.len() as u64));
    storage.append(1, b"short").unwrap();
    storage.append_parts(2, &[&long[..7], &long[7..]]).unwrap();
    storage.append(3, b"short").unwrap();
    drop(storage);
    let (trust, groups) = bench.again(first_boot);
    assert_eq!((trust, groups.len()), (Trust::Trusted, 3));
    assert!(groups[1] == (2, false, long), "the bytes are those that were appended");
}

fn positions_rise(bench: &Bench<'_>) {
    let (mut storage, _) = bench.open();
    storage.append(7, b"one").unwrap();
    for through in [7, 6, 0] {
        let error = storage.append(through, b"two").unwrap_err();
        assert!(matches!(error, StoreError::Backwards { last: 7, .. }), "{error}");
    }
    storage.append(8, b"three").unwrap();
    assert_eq!(storage.lsn(), 2);
}

/// Other systems do not remove files that are open.
#[cfg(unix)]
fn a_journal_that_is_removed_is_noticed(bench: &Bench<'_>) {
    for moved in [false, true] {
        let (mut storage, found) = bench.open();
        drop(found);
        storage.append(10, b"one").unwrap();
        storage.still_there().unwrap();
        if moved {
            std::fs::rename(&bench.dir, bench.dir.with_extension("moved")).unwrap();
        } else {
            std::fs::remove_dir_all(&bench.dir).unwrap();
        }
        for _ in 0..2 {
            let error = storage.still_there().unwrap_err();
            assert!(matches!(error, StoreError::Removed { .. }), "{error}");
        }
        let error = storage.append(20, b"two").unwrap_err();
        assert!(matches!(error, StoreError::Removed { .. }), "{error}");
        let error = storage.close().unwrap_err();
        assert!(matches!(error, StoreError::Removed { .. }), "{error}");
    }
}

fn forcing_tells_the_position(bench: &Bench<'_>) {
    let (mut storage, _) = bench.open();
    let (mut forcer, mut other) = (storage.forcer(), storage.forcer());
    assert_eq!(forcer.force().unwrap(), 0);
    storage.append(10, b"one").unwrap();
    assert_eq!(forcer.force().unwrap(), 10);
    storage.append(20, b"two").unwrap();
    storage.append(30, b"three").unwrap();
    let forced = std::thread::spawn(move || other.force().unwrap()).join().unwrap();
    assert_eq!((forced, forcer.force().unwrap()), (30, 30));
}

fn a_snapshot_replaces_groups(bench: &Bench<'_>) {
    let (mut storage, found) = bench.open();
    fill(&mut *storage, 1..=4, 100);
    let reading = storage.snapshot(b"too early".to_vec()).unwrap_err();
    assert!(matches!(reading, StoreError::Reading), "{reading}");
    drop(found);
    storage.snapshot(b"a state".to_vec()).unwrap();
    fill(&mut *storage, 5..=6, 100);
    storage.snapshot(b"a later state".to_vec()).unwrap();
    fill(&mut *storage, 7..=8, 100);
    storage.forcer().force().unwrap();
    drop(storage);
    let later = vec![(0, false, b"a later state".to_vec())];
    assert_eq!(bench.again(first_boot).1, [later, plain(7..=8, 100)].concat());
    let (mut storage, found) = bench.open();
    drop(found);
    storage.snapshot(vec![9; 3 << 20]).unwrap();
    storage.close().unwrap();
    assert_eq!(bench.again(first_boot).1, [(0, false, vec![9; 3 << 20])]);
    let (storage, _) = bench.open();
    assert_eq!(storage.lsn(), 8, "LSNs go on");
}

fn a_snapshot_keeps_groups(bench: &Bench<'_>) {
    let (mut storage, found) = bench.open();
    drop(found);
    fill(&mut *storage, 1..=9, 40_000);
    let from = storage.keep_from(&[(8, 40_000), (9, 40_000)]);
    assert!((2..=8).contains(&from), "{from}");
    storage.snapshot_keeping(from, b"counts on them".to_vec()).unwrap();
    fill(&mut *storage, 10..=11, 100);
    storage.forcer().force().unwrap();
    drop(storage);
    let (trust, groups) = bench.again(first_boot);
    let kept: Vec<_> = groups.iter().filter(|(_, kept, _)| *kept).map(|(lsn, ..)| *lsn).collect();
    assert_eq!((trust, kept), (Trust::Trusted, (from..=9).collect::<Vec<_>>()));
    assert_eq!(groups[0], (0, false, b"counts on them".to_vec()));
    assert!(groups.iter().filter(|it| it.1).all(|(lsn, _, bytes)| plain([*lsn], 40_000)[0].2 == *bytes));
    assert_eq!(groups[groups.len() - 2..], plain(10..=11, 100));
    // The groups that are not kept, as an iterator gives them.
    let (mut storage, found) = bench.open();
    let lens: Vec<_> = found.groups.map(|group| group.unwrap().len()).collect();
    assert_eq!(lens, [14, 100, 100]);
    // A later snapshot counts on the same groups.
    storage.snapshot_keeping(from, b"later".to_vec()).unwrap();
    storage.close().unwrap();
    let kept: Vec<_> = bench.again(first_boot).1.into_iter().map(|(lsn, ..)| lsn).collect();
    assert_eq!(kept, core::iter::once(0).chain(from..=11).collect::<Vec<_>>());
}

fn what_is_kept_is_not_much_more_than_what_is_needed(bench: &Bench<'_>) {
    let (mut storage, found) = bench.open();
    drop(found);
    fill(&mut *storage, 1..=100, 40_000);
    assert_eq!(storage.keep_from(&[]), u64::MAX);
    assert!(storage.keep_from(&[(1, 40_000)]) > 1, "99 groups would be kept for the sake of one");
    let all: Vec<_> = (1..=100).map(|lsn| (lsn, 40_000)).collect();
    assert_eq!(storage.keep_from(&all), 1);
    let from = storage.keep_from(&[(1, 40_000), (99, 40_000), (100, 40_000)]);
    assert!((90..=99).contains(&from), "{from}");
}

fn snapshots_are_wanted_as_the_log_grows(bench: &Bench<'_>) {
    let (mut storage, found) = bench.open();
    drop(found);
    assert!(!storage.wants_snapshot());
    fill(&mut *storage, 1..=30, 10_000);
    assert!(storage.wants_snapshot());
    storage.snapshot(vec![1; 100]).unwrap();
    // The next snapshot waits for this one.
    storage.snapshot(vec![2; 600_000]).unwrap();
    storage.snapshot(vec![3; 600_000]).unwrap();
    fill(&mut *storage, 31..=60, 10_000);
    assert!(!storage.wants_snapshot(), "the last one was larger than this");
}

fn a_boot_is_noticed(bench: &Bench<'_>) {
    let (mut storage, _) = bench.open();
    fill(&mut *storage, 1..=3, 100);
    storage.forcer().force().unwrap();
    drop(storage);
    if bench.level != Level::Process {
        assert_eq!(bench.again(second_boot), (Trust::Trusted, plain(1..=3, 100)));
        return;
    }
    let rebooted = Trust::Untrusted(Reason::Rebooted);
    for _ in 0..2 {
        assert_eq!(bench.again(second_boot), (rebooted, plain(1..=3, 100)), "until something is appended");
    }
    let (mut storage, found) = bench.try_open(second_boot).unwrap();
    assert_eq!((found.trust, storage.lsn()), (rebooted, 0), "a new journal has begun");
    drop(found);
    fill(&mut *storage, 1..=1, 7);
    drop(storage);
    assert_eq!(bench.again(second_boot), (Trust::Trusted, plain(1..=1, 7)));
}

fn a_clean_end_outlives_a_boot(bench: &Bench<'_>) {
    let (mut storage, _) = bench.open();
    fill(&mut *storage, 1..=3, 100);
    storage.close().unwrap();
    assert_eq!(bench.again(second_boot), (Trust::Trusted, plain(1..=3, 100)));
    if bench.level == Level::Process {
        // That run, which died, was of the second boot.
        assert_eq!(bench.again(first_boot).0, Trust::Untrusted(Reason::Rebooted));
    }
}

fn a_journal_belongs_to_one_identity(bench: &Bench<'_>) {
    let (mut storage, _) = bench.open();
    fill(&mut *storage, 1..=1, 100);
    drop(storage);
    let theirs = || Options { identity: [7; 32], ..bench.options(first_boot) };
    let opened = bench.store.open(&bench.dir, theirs()).map(drop);
    assert!(matches!(opened, Err(StoreError::Identity { .. })), "{opened:?}");
    assert_eq!(bench.again(first_boot), (Trust::Trusted, plain(1..=1, 100)), "nothing is lost");
}

/// A store under another name.
struct Other;

impl Store for Other {
    fn name(&self) -> &str {
        "a store of a test"
    }

    fn open(&self, dir: &Path, options: Options) -> Result<(Box<dyn Storage>, Found), StoreError> {
        crate::prepare(dir, self.name(), &options)?;
        Err(StoreError::Reading)
    }
}

fn a_journal_belongs_to_one_store(bench: &Bench<'_>) {
    let (mut storage, _) = bench.open();
    fill(&mut *storage, 1..=1, 100);
    drop(storage);
    let foreign = |error: Option<StoreError>, of: &str| {
        assert!(matches!(&error, Some(StoreError::OtherStore { store, .. }) if store == of), "{error:?}");
    };
    let options = || bench.options(first_boot);
    foreign(Other.open(&bench.dir, options()).err(), bench.store.name());
    assert_eq!(bench.again(first_boot), (Trust::Trusted, plain(1..=1, 100)));
    let theirs = bench.dir.with_extension("theirs");
    assert!(matches!(Other.open(&theirs, options()).err(), Some(StoreError::Reading)));
    foreign(bench.store.open(&theirs, options()).err(), Other.name());
}

fn room_is_found_for_what_begins(bench: &Bench<'_>) {
    let (mut storage, _) = bench.open();
    assert!(storage.has_reserve(1) && storage.has_reserve(1 << 20));
    assert!(!storage.has_reserve(u64::MAX) && !storage.has_reserve(crate::MAX_GROUP + 1));
    let long = vec![0; usize::try_from(crate::MAX_GROUP).unwrap_or(usize::MAX).min(1 << 16)];
    let parts = vec![&long[..]; 1 << 16];
    let error = storage.append_parts(1, &parts).unwrap_err();
    assert!(matches!(error, StoreError::TooLong { len: 0x1_0000_0000 }), "{error}");
    storage.append(1, b"after that").unwrap();
}

fn the_level_process_needs_a_boot_id(bench: &Bench<'_>) {
    let error = bench.try_open(no_boot).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::NoBootId), "{error}");
    let (mut storage, _) = bench.open();
    fill(&mut *storage, 1..=1, 100);
    drop(storage);
    let safe = Bench { level: Level::Sync, dir: bench.dir.clone(), ..*bench };
    assert_eq!(
        safe.again(no_boot).0,
        Trust::Untrusted(Reason::Rebooted),
        "without a boot id, the store cannot know"
    );
}

fn the_level_of_the_last_run_counts(bench: &Bench<'_>) {
    let at = |level| Bench { level, dir: bench.dir.clone(), ..*bench };
    let (mut storage, _) = at(Level::Process).open();
    fill(&mut *storage, 1..=1, 100);
    drop(storage);
    assert_eq!(at(Level::Sync).again(first_boot), (Trust::Trusted, plain(1..=1, 100)));
    assert_eq!(at(Level::Process).again(second_boot), (Trust::Trusted, plain(1..=1, 100)));
    assert_eq!(at(Level::Sync).again(first_boot).0, Trust::Untrusted(Reason::Rebooted));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_keeps_what_a_store_keeps() {
        let temp = tempfile::tempdir().unwrap();
        check(&crate::LogStore, temp.path());
    }
}
