//! `POST /v1/calls`: makes a call and answers with its result.

use std::time::Duration;

use exonet::call::ReplyStatus;
use exonet::error::CallError;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::Office;
use super::request::{Content, Given, HasContent, json_as_written, span, text};
use super::respond::{Answer, ApiError, in_json, put_body, raw};
use super::send::{To, refused};
use crate::control::protocol::{Class, LONGEST_BODY};
use crate::exit::remedy;

/// The default deadline of a call, and the longest that a client may set.
const DEADLINE: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(3_600);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Draft {
    to: String,
    method: String,
    #[serde(default, deserialize_with = "text")]
    text: Option<String>,
    #[serde(default, deserialize_with = "text")]
    base64: Option<String>,
    #[serde(default, deserialize_with = "json_as_written")]
    json: Option<Box<RawValue>>,
    #[serde(default)]
    priority: Option<Class>,
    deadline_ms: Option<u64>,
}

impl HasContent for Draft {
    const NEEDED: bool = false;

    fn content(&mut self) -> Content {
        Content { text: self.text.take(), base64: self.base64.take(), json: self.json.take() }
    }
}

/// Makes a call. If the client disconnects, the call is given up.
pub(super) async fn call(office: &Office, given: &Given) -> Result<Answer, ApiError> {
    let (draft, body) = given.with_content::<Draft>()?;
    let to = To::parse(&draft.to)?;
    let deadline = draft.deadline_ms.map_or(DEADLINE, Duration::from_millis);
    let deadline = span("deadline_ms", deadline, LONGEST)?;
    let _waiting = office.place_to_wait()?;
    let to = to.find(&office.node).await?;
    let call = office.node.peer(to).call(draft.method.into_bytes(), body).deadline(deadline);
    let call = match draft.priority {
        Some(priority) => call.priority(priority.into()),
        None => call,
    };
    let call = match given.traceparent {
        Some(parent) => call.traceparent(parent),
        None => call,
    };
    let reply = match call.await {
        Ok(reply) => reply,
        Err(error) => return Err(failed(office, error).await),
    };
    let (id, mut body) = (reply.id.to_string(), reply.body);
    let body = body.bytes(LONGEST_BODY as u64).await.map_err(|error| {
        let remedy = "ask the server what happened to the call, by its id";
        ApiError::new(
            StatusCode::GATEWAY_TIMEOUT,
            "unknown",
            format!("the reply ended early: {error}"),
            remedy,
        )
        .details(json!({ "id": id, "has_not_run": false }))
    })?;
    if given.wants_raw {
        return Ok(raw(body, &[("exonet-id", id)]));
    }
    let mut fields = Map::new();
    fields.insert("outcome".to_owned(), "reply".into());
    fields.insert("id".to_owned(), id.into());
    put_body(&mut fields, &body);
    Ok(in_json(StatusCode::OK, &fields))
}

async fn failed(office: &Office, error: CallError) -> ApiError {
    let (has_not_run, text) = (error.has_not_run(), error.to_string());
    let again = if has_not_run {
        "repeat the call: it certainly did not run"
    } else {
        "ask the server, by the call's id"
    };
    let mut details = Map::new();
    details.insert("has_not_run".to_owned(), has_not_run.into());
    let error = match error {
        CallError::Refused(error) => refused(&error),
        CallError::Failed { id, status, mut body } => {
            details.insert("id".to_owned(), id.to_string().into());
            details.insert("status".to_owned(), status.0.into());
            // The body of a refusal is optional: it is left out if it cannot be read.
            if let Ok(body) = body.bytes(LONGEST_BODY as u64).await {
                put_body(&mut details, &body);
            }
            match status {
                ReplyStatus::DRAINING => {
                    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "draining", text, again)
                }
                ReplyStatus::NO_SUCH_METHOD => ApiError::new(
                    StatusCode::BAD_GATEWAY,
                    "no_such_method",
                    text,
                    "check the name of the method",
                ),
                _ => ApiError::new(
                    StatusCode::BAD_GATEWAY,
                    "call_failed",
                    text,
                    "see `details` for what the server says",
                ),
            }
        }
        CallError::Expired => {
            let more = "it certainly did not run; check the peer's address, or give a longer deadline_ms";
            ApiError::new(StatusCode::GATEWAY_TIMEOUT, "expired", text, more)
        }
        CallError::NotTaken(why) => {
            ApiError::new(StatusCode::BAD_GATEWAY, "refused", text, remedy(why, office.node.id()))
        }
        CallError::Unknown { id, .. } => {
            details.insert("id".to_owned(), id.map(|id| id.to_string()).into());
            ApiError::new(StatusCode::GATEWAY_TIMEOUT, "unknown", text, again)
        }
        _ => ApiError::new(StatusCode::BAD_GATEWAY, "not_run", text, again),
    };
    error.details(Value::Object(details))
}
