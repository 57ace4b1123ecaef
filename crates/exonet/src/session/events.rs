//! The events of a session.

use core::net::SocketAddr;
use core::time::Duration;

use super::state::{SessionEnd, State};
use crate::error::Closed;
use crate::presence::{PeerEvent, Watch};

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// The server has accepted the session.
    Accepted,
    /// The node has a connection to the peer, for the first time since these events began.
    Connected(SocketAddr),
    /// The peer answers none of the messages on their way to it. The value is the time since this node last heard
    /// from it. The session goes on when the peer is back.
    Away(Duration),
    /// This node hears from the peer again, after this time.
    Back(Duration),
    /// The peer is at another address.
    Moved(SocketAddr),
    /// Another process than before runs the peer's identity. If it has no journal of the session, the session will
    /// end `Forgotten`.
    Restarted,
    /// The peer sends nothing more. Messages that it has sent can still be received.
    Closing,
    /// The session has ended, and how.
    Ended(SessionEnd),
}

/// The events of a session: see [`Session::events`](super::Session::events).
///
/// An event that the peer sends is noticed only while the application receives in the session: while a task waits in
/// [`recv`](super::Session::recv), or with each call of [`try_recv`](super::Session::try_recv).
#[derive(Debug)]
pub struct SessionEvents {
    state: State,
    watch: Watch,
    accepted: bool,
    closing: bool,
    ended: bool,
}

impl SessionEvents {
    pub(super) fn new(state: State) -> Self {
        let watch = state.peer().watch();
        Self { accepted: state.is_accepted(), closing: state.is_closing(), ended: false, state, watch }
    }

    /// The time since this node last heard from the peer; None if the peer is not away.
    pub fn away(&self) -> Option<Duration> {
        self.watch.away()
    }

    /// Returns the next event, if there is one, without waiting.
    pub fn try_next(&mut self) -> Option<SessionEvent> {
        if !self.accepted && self.state.is_accepted() {
            self.accepted = true;
            return Some(SessionEvent::Accepted);
        }
        if let Some(event) = self.watch.try_next() {
            return Some(match event {
                PeerEvent::Connected(at) => SessionEvent::Connected(at),
                PeerEvent::Away(since) => SessionEvent::Away(since),
                PeerEvent::Back(after) => SessionEvent::Back(after),
                PeerEvent::Moved(to) => SessionEvent::Moved(to),
                PeerEvent::Restarted => SessionEvent::Restarted,
            });
        }
        if !self.closing && self.state.is_closing() {
            self.closing = true;
            return Some(SessionEvent::Closing);
        }
        let end = self.state.ended().filter(|_| !self.ended)?;
        self.ended = true;
        Some(SessionEvent::Ended(end))
    }

    /// Waits for the next event. [`Ended`](SessionEvent::Ended) is the last one. Several events between two calls may
    /// be reported as one, as with [`Watch::next`].
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`Closed`] when the node is closed.
    pub async fn next(&mut self) -> Result<SessionEvent, Closed> {
        let (news, peer) = (self.state.news(), self.watch.news());
        loop {
            // Created before the look at the state, so that nothing between the look and the wait is missed.
            let (told, of_peer) = (news.notified(), peer.notified());
            if let Some(event) = self.try_next() {
                return Ok(event);
            }
            if self.state.peer().shared().look(|engine| engine.is_ending()) {
                return Err(Closed);
            }
            tokio::select! {
                () = told => {}
                () = of_peer => {}
            }
        }
    }
}
