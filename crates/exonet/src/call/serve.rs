//! Serves calls of peers: takes a call when there is capacity to run it, and answers it.

use core::fmt;
use core::future::Future;
use core::time::Duration;
use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use exonet_proto::node::{CallId, DeliveryKey, Incoming, IncomingBody, ReplyBody};
use exonet_proto::{NodeId, Traceparent};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tracing::field::{Empty, display};
use tracing::{Instrument, Span};

use crate::call::desk::Line;
use crate::call::status::{Answer, Failure, ReplyStatus};
use crate::error::ServeError;
use crate::node::Node;
use crate::receive::body::Body;
use crate::send::message::drop_empty;
use crate::shared::Shared;

/// The default of [`Serve::concurrency`].
const CONCURRENCY: usize = 256;

/// A call to answer.
#[derive(Debug)]
#[non_exhaustive]
pub struct Request {
    /// The id of the caller. The caller has proven it, and the node's policy admits it.
    pub caller: NodeId,
    /// The id of the call at both ends. No other call ever has it. An application can use it as a key, so that an
    /// effect outside of the node happens only once.
    pub id: CallId,
    /// The method that was called.
    pub method: Bytes,
    /// The trace that the call belongs to, as its caller gave it. With the feature `opentelemetry` it is the current
    /// context while the handler runs.
    pub traceparent: Option<Traceparent>,
    /// The body. A large one ([`Body::is_stream`]) arrives while the handler reads it: the handler must not act on
    /// any part before it has read the end without an error. If the handler drops the body or answers before the end,
    /// the rest does not come.
    pub body: Body,
}

/// What answers the calls of a method: an async function behind an `Arc`, or a service.
pub(crate) trait Work: Send + 'static {
    /// Waits until a call can be taken. Returns false if no call can ever be taken again.
    fn ready(&mut self) -> impl Future<Output = bool> + Send;

    /// Begins to answer a call.
    fn work(&mut self, request: Request) -> impl Future<Output = Result<Bytes, Failure>> + Send + 'static;
}

/// An async function that answers calls.
pub struct Handler<F>(Arc<F>);

impl<F, Fut> Work for Handler<F>
where
    F: Fn(Request) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: Answer> + Send + 'static,
{
    async fn ready(&mut self) -> bool {
        true
    }

    fn work(&mut self, request: Request) -> impl Future<Output = Result<Bytes, Failure>> + Send + 'static {
        let handler = Arc::clone(&self.0);
        async move { handler(request).await.answer() }
    }
}

impl Node {
    /// Serves a method: passes each call to `handler`. The handler is an async function that returns bytes, or a
    /// `Result` of bytes and an error that converts into a [`Failure`]. See [`Serve`] for the limits on concurrency
    /// and time.
    ///
    /// If nothing serves a method, its calls fail at once with [`ReplyStatus::NO_SUCH_METHOD`].
    ///
    /// ```
    /// # use exonet::{Allow, Node, call::{Failure, Request}, error::CallError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// let serving = bob
    ///     .serve("double", |mut request: Request| async move {
    ///         let text = request.body.bytes(100).await.map_err(Failure::error)?;
    ///         let number: u64 = String::from_utf8_lossy(&text).parse().map_err(Failure::error)?;
    ///         number.checked_mul(2).map(|n| n.to_string()).ok_or(Failure::new(7, "overflow"))
    ///     })
    ///     .concurrency(16)
    ///     .start()?;
    ///
    /// let to_bob = alice.peer(bob.peer_addr());
    /// let mut reply = to_bob.call("double", "21").await?;
    /// assert_eq!(reply.body.bytes(100).await?, "42");
    /// let Err(CallError::Failed { status, .. }) =
    ///     to_bob.call("double", u64::MAX.to_string()).await
    /// else { panic!() };
    /// assert_eq!(status.0, 7);
    /// serving.stop(std::time::Duration::from_secs(5)).await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn serve<F, Fut>(&self, method: impl Into<Bytes>, handler: F) -> Serve<Handler<F>>
    where
        F: Fn(Request) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: Answer> + Send + 'static,
    {
        self.serve_work(method.into(), Handler(Arc::new(handler)))
    }

    pub(crate) fn serve_work<W>(&self, method: Bytes, work: W) -> Serve<W> {
        let shared = Arc::clone(self.shared());
        Serve { shared, method, work, concurrency: CONCURRENCY, timeout: None }
    }
}

/// A method that is not yet served. [`Node::serve`] creates it, and [`Self::start`] begins to serve it.
#[must_use = "a method is served from `start` on"]
pub struct Serve<W> {
    shared: Arc<Shared>,
    method: Bytes,
    work: W,
    concurrency: usize,
    timeout: Option<Duration>,
}

#[allow(private_bounds)] // only `Node` makes a worker
impl<W: Work> Serve<W> {
    /// How many calls of the method run at once, at least one. Default: 256. The node does not take further calls.
    /// They use up nothing that the node grants, so only their callers wait; other methods and ordinary messages go
    /// on.
    pub fn concurrency(mut self, most: usize) -> Self {
        self.concurrency = most.max(1);
        self
    }

    /// How long a call may run. At its next await after that, the node drops it, and its caller gets
    /// [`ReplyStatus::TIMED_OUT`]. Default: no limit; the caller's node asks now and then, and learns that the call
    /// still runs.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Serves the method, in a task of its own, until the application stops or drops the [`Serving`], or the node
    /// closes.
    ///
    /// # Errors
    /// [`ServeError`]: another server already serves the method, or the node cannot serve it.
    pub fn start(self) -> Result<Serving, ServeError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| ServeError::NoRuntime)?;
        let Self { shared, method, work, concurrency, timeout } = self;
        let line = shared.amend(|engine| engine.serve(&method))?;
        let (running, cut) = (Arc::default(), Arc::default());
        let desk =
            Desk { shared: Arc::clone(&shared), line: Arc::clone(&line), running: Arc::clone(&running) };
        let task = runtime.spawn(desk.serve(work, concurrency, timeout, Arc::clone(&cut)));
        Ok(Serving { shared, line, running, cut, task: Some(task) })
    }
}

impl<W: Work> IntoFuture for Serve<W> {
    type Output = Result<Serving, ServeError>;
    type IntoFuture = core::future::Ready<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        core::future::ready(self.start())
    }
}

/// A method that is served. If the application drops this, the node takes no new calls of the method. It refuses the
/// calls that wait with [`ReplyStatus::NO_SUCH_METHOD`] ([`ReplyStatus::DRAINING`] after
/// [`Node::drain`](crate::Node::drain)), and lets the calls that run come to their end.
#[must_use = "a method is served until this is dropped"]
pub struct Serving {
    shared: Arc<Shared>,
    line: Arc<Line>,
    running: Arc<AtomicUsize>,
    cut: Arc<Notify>,
    task: Option<JoinHandle<()>>,
}

impl Serving {
    /// The name of the method.
    pub fn method(&self) -> &Bytes {
        &self.line.method
    }

    /// The number of calls that run now.
    pub fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    /// Takes no new calls, and waits for `timeout` at most until the running calls have been answered. Then it drops
    /// the calls that still run at their next await; their callers get [`ReplyStatus::FAILED`]. Returns the number of
    /// those calls.
    pub async fn stop(mut self, timeout: Duration) -> usize {
        self.end();
        let Some(mut task) = self.task.take() else { return 0 };
        if tokio::time::timeout(timeout, &mut task).await.is_ok() {
            return 0;
        }
        let left = self.running();
        self.cut.notify_one();
        // If the runtime ends, the task fails, so an error is expected.
        let _ = task.await;
        left
    }

    fn end(&self) {
        self.shared.step(|engine, now| engine.unserve(now, &self.line));
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.end();
    }
}

/// Takes the calls of one method. Its destructor refuses those that still wait.
struct Desk {
    shared: Arc<Shared>,
    line: Arc<Line>,
    running: Arc<AtomicUsize>,
}

impl Desk {
    async fn serve<W: Work>(self, mut work: W, concurrency: usize, most: Option<Duration>, cut: Arc<Notify>) {
        let mut tasks = JoinSet::new();
        loop {
            let next = async { if work.ready().await { Some(self.next().await) } else { None } };
            let taken = tokio::select! {
                biased;
                _ = self.line.ended.acquire() => break,
                Some(_) = tasks.join_next() => continue,
                taken = next, if tasks.len() < concurrency => taken,
            };
            let Some((request, unanswered)) = taken else { break };
            let trace = Trace::of(&request);
            // A service requires that the call begins here. A panic affects only this call.
            let begin = core::panic::AssertUnwindSafe(|| work.work(request));
            let Ok(answer) = trace.within(|| std::panic::catch_unwind(begin)) else {
                unanswered.answer(Err(ReplyStatus::PANICKED.into()));
                continue;
            };
            let span = unanswered.span(&self.line.method);
            let work = async move {
                let begun = unanswered.shared.clock().mono();
                let answer = match most {
                    None => answer.await,
                    Some(most) => timeout(most, answer).await.unwrap_or(Err(ReplyStatus::TIMED_OUT.into())),
                };
                let took = unanswered.shared.clock().mono().since(begun);
                unanswered.shared.times.serve.record(took.as_secs_f64());
                unanswered.answer(answer);
            };
            tasks.spawn(trace.around(work.instrument(span)));
        }
        drop(work);
        self.end();
        tokio::select! {
            () = async { while tasks.join_next().await.is_some() {} } => {}
            () = cut.notified() => tasks.shutdown().await,
        }
    }

    /// Waits for the next call. Cancel-safe.
    async fn next(&self) -> (Request, Unanswered) {
        tokio::task::coop::consume_budget().await;
        loop {
            // Created before the look at the line, so that no wake-up between the look and the wait is missed.
            let called = self.line.called.notified();
            let taken = self.shared.step_calmly(|engine, now| engine.take_call(now, &self.line));
            if let Some(incoming) = taken
                && let Some(id) = incoming.call
            {
                return self.take(incoming, id);
            }
            called.await;
        }
    }

    fn take(&self, incoming: Incoming, id: CallId) -> (Request, Unanswered) {
        let key = incoming.key;
        let body = match incoming.body {
            IncomingBody::Whole(body) => ReplyBody::Whole(body),
            IncomingBody::Stream { len } => ReplyBody::Stream { delivery: key, len },
        };
        let body = Body::of_call(&self.shared, body);
        self.running.fetch_add(1, Ordering::AcqRel);
        let (shared, running) = (Arc::clone(&self.shared), Arc::clone(&self.running));
        let unanswered = Unanswered { shared, running, key, id, open: true };
        let traceparent = incoming.trace.as_deref().copied();
        (Request { caller: id.caller, id, method: incoming.tag, traceparent, body }, unanswered)
    }

    fn end(&self) {
        self.shared.step(|engine, now| engine.unserve(now, &self.line));
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.end();
    }
}

/// The trace that continues while a call is served.
#[cfg(feature = "opentelemetry")]
struct Trace(opentelemetry::Context);

#[cfg(feature = "opentelemetry")]
impl Trace {
    fn of(request: &Request) -> Self {
        Self(request.traceparent.map_or_else(opentelemetry::Context::new, crate::otel::context))
    }

    fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        let _current = self.0.clone().attach();
        work()
    }

    fn around<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        opentelemetry::context::FutureExt::with_context(work, self.0)
    }
}

/// Without OpenTelemetry there is no trace.
#[cfg(not(feature = "opentelemetry"))]
struct Trace;

#[cfg(not(feature = "opentelemetry"))]
impl Trace {
    const fn of(_: &Request) -> Self {
        Self
    }

    fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        work()
    }

    fn around<F: Future>(self, work: F) -> F {
        work
    }
}

/// A call that was taken. Its destructor answers it, even if its handler panicked or was dropped.
struct Unanswered {
    shared: Arc<Shared>,
    running: Arc<AtomicUsize>,
    key: DeliveryKey,
    id: CallId,
    open: bool,
}

impl Unanswered {
    /// The span of the handler.
    fn span(&self, method: &[u8]) -> Span {
        let span = tracing::info_span!("serve", caller = Empty, method = Empty, id = Empty);
        if !span.is_disabled() {
            span.record("caller", display(self.id.caller.short()));
            span.record("method", display(String::from_utf8_lossy(method)));
            span.record("id", display(&self.id));
        }
        span
    }

    fn answer(mut self, answer: Result<Bytes, Failure>) {
        self.open = false;
        let (status, body) = match answer {
            Ok(body) => (ReplyStatus::OK, body),
            Err(Failure { status, body }) => (ReplyStatus(status.0.max(1)), body),
        };
        let body = drop_empty(body);
        self.shared.step(|engine, now| engine.answer(now, self.key, self.id, status.0, body));
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if self.open {
            let status = if std::thread::panicking() { ReplyStatus::PANICKED } else { ReplyStatus::FAILED };
            self.shared.step(|engine, now| engine.answer(now, self.key, self.id, status.0, Bytes::new()));
        }
        self.running.fetch_sub(1, Ordering::AcqRel);
    }
}

impl<W> fmt::Debug for Serve<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve").field("method", &self.method).finish_non_exhaustive()
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut serving = f.debug_struct("Serving");
        serving.field("method", self.method()).field("running", &self.running()).finish_non_exhaustive()
    }
}
