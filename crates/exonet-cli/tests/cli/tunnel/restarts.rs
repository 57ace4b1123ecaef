//! Connections that outlive the process at either end.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use rustix::process::Signal;

use super::ends::witness;
use super::{BYE, Target, break_off, client, forward, is_reset, port, proxy, proxy_at, say, say_all, why};
use crate::support::{Listener, Running, World, noise, until};

/// The bytes of a transfer, each way.
const ALL: usize = 20 << 20;

/// A client that says much to an echo and hears it back.
struct Transfer {
    heard: Arc<AtomicU64>,
    may: Arc<May>,
    done: JoinHandle<()>,
}

/// How many bytes a client reads: so many more than buffers hold stay, that the transfer does not end before its test wants.
#[derive(Default)]
struct May(Mutex<u64>, Condvar);

impl May {
    fn read_to(&self, bytes: u64) {
        *self.0.lock().unwrap() = bytes;
        self.1.notify_all();
    }

    fn wait(&self, heard: u64) {
        drop(self.1.wait_while(self.0.lock().unwrap(), |may| *may <= heard).unwrap());
    }
}

impl Transfer {
    fn begin(mut socket: TcpStream) -> Self {
        let heard = Arc::new(AtomicU64::new(0));
        let may = Arc::new(May::default());
        let (counts, limits) = (Arc::clone(&heard), Arc::clone(&may));
        let done = std::thread::spawn(move || {
            let bytes = Arc::new(noise(ALL, 7));
            let (mut writer, said) = (socket.try_clone().unwrap(), Arc::clone(&bytes));
            let says = std::thread::spawn(move || {
                for part in said.chunks(77_777) {
                    writer.write_all(part).unwrap();
                }
                writer.shutdown(Shutdown::Write).unwrap();
            });
            let (mut all, mut part) = (Vec::with_capacity(ALL), vec![0; 1 << 16]);
            loop {
                limits.wait(all.len() as u64);
                match socket.read(&mut part).unwrap() {
                    0 => break,
                    read => all.extend_from_slice(&part[..read]),
                }
                counts.store(all.len() as u64, Ordering::Relaxed);
            }
            says.join().unwrap();
            assert_eq!(all.len(), ALL + BYE.len());
            assert!(all.starts_with(&bytes) && all.ends_with(BYE));
        });
        Self { heard, may, done }
    }

    /// Waits until so many hundredths of all have come back. A few more will.
    fn reaches(&self, hundredths: u64) {
        let bytes = ALL as u64 / 100 * hundredths;
        self.may.read_to(bytes + ALL as u64 / 20);
        until("the transfer goes on", || {
            self.done.is_finished() || self.heard.load(Ordering::Relaxed) >= bytes
        });
        assert!(!self.done.is_finished(), "there is nothing left to break");
    }

    fn ends_whole(self) {
        self.may.read_to(u64::MAX);
        self.done.join().unwrap();
    }
}

/// Two ends with stored identities, which can be ended and started again.
struct Ends<'a> {
    world: &'a World,
    peer: String,
    bind: String,
    near: Running,
    far: Listener,
    to: String,
    at: SocketAddr,
}

const ALLOW: [&str; 4] = ["--allow-to", "127.0.0.1:*", "--allow-listen", "127.0.0.1:*"];

impl<'a> Ends<'a> {
    /// With this way, `-L` or `-R`, to `to`.
    fn new(world: &'a World, way: &str, to: SocketAddr) -> Self {
        if !world.path("state/me").exists() {
            world.run(&["id", "me", "--new"]).expect(0);
        }
        let far = proxy(world, &ALLOW);
        let (peer, bind) = (far.peer.clone(), far.peer.split_once('@').unwrap().1.to_owned());
        let to = format!("{way}0:{to}");
        let mut near = forward(world, &["--as", "me", &to, &peer]);
        let at = port(&mut near);
        Self { world, peer, bind, near, far, to, at }
    }

    fn start_far(&mut self) {
        self.far = proxy_at(self.world, &self.bind, &ALLOW);
    }

    /// The near end, before it says anything: it may wait for the far end.
    fn start_near_unheard(&mut self) {
        self.near = forward(self.world, &["--as", "me", &self.to, &self.peer]);
    }

    fn start_near(&mut self) {
        self.start_near_unheard();
        self.at = port(&mut self.near);
    }
}

fn kill(running: &mut Running) {
    running.kill();
    running.wait();
}

#[test]
fn a_connection_survives_a_far_end_that_is_killed() {
    let world = World::new();
    let target = Target::echo();
    let mut ends = Ends::new(&world, "-L", target.at);
    let transfer = Transfer::begin(client(ends.at));
    for part in [10, 30, 50] {
        transfer.reaches(part);
        kill(&mut ends.far.running);
        ends.start_far();
        ends.far.running.line_of("resumed");
    }
    transfer.ends_whole();
    assert_eq!(why(&mut ends.near), "ended");
    assert_eq!(why(&mut ends.far.running), "ended");
}

#[test]
fn a_connection_survives_a_near_end_that_is_killed() {
    let world = World::new();
    let target = Target::echo();
    let mut ends = Ends::new(&world, "-L", target.at);
    let transfer = Transfer::begin(client(ends.at));
    for part in [10, 30, 50] {
        transfer.reaches(part);
        kill(&mut ends.near);
        ends.start_near();
        let resumed = ends.near.line_of("resumed");
        assert_eq!((&resumed["way"], &resumed["to"]), (&"local".into(), &target.at.to_string().into()));
    }
    transfer.ends_whole();
    let closed = ends.near.line_of("closed");
    assert_eq!((&closed["why"], &closed["sent"]), (&"ended".into(), &ALL.into()));
    assert_eq!(closed["received"], ALL + BYE.len());
    assert_eq!(why(&mut ends.far.running), "ended");
    // New connections work as before.
    say_all(client(ends.at), b"new");
    assert_eq!(why(&mut ends.near), "ended");
}

#[test]
fn a_connection_survives_both_ends_being_killed_at_once_or_restarted() {
    let world = World::new();
    let target = Target::echo();
    for way in ["-L", "-R"] {
        let mut ends = Ends::new(&world, way, target.at);
        let transfer = Transfer::begin(client(ends.at));
        transfer.reaches(10);
        kill(&mut ends.near);
        kill(&mut ends.far.running);
        ends.start_near_unheard();
        ends.start_far();
        transfer.reaches(30);
        if way == "-L" {
            ends.far.running.signal(Signal::TERM);
            ends.far.running.wait();
        } else {
            kill(&mut ends.far.running);
        }
        ends.start_far();
        transfer.reaches(50);
        ends.near.signal(Signal::HUP);
        ends.near.wait();
        ends.start_near_unheard();
        transfer.ends_whole();
        assert_eq!(
            (why(&mut ends.near), why(&mut ends.far.running)),
            ("ended".into(), "ended".into()),
            "{way}"
        );
    }
}

#[test]
fn each_connection_is_closed_once_however_often_a_process_is_killed() {
    let world = World::new();
    let target = Target::echo();
    let mut ends = Ends::new(&world, "-L", target.at);
    let mut clients: Vec<_> = (0..20).map(|_| client(ends.at)).collect();
    for round in 0..3 {
        for socket in &mut clients {
            say(socket, &noise(1_000, round));
        }
        kill(&mut ends.near);
        ends.start_near();
        for _ in &clients {
            ends.near.line_of("resumed");
        }
    }
    let count = clients.len();
    for socket in clients {
        say_all(socket, b"the last word");
    }
    for _ in 0..count {
        let closed = ends.near.line_of("closed");
        assert_eq!((&closed["why"], &closed["sent"]), (&"ended".into(), &(3 * 1_000 + 13).into()));
        assert_eq!(why(&mut ends.far.running), "ended");
    }
    ends.near.signal(Signal::INT);
    let summary = ends.near.end().expect(130).summary();
    assert_eq!((&summary["connections"], &summary["failed"]), (&count.into(), &0.into()));
}

#[test]
fn what_ends_while_no_process_is_there_is_told_by_the_next() {
    let world = World::new();
    let (target, ended) = witness();
    let mut ends = Ends::new(&world, "-L", target.at);
    let mut socket = client(ends.at);
    say(&mut socket, b"before");
    kill(&mut ends.near);
    break_off(socket);
    ends.start_near();
    assert_eq!(why(&mut ends.near), "reset_here");
    assert_eq!(why(&mut ends.far.running), "reset_there");
    assert!(!ended.recv().unwrap());
}

#[test]
fn an_interrupt_ends_connections_at_once() {
    let world = World::new();
    let (target, ended) = witness();
    for near in [true, false] {
        let mut ends = Ends::new(&world, "-L", target.at);
        let mut socket = client(ends.at);
        say(&mut socket, b"before");
        let (stops, stays) = if near {
            (&mut ends.near, &mut ends.far.running)
        } else {
            (&mut ends.far.running, &mut ends.near)
        };
        stops.signal(Signal::INT);
        assert_eq!(why(stops), "stopping");
        is_reset(socket);
        assert!(!ended.recv().unwrap());
        assert_eq!(why(stays), "reset_there");
    }
}

#[test]
fn a_connection_ends_when_no_process_comes_back_for_it() {
    let world = World::new();
    let (target, ended) = witness();
    let far = proxy(&world, &["--allow-to", "127.0.0.1:*", "--keep", "100ms"]);
    world.run(&["id", "me", "--new"]).expect(0);
    let to = format!("0:{}", target.at);
    let mut near = forward(&world, &["--as", "me", "--keep", "100ms", "-L", &to, &far.peer]);
    let mut socket = client(port(&mut near));
    say(&mut socket, b"before");
    kill(&mut near);
    is_reset(socket);
    drop(far);
    assert!(!ended.recv().unwrap());
}

#[test]
fn a_far_end_that_allows_less_ends_what_it_has_kept() {
    let world = World::new();
    let (target, ended) = witness();
    let mut ends = Ends::new(&world, "-L", target.at);
    let mut socket = client(ends.at);
    say(&mut socket, b"before");
    kill(&mut ends.far.running);
    ends.far = proxy_at(&world, &ends.bind, &["--allow-to", "db:5432"]);
    assert_eq!(why(&mut ends.far.running), "denied");
    assert!(!ended.recv().unwrap());
    // With these bytes the near end hears of the new process.
    socket.write_all(b"after").unwrap();
    assert_eq!(why(&mut ends.near), "gone");
    is_reset(socket);
}

#[test]
fn a_near_end_without_an_identity_survives_a_far_end_that_is_killed() {
    let world = World::new();
    let target = Target::echo();
    let mut far = proxy(&world, &["--allow-to", "127.0.0.1:*"]);
    let bind = far.peer.split_once('@').unwrap().1.to_owned();
    let (mut near, at) = super::entrance(&world, target.at, &far.peer);
    let mut stdio = world.command(&["forward", "--stdio", &target.at.to_string(), &far.peer]);
    stdio.stdin(std::process::Stdio::piped());
    let mut stdio = Running::start(stdio);
    let mut input = stdio.stdin();
    input.write_all(b"first\n").unwrap();
    stdio.hears("first");
    let mut socket = client(at);
    say(&mut socket, b"before");
    kill(&mut far.running);
    let mut far = proxy_at(&world, &bind, &["--allow-to", "127.0.0.1:*"]);
    input.write_all(b"second\n").unwrap();
    stdio.hears("second");
    drop(input);
    assert_eq!(stdio.end().expect(0).stdout.trim(), "that is all");
    say(&mut socket, b"after");
    say_all(socket, b"the last word");
    assert_eq!(why(&mut near), "ended");
    assert_eq!((why(&mut far.running), why(&mut far.running)), ("ended".into(), "ended".into()));
}

#[test]
fn a_run_that_keeps_nothing_ends_what_the_one_before_has_left() {
    let world = World::new();
    let (target, ended) = witness();
    let mut ends = Ends::new(&world, "-L", target.at);
    let mut socket = client(ends.at);
    say(&mut socket, b"before");
    kill(&mut ends.near);
    ends.near = forward(&world, &["--as", "me", "--keep", "0", &ends.to, &ends.peer]);
    port(&mut ends.near);
    is_reset(socket);
    drop(ends);
    // The keeper of the far end waits for its next run.
    let mut far = proxy(&world, &["--allow-to", "127.0.0.1:*", "--keep", "0"]);
    assert!(!ended.recv().unwrap());
    far.running.signal(Signal::INT);
    far.running.wait();
}

/// The keepers of a world.
#[cfg(target_os = "linux")]
fn keepers(world: &World) -> Vec<rustix::process::Pid> {
    keepers_in(&world.path("state"))
}

/// The keepers of the identities in a directory.
#[cfg(target_os = "linux")]
fn keepers_in(place: &std::path::Path) -> Vec<rustix::process::Pid> {
    let place = place.canonicalize().unwrap();
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0).skip(1);
        let of_world = |path: &[u8]| path.starts_with(place.to_str().unwrap().as_bytes());
        if words.next() == Some(b"tunnel-keeper") && words.next().is_some_and(of_world) {
            found.extend(rustix::process::Pid::from_raw(pid));
        }
    }
    found
}

#[test]
fn a_near_end_gets_its_port_at_the_far_end_back() {
    let world = World::new();
    let target = Target::echo();
    let mut ends = Ends::new(&world, "-L", target.at);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let asks = format!("-R{}:{}", free.port(), target.at);
    let both = ["--as", "me", &ends.to, &asks, &ends.peer];
    kill(&mut ends.near);
    let mut near = forward(&world, &both);
    let local = port(&mut near);
    near.line_of("ready");
    let transfers = [local, free].map(|at| Transfer::begin(client(at)));
    for part in [10, 20, 30, 40] {
        transfers.iter().for_each(|transfer| transfer.reaches(part));
        kill(&mut near);
        near = forward(&world, &both);
        near.line_of("ready");
    }
    transfers.into_iter().for_each(Transfer::ends_whole);
    assert_eq!([why(&mut near), why(&mut near)], ["ended", "ended"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_keeper_holds_no_file_of_the_process_that_started_it() {
    let world = World::new();
    let (file, socket) = (world.path("file"), world.path("keeper"));
    let exon = world.command(&["tunnel-keeper", socket.to_str().unwrap()]);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "exec 9>\"$0\"; exec \"$@\""]).arg(&file).arg(exon.get_program()).args(exon.get_args());
    shell.stdout(std::process::Stdio::piped());
    let mut keeper = shell.spawn().unwrap();
    let mut ready = [0];
    keeper.stdout.take().unwrap().read_exact(&mut ready).unwrap();
    let held: Vec<_> = std::fs::read_dir(format!("/proc/{}/fd", keeper.id()))
        .unwrap()
        .filter_map(|name| std::fs::read_link(name.unwrap().path()).ok())
        .collect();
    keeper.kill().unwrap();
    keeper.wait().unwrap();
    assert!(file.exists() && !held.contains(&file.canonicalize().unwrap()), "{held:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn an_end_whose_keeper_is_killed_tells_the_other_at_once() {
    let world = World::new();
    let target = Target::echo();
    world.run(&["id", "me", "--new"]).expect(0);
    // Longer than this test may take.
    let mut far = proxy(&world, &["--allow-to", "127.0.0.1:*", "--keep", "1h"]);
    let mut near = forward(&world, &["--as", "me", &format!("-L0:{}", target.at), &far.peer]);
    let at = port(&mut near);
    let of_near = |world: &World| keepers_in(&world.path("state/me"));
    for idle in [true, false] {
        let mut sockets = [client(at), client(at)];
        sockets.iter_mut().for_each(|socket| say(socket, b"before"));
        let noise = std::thread::spawn({
            let mut writer = sockets[0].try_clone().unwrap();
            // More than the buffers in between have room for.
            let parts = if idle { 0 } else { 2_048 };
            move || (0..parts).all(|_| writer.write_all(&[7; 1 << 14]).is_ok())
        });
        for keeper in of_near(&world) {
            rustix::process::kill_process(keeper, Signal::KILL).unwrap();
        }
        let [mut noisy, quiet] = sockets;
        is_reset(quiet);
        // The reset is told once: to the writer or to the reader.
        let heard_all = noisy.read_to_end(&mut Vec::new()).is_ok();
        let said_all = noise.join().unwrap();
        assert!(!(heard_all && said_all));
        assert_eq!([why(&mut near), why(&mut near)], ["reset_here", "reset_here"]);
        assert_eq!([why(&mut far.running), why(&mut far.running)], ["reset_there", "reset_there"]);
        near.line_of("trouble");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_keeper_that_is_killed_takes_its_connections_with_it_and_one_that_is_done_ends() {
    let world = World::new();
    let (target, ended) = witness();
    let mut ends = Ends::new(&world, "-L", target.at);
    let mut socket = client(ends.at);
    say(&mut socket, b"before");
    assert_eq!(keepers(&world).len(), 2);
    for keeper in keepers(&world) {
        rustix::process::kill_process(keeper, Signal::KILL).unwrap();
    }
    is_reset(socket);
    assert!(!ended.recv().unwrap());
    // The end whose keeper is killed first may tell the other.
    let whys = [why(&mut ends.near), why(&mut ends.far.running)];
    assert!(whys.contains(&"reset_here".into()), "{whys:?}");
    assert!(
        whys.iter().all(|why| ["reset_here", "reset_there", "gone"].iter().any(|w| why == w)),
        "{whys:?}"
    );
    // Others keep what comes now.
    for running in [&mut ends.near, &mut ends.far.running] {
        running.line_of("trouble");
    }
    let mut socket = client(ends.at);
    say(&mut socket, b"meanwhile");
    kill(&mut ends.near);
    ends.start_near();
    drop(socket);
    assert!(ended.recv().unwrap());
    assert_eq!((why(&mut ends.near), why(&mut ends.far.running)), ("ended".into(), "ended".into()));
    kill(&mut ends.near);
    kill(&mut ends.far.running);
    ends.start_near_unheard();
    ends.start_far();
    ends.at = port(&mut ends.near);
    let mut socket = client(ends.at);
    say(&mut socket, b"after");
    kill(&mut ends.near);
    break_off(socket);
    kill(&mut ends.far.running);
    assert_eq!(keepers(&world).len(), 2);
    ends.start_far();
    ends.start_near();
    assert_eq!(
        (why(&mut ends.near), why(&mut ends.far.running)),
        ("reset_here".into(), "reset_there".into())
    );
    ends.near.signal(Signal::INT);
    ends.near.wait();
    ends.far.running.signal(Signal::INT);
    ends.far.running.wait();
    until("the keepers end", || keepers(&world).is_empty());
}
