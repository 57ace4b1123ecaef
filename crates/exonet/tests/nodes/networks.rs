//! Sessions over networks that change: a link that goes down, an address that changes, datagrams that are blocked, a NAT
//! that forgets; and a crowd behind one address. The tests use their own networks, which only root may make.
#![cfg(target_os = "linux")]

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::common::bytes;
use crate::common::host::Host;
use crate::paths::{block_on, hosts, routed};
use bytes::Bytes;
use exonet::session::{SessionEvent, SessionReceiver, SessionSender};
use exonet::{Allow, Carrier, Node, Outcome, PeerAddr, Session};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::{Semaphore, mpsc as channel, watch};
use tokio::task::JoinSet;

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 7, 1, 1);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 7, 2, 2);
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 7, 2, 1)), 7000);
const LATE: Duration = Duration::from_secs(20);
/// How many messages of the client may be without an answer.
const WINDOW: usize = 64;
/// After this many messages, a conversation is in a steady state.
const SOME: usize = 200;

fn numbered(n: usize) -> Bytes {
    [&n.to_be_bytes()[..], &bytes(n % 2_000)].concat().into()
}

async fn node(at: SocketAddr, carrier: Carrier) -> Node {
    Node::builder(Allow::anyone()).bind(at).carrier(carrier).build().await.unwrap()
}

/// A client that may have any address of its host.
async fn client(carrier: Carrier) -> Node {
    let builder = Node::builder(Allow::anyone()).bind("0.0.0.0:0").carrier(carrier);
    builder.accept_connections(false).build().await.unwrap()
}

/// A message that the server has taken, and where its client was then.
#[derive(Clone, Copy, Debug)]
struct Taken {
    remote: SocketAddr,
    piped: bool,
}

/// A conversation in one session, until [`Self::finish`]: the client sends numbered messages, and the server answers
/// each. Both check that each comes once and in order.
struct Talk {
    taken: mpsc::Receiver<Taken>,
    events: mpsc::Receiver<SessionEvent>,
    finish: watch::Sender<bool>,
    sent: mpsc::Receiver<usize>,
    served: mpsc::Receiver<usize>,
}

impl Talk {
    fn begin(from: &Host, to: &Host, carrier: Carrier) -> Self {
        let (take, taken) = mpsc::channel();
        let (happens, events) = mpsc::channel();
        let (finish, finishing) = watch::channel(false);
        let (tell, told) = mpsc::channel();
        let served = to.begin(move || block_on(serve(carrier, tell, take)));
        let address = told.recv().unwrap();
        let sent = from.begin(move || block_on(ask(carrier, address, finishing, happens)));
        Self { taken, events, finish, sent, served }
    }

    /// Waits until the server takes a message from a client that is as `wanted`.
    fn until(&self, wanted: impl Fn(Taken) -> bool) -> Taken {
        self.taken.iter().find(|taken| wanted(*taken)).expect("the server has failed")
    }

    /// Waits until the server has taken some more messages, and returns the last of them.
    fn some(&self) -> Taken {
        self.taken.try_iter().for_each(drop);
        self.taken.iter().nth(SOME - 1).expect("the server has failed")
    }

    /// Waits for an event of the client's session.
    fn event(&self, wanted: impl Fn(&SessionEvent) -> bool) {
        self.events.iter().find(wanted).expect("the client has failed");
    }

    /// Ends the conversation: every message and every answer has come.
    fn finish(self) {
        self.finish.send(true).unwrap();
        let (sent, served) = (self.sent.recv().unwrap(), self.served.recv().unwrap());
        assert_eq!(sent, served);
    }
}

/// Answers each message of one session, and returns how many came.
async fn serve(carrier: Carrier, address: mpsc::Sender<PeerAddr>, take: mpsc::Sender<Taken>) -> usize {
    let node = node(SERVER, carrier).await;
    address.send(node.peer_addr()).unwrap();
    let mut session = node.accept_session().await.unwrap();
    let peer = session.peer().clone();
    let mut count = 0;
    while let Some(message) = session.recv().await.unwrap() {
        assert_eq!(message.body(), &numbered(count), "the server: it comes once, and in order");
        drop(session.answer(message, numbered(count)).await.unwrap());
        count += 1;
        let stats = peer.stats().unwrap();
        if let Some(remote) = stats.remote {
            // The test may have seen enough.
            let _ = take.send(Taken { remote, piped: stats.piped });
        }
    }
    session.close(LATE).await.unwrap();
    node.close(LATE).await;
    count
}

/// Sends messages until it should finish, and returns how many.
async fn ask(
    carrier: Carrier,
    address: PeerAddr,
    finish: watch::Receiver<bool>,
    happens: mpsc::Sender<SessionEvent>,
) -> usize {
    let node = client(carrier).await;
    let session = node.peer(address).session("talk").unwrap().open().await.unwrap();
    let mut events = session.events();
    let tells = tokio::spawn(async move {
        while let Ok(event) = events.next().await {
            // The test may have seen enough.
            let _ = happens.send(event);
        }
    });
    let (mut sender, mut receiver) = session.split();
    let window = Semaphore::new(WINDOW);
    let (sent, answered) = tokio::join!(asks(&mut sender, &window, finish), answers(&mut receiver, &window));
    assert_eq!(sent, answered);
    node.close(LATE).await;
    tells.await.unwrap();
    sent
}

async fn asks(sender: &mut SessionSender, window: &Semaphore, finish: watch::Receiver<bool>) -> usize {
    let mut count = 0;
    while !*finish.borrow() {
        window.acquire().await.unwrap().forget();
        drop(sender.send(numbered(count)).await.unwrap());
        count += 1;
    }
    drop(sender.close().await.unwrap());
    count
}

async fn answers(receiver: &mut SessionReceiver, window: &Semaphore) -> usize {
    let mut count = 0;
    while let Some(message) = receiver.recv().await.unwrap() {
        assert_eq!(message.take().unwrap(), numbered(count), "the client: it comes once, and in order");
        count += 1;
        window.add_permits(1);
    }
    count
}

#[test]
fn a_session_goes_on_after_its_interface_was_down() {
    for carrier in [Carrier::Udp, Carrier::Tcp] {
        let Some([one, _router, two]) = routed(1_500) else { return };
        let talk = Talk::begin(&one, &two, carrier);
        talk.some();
        one.set("a0", "down");
        talk.event(|event| matches!(event, SessionEvent::Away(_)));
        one.set("a0", "up");
        // The route went with the link.
        one.change("route add default via 10.7.1.2");
        talk.event(|event| matches!(event, SessionEvent::Back(_)));
        talk.some();
        talk.finish();
    }
}

#[test]
fn a_session_goes_on_at_another_address() {
    for carrier in [Carrier::Udp, Carrier::Tcp] {
        let Some([one, _router, two]) = routed(1_500) else { return };
        let talk = Talk::begin(&one, &two, carrier);
        assert_eq!(talk.some().remote.ip(), CLIENT);
        one.change("addr del 10.7.1.1/24 dev a0");
        one.change("addr add 10.7.1.9/24 dev a0");
        one.change("route add default via 10.7.1.2");
        talk.until(|taken| taken.remote.ip() == IpAddr::from([10, 7, 1, 9]));
        talk.some();
        talk.finish();
    }
}

#[test]
fn a_session_goes_on_over_tcp_while_datagrams_are_dropped() {
    let Some([one, router, two]) = routed(1_500) else { return };
    let talk = Talk::begin(&one, &two, Carrier::Auto);
    assert!(!talk.some().piped);
    router.change("rule add blackhole ipproto udp pref 10");
    talk.until(|taken| taken.piped);
    talk.some();
    router.change("rule del pref 10");
    talk.until(|taken| !taken.piped);
    talk.some();
    talk.finish();
}

/// A NAT for datagrams to the server, on the router: the server sees an address of the router, and a port for each
/// client. The NAT forgets its ports whenever `forgets` says so, and ends with it.
async fn nat(mut forgets: channel::UnboundedReceiver<()>) {
    let inside = Arc::new(transparent());
    let (mut ports, mut ways) = (HashMap::new(), JoinSet::new());
    let mut buffer = vec![0; 65_536];
    loop {
        tokio::select! {
            forget = forgets.recv() => match forget {
                Some(()) => {
                    ports.clear();
                    ways.shutdown().await;
                }
                None => return,
            },
            got = inside.recv_from(&mut buffer) => {
                let (count, client) = got.unwrap();
                let port = match ports.entry(client) {
                    Entry::Occupied(port) => port.into_mut(),
                    Entry::Vacant(none) => {
                        let outside = Arc::new(UdpSocket::bind((ROUTER, 0)).await.unwrap());
                        outside.connect(SERVER).await.unwrap();
                        ways.spawn(back(Arc::clone(&outside), Arc::clone(&inside), client));
                        none.insert(outside)
                    }
                };
                // A datagram that cannot be sent is lost, as in any network.
                let _ = port.send(&buffer[..count]).await;
            }
        }
    }
}

/// Passes the datagrams that come to a port on to its client.
async fn back(outside: Arc<UdpSocket>, inside: Arc<UdpSocket>, client: SocketAddr) {
    let mut buffer = vec![0; 65_536];
    loop {
        if let Ok(count) = outside.recv(&mut buffer).await {
            let _ = inside.send_to(&buffer[..count], client).await;
        }
    }
}

/// A socket that receives, and answers, what is sent to the server.
fn transparent() -> UdpSocket {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
    socket.set_ip_transparent_v4(true).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket.bind(&SERVER.into()).unwrap();
    UdpSocket::from_std(socket.into()).unwrap()
}

#[test]
fn a_session_goes_on_when_a_nat_gives_it_another_port() {
    let Some([one, router, two]) = routed(1_500) else { return };
    // The server cannot reach the client but through the NAT, which gets all that comes from the client.
    two.ip("route del default".into());
    router.ip("rule add iif r0 lookup 100 pref 10".into());
    router.ip("route add local 10.7.2.1 dev lo table 100".into());
    let (forget, forgets) = channel::unbounded_channel();
    let routes = router.begin(move || block_on(nat(forgets)));
    let talk = Talk::begin(&one, &two, Carrier::Udp);
    let mut before = talk.some().remote;
    for _ in 0..3 {
        assert_eq!(before.ip(), ROUTER);
        forget.send(()).unwrap();
        before = talk.until(|taken| taken.remote != before).remote;
        talk.some();
    }
    talk.finish();
    drop(forget);
    routes.recv().unwrap();
}

/// How many clients are behind one address.
const CROWD: usize = 300;

/// Opens a session, sends a message in it, and returns when that is delivered, and answered.
async fn visit(carrier: Carrier, address: PeerAddr, number: usize) {
    let node = client(carrier).await;
    let mut session = node.peer(address).session("crowd").unwrap().open().await.unwrap();
    let receipt = session.send(numbered(number)).await.unwrap();
    assert_eq!(session.recv().await.unwrap().unwrap().take().unwrap(), numbered(number));
    assert_eq!(receipt.await.outcome, Outcome::Delivered);
    assert!(session.recv().await.unwrap().is_none(), "one answer, and the end");
    session.close(LATE).await.unwrap();
    node.close(LATE).await;
}

/// Answers what comes in a session, and returns it.
async fn host(mut session: Session) -> Vec<Bytes> {
    let message = session.recv().await.unwrap().unwrap();
    let mut all = vec![message.body().clone()];
    let answer = message.body().clone();
    drop(session.answer(message, answer).await.unwrap());
    let (mut sender, mut receiver) = session.split();
    drop(sender.close().await.unwrap());
    while let Some(message) = receiver.recv().await.unwrap() {
        all.push(message.take().unwrap());
    }
    all
}

/// How many connections of one network may be open before a packet that is authentic has arrived on them, and how many
/// more may wait.
const STRANGERS: usize = 16;
const WAITING: usize = 64;

/// Opens silent connections of one network, and returns the first that the node closes.
fn first_closed(connections: usize) -> Option<usize> {
    let [one, two] = hosts()?;
    one.cable("a0", "10.7.2.9", &two, "b0", "10.7.2.1", 1_500);
    let (tell, told) = mpsc::channel();
    let (finish, mut finished) = watch::channel(());
    let served = two.begin(move || {
        block_on(async {
            let _node = node(SERVER, Carrier::Tcp).await;
            tell.send(()).unwrap();
            finished.changed().await.unwrap_err();
        });
    });
    told.recv().unwrap();
    let first = one.run(move || {
        block_on(async {
            let mut silent = JoinSet::new();
            for n in 0..connections {
                let mut stream = TcpStream::connect(SERVER).await.unwrap();
                silent.spawn(async move {
                    // The node closes it, with or without a reset.
                    drop(stream.read(&mut [0]).await);
                    n
                });
            }
            silent.join_next().await.unwrap().unwrap()
        })
    });
    drop(finish);
    served.recv().unwrap();
    Some(first)
}

#[test]
fn connections_beyond_the_share_of_their_network_wait_for_a_place_up_to_a_limit() {
    let Some(first) = first_closed(STRANGERS + WAITING) else { return };
    assert!(first < STRANGERS, "connection {first} did not wait");
    assert_eq!(first_closed(STRANGERS + WAITING + 1), Some(STRANGERS + WAITING));
}

/// A node bounds what strangers of one network may ask of it at once. It takes in a whole crowd all the same.
fn crowd(carrier: Carrier) {
    let Some([one, two]) = hosts() else { return };
    one.cable("a0", "10.7.2.9", &two, "b0", "10.7.2.1", 1_500);
    let (tell, told) = mpsc::channel();
    let served = two.begin(move || {
        block_on(async {
            let node = node(SERVER, carrier).await;
            tell.send(node.peer_addr()).unwrap();
            let (mut sessions, mut seen) = (JoinSet::new(), BTreeMap::<_, usize>::new());
            for _ in 0..CROWD {
                sessions.spawn(host(node.accept_session().await.unwrap()));
            }
            while let Some(all) = sessions.join_next().await {
                all.unwrap().into_iter().for_each(|body| *seen.entry(body).or_default() += 1);
            }
            node.close(LATE).await;
            seen
        })
    });
    let address = told.recv().unwrap();
    let visited = one.begin(move || {
        block_on(async {
            let visits: JoinSet<_> = (0..CROWD).map(|n| visit(carrier, address.clone(), n)).collect();
            visits.join_all().await;
        });
    });
    visited.recv().unwrap();
    let each: BTreeMap<_, _> = (0..CROWD).map(|n| (numbered(n), 1)).collect();
    assert!(served.recv().unwrap() == each, "each message comes once");
}

#[test]
fn a_crowd_behind_one_address_is_served_over_udp() {
    crowd(Carrier::Udp);
}

#[test]
fn a_crowd_behind_one_address_is_served_over_tcp() {
    crowd(Carrier::Tcp);
}
