//! Calls with typed requests, replies and errors. They are sent as JSON, so that any program that reads and writes
//! JSON can call and serve.

use core::fmt;
use core::future::{Future, IntoFuture};
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use exonet_proto::node::{CallId, CancelError, Priority, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::serve::{Handler, Request, Serve};
use crate::call::status::{Failure, ReplyStatus};
use crate::call::{Call, PendingCall};
use crate::error::{BodyError, CallError};
use crate::node::Node;
use crate::peer::Peer;
use crate::receive::body::Body;

/// The longest body that is read into memory as JSON, in bytes.
pub(crate) const LONGEST: u64 = 16 << 20;

/// The error of a typed call. `E` is the application's error, as the handler returned it. Its text is its `Debug`
/// form, so `E` need not implement `Display`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TypedError<E> {
    /// The error that the handler returned instead of a reply.
    #[error("the method returned an error: {0:?}")]
    Application(E),
    /// The call failed.
    #[error(transparent)]
    Call(CallError),
    /// The request could not be written as JSON. Nothing has been sent.
    #[error("the request cannot be written as JSON: {0}")]
    Request(#[source] serde_json::Error),
    /// The call has run, and its answer does not have the expected type.
    #[error("the answer to the call {id} is not what was expected: {source}")]
    Answer {
        /// The id of the call.
        id: CallId,
        /// Why the answer could not be read as JSON.
        source: serde_json::Error,
    },
    /// The call has run, and its answer could not be received, or has more than 16 MiB.
    #[error("the answer to the call {id} cannot be read: {source}")]
    Body {
        /// The id of the call.
        id: CallId,
        /// Why the body could not be read.
        source: BodyError,
    },
}

impl<E> TypedError<E> {
    /// Whether the call has certainly not run, so that the caller may repeat it.
    pub const fn has_not_run(&self) -> bool {
        match self {
            Self::Call(error) => error.has_not_run(),
            Self::Request(_) => true,
            Self::Application(_) | Self::Answer { .. } | Self::Body { .. } => false,
        }
    }
}

/// A typed call that is not yet made. [`Peer::call_typed`] creates it; await it, or call [`Self::start`], to make the
/// call.
#[must_use = "a call is made by `.await` or `.start().await`"]
pub struct TypedCall<Resp, E> {
    call: Result<Call, serde_json::Error>,
    expects: PhantomData<fn() -> (Resp, E)>,
}

impl Peer {
    /// Calls a method that [`Node::serve_typed`] serves, or any other server that takes and returns JSON. `Resp` is
    /// the type of the reply. `E` is the type of the error, which comes with [`ReplyStatus::ERROR`].
    ///
    /// ```
    /// # use exonet::{Allow, Node, error::TypedError};
    /// # use serde::{Deserialize, Serialize};
    /// #[derive(Serialize, Deserialize)]
    /// struct Divide { of: i64, by: i64 }
    ///
    /// #[derive(Debug, PartialEq, Serialize, Deserialize)]
    /// enum MathError { ByZero }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// let _serving = bob
    ///     .serve_typed("divide", |Divide { of, by }| async move {
    ///         of.checked_div(by).ok_or(MathError::ByZero)
    ///     })
    ///     .start()?;
    ///
    /// let to_bob = alice.peer(bob.peer_addr());
    /// let quotient = to_bob.call_typed::<_, i64, MathError>("divide", &Divide { of: 42, by: 6 }).await;
    /// assert_eq!(quotient.unwrap(), 7);
    /// let quotient = to_bob.call_typed::<_, i64, MathError>("divide", &Divide { of: 42, by: 0 }).await;
    /// assert!(matches!(quotient, Err(TypedError::Application(MathError::ByZero))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn call_typed<Req, Resp, E>(&self, method: impl Into<Bytes>, request: &Req) -> TypedCall<Resp, E>
    where
        Req: Serialize + ?Sized,
        Resp: DeserializeOwned,
        E: DeserializeOwned,
    {
        let call = serde_json::to_vec(request).map(|body| self.call(method, body));
        TypedCall { call, expects: PhantomData }
    }
}

impl Node {
    /// Like [`Self::serve`], for typed requests, replies and errors. If a request does not have the method's type, or
    /// has more than 16 MiB, its caller gets [`ReplyStatus::BAD_REQUEST`].
    pub fn serve_typed<Req, Resp, E, F, Fut>(
        &self,
        method: impl Into<Bytes>,
        handler: F,
    ) -> Serve<Handler<impl Fn(Request) -> BoxedAnswer + Send + Sync + 'static>>
    where
        Req: DeserializeOwned + Send + 'static,
        Resp: Serialize + 'static,
        E: Serialize + 'static,
        F: Fn(Req) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Resp, E>> + Send + 'static,
    {
        self.serve_typed_by(method, move |_, request| handler(request))
    }

    /// Like [`Self::serve_typed`], for a handler that needs the id of the caller or of the call.
    pub fn serve_typed_by<Req, Resp, E, F, Fut>(
        &self,
        method: impl Into<Bytes>,
        handler: F,
    ) -> Serve<Handler<impl Fn(Request) -> BoxedAnswer + Send + Sync + 'static>>
    where
        Req: DeserializeOwned + Send + 'static,
        Resp: Serialize + 'static,
        E: Serialize + 'static,
        F: Fn(CallId, Req) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Resp, E>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        self.serve(method, move |mut request: Request| -> BoxedAnswer {
            let handler = Arc::clone(&handler);
            Box::pin(async move {
                let body = request.body.bytes(LONGEST).await?;
                let asked = serde_json::from_slice(&body).map_err(bad_request)?;
                said(handler(request.id, asked).await)
            })
        })
    }
}

/// Answers a request with a function.
pub(crate) fn answer<Req: DeserializeOwned, Resp: Serialize, E: Serialize>(
    request: &[u8],
    handler: impl Fn(Req) -> Result<Resp, E>,
) -> Result<Bytes, Failure> {
    said(handler(serde_json::from_slice(request).map_err(bad_request)?))
}

/// Writes the result of a handler as JSON.
fn said<Resp: Serialize, E: Serialize>(answer: Result<Resp, E>) -> Result<Bytes, Failure> {
    match answer {
        Ok(reply) => json(&reply),
        Err(error) => Err(Failure::new(ReplyStatus::ERROR, json(&error)?)),
    }
}

/// The future of a typed handler's answer.
pub(crate) type BoxedAnswer = Pin<Box<dyn Future<Output = Result<Bytes, Failure>> + Send>>;

#[allow(clippy::needless_pass_by_value)] // as `map_err` wants it
fn bad_request(error: serde_json::Error) -> Failure {
    Failure::new(ReplyStatus::BAD_REQUEST, error.to_string())
}

/// Writes a value as JSON. If that fails, the call has run, and this failure is all that the caller can be told.
fn json(value: &impl Serialize) -> Result<Bytes, Failure> {
    let written = serde_json::to_vec(value).map(Bytes::from);
    written.map_err(|error| Failure::new(ReplyStatus::FAILED, error.to_string()))
}

impl<Resp, E> TypedCall<Resp, E> {
    fn with(self, change: impl FnOnce(Call) -> Call) -> Self {
        Self { call: self.call.map(change), ..self }
    }

    /// See [`Call::deadline`].
    pub fn deadline(self, from_now: Duration) -> Self {
        self.with(|call| call.deadline(from_now))
    }

    /// See [`Call::priority`].
    pub fn priority(self, priority: Priority) -> Self {
        self.with(|call| call.priority(priority))
    }

    /// See [`Call::early`].
    pub fn early(self, early: bool) -> Self {
        self.with(|call| call.early(early))
    }

    /// Like [`Call::start`].
    ///
    /// # Errors
    /// [`TypedError::Request`], and the errors of [`Call::start`].
    pub async fn start(self) -> Result<TypedPending<Resp, E>, TypedError<E>> {
        let call = self.call.map_err(TypedError::Request)?;
        let pending = call.start().await.map_err(TypedError::Call)?;
        Ok(TypedPending { call: pending, answer: None, expects: PhantomData })
    }
}

impl<Resp, E> IntoFuture for TypedCall<Resp, E>
where
    Resp: DeserializeOwned + 'static,
    E: DeserializeOwned + 'static,
{
    type Output = Result<Resp, TypedError<E>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let call = match self.start().await {
                Ok(call) => call,
                Err(error) => return Err(error),
            };
            call.await
        })
    }
}

/// A typed call that has been made: a future that resolves to its reply, or to a [`TypedError`].
///
/// If the application drops it, the node gives the call up: see [`PendingCall`].
#[must_use = "a call that is dropped is given up"]
pub struct TypedPending<Resp, E> {
    call: PendingCall,
    answer: Option<Answer>,
    expects: PhantomData<fn() -> (Resp, E)>,
}

/// The answer to the call, while it arrives.
struct Answer {
    id: CallId,
    /// Whether the answer is a reply, not an error of the application.
    ok: bool,
    body: Pin<Box<dyn Future<Output = Result<Bytes, BodyError>> + Send>>,
}

impl Answer {
    fn new(id: CallId, ok: bool, mut body: Body) -> Self {
        Self { id, ok, body: Box::pin(async move { body.bytes(LONGEST).await }) }
    }
}

impl<Resp, E> TypedPending<Resp, E> {
    /// See [`PendingCall::id`].
    pub fn id(&self) -> Option<CallId> {
        self.answer.as_ref().map(|answer| answer.id).or_else(|| self.call.id())
    }

    /// See [`PendingCall::status`].
    pub fn status(&self) -> Status {
        self.call.status()
    }

    /// See [`PendingCall::cancel`].
    ///
    /// # Errors
    /// The errors of [`PendingCall::cancel`].
    pub fn cancel(&self) -> Result<(), CancelError> {
        self.call.cancel()
    }

    /// See [`PendingCall::give_up`].
    pub fn give_up(&mut self) {
        self.call.give_up();
    }
}

impl<Resp: DeserializeOwned, E: DeserializeOwned> Future for TypedPending<Resp, E> {
    type Output = Result<Resp, TypedError<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { call, answer, .. } = self.get_mut();
        let Answer { id, ok, body } = match answer {
            Some(answer) => answer,
            None => answer.insert(match ready!(Pin::new(call).poll(cx)) {
                Ok(reply) => Answer::new(reply.id, true, reply.body),
                Err(CallError::Failed { id, status: ReplyStatus::ERROR, body }) => {
                    Answer::new(id, false, body)
                }
                Err(error) => return Poll::Ready(Err(TypedError::Call(error))),
            }),
        };
        let (body, id) = (ready!(body.as_mut().poll(cx)), *id);
        Poll::Ready(match body {
            Err(source) => Err(TypedError::Body { id, source }),
            Ok(body) if *ok => read(id, &body),
            Ok(body) => read(id, &body).and_then(|error| Err(TypedError::Application(error))),
        })
    }
}

fn read<T: DeserializeOwned, E>(id: CallId, body: &[u8]) -> Result<T, TypedError<E>> {
    serde_json::from_slice(body).map_err(|source| TypedError::Answer { id, source })
}

impl<Resp, E> fmt::Debug for TypedPending<Resp, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedPending").field("call", &self.call).finish_non_exhaustive()
    }
}

impl<Resp, E> fmt::Debug for TypedCall<Resp, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedCall").field("call", &self.call).finish()
    }
}
