//! `/v1/served`: calls from other nodes, handed out to clients that answer them.
//!
//! A method is served from the first request for its calls until a while after the last one. The node accepts a call
//! from its caller before a client gets it. A call runs at most once, because it is handed out once. The caller is
//! told if no client has got its call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use exonet::call::{Failure as Refusal, ReplyStatus, Request, Serving};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, interval, timeout_at};

use super::Office;
use super::leases::{Leases, handle};
use super::request::{Content, Given, HasContent, TRACEPARENT, json_as_written, lease, text, wait};
use super::respond::{Answer, ApiError, in_json, put_body, raw, whole};
use crate::control::protocol::LONGEST_BODY;

/// The maximum number of methods that are served at once, and of calls of one method that are accepted at once.
const METHODS: usize = 64;
const ABREAST: usize = 64;
/// The time after which a method that no client asks for is no longer served, and the interval of that check.
const IDLE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_secs(1);
/// The owner of every call. This owner is never released.
const CLIENTS: u64 = 0;

/// A call that waits for a client.
struct Offer {
    id: String,
    caller: String,
    traceparent: Option<String>,
    body: Bytes,
    /// Signalled when a client has got the call.
    taken: oneshot::Sender<()>,
    /// The answer. If it is dropped, the call fails without one.
    answer: oneshot::Sender<Result<Bytes, Refusal>>,
}

/// The calls of a method; the clients that ask for them take turns.
type Offers = Arc<tokio::sync::Mutex<mpsc::Receiver<Offer>>>;

/// A method while it is served.
struct Method {
    offers: Offers,
    asked: Instant,
    asking: usize,
    _serving: Serving,
}

/// Where clients get calls.
#[derive(Default)]
pub(super) struct Served {
    methods: Mutex<HashMap<String, Method>>,
    out: Leases<oneshot::Sender<Result<Bytes, Refusal>>>,
}

/// A client that asks for calls of a method.
struct Asking<'a>(&'a Served, &'a str);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(method) = self.0.methods().get_mut(self.1) {
            method.asking -= 1;
            method.asked = Instant::now();
        }
    }
}

impl Served {
    fn methods(&self) -> MutexGuard<'_, HashMap<String, Method>> {
        self.methods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails calls that are not answered in time, and ends methods that no client asks for. Never returns.
    pub(super) async fn watch(&self) {
        let idle = async {
            let mut looks = interval(LOOK);
            loop {
                looks.tick().await;
                let over = |method: &Method| method.asking == 0 && method.asked.elapsed() > IDLE;
                let gone: Vec<_> = self.methods().extract_if(|_, method| over(method)).collect();
                drop(gone);
            }
        };
        futures_util::future::join(self.out.watch(), idle).await;
    }

    /// The names of the methods that are served.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.methods().keys().cloned().collect();
        names.sort();
        names
    }

    /// Ends all methods.
    pub(super) fn end(&self) {
        let methods = std::mem::take(&mut *self.methods());
        drop(methods);
    }

    fn ask<'a>(&'a self, office: &Office, name: &'a str) -> Result<(Asking<'a>, Offers), ApiError> {
        let mut methods = self.methods();
        if !methods.contains_key(name) {
            if methods.len() >= METHODS {
                let message = format!("{METHODS} methods are already served");
                return Err(ApiError::busy("too_many_methods", message, "serve fewer methods"));
            }
            let (give, offers) = mpsc::channel(ABREAST);
            let serve = office.node.serve(name.to_owned(), move |request| offer(give.clone(), request));
            let serving = serve.concurrency(ABREAST).start().map_err(|error| {
                let remedy = "choose another name for the method";
                ApiError::new(StatusCode::CONFLICT, "method_in_use", format!("{name:?}: {error}"), remedy)
            })?;
            let offers = Arc::new(tokio::sync::Mutex::new(offers));
            let method = Method { offers, asked: Instant::now(), asking: 0, _serving: serving };
            methods.insert(name.to_owned(), method);
        }
        let Some(method) = methods.get_mut(name) else { return Err(ApiError::closed()) };
        method.asking += 1;
        let offers = Arc::clone(&method.offers);
        drop(methods);
        Ok((Asking(self, name), offers))
    }
}

/// Waits until a client has got the call, and then for its answer.
async fn offer(give: mpsc::Sender<Offer>, mut request: Request) -> Result<Bytes, Refusal> {
    let body = request.body.bytes(LONGEST_BODY as u64).await?;
    let (id, caller) = (request.id.to_string(), request.caller.to_string());
    let traceparent = request.traceparent.map(|parent| parent.to_string());
    let ((taken, is_taken), (answer, answered)) = (oneshot::channel(), oneshot::channel());
    let given = give.send(Offer { id, caller, traceparent, body, taken, answer }).await;
    // No client has got the call or will get it: the method is no longer served.
    if given.is_err() || is_taken.await.is_err() {
        return Err(ReplyStatus::DRAINING.into());
    }
    answered.await.unwrap_or(Err(ReplyStatus::TIMED_OUT.into()))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Poll {
    method: String,
    wait_ms: Option<u64>,
    lease_ms: Option<u64>,
}

/// Waits for a call of a method.
pub(super) async fn poll(office: &Office, given: &Given) -> Result<Answer, ApiError> {
    let Poll { method, wait_ms, lease_ms } = given.options()?;
    let (until, lease) = (Instant::now() + wait(wait_ms)?, lease(lease_ms)?);
    let _waiting = office.place_to_wait()?;
    let (_asking, offers) = office.served.ask(office, &method)?;
    let next = async {
        let mut offers = offers.lock().await;
        loop {
            let Offer { id, caller, traceparent, body, taken, answer } = offers.recv().await?;
            if taken.send(()).is_ok() {
                break Some((id, caller, traceparent, body, answer));
            }
        }
    };
    let Ok(next) = timeout_at(until, next).await else {
        return Ok(if given.wants_raw {
            whole(StatusCode::NO_CONTENT, "application/octet-stream", Bytes::new())
        } else {
            in_json(StatusCode::OK, &json!({ "calls": [] }))
        });
    };
    let (id, caller, traceparent, body, answer) = next.ok_or_else(ApiError::closed)?;
    let handle = handle();
    office.served.out.put(&handle, answer, lease, CLIENTS);
    if given.wants_raw {
        let own = [("exonet-handle", handle), ("exonet-id", id), ("exonet-from", caller)];
        let headers = own.into_iter().chain(traceparent.map(|parent| (TRACEPARENT, parent)));
        return Ok(raw(body, &headers.collect::<Vec<_>>()));
    }
    let mut fields = Map::new();
    for (name, value) in [("handle", handle), ("id", id), ("from", caller), ("method", method.clone())] {
        fields.insert(name.to_owned(), value.into());
    }
    fields.extend(traceparent.map(|parent| (TRACEPARENT.to_owned(), parent.into())));
    put_body(&mut fields, &body);
    Ok(in_json(StatusCode::OK, &json!({ "calls": [fields] })))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Said {
    #[serde(default, deserialize_with = "text")]
    text: Option<String>,
    #[serde(default, deserialize_with = "text")]
    base64: Option<String>,
    #[serde(default, deserialize_with = "json_as_written")]
    json: Option<Box<RawValue>>,
    status: Option<u64>,
}

impl HasContent for Said {
    const NEEDED: bool = false;

    fn content(&mut self) -> Content {
        Content { text: self.text.take(), base64: self.base64.take(), json: self.json.take() }
    }
}

/// A client answers a call.
pub(super) fn answer(office: &Office, given: &Given, handle: &str) -> Result<Answer, ApiError> {
    let (said, body) = given.with_content::<Said>()?;
    let status =
        u32::try_from(said.status.unwrap_or(0)).ok().filter(|status| *status < ReplyStatus::RESERVED.0);
    let status = status
        .ok_or_else(|| ApiError::bad_request(format!("a status is below {}", ReplyStatus::RESERVED.0)))?;
    let answer = if status == 0 { Ok(body) } else { Err(Refusal::new(status, body)) };
    let told = office.served.out.take(handle).is_some_and(|tell| tell.send(answer).is_ok());
    if !told {
        return Err(ApiError::new(
            StatusCode::NOT_FOUND,
            "no_such_handle",
            "no call waits for an answer under this handle: its lease is over, or it was answered",
            "its caller has learnt that; ask for a longer lease_ms",
        ));
    }
    Ok(in_json(StatusCode::OK, &json!({ "answered": true })))
}
