//! This implementation, as a subject of its own checks.

use serde_json::Value;

#[cfg(unix)]
use crate::support::Running;
use crate::support::{Listener, World};

fn subject(world: &World) -> Listener {
    world.listener_of("listening", world.command(&["conformance", "--subject", "--json"]))
}

#[test]
fn this_implementation_conforms() {
    let world = World::new();
    let subject = subject(&world);
    let ended = world.run(&["conformance", &subject.peer, "--jobs", "4", "--json"]).expect(0);
    let checks = ended.of_type("check");
    let names: Vec<&str> = checks.iter().map(|line| line["check"].as_str().unwrap()).collect();
    for name in ["handshake", "early", "loss", "corruption", "calls-back", "streams", "rejected", "restart"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert!(checks.iter().all(|line| line["passed"] == true), "{checks:?}");
    let last = ended.lines().pop().unwrap();
    assert_eq!((&last["type"], &last["failed"]), (&Value::from("summary"), &Value::from(0)));
    assert_eq!(last["passed"], names.len());
}

#[cfg(unix)]
#[test]
fn a_subject_prints_its_address_and_ends_in_order() {
    let world = World::new();
    let mut running = Running::start(world.command(&["conformance", "--subject"]));
    let peer = running.hears("@127.0.0.1:");
    let checked = world.run(&["conformance", peer.trim(), "--only", "messages"]).expect(0);
    assert!(checked.stdout.contains("1 passed, 0 failed"), "{}", checked.stdout);
    running.signal(rustix::process::Signal::INT);
    let ended = running.end().expect(130);
    assert_eq!((ended.stdout.as_str(), ended.stderr.lines().count()), ("", 1), "{}", ended.stderr);
}

/// A listener takes messages, and does nothing else of what a subject does.
#[test]
fn what_does_not_conform_is_found_and_told() {
    let world = World::new();
    let listener = world.listen(&[]);
    let only = ["--only", "handshake", "--only", "messages", "--only", "rejected", "--timeout", "3s"];
    let ended = world.run(&[&["conformance", &listener.peer][..], &only].concat()).expect(1);
    let row = |name: &str| ended.stdout.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(row("handshake").contains(" ok "), "{}", ended.stdout);
    assert!(row("messages").contains("FAILED  it did not end within 3"), "{}", ended.stdout);
    assert!(
        row("rejected").contains("FAILED  a message that is to be rejected ended Delivered"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("PROTOCOL.md, \"Half-connection\""), "{}", ended.stdout);
    assert!(ended.stdout.contains("PROTOCOL.md, \"Confirmation\""), "{}", ended.stdout);
    assert!(
        ended.stdout.ends_with(" s\n") && ended.stdout.contains("1 passed, 2 failed"),
        "{}",
        ended.stdout
    );
}

#[test]
fn checks_have_names() {
    let world = World::new();
    let listed = world.run(&["conformance", "--list"]).expect(0).stdout;
    assert!(listed.lines().any(|line| line.starts_with("streams ") && line.ends_with("Streams")), "{listed}");
    let nobody = "ahk6tf3oco4p4sqn2wc6ai2crd72dhkdsfyqq24cwfldfadwnwxxdbvv@127.0.0.1:9";
    let wrong = world.run(&["conformance", nobody, "--only", "nothing"]).expect(2);
    assert!(
        wrong.stderr.contains("there is no check \"nothing\"") && wrong.stderr.contains("--list"),
        "{}",
        wrong.stderr
    );
}
