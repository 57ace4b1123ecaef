//! Processes whose standard error takes nothing: their exit codes and their work are the same.

use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::support::{Running, World, arg};

/// Places for standard error that fail: a pipe without a reader, and a full device where there is one.
fn deaf() -> Vec<Stdio> {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    [Some(writer.into()), full.ok().map(Stdio::from)].into_iter().flatten().collect()
}

fn deafened(mut command: Command, stderr: Stdio) -> Command {
    command.stderr(stderr);
    command
}

#[test]
fn exit_codes_stay() {
    let world = World::new();
    world.run(&["id", "here", "--new"]).expect(0);
    let missing = world.path("missing");
    let peer = format!("{}@127.0.0.1:9", exonet_proto::NodeId([7; 32]));
    let table: &[(&[&str], i32)] = &[
        (&[], 2),
        (&["frobnicate"], 2),
        (&["frobnicate", "--json"], 2),
        (&["id", "typo"], 1),
        (&["id", "typo", "--json"], 1),
        (&["outbox", "ls", "--as", "here"], 0),
        (&["send", &peer, "x", "--file", arg(&missing)], 1),
        (&["send", &peer, "x", "--as", "typo"], 1),
        (&["send", &peer, "x", "--timeout", "0s", "--trace", "-vvv"], 3),
    ];
    for (args, code) in table {
        // The usual code, so that the table cannot be wrong about it.
        let code = if args.contains(&"0s") { world.run(args).code.unwrap() } else { *code };
        for stderr in deaf() {
            Running::start(deafened(world.command(args), stderr)).end().expect(code);
        }
    }
}

#[test]
fn a_listener_stays_and_delivers() {
    for stderr in deaf() {
        let world = World::new();
        let listen = ["listen", "--json", "--bind", "127.0.0.1:0", "-vvv"];
        let listener = world.listener_of("listening", deafened(world.command(&listen), stderr));
        let sent = world.run(&["send", &listener.peer, "hello", "--json"]).expect(0);
        assert_eq!(sent.summary()["delivered"], 1);
        listener.running.signal(Signal::TERM);
        let heard = listener.running.end().expect(130);
        assert_eq!(heard.of_type("message")[0]["text"], "hello");
    }
}
