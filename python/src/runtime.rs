//! The runtime on which all nodes of the process run, and the effect of a fork on it.
//!
//! A fork copies memory, not threads: in the child no thread drives the nodes of the parent, and locks may be held by
//! threads that do not exist. So an object that depends on the runtime knows after how many forks it was made
//! ([`Held`]). In a child it is neither used nor dropped; the child makes its own nodes, on another runtime.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::fault::Fault;

/// The number of forks between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Locked only while the interpreter's lock is held, and so by no other thread while the process forks.
static RUNTIME: Mutex<Option<Held<Runtime>>> = Mutex::new(None);

/// The largest number of threads that run nodes, with cryptography and sockets. A node keeps at most one busy.
const MOST_THREADS: usize = 4;

/// The runtime of this process, started on first use.
pub(crate) fn handle() -> Result<Handle, Fault> {
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(running) = runtime.as_ref().and_then(|held| held.get().ok()) {
        return Ok(running.handle().clone());
    }
    let wanted =
        std::env::var("EXONET_THREADS").ok().and_then(|text| text.parse().ok()).filter(|wanted| *wanted > 0);
    let threads = wanted
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS));
    let built =
        Builder::new_multi_thread().worker_threads(threads).thread_name("exonet").enable_all().build();
    let built = built
        .map_err(|error| Fault::new("BuildError", format!("cannot start the threads of nodes: {error}")))?;
    let handle = built.handle().clone();
    *runtime = Some(Held::new(built));
    Ok(handle)
}

/// Python calls this in the child of each fork.
#[pyfunction]
pub(crate) fn _after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    crate::sql::forked();
}

/// An object that can be used only in the process that made it.
pub(crate) struct Held<T> {
    born: u32,
    /// None: the object was taken.
    inner: Option<T>,
}

impl<T> Held<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { born: FORKS.load(Ordering::Relaxed), inner: Some(inner) }
    }

    fn is_here(&self) -> bool {
        self.born == FORKS.load(Ordering::Relaxed)
    }

    /// The object, if this is the process that made it.
    pub(crate) fn get(&self) -> Result<&T, Fault> {
        self.inner.as_ref().filter(|_| self.is_here()).ok_or_else(Fault::forked)
    }

    /// Like [`Self::get`], for a mutable reference.
    pub(crate) fn get_mut(&mut self) -> Result<&mut T, Fault> {
        let is_here = self.is_here();
        self.inner.as_mut().filter(|_| is_here).ok_or_else(Fault::forked)
    }

    /// Takes the object out.
    pub(crate) fn take(mut self) -> Result<T, Fault> {
        if self.is_here() { self.inner.take().ok_or_else(Fault::forked) } else { Err(Fault::forked()) }
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        if !self.is_here() {
            std::mem::forget(self.inner.take());
        }
    }
}
