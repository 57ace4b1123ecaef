//! Services that move from one place to another while they are used.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use exonet::error::CallError;
use exonet::{Allow, Node, PeerAddr};

use crate::support::{Running, World, arg, free_address, until};

/// If a door has not refused a call after this time, it holds the call.
const HELD: Duration = Duration::from_secs(20);

/// A service of sessions and calls: what its processes say tells where they run.
fn serve(world: &World, place: &str, more: &[&str]) -> Command {
    let script = format!(
        "case $EXON_METHOD in where) echo {place};; *) while read line; do echo \"{place} $line\"; done;; esac"
    );
    let names = format!("file:{}", arg(&world.path("services")));
    let mut args =
        vec!["serve", "--as", "calc", "--bind", "127.0.0.1:0", "--json", "--names", &names, "--name", "calc"];
    args.extend_from_slice(more);
    args.extend_from_slice(&["--method", "where", "--sessions", "log", "--exec", "sh", "-c", &script]);
    let mut command = world.command(&args);
    command.env("EXONET_STATE", world.path(place));
    command
}

/// Waits for `id` at `place`, and where the door for it is.
fn arrive(world: &World, place: &str, id: &str) -> (Running, String) {
    let mut running = Running::start(serve(world, place, &["--arrive", id, "--door", "127.0.0.1:0"]));
    let door = running.line_of("waiting")["door"].as_str().unwrap().to_owned();
    (running, door)
}

/// `exon` with the identities of `place`.
fn at(world: &World, place: &str, args: &[&str]) -> Running {
    let mut command = world.command(args);
    command.env("EXONET_STATE", world.path(place));
    Running::start(command)
}

#[test]
fn a_session_and_its_callers_go_on_where_the_service_goes() {
    let world = World::new();
    let mut here = world.listener_of("listening", serve(&world, "here", &[]));
    let id = here.peer.split_once('@').unwrap().0.to_owned();
    let names = format!("file:{}", arg(&world.path("services")));
    let mut client = world.command(&["session", "open", "log", "name:calc", "--names", &names, "--json"]);
    client.stdin(Stdio::piped());
    let mut client = Running::start(client);
    let mut input = client.stdin();
    let call = || world.feed(&["call", "name:calc", "where", "--names", &names], b"").expect(0).stdout;
    writeln!(input, "one").unwrap();
    assert_eq!(client.line_of("message")["text"], "here one");
    assert_eq!(call(), "here\n");

    let (mut there, door) = arrive(&world, "there", &id);
    let moved = at(&world, "here", &["move", "--as", "calc", "--to", &door, "--json"]).end().expect(0);
    assert_eq!(moved.summary()["generation"], 1);
    here.running.wait();
    assert_eq!(there.line_of("listening")["id"], id.as_str());
    writeln!(input, "two").unwrap();
    assert_eq!(client.line_of("message")["text"], "there two");
    assert_eq!(call(), "there\n");

    // What was left behind does not start; and it may move back.
    let left = Running::start(serve(&world, "here", &[])).end().expect(1);
    assert!(left.stderr.contains("has moved"), "{}", left.stderr);
    let (mut back, door) = arrive(&world, "here", &id);
    at(&world, "there", &["move", "--as", "calc", "--to", &door]).end().expect(0);
    there.wait();
    back.line_of("listening");
    writeln!(input, "three").unwrap();
    assert_eq!(client.line_of("message")["text"], "here three");
    drop(input);
    let ended = client.end().expect(0);
    assert_eq!(ended.summary()["end"], "closed");
}

#[test]
fn a_door_takes_in_what_it_waits_for_and_nothing_else() {
    let world = World::new();
    let own = at(&world, "here", &["id", "calc", "--new"]).end().expect(0).stdout.trim().to_owned();
    at(&world, "other", &["id", "calc", "--new"]).end().expect(0);
    let (mut there, door) = arrive(&world, "there", &own);
    let refused = at(&world, "other", &["move", "--as", "calc", "--to", &door]).end().expect(1);
    assert!(
        refused.stderr.contains("waits for") && refused.stderr.contains("nothing has changed"),
        "{}",
        refused.stderr
    );
    // Only the caller that moves the identity may wait until the identity answers.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let refused = runtime.block_on(async {
        let stranger = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
        let call = stranger.peer(door.parse::<PeerAddr>().unwrap()).call("exonet.move.2.rebind", "");
        tokio::time::timeout(HELD, call).await.expect("the door holds the call of a stranger")
    });
    assert!(matches!(refused, Err(CallError::Failed { .. })), "{refused:?}");
    // An ordinary node is no door.
    let plain = world.serve(&["--as", "plain", "--state", arg(&world.path("plain")), "--echo"]);
    let refused = at(&world, "here", &["move", "--as", "calc", "--to", &plain.peer]).end().expect(1);
    assert!(refused.stderr.contains("no door is open there"), "{}", refused.stderr);
    assert!(refused.stderr.contains("still lives here"), "{}", refused.stderr);
    // Nobody is there: the identity stays as it is.
    there.says(&format!("exon move --as calc --to {door}"));
    drop(there);
    let nobody =
        at(&world, "here", &["move", "--as", "calc", "--to", &door, "--timeout", "300ms"]).end().expect(1);
    assert!(nobody.stderr.contains("does not answer"), "{}", nobody.stderr);
    let told = at(&world, "here", &["move", "--as", "calc", "--take-back"]).end().expect(1);
    assert!(told.stderr.contains("no identity"), "{}", told.stderr);
    let (mut there, door) = arrive(&world, "there", &own);
    at(&world, "here", &["move", "--as", "calc", "--to", &door]).end().expect(0);
    there.line_of("listening");
}

#[test]
fn an_identity_that_never_arrived_is_taken_back() {
    let world = World::new();
    at(&world, "here", &["id", "calc", "--new"]).end().expect(0);
    // Ceded to a door that is gone, as by a machine that burns down in the middle.
    let path = world.path("here").join("calc");
    let dir = exonet::state::StateDir::open(&path).unwrap();
    let load = dir.checkpoint(&exonet::state::SecretKey::from_bytes([7; 32]).node_id(), &()).unwrap();
    drop(dir.cede(&load).unwrap());
    let left = Running::start(serve(&world, "here", &[])).end().expect(1);
    assert!(left.stderr.contains("has moved"), "{}", left.stderr);
    let back = at(&world, "here", &["move", "--as", "calc", "--take-back", "--json"]).end().expect(0);
    assert_eq!(back.of_type("taken_back")[0]["generation"], 2);
    assert!(back.stderr.contains("no name service was asked"), "{}", back.stderr);
    drop(world.listener_of("listening", serve(&world, "here", &[])));
}

/// A name service that knows where the identity is keeps it from being taken back: by what was granted, and by what is bound.
#[test]
fn an_identity_that_has_arrived_is_not_taken_back() {
    let world = World::new();
    let names = format!("file:{}", arg(&world.path("services")));
    let here = world.listener_of("listening", serve(&world, "here", &[]));
    let id = here.peer.split_once('@').unwrap().0.to_owned();
    let (mut there, door) = arrive(&world, "there", &id);
    at(&world, "here", &["move", "--as", "calc", "--to", &door]).end().expect(0);
    let peer = there.line_of("listening")["peer"].as_str().unwrap().to_owned();
    let take_back = || at(&world, "here", &["move", "--as", "calc", "--take-back", "--names", &names]).end();
    let refused = take_back().expect(1);
    let place = peer.split_once('@').unwrap().1;
    assert!(refused.stderr.contains(&format!("generation 1, at {place}")), "{}", refused.stderr);
    there.kill();
    there.wait();
    at(&world, "there", &["names", "unbind", "calc", "--as", "calc", "--names", &names]).end().expect(0);
    let refused = take_back().expect(1);
    assert!(refused.stderr.contains("generation 1"), "{}", refused.stderr);
    // One that nobody knows of elsewhere is taken back.
    std::fs::remove_file(world.path("services")).unwrap();
    let back = take_back().expect(0);
    assert!(
        back.stderr.contains("generation 2") && !back.stderr.contains("no name service was asked"),
        "{}",
        back.stderr
    );
}

/// The process of the new place is killed at any moment: started again, it is there, or the move has not happened.
#[test]
fn a_door_that_is_killed_opens_again() {
    let world = World::new();
    let own = at(&world, "here", &["id", "calc", "--new"]).end().expect(0).stdout.trim().to_owned();
    let (mut there, door) = arrive(&world, "there", &own);
    at(&world, "here", &["move", "--as", "calc", "--to", &door]).end().expect(0);
    there.kill();
    there.wait();
    let mut again = Running::start(serve(&world, "there", &["--arrive", &own, "--door", "127.0.0.1:0"]));
    assert_eq!(again.line_of("listening")["id"], own.as_str());
}

/// The process of the new place is killed before it has greeted the peers. Its next run greets them.
#[test]
fn a_door_that_is_killed_early_greets_when_it_opens_again() {
    for point in ["door: restored:die", "greeted:die"] {
        let world = World::new();
        let own = at(&world, "here", &["id", "calc", "--new"]).end().expect(0).stdout.trim().to_owned();
        let door = ["--arrive", &*own, "--door", "127.0.0.1:0"];
        let run = |point: &str| {
            let mut command = serve(&world, "there", &door);
            command.env("EXON_MOVE_POINT", point);
            Running::start(command)
        };
        let mut killed = run(point);
        let target = killed.line_of("waiting")["door"].as_str().unwrap().to_owned();
        // This command may end before it hears of the arrival.
        at(&world, "here", &["move", "--as", "calc", "--to", &target, "--timeout", "1s"]).end();
        assert_eq!(killed.end().code, None, "{point}");
        assert_eq!(run("greeted:die").end().code, None, "{point}");
        let mut greets = run("");
        greets.line_of("listening");
        greets.kill();
        greets.wait();
        // The peers know the address now.
        run("greeted:die").line_of("listening");
    }
}

/// A place called *there* that waits for the background node `sender`, and its door.
fn arrive_as_listener(world: &World, id: &str, point: &str) -> (Running, String) {
    let args = ["listen", "--as", "sender", "--json", "--bind", "127.0.0.1:0", "--door", "127.0.0.1:0"];
    let mut command = world.command(&[&args[..], &["--arrive", id]].concat());
    command.env("EXONET_STATE", world.path("there")).env("EXON_MOVE_POINT", point);
    let mut there = Running::start(command);
    let door = there.line_of("waiting")["door"].as_str().unwrap().to_owned();
    (there, door)
}

/// The first line of what is answered over HTTP.
fn fetch(url: &str, token: &str) -> String {
    let (at, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let mut stream = TcpStream::connect(at).unwrap();
    let head = format!("Host: {at}\r\nAuthorization: Bearer {token}\r\nConnection: close");
    write!(stream, "GET /{path} HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    told.lines().next().unwrap_or_default().to_owned()
}

/// A background node goes on where its move fails, with its gateway, its figures and what it waits for. When it has moved, it ends.
#[test]
fn a_background_node_goes_on_if_it_does_not_move() {
    let world = World::new();
    let id = world.run(&["id", "sender", "--new"]).expect(0).stdout.trim().to_owned();
    let listener = world.listen(&["--as", "receiver"]);
    let nobody = free_address();
    let absent = world.run(&["id", "absent", "--new"]).expect(0).stdout.trim().to_owned();
    let args = ["up", "--as", "sender", "--json", "--bind", "127.0.0.1:0"];
    let offers = ["--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
    let mut up = Running::start(world.command(&[&args[..], &offers].concat()));
    let said = up.line_of("up");
    let said = |what: &str| said[what].as_str().unwrap().to_owned();
    let token = std::fs::read_to_string(said("http_token")).unwrap();
    let send = |more: &[&str]| world.run(&[&["send", "--as", "sender", "--up"], more].concat()).expect(0);
    send(&[&listener.peer, "before"]);
    send(&["--durable", &format!("{absent}@{nobody}"), "in the middle"]);

    let (there, door) = arrive_as_listener(&world, &id, "door: load:die");
    let args = ["move", "--as", "sender", "--to", &door, "--timeout", "1s", "--freeze", "500ms"];
    let cut = world.run(&args).expect(1);
    assert!(cut.stderr.contains("still lives here"), "{}", cut.stderr);
    assert_eq!(there.end().code, None);
    up.line_of("stays");
    until("it can be asked again", || Path::new(&said("control")).exists());
    send(&[&listener.peer, "after"]);
    assert_eq!(fetch(&format!("{}/v1/node", said("http")), token.trim()), "HTTP/1.1 200 OK");
    assert_eq!(fetch(&said("metrics"), ""), "HTTP/1.1 200 OK");
    let late = world.listen_at(&nobody.to_string(), &["--as", "absent", "--exit-after", "1"]);
    assert_eq!(late.running.end().expect(0).of_type("message")[0]["text"], "in the middle");

    // What is open goes along.
    send(&["--durable", &format!("{absent}@{nobody}"), "at the end"]);
    let (mut there, door) = arrive_as_listener(&world, &id, "");
    world.run(&["move", "--as", "sender", "--to", &door]).expect(0);
    there.line_of("listening");
    let ended = up.end().expect(0);
    assert_eq!(ended.of_type("up").len(), 1);
    let summary = ended.summary();
    assert_eq!(summary["end"], "moved");
    let figures = ["taken", "recovered", "delivered"].map(|name| summary[name].as_u64().unwrap());
    assert_eq!(figures, [4, 0, 3]);
    let late = world.listen_at(&nobody.to_string(), &["--as", "absent", "--exit-after", "1"]);
    assert_eq!(late.running.end().expect(0).of_type("message")[0]["text"], "at the end");
}
