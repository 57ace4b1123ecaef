//! Looks up the host names and names of services that hints contain. Look-ups run concurrently, while the node uses
//! the addresses that it knows, and their results are kept for a while. The names of a peer that does not answer are
//! looked up again until it does.

use core::future::Future;
use core::net::SocketAddr;
use core::pin::Pin;
use core::time::Duration;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exonet_proto::{Mono, NodeId};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::carrier::{Dialler, LookUp};
use crate::error::SendError;
use crate::naming::{self, Name, Naming, NamingError};
use crate::peer_addr::PeerAddr;
use crate::shared::Shared;

/// How long a result is fresh: names move when services do. An older result is used while there is no other.
const FRESH: Duration = Duration::from_secs(60);

/// For this long after a failure, a name is not looked up again.
const FAILED: Duration = Duration::from_secs(2);

/// How many names are remembered. When the table is full, it forgets all names that no peer waits for.
const CAPACITY: usize = 1_024;

/// How many peers are told of a change of one name. Others learn of it when they send.
const USERS: usize = 1_024;

/// How long after a look-up the names of a silent peer are looked up again: the first wait, and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));

/// A look-up in progress.
type Lookup = Pin<Box<dyn Future<Output = io::Result<Answer>> + Send>>;

/// The result of a look-up.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    addresses: Vec<SocketAddr>,
    /// The node that the addresses belong to; None: whichever node is there, as with host names.
    of: Option<NodeId>,
}

impl From<Vec<SocketAddr>> for Answer {
    fn from(addresses: Vec<SocketAddr>) -> Self {
        Self { addresses, of: None }
    }
}

/// The state of a name.
#[derive(Default)]
struct Known {
    addresses: Vec<SocketAddr>,
    /// The only node that the addresses belong to.
    of: Option<NodeId>,
    /// The peers that this name led to.
    users: Vec<NodeId>,
    /// When the last look-up ended, and its error if it failed.
    asked: Option<(Mono, Option<String>)>,
    /// The peers to tell when the look-up in progress ends; empty if there is none.
    pending: Vec<NodeId>,
}

impl Known {
    fn is_due(&self, now: Mono) -> bool {
        let good = |(asked, failed): &(Mono, Option<String>)| {
            now.since(*asked) < if failed.is_some() { FAILED } else { FRESH }
        };
        self.pending.is_empty() && !self.asked.as_ref().is_some_and(good)
    }

    /// Whether the addresses may belong to `peer`.
    fn is_of(&self, peer: NodeId) -> bool {
        self.of.is_none_or(|of| of == peer)
    }
}

/// The names that were looked up or are being looked up.
pub(crate) struct Names {
    known: Mutex<BTreeMap<Box<str>, Known>>,
    lookup: Box<dyn Fn(Box<str>) -> Lookup + Send + Sync>,
    /// Notified when a look-up has ended.
    answered: Notify,
}

impl Names {
    /// Makes a table that looks up each name with `lookup`, in a task of its own.
    pub(crate) fn new<F, A>(lookup: impl Fn(Box<str>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<A>> + Send + 'static,
        A: Into<Answer>,
    {
        let lookup = Box::new(move |name| {
            let found = lookup(name);
            Box::pin(async move { found.await.map(Into::into) }) as Lookup
        });
        Self { known: Mutex::default(), lookup, answered: Notify::new() }
    }

    /// Makes a table in which the system or `dialler` looks up host names, and `naming` names of services.
    pub(crate) fn of_system(naming: Option<Arc<dyn Naming>>, dialler: Arc<dyn Dialler>) -> Self {
        Self::new(move |hint| {
            let (naming, dialler) = (naming.clone(), Arc::clone(&dialler));
            async move {
                let Some(name) = naming::of_hint(&hint) else {
                    return Ok(Answer::from(hosts(&hint, &*dialler).await?));
                };
                let service = naming.ok_or_else(|| io::Error::other(NamingError::NoService))?;
                let found = service.look_up(&name).await.map_err(io::Error::other)?;
                let peer =
                    found.ok_or_else(|| io::Error::other(NamingError::Unbound(name.clone())))?.record.peer;
                let mut addresses = peer.literals().to_vec();
                // A name of a service leads to host names only, never to another name.
                for host in peer.names().iter().filter(|host| naming::of_hint(host).is_none()) {
                    addresses.extend(hosts(host, &*dialler).await?);
                }
                Ok(Answer { addresses, of: Some(peer.id) })
            }
        })
    }

    /// The known addresses of `peer`, fresh or not.
    pub(crate) fn known<'a>(&self, peer: &'a PeerAddr) -> Cow<'a, [SocketAddr]> {
        if peer.names().is_empty() {
            return Cow::Borrowed(peer.literals());
        }
        let known = self.table();
        let of_peer = |name| known.get(name).filter(|known: &&Known| known.is_of(peer.id));
        let found = peer.names().iter().filter_map(of_peer).flat_map(|known| &known.addresses);
        Cow::Owned(peer.literals().iter().chain(found).copied().collect())
    }

    /// Marks the names of `peer` that are due for a look-up as being looked up, and returns them.
    fn begin(&self, now: Mono, peer: &PeerAddr) -> Vec<Box<str>> {
        let mut known = self.table();
        let mut due = Vec::new();
        for name in peer.names() {
            if known.len() >= CAPACITY && !known.contains_key(name) {
                known.retain(|_, known| !known.pending.is_empty());
            }
            let known = known.entry(name.clone()).or_default();
            if known.users.len() < USERS && !known.users.contains(&peer.id) {
                known.users.push(peer.id);
            }
            if known.is_due(now) {
                due.push(name.clone());
                known.pending.push(peer.id);
            } else if !known.pending.is_empty() && !known.pending.contains(&peer.id) {
                known.pending.push(peer.id);
            }
        }
        due
    }

    /// Marks all names of `peer` that are not being looked up as being looked up, however fresh they are, and returns
    /// them.
    fn begin_again(&self, peer: NodeId) -> Vec<Box<str>> {
        let mut table = self.table();
        let mut due = Vec::new();
        for (name, known) in table.iter_mut().filter(|(_, known)| known.users.contains(&peer)) {
            if known.pending.is_empty() {
                due.push(name.clone());
            }
            if !known.pending.contains(&peer) {
                known.pending.push(peer);
            }
        }
        due
    }

    /// Whether some name led to `peer`.
    fn leads_to(&self, peer: NodeId) -> bool {
        self.table().values().any(|known| known.users.contains(&peer))
    }

    /// Whether `name` led to `peer`.
    fn leads(&self, name: &str, peer: NodeId) -> bool {
        self.table()
            .get(name)
            .is_some_and(|known| known.users.contains(&peer) || known.pending.contains(&peer))
    }

    /// Ends a look-up. Returns the peers to tell, and the addresses.
    fn end(&self, now: Mono, name: &str, answer: io::Result<Answer>) -> (Vec<NodeId>, Vec<SocketAddr>) {
        let mut table = self.table();
        let Some(known) = table.get_mut(name) else { return Default::default() };
        let failed = match answer {
            Ok(found) if found.addresses.is_empty() => Some("the name has no address".to_owned()),
            Ok(found) => {
                (known.addresses, known.of) = (found.addresses, found.of);
                None
            }
            Err(error) => Some(error.to_string()),
        };
        let tell = if failed.is_none() { known.addresses.clone() } else { Vec::new() };
        known.asked = Some((now, failed));
        let mut peers = core::mem::take(&mut known.pending);
        peers.retain(|peer| known.is_of(*peer));
        (peers, tell)
    }

    /// The error, if none of the peer's names can be used. None while one may still be found.
    fn failure(&self, peer: &PeerAddr) -> Option<SendError> {
        let known = self.table();
        let mut last = None;
        for name in peer.names() {
            let known = known.get(name).filter(|known| known.pending.is_empty())?;
            let (_, failed) = known.asked.as_ref()?;
            let reason = match (failed, known.of.filter(|of| *of != peer.id)) {
                (Some(failed), _) => failed.clone(),
                (None, Some(of)) => format!("it stands for another node, {of}"),
                (None, None) => return None,
            };
            last = Some(SendError::Lookup { hint: name.to_string(), reason });
        }
        last
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Looks up the names of `peer`, concurrently. Waits only if no address of the peer is known, and only for the
    /// first result; later results go to the core. For a peer without names, this costs nothing.
    pub(crate) async fn resolve(self: &Arc<Self>, peer: &PeerAddr) -> Result<(), SendError> {
        if peer.names().is_empty() {
            return Ok(());
        }
        self.pinned(peer)?;
        if !peer.literals().is_empty() {
            // These addresses are used at once, before the name service is asked.
            for name in peer.names().iter().filter_map(|hint| naming::of_hint(hint)) {
                self.pins.check(&name, peer.id).await.map_err(|error| other_node(&name, &error))?;
            }
        }
        for name in self.names.begin(self.clock().mono(), peer) {
            self.look_up(name);
        }
        loop {
            // Created before the look at the table, so that no result between the look and the wait is missed.
            let answered = self.names.answered.notified();
            let known = !self.names.known(peer).is_empty();
            if known || self.look(|engine| engine.core.has_address(&peer.id)) {
                return Ok(());
            }
            if let Some(error) = self.names.failure(peer) {
                return Err(error);
            }
            answered.await;
        }
    }

    /// Checks that no other node was found before under the names of services that `peer` has.
    pub(crate) fn pinned(&self, peer: &PeerAddr) -> Result<(), SendError> {
        for name in peer.names().iter().filter_map(|hint| naming::of_hint(hint)) {
            self.pins.agree(&name, peer.id).map_err(|error| other_node(&name, &error))?;
        }
        Ok(())
    }

    /// Checks the answer for the name of a service. The answer counts only if no other node was found under the name
    /// before, and this is remembered as soon as a peer is wanted that it is right for.
    async fn approve(&self, hint: &str, answer: io::Result<Answer>) -> io::Result<Answer> {
        let answer = answer?;
        if let (Some(name), Some(of)) = (naming::of_hint(hint), answer.of) {
            self.pins.agree(&name, of).map_err(io::Error::other)?;
            if self.names.leads(hint, of) {
                self.pins.check(&name, of).await.map_err(io::Error::other)?;
            }
        }
        Ok(answer)
    }

    /// Looks up the names of a silent peer again and again, until the peer answers.
    pub(crate) fn look_again(self: &Arc<Self>, peer: NodeId) {
        let Ok(runtime) = Handle::try_current() else { return };
        if !self.names.leads_to(peer) {
            return;
        }
        // The task does not keep the node running.
        let shared = Arc::downgrade(self);
        runtime.spawn(async move {
            let mut wait = AGAIN.0;
            while let Some(shared) =
                shared.upgrade().filter(|shared| shared.look(|engine| engine.is_away(&peer)))
            {
                for name in shared.names.begin_again(peer) {
                    shared.look_up(name);
                }
                drop(shared);
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(AGAIN.1);
            }
        });
    }

    /// Looks a name up in a task of its own, so that nothing else waits for it.
    fn look_up(self: &Arc<Self>, name: Box<str>) {
        let runtime = match Handle::try_current() {
            Ok(runtime) => runtime,
            Err(error) => {
                self.names.end(self.clock().mono(), &name, Err(io::Error::other(error)));
                return;
            }
        };
        let (shared, lookup) = (Arc::clone(self), (self.names.lookup)(name.clone()));
        runtime.spawn(async move {
            let answer = shared.approve(&name, lookup.await).await;
            let (peers, found) = shared.names.end(shared.clock().mono(), &name, answer);
            if !found.is_empty() {
                shared.step(|engine, now| {
                    let hints = peers.iter().flat_map(|peer| found.iter().map(move |hint| (*peer, *hint)));
                    hints.for_each(|(peer, hint)| engine.learn(now, peer, hint));
                });
            }
            shared.names.answered.notify_waiters();
        });
    }
}

fn other_node(name: &Name, error: &NamingError) -> SendError {
    SendError::Lookup { hint: format!("{}{name}", naming::PREFIX), reason: error.to_string() }
}

/// The addresses of `host:port`, or the address that stands for it if a dialler resolves names itself.
async fn hosts(host: &str, dialler: &dyn Dialler) -> io::Result<Vec<SocketAddr>> {
    let way = dialler.look_up(host);
    if let LookUp::There(address) = way {
        return Ok(vec![address]);
    }
    let found: io::Result<Vec<_>> = tokio::net::lookup_host(host).await.map(Iterator::collect);
    match (found, way) {
        (Ok(found), _) if !found.is_empty() => Ok(found),
        (_, LookUp::HereFirst(address)) => Ok(vec![address]),
        (found, _) => found,
    }
}

#[cfg(test)]
mod tests {
    use core::future::{pending, poll_fn};
    use core::task::Poll;

    use super::*;
    use crate::{Allow, Node, Outcome};

    /// A node that looks up names with `lookup`.
    async fn node<F>(lookup: impl Fn(Box<str>) -> F + Send + Sync + 'static) -> Node
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        let builder = Node::builder(Allow::anyone()).bind("127.0.0.1:0");
        builder.names(Names::new(lookup)).build().await.unwrap()
    }

    fn peer(of: &Node, hints: &[&str]) -> PeerAddr {
        PeerAddr::new(of.id(), hints.iter().map(ToString::to_string)).unwrap()
    }

    /// The result of `future`, if it needs no wait.
    async fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
        let mut future = core::pin::pin!(future);
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(out) => Poll::Ready(Some(out)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    #[tokio::test]
    async fn an_address_is_used_at_once_while_names_are_looked_up() {
        let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
        let alice = node(|_| pending()).await;
        let literal = bob.local_addr().to_string();
        let receipt =
            alice.peer(peer(&bob, &["slow.example:1", &literal, "slower.example:2"])).send("hello").await;
        bob.recv().await.unwrap().ack().unwrap();
        assert_eq!(receipt.unwrap().await.outcome, Outcome::Delivered);
    }

    #[tokio::test]
    async fn names_are_looked_up_beside_each_other_and_the_first_answer_is_used() {
        let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
        let address = bob.local_addr();
        let alice = node(move |name| async move {
            if name.starts_with("slow") { pending().await } else { Ok(vec![address]) }
        })
        .await;
        let receipt = alice.peer(peer(&bob, &["slow.example:1", "quick.example:2"])).send("hello").await;
        bob.recv().await.unwrap().ack().unwrap();
        assert_eq!(receipt.unwrap().await.outcome, Outcome::Delivered);
    }

    #[tokio::test]
    async fn a_name_that_comes_late_is_told_to_the_core() {
        let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
        let (address, gate) = (bob.local_addr(), Arc::new(Notify::new()));
        let opened = Arc::clone(&gate);
        let alice = node(move |_| {
            let gate = Arc::clone(&opened);
            async move {
                gate.notified().await;
                Ok(vec![address])
            }
        })
        .await;
        // No node has this address.
        let wrong = "127.0.0.1:9";
        let receipt = alice.peer(peer(&bob, &[wrong, "late.example:1"])).send("hello").await.unwrap();
        gate.notify_one();
        bob.recv().await.unwrap().ack().unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
    }

    #[tokio::test]
    async fn a_failure_is_remembered_and_a_peer_that_is_connected_does_without_names() {
        use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
        let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
        let (address, works, asked) =
            (bob.local_addr(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (of_lookup, count) = (Arc::clone(&works), Arc::clone(&asked));
        let alice = node(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            let works = of_lookup.load(Ordering::Relaxed);
            async move { if works { Ok(vec![address]) } else { Err(io::Error::other("no such name")) } }
        })
        .await;
        let by_name = peer(&bob, &["bob.example:1"]);
        for _ in 0..3 {
            assert!(matches!(alice.peer(&by_name).send("x").await, Err(SendError::Lookup { .. })));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1, "a failure is good for a while");

        works.store(true, Ordering::Relaxed);
        alice.shared().names.table().clear();
        let receipt = alice.peer(&by_name).send("hello").await.unwrap();
        bob.recv().await.unwrap().ack().unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Delivered);

        // From here on look-ups of the name fail, and the table drops its addresses. The peer stays connected.
        works.store(false, Ordering::Relaxed);
        alice.shared().names.table().clear();
        let sent = at_once(alice.peer(&by_name).send("again")).await;
        let receipt = sent.expect("nothing is waited for").unwrap();
        bob.recv().await.unwrap().ack().unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
    }

    #[tokio::test]
    async fn an_old_answer_is_used_while_a_new_one_is_looked_up() {
        let alice = node(|_| pending()).await;
        let to = PeerAddr::new(NodeId([3; 32]), ["old.example:1"]).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 9));
        let known = Known { addresses: vec![address], asked: Some((Mono(0), None)), ..Known::default() };
        let later = Mono(0) + FRESH;
        assert!(!known.is_due(Mono(later.0 - 1)) && known.is_due(later));
        alice.shared().names.table().insert("old.example:1".into(), known);
        assert_eq!(alice.shared().names.begin(later, &to), ["old.example:1".into()]);
        assert_eq!(*alice.shared().names.known(&to), [address]);
        assert!(at_once(alice.shared().resolve(&to)).await.is_some());
        let nothing = (vec![to.id], Vec::new());
        assert_eq!(alice.shared().names.end(later, "old.example:1", Err(io::Error::other("gone"))), nothing);
        assert_eq!(*alice.shared().names.known(&to), [address], "a failure takes nothing away");
        assert!(alice.shared().names.begin(Mono((later + FAILED).0 - 1), &to).is_empty());
    }
}
