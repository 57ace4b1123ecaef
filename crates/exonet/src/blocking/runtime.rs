//! The thread of a node whose methods block.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::task::Wake;
use std::thread::{self, Thread};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::error::BuildError;

/// A thread that runs the tasks of a node, until the last clone of this is dropped.
pub(super) struct Runtime {
    pub(super) handle: Handle,
    /// The thread ends when this is dropped.
    _stop: oneshot::Sender<()>,
}

impl Runtime {
    pub(super) fn start() -> Result<Arc<Self>, BuildError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(BuildError::Runtime)?;
        let (handle, (stop, stopped)) = (runtime.handle().clone(), oneshot::channel::<()>());
        let run = move || {
            // The receiver fails once the last clone is gone, so an error is expected.
            let _ = runtime.block_on(stopped);
            // Look-ups and writes to the disk that are in progress end without this thread.
            runtime.shutdown_background();
        };
        let spawned = thread::Builder::new().name("exonet".to_owned()).spawn(run);
        spawned.map_err(BuildError::Runtime)?;
        Ok(Arc::new(Self { handle, _stop: stop }))
    }

    /// Waits for the result of `future`, which uses the timers and sockets of the thread.
    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        let _context = self.handle.enter();
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let (mut future, mut cx) = (pin!(future), Context::from_waker(&waker));
        loop {
            match future.as_mut().poll(&mut cx) {
                Poll::Ready(done) => return done,
                Poll::Pending => thread::park(),
            }
        }
    }

    /// Waits for the result of `future`, for `timeout` at most.
    pub(super) fn wait_for<T>(&self, timeout: Duration, future: impl Future<Output = T>) -> Option<T> {
        self.wait(async { tokio::time::timeout(timeout, future).await }).ok()
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
