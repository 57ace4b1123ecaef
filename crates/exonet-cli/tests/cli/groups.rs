//! One message to several nodes.

use serde_json::Value;

use crate::support::{Ended, Listener, Running, World, arg};

/// A member of its own identity.
fn member(world: &World, name: &str, args: &[&str]) -> Listener {
    let home = world.path(name);
    world.listen(&[&["--state", arg(&home)], args].concat())
}

fn id(peer: &str) -> &str {
    peer.split_once('@').map_or(peer, |(id, _)| id)
}

fn line(ended: &Ended, peer: &str) -> Value {
    ended.of_type("member").into_iter().find(|line| line["peer"] == id(peer)).expect("each member has a line")
}

/// A peer that has been killed, and that the sender has never met.
fn nobody(world: &World) -> String {
    let gone = member(world, "gone", &[]);
    let mut running = gone.running;
    running.kill();
    gone.peer
}

#[test]
fn all_members_have_it() {
    let world = World::new();
    let a = member(&world, "a", &["--exit-after", "1"]);
    let b = member(&world, "b", &["--exit-after", "1"]);
    let sent = world.run(&["group", "send", "--to", &a.peer, "--to", &b.peer, "news", "--json"]).expect(0);
    let summary = sent.summary();
    assert_eq!((&summary["verdict"], &summary["mode"]), (&"reached".into(), &"all".into()));
    assert_eq!((&summary["need"], &summary["have_it"]), (&2.into(), &2.into()));
    for listener in [a, b] {
        let told = line(&sent, &listener.peer);
        let heard = listener.running.end().expect(0).of_type("message");
        assert_eq!((heard.len(), &heard[0]["text"]), (1, &"news".into()));
        // One name at both ends.
        assert_eq!((&told["state"], &told["id"]), (&"delivered".into(), &heard[0]["id"]));
    }
}

#[test]
fn a_dead_member_fails_all_and_not_a_quorum() {
    let world = World::new();
    let (a, dead) = (member(&world, "a", &[]), nobody(&world));
    let to = ["group", "send", "--to", &a.peer, "--to", &dead, "--json", "--deadline", "1s"];
    let failed = world.run(&[&to[..], &["news"]].concat()).expect(4);
    let summary = failed.summary();
    assert_eq!((&summary["verdict"], &summary["why"]), (&"failed".into(), &"deadline".into()));
    assert_eq!((&summary["good"], &summary["have_it"]), (&1.into(), &1.into()));
    let told = line(&failed, &dead);
    assert_eq!((&told["state"], &told["certainly_not"]), (&"expired".into(), &true.into()));
    assert_eq!(told["rtt_ms"], Value::Null);
    let path = line(&failed, &a.peer);
    assert!(path["rtt_ms"].as_f64().unwrap() > 0.0 && path["loss"].as_f64().unwrap() <= 1.0, "{path}");

    let reached = world.run(&[&to[..], &["--mode", "quorum=1/2", "news"]].concat()).expect(0);
    assert_eq!(reached.summary()["verdict"], "reached");
    assert_eq!(line(&reached, &dead)["state"], "cancelled");
    assert_eq!(line(&reached, &a.peer)["state"], "delivered");
}

#[test]
fn a_job_that_one_rejects_goes_to_another() {
    let world = World::new();
    let a = member(&world, "a", &["--attempts", "1", "--exec", "false"]);
    let b = member(&world, "b", &["--exec", "true"]);
    let to =
        ["group", "send", "--mode", "balanced", "--confirm", "processed", "--to", &a.peer, "--to", &b.peer];
    // Chance says who is asked first: now and then it is the one that rejects.
    let mut rejected = false;
    for n in 0..40 {
        let done = world.feed(&[&to[..], &["-", "--json"]].concat(), format!("job {n}").as_bytes()).expect(0);
        assert_eq!(line(&done, &b.peer)["state"], "processed");
        rejected |= line(&done, &a.peer)["state"] == "rejected";
        if rejected {
            break;
        }
    }
    assert!(rejected, "of 40 draws of two");
    let failed = world.run(&["group", "send", "--to", &a.peer, "job", "--json"]).expect(4);
    assert_eq!(
        (&failed.summary()["why"], &line(&failed, &a.peer)["state"]),
        (&"too_few".into(), &"rejected".into())
    );
}

#[test]
fn one_of_any_is_enough_though_another_is_dead() {
    let world = World::new();
    let (a, dead) = (member(&world, "a", &[]), nobody(&world));
    let to = ["group", "send", "--mode", "any", "--to", &dead, "--to", &a.peer, "--deadline", "1m"];
    let reached = world.run(&[&to[..], &["--json", "news"]].concat()).expect(0);
    assert_eq!(reached.summary()["good"], 1);
    assert_eq!(line(&reached, &a.peer)["state"], "delivered");
    // Withdrawn, and not waited for until the deadline.
    let told = line(&reached, &dead);
    assert_eq!((&told["state"], &told["certainly_not"]), (&"cancelled".into(), &true.into()));
}

#[test]
fn one_of_any_is_enough_though_another_is_killed_while_it_has_the_message() {
    let world = World::new();
    // Each command gets the message, and waits. The one at the member that is killed says so first.
    let (mut gate, _never) = (world.gate("gate"), world.gate("never"));
    let (pipe, never) = (world.pipe("voice"), world.path("never"));
    let script = format!("exec 3> {}; echo begun >&3; read x < {}", arg(&pipe), arg(&never));
    let voice = world.voice("voice");
    let a = member(&world, "a", &["--exec", "sh", "-c", "read go < \"$1\"", "--", arg(&world.path("gate"))]);
    let killed = member(&world, "killed", &["--exec", "sh", "-c", &script]);
    let to = ["group", "send", "--mode", "any", "--to", &killed.peer, "--to", &a.peer, "--deadline", "1m"];
    let sender = Running::start(world.command(&[&to[..], &["--wait", "0s", "--json", "news"]].concat()));
    assert_eq!(voice.line().unwrap(), "begun");
    let mut running = killed.running;
    running.kill();
    gate.open();
    let reached = sender.end().expect(0);
    assert_eq!((&reached.summary()["verdict"], &reached.summary()["good"]), (&"reached".into(), &1.into()));
    assert_eq!(line(&reached, &a.peer)["state"], "delivered");
    // The member's application had the message, so the node could not withdraw the copy.
    let told = line(&reached, &killed.peer);
    assert_eq!((&told["state"], &told["certainly_not"]), (&"unknown".into(), &false.into()));
}

#[test]
fn what_is_not_known_of_a_member_is_said() {
    let world = World::new();
    // Its command gets the message, and waits for something that never comes.
    let gate = world.gate("gate");
    let a = member(&world, "a", &["--exec", "sh", "-c", "read go < \"$1\"", "--", arg(&world.path("gate"))]);
    let to = ["group", "send", "--confirm", "processed", "--to", &a.peer, "--deadline", "1s", "--wait", "0s"];
    let doubt = world.run(&[&to[..], &["--json", "pay 10"]].concat()).expect(3);
    let told = line(&doubt, &a.peer);
    assert_eq!((&told["state"], &told["certainly_not"]), (&"unknown".into(), &false.into()));
    assert_eq!(doubt.summary()["why"], "deadline");
    drop(gate);
}

#[test]
fn people_read_a_table() {
    let world = World::new();
    let (a, b) = (member(&world, "a", &[]), member(&world, "b", &[]));
    world.run(&["peer", "add", "warehouse", &a.peer]).expect(0);
    let told = world.run(&["group", "send", "--to", "warehouse", "--to", &b.peer, "news"]).expect(0).stdout;
    // Names as they were given, ids where there are none.
    let other = format!("{:<9}  delivered", &id(&b.peer)[..8]);
    assert_eq!(told, format!("warehouse  delivered\n{other}\n\nreached: 2 of 2 needed\n"));
}

#[test]
fn what_cannot_be_is_said() {
    let world = World::new();
    let a = member(&world, "a", &[]);
    let up = world.up(&[]);
    let busy = world.run(&["group", "send", "--as", "sender", "--to", &a.peer, "x"]).expect(1);
    assert!(busy.stderr.contains("exon down --as sender"), "{}", busy.stderr);
    drop(up);
    // No address is known, and nothing is sent to the others.
    let nowhere = exonet_proto::NodeId([7; 32]).to_string();
    let lost = world.run(&["group", "send", "--to", &a.peer, "--to", &nowhere, "x"]).expect(1);
    assert!(lost.stderr.contains("ID@HOST:PORT"), "{}", lost.stderr);
    for (wrong, named) in [
        (&["--to", &a.peer, "--to", &a.peer][..], "name each once"),
        (&["--mode", "balanced=2", "--to", &a.peer], "the group has 1"),
        (&["--mode", "quorum=1/3", "--to", &a.peer], "the group has 1"),
        (&["--mode", "quorum=3/2", "--to", &a.peer], "P must not exceed K"),
        (&["--mode", "most", "--to", &a.peer], "most"),
        (&["--mode", "balanced=0", "--to", &a.peer], "from 1"),
        (&["--to", "stranger"], "exon peer add"),
        (&[], "--to"),
    ] {
        let ended = world.run(&[&["group", "send"], wrong, &["x"]].concat()).expect(2);
        assert!(ended.stderr.contains(named), "{}", ended.stderr);
    }
    let running = a.running;
    running.signal(rustix::process::Signal::INT);
    assert_eq!(running.end().expect(130).of_type("message").len(), 0);
}

fn texts(ended: &Ended) -> Vec<String> {
    let messages = ended.of_type("message");
    messages.iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn all_members_see_a_stream_in_order() {
    let world = World::new();
    let listen = ["--stream", "log", "--exit-after", "200"];
    let (a, b) = (member(&world, "a", &listen), member(&world, "b", &listen));
    let lines: Vec<String> = (0..200).map(|n| format!("line {n}")).collect();
    let to = ["group", "send", "--stream", "log", "--to", &a.peer, "--to", &b.peer, "--json"];
    let sent = world.feed(&to, lines.join("\n").as_bytes()).expect(0);
    let summary = sent.summary();
    assert_eq!((&summary["verdict"], &summary["stream"]), (&"reached".into(), &"log".into()));
    assert_eq!((&summary["messages"], &summary["reached"]), (&200.into(), &200.into()));
    for listener in [a, b] {
        assert_eq!(line(&sent, &listener.peer)["outcomes"]["delivered"], 200);
        let heard = listener.running.end().expect(0);
        assert_eq!(texts(&heard), lines);
        assert_eq!(heard.of_type("message")[0]["stream"], "log");
    }
}

#[test]
fn a_dead_member_falls_out_of_a_stream_and_the_others_see_it_to_its_end() {
    let world = World::new();
    let (a, dead) = (member(&world, "a", &["--stream", "log"]), nobody(&world));
    let lines: Vec<String> = (0..100).map(|n| format!("line {n}")).collect();
    let to = ["group", "send", "--stream", "log", "--queue", "8", "--to", &a.peer, "--to", &dead];
    let rest = ["--mode", "any", "--json", "--deadline", "60s"];
    let sent = world.feed(&[&to[..], &rest].concat(), lines.join("\n").as_bytes()).expect(0);
    assert_eq!((&sent.summary()["reached"], &sent.summary()["verdict"]), (&100.into(), &"reached".into()));
    assert_eq!(line(&sent, &a.peer)["outcomes"]["delivered"], 100);
    let told = line(&sent, &dead);
    assert!(told["left"].as_str().unwrap().contains("behind"), "{told}");
    assert_eq!(told["outcomes"]["delivered"], 0);
    // All of them were to have it, and one has not.
    let failed = world.run(&[&to[..], &["--deadline", "1s", "one", "two"]].concat()).expect(4);
    assert!(failed.stdout.ends_with("\nfailed: 0 of 2 messages\n"), "{}", failed.stdout);
    let running = a.running;
    running.signal(rustix::process::Signal::INT);
    let heard = running.end().expect(130);
    assert_eq!(texts(&heard), [&lines[..], &["one".to_owned(), "two".to_owned()]].concat());
    let ends = heard.of_type("stream");
    assert_eq!((ends.len(), &ends[0]["event"]), (2, &"ended".into()));
}

#[test]
fn a_stream_goes_on_while_enough_members_are_left_and_then_says_why_it_ends() {
    let world = World::new();
    let (a, b) = (member(&world, "a", &["--stream", "log"]), member(&world, "b", &["--stream", "log"]));
    let (dead, lines) = (nobody(&world), (0..100).map(|n| format!("{n}\n")).collect::<String>());
    let to = ["group", "send", "--stream", "log", "--queue", "8", "--json", "--deadline", "60s"];
    let to = [&to[..], &["--to", &a.peer, "--to", &b.peer, "--to", &dead]].concat();
    let sent = world.feed(&[&to[..], &["--mode", "quorum=2/3"]].concat(), lines.as_bytes()).expect(0);
    assert_eq!((&sent.summary()["reached"], &sent.summary()["end"]), (&100.into(), &"done".into()));
    assert!(line(&sent, &dead)["left"].as_str().unwrap().contains("behind"));

    let long = [&b"one\n"[..], &vec![b'x'; 70_000], b"\ntwo\n"].concat();
    let cut = world.feed(&[&to[..], &["--mode", "any"]].concat(), &long).expect(1);
    assert!(cut.stderr.contains("line 2 has more than 65226 bytes"), "{}", cut.stderr);
    let last = cut.summary();
    assert_eq!((&last["end"], &last["verdict"]), (&"failed".into(), &"failed".into()));
    assert_eq!((&last["messages"], &last["reached"]), (&1.into(), &1.into()));
}

#[test]
fn a_listener_without_the_stream_rejects_it_at_once() {
    let world = World::new();
    let a = member(&world, "a", &["--stream", "other"]);
    let b = member(&world, "b", &["--exec", "true"]);
    for listener in [a, b] {
        // Without a rejection, the message would wait for as long as the sender does.
        let to = ["group", "send", "--stream", "log", "--to", &listener.peer, "one", "two", "--json"];
        let sent = world.run(&[&to[..], &["--deadline", "1h"]].concat()).expect(4);
        let told = line(&sent, &listener.peer);
        assert_eq!(told["outcomes"]["rejected"], 2, "{told}");
        assert_eq!(told["reason"], "no --stream log here");
        let running = listener.running;
        running.signal(rustix::process::Signal::INT);
        assert_eq!(running.end().expect(130).of_type("message").len(), 0);
    }
    assert!(world.run(&["dead", "ls", "--state", arg(&world.path("b"))]).expect(0).stdout.is_empty());
}

#[test]
fn a_node_that_takes_no_messages_says_so_in_a_stream_too() {
    let world = World::new();
    std::fs::create_dir(world.path("files")).unwrap();
    let share = world.share("files", &world.path("files"), &["--anyone"]);
    let sent =
        world.run(&["group", "send", "--stream", "log", "--to", &share.peer, "one", "--json"]).expect(4);
    let told = line(&sent, &share.peer);
    assert_eq!(told["outcomes"]["refused"], 1, "{told}");
    assert!(told["reason"].as_str().is_some_and(|reason| reason.contains("calls only")), "{told}");
}

#[test]
fn what_a_stream_to_a_group_cannot_be_is_said() {
    let world = World::new();
    let a = member(&world, "a", &["--stream", "log"]);
    let send = |args: &[&str]| world.run(&[&["group", "send", "--to", &a.peer], args].concat());
    for (args, code, words) in [
        (&["--stream", "log", "--mode", "balanced", "x"][..], 2, "cannot be balanced"),
        (&["--stream", "", "x"], 2, "1 to 255 bytes"),
        (&["--stream", "log", "--mode", "quorum=1/2", "x"], 2, "the group has 1"),
        (&["one", "two"], 2, "--stream NAME"),
        (&["--stream", "log", "--tag", "t", "x"], 2, "--tag"),
        (&["--stream", "log", "--queue", "0", "x"], 2, "--queue"),
    ] {
        let ended = send(args).expect(code);
        assert!(ended.stderr.contains(words), "{args:?}: {}", ended.stderr);
    }
    let running = a.running;
    running.signal(rustix::process::Signal::INT);
    assert_eq!(running.end().expect(130).of_type("message").len(), 0);
}
