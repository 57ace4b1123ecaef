//! The routes of the gateway, and their handlers.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};

use super::description::OPENAPI;
use super::request::Given;
use super::respond::{Answer, ApiError, page, whole};
use super::{Office, about, answers, calls, inbox, send, served, watch};

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    OpenApi,
    Page,
    Watch,
    Node,
    Peers,
    Send,
    Sent,
    Inbox,
    InboxEvents,
    Ack,
    Answer,
    Reject,
    Retry,
    Call,
    Served,
    Reply,
}

/// A method, a path in which a word in braces matches any word, and the purpose of the request.
pub(super) type Route = (Method, &'static str, Want);

pub(super) const ROUTES: &[Route] = &[
    (Method::GET, "/openapi.json", Want::OpenApi),
    (Method::GET, "/", Want::Page),
    (Method::GET, "/v1/watch", Want::Watch),
    (Method::GET, "/v1/node", Want::Node),
    (Method::GET, "/v1/peers", Want::Peers),
    (Method::POST, "/v1/messages", Want::Send),
    (Method::GET, "/v1/messages/{id}", Want::Sent),
    (Method::GET, "/v1/inbox", Want::Inbox),
    (Method::GET, "/v1/inbox/events", Want::InboxEvents),
    (Method::POST, "/v1/inbox/{handle}/ack", Want::Ack),
    (Method::POST, "/v1/inbox/{handle}/answer", Want::Answer),
    (Method::POST, "/v1/inbox/{handle}/reject", Want::Reject),
    (Method::POST, "/v1/inbox/{handle}/retry", Want::Retry),
    (Method::POST, "/v1/calls", Want::Call),
    (Method::GET, "/v1/served", Want::Served),
    (Method::POST, "/v1/served/{handle}", Want::Reply),
];

/// The purpose of a request, and the word of its path that matches the word in braces.
pub(super) fn find<'a>(method: &Method, path: &'a str) -> Result<(Want, &'a str), ApiError> {
    let fitting: Vec<_> = ROUTES.iter().filter_map(|route| Some((route, fits(route.1, path)?))).collect();
    if let Some(((.., want), word)) = fitting.iter().find(|((known, ..), _)| known == method) {
        return Ok((*want, word));
    }
    if fitting.is_empty() {
        let message = format!("there is nothing at {path:?}");
        return Err(ApiError::new(StatusCode::NOT_FOUND, "no_such_path", message, "see GET /openapi.json"));
    }
    let allowed: Vec<_> = fitting.iter().map(|((known, ..), _)| known.as_str()).collect();
    Err(ApiError::method_not_allowed(allowed.join(", ")))
}

/// The word of `path` that matches the word in braces, or the empty string if the pattern has none. None: the path
/// does not match.
fn fits<'a>(pattern: &str, path: &'a str) -> Option<&'a str> {
    let (mut words, mut any) = (path.split('/'), "");
    for part in pattern.split('/') {
        let word = words.next()?;
        if part.starts_with('{') && !word.is_empty() {
            any = word;
        } else if part != word {
            return None;
        }
    }
    words.next().is_none().then_some(any)
}

/// Answers a request, even an invalid one.
pub(super) async fn answer(office: &Arc<Office>, request: Request<Incoming>) -> Answer {
    respond(office, request).await.unwrap_or_else(ApiError::answer)
}

async fn respond(office: &Arc<Office>, request: Request<Incoming>) -> Result<Answer, ApiError> {
    let path = request.uri().path().to_owned();
    let found = find(request.method(), &path);
    let open = matches!(found, Ok((Want::OpenApi | Want::Page, _)));
    office.guard.check(request.headers(), open)?;
    let (want, word) = found?;
    if matches!(want, Want::Page | Want::Watch) && !office.ui {
        let remedy = "start `exon up` with --ui";
        return Err(ApiError::new(StatusCode::NOT_FOUND, "no_page", "this gateway shows no page", remedy));
    }
    let given = Given::read(request, &office.room).await?;
    match want {
        Want::OpenApi => Ok(whole(StatusCode::OK, "application/json", OPENAPI)),
        Want::Page => Ok(page(watch::PAGE)),
        Want::Watch => watch::watch(office),
        Want::Node => Ok(about::node(office)),
        Want::Peers => about::peers(office, &given),
        Want::Send => send::send(office, &given).await,
        Want::Sent => send::status(office, &given, word).await,
        Want::Inbox => inbox::poll(office, &given).await,
        Want::InboxEvents => inbox::listen(office, &given),
        Want::Ack => inbox::ack(office, &given, word),
        Want::Answer => answers::answer(office, &given, word).await,
        Want::Reject => inbox::reject(office, &given, word),
        Want::Retry => inbox::retry(office, &given, word),
        Want::Call => calls::call(office, &given).await,
        Want::Served => served::poll(office, &given).await,
        Want::Reply => served::answer(office, &given, word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_one_route_or_says_what_is_wrong() {
        let find = |way: Method, path| find(&way, path).map_err(|error| error.code);
        assert_eq!(find(Method::GET, "/v1/inbox/events"), Ok((Want::InboxEvents, "")));
        assert_eq!(find(Method::POST, "/v1/inbox/a-b_c/ack"), Ok((Want::Ack, "a-b_c")));
        assert_eq!(find(Method::GET, "/v1/messages/x"), Ok((Want::Sent, "x")));
        assert_eq!(find(Method::DELETE, "/v1/node"), Err("method_not_allowed"));
        for path in ["/v1/messages/", "/v1/messages/x/y", "/v1", "", "/v1/inbox//ack", "//v1/node"] {
            assert_eq!(find(Method::GET, path), Err("no_such_path"), "{path}");
        }
    }
}
