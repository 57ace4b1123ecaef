//! Tests of the store: the tests for every store, and tests with kills and power cuts.

use std::env;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use exonet_store::{Level, Options, Reason, Runtime, Storage, Store, StoreError, Trust, contract};

use crate::journal::{self, Syncer};
use crate::{NAME, SqliteStore};

const ROLE: &str = "EXONET_STORE_SQLITE_TEST_DIR";

fn options(level: Level) -> Options {
    let mut options = Options::new([7; 32], level);
    (options.runtime, options.boot) = (Runtime::None, || Some([1; 16]));
    options
}

#[test]
fn sqlite_keeps_what_a_store_keeps() {
    let temp = tempfile::tempdir().unwrap();
    contract::check(&SqliteStore, temp.path());
}

fn group(number: u64) -> Vec<u8> {
    let len = usize::try_from(number % 700).unwrap() + 8;
    let mut group = number.to_le_bytes().to_vec();
    group.resize(len, u8::try_from(number % 251).unwrap());
    group
}

/// A process that is killed loses no group that it has appended. This holds at every level, and without a sync.
#[test]
fn what_a_killed_process_had_appended_is_there() {
    const TEST: &str = "tests::what_a_killed_process_had_appended_is_there";
    if let Some(dir) = env::var_os(ROLE).map(PathBuf::from) {
        let level = if dir.ends_with("process") { Level::Process } else { Level::Batched };
        let mut small = options(level);
        (small.segment, small.snapshot_after) = (64 << 10, 300 << 10);
        let (mut journal, found) = SqliteStore.open(&dir, small).unwrap();
        drop(found);
        let (mut through, mut out) = (0, io::stdout());
        loop {
            through += 1;
            journal.append(through, &group(journal.lsn() + 1)).unwrap();
            if journal.wants_snapshot() {
                journal.snapshot(journal.lsn().to_le_bytes().to_vec()).unwrap();
            }
            // The parent relies on this line: everything up to this LSN was appended.
            writeln!(out, "report {}", journal.lsn()).unwrap();
        }
    }
    let temp = tempfile::tempdir().unwrap();
    for (name, level) in [("process", Level::Process), ("batched", Level::Batched)] {
        let (dir, mut least) = (temp.path().join(name), 0);
        for round in 1..=4_usize {
            let mut command = Command::new(env::current_exe().unwrap());
            command.args(["--exact", TEST, "--nocapture"]).env(ROLE, &dir);
            let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
            let mut said = lines.filter_map(|line| line.split_once("report ")?.1.parse::<u64>().ok());
            let told = said.nth(round * 331).unwrap();
            child.kill().unwrap();
            let told = said.last().unwrap_or(told);
            child.wait().unwrap();
            assert!(told > least);
            least = told;
            let (journal, mut found) = SqliteStore.open(&dir, options(level)).unwrap();
            assert_eq!(found.trust, Trust::Trusted);
            let mut last = 0;
            while let Some(it) = found.groups.next_found().unwrap() {
                if it.lsn == 0 {
                    last = u64::from_le_bytes(*it.bytes.first_chunk().unwrap());
                } else {
                    last += 1;
                    assert_eq!((it.lsn, it.bytes), (last, &group(last)[..]));
                }
            }
            assert!(last == told || last == told + 1, "{last} {told}");
            drop((journal, found));
        }
    }
}

type Files = Vec<(PathBuf, Vec<u8>)>;

/// A disk that loses everything since the last sync when the power is cut.
#[derive(Clone, Default)]
struct Cut {
    dir: PathBuf,
    kept: Arc<Mutex<Files>>,
    syncs: Arc<AtomicUsize>,
    fails: Arc<AtomicBool>,
    /// Whether the disk reports syncs that it has not made.
    lies: Arc<AtomicBool>,
}

impl Cut {
    fn syncer(&self) -> Syncer {
        let this = self.clone();
        Arc::new(move |_: &File| {
            this.syncs.fetch_add(1, Ordering::Relaxed);
            if this.fails.load(Ordering::Relaxed) {
                return Err(io::Error::other("the disk is gone"));
            }
            if !this.lies.load(Ordering::Relaxed) {
                *this.kept.lock().unwrap() = files(&this.dir);
            }
            Ok(())
        })
    }

    fn open(&self, level: Level) -> (journal::Journal, exonet_store::Found) {
        journal::open(&self.dir, &options(level), self.syncer()).unwrap()
    }

    /// Cuts the power.
    fn cut(&self) {
        for (path, _) in files(&self.dir) {
            fs::remove_file(path).unwrap();
        }
        for (path, bytes) in &*self.kept.lock().unwrap() {
            fs::write(path, bytes).unwrap();
        }
    }
}

fn files(dir: &Path) -> Files {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn a_cut_of_power_takes_only_what_was_not_forced() {
    let temp = tempfile::tempdir().unwrap();
    for level in [Level::Batched, Level::Sync] {
        let cut = Cut { dir: temp.path().join(level.to_string()), ..Cut::default() };
        let mut expected = Vec::new();
        for round in 0..4_u8 {
            let mut small = options(level);
            small.segment = 64 << 10;
            let (mut journal, found) = journal::open(&cut.dir, &small, cut.syncer()).unwrap();
            assert_eq!(found.trust, Trust::Trusted);
            let groups: Vec<_> = found.groups.map(Result::unwrap).collect();
            assert_eq!(groups, expected, "{level} {round}");
            // The third group makes the journal move the WAL.
            for n in 1..=4_u8 {
                expected.push(vec![16 * round + n; 400_000]);
                journal.append(n.into(), &[16 * round + n; 400_000]).unwrap();
            }
            assert!(fs::metadata(cut.dir.join("journal.sqlite-wal")).unwrap().len() < 500_000);
            let mut forcer = journal.forcer();
            assert_eq!(forcer.force().unwrap(), 4);
            let syncs = cut.syncs.load(Ordering::Relaxed);
            assert_eq!(forcer.force().unwrap(), 4);
            assert_eq!(cut.syncs.load(Ordering::Relaxed), syncs, "there is nothing new to force");
            journal.append(5, b"not forced").unwrap();
            drop((journal, forcer));
            cut.cut();
        }
    }
}

#[test]
fn a_sync_that_fails_ends_the_journal_and_the_trust_in_memory() {
    let temp = tempfile::tempdir().unwrap();
    for (level, trust) in
        [(Level::Process, Trust::Untrusted(Reason::SyncFailed)), (Level::Sync, Trust::Trusted)]
    {
        let cut = Cut { dir: temp.path().join(level.to_string()), ..Cut::default() };
        let (mut journal, found) = cut.open(level);
        drop(found);
        journal.append(1, b"one").unwrap();
        let mut forcer = journal.forcer();
        cut.fails.store(true, Ordering::Relaxed);
        assert!(matches!(forcer.force(), Err(StoreError::Sync { .. })));
        cut.fails.store(false, Ordering::Relaxed);
        assert!(matches!(forcer.force(), Err(StoreError::Sync { .. })), "the error stays");
        assert!(matches!(journal.append(2, b"two"), Err(StoreError::Sync { .. })));
        assert!(!journal.has_reserve(1));
        drop((journal, forcer));
        assert_eq!(cut.open(level).1.trust, trust, "{level}");
    }
}

/// Cuts the WAL to `len` bytes, as when the system could not write the rest.
fn lose_behind(dir: &Path, len: u64) {
    let wal = File::options().write(true).open(dir.join("journal.sqlite-wal")).unwrap();
    assert!(wal.metadata().unwrap().len() > len);
    wal.set_len(len).unwrap();
}

/// The system may lose pages that it could not write at any time, and with them everything after them in the WAL.
#[test]
fn a_sync_that_fails_is_known_when_the_end_of_the_wal_is_lost() {
    for by_next_run in [false, true] {
        let temp = tempfile::tempdir().unwrap();
        let cut = Cut { dir: temp.path().join("journal"), ..Cut::default() };
        let (mut journal, found) = cut.open(Level::Process);
        drop(found);
        journal.append(1, b"one").unwrap();
        let len = fs::metadata(cut.dir.join("journal.sqlite-wal")).unwrap().len();
        journal.append(2, b"two").unwrap();
        cut.fails.store(true, Ordering::Relaxed);
        if by_next_run {
            drop(journal);
            let opened = journal::open(&cut.dir, &options(Level::Process), cut.syncer()).map(drop);
            assert!(matches!(opened, Err(StoreError::Sync { .. })), "{opened:?}");
        } else {
            assert!(journal.forcer().force().is_err());
            drop(journal);
        }
        cut.fails.store(false, Ordering::Relaxed);
        lose_behind(&cut.dir, len);
        let failed = Trust::Untrusted(Reason::SyncFailed);
        for _ in 0..2 {
            let (_, found) = cut.open(Level::Process);
            assert_eq!((found.trust, found.groups.count()), (failed, 1), "until something is appended");
        }
        cut.open(Level::Process).0.append(1, b"three").unwrap();
        let (_, found) = cut.open(Level::Process);
        let groups: Vec<_> = found.groups.map(Result::unwrap).collect();
        assert_eq!((found.trust, groups), (Trust::Trusted, vec![b"three".to_vec()]), "the new one is");
    }
}

fn second_boot(level: Level) -> Options {
    let mut options = options(level);
    options.boot = || Some([2; 16]);
    options
}

/// A run may end after it has put the last journal aside and before it has begun a new one.
#[test]
fn a_journal_that_was_just_put_aside_is_not_forgotten() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("journal");
    let (mut journal, _) = SqliteStore.open(&dir, options(Level::Process)).unwrap();
    journal.append(1, b"one").unwrap();
    drop(journal);
    drop(SqliteStore.open(&dir, second_boot(Level::Process)).unwrap());
    let rebooted = Trust::Untrusted(Reason::Rebooted);
    for made in [false, true] {
        fs::remove_file(dir.join("journal.sqlite-wal")).unwrap();
        fs::remove_file(dir.join("journal.sqlite")).unwrap();
        if made {
            fs::write(dir.join("journal.sqlite"), []).unwrap();
        }
        for generation in 2..4 {
            let (_, found) = SqliteStore.open(&dir, second_boot(Level::Process)).unwrap();
            assert_eq!((found.trust, found.generation, found.is_new), (rebooted, generation, false));
            assert_eq!(found.groups.map(Result::unwrap).collect::<Vec<_>>(), [b"one".to_vec()]);
        }
    }
    fs::remove_file(dir.join("untrusted.sqlite")).unwrap();
    let (_, found) = SqliteStore.open(&dir, second_boot(Level::Process)).unwrap();
    assert_eq!((found.trust, found.groups.count()), (rebooted, 0), "it may be removed");
}

#[test]
fn a_full_disk_takes_nothing_of_a_group_and_ends_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let cut = Cut { dir: temp.path().join("journal"), ..Cut::default() };
    let (mut journal, found) = cut.open(Level::Sync);
    drop(found);
    journal.append(1, &[1; 9_000]).unwrap();
    let pages = journal.bound(u32::MAX);
    journal.bound(pages);
    let reserve = || fs::metadata(cut.dir.join("reserve")).unwrap().len();
    assert_eq!(reserve(), 4 << 20);
    for _ in 0..2 {
        let error = journal.append(2, &[2; 90_000]).unwrap_err();
        assert!(matches!(error, StoreError::Full { .. }), "{error}");
        let error = journal.snapshot(vec![3; 90_000]).unwrap_err();
        assert!(matches!(error, StoreError::Full { .. }), "{error}");
    }
    assert_eq!(reserve(), 0, "it was given up for the group");
    assert_eq!((journal.lsn(), journal.forcer().force().unwrap()), (1, 1));
    journal.bound(u32::MAX);
    assert!(journal.has_reserve(1));
    assert_eq!(reserve(), 4 << 20, "it is there again");
    assert!(!journal.has_reserve(exonet_store::MAX_GROUP + 1));
    journal.append(2, &[4; 90_000]).unwrap();
    drop(journal);
    let read: Vec<_> = cut.open(Level::Sync).1.groups.map(Result::unwrap).collect();
    assert_eq!(read, [vec![1; 9_000], vec![4; 90_000]]);
}

/// A test cannot see what SQLite itself forces. So this test asks for its settings.
#[test]
fn the_database_forces_what_it_moves() {
    let temp = tempfile::tempdir().unwrap();
    let cut = Cut { dir: temp.path().join("journal"), ..Cut::default() };
    for _ in 0..2 {
        let (journal, _) = cut.open(Level::Process);
        assert_eq!((journal.pragma("synchronous"), journal.pragma("checkpoint_fullfsync")), (1, 1));
        assert_eq!((journal.pragma("wal_autocheckpoint"), journal.pragma("auto_vacuum")), (0, 2));
        let mut names: Vec<_> = fs::read_dir(&cut.dir).unwrap().map(|it| it.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["journal.sqlite", "journal.sqlite-wal", "reserve", "store"]);
    }
}

/// If the power is cut while the WAL is moved into the database, the database may have any of the new pages. The WAL is whole, since it
/// was forced before. After the move, the database alone has everything.
#[test]
fn a_cut_of_power_takes_nothing_while_the_wal_is_moved() {
    let temp = tempfile::tempdir().unwrap();
    let (dir, mixed) = (temp.path().join("journal"), temp.path().join("mixed"));
    let (db, wal) = ("journal.sqlite", "journal.sqlite-wal");
    let groups: Vec<_> = (1..=60_u8).map(|n| vec![n; 20_000]).collect();
    for by_next_run in [false, true] {
        let _ = fs::remove_dir_all(&dir);
        let mut small = options(Level::Sync);
        small.segment = if by_next_run { 4 << 20 } else { 64 << 10 };
        let (mut journal, found) = SqliteStore.open(&dir, small.clone()).unwrap();
        drop(found);
        let mut before = (fs::read(dir.join(db)).unwrap(), fs::read(dir.join(wal)).unwrap());
        let mut moved = None;
        for (n, group) in (1..).zip(&groups) {
            journal.append(n, group).unwrap();
            let now = (fs::read(dir.join(db)).unwrap(), fs::read(dir.join(wal)).unwrap());
            if now.1.is_empty() {
                // Only the database has the last group.
                moved = Some((usize::try_from(n).unwrap(), now.0));
                break;
            }
            before = now;
        }
        drop(journal);
        let (count, after) = moved.unwrap_or_else(|| {
            drop(SqliteStore.open(&dir, small.clone()).unwrap());
            (groups.len(), fs::read(dir.join(db)).unwrap())
        });
        assert_eq!(count == groups.len(), by_next_run, "{count}");
        let found_in = |db_bytes: &[u8], wal_bytes: &[u8]| {
            let _ = fs::remove_dir_all(&mixed);
            fs::create_dir(&mixed).unwrap();
            fs::copy(dir.join("store"), mixed.join("store")).unwrap();
            fs::write(mixed.join(db), db_bytes).unwrap();
            fs::write(mixed.join(wal), wal_bytes).unwrap();
            let found = SqliteStore.open(&mixed, small.clone()).unwrap().1;
            assert_eq!(found.trust, Trust::Trusted);
            found.groups.map(Result::unwrap).collect::<Vec<_>>()
        };
        assert_eq!(found_in(&after, &[]), groups[..count], "the database alone has them");
        if by_next_run {
            for (every, at) in [(1, 0), (2, 0), (2, 1), (3, 1)] {
                let mut pages = before.0.clone();
                pages.resize(after.len(), 0);
                for page in (0..after.len() / 4096).filter(|page| page % every == at) {
                    let range = page * 4096..(page + 1) * 4096;
                    pages[range.clone()].copy_from_slice(&after[range]);
                }
                assert_eq!(found_in(&pages, &before.1), groups, "{every} {at}");
            }
        }
    }
}

/// A snapshot gives back the room that a backlog has taken.
#[test]
fn the_file_becomes_shorter_when_a_backlog_is_over() {
    let temp = tempfile::tempdir().unwrap();
    let cut = Cut { dir: temp.path().join("journal"), ..Cut::default() };
    let (mut journal, found) = cut.open(Level::Sync);
    drop(found);
    let len = |name: &str| fs::metadata(cut.dir.join(name)).unwrap().len();
    for through in 1..=20 {
        journal.append(through, &[7; 1 << 20]).unwrap();
    }
    assert!(len("journal.sqlite") > 15 << 20);
    journal.snapshot(b"nothing waits".to_vec()).unwrap();
    let left = len("journal.sqlite") + len("journal.sqlite-wal");
    assert!(left < 1 << 20, "{left}");
    assert_eq!(journal.pragma("auto_vacuum"), 2, "a snapshot itself needs no room for that");
}

/// If a file reaches a bound of the system, such as a quota, the error differs from that of a full disk.
#[cfg(unix)]
#[test]
fn a_bound_of_the_system_is_a_full_disk() {
    const TEST: &str = "tests::a_bound_of_the_system_is_a_full_disk";
    if let Some(dir) = env::var_os(ROLE).map(PathBuf::from) {
        let reserve = dir.join("reserve");
        if reserve.exists() {
            let opened = SqliteStore.open(&dir, options(Level::Sync)).map(drop);
            assert!(matches!(opened, Err(StoreError::Full { .. })), "{opened:?}");
            assert_eq!(fs::metadata(reserve).unwrap().len(), 0, "it was given up");
        } else {
            let (mut journal, _) = SqliteStore.open(&dir, options(Level::Sync)).unwrap();
            let error = (1..=99).find_map(|n| journal.append(n, &[1; 90_000]).err()).unwrap();
            assert!(matches!(error, StoreError::Full { .. }), "{error}");
            journal.append(100, b"short").unwrap();
        }
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let (full, new) = (temp.path().join("full"), temp.path().join("new"));
    let (mut journal, found) = SqliteStore.open(&full, options(Level::Sync)).unwrap();
    drop(found);
    // These groups are too short for the journal to move them into the database before the next run.
    journal.append(1, &[1; 3 << 20]).unwrap();
    drop(journal);
    for dir in [&full, &new] {
        // At most 2,048 blocks of 512 or 1,024 bytes. The trap ignores the signal that would end the process at that bound.
        let script = r#"trap "" XFSZ; ulimit -f 2048; exec "$0" "$@""#;
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(env::current_exe().unwrap());
        let out = command.args(["--exact", TEST, "--nocapture"]).env(ROLE, dir).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        assert!(String::from_utf8_lossy(&out.stdout).contains("1 passed"));
    }
    assert!(
        SqliteStore.open(&full, options(Level::Sync)).unwrap().1.groups.next().is_some(),
        "nothing is lost"
    );
}

#[test]
fn a_file_that_is_no_database_is_an_error() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("journal");
    drop(SqliteStore.open(&dir, options(Level::Sync)).unwrap());
    assert_eq!(fs::read_to_string(dir.join("store")).unwrap(), NAME);
    fs::remove_file(dir.join("journal.sqlite-wal")).unwrap();
    fs::write(dir.join("journal.sqlite"), [9; 8192]).unwrap();
    let opened = SqliteStore.open(&dir, options(Level::Sync)).map(drop);
    assert!(matches!(opened, Err(StoreError::Corrupt { .. })), "{opened:?}");
}

/// A disk that reports syncs that it has not made may lose everything since the last sync. The groups that are found were
/// appended.
#[test]
fn a_disk_that_lies_makes_nothing_up() {
    let temp = tempfile::tempdir().unwrap();
    let cut = Cut { dir: temp.path().join("journal"), ..Cut::default() };
    let groups: Vec<_> = (1..=6_u8).map(|n| vec![n; 3_000]).collect();
    for (lie_from, left) in [(3, 3), (6, 6), (1, 1)] {
        let _ = fs::remove_dir_all(&cut.dir);
        cut.lies.store(false, Ordering::Relaxed);
        let (mut journal, found) = cut.open(Level::Sync);
        drop(found);
        for (n, group) in (1..).zip(&groups) {
            journal.append(n, group).unwrap();
            assert_eq!(journal.forcer().force().unwrap(), n);
            cut.lies.store(n >= lie_from, Ordering::Relaxed);
        }
        drop(journal);
        cut.cut();
        let (journal, found) = cut.open(Level::Sync);
        assert_eq!(found.trust, Trust::Trusted, "the store cannot know");
        let read: Vec<_> = found.groups.map(Result::unwrap).collect();
        assert_eq!(read, groups[..left], "{lie_from}");
        drop(journal);
    }
}
