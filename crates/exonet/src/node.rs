//! The application's handle on a node.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::num::NonZeroU32;
use core::time::Duration;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use exonet_proto::NodeId;
use exonet_proto::node::{Carrier, OpenMessage, Stats};
use tokio::sync::Semaphore;
use tokio::time::{self, sleep};

use crate::allow::Allow;
use crate::builder::Builder;
use crate::carrier::{self, Connection};
use crate::dead::DeadLetters;
use crate::engine::journaling::Hold;
use crate::engine::{Engine, Phase};
use crate::peer_addr::PeerAddr;
use crate::send::receipt::Receipt;
use crate::shared::Shared;
use crate::socket::Socket;

/// A node: it sends and receives messages, each exactly once.
///
/// It sends through its [peers](Self::peer) and receives with [`Self::recv`]. The handle is cheap to clone and to
/// share. [`Peer`](crate::Peer)s and [`Receiver`](crate::receive::Receiver)s hold handles too. When the last handle
/// is dropped, the node stops and logs a warning. Every open receipt is then settled: Kept if the journal has the
/// message; else Cancelled if the message never left, and Unknown if it did. To lose nothing, call [`Self::close`]
/// first.
#[derive(Clone)]
pub struct Node {
    handle: Arc<Handle>,
}

/// For this long, a node that ends tells its peers which messages it has not taken.
const FAREWELL: Duration = Duration::from_millis(500);

/// How often a node that freezes checks whether its peers have its replies.
const GLANCE: Duration = Duration::from_millis(1);

/// How long a node that has moved waits for a peer to answer its greeting.
const GREETING: Duration = Duration::from_secs(5);

/// The number of peers that are greeted at once, and how long a peer that does not answer holds up the next one. If a
/// node greeted all peers at once, each step of each handshake would wait for that step of all others, and no peer
/// would finish before the last one.
const GREETED_AT_ONCE: usize = 16;
const GREETING_PATIENCE: Duration = Duration::from_millis(20);

/// How many times a node without a next life announces its end before it says goodbye.
const FOREWORDS: u32 = 2;

/// Only the clones of one [`Node`] share this, so its destructor runs when the last clone is gone.
struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Even if no message is open, this sends a goodbye.
        self.shared.step_last(|engine, now| {
            engine.close(now);
            engine.finish(now);
        });
        self.shared.stop(Some("the last handle was dropped"));
    }
}

impl Node {
    /// Begins to build a node that talks to the peers that `allow` admits.
    pub fn builder(allow: Allow) -> Builder {
        Builder::new(allow)
    }

    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { handle: Arc::new(Handle { shared }) }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// The id of this node.
    pub fn id(&self) -> NodeId {
        self.shared().id
    }

    /// The local address of the node's socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared().local_addr()
    }

    /// Whether the node accepts connections now. With [`Carrier::Auto`](crate::Carrier::Auto) it accepts none if another
    /// program has the TCP port.
    pub fn accepts_connections(&self) -> bool {
        !self.shared().carriers.listening.is_closed()
    }

    /// The address of this node for peers on the same machine: its id at its local address. The loopback address
    /// replaces an unspecified address.
    pub fn peer_addr(&self) -> PeerAddr {
        let mut address = self.local_addr();
        if address.ip().is_unspecified() {
            // A dual-stack socket receives at the IPv4 loopback address as well.
            address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        PeerAddr::from((self.id(), address))
    }

    // ---- after a crash

    /// The messages that a former life of this identity sent and did not settle, each with its receipt. This life
    /// continues with them, whether or not the caller takes their receipts. A second call does not return them again.
    ///
    /// Without a journal the result is empty: see [`Durability`](crate::Durability).
    pub fn recovered(&self) -> Vec<(OpenMessage, Receipt)> {
        let left = self.shared().amend(Engine::take_recovered);
        let count = |hold: &Hold| if let Hold::Lot(_, n) = hold { *n as usize } else { 1 };
        let mut all = Vec::with_capacity(left.iter().map(|(_, hold)| count(hold)).sum());
        let each = left.into_iter().flat_map(|(open, hold)| {
            let (one, lot) = match hold {
                Hold::One(slot) => (Some(Receipt::new(Arc::clone(self.shared()), slot)), None),
                Hold::Lot(lot, n) => (None, Some((lot, n))),
            };
            let many = lot.into_iter().flat_map(move |(lot, n)| {
                (0..n).map(move |at| (open.key.nth(at), Receipt::of_lot(Arc::clone(&lot), at)))
            });
            let all = one.map(|receipt| (open.key, receipt)).into_iter().chain(many);
            all.map(move |(key, receipt)| {
                let mut open = open;
                open.key = key;
                (open, receipt)
            })
        });
        all.extend(each);
        all
    }

    /// The messages that this node has rejected: see [`dead`](crate::dead).
    pub fn dead_letters(&self) -> DeadLetters {
        self.shared().dead.letters.clone()
    }

    // ---- life

    /// Waits until every message sent so far is settled, but no longer than `timeout`; None means no limit. Returns
    /// the messages that are still open.
    pub async fn flush(&self, timeout: impl Into<Option<Duration>>) -> Vec<OpenMessage> {
        let shared = self.shared();
        let mark = shared.amend(|engine| engine.receipts.mark());
        wait_until(shared, timeout.into(), || shared.look(|engine| engine.receipts.settled_before(mark)))
            .await;
        shared.look(
            |engine| {
                if engine.receipts.settled_before(mark) { Vec::new() } else { engine.open_messages() }
            },
        )
    }

    /// Ends the node. It refuses new work, waits until every message is settled and the peers have been told, but no
    /// longer than `timeout`, and then stops. Returns the messages that are still open. Their receipts then say Kept
    /// if the journal has the message, so that the next life continues with it; else Cancelled or Unknown.
    ///
    /// The node takes no further calls, and answers later ones with
    /// [`ReplyStatus::DRAINING`](crate::call::ReplyStatus::DRAINING). It waits for the calls that run. Meanwhile the
    /// application can still take received messages. A message that it has not taken by then is certainly not
    /// delivered: the node tells its peers so, for up to 500 ms more, and they queue these messages again for the
    /// next life of this identity. A node without a next life tells the peers that wrote to it that it has ended,
    /// which takes up to 250 ms more. From then on `recv` returns [`Closed`](crate::error::Closed), and a message
    /// that was handed out and not [acknowledged](crate::Delivery::ack) is not delivered.
    pub async fn close(&self, timeout: Duration) -> Vec<OpenMessage> {
        let shared = self.shared();
        shared.step(|engine, now| engine.close(now));
        shared.readable.notify_waiters();
        shared.amend(|engine| {
            engine.room.turn_away(&mut engine.after);
            engine.wake_routes();
        });
        // A task may be about to take a waiting message: lets it run first.
        tokio::task::yield_now().await;
        wait_until(shared, Some(timeout), || {
            shared.dead.is_quiet() && shared.look(|engine| engine.is_quiet())
        })
        .await;
        shared.step(|engine, now| engine.finish(now));
        wait_until(shared, Some(FAREWELL), || shared.look(|engine| engine.is_finished())).await;
        for _ in 0..FOREWORDS {
            let mut again = None;
            shared.step_last(|engine, _| again = engine.foretell_end());
            let Some(again) = again else { break };
            sleep(again.min(FAREWELL / 4)).await;
        }
        shared.step_last(|engine, now| engine.leave_all(now));
        let open = shared.look(|engine| engine.open_messages());
        shared.stop(None);
        // The driver signals its end by closing the semaphore, so an error is expected.
        let _ = shared.ended.acquire().await;
        let _ = shared.carriers.listening.acquire().await;
        open
    }

    /// Stops the node without telling any peer, and keeps everything that is open for the next life of the identity,
    /// here or [elsewhere](crate::state::StateDir::checkpoint). When this method returns, the journal is complete on
    /// disk, and open receipts say [`Outcome::Kept`](crate::Outcome::Kept). Without a journal, this method has the
    /// effect of a crash.
    ///
    /// The node first waits, for `timeout` at most, until the running calls have ended and their replies have
    /// arrived; calls that still run then fail. The node takes no further calls and refuses none: they wait for the
    /// next life.
    pub async fn freeze(&self, timeout: Duration) {
        let shared = self.shared();
        shared.amend(|engine| engine.calls.paused = true);
        let replied = async {
            while shared.look(|engine| engine.phase < Phase::Stopped && engine.core.owes_replies()) {
                sleep(GLANCE).await;
            }
        };
        // The node stops even if the replies did not arrive in time.
        let _ = time::timeout(timeout, replied).await;
        shared.stop(None);
        // The driver signals its end by closing the semaphore, so an error is expected.
        let _ = shared.ended.acquire().await;
    }

    /// Pings every known peer, and does not wait for the answers. So peers learn the new address of a node that has
    /// [moved](crate::state::restore) without looking for it. The node greets a few peers at a time, so that most of
    /// them can go on before the last is greeted.
    pub fn greet(&self) {
        let node = self.clone();
        tokio::spawn(async move {
            let places = Arc::new(Semaphore::new(GREETED_AT_ONCE));
            for peer in node.peers() {
                let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
                let peer = node.peer(peer);
                tokio::spawn(async move {
                    let mut pong = pin!(peer.ping(GREETING));
                    let answered = time::timeout(GREETING_PATIENCE, &mut pong).await;
                    drop(place);
                    if answered.is_err() {
                        // This task still waits for its peer, while the others get their turn.
                        let _ = pong.await;
                    }
                });
            }
        });
    }

    /// Takes no further calls, and leaves everything else as it is. The node answers a later call with
    /// [`ReplyStatus::DRAINING`](crate::call::ReplyStatus::DRAINING) once nothing serves its method any more.
    pub fn drain(&self) {
        self.shared().amend(|engine| engine.drain());
    }

    /// Changes which peers may talk to this node. The change takes effect for each peer at its next opening. A peer
    /// with a channel keeps it until its keys are renewed: within two minutes, unless
    /// [`rekey_after`](crate::config::Config::rekey_after) sets another time. The node always admits the peers that
    /// it sends to.
    ///
    /// ```
    /// # use exonet::{Allow, Node, Outcome};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// let bob = Node::builder(Allow::only([])).bind("127.0.0.1:0").build().await?;
    /// bob.set_allow(Allow::only([alice.id()]));
    /// alice.peer(bob.peer_addr()).send("hello").await?;
    /// bob.recv().await?.ack()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_allow(&self, allow: Allow) {
        drop(self.shared().step(|engine, now| engine.set_allow(now, allow)));
    }

    /// How long a message may be in doubt before this node gives it up, as set by
    /// [`Builder::doubt_timeout`](crate::Builder::doubt_timeout). None: no limit.
    pub fn doubt_timeout(&self) -> Option<Duration> {
        self.shared().look(|engine| engine.core.config().doubt_timeout)
    }

    /// How many times this node hands a message out before it rejects it, as set by
    /// [`Builder::attempts`](crate::Builder::attempts). None: no limit.
    pub fn attempts(&self) -> Option<NonZeroU32> {
        self.shared().attempts
    }

    /// Figures about the node.
    pub fn stats(&self) -> Stats {
        self.shared().look(|engine| engine.core.stats())
    }

    /// How many bytes of the journal are not yet safe on disk, so that a power failure may still take them. Zero
    /// unless the node's [`Durability`](crate::Durability) waits for the disk.
    pub fn journal_lag(&self) -> u64 {
        self.shared().look(|engine| engine.core.journal_lag())
    }

    /// The peers that the node knows now.
    pub fn peers(&self) -> Vec<NodeId> {
        self.shared().look(|engine| engine.core.peers())
    }

    /// Moves the node to another local address, for example when a machine changes its network. The peers follow, and
    /// no message is lost. Returns the new local address.
    ///
    /// # Errors
    /// The error of the system. The node then keeps its old socket.
    pub async fn rebind(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(io::Error::other("not called within a tokio runtime"));
        }
        let carrier = self.shared().look(|engine| engine.core.config().carrier);
        let (socket, listener) = match carrier {
            Carrier::Udp => (Socket::bind(address)?, None),
            _ => {
                let (socket, listener) = carrier::bind_beside(address.port() == 0, || Socket::bind(address))?;
                (socket, Some(listener?))
            }
        };
        socket.writable().await?;
        let local = socket.local_addr();
        if let Some(listener) = listener {
            self.shared().carriers.move_to(listener);
        }
        self.shared().rebind(socket);
        Ok(local)
    }

    /// Takes over a connection that the application has accepted for this node, for example from its own listener, a
    /// pipe or a web server. `remote` is the address that the connection comes from, as far as the application knows
    /// it; the node's limits on strangers use it. The peer has to send an opening within 3 s.
    ///
    /// ```
    /// use std::net::SocketAddr;
    ///
    /// use exonet::carrier::Connection;
    /// use exonet::{Allow, Node};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// let (near, far) = tokio::io::duplex(16_384);
    /// node.take_connection(Connection::new(near), SocketAddr::from(([127, 0, 0, 1], 1)))?;
    /// # drop(far);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The node has ended, too many connections of strangers are open, or the caller is not within a tokio runtime.
    pub fn take_connection(&self, connection: Connection, remote: SocketAddr) -> io::Result<()> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(io::Error::other("not called within a tokio runtime"));
        }
        if self.shared().ended.is_closed() {
            return Err(io::Error::other("the node has ended"));
        }
        if !carrier::admit(self.shared(), connection, remote) {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "too many connections of strangers are open",
            ));
        }
        Ok(())
    }
}

/// Waits until `done` returns true, the node stops, or `most` has passed. It asks `done` again each time that a
/// message is settled.
pub(crate) async fn wait_until(shared: &Shared, most: Option<Duration>, done: impl Fn() -> bool) {
    let wait = async {
        loop {
            let settled = shared.settled.notified();
            if done() || shared.look(|engine| engine.phase >= Phase::Stopped) {
                return;
            }
            settled.await;
        }
    };
    match most {
        None => wait.await,
        // The caller checks whether `done` returned true in time.
        Some(most) => drop(time::timeout(most, wait).await),
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("id", &self.id()).finish_non_exhaustive()
    }
}
