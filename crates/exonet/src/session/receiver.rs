//! The receiving direction of a session.

use std::future::pending;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use exonet_proto::MessageId;
use exonet_proto::node::Outcome;
use tokio::time::Instant;

use super::message::SessionMessage;
use super::state::{SessionEnd, State};
use super::wire::Said;
use super::{LONGEST, SessionSendError};
use crate::receive::delivery::Delivery;
use crate::send::receipt::Receipt;
use crate::stream::{StreamError, StreamReceiver};

/// The errors of receiving in a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// This number of messages, or parts of messages, is missing here: the peer gave them up, or was told that their
    /// outcome is Unknown. The session continues after them.
    #[error("{0} messages are missing before the next one of this session")]
    Missing(u64),
    /// The session has ended, but not because both ends have closed it.
    #[error("the session has ended: {0}")]
    Ended(SessionEnd),
    /// The node did not accept the last message of this end.
    #[error(transparent)]
    Send(SessionSendError),
    /// The peer did not answer in time.
    #[error("the peer is away: not all was settled in time")]
    Away,
    /// The node is closed.
    #[error("the node is closed")]
    Closed,
}

/// Receives the messages of the peer in a session, in order.
#[derive(Debug)]
pub struct SessionReceiver {
    /// None: this end reads nothing more.
    stream: Option<StreamReceiver>,
    state: State,
    /// The longest message that this end receives, in bytes.
    pub(super) longest: usize,
    parts: Parts,
    /// The first message that was received after a former process began the session.
    next: Option<Delivery>,
    /// At the client, the receipt of the message that opens the session, until that message is settled.
    pub(super) opening: Option<Receipt>,
}

/// The parts of the message that is being put together.
#[derive(Debug, Default)]
struct Parts {
    data: BytesMut,
    /// The number of bytes so far, including those beyond the limit. None: the first part is missing.
    len: Option<u64>,
    /// The whole message and the id of its last part, in case the node hands that part out again.
    whole: Option<(MessageId, Bytes)>,
}

impl Parts {
    fn add(&mut self, first: bool, data: &[u8], longest: usize) {
        if first {
            *self = Self { len: Some(0), ..Self::default() };
        }
        if let Some(len) = &mut self.len {
            *len = len.saturating_add(data.len() as u64);
            if *len <= longest as u64 {
                self.data.extend_from_slice(data);
            }
        }
    }

    /// Returns the message that ends with this part, or the reason to reject it.
    fn end(&mut self, id: MessageId, total: u64, data: &[u8], longest: usize) -> Result<Bytes, String> {
        if let Some((_, whole)) = self.whole.as_ref().filter(|(of, _)| *of == id) {
            return Ok(whole.clone());
        }
        self.add(false, data, longest);
        let (len, data) = (self.len.take(), self.data.split().freeze());
        if len != Some(total) {
            return Err("its first parts were given up, or went to a process that has ended".to_owned());
        }
        if total > longest as u64 {
            return Err(too_long(total, longest));
        }
        self.whole = Some((id, data.clone()));
        Ok(data)
    }
}

impl SessionReceiver {
    pub(super) fn new(stream: StreamReceiver, state: State) -> Self {
        Self {
            stream: Some(stream),
            state,
            longest: LONGEST,
            parts: Parts::default(),
            next: None,
            opening: None,
        }
    }

    pub(super) const fn state(&self) -> &State {
        &self.state
    }

    /// Waits for the first message of the stream, and returns it unchanged, with whether it opens the stream.
    pub(super) async fn first(&mut self) -> Result<Option<(Delivery, bool)>, StreamError> {
        let Some(stream) = self.stream.as_mut() else { return Ok(None) };
        let first = stream.recv().await?;
        Ok(first.map(|first| (first, stream.has_opened())))
    }

    /// Keeps the first message for [`Self::recv`].
    pub(super) fn begin_with(&mut self, first: Delivery) {
        self.next = Some(first);
    }

    /// Waits for the next message, and returns it under a guard. None: the peer has closed the session, and every
    /// message was received.
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`SessionError`]. `Missing` is returned once, and the next call continues after the gap. Any other error is
    /// returned by every later call.
    pub async fn recv(&mut self) -> Result<Option<SessionMessage>, SessionError> {
        loop {
            let delivery = match self.next.take() {
                Some(first) => first,
                None => match self.wait().await? {
                    Some(delivery) => delivery,
                    None => return Ok(None),
                },
            };
            if let Some(found) = self.heed(delivery) {
                return Ok(Some(found));
            }
        }
    }

    /// Returns the next message under a guard, if it is there, without waiting. None: no message has come yet;
    /// `Some(None)`: the peer has closed the session, and every message was received.
    ///
    /// Whatever else the peer says in the session is noticed too, so a program that polls a session needs no task for
    /// its [events](super::Session::events). This method also works outside of an async runtime.
    ///
    /// ```
    /// # use exonet::{Allow, Node};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// let mut chat = alice.peer(bob.peer_addr()).session("chat")?.open().await?;
    /// let mut events = chat.events();
    /// assert!(chat.try_recv()?.is_none(), "nothing has come yet");
    /// # let mut served = bob.accept_session().await?;
    /// # served.send("hello").await?;
    /// # let (mut sender, _receiver) = served.split();
    /// # sender.close().await?;
    ///
    /// // One round of a program with a loop of its own, such as a game.
    /// let mut open = true;
    /// while open {
    ///     match chat.try_recv()? {
    ///         None => tokio::task::yield_now().await, // the other work of the round
    ///         Some(Some(message)) => message.ack()?,
    ///         Some(None) => open = false,
    ///     }
    ///     while let Some(event) = events.try_next() {
    ///         println!("{event:?}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Self::recv`].
    pub fn try_recv(&mut self) -> Result<Option<Option<SessionMessage>>, SessionError> {
        loop {
            let delivery = match self.next.take() {
                Some(first) => first,
                None => match self.look()? {
                    Some(Some(delivery)) => delivery,
                    Some(None) => return Ok(Some(None)),
                    None => return Ok(None),
                },
            };
            if let Some(found) = self.heed(delivery) {
                return Ok(Some(Some(found)));
            }
        }
    }

    /// Returns the next message of the stream, or the end, if it is there. None: there is nothing yet.
    fn look(&mut self) -> Result<Option<Option<Delivery>>, SessionError> {
        if let Some(end) = self.state.ended().filter(|end| *end != SessionEnd::Closed) {
            return Err(SessionError::Ended(end));
        }
        let Some(stream) = self.stream.as_mut() else { return Ok(Some(None)) };
        if let Some(next) = stream.look() {
            return self.heard(next).map(Some);
        }
        if let Some(why) = refusal(&mut self.opening) {
            return self.ends(SessionEnd::Refused(why)).map(Some);
        }
        if self.state.expires().is_some_and(|at| at <= Instant::now()) {
            return self.ends(SessionEnd::Expired).map(Some);
        }
        Ok(None)
    }

    /// Waits for the next message of the stream. None: there are no more.
    async fn wait(&mut self) -> Result<Option<Delivery>, SessionError> {
        if let Some(end) = self.state.ended().filter(|end| *end != SessionEnd::Closed) {
            return Err(SessionError::Ended(end));
        }
        let Some(stream) = self.stream.as_mut() else { return Ok(None) };
        let next = loop {
            let expires = self.state.expires();
            let expired = async {
                match expires {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                next = stream.recv() => break next,
                why = not_taken(&mut self.opening) => return self.ends(SessionEnd::Refused(why)),
                () = expired => {}
            }
            // This end may have sent something meanwhile.
            if self.state.expires().is_none_or(|later| expires.is_none_or(|at| later <= at)) {
                return self.ends(SessionEnd::Expired);
            }
        };
        self.heard(next)
    }

    /// Interprets what the stream has returned.
    fn heard(
        &mut self,
        next: Result<Option<Delivery>, StreamError>,
    ) -> Result<Option<Delivery>, SessionError> {
        match next {
            Ok(Some(delivery)) => {
                self.state.touch();
                Ok(Some(delivery))
            }
            // The closing message of the peer came earlier, and this is the end of its stream.
            Ok(None) if self.state.is_closing() => Ok(None),
            Ok(None) | Err(StreamError::Reset) => self.ends(SessionEnd::Aborted),
            Err(StreamError::Missing(n)) => Err(SessionError::Missing(n)),
            Err(StreamError::Continues(_) | StreamError::Broken) => self.ends(SessionEnd::Forgotten),
            Err(StreamError::Closed) => Err(SessionError::Closed),
        }
    }

    /// Interprets a message of the stream. None: it contains nothing for the application.
    fn heed(&mut self, delivery: Delivery) -> Option<SessionMessage> {
        let body = delivery.body().as_whole().cloned().unwrap_or_default();
        let Some(said) = Said::read(body) else {
            delivery.reject("it is nothing that a session knows");
            return None;
        };
        // If the acknowledgement fails, the message is handed out again later.
        match said {
            Said::Part { first: true, last: true, data, .. } => {
                if data.len() <= self.longest {
                    return Some(SessionMessage::new(delivery, data));
                }
                delivery.reject(too_long(data.len() as u64, self.longest));
            }
            Said::Part { last: true, total, data, .. } => {
                let total = total.unwrap_or_default();
                match self.parts.end(delivery.id(), total, &data, self.longest) {
                    Ok(whole) => return Some(SessionMessage::new(delivery, whole)),
                    Err(why) => delivery.reject(why),
                }
            }
            Said::Part { first, data, .. } => {
                if delivery.ack().is_ok() {
                    self.parts.add(first, &data, self.longest);
                }
            }
            Said::Accept => {
                if delivery.ack().is_ok() {
                    self.state.accept();
                }
            }
            Said::Open { .. } => drop(delivery.ack()),
            Said::Bye(code, reason) => {
                if delivery.ack().is_ok() {
                    self.state.bye(code, &reason);
                }
            }
        }
        None
    }

    fn ends(&mut self, end: SessionEnd) -> Result<Option<Delivery>, SessionError> {
        self.state.end(end.clone());
        self.end_reading(match end {
            SessionEnd::Expired => "the session has expired",
            _ => "the session has ended",
        });
        Err(SessionError::Ended(end))
    }

    /// Stops reading: rejects the messages that still come, with this reason.
    pub(super) fn end_reading(&mut self, reason: &str) {
        self.next = None;
        if let Some(stream) = self.stream.take().filter(|_| !self.state.is_closing()) {
            stream.stop(reason);
        }
    }
}

/// Waits until the peer has refused or rejected the message that opens the session, and returns the reason.
async fn not_taken(opening: &mut Option<Receipt>) -> Arc<str> {
    if let Some(receipt) = opening {
        receipt.outcome().await;
        if let Some(why) = refusal(opening) {
            return why;
        }
    }
    pending().await
}

fn too_long(len: u64, longest: usize) -> String {
    format!("it has {len} bytes, and this session takes messages of at most {longest}")
}

/// The peer's reason for not taking the message that opens the session. None: the peer has taken the message, or may
/// still take it. A node without sessions takes no such message, and thus says nothing in the session.
fn refusal(opening: &mut Option<Receipt>) -> Option<Arc<str>> {
    let receipt = opening.as_ref()?;
    let outcome = receipt.settled()?.outcome;
    let reason = receipt.reason();
    *opening = None;
    match outcome {
        Outcome::Refused(refusal) => Some(refusal.to_string().into()),
        Outcome::Rejected { .. } => Some(reason.unwrap_or_else(|| "the peer does not take it".into())),
        _ => None,
    }
}

impl Drop for SessionReceiver {
    fn drop(&mut self) {
        if !self.state.is_left() {
            self.end_reading("the session was given up");
        }
    }
}
