//! `exon dead`: what was rejected is kept, shown, tried again and thrown away.

use crate::exec::{ANYWHERE, worker};
use crate::support::World;

/// A world in which the worker has rejected these messages.
fn rejected(messages: &[&str]) -> World {
    let world = World::new();
    let listener = worker(&world, ANYWHERE, &[], "echo no such account >&2; exit 65");
    for message in messages {
        world.run(&["send", &listener.peer, message]).expect(4);
    }
    drop(listener);
    world
}

fn dead(world: &World, args: &[&str], code: i32) -> crate::support::Ended {
    world.run(&[&["dead"], args, &["--as", "worker", "--json"]].concat()).expect(code)
}

#[test]
fn letters_are_shown_and_dropped_while_a_node_runs_or_not() {
    let world = rejected(&["pay 1", "pay 2"]);
    let running = worker(&world, ANYWHERE, &[], "exit 65");
    let letters = dead(&world, &["ls"], 0);
    let rows = letters.of_type("letter");
    assert_eq!(rows.len(), 2);
    assert_eq!((&rows[0]["number"], &rows[0]["reason"]), (&1.into(), &"no such account".into()));
    assert_eq!(
        (&rows[0]["status"], &rows[0]["attempts"], &rows[0]["size"]),
        (&65.into(), &1.into(), &5.into())
    );
    assert_eq!(dead(&world, &["show", "2"], 0).of_type("letter")[0]["text"], "pay 2");
    let id = rows[0]["id"].as_str().unwrap();
    assert_eq!(dead(&world, &["show", id], 0).of_type("letter")[0]["text"], "pay 1");
    drop(running);
    dead(&world, &["drop", id], 0);
    assert_eq!(dead(&world, &["show", "1"], 0).of_type("letter")[0]["text"], "pay 2");
    let missing = world.run(&["dead", "show", "7", "--as", "worker"]).expect(1);
    assert!(missing.stderr.contains("there is no dead letter 7"), "{}", missing.stderr);
    dead(&world, &["drop", "--all"], 0);
    assert_eq!(dead(&world, &["ls"], 0).summary()["letters"], 0);
}

#[test]
fn a_letter_goes_when_a_command_has_processed_it_and_stays_otherwise() {
    let world = rejected(&["pay 1", "pay 2"]);
    let retry = |which: &str, code: i32, script: &str| {
        let args = ["dead", "retry", which, "--as", "worker", "--json", "--exec", "sh", "-c", script];
        world.run(&args).expect(code)
    };
    let kept = retry("1", 4, "echo still not >&2; exit 7");
    assert_eq!(
        (&kept.summary()["kept"], &kept.of_type("retried")[0]["reason"]),
        (&1.into(), &"still not".into())
    );
    assert_eq!(dead(&world, &["ls"], 0).summary()["letters"], 2);
    let gone = retry("1", 0, "test \"$(cat)\" = 'pay 1' && test $EXON_ATTEMPT = 2");
    assert_eq!(gone.summary()["processed"], 1);
    let printed = world.run(&["dead", "retry", "--all", "--as", "worker"]).expect(0);
    assert_eq!(printed.stdout, "pay 2\n");
    assert_eq!(dead(&world, &["ls"], 0).summary()["letters"], 0);
}
