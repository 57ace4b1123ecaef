//! Accepts connections.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use exonet_proto::node::Prefix;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

use super::canonical;
use super::connection::Connection;
use super::crowd::Stranger;
use super::outlet::{Outlet, ROOM};
use super::traffic::{FIRST_WORD, Origin, Traffic, Whose};
use crate::shared::Shared;
use crate::socket::Socket as UdpSocket;

/// The number of connections that may wait in the system to be accepted.
const BACKLOG: i32 = 128;
/// The largest number of accepted connections that wait until the node takes them in.
const WAITING: usize = 128;
/// The largest number of these from one network.
const WAITING_OF_NETWORK: usize = 64;
/// How many ports to try if the system chooses the port.
const TRIES: u32 = 16;
/// The pause after an error of the system, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Binds to `address`; if that is the unspecified address of IPv6, to both families.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // So connections of a former process that have not quite ended do not block the port. On other systems the option
    // has another meaning.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Binds a UDP socket with `udp`, and a listener at the same port. Another program may use that port for TCP: if the
/// system chose it, both are bound again.
pub(crate) fn bind_beside<E>(
    chosen: bool,
    udp: impl Fn() -> Result<UdpSocket, E>,
) -> Result<(UdpSocket, io::Result<TcpListener>), E> {
    let mut tries = TRIES;
    loop {
        tries -= 1;
        let socket = udp()?;
        match bind(socket.local_addr()) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && chosen && tries > 0 => {}
            listener => return Ok((socket, listener)),
        }
    }
}

/// Accepts connections until the node ends.
pub(crate) async fn listen(shared: Arc<Shared>, listener: TcpListener) {
    // Dropped last: the port is free before the tasks that wait for the end wake.
    let _ended = Ended(Arc::clone(&shared));
    let (mut listener, mut queue) = (listener, Queue::default());
    loop {
        let accepted = tokio::select! {
            biased;
            _ = shared.ended.acquire() => return,
            () = shared.carriers.moving.notified() => {
                listener = shared.carriers.take_moved().unwrap_or(listener);
                continue;
            }
            () = shared.carriers.strangers.changed() => {
                queue.take_in(&shared);
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, remote)) => {
                queue.add(&shared, Waiting { stream, remote, until: Instant::now() + FIRST_WORD });
            }
            Err(error) => {
                tracing::debug!(%error, "taking in a connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// A connection for which there is no place yet.
struct Waiting {
    stream: TcpStream,
    remote: SocketAddr,
    /// When the other end gives up.
    until: Instant,
}

impl Waiting {
    /// Takes the connection in, if there is a place for it. Returns it otherwise.
    fn take_in(self, shared: &Arc<Shared>) -> Option<Self> {
        let Some(stranger) = shared.carriers.admit(self.remote.ip()) else { return Some(self) };
        tokio::spawn(take(Arc::clone(shared), self.stream, canonical(self.remote), stranger));
        None
    }
}

/// Connections that wait for a place, in the order in which they came. With this queue, a crowd behind one address gets in
/// early: a client whose connection is closed waits longer before each further attempt.
#[derive(Default)]
struct Queue(VecDeque<Waiting>);

impl Queue {
    /// Takes a connection in, or keeps it. Closes it if too many wait already, or if the node has too many peers: these
    /// stay longer than a connection may wait.
    fn add(&mut self, shared: &Arc<Shared>, connection: Waiting) {
        let Some(connection) = connection.take_in(shared) else { return };
        let network = Prefix::told(connection.remote.ip());
        let same = self.0.iter().filter(|other| Prefix::told(other.remote.ip()) == network).count();
        if self.0.len() < WAITING && same < WAITING_OF_NETWORK && shared.carriers.peers.has_room() {
            self.0.push_back(connection);
        }
    }

    /// Takes in each connection for which there is a place. Closes those whose other end has given up, and all if there are
    /// too many peers.
    fn take_in(&mut self, shared: &Arc<Shared>) {
        let (now, room) = (Instant::now(), shared.carriers.peers.has_room());
        let live =
            core::mem::take(&mut self.0).into_iter().filter(|connection| room && connection.until > now);
        self.0 = live.filter_map(|connection| connection.take_in(shared)).collect();
    }
}

struct Ended(Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.carriers.listening.close();
    }
}

/// Finds out whether the connection begins with TLS, and passes packets over it.
async fn take(shared: Arc<Shared>, stream: TcpStream, remote: SocketAddr, stranger: Stranger) {
    let connection = tokio::select! {
        biased;
        _ = shared.ended.acquire() => return,
        connection = timeout(FIRST_WORD, open(&shared, stream)) => connection,
    };
    match connection.map_err(io::Error::from).and_then(|connection| connection) {
        Ok(connection) => carry(&shared, connection, remote, stranger).run().await,
        Err(error) => tracing::debug!(%error, %remote, "taking in a connection"),
    }
}

#[cfg(feature = "tls")]
async fn open(shared: &Shared, stream: TcpStream) -> io::Result<Connection> {
    match &shared.carriers.tls {
        Some(tls) if super::tls::is_spoken(&stream).await? => tls.accept(stream).await,
        _ => Connection::tcp(stream),
    }
}

#[cfg(not(feature = "tls"))]
#[allow(clippy::unused_async)] // with the feature it waits
async fn open(_: &Shared, stream: TcpStream) -> io::Result<Connection> {
    Connection::tcp(stream)
}

/// Takes over a connection that the application has accepted. Returns false if there are too many.
pub(crate) fn admit(shared: &Arc<Shared>, connection: Connection, remote: SocketAddr) -> bool {
    let Some(stranger) = shared.carriers.admit(remote.ip()) else { return false };
    tokio::spawn(carry(shared, connection, canonical(remote), stranger).run());
    true
}

fn carry(shared: &Arc<Shared>, connection: Connection, remote: SocketAddr, stranger: Stranger) -> Traffic {
    let Connection { reader, writer } = connection;
    let outlet = Arc::new(Outlet::new(writer));
    let pipe = shared.amend(|engine| {
        let pipe = engine.core.pipe_accepted(ROOM);
        shared.carriers.enter(pipe, &outlet);
        pipe
    });
    Traffic::new(shared, (reader, outlet), (pipe, remote), Origin::Taken(Whose::Stranger(stranger)))
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;
    use core::net::Ipv4Addr;

    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }

    #[tokio::test]
    async fn a_port_that_is_taken_for_connections_is_given_up_if_the_system_chose_it() {
        let taken = bind(at(0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let calls = Cell::new(0);
        let udp = || UdpSocket::bind(at(if calls.replace(calls.get() + 1) == 0 { port } else { 0 }));
        let (socket, listener) = bind_beside(true, udp).unwrap();
        assert_eq!(listener.unwrap().local_addr().unwrap(), socket.local_addr());
        assert_ne!(socket.local_addr().port(), port);
        drop(socket);

        let (_, listener) = bind_beside(false, || UdpSocket::bind(at(port))).unwrap();
        assert_eq!(listener.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
