//! The writes of the durable record.

use core::pin::Pin;
use core::time::Duration;
use std::sync::Arc;

use exonet_proto::node::{Batch, Lsn};
use tokio::task::JoinHandle;
use tokio::time::Sleep;

use crate::shared::Shared;
use crate::state::{ClockRecord, StateDir, StateError};

/// The time between attempts to write the state while the disk has no room.
const NO_ROOM: Duration = Duration::from_millis(500);

/// Writes `D`: one write at a time, on a thread that may block. While the disk has no room, it writes again and again:
/// what depends on the write waits, and nothing else does.
pub(super) struct Writer {
    store: Option<Store>,
    task: Option<Write>,
}

/// Writes a batch to the disk.
type Store = Arc<dyn Fn(&Batch) -> Result<(), StateError> + Send + Sync>;

struct Write {
    batch: Arc<Batch>,
    step: Step,
    /// The log has the lack of room.
    told: bool,
}

enum Step {
    Runs(JoinHandle<Result<(), StateError>>),
    /// The disk has no room. The next attempt is due at the end of this.
    Waits(Pin<Box<Sleep>>),
}

impl Writer {
    pub(super) fn new(store: Option<Arc<StateDir>>) -> Self {
        let store = store.map(|store| -> Store {
            Arc::new(move |batch| {
                if let Some(strays) = &batch.strays {
                    store.store_strays(strays)?;
                }
                store.store(ClockRecord { d: batch.clock, life: batch.life, latest: batch.latest.0 })
            })
        });
        Self { store, task: None }
    }

    pub(super) const fn is_idle(&self) -> bool {
        self.task.is_none()
    }

    pub(super) fn begin(&mut self, shared: &Shared, batch: Batch) {
        match &self.store {
            None => shared.step(|engine, now| engine.core.handle_persisted(now, batch.lsn)),
            Some(store) => {
                let batch = Arc::new(batch);
                self.task = Some(Write { step: run(store, &batch), batch, told: false });
            }
        }
    }

    /// Cancel-safe.
    pub(super) async fn end(&mut self) -> Result<Lsn, String> {
        loop {
            let (Some(write), Some(store)) = (&mut self.task, &self.store) else {
                return core::future::pending().await;
            };
            let (lsn, result) = match &mut write.step {
                Step::Runs(task) => (write.batch.lsn, task.await),
                Step::Waits(time) => {
                    time.await;
                    write.step = run(store, &write.batch);
                    continue;
                }
            };
            match result {
                Ok(Err(error)) if error.lacks_room() => {
                    if !core::mem::replace(&mut write.told, true) {
                        tracing::warn!(%error, "no room for the state: what depends on it waits for room");
                    }
                    write.step = Step::Waits(Box::pin(tokio::time::sleep(NO_ROOM)));
                    continue;
                }
                _ => self.task = None,
            }
            return match result {
                Ok(Ok(())) => Ok(lsn),
                Ok(Err(error)) => Err(error.to_string()),
                Err(error) => Err(error.to_string()),
            };
        }
    }

    /// Waits for the attempt in progress, and makes no further one.
    pub(super) async fn stop(&mut self) {
        if let Some(Write { step: Step::Runs(task), .. }) = self.task.take() {
            // If it failed, the previous record is on the disk, and the node ends anyway.
            let _ = task.await;
        }
    }
}

fn run(store: &Store, batch: &Arc<Batch>) -> Step {
    let (store, batch) = (Arc::clone(store), Arc::clone(batch));
    Step::Runs(tokio::task::spawn_blocking(move || store(&batch)))
}

#[cfg(test)]
mod tests {
    use core::task::Poll;
    use std::io;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::Allow;

    /// A writer whose attempts fail with these errors, one after the other, and then succeed.
    async fn writer(errors: &'static [io::ErrorKind]) -> (Writer, Arc<AtomicU32>) {
        let node = crate::Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
        let attempts = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&attempts);
        let store: Store = Arc::new(move |_| {
            let attempt = counted.fetch_add(1, Ordering::Relaxed) as usize;
            errors
                .get(attempt)
                .map_or(Ok(()), |kind| Err(StateError::io("write", "clock".as_ref())((*kind).into())))
        });
        let mut writer = Writer { store: Some(store), task: None };
        let batch = Batch { lsn: Lsn(7), clock: 1, life: 1, latest: exonet_proto::Stamp(0), strays: None };
        writer.begin(node.shared(), batch);
        (writer, attempts)
    }

    #[tokio::test]
    async fn a_full_disk_holds_up_a_write_until_there_is_room() {
        const FULL: &[io::ErrorKind] = &[io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        let (mut writer, attempts) = writer(FULL).await;
        tokio::time::pause();
        assert_eq!(writer.end().await, Ok(Lsn(7)));
        assert!(writer.is_idle() && attempts.load(Ordering::Relaxed) == 3);
    }

    #[tokio::test]
    async fn another_error_of_a_write_stops_the_node() {
        let (mut writer, attempts) = writer(&[io::ErrorKind::PermissionDenied]).await;
        assert!(writer.end().await.is_err());
        assert!(writer.is_idle() && attempts.load(Ordering::Relaxed) == 1);
    }

    #[tokio::test]
    async fn a_node_that_ends_does_not_wait_for_room() {
        let (mut writer, attempts) = writer(&[io::ErrorKind::StorageFull; 9]).await;
        let waits = |writer: &Writer| matches!(&writer.task, Some(Write { step: Step::Waits(_), .. }));
        while !waits(&writer) {
            let mut ending = core::pin::pin!(writer.end());
            assert!(core::future::poll_fn(|cx| Poll::Ready(ending.as_mut().poll(cx))).await.is_pending());
            tokio::task::yield_now().await;
        }
        writer.stop().await;
        assert!(writer.is_idle() && attempts.load(Ordering::Relaxed) == 1);
    }
}
