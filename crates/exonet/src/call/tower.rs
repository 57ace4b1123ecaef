//! Calls as services: methods of a peer, and methods that this node serves.

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

/// A method of a peer as a [`Service`], whose request is a body. It is ready when the peer's queue has room, and keeps
/// the place until the call is made. Clones share the queue and nothing else.
pub struct CallService {
    peer: Peer,
    options: Options,
    place: Place,
}

/// A place in the peer's queue.
enum Place {
    None,
    Waited(Boxed<Result<Permit, SendError>>),
    Held(Permit),
}

impl CallService {
    /// The service of a method of `peer`.
    pub fn new(peer: Peer, method: impl Into<Bytes>) -> Self {
        Self { peer, options: Options::new(method.into()), place: Place::None }
    }

    /// See [`Call::deadline`](crate::call::Call::deadline): it counts from the call of `call`.
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

    /// Makes the call at once if the service is ready; if not, fails with [`SendError::Full`].
    fn call(&mut self, body: Bytes) -> Self::Future {
        let call = match core::mem::replace(&mut self.place, Place::None) {
            Place::Held(permit) => permit.call_as(self.options.clone(), body),
            _ => Err(SendError::Full),
        };
        Box::pin(async move { call?.await })
    }
}

/// A service that answers calls.
pub struct ServiceHandler<S>(S);

impl Node {
    /// Like [`Self::serve`], with a service and all its layers. Its `poll_ready` gives back-pressure: a call is taken
    /// only when the service is ready. If `poll_ready` fails, the method is no longer served.
    ///
    /// An error that is a [`Failure`] is answered as such; any other error is answered with [`ReplyStatus::ERROR`] and
    /// its text.
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
