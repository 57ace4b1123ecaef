//! How threads of the runtime wake tasks of an event loop.
//!
//! Each event loop has one [`Bridge`]: a queue of [`Alarm`]s and a pair of sockets, one end of which the loop watches.
//! A thread that wakes a task puts its alarm into the queue, and writes a byte if none is in the socket: so any number
//! of tasks is woken by one wake-up of the loop, and no thread of the runtime ever waits for the interpreter. A loop
//! that cannot watch sockets is woken by a thread, with `call_soon_threadsafe`.

use std::cell::RefCell;
use std::io::{self, Read as _, Write as _};
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};

use crate::runtime::Held;

/// The number of operations that may end at once, one after the other, before other tasks of the loop have their turn.
const TURN: u32 = 64;

/// The state that one event loop and the runtime share.
pub(crate) struct Bridge {
    queue: Mutex<Vec<Arc<Alarm>>>,
    /// The loop has been told that the queue has alarms, and has not looked yet.
    told: AtomicBool,
    /// The number of operations that ended at once since others had their turn.
    in_turn: AtomicU32,
    bell: Bell,
}

/// How the loop is told.
enum Bell {
    #[cfg(unix)]
    Socket(std::os::unix::net::UnixStream),
    Thread(SyncSender<()>),
}

impl Bridge {
    fn queue(&self) -> MutexGuard<'_, Vec<Arc<Alarm>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, alarm: Arc<Alarm>) {
        self.queue().push(alarm);
        if self.told.swap(true, Ordering::AcqRel) {
            return;
        }
        match &self.bell {
            // A full socket already has a byte in it.
            #[cfg(unix)]
            Bell::Socket(socket) => drop((&mut &*socket).write(&[1])),
            // A thread that has been told, and has not looked yet, sees this alarm too.
            Bell::Thread(bell) => drop(bell.try_send(())),
        }
    }

    /// Whether other tasks of the loop should have their turn before one more operation is begun.
    pub(crate) fn is_turn_over(&self) -> bool {
        let over = self.in_turn.fetch_add(1, Ordering::Relaxed) >= TURN;
        if over {
            self.in_turn.store(0, Ordering::Relaxed);
        }
        over
    }

    /// Wakes the tasks whose alarms have rung. Runs on the thread of the loop.
    fn wake(&self, py: Python<'_>) -> PyResult<()> {
        self.in_turn.store(0, Ordering::Relaxed);
        // First the flag: an alarm that is put into the queue from here on is announced again. It is swapped and not
        // stored, so that the change is visible before the queue is read, and so that the work of a thread that found
        // the flag set is visible here.
        self.told.swap(false, Ordering::AcqRel);
        let rung = mem::take(&mut *self.queue());
        for alarm in rung {
            alarm.is_queued.swap(false, Ordering::AcqRel);
            if let Some(future) = alarm.future(None) {
                let future = future.bind(py);
                if !future.call_method0(intern!(py, "done"))?.is_truthy()? {
                    future.call_method1(intern!(py, "set_result"), (py.None(),))?;
                }
            }
        }
        Ok(())
    }
}

/// Wakes one task of an event loop.
pub(crate) struct Alarm {
    bridge: Arc<Bridge>,
    is_queued: AtomicBool,
    /// The future for which the task waits.
    future: Mutex<Option<Py<PyAny>>>,
}

impl Alarm {
    pub(crate) fn new(bridge: &Arc<Bridge>) -> Arc<Self> {
        Arc::new(Self {
            bridge: Arc::clone(bridge),
            is_queued: AtomicBool::new(false),
            future: Mutex::new(None),
        })
    }

    pub(crate) fn bridge(&self) -> &Arc<Bridge> {
        &self.bridge
    }

    /// Replaces the future for which the task waits; returns the old one.
    pub(crate) fn future(&self, next: Option<Py<PyAny>>) -> Option<Py<PyAny>> {
        let mut future = self.future.lock().unwrap_or_else(PoisonError::into_inner);
        mem::replace(&mut *future, next)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::AcqRel) {
            let bridge = Arc::clone(&self.bridge);
            bridge.put(self);
        }
    }
}

/// The object that an event loop calls when the bell has rung.
#[pyclass(frozen, weakref, module = "exonet._native")]
struct Ringer {
    bridge: Arc<Bridge>,
    #[cfg(unix)]
    socket: Option<std::os::unix::net::UnixStream>,
}

#[pymethods]
impl Ringer {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        #[cfg(unix)]
        if let Some(mut socket) = self.socket.as_ref() {
            // One read empties it: at most one byte is written before it is read, except in a race, which costs one
            // more look.
            drop(socket.read(&mut [0; 64]));
        }
        self.bridge.wake(py)
    }
}

/// A bridge, as the table of loops holds it.
#[pyclass(frozen, module = "exonet._native")]
struct Kept(Shared);

/// A bridge, for use in the process that made it.
type Shared = Arc<Held<Arc<Bridge>>>;

thread_local! {
    /// The loop for which a bridge was last requested on this thread.
    static LAST: RefCell<Option<(Py<PyWeakrefReference>, Shared)>> = const { RefCell::new(None) };
}

/// The bridge of a loop, made on first use.
pub(crate) fn bridge(event_loop: &Bound<'_, PyAny>) -> PyResult<Arc<Bridge>> {
    let py = event_loop.py();
    let last = LAST.with_borrow(|last| {
        let (weak, held) = last.as_ref()?;
        let same = weak.bind(py).upgrade().is_some_and(|known| known.is(event_loop));
        same.then(|| held.get().ok().cloned()).flatten()
    });
    if let Some(bridge) = last {
        return Ok(bridge);
    }
    static LOOPS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let loops = LOOPS.get_or_try_init(py, || {
        py.import("weakref")?.getattr("WeakKeyDictionary")?.call0().map(Bound::unbind)
    })?;
    let loops = loops.bind(py);
    let known = loops.call_method1("get", (event_loop,))?;
    let known =
        known.cast::<Kept>().ok().map(|kept| Arc::clone(&kept.get().0)).filter(|held| held.get().is_ok());
    let held = match known {
        Some(held) => held,
        None => {
            let held = Arc::new(Held::new(make(event_loop)?));
            loops.set_item(event_loop, Kept(Arc::clone(&held)))?;
            held
        }
    };
    let bridge = Arc::clone(held.get()?);
    let weak = PyWeakrefReference::new(event_loop)?.unbind();
    // The old value is dropped outside: that may run Python code.
    let before = LAST.replace(Some((weak, held)));
    drop(before);
    Ok(bridge)
}

#[cfg(unix)]
fn make(event_loop: &Bound<'_, PyAny>) -> PyResult<Arc<Bridge>> {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    let pair = || -> io::Result<_> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        Ok((ours, theirs))
    };
    let (ours, theirs) = pair()?;
    let bridge = Arc::new(Bridge::with(Bell::Socket(ours)));
    let fd = theirs.as_raw_fd();
    let ringer = Ringer { bridge: Arc::clone(&bridge), socket: Some(theirs) };
    match event_loop.call_method1("add_reader", (fd, Bound::new(event_loop.py(), ringer)?)) {
        Ok(_) => Ok(bridge),
        Err(error) if error.is_instance_of::<PyNotImplementedError>(event_loop.py()) => {
            with_thread(event_loop)
        }
        Err(error) => Err(error),
    }
}

#[cfg(not(unix))]
fn make(event_loop: &Bound<'_, PyAny>) -> PyResult<Arc<Bridge>> {
    with_thread(event_loop)
}

/// A bridge for a loop that cannot watch sockets.
fn with_thread(event_loop: &Bound<'_, PyAny>) -> PyResult<Arc<Bridge>> {
    let (bell, rung) = mpsc::sync_channel(1);
    let bridge = Arc::new(Bridge::with(Bell::Thread(bell)));
    let ringer = Ringer {
        bridge: Arc::clone(&bridge),
        #[cfg(unix)]
        socket: None,
    };
    // The thread keeps neither the loop nor the bridge: it ends with them.
    let ringer = Bound::new(event_loop.py(), ringer)?;
    let (weak, weak_ringer) =
        (PyWeakrefReference::new(event_loop)?.unbind(), PyWeakrefReference::new(&ringer)?.unbind());
    event_loop.setattr("_exonet_ringer", ringer)?;
    let tell = move || {
        while rung.recv().is_ok() {
            let told = Python::try_attach(|py| -> Option<()> {
                let event_loop = weak.bind(py).upgrade()?;
                let ringer = weak_ringer.bind(py).upgrade()?;
                // A closed loop raises an exception.
                event_loop.call_method1("call_soon_threadsafe", (ringer,)).ok().map(drop)
            });
            if told.flatten().is_none() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("exonet-wake".to_owned()).spawn(tell)?;
    Ok(bridge)
}

impl Bridge {
    fn with(bell: Bell) -> Self {
        Self { queue: Mutex::default(), told: AtomicBool::new(false), in_turn: AtomicU32::new(0), bell }
    }
}
