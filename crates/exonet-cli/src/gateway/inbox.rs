//! Messages for clients: `/v1/inbox`. A message is done when its client acknowledges it, and is delivered again
//! otherwise.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use exonet::{Delivery, NodeId, Priority};
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::StatusCode;
use hyper::body::Frame;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, interval, timeout_at};

use super::Office;
use super::arrivals::{Arrival, Arrivals, NoArrival, OUT};
use super::leases::{Leases, handle};
use super::request::{Given, TRACEPARENT, lease, span, wait};
use super::respond::{Answer, ApiError, in_json, put_body, raw, stream as streamed};

/// The maximum, and the default, number of messages in one answer, and of unanswered messages of one event stream.
const MANY: u64 = 256;
const USUAL: u64 = 16;
/// The interval of keep-alive comments, which reveal a client that has disconnected.
const ALIVE: Duration = Duration::from_secs(15);
/// The longest delay of a message that a client wants again.
const LONGEST_RETRY: Duration = Duration::from_secs(86_400);
/// The owner of messages that long polls hand out. This owner is never released.
const POLLS: u64 = 0;

/// A message that a client holds. If it is dropped, the message is delivered again.
pub(super) struct Out {
    delivery: Delivery,
    places: Places,
}

/// The places of a message that a client holds.
pub(super) struct Places {
    _place: OwnedSemaphorePermit,
    /// Its place among the unanswered messages of its event stream.
    _own: Option<OwnedSemaphorePermit>,
}

impl Out {
    pub(super) fn sender(&self) -> NodeId {
        self.delivery.from()
    }

    pub(super) fn apart(self) -> (Delivery, Places) {
        (self.delivery, self.places)
    }
}

impl Places {
    pub(super) const fn with(self, delivery: Delivery) -> Out {
        Out { delivery, places: self }
    }
}

/// Where clients get messages.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) arrivals: Arrivals,
    out: Leases<Out>,
    /// The number of event streams opened so far.
    streams: AtomicU64,
}

/// A message as a client sees it.
struct Shown {
    handle: String,
    head: [(&'static str, Value); 6],
    traceparent: Option<String>,
    body: Bytes,
}

impl Shown {
    fn json(self) -> Value {
        let mut fields = serde_json::Map::new();
        fields.insert("handle".to_owned(), self.handle.into());
        fields.extend(self.head.into_iter().map(|(name, value)| (name.to_owned(), value)));
        fields.extend(self.traceparent.map(|parent| (TRACEPARENT.to_owned(), parent.into())));
        put_body(&mut fields, &self.body);
        Value::Object(fields)
    }

    fn raw(self) -> Answer {
        let names = [
            "exonet-id",
            "exonet-from",
            "exonet-tag",
            "exonet-priority",
            "exonet-attempt",
            "exonet-redelivered",
        ];
        let values = self.head.into_iter().map(|(_, value)| match value {
            Value::String(text) => text,
            other => other.to_string(),
        });
        let headers = std::iter::once(("exonet-handle", self.handle)).chain(names.into_iter().zip(values));
        let headers = headers.chain(self.traceparent.map(|parent| (TRACEPARENT, parent)));
        raw(self.body, &headers.collect::<Vec<_>>())
    }
}

impl Inbox {
    /// Delivers again each message that its client does not answer in time. Never returns.
    pub(super) async fn watch(&self) {
        self.out.watch().await;
    }

    /// The number of messages that clients hold.
    pub(super) fn out(&self) -> usize {
        self.out.len()
    }

    /// Hands a message out.
    fn hand_out(
        &self,
        arrival: Arrival,
        lease: Duration,
        owner: u64,
        own: Option<OwnedSemaphorePermit>,
    ) -> Shown {
        let Arrival { delivery, body, place } = arrival;
        let priority = match delivery.priority() {
            Priority::Urgent => "urgent",
            Priority::Low => "low",
            Priority::Bulk => "bulk",
            _ => "normal",
        };
        let shown = Shown {
            handle: handle(),
            head: [
                ("id", delivery.id().to_string().into()),
                ("from", delivery.from().to_string().into()),
                ("tag", String::from_utf8_lossy(delivery.tag()).into()),
                ("priority", priority.into()),
                ("attempt", delivery.attempt().into()),
                ("redelivered", delivery.is_redelivered().into()),
            ],
            traceparent: delivery.traceparent().map(|parent| parent.to_string()),
            body,
        };
        let out = Places { _place: place, _own: own }.with(delivery);
        self.out.put(&shown.handle, out, lease, owner);
        shown
    }

    fn take(&self, handle: &str) -> Result<Delivery, ApiError> {
        Ok(self.out.take(handle).ok_or_else(no_such_handle)?.delivery)
    }

    /// Lends a message to its answer: its client holds it still, until its lease ends or its stream has ended. It is
    /// [kept](Self::keep), or its handle is [ended](Self::end).
    pub(super) fn lend(&self, handle: &str) -> Result<Out, ApiError> {
        self.out.lend(handle).ok_or_else(no_such_handle)
    }

    /// Gives a message that was lent back to its client; it is delivered again if the client holds it no more. The
    /// error says which. None: the message cannot be acknowledged.
    pub(super) fn keep(&self, handle: &str, out: Option<Out>, error: ApiError) -> ApiError {
        let held = match out {
            Some(out) => self.out.give_back(handle, out),
            None => {
                self.end(handle);
                false
            }
        };
        error.details(json!({ "held": held }))
    }

    /// Ends the handle of a message that was lent.
    pub(super) fn end(&self, handle: &str) {
        self.out.end(handle);
    }
}

fn no_such_handle() -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "no_such_handle",
        "no message is handed out under this handle: its lease is over, its stream has ended, or it was \
         acknowledged, answered or rejected, or is being answered",
        "it is handed out again with another handle, unless it was acknowledged, answered or rejected; ask for a \
         longer lease_ms",
    )
}

/// The error of a message that is acknowledged too late.
pub(super) fn not_delivered() -> ApiError {
    ApiError::new(
        StatusCode::CONFLICT,
        "not_delivered",
        "the message is not delivered: its sender has withdrawn it, or this node has forgotten its sender",
        "undo what was done for it",
    )
}

impl From<NoArrival> for ApiError {
    fn from(why: NoArrival) -> Self {
        match why {
            NoArrival::TooManyOut => {
                let message =
                    format!("clients have {OUT} messages that they have neither acknowledged nor rejected");
                let remedy = "acknowledge them, reject them, or wait until their leases end";
                Self::busy("too_many_out", message, remedy)
            }
            NoArrival::Closed => Self::closed(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Poll {
    wait_ms: Option<u64>,
    lease_ms: Option<u64>,
    max: Option<u64>,
}

/// How many messages a client wants.
fn most(max: Option<u64>, usual: u64) -> Result<u64, ApiError> {
    match max.unwrap_or(usual) {
        most @ 1..=MANY => Ok(most),
        0 => Err(ApiError::bad_request(format!("with `max` 0 no message can come: give 1 to {MANY}"))),
        most => Err(ApiError::bad_request(format!("`max` is {most}: give 1 to {MANY}"))),
    }
}

/// Waits for a message, and returns it together with those that have already arrived.
pub(super) async fn poll(office: &Arc<Office>, given: &Given) -> Result<Answer, ApiError> {
    let Poll { wait_ms, lease_ms, max } = given.options()?;
    let (until, lease) = (Instant::now() + wait(wait_ms)?, lease(lease_ms)?);
    let most = most(max, 1)?;
    let most = if given.wants_raw { 1 } else { most };
    let _waiting = office.place_to_wait()?;
    let inbox = &office.inbox;
    let mut messages = Vec::new();
    while (messages.len() as u64) < most {
        let arrival = if messages.is_empty() {
            let Ok(arrival) = timeout_at(until, inbox.arrivals.next(office, false)).await else { break };
            arrival?
        } else {
            let Some(arrival) = inbox.arrivals.try_next(office) else { break };
            arrival
        };
        messages.push(inbox.hand_out(arrival, lease, POLLS, None));
    }
    if given.wants_raw {
        return Ok(match messages.pop() {
            Some(message) => message.raw(),
            None => super::respond::whole(StatusCode::NO_CONTENT, "application/octet-stream", Bytes::new()),
        });
    }
    let messages: Vec<Value> = messages.into_iter().map(Shown::json).collect();
    Ok(in_json(StatusCode::OK, &json!({ "messages": messages })))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listen {
    lease_ms: Option<u64>,
    max: Option<u64>,
}

/// Streams messages as they arrive, as server-sent events, until the client disconnects.
pub(super) fn listen(office: &Arc<Office>, given: &Given) -> Result<Answer, ApiError> {
    let Listen { lease_ms, max } = given.options()?;
    let (most, lease) = (usize::try_from(most(max, USUAL)?).unwrap_or(1), lease(lease_ms)?);
    let waiting = office.place_to_wait()?;
    let (say, said) = mpsc::channel(1);
    let feed = Feed {
        office: Arc::clone(office),
        say,
        lease,
        places: Arc::new(Semaphore::new(most)),
        owner: POLLS + 1 + office.inbox.streams.fetch_add(1, Ordering::Relaxed),
    };
    office.spawn(async move {
        feed.run().await;
        drop(waiting);
    });
    Ok(events(said))
}

/// An answer whose body lasts until the sender of events is dropped.
pub(super) fn events(said: mpsc::Receiver<Bytes>) -> Answer {
    let frames = stream::unfold(said, |mut said| async {
        let next = said.recv().await?;
        Some((Ok::<_, Infallible>(Frame::data(next)), said))
    });
    streamed(StatusCode::OK, "text/event-stream", StreamBody::new(frames).boxed())
}

/// An event. JSON has no line feeds that are not escaped.
pub(super) fn event(name: &str, id: Option<&str>, data: &Value) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("event: {name}\n{id}data: {data}\n\n").into()
}

/// The source of an event stream.
struct Feed {
    office: Arc<Office>,
    say: mpsc::Sender<Bytes>,
    lease: Duration,
    /// Places for the messages that its client may hold at once.
    places: Arc<Semaphore>,
    owner: u64,
}

impl Feed {
    async fn run(self) {
        let mut alive = interval(ALIVE);
        loop {
            let next = tokio::select! {
                () = self.say.closed() => break,
                _ = alive.tick() => Bytes::from_static(b": alive\n\n"),
                next = self.next() => match next {
                    Some((arrival, own)) => self.hand_out(arrival, own),
                    None => break,
                },
            };
            if self.say.send(next).await.is_err() {
                break;
            }
        }
        // The client has disconnected: other clients get the messages that it did not answer.
        self.office.inbox.out.release(self.owner);
    }

    /// Waits for a place before it takes a message, so that other clients get messages that have no place here. None:
    /// the node is closed.
    async fn next(&self) -> Option<(Arrival, OwnedSemaphorePermit)> {
        let own = Arc::clone(&self.places).acquire_owned().await.ok()?;
        let arrival = self.office.inbox.arrivals.next(&self.office, true).await.ok()?;
        Some((arrival, own))
    }

    fn hand_out(&self, arrival: Arrival, own: OwnedSemaphorePermit) -> Bytes {
        let shown = self.office.inbox.hand_out(arrival, self.lease, self.owner, Some(own));
        let handle = shown.handle.clone();
        event("message", Some(&handle), &shown.json())
    }
}

fn status(status: Option<u64>) -> Result<u32, ApiError> {
    u32::try_from(status.unwrap_or(0)).map_err(|_| ApiError::bad_request("a status is below 2^32"))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Done {
    status: Option<u64>,
}

/// The client has processed a message: it is delivered.
pub(super) fn ack(office: &Office, given: &Given, handle: &str) -> Result<Answer, ApiError> {
    let done: Done = given.options()?;
    let status = status(done.status)?;
    let done = office.inbox.take(handle)?.ack_with(status);
    done.map_err(|_| not_delivered())?;
    Ok(in_json(StatusCode::OK, &json!({ "delivered": true })))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Verdict {
    status: Option<u64>,
    #[serde(default)]
    reason: String,
}

/// The client rejects a message, which is not delivered again.
pub(super) fn reject(office: &Office, given: &Given, handle: &str) -> Result<Answer, ApiError> {
    let verdict: Verdict = given.options()?;
    let status = status(verdict.status)?;
    office.inbox.take(handle)?.reject_with(status, &verdict.reason);
    Ok(in_json(StatusCode::OK, &json!({ "rejected": true })))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Later {
    after_ms: Option<u64>,
}

/// The client wants a message again, later.
pub(super) fn retry(office: &Office, given: &Given, handle: &str) -> Result<Answer, ApiError> {
    let Later { after_ms } = given.options()?;
    let after = span("after_ms", Duration::from_millis(after_ms.unwrap_or(0)), LONGEST_RETRY)?;
    office.inbox.take(handle)?.retry_after(after);
    Ok(in_json(StatusCode::OK, &json!({ "retried": true })))
}
