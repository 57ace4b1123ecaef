//! `exon dead`: what was rejected is kept, shown, tried again and thrown away.

use crate::exec::{ANYWHERE, worker};
use crate::support::{Running, World, arg};

/// A world in which the worker has rejected these messages.
fn rejected(messages: &[&str]) -> World {
    let world = World::new();
    let listener = worker(&world, ANYWHERE, &[], "echo no such account >&2; exit 65");
    for message in messages {
        world.run(&["send", &listener.peer, message]).expect(4);
    }
    drop(listener);
    world
}

fn dead(world: &World, args: &[&str], code: i32) -> crate::support::Ended {
    world.run(&[&["dead"], args, &["--as", "worker", "--json"]].concat()).expect(code)
}

#[test]
fn letters_are_shown_and_dropped_while_a_node_runs_or_not() {
    let world = rejected(&["pay 1", "pay 2"]);
    let running = worker(&world, ANYWHERE, &[], "exit 65");
    let letters = dead(&world, &["ls"], 0);
    let rows = letters.of_type("letter");
    assert_eq!(rows.len(), 2);
    assert_eq!((&rows[0]["number"], &rows[0]["reason"]), (&1.into(), &"no such account".into()));
    assert_eq!(
        (&rows[0]["status"], &rows[0]["attempts"], &rows[0]["size"]),
        (&65.into(), &1.into(), &5.into())
    );
    assert_eq!(dead(&world, &["show", "2"], 0).of_type("letter")[0]["text"], "pay 2");
    let id = rows[0]["id"].as_str().unwrap();
    assert_eq!(dead(&world, &["show", id], 0).of_type("letter")[0]["text"], "pay 1");
    drop(running);
    dead(&world, &["drop", id], 0);
    assert_eq!(dead(&world, &["show", "1"], 0).of_type("letter")[0]["text"], "pay 2");
    let missing = world.run(&["dead", "show", "7", "--as", "worker"]).expect(1);
    assert!(missing.stderr.contains("there is no dead letter 7"), "{}", missing.stderr);
    dead(&world, &["drop", "--all"], 0);
    assert_eq!(dead(&world, &["ls"], 0).summary()["letters"], 0);
}

#[test]
fn a_letter_goes_when_a_command_has_processed_it_and_stays_otherwise() {
    let world = rejected(&["pay 1", "pay 2"]);
    let retry = |which: &str, code: i32, script: &str| {
        let args = ["dead", "retry", which, "--as", "worker", "--json", "--exec", "sh", "-c", script];
        world.run(&args).expect(code)
    };
    let kept = retry("1", 4, "echo still not >&2; exit 7");
    assert_eq!(
        (&kept.summary()["kept"], &kept.of_type("retried")[0]["reason"]),
        (&1.into(), &"still not".into())
    );
    assert_eq!(dead(&world, &["ls"], 0).summary()["letters"], 2);
    let gone = retry("1", 0, "test \"$(cat)\" = 'pay 1' && test $EXON_ATTEMPT = 2");
    assert_eq!(gone.summary()["processed"], 1);
    let printed = world.run(&["dead", "retry", "--all", "--as", "worker"]).expect(0);
    assert_eq!(printed.stdout, "pay 2\n");
    assert_eq!(dead(&world, &["ls"], 0).summary()["letters"], 0);
}

#[test]
fn of_two_that_retry_one_letter_at_once_one_has_it() {
    let world = rejected(&["pay 1", "pay 2"]);
    let mut gate = world.gate("gate");
    let script = format!("echo > {}; read x < {}", arg(&world.pipe("voice")), arg(&world.path("gate")));
    let voice = world.voice("voice");
    let retry = |which: &str, script: &str| {
        let args = ["dead", "retry", which, "--as", "worker", "--json", "--exec", "sh", "-c", script];
        Running::start(world.command(&args))
    };
    let first = retry("1", &script);
    assert!(voice.line().is_some());
    let second = retry("1", "true").end().expect(4);
    assert_eq!(
        (&second.of_type("retried")[0]["outcome"], &second.summary()["kept"]),
        (&"busy".into(), &1.into())
    );
    let printed = world.run(&["dead", "retry", "1", "--as", "worker"]).expect(4);
    assert_eq!(printed.stdout, "");
    let dropped = world.run(&["dead", "drop", "1", "--as", "worker"]).expect(1);
    assert!(dropped.stderr.contains("is retrying the dead letter"), "{}", dropped.stderr);
    // Others are free.
    assert_eq!(retry("2", "true").end().expect(0).summary()["processed"], 1);
    gate.open();
    assert_eq!(first.end().expect(0).summary()["processed"], 1);
    assert_eq!(dead(&world, &["ls"], 0).summary()["letters"], 0);

    // One whose process is killed is free again.
    let world = rejected(&["pay 3"]);
    let script = format!("echo > {}; sleep 1000", arg(&world.pipe("voice")));
    let voice = world.voice("voice");
    let args = ["dead", "retry", "1", "--as", "worker", "--exec", "sh", "-c", &script];
    let mut killed = Running::start(world.command(&args));
    assert!(voice.line().is_some());
    killed.kill();
    killed.wait();
    assert_eq!(world.run(&["dead", "retry", "1", "--as", "worker"]).expect(0).stdout, "pay 3\n");
}

#[test]
fn a_listener_that_runs_the_identity_tries_a_letter_again_with_its_command() {
    let world = rejected(&["pay 1", "pay 2"]);
    let script = format!(
        "test \"$(cat)\" = 'pay 2' || test -e {} || {{ echo not yet >&2; exit 7; }}",
        arg(&world.path("ok"))
    );
    let mut listener = worker(&world, ANYWHERE, &[], &script);
    let kept = dead(&world, &["retry", "1"], 4);
    let line = &kept.of_type("retried")[0];
    assert_eq!((&line["outcome"], &line["reason"]), (&"kept".into(), &"not yet".into()));
    assert_eq!(line["by"], listener.running.pid());
    assert_eq!(listener.running.line_of("retried")["outcome"], "kept");
    let gone = dead(&world, &["retry", "2"], 0);
    assert_eq!(gone.of_type("retried")[0]["outcome"], "processed");
    assert!(gone.stderr.contains("its --exec command was used"), "{}", gone.stderr);
    world.file("ok", b"");
    let text = world.run(&["dead", "retry", "--all", "--as", "worker"]).expect(0).stdout;
    assert!(text.starts_with("processed  "), "{text}");
    assert_eq!(dead(&world, &["ls"], 0).summary()["letters"], 0);
    listener.running.signal(rustix::process::Signal::INT);
    assert_eq!(listener.running.end().expect(130).summary()["messages"], 0);
}
