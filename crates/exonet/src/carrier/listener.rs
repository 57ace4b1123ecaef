//! Accepts connections.

use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::sync::Arc;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::canonical;
use super::connection::Connection;
use super::crowd::Stranger;
use super::outlet::{Outlet, ROOM};
use super::traffic::{FIRST_WORD, Origin, Traffic, Whose};
use crate::shared::Shared;

/// The number of connections that may wait to be accepted.
const BACKLOG: i32 = 128;
/// The pause after an error such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Binds to `address`; to both families if it is the unspecified IPv6 address.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // Connections of a former process that have not quite ended do not block the port. On other systems the option
    // means something else.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Accepts connections until the node ends.
pub(crate) async fn listen(shared: Arc<Shared>, listener: TcpListener) {
    // Dropped last: a task that waits for the end finds the port free.
    let _ended = Ended(Arc::clone(&shared));
    let mut listener = listener;
    loop {
        let accepted = tokio::select! {
            biased;
            _ = shared.ended.acquire() => return,
            () = shared.carriers.moving.notified() => {
                listener = shared.carriers.take_moved().unwrap_or(listener);
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            // A connection beyond the limit is closed at once.
            Ok((stream, remote)) => {
                if let Some(stranger) = shared.carriers.admit(remote.ip()) {
                    tokio::spawn(take(Arc::clone(&shared), stream, canonical(remote), stranger));
                }
            }
            Err(error) => {
                tracing::debug!(%error, "taking in a connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

struct Ended(Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.carriers.listening.close();
    }
}

/// Finds out whether the connection speaks TLS, and lets it carry packets.
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

/// Takes in a connection that somebody else has accepted. False: there are too many.
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
