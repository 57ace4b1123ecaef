//! Calls that are made.

use std::mem::MaybeUninit;
use std::sync::Arc;

use bytes::Bytes;
use exo::call::{CallId, PendingCall, Reply};
use exo::error::{CallError, Why};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::border::{Out, border, free, given, look};
use crate::fault::{Fault, exonet_code, exonet_error};
use crate::node::{Inner, exonet_node};
use crate::options::exonet_call_options;
use crate::promise::Promise;
use crate::queue::Event;
use crate::raw::{self, exonet_bytes, exonet_str};
use crate::text::Text;

/// The largest body of a failure, in bytes.
const SAID: u64 = 16 << 20;

/// The end of a call.
struct Ended {
    id: Option<Text>,
    result: Result<Bytes, Fault>,
}

/// A call that was made. If it is freed before its end, it is given up.
pub struct exonet_call {
    inner: Arc<Inner>,
    ended: Arc<Promise<Ended>>,
    given_up: Arc<Notify>,
    task: AbortHandle,
}

impl Drop for exonet_call {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl exonet_call {
    fn start(inner: &Arc<Inner>, pending: PendingCall, token: Option<u64>) -> Self {
        let (ended, given_up) = (Arc::new(Promise::new()), Arc::new(Notify::new()));
        let (promise, quit) = (Arc::clone(&ended), Arc::clone(&given_up));
        let tell = token.map(|token| (Arc::clone(inner.core()), token));
        let task = inner.handle().spawn(async move {
            promise.keep(end(pending, &quit).await);
            if let Some((core, token)) = tell {
                core.queue.put(Event::CallEnded { token });
            }
        });
        Self { inner: Arc::clone(inner), ended, given_up, task: task.abort_handle() }
    }
}

/// Waits for the end of a call, or for its caller to give it up.
async fn end(mut pending: PendingCall, quit: &Notify) -> Ended {
    let result = tokio::select! {
        result = &mut pending => result,
        () = quit.notified() => {
            pending.give_up();
            pending.await
        }
    };
    match result {
        Ok(reply) => whole(reply).await,
        Err(error) => failed(error).await,
    }
}

async fn whole(reply: Reply) -> Ended {
    let Reply { id, mut body, .. } = reply;
    let lost = |id: &CallId| CallError::Unknown { id: Some(*id), why: Why::Lost };
    // A reply that is incomplete counts as lost.
    let result = body.bytes(u64::MAX).await.map_err(|_| Fault::call(&lost(&id), Bytes::new()));
    Ended { id: Some(Text::new(id)), result }
}

async fn failed(mut error: CallError) -> Ended {
    let (id, said) = match &mut error {
        CallError::Failed { id, body, .. } => (Some(*id), body.bytes(SAID).await.unwrap_or_default()),
        CallError::Unknown { id, .. } => (*id, Bytes::new()),
        _ => (None, Bytes::new()),
    };
    Ended { id: id.map(Text::new), result: Err(Fault::call(&error, said)) }
}

/// Calls a method of a peer: a call is a message that is answered, and that runs at most once. It waits for room in
/// the queue to the peer; then the call is queued. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_call_start(
    node: Option<&exonet_node>,
    peer: exonet_str,
    method: exonet_str,
    body: exonet_bytes,
    options: *const exonet_call_options,
    call: Option<&mut MaybeUninit<*mut exonet_call>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::handle(call, "call")?;
        let inner = given(node, "node")?.inner();
        // SAFETY: the caller gives NULL, or options with their size.
        let options: exonet_call_options = unsafe { raw::options(options, "options") }?;
        let method = method.copy("method")?;
        let call = options.treat(inner.peer(&peer)?.call(method, body.copy("body")?))?;
        let pending = inner.block_on(call.start()).map_err(|error| Fault::call(&error, Bytes::new()))?;
        place.give(exonet_call::start(inner, pending, options.token()));
        Ok(())
    })
}

/// Waits for the end of a call, for `timeout_ms` at most. EXONET_OK: exonet_call_reply has the answer. The codes that
/// begin with EXONET_CALL say how else it has ended; the result is the same each time.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_call_wait(
    call: Option<&exonet_call>,
    timeout_ms: i64,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let call = given(call, "call")?;
        let ended = match call.ended.look() {
            Some(ended) => ended,
            None => call.inner.wait(timeout_ms, call.ended.wait())?,
        };
        ended.result.as_ref().map(drop).map_err(Clone::clone)
    })
}

/// The answer. Empty until there is one.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_call_reply(call: Option<&exonet_call>) -> exonet_bytes {
    look(exonet_bytes::empty(), || {
        let reply = call?.ended.look()?.result.as_ref().ok()?;
        Some(exonet_bytes::lend(reply))
    })
}

/// The name of the call at both ends. Empty before its end, and if it never left.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_call_id(call: Option<&exonet_call>) -> exonet_str {
    look(exonet_str::empty(), || call?.ended.look()?.id.as_ref().map(Text::lend))
}

/// Gives a call up. It ends with EXONET_CALL_CANCELLED if it had not left, and with EXONET_CALL_UNKNOWN if it had,
/// unless its answer has arrived.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_call_give_up(
    call: Option<&exonet_call>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        given(call, "call")?.given_up.notify_one();
        Ok(())
    })
}

/// Frees a call. If it has not ended, it is given up.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_call_free(call: Option<Box<exonet_call>>) {
    free(call);
}
