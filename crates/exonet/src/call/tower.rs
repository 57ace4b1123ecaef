//! Calls as services of `tower`: the methods of a peer, and the methods that this node serves.

use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use bytes::Bytes;
use exonet_proto::node::Priority;
use tower_service::Service;

use crate::call::serve::{Request, Serve, Work};
use crate::call::status::{Answer, Failure, ReplyStatus};
use crate::call::{Options, Reply};
use crate::error::{CallError, SendError};
use crate::node::Node;
use crate::peer::Peer;
use crate::send::permit::Permit;

/// The error of a service, as its layers return it.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A method of a peer as a [`Service`]. A request is a body. The service is ready when it has reserved a place in the
/// peer's queue, and keeps the place until the call is made. Clones share the queue and nothing else.
pub struct CallService {
    peer: Peer,
    options: Options,
    place: Place,
}

/// The service's place in the peer's queue.
enum Place {
    None,
    Waited(Boxed<Result<Permit, SendError>>),
    Held(Permit),
}

impl CallService {
    /// Makes the service of a method of `peer`.
    pub fn new(peer: Peer, method: impl Into<Bytes>) -> Self {
        Self { peer, options: Options::new(method.into()), place: Place::None }
    }

    /// See [`Call::deadline`](crate::call::Call::deadline). The time begins when `call` is called.
    #[must_use]
    pub fn deadline(mut self, from_now: Duration) -> Self {
        self.options.deadline = Some(from_now);
        self
    }

    /// The priority: which message goes first when several wait.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.options.priority = priority;
        self
    }
}

impl Clone for CallService {
    fn clone(&self) -> Self {
        let (peer, options) = (self.peer.clone(), self.options.clone());
        Self { peer, options, place: Place::None }
    }
}

impl Service<Bytes> for CallService {
    type Response = Reply;
    type Error = CallError;
    type Future = Boxed<Result<Reply, CallError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        loop {
            self.place = match &mut self.place {
                Place::Held(_) => return Poll::Ready(Ok(())),
                Place::None => {
                    let peer = self.peer.clone();
                    Place::Waited(Box::pin(async move { peer.reserve().await }))
                }
                Place::Waited(permit) => match permit.as_mut().poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(permit)) => Place::Held(permit),
                    Poll::Ready(Err(error)) => {
                        self.place = Place::None;
                        return Poll::Ready(Err(error.into()));
                    }
                },
            };
        }
    }

    /// Makes the call at once. If the service is not ready, fails with [`SendError::Full`].
    fn call(&mut self, body: Bytes) -> Self::Future {
        let call = match core::mem::replace(&mut self.place, Place::None) {
            Place::Held(permit) => permit.call_as(self.options.clone(), body),
            _ => Err(SendError::Full),
        };
        Box::pin(async move { call?.await })
    }
}

/// Answers calls with a service.
pub struct ServiceHandler<S>(S);

impl Node {
    /// Like [`Self::serve`], with a service and all its layers. The node takes a call only when `poll_ready` says
    /// that the service is ready, so the service can slow callers down. If `poll_ready` fails, the node stops serving
    /// the method.
    ///
    /// If the error of the service is a [`Failure`], the caller gets that failure. For any other error the caller
    /// gets [`ReplyStatus::ERROR`] and the text of the error.
    pub fn serve_service<S>(&self, method: impl Into<Bytes>, service: S) -> Serve<ServiceHandler<S>>
    where
        S: Service<Request> + Send + 'static,
        S::Response: Into<Bytes>,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
    {
        self.serve_work(method.into(), ServiceHandler(service))
    }
}

impl<S> Work for ServiceHandler<S>
where
    S: Service<Request> + Send + 'static,
    S::Response: Into<Bytes>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    async fn ready(&mut self) -> bool {
        match poll_fn(|cx| self.0.poll_ready(cx)).await {
            Ok(()) => true,
            Err(error) => {
                let error: BoxError = error.into();
                tracing::error!(%error, "a service has ended: its method is served no more");
                false
            }
        }
    }

    fn work(&mut self, request: Request) -> impl Future<Output = Result<Bytes, Failure>> + Send + 'static {
        let answer = self.0.call(request);
        async move { answer.await.map_err(failure).answer() }
    }
}

fn failure(error: impl Into<BoxError>) -> Failure {
    match error.into().downcast::<Failure>() {
        Ok(failure) => *failure,
        Err(error) => Failure::new(ReplyStatus::ERROR, error.to_string()),
    }
}

impl fmt::Debug for CallService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallService")
            .field("to", &self.peer.id())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
