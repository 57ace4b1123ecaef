//! The listener, and the connections of clients.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Office;
use super::routes::answer;
use crate::failure::Failure;
use crate::http;

/// Connections at once; more wait in the system.
const CONNECTIONS: usize = 128;
/// How long a client may take for the head of a request, and be silent between two.
const HEAD_TIME: Duration = Duration::from_secs(15);
/// Before the system is asked again for what it had no room for.
const PAUSE: Duration = Duration::from_millis(100);

/// A listener; `option` is what gives its address.
///
/// # Errors
/// The system has no such place.
pub(crate) async fn bind(address: SocketAddr, option: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let failure = Failure::new(format!("cannot listen at {address}")).because(&error);
        failure.hint(format!("for a free port: {option} {}:0", address.ip()))
    })
}

/// Serves clients until the other end of `ended` is gone, then sends all away.
pub(super) async fn serve(listener: Arc<TcpListener>, office: Arc<Office>, mut ended: oneshot::Receiver<()>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut clients = JoinSet::new();
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        tokio::select! {
            _ = &mut ended => break,
            Some(_) = clients.join_next() => {}
            (place, accepted) = next => match accepted {
                Ok((stream, _)) => {
                    let office = Arc::clone(&office);
                    clients.spawn(async move {
                        converse(stream, office).await;
                        drop(place);
                    });
                }
                Err(_) => sleep(PAUSE).await,
            },
        }
    }
    clients.shutdown().await;
}

async fn converse(stream: TcpStream, office: Arc<Office>) {
    // Answers are small, and clients wait for each.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let office = Arc::clone(&office);
        async move { Ok::<_, Infallible>(answer(&office, request).await) }
    });
    http::converse(stream, HEAD_TIME, service).await;
}
