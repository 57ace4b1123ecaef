//! A listener outlives whatever strangers send, and whatever becomes of its disk.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Listener, Running, World, arg, entries, noise, until};

/// The unfinished files in a directory.
fn parts(directory: &Path) -> Vec<String> {
    entries(directory).into_iter().filter(|name| name.ends_with(".part")).collect()
}

fn bytes_below(directory: &Path) -> u64 {
    let lengths = fs::read_dir(directory).unwrap().filter_map(|entry| entry.ok()?.metadata().ok());
    lengths.map(|about| about.len()).sum()
}

/// A file of this size that takes no room.
fn sparse(world: &World, name: &str, size: u64) -> std::path::PathBuf {
    let path = world.file(name, b"");
    fs::File::options().write(true).open(&path).unwrap().set_len(size).unwrap();
    path
}

/// Begins to send what takes long, and is killed when the first of it has been written.
fn abandoned(world: &World, out: &Path, listener: &Listener, command: &[&str]) {
    let mut copy = Running::start(world.command(&[command, &[listener.peer.as_str()]].concat()));
    until("a part is written", || bytes_below(out) > 0);
    copy.kill();
    copy.wait();
}

#[test]
fn a_size_that_is_only_announced_takes_no_room() {
    let world = World::new();
    let out = world.path("out");
    let listener = world.listen(&["--out", arg(&out)]);
    let large = sparse(&world, "x", 10 << 30);
    abandoned(&world, &out, &listener, &["send", "--file", arg(&large)]);
    abandoned(&world, &out, &listener, &["cp", arg(&large)]);
    world.run(&["send", &listener.peer, "hi"]).expect(0);
    let file = world.file("f", &noise(2 << 20, 1));
    world.run(&["cp", arg(&file), &listener.peer]).expect(0);
    listener.running.signal(rustix::process::Signal::INT);
    let heard = listener.running.end().expect(130).summary();
    assert_eq!((&heard["messages"], &heard["files"]), (&1.into(), &1.into()));
}

#[test]
fn a_message_over_budget_is_refused_and_its_sender_told() {
    let world = World::new();
    let out = world.path("out");
    let listener = world.listen(&["--out", arg(&out), "--max-store", "100KiB", "--exit-after", "1"]);
    for size in [200_000, 5 << 20] {
        let large = world.file("large", &noise(size, 4));
        let sent = world.run(&["send", &listener.peer, "--file", arg(&large), "--json"]).expect(4);
        assert_eq!(sent.summary()["refused"], 1);
        let told = &sent.of_type("message")[0];
        assert_eq!(told["outcome"], "refused");
        assert!(told["reason"].as_str().unwrap().contains("100.0 KiB"), "{told}");
    }
    world.run(&["send", &listener.peer, "a word"]).expect(0);
    let heard = listener.running.end().expect(0);
    assert_eq!(heard.summary()["refused"], 2);
    assert!(heard.stderr.contains("refused a message of"), "{}", heard.stderr);
    assert_eq!(entries(&out).len(), 1);
}

#[test]
fn the_budget_counts_what_was_there() {
    let world = World::new();
    let out = world.path("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("old"), noise(90_000, 1)).unwrap();
    let listener = world.listen(&["--out", arg(&out), "--max-store", "100KB"]);
    let file = world.file("f", &noise(20_000, 3));
    world.run(&["cp", arg(&file), &listener.peer]).expect(4);
}

#[test]
fn the_bytes_of_a_silent_sender_go_after_its_time() {
    let world = World::new();
    let out = world.path("out");
    let mut listener = world.listen(&["--out", arg(&out), "--patience", "1s", "-vv"]);
    let large = sparse(&world, "x", 5 << 30);
    abandoned(&world, &out, &listener, &["send", "--file", arg(&large)]);
    listener.running.says("its sender has been silent");
    until("the part is gone", || parts(&out).is_empty());
    world.run(&["send", &listener.peer, "hi"]).expect(0);
}

#[test]
fn the_parts_of_a_killed_listener_go_at_its_next_start() {
    let world = World::new();
    let out = world.path("out");
    let mut listener = world.listen(&["--out", arg(&out)]);
    let file = sparse(&world, "x", 5 << 30);
    let mut copy = Running::start(world.command(&["send", "--file", arg(&file), &listener.peer]));
    until("a part is written", || bytes_below(&out) > 0);
    listener.running.kill();
    listener.running.wait();
    copy.kill();
    assert_eq!(parts(&out).len(), 1);
    let _again = world.listen(&["--out", arg(&out), "--patience", "0s"]);
    assert!(parts(&out).is_empty());
}

#[test]
fn a_removed_directory_keeps_messages_with_their_senders() {
    let world = World::new();
    let out = world.path("out");
    let mut listener = world.listen(&["--out", arg(&out), "--exit-after", "2"]);
    fs::remove_dir_all(&out).unwrap();
    let file = world.file("f", &noise(300_000, 3));
    let copy = Running::start(world.command(&["cp", arg(&file), &listener.peer]));
    let sender = Running::start(world.command(&["send", &listener.peer, "hi"]));
    listener.running.says("cannot store");
    fs::create_dir(&out).unwrap();
    sender.end().expect(0);
    copy.end().expect(0);
    assert!(listener.running.end().expect(0).stderr.contains("messages can be stored again"));
    assert_eq!(entries(&out).len(), 2);
}

#[test]
fn a_full_disk_keeps_messages_with_their_senders() {
    let world = World::new();
    let out = world.path("out");
    fs::create_dir(&out).unwrap();
    // A disk of 1 MiB in a namespace of its own, which ends with the listener.
    let script = "mount -t tmpfs -o size=1m none \"$0\" && exec \"$@\"";
    let within = |command: &mut Command| {
        command.args(["-rm", "sh", "-c", script, arg(&out)]);
    };
    let mut trial = Command::new("unshare");
    within(&mut trial);
    if !trial.arg("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        return crate::skip::skipped("this machine allows no mounts in a namespace of one's own");
    }
    let mut command = Command::new("unshare");
    within(&mut command);
    command.arg(env!("CARGO_BIN_EXE_exon"));
    command.args(["listen", "--json", "--bind", "127.0.0.1:0", "--out", arg(&out), "--exit-after", "2"]);
    command.env("EXONET_STATE", world.path("state")).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut listener = world.listener_of("listening", command);
    let disk = format!("/proc/{}/root{}/filler", listener.running.pid(), arg(&out));
    fs::write(&disk, noise(700_000, 1)).unwrap();
    let file = world.file("f", &noise(600_000, 3));
    let copy = Running::start(world.command(&["cp", arg(&file), &listener.peer]));
    listener.running.says("cannot store");
    // What there is room for gets through meanwhile.
    world.run(&["send", &listener.peer, "hi"]).expect(0);
    fs::remove_file(&disk).unwrap();
    copy.end().expect(0);
    assert_eq!(listener.running.end().expect(0).summary()["files"], 1);
}

#[test]
fn what_cannot_be_printed_is_not_taken() {
    let world = World::new();
    for (name, out) in [("full", None), ("store", Some(world.path("out")))] {
        let state = world.path(name);
        let mut args = vec!["listen", "--bind", "127.0.0.1:0", "--state", arg(&state)];
        args.extend(out.iter().flat_map(|out| ["--out", arg(out)]));
        let mut command = world.command(&args);
        command.stdout(fs::File::options().write(true).open("/dev/full").unwrap());
        let (mut listener, peer) = announced(command);
        let sent = world.run(&["send", &peer, "hi", "--timeout", "2s"]);
        assert!(matches!(sent.code, Some(3 | 4)), "{}", sent.stderr);
        let said = listener.says("cannot write to standard output");
        assert!(said.contains("No space left"), "{said}");
        listener.end().expect(1);
    }
}

#[test]
fn a_closed_pipe_ends_the_listener_and_nothing_is_lost() {
    let world = World::new();
    let mut command = world.command(&["listen", "--bind", "127.0.0.1:0"]);
    let (reader, writer) = std::io::pipe().unwrap();
    command.stdout(writer);
    let (mut listener, peer) = announced(command);
    drop(reader);
    let sent = world.run(&["send", &peer, "hi", "--timeout", "2s"]);
    assert!(matches!(sent.code, Some(3 | 4)), "{}", sent.stderr);
    listener.says("standard output was closed");
    listener.end().expect(1);
}

#[test]
fn a_listener_without_standard_output_says_so() {
    let world = World::new();
    let listen = |to: &str| {
        let mut command = Command::new("sh");
        let exec = format!("exec {} listen --bind 127.0.0.1:0 {to}", env!("CARGO_BIN_EXE_exon"));
        command.args(["-c", &exec]).env("EXONET_STATE", world.path("state"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    // The listener cannot tell the second from the first.
    for to in [">&-", "<>/dev/null 1<&0"] {
        Running::start(listen(to)).says("standard output is closed");
    }
    // The listener is silent if messages are discarded on purpose, or stored.
    let out = format!(">&- --out {}", arg(&world.path("out")));
    for to in [">/dev/null", &out] {
        let (_listener, peer) = announced(listen(to));
        world.run(&["send", &peer, "hi"]).expect(0);
    }
}

/// A listener whose standard output is not ours: it says where it is on standard error.
fn announced(command: Command) -> (Running, String) {
    let mut listener = Running::start(command);
    let peer = listener.says("@127.0.0.1:").trim().to_owned();
    (listener, peer)
}
