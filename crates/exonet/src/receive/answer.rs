//! Answers: a message is acknowledged, and another is sent, in one step.

use std::sync::Arc;

use exonet_proto::node::{DeliveryKey, Position, SendError as CoreError};

use crate::engine::Phase;
use crate::engine::sending::Way;
use crate::error::{Closed, NotDelivered, SendError};
use crate::peer::Peer;
use crate::peer_addr::PeerAddr;
use crate::receive::delivery::Delivery;
use crate::send::line::wait_for_room;
use crate::send::message::{Message, take_turns};
use crate::send::permit::Permit;
use crate::send::receipt::Receipt;
use crate::send::receipts::SlotIndex;
use crate::shared::Shared;

/// The reason for which a message was neither acknowledged nor answered. `E` is the error of sending in the same way without
/// an acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAnswered<E = SendError> {
    /// The answer was not accepted.
    #[error("the answer was not sent: {0}")]
    Send(E),
    /// The message could not be acknowledged: its record is gone, or its body was not read to the end. Nothing was sent.
    #[error(transparent)]
    NotDelivered(#[from] NotDelivered),
    /// The node stopped while it waited for the disk. The next process of the identity may have acknowledged the message and sent
    /// the answer, or neither.
    #[error(
        "the node stopped before the answer was on the disk: the next process of the identity may have sent it"
    )]
    InDoubt,
    /// The message came to another node of this process than the one that is to send.
    #[error("the message came to another node of this process")]
    OtherNode,
}

/// A message was neither acknowledged nor answered, unless the reason is [`NotAnswered::InDoubt`]. The error has the message, still under its guard (`D`), so that the
/// application can acknowledge or [reject](Delivery::reject) it, [put it off](Delivery::retry_after), or answer with
/// something else.
///
/// If the error is dropped, or is passed on and dropped elsewhere, the message is handed out again, or rejected if this was its last
/// [attempt](crate::Builder::attempts). An application whose answer fails each time, such as one that is too large, would get it
/// again at once.
///
/// ```
/// # use exonet::{Allow, Node, Outcome};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
/// # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").limits(|limits| limits.message = 1_000).build().await?;
/// let question = alice.peer(bob.peer_addr()).send("what is there?").await?;
///
/// let listing = vec![0; 2_000];
/// if let Err(error) = bob.recv().await?.answer(listing).await {
///     let reason = error.to_string();
///     // None: the message was not delivered, or the node has stopped.
///     if let Some(delivery) = error.into_delivery() {
///         delivery.reject(reason);
///     }
/// }
///
/// assert!(matches!(question.await.outcome, Outcome::Rejected { .. }));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
#[non_exhaustive]
pub struct AnswerError<E = SendError, D = Delivery> {
    /// The reason.
    pub why: NotAnswered<E>,
    /// Boxed, since a result is no smaller than its error.
    delivery: Option<Box<D>>,
}

impl<E, D> AnswerError<E, D> {
    /// The message, still under its guard. None: it could not be acknowledged ([`NotAnswered::NotDelivered`]), or the node has stopped.
    pub fn delivery(&self) -> Option<&D> {
        self.delivery.as_deref()
    }

    /// Takes the message out of the error: see [`Self::delivery`].
    pub fn into_delivery(self) -> Option<D> {
        self.delivery.map(|delivery| *delivery)
    }

    /// The reason, and the message: see [`Self::delivery`].
    pub fn into_parts(self) -> (NotAnswered<E>, Option<D>) {
        (self.why, self.delivery.map(|delivery| *delivery))
    }

    /// Changes the error of sending.
    pub(crate) fn map<F>(self, change: impl FnOnce(E) -> F) -> AnswerError<F, D> {
        let why = match self.why {
            NotAnswered::Send(error) => NotAnswered::Send(change(error)),
            NotAnswered::NotDelivered(error) => NotAnswered::NotDelivered(error),
            NotAnswered::InDoubt => NotAnswered::InDoubt,
            NotAnswered::OtherNode => NotAnswered::OtherNode,
        };
        AnswerError { why, delivery: self.delivery }
    }

    /// Changes what the message is under.
    pub(crate) fn map_delivery<G>(self, change: impl FnOnce(D) -> G) -> AnswerError<E, G> {
        AnswerError { why: self.why, delivery: self.delivery.map(|delivery| Box::new(change(*delivery))) }
    }
}

impl<E> AnswerError<E> {
    /// `taken` was not answered, and its guard is as it was.
    pub(crate) fn giving_back(taken: Delivery, why: NotAnswered<E>) -> Self {
        // After the end of the node, nothing can be done with it any more.
        let has_stopped = taken.shared().look(|engine| engine.phase >= Phase::Stopped);
        Self { why, delivery: (!has_stopped).then(|| Box::new(taken)) }
    }

    /// Its guard has ended.
    const fn without(why: NotAnswered<E>) -> Self {
        Self { why, delivery: None }
    }
}

impl Delivery {
    /// Acknowledges the message like [`Self::ack`], and sends `answer` to its sender, in one step: both happen, or neither. A
    /// node with a journal writes both together, so that a crash keeps both or neither. The answer and the news that
    /// the message is delivered leave in one packet if there is room.
    ///
    /// It waits for room in the queue to the peer, and holds the message meanwhile. Two nodes of which each only answers the
    /// messages of the other, and whose queues to each other are full, would wait for ever: there, acknowledge first. Cancel-safe: if the future is dropped early, nothing was sent, and the
    /// message is handed out again. At [`Durability::Batched`](crate::Durability::Batched) and
    /// [`Sync`](crate::Durability::Sync) it then waits for the disk: if it is dropped during that time, both have happened.
    ///
    /// ```
    /// # use exonet::{Allow, Node, Outcome};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// let question = alice.peer(bob.peer_addr()).send("how are you?").await?;
    ///
    /// let answer = bob.recv().await?.answer("very well").await?;
    ///
    /// assert_eq!(alice.recv().await?.take()?.body.bytes(100).await?, "very well");
    /// assert_eq!(question.await.outcome, Outcome::Delivered);
    /// assert_eq!(answer.await.outcome, Outcome::Delivered);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AnswerError`], which gives the message back if it can still be acknowledged. Nothing has been sent, unless the reason is
    /// [`NotAnswered::InDoubt`].
    pub async fn answer(self, answer: impl Into<Message>) -> Result<Receipt, AnswerError> {
        let to = Arc::new(PeerAddr::from(self.from()));
        let shared = Arc::clone(self.shared());
        take_and_send(&shared, &to, self, answer.into(), Way::Plain).await
    }

    /// Acknowledges the message, and sends another message to any peer, in one step: a stage of a pipeline that neither
    /// loses nor repeats a message that its journal keeps. Everything else is as for [`Self::answer`].
    ///
    /// # Errors
    /// [`AnswerError`], which gives the message back if it can still be acknowledged. Nothing has been sent, unless the reason is
    /// [`NotAnswered::InDoubt`].
    pub async fn ack_and_send(self, to: &Peer, message: impl Into<Message>) -> Result<Receipt, AnswerError> {
        take_and_send(to.shared(), &to.to, self, message.into(), Way::Plain).await
    }
}

impl Permit {
    /// Acknowledges a message and sends another, in one step. Does not wait for room, unlike [`Delivery::ack_and_send`]. At
    /// [`Durability::Batched`](crate::Durability::Batched) and [`Sync`](crate::Durability::Sync) it waits for the disk. If
    /// the caller drops the future during that wait, both steps have happened.
    ///
    /// # Errors
    /// The errors of [`Delivery::ack_and_send`]. [`SendError::Full`]: other messages have used up the limit on *bytes*,
    /// since a permit reserves no bytes.
    pub async fn ack_and_send(
        self,
        delivery: Delivery,
        message: impl Into<Message>,
    ) -> Result<Receipt, AnswerError> {
        let (shared, taken) = (Arc::clone(&self.shared), delivery.key());
        if !Arc::ptr_eq(&shared, delivery.shared()) {
            return Err(AnswerError::giving_back(delivery, NotAnswered::OtherNode));
        }
        let message = Some(message.into());
        let mut step = Step { shared: &shared, to: &self.to, taken, message, way: Way::Reserved };
        let queued = step.run();
        // The message is in its place. The permit need not wait for the disk.
        drop(self);
        ended(&shared, delivery, queued.map_err(SendError::from)).await
    }
}

/// Acknowledges `taken` and queues `message` as soon as the queue has room.
pub(crate) async fn take_and_send(
    shared: &Arc<Shared>,
    to: &Arc<PeerAddr>,
    taken: Delivery,
    message: Message,
    way: Way,
) -> Result<Receipt, AnswerError> {
    if !Arc::ptr_eq(shared, taken.shared()) {
        return Err(AnswerError::giving_back(taken, NotAnswered::OtherNode));
    }
    take_turns(message.weight()).await;
    if let Err(error) = shared.resolve(to).await {
        return Err(AnswerError::giving_back(taken, NotAnswered::Send(error)));
    }
    let mut step = Step { shared, to, taken: taken.key(), message: Some(message), way };
    let queued = wait_for_room(shared, to.id, || step.run()).await;
    ended(shared, taken, queued).await
}

/// The step that acknowledges one message and queues another.
struct Step<'a> {
    shared: &'a Arc<Shared>,
    to: &'a PeerAddr,
    taken: DeliveryKey,
    message: Option<Message>,
    way: Way,
}

/// The slot of the receipt of the queued message, and the end of the journal at that time. None: the message to
/// acknowledge was not delivered.
type Queued = Option<(SlotIndex, Option<Position>)>;

impl Step<'_> {
    fn run(&mut self) -> Result<Queued, CoreError> {
        let Self { shared, to, taken, ref mut message, way } = *self;
        let hints = shared.names.known(to);
        shared.step(|engine, now| {
            let queued = engine.take_and_send(now, taken, to.id, &hints, message, way)?;
            Ok(queued.map(|slot| (slot, engine.accepted_at())))
        })
    }
}

/// Converts the result of the step. If the step was made, waits for the disk.
async fn ended(
    shared: &Arc<Shared>,
    taken: Delivery,
    queued: Result<Queued, SendError>,
) -> Result<Receipt, AnswerError> {
    let queued = match queued {
        Ok(queued) => queued,
        Err(SendError::InDoubt) => return Err(AnswerError::without(NotAnswered::InDoubt)),
        Err(error) => return Err(AnswerError::giving_back(taken, NotAnswered::Send(error))),
    };
    // Whether it was acknowledged or could not be: it is not at the application any more.
    taken.let_go();
    let Some((slot, at)) = queued else {
        return Err(AnswerError::without(NotDelivered.into()));
    };
    let receipt = Receipt::new(Arc::clone(shared), slot);
    match shared.until_safe(at).await {
        Ok(()) => Ok(receipt),
        Err(Closed) => Err(AnswerError::without(NotAnswered::InDoubt)),
    }
}
