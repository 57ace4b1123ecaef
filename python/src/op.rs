//! Operations: objects that Python awaits, or waits for on a thread.
//!
//! An [`Operation`] is a future of the library that Python polls. A task of an event loop polls it in its own step,
//! like a coroutine: the first poll happens at once, without a trip through the loop; a result goes to the task in the
//! very step in which the operation ends; and cancelling the task drops the future. So the promises of the library
//! about dropped futures hold for cancelled tasks: no result is lost between its end and the task that waits for it.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, TryLockError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning, PyStopAsyncIteration, PyStopIteration};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tokio::runtime::Handle;

use crate::fault::Fault;
use crate::runtime::Held;
use crate::wake::{Alarm, bridge};

/// Makes a Python object of the result of a future.
pub(crate) type Give = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// The work of an operation.
pub(crate) type Work = Pin<Box<dyn Future<Output = Result<Give, Fault>> + Send>>;

/// How long a waiting thread does not look for signals.
const GLANCE: Duration = Duration::from_millis(50);

/// Runs `future`, and makes a Python object of its result by `give`.
pub(crate) fn work<T, F, G, P>(future: F, give: G) -> Work
where
    F: Future<Output = Result<T, Fault>> + Send + 'static,
    G: FnOnce(Python<'_>, T) -> PyResult<Py<P>> + Send + 'static,
    T: Send + 'static,
{
    Box::pin(async move {
        let done = future.await?;
        let give: Give = Box::new(move |py| give(py, done).map(Py::into_any));
        Ok(give)
    })
}

struct State {
    work: Option<Held<Work>>,
    alarm: Option<Arc<Alarm>>,
    is_begun: bool,
}

/// An operation: `await` it, or call its `wait()` on a thread without an event loop. It begins when it is first
/// awaited, and returns its result once. Cancelling the task that awaits it cancels it.
#[pyclass(frozen, module = "exonet", weakref)]
pub(crate) struct Operation {
    runtime: Handle,
    name: &'static str,
    /// Whether it ends an `async for` instead of raising `Closed`.
    is_step: bool,
    state: Mutex<State>,
}

impl Operation {
    pub(crate) fn new(runtime: &Handle, name: &'static str, work: Work) -> Self {
        Self::with(runtime, name, work, false)
    }

    /// A step of an `async for`, which ends when the node is closed or the work says so ([`Fault::end`]).
    pub(crate) fn of_for(runtime: &Handle, name: &'static str, work: Work) -> Self {
        Self::with(runtime, name, work, true)
    }

    fn with(runtime: &Handle, name: &'static str, work: Work, is_step: bool) -> Self {
        let state = State { work: Some(Held::new(work)), alarm: None, is_begun: false };
        Self { runtime: runtime.clone(), name, is_step, state: Mutex::new(state) }
    }

    /// Polls once, without the interpreter's lock.
    fn poll(&self, py: Python<'_>, work: &mut Work, waker: &Waker) -> Poll<Result<Give, Fault>> {
        py.detach(|| {
            let _context = self.runtime.enter();
            work.as_mut().poll(&mut Context::from_waker(waker))
        })
    }

    /// Converts the result.
    fn end(&self, py: Python<'_>, done: Result<Give, Fault>) -> PyResult<Py<PyAny>> {
        match done {
            Ok(give) => give(py),
            Err(fault) if self.is_step && fault.ends_a_loop() => Err(PyStopAsyncIteration::new_err(())),
            Err(fault) => Err(fault.raise(py)),
        }
    }

    fn lock(&self) -> PyResult<std::sync::MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(state)) => Ok(state.into_inner()),
            Err(TryLockError::WouldBlock) => {
                Err(PyRuntimeError::new_err(format!("{} is awaited by another thread already", self.name)))
            }
        }
    }

    /// Drops the rest of the work, without the interpreter's lock.
    fn give_up(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = self.lock()?;
        state.is_begun = true;
        let (work, alarm) = (state.work.take(), state.alarm.take());
        drop(state);
        drop(alarm.and_then(|alarm| alarm.future(None)));
        py.detach(|| {
            let _context = self.runtime.enter();
            drop(work);
        });
        Ok(())
    }

    /// The next step of a task: returns a future to wait for, or raises the result.
    fn step(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let mut guard = self.lock()?;
        let state = &mut *guard;
        let is_first = !state.is_begun;
        state.is_begun = true;
        let Some(held) = &mut state.work else {
            return Err(PyRuntimeError::new_err(format!(
                "{} has been awaited already: call it again",
                self.name
            )));
        };
        let work = held.get_mut().map_err(|fault| fault.raise(py))?;
        let event_loop = running_loop(py)?;
        let alarm = match &state.alarm {
            Some(alarm) => alarm,
            None => state.alarm.insert(Alarm::new(&bridge(&event_loop)?)),
        };
        if is_first && alarm.bridge().is_turn_over() {
            // A bare step: the loop runs once.
            return Ok(py.None());
        }
        drop(alarm.future(None));
        let waker = Waker::from(Arc::clone(alarm));
        match self.poll(py, work, &waker) {
            Poll::Ready(done) => {
                let (work, alarm) = (state.work.take(), state.alarm.take());
                drop(guard);
                drop((work, alarm));
                Err(PyStopIteration::new_err((self.end(py, done)?,)))
            }
            Poll::Pending => {
                let future = event_loop.call_method0(intern!(py, "create_future"))?;
                // Like its `__await__`, for the task that waits for it.
                future.setattr(intern!(py, "_asyncio_future_blocking"), true)?;
                drop(alarm.future(Some(future.clone().unbind())));
                Ok(future.unbind())
            }
        }
    }
}

#[pymethods]
impl Operation {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.step(py)
    }

    /// As for a coroutine.
    fn send(&self, py: Python<'_>, _value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.step(py)
    }

    /// As for a coroutine: cancels the operation, and raises the exception.
    #[pyo3(signature = (kind, value=None, traceback=None, /))]
    fn throw(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
        traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let _ = traceback;
        self.give_up(py)?;
        let raised = match value {
            Some(value) => value.clone(),
            None => kind.clone(),
        };
        Err(PyErr::from_value(raised))
    }

    /// As for a coroutine: cancels the operation.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.give_up(py)
    }

    /// Waits for the operation on this thread, for `timeout` seconds at most. Other Python threads run meanwhile.
    ///
    /// Raises `Timeout` if it has not ended by then: it is cancelled, like an awaited one.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        if !in_loop(py)?.is_none(py) {
            self.give_up(py)?;
            let text =
                format!("{}: waiting here would stop the event loop of this thread; use `await`", self.name);
            return Err(Fault::usage(text).raise(py));
        }
        let most = timeout.map(|seconds| crate::args::duration("timeout", seconds)).transpose();
        let most = match most {
            Ok(most) => most,
            Err(fault) => {
                self.give_up(py)?;
                return Err(fault.raise(py));
            }
        };
        // If the clock cannot reach the end, the wait has no end.
        let until = most.and_then(|most| Instant::now().checked_add(most));
        let mut state = self.lock()?;
        state.is_begun = true;
        let work = state.work.take();
        drop(state);
        let Some(work) = work else {
            return Err(PyRuntimeError::new_err(format!(
                "{} has been waited for already: call it again",
                self.name
            )));
        };
        let mut work = pin!(work.take().map_err(|fault| fault.raise(py))?);
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            if let Poll::Ready(done) = self.poll(py, &mut work, &waker) {
                return match self.end(py, done) {
                    Err(error) if error.is_instance_of::<PyStopAsyncIteration>(py) => {
                        Err(PyStopIteration::new_err(()))
                    }
                    ended => ended,
                };
            }
            let left =
                until.map_or(GLANCE, |until| until.saturating_duration_since(Instant::now()).min(GLANCE));
            if left.is_zero() {
                let text = format!("{} did not end within {} s", self.name, timeout.unwrap_or_default());
                return Err(Fault::new("Timeout", text).raise(py));
            }
            py.detach(|| thread::park_timeout(left));
            py.check_signals()?;
        }
    }

    fn __repr__(&self) -> String {
        format!("<exonet operation {}>", self.name)
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let is_forgotten = !state.is_begun;
        let _context = self.runtime.enter();
        drop(state.work.take());
        if is_forgotten {
            let name = self.name;
            // The interpreter may be ending: then nothing can be reported.
            let _ = Python::try_attach(|py| {
                // It may be dropped because of an exception that is being raised.
                let raised = PyErr::take(py);
                let text = format!(
                    "{name} was never awaited, and has done nothing: write `await` in front of it, or, on a thread without an event loop, `.wait()` behind it"
                );
                let text = std::ffi::CString::new(text).unwrap_or_default();
                let warning = py.get_type::<PyRuntimeWarning>();
                if let Err(error) = PyErr::warn(py, &warning, &text, 1) {
                    error.write_unraisable(py, None);
                }
                if let Some(raised) = raised {
                    raised.restore(py);
                }
            });
        }
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn running_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static GET: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    GET.import(py, "asyncio", "get_running_loop")?.call0()
}

/// The loop that runs on this thread, or None.
fn in_loop(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static GET: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    GET.import(py, "asyncio", "_get_running_loop")?.call0().map(Bound::unbind)
}
