//! `POST /v1/inbox/{handle}/answer`: acknowledges a message and sends an answer to its sender, in one step.
//!
//! The message is lent to a task that answers it. If the answer is not sent, its client has the message back under its
//! handle; if the handle is gone by then, the message is delivered again.

use std::sync::Arc;
use std::time::Duration;

use exonet::error::SendError;
use exonet::receive::NotAnswered;
use exonet::{Message, Receipt};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::timeout;

use super::Office;
use super::inbox::{Out, not_delivered};
use super::leases::handle as new_id;
use super::request::{Content, Given, HasContent, number};
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
    text: Option<String>,
    base64: Option<String>,
    json: Option<Value>,
    #[serde(default)]
    tag: String,
    #[serde(default = "normal")]
    priority: Class,
    #[serde(default, deserialize_with = "number")]
    deadline_ms: Option<u64>,
    #[serde(default = "delivered")]
    confirm: Wanted,
}

impl HasContent for Draft {
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
        let (out, sent) = answered(office, out, message).await;
        let receipt = match sent {
            Ok(receipt) => receipt,
            Err(error) => {
                office.sent.forget(&id);
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

/// The receipt of the answer; or the error, and the message if it can still be acknowledged.
async fn answered(office: &Office, out: Out, message: Message) -> (Option<Out>, Result<Receipt, ApiError>) {
    let peer = office.node.peer(out.sender());
    // An answer that waits cannot be given up without the message: so it begins when there is room.
    let room = match timeout(ROOM_TIME, peer.reserve()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(refused(&error)),
        Err(_) => Err(refused(&SendError::Full)),
    };
    if let Err(error) = room {
        return (Some(out), Err(error));
    }
    let (delivery, places) = out.apart();
    match delivery.answer(message).await {
        Ok(receipt) => (None, Ok(receipt)),
        Err(error) => {
            let (why, delivery) = error.into_parts();
            let error = match why {
                NotAnswered::Send(error) => refused(&error),
                NotAnswered::NotDelivered(_) => not_delivered(),
                NotAnswered::InDoubt => in_doubt(),
                other => ApiError::bad_request(other.to_string()),
            };
            (delivery.map(|delivery| places.with(delivery)), Err(error))
        }
    }
}

fn in_doubt() -> ApiError {
    let message = "the node ended while it answered: the next run of `exon up` may have sent the answer";
    let remedy = "if the message is handed out again, it was not answered";
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "in_doubt", message, remedy)
        .details(json!({ "held": false }))
}
