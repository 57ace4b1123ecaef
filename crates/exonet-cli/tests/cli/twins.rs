//! A state directory that was copied: whoever uses it is told, on standard error.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use crate::support::{Running, World};

/// Every file of a directory, in another.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            // The permissions too.
            fs::copy(entry.path(), &to).unwrap();
        }
    }
}

#[test]
fn copies_that_send_at_once_are_both_told() {
    let world = World::new();
    world.run(&["id", "s", "--new"]).expect(0);
    let (original, other) = (world.path("state"), world.path("other"));
    copy(&original, &other);
    let mut listener = world.listen(&[]);
    let begin = |state: &Path| {
        let mut command = world.command(&["send", "--json", "--as", "s", &listener.peer, "--stdin-lines"]);
        command.env("EXONET_STATE", state).stdin(Stdio::piped());
        Running::start(command)
    };
    let mut first = begin(&original);
    let mut feed = first.stdin();
    feed.write_all(b"one\n").unwrap();
    assert_eq!(first.line_of("message")["outcome"], "delivered");
    let mut second = begin(&other);
    let mut other_feed = second.stdin();
    other_feed.write_all(b"two\n").unwrap();
    assert_eq!(second.line_of("message")["outcome"], "unknown");
    second.says("another node has this node's identity");
    first.says("another node has this node's identity");
    listener.running.says("two nodes have this peer's identity");
    feed.write_all(b"three\n").unwrap();
    assert_eq!(first.line_of("message")["outcome"], "cancelled");
    drop((feed, other_feed));
    let ended = first.end().expect(4);
    assert!(ended.stderr.contains("state directory was copied"), "{}", ended.stderr);
    second.end().expect(3);
    listener.running.signal(rustix::process::Signal::INT);
    assert_eq!(listener.running.end().expect(130).summary()["messages"], 1);
}
