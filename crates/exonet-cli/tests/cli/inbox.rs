//! `exon inbox`: what has arrived and is not acknowledged is shown.

use serde_json::Value;

use crate::exec::{ANYWHERE, worker};
use crate::support::{Ended, Running, World, arg, until};

fn inbox(world: &World, args: &[&str]) -> Ended {
    world.run(&[&["inbox"], args, &["--as", "worker"]].concat())
}

fn rows(world: &World) -> Vec<Value> {
    inbox(world, &["ls", "--json"]).expect(0).of_type("message")
}

#[test]
fn what_is_worked_on_and_what_is_put_off_is_shown_with_its_body() {
    let world = World::new();
    let mut gate = world.gate("gate");
    let script = format!(
        "if test \"$(cat)\" = bad; then exit 7; fi; echo > {}; read x < {}",
        arg(&world.pipe("voice")),
        arg(&world.path("gate"))
    );
    let voice = world.voice("voice");
    let mut listener = worker(&world, ANYWHERE, &["--retry-after", "1000s"], &script);
    assert!(inbox(&world, &["ls"]).expect(0).stderr.contains("nothing waits at worker"));
    let send = |args: &[&str]| {
        Running::start(world.command(&[&["send", &listener.peer, "--confirm", "processed"], args].concat()))
    };
    let bad = send(&["bad", "--tag", "order"]);
    listener.running.line_of("put_off");
    let good = send(&["pay 5"]);
    assert!(voice.line().is_some());

    let shown = inbox(&world, &["ls", "--json"]).expect(0);
    assert_eq!((&shown.summary()["messages"], &shown.summary()["running"]), (&2.into(), &true.into()));
    let rows = shown.of_type("message");
    let of = |row: usize, names: [&str; 4]| names.map(|name| rows[row][name].clone());
    assert_eq!(
        of(0, ["state", "tag", "size", "attempts"]),
        ["put_off".into(), Value::from("order"), 3.into(), 1.into()]
    );
    let again = rows[0]["again_ms"].as_u64().unwrap();
    assert!((1..=60_000).contains(&again), "{again}");
    assert_eq!(
        of(1, ["state", "tag", "size", "attempts"]),
        ["handed_out".into(), Value::from(""), 5.into(), 1.into()]
    );
    assert!(rows[1]["for_ms"].is_u64() && rows[1]["again_ms"].is_null());
    let text = inbox(&world, &["ls"]).expect(0).stdout;
    assert!(text.contains("again in") && text.contains("order: bad") && text.contains("pay 5"), "{text}");
    assert_eq!(inbox(&world, &["show", "1"]).expect(0).stdout, "bad");
    let id = rows[1]["id"].as_str().unwrap();
    assert_eq!(inbox(&world, &["show", id, "--json"]).expect(0).of_type("message")[0]["text"], "pay 5");
    let missing = inbox(&world, &["show", "7"]).expect(1);
    assert!(missing.stderr.contains("there is no message 7"), "{}", missing.stderr);

    gate.open();
    good.end().expect(0);
    until("the message has left the inbox", || self::rows(&world).len() == 1);
    drop(bad);
}

#[test]
fn the_journal_of_a_killed_listener_says_what_was_handed_out_again() {
    let world = World::new();
    let script =
        format!("test $EXON_ATTEMPT = 2 || exit 7; echo > {}; sleep 1000", arg(&world.pipe("voice")));
    let voice = world.voice("voice");
    let mut listener = worker(&world, ANYWHERE, &["--retry-after", "1ms"], &script);
    let sender = Running::start(world.command(&["send", &listener.peer, "pay"]));
    assert!(voice.line().is_some());
    let id = rows(&world)[0]["id"].clone();
    listener.running.kill();
    listener.running.wait();
    let left = inbox(&world, &["ls", "--json"]).expect(0);
    assert_eq!(left.summary()["running"], false);
    let row = &left.of_type("message")[0];
    assert_eq!((&row["id"], &row["state"], &row["attempts"]), (&id, &"away".into(), &2.into()));
    assert!(row["size"].is_null() && row["tag"].is_null());
    assert!(inbox(&world, &["show", "1"]).expect(1).stderr.contains("is with its sender"));
    drop(sender);
}
