//! Copies that are interrupted, repeated and changed, of directories, pipes and files that are none, and to whom they
//! are not welcome.

use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use exonet::{Allow, Node, PeerAddr};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::relay::Relay;
use crate::support::{Ended, Listener, Running, World, arg, entries, free_address, noise};

const MIB: u64 = 1 << 20;

/// A listener that can be killed and started again as itself, and what is between.
struct Inbox {
    world: World,
    address: SocketAddr,
    out: PathBuf,
    listener: Listener,
    relay: Relay,
}

impl Inbox {
    fn new(options: &[&str]) -> Self {
        let world = World::new();
        let address = free_address();
        let out = world.path("out");
        let options = [&["--out", arg(&out)], options].concat();
        let listener = world.listen_at(&address.to_string(), &options);
        Self { relay: Relay::new(address), world, address, out, listener }
    }

    fn start_again(&mut self) {
        self.listener.running.wait();
        let options = ["--out", arg(&self.out)];
        self.listener = self.world.listen_at(&self.address.to_string(), &options);
    }

    /// What is to be copied, through the relay.
    fn copy(&self, args: &[&str]) -> Running {
        let peer = self.relay.peer(&self.listener.peer);
        Running::start(self.world.command(&[&["cp", "--json"], args, &[peer.as_str()]].concat()))
    }

    fn stored(&self, name: &str) -> Vec<u8> {
        fs::read(self.out.join(name)).unwrap()
    }
}

fn number(line: &Value, name: &str) -> u64 {
    line[name].as_u64().unwrap_or_else(|| panic!("{name} of {line}"))
}

#[test]
fn what_is_there_is_not_sent_again_when_the_sender_is_killed() {
    let inbox = Inbox::new(&[]);
    let content = noise(40 << 20, 21);
    let file = inbox.world.file("big", &content);
    for more in [MIB, 10 * MIB, 15 * MIB] {
        let mut copy = inbox.copy(&[arg(&file)]);
        inbox.relay.await_bytes_to_server(more);
        copy.kill();
        copy.wait();
    }
    assert!(!inbox.out.join("big").exists());
    let copied = inbox.copy(&[arg(&file)]).end().expect(0);
    // 26 MiB came before, of which what was under way at three kills may be lost: 16 pieces of 256 KiB each.
    assert!(number(&copied.summary(), "sent") <= (40 - 26 + 3 * 4) * MIB, "{}", copied.summary());
    let allowed = (40 + 3 * 4 + 4) * MIB;
    assert!(inbox.relay.passed_to_server() < allowed, "{}", inbox.relay.passed_to_server());
    assert!(inbox.stored("big") == content);
    assert_eq!(copied.of_type("file")[0]["hash"], blake3::hash(&content).to_hex().to_string());
    assert_eq!(entries(&inbox.out), ["big"]);
}

fn restarted(end: impl Fn(&mut Listener)) {
    let mut inbox = Inbox::new(&[]);
    let content = noise(40 << 20, 22);
    let file = inbox.world.file("big", &content);
    let copy = inbox.copy(&[arg(&file)]);
    for more in [MIB, 10 * MIB, 15 * MIB] {
        inbox.relay.await_bytes_to_server(more);
        end(&mut inbox.listener);
        inbox.start_again();
    }
    let copied = copy.end().expect(0);
    assert_eq!(copied.of_type("file")[0]["outcome"], "stored");
    assert!(inbox.stored("big") == content);
    // What had been acknowledged did not have to be acknowledged again.
    assert_eq!(number(&copied.summary(), "sent"), 40 * MIB);
    assert_eq!(entries(&inbox.out), ["big"]);
}

#[test]
fn a_copy_goes_on_by_itself_when_the_receiver_is_killed() {
    restarted(|listener| listener.running.kill());
}

#[test]
fn a_copy_goes_on_by_itself_when_the_receiver_is_stopped_and_started() {
    restarted(|listener| listener.running.signal(Signal::TERM));
}

#[test]
fn standard_input_survives_the_receiver_too() {
    let mut inbox = Inbox::new(&[]);
    let content = noise(12 << 20, 23);
    let peer = inbox.relay.peer(&inbox.listener.peer);
    let mut command = inbox.world.command(&["cp", "-", "--name", "from input", "--json", &peer]);
    command.stdin(std::process::Stdio::piped());
    let mut copy = Running::start(command);
    let (mut input, whole) = (copy.stdin(), content.clone());
    let feeding = std::thread::spawn(move || input.write_all(&whole).unwrap());
    inbox.relay.await_bytes_to_server(4 * MIB);
    inbox.listener.running.kill();
    inbox.start_again();
    copy.end().expect(0);
    feeding.join().unwrap();
    assert!(inbox.stored("from input") == content);
}

#[test]
fn a_stopped_copy_says_what_is_certain_and_goes_on() {
    let inbox = Inbox::new(&[]);
    let content = noise(20 << 20, 24);
    let (big, small) = (inbox.world.file("big", &content), inbox.world.file("small", b"s"));
    let copy = inbox.copy(&[arg(&big), arg(&small)]);
    inbox.relay.await_bytes_to_server(8 * MIB);
    inbox.relay.lose_to_server(true);
    copy.signal(Signal::INT);
    let copied = copy.end().expect(130);
    let line = copied.of_type("file").into_iter().find(|line| line["name"] == "big").unwrap();
    // Half of its bytes have not left: that it is not stored is certain.
    assert_eq!(line["outcome"], "cancelled");
    let held = number(&line, "held");
    assert!(held > 0 && held < 20 * MIB, "{held}");
    inbox.relay.lose_to_server(false);
    let copied = inbox.copy(&[arg(&big), arg(&small)]).end().expect(0);
    assert!(number(&copied.summary(), "sent") <= 20 * MIB + 1 - held);
    assert!(inbox.stored("big") == content);
}

#[test]
fn nobody_there_ends_with_the_timeout_and_certainty() {
    let world = World::new();
    let listener = world.listen(&["--out", arg(&world.path("out"))]);
    let peer = listener.peer.clone();
    drop(listener);
    let file = world.file("f", b"content");
    let copied = world.run(&["cp", arg(&file), &peer, "--timeout", "300ms", "--json"]).expect(4);
    assert_eq!(copied.of_type("file")[0]["outcome"], "cancelled");
    assert_eq!(copied.summary()["end"], "timed out");
}

#[test]
fn a_complete_copy_sends_nothing_again() {
    let inbox = Inbox::new(&["--exit-after", "4"]);
    let content = noise(3 << 20, 25);
    let file = inbox.world.file("f", &content);
    let first = inbox.copy(&[arg(&file)]).end().expect(0);
    assert_eq!(number(&first.summary(), "sent"), 3 * MIB);
    // What was lost or delayed on the way has left more than once.
    let passed = inbox.relay.passed_to_server();
    for again in [&[arg(&file)][..], &[arg(&file), "--checksum"]] {
        let copied = inbox.copy(again).end().expect(0);
        assert_eq!(copied.of_type("file")[0]["outcome"], "there");
        assert_eq!((number(&copied.summary(), "sent"), number(&copied.summary(), "there")), (0, 1));
    }
    // Another time, the same content: its hash is asked for.
    fs::File::options().write(true).open(&file).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let copied = inbox.copy(&[arg(&file)]).end().expect(0);
    assert_eq!((number(&copied.summary(), "sent"), number(&copied.summary(), "there")), (0, 1));
    assert!(inbox.relay.passed_to_server() - passed < MIB);
    let heard = inbox.listener.running.end().expect(0);
    let there: Vec<_> = heard.of_type("file").iter().map(|line| line["already_there"].clone()).collect();
    assert_eq!(there, [false, true, true, true]);
}

#[test]
fn content_that_only_looks_the_same_is_found_by_its_hash() {
    let inbox = Inbox::new(&["--overwrite"]);
    let file = inbox.world.file("f", b"one");
    inbox.copy(&[arg(&file)]).end().expect(0);
    let time = fs::metadata(&file).unwrap().modified().unwrap();
    fs::write(&file, b"two").unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
    assert_eq!(inbox.copy(&[arg(&file)]).end().expect(0).summary()["there"], 1);
    assert_eq!(inbox.stored("f"), b"one");
    assert_eq!(inbox.copy(&[arg(&file), "--checksum"]).end().expect(0).summary()["stored"], 1);
    assert_eq!(inbox.stored("f"), b"two");
}

fn old(path: &Path, mode: u32, seconds: u64) {
    fs::File::open(path)
        .unwrap()
        .set_modified(SystemTime::UNIX_EPOCH + Duration::new(seconds, 123_456_789))
        .unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Path, mode and time of everything below, and where links lead.
fn listing(root: &Path) -> Vec<String> {
    let (mut found, mut below) = (Vec::new(), vec![root.to_owned()]);
    while let Some(path) = below.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        let name = path.strip_prefix(root.parent().unwrap()).unwrap().display().to_string();
        if about.is_symlink() {
            found.push(format!("{name} -> {}", fs::read_link(&path).unwrap().display()));
            continue;
        }
        let (mode, time) = (about.permissions().mode(), about.modified().unwrap());
        let content = if about.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        found.push(format!("{name} {mode:o} {time:?} {}", blake3::hash(&content)));
        if about.is_dir() {
            below.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found.sort();
    found
}

#[test]
fn directories_come_with_modes_times_and_links() {
    let inbox = Inbox::new(&[]);
    let tree = inbox.world.path("tree");
    for directory in ["", "sub/deep", "empty", "locked"] {
        fs::create_dir_all(tree.join(directory)).unwrap();
    }
    for (n, name) in ["run.sh", "sub/data", "sub/deep/.hidden", "locked/in", "sub/nothing"].iter().enumerate()
    {
        fs::write(tree.join(name), noise(n * 1_000, n as u64)).unwrap();
        old(&tree.join(name), if n % 2 == 0 { 0o640 } else { 0o751 }, 1_000_000 + n as u64);
    }
    symlink("sub/data", tree.join("link")).unwrap();
    symlink("../run.sh", tree.join("sub/up")).unwrap();
    for (n, directory) in ["empty", "sub/deep", "sub", "locked", ""].iter().enumerate() {
        old(&tree.join(directory), if *directory == "locked" { 0o555 } else { 0o751 }, 2_000_000 + n as u64);
    }
    assert!(inbox.copy(&[arg(&tree)]).end().expect(2).stdout.contains("exon cp -r"));
    inbox.copy(&["-r", arg(&tree)]).end().expect(0);
    assert_eq!(listing(&inbox.out.join("tree")), listing(&tree));
    // Again: nothing. With a file more: that.
    let again = inbox.copy(&["-r", arg(&tree)]).end().expect(0).summary();
    assert_eq!((number(&again, "stored"), number(&again, "there"), number(&again, "sent")), (0, 5, 0));
    fs::write(tree.join("sub/more"), b"more").unwrap();
    let more = inbox.copy(&["-r", arg(&tree)]).end().expect(0).summary();
    assert_eq!((number(&more, "stored"), number(&more, "there"), number(&more, "sent")), (1, 5, 4));
    assert_eq!(entries(&inbox.out), ["tree"]);
    // So that the place can be removed.
    for place in [&inbox.out.join("tree"), &tree] {
        fs::set_permissions(place.join("locked"), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn what_cannot_be_copied_is_named_and_the_rest_goes() {
    let inbox = Inbox::new(&[]);
    let tree = inbox.world.path("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("good"), b"good").unwrap();
    inbox.world.pipe("tree/pipe");
    let _socket = std::os::unix::net::UnixListener::bind(tree.join("socket")).unwrap();
    symlink("/etc/passwd", tree.join("absolute")).unwrap();
    symlink("../../outside", tree.join("climbing")).unwrap();
    let copied = inbox.copy(&["-r", arg(&tree)]).end().expect(1);
    let failed = copied.of_type("file").into_iter().filter(|line| line["outcome"] == "failed");
    let mut reasons: Vec<String> = failed.map(|line| line["reason"].as_str().unwrap().to_owned()).collect();
    reasons.sort();
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    for (reason, word) in reasons.iter().zip(["points out", "points out", "a pipe", "a socket"]) {
        assert!(reason.contains(word), "{reason}");
    }
    assert_eq!(entries(&inbox.out.join("tree")), ["good"]);
    let socket = inbox.copy(&[arg(&tree.join("socket"))]).end().expect(1);
    assert!(socket.stderr.contains("a socket"), "{}", socket.stderr);
}

#[test]
fn what_has_no_size_is_read_to_its_end() {
    let inbox = Inbox::new(&[]);
    // Not what the system says: it says 0.
    let version = fs::read("/proc/version").unwrap();
    inbox.copy(&["/proc/version"]).end().expect(0);
    assert_eq!(inbox.stored("version"), version);
    // Several pieces through a pipe, and a link to it.
    let (pipe, content) = (inbox.world.pipe("pipe"), noise(700_000, 26));
    let copy = inbox.copy(&[arg(&pipe)]);
    fs::write(&pipe, &content).unwrap();
    let copied = copy.end().expect(0);
    assert!(inbox.stored("pipe") == content);
    assert_eq!(number(&copied.of_type("file")[0], "size"), 700_000);
    for (name, content) in [("empty", &b""[..]), ("short", b"x")] {
        let peer = &inbox.listener.peer;
        inbox.world.feed(&["cp", "-", "--as-name", name, peer], content).expect(0);
        assert_eq!(inbox.stored(name), content);
    }
    let nameless = inbox.copy(&["-"]).end().expect(2);
    assert!(nameless.stderr.contains("--name"), "{}", nameless.stderr);
}

#[test]
fn a_pipe_that_nobody_writes_to_ends_with_the_timeout() {
    let inbox = Inbox::new(&[]);
    let pipe = inbox.world.pipe("pipe");
    inbox.copy(&[arg(&pipe), "--timeout", "300ms"]).end().expect(4);
    // Open for writing, so that only its content is missing.
    let _writer = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    inbox.copy(&[arg(&pipe), "--timeout", "300ms"]).end().expect(4);
}

#[test]
fn a_stream_of_which_nothing_has_left_is_certainly_not_stored() {
    let inbox = Inbox::new(&[]);
    let (small, pipe) = (inbox.world.file("small", b"s"), inbox.world.pipe("pipe"));
    let mut copy = inbox.copy(&[arg(&small), arg(&pipe)]);
    assert_eq!(copy.line_of("file")["name"], "small");
    inbox.relay.lose_to_server(true);
    let _writer = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    // The copy has sent the offer of the pipe. Acknowledgements are shorter, and probes of the MTU are longer.
    inbox.relay.await_to_server(|seen| seen.lost && (128..1_000).contains(&seen.len));
    copy.signal(Signal::INT);
    let files = copy.end().expect(130).of_type("file");
    assert_eq!((&files[1]["name"], &files[1]["outcome"]), (&"pipe".into(), &"cancelled".into()));
}

#[test]
fn a_file_that_changes_while_it_is_read_is_begun_anew() {
    for change in ["longer", "shorter"] {
        let mut inbox = Inbox::new(&[]);
        let content = noise(600_000, 27);
        let file = inbox.world.file("f", &content);
        // It is looked at before anybody is asked, and read after somebody has answered.
        inbox.listener.running.kill();
        let copy = inbox.copy(&[arg(&file)]);
        inbox.relay.await_to_server(|_| true);
        let changed =
            if change == "longer" { [&content[..], b"more"].concat() } else { content[..300_000].to_vec() };
        fs::write(&file, &changed).unwrap();
        inbox.start_again();
        let copied = copy.end().expect(0);
        assert!(copied.stderr.contains("started again"), "{}", copied.stderr);
        assert!(inbox.stored("f") == changed);
    }
}

#[test]
fn a_file_that_changed_since_a_part_of_it_was_copied_is_begun_anew() {
    let inbox = Inbox::new(&[]);
    let file = inbox.world.file("f", &noise(20 << 20, 28));
    let mut copy = inbox.copy(&[arg(&file)]);
    inbox.relay.await_bytes_to_server(8 * MIB);
    copy.kill();
    copy.wait();
    let other = noise(20 << 20, 29);
    fs::write(&file, &other).unwrap();
    let copied = inbox.copy(&[arg(&file)]).end().expect(0);
    assert!(copied.stderr.contains("started again: it has changed"), "{}", copied.stderr);
    assert_eq!(number(&copied.summary(), "sent"), 20 * MIB);
    assert!(inbox.stored("f") == other);
    assert_eq!(entries(&inbox.out), ["f"]);
}

#[test]
fn whoever_takes_no_files_says_so_at_once() {
    let world = World::new();
    let file = world.file("f", b"content");
    let server = world.serve(&["--echo"]);
    let copied = world.run(&["cp", arg(&file), &server.peer]).expect(4);
    assert!(copied.stdout.contains("exon listen --out"), "{}", copied.stdout);
    world.run(&["id", "other", "--new"]).expect(0);
    let listener = world.listen(&["--as", "other"]);
    let copied = world.run(&["cp", arg(&file), &listener.peer]).expect(4);
    assert!(copied.stdout.contains("stores no files"), "{}", copied.stdout);
}

#[test]
fn a_directory_of_one_file_is_told_of() {
    let inbox = Inbox::new(&[]);
    fs::create_dir(inbox.world.path("tree")).unwrap();
    let file = inbox.world.file("tree/only", b"x");
    let tree = file.parent().unwrap();
    for end in ["1 stored", "0 stored, 0 B"] {
        let copied = inbox.world.run(&["cp", "-r", arg(tree), &inbox.listener.peer]).expect(0);
        assert!(copied.stderr.contains(end), "{}", copied.stderr);
    }
}

#[test]
fn quiet_is_quiet() {
    let inbox = Inbox::new(&[]);
    let (good, bad) = (inbox.world.file("good", b"x"), inbox.world.file(".bad", b"x"));
    let run =
        |file: &Path, code| inbox.world.run(&["cp", "-q", arg(file), &inbox.listener.peer]).expect(code);
    let Ended { stdout, stderr, .. } = run(&good, 0);
    assert_eq!((stdout.as_str(), stderr.as_str()), ("", ""));
    let Ended { stdout, stderr, .. } = run(&bad, 4);
    assert!(stdout.is_empty() && stderr.contains("begins with a dot"), "{stdout}{stderr}");
}

/// Asks as a stranger who speaks the protocol and means harm.
fn ask(peer: &str, questions: &[(&'static str, Vec<u8>)]) -> Vec<Result<Value, String>> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let peer: PeerAddr = peer.parse().unwrap();
        let node = Node::builder(Allow::only([peer.id])).ephemeral().build().await.unwrap();
        let peer = node.peer(peer);
        let mut answers = Vec::new();
        for (method, body) in questions {
            let reply = match peer.call(*method, body.clone()).await {
                Ok(mut reply) => Ok(serde_json::from_slice(&reply.body.bytes(MIB).await.unwrap()).unwrap()),
                Err(error) => Err(error.to_string()),
            };
            answers.push(reply);
        }
        node.close(Duration::from_secs(1)).await;
        answers
    })
}

fn offer(entries: &[Value]) -> (&'static str, Vec<u8>) {
    let key = "00".repeat(32);
    ("exon.cp.offer", json!({ "v": 1, "key": key, "entries": entries }).to_string().into_bytes())
}

fn piece(head: &Value, data: &[u8]) -> (&'static str, Vec<u8>) {
    let head = head.to_string();
    let mut hash = [0; 32];
    if !data.is_empty() {
        use blake3::hazmat::HasherExt;
        hash = blake3::Hasher::new().update(data).finalize_non_root();
    }
    let len = u16::try_from(head.len()).unwrap().to_be_bytes();
    ("exon.cp.piece", [&len, head.as_bytes(), data, &hash].concat())
}

fn head(path: &str, size: u64) -> Value {
    json!({ "v": 1, "key": "00".repeat(32), "path": path, "size": size, "mtime": 1, "piece": 65_536, "at": 0 })
}

#[test]
fn a_stranger_who_means_harm_gets_nowhere() {
    let inbox = Inbox::new(&["--max-store", "1MiB"]);
    let outside = inbox.world.path("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, inbox.out.join("way")).unwrap();
    let peer = &inbox.listener.peer;
    let paths = ["../f", "/f", "a/../../f", "", "a//b", "way/f", ".exon-f.part", "nul\0l", "way", "."];
    let entries_of = |path: &str| {
        [
            json!({ "kind": "file", "path": path, "size": 1, "mtime": 0 }),
            json!({ "kind": "dir", "path": path, "mtime": 0 }),
            json!({ "kind": "link", "path": path, "target": "x" }),
        ]
    };
    let mut questions: Vec<_> = paths.iter().map(|path| offer(&entries_of(path))).collect();
    // Links that lead out, and what is to be made behind one that does not.
    questions.push(offer(
        &["/etc", "..", "x/..", "../outside"]
            .map(|target| json!({ "kind": "link", "path": "l", "target": target })),
    ));
    questions.push(offer(&[
        json!({ "kind": "file", "path": "f", "size": u64::MAX, "mtime": i64::MIN }),
        json!({ "kind": "file", "path": "f", "size": 2 << 20, "mtime": 0 }),
    ]));
    for answer in ask(peer, &questions) {
        for answer in answer.unwrap()["answers"].as_array().unwrap() {
            assert_eq!(answer["state"], "refused", "{answer}");
        }
    }
    let mut pieces: Vec<_> = paths.iter().map(|path| piece(&head(path, 1), b"x")).collect();
    // It says that it is small, and is not; then it comes without end.
    pieces.push(piece(&head("f", 2 << 20), &vec![7; 65_536]));
    for answer in ask(peer, &pieces).into_iter().take(paths.len()) {
        assert_eq!(answer.unwrap()["state"], "refused");
    }
    let stream: Vec<_> = (0..20)
        .map(|n: u64| {
            let mut head = head("stream", 0);
            head.as_object_mut().unwrap().remove("size");
            head["at"] = (n * 65_536).into();
            let (method, mut body) = piece(&head, &[7; 65_536]);
            let hash = {
                use blake3::hazmat::HasherExt;
                blake3::Hasher::new().set_input_offset(n * 65_536).update(&[7; 65_536]).finalize_non_root()
            };
            let at = body.len() - 32;
            body[at..].copy_from_slice(&hash);
            (method, body)
        })
        .collect();
    let held = Cell::new(0);
    for answer in ask(peer, &stream) {
        held.set(held.get() + u32::from(answer.unwrap()["state"] == "held"));
    }
    assert!(held.get() < 16, "{}", held.get());
    // What is no offer and no piece, and too many entries at once.
    let many = vec![json!({ "kind": "dir", "path": "d", "mtime": 0 }); 1_001];
    let garbage = [
        offer(&many),
        ("exon.cp.offer", b"{}".to_vec()),
        ("exon.cp.offer", br#"{"v":9,"key":"","entries":[]}"#.to_vec()),
        ("exon.cp.seal", vec![0xff; 3_000]),
        ("exon.cp.piece", Vec::new()),
        ("exon.cp.piece", vec![0xff; 70_000]),
        ("exon.cp.piece", vec![0; 2 << 20]),
    ];
    for answer in ask(peer, &garbage) {
        assert!(answer.unwrap_err().contains("bad request"));
    }
    assert!(entries(&outside).is_empty());
    assert!(entries(&inbox.out).iter().all(|name| name == "way" || name.starts_with(".exon-")));
    // It is as well as before, but for its room.
    let file = inbox.world.file("good", &[7; 65_536]);
    let copied = inbox.copy(&[arg(&file)]).end().expect(4);
    assert!(copied.of_type("file")[0]["reason"].as_str().unwrap().contains("room"));
}
