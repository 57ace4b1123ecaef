//! Tests with other processes: kills, and file systems of a test's own. A test that needs another process runs itself
//! again as a child, which an environment variable marks.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::*;

const ROLE: &str = "EXONET_STORE_TEST_DIR";

/// The directory to work on, if this process is the child.
fn child_dir() -> Option<PathBuf> {
    env::var_os(ROLE).map(PathBuf::from)
}

fn spawn(test: &str, dir: &Path) -> Child {
    let name = format!("tests::process::{test}");
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", &name, "--nocapture"]).env(ROLE, dir);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// What follows "report" in the child's output, line by line.
fn reports(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map_while(Result::ok).filter_map(|line| Some(line.split_once("report ")?.1.to_owned()))
}

fn group(number: u64) -> Vec<u8> {
    let len = usize::try_from(number % 700).unwrap() + 8;
    let mut group = number.to_le_bytes().to_vec();
    group.resize(len, u8::try_from(number % 251).unwrap());
    group
}

/// The number of a group, or of the last group that a snapshot replaces.
fn number(group: &[u8]) -> u64 {
    u64::from_le_bytes(*group.first_chunk().unwrap())
}

fn small(level: Level) -> Options {
    Options { segment: 64 << 10, snapshot_after: 300 << 10, pool: 2, ..options(level) }
}

#[test]
fn what_a_killed_process_had_appended_is_there() {
    if let Some(dir) = child_dir() {
        let level = if dir.ends_with("process") { Level::Process } else { Level::Batched };
        let (mut journal, found) = open(&dir, small(level)).unwrap();
        let mut next = read(found).last().map_or(0, |group| number(group) + 1);
        let (mut through, mut out) = (0, std::io::stdout());
        loop {
            through += 1;
            journal.append(through, &group(next)).unwrap();
            next += 1;
            // The parent relies on this line: everything up to it was appended.
            writeln!(out, "report {next}").unwrap();
            if journal.wants_snapshot() {
                // It replaces the group before.
                journal.snapshot((next - 1).to_le_bytes().to_vec()).unwrap();
            }
        }
    }
    let temp = tempfile::tempdir().unwrap();
    for (name, level) in [("process", Level::Process), ("batched", Level::Batched)] {
        let dir = temp.path().join(name);
        let mut least = 0;
        for round in 1..=6usize {
            let mut child = spawn("what_a_killed_process_had_appended_is_there", &dir);
            let mut said = reports(&mut child);
            let told: u64 = said.nth(round * 331).unwrap().parse().unwrap();
            child.kill().unwrap();
            // The reports that the child had made before it was killed.
            let told = said.filter_map(|it| it.parse().ok()).last().unwrap_or(told);
            child.wait().unwrap();
            assert!(told > least);
            least = told;
            let (journal, found) = open(&dir, small(level)).unwrap();
            assert_eq!(found.trust, Trust::Trusted);
            let groups = read(found);
            let first = number(&groups[0]);
            for (at, found) in groups.iter().enumerate().skip(1) {
                assert_eq!(*found, group(first + at as u64));
            }
            let end = first + groups.len() as u64;
            assert!(end == told || end == told + 1, "{end} {told}");
            drop(journal);
        }
    }
}

/// Runs `test` again with a new file system with `options` at `/mnt`. Returns false if this machine does not permit
/// that.
#[cfg(target_os = "linux")]
fn on_own_mount(test: &str) -> bool {
    let mut child = spawn(test, Path::new("/mnt"));
    let reports: Vec<_> = reports(&mut child).collect();
    assert!(child.wait().unwrap().success());
    if reports.iter().any(|it| it == "no mounts") {
        println!("SKIPPED: no right to mount a file system");
        assert!(env::var_os("EXONET_NO_SKIPS").is_none());
        return false;
    }
    true
}

#[cfg(target_os = "linux")]
fn mount_here(dir: &Path, options: &str) -> bool {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    let own = CloneFlags::CLONE_NEWNS;
    let may = unshare(own).or_else(|_| unshare(own | CloneFlags::CLONE_NEWUSER)).is_ok()
        && mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
            .is_ok()
        && mount(Some("none"), dir, Some("tmpfs"), MsFlags::empty(), Some(options)).is_ok();
    if !may {
        println!("report no mounts");
    }
    may
}

#[cfg(target_os = "linux")]
#[test]
fn a_small_file_system_gets_full_and_the_journal_goes_on_once_there_is_room() {
    if let Some(dir) = child_dir() {
        if !mount_here(&dir, "size=1m") {
            return;
        }
        std::fs::write(dir.join("ballast"), vec![0; 256 << 10]).unwrap();
        let options = Options { snapshot_after: 1 << 30, ..small(Level::Process) };
        let (mut journal, _) = open(&dir.join("journal"), options.clone()).unwrap();
        let mut through = 0;
        let error = loop {
            match journal.append(through + 1, &[7; 1000]) {
                Ok(()) => through += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, StoreError::Full { .. }), "{error}");
        assert!(error.to_string().contains("free some space"), "{error}");
        assert!(through > 500, "{through}");
        std::fs::remove_file(dir.join("ballast")).unwrap();
        for _ in 0..100 {
            through += 1;
            journal.append(through, &[7; 1000]).unwrap();
        }
        journal.close().unwrap();
        let (_, found) = open(&dir.join("journal"), options).unwrap();
        assert_eq!(read(found).len() as u64, through);
        // There is no room even for the first file.
        std::fs::write(dir.join("ballast"), vec![0; 2 << 20]).unwrap_err();
        let error = open(&dir.join("other"), small(Level::Sync)).err().unwrap();
        assert!(matches!(error, StoreError::Full { .. }), "{error}");
        return;
    }
    on_own_mount("a_small_file_system_gets_full_and_the_journal_goes_on_once_there_is_room");
}

#[cfg(target_os = "linux")]
#[test]
fn a_system_without_proc_has_no_boot_id_and_is_told_of() {
    if child_dir().is_some() {
        if !mount_here(Path::new("/proc"), "size=1m") {
            return;
        }
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("journal");
        assert_eq!(boot_id(), None);
        let error = open(&dir, options(Level::Process)).err().unwrap();
        assert!(matches!(error, StoreError::NoBootId), "{error}");
        assert!(error.to_string().contains("is /proc mounted?"), "{error}");
        let (journal, found) = open(&dir, options(Level::Sync)).unwrap();
        assert_eq!(found.trust, Trust::Trusted);
        journal.close().unwrap();
        return;
    }
    on_own_mount("a_system_without_proc_has_no_boot_id_and_is_told_of");
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_system_that_cannot_be_written_is_told() {
    use nix::mount::{MsFlags, mount};
    if let Some(dir) = child_dir() {
        if !mount_here(&dir, "size=1m") {
            return;
        }
        let (journal, _) = open(&dir.join("journal"), small(Level::Sync)).unwrap();
        journal.close().unwrap();
        let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(None::<&str>, &dir, None::<&str>, read_only, Some("size=1m")).unwrap();
        for name in ["journal", "other"] {
            let error = open(&dir.join(name), small(Level::Sync)).err().unwrap();
            assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
            assert!(error.to_string().contains("mounted writable"), "{error}");
        }
        return;
    }
    on_own_mount("a_file_system_that_cannot_be_written_is_told");
}
