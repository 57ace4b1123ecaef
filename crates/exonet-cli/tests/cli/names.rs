//! Names for peers, and identities as people come by them.

use std::fs;

use crate::support::{World, arg};

#[test]
fn a_name_stands_wherever_a_peer_is_wanted() {
    let world = World::new();
    let id = world.run(&["id", "friend", "--new"]).expect(0).stdout.trim().to_owned();
    assert_eq!(world.run(&["peer", "list", "--json"]).expect(0).summary()["peers"], 0);
    world.run(&["peer", "add", "friend", &id]).expect(0);
    let listener = world.listen(&["--exit-after", "1", "--allow", "friend"]);
    world.run(&["peer", "add", "lab", &listener.peer]).expect(0);
    world.run(&["ping", "lab", "-n", "1", "--as", "friend"]).expect(0);
    world.run(&["send", "lab", "hello", "--as", "friend"]).expect(0);
    listener.running.end().expect(0);
    let server = world.serve(&["--as", "friend", "--echo"]);
    world.run(&["peer", "add", "friend", &server.peer, "--replace"]).expect(0);
    assert_eq!(world.run(&["call", "friend", "echo", "x"]).expect(0).stdout, "x");
    assert_eq!(world.run(&["peer", "show", "friend"]).expect(0).stdout.trim(), server.peer);
    let listed = world.run(&["peer", "list", "--json"]).expect(0).of_type("peer");
    let names: Vec<_> = listed.iter().map(|line| line["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["friend", "lab"]);
    assert_eq!(listed[1]["peer"], listener.peer.as_str());
}

#[test]
fn a_name_of_a_service_can_be_listed() {
    let world = World::new();
    let names = format!("file:{}", arg(&world.path("names")));
    let mut listener = world.listen(&["--name", "chat", "--names", &names]);
    let told = world.run(&["peer", "add", "talk", "name:chat"]).expect(1);
    assert!(told.stderr.contains("no name service is given"), "{}", told.stderr);
    world.run(&["peer", "add", "talk", "name:chat", "--names", &names]).expect(0);
    world.run(&["send", "talk", "hello", "--names", &names]).expect(0);
    // It is found at its new place.
    listener.running.kill();
    listener.running.wait();
    let _again = world.listen(&["--name", "chat", "--names", &names]);
    world.run(&["send", "talk", "hello", "--names", &names]).expect(0);
}

/// A name has addresses of both families, and the node answers at one of them.
#[test]
fn one_address_of_two_families_is_enough() {
    for (bind, host) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "[::1]")] {
        let world = World::new();
        let listener = world.listen_at(bind, &["--as", "friend"]);
        let (id, port) =
            (listener.peer.split_once('@').unwrap().0, listener.peer.rsplit_once(':').unwrap().1);
        let names = format!("file:{}", arg(&world.path("names")));
        let both = ["[::1]", "127.0.0.1"].map(|host| format!("{host}:{port}"));
        world
            .run(&["names", "bind", "chat", &both[0], &both[1], "--as", "friend", "--names", &names])
            .expect(0);
        let orders = [format!("{id}@{},{}", both[0], both[1]), format!("{id}@{},{}", both[1], both[0])];
        for peer in [&orders[0], &orders[1], "name:chat"] {
            for carrier in ["udp", "tcp", "auto"] {
                let more = [peer, "--carrier", carrier, "--names", &names];
                let pinged = world.run(&[&["ping", "-n", "1", "--json"], &more[..]].concat()).expect(0);
                assert_eq!(pinged.summary()["address"], format!("{host}:{port}"), "{peer} {carrier}");
                world.run(&[&["send"], &more[..], &["hello"]].concat()).expect(0);
            }
        }
    }
}

#[test]
fn a_copy_goes_to_a_name() {
    let world = World::new();
    let listener = world.listen(&["--out", arg(&world.path("out"))]);
    world.run(&["peer", "add", "lab", &listener.peer]).expect(0);
    let file = world.file("file", b"x");
    world.run(&["cp", arg(&file), "lab"]).expect(0);
    assert_eq!(fs::read(world.path("out/file")).unwrap(), b"x");
}

#[test]
fn a_name_is_never_taken_from_another_peer_in_passing() {
    let world = World::new();
    let peer = |n| format!("{}@127.0.0.1:9", exonet_proto::NodeId([n; 32]));
    world.run(&["peer", "add", "lab", &peer(1)]).expect(0);
    world.run(&["peer", "add", "lab", &peer(1)]).expect(0);
    let refused = world.run(&["peer", "add", "lab", &peer(2)]).expect(1);
    assert!(refused.stderr.contains("--replace"), "{}", refused.stderr);
    assert_eq!(world.run(&["peer", "show", "lab"]).expect(0).stdout.trim(), peer(1));
    let typo = world.run(&["send", "lav", "x"]).expect(2).stderr;
    assert!(typo.starts_with("exon: ") && typo.contains("there is \"lab\""), "{typo}");
    let removed = world.run(&["peer", "remove", "lab", "--json"]).expect(0).of_type("removed");
    assert_eq!((&removed[0]["name"], &removed[0]["peer"]), (&"lab".into(), &peer(1).into()));
    world.run(&["peer", "remove", "lab"]).expect(1);
    world.run(&["send", "lab", "x"]).expect(2);
    for bad in ["-x", "a b", "", &"n".repeat(33), &exonet_proto::NodeId([1; 32]).to_string()] {
        world.run(&["peer", "add", bad, &peer(1)]).expect(2);
    }
}

#[cfg(unix)]
#[test]
fn names_that_are_added_at_once_are_all_there() {
    let world = World::new();
    let peer = format!("{}@127.0.0.1:9", exonet_proto::NodeId([1; 32]));
    let names: Vec<String> = (10..20).map(|n| format!("p{n}")).collect();
    let running: Vec<_> = names
        .iter()
        .map(|name| crate::support::Running::start(world.command(&["peer", "add", name, &peer])))
        .collect();
    running.into_iter().for_each(|one| drop(one.end().expect(0)));
    let listed = world.run(&["peer", "list", "--json"]).expect(0).of_type("peer");
    assert_eq!(listed.iter().map(|line| line["name"].as_str().unwrap()).collect::<Vec<_>>(), names);
}

#[test]
fn a_file_of_names_that_is_damaged_is_left_alone() {
    let world = World::new();
    fs::create_dir(world.path("state")).unwrap();
    let file = world.file("state/peers", b"lab\n");
    let peer = format!("{}@127.0.0.1:9", exonet_proto::NodeId([1; 32]));
    for args in [&["peer", "add", "x", &peer][..], &["peer", "list"], &["peer", "remove", "lab"]] {
        let ended = world.run(args).expect(1);
        assert!(ended.stderr.contains("peers:1:"), "{}", ended.stderr);
    }
    assert_eq!(fs::read(file).unwrap(), b"lab\n");
}

#[test]
fn a_slip_in_an_id_is_shown() {
    let id = exonet_proto::NodeId([7; 32]).to_string();
    let other = if id.as_bytes()[9] == b'q' { "r" } else { "q" };
    let wrong = format!("{}{other}{}@127.0.0.1:9", &id[..9], &id[10..]);
    let told = World::new().run(&["send", &wrong, "x"]).expect(2).stderr;
    assert!(told.contains("character 10"), "{told}");
}

#[test]
fn the_first_question_makes_an_identity_and_says_so() {
    let world = World::new();
    let first = world.run(&["id"]).expect(0);
    assert!(first.stderr.contains("created identity default"), "{}", first.stderr);
    let again = world.run(&["id", "--json"]).expect(0);
    assert_eq!(again.lines()[0]["id"], first.stdout.trim());
    assert_eq!(again.lines()[0]["new"], false);
    world.run(&["id", "sensor", "--new"]).expect(0);
    let listed = world.run(&["id", "--list", "--json"]).expect(0).of_type("identity");
    assert_eq!(
        listed.iter().map(|line| line["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["default", "sensor"]
    );
    assert_eq!(listed[0]["id"], first.stdout.trim());
    assert_eq!(world.run(&["id", "--list", "--json"]).expect(0).summary()["identities"], 2);
    world.run(&["id", "peers", "--new"]).expect(1);
}

#[test]
fn nobody_becomes_somebody_else_without_a_word() {
    let world = World::new();
    world.run(&["id", "one", "--new"]).expect(0);
    fs::remove_file(world.path("state/one/key")).unwrap();
    for args in
        [&["listen", "--as", "one", "--bind", "127.0.0.1:0"][..], &["id", "one"], &["id", "one", "--new"]]
    {
        let ended = world.run(args).expect(1);
        assert!(ended.stderr.contains("key"), "{}", ended.stderr);
    }
    assert!(!world.path("state/one/key").exists());
    let listed = world.run(&["id", "--list", "--json"]).expect(0).of_type("identity");
    assert!(listed[0]["error"].as_str().unwrap().contains("one"), "{}", listed[0]);
}

/// Its directory is a link to itself, which is an error to everybody, even to root.
#[cfg(unix)]
#[test]
fn an_identity_that_cannot_be_read_is_not_taken_for_a_missing_one() {
    let world = World::new();
    world.run(&["id", "good", "--new"]).expect(0);
    std::os::unix::fs::symlink("locked", world.path("state/locked")).unwrap();
    for args in [
        &["id", "locked"][..],
        &["send", "--as", "locked", "--continue"],
        &["outbox", "ls", "--as", "locked"],
    ] {
        let told = world.run(args).expect(1).stderr;
        assert!(told.contains("cannot read") && told.contains("locked/key"), "{told}");
        assert!(!told.contains("--new"), "{told}");
    }
    let listed = world.run(&["id", "--list", "--json"]).expect(0).of_type("identity");
    assert_eq!(
        listed.iter().map(|line| line["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["good", "locked"]
    );
    assert!(listed[1]["error"].as_str().unwrap().contains("locked/key"), "{}", listed[1]);
}

#[test]
fn what_cannot_start_makes_no_identity() {
    let world = World::new();
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (bind, code) in [("nowhere", 2), ("192.0.2.1:4000", 1), (&taken, 1)] {
        let ended = world.run(&["listen", "--bind", bind]).expect(code);
        assert!(ended.stderr.contains(bind), "{}", ended.stderr);
        world.run(&["serve", "--echo", "--bind", bind]).expect(code);
    }
    assert!(!world.path("state").exists(), "{}", arg(&world.path("state")));
}
