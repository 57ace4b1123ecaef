//! Loss, and processes that end, are killed and come back.

use std::io::Read as _;
use std::sync::mpsc::{Receiver, channel};

use rustix::process::Signal;

use super::{Target, client, entrance, forward, is_reset, port, proxy, proxy_at, say, say_all, why};
use crate::relay::Relay;
use crate::support::{World, noise};

/// An echo that tells how each of its connections ended.
pub(super) fn witness() -> (Target, Receiver<bool>) {
    let (tell, heard) = channel();
    let target = Target::new("127.0.0.1:0", move |mut socket| {
        let mut buffer = [0; 4_096];
        let well = loop {
            match socket.read(&mut buffer) {
                Ok(0) => break true,
                Ok(read) if std::io::Write::write_all(&mut socket, &buffer[..read]).is_ok() => {}
                _ => break false,
            }
        };
        let _ = tell.send(well);
    });
    (target, heard)
}

#[test]
fn a_connection_goes_on_through_loss() {
    let world = World::new();
    let target = Target::echo();
    let far = proxy(&world, &["--allow-to", "127.0.0.1:*"]);
    let server = far.peer.split_once('@').unwrap().1.parse().unwrap();
    let relay = Relay::new(server);
    let (mut near, at) = entrance(&world, target.at, &relay.peer(&far.peer));
    let mut socket = client(at);
    say(&mut socket, b"first");
    let talk = std::thread::spawn(move || say_all(socket, &noise(10_000_000, 4)));
    for _ in 0..5 {
        relay.lose_to_server(true);
        relay.await_to_server(|seen| seen.lost);
        relay.lose_to_server(false);
        relay.await_to_server(|seen| !seen.lost);
        relay.lose_to_caller(true);
        relay.await_to_caller(|seen| seen.lost);
        relay.lose_to_caller(false);
        relay.await_to_caller(|seen| !seen.lost);
    }
    talk.join().unwrap();
    assert_eq!(why(&mut near), "ended");
}

#[test]
fn without_keep_a_far_end_that_is_killed_resets_what_stood_and_takes_new_connections_when_it_is_back() {
    let world = World::new();
    let (target, ended) = witness();
    let allow = ["--allow-to", "127.0.0.1:*", "--allow-listen", "127.0.0.1:*", "--keep", "0"];
    let mut far = proxy(&world, &allow);
    let (peer, bind) = (far.peer.clone(), far.peer.split_once('@').unwrap().1.to_owned());
    let to = format!("0:{}", target.at);
    let mut near = forward(&world, &["-L", &to, "-R", &to, &peer]);
    let (at, mut reverse) = (port(&mut near), port(&mut near));
    for _ in 0..2 {
        let mut stood = client(at);
        say(&mut stood, b"before");
        let mut came = client(reverse);
        say(&mut came, b"before");
        far.running.kill();
        far.running.wait();
        is_reset(came);
        assert!(!ended.recv().unwrap(), "the far end held the socket of the first");
        far = proxy_at(&world, &bind, &allow);
        // It knows nothing of the one that stood, and the near end hears that.
        let mut new = client(at);
        say(&mut new, b"after");
        is_reset(stood);
        assert!(!ended.recv().unwrap(), "the near end held the socket of the second");
        // The port that was asked for is asked for again.
        reverse = port(&mut near);
        let mut came = client(reverse);
        say(&mut came, b"after");
        drop((new, came));
        assert!(ended.recv().unwrap() && ended.recv().unwrap());
    }
    // One that is stopped says so.
    let mut stood = client(at);
    say(&mut stood, b"before");
    far.running.signal(Signal::TERM);
    is_reset(stood);
    far.running.end().expect(130);
    assert!(!ended.recv().unwrap());
    far = proxy_at(&world, &bind, &allow);
    let mut new = client(at);
    say(&mut new, b"after");
    near.signal(Signal::INT);
    is_reset(new);
    near.end().expect(130);
    assert!(!ended.recv().unwrap());
    far.running.line_of("left");
}

#[test]
fn connections_wait_for_a_far_end_that_is_not_there_yet() {
    let world = World::new();
    let target = Target::echo();
    let mut far = proxy(&world, &["--allow-to", "127.0.0.1:*"]);
    let (peer, bind) = (far.peer.clone(), far.peer.split_once('@').unwrap().1.to_owned());
    far.running.kill();
    far.running.wait();
    let (mut near, at) = entrance(&world, target.at, &peer);
    let early = client(at);
    let talk = std::thread::spawn(move || say_all(early, b"early"));
    near.line_of("away");
    let _far = proxy_at(&world, &bind, &["--allow-to", "127.0.0.1:*"]);
    talk.join().unwrap();
    near.line_of("closed");
    drop(near);
    // One that waits for too long is reset.
    let mut near =
        forward(&world, &["-L", &format!("0:{}", target.at), "--timeout", "10ms", &nowhere(&peer)]);
    is_reset(client(port(&mut near)));
    assert_eq!(why(&mut near), "unanswered");
}

/// The same node, where it is not.
fn nowhere(peer: &str) -> String {
    let hole = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = hole.local_addr().unwrap();
    // It stays bound to the end of the test, and answers nothing.
    std::mem::forget(hole);
    format!("{}@{at}", peer.split_once('@').unwrap().0)
}

#[test]
fn without_keep_a_near_end_that_comes_back_ends_what_it_has_left() {
    let world = World::new();
    let (target, ended) = witness();
    let mut far = proxy(&world, &["--allow-to", "127.0.0.1:*"]);
    world.run(&["id", "me", "--new"]).expect(0);
    let to = format!("0:{}", target.at);
    let start = || forward(&world, &["--as", "me", "--keep", "0", "-L", &to, &far.peer]);
    let mut near = start();
    let mut stood = client(port(&mut near));
    say(&mut stood, b"before");
    near.kill();
    near.wait();
    is_reset(stood);
    let mut near = start();
    assert!(!ended.recv().unwrap(), "the target sees a reset");
    let mut new = client(port(&mut near));
    say(&mut new, b"after");
    assert_eq!(why(&mut far.running), "restarted");
}
