//! A node in front of the subject, with a relay between them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use exonet::config::Config;
use exonet::{Allow, Message, Node, NodeId, Outcome, Peer, PeerAddr, Receipt};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::demo::relay::{Relay, Route};
use crate::demo::weather::Odds;
use crate::failure::Failure;

/// A network without delays or faults.
pub(super) const CALM: Odds =
    Odds { loss: 0.0, duplication: 0.0, reordering: 0.0, corruption: 0.0, delay: Duration::from_millis(1) };
/// How long after an exchange duplicates may still arrive.
pub(super) const AFTERWARDS: Duration = Duration::from_millis(300);
/// The largest body in bytes that the subject sends back.
const LARGEST: u64 = 64 << 20;

/// The implementation that a check tests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) id: NodeId,
    pub(super) address: SocketAddr,
    pub(super) seed: u64,
}

/// The address of the subject: the first one to which its hints lead.
pub(super) async fn address(peer: &PeerAddr) -> Result<SocketAddr, Failure> {
    let lost = || {
        Failure::new(format!("no address is known for {}", peer.id.short()))
            .hint("write the subject as ID@HOST:PORT, as it prints it")
    };
    let hint = peer.hints().next().ok_or_else(lost)?.to_string();
    let found = tokio::net::lookup_host(&hint).await;
    let mut found = found.map_err(|error| Failure::new(format!("cannot look up {hint}")).because(&error))?;
    found.next().ok_or_else(lost)
}

/// The bodies that came back, and how many times each did.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    came: Mutex<HashMap<Bytes, u32>>,
    changed: Notify,
}

impl Echoes {
    fn add(&self, body: Bytes) {
        *self.came.lock().unwrap_or_else(PoisonError::into_inner).entry(body).or_default() += 1;
        self.changed.notify_one();
    }

    fn look<T>(&self, look: impl FnOnce(&HashMap<Bytes, u32>) -> T) -> T {
        look(&self.came.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many times this body came back.
    pub(super) fn count(&self, body: &Bytes) -> u32 {
        self.look(|came| came.get(body).copied().unwrap_or(0))
    }
}

/// A node that talks to the subject through a relay.
pub(super) struct Stand {
    pub(super) node: Node,
    pub(super) peer: Peer,
    pub(super) echoes: Arc<Echoes>,
    pub(super) relay: Arc<Line>,
    reader: JoinHandle<()>,
}

/// The relay, which stays when a node ends.
pub(super) struct Line {
    route: watch::Sender<Route>,
    relay: Relay,
}

impl Line {
    pub(super) async fn start(target: Target, odds: Odds) -> Result<Arc<Self>, String> {
        let start = Route { receiver: target.address, dead: false, mapping: 0, remember: true, replays: 0 };
        let (route, watching) = watch::channel(start);
        let relay = Relay::start(odds, target.seed, watching).await;
        let relay = relay.map_err(|error| format!("the relay does not start: {error}"))?;
        Ok(Arc::new(Self { route, relay }))
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Route)) {
        self.route.send_modify(change);
    }
}

impl Stand {
    /// Ends the node without telling its peer.
    pub(super) async fn die(self) {
        self.relay.change(|route| route.dead = true);
        self.node.close(Duration::from_millis(1)).await;
        // By then the relay has passed on everything that was sent before.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Stand {
    /// Makes a new node behind a relay of its own.
    pub(super) async fn new(target: Target, odds: Odds) -> Result<Self, String> {
        Self::on(target, Line::start(target, odds).await?, None, |_| ()).await
    }

    /// Makes a node behind this relay. With `state`, it has the identity that is stored there.
    pub(super) async fn on(
        target: Target,
        relay: Arc<Line>,
        state: Option<&Path>,
        change: impl FnOnce(&mut Config),
    ) -> Result<Self, String> {
        let builder = Node::builder(Allow::only([target.id])).bind("127.0.0.1:0").config(change);
        let builder = match state {
            Some(path) => builder.state_dir(path),
            None => builder,
        };
        let node =
            builder.build().await.map_err(|error| format!("the driver's node does not start: {error}"))?;
        let to = PeerAddr::new(target.id, [relay.relay.address.to_string()])
            .map_err(|error| format!("the relay has no address: {error}"))?;
        let (peer, echoes) = (node.peer(to), Arc::<Echoes>::default());
        let reader = tokio::spawn(read(node.clone(), Arc::clone(&echoes)));
        Ok(Self { node, peer, echoes, relay, reader })
    }

    /// Sends bodies that the subject should send back.
    pub(super) async fn send(&self, bodies: &[Bytes]) -> Result<Vec<Receipt>, String> {
        let mut receipts = Vec::with_capacity(bodies.len());
        for body in bodies {
            let message = Message::new(body.clone()).tag("echo");
            receipts.push(self.peer.send(message).await.map_err(|error| format!("cannot send: {error}"))?);
        }
        Ok(receipts)
    }

    /// Waits until all bodies have come back, and then a while for duplicates.
    pub(super) async fn all_back(&self, bodies: &[Bytes]) -> Result<(), String> {
        self.back(bodies).await;
        self.once(bodies)
    }

    /// Like [`Self::all_back`], but also accepts other bodies, and does not check for duplicates.
    pub(super) async fn back(&self, bodies: &[Bytes]) {
        loop {
            let waiting = self.echoes.changed.notified();
            if self.echoes.look(|came| bodies.iter().all(|body| came.contains_key(body))) {
                break;
            }
            waiting.await;
        }
        tokio::time::sleep(AFTERWARDS).await;
    }

    /// Checks that each body came back at most once, and that no other body did.
    pub(super) fn once(&self, bodies: &[Bytes]) -> Result<(), String> {
        self.echoes.look(|came| {
            let again = came.values().filter(|count| **count > 1).count();
            let strange = came.keys().filter(|body| !bodies.contains(body)).count();
            match (again, strange) {
                (0, 0) => Ok(()),
                (0, n) => Err(format!("{n} bodies came back that were not sent")),
                (n, _) => Err(format!("{n} of {} messages came back more than once", bodies.len())),
            }
        })
    }

    /// Sends bodies, waits for their outcomes, and checks that each comes back once.
    pub(super) async fn exchange(&self, bodies: &[Bytes]) -> Result<(), String> {
        let receipts = self.send(bodies).await?;
        delivered(receipts).await?;
        self.all_back(bodies).await
    }
}

/// Checks that all messages were delivered.
pub(super) async fn delivered(receipts: Vec<Receipt>) -> Result<(), String> {
    for (n, receipt) in receipts.into_iter().enumerate() {
        let outcome = receipt.await.outcome;
        if outcome != Outcome::Delivered {
            return Err(format!("message {n} ended {outcome:?}"));
        }
    }
    Ok(())
}

async fn read(node: Node, echoes: Arc<Echoes>) {
    while let Ok(mut delivery) = node.recv().await {
        let echoed = delivery.tag() == "echoed";
        // A message whose body ends early is handed out again.
        let Ok(body) = delivery.body_mut().bytes(LARGEST).await else { continue };
        if delivery.ack().is_ok() && echoed {
            echoes.add(body);
        }
    }
}

/// Bodies of this length, each with its number.
pub(super) fn bodies(count: usize, len: usize) -> Vec<Bytes> {
    let body = |n: usize| {
        let mut body = format!("message {n} ").into_bytes();
        body.resize(body.len().max(len), b'.');
        Bytes::from(body)
    };
    (0..count).map(body).collect()
}

/// A body of random bytes.
pub(super) fn noise(seed: u64, len: usize) -> Bytes {
    use rand::{RngCore, SeedableRng};
    let mut body = vec![0; len];
    rand_chacha::ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut body);
    body.into()
}
