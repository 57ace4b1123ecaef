//! Messages over connections, alone and in parallel with datagrams, with various obstacles on the path.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{builder, bytes, exchange, within};
use exonet::{Carrier, Node, Outcome, PeerAddr};
use futures_util::FutureExt as _;

async fn node(carrier: Carrier) -> Node {
    builder().carrier(carrier).build().await.unwrap()
}

fn at(node: &Node, address: SocketAddr) -> PeerAddr {
    PeerAddr::from((node.id(), address))
}

/// How a relay treats a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Pass,
    /// The connection is accepted, and carries nothing.
    Swallow,
    /// It is closed at once.
    Refuse,
}

struct State {
    mode: Mode,
    /// Both ends of the connections that pass.
    open: Vec<TcpStream>,
    taken: usize,
    /// Connections with smaller numbers carry nothing more, and stay open.
    dead_below: Arc<AtomicUsize>,
}

/// A relay between a client and a server, on its own threads.
struct Relay {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Relay {
    fn new(to: SocketAddr, mode: Mode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state =
            Arc::new(Mutex::new(State { mode, open: Vec::new(), taken: 0, dead_below: Arc::default() }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                let mut state = shared.lock().unwrap();
                state.taken += 1;
                match state.mode {
                    Mode::Refuse => continue,
                    Mode::Swallow => state.open.push(near),
                    Mode::Pass => {
                        let far = TcpStream::connect(to).unwrap();
                        for (from, into) in [(&near, &far), (&far, &near)] {
                            let (from, into) = (from.try_clone().unwrap(), into.try_clone().unwrap());
                            let (number, dead) = (state.taken, Arc::clone(&state.dead_below));
                            std::thread::spawn(move || {
                                pump(from, into, || number < dead.load(Ordering::Relaxed));
                            });
                        }
                        state.open.extend([near, far]);
                    }
                }
            }
        });
        Self { address, state }
    }

    /// Ends every connection, like a network that loses its tables.
    fn cut(&self) {
        for stream in self.state.lock().unwrap().open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Every connection stays open, but carries nothing from now on.
    fn numb(&self) {
        let state = self.state.lock().unwrap();
        state.dead_below.store(state.taken + 1, Ordering::Relaxed);
    }

    fn set(&self, mode: Mode) {
        self.state.lock().unwrap().mode = mode;
    }

    fn taken(&self) -> usize {
        self.state.lock().unwrap().taken
    }
}

fn pump(mut from: TcpStream, mut into: TcpStream, is_dead: impl Fn() -> bool) {
    let mut buffer = [0; 4_096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if !is_dead() && into.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), into.shutdown(Shutdown::Both));
}

/// Takes `count` messages, and returns how often each arrived.
async fn take(node: &Node, count: usize) -> BTreeMap<Vec<u8>, usize> {
    let mut seen = BTreeMap::new();
    for _ in 0..count {
        let mut delivery = node.at_most_once().recv().await.unwrap();
        *seen.entry(delivery.body.bytes(1 << 24).await.unwrap().to_vec()).or_default() += 1;
    }
    seen
}

fn is_piped(node: &Node, peer: &Node) -> bool {
    node.peer(peer.id()).stats().is_some_and(|stats| stats.piped)
}

#[tokio::test]
async fn messages_go_both_ways_over_tcp_alone() {
    within(async {
        let (server, client) = (node(Carrier::Tcp).await, node(Carrier::Tcp).await);
        exchange(&client, &server, &[0, 1, 1_000, 20_000, 3_000_000]).await;
        assert!(is_piped(&client, &server) && is_piped(&server, &client));
    })
    .await;
}

/// While the node has its maximum number of connections, a further one is closed at once, and dialled again.
#[tokio::test]
async fn one_connection_too_many_waits_for_another_to_end() {
    within(async {
        let server = builder().carrier(Carrier::Tcp).limits(|limits| limits.connections = 1);
        let server = server.build().await.unwrap();
        let (first, second) = (node(Carrier::Tcp).await, node(Carrier::Tcp).await);
        let delivered = first.peer(server.peer_addr()).send("one").await.unwrap();
        take(&server, 1).await;
        assert_eq!(delivered.await.outcome, Outcome::Delivered);
        let relay = Relay::new(server.local_addr(), Mode::Pass);
        let peer = second.peer(at(&server, relay.address));
        let mut waiting = peer.send("two").await.unwrap();
        while relay.taken() < 3 {
            assert_eq!(peer.ping(Duration::from_millis(50)).await.unwrap(), None);
        }
        assert!((&mut waiting).now_or_never().is_none());
        assert!(server.peer(second.id()).stats().is_none(), "it hears nothing of what comes on one too many");
        first.close(Duration::from_secs(1)).await;
        take(&server, 1).await;
        assert_eq!(waiting.await.outcome, Outcome::Delivered);
    })
    .await;
}

/// A peer that has proven its id has at most its share of connections.
#[tokio::test]
async fn a_peer_has_no_more_connections_than_it_may() {
    within(async {
        let server = builder().carrier(Carrier::Tcp).limits(|limits| limits.connections_per_peer = 0);
        let server = server.build().await.unwrap();
        let client = node(Carrier::Tcp).await;
        let relay = Relay::new(server.local_addr(), Mode::Pass);
        let peer = client.peer(at(&server, relay.address));
        // No connection lives longer than it takes to learn whose it is.
        while relay.taken() < 3 {
            let _ = peer.ping(Duration::from_millis(50)).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_is_cut_loses_and_doubles_nothing() {
    within(async {
        let (server, client) = (node(Carrier::Tcp).await, node(Carrier::Tcp).await);
        let relay = Relay::new(server.local_addr(), Mode::Pass);
        let there = at(&server, relay.address);
        let peer = client.peer(there);
        let (mut asks, mut answers) = (Vec::new(), Vec::new());
        let mut seen = [BTreeMap::new(), BTreeMap::new()];
        for round in 0..ROUNDS {
            for n in 0..EACH {
                asks.push(peer.send(numbered(round * EACH + n)).await.unwrap());
                if round > 0 {
                    answers.push(server.peer(client.id()).send(numbered(round * EACH + n)).await.unwrap());
                }
            }
            // Some messages have arrived, the others have not.
            for (node, seen) in [&server, &client].into_iter().zip(&mut seen) {
                // More than are left of the earlier rounds.
                let some = if round == 0 && node.id() == client.id() { 0 } else { EACH - 10 };
                add(seen, take(node, some).await);
            }
            relay.cut();
        }
        let left = |seen: &BTreeMap<_, usize>, sent: usize| sent - seen.values().sum::<usize>();
        let (asked, answered) = (left(&seen[0], asks.len()), left(&seen[1], answers.len()));
        let (more, others) = tokio::join!(take(&server, asked), take(&client, answered));
        add(&mut seen[0], more);
        add(&mut seen[1], others);
        for receipt in asks.into_iter().chain(answers) {
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
        }
        let all: Vec<_> = (0..ROUNDS * EACH).map(|n| (numbered(n), 1)).collect();
        assert!(seen[0].clone().into_iter().eq(sorted(&all)), "lost or doubled on the way there");
        assert!(seen[1].clone().into_iter().eq(sorted(&all[EACH..])), "lost or doubled on the way back");
        assert!(relay.taken() >= ROUNDS);
    })
    .await;
}

const ROUNDS: usize = 5;
const EACH: usize = 100;

fn numbered(n: usize) -> Vec<u8> {
    let mut body = n.to_be_bytes().to_vec();
    body.extend(bytes(n * 37 % 3_000));
    body
}

fn add(seen: &mut BTreeMap<Vec<u8>, usize>, more: BTreeMap<Vec<u8>, usize>) {
    for (body, count) in more {
        *seen.entry(body).or_default() += count;
    }
}

fn sorted(all: &[(Vec<u8>, usize)]) -> Vec<(Vec<u8>, usize)> {
    let mut all = all.to_vec();
    all.sort();
    all
}

/// A connection that swallows everything is given up, and the next one is tried.
#[tokio::test]
async fn a_connection_that_leads_nowhere_is_replaced() {
    within(async {
        let server = node(Carrier::Tcp).await;
        for mode in [Mode::Swallow, Mode::Refuse] {
            let relay = Relay::new(server.local_addr(), mode);
            let client = node(Carrier::Tcp).await;
            let receipt = client.peer(at(&server, relay.address)).send("x").await.unwrap();
            let waits = tokio::task::spawn_blocking({
                let state = Arc::clone(&relay.state);
                move || {
                    while state.lock().unwrap().taken == 0 {
                        std::thread::yield_now();
                    }
                }
            });
            waits.await.unwrap();
            relay.set(Mode::Pass);
            drop(server.at_most_once().recv().await.unwrap());
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
            assert!(relay.taken() >= 2);
        }
    })
    .await;
}

/// The same in the middle of a channel: datagrams are accepted, and carried no further.
#[tokio::test]
async fn a_connection_that_has_gone_numb_is_replaced() {
    within(async {
        let (server, client) = (node(Carrier::Tcp).await, node(Carrier::Tcp).await);
        let relay = Relay::new(server.local_addr(), Mode::Pass);
        let peer = client.peer(at(&server, relay.address));
        for n in 0..3 {
            let receipt = peer.send(numbered(n)).await.unwrap();
            assert_eq!(take(&server, 1).await, BTreeMap::from([(numbered(n), 1)]));
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
            relay.numb();
        }
        assert_eq!(relay.taken(), 3);
    })
    .await;
}

#[tokio::test]
async fn garbage_and_those_who_say_little_do_not_hurt_others() {
    within(async {
        let (server, client) = (node(Carrier::Tcp).await, node(Carrier::Tcp).await);
        let address = server.local_addr();
        let peer = client.peer(server.peer_addr());
        let mut streams: Vec<_> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
        for (n, stream) in streams.iter_mut().enumerate() {
            let says: &[u8] = match n % 5 {
                0 => b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
                // Too long, and too short.
                1 => &[0xff, 0xff],
                2 => &[0, 0],
                // A frame that is no packet.
                3 => &[0, 3, 9, 9, 9],
                // Half of a length field, and nothing more.
                _ => &[4],
            };
            let _ = stream.write_all(says);
        }
        let receipt = peer.send("x").await.unwrap();
        drop(server.at_most_once().recv().await.unwrap());
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        // All of them are closed, including the slow ones, but not the friend's.
        let closed = tokio::task::spawn_blocking(move || streams.into_iter().all(is_closed));
        assert!(closed.await.unwrap());
        let receipt = peer.send("y").await.unwrap();
        drop(server.at_most_once().recv().await.unwrap());
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
    })
    .await;
}

/// Waits until the other end has closed the connection, on which it never sends anything.
fn is_closed(mut stream: TcpStream) -> bool {
    match stream.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
    }
}

/// An address where datagrams are received and dropped, and from which connections are relayed to `to`.
fn deaf(to: SocketAddr) -> (UdpSocket, Relay) {
    loop {
        let relay = Relay::new(to, Mode::Pass);
        if let Ok(socket) = UdpSocket::bind(relay.address) {
            return (socket, relay);
        }
    }
}

#[tokio::test]
async fn where_datagrams_do_not_get_through_a_connection_does() {
    within(async {
        let (server, client) = (node(Carrier::Auto).await, node(Carrier::Auto).await);
        let (_deaf, relay) = deaf(server.local_addr());
        let peer = client.peer(at(&server, relay.address));
        for n in 0..10 {
            let receipt = peer.send(numbered(n)).await.unwrap();
            assert_eq!(take(&server, 1).await, BTreeMap::from([(numbered(n), 1)]));
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
            let answer = server.peer(client.id()).send(numbered(n)).await.unwrap();
            assert_eq!(take(&client, 1).await, BTreeMap::from([(numbered(n), 1)]));
            assert_eq!(answer.await.outcome, Outcome::Delivered);
        }
        assert!(is_piped(&client, &server) && is_piped(&server, &client));
    })
    .await;
}

#[tokio::test]
async fn where_datagrams_get_through_no_connection_is_opened() {
    within(async {
        let (server, client) = (node(Carrier::Auto).await, node(Carrier::Auto).await);
        let receipt = client.peer(server.peer_addr()).send("x").await.unwrap();
        drop(server.at_most_once().recv().await.unwrap());
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        assert!(!is_piped(&client, &server));
    })
    .await;
}

/// Passes datagrams between a client and a server, as long as the flag is set.
fn pass_datagrams(socket: UdpSocket, to: SocketAddr) -> Arc<AtomicBool> {
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    far.connect(to).unwrap();
    let (near, client, open) =
        (Arc::new(socket), Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(true)));
    let (inward, outward) = (far.try_clone().unwrap(), far);
    let (socket, known, let_in) = (Arc::clone(&near), Arc::clone(&client), Arc::clone(&open));
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while let Ok((count, from)) = socket.recv_from(&mut buffer) {
            *known.lock().unwrap() = Some(from);
            if let_in.load(Ordering::Relaxed) {
                let _ = inward.send(&buffer[..count]);
            }
        }
    });
    let let_out = Arc::clone(&open);
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while let Ok(count) = outward.recv(&mut buffer) {
            let client = *client.lock().unwrap();
            if let Some(client) = client.filter(|_| let_out.load(Ordering::Relaxed)) {
                let _ = near.send_to(&buffer[..count], client);
            }
        }
    });
    open
}

#[tokio::test]
async fn a_channel_whose_datagrams_are_blocked_goes_on_over_a_connection() {
    within(async {
        let (server, client) = (node(Carrier::Auto).await, node(Carrier::Auto).await);
        let (socket, relay) = deaf(server.local_addr());
        let open = pass_datagrams(socket, server.local_addr());
        let peer = client.peer(at(&server, relay.address));
        let receipt = peer.send(numbered(0)).await.unwrap();
        assert_eq!(take(&server, 1).await.len(), 1);
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        assert!(!is_piped(&client, &server));
        open.store(false, Ordering::Relaxed);
        let mut receipts = Vec::new();
        for n in 1..200 {
            receipts.push(peer.send(numbered(n)).await.unwrap());
        }
        let seen = take(&server, receipts.len()).await;
        assert!(seen.into_iter().eq((1..200).map(|n| (numbered(n), 1))));
        for receipt in receipts {
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
        }
        let answer = server.peer(client.id()).send(numbered(0)).await.unwrap();
        assert_eq!(take(&client, 1).await.len(), 1);
        assert_eq!(answer.await.outcome, Outcome::Delivered);
        assert!(is_piped(&client, &server) && is_piped(&server, &client));
    })
    .await;
}

#[tokio::test]
async fn a_node_that_moves_takes_connections_in_where_it_is() {
    within(async {
        let (server, client) = (node(Carrier::Tcp).await, node(Carrier::Tcp).await);
        let before = server.local_addr();
        let after = server.rebind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        assert_ne!(before, after);
        let receipt = client.peer(server.peer_addr()).send("x").await.unwrap();
        drop(server.at_most_once().recv().await.unwrap());
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        assert!(TcpStream::connect(before).is_err());
    })
    .await;
}

#[tokio::test]
async fn a_server_that_ends_and_comes_back_is_found_again() {
    within(async {
        let home = tempfile::tempdir().unwrap();
        let start = |address: SocketAddr| {
            let builder = exonet::Node::builder(exonet::Allow::anyone()).carrier(Carrier::Tcp);
            builder.state_dir(home.path()).bind(address).build()
        };
        let server = start("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let (client, address) = (node(Carrier::Tcp).await, server.local_addr());
        let peer = client.peer(server.peer_addr());
        let receipt = peer.send(numbered(0)).await.unwrap();
        assert_eq!(take(&server, 1).await.len(), 1);
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        server.close(std::time::Duration::from_secs(5)).await;
        let receipt = peer.send(numbered(1)).await.unwrap();
        let server = start(address).await.unwrap();
        assert_eq!(take(&server, 1).await, BTreeMap::from([(numbered(1), 1)]));
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
    })
    .await;
}
