//! Runs many futures in one task, and polls only those that were woken.

use core::task::{Context, Waker};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use tokio::sync::Notify;

/// The futures of a task that were woken.
#[derive(Default)]
pub(super) struct Ready {
    woken: Mutex<Vec<usize>>,
    /// Notified when a future was woken, or when there is other work.
    pub(super) rung: Notify,
}

impl Ready {
    /// The futures that were woken since the last call.
    pub(super) fn take(&self) -> Vec<usize> {
        core::mem::take(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The waker of one of the futures.
pub(super) struct Bell {
    at: usize,
    rung: AtomicBool,
    ready: Arc<Ready>,
}

impl Bell {
    pub(super) fn new(at: usize, ready: &Arc<Ready>) -> Arc<Self> {
        Arc::new(Self { at, rung: AtomicBool::new(false), ready: Arc::clone(ready) })
    }

    /// Whether this is the waker of the future with the number `at`.
    pub(super) fn is(&self, at: usize) -> bool {
        self.at == at
    }

    /// Polls a future. If this bell rings, the caller should poll the future again.
    pub(super) fn poll<T>(self: &Arc<Self>, poll: impl FnOnce(&mut Context<'_>) -> T) -> T {
        // Reset before the poll, so that a wake-up during the poll counts.
        self.rung.store(false, Ordering::Release);
        poll(&mut Context::from_waker(&Waker::from(Arc::clone(self))))
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            self.ready.woken.lock().unwrap_or_else(PoisonError::into_inner).push(self.at);
            self.ready.rung.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_that_was_woken_is_asked_once() {
        let ready = Arc::<Ready>::default();
        let bells = [Bell::new(0, &ready), Bell::new(1, &ready)];
        let waker = bells[1].poll(|cx| cx.waker().clone());
        waker.wake_by_ref();
        waker.wake_by_ref();
        assert_eq!(ready.take(), [1]);
        assert!(ready.take().is_empty());
        bells[1].poll(|_| ());
        waker.wake();
        assert_eq!(ready.take(), [1], "asked again, it may ring again");
    }
}
