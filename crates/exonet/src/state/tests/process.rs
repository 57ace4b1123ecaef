//! Tests with other processes: contention, kills and limits. A test that needs another process runs itself again as a
//! child, which an environment variable marks.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::*;

const ROLE: &str = "EXONET_STATE_TEST_DIR";

/// The directory to work on, if this process is the child.
fn child_dir() -> Option<PathBuf> {
    env::var_os(ROLE).map(PathBuf::from)
}

/// Runs `command`, with the arguments of the test runner appended, as `test` on `dir`.
fn spawn(mut command: Command, test: &str, dir: &Path) -> Child {
    let name = format!("state::tests::process::{test}");
    command
        .args(["--exact", &name, "--nocapture"])
        .env(ROLE, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command.spawn().unwrap()
}

fn this_test() -> Command {
    Command::new(env::current_exe().unwrap())
}

/// What follows "report" in the child's output, line by line.
fn reports(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // Text of the test runner may stand before it on the line.
    lines.map_while(Result::ok).filter_map(|line| Some(line.split_once("report ")?.1.to_owned()))
}

#[test]
fn two_processes_never_run_one_identity() {
    if let Some(dir) = child_dir() {
        let _held = StateDir::open(dir).unwrap();
        println!("report held");
        // Until the parent closes this input, or kills this process.
        let _ = std::io::stdin().read_line(&mut String::new());
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    identity(temp.path(), 5);
    let mut child = spawn(this_test(), "two_processes_never_run_one_identity", temp.path());
    assert_eq!(reports(&mut child).next().as_deref(), Some("held"));

    let error = StateDir::open(temp.path()).unwrap_err();
    assert!(matches!(error, StateError::Locked { pid, .. } if pid == Some(child.id())), "{error}");
    assert!(error.to_string().contains(temp.path().to_str().unwrap()), "{error}");
    assert!(error.to_string().contains(&format!("process {}", child.id())), "{error}");
    let created = StateDir::open_or_create(temp.path(), || unreachable!("an identity exists"));
    assert!(matches!(created, Err(StateError::Locked { .. })));

    child.kill().unwrap();
    child.wait().unwrap();
    StateDir::open(temp.path()).unwrap();
}

#[test]
fn one_process_opens_an_identity_once() {
    let temp = tempfile::tempdir().unwrap();
    identity(temp.path(), 5);
    let first = StateDir::open(temp.path()).unwrap();
    let own = Some(std::process::id());
    assert!(matches!(StateDir::open(temp.path()), Err(StateError::Locked { pid, .. }) if pid == own));
    drop(first);
    StateDir::open(temp.path()).unwrap();
}

#[cfg(unix)]
#[test]
fn a_removed_lock_stops_the_process_that_held_it() {
    let temp = tempfile::tempdir().unwrap();
    identity(temp.path(), 5);
    let first = StateDir::open(temp.path()).unwrap();
    fs::remove_file(temp.path().join("lock")).unwrap();
    assert!(matches!(first.store(record(6)), Err(StateError::LockLost { .. })));
    let second = StateDir::open(temp.path()).unwrap();
    assert!(matches!(first.store(record(6)), Err(StateError::LockLost { .. })));
    second.store(record(7)).unwrap();
    drop((first, second));
    assert_eq!(StateDir::open(temp.path()).unwrap().load(), record(7));
}

#[test]
fn a_kill_in_the_middle_of_storing_loses_nothing_that_was_reported() {
    if let Some(dir) = child_dir() {
        let dir = StateDir::open(dir).unwrap();
        for d in dir.load().d.. {
            dir.store(record(d)).unwrap();
            println!("report {d}");
        }
    }
    let temp = tempfile::tempdir().unwrap();
    identity(temp.path(), 1);
    for round in 0..20 {
        let test = "a_kill_in_the_middle_of_storing_loses_nothing_that_was_reported";
        let mut child = spawn(this_test(), test, temp.path());
        let mut reports = reports(&mut child);
        // Killed while it writes a later record.
        reports.by_ref().take(1 + round).for_each(drop);
        child.kill().unwrap();
        child.wait().unwrap();
        let last = reports.last();
        let found = StateDir::open(temp.path()).unwrap().load().d;
        if let Some(last) = last.and_then(|last| last.parse::<u64>().ok()) {
            assert!(found == last || found == last + 1, "{last} was reported, {found} found");
        }
        assert!(found > round as u64, "{found} after {round} rounds");
        assert_eq!(names(temp.path()), ["clock", "key"]);
    }
}

/// A disk that takes no more bytes, even from root: the process may write 0 bytes to a file.
#[cfg(unix)]
fn without_space(test: &str, dir: &Path) -> Child {
    let mut shell = Command::new("sh");
    // Otherwise the signal would kill the child before the write could fail.
    shell.args(["-c", r#"trap "" XFSZ; ulimit -f 0; exec "$@""#, "sh"]).arg(env::current_exe().unwrap());
    spawn(shell, test, dir)
}

#[cfg(unix)]
#[test]
fn a_full_disk_keeps_the_old_record() {
    if let Some(dir) = child_dir() {
        let dir = StateDir::open(dir).unwrap();
        let error = dir.store(record(6)).unwrap_err();
        println!("report {error}");
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    identity(temp.path(), 5);
    let mut child = without_space("a_full_disk_keeps_the_old_record", temp.path());
    let report: String = reports(&mut child).collect();
    child.wait().unwrap();
    assert!(report.contains("clock") && report.contains("free some space"), "{report}");
    assert_eq!(names(temp.path()), ["clock", "key"]);
    assert_eq!(StateDir::open(temp.path()).unwrap().load(), record(5));
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_no_half_an_identity() {
    if let Some(dir) = child_dir() {
        let error = StateDir::create(dir, &SECRET).unwrap_err();
        println!("report {error}");
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let mut child = without_space("a_full_disk_leaves_no_half_an_identity", temp.path());
    let report: String = reports(&mut child).collect();
    child.wait().unwrap();
    assert!(report.contains("free some space"), "{report}");
    assert!(names(temp.path()).is_empty());
    drop(StateDir::create(temp.path(), &SECRET).unwrap());
}
