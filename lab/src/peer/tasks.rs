//! An application between tasks: one asks it for messages, others hand it what arrives.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::Setup;
use crate::app::{App, Meter, app};

/// A handle that is cheap to clone.
#[derive(Clone)]
pub(super) struct Shared {
    app: Arc<Mutex<Box<dyn App>>>,
    /// Something has arrived, which may be answered.
    changed: Arc<Notify>,
    bytes: usize,
}

impl Shared {
    pub(super) fn new(setup: &Setup, meter: &Arc<Meter>) -> Self {
        Self::of(setup, app(setup.work, setup.role, meter))
    }

    pub(super) fn of(setup: &Setup, app: Box<dyn App>) -> Self {
        Self { app: Arc::new(Mutex::new(app)), changed: Arc::new(Notify::new()), bytes: setup.bytes }
    }

    /// The length of each message.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Messages that are to leave now, up to `most`; waits until there is one. For one task only.
    pub(super) async fn next(&self, most: usize) -> Vec<Vec<u8>> {
        loop {
            let mut batch = Vec::new();
            {
                let mut app = self.app.lock().unwrap_or_else(PoisonError::into_inner);
                while batch.len() < most {
                    let mut message = vec![0x5a; self.bytes];
                    if !app.next(&mut message) {
                        break;
                    }
                    batch.push(message);
                }
            }
            if !batch.is_empty() {
                return batch;
            }
            self.changed.notified().await;
        }
    }

    /// One message, if one is to leave now.
    pub(super) fn try_next(&self) -> Option<Vec<u8>> {
        let mut message = vec![0x5a; self.bytes];
        let mut app = self.app.lock().unwrap_or_else(PoisonError::into_inner);
        app.next(&mut message).then_some(message)
    }

    /// As [`Self::next`], one behind the other in `batch`.
    pub(super) async fn fill(&self, batch: &mut Vec<u8>, most: usize) {
        self.fill_framed(batch, most, &[]).await;
    }

    /// As [`Self::fill`], each behind the same head.
    pub(super) async fn fill_framed(&self, batch: &mut Vec<u8>, most: usize, head: &[u8]) {
        let each = head.len() + self.bytes;
        loop {
            batch.resize(most * each, 0x5a);
            let full = {
                let mut app = self.app.lock().unwrap_or_else(PoisonError::into_inner);
                let next = |frame: &mut [u8]| {
                    let (before, message) = frame.split_at_mut_checked(head.len())?;
                    before.copy_from_slice(head);
                    app.next(message).then_some(())
                };
                batch.chunks_mut(each).map_while(next).count()
            };
            batch.truncate(full * each);
            if full > 0 {
                return;
            }
            self.changed.notified().await;
        }
    }

    /// Messages that have arrived.
    pub(super) fn take<'a>(&self, messages: impl IntoIterator<Item = &'a [u8]>) {
        let mut app = self.app.lock().unwrap_or_else(PoisonError::into_inner);
        messages.into_iter().for_each(|message| app.take(message));
        drop(app);
        self.changed.notify_one();
    }

    /// Messages that have arrived, as `each` finds them.
    pub(super) fn take_from<T>(&self, each: impl FnOnce(&mut dyn FnMut(&[u8])) -> T) -> T {
        let mut app = self.app.lock().unwrap_or_else(PoisonError::into_inner);
        let done = each(&mut |message| app.take(message));
        drop(app);
        self.changed.notify_one();
        done
    }
}

/// The runtime of peers that need one, on one thread: of one connection there is nothing to be done side by side, and a thread
/// that wakes another for each packet takes longer than what it wakes it for. That is so for all of them.
pub(super) fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Runs one end as a task: what wakes a runtime's first future has it ask the system for events before that goes on.
pub(super) fn run<F>(
    setup: &Setup,
    meter: &Arc<Meter>,
    end: fn(Arc<Setup>, Arc<Meter>) -> F,
) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let end = end(Arc::new(setup.clone()), Arc::clone(meter));
    runtime()?.block_on(async { tokio::spawn(end).await? })
}
