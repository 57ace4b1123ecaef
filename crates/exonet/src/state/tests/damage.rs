//! Tests of files that are missing, cut, changed, exposed or exchanged, and of disks that refuse writes.

use super::*;

#[test]
fn a_lost_key_is_not_replaced() {
    let temp = tempfile::tempdir().unwrap();
    identity(temp.path(), 5);
    fs::remove_file(temp.path().join("key")).unwrap();
    let before = contents(temp.path());
    assert!(matches!(StateDir::open(temp.path()), Err(StateError::KeyLost { .. })));
    assert!(matches!(StateDir::create(temp.path(), &SECRET), Err(StateError::KeyLost { .. })));
    let created = StateDir::open_or_create(temp.path(), || Zeroizing::new(SECRET));
    assert!(matches!(created, Err(StateError::KeyLost { .. })));
    assert_eq!(contents(temp.path()), before);
}

#[test]
fn a_lost_key_beside_an_unreadable_clock_is_not_replaced() {
    let temp = tempfile::tempdir().unwrap();
    identity(temp.path(), 5);
    fs::remove_file(temp.path().join("key")).unwrap();
    fs::write(temp.path().join("clock"), "").unwrap();
    assert!(matches!(StateDir::create(temp.path(), &SECRET), Err(StateError::KeyLost { .. })));
}

#[test]
fn a_lost_clock_retires_the_identity() {
    let temp = tempfile::tempdir().unwrap();
    identity(temp.path(), 5);
    fs::remove_file(temp.path().join("clock")).unwrap();
    let before = contents(temp.path());
    let error = StateDir::open(temp.path()).unwrap_err();
    assert!(matches!(error, StateError::ClockLost { .. }));
    assert!(error.to_string().contains("must be retired"), "{error}");
    assert!(matches!(StateDir::create(temp.path(), &SECRET), Err(StateError::ClockLost { .. })));
    assert_eq!(contents(temp.path()), before);
}

#[test]
fn a_creation_that_was_cut_short_is_begun_again() {
    let temp = tempfile::tempdir().unwrap();
    drop(StateDir::create(temp.path(), &[1; 32]).unwrap());
    fs::rename(temp.path().join("key"), temp.path().join("key.new")).unwrap();
    assert!(matches!(StateDir::open(temp.path()), Err(StateError::Missing { .. })));
    let dir = StateDir::create(temp.path(), &SECRET).unwrap();
    assert_eq!(**dir.secret(), SECRET);
    assert_eq!(names(temp.path()), ["clock", "key"]);
}

#[test]
fn leftovers_of_a_killed_process_are_cleared_and_never_read() {
    let temp = tempfile::tempdir().unwrap();
    identity(temp.path(), 5);
    let whole = fs::read(temp.path().join("clock")).unwrap();
    for cut in 0..=whole.len() {
        fs::write(temp.path().join("clock.new"), &whole[..cut]).unwrap();
        let dir = StateDir::open(temp.path()).unwrap();
        assert_eq!(dir.load(), record(5));
        assert_eq!(names(temp.path()), ["clock", "key"]);
        // A leftover file that appears later must neither prevent the write nor become a part of its content.
        fs::write(temp.path().join("clock.new"), [b'x'; 200]).unwrap();
        dir.store(record(5)).unwrap();
        assert_eq!(fs::read(temp.path().join("clock")).unwrap(), whole);
    }
}

#[test]
fn a_secret_that_a_killed_creation_left_behind_is_cleared() {
    let temp = tempfile::tempdir().unwrap();
    identity(temp.path(), 5);
    fs::copy(temp.path().join("key"), temp.path().join("key.new")).unwrap();
    StateDir::open(temp.path()).unwrap();
    assert_eq!(names(temp.path()), ["clock", "key"]);
}

/// Every prefix of `file`, and `file` with each single bit flipped.
fn damages(file: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let cuts = (0..file.len()).map(|cut| file[..cut].to_vec());
    let flips = (0..file.len() * 8).map(|bit| {
        let mut changed = file.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        changed
    });
    let longer = [b" ".as_slice(), b"\n", &[0; 4096]].map(|tail| [file, tail].concat());
    cuts.chain(flips).chain(longer)
}

#[test]
fn a_damaged_file_is_refused_and_stays_as_it_is() {
    let temp = tempfile::tempdir().unwrap();
    identity(temp.path(), 0x1234_5678_9abc);
    for file in ["key", "clock"] {
        let path = temp.path().join(file);
        let whole = fs::read(&path).unwrap();
        for damaged in damages(&whole) {
            fs::write(&path, &damaged).unwrap();
            let error = StateDir::open(temp.path()).unwrap_err();
            let expected = match error {
                StateError::CorruptKey { .. } => file == "key",
                StateError::CorruptClock { .. } => file == "clock",
                StateError::Version { .. } => true,
                _ => false,
            };
            assert!(expected, "{error}");
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
            let recreated = StateDir::open_or_create(temp.path(), || unreachable!("damage is not absence"));
            assert!(recreated.is_err());
            assert_eq!(fs::read(&path).unwrap(), damaged);
        }
        fs::write(&path, &whole).unwrap();
        StateDir::open(temp.path()).unwrap();
    }
}

#[test]
fn the_clock_of_another_key_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let (ours, theirs) = (temp.path().join("ours"), temp.path().join("theirs"));
    identity(&ours, 5);
    StateDir::create(&theirs, &[9; 32]).unwrap().store(record(99)).unwrap();
    fs::copy(theirs.join("clock"), ours.join("clock")).unwrap();
    assert!(matches!(StateDir::open(&ours), Err(StateError::Mismatch { .. })));
}

#[cfg(unix)]
#[test]
fn a_key_that_others_may_touch_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let temp = tempfile::tempdir().unwrap();
    identity(temp.path(), 5);
    let key = temp.path().join("key");
    for bit in 0..6 {
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600 | 1 << bit)).unwrap();
        let error = StateDir::open(temp.path()).unwrap_err();
        assert!(matches!(error, StateError::Exposed { .. }), "{error}");
        assert!(error.to_string().contains(&format!("chmod 600 {}", key.display())), "{error}");
    }
    for mode in [0o600, 0o700] {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        StateDir::open(temp.path()).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_dangling_link_is_not_written_through() {
    let temp = tempfile::tempdir().unwrap();
    let target = temp.path().join("elsewhere");
    let path = temp.path().join("state");
    fs::create_dir(&path).unwrap();
    std::os::unix::fs::symlink(&target, path.join("key")).unwrap();
    assert!(matches!(StateDir::create(&path, &SECRET), Err(StateError::ClockLost { .. })));
    assert!(!target.exists());
}

#[cfg(unix)]
#[test]
fn a_path_through_a_file_says_so() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    fs::write(&file, "mine").unwrap();
    for path in [file.join("state"), file.clone()] {
        let error = StateDir::create(&path, &SECRET).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, StateError::Io { .. }) && text.contains(path.to_str().unwrap()), "{text}");
        assert!(StateDir::open(&path).is_err());
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

#[test]
fn a_store_that_fails_leaves_the_old_record_and_is_no_way_back() {
    let temp = tempfile::tempdir().unwrap();
    let dir = StateDir::create(temp.path(), &SECRET).unwrap();
    dir.store(record(5)).unwrap();
    // A directory in the place of the file makes the write fail, even for root.
    let blocked = temp.path().join("clock.new");
    fs::create_dir(&blocked).unwrap();
    assert!(matches!(dir.store(record(9)), Err(StateError::Io { .. })));
    assert_eq!(dir.load(), record(5));
    // Some failures occur after the new record has reached the disk, so no smaller record may follow any failure.
    assert!(matches!(dir.store(record(8)), Err(StateError::Backwards { .. })));
    fs::remove_dir(&blocked).unwrap();
    dir.store(record(9)).unwrap();
    drop(dir);
    assert_eq!(StateDir::open(temp.path()).unwrap().load(), record(9));
}
