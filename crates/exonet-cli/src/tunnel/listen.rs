//! Ports that accept connections.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use crate::failure::Failure;

/// The pause before another `accept` when there are too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Listens at an address.
///
/// # Errors
/// The address is in use, or does not belong to this machine.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let failure = Failure::new(format!("cannot listen at {address}")).because(&error);
        match error.kind() {
            io::ErrorKind::AddrInUse => {
                failure.hint("another program listens there: choose another port, or 0 for any free port")
            }
            io::ErrorKind::PermissionDenied => {
                failure.hint("ports below 1024 need root: choose a higher one")
            }
            _ => failure,
        }
    })
}

/// Accepts the next connection. An error of a single connection, or a lack of file descriptors, is not an error here.
pub(crate) async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Raises the limit of open files to what the system allows, since each connection is a file.
pub(crate) fn raise_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // If this fails, fewer connections are possible.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}
