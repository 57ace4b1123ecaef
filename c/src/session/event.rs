//! What happens in a session beside its messages.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use exo::session::{SessionEnd, SessionError, SessionEvent, SessionEvents};
use tokio::sync::Mutex;

use super::{Halves, exonet_session};
use crate::border::{Out, border, free, given, look};
use crate::delivery::exonet_delivery;
use crate::fault::{Fault, exonet_code, exonet_error};
use crate::node::Core;
use crate::queue::Event;
use crate::raw::exonet_str;
use crate::text::Text;

/// What has changed in a session.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum exonet_session_change {
    /// Something that this version of the interface has no name for.
    EXONET_CHANGE_OTHER = 0,
    /// The server has accepted the session.
    EXONET_CHANGE_ACCEPTED = 1,
    /// There is a connection to the peer: exonet_session_event_address. If there was one when this handle was made, this
    /// event does not come.
    EXONET_CHANGE_CONNECTED = 2,
    /// The peer answers none of the messages that are on their way to it: exonet_session_event_duration is how long.
    /// The session continues when the peer is back.
    EXONET_CHANGE_AWAY = 3,
    /// The peer is heard again: exonet_session_event_duration is how long it was away.
    EXONET_CHANGE_BACK = 4,
    /// The peer is at another address: exonet_session_event_address.
    EXONET_CHANGE_MOVED = 5,
    /// Another process has the peer's identity. If it has no journal, the session will end with EXONET_END_FORGOTTEN.
    EXONET_CHANGE_RESTARTED = 6,
    /// The peer sends nothing more, and all its messages were received.
    EXONET_CHANGE_CLOSING = 7,
    /// The session has ended: exonet_session_event_end. The last event of the session.
    EXONET_CHANGE_ENDED = 8,
    /// Messages are missing before the next one: exonet_session_event_missing. Only for a session that is watched;
    /// exonet_session_recv returns EXONET_SESSION_MISSING instead.
    EXONET_CHANGE_MISSING = 9,
}

/// How a session has ended.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum exonet_session_end {
    /// It has not ended, or the end is one that this version of the interface has no name for.
    EXONET_END_NONE = 0,
    /// Both ends have closed it.
    EXONET_END_CLOSED = 1,
    /// One end has aborted it.
    EXONET_END_ABORTED = 2,
    /// The server does not want it. The message of the error, or exonet_session_event_reason, says why.
    EXONET_END_REFUSED = 3,
    /// It was silent for longer than `idle_ms`, or has lasted for `life_ms`.
    EXONET_END_EXPIRED = 4,
    /// One of the two ends no longer knows the session: its process has ended, and had no journal.
    EXONET_END_FORGOTTEN = 5,
}

impl From<&SessionEnd> for exonet_session_end {
    fn from(end: &SessionEnd) -> Self {
        match end {
            SessionEnd::Closed => Self::EXONET_END_CLOSED,
            SessionEnd::Aborted => Self::EXONET_END_ABORTED,
            SessionEnd::Refused(_) => Self::EXONET_END_REFUSED,
            SessionEnd::Expired => Self::EXONET_END_EXPIRED,
            SessionEnd::Forgotten => Self::EXONET_END_FORGOTTEN,
            _ => Self::EXONET_END_NONE,
        }
    }
}

/// An event of a session: what has changed, with its details.
pub struct exonet_session_event {
    change: exonet_session_change,
    end: exonet_session_end,
    duration: Duration,
    missing: u64,
    address: Option<Text>,
    reason: Option<Text>,
}

use exonet_session_change as Change;

impl exonet_session_event {
    const fn of(change: Change) -> Self {
        let (end, duration) = (exonet_session_end::EXONET_END_NONE, Duration::ZERO);
        Self { change, end, duration, missing: 0, address: None, reason: None }
    }

    fn missing(missing: u64) -> Self {
        Self { missing, ..Self::of(Change::EXONET_CHANGE_MISSING) }
    }
}

impl From<SessionEvent> for exonet_session_event {
    fn from(event: SessionEvent) -> Self {
        match event {
            SessionEvent::Accepted => Self::of(Change::EXONET_CHANGE_ACCEPTED),
            SessionEvent::Connected(at) => {
                Self { address: Some(Text::new(at)), ..Self::of(Change::EXONET_CHANGE_CONNECTED) }
            }
            SessionEvent::Away(duration) => Self { duration, ..Self::of(Change::EXONET_CHANGE_AWAY) },
            SessionEvent::Back(duration) => Self { duration, ..Self::of(Change::EXONET_CHANGE_BACK) },
            SessionEvent::Moved(to) => {
                Self { address: Some(Text::new(to)), ..Self::of(Change::EXONET_CHANGE_MOVED) }
            }
            SessionEvent::Restarted => Self::of(Change::EXONET_CHANGE_RESTARTED),
            SessionEvent::Closing => Self::of(Change::EXONET_CHANGE_CLOSING),
            SessionEvent::Ended(end) => {
                let reason = match &end {
                    SessionEnd::Refused(reason) => Some(Text::new(reason)),
                    _ => None,
                };
                Self { end: (&end).into(), reason, ..Self::of(Change::EXONET_CHANGE_ENDED) }
            }
            _ => Self::of(Change::EXONET_CHANGE_OTHER),
        }
    }
}

/// Makes events of the messages of a session.
async fn tell_messages(halves: Arc<Halves>, core: Arc<Core>, token: u64) {
    loop {
        match halves.recv().await {
            Ok(Ok(Some(message))) => {
                let delivery = Box::new(exonet_delivery::of_session(message));
                core.queue.put(Event::SessionMessage { token, delivery });
            }
            Ok(Err(SessionError::Missing(count))) => {
                let event = Box::new(exonet_session_event::missing(count));
                core.queue.put(Event::SessionChanged { token, event });
            }
            // The other task tells how the session has ended.
            Ok(Ok(None) | Err(_)) | Err(_) => return,
        }
    }
}

/// Makes events of a node of those of a session.
async fn tell_changes(events: Arc<Mutex<SessionEvents>>, core: Arc<Core>, token: u64) {
    let mut events = events.lock().await;
    while let Ok(event) = events.next().await {
        let last = matches!(event, SessionEvent::Ended(_));
        core.queue.put(Event::SessionChanged { token, event: Box::new(event.into()) });
        if last {
            return;
        }
    }
}

/// From now on, the messages and the events of the session are events of the node: EXONET_EVENT_SESSION_MESSAGE and
/// EXONET_EVENT_SESSION_CHANGED, both with `token`. At most one message of the session waits to be taken. Once for each
/// session. Events that wait when the session is freed still come.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_watch(
    session: Option<&exonet_session>,
    token: u64,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let session = given(session, "session")?;
        let mut first = false;
        session.tasks.get_or_init(|| {
            first = true;
            let (core, runtime) = (session.inner.core(), session.inner.handle());
            let messages = tell_messages(Arc::clone(&session.halves), Arc::clone(core), token);
            let changes = tell_changes(Arc::clone(&session.events), Arc::clone(core), token);
            [runtime.spawn(changes).abort_handle(), runtime.spawn(messages).abort_handle()]
        });
        if first { Ok(()) } else { Err(Fault::usage("this session is watched already")) }
    })
}

/// Waits for the next event of the session, for `timeout_ms` at most. What the peer's application does is noticed only
/// while a thread receives in the session. After EXONET_CHANGE_ENDED there are no more: the function waits until the
/// node is closed, which is EXONET_CLOSED.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_next_event(
    session: Option<&exonet_session>,
    timeout_ms: i64,
    event: Option<&mut MaybeUninit<*mut exonet_session_event>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::handle(event, "event")?;
        let session = given(session, "session")?;
        session.unwatched()?;
        let next = async { session.events.lock().await.next().await };
        let event = session.inner.wait(timeout_ms, next)?.map_err(|_| Fault::closed())?;
        place.give(event.into());
        Ok(())
    })
}

/// What has changed. EXONET_CHANGE_OTHER for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_event_change(event: Option<&exonet_session_event>) -> exonet_session_change {
    event.map_or(Change::EXONET_CHANGE_OTHER, |event| event.change)
}

/// For EXONET_CHANGE_ENDED, how the session has ended; else EXONET_END_NONE.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_event_end(event: Option<&exonet_session_event>) -> exonet_session_end {
    event.map_or(exonet_session_end::EXONET_END_NONE, |event| event.end)
}

/// For EXONET_END_REFUSED, the reason that the server gave; else empty.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_event_reason(event: Option<&exonet_session_event>) -> exonet_str {
    look(exonet_str::empty(), || event?.reason.as_ref().map(Text::lend))
}

/// For EXONET_CHANGE_CONNECTED and EXONET_CHANGE_MOVED, the address of the peer as IP:PORT; else empty.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_event_address(event: Option<&exonet_session_event>) -> exonet_str {
    look(exonet_str::empty(), || event?.address.as_ref().map(Text::lend))
}

/// For EXONET_CHANGE_AWAY and EXONET_CHANGE_BACK, a duration in milliseconds; else 0.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_event_duration(event: Option<&exonet_session_event>) -> u64 {
    event.map_or(0, |event| u64::try_from(event.duration.as_millis()).unwrap_or(u64::MAX))
}

/// For EXONET_CHANGE_MISSING, the number of messages, or of parts of messages, that are missing; else 0.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_event_missing(event: Option<&exonet_session_event>) -> u64 {
    event.map_or(0, |event| event.missing)
}

/// Frees an event of a session.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_event_free(event: Option<Box<exonet_session_event>>) {
    free(event);
}

#[cfg(test)]
mod tests {
    use super::*;
    use exonet_session_end as End;

    #[test]
    fn each_event_has_its_name_and_its_details() {
        let at = "192.0.2.7:4455".parse().unwrap();
        let second = Duration::from_millis(1_000);
        let of = |event: SessionEvent| exonet_session_event::from(event);
        for (event, change, address, duration) in [
            (of(SessionEvent::Accepted), Change::EXONET_CHANGE_ACCEPTED, "", 0),
            (of(SessionEvent::Connected(at)), Change::EXONET_CHANGE_CONNECTED, "192.0.2.7:4455", 0),
            (of(SessionEvent::Away(second)), Change::EXONET_CHANGE_AWAY, "", 1_000),
            (of(SessionEvent::Back(second)), Change::EXONET_CHANGE_BACK, "", 1_000),
            (of(SessionEvent::Moved(at)), Change::EXONET_CHANGE_MOVED, "192.0.2.7:4455", 0),
            (of(SessionEvent::Restarted), Change::EXONET_CHANGE_RESTARTED, "", 0),
            (of(SessionEvent::Closing), Change::EXONET_CHANGE_CLOSING, "", 0),
        ] {
            assert_eq!(exonet_session_event_change(Some(&event)), change);
            assert_eq!(exonet_session_event_address(Some(&event)).get("address").unwrap(), address);
            assert_eq!(exonet_session_event_duration(Some(&event)), duration);
            assert_eq!(exonet_session_event_missing(Some(&event)), 0);
            assert_eq!(exonet_session_event_end(Some(&event)), End::EXONET_END_NONE);
        }
        for (end, number, reason) in [
            (SessionEnd::Closed, End::EXONET_END_CLOSED, ""),
            (SessionEnd::Aborted, End::EXONET_END_ABORTED, ""),
            (SessionEnd::Refused("full".into()), End::EXONET_END_REFUSED, "full"),
            (SessionEnd::Expired, End::EXONET_END_EXPIRED, ""),
            (SessionEnd::Forgotten, End::EXONET_END_FORGOTTEN, ""),
        ] {
            let event = of(SessionEvent::Ended(end));
            assert_eq!(exonet_session_event_change(Some(&event)), Change::EXONET_CHANGE_ENDED);
            assert_eq!(exonet_session_event_end(Some(&event)), number);
            assert_eq!(exonet_session_event_reason(Some(&event)).get("reason").unwrap(), reason);
        }
    }

    #[test]
    fn missing_messages_are_counted() {
        let event = exonet_session_event::missing(3);
        assert_eq!(exonet_session_event_change(Some(&event)), Change::EXONET_CHANGE_MISSING);
        assert_eq!(exonet_session_event_missing(Some(&event)), 3);
        let fault = Fault::from(SessionError::Missing(3));
        assert_eq!(fault.code(), exonet_code::EXONET_SESSION_MISSING);
        assert!(fault.message().contains('3'), "{}", fault.message());
    }
}
