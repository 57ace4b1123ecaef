//! Messages of a session that are written in chunks.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use exo::{Message, Receipt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::{Halves, exonet_session, over};
use crate::border::{Out, border, free, given};
use crate::fault::{Fault, exonet_code, exonet_error};
use crate::node::Inner;
use crate::options::exonet_send_options;
use crate::raw::{self, exonet_bytes};
use crate::receipt::{exonet_receipt, hand_out};

/// The result of a step; the last one has the receipt.
type Step = Result<Option<Receipt>, Fault>;

/// A chunk of the message; None: its end.
struct Order {
    data: Option<Bytes>,
    reply: oneshot::Sender<Step>,
}

/// A message of a session that is written in chunks. If it is freed before exonet_session_writer_finish, the peer's
/// application sees nothing of it.
pub struct exonet_session_writer {
    inner: Arc<Inner>,
    /// None: the writer is being freed.
    orders: Option<mpsc::Sender<Order>>,
    task: Option<JoinHandle<()>>,
    token: Option<u64>,
}

/// Writes the message, and returns what the last order is to be told. None: the writer was freed.
async fn write(
    halves: &Halves,
    head: Message,
    begun: oneshot::Sender<Step>,
    orders: &mut mpsc::Receiver<Order>,
) -> Option<(Step, oneshot::Sender<Step>)> {
    let mut sender = halves.sender.lock().await;
    let writer = sender.as_mut().ok_or_else(over).and_then(|sender| Ok(sender.begin(head)?));
    let mut writer = match writer {
        Ok(writer) => writer,
        Err(fault) => return Some((Err(fault), begun)),
    };
    // The thread that asked waits for it.
    let _ = begun.send(Ok(None));
    while let Some(Order { data, reply }) = orders.recv().await {
        let Some(data) = data else {
            return Some((writer.finish().await.map(Some).map_err(Fault::from), reply));
        };
        match writer.write(&data).await {
            Ok(()) => drop(reply.send(Ok(None))),
            Err(error) => return Some((Err(error.into()), reply)),
        }
    }
    None
}

impl exonet_session_writer {
    fn begin(session: &exonet_session, head: Message, token: Option<u64>) -> Result<Self, Fault> {
        if session.halves.writing.swap(true, Ordering::AcqRel) {
            return Err(Fault::usage("a message of this session is being written already"));
        }
        let (inner, halves) = (Arc::clone(&session.inner), Arc::clone(&session.halves));
        let (orders, mut received) = mpsc::channel(1);
        let (begun, answer) = oneshot::channel();
        let task = inner.handle().spawn(async move {
            // A writer borrows the sender of its session, so it lives in a task and not in the handle.
            let last = tokio::select! {
                biased;
                _ = halves.over.wait() => None,
                last = write(&halves, head, begun, &mut received) => last,
            };
            // The sender is free again before the thread that waits knows.
            halves.writing.store(false, Ordering::Release);
            if let Some((step, reply)) = last {
                drop(reply.send(step));
            }
        });
        let writer = Self { inner, orders: Some(orders), task: Some(task), token };
        writer.inner.block_on(answer).unwrap_or_else(|_| Err(over()))?;
        Ok(writer)
    }

    fn order(&self, data: Option<Bytes>) -> Step {
        let ended = || {
            let text = "this message has ended, or its session has: begin another one";
            Fault::new(exonet_code::EXONET_CLOSED, text)
        };
        let (reply, answer) = oneshot::channel();
        self.inner.block_on(async {
            let orders = self.orders.as_ref().ok_or_else(ended)?;
            orders.send(Order { data, reply }).await.map_err(|_| ended())?;
            answer.await.unwrap_or_else(|_| Err(ended()))
        })
    }
}

impl Drop for exonet_session_writer {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(task) = self.task.take() {
            // An error is a panic of the task, which has been reported.
            let _ = self.inner.block_on(task);
        }
    }
}

/// Begins a message of a session that is written in chunks, for a body that is not in memory as a whole. Until its end,
/// no other message can be sent in the session: functions that would send one return EXONET_USAGE. `options`, which may
/// be NULL, are those of the whole message, without `no_wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_session_begin(
    session: Option<&exonet_session>,
    options: *const exonet_send_options,
    writer: Option<&mut MaybeUninit<*mut exonet_session_writer>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::handle(writer, "writer")?;
        let session = given(session, "session")?;
        // SAFETY: the caller gives NULL, or options with their size.
        let options: exonet_send_options = unsafe { raw::options(options, "options") }?;
        if options.no_wait() {
            return Err(Fault::usage("a message in chunks waits for room: options->no_wait must not be set"));
        }
        let head = options.message(&exonet_bytes::empty(), session.inner.journal())?;
        place.give(exonet_session_writer::begin(session, head, options.token())?);
        Ok(())
    })
}

/// Adds bytes to the message. It waits for room in the queue to the peer.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_writer_write(
    writer: Option<&exonet_session_writer>,
    data: exonet_bytes,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let data = data.copy("data")?;
        given(writer, "writer")?.order(Some(data)).map(drop)
    })
}

/// Ends the message: from here on the peer's application gets it, as a whole. The receipt, which may be NULL, tells its
/// outcome. The writer still has to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_writer_finish(
    writer: Option<&exonet_session_writer>,
    receipt: Option<&mut MaybeUninit<*mut exonet_receipt>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::optional(receipt);
        let writer = given(writer, "writer")?;
        if let Some(sent) = writer.order(None)? {
            hand_out(&writer.inner, &mut place, sent, writer.token);
        }
        Ok(())
    })
}

/// Frees a writer. If its message was not finished, the peer's application sees nothing of it.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_session_writer_free(writer: Option<Box<exonet_session_writer>>) {
    free(writer);
}
