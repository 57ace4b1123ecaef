//! Connections instead of datagrams: TCP, for paths where UDP does not get through or is not wanted.
//!
//! A node opens connections with a [`Dialler`]: straight ([`Tcp`]), through a proxy (`Proxy`, feature `proxy`), in
//! TLS (`Tls`, feature `tls`), or with a dialler of the application. It accepts connections at the port of its
//! socket, and the application can give it more ([`Node::take_connection`]). So packets can use anything that carries
//! bytes both ways. `docs/carriers.md` says when a node uses connections.
//!
//! [`Node::take_connection`]: crate::Node::take_connection

// The core decides when it wants a connection, which packets go over it, and whether the connection is still of use.
// This module opens, accepts, reads, writes and closes connections. Each connection has a task (`traffic`). The
// thread that flushes writes the packets; if the connection does not take all bytes at once, its task writes the rest
// (`Outlet`).

mod connection;
mod crowd;
mod dial;
mod dialler;
mod frame;
mod listener;
mod outlet;
#[cfg(feature = "proxy")]
mod proxy;
#[cfg(feature = "proxy")]
mod stand_ins;
#[cfg(feature = "tls")]
mod tls;
mod traffic;

use core::net::{IpAddr, SocketAddr};
#[cfg(target_os = "linux")]
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exonet_proto::NodeId;
use exonet_proto::node::{Arrival, Limits, Pipe, Prefix};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};

pub use self::connection::Connection;
use self::crowd::{Crowd, Stranger};
pub use self::dial::{Dialler, Dialling, LookUp, Tcp};
use self::dialler::Dials;
pub(crate) use self::dialler::dial;
pub(crate) use self::listener::{admit, bind_beside, listen};
use self::outlet::Outlet;
pub(crate) use self::outlet::Written;
#[cfg(feature = "proxy")]
pub use self::proxy::{BadProxy, Proxy};
#[cfg(feature = "tls")]
pub use self::tls::{Tls, TlsServer};

/// How many openings may wait for the driver.
const MAX_OPENINGS: usize = 256;
/// The system accepts no more bytes for a connection while this many have not left: the node cannot take them back.
#[cfg(target_os = "linux")]
const UNSENT: u32 = 16_384;
/// The system breaks the connection if the other end's system acknowledges no bytes for this long.
#[cfg(target_os = "linux")]
const UNACKED: Duration = Duration::from_secs(10);

/// The connections of a node.
pub(crate) struct Carriers {
    /// To be locked under the node's lock, or alone.
    open: Mutex<BTreeMap<Pipe, Arc<Outlet>>>,
    /// A thread that holds this lock may take the node's lock, never the other way round.
    dials: Mutex<Dials>,
    /// Openings that have arrived. Like those in datagrams, they wait for their share of the driver's time.
    openings: Mutex<Vec<(Arrival, Box<[u8]>)>>,
    /// The new listener, after the node has moved to another address.
    moved: Mutex<Option<TcpListener>>,
    moving: Notify,
    /// Notified when the network may be back.
    pub(crate) hasten: Notify,
    /// What opens connections.
    pub(crate) dialler: Arc<dyn Dialler>,
    /// Whether a connection that cannot be opened is worth a warning: nothing else shows why a proxy lets nothing
    /// through, or why a peer is not reached where connections are the only way.
    pub(crate) warns: bool,
    /// What accepts connections that begin with TLS.
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<TlsServer>,
    strangers: Crowd<Prefix>,
    peers: Crowd<NodeId>,
    /// Closed when the node no longer accepts connections.
    pub(crate) listening: Semaphore,
}

impl Default for Carriers {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            dials: Mutex::default(),
            openings: Mutex::default(),
            moved: Mutex::default(),
            moving: Notify::new(),
            hasten: Notify::new(),
            dialler: Arc::new(Tcp),
            warns: false,
            #[cfg(feature = "tls")]
            tls: None,
            strangers: Crowd::of_strangers(),
            peers: Crowd::of_peers(&Limits::default()),
            listening: Semaphore::new(0),
        }
    }
}

impl Carriers {
    fn open(&self) -> MutexGuard<'_, BTreeMap<Pipe, Arc<Outlet>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the limits on accepted connections.
    pub(crate) fn limit(&mut self, limits: &Limits) {
        self.peers = Crowd::of_peers(limits);
    }

    /// A place for an accepted connection. None: there are too many, of strangers or of peers. If a connection is
    /// closed before a packet has arrived on it, the other end waits longer before each further attempt.
    fn admit(&self, from: IpAddr) -> Option<Stranger> {
        if self.peers.has_room() { self.strangers.admit(from) } else { None }
    }

    fn enter(&self, pipe: Pipe, outlet: &Arc<Outlet>) {
        self.open().insert(pipe, Arc::clone(outlet));
    }

    fn leave(&self, pipe: Pipe) {
        self.open().remove(&pipe);
    }

    /// Accepts connections with `listener` from now on.
    pub(crate) fn move_to(&self, listener: TcpListener) {
        *self.moved.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
        self.moving.notify_one();
    }

    fn take_moved(&self) -> Option<TcpListener> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Stores openings that have arrived. Returns whether any wait. Openings beyond the limit are dropped, and their
    /// senders repeat them.
    fn put(&self, mut openings: Vec<(Arrival, Box<[u8]>)>) -> bool {
        let mut waiting = self.openings.lock().unwrap_or_else(PoisonError::into_inner);
        openings.truncate(MAX_OPENINGS.saturating_sub(waiting.len()));
        waiting.append(&mut openings);
        !waiting.is_empty()
    }

    /// Takes the openings that wait.
    pub(crate) fn take_openings(&self) -> Vec<(Arrival, Box<[u8]>)> {
        core::mem::take(&mut *self.openings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends the datagrams in `data` over the connection `pipe`.
    pub(crate) fn send(&self, pipe: Pipe, data: &[u8], segment: usize) -> Written {
        let outlet = self.open().get(&pipe).cloned();
        outlet.map_or(Written::Broken, |outlet| outlet.send(data, segment))
    }
}

/// Sets the TCP options that a carrier needs. On systems without them, more bytes wait in the system, and for longer.
fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    #[cfg(target_os = "linux")]
    {
        socket.set_tcp_notsent_lowat(UNSENT)?;
        socket.set_tcp_user_timeout(Some(UNACKED))?;
    }
    #[cfg(not(target_os = "linux"))]
    socket.set_send_buffer_size(outlet::ROOM)?;
    Ok(())
}

/// The core uses plain IPv4 addresses, not mapped ones.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
