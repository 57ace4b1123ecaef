//! Wakes a relay when something may have been committed: LISTEN of PostgreSQL, and polling of SQLite.

use core::time::Duration;
use std::sync::{Arc, LazyLock};

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::database::{Cells, Store};
use crate::error::StoreError;
use crate::statements::Dialect;

/// How long to wait before the next connection, if one is lost.
const RECONNECT: Duration = Duration::from_secs(1);

/// How often SQLite is asked whether another connection has committed something.
const POLL: Duration = Duration::from_millis(10);
/// The interval and the number of checks after this process has inserted a row, whose transaction is about to be
/// committed.
const SOON: Duration = Duration::from_millis(1);
const SOON_TIMES: u32 = 50;

/// Notified when this process has inserted a row into any database.
static INSERTED: LazyLock<Notify> = LazyLock::new(Notify::new);

/// Notes that this process has inserted a row.
pub fn inserted() {
    INSERTED.notify_waiters();
}

/// Notifies `wake` whenever something may have been committed. Runs until it is dropped.
pub(super) async fn watch(store: Arc<dyn Store>, wake: Arc<Notify>) {
    loop {
        let lost = match store.dialect() {
            Dialect::Postgres => store.listen(&|| wake.notify_one()).await,
            Dialect::Sqlite => look(&*store, &wake).await,
        };
        tracing::warn!(error = ?lost.err(), "the connection that watches for new rows is lost");
        tokio::time::sleep(RECONNECT).await;
        // Rows may have been committed meanwhile.
        wake.notify_one();
    }
}

/// `data_version` changes with each commit of another connection. It is read from shared memory.
async fn look(store: &dyn Store, wake: &Notify) -> Result<(), StoreError> {
    let mut conn = store.acquire().await?;
    let (mut seen, mut soon) = (None, 0);
    loop {
        let inserted = INSERTED.notified();
        let mut rows = conn.fetch("pragma data_version", Vec::new()).await?;
        let version = rows.first_mut().map_or(Ok(0), Cells::int)?;
        if seen.replace(version) != Some(version) {
            wake.notify_one();
        }
        if soon > 0 {
            soon -= 1;
            tokio::time::sleep(SOON).await;
        } else if timeout(POLL, inserted).await.is_ok() {
            soon = SOON_TIMES;
        }
    }
}
