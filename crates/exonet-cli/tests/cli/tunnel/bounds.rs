//! Back-pressure and limits.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Target, client, entrance, forward, is_reset, port, proxy, say, why};
use crate::support::{World, noise};

/// Bytes that a target has to say.
const ALL: u64 = 200 << 20;
/// More than all that lies between a target and a client that does not read: windows, streams, and buffers of sockets.
const BETWEEN: u64 = 60 << 20;

#[test]
fn a_reader_that_does_not_read_holds_back_its_writer_and_no_other() {
    let world = World::new();
    let written = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&written);
    let part = noise(1 << 20, 5);
    let source = Target::new("127.0.0.1:0", move |mut socket| {
        for _ in 0..ALL >> 20 {
            if socket.write_all(&part).is_err() {
                return;
            }
            counted.fetch_add(1 << 20, Ordering::Relaxed);
        }
    });
    let echo = Target::echo();
    let far = proxy(&world, &["--allow-to", "127.0.0.1:*"]);
    let (source, echo) = (format!("0:{}", source.at), format!("0:{}", echo.at));
    let mut near = forward(&world, &["-L", &source, "-L", &echo, &far.peer]);
    let (source, echo) = (port(&mut near), port(&mut near));
    let mut slow = client(source);
    let mut first = vec![0; 1 << 20];
    slow.read_exact(&mut first).unwrap();
    // Time enough for the source to say all, if nothing held it back.
    let mut other = client(echo);
    for n in 0..300 {
        say(&mut other, &noise(20_000, n));
    }
    let before = written.load(Ordering::Relaxed);
    assert!(before < BETWEEN, "{before} bytes were written that nobody reads");
    assert!(before > 1 << 20, "nothing is read ahead");
    let rest = std::io::copy(&mut slow, &mut std::io::sink()).unwrap();
    assert_eq!(rest + (1 << 20), ALL);
    assert_eq!(first, noise(1 << 20, 5));
    drop(slow);
    assert_eq!(why(&mut near), "ended");
}

#[test]
fn connections_are_limited_and_idle_ones_end() {
    let world = World::new();
    let target = Target::echo();
    let mut far = proxy(&world, &["--allow-to", "127.0.0.1:*", "--per-peer", "1"]);
    let (mut near, at) = entrance(&world, target.at, &far.peer);
    let mut one = client(at);
    say(&mut one, b"one");
    is_reset(client(at));
    assert_eq!(why(&mut near), "busy");
    drop(one);
    assert_eq!(why(&mut near), "ended");
    assert_eq!(why(&mut far.running), "busy");
    assert_eq!(why(&mut far.running), "ended");
    let mut one = client(at);
    say(&mut one, b"one");
    let mut near = forward(&world, &["-L", &format!("0:{}", target.at), "--idle", "50ms", &far.peer]);
    let idle = client(port(&mut near));
    is_reset(idle);
    assert_eq!(why(&mut near), "idle");
}
