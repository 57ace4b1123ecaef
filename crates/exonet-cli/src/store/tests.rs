use super::*;
use tokio::io::AsyncWriteExt;

fn put(store: &Store, name: &str, content: &[u8]) -> Result<Landed, Refusal> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let landing = store.begin(SafeName::new(name)?, content.len() as u64)?;
        let mut writer = landing.writer()?;
        writer.write_all(content).await.map_err(Refusal::Disk)?;
        writer.flush().await.map_err(Refusal::Disk)?;
        landing.finish(blake3::hash(content)).await
    })
}

fn entries(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn store(directory: &Path, limit: u64, overwrite: bool) -> Store {
    Store::open(directory, Size(limit), overwrite, Duration::from_secs(600)).unwrap()
}

#[test]
fn a_file_is_stored_once() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), 100, false);
    assert_eq!(put(&store, "a", b"one").unwrap(), Landed::Stored);
    assert_eq!(put(&store, "a", b"one").unwrap(), Landed::AlreadyThere);
    // Of another length, and of the same length.
    assert!(matches!(put(&store, "a", b"three"), Err(Refusal::Taken(_))));
    assert!(matches!(put(&store, "a", b"two"), Err(Refusal::Taken(_))));
    assert_eq!(fs::read(place.path().join("a")).unwrap(), b"one");
    assert_eq!(entries(place.path()), ["a"]);
}

#[test]
fn overwriting_must_be_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), 100, true);
    put(&store, "a", b"one").unwrap();
    assert_eq!(put(&store, "a", b"three").unwrap(), Landed::Stored);
    assert_eq!(fs::read(place.path().join("a")).unwrap(), b"three");
    fs::create_dir(place.path().join("d")).unwrap();
    assert!(matches!(put(&store, "d", b"x"), Err(Refusal::Taken(_))));
}

#[test]
fn an_unfinished_file_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), 10, false);
    drop(store.begin(SafeName::new("a").unwrap(), 10).unwrap());
    assert!(entries(place.path()).is_empty());
    // Its room is free again.
    assert!(store.begin(SafeName::new("a").unwrap(), 10).is_ok());
}

#[test]
fn the_limit_counts_what_is_stored() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), 7, false);
    put(&store, "a", b"one").unwrap();
    // A file that is there already takes no room.
    assert_eq!(put(&store, "a", b"one").unwrap(), Landed::AlreadyThere);
    put(&store, "b", b"two").unwrap();
    assert!(matches!(put(&store, "c", b"xx"), Err(Refusal::Full(_))));
    put(&store, "c", b"x").unwrap();
}

#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    let place = tempfile::tempdir().unwrap();
    let outside = place.path().join("outside");
    fs::write(&outside, b"precious").unwrap();
    let inbox = place.path().join("inbox");
    for overwrite in [false, true] {
        let store = store(&inbox, 100, overwrite);
        std::os::unix::fs::symlink(&outside, inbox.join("link")).unwrap();
        let result = put(&store, "link", b"replaced");
        assert_eq!(result.is_ok(), overwrite);
        assert_eq!(fs::read(&outside).unwrap(), b"precious");
        fs::remove_file(inbox.join("link")).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_dangling_link_is_not_written_through() {
    let place = tempfile::tempdir().unwrap();
    let inbox = place.path().join("inbox");
    let store = store(&inbox, 100, false);
    std::os::unix::fs::symlink(place.path().join("new"), inbox.join("link")).unwrap();
    assert!(matches!(put(&store, "link", b"x"), Err(Refusal::Taken(_))));
    assert!(!place.path().join("new").exists());
}

#[test]
fn a_place_that_is_no_directory_is_named() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, b"").unwrap();
    let failure = Store::open(&file.join("below"), Size(1), false, Duration::ZERO).unwrap_err().to_string();
    assert!(failure.contains("below") && failure.contains("--out"), "{failure}");
}

#[test]
fn what_the_directory_held_counts() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("below")).unwrap();
    fs::write(place.path().join("below").join("old"), [0; 60]).unwrap();
    let store = store(place.path(), 100, true);
    assert!(matches!(put(&store, "a", &[1; 41]), Err(Refusal::Full(_))));
    put(&store, "a", &[1; 40]).unwrap();
    assert!(matches!(put(&store, "b", &[1; 1]), Err(Refusal::Full(_))));
}

#[test]
fn what_is_replaced_counts_no_more() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), 100, true);
    put(&store, "a", &[1; 50]).unwrap();
    put(&store, "a", &[1; 20]).unwrap();
    put(&store, "b", &[1; 80]).unwrap();
    assert!(matches!(put(&store, "c", &[1; 1]), Err(Refusal::Full(_))));
}

#[test]
fn an_announced_size_takes_no_room() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), 10, false);
    let announced = store.begin(SafeName::new("a").unwrap(), 10).unwrap();
    put(&store, "b", b"ten bytes!").unwrap();
    let written = tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
        let mut writer = announced.writer()?;
        writer.write_all(b"x").await.map_err(|e| Refusal::from(PourError::Write(e)))
    });
    assert!(matches!(written, Err(Refusal::Full(_))));
}

#[test]
fn unfinished_files_of_the_past_go_and_others_stay() {
    let place = tempfile::tempdir().unwrap();
    let part = place.path().join(".exon-1.part");
    for name in [".exon-1.part", ".exon-config", "x.part"] {
        fs::write(place.path().join(name), [0; 10]).unwrap();
    }
    // One that grows just now may belong to another process.
    let young = store(place.path(), 40, false);
    assert!(part.exists() && matches!(put(&young, "a", &[1; 11]), Err(Refusal::Full(_))));
    fs::File::options().write(true).open(&part).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    young.sweep();
    assert!(!part.exists());
    put(&young, "a", &[1; 20]).unwrap();
    fs::write(&part, [0; 10]).unwrap();
    fs::File::options().write(true).open(&part).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let later = store(place.path(), 50, false);
    assert_eq!(entries(place.path()), [".exon-config", "a", "x.part"]);
    put(&later, "b", &[1; 10]).unwrap();
}
