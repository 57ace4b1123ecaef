//! Codes: two commands that share nothing but a number and two words.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::skip::skipped;
use crate::support::{Ended, Running, World, arg, noise, until};

/// An offer that is found by a file of names alone, and its code.
fn offer(world: &World, args: &[&str]) -> (Running, String) {
    let names = names(world);
    let way = ["cp", "--code", "--json", "--no-local", "--names", &names];
    let mut offer = Running::start(world.command(&[&way, args].concat()));
    let code = offer.line_of("code")["code"].as_str().unwrap().to_owned();
    (offer, code)
}

fn names(world: &World) -> String {
    format!("file:{}", arg(&world.path("names")))
}

fn get(world: &World, code: &str, out: &Path) -> Ended {
    let names = names(world);
    world.run(&[
        "get",
        code,
        "--json",
        "--no-local",
        "--names",
        &names,
        "--out",
        arg(out),
        "--patience",
        "10s",
    ])
}

/// The same number, and another animal.
fn wrong(code: &str) -> String {
    let (front, animal) = code.rsplit_once('-').unwrap();
    let other = if animal == "otter" { "puma" } else { "otter" };
    format!("{front}-{other}")
}

fn root(content: &[u8]) -> String {
    blake3::hash(content).to_hex().to_string()
}

#[test]
fn a_code_is_all_that_is_needed_on_one_network() {
    let world = World::new();
    let content = noise(3_000_000, 1);
    let photo = world.file("photo.jpg", &content);
    let mut offer = Running::start(world.command(&["cp", "--code", "--json", arg(&photo)]));
    let Some(line) = offer.line() else { return skipped("no interface sends multicast datagrams") };
    if line["type"] == "error" {
        return skipped(&line["error"]);
    }
    assert_eq!((&line["local"], &line["names"]), (&Value::Bool(true), &Value::Bool(false)));
    let code = line["code"].as_str().unwrap().to_uppercase().replace('-', " ");
    fs::create_dir(world.path("there")).unwrap();
    let mut get: Command = world.command(&["get", &code, "--json"]);
    get.current_dir(world.path("there"));
    let got = Running::start(get).end().expect(0);
    assert_eq!(fs::read(world.path("there/photo.jpg")).unwrap(), content);
    assert_eq!(got.summary()["root"], root(&content).as_str());
    assert_eq!(got.of_type("offer")[0]["names"][0], "photo.jpg");
    let sent = offer.end().expect(0);
    assert_eq!(sent.summary()["stored"], 1);
}

#[test]
fn a_name_server_leads_from_one_network_to_another() {
    let world = World::new();
    let server =
        world.listener_of("listening", world.command(&["names", "serve", "--json", "--bind", "127.0.0.1:0"]));
    fs::create_dir_all(world.path("d/e")).unwrap();
    for n in 0..20 {
        world.file(&format!("d/e/{n}"), &noise(n * 1_000, 2));
    }
    let note = world.file("note.txt", b"words");
    let way = ["--json", "--no-local", "--names", &server.peer];
    let directory = world.path("d");
    let what = ["cp", "-r", "--code", arg(&directory), arg(&note)];
    let mut offer = Running::start(world.command(&[&what[..], &way].concat()));
    let code = offer.line_of("code")["code"].as_str().unwrap().to_owned();
    let listed = world.run(&["names", "ls", "--names", &server.peer]).expect(0).stdout;
    let (number, words) = code.split_once('-').unwrap();
    assert!(listed.contains(&format!("code.{number} ")), "{listed}");
    assert!(words.split('-').all(|word| !listed.contains(word)), "the words stay here: {listed}");
    let out = world.path("out");
    let got = world.run(&[&["get", &code, "--out", arg(&out)], &way[..]].concat()).expect(0);
    offer.end().expect(0);
    assert_eq!(fs::read(out.join("note.txt")).unwrap(), b"words");
    for n in 0..20 {
        assert_eq!(fs::read(out.join(format!("d/e/{n}"))).unwrap(), noise(n * 1_000, 2));
    }
    assert_eq!(got.summary()["files"], 21);
    assert!(got.summary()["root"].is_string());
    // The number is free again, and nothing of the offer's identity is left.
    assert_eq!(world.run(&["names", "ls", "--names", &server.peer]).expect(0).stdout, "");
    assert_eq!(fs::read_dir(world.path("state/.codes")).unwrap().count(), 0);
}

#[test]
fn a_wrong_code_is_told_at_both_ends_and_the_right_one_still_works() {
    let world = World::new();
    let file = world.file("f", b"secret");
    let (mut offer, code) = offer(&world, &[arg(&file)]);
    let failed = get(&world, &wrong(&code), &world.path("out")).expect(1);
    assert!(failed.stderr.contains("the code is wrong"), "{}", failed.stderr);
    assert!(failed.stderr.contains("2 more wrong codes"), "{}", failed.stderr);
    assert_eq!(offer.line_of("guess")["left"], 2);
    assert!(!world.path("out/f").exists());
    get(&world, &code, &world.path("out")).expect(0);
    assert_eq!(fs::read(world.path("out/f")).unwrap(), b"secret");
    offer.end().expect(0);
}

#[test]
fn a_third_party_that_guesses_ends_the_offer() {
    let world = World::new();
    let file = world.file("f", b"secret");
    let (mut offer, code) = offer(&world, &[arg(&file)]);
    for left in [2, 1, 0] {
        let failed = get(&world, &wrong(&code), &world.path("out")).expect(1);
        assert!(
            failed.stderr.contains(if left == 0 { "has ended" } else { "more wrong code" }),
            "{}",
            failed.stderr
        );
        assert_eq!(offer.line_of("guess")["left"], left);
    }
    let ended = offer.end().expect(1);
    assert!(ended.stderr.contains("the offer has ended"), "{}", ended.stderr);
    let late = world.run(&[
        "get",
        &code,
        "--no-local",
        "--names",
        &names(&world),
        "--out",
        arg(&world.path("out")),
        "--patience",
        "500ms",
    ]);
    assert!(late.expect(1).stderr.contains("no offer with number"));
    assert!(!world.path("out/f").exists());
}

#[test]
fn an_offer_that_is_gone_is_told() {
    let world = World::new();
    let file = world.file("f", b"x");
    let (interrupted, code) = offer(&world, &[arg(&file)]);
    interrupted.signal(Signal::INT);
    assert!(interrupted.end().expect(130).stderr.contains("no longer valid"));
    let names = names(&world);
    assert_eq!(world.run(&["names", "ls", "--names", &names]).expect(0).stdout, "");
    let (out, late) = (world.path("out"), ["--no-local", "--names", &names, "--patience"]);
    let late = |code: &str, patience| {
        world.run(&[&["get", code, "--out", arg(&out)], &late[..], &[patience]].concat()).expect(1).stderr
    };
    let told = late(&code, "500ms");
    assert!(told.contains("no offer with number"), "{told}");
    // Killed, it leaves its name behind, which leads to nothing.
    let (mut killed, code) = offer(&world, &[arg(&file)]);
    killed.kill();
    killed.wait();
    let told = late(&code, "7s");
    assert!(told.contains("has ended: it does not answer"), "{told}");
    let (waiting, _) = offer(&world, &["--timeout", "3s", arg(&file)]);
    assert!(waiting.end().expect(4).stderr.contains("in time"));
}

#[test]
fn a_code_that_is_brought_again_goes_on() {
    brought_again(|first| {
        first.signal(Signal::INT);
        let first = first.end();
        let interrupted = first.code != Some(0);
        if interrupted {
            assert_eq!(first.expect(130).summary()["end"], "interrupted");
        }
        interrupted
    });
}

/// It leaves without a word, and the sender does not wait for it.
#[test]
fn a_code_that_is_brought_again_after_kill_9_goes_on() {
    brought_again(|mut first| {
        first.kill();
        first.end().code.is_none()
    });
}

/// `cut`: ends the first receiver. False: it was done before.
fn brought_again(cut: impl FnOnce(Running) -> bool) {
    let world = World::new();
    let content = noise(400 << 20, 3);
    let file = world.file("large", &content);
    let (mut offer, code) = offer(&world, &[arg(&file)]);
    let (names, out) = (names(&world), world.path("out"));
    let args = ["get", &code, "--json", "--no-local", "--names", &names, "--out", arg(&out)];
    let first = Running::start(world.command(&args));
    offer.line_of("receiver");
    let has_part = || {
        let entries = fs::read_dir(&out).into_iter().flatten().filter_map(Result::ok);
        entries.into_iter().any(|entry| entry.file_name().to_string_lossy().ends_with(".part"))
    };
    until("a part of the file is there, or all of it", || has_part() || out.join("large").exists());
    if !cut(first) || out.join("large").exists() {
        return skipped("the file was there before the receiver could be cut off");
    }
    world.run(&args).expect(0);
    assert_eq!(fs::read(out.join("large")).unwrap(), content);
    offer.line_of("receiver");
    offer.end().expect(0);
}

/// The content goes to one of them, whole, and the other is not left waiting.
#[test]
fn of_two_receivers_at_once_one_gets_all() {
    let world = World::new();
    let content = noise(30 << 20, 5);
    let file = world.file("f", &content);
    let (offer, code) = offer(&world, &[arg(&file)]);
    let (names, outs) = (names(&world), ["a", "b"].map(|name| world.path(name)));
    let gets = outs.each_ref().map(|out| {
        let way = ["--json", "--no-local", "--names", &names, "--patience", "20s", "--out", arg(out)];
        Running::start(world.command(&[&["get", &code], &way[..]].concat()))
    });
    let ended = gets.map(Running::end);
    let got = ended.each_ref().map(|ended| ended.code == Some(0));
    assert!(got[0] != got[1], "{} {}", ended[0].stderr, ended[1].stderr);
    for ((ended, out), got) in ended.into_iter().zip(&outs).zip(got) {
        if got {
            assert_eq!(fs::read(out.join("f")).unwrap(), content);
        } else {
            assert!(ended.expect(1).stderr.contains("offer of"));
        }
    }
    assert_eq!(offer.end().expect(0).summary()["stored"], 1);
}

/// The key of a killed offer is still there, and the next offer gives up its name by it.
#[test]
fn the_next_offer_gives_up_the_name_of_one_that_was_killed() {
    let world = World::new();
    let server =
        world.listener_of("listening", world.command(&["names", "serve", "--json", "--bind", "127.0.0.1:0"]));
    let file = world.file("f", b"x");
    let args = ["cp", "--code", "--json", "--no-local", "--names", &server.peer, arg(&file)];
    let mut offer = Running::start(world.command(&args));
    let killed = offer.line_of("code")["number"].to_string();
    offer.kill();
    offer.wait();
    let listed = || world.run(&["names", "ls", "--names", &server.peer]).expect(0).stdout;
    assert!(listed().contains(&format!("code.{killed} ")));
    // A key that has just been made may be of an offer that is about to start.
    let keys = world.path("state/.codes");
    let key = fs::read_dir(&keys).unwrap().next().unwrap().unwrap().path();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3_600);
    fs::File::open(&key).unwrap().set_modified(long_ago).unwrap();
    let mut offer = Running::start(world.command(&args));
    let number = offer.line_of("code")["number"].to_string();
    assert!(!key.exists());
    let left = listed();
    assert!(left.lines().count() == 1 && left.contains(&format!("code.{number} ")), "{left}");
    offer.signal(Signal::INT);
    offer.end().expect(130);
    assert_eq!((listed(), fs::read_dir(&keys).unwrap().count()), (String::new(), 0));
}

#[test]
fn a_code_goes_over_tcp() {
    let world = World::new();
    let file = world.file("f", b"by tcp");
    let (offer, code) = offer(&world, &["--carrier", "tcp", arg(&file)]);
    let (names, out) = (names(&world), world.path("out"));
    let args = ["get", &code, "--no-local", "--names", &names, "--out", arg(&out), "--carrier", "tcp"];
    world.run(&args).expect(0);
    offer.end().expect(0);
    assert_eq!(fs::read(out.join("f")).unwrap(), b"by tcp");
}

#[test]
fn what_is_no_code_is_told_what_it_is() {
    let world = World::new();
    for (args, words) in [
        (&["get", "film.mkv"][..], "--from"),
        (&["get", "--list"], "--from"),
        (&["get", "7-lucky"], "a number and two words"),
        (&["get", "7-l-otter"], "may be"),
        (&["get", "7-lucky-dragon"], "not a word of codes"),
        (&["get", "0-lucky-otter"], "1 to 999"),
    ] {
        let told = world.run(args).expect(2).stderr;
        assert!(told.contains(words), "{args:?}: {told}");
    }
    let file = world.file("f", b"x");
    let told = world.run(&["cp", "--code", "--no-local", arg(&file)]).expect(1).stderr;
    assert!(told.contains("--names"), "{told}");
}
