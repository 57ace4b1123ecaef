//! What goes wrong before anything is sent: each error names the thing, says what to do, and has its exit code.
use crate::support::{World, arg};

#[test]
#[expect(clippy::too_many_lines, reason = "a table of commands")]
fn errors_name_the_thing() {
    let world = World::new();
    let id = exonet_proto::NodeId([7; 32]).to_string();
    let peer = format!("{id}@127.0.0.1:9");
    let mistyped = format!("{}@127.0.0.1:9", id.replacen(&id[20..21], "~", 1));
    let no_port = format!("{id}@127.0.0.1");
    let file = world.file("file", b"x");
    let below_file = world.path("file/below");
    let missing = world.path("missing");
    let directory = world.path("directory");
    std::fs::create_dir(&directory).unwrap();
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let long_tag = "t".repeat(256);
    let table: &[(&[&str], i32, &str)] = &[
        (&[], 2, "Usage"),
        (&["frobnicate"], 2, "frobnicate"),
        (&["send", "nobody", "x"], 2, "nobody"),
        (&["send", &mistyped, "x"], 2, "~"),
        (&["send", &no_port, "x"], 2, "host:port"),
        (&["peer"], 2, "Usage"),
        (&["send", &id, "x"], 1, "ID@HOST:PORT"),
        (&["send", &peer, "--file", arg(&missing)], 1, "missing"),
        (&["send", &peer, "--file", arg(&directory)], 1, "directory"),
        (&["send", &peer, "x", "--tag", &long_tag], 2, "255"),
        (&["send", &peer, "x", "--deadline", "soon"], 2, "soon"),
        (&["send", &peer, "x", "--as", "typo"], 1, "exon id typo --new"),
        (&["send", &peer, "x", "--durability", "sync"], 2, "`--as NAME`"),
        (&["call", &peer, "method", "--durability", "batched=5"], 2, "`--as NAME`"),
        (&["send", &peer, "x", "--durability", "disk"], 2, "batched=MS"),
        (&["send", &peer, "x", "--durable", "--durability", "memory"], 2, "--durable"),
        (&["send", "--continue", &peer, "x"], 2, "--continue"),
        (&["send", "--as", "typo", "--continue"], 1, "exon id typo --new"),
        (&["send"], 2, "PEER"),
        (&["send", &peer, "x", "--up"], 1, "exon id default --new"),
        (&["send", "--up", "--continue"], 2, "--continue"),
        (&["up", "--as", "new", "--durability", "memory"], 2, "journal"),
        (&["up", "--as", "new", "--bind", &taken], 1, &taken),
        (&["up", "--as", "new", "--detach", "--bind", &taken], 1, &taken),
        (&["up", "--as", "new", "--http", "39671"], 2, "127.0.0.1:9366"),
        (&["up", "--as", "new", "--metrics", "localhost:9366"], 2, "not looked up"),
        (&["up", "--as", "new", "--http", "0.0.0.0:0"], 2, "other machines can reach"),
        (&["up", "--as", "new", "--queue", "0"], 2, "at least 1"),
        (&["id", "new"], 1, "exon id new --new"),
        (&["down", "--as", "typo"], 1, "exon id typo --new"),
        (&["outbox"], 2, "Usage"),
        (&["outbox", "drop", "7", "--all"], 2, "--all"),
        (&["outbox", "drop"], 2, "<N|--all>"),
        (&["outbox", "show", "x"], 2, "such as 12"),
        (&["dead", "drop"], 2, "<N|--all>"),
        (&["dead", "retry"], 2, "<N|--all>"),
        (&["session", "open", "--as", "x"], 2, "<SESSION> <PEER>"),
        (&["listen", "--attempts", "0", "--exec", "true"], 2, "at least 1"),
        (&["outbox", "ls", "--as", "typo"], 1, "exon id typo --new"),
        (&["cp", arg(&missing), &peer], 1, "missing"),
        (&["cp", arg(&directory), &peer], 2, "directory"),
        (&["cp", "-", &peer], 2, "no name"),
        (&["checkpoint", "--as", "nobody", "--to", &id, "file"], 1, "exon id nobody --new"),
        (&["cp", "-", "-", &peer, "--name", "z"], 2, "single source"),
        (&["cp", arg(&file), arg(&file), &peer], 2, "two sources"),
        (&["trace", "garbage"], 2, "garbage"),
        (&["cp", &peer], 2, "SRC"),
        (&["cp", arg(&file), "nobody"], 2, "exon: "),
        (&["ping", &peer, "-n", "0"], 2, "0"),
        (&["call", "nobody", "method"], 2, "nobody"),
        (&["call", &peer], 2, "METHOD"),
        (&["call", &id, "method"], 1, "ID@HOST:PORT"),
        (&["call", &peer, &long_tag], 2, "255"),
        (&["call", &peer, "method", "--deadline", "soon"], 2, "soon"),
        (&["call", &peer, "method", "--as", "typo"], 1, "exon id typo --new"),
        (&["serve"], 2, "--exec"),
        (&["serve", "--exec", "cat"], 2, "--method"),
        (&["serve", "--sessions", "x", "--timeout", "1s", "--exec", "cat"], 2, "Usage: exon serve"),
        (&["serve", "--echo", "--exec", "cat"], 2, "--echo"),
        (&["serve", "--method", "x", "--exec", arg(&missing)], 1, "missing"),
        (&["serve", "--method", "x", "--exec", "no-such-command-anywhere"], 1, "no-such-command-anywhere"),
        (&["serve", "--echo", "--bind", "127.0.0.1:0", "--method", &long_tag], 2, "255"),
        (&["serve", "--echo", "--bind", "127.0.0.1:0", "--method", "x", "--method", "x"], 1, "already"),
        (&["serve", "--echo", "--bind", &taken], 1, &taken),
        (&["serve", "--echo", "--concurrency", "0"], 2, "0"),
        (&["group", "send", "--to", &peer, "x", "--tag", &long_tag], 2, "255"),
        (&["bench", "--seconds", "0"], 2, "no time at all"),
        (&["bench", "calls", "--actors", "0"], 2, "0"),
        (&["bench", "calls", "--size", "17MiB"], 2, "at most 16 MiB"),
        (&["bench", "--size", "65001"], 2, "at most 65000 bytes"),
        (&["group", "send", "--to", &peer, "--to", &peer, "x"], 2, "Usage: exon group send"),
        (&["id", "nothere"], 1, "exon id nothere --new\n"),
        (&["call", &peer, "method", "--state", "nowhere"], 1, "exon id default --new --state nowhere\n"),
        (&["call", &peer, "method", "--state", "it's no where"], 1, r"--new --state 'it'\''s no where'"),
        (&["id", "../up", "--new"], 1, "../up"),
        (&["id", "x", "--new", "--state", arg(&below_file)], 1, "below"),
        (&["listen", "--bind", "nowhere"], 2, "nowhere"),
        (&["listen", "--bind", &taken], 1, &taken),
        (&["listen", "--bind", "192.0.2.1:4000"], 1, "192.0.2.1:4000"),
        (&["listen", "--bind", "127.0.0.1:0", "--out", arg(&below_file)], 1, "below"),
        (&["listen", "--max-store", "much"], 2, "much"),
        (&["listen", "--allow", "friend"], 2, "friend"),
        (&["share", arg(&directory)], 2, "<--allow <PEER>|--anyone>"),
        (&["share", arg(&directory), "--anyone", "--allow", &id], 2, "--anyone"),
        (&["share", arg(&missing), "--anyone"], 1, "missing"),
        (&["share", arg(&file), "--anyone"], 1, "file"),
        (&["get", "name"], 2, "--from"),
        (&["get", "--from", &peer], 2, "NAME"),
        (&["get", "--from", &id, "name"], 1, "ID@HOST:PORT"),
        (&["get", "--from", "nobody", "name"], 2, "nobody"),
        (&["get", "--from", &peer, "--from", &peer, "name"], 2, "twice"),
        (&["get", "--from", &peer, "../name"], 1, "../name"),
        (&["get", "--from", &peer, "/etc/passwd"], 1, "/etc/passwd"),
        (&["get", "--from", &peer, "name", "--out", arg(&file)], 1, "--force"),
        (&["get", "--from", &peer, "name", "--root", "1234"], 2, "64"),
        (&["get", "--from", &peer, "--list", "name"], 2, "--list"),
        (&["demo", "--loss", "2"], 2, "2"),
        (&["sim", "--profile", "weird"], 2, "--profile list"),
        (&["sim", "--trace"], 2, "--seed"),
        (&["sim", "--replay", arg(&missing)], 1, "missing"),
        (&["sim", "--replay", arg(&file)], 1, "not a schedule"),
        (&["demo-receiver", "--size", "8"], 1, "exon demo"),
    ];
    for (args, code, named) in table {
        let ended = world.run(args);
        let all = format!("{args:?}\n--- stdout\n{}\n--- stderr\n{}", ended.stdout, ended.stderr);
        assert_eq!(ended.code, Some(*code), "{all}");
        assert!(ended.stderr.contains(named), "{named:?} is not named: {all}");
        assert!(ended.stdout.is_empty(), "{all}");
        assert!(!ended.stderr.contains("panicked"), "{all}");
        // One style, whoever finds the error; with no command there is help, in place of one.
        assert!(args.is_empty() || !ended.stderr.starts_with("error"), "{all}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"x");
}

#[test]
fn what_is_there_is_not_replaced_by_a_new_identity() {
    let world = World::new();
    world.run(&["id", "desk", "--new"]).expect(0);
    let key = std::fs::read(world.path("state/desk/key")).unwrap();
    let told = world.run(&["id", "desk", "--new"]).expect(1).stderr;
    assert!(told.contains("already an identity desk") && told.contains("unchanged"), "{told}");
    assert_eq!(std::fs::read(world.path("state/desk/key")).unwrap(), key);
    let file = world.file("state/copy.key", b"text");
    let told = world.run(&["id", "copy.key", "--new"]).expect(1).stderr;
    assert!(told.contains("copy.key is a file") && told.contains("unchanged"), "{told}");
    assert_eq!(std::fs::read(file).unwrap(), b"text");
}

#[test]
fn errors_are_json_too() {
    let ended = World::new().run(&["id", "nothere", "--json"]).expect(1);
    let line = ended.lines().pop().unwrap();
    assert_eq!(line["type"], "error");
    assert!(line["error"].as_str().unwrap().contains("nothere"), "{line}");
    assert!(line["hint"].as_str().unwrap().contains("--new"), "{line}");
}

#[test]
fn help_has_examples_and_exit_codes() {
    let world = World::new();
    let help = world.run(&["--help"]).expect(0).stdout;
    assert!(help.contains("EXAMPLES") && help.contains("EXIT CODES"), "{help}");
    for command in [
        "id",
        "listen",
        "send",
        "group",
        "cp",
        "share",
        "get",
        "call",
        "serve",
        "ping",
        "outbox",
        "inbox",
        "up",
        "down",
        "demo",
        "bench",
        "sim",
        "peer",
        "completions",
        "man",
        "service",
    ] {
        assert!(help.contains(&format!("\n  {command}")), "{command}: {help}");
        let own = world.run(&[command, "--help"]).expect(0).stdout;
        assert!(own.contains("EXAMPLES"), "{own}");
    }
    assert!(!help.contains("demo-receiver"), "{help}");
}

#[test]
fn an_identity_that_is_running_can_be_shown() {
    let world = World::new();
    let listener = world.listen(&[]);
    let id = world.run(&["id"]).expect(0).stdout;
    assert!(listener.peer.starts_with(id.trim()), "{id} {}", listener.peer);
}
