//! Files: whole, under their name, or refused with a reason.

use std::fs;

use crate::support::{World, arg, entries, noise};

#[test]
fn a_large_file_arrives_whole() {
    let world = World::new();
    let out = world.path("out");
    let content = noise(64 << 20, 2);
    let file = world.file("big.bin", &content);
    let empty = world.file("empty", b"");
    let listener = world.listen(&["--out", arg(&out), "--exit-after", "2"]);
    let copied = world.run(&["cp", arg(&file), arg(&empty), &listener.peer, "--json"]).expect(0);
    listener.running.end().expect(0);
    assert_eq!(copied.summary()["stored"], 2);
    assert_eq!(entries(&out), ["big.bin", "empty"]);
    assert_eq!(blake3::hash(&fs::read(out.join("big.bin")).unwrap()), blake3::hash(&content));
    assert!(fs::read(out.join("empty")).unwrap().is_empty());
}

#[test]
fn a_taken_name_is_refused_and_the_sender_told() {
    let world = World::new();
    let out = world.path("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("notes"), "precious").unwrap();
    let listener = world.listen(&["--out", arg(&out), "--exit-after", "1"]);
    for content in ["other content", "previous"] {
        let file = world.file("notes", content.as_bytes());
        let copied = world.run(&["cp", arg(&file), &listener.peer, "--json"]).expect(4);
        let told = &copied.of_type("file")[0];
        assert_eq!(told["outcome"], "refused");
        assert!(told["reason"].as_str().unwrap().contains("notes"), "{told}");
    }
    assert_eq!(fs::read(out.join("notes")).unwrap(), b"precious");
    // The same content is no collision: a copy may be repeated.
    let file = world.file("notes", b"precious");
    world.run(&["cp", arg(&file), &listener.peer]).expect(0);
    let heard = listener.running.end().expect(0);
    assert_eq!(heard.of_type("file")[0]["already_there"], true);
    assert_eq!(heard.summary()["refused"], 2);
    assert_eq!(entries(&out), ["notes"]);
}

#[test]
fn overwriting_can_be_allowed() {
    let world = World::new();
    let out = world.path("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("notes"), "old").unwrap();
    let listener = world.listen(&["--out", arg(&out), "--overwrite", "--exit-after", "1"]);
    let file = world.file("notes", b"brand new");
    world.run(&["cp", arg(&file), &listener.peer]).expect(0);
    listener.running.end().expect(0);
    assert_eq!(fs::read(out.join("notes")).unwrap(), b"brand new");
}

#[cfg(unix)]
#[test]
fn strange_names_are_taken_and_dangerous_ones_refused() {
    let world = World::new();
    let out = world.path("out");
    let listener = world.listen(&["--out", arg(&out)]);
    let copy = |names: &[&str], peer: &str, code| {
        let files: Vec<_> = names.iter().map(|name| world.file(name, b"content")).collect();
        let mut args = vec!["cp", "--json"];
        args.extend(files.iter().map(|file| arg(file)));
        args.push(peer);
        world.run(&args).expect(code)
    };
    let strange = ["a:b", "con", "tail.", "what?", "back\\slash"];
    assert_eq!(copy(&strange, &listener.peer, 0).summary()["stored"], strange.len());
    assert_eq!(entries(&out).len(), strange.len());
    let tricks = [".profile", ".exon-1.part", "new\nline", "esc\u{1b}[2J"];
    let refused = copy(&tricks, &listener.peer, 4);
    assert_eq!(refused.summary()["refused"], tricks.len());
    assert!(refused.of_type("file")[0]["reason"].as_str().unwrap().contains("--hidden"));
    assert_eq!(entries(&out).len(), strange.len());
    // The receiver decides.
    let elsewhere = world.path("elsewhere");
    world.run(&["id", "other", "--new"]).expect(0);
    let listener = world.listen(&["--as", "other", "--out", arg(&elsewhere), "--hidden", "--portable-names"]);
    assert_eq!(copy(&[".profile"], &listener.peer, 0).summary()["stored"], 1);
    assert_eq!(copy(&strange, &listener.peer, 4).summary()["refused"], strange.len());
    assert_eq!(entries(&elsewhere), [".profile"]);
}

#[cfg(unix)]
#[test]
fn a_name_is_escaped_once() {
    let world = World::new();
    let out = world.path("out");
    let listener = world.listen(&["--out", arg(&out)]);
    let file = world.file("new\nline", b"content");
    let copied = world.run(&["cp", arg(&file), &listener.peer]).expect(4);
    assert!(copied.stdout.contains("refused    new\\nline"), "{}", copied.stdout);
    assert!(copied.stdout.contains("invisible characters: new\\nline"), "{}", copied.stdout);
}

#[test]
fn a_listener_stores_no_more_than_it_said() {
    let world = World::new();
    let out = world.path("out");
    let listener = world.listen(&["--out", arg(&out), "--max-store", "100KiB"]);
    let (small, large) = (world.file("small", &noise(60_000, 3)), world.file("large", &noise(5 << 20, 4)));
    world.run(&["cp", arg(&small), &listener.peer]).expect(0);
    let copied = world.run(&["cp", arg(&large), &listener.peer, "--json"]).expect(4);
    assert!(copied.of_type("file")[0]["reason"].as_str().unwrap().contains("100.0 KiB"));
    assert_eq!(entries(&out), ["small"]);
}

#[test]
fn files_for_a_listener_that_stores_nothing_are_refused() {
    let world = World::new();
    let listener = world.listen(&[]);
    let file = world.file("f", b"content");
    let copied = world.run(&["cp", arg(&file), &listener.peer, "--json"]).expect(4);
    assert!(copied.of_type("file")[0]["reason"].as_str().unwrap().contains("stores no files"));
}
