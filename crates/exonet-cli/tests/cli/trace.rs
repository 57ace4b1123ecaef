//! `exon trace`: messages of a node that runs, step by step; and the trace that a message is part of.

use serde_json::Value;

use crate::exec::{ANYWHERE, worker};
use crate::support::{Running, World, until};

fn trace(world: &World, args: &[&str]) -> Running {
    Running::start(world.command(&[&["trace"], args].concat()))
}

/// The names of the steps, in order.
fn steps(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .filter(|line| line["type"] == "happened")
        .map(|line| line["step"].as_str().unwrap())
        .collect()
}

#[test]
fn a_message_is_followed_at_its_sender_and_at_its_receiver() {
    let world = World::new();
    let listener = world.listen(&["--as", "till"]);
    let _up = world.up(&[]);
    let mut near = trace(&world, &["--as", "sender", "-n", "1", "--json"]);
    let mut far = trace(&world, &["--as", "till", "-n", "1", "--json"]);
    assert_eq!(
        (&near.line_of("trace")["command"], &far.line_of("trace")["command"]),
        (&"up".into(), &"listen".into())
    );
    world.run(&["send", &listener.peer, "--as", "sender", "--durable", "--tag", "order", "pay 20"]).expect(0);
    let (near, far) = (near.end().expect(0).lines(), far.end().expect(0).lines());
    let sent = steps(&near);
    assert_eq!(sent[..4], ["queued", "journaled", "bound", "left"], "{near:?}");
    assert_eq!((&near[1]["tag"], &near[1]["size"]), (&"order".into(), &6.into()));
    let ends =
        [&near, &far].map(|lines| lines.last().map(|line| (&line["type"], &line["end"], &line["messages"])));
    assert_eq!(ends, [Some((&"summary".into(), &"done".into(), &1.into())); 2]);
    let last = &near[near.len() - 2];
    assert_eq!(
        (&last["step"], &last["outcome"], &last["last"]),
        (&"settled".into(), &"delivered".into(), &true.into())
    );
    let times: Vec<i64> = near.iter().filter_map(|line| line["at_us"].as_i64()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let came = steps(&far);
    assert_eq!((came[0], *came.last().unwrap()), ("arrived", "taken"), "{far:?}");
    assert_eq!(far[1]["id"], last["id"], "one name at both ends");
}

#[test]
fn a_message_in_doubt_is_found_by_its_number_and_by_its_id() {
    let world = World::new();
    let mut listener = world.listen(&["--as", "till", "--exec", "cat"]);
    let peer = listener.peer.clone();
    listener.running.kill();
    listener.running.wait();
    let up = world.up(&[]);
    world.run(&["send", &peer, "--as", "sender", "--durable", "pay 20"]).expect(0);
    let mut id = None;
    until("it has left", || {
        let open = world.run(&["outbox", "ls", "--as", "sender", "--json"]).expect(0).of_type("message");
        id = open[0]["id"].as_str().map(str::to_owned);
        id.is_some()
    });
    for message in ["1", &id.unwrap()] {
        let told = world.run(&["trace", message, "--as", "sender", "--timeout", "2s"]).expect(0);
        assert!(told.stdout.contains("open when the trace began"), "{}", told.stdout);
        assert!(told.stdout.contains("bound early, to slot"), "{}", told.stdout);
        assert!(told.stdout.contains("not ended yet"), "{}", told.stdout);
        assert!(told.stdout.lines().all(|line| line.chars().count() <= 80), "{}", told.stdout);
    }
    let told = world.run(&["trace", "7", "--as", "sender"]).expect(1);
    assert!(told.stderr.contains("no message 7"), "{}", told.stderr);
    assert!(told.stderr.contains("exon outbox status 7 --as sender"), "{}", told.stderr);
    let told = world.run(&["trace", "x/y", "--as", "sender"]).expect(2);
    assert!(told.stderr.contains("NODE/RECORD/SLOT"), "{}", told.stderr);
    drop(up);
    let told = world.run(&["trace", "--as", "sender"]).expect(1);
    assert!(told.stderr.contains("exon up --as sender"), "{}", told.stderr);
}

#[test]
fn only_messages_of_the_peer_that_is_named_are_followed_and_the_end_of_the_node_is_told() {
    let world = World::new();
    let (till, shop) = (world.listen(&["--as", "till"]), world.listen(&["--as", "shop"]));
    let _up = world.up(&[]);
    world.run(&["peer", "add", "till", &till.peer]).expect(0);
    let mut watching = trace(&world, &["--as", "sender", "--peer", "till"]);
    watching.says("following messages of sender, which exon up runs");
    for peer in [&shop.peer, &till.peer] {
        world.run(&["send", peer, "--as", "sender", "--durable", "x"]).expect(0);
    }
    watching.hears("settled: delivered");
    world.run(&["down", "--as", "sender"]).expect(0);
    let told = watching.end().expect(1);
    assert!(told.stderr.contains("the node has ended meanwhile"), "{}", told.stderr);
    assert!(!told.stdout.contains("#2"), "{}", told.stdout);
}

/// The receiver cannot know whether a message is still under way to it.
#[test]
fn a_trace_says_that_its_message_is_not_here() {
    let world = World::new();
    let mut worker = worker(&world, ANYWHERE, &["--retry-after", "1m"], "test $(cat) = good");
    let sent = world.run(&["send", &worker.peer, "good", "--json"]).expect(0).of_type("message");
    let taken = sent[0]["id"].as_str().unwrap().to_owned();
    let _sender = Running::start(world.command(&["send", &worker.peer, "bad"]));
    let put_off = worker.running.line_of("put_off")["id"].as_str().unwrap().to_owned();
    for (id, here) in [(&taken, false), (&put_off, true)] {
        let told = world.run(&["trace", id, "--as", "worker", "--timeout", "2s", "--json"]).expect(0);
        assert_eq!(told.of_type("trace")[0]["here"], here, "{}", told.stdout);
        assert_eq!(
            told.stderr.contains("it has not arrived yet, or has ended before"),
            !here,
            "{}",
            told.stderr
        );
        let summary = told.summary();
        assert_eq!((&summary["end"], &summary["messages"]), (&"timed out".into(), &0.into()));
    }
}

#[test]
fn a_command_that_sends_by_itself_tells_its_own_steps() {
    let world = World::new();
    let listener = world.listen(&[]);
    let told = world.run(&["send", &listener.peer, "--trace", "one", "two"]).expect(0);
    for n in ["#1 to ", "#2 to "] {
        assert!(told.stderr.contains(n), "{}", told.stderr);
    }
    assert_eq!(told.stderr.matches("settled: delivered").count(), 2, "{}", told.stderr);
    let told = world.run(&["send", &listener.peer, "--trace", "--json", "one"]).expect(0);
    let lines = told.lines();
    assert_eq!(steps(&lines)[..3], ["queued", "bound", "left"], "{}", told.stdout);
    let _up = world.up(&[]);
    let told = world.run(&["send", &listener.peer, "--as", "sender", "--trace", "one"]).expect(1);
    assert!(told.stderr.contains("exon trace --as sender"), "{}", told.stderr);
}

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn a_trace_goes_on_through_handlers_that_call() {
    let world = World::new();
    let leaf =
        world.serve(&["--as", "leaf", "--method", "m", "--exec", "sh", "-c", "echo ${TRACEPARENT:-none}"]);
    let script = format!("{} call {} m", env!("CARGO_BIN_EXE_exon"), leaf.peer);
    let relay = world.serve(&["--as", "relay", "--method", "m", "--exec", "sh", "-c", &script]);
    let call = ["call", &relay.peer, "m"];
    let told = world.run(&[&call[..], &["--traceparent", PARENT]].concat()).expect(0);
    assert_eq!(told.stdout.trim(), PARENT);
    assert_eq!(world.run(&call).expect(0).stdout.trim(), "none");
    for (variable, told) in [(PARENT, PARENT), ("no trace", "none")] {
        let mut command = world.command(&call);
        command.env("TRACEPARENT", variable);
        assert_eq!(Running::start(command).end().expect(0).stdout.trim(), told);
    }
    let wrong = world.run(&[&call[..], &["--traceparent", "00-1-2-3"]].concat()).expect(2);
    assert!(wrong.stderr.contains("00-TRACE-PARENT-FLAGS"), "{}", wrong.stderr);
}

#[test]
fn a_dead_letter_keeps_its_trace_for_the_command_that_tries_it_again() {
    let world = World::new();
    let listener = worker(&world, ANYWHERE, &[], "exit 65");
    world.run(&["send", &listener.peer, "traced", "--traceparent", PARENT]).expect(4);
    world.run(&["send", &listener.peer, "plain"]).expect(4);
    drop(listener);
    let letters = world.run(&["dead", "ls", "--as", "worker", "--json"]).expect(0);
    let traces: Vec<_> = letters.of_type("letter").iter().map(|row| row["traceparent"].clone()).collect();
    assert_eq!(traces, [PARENT.into(), serde_json::Value::Null]);
    for told in [PARENT, "none"] {
        let script = "echo \"it is ${TRACEPARENT:-none}\" >&2";
        let retry = ["dead", "retry", "1", "--as", "worker", "--exec", "sh", "-c", script];
        let retried = world.run(&retry).expect(0);
        assert!(retried.stderr.contains(&format!("it is {told}")), "{}", retried.stderr);
    }
}

#[test]
fn a_handler_has_the_trace_of_its_message_and_no_other() {
    let world = World::new();
    let script = "echo \"it is ${TRACEPARENT:-none}\" >&2";
    let mut command =
        world.command(&["listen", "--json", "--bind", "127.0.0.1:0", "--exec", "sh", "-c", script]);
    command.env("TRACEPARENT", PARENT.replace('4', "5"));
    let mut worker = world.listener_of("listening", command);
    let mut listener = world.listen(&["--as", "till"]);
    let _up = world.up(&[]);
    let parent = ["--traceparent", PARENT];
    for args in [&["--as", "sender", "--durable"][..], &[]] {
        world.run(&[&["send", &worker.peer, "x"], args, &parent].concat()).expect(0);
        worker.running.says(&format!("it is {PARENT}"));
        world.run(&[&["send", &worker.peer, "x"], args].concat()).expect(0);
        worker.running.says("it is none");
    }
    world.run(&[&["send", &listener.peer, "x"][..], &parent].concat()).expect(0);
    assert_eq!(listener.running.line_of("message")["traceparent"], PARENT);
}
