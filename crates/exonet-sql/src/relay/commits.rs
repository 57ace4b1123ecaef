//! Wakes a relay when a transaction may have been committed.

use core::time::Duration;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::database::Store;

/// How long to wait before connecting again after a connection was lost.
const RECONNECT: Duration = Duration::from_secs(1);

/// Notifies `wake` whenever a transaction may have been committed. Runs until it is dropped.
pub(super) async fn watch(store: Arc<dyn Store>, wake: Arc<Notify>) {
    loop {
        let lost = store.listen(&|| wake.notify_one()).await;
        tracing::warn!(error = ?lost.err(), "the connection that watches for new rows is lost");
        tokio::time::sleep(RECONNECT).await;
        // Rows may have been committed meanwhile.
        wake.notify_one();
    }
}
