//! Calls: how they end, and that nothing is left behind.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Gate, Running, World, arg, noise};

/// Says `begun` and lives until it is ended, with a child that does, too.
fn for_ever(world: &World) -> String {
    format!("exec 3> {}; echo begun >&3; sleep 1000; echo late >&3", arg(&world.pipe("voice")))
}

#[test]
fn a_call_is_answered_and_has_one_name_at_both_ends() {
    let world = World::new();
    let script = "cat; echo; echo $EXON_METHOD; echo $EXON_CALLER; echo $EXON_CALL_ID; echo oops >&2";
    let mut server = world.serve(&["--method", "one", "--method", "two", "--exec", "sh", "-c", script]);
    world.run(&["id", "shop", "--new"]).expect(0);
    let caller = world.run(&["id", "shop"]).expect(0).stdout;
    let told = world.run(&["call", &server.peer, "two", "hello", "--as", "shop"]).expect(0).stdout;
    let call = server.running.line_of("call");
    let answer = server.running.line_of("answer");
    let id = call["id"].as_str().unwrap();
    assert_eq!(told, format!("hello\ntwo\n{caller}{id}\n"));
    assert_eq!((&call["method"], &call["size"]), (&"two".into(), &5.into()));
    assert_eq!((&answer["id"], &answer["status"]), (&id.into(), &0.into()));
    server.running.signal(Signal::INT);
    let ended = server.running.end().expect(130);
    assert_eq!((&ended.summary()["calls"], &ended.summary()["failed"]), (&1.into(), &0.into()));
    assert!(ended.stderr.contains("oops") && ended.stderr.contains(id), "{}", ended.stderr);
}

#[test]
fn json_has_all_that_is_known() {
    let world = World::new();
    let server = world.serve(&["--method", "m", "--exec", "sh", "-c", "cat; exit $(cat | wc -c)"]);
    let text = world.run(&["call", &server.peer, "m", "grün", "--json", "--no-early"]).expect(0).summary();
    assert_eq!(
        (&text["outcome"], &text["status"], &text["text"]),
        (&"reply".into(), &0.into(), &"grün".into())
    );
    assert!(text["id"].as_str().unwrap().contains('/') && text["ms"].as_f64().unwrap() > 0.0, "{text}");
    let binary = world.feed(&["call", &server.peer, "m", "-", "--json"], b"\xff\xfe").expect(0).summary();
    assert_eq!((&binary["base64"], &binary["text"]), (&"//4=".into(), &Value::Null));
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let nobody = format!("{}@{}", server.peer.split_once('@').unwrap().0, silent.local_addr().unwrap());
    let expired = world.run(&["call", &nobody, "m", "--deadline", "50ms", "--json"]).expect(4).summary();
    assert_eq!((&expired["outcome"], &expired["has_not_run"]), (&"expired".into(), &true.into()));
}

#[test]
fn bodies_of_any_size_go_both_ways() {
    let world = World::new();
    let server = world.serve(&["--method", "cat", "--exec", "cat"]);
    let body: String = noise(2 << 20, 9).iter().map(|byte| format!("{byte:02x}")).collect();
    let told = world.feed(&["call", &server.peer, "cat", "-"], body.as_bytes()).expect(0);
    assert!(told.stdout == body, "{} of {}", told.stdout.len(), body.len());
    // Who does not care for its input answers all the same.
    let deaf = world.serve(&[
        "--as",
        "deaf",
        "--state",
        arg(&world.path("deaf")),
        "--method",
        "m",
        "--exec",
        "echo",
        "no",
    ]);
    assert_eq!(world.feed(&["call", &deaf.peer, "m", "-"], body.as_bytes()).expect(0).stdout, "no\n");
}

#[test]
fn each_failure_has_its_status() {
    let world = World::new();
    let command = world.file("command", b"#!/bin/sh\necho here\n");
    std::fs::set_permissions(&command, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let script = r#"case $EXON_METHOD in
        seven) echo no such shelf; exit 7;;
        killed) kill -9 $$;;
        endless) yes;;
    esac"#;
    let methods = ["--method", "seven", "--method", "killed", "--method", "endless"];
    let limits = ["--max-body", "1KiB", "--max-reply", "100KiB", "--exec", "sh", "-c", script];
    let server = world.serve(&[&methods[..], &limits].concat());
    let large = "x".repeat(1_025);
    let reserved = |below: u32| u32::MAX - below;
    for (method, body, status, words, has_not_run) in [
        ("seven", "", 7, "no such shelf", false),
        ("killed", "", 128 + 9, "137", false),
        ("endless", "", reserved(0), "102400", false),
        ("seven", &large, reserved(5), "limit is 1024", true),
        ("eight", "", reserved(2), "no such method", true),
    ] {
        let ended = world.run(&["call", &server.peer, method, body, "--json"]).expect(5);
        let summary = ended.summary();
        assert_eq!(
            (&summary["outcome"], &summary["status"]),
            (&"failed".into(), &status.into()),
            "{summary}"
        );
        assert_eq!(summary["has_not_run"], has_not_run, "{summary}");
        let ended = world.run(&["call", &server.peer, method, body]).expect(5);
        assert!(ended.stdout.is_empty() && ended.stderr.contains(words), "{}", ended.stderr);
        assert_eq!(ended.stderr.contains("certainly did not run"), has_not_run, "{}", ended.stderr);
    }
    // Of what was there when it began to serve.
    let state = world.path("other");
    let server = world.serve(&["--state", arg(&state), "--method", "m", "--exec", arg(&command)]);
    assert_eq!(world.run(&["call", &server.peer, "m"]).expect(0).stdout, "here\n");
    std::fs::remove_file(&command).unwrap();
    let gone = world.run(&["call", &server.peer, "m", "--json"]).expect(5).summary();
    assert_eq!(gone["status"], 127, "{gone}");
}

#[test]
fn a_process_that_takes_too_long_is_ended_with_what_it_started() {
    let world = World::new();
    let script = for_ever(&world);
    let voice = world.voice("voice");
    let server = world.serve(&["--method", "m", "--timeout", "3s", "--exec", "sh", "-c", &script]);
    let ended = world.run(&["call", &server.peer, "m"]).expect(5);
    assert!(ended.stderr.contains("timed out"), "{}", ended.stderr);
    assert_eq!((voice.line(), voice.line()), (Some("begun".into()), None));
}

#[test]
fn a_process_is_ended_when_its_caller_is_gone_if_that_is_wanted() {
    let world = World::new();
    let script = for_ever(&world);
    let voice = world.voice("voice");
    let mut server = world.serve(&["--method", "m", "--end-orphans", "3s", "--exec", "sh", "-c", &script]);
    let caller = Running::start(world.command(&["call", &server.peer, "m", "--json"]));
    assert_eq!(voice.line().unwrap(), "begun");
    caller.signal(Signal::INT);
    let ended = caller.end().expect(130);
    let call = server.running.line_of("call");
    // It gave up what had left: once or not at all, under this name.
    assert_eq!((&ended.summary()["outcome"], &ended.summary()["id"]), (&"unknown".into(), &call["id"]));
    assert!(ended.stderr.contains(call["id"].as_str().unwrap()), "{}", ended.stderr);
    assert_eq!(voice.line(), None);
    assert_eq!(server.running.line_of("answer")["id"], call["id"]);
}

#[test]
fn a_deadline_that_comes_after_the_call_has_left_ends_it_unknown() {
    let world = World::new();
    // Its input ends when the server has seen to it that it is not left behind.
    let script = format!("cat; ({}) & wait", for_ever(&world));
    let voice = world.voice("voice");
    let mut server = world.serve(&["--method", "m", "--exec", "sh", "-c", &script]);
    let caller = world.run(&["call", &server.peer, "m", "--deadline", "3s", "--json"]).expect(3);
    let summary = caller.summary();
    assert_eq!((&summary["outcome"], &summary["has_not_run"]), (&"unknown".into(), &false.into()));
    assert!(summary["why"].as_str().unwrap().contains("deadline"), "{summary}");
    assert!(caller.stderr.contains(summary["id"].as_str().unwrap()), "{}", caller.stderr);
    // It runs on: its end is nobody's business but the server's.
    assert_eq!(voice.line().unwrap(), "begun");
    server.running.signal(Signal::INT);
    server.running.line_of("draining");
    server.running.signal(Signal::INT);
    server.running.end().expect(130);
    assert_eq!(voice.line(), None);
}

#[test]
fn a_body_that_breaks_off_is_no_end_of_input() {
    let world = World::new();
    let mut gate = world.gate("gate");
    let (voice, path) = (world.pipe("voice"), world.path("gate"));
    let script = format!(
        "exec 3> {}; echo begun >&3; read x < {}; cat > /dev/null; echo whole >&3",
        arg(&voice),
        arg(&path)
    );
    let voice = world.voice("voice");
    let mut server = world.serve(&["--method", "m", "--exec", "sh", "-c", &script]);
    let body = world.file("body", &vec![b'x'; 32 << 20]);
    let mut command = world.command(&["call", &server.peer, "m", "-"]);
    command.stdin(std::fs::File::open(body).unwrap());
    let caller = Running::start(command);
    assert_eq!(voice.line().unwrap(), "begun");
    caller.signal(Signal::INT);
    caller.end().expect(130);
    gate.open();
    assert_eq!(voice.line(), None, "the end of its input was seen");
    assert_ne!(server.running.line_of("answer")["status"], 0);
}

/// A call that waits until it is let, and says so.
fn gated(world: &World) -> (Gate, String) {
    let gate = world.gate("gate");
    let (voice, path) = (world.pipe("voice"), world.path("gate"));
    let script = format!("exec 3> {}; echo begun >&3; read x < {}; echo done", arg(&voice), arg(&path));
    (gate, script)
}

#[test]
fn an_interrupted_server_takes_nothing_new_and_finishes_what_it_has() {
    let world = World::new();
    let (mut gate, script) = gated(&world);
    let voice = world.voice("voice");
    let mut server = world.serve(&["--method", "m", "--drain", "100s", "--exec", "sh", "-c", &script]);
    let caller = Running::start(world.command(&["call", &server.peer, "m"]));
    assert_eq!(voice.line().unwrap(), "begun");
    server.running.signal(Signal::INT);
    assert_eq!(server.running.line_of("draining")["running"], 1);
    let late = world.run(&["call", &server.peer, "m"]).expect(4);
    assert!(late.stderr.contains("try again"), "{}", late.stderr);
    gate.open();
    assert_eq!(caller.end().expect(0).stdout, "done\n");
    let ended = server.running.end().expect(130);
    assert_eq!((&ended.summary()["calls"], &ended.summary()["end"]), (&1.into(), &"interrupted".into()));
}

#[test]
fn a_server_that_is_interrupted_again_ends_what_runs() {
    let world = World::new();
    let script = for_ever(&world);
    let voice = world.voice("voice");
    let mut server = world.serve(&["--method", "m", "--drain", "100s", "--exec", "sh", "-c", &script]);
    let caller = Running::start(world.command(&["call", &server.peer, "m", "--json"]));
    assert_eq!(voice.line().unwrap(), "begun");
    server.running.signal(Signal::INT);
    server.running.line_of("draining");
    server.running.signal(Signal::TERM);
    assert_eq!(voice.line(), None);
    server.running.end().expect(130);
    let summary = caller.end().expect(5).summary();
    assert_eq!(summary["status"], u32::MAX, "{summary}");
}

#[test]
fn an_echo_is_served_without_a_process() {
    let world = World::new();
    let server = world.serve(&["--echo", "--exit-after", "1"]);
    assert_eq!(world.run(&["call", &server.peer, "echo", "-"]).expect(0).stdout, "");
    assert_eq!(server.running.end().expect(0).summary()["end"], "done");
}

#[test]
fn bench_measures_calls() {
    let world = World::new();
    for (args, first_contact) in
        [(&["--actors", "1", "--actors", "3"][..], false), (&["--actors", "2", "--first-contact"], true)]
    {
        let args = [&["bench", "calls", "--json", "-q", "--seconds", "200ms"], args].concat();
        let summary = world.run(&args).expect(0).summary();
        assert_eq!(summary["first_contact"], first_contact);
        for row in summary["calls"].as_array().unwrap() {
            let figure = |name: &str| row[name].as_f64().unwrap();
            assert!(figure("calls") > 0.0 && figure("per_s") > 0.0 && figure("cpu_us") > 0.0, "{row}");
            assert!(figure("p50_us") <= figure("p99_us") && figure("p99_us") <= figure("p999_us"), "{row}");
            // Three make a first contact, and no call needs more than that but for losses and farewells.
            assert!(!first_contact || figure("datagrams") >= 3.0, "{row}");
        }
    }
}

/// Not even kill -9 leaves anything of what a call started.
#[test]
fn a_killed_server_takes_its_processes_along() {
    let world = World::new();
    let script = for_ever(&world);
    let voice = world.voice("voice");
    let mut server = world.serve(&["--method", "m", "--exec", "sh", "-c", &script]);
    let caller = Running::start(world.command(&["call", &server.peer, "m"]));
    assert_eq!(voice.line().as_deref(), Some("begun"));
    server.running.kill();
    assert_eq!(voice.line(), None);
    drop(caller);
}

/// What a process leaves behind, with its output open, does not hold the reply back.
#[test]
fn a_reply_does_not_wait_for_what_a_process_started() {
    let world = World::new();
    let mut gate = world.gate("gate");
    let script = format!("(read line < {}) & echo done; exit 7", arg(&world.path("gate")));
    let server = world.serve(&["--method", "m", "--exec", "sh", "-c", &script]);
    let ended = world.run(&["call", &server.peer, "m", "--json"]).expect(5);
    assert_eq!((&ended.summary()["status"], &ended.summary()["text"]), (&7.into(), &"done\n".into()));
    gate.open();
}

#[test]
fn a_message_to_a_server_is_refused_at_once() {
    let world = World::new();
    let server = world.serve(&["--method", "cat", "--exec", "cat"]);
    let sent = world.run(&["send", &server.peer, "to nobody", "--json"]).expect(4);
    assert_eq!(sent.summary()["refused"], 1);
    assert!(sent.of_type("message")[0]["reason"].as_str().unwrap().contains("it takes calls only"));
    assert!(sent.stderr.contains("exon call"), "{}", sent.stderr);
    assert_eq!(world.run(&["call", &server.peer, "cat", "still"]).expect(0).stdout, "still");
}
