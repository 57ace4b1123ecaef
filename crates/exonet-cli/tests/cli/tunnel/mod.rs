//! `exon forward` and `exon proxy serve`: TCP programs at both ends, and what they see.

mod bounds;
mod ends;
mod foreign;
mod many;
mod page;
mod restarts;
mod ways;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Listener, Running, World};

/// Longer than anything here takes.
const HANG: Duration = Duration::from_secs(120);
/// What [`Target::echo`] says when its client has said all.
const BYE: &[u8] = b"that is all";

/// The far end, for anyone.
fn proxy(world: &World, args: &[&str]) -> Listener {
    proxy_at(world, "127.0.0.1:0", args)
}

fn proxy_at(world: &World, bind: &str, args: &[&str]) -> Listener {
    let proxy = ["proxy", "serve", "--anyone", "--json", "--bind", bind];
    world.listener_of("listening", world.command(&[&proxy, args].concat()))
}

/// The near end.
fn forward(world: &World, args: &[&str]) -> Running {
    Running::start(world.command(&[&["forward", "--json"], args].concat()))
}

/// Where the next port of a near end is.
fn port(near: &mut Running) -> SocketAddr {
    near.line_of("listening")["bind"].as_str().unwrap().parse().unwrap()
}

/// A near end with one port that leads to `to`.
fn entrance(world: &World, to: SocketAddr, peer: &str) -> (Running, SocketAddr) {
    let mut near = forward(world, &["-L", &format!("0:{to}"), peer]);
    let at = port(&mut near);
    (near, at)
}

/// Why the next connection ended.
fn why(running: &mut Running) -> Value {
    running.line_of("closed")["why"].clone()
}

/// A program that is connected to.
struct Target {
    at: SocketAddr,
}

impl Target {
    /// Gives each connection to `serve`, on a thread of its own, until the test ends.
    fn new(at: &str, serve: impl Fn(TcpStream) + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind(at).unwrap();
        let at = listener.local_addr().unwrap();
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let serve = serve.clone();
                thread::spawn(move || serve(socket));
            }
        });
        Self { at }
    }

    /// Sends back what comes, and a last word when its client has said all.
    fn echo() -> Self {
        Self::new("127.0.0.1:0", echo)
    }
}

fn echo(mut socket: TcpStream) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => {
                let _ = socket.write_all(BYE);
                return;
            }
            Ok(read) if socket.write_all(&buffer[..read]).is_ok() => {}
            _ => return,
        }
    }
}

/// A client of an echo.
fn client(at: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(at).unwrap();
    socket.set_read_timeout(Some(HANG)).unwrap();
    socket.set_nodelay(true).unwrap();
    socket
}

/// Says something, and hears it back.
fn say(socket: &mut TcpStream, text: &[u8]) {
    socket.write_all(text).unwrap();
    let mut heard = vec![0; text.len()];
    socket.read_exact(&mut heard).unwrap();
    assert_eq!(heard, text);
}

/// Says it all, shuts down, and hears it all and the last word back.
fn say_all(socket: TcpStream, text: &[u8]) {
    let mut writer = socket.try_clone().unwrap();
    let own = text.to_vec();
    let writes = thread::spawn(move || {
        writer.write_all(&own).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut heard = Vec::new();
    let mut reader = socket;
    reader.read_to_end(&mut heard).unwrap();
    writes.join().unwrap();
    assert_eq!(heard.len(), text.len() + BYE.len());
    assert!(heard.starts_with(text) && heard.ends_with(BYE));
}

/// The connection is broken off, not ended.
fn is_reset(mut socket: TcpStream) {
    let mut rest = Vec::new();
    let error = socket.read_to_end(&mut rest).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    assert_eq!(rest, b"");
}

/// Breaks a connection off, as the system does for a program that ends with bytes unread.
fn break_off(socket: TcpStream) {
    socket.set_nonblocking(true).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let _context = runtime.enter();
    tokio::net::TcpStream::from_std(socket).unwrap().set_zero_linger().unwrap();
}
