//! Services that are found by their names.

use rustix::process::Signal;

use crate::support::{Listener, Running, World, arg};

/// A name server, and the environment of those that use it.
fn name_server(world: &World) -> Listener {
    world.listener_of("listening", world.command(&["names", "serve", "--bind", "127.0.0.1:0", "--json"]))
}

/// A server of the identity `calc` that is called `sort`.
fn sorter(world: &World, names: &str) -> Listener {
    let args =
        ["serve", "--as", "calc", "--names", names, "--name", "sort", "--bind", "127.0.0.1:0", "--json"];
    world.listener_of(
        "listening",
        world.command(&[&args[..], &["--method", "sort", "--exec", "sort"]].concat()),
    )
}

#[test]
fn a_service_is_called_by_its_name_wherever_it_runs() {
    let world = World::new();
    let names = name_server(&world);
    let mut service = sorter(&world, &names.peer);
    let call = |text: &[u8]| world.feed(&["call", "--names", &names.peer, "name:sort", "sort", "-"], text);
    assert_eq!(call(b"b\na\n").expect(0).stdout, "a\nb\n");
    let listed = world.run(&["names", "ls", "--names", &names.peer, "--json"]).expect(0);
    let shown = &listed.of_type("name")[0];
    assert_eq!((&shown["name"], &shown["peer"]), (&"sort".into(), &service.peer.as_str().into()));

    // Killed, and started at another port: who calls it by its name does not notice.
    service.running.kill();
    service.running.wait();
    let was = service.peer.clone();
    let service = sorter(&world, &names.peer);
    assert_ne!(service.peer, was);
    assert_eq!(call(b"d\nc\n").expect(0).stdout, "c\nd\n");
    let looked = world.run(&["names", "lookup", "sort", "--names", &names.peer]).expect(0);
    assert_eq!(looked.stdout.trim(), service.peer);

    // Another identity does not get the name while its owner has it.
    world.run(&["id", "other", "--new"]).expect(0);
    let taken = ["names", "bind", "sort", "127.0.0.1:9", "--as", "other", "--names", &names.peer];
    let told = world.run(&taken).expect(1);
    assert!(told.stderr.contains("has to give it up first"), "{}", told.stderr);
    let unbind = ["names", "unbind", "sort", "--as", "calc", "--names", &names.peer, "--json"];
    assert_eq!(world.run(&unbind).expect(0).summary()["unbound"], "sort");
    world.run(&taken).expect(0);
}

#[test]
fn a_caller_finds_a_service_that_moves_while_it_waits() {
    let world = World::new();
    let names = name_server(&world);
    let mut service = sorter(&world, &names.peer);
    world.feed(&["call", "--names", &names.peer, "name:sort", "sort", "-"], b"x\n").expect(0);
    service.running.kill();
    service.running.wait();
    let mut waiting = world.command(&["call", "--names", &names.peer, "name:sort", "sort", "b a"]);
    waiting.stdin(std::process::Stdio::null());
    // It has the address that nobody listens at any more.
    let waiting = Running::start(waiting);
    let _service = sorter(&world, &names.peer);
    assert_eq!(waiting.end().expect(0).stdout, "b a\n");
}

#[test]
fn names_in_a_file_need_no_server() {
    let world = World::new();
    let file = format!("file:{}", arg(&world.path("services")));
    let _service = sorter(&world, &file);
    let called = world.feed(&["call", "--names", &file, "name:sort", "sort", "-"], b"b\na\n").expect(0);
    assert_eq!(called.stdout, "a\nb\n");
}

#[test]
fn a_name_service_that_lies_does_not_impersonate() {
    let world = World::new();
    let names = format!("file:{}", arg(&world.path("names")));
    let server = |identity: &str, names: &str| {
        let args = ["serve", "--as", identity, "--names", names, "--name", "chat", "--json"];
        let more = ["--bind", "127.0.0.1:0", "--echo"];
        world.listener_of("listening", world.command(&[&args[..], &more].concat()))
    };
    let right = server("right", &names);
    world.run(&["id", "me", "--new"]).expect(0);
    let by = |names: &str, args: &[&str]| {
        world.feed(&[args, &["--as", "me", "--names", names]].concat(), b"secret\n")
    };
    assert_eq!(by(&names, &["call", "name:chat", "echo", "hello"]).expect(0).stdout, "hello");

    let lies = format!("file:{}", arg(&world.path("lies")));
    let liar = server("liar", &lies);
    let both = |told: &str| {
        let known = |of: &Listener| told.contains(of.peer.split('@').next().unwrap());
        assert!(known(&right) && known(&liar), "{told}");
    };
    both(&by(&lies, &["call", "name:chat", "echo", "secret"]).expect(1).stderr);
    both(&by(&lies, &["session", "open", "s", "name:chat"]).expect(1).stderr);
    both(&by(&lies, &["ping", "name:chat", "-n", "1"]).expect(1).stderr);
    both(&by(&lies, &["send", "name:chat", "secret"]).expect(1).stderr);
    assert_eq!(by(&names, &["call", "name:chat", "echo", "again"]).expect(0).stdout, "again");
}

/// Moves the identity `calc` by hand, and binds its name where it lives now. Returns a copy of what was there before.
fn moved(world: &World, names: &str) -> std::path::PathBuf {
    world.run(&["id", "calc", "--new"]).expect(0);
    let [here, copy, there] = ["state/calc", "copy", "there"].map(|place| world.path(place));
    std::fs::create_dir(&copy).unwrap();
    for file in ["key", "clock"] {
        std::fs::copy(here.join(file), copy.join(file)).unwrap();
    }
    let dir = exonet::state::StateDir::open(&here).unwrap();
    let door = exonet::state::SecretKey::from_bytes([9; 32]);
    let load = dir.checkpoint(&door.node_id(), &()).unwrap();
    let deed = dir.cede(&load).unwrap();
    exonet::state::restore::<()>(&there, &door, load.as_bytes(), deed.as_bytes()).unwrap();
    let peer = world.serve(&["--as", "sender", "--echo"]);
    let by = ["--state", arg(&there), "--names", names];
    world.run(&[&["ping", &peer.peer, "-n", "1"][..], &by].concat()).expect(0);
    world.run(&[&["names", "bind", "calc", "127.0.0.1:9"][..], &by].concat()).expect(0);
    copy
}

#[test]
fn a_copy_of_what_has_moved_says_nothing_to_anybody() {
    let world = World::new();
    let server = name_server(&world);
    let copy = moved(&world, &server.peer);
    let echo = world.serve(&["--as", "echo", "--state", arg(&world.path("echo")), "--echo"]);
    let by = ["--state", arg(&copy), "--names", &server.peer];
    for words in [
        &["call", &echo.peer, "echo", "x"][..],
        &["session", "open", "s", &echo.peer],
        &["ping", &echo.peer, "-n", "1"],
        &["send", &echo.peer, "x"],
    ] {
        let told = world.feed(&[words, &by].concat(), b"").expect(1).stderr;
        assert!(told.contains("lives elsewhere as generation 1, at 127.0.0.1:9"), "{words:?}: {told}");
    }
}

#[test]
fn a_name_server_starts_where_the_variable_names_itself() {
    let world = World::new();
    let mut server = name_server(&world);
    let (_, bind) = server.peer.split_once('@').unwrap();
    server.running.kill();
    server.running.wait();
    let mut again = world.command(&["names", "serve", "--bind", bind, "--json"]);
    again.env("EXON_NAMES", &server.peer);
    let again = world.listener_of("listening", again);
    assert_eq!(again.peer, server.peer);
    drop(again);
    // Others wait for it, and say so.
    world.run(&["id", "calc", "--new"]).expect(0);
    let told =
        world.run(&["call", &server.peer, "x", "y", "--as", "calc", "--names", &server.peer]).expect(1);
    assert!(
        told.stderr.contains("a stored identity starts once the name service confirms"),
        "{}",
        told.stderr
    );
}

#[test]
fn what_leads_nowhere_is_told() {
    let world = World::new();
    let told = world.run(&["call", "name:sort", "sort", "x"]).expect(1);
    assert!(told.stderr.contains("no name service is given"), "{}", told.stderr);
    let file = format!("file:{}", arg(&world.path("services")));
    let told = world.run(&["send", "--names", &file, "name:sort", "x"]).expect(1);
    assert!(told.stderr.contains("nothing is called \"sort\""), "{}", told.stderr);
    let told = world.run(&["send", "name:7", "x"]).expect(2);
    assert!(told.stderr.contains("is no name"), "{}", told.stderr);
    let told = world.run(&["names", "ls", "--names", "nowhere"]).expect(1);
    assert!(told.stderr.contains("is no name service"), "{}", told.stderr);
    let told = world.run(&["names", "ls"]).expect(1);
    assert!(told.stderr.contains("--names"), "{}", told.stderr);
    let nowhere = format!("file:{}", arg(&world.path("no/such/names")));
    let told = world.run(&["names", "ls", "--names", &nowhere]).expect(1);
    assert!(told.stderr.contains("no/such/names"), "{}", told.stderr);
    let told = world.run(&["names", "ls", "--names", &file]).expect(1);
    assert!(told.stderr.contains("there is no file of names"), "{}", told.stderr);
    let told = world.run(&["names", "bind", "sort", "nonsense", "--names", &file]).expect(2);
    assert!(told.stderr.contains("HOST:PORT is wanted"), "{}", told.stderr);
    for nowhere in ["0.0.0.0:33", "[::]:33"] {
        let told = world.run(&["names", "bind", "sort", nowhere, "--names", &file]).expect(2);
        assert!(told.stderr.contains(&format!("no other node can reach {nowhere}")), "{}", told.stderr);
    }
    let plain = world.serve(&["--as", "plain", "--state", arg(&world.path("plain")), "--echo"]);
    let told = world.run(&["names", "ls", "--names", &plain.peer]).expect(1);
    assert!(told.stderr.contains("that node is no name server"), "{}", told.stderr);
    world.file("services", b"{}");
    let told = world.run(&["names", "ls", "--names", &file]).expect(1);
    assert!(told.stderr.contains("no record"), "{}", told.stderr);
}

#[test]
fn a_name_server_that_is_interrupted_keeps_its_names() {
    let world = World::new();
    let mut names = name_server(&world);
    world.run(&["id", "calc", "--new"]).expect(0);
    world.run(&["names", "bind", "sort", "127.0.0.1:9", "--as", "calc", "--names", &names.peer]).expect(0);
    names.running.signal(Signal::INT);
    names.running.wait();
    let names = name_server(&world);
    let looked = world.run(&["names", "lookup", "sort", "--names", &names.peer]).expect(0);
    assert!(looked.stdout.contains("@127.0.0.1:9"), "{}", looked.stdout);
}

/// A command that wants to change the file of a name server fails in time.
#[test]
fn the_file_of_a_name_server_is_not_for_others_to_change() {
    let world = World::new();
    let path = world.path("held");
    let serve = ["names", "serve", "--as", "names", "--json", "--bind", "127.0.0.1:0", "--file", arg(&path)];
    let names = world.listener_of("listening", world.command(&serve));
    world.run(&["id", "calc", "--new"]).expect(0);
    let file = format!("file:{}", arg(&path));
    let told =
        world.run(&["names", "bind", "sort", "127.0.0.1:9", "--as", "calc", "--names", &file]).expect(1);
    let why = format!("a name server or another process holds {}", arg(&path));
    assert!(told.stderr.contains(&why), "{}", told.stderr);
    world.run(&["names", "bind", "sort", "127.0.0.1:9", "--as", "calc", "--names", &names.peer]).expect(0);
}

/// The first line is the present record of the name. Each change is another line.
#[test]
fn a_name_is_watched() {
    let world = World::new();
    let names = format!("file:{}", arg(&world.path("names")));
    let id = world.run(&["id", "calc", "--new"]).expect(0).stdout.trim().to_owned();
    let mut command = world.command(&["names", "watch", "chat", "--names", &names, "--json"]);
    command.args(["--exit-after", "4"]);
    let mut watching = Running::start(command);
    assert_eq!(watching.line_of("unbound")["name"], "chat");
    let by = ["--as", "calc", "--names", &names, "--json"];
    for port in ["127.0.0.1:9", "127.0.0.1:10"] {
        let bound = world.run(&[&["names", "bind", "chat", port][..], &by].concat()).expect(0);
        // `bind`, `lookup` and `watch` show the whole record.
        let looked = world.run(&["names", "lookup", "chat", "--names", &names, "--json"]).expect(0);
        for line in [&bound.of_type("name")[0], &looked.of_type("name")[0], &watching.line_of("name")] {
            assert_eq!((&line["name"], &line["id"]), (&"chat".into(), &id.clone().into()), "{line}");
            assert_eq!(line["peer"], format!("{id}@{port}"), "{line}");
            assert_eq!((&line["addresses"], &line["generation"]), (&vec![port].into(), &0.into()), "{line}");
        }
    }
    world.run(&[&["names", "unbind", "chat"][..], &by].concat()).expect(0);
    watching.line_of("unbound");
    assert_eq!(watching.end().expect(0).summary()["lines"], 4);
    let watching = world.command(&["names", "watch", "chat", "--names", &names]);
    let mut watching = Running::start(watching);
    watching.hears("chat  unbound");
    watching.signal(Signal::INT);
    watching.end().expect(130);
}

#[test]
fn a_file_of_names_that_is_not_there_is_told() {
    let world = World::new();
    let names = format!("file:{}", arg(&world.path("nmaes")));
    let told = world.run(&["names", "ls", "--names", &names, "--json"]).expect(1);
    assert!(told.stderr.contains("there is no file of names"), "{}", told.stderr);
    assert_eq!(told.of_type("summary"), [] as [serde_json::Value; 0]);
}
