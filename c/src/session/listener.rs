//! Sessions that peers open.

use std::mem::MaybeUninit;
use std::sync::Arc;

use exo::session::SessionListener;

use super::exonet_session;
use crate::border::{Out, border, free, given};
use crate::fault::{Fault, exonet_code, exonet_error};
use crate::node::{Core, Inner, exonet_node};
use crate::options::exonet_session_options;
use crate::queue::Event;
use crate::raw::{self, exonet_str};

/// Accepts the sessions of one name. Freeing it leaves sessions that were accepted as they are.
pub struct exonet_session_listener {
    inner: Arc<Inner>,
    listener: SessionListener,
}

/// The longest message that this end of an accepted session receives.
unsafe fn longest(options: *const exonet_session_options) -> Result<usize, Fault> {
    // SAFETY: the caller gives NULL, or options with their size.
    unsafe { raw::options::<exonet_session_options>(options, "options") }?.of_server()
}

/// Waits for a session that a peer has opened, for `timeout_ms` at most: one of a name without a listener, or one that
/// this identity accepted in an earlier process. `options`, which may be NULL, may have `longest` only: the client says
/// the others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_session_accept(
    node: Option<&exonet_node>,
    timeout_ms: i64,
    options: *const exonet_session_options,
    session: Option<&mut MaybeUninit<*mut exonet_session>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::handle(session, "session")?;
        let inner = given(node, "node")?.inner();
        // SAFETY: the caller gives NULL, or options with their size.
        let longest = unsafe { longest(options) }?;
        let accepted = inner.wait(timeout_ms, inner.core().node.accept_session())?;
        let accepted = accepted.map_err(|_| Fault::closed())?;
        place.give(exonet_session::new(inner, accepted.longest(longest)));
        Ok(())
    })
}

/// Accepts the sessions of one name, of 1 to 200 bytes, from all peers: from now on exonet_session_accept does not
/// return them.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_listen(
    node: Option<&exonet_node>,
    name: exonet_str,
    listener: Option<&mut MaybeUninit<*mut exonet_session_listener>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::handle(listener, "listener")?;
        let inner = Arc::clone(given(node, "node")?.inner());
        let name = name.copy("name")?;
        let listener = inner.core().node.session_listener(name)?;
        place.give(exonet_session_listener { inner, listener });
        Ok(())
    })
}

/// Waits for the next session of the name, for `timeout_ms` at most. `options`: see exonet_session_accept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_session_listener_accept(
    listener: Option<&exonet_session_listener>,
    timeout_ms: i64,
    options: *const exonet_session_options,
    session: Option<&mut MaybeUninit<*mut exonet_session>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::handle(session, "session")?;
        let exonet_session_listener { inner, listener } = given(listener, "listener")?;
        // SAFETY: the caller gives NULL, or options with their size.
        let longest = unsafe { longest(options) }?;
        let accepted = inner.wait(timeout_ms, listener.accept())?.map_err(|_| Fault::closed())?;
        place.give(exonet_session::new(inner, accepted.longest(longest)));
        Ok(())
    })
}

/// Frees a listener: exonet_session_accept returns the sessions of its name again.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_listener_free(listener: Option<Box<exonet_session_listener>>) {
    free(listener);
}

/// From now on, sessions that peers open are events: EXONET_EVENT_SESSION_OPENED. At most `most` of them wait to be
/// taken, at least one. exonet_session_accept still returns sessions that are not events yet, and listeners have those
/// of their names. `options`: see exonet_session_accept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_node_watch_sessions(
    node: Option<&exonet_node>,
    most: u32,
    options: *const exonet_session_options,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let inner = given(node, "node")?.inner();
        // SAFETY: the caller gives NULL, or options with their size.
        let longest = unsafe { longest(options) }?;
        if inner.watches_sessions() {
            return Err(Fault::usage("the sessions of this node are watched already"));
        }
        inner.tell(most, move |core: Arc<Core>, place| async move {
            let session = core.node.accept_session().await.ok()?.longest(longest);
            Some(Event::SessionOpened(Box::new(session), place))
        });
        Ok(())
    })
}
