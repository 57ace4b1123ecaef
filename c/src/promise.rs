//! What comes to be once, and any number of threads wait for.

use std::sync::OnceLock;

use tokio::sync::Notify;

/// A value to be.
pub(crate) struct Promise<T> {
    value: OnceLock<T>,
    kept: Notify,
}

impl<T> Promise<T> {
    pub(crate) fn new() -> Self {
        Self { value: OnceLock::new(), kept: Notify::new() }
    }

    /// The first value stays.
    pub(crate) fn keep(&self, value: T) {
        let _ = self.value.set(value);
        self.kept.notify_waiters();
    }

    pub(crate) fn look(&self) -> Option<&T> {
        self.value.get()
    }

    /// Waits for it.
    pub(crate) async fn wait(&self) -> &T {
        loop {
            // Made before the look: `notify_waiters` wakes all that were made by then.
            let kept = self.kept.notified();
            if let Some(value) = self.value.get() {
                return value;
            }
            kept.await;
        }
    }
}
