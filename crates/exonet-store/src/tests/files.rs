//! Tests on real files.

use super::*;

/// The files, by name.
fn contents(dir: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let entries = entries.map(|entry| entry.unwrap());
    let mut all: Vec<_> =
        entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).collect();
    all.sort();
    all
}

#[test]
fn what_was_appended_is_found_after_a_clean_end_and_after_a_crash() {
    for level in [Level::Process, Level::Batched, Level::Sync] {
        for clean in [true, false] {
            let temp = tempfile::tempdir().unwrap();
            let dir = temp.path().join("journal");
            let mut all: Vec<Vec<u8>> = Vec::new();
            for round in 0..5u8 {
                let before = contents(&dir);
                let looked = crate::read(&dir, options(level)).unwrap();
                let looked = looked.map(|(trust, groups)| (trust, groups.map(Result::unwrap).collect()));
                assert_eq!(looked, (round > 0).then(|| (Trust::Trusted, all.clone())));
                assert_eq!(contents(&dir), before, "a look changes nothing");
                let (mut journal, found) = open(&dir, options(level)).unwrap();
                assert_eq!(found.trust, Trust::Trusted);
                assert_eq!(found.is_new, round == 0);
                assert_eq!(found.generation, u64::from(round) + 1);
                assert_eq!(read(found), all);
                let mut through = 0;
                for n in 0..100usize {
                    all.push(vec![round; n * 40 + 1]);
                    through += n as u64 * 40 + 1;
                    journal.append(through, all.last().unwrap()).unwrap();
                }
                assert_eq!(journal.forcer().force().unwrap(), through);
                if clean {
                    journal.close().unwrap();
                }
            }
        }
    }
}

#[test]
fn a_snapshot_stands_for_what_came_before_and_gives_its_space_back() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("journal");
    let options = Options { segment: 64 << 10, snapshot_after: 256 << 10, pool: 2, ..options(Level::Sync) };
    let (mut journal, found) = open(&dir, options.clone()).unwrap();
    drop(found);
    let mut through = 0;
    for n in 0..3_000u32 {
        through += 1000;
        journal.append(through, &[1; 1000]).unwrap();
        if journal.wants_snapshot() {
            journal.snapshot(format!("state {n}").into_bytes()).unwrap();
        }
    }
    journal.snapshot(b"the last".to_vec()).unwrap();
    journal.close().unwrap();
    let bytes = |dir: &Path| -> u64 {
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    };
    // The pool, the current segment, and perhaps one that was filled in advance.
    assert!(bytes(&dir) <= (4 * 64 + 1) << 10, "{}", bytes(&dir));
    let (_journal, found) = open(&dir, options).unwrap();
    assert_eq!(read(found), [b"the last".to_vec()]);
}

#[test]
fn a_group_longer_than_a_segment_is_kept_at_each_level() {
    for level in [Level::Process, Level::Sync] {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("journal");
        let options = Options { segment: 64 << 10, ..options(level) };
        let (mut journal, _) = open(&dir, options.clone()).unwrap();
        let groups = [vec![1; 200_000], vec![2; 10], vec![3; 65_536]];
        for (through, group) in (1..).zip(&groups) {
            journal.append(through, group).unwrap();
        }
        drop(journal);
        let (_, found) = open(&dir, options).unwrap();
        assert_eq!(read(found), groups);
    }
}

/// A journal of three groups with one segment, and its bytes.
fn three(level: Level, clean: bool) -> (tempfile::TempDir, std::path::PathBuf, Vec<u8>) {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("journal");
    let (mut journal, _) = open(&dir, Options { segment: 4096, ..options(level) }).unwrap();
    for n in 1..=3u8 {
        journal.append(u64::from(n), &vec![n; usize::from(n) * 20]).unwrap();
    }
    if clean {
        journal.close().unwrap();
    }
    let segment = dir.join("log-1.seg-0");
    let bytes = std::fs::read(&segment).unwrap();
    (temp, dir, bytes)
}

/// The offsets of the groups of [`three`], and the end of the last one.
const STARTS: [usize; 4] = [128, 184, 256, 352];

#[test]
fn a_tail_that_is_cut_or_changed_at_any_byte_is_the_end() {
    let (_temp, dir, bytes) = three(Level::Sync, false);
    let (segment, run) = (dir.join("log-1.seg-0"), std::fs::read(dir.join("run")).unwrap());
    for at in STARTS[2]..STARTS[3] {
        for cut in [true, false] {
            let mut bytes = bytes.clone();
            if cut {
                bytes.truncate(at);
            } else {
                bytes[at] ^= 0x55;
            }
            // The last bytes are padding, so that the next group begins at a multiple of eight.
            let whole = at >= STARTS[2] + 32 + 60;
            std::fs::write(&segment, &bytes).unwrap();
            std::fs::write(dir.join("run"), &run).unwrap();
            let (mut journal, found) = open(&dir, Options { segment: 4096, ..options(Level::Sync) }).unwrap();
            assert_eq!((found.trust, found.is_new), (Trust::Trusted, false));
            assert_eq!(read(found).len(), if whole { 3 } else { 2 }, "{at} {cut}");
            // The journal can be continued.
            journal.append(1, b"more").unwrap();
            journal.close().unwrap();
            let (_, found) = open(&dir, Options { segment: 4096, ..options(Level::Sync) }).unwrap();
            assert_eq!(read(found).last().unwrap(), b"more");
            // A file that was cut is no longer written.
            let len = std::fs::metadata(&segment).unwrap().len();
            assert_eq!(len, if cut { at as u64 } else { 4096 });
            for entry in std::fs::read_dir(&dir).unwrap() {
                std::fs::remove_file(entry.unwrap().path()).unwrap();
            }
        }
    }
}

#[test]
fn any_changed_byte_of_a_journal_that_ended_cleanly_is_noticed() {
    let (_temp, dir, bytes) = three(Level::Process, true);
    let (segment, run) = (dir.join("log-1.seg-0"), std::fs::read(dir.join("run")).unwrap());
    for at in 0..STARTS[3] - 4 {
        // The padding of the first group.
        if (STARTS[1] - 4..STARTS[1]).contains(&at) {
            continue;
        }
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x55;
        std::fs::write(&segment, &bytes).unwrap();
        std::fs::write(dir.join("run"), &run).unwrap();
        let error = open(&dir, Options { segment: 4096, ..options(Level::Process) }).err();
        assert!(matches!(error, Some(StoreError::Corrupt { .. })), "{at}: {error:?}");
        let text = error.unwrap().to_string();
        assert!(text.contains("journal") && text.contains("check the disk"), "{text}");
    }
}

#[test]
fn another_identity_and_a_newer_format_are_told_and_nothing_is_changed() {
    let (_temp, dir, bytes) = three(Level::Sync, true);
    let other = Options { identity: [9; 32], ..options(Level::Sync) };
    assert!(matches!(open(&dir, other.clone()), Err(StoreError::Identity { .. })));

    // The same for the segment alone.
    let theirs = dir.with_file_name("theirs");
    drop(open(&theirs, other.clone()).unwrap());
    std::fs::write(theirs.join("log-1.seg-0"), &bytes).unwrap();
    assert!(matches!(open(&theirs, other), Err(StoreError::Identity { .. })));

    let mut newer = bytes.clone();
    newer[76] = 2;
    let sum = crc32c::crc32c(&newer[..124]);
    newer[124..128].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(dir.join("log-1.seg-0"), &newer).unwrap();
    assert!(matches!(open(&dir, options(Level::Sync)), Err(StoreError::Version { .. })));
    assert_eq!(std::fs::read(dir.join("log-1.seg-0")).unwrap(), newer);
    std::fs::write(dir.join("log-1.seg-0"), &bytes).unwrap();

    let run = std::fs::read_to_string(dir.join("run")).unwrap();
    std::fs::write(dir.join("run"), run.replace("exonet-journal-1", "exonet-journal-2")).unwrap();
    let error = open(&dir, options(Level::Sync)).err().unwrap();
    assert!(matches!(error, StoreError::Version { .. }), "{error}");
    assert!(error.to_string().contains(dir.to_str().unwrap()), "{error}");
    std::fs::write(dir.join("run"), run).unwrap();
    let (_, found) = open(&dir, options(Level::Sync)).unwrap();
    assert_eq!(read(found).len(), 3);
}

#[test]
fn segments_that_are_used_again_show_nothing_of_what_they_held() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("journal");
    let options =
        Options { segment: 64 << 10, snapshot_after: 100 << 10, pool: 3, ..options(Level::Process) };
    let mut appended = 0u32;
    let mut segments = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let (mut journal, found) = open(&dir, options.clone()).unwrap();
        assert_eq!(found.trust, Trust::Trusted);
        drop(found);
        for through in 1..=400u64 {
            // All groups have the same length, so that old groups lie where new ones may begin.
            let mut group = appended.to_le_bytes().to_vec();
            group.resize(480, 3);
            journal.append(through, &group).unwrap();
            appended += 1;
            if journal.wants_snapshot() {
                journal.snapshot(appended.to_le_bytes().to_vec()).unwrap();
            }
        }
        drop(journal);
        let (journal, found) = open(&dir, options.clone()).unwrap();
        let groups = read(found);
        let is_state = groups[0].len() == 4;
        let first = if is_state { u32::from_le_bytes(*groups[0].first_chunk().unwrap()) } else { 0 };
        let mut next = first;
        for group in &groups[usize::from(is_state)..] {
            assert_eq!(u32::from_le_bytes(*group.first_chunk().unwrap()), next);
            next += 1;
        }
        assert_eq!(next, appended);
        drop(journal);
        segments.extend(std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()));
    }
    assert!(segments.len() < 30, "they are used again: {segments:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn the_witness_lies_in_the_runtime_directory_and_goes_with_a_clean_end() {
    let temp = tempfile::tempdir().unwrap();
    let (dir, runtime) = (temp.path().join("journal"), temp.path().join("runtime"));
    std::fs::create_dir(&runtime).unwrap();
    let options = Options { runtime: Runtime::Dir(runtime.clone()), ..options(Level::Process) };
    let (mut journal, _) = open(&dir, options.clone()).unwrap();
    journal.append(1, b"first").unwrap();
    let log = std::fs::read(dir.join("log-1.seg-0")).unwrap();
    journal.append(2, b"second").unwrap();
    drop(journal);
    let witness = std::fs::read_dir(&runtime).unwrap().next().unwrap().unwrap().path();
    let bytes = std::fs::read(&witness).unwrap();
    assert_eq!(bytes[16..24], 2u64.to_le_bytes());
    // The last group is lost, and the log looks complete.
    std::fs::write(dir.join("log-1.seg-0"), log).unwrap();
    let (mut journal, found) = open(&dir, options.clone()).unwrap();
    assert_eq!(found.trust, Trust::Untrusted(Reason::CutShort));
    journal.append(1, b"first").unwrap();
    journal.close().unwrap();
    assert!(!witness.exists());

    // A witness that others could have written does not count.
    use std::os::unix::fs::PermissionsExt;
    drop(open(&dir, options.clone()).unwrap());
    let mut bytes = std::fs::read(&witness).unwrap();
    bytes[16] = 200;
    std::fs::write(&witness, bytes).unwrap();
    std::fs::set_permissions(&witness, std::fs::Permissions::from_mode(0o666)).unwrap();
    let (_, found) = open(&dir, options.clone()).unwrap();
    assert_eq!(found.trust, Trust::Trusted);

    // At the other levels there is no witness.
    let (_journal, _) = open(&dir, Options { level: Level::Sync, ..options }).unwrap();
    assert!(!witness.exists());
}

#[test]
fn without_a_boot_id_the_level_process_is_refused_and_what_it_left_is_not_trusted() {
    let nameless = |level| Options { boot: || None, ..options(level) };
    for clean in [false, true] {
        let (_temp, dir, _) = three(Level::Process, clean);
        let before = contents(&dir);
        let error = open(&dir, nameless(Level::Process)).err().unwrap();
        assert!(matches!(error, StoreError::NoBootId), "{error}");
        assert!(error.to_string().contains("use the level sync or batched"), "{error}");
        assert_eq!(contents(&dir), before, "a refusal changes nothing");
        let left = if clean { Trust::Trusted } else { Trust::Untrusted(Reason::Rebooted) };
        let (looked, _) = crate::read(&dir, nameless(Level::Sync)).unwrap().unwrap();
        let (journal, found) = open(&dir, nameless(Level::Sync)).unwrap();
        assert_eq!((looked, found.trust, read(found).len()), (left, left, 3));
        // On such a system, what was written is trusted, since it was forced.
        drop(journal);
        let (mut journal, _) = open(&dir, nameless(Level::Sync)).unwrap();
        journal.append(1, b"more").unwrap();
        drop(journal);
        let (_, found) = open(&dir, nameless(Level::Batched)).unwrap();
        assert_eq!((found.trust, read(found).pop().unwrap()), (Trust::Trusted, b"more".to_vec()));
    }
}

#[test]
fn a_journal_of_another_store_is_not_read() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("journal");
    prepare(&dir, "another", &options(Level::Sync)).unwrap();
    let looked = crate::read(&dir, options(Level::Sync)).map(drop);
    assert!(matches!(&looked, Err(StoreError::OtherStore { store, .. }) if store == "another"), "{looked:?}");
}

#[cfg(unix)]
#[test]
fn the_files_are_closed_to_others() {
    use std::os::unix::fs::MetadataExt;
    let (_temp, dir, _) = three(Level::Sync, true);
    assert_eq!(std::fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
    for entry in std::fs::read_dir(&dir).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().mode() & 0o777, 0o600);
    }
}
