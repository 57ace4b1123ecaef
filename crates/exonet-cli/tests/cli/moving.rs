//! Services that move from one place to another while they are used.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::support::{Running, World, arg};

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
    let (there, door) = arrive(&world, "there", &own);
    let refused = at(&world, "other", &["move", "--as", "calc", "--to", &door]).end().expect(1);
    assert!(
        refused.stderr.contains("waits for") && refused.stderr.contains("nothing has changed"),
        "{}",
        refused.stderr
    );
    // Nobody is there: the identity stays as it is.
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
    let load = dir.checkpoint(&exonet::state::SecretKey::from_bytes([7; 32]).node_id(), b"").unwrap();
    drop(dir.cede(&load).unwrap());
    let left = Running::start(serve(&world, "here", &[])).end().expect(1);
    assert!(left.stderr.contains("has moved"), "{}", left.stderr);
    let back = at(&world, "here", &["move", "--as", "calc", "--take-back", "--json"]).end().expect(0);
    assert_eq!(back.of_type("taken_back")[0]["generation"], 2);
    drop(world.listener_of("listening", serve(&world, "here", &[])));
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
