//! What both directions of one end of a session share.

use core::time::Duration;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::SessionId;
use super::wire::Code;
use crate::peer::Peer;

/// How a session has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEnd {
    /// Both ends have said all.
    Closed,
    /// One end has given the session up, or its process has ended with it.
    Aborted,
    /// The server's application, or its node, does not want the session: why.
    Refused(Arc<str>),
    /// It was silent for as long as it may be.
    Expired,
    /// The peer knows nothing of the session: its process has ended, and kept no journal. What was in doubt with it is Unknown.
    Forgotten,
}

struct Life {
    end: Option<SessionEnd>,
    /// The server has said that it takes it.
    accepted: bool,
    /// The peer says nothing more.
    closing: bool,
    /// When something was last sent or received.
    used: Instant,
}

struct Inner {
    peer: Peer,
    id: SessionId,
    name: Bytes,
    idle: Mutex<Duration>,
    life: Mutex<Life>,
    news: Arc<Notify>,
    /// The session goes on without its handle.
    left: AtomicBool,
}

#[derive(Clone)]
pub(super) struct State(Arc<Inner>);

impl State {
    pub(super) fn new(peer: Peer, id: SessionId, name: Bytes, idle: Duration) -> Self {
        let life = Life { end: None, accepted: false, closing: false, used: Instant::now() };
        let (idle, life) = (Mutex::new(idle), Mutex::new(life));
        Self(Arc::new(Inner {
            peer,
            id,
            name,
            idle,
            life,
            news: Arc::default(),
            left: AtomicBool::new(false),
        }))
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.0.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn peer(&self) -> &Peer {
        &self.0.peer
    }

    pub(super) fn id(&self) -> SessionId {
        self.0.id
    }

    pub(super) fn name(&self) -> &Bytes {
        &self.0.name
    }

    pub(super) fn idle(&self) -> Duration {
        *self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client has said after how much silence the session ends.
    pub(super) fn set_idle(&self, idle: Duration) {
        *self.0.idle.lock().unwrap_or_else(PoisonError::into_inner) = idle;
    }

    pub(super) fn news(&self) -> Arc<Notify> {
        Arc::clone(&self.0.news)
    }

    pub(super) fn ended(&self) -> Option<SessionEnd> {
        self.life().end.clone()
    }

    pub(super) fn is_accepted(&self) -> bool {
        self.life().accepted
    }

    pub(super) fn is_closing(&self) -> bool {
        self.life().closing
    }

    /// Something was sent or received.
    pub(super) fn touch(&self) {
        self.life().used = Instant::now();
    }

    /// When the session ends if it stays silent.
    pub(super) fn expires(&self) -> Option<Instant> {
        let idle = self.idle();
        if idle.is_zero() { None } else { self.life().used.checked_add(idle) }
    }

    /// The session goes on without its handle.
    pub(super) fn let_go(&self) {
        self.0.left.store(true, Ordering::Relaxed);
    }

    /// Whether the session goes on without its handle: that was given up, or its node is closed.
    pub(super) fn is_left(&self) -> bool {
        self.0.left.load(Ordering::Relaxed) || self.0.peer.shared().look(|engine| engine.is_ending())
    }

    pub(super) fn accept(&self) {
        self.tell(|life| life.accepted = true);
    }

    /// The peer says nothing more, and why.
    pub(super) fn bye(&self, code: Code, reason: &str) {
        let end = match code {
            Code::Closed => None,
            Code::Refused | Code::TooMany => Some(SessionEnd::Refused(reason.into())),
            Code::Expired => Some(SessionEnd::Expired),
            Code::Forgotten => Some(SessionEnd::Forgotten),
        };
        self.tell(|life| {
            life.closing = true;
            life.end = life.end.take().or(end);
        });
    }

    /// The session has ended. The first end counts.
    pub(super) fn end(&self, end: SessionEnd) {
        self.tell(|life| life.end = life.end.take().or(Some(end)));
    }

    fn tell(&self, change: impl FnOnce(&mut Life)) {
        change(&mut self.life());
        self.0.news.notify_waiters();
    }
}

impl core::fmt::Debug for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Inner { peer, id, name, .. } = &*self.0;
        f.debug_struct("Session").field("id", id).field("name", name).field("peer", &peer.id()).finish()
    }
}
