//! Messages that another command hands over to `exon up`.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use exonet::error::SendError;
use exonet::{Confirm, Message, Node, Peer, PeerAddr, Receipt};
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::sleep;

use super::protocol::{Head, LONGEST_BODY, Part, Reply, Room, Settled};
use super::server::{Office, refusal};
use super::wire::{Lines, say};
use super::{Asker, Desk, Handed, Role, Taken};

/// The maximum number of messages of a client whose outcomes it has not read yet. No more are accepted.
const UNREAD: usize = 16_384;
/// The maximum number of numbers in a line.
const NUMBERS: usize = 4_096;
/// The time that a message waits for room before the client is told.
const WAITS: Duration = Duration::from_secs(1);

/// Accepts messages until the client has no more, and reports the outcomes that it asks for. The client may
/// disconnect at any time: accepted messages are still sent.
///
/// # Errors
/// The error, as the last line to the client.
pub(super) async fn take(
    office: &Office,
    head: Head,
    lines: Lines,
    to: &mut OwnedWriteHalf,
) -> Result<(), Reply> {
    let Role::Up(desk) = &office.role else {
        let command = office.role.command();
        let error = Reply::Error {
            error: format!("`exon {command}` runs this identity, and takes no messages of other commands"),
            hint: Some("send as another identity (--as NAME), or let `exon up` run this one".to_owned()),
        };
        return refuse_all(error, to).await;
    };
    let peer: PeerAddr = match head.peer.parse() {
        Ok(peer) => peer,
        Err(error) => return refuse_all(refusal(format!("{}: {error}", head.peer)), to).await,
    };
    let (count, counted) = watch::channel((0, false));
    let (number, numbers) = mpsc::unbounded_channel();
    let (tell, told) = mpsc::unbounded_channel();
    let intake = Intake {
        node: &office.node,
        peer: office.node.peer(peer),
        desk,
        count,
        number,
        asks: head.outcomes.then(|| (tell, Arc::new(Semaphore::new(UNREAD)))),
        head,
        body: Vec::new(),
    };
    let mut lines = lines;
    let count = counted.clone();
    let mut accepted = Accepted { count: counted, numbers, unsaid: VecDeque::new(), room: desk.room };
    let taken = {
        let mut report = pin!(report(&office.node, &mut accepted, told, to));
        // The end of the intake drops its ends of the channels, so the report ends when everything is reported.
        let taken = tokio::select! {
            taken = intake.all(&mut lines) => taken,
            said = &mut report => return said.or_else(unless_gone),
        };
        match taken {
            Ok(false) => return Ok(()),
            Ok(true) => tokio::select! {
                said = &mut report => said.or_else(unless_gone).map_err(|error| (error, 0)),
                // The client has disconnected, so there is nothing more to report.
                _ = lines.next::<Part>() => return Ok(()),
            },
            Err(error) => Err((error, count.borrow().0)),
        }
    };
    match taken {
        Ok(()) => drop(say(to, &Reply::Done).await),
        Err((error, n)) => {
            if office.node.journaled().await.is_ok() {
                // The client may have disconnected.
                let _ = accepted.tell(&office.node, to).await;
                let _ = say(to, &accepted_all(n)).await;
            }
            return Err(error);
        }
    }
    Ok(())
}

/// Takes no message of a handover, and tells the client so.
///
/// # Errors
/// `error`, as the last line to the client.
pub(super) async fn refuse_all(error: Reply, to: &mut OwnedWriteHalf) -> Result<(), Reply> {
    // The client may have disconnected.
    let _ = say(to, &accepted_all(0)).await;
    Err(error)
}

/// The node has taken `n` messages, and takes no other.
const fn accepted_all(n: u64) -> Reply {
    Reply::Accepted { n, numbers: Vec::new(), full: None, last: true }
}

/// The messages of a handover that the node has accepted, for the client.
struct Accepted {
    /// How many they are, and whether the next one waits for room.
    count: watch::Receiver<(u64, bool)>,
    /// Their places in the handover, and their numbers in the journal.
    numbers: mpsc::UnboundedReceiver<(u64, u64)>,
    /// Those of `numbers` that were not reported yet.
    unsaid: VecDeque<(u64, u64)>,
    room: Room,
}

impl Accepted {
    /// Reports the messages that are in the journal, once the journal has them.
    async fn tell(&mut self, node: &Node, to: &mut OwnedWriteHalf) -> Result<(), Option<Reply>> {
        let (n, full) = *self.count.borrow_and_update();
        // One forced write covers all messages that came in the meantime.
        node.journaled().await.map_err(|_| Some(refusal("the node has stopped")))?;
        while let Ok(number) = self.numbers.try_recv() {
            self.unsaid.push_back(number);
        }
        loop {
            let known = self.unsaid.partition_point(|(place, _)| *place <= n);
            let numbers: Vec<_> = self.unsaid.drain(..known.min(NUMBERS)).collect();
            let full = full.then_some(self.room);
            say(to, &Reply::Accepted { n, numbers, full, last: false }).await.map_err(|_| None)?;
            if known <= NUMBERS {
                return Ok(());
            }
        }
    }
}

fn unless_gone(error: Option<Reply>) -> Result<(), Reply> {
    error.map_or(Ok(()), Err)
}

/// Reports how many messages are in the journal, and their outcomes, until none is outstanding.
///
/// # Errors
/// None: the client has disconnected.
async fn report(
    node: &Node,
    accepted: &mut Accepted,
    mut told: mpsc::UnboundedReceiver<(Settled, OwnedSemaphorePermit)>,
    to: &mut OwnedWriteHalf,
) -> Result<(), Option<Reply>> {
    let (mut counting, mut asking) = (true, true);
    while counting || asking {
        tokio::select! {
            biased;
            changed = accepted.count.changed(), if counting => {
                counting = changed.is_ok();
                if counting {
                    accepted.tell(node, to).await?;
                }
            }
            settled = told.recv(), if asking => match settled {
                Some((settled, place)) => {
                    say(to, &Reply::Settled(settled)).await.map_err(|_| None)?;
                    drop(place);
                }
                None => asking = false,
            },
        }
    }
    Ok(())
}

/// The channel for outcomes, if the client wants them, and the places for outcomes that it has not read.
type Asks = Option<(mpsc::UnboundedSender<(Settled, OwnedSemaphorePermit)>, Arc<Semaphore>)>;

/// Takes the messages of one client.
struct Intake<'a> {
    node: &'a Node,
    peer: Peer,
    desk: &'a Desk,
    count: watch::Sender<(u64, bool)>,
    number: mpsc::UnboundedSender<(u64, u64)>,
    asks: Asks,
    head: Head,
    /// The pieces of a body that have arrived.
    body: Vec<u8>,
}

impl Intake<'_> {
    /// Accepts all messages. False: the client disconnected before the end of its messages.
    async fn all(mut self, lines: &mut Lines) -> Result<bool, Reply> {
        loop {
            match lines.next().await {
                Ok(Some(Part::Text(text))) => self.whole(text.into_bytes()).await?,
                Ok(Some(Part::Bytes { base64, more })) => {
                    let piece = BASE64.decode(base64).map_err(|e| refusal(format!("a body: {e}")))?;
                    self.body.extend_from_slice(&piece);
                    if self.body.len() > LONGEST_BODY {
                        return Err(refusal(format!(
                            "no body longer than {LONGEST_BODY} bytes is handed over"
                        )));
                    }
                    if !more {
                        let body = std::mem::take(&mut self.body);
                        self.whole(body).await?;
                    }
                }
                Ok(Some(Part::End)) => return Ok(true),
                Ok(None) => return Ok(false),
                Err(error) => return Err(refusal(format!("this is not a message: {error}"))),
            }
        }
    }

    /// Sends a message. Waits for room, and the client waits with it.
    async fn whole(&mut self, body: Vec<u8>) -> Result<(), Reply> {
        let place = match &self.asks {
            Some((_, places)) => Arc::clone(places).acquire_owned().await.ok(),
            None => None,
        };
        let size = body.len();
        let (before, _) = *self.count.borrow();
        let receipt = {
            // The look-up comes first, so that the wait that follows is a wait for room.
            let found = self.peer.look_up().await;
            found.map_err(|error| self.unsent(&error))?;
            let mut send = pin!(self.send(body));
            let sent = tokio::select! {
                biased;
                sent = &mut send => sent,
                () = sleep(WAITS) => {
                    self.count.send_replace((before, true));
                    send.await
                }
            };
            sent.map_err(|error| self.unsent(&error))?
        };
        let n = before + 1;
        // A message that has its outcome already has no number any more.
        let number = receipt.open_message().and_then(|message| self.node.waiting(&message, 0)?.number);
        if let Some(number) = number {
            // The client may have disconnected.
            let _ = self.number.send((n, number));
        }
        let asker = match (&self.asks, place) {
            (Some((tell, _)), Some(place)) => Some(Asker { n, tell: tell.clone(), place }),
            _ => None,
        };
        // The desk lasts as long as the node.
        let _ = self.desk.handed.send(Handed { taken: Taken { receipt, size, asker }, number });
        self.count.send_replace((n, false));
        Ok(())
    }

    fn unsent(&self, error: &SendError) -> Reply {
        refusal(format!("cannot send to {}: {error}", self.peer.id().short()))
    }

    async fn send(&self, body: Vec<u8>) -> Result<Receipt, SendError> {
        let head = &self.head;
        let message = Message::new(body).tag(head.tag.clone().into_bytes()).priority(head.priority.into());
        let confirm = if head.processed { Confirm::Processed } else { Confirm::Delivered };
        let message = message.confirm(confirm);
        let message = if head.early { message } else { message.early(false) };
        let message = match head.traceparent.as_deref().and_then(|parent| parent.parse().ok()) {
            Some(parent) => message.traceparent(parent),
            None => message,
        };
        let message = match head.deadline() {
            Some(deadline) => message.deadline(deadline),
            None => message,
        };
        // A permit does not wait for the disk: `report` does, for many messages at once. There may be no room for the
        // bytes of the message.
        match self.peer.reserve().await?.send(message.clone()) {
            Err(SendError::Full) => self.peer.send(message).await,
            sent => sent,
        }
    }
}
