//! The traffic of one connection. Its task reads the connection, writes the bytes that had to wait, and closes it
//! when it is no longer of use.

use core::net::SocketAddr;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;

use exonet_proto::node::{Arrival, Pipe};
use exonet_proto::{NodeId, wire};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::time::{Instant, sleep, timeout};

use super::connection::Reader;
use super::crowd::{Guest, Stranger};
use super::frame::Unframer;
use super::outlet::{Outlet, Written};
use crate::engine::Phase;
use crate::shared::Shared;

/// How long a connection may be open before an authentic packet has arrived on it. Then the node closes it.
pub(super) const FIRST_WORD: Duration = Duration::from_secs(3);
/// How often the task checks whether the connection is still of use.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long the other end may take no bytes. Then the node closes the connection.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many bytes are read from a stranger: an opening, and some copies of it.
const HEARD: usize = 16_384;
/// The size in bytes of the read buffer before anything has arrived on a connection.
const FIRST_BYTES: usize = 256;
/// After this many reads, other tasks get their turn.
const READS: u32 = 8;
/// How long the task goes on writing the remaining bytes after the node has ended.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Who opened the connection.
pub(super) enum Origin {
    /// This node, to this peer.
    Dialled(NodeId),
    /// The other end. The value says who that is.
    Taken(Whose),
}

/// The count that includes an accepted connection.
#[expect(dead_code, reason = "a place is held for as long as it lives")]
pub(super) enum Whose {
    /// The other end has not proven its id yet.
    Stranger(Stranger),
    Peer(Guest),
}

pub(super) struct Traffic {
    shared: Arc<Shared>,
    reader: Reader,
    outlet: Arc<Outlet>,
    pipe: Pipe,
    remote: SocketAddr,
    origin: Origin,
    /// The number of bytes that have arrived.
    said: usize,
}

impl Traffic {
    /// Makes the traffic of a connection on which nothing has arrived yet.
    pub(super) fn new(
        shared: &Arc<Shared>,
        (reader, outlet): (Reader, Arc<Outlet>),
        (pipe, remote): (Pipe, SocketAddr),
        origin: Origin,
    ) -> Self {
        Self { shared: Arc::clone(shared), reader, outlet, pipe, remote, origin, said: 0 }
    }

    /// Runs until either end closes the connection. Only this task removes it from the node.
    pub(super) async fn run(mut self) {
        self.turns().await;
        self.outlet.give_up();
        let Self { shared, pipe, .. } = &self;
        shared.carriers.leave(*pipe);
        shared.step(|engine, now| {
            if engine.phase != Phase::Broken {
                engine.core.pipe_closed(now, *pipe);
            }
        });
    }

    async fn turns(&mut self) {
        let (outlet, shared) = (Arc::clone(&self.outlet), Arc::clone(&self.shared));
        let (mut unframer, mut known, mut reads) = (Unframer::new(), false, 0_u32);
        if matches!(self.origin, Origin::Dialled(_)) {
            unframer.trust();
        }
        let mut ended = pin!(shared.ended.acquire());
        let mut look = pin!(sleep(FIRST_WORD));
        let mut first = [0; FIRST_BYTES];
        while !outlet.is_broken() {
            tokio::select! {
                biased;
                _ = &mut ended => return say_the_rest(&outlet).await,
                () = outlet.work() => {
                    if !self.write() {
                        return;
                    }
                }
                () = &mut look => {
                    let Some(peer) = self.peer() else { return };
                    if !known && matches!(self.origin, Origin::Dialled(_)) || !self.meet(&mut known, Some(peer)) {
                        return;
                    }
                    unframer.rest();
                    outlet.rest();
                    look.as_mut().reset(Instant::now() + LOOK_EVERY);
                }
                read = self.reader.read(&mut first) => {
                    let count = read.unwrap_or(0);
                    let bytes = first.get(..count).unwrap_or_default();
                    if bytes.is_empty() || !self.read(bytes, &mut unframer, &mut known) {
                        return;
                    }
                    reads = reads.wrapping_add(1);
                    if reads.is_multiple_of(READS) {
                        tokio::task::yield_now().await;
                    }
                }
            }
        }
    }

    /// Reads what follows `first`, which has arrived, up to a limit. Returns false if the connection is over.
    fn read(&mut self, first: &[u8], unframer: &mut Unframer, known: &mut bool) -> bool {
        unframer.add(first);
        let mut count = first.len();
        if count == FIRST_BYTES {
            let mut more = ReadBuf::new(unframer.room());
            // This read wakes nobody. The next turn of the task reads again with a real waker, and then also finds an
            // error.
            let mut cx = Context::from_waker(Waker::noop());
            let read = Pin::new(&mut self.reader).poll_read(&mut cx, &mut more);
            let behind = if let Poll::Ready(Ok(())) = read { more.filled().len() } else { 0 };
            unframer.filled(behind);
            count += behind;
        }
        self.said = self.said.saturating_add(count);
        if !*known && self.said > HEARD {
            return false;
        }
        let Self { shared, pipe, remote, .. } = self;
        let arrival = Arrival { remote: *remote, local_ip: None, ecn: 0, pipe: Some(*pipe) };
        let mut openings = Vec::new();
        let (sound, peer) = shared.step_calmly(|engine, now| {
            let broken = engine.phase == Phase::Broken;
            let peer = if *known || broken { None } else { engine.core.peer_on(*pipe) };
            if *known || peer.is_some() {
                unframer.trust();
            }
            let sound = loop {
                match unframer.next() {
                    _ if broken => break false,
                    Ok(Some(datagram)) if wire::is_strange(datagram) => {
                        openings.push((arrival, Box::from(&*datagram)));
                    }
                    Ok(Some(datagram)) => engine.core.handle_datagram(now, arrival, datagram),
                    Ok(None) => break true,
                    Err(error) => {
                        tracing::debug!(%error, "reading from a connection");
                        break false;
                    }
                }
            };
            (sound, peer)
        });
        if !openings.is_empty() && shared.carriers.put(openings) {
            shared.work.notify_one();
        }
        self.meet(known, peer) && sound
    }

    /// Notes the peer at the other end, if that has proven its id. Returns false if this peer, or all peers together,
    /// have too many connections.
    fn meet(&mut self, known: &mut bool, peer: Option<NodeId>) -> bool {
        let Some(peer) = peer.filter(|_| !*known) else { return true };
        *known = true;
        match &mut self.origin {
            Origin::Dialled(peer) => self.shared.carriers.worked(peer),
            Origin::Taken(whose) => match self.shared.carriers.peers.admit(peer) {
                Some(guest) => *whose = Whose::Peer(guest),
                None => {
                    tracing::debug!(peer = %peer.short(), "one connection too many");
                    return false;
                }
            },
        }
        true
    }

    /// Writes the waiting bytes. Returns false if the connection is over.
    fn write(&self) -> bool {
        let Self { shared, outlet, pipe, .. } = self;
        match outlet.flush() {
            Written::Broken => return false,
            Written::Quietly => {}
            Written::Room(room) => shared.step(|engine, now| {
                if engine.phase != Phase::Broken {
                    engine.core.pipe_room(now, *pipe, room);
                }
            }),
        }
        true
    }

    /// The peer that uses the connection. None: no peer does.
    fn peer(&self) -> Option<NodeId> {
        let Self { shared, outlet, pipe, .. } = self;
        let stuck = outlet.stuck_since().is_some_and(|since| since.elapsed() >= PATIENCE);
        if stuck { None } else { shared.look(|engine| engine.core.peer_on(*pipe)) }
    }
}

/// Writes the waiting bytes after the node has ended, if the other end takes them soon.
async fn say_the_rest(outlet: &Outlet) {
    let rest = async {
        while outlet.flush() != Written::Broken && outlet.is_waiting() {
            outlet.work().await;
        }
    };
    drop(timeout(LAST_WORD, rest).await);
}

#[cfg(test)]
mod tests {
    use exonet_proto::node::Outcome;
    use tokio::io::{DuplexStream, copy, duplex, split};
    use tokio::sync::mpsc;
    use tokio::task::yield_now;

    use super::super::outlet::ROOM;
    use super::super::{Connection, Dialler, Dialling};
    use super::*;
    use crate::{Allow, Builder, Carrier, Node};

    /// The capacity of a pipe, in bytes: less than a node sends before the first acknowledgement.
    const PIPE: usize = 4_096;

    /// Each connection is a pipe, whose other end goes to the test.
    #[derive(Debug)]
    struct Piped(mpsc::UnboundedSender<DuplexStream>);

    impl Dialler for Piped {
        fn dial(&self, _: SocketAddr) -> Dialling<'_> {
            Box::pin(async {
                let (near, far) = duplex(PIPE);
                self.0.send(far).map_err(std::io::Error::other)?;
                Ok(Connection::new(near))
            })
        }
    }

    fn builder() -> Builder {
        Node::builder(Allow::anyone()).bind("127.0.0.1:0").carrier(Carrier::Tcp)
    }

    #[tokio::test]
    async fn a_peer_that_stops_reading_is_given_up_and_its_messages_wait_elsewhere() {
        let (dials, mut dialled) = mpsc::unbounded_channel();
        let server = builder().build().await.unwrap();
        let client = builder().dialler(Piped(dials)).build().await.unwrap();
        let receipt = client.peer(server.peer_addr()).send("hello").await.unwrap();
        let (mut from_client, mut to_client) = split(dialled.recv().await.unwrap());
        // One pipe for each direction, so that the end of the connection shows without a read of its bytes.
        let ((mut to_server, reads), (writes, mut from_server)) = (duplex(PIPE), duplex(PIPE));
        let connection = Connection::of_halves(reads, writes);
        server.take_connection(connection, ([192, 0, 2, 1], 9).into()).unwrap();
        let peer = server.peer(client.id());
        let greet = async {
            server.recv().await.unwrap().ack().unwrap();
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
            // The client grants slots, so that the server may send more without another word of the client.
            let answer = peer.send("hello").await.unwrap();
            client.recv().await.unwrap().ack().unwrap();
            assert_eq!(answer.await.outcome, Outcome::Delivered);
        };
        tokio::select! {
            _ = copy(&mut from_client, &mut to_server) => panic!("the client has ended it"),
            _ = copy(&mut from_server, &mut to_client) => panic!("the server has ended it"),
            () = greet => {}
        }

        // From here on, the client reads nothing, and the server has much to say.
        let outlet = Arc::clone(server.shared().carriers.open().values().next().unwrap());
        let mut waiting = Vec::new();
        while let Ok(receipt) = peer.try_send(vec![7; 20_000]) {
            waiting.push(receipt);
        }
        assert!(waiting.len() * 20_000 > 16 * ROOM, "{}", waiting.len());
        while outlet.stuck_since().is_none() {
            yield_now().await;
        }
        assert!(server.shared().look(|engine| engine.core.peer_stats(&client.id())).unwrap().piped);
        // The time of the runtime goes on as soon as all its tasks wait. That of the core does not: it still believes
        // in the connection.
        tokio::time::pause();
        let ended = timeout(2 * PATIENCE, to_server.read(&mut [0])).await;
        assert_eq!(ended.expect("the connection stays open").unwrap(), 0);
        assert!(outlet.stuck_since().unwrap().elapsed() >= PATIENCE, "it was given up too soon");
        assert!(outlet.held() <= 4 * ROOM, "{} bytes", outlet.held());
        assert!(server.shared().carriers.open().is_empty());
        assert!(
            waiting.iter().all(|receipt| receipt.settled().is_none()),
            "each waits for another connection"
        );
    }
}
