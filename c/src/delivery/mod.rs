//! Received messages.

mod answer;

use std::mem::MaybeUninit;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use exo::error::{BodyError, NotDelivered};
use exo::session::SessionMessage;
use exo::{Delivery, NodeId, Priority};
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

impl From<Delivery> for Guard {
    fn from(delivery: Delivery) -> Self {
        Self::Message(delivery)
    }
}

impl From<SessionMessage> for Guard {
    fn from(message: SessionMessage) -> Self {
        Self::Session(message)
    }
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

    /// A message of a session, which has no tag, and no priority of its own.
    pub(crate) fn of_session(message: SessionMessage) -> Self {
        Self {
            key: Key { id: message.id(), id_text: OnceLock::new(), from_text: OnceLock::new() },
            tag: Bytes::new(),
            attempt: message.attempt(),
            priority: priority_number(Priority::Normal),
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

    /// Undoes [`Self::settle`].
    fn put_back(&self, guard: Guard) {
        *self.guard.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard);
    }

    /// The node that sent the message.
    const fn sender(&self) -> NodeId {
        self.key.id.sender
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

#[cfg(test)]
pub(crate) mod tests {
    use std::future::ready;

    use exo::{Allow, Confirm, Message, Node, Outcome};
    use tokio::task::yield_now;

    use super::*;
    use crate::queue::Queue;

    /// Ends a test that would wait for ever.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

    /// A node, and the core of another one.
    pub(crate) async fn pair() -> (Node, Core) {
        let node = async || Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
        let (alice, bob) = (node().await, node().await);
        (alice, Core { node: bob, queue: Queue::new(), begun: Begun::default() })
    }

    async fn next(core: &Core) -> exonet_delivery {
        tokio::time::timeout(PATIENCE, core.next()).await.expect("a message in time").unwrap()
    }

    /// Polls a call once.
    async fn poll<T>(call: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = call => Some(done),
            () = ready(()) => None,
        }
    }

    /// Waits until `len` bytes of a message have been read, and put back.
    async fn read_in_part(core: &Core, len: usize) {
        let read = async {
            while core.begun.parts().first().is_none_or(|part| part.body.len() < len) {
                assert!(poll(core.next()).await.is_none(), "its end is not there yet");
                yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, read).await.expect("it is kept");
    }

    #[tokio::test]
    async fn a_message_that_is_partly_read_goes_to_the_next_call() {
        let (alice, core) = pair().await;
        let to = alice.peer(core.node.peer_addr());
        let (receipt, mut body) = to.send_stream(Message::new(""), None).await.unwrap();
        body.write_chunk(Bytes::from(vec![1; 50_000])).await.unwrap();
        read_in_part(&core, 50_000).await;
        body.write_chunk(Bytes::from(vec![2; 50_000])).await.unwrap();
        body.finish().unwrap();
        let delivery = next(&core).await;
        assert_eq!(delivery.body, [[1; 50_000], [2; 50_000]].concat());
        assert_eq!(delivery.attempt, 1, "it was not handed out before");
        delivery.settle().unwrap().ack(0).unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
    }

    #[tokio::test]
    async fn a_call_that_waits_already_gets_what_another_gives_up() {
        let (alice, core) = pair().await;
        let to = alice.peer(core.node.peer_addr());
        let (_receipt, mut body) = to.send_stream(Message::new(""), None).await.unwrap();
        body.write_chunk(Bytes::from(vec![1; 50_000])).await.unwrap();
        read_in_part(&core, 50_000).await;
        let (mut first, mut second) = (Box::pin(core.next()), Box::pin(core.next()));
        assert!(poll(&mut first).await.is_none() && core.begun.parts().is_empty(), "the first one reads it");
        assert!(poll(&mut second).await.is_none());
        drop(first);
        body.finish().unwrap();
        let delivery = tokio::time::timeout(PATIENCE, second).await.expect("it was woken").unwrap();
        assert_eq!(delivery.body.len(), 50_000);
    }

    #[tokio::test]
    async fn a_message_that_its_sender_gives_up_does_not_count() {
        let (alice, core) = pair().await;
        let to = alice.peer(core.node.peer_addr());
        let (_receipt, mut body) = to.send_stream(Message::new(""), None).await.unwrap();
        body.write_chunk(Bytes::from(vec![1; 50_000])).await.unwrap();
        read_in_part(&core, 50_000).await;
        drop(body);
        drop(to.send("whole").await.unwrap());
        assert_eq!(next(&core).await.body, "whole");
        assert!(core.begun.parts().is_empty());
    }

    #[tokio::test]
    async fn the_end_of_the_node_is_told_also_in_the_middle_of_a_message() {
        let (alice, core) = pair().await;
        let to = alice.peer(core.node.peer_addr());
        let (_receipt, mut body) = to.send_stream(Message::new(""), None).await.unwrap();
        body.write_chunk(Bytes::from(vec![1; 50_000])).await.unwrap();
        read_in_part(&core, 50_000).await;
        core.node.close(Duration::ZERO).await;
        for _ in 0..2 {
            let fault = tokio::time::timeout(PATIENCE, core.next()).await.expect("it ends").err().unwrap();
            assert_eq!(fault.code(), exonet_code::EXONET_CLOSED);
        }
    }

    #[tokio::test]
    async fn a_delivery_is_dealt_with_once_and_its_sender_is_told_how() {
        let (alice, core) = pair().await;
        let to = alice.peer(core.node.peer_addr());
        let asks = || Message::new("x").confirm(Confirm::Processed);
        let receipt = to.send(asks()).await.unwrap();
        drop(next(&core).await);
        let again = next(&core).await;
        assert_eq!(again.attempt, 2, "it was dropped");
        again.settle().unwrap().retry(Duration::ZERO);
        let last = next(&core).await;
        assert_eq!(last.attempt, 3, "it was put off");
        last.settle().unwrap().ack(7).unwrap();
        assert_eq!(last.settle().err().unwrap().code(), exonet_code::EXONET_USAGE);
        assert_eq!(receipt.await.outcome, Outcome::Processed { status: 7 });

        let mut receipt = to.send(asks()).await.unwrap();
        next(&core).await.settle().unwrap().reject(9, "no");
        assert!(matches!((&mut receipt).await.outcome, Outcome::Rejected { status: 9, .. }));
        assert_eq!(receipt.reason().as_deref(), Some("no"));
    }

    #[tokio::test]
    async fn a_message_of_a_session_is_dealt_with_like_any_other() {
        let (alice, core) = pair().await;
        let opened = alice.peer(core.node.peer_addr()).session("s").unwrap().open().await;
        let mut client = opened.unwrap();
        let receipt = client.send(Message::new("x").confirm(Confirm::Processed)).await.unwrap();
        let mut server = core.node.accept_session().await.unwrap();
        let mut next = async || exonet_delivery::of_session(server.recv().await.unwrap().unwrap());
        next().await.settle().unwrap().retry(Duration::ZERO);
        let again = next().await;
        assert_eq!((again.attempt, again.key.id.sender, &*again.body), (2, alice.id(), &b"x"[..]));
        again.settle().unwrap().ack(7).unwrap();
        assert_eq!(again.settle().err().unwrap().code(), exonet_code::EXONET_USAGE);
        assert_eq!(receipt.await.outcome, Outcome::Processed { status: 7 });
        let receipt = client.send("y").await.unwrap();
        next().await.settle().unwrap().reject(9, "no");
        assert!(matches!(receipt.await.outcome, Outcome::Rejected { status: 9, .. }));
    }
}
