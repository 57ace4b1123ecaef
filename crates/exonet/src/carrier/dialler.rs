//! Opens connections, and opens them again after they break.

use core::future::poll_fn;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::Poll;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};

use exonet_proto::NodeId;
use exonet_proto::node::Dial;
use tokio::time::{sleep, timeout};

use super::connection::Connection;
use super::outlet::{Outlet, ROOM};
use super::traffic::{Origin, Traffic};
use super::{Carriers, canonical};
use crate::engine::Phase;
use crate::shared::Shared;

/// The longest pause before the second attempt. It doubles before each further attempt, up to `LAST_WAIT`.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LAST_WAIT: Duration = Duration::from_secs(10);
/// How long an attempt may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an attempt may take before the next address is tried beside it. Networks that drop all packets of one family
/// are common.
const BESIDE: Duration = Duration::from_millis(250);
/// How long the system waits before it repeats its first request for a connection.
const ASKS_AGAIN: Duration = Duration::from_secs(1);
/// All nodes that learn that the network is back try again at random times within this span.
const TOGETHER: Duration = Duration::from_millis(5);
/// The number of peers whose attempts are remembered.
const REMEMBERED: usize = 4_096;

/// The peers to which connections are being opened.
#[derive(Default)]
pub(super) struct Dials {
    /// The peers for which a task opens a connection.
    dialling: BTreeSet<NodeId>,
    /// The attempts since a connection to the peer last worked.
    tries: BTreeMap<NodeId, Tries>,
}

#[derive(Default)]
struct Tries {
    /// The number of attempts.
    count: u32,
    /// Whether a warning was logged that there is no connection.
    told: bool,
}

impl Dials {
    /// Notes that an attempt to reach the peer failed. Returns whether it is the first since a connection worked.
    fn is_news(&mut self, peer: &NodeId) -> bool {
        self.tries.get_mut(peer).is_some_and(|tries| !core::mem::replace(&mut tries.told, true))
    }

    /// Notes that the network may be back: the next attempt follows at once.
    fn begin_anew(&mut self, peer: &NodeId) {
        if let Some(tries) = self.tries.get_mut(peer) {
            tries.count = 0;
        }
    }

    /// Notes that a connection to the peer works. Returns whether a warning had said that there is none.
    fn works_again(&mut self, peer: &NodeId) -> bool {
        self.tries.remove(peer).is_some_and(|tries| tries.told)
    }
}

/// Opens a connection that the core has asked for, and tries again as long as the core wants it.
pub(crate) fn dial(shared: &Arc<Shared>, dial: Dial) {
    // One task per peer is enough.
    if shared.carriers.dials().dialling.insert(dial.peer) {
        tokio::spawn(keep_dialling(Arc::clone(shared), dial));
    }
}

async fn keep_dialling(shared: Arc<Shared>, Dial { peer, addresses }: Dial) {
    while let Some(wait) = shared.carriers.next_try(&shared, peer) {
        let news = shared.carriers.hasten.notified();
        tokio::select! {
            biased;
            _ = shared.ended.acquire() => return,
            () = sleep(wait) => {}
            () = news => {
                shared.carriers.dials().begin_anew(&peer);
                sleep(jitter(TOGETHER)).await;
            }
        }
        let connected = tokio::select! {
            biased;
            _ = shared.ended.acquire() => return,
            connected = connect_to_any(&shared.carriers, &peer, &addresses) => connected,
        };
        if let Some((address, connection)) = connected
            && begin(&shared, peer, address, connection)
        {
            shared.carriers.dials().dialling.remove(&peer);
            return;
        }
    }
}

/// Opens a connection to the first of the addresses that answers. None: all have failed.
async fn connect_to_any(
    carriers: &Carriers,
    peer: &NodeId,
    addresses: &[SocketAddr],
) -> Option<(SocketAddr, Connection)> {
    let (mut rest, mut trying) = (addresses.iter(), Vec::new());
    loop {
        trying.extend(rest.next().map(|address| {
            Box::pin(async move {
                let connected = timeout(PATIENCE, connect(carriers, peer, *address)).await;
                (*address, connected.map_err(io::Error::from).and_then(|connected| connected))
            })
        }));
        tokio::select! {
            biased;
            tried = next_of(&mut trying) => match tried? {
                (address, Ok(connection)) => return Some((address, connection)),
                (address, Err(error)) => carriers.failed(peer, address, &error),
            },
            () = sleep(BESIDE), if !rest.as_slice().is_empty() => {}
        }
    }
}

/// Waits until one of the attempts has ended, and removes it. None: there are none.
async fn next_of<F: Future>(trying: &mut Vec<Pin<Box<F>>>) -> Option<F::Output> {
    poll_fn(|cx| {
        let mut polled = trying.iter_mut().map(|attempt| attempt.as_mut().poll(cx)).enumerate();
        let ended = polled.find_map(|(at, polled)| match polled {
            Poll::Ready(ended) => Some((at, ended)),
            Poll::Pending => None,
        });
        match ended {
            Some((at, ended)) => {
                drop(trying.swap_remove(at));
                Poll::Ready(Some(ended))
            }
            None if trying.is_empty() => Poll::Ready(None),
            None => Poll::Pending,
        }
    })
    .await
}

/// Opens a connection. If the network may be back, and the system still waits to repeat its request, this begins anew
/// at once.
async fn connect(carriers: &Carriers, peer: &NodeId, address: SocketAddr) -> io::Result<Connection> {
    loop {
        let news = async {
            sleep(ASKS_AGAIN).await;
            carriers.hasten.notified().await;
        };
        tokio::select! {
            biased;
            connected = carriers.dialler.dial(address) => return connected,
            () = news => carriers.dials().begin_anew(peer),
        }
    }
}

/// Puts an open connection to use. Returns false if the core no longer wants it.
fn begin(shared: &Arc<Shared>, peer: NodeId, address: SocketAddr, connection: Connection) -> bool {
    let Connection { reader, writer } = connection;
    let (outlet, remote) = (Arc::new(Outlet::new(writer)), canonical(address));
    let pipe = shared.step(|engine, now| {
        let open = engine.phase < Phase::Stopped;
        let pipe = open.then(|| engine.core.pipe_dialled(now, &peer, remote, ROOM)).flatten()?;
        shared.carriers.enter(pipe, &outlet);
        Some(pipe)
    });
    let Some(pipe) = pipe else { return false };
    let origin = Origin::Dialled(peer);
    tokio::spawn(Traffic::new(shared, (reader, outlet), (pipe, remote), origin).run());
    true
}

impl Carriers {
    fn dials(&self) -> MutexGuard<'_, Dials> {
        self.dials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how long to wait before the next attempt. None: the core no longer wants a connection, and another
    /// task may dial the peer.
    fn next_try(&self, shared: &Shared, peer: NodeId) -> Option<Duration> {
        // Taken under the lock, so that another request that comes just now sees that no task dials the peer.
        let mut dials = self.dials();
        let wanted = |engine: &mut crate::engine::Engine| {
            engine.phase < Phase::Stopped && engine.core.wants_pipe(&peer)
        };
        if !shared.amend(wanted) {
            dials.dialling.remove(&peer);
            return None;
        }
        if dials.tries.len() >= REMEMBERED && !dials.tries.contains_key(&peer) {
            dials.tries.pop_first();
        }
        let tries = dials.tries.entry(peer).or_default();
        let most = tries.count.checked_sub(1).map_or(Duration::ZERO, |again| {
            FIRST_WAIT.saturating_mul(1_u32.checked_shl(again).unwrap_or(u32::MAX)).min(LAST_WAIT)
        });
        tries.count = tries.count.saturating_add(1);
        Some(jitter(most))
    }

    /// Logs the first failure as a warning if failures are [worth one](Carriers::warns). Later failures, and those at
    /// further addresses, have a lower level.
    fn failed(&self, peer: &NodeId, address: SocketAddr, error: &io::Error) {
        let news = self.dials().is_news(peer);
        let peer = peer.short();
        if news && self.warns {
            tracing::warn!(%peer, %address, "no connection: {error}");
        } else {
            tracing::debug!(%peer, %address, "no connection: {error}");
        }
    }

    /// Notes that a connection to the peer works.
    pub(super) fn worked(&self, peer: &NodeId) {
        if self.dials().works_again(peer) && self.warns {
            tracing::info!(peer = %peer.short(), "there is a connection again");
        }
    }
}

/// A random duration up to `most`, so that peers that were cut off together do not all come back at the same time.
fn jitter(most: Duration) -> Duration {
    let mut bytes = [0; 4];
    // Without random numbers, this is `most`.
    let share = getrandom::fill(&mut bytes)
        .map_or(1.0, |()| f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX));
    most.mul_f64(share)
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::carrier::{Dialler, Dialling};

    /// A dialler that counts its attempts. The first attempt never ends.
    #[derive(Debug, Default)]
    struct Counts(AtomicUsize);

    impl Dialler for Counts {
        fn dial(&self, _: SocketAddr) -> Dialling<'_> {
            let first = self.0.fetch_add(1, Ordering::Relaxed) == 0;
            Box::pin(async move {
                if first {
                    core::future::pending().await
                } else {
                    Err(io::ErrorKind::ConnectionRefused.into())
                }
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_dial_without_answer_begins_again_when_the_network_is_back_but_has_its_first_second() {
        let (dialler, peer) = (Arc::new(Counts::default()), NodeId([1; 32]));
        let carriers = Carriers { dialler: Arc::<Counts>::clone(&dialler), ..Carriers::default() };
        let dials = || dialler.0.load(Ordering::Relaxed);
        let news = async {
            sleep(ASKS_AGAIN / 2).await;
            carriers.hasten.notify_waiters();
            sleep(ASKS_AGAIN).await;
            assert_eq!(dials(), 1);
            carriers.hasten.notify_waiters();
        };
        let (connected, ()) = tokio::join!(connect(&carriers, &peer, ([127, 0, 0, 1], 9).into()), news);
        assert_eq!(
            (connected.err().map(|error| error.kind()), dials()),
            (Some(io::ErrorKind::ConnectionRefused), 2)
        );
    }

    /// A dialler that gets no answer at the first address, is refused at the second, and gets through at the others.
    #[derive(Debug)]
    struct OneFamily;

    impl Dialler for OneFamily {
        fn dial(&self, to: SocketAddr) -> Dialling<'_> {
            Box::pin(async move {
                match to.port() {
                    1 => core::future::pending().await,
                    2 => Err(io::ErrorKind::ConnectionRefused.into()),
                    _ => Ok(Connection::new(tokio::io::duplex(16).0)),
                }
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_does_not_answer_does_not_hold_up_the_next() {
        let carriers = Carriers { dialler: Arc::new(OneFamily), ..Carriers::default() };
        let peer = NodeId([1; 32]);
        let addresses = [1, 2, 3, 4].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let begun = tokio::time::Instant::now();
        let (address, _) = connect_to_any(&carriers, &peer, &addresses).await.unwrap();
        assert_eq!((address, begun.elapsed()), (addresses[2], BESIDE));
        let refused = connect_to_any(&carriers, &peer, &addresses[1..2]).await;
        assert!(refused.is_none());
        let silent = connect_to_any(&carriers, &peer, &addresses[..2]).await;
        assert!(silent.is_none());
    }

    #[test]
    fn a_failure_is_news_once_until_a_connection_works() {
        let (mut dials, peer) = (Dials::default(), NodeId([1; 32]));
        for _ in 0..2 {
            // Three rounds, each of two addresses.
            let news: Vec<_> = (0..6)
                .map(|n| {
                    dials.tries.entry(peer).or_default().count += u32::from(n % 2 == 0);
                    dials.is_news(&peer)
                })
                .collect();
            assert_eq!(news, [true, false, false, false, false, false]);
            assert!(dials.works_again(&peer) && !dials.works_again(&peer));
        }
    }

    #[test]
    fn jitter_is_anything_up_to_the_wait() {
        let waits: Vec<_> = (0..100).map(|_| jitter(LAST_WAIT)).collect();
        assert!(waits.iter().all(|wait| *wait <= LAST_WAIT));
        assert!(
            waits.iter().any(|wait| *wait < LAST_WAIT / 2) && waits.iter().any(|wait| *wait > LAST_WAIT / 2)
        );
        assert_eq!(jitter(Duration::ZERO), Duration::ZERO);
    }
}
