//! What a stored identity has read and not delivered is kept when its process ends, in order or not, and goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::UdpSocket;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Ended, Listener, Running, World, arg};

/// Somebody who hears and does not answer, until a listener takes the place.
pub(crate) struct Away {
    pub(crate) world: World,
    socket: UdpSocket,
    pub(crate) peer: String,
}

impl Away {
    pub(crate) fn new() -> Self {
        let world = World::new();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let id = world.run(&["id", "receiver", "--new"]).expect(0).stdout.trim().to_owned();
        world.run(&["id", "sender", "--new"]).expect(0);
        let peer = format!("{id}@{}", socket.local_addr().unwrap());
        Self { world, socket, peer }
    }

    /// A sender that is under way: something of it has been heard.
    pub(crate) fn sender(&self, args: &[&str]) -> Running {
        let args = [&["send", &self.peer, "--json"], args].concat();
        let mut command = self.world.command(&args);
        command.stdin(Stdio::piped());
        Running::start(command)
    }

    pub(crate) fn hear(&self) {
        self.socket.recv_from(&mut [0; 2_048]).unwrap();
    }

    /// A sender that was interrupted before anybody answered.
    fn interrupted(&self, args: &[&str]) -> Ended {
        let sender = self.sender(args);
        self.hear();
        sender.signal(Signal::INT);
        sender.end()
    }

    /// The receiver comes, and stays until it has `enough` messages.
    pub(crate) fn come(self, enough: usize) -> (World, Listener) {
        let at = self.socket.local_addr().unwrap().to_string();
        drop(self.socket);
        let listener = self.world.listen_at(&at, &["--as", "receiver", "--exit-after", &enough.to_string()]);
        (self.world, listener)
    }
}

pub(crate) fn texts(heard: &Ended) -> Vec<String> {
    let text = |message: &Value| message["text"].as_str().unwrap().to_owned();
    let mut texts: Vec<String> = heard.of_type("message").iter().map(text).collect();
    texts.sort();
    texts
}

/// Messages of the sender's summary: sent, recovered, delivered, kept.
fn figures(ended: &Ended) -> [u64; 4] {
    let summary = ended.summary();
    ["sent", "recovered", "delivered", "kept"].map(|name| summary[name].as_u64().unwrap())
}

#[test]
fn what_was_open_at_an_interrupt_goes_on() {
    let away = Away::new();
    let first = away.interrupted(&["--as", "sender", "one"]).expect(6);
    assert_eq!(figures(&first), [1, 0, 0, 1]);
    assert!(
        first.stderr.contains("kept: 1 message. To continue: exon send --as sender --continue"),
        "{}",
        first.stderr
    );
    // The user can ask for it later.
    let number = first.of_type("message")[0]["number"].to_string();
    let hint = format!("to see what became of number {number}: exon outbox status {number} --as sender");
    assert!(first.stderr.contains(&hint), "{}", first.stderr);
    let (world, listener) = away.come(1);
    let second = world.run(&["send", "--as", "sender", "--continue", "--json"]).expect(0);
    assert_eq!(figures(&second), [0, 1, 1, 0]);
    assert_eq!(second.of_type("message")[0]["number"].to_string(), number);
    assert!(!second.stderr.contains("to see what became"), "{}", second.stderr);
    assert!(
        world.run(&["outbox", "status", "--as", "sender", &number]).expect(0).stdout.contains("delivered")
    );
    assert!(second.stderr.contains("1 message of a former run goes on"), "{}", second.stderr);
    let told = second.of_type("message");
    let heard = listener.running.end().expect(0);
    assert_eq!((&told[0]["id"], &told[0]["recovered"]), (&heard.of_type("message")[0]["id"], &true.into()));
    assert_eq!(texts(&heard), ["one"]);
    let third = world.run(&["send", "--as", "sender", "--continue", "--json"]).expect(0);
    assert_eq!(figures(&third), [0, 0, 0, 0]);
}

#[test]
fn what_was_open_when_the_time_was_over_goes_on_beside_what_is_new() {
    let away = Away::new();
    let file = away.world.file("file", b"two");
    let args =
        ["send", &away.peer, "--json", "--as", "sender", "one", "--file", arg(&file), "--timeout", "1s"];
    assert_eq!(figures(&away.world.run(&args).expect(6)), [2, 0, 0, 2]);
    let peer = away.peer.clone();
    let (world, listener) = away.come(3);
    let second = world.run(&["send", "--as", "sender", &peer, "three", "--json"]).expect(0);
    assert_eq!(figures(&second), [1, 2, 3, 0]);
    let recovered = second.of_type("message").iter().filter(|line| line["recovered"] == true).count();
    assert_eq!(recovered, 2);
    assert_eq!(texts(&listener.running.end().expect(0)), ["one", "three", "two"]);
}

#[test]
fn what_a_killed_sender_had_read_goes_on() {
    let away = Away::new();
    let lines: BTreeSet<String> = (0..500).map(|n| format!("line {n}")).collect();
    let mut sender = away.sender(&["--as", "sender"]);
    let mut stdin = sender.stdin();
    lines.iter().for_each(|line| writeln!(stdin, "{line}").unwrap());
    away.hear();
    sender.kill();
    sender.wait();
    let peer = away.peer.clone();
    let (world, listener) = away.come(501);
    // How far it had read is not known: what is there is there once.
    let rest = world.run(&["send", "--as", "sender", "--continue", "--json"]).expect(0);
    let [_, recovered, delivered, _] = figures(&rest);
    assert!(recovered > 0 && delivered == recovered, "{}", rest.stdout);
    let more: Vec<String> = (recovered..501).map(|n| format!("more {n}")).collect();
    let args: Vec<&str> = ["send", &peer].into_iter().chain(more.iter().map(String::as_str)).collect();
    world.run(&args).expect(0);
    let heard = texts(&listener.running.end().expect(0));
    let old: Vec<&String> = heard.iter().filter(|text| lines.contains(*text)).collect();
    assert_eq!(u64::try_from(old.len()).unwrap(), recovered);
    assert_eq!(old.iter().collect::<BTreeSet<_>>().len(), old.len(), "a line came twice");
}

#[test]
fn durable_is_an_identity_that_is_made_and_a_receiver_may_have_moved() {
    let away = Away::new();
    let first = away.interrupted(&["--durable", "one"]).expect(6);
    assert!(first.stderr.contains("created identity default"), "{}", first.stderr);
    assert!(first.stderr.contains("exon send --as default --continue"), "{}", first.stderr);
    let world = away.world;
    let listener = world.listen(&["--as", "receiver", "--exit-after", "1"]);
    assert_eq!(
        figures(&world.run(&["send", "--continue", &listener.peer, "--json"]).expect(0)),
        [0, 1, 1, 0]
    );
    assert_eq!(texts(&listener.running.end().expect(0)), ["one"]);
}

#[test]
fn a_listener_goes_on_with_what_its_identity_has_left() {
    let away = Away::new();
    away.interrupted(&["--as", "sender", "one"]).expect(6);
    let (world, receiver) = away.come(1);
    let mut listener = world.listen(&["--as", "sender"]);
    listener.running.says("1 message of a former run goes on");
    assert_eq!(texts(&receiver.running.end().expect(0)), ["one"]);
}

#[test]
fn what_is_for_others_is_neither_waited_for_nor_lost() {
    let away = Away::new();
    away.interrupted(&["--as", "sender", "one"]).expect(6);
    let listener = away.world.listen(&["--exit-after", "1"]);
    let second = away.world.run(&["send", "--as", "sender", &listener.peer, "two", "--json"]).expect(0);
    assert_eq!(figures(&second), [1, 0, 1, 0]);
    assert!(second.stderr.contains("kept: 1 message to others"), "{}", second.stderr);
    assert_eq!(texts(&listener.running.end().expect(0)), ["two"]);
    let (world, receiver) = away.come(1);
    world.run(&["send", "--as", "sender", "--continue"]).expect(0);
    assert_eq!(texts(&receiver.running.end().expect(0)), ["one"]);
}

#[test]
fn without_a_journal_nothing_is_kept() {
    let away = Away::new();
    let ended = away.interrupted(&["--as", "sender", "--durability", "memory", "one"]).expect(130);
    assert_eq!(figures(&ended), [1, 0, 0, 0]);
    let next = away.world.run(&["send", "--as", "sender", "--continue", "--json"]).expect(0);
    assert_eq!(figures(&next), [0; 4]);
}

#[test]
fn the_outbox_shows_what_is_kept_and_gives_it_up() {
    let away = Away::new();
    let outbox = |args: &[&str]| away.world.run(&[&["outbox", "--as", "sender"], args].concat());
    assert!(outbox(&["ls"]).expect(0).stderr.contains("sender has nothing to send"));
    let running = away.sender(&["--as", "sender", "--tag", "t", "the text of it"]);
    away.hear();
    let meanwhile = outbox(&["ls", "--json"]).expect(0);
    assert!(meanwhile.stderr.contains("1 message open; exon send (process "), "{}", meanwhile.stderr);
    running.signal(Signal::INT);
    running.end().expect(6);
    let shown = outbox(&["ls", "--json"]).expect(0);
    assert_eq!(shown.summary()["messages"], 1);
    let row = &shown.of_type("message")[0];
    assert_eq!(meanwhile.of_type("message"), shown.of_type("message"), "asked of the process, or read");
    let (id, at) = away.peer.split_once('@').unwrap();
    assert_eq!((&row["peer"], &row["addresses"][0]), (&id.into(), &at.into()));
    assert_eq!((&row["tag"], &row["size"], &row["state"]), (&"t".into(), &14.into(), &"in doubt".into()));
    let number = row["number"].to_string();
    assert_eq!(outbox(&["show", &number]).expect(0).stdout, "the text of it");
    let line = outbox(&["show", &number, "--json"]).expect(0).lines().pop().unwrap();
    assert_eq!((&line["text"], &line["id"]), (&"the text of it".into(), &row["id"]));
    assert!(outbox(&["show", "77"]).expect(1).stderr.contains("nothing is known of message 77"));
    assert!(outbox(&["ls"]).expect(0).stdout.contains("the text of it"));
    // It has left, so nobody can say.
    assert_eq!(outbox(&["drop", "--all", "--json"]).expect(3).summary()["unknown"], 1);
    assert_eq!(outbox(&["ls", "--json"]).expect(0).summary()["messages"], 0);
    // The journal remembers that, by the number and by the id.
    let told = outbox(&["show", &number]).expect(3);
    assert_eq!(told.stdout, "");
    let words = format!("message {number} has ended, and its body is gone: unknown");
    assert!(told.stderr.contains(&words), "{}", told.stderr);
    assert!(outbox(&["status", &number]).expect(3).stdout.contains("unknown"));
    for which in [&number, row["id"].as_str().unwrap()] {
        let line = outbox(&["show", which, "--json"]).expect(3).lines().pop().unwrap();
        assert_eq!((&line["state"], &line["outcome"]), (&"settled".into(), &"unknown".into()));
        assert_eq!((line["number"].to_string(), &line["id"]), (number.clone(), &row["id"]));
    }
    assert_eq!(
        figures(&away.world.run(&["send", "--as", "sender", "--continue", "--json"]).expect(0)),
        [0; 4]
    );
}

#[test]
fn at_every_level_all_is_delivered() {
    let world = World::new();
    world.run(&["id", "sender", "--new"]).expect(0);
    let input: String = (0..300).map(|n| format!("line {n}\n")).collect();
    for level in ["memory", "process", "batched=2", "sync"] {
        let listener = world.listen(&["--durability", level]);
        let args = ["send", "--as", "sender", "--durability", level, "--json", &listener.peer];
        assert_eq!(figures(&world.feed(&args, input.as_bytes()).expect(0)), [300, 0, 300, 0]);
        listener.running.signal(Signal::INT);
        assert_eq!(listener.running.end().expect(130).summary()["messages"], 300);
    }
}

/// The receiver dies three times. A message that it had printed and not acknowledged is printed again, under its id.
#[test]
fn every_line_arrives_though_the_listener_is_killed() {
    const LINES: usize = 2_000;
    const KILLS: usize = 3;
    /// Messages that a listener takes at once.
    const ABREAST: usize = 256;
    let away = Away::new();
    let at = away.socket.local_addr().unwrap().to_string();
    let mut sender = away.sender(&["--as", "sender"]);
    let Away { world, socket, .. } = away;
    drop(socket);
    let listen = || world.listen_at(&at, &["--as", "receiver"]);
    let (mut stdin, mut listener) = (sender.stdin(), listen());
    // By id, the text and how often it was printed.
    let mut printed: BTreeMap<String, (String, usize)> = BTreeMap::new();
    let mut hear = |line: &Value| {
        let word = |name: &str| line[name].as_str().unwrap().to_owned();
        let (text, times) = printed.entry(word("id")).or_insert_with(|| (word("text"), 0));
        assert_eq!(*text, word("text"));
        *times += 1;
    };
    for kill in 0..KILLS {
        for n in 0..LINES / KILLS {
            writeln!(stdin, "{kill} {n}").unwrap();
        }
        for _ in 0..LINES / KILLS / 2 {
            listener.running.line_of("message");
        }
        listener.running.kill();
        listener.running.wait();
        listener.running.end().of_type("message").iter().for_each(&mut hear);
        listener = listen();
    }
    for n in 0..LINES % KILLS {
        writeln!(stdin, "rest {n}").unwrap();
    }
    drop(stdin);
    let sent = sender.end().expect(0);
    assert_eq!(figures(&sent), [2_000, 0, 2_000, 0]);
    listener.running.signal(Signal::INT);
    listener.running.end().expect(130).of_type("message").iter().for_each(&mut hear);
    let texts: BTreeSet<&String> = printed.values().map(|(text, _)| text).collect();
    assert_eq!((printed.len(), texts.len()), (LINES, LINES), "a line under two ids, or none");
    let again = printed.values().filter(|(_, times)| *times > 1).count();
    assert!(again <= KILLS * ABREAST, "only what was being taken is printed again: {again}");
}
