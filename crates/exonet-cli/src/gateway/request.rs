//! The request of a client: its options, in JSON or in the query, and a body.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use exonet::Traceparent;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE};
use hyper::{Request, StatusCode};
use serde::de::value::{Error as WordError, MapDeserializer, StringDeserializer};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::respond::ApiError;
use crate::control::protocol::LONGEST_BODY;

/// The longest body of a request: a message in base64, and the JSON around it.
const LONGEST_REQUEST: usize = LONGEST_BODY / 3 * 4 + (64 << 10);
/// The time limits for a client to send its body, and to wait for room for it.
const BODY_TIME: Duration = Duration::from_secs(60);
const ROOM_TIME: Duration = Duration::from_secs(10);
/// The maximum size of the bodies of all requests at once, in KiB.
pub(super) const ROOM: usize = 256 << 10;
const UNIT: usize = 1 << 10;
/// The longest wait that a client may ask for, and the default.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const WAIT: Duration = Duration::from_secs(20);
/// The longest lease, and the default.
const LONGEST_LEASE: Duration = Duration::from_secs(3_600);
const LEASE: Duration = Duration::from_secs(30);

/// The header of W3C Trace Context.
pub(super) const TRACEPARENT: &str = "traceparent";

/// A request whose body has been read.
pub(super) struct Given {
    query: Vec<(String, String)>,
    /// The body is JSON.
    is_json: bool,
    /// The client wants bodies as they are.
    pub(super) wants_raw: bool,
    /// The trace that the request is part of.
    pub(super) traceparent: Option<Traceparent>,
    body: Bytes,
}

impl Given {
    pub(super) async fn read(request: Request<Incoming>, room: &Semaphore) -> Result<Self, ApiError> {
        let header =
            |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = header(CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let wants_raw =
            header(ACCEPT).split(',').any(|kind| kind.trim().starts_with("application/octet-stream"));
        // An invalid header is ignored, as W3C Trace Context requires.
        let traceparent =
            request.headers().get(TRACEPARENT).and_then(|value| value.to_str().ok()?.parse().ok());
        let pairs = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
        let query = pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
        let body = request.into_body();
        let hint = body.size_hint();
        let long = || {
            let message =
                format!("the body of a request may have {LONGEST_REQUEST} bytes, a message {LONGEST_BODY}");
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message, "send it as a file: exon cp")
        };
        let expected = hint.upper().and_then(|most| usize::try_from(most).ok()).unwrap_or(LONGEST_REQUEST);
        if expected > LONGEST_REQUEST {
            return Err(long());
        }
        let units = u32::try_from(expected.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let Ok(Ok(_room)) = timeout(ROOM_TIME, room.acquire_many(units)).await else {
            return Err(ApiError::busy("no_room", "too many large requests at once", "send fewer at a time"));
        };
        let read = timeout(BODY_TIME, Limited::new(body, LONGEST_REQUEST).collect()).await;
        let body = match read {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(long()),
            Ok(Err(error)) => return Err(ApiError::bad_request(format!("the body ended early: {error}"))),
            Err(_) => {
                let message = format!("the body did not arrive within {} s", BODY_TIME.as_secs());
                return Err(ApiError::new(
                    StatusCode::REQUEST_TIMEOUT,
                    "body_too_slow",
                    message,
                    "send it faster",
                ));
            }
        };
        Ok(Self { query, is_json: kind == "application/json", wants_raw, traceparent, body })
    }

    /// The options of a request that has no body of its own.
    pub(super) fn options<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        if self.is_json && !self.body.is_empty() {
            // The fields of a struct may also be an array for serde, by their order, which no client means.
            if self.body.trim_ascii_start().first() != Some(&b'{') {
                return Err(ApiError::bad_request(
                    "the JSON of a request is an object: {\"name\": value, ...}",
                ));
            }
            return serde_json::from_slice(&self.body).map_err(|e| ApiError::bad_request(e.to_string()));
        }
        // A name that comes twice is an error of the type.
        let words = self.query.iter().map(|(name, value)| (name.as_str(), Word(value.clone())));
        let options = T::deserialize(MapDeserializer::<_, WordError>::new(words));
        options.map_err(|e| ApiError::bad_request(e.to_string()))
    }

    /// The options, and the body: in the JSON as `text`, `base64` or `json`; or else the request's own.
    pub(super) fn with_content<T: DeserializeOwned + HasContent>(&self) -> Result<(T, Bytes), ApiError> {
        if !self.is_json
            && self.query.iter().any(|(name, _)| ["text", "base64", "json"].contains(&name.as_str()))
        {
            let message = "`text`, `base64` and `json` are fields of JSON: give the body as the body of the request, \
                           or send `Content-Type: application/json`";
            return Err(ApiError::bad_request(message));
        }
        let mut options: T = self.options()?;
        let body = match options.content().bytes()? {
            _ if !self.is_json => self.body.clone(),
            Some(body) => body,
            None if T::NEEDED => {
                let message =
                    "there is no body: give `text`, `base64` or `json`, or `\"text\": \"\"` for an empty one";
                return Err(ApiError::bad_request(message));
            }
            None => Bytes::new(),
        };
        if body.len() > LONGEST_BODY {
            let message = format!("the message has {} bytes, the limit is {LONGEST_BODY}", body.len());
            return Err(ApiError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "too_large",
                message,
                "send it as a file: exon cp",
            ));
        }
        Ok((options, body))
    }
}

/// A body in JSON.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) text: Option<String>,
    pub(super) base64: Option<String>,
    pub(super) json: Option<Box<RawValue>>,
}

/// The field `text` or `base64`. `null` is refused: a program writes it if it lacks the value.
pub(super) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    match Option::deserialize(from)? {
        Some(text) => Ok(Some(text)),
        None => Err(D::Error::custom("the body is null: give `\"text\": \"\"` for an empty one")),
    }
}

/// The field `json`, in the bytes of the client. `null` is a value, too.
pub(super) fn json_as_written<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::deserialize(from).map(Some)
}

/// Options that have a body among them.
pub(super) trait HasContent {
    /// JSON without a body is refused. Otherwise it stands for an empty body.
    const NEEDED: bool;

    fn content(&mut self) -> Content;
}

impl Content {
    fn bytes(self) -> Result<Option<Bytes>, ApiError> {
        match (self.text, self.base64, self.json) {
            (None, None, None) => Ok(None),
            (Some(text), None, None) => Ok(Some(text.into())),
            (None, Some(base64), None) => match BASE64.decode(base64) {
                Ok(body) => Ok(Some(body.into())),
                Err(error) => Err(ApiError::bad_request(format!("base64: {error}"))),
            },
            (None, None, Some(json)) => Ok(Some(String::from(Box::<str>::from(json)).into())),
            _ => Err(ApiError::bad_request("give the body once: as `text`, `base64` or `json`")),
        }
    }
}

/// How long to wait.
pub(super) fn wait(ms: Option<u64>) -> Result<Duration, ApiError> {
    span("wait_ms", ms.map_or(WAIT, Duration::from_millis), LONGEST_WAIT)
}

/// How long something is handed out.
pub(super) fn lease(ms: Option<u64>) -> Result<Duration, ApiError> {
    span("lease_ms", ms.map_or(LEASE, Duration::from_millis), LONGEST_LEASE)
}

/// A time that a client asks for. One above the maximum is refused: if a lease were shorter than its client believes, the
/// message would go to another client as well.
pub(super) fn span(field: &str, asked: Duration, longest: Duration) -> Result<Duration, ApiError> {
    if asked > longest {
        return Err(ApiError::bad_request(format!("`{field}` is {} at most", longest.as_millis())));
    }
    Ok(asked)
}

/// A value of a query: text, which stands for a number or a boolean where one is wanted.
struct Word(String);

impl<'de> IntoDeserializer<'de, WordError> for Word {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Word {
    type Error = WordError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WordError> {
        visitor.visit_string(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WordError> {
        visitor.visit_some(self)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WordError> {
        match self.0.parse() {
            Ok(number) => visitor.visit_u64(number),
            Err(_) => Err(WordError::custom(format!("{:?} is not an integer", self.0))),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WordError> {
        match self.0.parse() {
            Ok(flag) => visitor.visit_bool(flag),
            Err(_) => Err(WordError::custom(format!("{:?} is neither true nor false", self.0))),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, WordError> {
        let word: StringDeserializer<WordError> = self.0.into_deserializer();
        word.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq, Eq)]
    #[serde(deny_unknown_fields, default)]
    struct Options {
        tag: String,
        most: Option<u64>,
        durable: bool,
    }

    fn given(query: &[(&str, &str)], body: Option<&'static str>) -> Result<Options, ApiError> {
        let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (is_json, body) = (body.is_some(), Bytes::from(body.unwrap_or_default()));
        Given { query, is_json, wants_raw: false, traceparent: None, body }.options()
    }

    #[test]
    fn a_query_has_numbers_and_booleans_as_text_and_json_has_them_as_such() {
        let wanted = || Options { tag: "7".to_owned(), most: Some(7), durable: true };
        let query = [("tag", "7"), ("most", "7"), ("durable", "true")];
        assert_eq!(given(&query, None).unwrap(), wanted());
        assert_eq!(given(&[], Some(r#"{"tag": "7", "most": 7, "durable": true}"#)).unwrap(), wanted());
        for json in [
            r#"{"tag": 7}"#,
            r#"{"most": "7"}"#,
            r#"{"durable": "true"}"#,
            r#"{"other": 1}"#,
            r#"["7", 7, true]"#,
        ] {
            assert_eq!(given(&[], Some(json)).unwrap_err().code, "bad_request", "{json}");
        }
        for (name, value) in [("most", "-1"), ("most", "x"), ("durable", "yes"), ("other", "1")] {
            assert_eq!(given(&[(name, value)], None).unwrap_err().code, "bad_request", "{name}={value}");
        }
        let twice = given(&[("tag", "a"), ("tag", "b")], None).unwrap_err();
        assert!(twice.message.contains("`tag`"), "{}", twice.message);
    }
}
