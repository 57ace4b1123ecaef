//! Many futures in one task, of which only those are polled that were woken.

use core::task::{Context, Waker};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use tokio::sync::Notify;

/// Which of the futures of a task were woken.
#[derive(Default)]
pub(super) struct Ready {
    woken: Mutex<Vec<usize>>,
    /// One of them was, or something else is to be seen to.
    pub(super) rung: Notify,
}

impl Ready {
    /// Those that were woken since the last call.
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

    /// Whether this is the waker of the future of that number.
    pub(super) fn is(&self, at: usize) -> bool {
        self.at == at
    }

    /// Polls: the future is asked again when it has rung.
    pub(super) fn poll<T>(self: &Arc<Self>, poll: impl FnOnce(&mut Context<'_>) -> T) -> T {
        // Before the poll: what rings during it counts.
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
