//! Received messages.

use std::mem::MaybeUninit;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use exo::Delivery;
use exo::error::{BodyError, NotDelivered};
use exo::session::SessionMessage;
use tokio::sync::Notify;

use crate::border::{border, free, given, look};
use crate::fault::{Fault, exonet_code, exonet_error};
use crate::node::Core;
use crate::options::priority_number;
use crate::raw::{exonet_bytes, exonet_str};
use crate::text::Text;

/// A message that is partly read.
struct Part {
    delivery: Delivery,
    body: BytesMut,
}

/// Messages that are partly read. Each goes to the next receiving call.
#[derive(Default)]
pub(crate) struct Begun {
    parts: Mutex<Vec<Part>>,
    more: Notify,
}

impl Begun {
    fn parts(&self) -> std::sync::MutexGuard<'_, Vec<Part>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message that is being read. If this is dropped, the message is put back.
struct Reading<'a> {
    begun: &'a Begun,
    part: Option<Part>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if let Some(part) = self.part.take() {
            self.begun.parts().push(part);
            self.begun.more.notify_one();
        }
    }
}

impl Core {
    /// The next message, complete. Cancel-safe: a message that is partly read is kept for the next call.
    pub(crate) async fn next(&self) -> Result<exonet_delivery, Fault> {
        loop {
            let part = self.begun.parts().pop();
            let part = match part {
                Some(part) => part,
                None => tokio::select! {
                    delivery = self.node.recv() => {
                        let delivery = delivery.map_err(|_| Fault::closed())?;
                        Part { delivery, body: BytesMut::new() }
                    }
                    () = self.begun.more.notified() => continue,
                },
            };
            match whole(Reading { begun: &self.begun, part: Some(part) }).await {
                Ok(delivery) => return Ok(delivery),
                Err(BodyError::Closed) => return Err(Fault::closed()),
                // Its sender has given it up: it does not count as a message.
                Err(_) => {}
            }
        }
    }
}

async fn whole(mut reading: Reading<'_>) -> Result<exonet_delivery, BodyError> {
    let Some(part) = &mut reading.part else { return Err(BodyError::Closed) };
    let whole = part.delivery.body().as_whole().cloned();
    let body = match whole {
        Some(body) => Some(body),
        None => loop {
            match part.delivery.body_mut().chunk().await {
                Ok(Some(chunk)) => part.body.extend_from_slice(&chunk),
                Ok(None) => break None,
                Err(error) => {
                    reading.part = None;
                    return Err(error);
                }
            }
        },
    };
    let Some(Part { delivery, body: read }) = reading.part.take() else { return Err(BodyError::Closed) };
    Ok(exonet_delivery::new(delivery, body.unwrap_or_else(|| read.freeze())))
}

/// A received message. It is delivered when exonet_delivery_ack succeeds; if it is freed before, it is handed out
/// again.
pub struct exonet_delivery {
    guard: Mutex<Option<Guard>>,
    key: Key,
    tag: Bytes,
    body: Bytes,
    attempt: u32,
    priority: i32,
    traceparent: Option<Text>,
}

/// What hands a message out again if it is dropped.
enum Guard {
    Message(Delivery),
    Session(SessionMessage),
}

impl Guard {
    fn ack(self, status: u32) -> Result<(), NotDelivered> {
        match self {
            Self::Message(delivery) => delivery.ack_with(status),
            Self::Session(message) => message.ack_with(status),
        }
    }

    fn reject(self, status: u32, reason: &str) {
        match self {
            Self::Message(delivery) => delivery.reject_with(status, reason),
            Self::Session(message) => message.reject_with(status, reason),
        }
    }

    fn retry(self, wait: Duration) {
        match self {
            Self::Message(delivery) => delivery.retry_after(wait),
            Self::Session(message) => message.retry_after(wait),
        }
    }
}

/// The names of a message, whose texts are made on first use.
struct Key {
    id: exo::MessageId,
    id_text: OnceLock<Text>,
    from_text: OnceLock<Text>,
}

impl exonet_delivery {
    pub(crate) fn new(delivery: Delivery, body: Bytes) -> Self {
        Self {
            key: Key { id: delivery.id(), id_text: OnceLock::new(), from_text: OnceLock::new() },
            tag: delivery.tag().clone(),
            attempt: delivery.attempt(),
            priority: priority_number(delivery.priority()),
            traceparent: delivery.traceparent().map(Text::new),
            body,
            guard: Mutex::new(Some(Guard::Message(delivery))),
        }
    }

    /// A message of a session, which has no tag.
    pub(crate) fn of_session(message: SessionMessage) -> Self {
        Self {
            key: Key { id: message.id(), id_text: OnceLock::new(), from_text: OnceLock::new() },
            tag: Bytes::new(),
            attempt: message.attempt(),
            priority: priority_number(message.priority()),
            traceparent: message.traceparent().map(Text::new),
            body: message.body().clone(),
            guard: Mutex::new(Some(Guard::Session(message))),
        }
    }

    /// The guard, once.
    fn settle(&self) -> Result<Guard, Fault> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(|| {
            Fault::usage("this delivery is dealt with already: it is acknowledged, rejected or put off once")
        })
    }
}

/// The node that sent the message: a proven id, to which an answer can be sent.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_delivery_from(delivery: Option<&exonet_delivery>) -> exonet_str {
    look(exonet_str::empty(), || {
        let key = &delivery?.key;
        Some(key.from_text.get_or_init(|| Text::new(key.id.sender)).lend())
    })
}

/// The permanent name of the message at both ends: the key under which an external effect is made only once.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_delivery_id(delivery: Option<&exonet_delivery>) -> exonet_str {
    look(exonet_str::empty(), || {
        let key = &delivery?.key;
        Some(key.id_text.get_or_init(|| Text::new(key.id)).lend())
    })
}

/// The tag that it was sent with.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_delivery_tag(delivery: Option<&exonet_delivery>) -> exonet_bytes {
    look(exonet_bytes::empty(), || Some(exonet_bytes::lend(&delivery?.tag)))
}

/// The content.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_delivery_body(delivery: Option<&exonet_delivery>) -> exonet_bytes {
    look(exonet_bytes::empty(), || Some(exonet_bytes::lend(&delivery?.body)))
}

/// The number of times that the message was handed out, starting at 1. From 2 on, it may have been acted on before.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_delivery_attempt(delivery: Option<&exonet_delivery>) -> u32 {
    delivery.map_or(0, |delivery| delivery.attempt)
}

/// The priority from the sender: EXONET_PRIORITY_NORMAL or another.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_delivery_priority(delivery: Option<&exonet_delivery>) -> i32 {
    delivery.map_or(0, |delivery| delivery.priority)
}

/// The trace that the sender made the message part of, as in the header `traceparent` of W3C Trace Context. Empty if
/// there is none.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_delivery_traceparent(delivery: Option<&exonet_delivery>) -> exonet_str {
    look(exonet_str::empty(), || delivery?.traceparent.as_ref().map(Text::lend))
}

/// Acknowledges the message: from here on it is delivered. A sender that asked for it is told that the message was
/// processed, with `status`, which is 0 if there is nothing to say. EXONET_NOT_DELIVERED: the message must not be
/// acted on.
///
/// The handle still has to be freed, after this function and the next two.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_delivery_ack(
    delivery: Option<&exonet_delivery>,
    status: u32,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || Ok(given(delivery, "delivery")?.settle()?.ack(status)?))
}

/// Rejects the message for good: its sender is told so, with `status` and the first 200 bytes of `reason`. The node
/// keeps the message as a dead letter.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_delivery_reject(
    delivery: Option<&exonet_delivery>,
    status: u32,
    reason: exonet_str,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let reason = reason.get("reason")?;
        given(delivery, "delivery")?.settle()?.reject(status, reason);
        Ok(())
    })
}

/// Hands the message out again, `wait_ms` from now at the earliest.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_delivery_retry(
    delivery: Option<&exonet_delivery>,
    wait_ms: u64,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        given(delivery, "delivery")?.settle()?.retry(Duration::from_millis(wait_ms));
        Ok(())
    })
}

/// Frees a delivery. If the message was neither acknowledged, rejected nor put off, it is handed out again.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_delivery_free(delivery: Option<Box<exonet_delivery>>) {
    free(delivery);
}
