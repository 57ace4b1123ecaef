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

/// The maximum number of connections at once; further ones wait in the operating system.
const CONNECTIONS: usize = 128;
/// The time limit for the head of a request, and for the silence between two requests.
const HEAD_TIME: Duration = Duration::from_secs(15);
/// The pause before another `accept` after one has failed.
const PAUSE: Duration = Duration::from_millis(100);

/// Binds a listener; `option` names the command line option that gives its address.
///
/// # Errors
/// The address cannot be bound.
pub(crate) async fn bind(address: SocketAddr, option: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let failure = Failure::new(format!("cannot listen at {address}")).because(&error);
        failure.hint(format!("to use a free port: {option} {}:0", address.ip()))
    })
}

/// Serves clients until the sender of `ended` is dropped, then disconnects all clients.
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
    // Answers are small, and a client waits for each.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let office = Arc::clone(&office);
        async move { Ok::<_, Infallible>(answer(&office, request).await) }
    });
    http::converse(stream, HEAD_TIME, service).await;
}
