//! The error of a handler.

use core::fmt;

/// Why a handler has not processed a message. Any error that implements `Display` becomes [`Self::Retry`], so `?`
/// works in a handler that returns this type. A handler that never rejects a message may return another error, such
/// as `sqlx::Error`.
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
#[non_exhaustive]
pub enum HandlerError {
    /// The message was not processed this time: the handler gets it again, until the
    /// [`attempts`](crate::InboxBuilder::attempts) are used up.
    Retry(String),
    /// The message can never be processed. It becomes a [dead letter](exonet::dead) of the node, and its sender
    /// learns that.
    Reject {
        /// A number whose meaning the two applications have agreed on.
        status: u32,
        /// The reason, for people. The sender gets the first 200 bytes.
        reason: String,
    },
}

impl HandlerError {
    /// Makes the error that rejects a message, since it can never be processed.
    pub fn reject(status: u32, reason: impl Into<String>) -> Self {
        Self::Reject { status, reason: reason.into() }
    }
}

// This type must not implement `Display` itself: it would then have two conversions from itself.
impl<E: fmt::Display> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::Retry(error.to_string())
    }
}
