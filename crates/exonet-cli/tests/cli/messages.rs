//! Messages, pings and identities.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Running, World, arg, entries, free_address, noise};

fn texts(messages: &[Value]) -> Vec<String> {
    messages.iter().map(|m| m["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn messages_arrive_once_each() {
    let world = World::new();
    let listener = world.listen(&["--exit-after", "3"]);
    let sent = world.run(&["send", &listener.peer, "one", "two", "three", "--json"]).expect(0);
    let heard = listener.running.end().expect(0);
    let mut got = texts(&heard.of_type("message"));
    got.sort();
    assert_eq!(got, ["one", "three", "two"]);
    assert_eq!(heard.summary()["messages"], 3);
    let summary = sent.summary();
    assert_eq!((&summary["sent"], &summary["delivered"]), (&3.into(), &3.into()));
    // A message has one name at both ends.
    let ids = |lines: Vec<Value>| -> BTreeSet<String> {
        lines.iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(sent.of_type("message")), ids(heard.of_type("message")));
}

#[test]
fn what_is_not_shown_of_a_long_message_is_counted() {
    let world = World::new();
    let listener = world.listen(&["--exit-after", "1"]);
    // The last byte that is shown would be the first of two of a character.
    let body = format!("{}ä, and more", "a".repeat((1 << 20) - 1));
    world.feed(&["send", &listener.peer, "-f", "-"], body.as_bytes()).expect(0);
    let heard = listener.running.end().expect(0).of_type("message").remove(0);
    let text = heard["text"].as_str().unwrap();
    assert!(body.starts_with(text) && text.len() == (1 << 20) - 1, "{}", text.len());
    assert_eq!(
        (&heard["size"], &heard["not_shown"]),
        (&body.len().into(), &(body.len() - text.len()).into())
    );
}

#[test]
fn messages_go_by_the_carrier_that_is_asked_for() {
    let world = World::new();
    let listener = world.listen(&["--exit-after", "3", "--carrier", "auto"]);
    for carrier in ["udp", "tcp", "auto"] {
        world.run(&["send", &listener.peer, carrier, "--carrier", carrier]).expect(0);
    }
    let mut got = texts(&listener.running.end().expect(0).of_type("message"));
    got.sort();
    assert_eq!(got, ["auto", "tcp", "udp"]);
    world.run(&["send", &listener.peer, "x", "--carrier", "pigeon"]).expect(2);
}

/// Without `--carrier`, a listener takes UDP and TCP at one port number, and a sender tries both.
#[test]
fn tcp_is_tried_where_udp_does_not_get_through() {
    let world = World::new();
    let listener = world.listen(&["--exit-after", "3"]);
    for carrier in ["udp", "tcp"] {
        world.run(&["send", &listener.peer, carrier, "--carrier", carrier]).expect(0);
    }
    let sent = world.run(&["send", &listener.peer, "either"]).expect(0);
    assert_eq!(sent.stderr.lines().filter(|line| line.contains("WARN")).count(), 0, "{}", sent.stderr);
    let mut got = texts(&listener.running.end().expect(0).of_type("message"));
    got.sort();
    assert_eq!(got, ["either", "tcp", "udp"]);
    // This listener receives no datagrams.
    let listener = world.listen(&["--exit-after", "1", "--carrier", "tcp"]);
    world.run(&["send", &listener.peer, "over"]).expect(0);
    assert_eq!(texts(&listener.running.end().expect(0).of_type("message")), ["over"]);
}

#[test]
fn a_tcp_port_that_is_taken_matters_only_to_those_who_ask_for_tcp() {
    let world = World::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let listener = world.listen_at(&at, &["--exit-after", "1"]);
    world.run(&["send", &listener.peer, "by udp"]).expect(0);
    let heard = listener.running.end().expect(0);
    assert_eq!(texts(&heard.of_type("message")), ["by udp"]);
    let warned = |stderr: &str| stderr.lines().filter(|line| line.contains("no connections")).count();
    assert_eq!(warned(&heard.stderr), 1, "{}", heard.stderr);
    for carrier in ["auto", "tcp"] {
        let refused = world.run(&["listen", "--bind", &at, "--carrier", carrier]).expect(1);
        assert!(!refused.stderr.contains("WARN"), "{}", refused.stderr);
        assert!(refused.stderr.contains(&at), "{}", refused.stderr);
    }
    let quiet = world.listen_at(&at, &["--exit-after", "1", "--carrier", "udp"]);
    world.run(&["send", &quiet.peer, "by udp"]).expect(0);
    assert_eq!(warned(&quiet.running.end().expect(0).stderr), 0);
}

/// The word, or what stands for it if it is the id of a message or a duration: these differ from run to run.
fn without_what_differs(word: &str) -> &str {
    let is_duration = word.contains('.') && word.parse::<f64>().is_ok();
    if is_duration {
        return "DURATION";
    }
    if word.contains('/') { "ID" } else { word }
}

/// With `auto`, a sender says the same about a peer that is away as with datagrams alone.
#[test]
fn a_peer_that_is_away_is_told_of_in_the_same_words() {
    let world = World::new();
    let away = format!("{}@{}", world.run(&["id", "away", "--new"]).expect(0).stdout.trim(), free_address());
    let told = ["auto", "udp"].map(|carrier| {
        let args = ["send", &*away, "hello", "--timeout", "2s", "--carrier", carrier];
        let ended = world.run(&args).expect(3);
        let told = ended.stderr.replace(" (without --carrier udp, it also tries TCP)", "");
        told.split_whitespace().map(without_what_differs).collect::<Vec<_>>().join(" ")
    });
    assert_eq!(told[0], told[1]);
    assert!(told[0].contains("unknown"), "{}", told[0]);
}

#[test]
fn messages_go_in_tls_and_a_proxy_that_lets_nothing_through_is_named() {
    let world = World::new();
    let listener = world.listen(&["--exit-after", "3", "--carrier", "auto"]);
    world.run(&["send", "--tls", &listener.peer, "a"]).expect(0);
    world.run(&["send", "--tls=www.example", "--carrier", "auto", &listener.peer, "b"]).expect(0);
    let nobody = free_address();
    let proxy = format!("http://me:secret@{nobody}");
    let refused = world.run(&["send", "--proxy", &proxy, "--timeout", "1s", &listener.peer, "c"]).expect(3);
    assert!(
        refused.stderr.contains(&format!("the proxy http://{nobody} cannot be reached")),
        "{}",
        refused.stderr
    );
    assert!(!refused.stderr.contains("secret"));
    world.run(&["send", "--carrier", "udp", "--tls", &listener.peer, "d"]).expect(2);
    world.run(&["send", "--proxy", "nowhere", &listener.peer, "e"]).expect(2);
    world.run(&["send", &listener.peer, "f"]).expect(0);
    assert_eq!(texts(&listener.running.end().expect(0).of_type("message")), ["a", "b", "f"]);
}

#[test]
fn every_line_of_input_is_a_message() {
    let world = World::new();
    let lines: BTreeSet<String> = (0..5_000).map(|n| format!("line {n}")).collect();
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let listener = world.listen(&["--exit-after", "5000"]);
    world.feed(&["send", &listener.peer, "--json"], input.as_bytes()).expect(0);
    let got = texts(&listener.running.end().expect(0).of_type("message"));
    assert_eq!(got.len(), lines.len());
    assert_eq!(got.into_iter().collect::<BTreeSet<_>>(), lines);
}

#[test]
fn people_read_who_and_what() {
    let world = World::new();
    let id = world.run(&["id", "sender", "--new"]).expect(0).stdout.trim().to_owned();
    let args = ["listen", "--bind", "127.0.0.1:0", "--exit-after", "2", "--as", "here", "-v"];
    world.run(&["id", "here", "--new"]).expect(0);
    // Its address is said on standard error only: a second listener tells it to us first.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    drop(socket);
    let args = args.map(|a| if a == "127.0.0.1:0" { address.as_str() } else { a });
    let here = world.run(&["id", "here"]).expect(0).stdout.trim().to_owned();
    let listener = Running::start(world.command(&args));
    let peer = format!("{here}@{address}");
    world.run(&["send", &peer, "--as", "sender", "plain", "bell\u{7}"]).expect(0);
    let heard = listener.end().expect(0);
    let mut lines: Vec<&str> = heard.stdout.lines().collect();
    lines.sort_unstable();
    let from = &id[..8];
    assert_eq!(lines, [format!("{from}  bell\\u{{7}}"), format!("{from}  plain")]);
    assert!(heard.stderr.contains(&peer), "{}", heard.stderr);
    assert!(heard.stderr.contains("anyone"), "{}", heard.stderr);
}

#[test]
fn messages_are_stored_under_their_id() {
    let world = World::new();
    let out = world.path("out");
    let listener = world.listen(&["--out", arg(&out), "--exit-after", "1"]);
    let content = noise(3 << 20, 1);
    let file = world.file("blob", &content);
    world.run(&["send", &listener.peer, "--file", arg(&file)]).expect(0);
    let heard = listener.running.end().expect(0);
    let path = heard.of_type("message")[0]["path"].as_str().unwrap().to_owned();
    assert_eq!(entries(&out), std::slice::from_ref(&path));
    assert_eq!(fs::read(out.join(path)).unwrap(), content);
}

#[test]
fn what_comes_through_a_pipe_is_one_message_however_long_it_is() {
    let world = World::new();
    let out = world.path("out");
    let listener = world.listen(&["--out", arg(&out), "--exit-after", "2"]);
    let sent = [noise(3 << 20, 1), Vec::new()];
    for content in &sent {
        let mut command = world.command(&["send", &listener.peer, "--file", "-"]);
        command.stdin(Stdio::piped());
        let mut sender = Running::start(command);
        let mut stdin = sender.stdin();
        stdin.write_all(content).unwrap();
        drop(stdin);
        sender.end().expect(0);
    }
    let heard = listener.running.end().expect(0);
    for (message, content) in heard.of_type("message").iter().zip(&sent) {
        assert_eq!(message["size"], content.len());
        assert_eq!(&fs::read(out.join(message["path"].as_str().unwrap())).unwrap(), content);
    }
    assert_eq!(heard.of_type("message").len(), 2);
}

#[cfg(unix)]
#[test]
fn a_named_pipe_is_one_message_to_its_end() {
    let world = World::new();
    let (out, pipe) = (world.path("out"), world.pipe("pipe"));
    let listener = world.listen(&["--out", arg(&out), "--exit-after", "1"]);
    let sender = Running::start(world.command(&["send", &listener.peer, "--file", arg(&pipe)]));
    let content = noise(3 << 20, 1);
    // It fails if nothing reads the pipe in between.
    fs::write(&pipe, &content).unwrap();
    sender.end().expect(0);
    let heard = listener.running.end().expect(0);
    let messages = heard.of_type("message");
    let path = messages[0]["path"].as_str().unwrap();
    assert_eq!(fs::read(out.join(path)).unwrap(), content);
}

/// The outcome has the level of the receiver, not of the sender. `exon up` tells it too.
#[test]
fn an_outcome_says_how_durable_the_receiver_is() {
    let world = World::new();
    for (level, name) in [("batched=1", "batched"), ("memory", "memory")] {
        let listener = world.listen(&["--as", name, "--durability", level]);
        let sent = world.run(&["send", &listener.peer, "--json", "one"]).expect(0);
        assert_eq!(sent.of_type("message")[0]["receiver_durability"], name);
        let sent = world.run(&["send", &listener.peer, "-v", "two"]).expect(0);
        let told = format!("delivered (receiver: {name})");
        assert!(sent.stdout.contains(&told), "{}\n{}", sent.stdout, sent.stderr);
    }
    let up = world.up(&[]);
    let listener = world.listen(&["--as", "kept"]);
    let sent = world.run(&["send", "--as", "sender", &listener.peer, "--json", "three"]).expect(0);
    assert_eq!(sent.of_type("message")[0]["receiver_durability"], "process");
    drop(up);
}

/// A listener that dies in the middle: what is told to be delivered had been printed, and the rest is not hidden.
#[test]
fn a_killed_listener_leaves_doubt_and_no_lies() {
    let world = World::new();
    let mut listener = world.listen(&[]);
    let mut command = world.command(&["send", &listener.peer, "--json", "--timeout", "8s"]);
    command.stdin(Stdio::piped());
    let mut sender = Running::start(command);
    let mut stdin = sender.stdin();
    for n in 0..500 {
        writeln!(stdin, "before {n}").unwrap();
    }
    // Some are through; others may be anywhere.
    for _ in 0..100 {
        assert_eq!(sender.line().unwrap()["type"], "message");
    }
    listener.running.kill();
    for n in 0..500 {
        writeln!(stdin, "after {n}").unwrap();
    }
    drop(stdin);
    let sent = sender.end();
    let heard = listener.running.end();
    assert!(matches!(sent.code, Some(3 | 4)), "{:?}\n{}", sent.code, sent.stderr);
    let summary = sent.summary();
    let count = |name: &str| summary[name].as_u64().unwrap();
    assert_eq!(count("sent"), 1_000);
    assert_eq!(count("delivered") + count("unknown") + count("cancelled"), 1_000);
    assert!(count("delivered") >= 100 && count("cancelled") + count("unknown") >= 500);
    let printed: BTreeSet<String> =
        heard.of_type("message").iter().map(|m| m["id"].as_str().unwrap().to_owned()).collect();
    for line in sent.of_type("message").iter().filter(|line| line["outcome"] == "delivered") {
        let id = line["id"].as_str().unwrap();
        assert!(printed.contains(id), "{id} is told delivered and was never printed");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_says_what_is_open() {
    let world = World::new();
    let id = world.run(&["id", "nobody", "--new"]).expect(0).stdout.trim().to_owned();
    let file = world.file("f", b"x");
    for command in ["send", "cp"] {
        // Someone who hears and never answers.
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let peer = format!("{id}@{}", silent.local_addr().unwrap());
        let args = match command {
            "send" => [command, &peer, "a word", "--json"],
            _ => [command, arg(&file), &peer, "--json"],
        };
        let sender = Running::start(world.command(&args));
        silent.recv_from(&mut [0; 2_048]).unwrap();
        sender.signal(rustix::process::Signal::INT);
        let sent = sender.end().expect(130);
        assert_eq!(sent.summary()["end"], "interrupted");
        // What went beside the opening may have been taken, for all that anybody knows; a streamed body did not.
        let count = |what| sent.summary()[what].as_u64().unwrap_or(0);
        assert_eq!((count("delivered"), count("cancelled") + count("unknown")), (0, 1));
        let open = if command == "send" { "open" } else { "file" };
        assert_eq!(sent.of_type(open).len(), 1, "{}", sent.stdout);
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_listener_sums_up() {
    let world = World::new();
    let listener = world.listen(&[]);
    world.run(&["send", &listener.peer, "hello"]).expect(0);
    listener.running.signal(rustix::process::Signal::INT);
    let heard = listener.running.end().expect(130);
    assert_eq!(heard.summary()["messages"], 1);
}

#[test]
fn a_ping_is_answered_by_the_node_itself() {
    let world = World::new();
    let listener = world.listen(&[]);
    let pinged = world.run(&["ping", &listener.peer, "-n", "3", "--interval", "10ms", "--json"]).expect(0);
    assert_eq!(pinged.of_type("ping").len(), 3);
    let summary = pinged.summary();
    assert_eq!((&summary["sent"], &summary["lost"]), (&3.into(), &0.into()));
    let address = listener.peer.split_once('@').unwrap().1;
    assert_eq!(summary["address"], address);
    assert!(summary["mtu"].as_u64().unwrap() >= 1_200);
    assert_eq!(summary["early_refused"], Value::Null, "one machine has one clock");
}

#[test]
fn only_those_allowed_get_through() {
    let world = World::new();
    let friend = world.run(&["id", "friend", "--new"]).expect(0).stdout.trim().to_owned();
    let listener = world.listen(&["--allow", &friend, "--exit-after", "1", "-v"]);
    let stranger = world.run(&["send", &listener.peer, "let me in", "let me in again", "--json"]).expect(4);
    assert_eq!(stranger.summary()["refused"], 2);
    assert_eq!(stranger.of_type("message")[0]["reason"], "the peer does not let this node in");
    assert!(stranger.stderr.contains("can admit this node with `--allow "), "{}", stranger.stderr);
    let file = world.file("f", b"content");
    let copied = world.run(&["cp", file.to_str().unwrap(), &listener.peer]).expect(4);
    assert!(copied.stdout.contains("does not let this node in"), "{}", copied.stdout);
    let called = world.run(&["call", &listener.peer, "anything", "--json"]).expect(4);
    assert_eq!(
        (&called.summary()["outcome"], &called.summary()["has_not_run"]),
        (&"refused".into(), &true.into())
    );
    world.run(&["send", &listener.peer, "hello", "--as", "friend"]).expect(0);
    let heard = listener.running.end().expect(0);
    assert_eq!(texts(&heard.of_type("message")), ["hello"]);
    // Each command was somebody else.
    assert_eq!(heard.stderr.matches(": no --allow names it").count(), 3, "{}", heard.stderr);
}

#[test]
fn a_ping_of_who_does_not_let_us_in_says_so_at_once() {
    let world = World::new();
    let friend = world.run(&["id", "friend", "--new"]).expect(0).stdout.trim().to_owned();
    let listener = world.listen(&["--allow", &friend]);
    let pinged = world.run(&["ping", &listener.peer, "--timeout", "60s", "--json"]).expect(4);
    assert_eq!(pinged.of_type("ping")[0]["refused"], "the peer does not let this node in");
    assert_eq!(pinged.summary()["sent"], 1, "the next one would be refused too");
    assert!(pinged.stderr.contains("can admit this node with `--allow "), "{}", pinged.stderr);
}

#[test]
fn the_text_of_a_stored_message_is_shown() {
    let world = World::new();
    let mut listen = world.command(&["listen", "--bind", "127.0.0.1:0", "--exit-after", "2"]);
    listen.arg("--out").arg(world.path("out"));
    let mut listener = Running::start(listen);
    let told = listener.says("@127.0.0.1:");
    let peer = told.trim();
    // One that does not depend on clocks, too.
    world.run(&["send", peer, "--no-early", "two words"]).expect(0);
    world.run(&["send", peer, "two\nlines"]).expect(0);
    let heard = listener.end().expect(0).stdout;
    let lines: Vec<_> = heard.lines().collect();
    assert!(lines[0].contains("  two words  (9 B in ") && lines[1].contains("  9 B in "), "{heard}");
}

/// No program asks the gateway for the message.
#[test]
fn a_peer_whose_application_is_slow_is_not_said_to_be_silent() {
    let world = World::new();
    let slow = world.gateway("slow", &["--anyone"]);
    let mut sender = Running::start(world.command(&["send", &slow.peer, "x", "--confirm", "processed"]));
    let told = sender.says(", Ctrl-C stops");
    assert!(told.contains("has not processed it yet") && !told.contains("no answer"), "{told}");
    sender.signal(rustix::process::Signal::INT);
    sender.end();
}

#[test]
fn a_closed_output_ends_a_sender_that_says_what_became_of_its_messages() {
    let world = World::new();
    let listener = world.listen(&["--as", "till"]);
    let deaf = |args: &[&str]| {
        let mut command = world.command(&[&["send", &listener.peer], args].concat());
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        command.stdin(Stdio::piped()).stdout(writer);
        command
    };
    // All was delivered, which is what the exit code is about.
    let told = Running::start(deaf(&["a", "b", "--json"])).end().expect(0).stderr;
    assert!(told.contains("2 delivered") && !told.contains("standard output"), "{told}");
    // The rest of the input is not read.
    let mut sender = Running::start(deaf(&["-v"]));
    let mut input = sender.stdin();
    input.write_all(b"one\n").unwrap();
    let told = sender.end().expect(1).stderr;
    assert!(told.contains("1 delivered") && told.contains("the rest of the input was not sent"), "{told}");
    drop(input);
}

#[test]
fn a_silent_listener_tells_strangers_nothing() {
    let world = World::new();
    let friend = world.run(&["id", "friend", "--new"]).expect(0).stdout.trim().to_owned();
    let listener = world.listen(&["--allow", &friend, "--silent", "-v"]);
    let mut stranger = Running::start(world.command(&["send", &listener.peer, "let me in", "--json"]));
    let told = stranger.says("no answer from");
    assert!(!told.contains("TCP"), "it tries TCP without being told: {told}");
    stranger.signal(rustix::process::Signal::INT);
    assert_eq!(stranger.end().expect(130).summary()["refused"], 0);
    world.run(&["send", &listener.peer, "hello", "--as", "friend"]).expect(0);
    listener.running.signal(rustix::process::Signal::INT);
    let heard = listener.running.end().expect(130);
    assert!(heard.stderr.contains(": no --allow names it"), "its owner hears it: {}", heard.stderr);
    assert!(heard.stderr.contains("took 1 message and 0 files"), "{}", heard.stderr);
}

/// Nothing more has to happen after the last message.
#[test]
fn a_listener_that_has_enough_ends() {
    let world = World::new();
    let listener = world.listen(&["--exit-after", "1"]);
    world.run(&["send", &listener.peer, "hello"]).expect(0);
    listener.running.end().expect(0);
}

#[test]
fn a_listener_keeps_its_identity() {
    let world = World::new();
    let ids = [0, 1].map(|_| {
        let listener = world.listen(&["--exit-after", "1"]);
        world.run(&["send", &listener.peer, "hello"]).expect(0);
        let ended = listener.running.end().expect(0);
        (ended.of_type("listening")[0]["id"].clone(), ended.stderr)
    });
    assert_eq!(ids[0].0, ids[1].0);
    assert!(ids[0].1.contains("created identity default"), "{}", ids[0].1);
    assert!(!ids[1].1.contains("created identity"), "{}", ids[1].1);
    let shown = world.run(&["id", "--json"]).expect(0);
    assert_eq!(shown.lines()[0]["id"], ids[0].0);
}

#[test]
fn bench_measures_everything() {
    let world = World::new();
    let args = ["bench", "--json", "--seconds", "200ms", "--size", "64", "--peers", "50", "-q"];
    let summary = world.run(&args).expect(0).summary();
    assert!(summary["one_way"][0]["messages_per_s"].as_f64().unwrap() > 0.0);
    assert!(summary["round_trip"][0]["p50_us"].as_f64().unwrap() > 0.0);
    let stages = summary["memory"]["stages"].as_array().unwrap();
    let known: Vec<u64> = stages.iter().map(|stage| stage["known"].as_u64().unwrap()).collect();
    assert_eq!(known, [50, 50, 50, 0]);
}

#[test]
fn bench_measures_between_hosts_and_gives_up_on_a_dead_one() {
    let world = World::new();
    let server = world.bench_server();
    for work in [
        &["--mode", "oneway", "--seconds", "200ms", "--size", "64"][..],
        &["--mode", "oneway", "--messages", "1000", "--batch", "7", "--actors", "3"],
        &["--mode", "oneway", "--messages", "200", "--actors", "100", "--open", "100"],
        &["--mode", "oneway", "--messages", "3", "--size", "1100000"],
        &["--mode", "rpc", "--messages", "100", "--actors", "3"],
        &["--mode", "rpc", "--messages", "3", "--size", "1100000"],
    ] {
        let args = [&["bench", "client", &server.peer, "--json", "-q", "--warm-up", "20ms"], work].concat();
        let summary = world.run(&args).expect(0).summary();
        let count = |name: &str| summary[name].as_u64().unwrap();
        assert!(count("measured") >= 3 && count("sent") >= count("measured"), "{summary}");
        let met = (count("delivered"), count("received"), count("duplicates"), count("unknown"));
        assert_eq!(met, (count("sent"), count("sent"), 0, 0), "{summary}");
        if let Some(at) = work.iter().position(|arg| *arg == "--messages") {
            assert_eq!(summary["measured"].to_string(), work[at + 1], "the warm-up does not count");
        }
    }
    let args =
        ["bench", "client", &server.peer, "--json", "-q", "--call", "--messages", "50", "--actors", "5"];
    let summary = world.run(&args).expect(0).summary();
    assert_eq!((summary["measured"].as_u64(), summary["received"].as_u64()), (Some(50), None), "{summary}");
    for (wrong, why) in [
        (&["--size", "2TiB"][..], "1 GiB"),
        (&["--size", "8"], "16 bytes"),
        (&["--mode", "rpc", "--batch", "2"], "--actors"),
    ] {
        let ended = world.run(&[&["bench", "client", &server.peer], wrong].concat());
        assert!(ended.code == Some(1) && ended.stderr.contains(why), "{wrong:?}: {}", ended.stderr);
    }
    let peer = server.peer.clone();
    server.running.signal(Signal::KILL);
    let ended = world.run(&["bench", "client", &peer, "--timeout", "300ms"]);
    assert!(ended.code != Some(0) && ended.stderr.contains("nothing came from"), "{}", ended.stderr);
}
