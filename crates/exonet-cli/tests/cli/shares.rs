//! One file from several nodes: such as are killed, slow, stopped, changed, and such as lie.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use bytes::Bytes;
use exonet::call::{Failure, Request, Serving};
use exonet::{Allow, Node};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Ended, Listener, Running, World, arg, entries, free_address, noise, until};

const PIECE: usize = 256 << 10;
/// Slow enough that a file of some pieces takes seconds: a bound, and nothing here is fast because of it.
const SLOW: [&str; 3] = ["--anyone", "--rate", "512KiB"];
const OPEN: [&str; 1] = ["--anyone"];

/// Directories that are shared, and a place for what is fetched.
struct Films {
    world: World,
    content: Vec<u8>,
}

impl Films {
    /// Of so many pieces, the last one not full.
    fn new(pieces: usize, seed: u64) -> Self {
        Self { world: World::new(), content: noise(pieces * PIECE - 1_000, seed) }
    }

    /// A directory with the file in it.
    fn directory(&self, name: &str) -> PathBuf {
        let directory = self.world.path(&format!("films of {name}"));
        fs::create_dir_all(directory.join("new")).unwrap();
        fs::write(directory.join("new/film"), &self.content).unwrap();
        directory
    }

    /// A node that shares it.
    fn share(&self, name: &str, args: &[&str]) -> Listener {
        self.world.share(name, &self.directory(name), args)
    }

    fn target(&self) -> PathBuf {
        self.world.path("film")
    }

    /// A process that fetches the file.
    fn get(&self, from: &[&str], args: &[&str]) -> Running {
        let target = self.target();
        let mut words = vec!["get", "new/film", "--json", "--out", arg(&target)];
        from.iter().for_each(|peer| words.extend(["--from", peer]));
        Running::start(self.world.command(&[&words, args].concat()))
    }

    /// It is there, and nothing else.
    fn is_there(&self) {
        assert!(fs::read(self.target()).unwrap() == self.content);
        assert!(!self.part().exists() && !self.map().exists());
    }

    fn part(&self) -> PathBuf {
        self.world.path("film.part")
    }

    fn map(&self) -> PathBuf {
        self.world.path("film.part.map")
    }

    fn root(&self) -> String {
        blake3::hash(&self.content).to_hex().to_string()
    }

    /// Waits until the map says that some piece is certainly there.
    fn await_mark(&self) {
        let marked = || {
            let map = fs::read(self.map()).unwrap_or_default();
            let bits = map.splitn(2, |byte| *byte == b'\n').nth(1).unwrap_or_default();
            bits.iter().any(|byte| *byte != 0)
        };
        until("a piece is marked", marked);
    }
}

fn number(line: &Value, name: &str) -> u64 {
    line[name].as_u64().unwrap_or_else(|| panic!("{name} of {line}"))
}

/// What a summary says of the server of this name or address.
fn of(summary: &Value, peer: &str) -> Value {
    let id = peer.split_once('@').map_or(peer, |(id, _)| id);
    let found = summary["servers"].as_array().unwrap().iter().find(|server| server["peer"] == id);
    found.unwrap_or_else(|| panic!("{peer} in {summary}")).clone()
}

fn state(summary: &Value, peer: &str) -> String {
    of(summary, peer)["state"].as_str().unwrap().to_owned()
}

/// All of it is there, from this run or an earlier one.
fn complete(films: &Films, ended: Ended) -> Value {
    let summary = ended.expect(0).summary();
    films.is_there();
    assert_eq!(number(&summary, "fetched") + number(&summary, "had"), films.content.len() as u64);
    assert_eq!(summary["root"], films.root());
    summary
}

/// Waits until something has come.
fn some_has_come(get: &mut Running) {
    while number(&get.line_of("progress"), "bytes") == 0 {}
}

#[test]
fn a_file_comes_from_all_of_them() {
    let films = Films::new(24, 1);
    let servers = ["a", "b", "c"].map(|name| films.share(name, &SLOW));
    let peers: Vec<&str> = servers.iter().map(|server| server.peer.as_str()).collect();
    let summary = complete(&films, films.get(&peers, &[]).end());
    let brought: Vec<u64> = peers.iter().map(|peer| number(&of(&summary, peer), "pieces")).collect();
    assert_eq!(brought.iter().sum::<u64>(), 24);
    // At one speed, each brings its share.
    assert!(brought.iter().all(|pieces| (4..=12).contains(pieces)), "{brought:?}");
    let asked = servers.into_iter().map(|server| {
        server.running.signal(Signal::TERM);
        server.running.end().expect(130)
    });
    for ended in asked {
        assert_eq!(ended.of_type("asked")[0]["name"], "new/film");
        assert!(number(&ended.summary(), "pieces") >= 4);
    }
}

#[test]
fn what_a_killed_server_was_asked_for_comes_from_others() {
    let films = Films::new(20, 2);
    let mut servers = ["a", "b", "c"].map(|name| films.share(name, &SLOW));
    let peers = servers.each_ref().map(|server| server.peer.clone());
    let mut get = films.get(&peers.each_ref().map(String::as_str), &[]);
    some_has_come(&mut get);
    servers[1].running.kill();
    let ended = get.end();
    let told = ended.of_type("server").into_iter().any(|line| line["state"] == "silent");
    let summary = complete(&films, ended);
    assert!(told, "{summary}");
    assert_eq!(state(&summary, &peers[1]), "silent");
}

#[test]
fn the_end_does_not_wait_for_the_slowest() {
    let films = Films::new(8, 3);
    // It answers pings, and would take days.
    let stuck = films.share("stuck", &["--anyone", "--rate", "1"]);
    let good = films.share("good", &OPEN);
    let summary = complete(&films, films.get(&[&stuck.peer, &good.peer], &[]).end());
    assert_eq!(state(&summary, &stuck.peer), "active");
    assert_eq!(number(&of(&summary, &good.peer), "pieces"), 8);
}

#[test]
fn a_file_that_no_answering_node_has_is_told_from_silence() {
    let films = Films::new(1, 3);
    let here = films.share("here", &OPEN);
    let mut gone = films.share("gone", &OPEN);
    gone.running.kill();
    let from = ["get", "--from", &here.peer, "--from", &gone.peer, "nosuch", "--patience", "1s"];
    let told = films.world.run(&from).expect(1).stderr;
    assert!(told.contains("no node that has answered sends nosuch"), "{told}");
    assert!(told.contains("no file of this name") && told.contains("it does not answer"), "{told}");
}

#[test]
fn when_all_are_gone_what_has_come_stays_and_another_goes_on() {
    let films = Films::new(16, 4);
    let mut first = films.share("first", &SLOW);
    let mut get = films.get(&[&first.peer], &["--patience", "1s"]);
    some_has_come(&mut get);
    first.running.kill();
    let ended = get.end().expect(1);
    assert!(ended.stderr.contains("no node has answered for 1 s"), "{}", ended.stderr);
    assert!(ended.stderr.contains("the same command continues"), "{}", ended.stderr);
    assert!(!films.target().exists());
    // With another node, under another name of its own.
    let second = films.share("second", &OPEN);
    let summary = complete(&films, films.get(&[&second.peer], &[]).end());
    assert!(number(&summary, "had") > 0, "{summary}");
}

fn comes_back(end: impl Fn(&mut Running)) {
    let films = Films::new(12, 5);
    let (directory, address) = (films.directory("a"), free_address().to_string());
    let again = || films.world.share_at(&address, "a", &directory, &SLOW);
    let mut server = again();
    let mut get = films.get(&[&server.peer], &[]);
    some_has_come(&mut get);
    end(&mut server.running);
    server.running.wait();
    while get.line_of("server")["state"] != "silent" {}
    let _server = again();
    let ended = get.end();
    assert!(ended.stderr.contains("no answer; it is tried again"), "{}", ended.stderr);
    complete(&films, ended);
}

#[test]
fn a_server_that_was_killed_goes_on_when_it_is_back() {
    comes_back(Running::kill);
}

#[test]
fn a_server_that_was_stopped_goes_on_when_it_is_back() {
    comes_back(|running| running.signal(Signal::TERM));
}

#[test]
fn one_that_comes_late_helps_and_is_judged_as_the_others() {
    let films = Films::new(20, 24);
    let good = films.share("good", &SLOW);
    let [late, other] = ["late", "other"].map(|name| (films.directory(name), free_address().to_string()));
    fs::write(other.0.join("new/film"), noise(PIECE, 25)).unwrap();
    let share = |(directory, address): &(PathBuf, String), name: &str| {
        films.world.share_at(address, name, directory, &OPEN)
    };
    // So that their ids are known.
    let peers = [share(&late, "late").peer, share(&other, "other").peer];
    let mut get = films.get(&[&good.peer, &peers[0], &peers[1]], &[]);
    some_has_come(&mut get);
    let _other = share(&other, "other");
    while get.line_of("server")["state"] != "differs" {}
    let _late = share(&late, "late");
    let summary = complete(&films, get.end());
    assert_eq!(state(&summary, &peers[1]), "differs");
    assert!(number(&of(&summary, &peers[0]), "pieces") > 0, "{summary}");
}

#[test]
fn a_getter_that_is_killed_goes_on_from_there() {
    let films = Films::new(16, 6);
    let server = films.share("a", &SLOW);
    let mut get = films.get(&[&server.peer], &[]);
    films.await_mark();
    get.kill();
    get.wait();
    assert!(films.part().exists() && !films.target().exists());
    let summary = complete(&films, films.get(&[&server.peer], &[]).end());
    assert!(number(&summary, "had") >= PIECE as u64, "{summary}");
}

#[test]
fn an_interrupt_keeps_what_has_come() {
    let films = Films::new(16, 7);
    let server = films.share("a", &SLOW);
    let mut get = films.get(&[&server.peer], &[]);
    some_has_come(&mut get);
    get.signal(Signal::INT);
    let ended = get.end().expect(130);
    let summary = ended.summary();
    assert_eq!(summary["end"], "interrupted");
    assert!(ended.stderr.contains("the same command continues"), "{}", ended.stderr);
    assert!(films.part().exists() && films.map().exists() && !films.target().exists());
    // All that had come was brought to the disk.
    let again = complete(&films, films.get(&[&server.peer], &[]).end());
    assert!(number(&again, "had") >= number(&summary, "fetched"), "{again}");
    assert!(number(&again, "had") > 0);
}

#[test]
fn an_interrupt_before_any_answer_has_a_summary_too() {
    let films = Films::new(16, 1);
    let server = films.share("a", &OPEN);
    let id = server.peer.split_once('@').unwrap().0;
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let get = films.get(&[&format!("{id}@{}", silent.local_addr().unwrap())], &[]);
    silent.recv(&mut [0; 2_000]).unwrap();
    get.signal(Signal::INT);
    let summary = get.end().expect(130).summary();
    assert_eq!((&summary["end"], &summary["size"]), (&"interrupted".into(), &Value::Null));
}

/// A node that speaks the protocol, and says what it likes.
struct Liar {
    peer: String,
    // Dropped in this order.
    _servings: [Serving; 2],
    _node: Node,
    _runtime: tokio::runtime::Runtime,
}

impl Liar {
    /// It says this of every file, and gives this for every piece.
    fn new(info: &Value, piece: Vec<u8>) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let _running = runtime.enter();
        let node = runtime.block_on(Node::builder(Allow::anyone()).bind("127.0.0.1:0").build()).unwrap();
        let say = |method: &'static str, reply: Bytes| {
            let answer = move |_: Request| std::future::ready(Ok::<_, Failure>(reply.clone()));
            node.serve(method, answer).start().unwrap()
        };
        let servings =
            [say("exon.share.info", info.to_string().into()), say("exon.share.piece", piece.into())];
        let peer = node.peer_addr().to_string();
        drop(_running);
        Self { peer, _servings: servings, _node: node, _runtime: runtime }
    }
}

fn info(films: &Films, more: u64) -> Value {
    json!({ "v": 1, "size": films.content.len() as u64 + more, "piece": PIECE, "root": films.root() })
}

#[test]
fn a_server_that_brings_something_else_is_banned_and_named() {
    let films = Films::new(8, 8);
    let good = films.share("good", &SLOW);
    // The length is right: 8 pieces have proofs of 3 hashes.
    let liar = Liar::new(&info(&films, 0), noise(3 * 32 + PIECE, 9));
    let ended = films.get(&[&liar.peer, &good.peer], &[]).end();
    let name = liar.peer.get(..8).unwrap();
    assert!(
        ended.stderr.contains(&format!("{name}: what it sends is not part of this file")),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("banned"), "{}", ended.stderr);
    let banned: Vec<_> =
        ended.of_type("server").into_iter().filter(|line| line["state"] == "banned").collect();
    assert_eq!(banned.len(), 1);
    let summary = complete(&films, ended);
    assert_eq!(
        (state(&summary, &liar.peer).as_str(), number(&of(&summary, &liar.peer), "pieces")),
        ("banned", 0)
    );
    // Alone, it brings nothing.
    fs::remove_file(films.target()).unwrap();
    let ended = films.get(&[&liar.peer], &[]).end().expect(1);
    assert!(ended.stderr.contains("no node sends new/film"), "{}", ended.stderr);
    assert!(!films.target().exists() && !films.part().exists() && !films.map().exists());
}

#[test]
fn who_lies_about_the_size_is_found_out() {
    let films = Films::new(3, 10);
    let good = films.share("good", &OPEN);
    // As many pieces, so that only the last one could tell.
    for more in [1, 999, PIECE as u64] {
        let liar = Liar::new(&info(&films, more), noise(2 * 32 + 10, 11));
        let summary = complete(&films, films.get(&[&liar.peer, &good.peer], &["--force"]).end());
        assert_eq!(state(&summary, &liar.peer), "banned");
    }
}

#[test]
fn servers_with_different_files_of_one_name_are_told_apart() {
    let films = Films::new(4, 12);
    let good = films.share("good", &OPEN);
    let other = films.directory("other");
    let wrong = noise(5 * PIECE, 13);
    fs::write(other.join("new/film"), &wrong).unwrap();
    let other = films.world.share("other", &other, &OPEN);
    let ended = films.get(&[&good.peer, &other.peer], &[]).end().expect(1);
    let wrong = blake3::hash(&wrong).to_hex().to_string();
    for word in [films.root().as_str(), &wrong, "--root", &good.peer[..8], &other.peer[..8]] {
        assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr);
    }
    assert_eq!(
        entries(films.world.path("").as_path()).iter().filter(|name| name.contains(".part")).count(),
        0
    );
    let summary = complete(&films, films.get(&[&good.peer, &other.peer], &["--root", &films.root()]).end());
    assert_eq!(
        (state(&summary, &good.peer), state(&summary, &other.peer)),
        ("active".into(), "differs".into())
    );
    let nobody = "00".repeat(32);
    let ended = films.get(&[&good.peer, &other.peer], &["--force", "--root", &nobody]).end().expect(1);
    assert!(ended.stderr.contains("another file"), "{}", ended.stderr);
    films.is_there();
}

#[test]
fn a_file_that_changes_while_it_is_fetched_is_told() {
    let films = Films::new(16, 14);
    let directory = films.directory("a");
    let server = films.world.share("a", &directory, &SLOW);
    let mut get = films.get(&[&server.peer], &[]);
    some_has_come(&mut get);
    let changed = noise(PIECE, 15);
    fs::write(directory.join("new/film"), &changed).unwrap();
    let ended = get.end().expect(1);
    assert!(
        ended.stderr.contains("has changed") || ended.stderr.contains("being changed"),
        "{}",
        ended.stderr
    );
    // The same command fails.
    assert!(ended.stderr.contains("--root") && ended.stderr.contains("--force"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("same command"), "{}", ended.stderr);
    assert!(films.part().exists() && !films.target().exists());
    // The new version is not mixed with the old one.
    let ended = films.get(&[&server.peer], &[]).end().expect(1);
    assert!(ended.stderr.contains("another version") && ended.stderr.contains("--force"), "{}", ended.stderr);
    films.get(&[&server.peer], &["--force"]).end().expect(0);
    assert!(fs::read(films.target()).unwrap() == changed);
}

fn ask(films: &Films, peer: &str, method: &str, question: &Value) -> Ended {
    films.world.run(&["call", peer, method, &question.to_string(), "--json"])
}

/// The status that a call was answered with.
fn status(ended: &Ended) -> u64 {
    number(&ended.lines().pop().unwrap(), "status")
}

#[test]
fn nothing_outside_of_the_directory_is_served() {
    let films = Films::new(1, 16);
    films.world.file("secret", b"secret");
    let directory = films.directory("a");
    symlink(films.world.path("secret"), directory.join("link")).unwrap();
    symlink("..", directory.join("up")).unwrap();
    fs::write(directory.join(".env"), b"secret").unwrap();
    let server = films.world.share("a", &directory, &OPEN);
    let absolute = films.world.path("secret").display().to_string();
    let root = blake3::hash(b"secret").to_hex().to_string();
    for name in ["../secret", "new/../../secret", "link", "up/secret", ".env", &absolute, "", "missing"] {
        let refused =
            ask(&films, &server.peer, "exon.share.info", &json!({ "v": 1, "name": name })).expect(5);
        assert_eq!(status(&refused), 2, "{name}");
        let question = json!({ "v": 1, "name": name, "root": root, "index": 0 });
        let refused = ask(&films, &server.peer, "exon.share.piece", &question).expect(5);
        assert_eq!(status(&refused), 2, "{name}");
    }
    let listed = films.world.run(&["get", "--from", &server.peer, "--list", "--json"]).expect(0);
    let names: Vec<_> = listed.of_type("file").iter().map(|file| file["name"].clone()).collect();
    assert_eq!(names, ["new/film"]);
}

#[test]
fn a_question_that_makes_no_sense_is_refused() {
    let films = Films::new(1, 17);
    let server = films.share("a", &OPEN);
    let (name, root) = ("new/film", films.root());
    for (method, question) in [
        ("exon.share.info", json!({ "v": 2, "name": name })),
        ("exon.share.info", json!({ "name": name })),
        ("exon.share.list", json!([])),
        ("exon.share.piece", json!({ "v": 1, "name": name, "root": root, "index": 1 })),
        ("exon.share.piece", json!({ "v": 1, "name": name, "root": root, "index": -1 })),
        ("exon.share.piece", json!({ "v": 1, "name": name, "root": "x", "index": 0 })),
    ] {
        let refused = ask(&films, &server.peer, method, &question);
        assert_ne!(refused.code, Some(0), "{method} {question}");
        assert!(refused.stdout.contains("bad request"), "{method} {question}: {}", refused.stdout);
    }
    // A stranger who knows the page gets a piece: one of one has no proof.
    let question = json!({ "v": 1, "name": name, "root": root, "index": 0 });
    ask(&films, &server.peer, "exon.share.piece", &question).expect(0);
}

#[test]
fn only_who_is_allowed_gets_anything() {
    let films = Films::new(2, 18);
    let me = films.world.run(&["id", "me", "--new"]).expect(0).stdout;
    let server = films.share("a", &["--allow", me.trim()]);
    let refused = films.get(&[&server.peer], &[]).end().expect(1);
    assert!(refused.stderr.contains("--allow"), "{}", refused.stderr);
    let refused = films.world.run(&["get", "--from", &server.peer, "--list", "--json"]).expect(1);
    assert!(!refused.stdout.contains("film"), "{}", refused.stdout);
    assert_eq!((&refused.summary()["end"], &refused.summary()["failed"]), (&"failed".into(), &1.into()));
    complete(&films, films.get(&[&server.peer], &["--as", "me"]).end());
}

#[test]
fn what_is_there_is_not_replaced_unless_that_is_said() {
    let films = Films::new(2, 19);
    let server = films.share("a", &OPEN);
    fs::write(films.target(), b"mine").unwrap();
    let ended = films.get(&[&server.peer], &[]).end().expect(1);
    assert!(ended.stderr.contains("--force"), "{}", ended.stderr);
    assert_eq!(fs::read(films.target()).unwrap(), b"mine");
    complete(&films, films.get(&[&server.peer], &["--force"]).end());
    // A part that another program has left.
    fs::remove_file(films.target()).unwrap();
    fs::write(films.part(), b"mine").unwrap();
    let ended = films.get(&[&server.peer], &[]).end().expect(1);
    assert!(ended.stderr.contains("film.part exists"), "{}", ended.stderr);
    assert_eq!(fs::read(films.part()).unwrap(), b"mine");
}

#[test]
fn files_of_no_bytes_and_of_one_are_files() {
    let films = Films::new(1, 20);
    let directory = films.directory("a");
    for (name, content) in [("empty", &b""[..]), ("one", b"1"), ("piece", &[7; PIECE])] {
        fs::write(directory.join(name), content).unwrap();
        let server = films.world.share(&format!("of {name}"), &directory, &OPEN);
        // Without --out it has its own name, where the command runs.
        let mut get = films.world.command(&["get", "--from", &server.peer, name, "--json"]);
        get.current_dir(films.world.path(""));
        Running::start(get).end().expect(0);
        assert!(fs::read(films.world.path(name)).unwrap() == content);
        // In a directory that is there, it has its name too.
        let into = films.world.path(&format!("into {name}"));
        fs::create_dir(&into).unwrap();
        films.world.run(&["get", "--from", &server.peer, name, "--out", arg(&into)]).expect(0);
        assert_eq!(entries(&into), [name]);
    }
}

#[test]
fn a_full_disk_is_told_and_what_has_come_is_kept() {
    let films = Films::new(16, 21);
    let server = films.share("a", &OPEN);
    let whole =
        films.world.command(&["get", "new/film", "--from", &server.peer, "--out", arg(&films.target())]);
    // No file of this process may have more than 1 MiB.
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 2048; exec \"$@\"", "sh"]).arg(whole.get_program());
    limited.args(whole.get_args()).env("EXONET_STATE", films.world.path("state"));
    limited.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let ended = Running::start(limited).end().expect(1);
    assert!(ended.stderr.contains("cannot write") && ended.stderr.contains("film.part"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    complete(&films, films.get(&[&server.peer], &[]).end());
}

#[test]
fn what_is_shared_is_listed() {
    let films = Films::new(1, 22);
    let (a, b) = (films.share("a", &OPEN), films.share("b", &OPEN));
    let listed =
        films.world.run(&["get", "--list", "--from", &a.peer, "--from", &b.peer, "--json"]).expect(0);
    let files = listed.of_type("file");
    assert_eq!((files.len(), listed.summary()["files"].clone()), (2, 2.into()));
    assert_eq!(
        (&files[1]["name"], number(&files[1], "size")),
        (&"new/film".into(), films.content.len() as u64)
    );
    assert!(b.peer.starts_with(files[1]["peer"].as_str().unwrap()));
    // People read a table.
    let told = films.world.run(&["get", "--list", "--from", &a.peer]).expect(0).stdout;
    assert_eq!(told, " 255.0 KiB  new/film\n");
    // One that is not there does not keep the others back.
    let gone = b.peer.clone();
    drop(b);
    let listed = films.world.run(&["get", "--list", "--from", &gone, "--from", &a.peer]).expect(1);
    assert!(
        listed.stdout.contains("new/film") && listed.stderr.contains("does not answer"),
        "{}",
        listed.stderr
    );
}

#[test]
fn a_node_that_shares_nothing_is_named() {
    let films = Films::new(1, 23);
    let (good, other) = (films.share("good", &OPEN), films.world.serve(&["--echo"]));
    let ended = films.get(&[&other.peer, &good.peer], &[]).end();
    assert!(ended.stderr.contains("exon share DIR"), "{}", ended.stderr);
    complete(&films, ended);
}
