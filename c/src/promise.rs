//! A value that is set once, and for which any number of threads wait.

use std::sync::OnceLock;

use tokio::sync::Notify;

/// A value that is set later.
pub(crate) struct Promise<T> {
    value: OnceLock<T>,
    kept: Notify,
}

impl<T> Promise<T> {
    pub(crate) fn new() -> Self {
        Self { value: OnceLock::new(), kept: Notify::new() }
    }

    /// Sets the value, unless it is set already.
    pub(crate) fn keep(&self, value: T) {
        let _ = self.value.set(value);
        self.kept.notify_waiters();
    }

    pub(crate) fn look(&self) -> Option<&T> {
        self.value.get()
    }

    /// Waits for the value.
    pub(crate) async fn wait(&self) -> &T {
        loop {
            // Created before the look: `notify_waiters` wakes all that were created before it.
            let kept = self.kept.notified();
            if let Some(value) = self.value.get() {
                return value;
            }
            kept.await;
        }
    }
}
