//! Ports that wait for connections.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use crate::failure::Failure;

/// How long nothing is accepted when there is no room for another file.
const PAUSE: Duration = Duration::from_millis(100);

/// Listens at an address.
///
/// # Errors
/// It is in use, or not of this machine.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let failure = Failure::new(format!("cannot listen at {address}")).because(&error);
        match error.kind() {
            io::ErrorKind::AddrInUse => {
                failure.hint("another program listens there: choose another port, or 0 for any that is free")
            }
            io::ErrorKind::PermissionDenied => {
                failure.hint("ports below 1024 are for root: choose a higher one")
            }
            _ => failure,
        }
    })
}

/// The next connection. An error of a single connection, or a lack of file descriptors, ends nothing.
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

/// Lets this process have as many files open as the system allows: each connection is one.
pub(crate) fn raise_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // With fewer files there are fewer connections.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}
