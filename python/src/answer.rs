//! Answers: a message is acknowledged, and another is sent, in one step.

use std::sync::Arc;

use exonet::receive::{AnswerError, NotAnswered};
use exonet::session::SessionMessage;
use exonet::{Delivery as CoreDelivery, Message, Peer as CorePeer, Receipt as CoreReceipt};
use pyo3::prelude::*;

use crate::delivery::{Delivery, Guard};
use crate::fault::{Fault, Field};
use crate::node::Inner;
use crate::op::{Operation, work};
use crate::receipt::Receipt;

/// Takes the guard of a message that is not one of a session.
pub(crate) fn message_of(delivery: &Delivery) -> Result<CoreDelivery, Fault> {
    match delivery.open()? {
        Guard::Message(message) => Ok(*message),
        guard @ Guard::Session(_) => {
            delivery.put_back(guard);
            Err(Fault::usage("this is a message of a session: use `session.answer(delivery, body)`"))
        }
    }
}

/// Takes the guard of a message of a session.
pub(crate) fn session_message_of(delivery: &Delivery) -> Result<SessionMessage, Fault> {
    match delivery.open()? {
        Guard::Session(message) => Ok(*message),
        guard @ Guard::Message(_) => {
            delivery.put_back(guard);
            Err(Fault::usage(
                "this is not a message of a session: use `delivery.answer(body)`, or `stream.ack_and_send(delivery, body)`",
            ))
        }
    }
}

/// The receipt of an answer, or the fault that has the delivery, which is open again.
pub(crate) fn settle<E, D>(
    delivery: Py<Delivery>,
    answered: Result<CoreReceipt, AnswerError<E, D>>,
) -> Result<CoreReceipt, Fault>
where
    Fault: From<E>,
    Guard: From<D>,
{
    let (why, guard) = match answered {
        Ok(receipt) => return Ok(receipt),
        Err(error) => error.into_parts(),
    };
    let cause = match why {
        NotAnswered::Send(error) => Fault::from(error),
        NotAnswered::NotDelivered(error) => return Err(error.into()),
        NotAnswered::InDoubt => {
            return Err(Fault::because(
                "AnswerError",
                "the node closed before the answer was on the disk: the next process of the identity may have sent it",
                Fault::closed(),
            ));
        }
        NotAnswered::OtherNode => {
            Fault::usage("the message came to another node of this process: use a peer of that node")
        }
        _ => Fault::new("SendError", "the answer was not accepted"),
    };
    Err(match guard {
        Some(guard) => {
            delivery.get().put_back(guard.into());
            refused(delivery, cause)
        }
        None => not_sent(cause),
    })
}

fn not_sent(cause: Fault) -> Fault {
    Fault::because("AnswerError", "the answer was not sent", cause)
}

/// The fault of an answer to a delivery that is open.
pub(crate) fn refused(delivery: Py<Delivery>, cause: Fault) -> Fault {
    not_sent(cause).with("delivery", Field::Object(delivery.into_any()))
}

/// See `Delivery.answer`.
pub(crate) fn answer(
    delivery: &Bound<'_, Delivery>,
    inner: &Arc<Inner>,
    message: Message,
) -> PyResult<Operation> {
    let (delivery, kept) = (delivery.clone().unbind(), Arc::clone(inner));
    let answer = async move {
        let answered = message_of(delivery.get())?.answer(message).await;
        drop(kept);
        settle(delivery, answered)
    };
    Ok(operation(inner, "Delivery.answer()", answer))
}

/// See `Delivery.ack_and_send`.
pub(crate) fn ack_and_send(
    delivery: &Bound<'_, Delivery>,
    inner: &Arc<Inner>,
    to: CorePeer,
    message: Message,
) -> PyResult<Operation> {
    let delivery = delivery.clone().unbind();
    let send = async move {
        let sent = message_of(delivery.get())?.ack_and_send(&to, message).await;
        settle(delivery, sent)
    };
    Ok(operation(inner, "Delivery.ack_and_send()", send))
}

fn operation(
    inner: &Arc<Inner>,
    name: &'static str,
    send: impl Future<Output = Result<CoreReceipt, Fault>> + Send + 'static,
) -> Operation {
    let handle = inner.runtime.clone();
    let give = move |py: Python<'_>, receipt| Receipt::give(py, handle, receipt);
    Operation::new(&inner.runtime, name, work(send, give))
}
