//! `exon up`, what is handed over to it, and the control socket of every process that runs an identity.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{ChildStdin, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kept::{Away, texts};
use crate::support::{Ended, Listener, Running, World, arg, entries, until};

/// `n` lines that nobody else sends.
fn lines(name: &str, n: usize) -> String {
    (0..n).map(|at| format!("{name} {at}\n")).collect()
}

fn outbox(world: &World, args: &[&str]) -> Ended {
    world.run(&[&["outbox", "--as", "sender"], args].concat())
}

fn open(world: &World) -> usize {
    let messages = outbox(world, &["ls", "--json"]).expect(0).summary()["messages"].as_u64();
    usize::try_from(messages.unwrap()).unwrap()
}

/// Messages of a summary that ended so.
fn count(ended: &Ended, name: &str) -> u64 {
    ended.summary()[name].as_u64().unwrap_or_else(|| panic!("no {name}: {}", ended.stdout))
}

/// What a line is written to that is handed over.
fn giving(world: &World, args: &[&str]) -> (Running, ChildStdin) {
    let mut command = world.command(&[&["send", "--as", "sender", "--json"], args].concat());
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    let stdin = running.stdin();
    (running, stdin)
}

fn killed(mut up: Listener) {
    up.running.kill();
    up.running.wait();
}

/// The process dies in the middle of its work, twice.
#[test]
fn what_was_queued_durably_is_delivered_once_though_the_node_is_killed() {
    const LINES: usize = 3_000;
    let away = Away::new();
    let mut up = away.world.up(&["--durability", "batched=1"]);
    let args = ["send", "--as", "sender", "--durable", "--json", &away.peer];
    let queued = away.world.feed(&args, lines("line", LINES).as_bytes()).expect(0);
    assert_eq!((count(&queued, "queued"), count(&queued, "sent")), (3_000, 3_000));
    assert_eq!(queued.summary()["end"], "queued durably");
    assert!(queued.stderr.contains("queued durably: 3,000 messages"), "{}", queued.stderr);
    let (world, mut listener) = away.come(LINES + 1);
    for _ in 0..2 {
        for _ in 0..LINES / 4 {
            listener.running.line_of("message");
        }
        killed(up);
        up = world.up(&["--durability", "batched=1"]);
    }
    // The receiver must run until then: the last life of the sender may have to ask which messages it has.
    until("everything is delivered", || open(&world) == 0);
    world.run(&["send", "--as", "sender", &listener.peer, "the end"]).expect(0);
    let heard = texts(&listener.running.end().expect(0));
    let mut wanted: BTreeSet<String> = lines("line", LINES).lines().map(str::to_owned).collect();
    wanted.insert("the end".to_owned());
    assert_eq!((heard.len(), heard.into_iter().collect()), (LINES + 1, wanted));
}

#[test]
fn a_handover_that_is_cut_off_says_what_is_safe() {
    for durable in [true, false] {
        let away = Away::new();
        let up = away.world.up(&[]);
        let args: &[&str] = if durable { &["--durable", &away.peer] } else { &[&away.peer] };
        let (giver, mut stdin) = giving(&away.world, args);
        stdin.write_all(lines("line", 700).as_bytes()).unwrap();
        until("all lines are there", || open(&away.world) == 700);
        killed(up);
        let ended = giver.end().expect(1);
        drop(stdin);
        let summary = ended.lines().into_iter().find(|line| line["type"] == "summary").unwrap();
        let safe = summary[if durable { "queued" } else { "kept" }].as_u64().unwrap();
        let doubt = summary["unknown"].as_u64().unwrap();
        assert!(safe > 0 && safe + doubt == 700, "{summary}");
        assert_eq!(summary["end"], "background node ended");
        assert!(ended.stderr.contains(&format!("{safe} messages of this run are safe")), "{}", ended.stderr);
        assert!(ended.stderr.contains("exon outbox ls --as sender"), "{}", ended.stderr);
        assert_eq!(open(&away.world), 700, "what is said to be in doubt may be there");
    }
}

#[test]
fn a_client_that_is_killed_takes_nothing_with_it() {
    let away = Away::new();
    let up = away.world.up(&[]);
    let (mut giver, mut stdin) = giving(&away.world, &[&away.peer]);
    stdin.write_all(lines("line", 300).as_bytes()).unwrap();
    until("all lines are there", || open(&away.world) == 300);
    giver.kill();
    giver.wait();
    let (world, listener) = away.come(301);
    world.run(&["send", "--as", "sender", &listener.peer, "one more"]).expect(0);
    assert_eq!(texts(&listener.running.end().expect(0)).len(), 301);
    up.running.signal(Signal::TERM);
    let ended = up.running.end().expect(130);
    assert_eq!((count(&ended, "taken"), count(&ended, "delivered")), (301, 301));
}

#[test]
fn two_clients_at_once_are_told_what_became_of_their_own() {
    let world = World::new();
    let up = world.up(&[]);
    let listener = world.listen(&["--exit-after", "1000"]);
    let clients = ["a", "b"].map(|name| {
        let (giver, mut stdin) = giving(&world, &[&listener.peer]);
        stdin.write_all(lines(name, 500).as_bytes()).unwrap();
        giver
    });
    let mut ids = BTreeSet::new();
    for client in clients {
        let ended = client.end().expect(0);
        assert_eq!((count(&ended, "sent"), count(&ended, "delivered")), (500, 500));
        let told = ended.of_type("message");
        let numbers: BTreeSet<u64> = told.iter().map(|line| line["n"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=500).collect());
        ids.extend(told.iter().map(|line| line["id"].as_str().unwrap().to_owned()));
    }
    let heard = listener.running.end().expect(0);
    let arrived: BTreeSet<String> =
        heard.of_type("message").iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!((ids.len(), &ids), (1_000, &arrived));
    drop(up);
}

/// The same table and exit codes as without a background node.
#[test]
fn outcomes_come_back() {
    let away = Away::new();
    let up = away.world.up(&[]);
    let world = &away.world;
    let send = |args: &[&str]| world.run(&[&["send", "--as", "sender", "--json"], args].concat());
    let timed_out = send(&[&away.peer, "x", "--timeout", "300ms"]).expect(6);
    assert_eq!((count(&timed_out, "kept"), &timed_out.summary()["end"]), (1, &"timed out".into()));
    assert!(timed_out.stderr.contains("continues with them"), "{}", timed_out.stderr);
    let expired = send(&[&away.peer, "x", "--no-early", "--deadline", "1ms"]).expect(4);
    assert_eq!(count(&expired, "expired"), 1);
    let listener = world.listen(&["--exit-after", "3"]);
    let file = world.file("file", &[0xff; 300_000]);
    let sent = send(&[&listener.peer, "one", "", "--tag", "t", "--file", arg(&file)]).expect(0);
    assert_eq!((count(&sent, "delivered"), sent.of_type("message").len()), (3, 3));
    let heard = listener.running.end().expect(0);
    let mut sizes: Vec<u64> =
        heard.of_type("message").iter().map(|line| line["size"].as_u64().unwrap()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [0, 3, 300_000]);
    assert!(heard.of_type("message").iter().all(|line| line["tag"] == "t"), "{}", heard.stdout);
    let friend = world.run(&["id", "friend", "--new"]).expect(0).stdout.trim().to_owned();
    let strict = world.listen(&["--as", "strict", "--allow", &friend]);
    let refused = send(&[&strict.peer, "x"]).expect(4);
    assert_eq!(count(&refused, "refused"), 1);
    assert!(refused.stderr.contains("can admit this node with `--allow "), "{}", refused.stderr);
    let too_long = send(&[&strict.peer, "x", "--tag", &"t".repeat(256)]).expect(2);
    assert!(too_long.stderr.contains("255"), "{}", too_long.stderr);
    let own = world.run(&["id", "sender", "--json"]).expect(0).lines()[0]["id"].as_str().unwrap().to_owned();
    let own = format!("{own}@127.0.0.1:9");
    let to_itself = send(&[&own, "x", "y"]).expect(1);
    let told = to_itself.lines().into_iter().find(|line| line["type"] == "summary").unwrap();
    assert_eq!((&told["cancelled"], &told["unknown"], &told["end"]), (&2.into(), &0.into(), &"error".into()));
    let not_queued = world.run(&["send", "--as", "sender", "--durable", &own, "x"]).expect(1);
    assert!(!not_queued.stderr.contains("queued durably"), "{}", not_queued.stderr);
    assert!(not_queued.stderr.contains("a node cannot send to itself"), "{}", not_queued.stderr);
    let large = world.file("large", &vec![0; (16 << 20) + 1]);
    assert!(send(&[&strict.peer, "--file", arg(&large)]).expect(1).stderr.contains("16.0 MiB"));
    drop(up);
}

#[test]
fn a_background_node_may_be_demanded() {
    let away = Away::new();
    let world = &away.world;
    let send = |args: &[&str]| world.run(&[&["send", "--as", "sender", &away.peer], args].concat());
    let none = send(&["x", "--up"]).expect(1);
    assert!(none.stderr.contains("to start one: exon up --as sender"), "{}", none.stderr);
    assert_eq!(open(world), 0);
    let listener = world.listen(&["--as", "sender"]);
    let busy = send(&["x"]).expect(1);
    assert!(busy.stderr.contains("in use by exon listen (process "), "{}", busy.stderr);
    killed(listener);
    let up = world.up(&[]);
    send(&["x", "--up", "--durable"]).expect(0);
    assert_eq!(open(world), 1);
    let other = send(&["x", "--durable", "--durability", "sync"]).expect(1);
    assert!(other.stderr.contains("at durability process, not sync"), "{}", other.stderr);
    send(&["x", "--durable", "--durability", "process"]).expect(0);
    let again = world.run(&["send", "--as", "sender", "--continue"]).expect(1);
    assert!(again.stderr.contains("exon outbox retry --as sender"), "{}", again.stderr);
    let twice = world.run(&["up", "--as", "sender"]).expect(1);
    assert!(twice.stderr.contains("is in use by process"), "{}", twice.stderr);
    drop(up);
}

#[test]
fn the_outbox_of_a_running_node_is_shown_and_hurried_and_given_up() {
    let away = Away::new();
    let up = away.world.up(&[]);
    let world = &away.world;
    let text = format!("{}ä", "x".repeat(200_000));
    let file = world.file("file", text.as_bytes());
    let args = ["send", "--as", "sender", "--durable", &away.peer, "one", "two", "--file", arg(&file)];
    world.run(&args).expect(0);
    away.hear();
    until("one has left", || {
        outbox(world, &["ls", "--json"])
            .expect(0)
            .of_type("message")
            .iter()
            .any(|row| row["state"] == "in doubt")
    });
    let rows = outbox(world, &["ls", "--json"]).expect(0).of_type("message");
    let numbers: Vec<String> = rows.iter().map(|row| row["number"].to_string()).collect();
    assert_eq!(rows.iter().map(|row| row["size"].as_u64().unwrap()).collect::<Vec<_>>(), [3, 3, 200_002]);
    assert!(outbox(world, &["ls"]).expect(0).stdout.contains("xxx ..."));
    assert_eq!(outbox(world, &["show", &numbers[2]]).expect(0).stdout, text);
    assert!(outbox(world, &["show", "77"]).expect(1).stderr.contains("nothing is known of message 77"));
    let hurried = outbox(world, &["retry", &numbers[0], "--timeout", "100ms", "--json"]).expect(6);
    assert_eq!((count(&hurried, "messages"), count(&hurried, "answered")), (1, 0));
    let dropped = outbox(world, &["drop", &numbers[1], "--json"]);
    assert_eq!(dropped.lines().len(), 2, "{}", dropped.stdout);
    assert_eq!(dropped.of_type("message")[0]["number"].to_string(), numbers[1]);
    assert_eq!(open(world), 2);
    assert!(outbox(world, &["drop", &numbers[1]]).expect(1).stderr.contains("no message"));
    assert_eq!(outbox(world, &["drop", "--all", "--json"]).expect(3).lines().len(), 3);
    assert_eq!(open(world), 0);
    assert_eq!(count(&outbox(world, &["retry", "--json"]).expect(0), "peers"), 0);
    drop(up);
    assert_eq!(open(world), 0, "its journal says so too");
}

#[test]
fn a_handover_that_finds_no_room_says_so() {
    let away = Away::new();
    let up = away.world.up(&["--queue", "2", "--queue-bytes", "1MiB"]);
    let (mut giver, _stdin) = giving(&away.world, &["--durable", &away.peer, "one", "two", "three"]);
    giver.says("has no room: it keeps 2 messages and 1.0 MiB for this peer");
    assert_eq!(open(&away.world), 2);
    giver.signal(Signal::INT);
    // The background node has the third one too, and may still queue it.
    let ended = giver.end().expect(3);
    assert_eq!((count(&ended, "queued"), count(&ended, "unknown")), (2, 1));
    drop(up);
}

#[test]
fn what_became_of_a_message_is_told_later() {
    let away = Away::new();
    let mut up = away.world.up(&["-v"]);
    let world = &away.world;
    let queue = |args: &[&str]| {
        let args = [&["send", "--as", "sender", "--durable", "--json", &away.peer][..], args].concat();
        world.run(&args).expect(0).of_type("queued")
    };
    let queued = queue(&["one", "two"]);
    let numbers: Vec<String> = queued.iter().map(|line| line["number"].to_string()).collect();
    assert_eq!(queued.iter().map(|line| line["n"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    let rows = outbox(world, &["ls", "--json"]).expect(0).of_type("message");
    assert_eq!(rows.iter().map(|row| row["number"].to_string()).collect::<Vec<_>>(), numbers);
    assert!(outbox(world, &["status", &numbers[0]]).expect(6).stdout.contains("one"));
    let expired = queue(&["late", "--no-early", "--deadline", "1ms"]);
    let told = up.running.says("ended as expired");
    // It may have ended before its number was read.
    if let Some(line) = expired.first() {
        let number = line["number"].to_string();
        assert!(told.contains(&format!("message {number} ")), "{told}");
        let status = outbox(world, &["status", &number, "--json"]).expect(4).lines();
        assert_eq!((&status[0]["state"], &status[0]["outcome"]), (&"settled".into(), &"expired".into()));
    }
    outbox(world, &["drop", &numbers[1]]);
    let dropped = outbox(world, &["status", &numbers[1], "--json"]).lines();
    assert!(["cancelled", "unknown"].contains(&dropped[0]["outcome"].as_str().unwrap()), "{dropped:?}");
    let unknown = outbox(world, &["status", "77"]).expect(1);
    assert!(unknown.stderr.contains("nothing is known of message 77"), "{}", unknown.stderr);
    let text = world.run(&["send", "--as", "sender", "--durable", &away.peer, "three"]).expect(0).stderr;
    assert!(text.contains("exon outbox status ") && text.contains(", number "), "{text}");
    let (world, listener) = away.come(2);
    up.running.says(&format!("message {} ", numbers[0]));
    until("it is delivered", || outbox(&world, &["status", &numbers[0]]).code == Some(0));
    let delivered = outbox(&world, &["status", &numbers[0], "--json"]).expect(0).lines();
    let id = delivered[0]["id"].as_str().unwrap();
    assert_eq!(outbox(&world, &["status", id, "--json"]).expect(0).lines(), delivered);
    assert_eq!(outbox(&world, &["show", id, "--json"]).expect(0).lines(), delivered);
    listener.running.end().expect(0);
    let all: Vec<_> =
        numbers.iter().map(|number| outbox(&world, &["status", number, "--json"]).lines()).collect();
    killed(up);
    // The journal tells it without a node, and with the next one.
    let ask = || numbers.iter().map(|number| outbox(&world, &["status", number, "--json"]).lines());
    until("nobody runs it", || outbox(&world, &["status", id]).code == Some(0));
    assert!(ask().eq(all.clone()));
    let up = world.up(&[]);
    assert!(ask().eq(all));
    assert_eq!(outbox(&world, &["show", id]).expect(0).stdout, "");
    let unknown = outbox(&world, &["show", "77"]).expect(1);
    assert!(unknown.stderr.contains("nothing is known of message 77"), "{}", unknown.stderr);
    drop(up);
}

/// A message that never leaves has no id: its number names it.
#[test]
fn a_message_that_is_refused_can_be_asked_for() {
    let world = World::new();
    let id = world.run(&["id", "sender", "--new"]).expect(0).stdout.trim().to_owned();
    let other = world.run(&["id", "other", "--new"]).expect(0).stdout.trim().to_owned();
    assert_ne!(id, other);
    let listener = world.listen(&["--allow", &other]);
    let args = ["send", "--as", "sender", "--durable", "--json", &listener.peer, "one"];
    let sent = world.run(&args).expect(4);
    let message = &sent.of_type("message")[0];
    assert_eq!(message["outcome"], "refused");
    let number = message["number"].to_string();
    let hint = format!("to see what became of number {number}: exon outbox status {number} --as sender");
    assert!(sent.stderr.contains(&hint), "{}", sent.stderr);
    let told = outbox(&world, &["show", &number, "--json"]).expect(4).lines();
    assert_eq!((&told[0]["outcome"], &told[0]["reason"]), (&message["outcome"], &message["reason"]));
}

/// A look at an identity writes nothing, so its directory may be a snapshot that is mounted read-only.
#[cfg(target_os = "linux")]
#[test]
fn an_outbox_is_read_where_nothing_can_be_written() {
    let away = Away::new();
    let up = away.world.up(&[]);
    let args = ["send", "--as", "sender", "--durable", &away.peer, "one", "two"];
    away.world.run(&args).expect(0);
    killed(up);
    let state = away.world.path("state");
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"";
    let within = |args: &[&str]| {
        let mut command = std::process::Command::new("unshare");
        command.args(["-rm", "sh", "-c", script, arg(&state)]).args(args);
        command.env("EXONET_STATE", &state).stdin(Stdio::null()).output().unwrap()
    };
    if !within(&["true"]).status.success() {
        return crate::skip::skipped("this machine allows no mounts in a namespace of one's own");
    }
    assert!(!within(&["touch", arg(&state.join("file"))]).status.success(), "it is read-only");
    let listed = within(&[env!("CARGO_BIN_EXE_exon"), "outbox", "ls", "--as", "sender"]);
    let told = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.status.success(), "{told}{}", String::from_utf8_lossy(&listed.stderr));
    assert!(told.contains("one") && told.contains("two"), "{told}");
    let started = within(&[env!("CARGO_BIN_EXE_exon"), "up", "--as", "sender"]);
    let told = String::from_utf8_lossy(&started.stderr).into_owned();
    assert!(!started.status.success() && told.contains("Read-only file system"), "{told}");
}

#[test]
fn a_message_of_an_outbox_is_named_by_number_or_id() {
    let away = Away::new();
    let up = away.world.up(&[]);
    let world = &away.world;
    world.run(&["send", "--as", "sender", "--durable", &away.peer, "one", "two"]).expect(0);
    away.hear();
    let id_of = |row: &Value| row["id"].as_str().map(str::to_owned);
    let mut id = None;
    until("one has left", || {
        id = outbox(world, &["ls", "--json"]).expect(0).of_type("message").iter().find_map(id_of);
        id.is_some()
    });
    let id = id.unwrap();
    let by_id = outbox(world, &["show", &id]).expect(0).stdout;
    assert_eq!(outbox(world, &["status", &id, "--json"]).expect(6).lines()[0]["state"], "in doubt");
    drop(up);
    until("nobody runs it", || outbox(world, &["show", &id]).code == Some(0));
    assert_eq!(outbox(world, &["show", &id]).expect(0).stdout, by_id);
    assert_eq!(outbox(world, &["status", &id, "--json"]).expect(6).lines()[0]["id"], id);
    for args in [&["show", "x"][..], &["status", "1/2/3"], &["retry", "-"], &["drop", "y"]] {
        let wrong = outbox(world, args).expect(2);
        assert!(wrong.stderr.contains("such as 12, or its id"), "{}", wrong.stderr);
    }
    assert!(outbox(world, &["drop"]).expect(2).stderr.contains("--all"));
    assert_eq!(open(world), 2);
    assert_eq!(outbox(world, &["drop", &id, "--json"]).expect(3).lines().len(), 2);
    assert_eq!(open(world), 1);
}

#[test]
fn the_outbox_of_nobody_is_given_up_and_gone_on_with_by_number() {
    let away = Away::new();
    let args = ["send", "--as", "sender", &away.peer, "one", "two", "three", "--timeout", "100ms"];
    away.world.run(&args).expect(6);
    let numbers: Vec<String> = outbox(&away.world, &["ls", "--json"])
        .expect(0)
        .of_type("message")
        .iter()
        .map(|row| row["number"].to_string())
        .collect();
    assert_eq!(outbox(&away.world, &["drop", &numbers[1], "--json"]).lines().len(), 2);
    assert!(outbox(&away.world, &["drop", "77"]).expect(1).stderr.contains("no message 77"));
    assert!(outbox(&away.world, &["retry", "77"]).expect(1).stderr.contains("no message 77"));
    assert_eq!(open(&away.world), 2);
    let waited = outbox(&away.world, &["retry", &numbers[2], "--timeout", "100ms", "--json"]).expect(6);
    assert_eq!((count(&waited, "recovered"), count(&waited, "kept")), (1, 1));
    let (world, listener) = away.come(2);
    assert_eq!(count(&outbox(&world, &["retry", "--json"]).expect(0), "delivered"), 2);
    assert_eq!(texts(&listener.running.end().expect(0)), ["one", "three"]);
}

#[test]
fn a_process_without_a_control_socket_is_named() {
    let away = Away::new();
    // It waits for an answer for as long as it is let.
    let mut pinging =
        Running::start(away.world.command(&["ping", "--as", "sender", &away.peer, "--timeout", "1h"]));
    away.hear();
    let locked = outbox(&away.world, &["ls"]).expect(1);
    assert!(locked.stderr.contains("is in use by process"), "{}", locked.stderr);
    assert!(locked.stderr.contains("no control socket"), "{}", locked.stderr);
    let sent = away.world.run(&["send", "--as", "sender", &away.peer, "x"]).expect(1);
    assert!(sent.stderr.contains("is in use by process"), "{}", sent.stderr);
    pinging.kill();
    pinging.wait();
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn the_socket_is_closed_to_others_and_goes_with_its_process() {
    let away = Away::new();
    let world = &away.world;
    let socket = world.path("state/sender/control/socket");
    let up = world.up(&[]);
    assert!(std::fs::metadata(&socket).unwrap().file_type().is_socket());
    assert_eq!((mode(&socket), mode(socket.parent().unwrap())), (0o600, 0o700));
    killed(up);
    assert!(socket.exists(), "nobody has removed it");
    assert_eq!(open(world), 0, "and nobody answers there");
    let up = world.up(&[]);
    up.running.signal(Signal::TERM);
    up.running.end().expect(130);
    assert!(!socket.exists());
    for command in [&["listen"][..], &["serve", "--echo"]] {
        let args = [command, &["--as", "sender", "--json", "--bind", "127.0.0.1:0"]].concat();
        let listener = world.listener_of("listening", world.command(&args));
        assert_eq!(open(world), 0);
        drop(listener);
    }
}

#[test]
fn a_path_that_is_too_long_for_a_socket_has_one_elsewhere() {
    let world = World::new();
    let state = world.path(&"deep".repeat(30));
    let runtime = world.path("run");
    std::fs::create_dir(&runtime).unwrap();
    let command = |args: &[&str]| {
        let mut command = world.command(&[args, &["--state", arg(&state), "--json"]].concat());
        command.env("XDG_RUNTIME_DIR", &runtime);
        command
    };
    let up = world.listener_of("up", command(&["up", "--bind", "127.0.0.1:0"]));
    let place = runtime.join("exonet");
    let names = entries(&place);
    assert_eq!((names.len(), mode(&place)), (1, 0o700));
    assert_eq!(mode(&place.join(&names[0])), 0o600);
    let listed = Running::start(command(&["outbox", "ls"])).end().expect(0);
    assert_eq!(count(&listed, "messages"), 0);
    assert!(listed.stderr.contains("has nothing to send"), "{}", listed.stderr);
    up.running.signal(Signal::INT);
    up.running.end().expect(130);
    assert!(entries(&place).is_empty());
}

/// Says something to a control socket, and gives what it answers, line by line.
fn told(socket: &Path, said: &[u8]) -> Vec<Value> {
    let mut stream = UnixStream::connect(socket).unwrap();
    // It may have closed before all was said.
    let _ = stream.write_all(said);
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.map(|line| serde_json::from_str(&line).unwrap()).collect()
}

/// Hands something over, and leaves when it is in the journal. False: it was not taken.
fn told_and_left(socket: &Path, said: &str) -> bool {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(said.as_bytes()).unwrap();
    let first = BufReader::new(stream).lines().next();
    first.is_some_and(|line| line.unwrap().contains("accepted"))
}

#[test]
fn who_talks_nonsense_or_not_at_all_hinders_nobody() {
    let away = Away::new();
    let up = away.world.up(&[]);
    let socket = away.world.path("state/sender/control/socket");
    let (giver, mut stdin) = giving(&away.world, &[&away.peer]);
    writeln!(stdin, "before").unwrap();
    until("it is there", || open(&away.world) == 1);
    for said in
        [&b"nonsense\n"[..], b"{}\n", b"{\"exon\":1,\"do\":\"dance\"}\n", b"{\"exon\":2,\"do\":\"status\"}\n"]
    {
        let told = told(&socket, said);
        assert!(told.len() == 1 && told[0]["type"] == "error", "{told:?}");
    }
    assert_eq!(told(&socket, &vec![b'x'; 2 << 20])[0]["type"], "error");
    let send = json!({"exon": 1, "do": "send", "peer": away.peer, "tag": "", "priority": "low", "deadline_ms": null,
        "early": true, "outcomes": true});
    let long = format!("{send}\n{}", "{\"bytes\":{\"base64\":\"AAAA\",\"more\":true}}\nx\n");
    assert_eq!(told(&socket, long.as_bytes()).last().unwrap()["type"], "error");
    // A line that was not said to its end is no message.
    let half = format!("{send}\n{{\"text\":\"half");
    UnixStream::connect(&socket).unwrap().write_all(half.as_bytes()).unwrap();
    // More than there are places for, and each leaves before it has heard what becomes of its message.
    for _ in 0..20 {
        until("there is a place", || {
            told_and_left(&socket, &format!("{send}\n{{\"text\":\"left\"}}\n\"end\"\n"))
        });
    }
    assert_eq!(open(&away.world), 21);
    // None of these says anything.
    let silent: Vec<UnixStream> = (0..40).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    let refused = outbox(&away.world, &["ls"]).expect(1);
    assert!(refused.stderr.contains("too many commands ask it"), "{}", refused.stderr);
    writeln!(stdin, "after").unwrap();
    drop(stdin);
    let (_world, listener) = away.come(22);
    let mut heard = texts(&listener.running.end().expect(0));
    heard.retain(|text| text != "left");
    assert_eq!(heard, ["after", "before"]);
    assert_eq!(count(&giver.end().expect(0), "delivered"), 2);
    drop((silent, up));
}

/// The outcome is awaited by the command that has handed the message over.
#[test]
fn a_peer_whose_application_is_slow_is_not_said_to_be_silent_by_a_command_that_handed_over() {
    let world = World::new();
    let slow = world.gateway("slow", &["--anyone"]);
    let up = world.up(&[]);
    let args = ["send", &slow.peer, "x", "--as", "sender", "--confirm", "processed"];
    let mut sender = Running::start(world.command(&args));
    let told = sender.says(", Ctrl-C leaves");
    assert!(told.contains("has not processed it yet") && !told.contains("no answer"), "{told}");
    sender.signal(Signal::INT);
    sender.end().expect(6);
    drop(up);
}

/// A command counts messages even if it cannot print their outcomes, and the background node keeps them.
#[test]
fn a_command_that_cannot_print_leaves_its_messages_to_the_node() {
    let away = Away::new();
    let _up = away.world.up(&[]);
    let mut command = away.world.command(&["send", &away.peer, "--as", "sender", "--json", "a"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stdout(writer);
    let told = Running::start(command).end().expect(6).stderr;
    assert!(told.contains("1 kept"), "{told}");
    assert_eq!(open(&away.world), 1);
}

#[test]
fn a_node_may_run_without_a_terminal_until_it_is_ended() {
    let away = Away::new();
    let world = &away.world;
    let exon = |args: &[&str]| world.run(&[args, &["--as", "sender", "--json"]].concat());
    let free = "127.0.0.1:0";
    let started = exon(&["up", "--detach", "--bind", free, "--http", free, "--metrics", free]).expect(0);
    let up = &started.of_type("up")[0];
    for place in ["http", "metrics"] {
        let at = up[place].as_str().unwrap();
        assert!(started.stderr.contains(at), "{}", started.stderr);
        let at = at.strip_prefix("http://").unwrap().split('/').next().unwrap();
        std::net::TcpStream::connect(at).unwrap();
    }
    assert!(std::path::Path::new(up["http_token"].as_str().unwrap()).is_file());
    assert!(started.stderr.contains(up["http_token"].as_str().unwrap()), "{}", started.stderr);
    assert!(up["peer"].as_str().unwrap().contains("@127.0.0.1:"), "{up}");
    let pid = started.of_type("up")[0]["pid"].clone();
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid.as_u64().unwrap()).unwrap()).unwrap();
    assert_eq!(rustix::process::getsid(Some(pid)).unwrap(), pid, "a session of its own");
    let twice = exon(&["up", "--detach"]).expect(1);
    assert!(twice.stderr.contains("in use by exon up (process "), "{}", twice.stderr);
    exon(&["send", "--durable", &away.peer, "x"]).expect(0);
    let down = exon(&["down"]).expect(0);
    assert_eq!((count(&down, "open"), &down.summary()["pid"]), (1, &started.of_type("up")[0]["pid"]));
    assert!(down.stderr.contains("kept: 1 message"), "{}", down.stderr);
    assert_eq!(exon(&["down"]).expect(0).summary()["pid"], Value::Null);
    let listener = world.listen(&["--as", "sender"]);
    let not_up = exon(&["down"]).expect(1);
    assert!(not_up.stderr.contains("`exon listen` runs this identity"), "{}", not_up.stderr);
    drop(listener);
}

#[test]
fn a_process_that_is_stopped_does_not_hold_up_a_command_with_a_time_limit() {
    let world = World::new();
    let up = world.up(&[]);
    up.running.signal(Signal::STOP);
    let told = world.run(&["down", "--as", "sender", "--timeout", "100ms"]).expect(1);
    assert!(told.stderr.contains("does not answer"), "{}", told.stderr);
    let told = world.run(&["trace", "--as", "sender", "--timeout", "100ms"]).expect(1);
    assert!(told.stderr.contains("does not answer"), "{}", told.stderr);
    up.running.signal(Signal::CONT);
    world.run(&["down", "--as", "sender"]).expect(0);
}
