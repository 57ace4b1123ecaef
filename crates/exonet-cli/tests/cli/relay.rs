//! A relay between callers and a server that can be told to lose what goes one way, and that says what it has seen.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often it is looked whether the relay is still wanted.
const LOOK: Duration = Duration::from_millis(20);
/// Longer than anything here takes.
const HANG: Duration = Duration::from_secs(120);

/// What passes, or does not, one way.
struct Way {
    lossy: AtomicBool,
    /// Bytes that passed.
    passed: AtomicU64,
    seen: Mutex<Receiver<Seen>>,
}

/// A datagram of so many bytes, and whether it was lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) len: usize,
    pub(crate) lost: bool,
}

pub(crate) struct Relay {
    front: SocketAddr,
    to_server: Arc<Way>,
    to_caller: Arc<Way>,
    over: Arc<AtomicBool>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn way() -> (Sender<Seen>, Arc<Way>) {
    let (tell, seen) = channel();
    (tell, Arc::new(Way { lossy: AtomicBool::new(false), passed: AtomicU64::new(0), seen: Mutex::new(seen) }))
}

/// Hands on what comes from a socket, until all is over.
fn carry(
    (from, over): (Arc<UdpSocket>, Arc<AtomicBool>),
    way: Arc<Way>,
    tell: Sender<Seen>,
    pass: impl Fn(&[u8], SocketAddr) + Send + 'static,
) {
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while !over.load(Ordering::Relaxed) {
            let Ok((len, source)) = from.recv_from(&mut buffer) else { continue };
            let lost = way.lossy.load(Ordering::Relaxed);
            if !lost {
                way.passed.fetch_add(len as u64, Ordering::Relaxed);
                pass(&buffer[..len], source);
            }
            let _ = tell.send(Seen { len, lost });
        }
    });
}

impl Relay {
    pub(crate) fn new(server: SocketAddr) -> Self {
        let [front, back] = [0, 1].map(|_| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(LOOK)).unwrap();
            Arc::new(socket)
        });
        let address = front.local_addr().unwrap();
        let ((tell_server, to_server), (tell_caller, to_caller)) = (way(), way());
        let over = Arc::new(AtomicBool::new(false));
        let caller = Arc::new(Mutex::new(None));
        let (last, out) = (Arc::clone(&caller), Arc::clone(&back));
        let onward = move |datagram: &[u8], source| {
            *last.lock().unwrap() = Some(source);
            // A server that is dead just now hears nothing.
            let _ = out.send_to(datagram, server);
        };
        let ways = (Arc::clone(&to_server), Arc::clone(&to_caller));
        carry((Arc::clone(&front), Arc::clone(&over)), ways.0, tell_server, onward);
        let homeward = move |datagram: &[u8], _| {
            if let Some(caller) = *caller.lock().unwrap() {
                let _ = front.send_to(datagram, caller);
            }
        };
        carry((back, Arc::clone(&over)), ways.1, tell_caller, homeward);
        Self { front: address, to_server, to_caller, over }
    }

    /// The server's `ID@HOST:PORT`, through here.
    pub(crate) fn peer(&self, peer: &str) -> String {
        format!("{}@{}", peer.split_once('@').unwrap().0, self.front)
    }

    /// Bytes that have passed to the server.
    pub(crate) fn passed_to_server(&self) -> u64 {
        self.to_server.passed.load(Ordering::Relaxed)
    }

    /// Waits until so many bytes more have passed to the server.
    pub(crate) fn await_bytes_to_server(&self, more: u64) {
        let enough = self.passed_to_server() + more;
        self.await_to_server(|_| self.passed_to_server() >= enough);
    }

    pub(crate) fn lose_to_server(&self, lose: bool) {
        self.to_server.lossy.store(lose, Ordering::Relaxed);
    }

    pub(crate) fn lose_to_caller(&self, lose: bool) {
        self.to_caller.lossy.store(lose, Ordering::Relaxed);
    }

    /// Waits for a datagram to the server that is as wanted.
    pub(crate) fn await_to_server(&self, wanted: impl Fn(Seen) -> bool) {
        self.to_server.wait_for(wanted);
    }

    /// Waits for one to the caller.
    pub(crate) fn await_to_caller(&self, wanted: impl Fn(Seen) -> bool) {
        self.to_caller.wait_for(wanted);
    }
}

impl Way {
    fn wait_for(&self, wanted: impl Fn(Seen) -> bool) {
        let seen = self.seen.lock().unwrap();
        while !wanted(seen.recv_timeout(HANG).expect("a datagram")) {}
    }
}
