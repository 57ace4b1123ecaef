//! Many connections.

use std::sync::Barrier;

use super::{Target, client, entrance, proxy, say, say_all, why};
use crate::support::{World, noise};

#[test]
fn thousands_of_connections_come_one_after_the_other() {
    let world = World::new();
    let target = Target::echo();
    let far = proxy(&world, &["--allow-to", "127.0.0.1:*"]);
    let (mut near, at) = entrance(&world, target.at, &far.peer);
    for n in 0..3_000_u64 {
        say_all(client(at), &noise(10, n));
    }
    for _ in 0..3_000 {
        assert_eq!(why(&mut near), "ended");
    }
    near.signal(rustix::process::Signal::INT);
    let summary = near.end().expect(130).summary();
    assert_eq!((&summary["connections"], &summary["failed"]), (&3_000.into(), &0.into()), "{summary}");
}

#[test]
fn hundreds_of_connections_stand_at_once() {
    let world = World::new();
    let target = Target::echo();
    let far = proxy(&world, &["--allow-to", "127.0.0.1:*"]);
    let (_near, at) = entrance(&world, target.at, &far.peer);
    let all_there = Barrier::new(200);
    std::thread::scope(|scope| {
        for n in 0..200_u64 {
            let all_there = &all_there;
            scope.spawn(move || {
                let mut socket = client(at);
                say(&mut socket, &noise(1_000, n));
                all_there.wait();
                say_all(socket, &noise(50_000, n));
            });
        }
    });
}
