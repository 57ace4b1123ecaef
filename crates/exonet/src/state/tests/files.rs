//! Tests of creating, opening and storing.

use exonet_proto::MAX_NUMBER;

use super::*;

#[test]
fn an_identity_survives_reopening() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("state/exonet/default");
    let dir = StateDir::create(&path, &SECRET).unwrap();
    assert_eq!(dir.load(), ClockRecord::default());
    let stored = ClockRecord { d: 1 << 32, life: 3, latest: 77 };
    dir.store(stored).unwrap();
    assert_eq!(dir.load(), stored);
    drop(dir);

    let dir = StateDir::open(&path).unwrap();
    assert_eq!((**dir.secret(), dir.load(), dir.path()), (SECRET, stored, path.as_path()));
}

#[test]
fn opening_nothing_is_an_error_and_leaves_nothing() {
    let temp = tempfile::tempdir().unwrap();
    for path in [temp.path().to_path_buf(), temp.path().join("no/such")] {
        assert!(matches!(StateDir::open(&path), Err(StateError::Missing { .. })));
    }
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
}

#[test]
fn creating_over_an_identity_changes_nothing() {
    let temp = tempfile::tempdir().unwrap();
    identity(temp.path(), 5);
    let before = contents(temp.path());
    assert!(matches!(StateDir::create(temp.path(), &[9; 32]), Err(StateError::Exists { .. })));
    assert_eq!(contents(temp.path()), before);
}

#[test]
fn open_or_create_creates_once() {
    let temp = tempfile::tempdir().unwrap();
    let first = StateDir::open_or_create(temp.path(), || Zeroizing::new(SECRET)).unwrap();
    first.store(record(8)).unwrap();
    drop(first);
    let again = StateDir::open_or_create(temp.path(), || unreachable!("an identity exists")).unwrap();
    assert_eq!((**again.secret(), again.load()), (SECRET, record(8)));
}

#[test]
fn the_clock_never_goes_back() {
    let temp = tempfile::tempdir().unwrap();
    let dir = StateDir::create(temp.path(), &SECRET).unwrap();
    dir.store(ClockRecord { d: 10, life: 5, latest: 20 }).unwrap();
    for (d, life, latest) in [(9, 5, 20), (10, 5, 19), (11, 6, 19), (9, 6, 21), (11, 4, 21), (0, 0, 0)] {
        let refused = dir.store(ClockRecord { d, life, latest });
        assert!(matches!(refused, Err(StateError::Backwards { .. })), "{d} {life} {latest}");
    }
    for (d, life, latest) in [(10, 5, 20), (11, 5, 20), (11, 6, 20), (11, 6, 21)] {
        dir.store(ClockRecord { d, life, latest }).unwrap();
    }
    drop(dir);
    let dir = StateDir::open(temp.path()).unwrap();
    assert_eq!(dir.load(), ClockRecord { d: 11, life: 6, latest: 21 });
    assert!(matches!(dir.store(record(11)), Err(StateError::Backwards { .. })));
}

#[test]
fn numbers_end_where_the_protocol_does() {
    let temp = tempfile::tempdir().unwrap();
    let dir = StateDir::create(temp.path(), &SECRET).unwrap();
    assert!(matches!(dir.store(record(MAX_NUMBER + 1)), Err(StateError::Exhausted { .. })));
    dir.store(record(MAX_NUMBER)).unwrap();
    drop(dir);
    assert_eq!(StateDir::open(temp.path()).unwrap().load(), record(MAX_NUMBER));
}

#[test]
fn the_clock_is_replaced_whole_and_never_written_in_place() {
    let temp = tempfile::tempdir().unwrap();
    let dir = StateDir::create(temp.path(), &SECRET).unwrap();
    let (clock, old) = (temp.path().join("clock"), temp.path().join("old"));
    let before = fs::read(&clock).unwrap();
    fs::hard_link(&clock, &old).unwrap();
    dir.store(record(3)).unwrap();
    assert_eq!(fs::read(&old).unwrap(), before);
    assert_ne!(fs::read(&clock).unwrap(), before);
}

#[test]
fn publishing_never_replaces() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("key");
    // Written after the creator has looked, by a process that ignores the lock.
    fs::write(&path, "theirs").unwrap();
    assert!(matches!(disk::publish(&path, b"ours"), Err(StateError::Io { .. })));
    assert_eq!(contents(temp.path()), [("key".to_owned(), b"theirs".to_vec())]);
}

#[test]
fn reading_is_bounded_and_its_buffer_never_moves() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("key");
    let mut capacity = 0;
    for len in [1, 100, 4096] {
        fs::write(&path, vec![0; len]).unwrap();
        let text = disk::read(&path, |_| Ok(())).unwrap();
        assert_eq!(text.len(), len.min(257));
        assert!(capacity == 0 || capacity == text.capacity());
        capacity = text.capacity();
    }
}

#[cfg(unix)]
#[test]
fn everything_is_closed_to_others() {
    use std::os::unix::fs::PermissionsExt;
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a/b");
    identity(&path, 1);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&temp.path().join("a")), mode(&path)), (0o700, 0o700));
    for file in ["key", "clock", "lock"] {
        assert_eq!(mode(&path.join(file)), 0o600, "{file}");
    }
}

#[test]
fn neither_debug_nor_an_error_shows_the_secret() {
    let temp = tempfile::tempdir().unwrap();
    let dir = StateDir::create(temp.path(), &SECRET).unwrap();
    let hex: String = SECRET.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = fs::read_to_string(temp.path().join("key")).unwrap();
    assert!(text.contains(&hex), "the key file holds the secret in hexadecimal: {text}");
    let shown = format!("{dir:?}");
    assert!(shown.contains("d: 0") && !shown.contains(&hex) && !shown.contains(&format!("{SECRET:?}")));
}

#[test]
fn a_relative_path_works() {
    // The parent of a path with a single component is the empty path, which the system does not accept as a
    // directory. All tests share the working directory of their process, so this test uses a unique name in it.
    let temp = tempfile::tempdir_in(".").unwrap();
    let relative = Path::new(temp.path().file_name().unwrap()).join("x");
    identity(&relative, 4);
    assert_eq!(StateDir::open(&relative).unwrap().load(), record(4));
    fs::remove_dir_all(&relative).unwrap();
    let single = Path::new(temp.path().file_name().unwrap());
    fs::remove_dir(single).unwrap();
    identity(single, 5);
    assert_eq!(StateDir::open(single).unwrap().load(), record(5));
}
