//! Answers: a message is acknowledged, and another is sent, in one step.

use std::mem::MaybeUninit;
use std::sync::Arc;

use exo::receive::{AnswerError, NotAnswered};
use exo::session::SessionMessage;
use exo::{Delivery, Message, Peer, Receipt};

use super::{Guard, exonet_delivery};
use crate::border::{Out, border, given};
use crate::fault::{Fault, exonet_code, exonet_error};
use crate::node::{Inner, exonet_node};
use crate::options::exonet_send_options;
use crate::raw::{self, exonet_bytes, exonet_str};
use crate::receipt::{exonet_receipt, hand_out};
use crate::session::exonet_session;
use crate::stream::exonet_stream;

impl exonet_delivery {
    /// Takes the guard of a message that is not one of a session.
    fn message(&self) -> Result<Delivery, Fault> {
        match self.settle()? {
            Guard::Message(message) => Ok(message),
            guard @ Guard::Session(_) => {
                self.put_back(guard);
                Err(Fault::usage("this is a message of a session: answer it by exonet_session_answer"))
            }
        }
    }

    /// Takes the guard of a message of a session.
    fn session_message(&self) -> Result<SessionMessage, Fault> {
        match self.settle()? {
            Guard::Session(message) => Ok(message),
            guard @ Guard::Message(_) => {
                self.put_back(guard);
                Err(Fault::usage("this is not a message of a session: answer it by exonet_delivery_answer"))
            }
        }
    }

    /// The receipt of an answer, or the fault, after which the delivery is as it was if that is possible.
    fn answered<E, D>(&self, answered: Result<Receipt, AnswerError<E, D>>) -> Result<Receipt, Fault>
    where
        Fault: From<E>,
        Guard: From<D>,
    {
        answered.map_err(|error| {
            let (why, guard) = error.into_parts();
            if let Some(guard) = guard {
                self.put_back(guard.into());
            }
            match why {
                NotAnswered::Send(error) => Fault::from(error),
                NotAnswered::NotDelivered(error) => error.into(),
                NotAnswered::InDoubt => Fault::new(
                    exonet_code::EXONET_IN_DOUBT,
                    "the node was closed before the answer was on the disk: the next process of the identity may have sent it",
                ),
                NotAnswered::OtherNode => Fault::usage("the message came to another node than this one"),
                _ => Fault::new(exonet_code::EXONET_NOT_SENT, "the answer was not accepted"),
            }
        })
    }

    fn ack_and_send(&self, inner: &Inner, to: &Peer, message: Message) -> Result<Receipt, Fault> {
        let taken = self.message()?;
        self.answered(inner.block_on(taken.ack_and_send(to, message)))
    }
}

/// Reads the options of an answer and its message, has `send` send it, and hands the receipt out.
///
/// # Safety
/// `options` is NULL, or options with their size.
unsafe fn answer(
    inner: &Arc<Inner>,
    mut place: Option<Out<'_, *mut exonet_receipt>>,
    (body, options): (exonet_bytes, *const exonet_send_options),
    send: impl FnOnce(Message) -> Result<Receipt, Fault>,
) -> Result<(), Fault> {
    // SAFETY: as above.
    let options: exonet_send_options = unsafe { raw::options(options, "options") }?;
    if options.no_wait() {
        return Err(Fault::usage("options->no_wait is not for answers: they wait for room in the queue"));
    }
    let receipt = send(options.message(&body, inner.journal())?)?;
    hand_out(inner, &mut place, receipt, options.token());
    Ok(())
}

/// Acknowledges the message like exonet_delivery_ack, and sends an answer to its sender like exonet_send, in one step:
/// both happen, or neither, also if the process is killed and the node has a journal. `node` is the node that has
/// received the message. `options` and `receipt` may be NULL; `options->no_wait` is not possible.
///
/// If it fails, nothing was sent, and the delivery is as it was before: it can be acknowledged, rejected, put off, or
/// answered with something else. If it is freed instead, the message is handed out again. Only EXONET_NOT_DELIVERED,
/// and EXONET_CLOSED when the node has ended, leave nothing to do but free it. So does EXONET_IN_DOUBT: the node ended
/// before the answer was safely on the disk, and the next process of the identity may have done both. A message of a
/// session is answered by exonet_session_answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_delivery_answer(
    delivery: Option<&exonet_delivery>,
    node: Option<&exonet_node>,
    body: exonet_bytes,
    options: *const exonet_send_options,
    receipt: Option<&mut MaybeUninit<*mut exonet_receipt>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let place = Out::optional(receipt);
        let (delivery, inner) = (given(delivery, "delivery")?, given(node, "node")?.inner());
        let to = inner.core().node.peer(delivery.sender());
        // SAFETY: the caller gives NULL, or options with their size.
        unsafe { answer(inner, place, (body, options), |message| delivery.ack_and_send(inner, &to, message)) }
    })
}

/// Acknowledges the message, and sends another to any peer, which is given as to exonet_send, in one step. Everything
/// else is as for exonet_delivery_answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_delivery_ack_and_send(
    delivery: Option<&exonet_delivery>,
    node: Option<&exonet_node>,
    peer: exonet_str,
    body: exonet_bytes,
    options: *const exonet_send_options,
    receipt: Option<&mut MaybeUninit<*mut exonet_receipt>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let place = Out::optional(receipt);
        let (delivery, inner) = (given(delivery, "delivery")?, given(node, "node")?.inner());
        let to = inner.peer(&peer)?;
        // SAFETY: the caller gives NULL, or options with their size.
        unsafe { answer(inner, place, (body, options), |message| delivery.ack_and_send(inner, &to, message)) }
    })
}

/// Acknowledges a message, and sends another like exonet_stream_send, in one step: see exonet_delivery_answer. The
/// delivery may be of this stream, of another, or of none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_stream_ack_and_send(
    stream: Option<&exonet_stream>,
    delivery: Option<&exonet_delivery>,
    body: exonet_bytes,
    options: *const exonet_send_options,
    receipt: Option<&mut MaybeUninit<*mut exonet_receipt>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let place = Out::optional(receipt);
        let (stream, delivery) = (given(stream, "stream")?, given(delivery, "delivery")?);
        let inner = stream.inner();
        let send = |message| {
            inner.block_on(async {
                let mut sender = stream.sender().await;
                delivery.answered(sender.ack_and_send(delivery.message()?, message).await)
            })
        };
        // SAFETY: the caller gives NULL, or options with their size.
        unsafe { answer(inner, place, (body, options), send) }
    })
}

/// Acknowledges a message of a session, and sends another like exonet_session_send, in one step: see
/// exonet_delivery_answer. If the handle gives the session up while this waits for room, it returns EXONET_CLOSED, and the
/// message is handed out again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_session_answer(
    session: Option<&exonet_session>,
    delivery: Option<&exonet_delivery>,
    body: exonet_bytes,
    options: *const exonet_send_options,
    receipt: Option<&mut MaybeUninit<*mut exonet_receipt>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let place = Out::optional(receipt);
        let (session, delivery) = (given(session, "session")?, given(delivery, "delivery")?);
        let inner = session.inner();
        let send = |message| {
            session.with_sender(async |sender| {
                delivery.answered(sender.answer(delivery.session_message()?, message).await)
            })
        };
        // SAFETY: the caller gives NULL, or options with their size.
        unsafe { answer(inner, place, (body, options), send) }
    })
}
