//! `POST /v1/inbox/{handle}/answer`: acknowledges a message and sends an answer to its sender, in one step.
//!
//! The message is lent to a task that answers it. If the answer is not sent, its client has the message back under its
//! handle; if the handle is gone by then, the message is delivered again.

use std::sync::Arc;
use std::time::Duration;

use exonet::error::SendError;
use exonet::receive::NotAnswered;
use exonet::{Delivery, Message, Node, Receipt};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, timeout_at};

use super::Office;
use super::inbox::{Out, not_delivered};
use super::leases::handle as new_id;
use super::request::{Content, Given, HasContent, json_as_written, text};
use super::respond::{Answer, ApiError, in_json};
use super::send::{Treatment, Wanted, delivered, normal, refused};
use super::sent::Claim;
use crate::control::protocol::Class;

/// The longest wait of an answer for room in the queue to the sender: less than the default lease.
const ROOM_TIME: Duration = Duration::from_secs(10);

/// An answer, and the options for it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Draft {
    #[serde(default, deserialize_with = "text")]
    text: Option<String>,
    #[serde(default, deserialize_with = "text")]
    base64: Option<String>,
    #[serde(default, deserialize_with = "json_as_written")]
    json: Option<Box<RawValue>>,
    #[serde(default)]
    tag: String,
    #[serde(default = "normal")]
    priority: Class,
    deadline_ms: Option<u64>,
    #[serde(default = "delivered")]
    confirm: Wanted,
}

impl HasContent for Draft {
    const NEEDED: bool = true;

    fn content(&mut self) -> Content {
        Content { text: self.text.take(), base64: self.base64.take(), json: self.json.take() }
    }
}

impl Draft {
    fn treatment(self) -> Treatment {
        let Self { tag, priority, deadline_ms, confirm, .. } = self;
        Treatment { tag, priority, deadline_ms, confirm }
    }
}

/// The client answers a message: it is delivered, and the answer is on its way.
pub(super) async fn answer(office: &Arc<Office>, given: &Given, handle: &str) -> Result<Answer, ApiError> {
    let out = office.inbox.lend(handle)?;
    let (draft, body) = match given.with_content::<Draft>() {
        Ok(given) => given,
        Err(error) => return Err(office.inbox.keep(handle, Some(out), error)),
    };
    let treatment = draft.treatment();
    let begun = treatment.begun(new_id(), out.sender().to_string(), &body);
    let claim = office.sent.claim(&begun, false).and_then(|claim| match claim {
        Claim::New(place) => Ok(place),
        Claim::Known => Err(ApiError::busy("id_in_use", "the id of the answer is in use", "answer again")),
    });
    let place = match claim {
        Ok(place) => place,
        Err(error) => return Err(office.inbox.keep(handle, Some(out), error)),
    };
    let answering = Answering {
        handle: handle.to_owned(),
        out,
        size: body.len(),
        message: treatment.message(body, given.traceparent),
        id: begun.id.clone(),
        place,
    };
    let (tell, told) = oneshot::channel();
    let answers = Arc::clone(office);
    // The answer goes on even if the client disconnects.
    office.spawn(async move {
        // A client that has disconnected is not told.
        let _ = tell.send(answering.run(&answers).await);
    });
    told.await.map_err(|_| in_doubt())??;
    let mut told = office.sent.look(&begun.id).map_or_else(|| json!({ "id": begun.id }), |(told, _)| told);
    if let Some(fields) = told.as_object_mut() {
        fields.insert("answered".to_owned(), true.into());
    }
    Ok(in_json(StatusCode::OK, &told))
}

/// A message that is being answered.
struct Answering {
    handle: String,
    out: Out,
    message: Message,
    size: usize,
    id: String,
    place: OwnedSemaphorePermit,
}

impl Answering {
    async fn run(self, office: &Office) -> Result<(), ApiError> {
        let Self { handle, out, message, size, id, place } = self;
        let (delivery, places) = out.apart();
        let receipt = match answered(&office.node, delivery, message, Instant::now() + ROOM_TIME).await {
            Ok(receipt) => receipt,
            Err((delivery, error)) => {
                office.sent.forget(&id);
                let out = delivery.map(|delivery| places.with(delivery));
                return Err(office.inbox.keep(&handle, out, error));
            }
        };
        office.inbox.end(&handle);
        // The id of an answer is not written to the ledger.
        let (entered, _) = office.sent.taken(&id, &receipt, place);
        // The book lasts as long as the node.
        let _ = office.taken.send(entered.of(receipt, size));
        Ok(())
    }
}

/// Answers as soon as the queue has room, and waits for room until `until`. An error has the message if the message can
/// still be acknowledged.
async fn answered(
    node: &Node,
    mut delivery: Delivery,
    message: Message,
    until: Instant,
) -> Result<Receipt, (Option<Delivery>, ApiError)> {
    let peer = node.peer(delivery.from());
    loop {
        // If `Delivery::answer` were dropped while it waits, the delivery would be dropped with it. So this first waits for
        // a place.
        let permit = match timeout_at(until, peer.reserve()).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(error)) => return Err((Some(delivery), refused(&error))),
            Err(_) => return Err((Some(delivery), refused(&SendError::Full))),
        };
        let error = match permit.ack_and_send(delivery, message.clone()).await {
            Ok(receipt) => return Ok(receipt),
            Err(error) => error,
        };
        delivery = match error.into_parts() {
            // Other messages have used up the room for bytes, which a permit does not reserve.
            (NotAnswered::Send(SendError::Full), Some(delivery)) => delivery,
            (why, delivery) => return Err((delivery, not_answered(&why))),
        };
    }
}

fn not_answered(why: &NotAnswered) -> ApiError {
    match why {
        NotAnswered::Send(error) => refused(error),
        NotAnswered::NotDelivered(_) => not_delivered(),
        NotAnswered::InDoubt => in_doubt(),
        other => ApiError::bad_request(other.to_string()),
    }
}

fn in_doubt() -> ApiError {
    let message = "the node ended while it answered: the next run of `exon up` may have sent the answer";
    let remedy = "if the message is handed out again, it was not answered";
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "in_doubt", message, remedy)
        .details(json!({ "held": false }))
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use bytes::Bytes;
    use exonet::Allow;
    use tokio::task::coop::consume_budget;

    use super::*;

    async fn node() -> Node {
        let builder = Node::builder(Allow::anyone()).bind("127.0.0.1:0");
        builder.config(|config| config.limits.queued_messages = 1).build().await.unwrap()
    }

    /// A message from one node to another. The queue of the receiver for answers is full: it has one message, which the
    /// sender has not taken.
    async fn asked() -> (Node, Node, Delivery) {
        let (till, shop) = (node().await, node().await);
        drop(till.peer(shop.peer_addr()).send("question").await.unwrap());
        let question = shop.recv().await.unwrap();
        drop(shop.peer(till.id()).send("first").await.unwrap());
        (till, shop, question)
    }

    async fn text(node: &Node) -> Bytes {
        let mut delivery = node.recv().await.unwrap();
        let text = delivery.body_mut().bytes(u64::MAX).await.unwrap();
        delivery.ack().unwrap();
        text
    }

    #[tokio::test]
    async fn an_answer_that_finds_no_room_gives_the_message_back() {
        let (till, shop, question) = asked().await;
        let error = answered(&shop, question, "answer".into(), Instant::now()).await.unwrap_err();
        let (Some(question), error) = error else { panic!("{}", error.1.code) };
        assert_eq!((error.status.as_u16(), error.code), (503, "queue_full"));
        assert_eq!(text(&till).await, "first");
        drop(answered(&shop, question, "answer".into(), later()).await.unwrap());
        assert_eq!(text(&till).await, "answer");
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// The answer is so long that it would use up a turn of its task, and the task also waits for its place in that turn.
    #[tokio::test]
    async fn no_other_message_takes_the_room_of_an_answer() {
        let (till, shop, question) = asked().await;
        let (node, long) = (shop.clone(), Bytes::from(vec![0; 8 << 20]));
        let answer = Message::new(long.clone());
        let answering = tokio::spawn(async move {
            let mut answering = pin!(answered(&node, question, answer, later()));
            poll_fn(|cx| {
                for _ in 0..8 {
                    let _ = pin!(consume_budget()).poll(cx);
                }
                answering.as_mut().poll(cx).map(|answered| answered.is_ok())
            })
            .await
        });
        // This runtime has one thread: after its turn, each task waits in line.
        tokio::task::yield_now().await;
        let peer = shop.peer(till.id());
        let other = tokio::spawn(async move { peer.send("other").await.is_ok() });
        tokio::task::yield_now().await;
        assert_eq!(text(&till).await, "first");
        assert!(text(&till).await == long, "another message came before the answer");
        assert_eq!(text(&till).await, "other");
        assert!(answering.await.unwrap() && other.await.unwrap());
    }

    #[test]
    fn an_answer_in_doubt_is_told_as_such() {
        let error = not_answered(&NotAnswered::InDoubt);
        assert_eq!((error.status.as_u16(), error.code), (503, "in_doubt"));
        assert_eq!(error.details, Some(Box::new(json!({ "held": false }))));
    }
}
