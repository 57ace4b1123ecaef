//! The state that both directions of one end of a session share.

use core::time::Duration;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::SessionId;
use super::wire::Code;
use crate::peer::Peer;

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionEnd {
    /// Both ends have closed the session.
    #[error("both sides have closed it")]
    Closed,
    /// One end has aborted the session, or its process has ended.
    #[error("the other side has given it up")]
    Aborted,
    /// An application, or the node of the server, refused the session or ended it for a reason, which is the value.
    #[error("one side has refused or ended it: {0}")]
    Refused(Arc<str>),
    /// The session has reached its limit of silence or of total time.
    #[error("it was silent, or has lasted, for as long as it may")]
    Expired,
    /// One of the two ends does not know the session, because its process has ended and kept no journal. Messages
    /// that were in doubt then are Unknown.
    #[error("one side has forgotten it, as a process does that keeps no journal")]
    Forgotten,
}

/// The silence and the total time after which a session ends. Zero means never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) idle: Duration,
    pub(super) life: Duration,
}

struct Life {
    limits: Limits,
    /// When this handle began.
    began: Instant,
    end: Option<SessionEnd>,
    /// Whether the server has accepted the session.
    accepted: bool,
    /// Whether this end has closed its direction.
    closed: bool,
    /// Whether the peer has closed its direction.
    closing: bool,
    /// When the last message was sent or received.
    used: Instant,
}

impl Life {
    fn expires(&self) -> Option<Instant> {
        let end = |from: Instant, span: Duration| if span.is_zero() { None } else { from.checked_add(span) };
        [end(self.used, self.limits.idle), end(self.began, self.limits.life)].into_iter().flatten().min()
    }

    fn end_if_both(&mut self) {
        if self.closed && self.closing {
            self.end.get_or_insert(SessionEnd::Closed);
        }
    }
}

struct Inner {
    peer: Peer,
    id: SessionId,
    name: Bytes,
    life: Mutex<Life>,
    news: Arc<Notify>,
    /// Whether the session continues without its handle.
    left: AtomicBool,
}

#[derive(Clone)]
pub(super) struct State(Arc<Inner>);

impl State {
    pub(super) fn new(peer: Peer, id: SessionId, name: Bytes, limits: Limits) -> Self {
        let now = Instant::now();
        let life =
            Life { limits, began: now, end: None, accepted: false, closed: false, closing: false, used: now };
        let (life, news, left) = (Mutex::new(life), Arc::default(), AtomicBool::new(false));
        Self(Arc::new(Inner { peer, id, name, life, news, left }))
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.0.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether both belong to the same handle.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
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

    pub(super) fn limits(&self) -> Limits {
        self.life().limits
    }

    /// Sets the limits that the client has sent.
    pub(super) fn set_limits(&self, limits: Limits) {
        self.life().limits = limits;
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

    /// Notes that a message was received.
    pub(super) fn touch(&self) {
        self.life().used = Instant::now();
    }

    /// Notes that this end is about to send something.
    ///
    /// # Errors
    /// The session has ended, perhaps just now because of its total time.
    pub(super) fn begin_to_say(&self) -> Result<(), SessionEnd> {
        let now = Instant::now();
        let mut life = self.life();
        if let Some(end) = &life.end {
            return Err(end.clone());
        }
        if life.expires().is_some_and(|at| at <= now) {
            drop(life);
            self.end(SessionEnd::Expired);
            return Err(SessionEnd::Expired);
        }
        life.used = now;
        Ok(())
    }

    /// When the session ends if no message comes or goes.
    pub(super) fn expires(&self) -> Option<Instant> {
        self.life().expires()
    }

    /// Lets the session continue without its handle.
    pub(super) fn let_go(&self) {
        self.0.left.store(true, Ordering::Relaxed);
    }

    /// Whether the session continues without its handle: the application has detached the handle, or closed the node.
    pub(super) fn is_left(&self) -> bool {
        self.0.left.load(Ordering::Relaxed) || self.0.peer.shared().look(|engine| engine.is_ending())
    }

    pub(super) fn accept(&self) {
        self.tell(|life| life.accepted = true);
    }

    /// Notes that this end has closed its direction.
    pub(super) fn close(&self) {
        self.tell(|life| {
            life.closed = true;
            life.end_if_both();
        });
    }

    /// Notes that the peer has closed its direction, for this reason.
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
            life.end_if_both();
        });
    }

    /// Ends the session. If it has already ended, nothing changes.
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
