#![allow(clippy::cast_possible_truncation)] // sizes of a few pieces

use super::*;
use crate::copy::{self, Answer, Entry, FileInfo, Hex32, Piece, PieceAnswer};
use std::path::PathBuf;
use std::time::SystemTime;
use tokio::io::AsyncWriteExt;

const KEY: Hex32 = Hex32([7; 32]);
const PIECE: u64 = 64 << 10;

fn options(limit: u64, overwrite: bool) -> Options {
    let (names, patience) = (Names { hidden: false, portable: false }, Duration::from_secs(600));
    Options { limit: Size(limit), overwrite, names, patience, keep_parts: Duration::from_secs(3_600) }
}

fn store(directory: &Path, limit: u64, overwrite: bool) -> Store {
    Store::open(directory, options(limit, overwrite)).unwrap()
}

fn info(path: &str, content: &[u8]) -> FileInfo {
    FileInfo {
        path: path.into(),
        size: Some(content.len() as u64),
        mode: Some(0o640),
        mtime: 1_600_000_000_000_000_001,
    }
}

fn offer(store: &Store, file: &FileInfo, hash: Option<Hex32>) -> Answer {
    store.offer(&KEY, &Entry::File { file: file.clone(), hash }).0
}

/// Sends the piece with this number.
fn send(store: &Store, file: &FileInfo, content: &[u8], number: u64) -> PieceAnswer {
    let from = (number * PIECE) as usize;
    let data = &content[from..content.len().min(from + PIECE as usize)];
    let end = file.size.is_none() && data.len() < PIECE as usize;
    let piece = Piece::new(KEY, file.clone(), PIECE as u32, number * PIECE, end);
    store.piece(&piece, data, copy::chaining_value(piece.at, data)).0
}

fn put(store: &Store, path: &str, content: &[u8]) -> PieceAnswer {
    send(store, &info(path, content), content, 0)
}

fn noise(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

fn entries(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn stored(answer: &PieceAnswer) -> bool {
    matches!(answer, PieceAnswer::Stored { .. })
}

fn reason(answer: &Answer) -> &str {
    match answer {
        Answer::Refused { reason } => reason,
        other => panic!("{other:?}"),
    }
}

fn unfinished(directory: &Path, extension: &str) -> PathBuf {
    let name = entries(directory).into_iter().find(|name| name.ends_with(extension)).unwrap();
    directory.join(name)
}

#[test]
fn a_file_is_stored_once_with_its_mode_and_time() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), 1 << 20, false);
    let file = info("a", b"one");
    let Answer::Missing { have, anew: false, .. } = offer(&store, &file, None) else { panic!() };
    assert!(have.is_empty());
    let hash = Some(Hex32(blake3::hash(b"one").into()));
    assert_eq!(put(&store, "a", b"one"), PieceAnswer::Stored { hash });
    assert_eq!(offer(&store, &file, None), Answer::There);
    // A repeated piece, after the file has got its final name.
    assert!(stored(&put(&store, "a", b"one")));
    let about = fs::metadata(place.path().join("a")).unwrap();
    assert_eq!(mtime(&about), file.mtime);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(about.permissions().mode() & 0o7777, 0o640);
    }
    assert_eq!(entries(place.path()), ["a"]);
}

#[test]
fn another_file_of_the_name_is_refused_and_the_same_is_not() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), 1 << 20, false);
    assert!(stored(&put(&store, "a", b"one")));
    let longer = info("a", b"three");
    assert!(reason(&offer(&store, &longer, None)).contains("--overwrite"));
    assert!(matches!(put(&store, "a", b"three"), PieceAnswer::Refused { .. }));
    // The file has the same size and another time, so its hash decides.
    let later = FileInfo { mtime: 5, ..info("a", b"two") };
    assert_eq!(offer(&store, &later, None), Answer::Hash);
    let hash = |content: &[u8]| Some(Hex32(blake3::hash(content).into()));
    assert!(reason(&offer(&store, &later, hash(b"two"))).contains("--overwrite"));
    assert_eq!(offer(&store, &later, hash(b"one")), Answer::There);
    // With a hash, the time does not matter.
    assert!(reason(&offer(&store, &info("a", b"two"), hash(b"two"))).contains("--overwrite"));
    assert_eq!(fs::read(place.path().join("a")).unwrap(), b"one");
    assert_eq!(entries(place.path()), ["a"]);
}

#[test]
fn overwriting_must_be_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), 1 << 20, true);
    put(&store, "a", b"one");
    assert!(matches!(offer(&store, &info("a", b"three"), None), Answer::Missing { .. }));
    assert!(stored(&put(&store, "a", b"three")));
    assert_eq!(fs::read(place.path().join("a")).unwrap(), b"three");
    fs::create_dir(place.path().join("d")).unwrap();
    assert!(reason(&offer(&store, &info("d", b"x"), None)).contains("directory"));
    assert!(matches!(put(&store, "d", b"x"), PieceAnswer::Refused { .. }));
}

#[test]
fn pieces_come_in_any_order_and_twice() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), 1 << 20, false);
    let content = noise(PIECE as usize * 3 + 11);
    let file = info("big", &content);
    for number in [3, 0, 3, 2] {
        assert_eq!(send(&store, &file, &content, number), PieceAnswer::Held);
    }
    let Answer::Missing { have, piece, .. } = offer(&store, &file, None) else { panic!() };
    assert_eq!(have, [(0, PIECE), (2 * PIECE, content.len() as u64)]);
    assert_eq!(u64::from(piece), PIECE);
    let hash = Some(Hex32(blake3::hash(&content).into()));
    assert_eq!(send(&store, &file, &content, 1), PieceAnswer::Stored { hash });
    assert_eq!(fs::read(place.path().join("big")).unwrap(), content);
    assert_eq!(entries(place.path()), ["big"]);
}

#[test]
fn what_is_there_survives_the_process() {
    let place = tempfile::tempdir().unwrap();
    let content = noise(PIECE as usize * 4);
    let file = info("big", &content);
    let first = store(place.path(), 1 << 20, false);
    for number in [0, 2] {
        send(&first, &file, &content, number);
    }
    // As after a crash: nothing is closed in order.
    std::mem::forget(first);
    let second = store(place.path(), 1 << 20, false);
    let Answer::Missing { have, .. } = offer(&second, &file, None) else { panic!() };
    assert_eq!(have, [(0, PIECE), (2 * PIECE, 3 * PIECE)]);
    send(&second, &file, &content, 1);
    assert!(stored(&send(&second, &file, &content, 3)));
    assert_eq!(fs::read(place.path().join("big")).unwrap(), content);
}

#[test]
fn what_never_reached_the_disk_is_not_believed() {
    let place = tempfile::tempdir().unwrap();
    let content = noise(PIECE as usize * 3);
    let file = info("big", &content);
    send(&store(place.path(), 1 << 20, false), &file, &content, 1);
    // The journal is present and the data is missing, as after a crash of the machine.
    fs::write(unfinished(place.path(), ".part"), vec![0; content.len()]).unwrap();
    let Answer::Missing { have, .. } = offer(&store(place.path(), 1 << 20, false), &file, None) else {
        panic!()
    };
    assert!(have.is_empty());
}

#[test]
fn a_marked_piece_is_believed_without_a_look() {
    let place = tempfile::tempdir().unwrap();
    // Enough data for a mark.
    let content = noise(65 << 20);
    let file = info("big", &content);
    let first = store(place.path(), 1 << 30, false);
    for number in 0..(65 << 20) / PIECE - 1 {
        assert_eq!(send(&first, &file, &content, number), PieceAnswer::Held);
    }
    drop(first);
    // Data before the mark is not read again: otherwise this change would be detected.
    let part = unfinished(place.path(), ".part");
    let data = fs::OpenOptions::new().write(true).open(part).unwrap();
    part::write_at(&data, &[0; 100], 0).unwrap();
    part::write_at(&data, &[0; 100], 64 << 20).unwrap();
    let Answer::Missing { have, .. } = offer(&store(place.path(), 1 << 30, false), &file, None) else {
        panic!()
    };
    assert_eq!(have, [(0, 64 << 20), ((64 << 20) + PIECE, (65 << 20) - PIECE)]);
}

#[test]
fn another_version_of_the_file_begins_anew() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), PIECE * 3, false);
    let (old, new) = (noise(PIECE as usize * 2 + 1), vec![9; PIECE as usize * 2 + 1]);
    send(&store, &info("big", &old), &old, 0);
    let changed = FileInfo { mtime: 9, ..info("big", &new) };
    let Answer::Missing { have, anew: true, .. } = offer(&store, &changed, None) else { panic!() };
    assert!(have.is_empty());
    for number in 0..3 {
        send(&store, &changed, &new, number);
    }
    assert_eq!(fs::read(place.path().join("big")).unwrap(), new);
}

#[test]
fn who_has_another_key_cannot_touch_what_is_there() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), 1 << 20, false);
    let content = noise(PIECE as usize * 2);
    let file = info("big", &content);
    send(&store, &file, &content, 0);
    let (answer, _) = store.offer(&Hex32([8; 32]), &Entry::File { file: file.clone(), hash: None });
    let Answer::Missing { have, anew: false, .. } = answer else { panic!() };
    assert!(have.is_empty());
    assert!(stored(&send(&store, &file, &content, 1)));
}

#[test]
fn a_stream_ends_where_its_last_piece_does() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), 1 << 20, false);
    for (name, len) in [("empty", 0), ("short", 5), ("full", PIECE), ("long", PIECE + 5), ("two", PIECE * 2)]
    {
        let content = noise(len as usize);
        let file = FileInfo { size: None, ..info(name, b"") };
        let last = len / PIECE;
        for number in 0..last {
            assert_eq!(send(&store, &file, &content, number), PieceAnswer::Held, "{name}");
        }
        let hash = Some(Hex32(blake3::hash(&content).into()));
        assert_eq!(send(&store, &file, &content, last), PieceAnswer::Stored { hash }, "{name}");
        assert_eq!(fs::read(place.path().join(name)).unwrap(), content);
    }
}

#[test]
fn the_limit_counts_what_came() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), PIECE * 3, false);
    // A file that does not fit is refused before any of it arrives, and no room is reserved for it.
    let huge = FileInfo { size: Some(u64::MAX), ..info("huge", b"") };
    assert!(reason(&offer(&store, &huge, None)).contains("more than the listener has room for"));
    let content = noise(PIECE as usize * 2);
    for name in ["a", "b"] {
        assert!(matches!(offer(&store, &info(name, &content), None), Answer::Missing { .. }));
        assert_eq!(send(&store, &info(name, &content), &content, 0), PieceAnswer::Held);
    }
    assert!(stored(&send(&store, &info("a", &content), &content, 1)));
    assert!(matches!(send(&store, &info("b", &content), &content, 1), PieceAnswer::Refused { .. }));
    assert!(
        reason(&store.offer(&KEY, &Entry::Dir { path: "d".into(), mode: None, mtime: 0 }).0).contains("room")
    );
}

#[test]
fn a_replaced_file_gives_its_room_back() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), PIECE * 2, true);
    let content = noise(PIECE as usize);
    for _ in 0..5 {
        assert!(stored(&put(&store, "a", &content)));
        fs::File::open(place.path().join("a")).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }
}

#[test]
fn what_is_unfinished_takes_room_after_a_restart_and_goes_with_its_age() {
    let place = tempfile::tempdir().unwrap();
    let content = noise(PIECE as usize * 2);
    send(&store(place.path(), PIECE * 2, false), &info("a", &content), &content, 0);
    let again = store(place.path(), PIECE * 2, false);
    assert!(reason(&offer(&again, &info("b", &content), None)).contains("room"));
    // The rest of the file fits.
    assert!(stored(&send(&again, &info("a", &content), &content, 1)));
    send(&again, &info("c", &content[..PIECE as usize + 1]), &content[..PIECE as usize + 1], 0);
    let old = Options { keep_parts: Duration::ZERO, ..options(PIECE * 2, false) };
    let long_ago = SystemTime::now() - Duration::from_secs(9);
    for extension in [".part", ".log"] {
        let file = fs::File::options().write(true).open(unfinished(place.path(), extension));
        file.unwrap().set_modified(long_ago).unwrap();
    }
    drop(Store::open(place.path(), old).unwrap());
    assert_eq!(entries(place.path()), ["a"]);
}

#[test]
fn directories_get_mode_and_time_only_from_who_made_them() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("old")).unwrap();
    let before = mtime(&fs::metadata(place.path().join("old")).unwrap());
    let store = store(place.path(), 1 << 20, false);
    for path in ["old", "new"] {
        let entry = Entry::Dir { path: path.into(), mode: Some(0o2750), mtime: 1_000_000_000 };
        assert_eq!(store.offer(&KEY, &entry).0, Answer::Made);
        assert_eq!(store.seal(&Hex32([8; 32]), &entry), Answer::Made);
        assert_ne!(mtime(&fs::metadata(place.path().join(path)).unwrap()), 1_000_000_000);
        assert_eq!(store.seal(&KEY, &entry), Answer::Made);
    }
    assert_eq!(mtime(&fs::metadata(place.path().join("old")).unwrap()), before);
    let new = fs::metadata(place.path().join("new")).unwrap();
    assert_eq!(mtime(&new), 1_000_000_000);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(new.permissions().mode() & 0o7777, 0o750);
    }
    assert_eq!(entries(place.path()), ["new", "old"]);
}

#[cfg(unix)]
mod links {
    use super::*;
    use std::os::unix::fs::symlink;

    fn link(path: &str, target: &str) -> Entry {
        Entry::Link { path: path.into(), target: target.into() }
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let outside = place.path().join("outside");
        fs::write(&outside, b"precious").unwrap();
        let inbox = place.path().join("inbox");
        for overwrite in [false, true] {
            let store = store(&inbox, 1 << 20, overwrite);
            symlink(&outside, inbox.join("link")).unwrap();
            let file = info("link", b"replaced");
            assert_eq!(matches!(offer(&store, &file, None), Answer::Missing { .. }), overwrite);
            assert_eq!(stored(&put(&store, "link", b"replaced")), overwrite);
            assert_eq!(fs::read(&outside).unwrap(), b"precious");
            fs::remove_file(inbox.join("link")).unwrap();
        }
        // A dangling link is not followed either.
        symlink(place.path().join("new"), inbox.join("link")).unwrap();
        assert!(!stored(&put(&store(&inbox, 1 << 20, false), "link", b"x")));
        assert!(!place.path().join("new").exists());
    }

    #[test]
    fn what_is_no_file_is_never_replaced() {
        let place = tempfile::tempdir().unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(place.path().join("s")).unwrap();
        for overwrite in [false, true] {
            let store = store(place.path(), 1 << 20, overwrite);
            let refused = |answer: Answer| assert!(reason(&answer).contains("a socket"), "{answer:?}");
            refused(offer(&store, &info("s", b"x"), None));
            refused(store.offer(&KEY, &link("s", "x")).0);
            assert!(matches!(keep(&store, "s", b"x"), Err(Refusal::Special(_))));
        }
    }

    #[test]
    fn nothing_is_made_behind_a_link() {
        let place = tempfile::tempdir().unwrap();
        let outside = place.path().join("outside");
        fs::create_dir(&outside).unwrap();
        let inbox = place.path().join("inbox");
        let store = store(&inbox, 1 << 20, true);
        symlink(&outside, inbox.join("d")).unwrap();
        let refused = |answer: Answer| assert!(reason(&answer).contains("not a directory"), "{answer:?}");
        refused(offer(&store, &info("d/f", b"x"), None));
        refused(store.offer(&KEY, &Entry::Dir { path: "d/e".into(), mode: None, mtime: 0 }).0);
        refused(store.offer(&KEY, &link("d/l", "x")).0);
        assert!(!stored(&put(&store, "d/f", b"x")));
        let sealed = store.seal(&KEY, &Entry::Dir { path: "d".into(), mode: Some(0), mtime: 0 });
        assert!(matches!(sealed, Answer::Refused { .. }));
        assert!(entries(&outside).is_empty());
    }

    #[test]
    fn only_links_that_stay_inside_are_made() {
        let place = tempfile::tempdir().unwrap();
        let store = store(place.path(), 1 << 20, false);
        assert_eq!(store.offer(&KEY, &link("d/e/l", "../f")).0, Answer::Made);
        assert_eq!(fs::read_link(place.path().join("d/e/l")).unwrap(), Path::new("../f"));
        // A repeated offer of the same link is accepted; another target is not.
        assert_eq!(store.offer(&KEY, &link("d/e/l", "../f")).0, Answer::Made);
        assert!(reason(&store.offer(&KEY, &link("d/e/l", "g")).0).contains("--overwrite"));
        for target in ["/etc/passwd", "../../f", "x/../../../f", ""] {
            assert!(reason(&store.offer(&KEY, &link("d/e/k", target)).0).contains("points out"), "{target}");
        }
    }
}

#[test]
fn a_place_that_is_no_directory_is_named() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, b"").unwrap();
    let failure = Store::open(&file.join("below"), options(1, false)).unwrap_err().to_string();
    assert!(failure.contains("below") && failure.contains("--out"), "{failure}");
}

/// Stores a message of this name.
fn keep(store: &Store, name: &str, content: &[u8]) -> Result<(), Refusal> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let landing = store.begin(SafePath::new(name, options(0, false).names)?, content.len() as u64)?;
        let mut writer = landing.writer()?;
        writer.write_all(content).await.map_err(|e| Refusal::from(PourError::Write(e)))?;
        writer.flush().await.map_err(Refusal::Disk)?;
        landing.finish(blake3::hash(content), content.len() as u64).await
    })
}

#[test]
fn a_message_is_stored_once_and_an_unfinished_one_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), 2 * BLOCK, false);
    keep(&store, "a", b"one").unwrap();
    // The message is handed out a second time.
    keep(&store, "a", b"one").unwrap();
    assert!(matches!(keep(&store, "a", b"two"), Err(Refusal::Taken(_))));
    drop(store.begin(SafePath::new("b", options(0, false).names).unwrap(), 4).unwrap());
    assert_eq!(entries(place.path()), ["a"]);
    keep(&store, "b", b"four").unwrap();
    assert!(matches!(keep(&store, "c", b"x"), Err(Refusal::Full(_))));
}

#[test]
fn what_the_directory_held_counts() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("below")).unwrap();
    fs::write(place.path().join("below").join("old"), [0; 6 * BLOCK as usize]).unwrap();
    let store = store(place.path(), 11 * BLOCK, true);
    assert!(matches!(keep(&store, "a", &[1; 4 * BLOCK as usize + 1]), Err(Refusal::Full(_))));
    keep(&store, "a", &[1; 4 * BLOCK as usize]).unwrap();
    assert!(matches!(keep(&store, "b", &[1; 1]), Err(Refusal::Full(_))));
}

#[test]
fn what_is_replaced_counts_no_more() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), 100 << 10, true);
    keep(&store, "a", &[1; 50 << 10]).unwrap();
    keep(&store, "a", &[1; 20 << 10]).unwrap();
    keep(&store, "b", &[1; 80 << 10]).unwrap();
    assert!(matches!(keep(&store, "c", &[1; 1]), Err(Refusal::Full(_))));
}

#[test]
fn an_announced_size_takes_no_room() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), BLOCK, false);
    let announced = store.begin(SafePath::new("a", options(0, false).names).unwrap(), BLOCK).unwrap();
    keep(&store, "b", b"all the same").unwrap();
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
    // A file that is still growing may belong to another process.
    let young = store(place.path(), 4 * BLOCK, false);
    assert!(part.exists() && matches!(keep(&young, "a", &[1; BLOCK as usize + 1]), Err(Refusal::Full(_))));
    fs::File::options().write(true).open(&part).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    young.sweep();
    assert!(!part.exists());
    keep(&young, "a", &[1; 2 * BLOCK as usize]).unwrap();
    fs::write(&part, [0; 10]).unwrap();
    fs::File::options().write(true).open(&part).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let later = store(place.path(), 5 * BLOCK, false);
    assert_eq!(entries(place.path()), [".exon-config", "a", "x.part"]);
    keep(&later, "b", &[1; BLOCK as usize]).unwrap();
}

#[tokio::test]
async fn what_others_take_out_makes_room() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), 100_000, false);
    assert!(stored(&put(&store, "a", &noise(60_000))));
    fs::create_dir(place.path().join("d")).unwrap();
    // A message in progress takes only the room of the bytes that have arrived.
    let name = SafePath::new("m", options(0, false).names).unwrap();
    let landing = store.begin(name, 30_000).unwrap();
    landing.writer().unwrap().write_all(&noise(20_000)).await.unwrap();
    fs::remove_file(place.path().join("a")).unwrap();
    assert!(stored(&put(&store, "b", &noise(60_000))));
    assert!(
        matches!(put(&store, "c", &noise(30_000)), PieceAnswer::Refused { .. }),
        "80 of 100 KB are taken"
    );
    drop(landing);
    assert!(stored(&put(&store, "c", &noise(30_000))));
}

/// Otherwise one piece at the end of a large file would seem to fill the directory.
#[test]
fn holes_take_no_room() {
    let place = tempfile::tempdir().unwrap();
    let content = noise(PIECE as usize * 20);
    let store = store(place.path(), PIECE * 21, false);
    let far = info("far", &content);
    assert_eq!(send(&store, &far, &content, 19), PieceAnswer::Held);
    assert!(stored(&put(&store, "a", &noise(PIECE as usize))));
    fs::remove_file(place.path().join("a")).unwrap();
    let Answer::Missing { .. } = offer(&store, &info("b", &content), None) else { panic!("it fits") };
}
