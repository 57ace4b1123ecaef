//! Calls that are answered.

use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use exo::call::{CallId, Failure, ReplyStatus, Request, Serving};
use tokio::sync::{mpsc, oneshot};

use crate::border::{Out, border, free, given, look};
use crate::fault::{Fault, exonet_code, exonet_error};
use crate::node::{Core, Inner, exonet_node, timespan};
use crate::options::exonet_serve_options;
use crate::queue::Event;
use crate::raw::{self, exonet_bytes, exonet_str};
use crate::text::Text;

/// The answer to a call.
type Answer = Result<Bytes, Failure>;

/// A call that has to be answered. If it is freed without an answer, it fails.
pub struct exonet_request {
    id: CallId,
    id_text: OnceLock<Text>,
    caller_text: OnceLock<Text>,
    method: Text,
    traceparent: Option<Text>,
    body: Bytes,
    answer: Mutex<Option<oneshot::Sender<Answer>>>,
}

impl exonet_request {
    fn answer(&self, answer: Answer) -> Result<(), Fault> {
        let sender = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let sender = sender.ok_or_else(|| Fault::usage("this call is answered already"))?;
        sender.send(answer).map_err(|_| {
            Fault::new(
                exonet_code::EXONET_CLOSED,
                "the answer came too late: the call has timed out, or is served no more",
            )
        })
    }
}

/// The destination of calls.
#[derive(Clone)]
enum Desk {
    Line(mpsc::UnboundedSender<Box<exonet_request>>),
    Events(Arc<Core>, u64),
}

/// Hands a call over, and waits for its answer. Calls that wait are bounded by the concurrency of the method.
async fn answer(desk: Desk, mut request: Request) -> Answer {
    let body = request.body.bytes(u64::MAX).await?;
    let (answer, answered) = oneshot::channel();
    let asked = Box::new(exonet_request {
        id: request.id,
        id_text: OnceLock::new(),
        caller_text: OnceLock::new(),
        method: Text::new(String::from_utf8_lossy(&request.method)),
        traceparent: request.traceparent.map(Text::new),
        body,
        answer: Mutex::new(Some(answer)),
    });
    match desk {
        // If the service no longer takes calls, the request is dropped, which answers it with a failure.
        Desk::Line(line) => drop(line.send(asked)),
        Desk::Events(core, token) => core.queue.put(Event::Request { token, request: asked }),
    }
    answered.await.unwrap_or_else(|_| Err(ReplyStatus::FAILED.into()))
}

/// A method that is served. Freeing it ends the service: calls that were taken can still be answered.
pub struct exonet_service {
    inner: Arc<Inner>,
    serving: Mutex<Option<Serving>>,
    line: tokio::sync::Mutex<mpsc::UnboundedReceiver<Box<exonet_request>>>,
    notifies: bool,
}

/// Serves a method, until the service is stopped or freed. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_serve(
    node: Option<&exonet_node>,
    method: exonet_str,
    options: *const exonet_serve_options,
    service: Option<&mut MaybeUninit<*mut exonet_service>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::handle(service, "service")?;
        let inner = given(node, "node")?.inner();
        // SAFETY: the caller gives NULL, or options with their size.
        let options: exonet_serve_options = unsafe { raw::options(options, "options") }?;
        let method = method.copy("method")?;
        let (sender, line) = mpsc::unbounded_channel();
        let desk = match options.token() {
            Some(token) => Desk::Events(Arc::clone(inner.core()), token),
            None => Desk::Line(sender),
        };
        let mut serve = inner.core().node.serve(method, move |request| answer(desk.clone(), request));
        if let Some(most) = options.concurrency() {
            serve = serve.concurrency(most);
        }
        if let Some(timeout) = options.timeout() {
            serve = serve.timeout(timeout);
        }
        let _context = inner.handle().enter();
        let serving = Mutex::new(Some(serve.start()?));
        let (line, notifies) = (tokio::sync::Mutex::new(line), options.token().is_some());
        place.give(exonet_service { inner: Arc::clone(inner), serving, line, notifies });
        Ok(())
    })
}

/// Waits for a call of the method, for `timeout_ms` at most. EXONET_CLOSED: there will be no more.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_service_next(
    service: Option<&exonet_service>,
    timeout_ms: i64,
    request: Option<&mut MaybeUninit<*mut exonet_request>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::handle(request, "request")?;
        let service = given(service, "service")?;
        if service.notifies {
            return Err(Fault::usage("the calls of this method are events"));
        }
        let next = async { service.line.lock().await.recv().await };
        let request = service.inner.wait(timeout_ms, next)?.ok_or_else(Fault::closed)?;
        place.give(*request);
        Ok(())
    })
}

/// Takes no new calls, and waits until those that were taken have been answered, for `timeout_ms` at most (negative: a
/// day). The remaining calls then fail; `left`, which may be NULL, gets their number. The service still has to be
/// freed.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_service_stop(
    service: Option<&exonet_service>,
    timeout_ms: i64,
    left: Option<&mut MaybeUninit<u64>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let service = given(service, "service")?;
        let serving = service.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stop = |serving: Serving| service.inner.block_on(serving.stop(timespan(timeout_ms)));
        let count = serving.map_or(0, stop);
        if let Some(left) = left {
            left.write(u64::try_from(count).unwrap_or(u64::MAX));
        }
        Ok(())
    })
}

/// Frees a service: its method is no longer served.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_service_free(service: Option<Box<exonet_service>>) {
    free(service);
}

/// The node that calls: a proven id.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_request_caller(request: Option<&exonet_request>) -> exonet_str {
    look(exonet_str::empty(), || {
        let request = request?;
        Some(request.caller_text.get_or_init(|| Text::new(request.id.caller)).lend())
    })
}

/// The permanent name of the call at both ends: the key under which an external effect is made only once.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_request_id(request: Option<&exonet_request>) -> exonet_str {
    look(exonet_str::empty(), || {
        let request = request?;
        Some(request.id_text.get_or_init(|| Text::new(request.id)).lend())
    })
}

/// The method, as it was called.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_request_method(request: Option<&exonet_request>) -> exonet_str {
    look(exonet_str::empty(), || Some(request?.method.lend()))
}

/// The trace that the caller made the call part of, as in the header `traceparent` of W3C Trace Context. Empty if there
/// is none.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_request_traceparent(request: Option<&exonet_request>) -> exonet_str {
    look(exonet_str::empty(), || request?.traceparent.as_ref().map(Text::lend))
}

/// The content.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_request_body(request: Option<&exonet_request>) -> exonet_bytes {
    look(exonet_bytes::empty(), || Some(exonet_bytes::lend(&request?.body)))
}

/// Answers a call. EXONET_CLOSED: the answer came too late. The request still has to be freed, after this function and
/// the next.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_request_reply(
    request: Option<&exonet_request>,
    body: exonet_bytes,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let body = body.copy("body")?;
        given(request, "request")?.answer(Ok(body))
    })
}

/// Answers a call with a failure: `status` is from 1 to 0xfffffeff, with a meaning that the two applications agree on.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_request_fail(
    request: Option<&exonet_request>,
    status: u32,
    body: exonet_bytes,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        if status == 0 || status >= ReplyStatus::RESERVED.0 {
            return Err(Fault::usage(format!("status is {status:#x}: from 1 to 0xfffffeff it is yours")));
        }
        let body = body.copy("body")?;
        given(request, "request")?.answer(Err(Failure::new(ReplyStatus(status), body)))
    })
}

/// Frees a request. If it was not answered, the call fails.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_request_free(request: Option<Box<exonet_request>>) {
    free(request);
}
