//! Whether the peers that the application watches are there, and at which addresses.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use exonet_proto::{Mono, NodeId};
use tokio::sync::Notify;

use crate::error::Closed;
use crate::peer::Peer;

/// An event of a peer: see [`Peer::watch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerEvent {
    /// The peer has a channel, for the first time since the watch began.
    Connected(SocketAddr),
    /// The peer answers none of the messages on their way to it. The value is the time since this node last heard
    /// from it.
    Away(Duration),
    /// This node hears from the peer again, after this time.
    Back(Duration),
    /// The peer is at another address.
    Moved(SocketAddr),
    /// Another process than before runs the peer's identity.
    Restarted,
}

/// The state of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Presence {
    remote: Option<SocketAddr>,
    /// When this node last heard from the peer, if the peer is away.
    away: Option<Mono>,
    /// How many times the peer came back, and how long it was away the last time.
    back: (u64, Duration),
    restarts: u64,
}

#[derive(Default)]
struct Watched {
    watchers: usize,
    presence: Presence,
    news: Arc<Notify>,
}

/// The watched peers.
#[derive(Default)]
pub(crate) struct Presences {
    watched: BTreeMap<NodeId, Watched>,
}

impl Presences {
    fn watch(&mut self, peer: NodeId, remote: Option<SocketAddr>) -> (Presence, Arc<Notify>) {
        let watched = self.watched.entry(peer).or_default();
        if watched.watchers == 0 {
            watched.presence.remote = remote;
        }
        watched.watchers += 1;
        (watched.presence, Arc::clone(&watched.news))
    }

    fn unwatch(&mut self, peer: &NodeId) {
        if let Some(watched) = self.watched.get_mut(peer) {
            watched.watchers -= 1;
            if watched.watchers == 0 {
                self.watched.remove(peer);
            }
        }
    }

    fn of(&self, peer: &NodeId) -> Presence {
        self.watched.get(peer).map(|watched| watched.presence).unwrap_or_default()
    }

    /// Applies `change` to the state of a peer. If that changes the state, returns the notification of those who
    /// watch it.
    fn note(&mut self, peer: &NodeId, change: impl FnOnce(&mut Presence)) -> Option<Arc<Notify>> {
        let watched = self.watched.get_mut(peer)?;
        let before = watched.presence;
        change(&mut watched.presence);
        (watched.presence != before).then(|| Arc::clone(&watched.news))
    }

    pub(crate) fn connected(
        &mut self,
        peer: &NodeId,
        remote: SocketAddr,
        restarted: bool,
    ) -> Option<Arc<Notify>> {
        self.note(peer, |presence| {
            presence.remote = Some(remote);
            presence.restarts += u64::from(restarted);
        })
    }

    pub(crate) fn away(&mut self, peer: &NodeId, since: Mono) -> Option<Arc<Notify>> {
        self.note(peer, |presence| presence.away = Some(since))
    }

    pub(crate) fn back(&mut self, now: Mono, peer: &NodeId) -> Option<Arc<Notify>> {
        self.note(peer, |presence| {
            if let Some(since) = presence.away.take() {
                presence.back = (presence.back.0 + 1, now.since(since));
            }
        })
    }

    /// The notifications of all watched peers, to wake their watchers when the node ends.
    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<Notify>> + '_ {
        self.watched.values().map(|watched| Arc::clone(&watched.news))
    }
}

/// The events of a peer, from [`Peer::watch`] on.
#[derive(Debug)]
pub struct Watch {
    peer: Peer,
    news: Arc<Notify>,
    /// The state according to the events that this watch has returned.
    told: Presence,
}

impl Peer {
    /// Watches whether the peer is there, and at which address.
    ///
    /// The node finds that a peer is away when the peer does not answer a message that is on its way to it. With a
    /// [keepalive](Self::keepalive), such a message is always on its way.
    pub fn watch(&self) -> Watch {
        let (told, news) = self.shared().amend(|engine| {
            let remote = engine.core.peer_stats(&self.id()).and_then(|stats| stats.remote);
            engine.presences.watch(self.id(), remote)
        });
        Watch { peer: self.clone(), news, told }
    }
}

impl Watch {
    /// The peer.
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The notification that wakes when something has happened.
    pub(crate) fn news(&self) -> Arc<Notify> {
        Arc::clone(&self.news)
    }

    /// The time since this node last heard from the peer; None if the peer is not away.
    pub fn away(&self) -> Option<Duration> {
        let shared = self.peer.shared();
        let presence = shared.look(|engine| engine.presences.of(&self.peer.id()));
        presence.away.map(|since| shared.clock().mono().since(since))
    }

    /// Waits for the next event. Two events between two calls may be reported as one: for a peer that went away
    /// twice, only the last return is reported.
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`Closed`] when the node is closed.
    pub async fn next(&mut self) -> Result<PeerEvent, Closed> {
        loop {
            let news = Arc::clone(&self.news);
            // Created before the look at the state, so that no event between the look and the wait is missed.
            let told = news.notified();
            if let Some(event) = self.try_next() {
                return Ok(event);
            }
            if self.peer.shared().look(|engine| engine.is_ending()) {
                return Err(Closed);
            }
            told.await;
        }
    }

    /// Returns the next event, if there is one, without waiting.
    pub fn try_next(&mut self) -> Option<PeerEvent> {
        let shared = self.peer.shared();
        let now = shared.look(|engine| engine.presences.of(&self.peer.id()));
        let told = &mut self.told;
        if told.restarts != now.restarts {
            told.restarts = now.restarts;
            return Some(PeerEvent::Restarted);
        }
        if told.back != now.back {
            (told.back, told.away) = (now.back, None);
            return Some(PeerEvent::Back(now.back.1));
        }
        if let Some(remote) = now.remote
            && told.remote != now.remote
        {
            let came = told.remote.replace(remote).is_none();
            return Some(if came { PeerEvent::Connected(remote) } else { PeerEvent::Moved(remote) });
        }
        let since = now.away.filter(|_| told.away != now.away)?;
        told.away = now.away;
        Some(PeerEvent::Away(shared.clock().mono().since(since)))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.peer.shared().amend(|engine| engine.presences.unwatch(&self.peer.id()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: NodeId = NodeId([7; 32]);

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    #[test]
    fn only_what_is_watched_is_kept_and_only_changes_are_told() {
        let mut presences = Presences::default();
        assert!(presences.connected(&PEER, at(1), false).is_none());
        presences.watch(PEER, None);
        presences.watch(PEER, Some(at(9)));
        assert_eq!(presences.of(&PEER), Presence::default(), "the first watcher has begun it");
        assert!(presences.connected(&PEER, at(1), false).is_some());
        assert!(presences.connected(&PEER, at(1), false).is_none(), "new keys");
        assert!(presences.connected(&PEER, at(1), true).is_some());
        assert!(presences.back(Mono(5), &PEER).is_none(), "it was not away");
        assert!(presences.away(&PEER, Mono(10)).is_some());
        assert!(presences.back(Mono(25), &PEER).is_some());
        assert_eq!(presences.of(&PEER).back, (1, Duration::from_nanos(15)));
        presences.unwatch(&PEER);
        assert_eq!(presences.of(&PEER).restarts, 1);
        presences.unwatch(&PEER);
        assert!(presences.watched.is_empty());
    }
}
