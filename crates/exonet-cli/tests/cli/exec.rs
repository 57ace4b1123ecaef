//! `exon listen --exec`: a command for each message, and what its sender is told of how that ended.

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Listener, Running, World, arg, noise};

/// A listener at `bind` that runs `script`.
pub(crate) fn worker(world: &World, bind: &str, options: &[&str], script: &str) -> Listener {
    let args = [&["--as", "worker"], options, &["--exec", "sh", "-c", script]].concat();
    world.listen_at(bind, &args)
}

pub(crate) const ANYWHERE: &str = "127.0.0.1:0";

/// The address of a listener, for the next one.
fn bind(listener: &Listener) -> String {
    listener.peer.split_once('@').unwrap().1.to_owned()
}

/// A script that says into the pipe `voice` which attempt it is, and then does `rest`.
fn heard(world: &World, rest: &str) -> String {
    format!("exec 3> {}; echo $EXON_ATTEMPT >&3; {rest}", arg(&world.pipe("voice")))
}

#[test]
fn a_command_has_the_message_and_its_end_is_the_confirmation() {
    let world = World::new();
    let script = "cat; echo \" $EXON_ID $EXON_FROM $EXON_TAG $EXON_ATTEMPT\"";
    let mut worker = worker(&world, ANYWHERE, &["--exit-after", "2"], script);
    world.run(&["id", "shop", "--new"]).expect(0);
    let shop = world.run(&["id", "shop"]).expect(0).stdout;
    let args = ["send", &worker.peer, "--as", "shop", "--json", "--tag", "order", "--confirm", "processed"];
    let sent = world.run(&[&args[..], &["pay 3"]].concat()).expect(0);
    let message = &sent.of_type("message")[0];
    assert_eq!((&message["outcome"], &message["status"]), (&"processed".into(), &0.into()), "{message}");
    assert_eq!(message["attempts"], json!(null));
    let id = message["id"].as_str().unwrap();
    worker.running.says(&format!("pay 3 {id} {} order 1", shop.trim()));
    let done = worker.running.line_of("message");
    assert_eq!(
        (&done["outcome"], &done["id"], &done["attempt"]),
        (&"processed".into(), &id.into(), &1.into())
    );
    // One that does not ask is told as ever.
    let sent = world.run(&["send", &worker.peer, "more", "--json"]).expect(0).summary();
    assert_eq!((&sent["delivered"], &sent["processed"]), (&1.into(), &0.into()));
    assert_eq!(worker.running.end().expect(0).summary()["messages"], 2);
}

#[test]
fn a_file_that_is_put_off_comes_again_from_the_start() {
    let world = World::new();
    let script = "test $(wc -c) = 2097152 && test $EXON_ATTEMPT -gt 1";
    let worker = worker(&world, ANYWHERE, &["--retry-after", "10ms", "--exit-after", "1"], script);
    let file = world.file("big", &noise(2 << 20, 5));
    world.run(&["send", &worker.peer, "-f", arg(&file), "--confirm", "processed"]).expect(0);
    let done = worker.running.end().expect(0).of_type("message").pop().unwrap();
    assert_eq!((&done["outcome"], &done["attempt"]), (&"processed".into(), &2.into()), "{done}");
}

#[test]
fn what_a_command_says_is_wrong_is_rejected_at_once_with_its_last_words() {
    let world = World::new();
    let worker = worker(&world, ANYWHERE, &[], "echo one >&2; echo no such account >&2; echo >&2; exit 65");
    let sent = world.run(&["send", &worker.peer, "pay", "--json"]).expect(4);
    let message = &sent.of_type("message")[0];
    let said = ["outcome", "status", "attempts", "reason"].map(|name| &message[name]);
    assert_eq!(said, [&json!("rejected"), &65.into(), &1.into(), &"no such account".into()]);
    assert_eq!(sent.summary()["rejected"], 1);
    let sent = world.run(&["send", &worker.peer, "pay"]).expect(4);
    let words = "message 1 was rejected after 1 attempt, with status 65: no such account";
    assert!(sent.stderr.contains(words), "{}", sent.stderr);
}

#[test]
fn a_message_that_always_fails_is_rejected_after_its_attempts_and_others_go_on() {
    let world = World::new();
    let options = ["--attempts", "3", "--retry-after", "20ms"];
    let script = "test $(cat) = poison && { echo try $EXON_ATTEMPT >&2; exit 7; } || exit 0";
    let mut worker = worker(&world, ANYWHERE, &options, script);
    let poison = Running::start(world.command(&["send", &worker.peer, "poison", "--json"]));
    let first = worker.running.line_of("put_off");
    assert_eq!(
        (&first["attempt"], &first["status"], &first["reason"]),
        (&1.into(), &7.into(), &"try 1".into())
    );
    world.run(&["send", &worker.peer, "good", "--confirm", "processed"]).expect(0);
    let sent = poison.end().expect(4);
    let message = &sent.of_type("message")[0];
    let said = ["status", "attempts", "reason"].map(|name| &message[name]);
    assert_eq!(said, [&json!(7), &3.into(), &"try 3".into()]);
    worker.running.signal(Signal::INT);
    let ended = worker.running.end().expect(130);
    let summary = ended.summary();
    assert_eq!(
        (&summary["messages"], &summary["rejected"], &summary["put_off"]),
        (&2.into(), &1.into(), &2.into())
    );
    assert!(ended.stderr.contains("1 rejected"), "{}", ended.stderr);
}

#[test]
fn a_message_whose_listener_is_killed_comes_again_as_the_second_attempt() {
    let world = World::new();
    let script = heard(&world, "test $EXON_ATTEMPT = 2 || sleep 1000");
    let voice = world.voice("voice");
    let mut first = worker(&world, ANYWHERE, &[], &script);
    let args = ["send", &first.peer, "pay", "--json", "--confirm", "processed"];
    let sender = Running::start(world.command(&args));
    assert_eq!(voice.line().as_deref(), Some("1"));
    let at = bind(&first);
    first.running.kill();
    first.running.wait();
    assert_eq!(voice.line(), None, "the command has outlived its listener");
    let voice = world.voice("voice");
    let second = worker(&world, &at, &["--exit-after", "1"], &script);
    assert_eq!(voice.line().as_deref(), Some("2"));
    assert_eq!(sender.end().expect(0).summary()["processed"], 1);
    assert_eq!(second.running.end().expect(0).of_type("message")[0]["attempt"], 2);
}

#[test]
fn an_interrupted_listener_lets_commands_finish_and_gives_back_what_it_cuts() {
    let world = World::new();
    let mut gate = world.gate("gate");
    let script = heard(&world, &format!("read x < {}", arg(&world.path("gate"))));
    let send = |peer: &str| {
        Running::start(world.command(&["send", peer, "pay", "--confirm", "processed", "--json"]))
    };
    let voice = world.voice("voice");
    let mut first = worker(&world, ANYWHERE, &["--drain", "100s"], &script);
    let (sender, at) = (send(&first.peer), bind(&first));
    assert_eq!(voice.line().as_deref(), Some("1"));
    first.running.signal(Signal::INT);
    assert_eq!(first.running.line_of("draining")["running"], 1);
    first.running.signal(Signal::INT);
    first.running.end().expect(130);
    assert_eq!(voice.line(), None);
    let voice = world.voice("voice");
    let mut second = worker(&world, &at, &["--drain", "100s"], &script);
    // A node that ends in order gives its messages back: they come as if for the first time.
    assert_eq!(voice.line().as_deref(), Some("1"));
    second.running.signal(Signal::INT);
    second.running.line_of("draining");
    gate.open();
    assert_eq!(second.running.end().expect(130).of_type("message")[0]["outcome"], "processed");
    assert_eq!(sender.end().expect(0).summary()["processed"], 1);
}

#[test]
fn large_bodies_are_given_whole_and_taken_whole() {
    let world = World::new();
    let body = world.file("body", &noise(3 << 20, 1));
    for script in ["test $(wc -c) = 3145728", "exit 0"] {
        let worker = worker(&world, ANYWHERE, &["--exit-after", "1"], script);
        let args = ["send", &worker.peer, "--file", arg(&body), "--confirm", "processed", "--json"];
        assert_eq!(world.run(&args).expect(0).summary()["processed"], 1);
        worker.running.end().expect(0);
    }
}

#[test]
fn a_command_that_takes_too_long_is_ended() {
    let world = World::new();
    let options = ["--timeout", "50ms", "--attempts", "1", "--exit-after", "1"];
    let worker = worker(&world, ANYWHERE, &options, "sleep 1000");
    let sent = world.run(&["send", &worker.peer, "pay", "--json"]).expect(4);
    assert_eq!(sent.of_type("message")[0]["status"], 124);
    worker.running.end().expect(0);
}

#[test]
fn a_background_node_passes_the_confirmation_on() {
    let world = World::new();
    let mut up = world.up(&[]);
    let worker = worker(&world, ANYWHERE, &[], "test $(cat) = good || { echo bad luck >&2; exit 65; }");
    let send =
        |text| ["send", "--as", "sender", "--up", "--confirm", "processed", "--json", &worker.peer, text];
    let good = world.run(&send("good")).expect(0);
    let message = &good.of_type("message")[0];
    assert_eq!((&message["outcome"], &message["status"]), (&"processed".into(), &0.into()));
    let bad = world.run(&send("bad")).expect(4);
    let message = &bad.of_type("message")[0];
    let said = ["outcome", "status", "attempts", "reason"].map(|name| &message[name]);
    assert_eq!(said, [&json!("rejected"), &65.into(), &1.into(), &"bad luck".into()]);
    assert!(bad.stderr.contains("message 1 was rejected after 1 attempt"), "{}", bad.stderr);
    assert_eq!(up.running.line_of("message")["outcome"], "processed");
    assert_eq!(up.running.line_of("message")["reason"], "bad luck");
}

#[test]
fn a_command_does_not_run_again_because_the_disk_cannot_take_the_dead_letter() {
    let world = World::new();
    let runs = world.path("runs");
    let mut worker = worker(&world, ANYWHERE, &[], &format!("echo >> {}; exit 65", arg(&runs)));
    let folder = world.path("state/worker/dead");
    std::fs::write(&folder, "a file where the folder should be").unwrap();
    let sender = Running::start(world.command(&["send", &worker.peer, "pay", "--json"]));
    let told = ["500ms", "1s"].map(|pause| worker.running.says(pause));
    assert!(told.iter().all(|line| line.contains("cannot keep")), "{told:?}");
    std::fs::remove_file(&folder).unwrap();
    let sent = sender.end().expect(4);
    assert_eq!(sent.of_type("message")[0]["attempts"], 1);
    assert_eq!(std::fs::read(&runs).unwrap(), b"\n");
}
