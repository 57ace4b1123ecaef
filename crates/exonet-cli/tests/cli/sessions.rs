//! Sessions: a process for each client, talked with by lines, and what outlives what.

use std::io::Write as _;
use std::process::Stdio;

use rustix::process::Signal;

use crate::support::{Running, World, arg};

/// A client whose input is ours.
fn talk(world: &World, args: &[&str]) -> Running {
    let mut command = world.command(args);
    command.stdin(Stdio::piped());
    Running::start(command)
}

#[test]
fn each_session_has_a_process_that_is_talked_with_by_lines() {
    let world = World::new();
    let script = "n=0; while read line; do n=$((n+1)); echo \"$n $EXON_SESSION $line\"; done; echo bye";
    let mut server = world.serve(&["--sessions", "count", "--exec", "sh", "-c", script]);
    for _ in 0..2 {
        let told = world.feed(&["session", "open", "count", &server.peer], b"a\n\nlast").expect(0);
        assert_eq!(told.stdout, "1 count a\n2 count \n3 count last\nbye\n");
    }
    let begun = server.running.line_of("session");
    let ended = server.running.line_of("session_end");
    assert_eq!((&begun["name"], &ended["end"]), (&"count".into(), &"closed".into()));
    assert_eq!((&begun["id"], &ended["status"]), (&ended["id"], &0.into()));
    let told = world.feed(&["session", "open", "count", &server.peer, "--json"], b"x\n").expect(0);
    let summary = told.summary();
    assert_eq!(
        (&summary["end"], &summary["sent"], &summary["received"]),
        (&"closed".into(), &1.into(), &2.into())
    );
    assert_eq!(summary["outcomes"]["processed"], 1, "{summary}");
    let texts: Vec<_> = told.of_type("message").iter().map(|line| line["text"].clone()).collect();
    assert_eq!(texts, ["1 count x", "bye"]);
}

#[test]
fn a_line_is_one_message_or_none() {
    let world = World::new();
    let script = "read n; head -c $n /dev/zero | tr '\\0' x; echo; echo behind";
    let server = world.serve(&["--sessions", "long", "--exec", "sh", "-c", script]);
    let asked =
        |n: usize| world.feed(&["session", "open", "long", &server.peer], format!("{n}\n").as_bytes());
    let told = asked(16 << 20).expect(0);
    assert_eq!(told.stdout.lines().map(str::len).collect::<Vec<_>>(), [16 << 20, 6]);
    let told = asked((16 << 20) + 1).expect(4);
    assert!(
        told.stdout.is_empty() && told.stderr.contains("a line of more than 16777216 bytes"),
        "{}",
        told.stderr
    );
    // The other way.
    let script = "while read line; do echo ${#line}; done";
    let server = world.serve(&["--as", "counts", "--sessions", "count", "--exec", "sh", "-c", script]);
    let lines = [&b"one\n"[..], &vec![b'x'; (16 << 20) + 1], b"\nthree\n"].concat();
    let told = world.feed(&["session", "open", "count", &server.peer, "--json"], &lines).expect(4);
    let texts: Vec<_> = told.of_type("message").iter().map(|line| line["text"].clone()).collect();
    assert_eq!(texts, ["3", "5"]);
    let rejected = told.of_type("rejected");
    assert_eq!((rejected.len(), &rejected[0]["line"]), (1, &2.into()));
    assert!(told.stderr.contains("line 2 was rejected: it has 16777217 bytes"), "{}", told.stderr);
}

#[test]
fn what_is_not_served_or_cannot_run_is_told() {
    let world = World::new();
    let program = world.file("program", b"#!/bin/sh\necho here\n");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let server = world.serve(&["--sessions", "broken", "--exec", arg(&program)]);
    std::fs::remove_file(&program).unwrap();
    let told = world.feed(&["session", "open", "broken", &server.peer], b"x\n").expect(4);
    assert!(told.stderr.contains("could not be started"), "{}", told.stderr);
    let told = world.feed(&["session", "open", "other", &server.peer], b"x\n").expect(4);
    assert!(told.stderr.contains("no session \"other\" is served here"), "{}", told.stderr);
    for (wrong, words) in [
        (&["session", "open", "", &server.peer][..], "1 to 200 bytes"),
        (&["session", "open", "x", &server.peer, "--id", "12"], "16 hexadecimal digits"),
        (&["session", "open", "x", "nobody"], "nobody"),
    ] {
        let told = world.feed(wrong, b"");
        assert!(told.stderr.contains(words), "{}", told.stderr);
    }
    let listener = world.listen(&["--as", "l", "--state", arg(&world.path("l"))]);
    let echo = world.serve(&["--as", "e", "--state", arg(&world.path("e")), "--echo"]);
    let up = world.gateway("u", &["--anyone"]);
    let none = "no session \"s\" is served here";
    for (peer, why) in [(&listener.peer, none), (&up.peer, none), (&echo.peer, "takes calls only")] {
        // Its input stays open.
        let told = talk(&world, &["session", "open", "s", peer, "--json"]);
        let told = told.end().expect(4);
        assert_eq!(told.summary()["end"], "refused");
        assert!(told.stderr.contains(why), "{}", told.stderr);
    }
    let lines = ["group", "send", "--mode", "all", "--stream", "s", "--to", &up.peer];
    let lines = world.feed(&lines, b"line\n");
    assert!(lines.stdout.contains("no --stream s here"), "{}", lines.stdout);
    let message = world.run(&["send", &server.peer, "plain"]).expect(4);
    assert!(message.stderr.contains("takes no messages"), "{}", message.stderr);
}

#[test]
fn an_id_that_is_no_session_of_the_identity_is_told() {
    let world = World::new();
    let server = world.serve(&["--drain", "100ms", "--sessions", "s", "--exec", "cat"]);
    world.run(&["id", "me", "--new"]).expect(0);
    world.run(&["id", "other", "--new"]).expect(0);
    let open = ["session", "open", "s", &server.peer];
    let mut client = talk(&world, &[&open[..], &["--as", "me", "--json"]].concat());
    let id = client.line_of("session")["id"].as_str().unwrap().to_owned();
    client.says(&format!("session {id}"));
    let mut input = client.stdin();
    writeln!(input, "one").unwrap();
    hears(&mut client, "one", "");
    client.signal(Signal::INT);
    client.end().expect(6);

    let listed = world.run(&["session", "ls", "--as", "me", "--json"]).expect(0);
    assert_eq!(listed.summary()["sessions"], 1);
    let row = &listed.of_type("session")[0];
    let (peer, address) = server.peer.split_once('@').unwrap();
    assert_eq!((&row["id"], &row["name"], &row["peer"]), (&id.as_str().into(), &"s".into(), &peer.into()));
    assert!(row["addresses"].as_array().unwrap().contains(&address.into()), "{row}");
    assert_eq!(row["role"], "client");
    assert_eq!(world.run(&["session", "ls", "--as", "other", "--json"]).expect(0).summary()["sessions"], 0);

    // The id is that of another identity, or of another name: certainly nothing was delivered.
    for wrong in [
        &["session", "open", "s", &server.peer, "--as", "other"][..],
        &["session", "open", "t", &server.peer, "--as", "me"],
    ] {
        let told = world.feed(&[wrong, &["--json", "--id", &id]].concat(), b"two\n").expect(4);
        let summary = told.summary();
        assert_eq!((&summary["end"], &summary["outcomes"]["rejected"]), (&"forgotten".into(), &1.into()));
        assert!(told.stderr.contains(&format!("there is no session {id}")), "{}", told.stderr);
        assert!(
            told.of_type("session").is_empty() && !told.stderr.contains("exon: session"),
            "{}",
            told.stderr
        );
    }
    let told = world.feed(&[&open[..], &["--as", "me", "--id", &id]].concat(), b"two\n").expect(0);
    assert_eq!(told.stdout, "two\n");
    server.running.signal(Signal::INT);
    let ended = server.running.end().expect(130);
    assert_eq!((&ended.summary()["calls"], &ended.summary()["sessions"]), (&0.into(), &1.into()));
    assert!(ended.stderr.contains("served 1 session, in"), "{}", ended.stderr);
    assert_eq!(world.run(&["session", "ls", "--as", "me", "--json"]).expect(0).summary()["sessions"], 0);
}

#[test]
fn each_side_of_a_session_is_told_its_role() {
    let world = World::new();
    let mut server = world.serve(&["--as", "server", "--sessions", "s", "--exec", "cat"]);
    world.run(&["id", "me", "--new"]).expect(0);
    let mut client = talk(&world, &["session", "open", "s", &server.peer, "--as", "me", "--json"]);
    let id = client.line_of("session")["id"].as_str().unwrap().to_owned();
    let mut input = client.stdin();
    writeln!(input, "one").unwrap();
    hears(&mut client, "one", "");
    client.signal(Signal::INT);
    client.end().expect(6);
    server.running.kill();
    server.running.wait();
    for (identity, role) in [("me", "client"), ("server", "server")] {
        let listed = world.run(&["session", "ls", "--as", identity]).expect(0).stdout;
        assert!(listed.starts_with(&format!("{id}  {role}  s  ")), "{listed}");
        let listed = world.run(&["session", "ls", "--as", identity, "--json"]).expect(0);
        assert_eq!(listed.of_type("session")[0]["role"], role);
    }
}

#[test]
fn a_session_with_nobody_ends_in_time() {
    let world = World::new();
    let peer = format!("{}@127.0.0.1:9", exonet_proto::NodeId([1; 32]));
    let open = ["session", "open", "s", &peer, "--timeout", "100ms", "--json"];
    let told = world.feed(&open, b"").expect(4);
    assert_eq!(told.summary()["end"], "timed out");
    let mut refused = talk(&world, &["session", "open", "s", &peer, "--carrier", "tcp"]);
    refused.says("no connection: ");
    world.run(&["id", "me", "--new"]).expect(0);
    let told = world.feed(&[&open[..], &["--as", "me"]].concat(), b"").expect(6);
    assert_eq!(told.summary()["end"], "left");
}

/// The program has said everything it had to say, and its failure is no end like others. It may be ended by a signal, too.
#[test]
fn the_failure_of_a_program_is_told_behind_what_it_has_said() {
    let world = World::new();
    // Its output ends before it does.
    let script = "echo so; exec >&-; read how; case $how in kill) kill -9 $$;; *) exit $how;; esac";
    let mut server = world.serve(&["--sessions", "s", "--exec", "sh", "-c", script]);
    for (how, code) in [("3", 3), ("kill", 137)] {
        let told = world.feed(&["session", "open", "s", &server.peer, "--json"], how.as_bytes()).expect(4);
        assert_eq!(told.of_type("message")[0]["text"], "so");
        assert_eq!((&told.summary()["end"], &told.summary()["received"]), (&"refused".into(), &1.into()));
        let why = format!("the other side has ended the session: its program failed with exit code {code}");
        assert!(told.stderr.contains(&why), "{}", told.stderr);
        assert_eq!(server.running.line_of("session_end")["status"], code);
    }
    world.feed(&["session", "open", "s", &server.peer], b"0").expect(0);
}

/// What the other side has not waited for is told; the end of the input is not taken for more of it.
#[test]
fn input_that_remains_is_told() {
    let world = World::new();
    let server = world.serve(&["--sessions", "s", "--exec", "sh", "-c", "read line; echo \"had $line\""]);
    let open = ["session", "open", "s", &server.peer, "--json"];
    let whole = world.feed(&open, b"one\n").expect(0);
    assert_eq!(whole.summary()["input_remained"], false);
    let mut client = talk(&world, &open);
    let mut input = client.stdin();
    writeln!(input, "one").unwrap();
    let told = client.end().expect(4);
    assert_eq!((&told.summary()["end"], &told.summary()["input_remained"]), (&"closed".into(), &true.into()));
    assert!(told.stderr.contains("input that remained was not sent"), "{}", told.stderr);
}

/// The end of a session that is not kept reaches the other side, and ends its program.
#[test]
fn the_other_side_is_told_of_a_session_that_is_aborted() {
    let world = World::new();
    let mut server = world.serve(&["--sessions", "s", "--exec", "cat"]);
    let open = ["session", "open", "s", &server.peer, "--json"];
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 130), (Signal::HUP, 130)] {
        let mut client = talk(&world, &open);
        let mut input = client.stdin();
        writeln!(input, "one").unwrap();
        hears(&mut client, "one", "");
        client.signal(signal);
        client.end().expect(code);
        let end = server.running.line_of("session_end");
        assert!(end["end"].as_str().unwrap().contains("given it up"), "{end}");
    }
    let mut client = talk(&world, &[&open[..], &["--timeout", "3s"]].concat());
    let mut input = client.stdin();
    writeln!(input, "one").unwrap();
    let ended = client.end().expect(4);
    assert_eq!(ended.summary()["end"], "timed out");
    let end = server.running.line_of("session_end");
    assert!(end["end"].as_str().unwrap().contains("given it up"), "{end}");
}

/// Whatever is left of a session that has expired, a run that continues it ends.
#[test]
fn an_expired_session_cannot_continue() {
    let world = World::new();
    let mut server = world.serve(&["--sessions", "s", "--exec", "cat"]);
    world.run(&["id", "me", "--new"]).expect(0);
    let open = ["session", "open", "s", &server.peer, "--as", "me", "--json"];
    let mut client = talk(&world, &[&open[..], &["--idle", "500ms"]].concat());
    let id = client.line_of("session")["id"].as_str().unwrap().to_owned();
    let mut input = client.stdin();
    writeln!(input, "one").unwrap();
    let ended = client.end().expect(4);
    assert_eq!(ended.summary()["end"], "expired");
    server.running.line_of("session_end");
    let told = world.feed(&[&open[..], &["--id", &id]].concat(), b"two\n").expect(4);
    let end = told.summary()["end"].as_str().unwrap().to_owned();
    assert!(["forgotten", "expired"].contains(&&*end), "{end}: {}", told.stderr);
}

/// Waits for this message. One that was printed, or given to a process, just before that was killed may come again before it.
fn hears(client: &mut Running, text: &str, before: &str) {
    loop {
        let told = client.line_of("message")["text"].as_str().unwrap().to_owned();
        if told == text {
            return;
        }
        assert_eq!(told, before);
    }
}

/// Both ends are killed by turns, and the conversation goes on: no line is missing, and all are in order.
#[test]
fn a_session_goes_on_after_both_ends_are_killed() {
    let world = World::new();
    world.run(&["id", "me", "--new"]).expect(0);
    let log = world.path("log");
    let script = format!("while read line; do echo \"$line\" >> {}; echo \"had $line\"; done", arg(&log));
    let serve = ["--sessions", "log", "--exec", "sh", "-c", &script];
    let mut server = world.serve(&serve);
    let bind = server.peer.split_once('@').unwrap().1.to_owned();
    let peer = server.peer.clone();
    let mut client = talk(&world, &["session", "open", "log", &peer, "--as", "me", "--json"]);
    let id = client.line_of("session")["id"].as_str().unwrap().to_owned();
    let mut input = client.stdin();
    for line in ["one", "two"] {
        writeln!(input, "{line}").unwrap();
        hears(&mut client, &format!("had {line}"), "");
    }
    server.running.kill();
    server.running.wait();
    writeln!(input, "three").unwrap();
    let server = world.serve_at(&bind, &serve);
    hears(&mut client, "had three", "had two");
    client.kill();
    client.wait();
    drop(input);
    let mut client = talk(&world, &["session", "open", "log", &peer, "--as", "me", "--json", "--id", &id]);
    let mut input = client.stdin();
    writeln!(input, "four").unwrap();
    hears(&mut client, "had four", "had three");
    // Left, and taken up again to end it.
    client.signal(Signal::INT);
    let left = client.end().expect(6);
    assert_eq!((&left.summary()["end"], &left.summary()["id"]), (&"left".into(), &id.as_str().into()));
    let end = world.feed(&["session", "open", "log", &peer, "--as", "me", "--id", &id], b"five\n").expect(0);
    assert!(end.stdout.ends_with("had five\n"), "{}", end.stdout);
    let log = std::fs::read_to_string(&log).unwrap();
    let mut had: Vec<_> = log.lines().collect();
    had.dedup();
    assert_eq!(had, ["one", "two", "three", "four", "five"]);
    drop(server);
}
