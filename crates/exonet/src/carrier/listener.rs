//! Who takes connections in.

use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::sync::Arc;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use super::connection::{Connection, Origin};
use super::outlet::{Outlet, ROOM};
use super::strangers::{Stranger, Strangers};
use super::{canonical, tune};
use crate::shared::Shared;

/// Connections that wait to be taken in.
const BACKLOG: i32 = 128;
/// After an error, as of too many open files, the next is taken in later.
const PAUSE: Duration = Duration::from_millis(100);

/// Binds to `address`; to both families if it is the unspecified address of IPv6.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // Connections of a former process that are not quite over are in nobody's way. Elsewhere it means something else.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Takes connections in until the node ends.
pub(crate) async fn listen(shared: Arc<Shared>, listener: TcpListener) {
    // Dropped last: whoever waits for the end finds the port free.
    let _ended = Ended(Arc::clone(&shared));
    let mut listener = listener;
    let strangers = Strangers::default();
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
            // One too many is closed at once.
            Ok((stream, remote)) => {
                if let Some(stranger) = strangers.admit(remote.ip()) {
                    take(&shared, stream, canonical(remote), stranger);
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

fn take(shared: &Arc<Shared>, stream: TcpStream, remote: SocketAddr, stranger: Stranger) {
    if let Err(error) = tune(&stream) {
        tracing::debug!(%error, "a connection");
        return;
    }
    let outlet = Arc::new(Outlet::new(stream));
    let pipe = shared.amend(|engine| {
        let pipe = engine.core.pipe_accepted(ROOM);
        shared.carriers.enter(pipe, &outlet);
        pipe
    });
    let origin = Origin::Taken(Some(stranger));
    tokio::spawn(Connection::new(shared, outlet, (pipe, remote), origin).run());
}
