//! On real files.

use super::*;

#[test]
fn what_was_appended_is_found_after_a_clean_end_and_after_a_crash() {
    for level in [Level::Process, Level::Batched, Level::Sync] {
        for clean in [true, false] {
            let temp = tempfile::tempdir().unwrap();
            let dir = temp.path().join("journal");
            let mut all: Vec<Vec<u8>> = Vec::new();
            for round in 0..5u8 {
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
    journal.close().unwrap();
    let bytes = |dir: &Path| -> u64 {
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    };
    assert!(bytes(&dir) < 900 << 10, "{}", bytes(&dir));
    let (_journal, found) = open(&dir, options).unwrap();
    let groups = read(found);
    assert!(groups[0].starts_with(b"state "));
    assert!(groups[1..].iter().all(|group| *group == [1; 1000]));
    assert!(groups.len() < 600);
}
