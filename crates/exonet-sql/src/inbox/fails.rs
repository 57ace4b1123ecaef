//! The error of a handler.

use core::fmt;

/// The reason for which a handler has not processed a message. Any error that implements `Display` becomes
/// [`Self::Retry`], so `?` works in a handler that returns this. A handler that never rejects a message may return
/// another error, such as `sqlx::Error`.
///
/// ```
/// use exonet_sql::{HandlerError, InboxMessage, InboxTx};
/// use sqlx::Sqlite;
///
/// async fn credit(mut tx: InboxTx<Sqlite>, message: InboxMessage) -> Result<(), HandlerError> {
///     let Ok(amount) = message.body[..].try_into().map(i64::from_be_bytes) else {
///         return Err(HandlerError::reject(1, "an amount has eight bytes"));
///     };
///     sqlx::query("update account set balance = balance + $1").bind(amount).execute(&mut *tx).await?;
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerError {
    /// The message was not processed this time: the handler gets it again, until the
    /// [`attempts`](crate::InboxBuilder::attempts) are used up.
    Retry(String),
    /// The message can never be processed: it becomes a [dead letter](exonet::dead) of the node, and its sender is
    /// told.
    Reject {
        /// A number whose meaning the two applications agree on.
        status: u32,
        /// The reason for people: the first 200 bytes are sent.
        reason: String,
    },
}

impl HandlerError {
    /// Rejects a message that can never be processed.
    pub fn reject(status: u32, reason: impl Into<String>) -> Self {
        Self::Reject { status, reason: reason.into() }
    }
}

// This type must not implement `Display` itself: then it would have two conversions from itself.
impl<E: fmt::Display> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::Retry(error.to_string())
    }
}
