//! How a handler fails.

use core::fmt;

/// Why a handler has not processed a message. Anything that can be shown becomes [`Self::Retry`], so `?` works in a handler that
/// returns this; a handler that never rejects by itself may return another error, `sqlx::Error` for instance.
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
    /// Not this time: the handler is given the message again, until [`attempts`](crate::InboxBuilder::attempts) are used up.
    Retry(String),
    /// Never: the message becomes a [dead letter](exonet::dead) of the node, and its sender is told.
    Reject {
        /// A number that the two applications agree on.
        status: u32,
        /// Why, for people: the first 200 bytes count.
        reason: String,
    },
}

impl HandlerError {
    /// The message can never be processed.
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
