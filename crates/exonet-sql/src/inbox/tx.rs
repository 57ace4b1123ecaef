//! The transaction of a handler.

use core::fmt;
use core::ops::{Deref, DerefMut};
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::kept::OpenTx;
use crate::pooled::Database;

/// The transaction in which a message is processed. It is a connection, for queries and for
/// [`Outbox::send`](crate::Outbox::send). The inbox commits it when the handler has returned `Ok` and has dropped
/// this value.
pub struct InboxTx<DB: Database> {
    inner: OwnedMutexGuard<OpenTx<DB>>,
}

/// The inbox's handle on the transaction.
pub(crate) struct Lent<DB: Database>(Arc<Mutex<OpenTx<DB>>>);

impl<DB: Database> Lent<DB> {
    pub(crate) async fn lend(tx: OpenTx<DB>) -> (Self, InboxTx<DB>) {
        let shared = Arc::new(Mutex::new(tx));
        let inner = Arc::clone(&shared).lock_owned().await;
        (Self(shared), InboxTx { inner })
    }

    /// Returns the transaction, if the handler has dropped its part.
    pub(crate) fn back(self) -> Option<OpenTx<DB>> {
        Arc::into_inner(self.0).map(Mutex::into_inner)
    }
}

impl<DB: Database> Deref for InboxTx<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.inner
    }
}

impl<DB: Database> DerefMut for InboxTx<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.inner
    }
}

impl<DB: Database> fmt::Debug for InboxTx<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InboxTx")
    }
}
