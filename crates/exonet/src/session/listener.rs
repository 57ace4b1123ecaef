//! Accepts the sessions that peers open.

use core::time::Duration;

use bytes::Bytes;

use super::state::Limits;
use super::wire::{Code, Said};
use super::{IDLE, Session, SessionId, SessionOpenError, limit};
use crate::error::Closed;
use crate::node::Node;
use crate::stream::desk::Entrance;
use crate::stream::listener::Listening;
use crate::stream::{Stream, StreamError};

/// The reason that a client gets if this node does not know its session.
const NOT_KNOWN: &str = "the node knows nothing of this session";

/// Accepts the sessions of one name. [`Node::session_listener`] makes it.
#[derive(Debug)]
pub struct SessionListener(Listening);

impl SessionListener {
    pub(super) fn open(node: Node, name: Bytes) -> Result<Self, SessionOpenError> {
        Listening::begin(node, name, Entrance::Session).map(Self).ok_or(SessionOpenError::Listened)
    }

    /// The name of the sessions.
    pub const fn name(&self) -> &Bytes {
        self.0.name()
    }

    /// Waits for the next session of this name. [`Node::accept_session`] returns those of other names.
    ///
    /// Cancel-safe. Many tasks may call it: each session goes to one of them.
    ///
    /// # Errors
    /// [`Closed`] when the node is closed.
    pub async fn accept(&self) -> Result<Session, Closed> {
        accept(self.0.node(), self.0.entrance()).await
    }
}

/// Waits for the next session at an entrance.
pub(super) async fn accept(node: &Node, entrance: &Entrance) -> Result<Session, Closed> {
    loop {
        let stream = crate::stream::accept(node, entrance).await?;
        if let Some(session) = enter(node, stream).await? {
            return Ok(session);
        }
    }
}

/// The session that a stream carries. None: it carries none, and the peer has been told.
async fn enter(node: &Node, stream: Stream) -> Result<Option<Session>, Closed> {
    let Some((id, name)) = SessionId::of_stream(stream.name()) else {
        stream.split().1.stop("it is no session");
        return Ok(None);
    };
    let peer = stream.peer().id();
    let crowded = node.shared().look(|engine| {
        let (with_peer, with_all) = engine.streams.sessions(&peer);
        // Both counts include this session.
        limit((with_peer - 1, with_all - 1)).is_err()
    });
    let mut session = Session::new(stream, id, name, Limits { idle: IDLE, life: Duration::ZERO });
    if crowded {
        session.turn_away(Code::TooMany, "the node has as many sessions as it takes");
        return Ok(None);
    }
    let (first, opens) = match session.receiver.first().await {
        Ok(Some(first)) => first,
        // The session ended or was reset before it began.
        Ok(None) | Err(StreamError::Reset | StreamError::Broken) => {
            session.turn_away(Code::Closed, "");
            return Ok(None);
        }
        Err(StreamError::Closed) => return Err(Closed),
        Err(StreamError::Continues(_) | StreamError::Missing(_)) => {
            session.turn_away(Code::Forgotten, NOT_KNOWN);
            return Ok(None);
        }
    };
    match Said::read(first.body().as_whole().cloned().unwrap_or_default()) {
        Some(Said::Open { idle, life }) if !session.is_client() => {
            // If the acknowledgement fails, the message is handed out again later.
            if first.ack().is_err() {
                session.sender.state().let_go();
                return Ok(None);
            }
            session.sender.state().set_limits(Limits { idle, life });
            session.sender.owe_acceptance();
        }
        // The client continues a session that this node does not know, or guesses the id of one.
        _ if opens && !session.has_begun() => {
            drop(first);
            session.turn_away(Code::Forgotten, NOT_KNOWN);
            return Ok(None);
        }
        // An earlier handle or process has accepted or opened the session.
        _ => session.receiver.begin_with(first),
    }
    session.sender.state().accept();
    Ok(Some(session))
}
