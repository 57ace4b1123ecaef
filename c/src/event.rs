//! Events in C: taken one by one, or passed to a callback.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{Arc, PoisonError, Weak};
use std::thread;

use crate::border::{Out, border, given};
use crate::delivery::exonet_delivery;
use crate::fault::{Fault, exonet_code, exonet_error};
use crate::node::{Core, Inner, exonet_node, patience};
use crate::queue::Event;
use crate::receipt::exonet_outcome;
use crate::serve::exonet_request;
use crate::session::{exonet_session, exonet_session_event};

/// The kind of an event.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum exonet_event_kind {
    /// A message has arrived: `delivery`. After exonet_node_watch_messages.
    EXONET_EVENT_MESSAGE = 1,
    /// A message that was sent with `notify` is settled: `token` and `outcome`.
    EXONET_EVENT_SETTLED = 2,
    /// A call that was made with `notify` has ended: `token`. exonet_call_wait tells how.
    EXONET_EVENT_CALL_ENDED = 3,
    /// A call of a method that is served with `notify` has to be answered: `token` and `request`.
    EXONET_EVENT_REQUEST = 4,
    /// The node was closed. The last event.
    EXONET_EVENT_CLOSED = 5,
    /// A peer has opened a session: `session`. After exonet_node_watch_sessions.
    EXONET_EVENT_SESSION_OPENED = 6,
    /// A message of a session has arrived: `token` and `delivery`. After exonet_session_watch.
    EXONET_EVENT_SESSION_MESSAGE = 7,
    /// Something has changed in a session: `token` and `session_event`. After exonet_session_watch.
    EXONET_EVENT_SESSION_CHANGED = 8,
    /// The verdict on a message that was sent to a group with `notify` is known: `token`. exonet_group_receipt_wait
    /// tells it.
    EXONET_EVENT_GROUP_DECIDED = 9,
    /// A message that was sent to a group with `notify` has ended at every member: `token`. After
    /// EXONET_EVENT_GROUP_DECIDED.
    EXONET_EVENT_GROUP_ENDED = 10,
}

/// An event. Fields that the kind does not name are zero.
#[repr(C)]
pub struct exonet_event {
    /// Its kind.
    kind: exonet_event_kind,
    /// The token from the options.
    token: u64,
    /// The outcome of a message.
    outcome: exonet_outcome,
    /// The message. It belongs to the receiver of the event: exonet_delivery_free.
    delivery: *mut exonet_delivery,
    /// The call. It belongs to the receiver of the event: exonet_request_free.
    request: *mut exonet_request,
    /// The session. It belongs to the receiver of the event: exonet_session_free.
    session: *mut exonet_session,
    /// The change in a session. It belongs to the receiver of the event: exonet_session_event_free.
    session_event: *mut exonet_session_event,
    /// Room for later versions.
    reserved: [u64; 2],
}

// A program that was compiled for an earlier version has room for as many bytes.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<exonet_event>() == 80);

impl exonet_event {
    /// The event for C, with a handle of `inner` for a session. None: the node is gone, and the session with it.
    fn of(event: Event, inner: impl FnOnce() -> Option<Arc<Inner>>) -> Option<Self> {
        use exonet_event_kind as Kind;
        let mut seen = Self {
            kind: Kind::EXONET_EVENT_CLOSED,
            token: 0,
            outcome: exonet_outcome::none(),
            delivery: ptr::null_mut(),
            request: ptr::null_mut(),
            session: ptr::null_mut(),
            session_event: ptr::null_mut(),
            reserved: [0; 2],
        };
        match event {
            Event::Message(delivery, _place) => {
                seen.kind = Kind::EXONET_EVENT_MESSAGE;
                seen.delivery = Box::into_raw(delivery);
            }
            Event::Settled { token, settled } => {
                seen.kind = Kind::EXONET_EVENT_SETTLED;
                (seen.token, seen.outcome) = (token, settled.into());
            }
            Event::CallEnded { token } => {
                seen.kind = Kind::EXONET_EVENT_CALL_ENDED;
                seen.token = token;
            }
            Event::Request { token, request } => {
                seen.kind = Kind::EXONET_EVENT_REQUEST;
                (seen.token, seen.request) = (token, Box::into_raw(request));
            }
            Event::SessionOpened(session, _place) => {
                seen.kind = Kind::EXONET_EVENT_SESSION_OPENED;
                seen.session = Box::into_raw(Box::new(exonet_session::new(&inner()?, *session)));
            }
            Event::SessionMessage { token, delivery } => {
                seen.kind = Kind::EXONET_EVENT_SESSION_MESSAGE;
                (seen.token, seen.delivery) = (token, Box::into_raw(delivery));
            }
            Event::SessionChanged { token, event } => {
                seen.kind = Kind::EXONET_EVENT_SESSION_CHANGED;
                (seen.token, seen.session_event) = (token, Box::into_raw(event));
            }
            Event::GroupDecided { token } => {
                (seen.kind, seen.token) = (Kind::EXONET_EVENT_GROUP_DECIDED, token);
            }
            Event::GroupEnded { token } => {
                (seen.kind, seen.token) = (Kind::EXONET_EVENT_GROUP_ENDED, token);
            }
            Event::Closed => {}
        }
        Some(seen)
    }
}

/// A function of the application that receives events. It must not end by an exception or a jump.
pub type exonet_callback = Option<extern "C" fn(context: *mut c_void, event: *const exonet_event)>;

/// From now on, messages that arrive are events: EXONET_EVENT_MESSAGE. At most `most` of them wait to be taken, at
/// least one. exonet_recv still returns messages that are not events yet.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_node_watch_messages(
    node: Option<&exonet_node>,
    most: u32,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let inner = given(node, "node")?.inner();
        if inner.watches_messages() {
            return Err(Fault::usage("the messages of this node are watched already"));
        }
        inner.tell(most, move |core: Arc<Core>, place| async move {
            Some(Event::Message(Box::new(core.next().await.ok()?), place))
        });
        Ok(())
    })
}

/// A descriptor to poll (poll, epoll, select, kqueue): readable when there is an event to take, and when there will be
/// no more events. It belongs to the node, and must not be read or closed. Not on Windows.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_node_fd(
    node: Option<&exonet_node>,
    fd: Option<&mut MaybeUninit<i32>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut fd = Out::value(fd, "fd")?;
        fd.set(-1);
        fd.set(given(node, "node")?.inner().core().queue.fd()?);
        Ok(())
    })
}

/// Waits for the next event, for `timeout_ms` at most. EXONET_CLOSED: there will be no more.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_node_next_event(
    node: Option<&exonet_node>,
    timeout_ms: i64,
    event: Option<&mut MaybeUninit<exonet_event>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let inner = given(node, "node")?.inner();
        let mut event = Out::value(event, "event")?;
        if inner.callback().is_some() {
            return Err(Fault::usage("the events of this node go to its callback"));
        }
        let taken = inner.core().queue.take(patience(timeout_ms))?;
        event.set(exonet_event::of(taken, || Some(Arc::clone(inner))).ok_or_else(Fault::closed)?);
        Ok(())
    })
}

/// The context of a callback. It crosses to the thread of the callback.
struct Context(*mut c_void);

// SAFETY: the header says that the callback runs on its own thread; the meaning of the pointer is up to the
// application.
unsafe impl Send for Context {}

impl Context {
    const fn get(&self) -> *mut c_void {
        self.0
    }
}

/// Passes events to the callback until there are no more.
fn run(
    core: &Core,
    inner: &Weak<Inner>,
    callback: extern "C" fn(*mut c_void, *const exonet_event),
    context: &Context,
) {
    while let Ok(event) = core.queue.take(None) {
        if let Some(event) = exonet_event::of(event, || inner.upgrade()) {
            callback(context.get(), &raw const event);
        }
    }
}

/// From now on, passes all events to `callback`, one at a time, on its own thread. The callback may call every
/// function, and block; it gets `context` unchanged, and the event for the duration of the call. Only once for each
/// node; EXONET_EVENT_CLOSED is its last call. exonet_node_free waits for it, unless the callback itself calls
/// exonet_node_free.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_node_set_callback(
    node: Option<&exonet_node>,
    callback: exonet_callback,
    context: *mut c_void,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let inner: &Arc<Inner> = given(node, "node")?.inner();
        let callback = callback.ok_or_else(|| Fault::usage("callback is NULL"))?;
        let mut place = inner.callback_mut();
        if place.is_some() {
            return Err(Fault::usage("this node has a callback already"));
        }
        // The thread does not keep the node: its last handle may be freed by the callback.
        let (core, node, context) = (Arc::clone(inner.core()), Arc::downgrade(inner), Context(context));
        let work = move || run(&core, &node, callback, &context);
        let thread = thread::Builder::new().name("exonet-events".to_owned()).spawn(work);
        *place = Some(thread.map_err(|error| Fault::system("a thread", &error))?);
        Ok(())
    })
}

impl Inner {
    fn callback(&self) -> std::sync::MutexGuard<'_, Option<thread::JoinHandle<()>>> {
        self.callback_mut()
    }

    fn callback_mut(&self) -> std::sync::MutexGuard<'_, Option<thread::JoinHandle<()>>> {
        self.callback.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end of the callback's thread, unless this is it.
    pub(crate) fn join_callback(&self) {
        let thread = self.callback_mut().take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            // An error is a panic of the callback, which has been reported.
            let _ = thread.join();
        }
    }
}
