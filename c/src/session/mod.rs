//! Sessions: conversations that outlive connections.

mod event;
mod listener;
mod message;
mod writer;

use std::future::Future;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use exo::Session;
use exo::session::{
    SessionBuilder, SessionError, SessionEvents, SessionId, SessionMessage, SessionOpenError,
    SessionReceiver, SessionSendError, SessionSender,
};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use crate::border::{Out, border, free, given, look};
use crate::fault::{Fault, exonet_code, exonet_error};
use crate::node::{Inner, exonet_node, timespan};
use crate::options::exonet_session_options;
use crate::promise::Promise;
use crate::raw::{self, exonet_str};
use crate::receipt::{exonet_receipt, hand_out};
use crate::text::Text;

pub(crate) use event::{exonet_session_end, exonet_session_event};

/// A session with a peer: messages in order, in both directions, with a beginning and an end that both ends know. If it
/// is freed before it has ended, it is aborted, unless its node was closed first.
pub struct exonet_session {
    inner: Arc<Inner>,
    halves: Arc<Halves>,
    events: Arc<Mutex<SessionEvents>>,
    /// The tasks that make events of the node, for a session that is watched.
    tasks: OnceLock<[AbortHandle; 2]>,
    id: Text,
    name: Text,
    peer: Text,
    is_client: bool,
}

/// The two directions of a session. None: the handle has given the session up.
struct Halves {
    sender: Mutex<Option<SessionSender>>,
    receiver: Mutex<Option<SessionReceiver>>,
    /// A message is being written in chunks.
    writing: AtomicBool,
    /// Kept when the handle gives the session up: whoever uses a direction then releases it.
    over: Promise<()>,
}

/// The handle has given the session up.
fn over() -> Fault {
    Fault::new(
        exonet_code::EXONET_CLOSED,
        "this handle has given the session up: it was closed, aborted, refused or detached",
    )
}

impl Halves {
    /// Does work, unless the handle gives the session up first.
    async fn unless_over<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        tokio::select! {
            biased;
            _ = self.over.wait() => Err(over()),
            result = work => result,
        }
    }

    /// Receives in the session.
    async fn recv(&self) -> Result<Result<Option<SessionMessage>, SessionError>, Fault> {
        self.unless_over(async { Ok(self.receiver.lock().await.as_mut().ok_or_else(over)?.recv().await) })
            .await
    }

    /// Takes the session from the handle, once.
    async fn whole(&self) -> Result<Session, Fault> {
        self.over.keep(());
        let (mut receiver, mut sender) = (self.receiver.lock().await, self.sender.lock().await);
        let (receiver, sender) = (receiver.take().ok_or_else(over)?, sender.take().ok_or_else(over)?);
        Session::unsplit(sender, receiver).map_err(|_| over())
    }
}

impl exonet_session {
    pub(crate) fn new(inner: &Arc<Inner>, session: Session) -> Self {
        let (id, peer) = (Text::new(session.id()), Text::new(session.peer().id()));
        let (name, is_client) = (Text::new(String::from_utf8_lossy(session.name())), session.is_client());
        let events = Arc::new(Mutex::new(session.events()));
        let (sender, receiver) = session.split();
        let halves = Arc::new(Halves {
            sender: Mutex::new(Some(sender)),
            receiver: Mutex::new(Some(receiver)),
            writing: AtomicBool::new(false),
            over: Promise::new(),
        });
        Self { inner: Arc::clone(inner), halves, events, tasks: OnceLock::new(), id, name, peer, is_client }
    }

    pub(crate) const fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Fails if messages and events of the session are events of the node.
    fn unwatched(&self) -> Result<(), Fault> {
        if self.tasks.get().is_some() {
            return Err(Fault::usage("the messages and events of this session are events of the node"));
        }
        Ok(())
    }

    /// Ends the handle by an act on the whole session.
    fn last<T, F: Future<Output = T>>(&self, act: impl FnOnce(Session) -> F) -> Result<T, Fault> {
        self.inner.block_on(async { Ok(act(self.halves.whole().await?).await) })
    }
}

impl Drop for exonet_session {
    fn drop(&mut self) {
        self.tasks.get().into_iter().flatten().for_each(AbortHandle::abort);
        // An error says that the handle had given the session up before.
        let _ = self.last(async |session| session.abort());
    }
}

impl From<SessionOpenError> for Fault {
    fn from(error: SessionOpenError) -> Self {
        match error {
            SessionOpenError::Send(error) => Self::from(error),
            SessionOpenError::Name(_) | SessionOpenError::InUse | SessionOpenError::Listened => {
                Self::usage(error)
            }
            error => Self::new(exonet_code::EXONET_NOT_OPENED, error),
        }
    }
}

impl From<SessionSendError> for Fault {
    fn from(error: SessionSendError) -> Self {
        match error {
            SessionSendError::Send(error) => Self::from(error),
            SessionSendError::Ended(ref end) => Self::session(end.into(), error),
            error => Self::new(exonet_code::EXONET_NOT_SENT, error),
        }
    }
}

impl From<SessionError> for Fault {
    fn from(error: SessionError) -> Self {
        let code = match error {
            SessionError::Send(error) => return Self::from(error),
            SessionError::Ended(ref end) => return Self::session(end.into(), error),
            SessionError::Closed => return Self::closed(),
            SessionError::Missing(_) => exonet_code::EXONET_SESSION_MISSING,
            _ => exonet_code::EXONET_SESSION_AWAY,
        };
        Self::new(code, error)
    }
}

/// A session with a peer that is to be opened or attached to.
unsafe fn builder(
    inner: &Inner,
    peer: &exonet_str,
    name: &exonet_str,
    options: *const exonet_session_options,
) -> Result<SessionBuilder, Fault> {
    // SAFETY: the caller gives NULL, or options with their size.
    let options: exonet_session_options = unsafe { raw::options(options, "options") }?;
    let name = name.copy("name")?;
    Ok(options.of(inner.peer(peer)?.session(name)?))
}

/// Opens a session with a peer, under a name of 1 to 200 bytes. It does not wait for the peer: messages may be sent at
/// once, and leave together with the opening. `options` may be NULL. EXONET_NOT_OPENED: this node has as many sessions
/// as it may.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_session_open(
    node: Option<&exonet_node>,
    peer: exonet_str,
    name: exonet_str,
    options: *const exonet_session_options,
    session: Option<&mut MaybeUninit<*mut exonet_session>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::handle(session, "session")?;
        let inner = given(node, "node")?.inner();
        // SAFETY: the caller gives NULL, or options with their size.
        let builder = unsafe { builder(inner, &peer, &name, options) }?;
        place.give(exonet_session::new(inner, inner.block_on(builder.open())?));
        Ok(())
    })
}

/// Takes a handle on a session in which this identity takes part already: its id is that of exonet_session_id, in this
/// process or in an earlier one. Nothing is sent. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_session_attach(
    node: Option<&exonet_node>,
    peer: exonet_str,
    name: exonet_str,
    id: exonet_str,
    options: *const exonet_session_options,
    session: Option<&mut MaybeUninit<*mut exonet_session>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::handle(session, "session")?;
        let inner = given(node, "node")?.inner();
        let id = id.get("id")?.parse::<SessionId>().map_err(Fault::usage)?;
        // SAFETY: the caller gives NULL, or options with their size.
        let builder = unsafe { builder(inner, &peer, &name, options) }?;
        place.give(exonet_session::new(inner, builder.attach(id)?));
        Ok(())
    })
}

/// The id of the session, for exonet_session_attach and for logs.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_id(session: Option<&exonet_session>) -> exonet_str {
    look(exonet_str::empty(), || Some(session?.id.lend()))
}

/// The name of the session.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_name(session: Option<&exonet_session>) -> exonet_str {
    look(exonet_str::empty(), || Some(session?.name.lend()))
}

/// The node at the other end: a proven id.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_peer(session: Option<&exonet_session>) -> exonet_str {
    look(exonet_str::empty(), || Some(session?.peer.lend()))
}

/// Whether this end has opened the session. False for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_is_client(session: Option<&exonet_session>) -> bool {
    session.is_some_and(|session| session.is_client)
}

/// Closes this direction: nothing more can be sent, and the peer's application is told so after all earlier messages.
/// Messages of the peer can still be received. The receipt, which may be NULL, tells when the peer's application has
/// been told.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_finish(
    session: Option<&exonet_session>,
    receipt: Option<&mut MaybeUninit<*mut exonet_receipt>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::optional(receipt);
        let session = given(session, "session")?;
        let sent = session.with_sender(async |sender| Ok(sender.close().await?))?;
        hand_out(&session.inner, &mut place, sent, None);
        Ok(())
    })
}

/// Ends the session: nothing more is sent, and messages that were sent get `timeout_ms` at most to settle (negative: a
/// day). Messages that the peer sends from now on are rejected. EXONET_SESSION_AWAY: not all were settled in time; the
/// node continues with them. EXONET_NOT_SENT: exonet_session_finish had closed this direction before. The session is
/// given up all the same, without a wait: to wait, use the receipt of exonet_session_finish.
///
/// After this function or one of the next three, functions that send or receive messages return EXONET_CLOSED for this
/// handle, and so do these four. The handle still has to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_close(
    session: Option<&exonet_session>,
    timeout_ms: i64,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let timeout = timespan(timeout_ms);
        Ok(given(session, "session")?.last(async |session| session.close(timeout).await)??)
    })
}

/// Ends the session now: messages that have not left are cancelled, and those that the peer sends are rejected. At the
/// peer the session ends with EXONET_END_ABORTED.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_abort(
    session: Option<&exonet_session>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || given(session, "session")?.last(async |session| session.abort()))
}

/// Refuses a session that the peer has opened: at the peer it ends with EXONET_END_REFUSED and the first 200 bytes of
/// `reason`. If this end has opened it, it is aborted.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_refuse(
    session: Option<&exonet_session>,
    reason: exonet_str,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let reason = reason.get("reason")?;
        given(session, "session")?.last(async |session| session.refuse(reason))
    })
}

/// Gives the handle up, and leaves the session as it is: for exonet_session_attach, or for exonet_session_accept, which
/// returns it again when the peer sends something.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_detach(
    session: Option<&exonet_session>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        given(session, "session")?.last(async |session| {
            session.detach();
        })
    })
}

/// Frees a session. If it has not ended, and was not closed or detached, it is aborted, unless its node was closed
/// first: then the next process of the identity continues with it, if the node has a journal.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_free(session: Option<Box<exonet_session>>) {
    free(session);
}
