//! Connections in place of datagrams: TCP, where UDP does not get through, or is not wanted.
//!
//! A node opens them by a [`Dialler`]: straight ([`Tcp`]), through a proxy (`Proxy`, feature `proxy`), in TLS (`Tls`, feature `tls`), or
//! in a way of the application's own. It takes them in at the port of its socket, and from the application ([`Node::take_connection`]). So
//! packets may go over anything that carries bytes both ways. `docs/carriers.md` says when a node uses connections.
//!
//! [`Node::take_connection`]: crate::Node::take_connection

// The core decides when it wants a connection, what goes there, and whether it is still of use; here it is opened, taken in, read,
// written and closed. Each has a task (`traffic`). What leaves is written by whoever flushes, and what the connection does not
// take at once by the task (`Outlet`).

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

use exonet_proto::node::{Arrival, Limits, Pipe, Prefix};
use exonet_proto::{Mono, NodeId};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};

pub use self::connection::Connection;
use self::crowd::{Crowd, Stranger};
pub use self::dial::{Dialler, Dialling, LookUp, Tcp};
use self::dialler::Dials;
pub(crate) use self::dialler::dial;
pub(crate) use self::listener::{admit, bind, listen};
use self::outlet::Outlet;
pub(crate) use self::outlet::Written;
#[cfg(feature = "proxy")]
pub use self::proxy::{BadProxy, Proxy};
#[cfg(feature = "tls")]
pub use self::tls::{Tls, TlsServer};

/// Openings that wait for the driver.
const MAX_OPENINGS: usize = 256;
/// The system takes no more while so much of it has not left: what waits there cannot be taken back.
#[cfg(target_os = "linux")]
const UNSENT: u32 = 16_384;
/// What is not acknowledged by the other end's system for so long breaks the connection.
#[cfg(target_os = "linux")]
const UNACKED: Duration = Duration::from_secs(10);

/// The connections of a node.
pub(crate) struct Carriers {
    /// Locked under the node's lock, or alone.
    open: Mutex<BTreeMap<Pipe, Arc<Outlet>>>,
    /// The node's lock may be taken under this one, never this under the node's.
    dials: Mutex<Dials>,
    /// Openings that have come: they wait for their share of the driver's time, as those do that come as datagrams.
    openings: Mutex<Vec<(Arrival, Box<[u8]>)>>,
    /// Where connections are taken in from now on.
    moved: Mutex<Option<TcpListener>>,
    moving: Notify,
    /// Opens connections.
    pub(crate) dialler: Arc<dyn Dialler>,
    /// The dialler is the usual one.
    pub(crate) straight: bool,
    /// Takes in connections that begin with TLS.
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<TlsServer>,
    strangers: Crowd<Prefix>,
    peers: Crowd<NodeId>,
    /// Closed when the node takes no connections in any more.
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
            dialler: Arc::new(Tcp),
            straight: true,
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

    /// As many are taken in as `limits` say.
    pub(crate) fn limit(&mut self, limits: &Limits) {
        self.peers = Crowd::of_peers(limits);
    }

    /// A place for one that somebody has opened. None: there are too many, of strangers or of peers. One that is closed before anything
    /// has come is dialled again later and later.
    fn admit(&self, from: IpAddr) -> Option<Stranger> {
        self.strangers.admit(from).filter(|_| self.peers.has_room())
    }

    fn enter(&self, pipe: Pipe, outlet: &Arc<Outlet>) {
        self.open().insert(pipe, Arc::clone(outlet));
    }

    fn leave(&self, pipe: Pipe) {
        self.open().remove(&pipe);
    }

    /// Connections are taken in by `listener` from now on.
    pub(crate) fn move_to(&self, listener: TcpListener) {
        *self.moved.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
        self.moving.notify_one();
    }

    fn take_moved(&self) -> Option<TcpListener> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Openings have come. True: they are to be taken out. More than wait already come again.
    fn put(&self, mut openings: Vec<(Arrival, Box<[u8]>)>) -> bool {
        let mut waiting = self.openings.lock().unwrap_or_else(PoisonError::into_inner);
        openings.truncate(MAX_OPENINGS.saturating_sub(waiting.len()));
        waiting.append(&mut openings);
        !waiting.is_empty()
    }

    /// Takes them out.
    pub(crate) fn take_openings(&self) -> Vec<(Arrival, Box<[u8]>)> {
        core::mem::take(&mut *self.openings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends the datagrams in `data` by the connection `pipe`.
    pub(crate) fn send(&self, now: Mono, pipe: Pipe, data: &[u8], segment: usize) -> Written {
        let outlet = self.open().get(&pipe).cloned();
        outlet.map_or(Written::Broken, |outlet| outlet.send(now, data, segment))
    }
}

/// Sets what the carrier needs of a connection. Where the system knows no such thing, more waits in it, and longer.
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

/// The core knows IPv4 addresses as such.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
