//! The answers of the gateway: JSON, raw bodies, and errors with a remedy.

use std::convert::Infallible;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};

pub(super) type Answer = Response<BoxBody<Bytes, Infallible>>;

/// The error of a request.
#[derive(Debug)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    /// A stable code for programs.
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) remedy: String,
    pub(super) details: Option<Box<Value>>,
    extra: Extra,
}

/// The header of an error.
#[derive(Debug)]
enum Extra {
    None,
    /// The client may try again in a second.
    Later,
    /// The client must send the token.
    Token,
    /// The methods that a path takes.
    Allowed(String),
}

impl ApiError {
    pub(super) fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (message, remedy) = (message.into(), remedy.into());
        Self { status, code, message, remedy, details: None, extra: Extra::None }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        let remedy = "GET /openapi.json says what this request takes";
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message, remedy)
    }

    /// The gateway is busy: the client may try again.
    pub(super) fn busy(code: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, code, message, remedy);
        Self { extra: Extra::Later, ..error }
    }

    pub(super) fn unauthorized(message: &str, remedy: String) -> Self {
        let error = Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message, remedy);
        Self { extra: Extra::Token, ..error }
    }

    pub(super) fn method_not_allowed(allowed: String) -> Self {
        let message = format!("this path takes {allowed}");
        let code = "method_not_allowed";
        let error = Self::new(StatusCode::METHOD_NOT_ALLOWED, code, message, "see GET /openapi.json");
        Self { extra: Extra::Allowed(allowed), ..error }
    }

    pub(super) fn closed() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "closed",
            "the node is ending",
            "try again when `exon up` runs again",
        )
    }

    pub(super) fn details(self, details: Value) -> Self {
        Self { details: Some(Box::new(details)), ..self }
    }

    pub(super) fn answer(self) -> Answer {
        let Self { status, code, message, remedy, details, extra } = self;
        let mut error = json!({ "code": code, "message": message, "remedy": remedy });
        if let (Some(details), Some(object)) = (details, error.as_object_mut()) {
            object.insert("details".to_owned(), *details);
        }
        let mut answer = in_json(status, &json!({ "error": error }));
        let header = match extra {
            Extra::None => None,
            Extra::Later => Some((RETRY_AFTER, HeaderValue::from_static("1"))),
            Extra::Token => Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"exon\""))),
            Extra::Allowed(allowed) => HeaderValue::from_str(&allowed).ok().map(|allowed| (ALLOW, allowed)),
        };
        answer.headers_mut().extend(header);
        answer
    }
}

/// An answer with a complete body.
pub(super) fn whole(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    stream(status, kind, Full::new(body.into()).boxed())
}

/// An answer with a body that may still be produced.
pub(super) fn stream(status: StatusCode, kind: &'static str, body: BoxBody<Bytes, Infallible>) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    answer
}

/// A page of this gateway. It loads no other resources, connects only to the gateway, and cannot be embedded in
/// another page.
pub(super) fn page(text: &'static str) -> Answer {
    const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                          base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let mut answer = whole(StatusCode::OK, "text/html; charset=utf-8", text);
    answer.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    answer.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    answer
}

pub(super) fn in_json(status: StatusCode, value: &impl Serialize) -> Answer {
    let mut body = serde_json::to_vec(value).unwrap_or_default();
    body.push(b'\n');
    whole(status, "application/json", body)
}

/// Adds a body to JSON: as `text` if it is UTF-8, otherwise as `base64`.
pub(super) fn put_body(into: &mut serde_json::Map<String, Value>, body: &[u8]) {
    match std::str::from_utf8(body) {
        Ok(text) => into.insert("text".to_owned(), text.into()),
        Err(_) => into.insert("base64".to_owned(), BASE64.encode(body).into()),
    };
}

/// A raw body, with its metadata in headers. A value that no header can hold is left out.
pub(super) fn raw(body: Bytes, headers: &[(&'static str, String)]) -> Answer {
    let mut answer = whole(StatusCode::OK, "application/octet-stream", body);
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            answer.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    answer
}
