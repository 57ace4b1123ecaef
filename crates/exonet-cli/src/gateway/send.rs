//! `POST /v1/messages` and `GET /v1/messages/{id}`.

use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use exonet::error::{NameError, NamingError, SendError};
use exonet::naming::Name;
use exonet::{Confirm, Message, Node, PeerAddr, Receipt, Traceparent};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout, timeout_at};

use super::Office;
use super::leases::handle;
use super::ledger::Begun;
use super::request::{Content, Given, HasContent, json_as_written, text, wait};
use super::respond::{Answer, ApiError, in_json};
use super::sent::Claim;
use crate::control::protocol::{Class, Ending};

/// The longest wait of a message for room in the queue of its peer.
const ROOM_TIME: Duration = Duration::from_secs(30);
/// The longest id.
const LONGEST_ID: usize = 64;

/// A message, and the options for it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Draft {
    to: String,
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
    #[serde(default)]
    durable: bool,
    id: Option<String>,
    wait_ms: Option<u64>,
}

/// The outcome that the sender asks for.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Wanted {
    Delivered,
    Processed,
}

pub(super) const fn normal() -> Class {
    Class::Normal
}

pub(super) const fn delivered() -> Wanted {
    Wanted::Delivered
}

impl HasContent for Draft {
    const NEEDED: bool = true;

    fn content(&mut self) -> Content {
        Content { text: self.text.take(), base64: self.base64.take(), json: self.json.take() }
    }
}

impl Draft {
    /// How the message is to be sent, and its id.
    fn treatment(&self) -> Result<(Treatment, String), ApiError> {
        let id = self.id.clone().unwrap_or_else(handle);
        let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
        if id.is_empty() || id.len() > LONGEST_ID || !id.bytes().all(plain) {
            return Err(ApiError::bad_request(format!("an id has 1 to {LONGEST_ID} of A-Z a-z 0-9 . _ -")));
        }
        let Self { tag, priority, deadline_ms, confirm, .. } = self;
        let treatment =
            Treatment { tag: tag.clone(), priority: *priority, deadline_ms: *deadline_ms, confirm: *confirm };
        Ok((treatment, id))
    }
}

/// How a message is to be sent.
pub(super) struct Treatment {
    pub(super) tag: String,
    pub(super) priority: Class,
    pub(super) deadline_ms: Option<u64>,
    pub(super) confirm: Wanted,
}

impl Treatment {
    pub(super) fn message(&self, body: Bytes, traceparent: Option<Traceparent>) -> Message {
        let confirm = if self.confirm == Wanted::Processed { Confirm::Processed } else { Confirm::Delivered };
        let message = Message::new(body).tag(self.tag.clone().into_bytes());
        let message = message.priority(self.priority.into()).confirm(confirm);
        let message = match self.deadline_ms {
            Some(ms) => message.deadline(Duration::from_millis(ms)),
            None => message,
        };
        match traceparent {
            Some(parent) => message.traceparent(parent),
            None => message,
        }
    }

    pub(super) fn begun(&self, id: String, to: String, body: &[u8]) -> Begun {
        let mut hash = blake3::Hasher::new();
        let options =
            format!("{}\0{:?}\0{:?}\0{:?}\0", self.tag, self.priority, self.deadline_ms, self.confirm);
        hash.update(options.as_bytes()).update(body);
        let hash = hash.finalize().to_hex().chars().take(32).collect();
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_ms = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        Begun { id, to, size: body.len() as u64, hash, at_ms }
    }
}

/// A peer as a client writes it.
pub(super) enum To {
    Peer(PeerAddr),
    Name(Name),
}

impl To {
    pub(super) fn parse(text: &str) -> Result<Self, ApiError> {
        let bad = |error: &dyn Display| {
            let remedy = "write a peer as ID@HOST:PORT, as `exon listen` prints it, by a name of `exon peer add`, or as name:NAME";
            ApiError::new(StatusCode::BAD_REQUEST, "bad_peer", format!("{text:?}: {error}"), remedy)
        };
        match text.strip_prefix("name:") {
            Some(name) => name.parse().map(Self::Name).map_err(|error: NameError| bad(&error)),
            None => crate::peers::parse_peer(text).map(Self::Peer).map_err(|error| bad(&error)),
        }
    }

    /// The peer, after a look-up if it is given by a name.
    pub(super) async fn find(self, node: &Node) -> Result<PeerAddr, ApiError> {
        let name = match self {
            Self::Peer(peer) => return Ok(peer),
            Self::Name(name) => name,
        };
        let found = node.named(&name).await.map_err(|error| {
            let (status, code, remedy) = match error {
                NamingError::NoService => (
                    StatusCode::BAD_REQUEST,
                    "no_name_service",
                    "start `exon up` with --names; see `exon names --help`",
                ),
                NamingError::Unbound(_) => (StatusCode::BAD_REQUEST, "no_such_name", "see `exon names ls`"),
                NamingError::OtherNode { .. } => (
                    StatusCode::CONFLICT,
                    "other_node",
                    "if the name may stand for another node now, write the peer as ID@name:NAME",
                ),
                _ => (
                    StatusCode::BAD_GATEWAY,
                    "name_service",
                    "check the --names of `exon up`, and whether the name service runs there",
                ),
            };
            ApiError::new(status, code, error.to_string(), remedy)
        })?;
        Ok(found.addr().clone())
    }
}

/// The answer to a message or call that the node does not accept.
pub(super) fn refused(error: &SendError) -> ApiError {
    let (status, code, remedy) = match error {
        SendError::TooLarge { .. } => {
            (StatusCode::PAYLOAD_TOO_LARGE, "too_large", "send it as a file: exon cp")
        }
        SendError::Full => {
            (StatusCode::SERVICE_UNAVAILABLE, "queue_full", "wait for outcomes; see `exon outbox ls`")
        }
        SendError::NoAddress(_) => (StatusCode::BAD_REQUEST, "no_address", "write the peer as ID@HOST:PORT"),
        SendError::Lookup { .. } => (StatusCode::BAD_GATEWAY, "no_such_host", "check the name of the host"),
        SendError::TooManyPeers(_) => (StatusCode::SERVICE_UNAVAILABLE, "too_many_peers", "try again later"),
        SendError::NoSpace => (StatusCode::INSUFFICIENT_STORAGE, "no_disk", "free some room on the disk"),
        SendError::Closed => return ApiError::closed(),
        SendError::InDoubt => (
            StatusCode::SERVICE_UNAVAILABLE,
            "in_doubt",
            "start the node again: it may send the message, so sending it once more may double it",
        ),
        _ => (StatusCode::BAD_REQUEST, "bad_request", "GET /openapi.json says what this request takes"),
    };
    ApiError::new(status, code, error.to_string(), remedy)
}

pub(super) async fn send(office: &Arc<Office>, given: &Given) -> Result<Answer, ApiError> {
    let (draft, body) = given.with_content::<Draft>()?;
    let to = To::parse(&draft.to)?;
    let (treatment, id) = draft.treatment()?;
    let begun = treatment.begun(id.clone(), draft.to.clone(), &body);
    let (durable, wait) = (draft.durable, wait(draft.wait_ms)?);
    match office.sent.claim(&begun, durable)? {
        Claim::New(place) => {
            let (size, message) = (body.len(), treatment.message(body, given.traceparent));
            let handover = Handover { to, size, message, id: id.clone(), place };
            let office = Arc::clone(office);
            // The handover completes even if the client disconnects.
            let handed = tokio::spawn(async move { handover.run(&office).await });
            handed.await.map_err(|_| ApiError::closed())??;
        }
        Claim::Known => taken(office, &id).await?,
    }
    if durable {
        office.node.journaled().await.map_err(|_| refused(&SendError::InDoubt))?;
        if office.forces {
            office.sent.forced().await?;
        }
        return told(office, &id, StatusCode::ACCEPTED);
    }
    outcome(office, &id, wait).await
}

/// Waits until the node has accepted the message of another request with the same id.
async fn taken(office: &Office, id: &str) -> Result<(), ApiError> {
    let until = Instant::now() + ROOM_TIME;
    loop {
        // This future is created before the look, so that no change in between is missed.
        let changed = office.sent.changed.notified();
        if office.sent.is_taken(id).ok_or_else(|| unknown(id))? {
            return Ok(());
        }
        timeout_at(until, changed).await.map_err(|_| refused(&SendError::Full))?;
    }
}

/// A message that is being handed to the node.
struct Handover {
    to: To,
    message: Message,
    size: usize,
    id: String,
    place: OwnedSemaphorePermit,
}

impl Handover {
    async fn run(self, office: &Office) -> Result<(), ApiError> {
        let Self { to, message, size, id, place } = self;
        let to = to.find(&office.node).await.inspect_err(|_| office.sent.forget(&id))?;
        let receipt = match queue(&office.node, to, message, ROOM_TIME).await {
            Ok(receipt) => receipt,
            Err(error) => {
                // The next run may send a message in doubt, so its id stays in use.
                if error != SendError::InDoubt {
                    office.sent.forget(&id);
                }
                return Err(refused(&error));
            }
        };
        let (entered, written) = office.sent.taken(&id, &receipt, place);
        // The book lasts as long as the node.
        let _ = office.taken.send(entered.of(receipt, size));
        written
    }
}

/// Queues a message. Waits for room, but no longer than `most`.
async fn queue(node: &Node, to: PeerAddr, message: Message, most: Duration) -> Result<Receipt, SendError> {
    let peer = node.peer(to);
    let queued = async {
        // A permit does not wait for the disk. A durable message waits for the disk later. The queue may have no room for
        // the bytes of the message.
        match peer.reserve().await?.send(message.clone()) {
            Err(SendError::Full) => peer.send(message).await,
            sent => sent,
        }
    };
    timeout(most, queued).await.unwrap_or(Err(SendError::Full))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Look {
    wait_ms: Option<u64>,
}

/// Answers with the state of a message, and with its outcome if it comes in time.
pub(super) async fn status(office: &Office, given: &Given, id: &str) -> Result<Answer, ApiError> {
    let Look { wait_ms } = given.options()?;
    settle(office, id, wait(Some(wait_ms.unwrap_or(0)))?).await?;
    told(office, id, StatusCode::OK)
}

/// Waits for the outcome. None: it did not come in time.
async fn settle(office: &Office, id: &str, wait: Duration) -> Result<Option<Ending>, ApiError> {
    let until = Instant::now() + wait;
    let mut place = None;
    loop {
        // This future is created before the look, so that no outcome in between is missed.
        let changed = office.sent.changed.notified();
        let (_, end) = office.sent.look(id).ok_or_else(|| unknown(id))?;
        if end.is_some() || wait.is_zero() {
            return Ok(end);
        }
        if place.is_none() {
            place = Some(office.place_to_wait()?);
        }
        if timeout_at(until, changed).await.is_err() {
            return Ok(None);
        }
    }
}

/// The answer to a client that waits for the outcome of its message.
async fn outcome(office: &Office, id: &str, wait: Duration) -> Result<Answer, ApiError> {
    let (status, code, remedy) = match settle(office, id, wait).await? {
        None => return told(office, id, StatusCode::ACCEPTED),
        Some(Ending::Delivered | Ending::Processed) => return told(office, id, StatusCode::OK),
        Some(Ending::Unknown) => (
            StatusCode::GATEWAY_TIMEOUT,
            "unknown",
            "ask the receiver, by the message's id; it has it once or not at all",
        ),
        Some(_) => (
            StatusCode::BAD_GATEWAY,
            "not_delivered",
            "you may send it again: it was certainly not delivered",
        ),
    };
    let (details, _) = office.sent.look(id).ok_or_else(|| unknown(id))?;
    let said = |name: &str| details.get(name).and_then(Value::as_str).map(str::to_owned);
    let outcome = said("outcome").unwrap_or_default();
    let message = match said("reason") {
        Some(reason) => format!("{outcome}: {reason}"),
        None => outcome,
    };
    let remedy = said("remedy").unwrap_or_else(|| remedy.to_owned());
    Err(ApiError::new(status, code, message, remedy).details(details))
}

fn told(office: &Office, id: &str, status: StatusCode) -> Result<Answer, ApiError> {
    let (told, _) = office.sent.look(id).ok_or_else(|| unknown(id))?;
    Ok(in_json(status, &told))
}

fn unknown(id: &str) -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "no_such_message",
        format!("no message has the id {id:?}"),
        "after a restart only messages that were sent with `durable` are known, and only the newest 10,000 \
         outcomes",
    )
}

#[cfg(test)]
mod tests {
    use exonet::Allow;

    use super::*;

    #[tokio::test]
    async fn a_message_that_finds_no_room_in_time_is_refused() {
        let builder = Node::builder(Allow::anyone()).bind("127.0.0.1:0");
        let node = builder.config(|config| config.limits.queued_messages = 1).build().await.unwrap();
        // The peer takes no messages, so the first message stays in the queue.
        let peer = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap().peer_addr();
        drop(queue(&node, peer.clone(), "first".into(), ROOM_TIME).await.unwrap());
        let error = queue(&node, peer, "second".into(), Duration::ZERO).await.unwrap_err();
        assert_eq!(error, SendError::Full);
        let error = refused(&error);
        assert_eq!((error.status.as_u16(), error.code), (503, "queue_full"));
    }

    #[test]
    fn a_message_in_doubt_is_told_as_such() {
        let error = refused(&SendError::InDoubt);
        assert_eq!((error.status.as_u16(), error.code), (503, "in_doubt"));
    }
}
