//! Handles one message: shows, stores or refuses it, and only then acknowledges it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use exonet::{Body, Delivery, Message, Node, NodeId, Outcome, Priority, Receipt};
use serde::Serialize;
use tokio::io::AsyncReadExt;

use super::patient::{Patience, Patient};
use crate::failure::Failure;
use crate::output::Output;
use crate::store::{Refusal, SafePath, Store};
use crate::text;
use crate::transfer::{self, Refused};
use crate::units::{Size, count};

/// The longest part of a message that is held in memory if the message is only shown.
const LONGEST_SHOWN: u64 = 1 << 20;
/// The longest line of a stored message that is also shown.
const LONGEST_GLANCE: usize = 200;
/// The time limit for a sender to receive the reason of a refusal.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(30);

/// The result of a delivery.
pub(in crate::command) enum Taken {
    Message {
        size: u64,
    },
    File {
        from: NodeId,
        path: String,
        size: u64,
        already_there: bool,
    },
    Refused {
        from: NodeId,
        what: String,
        reason: String,
    },
    /// A file that this machine cannot store at the moment. Its sender tries again.
    NotNow {
        from: NodeId,
        error: io::Error,
    },
    /// The message is not delivered: its sender gave it up, or one of the two nodes has lost its state.
    Nothing {
        reason: String,
    },
    /// The message is not delivered, since this machine cannot store it at the moment. It is tried again.
    Stuck {
        delivery: Delivery,
        error: io::Error,
    },
}

#[derive(Serialize)]
struct MessageLine {
    r#type: &'static str,
    from: String,
    id: String,
    tag: String,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    /// How many bytes of the body `text` or `hex` lacks at its end, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_shown: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// The name of the stream in which the message arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<String>,
    /// The trace that the message is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
}

/// The state that is needed to handle a delivery.
pub(super) struct Listener {
    pub(super) node: Node,
    pub(super) output: Output,
    pub(super) raw: bool,
    pub(super) store: Option<Arc<Store>>,
    pub(super) patience: Patience,
}

impl Listener {
    /// Shows, stores or refuses a message, and only then acknowledges it. The error means that standard output has
    /// failed.
    pub(super) async fn take(self: Arc<Self>, mut delivery: Delivery) -> Result<Taken, Failure> {
        let told = match &self.store {
            Some(store) => self.keep(store, &mut delivery).await,
            None => self.show(&mut delivery, false).await,
        };
        self.told(delivery, told).await
    }

    /// Shows a message of a stream, and only then acknowledges it.
    pub(super) async fn take_in_stream(&self, mut delivery: Delivery) -> Result<Taken, Failure> {
        let told = self.show(&mut delivery, true).await;
        self.told(delivery, told).await
    }

    async fn told(&self, delivery: Delivery, told: Result<u64, Refusal>) -> Result<Taken, Failure> {
        let id = delivery.id();
        let nothing = |error| Taken::Nothing { reason: format!("{id}: {error}") };
        match told {
            // The message has been shown or stored, so it is acknowledged.
            Ok(size) => Ok(match delivery.ack() {
                Ok(()) => Taken::Message { size },
                Err(error) => nothing(error.to_string()),
            }),
            Err(Refusal::GivenUp(error)) => Ok(nothing(error.to_string())),
            Err(Refusal::Output(failure)) => Err(failure
                .broken_output()
                .hint("messages that were not printed were not taken: their senders keep them")),
            Err(Refusal::Disk(error)) => Ok(Taken::Stuck { delivery, error }),
            Err(refusal) => Ok(self.refuse(delivery, refusal.to_string()).await),
        }
    }

    /// The body, which fails when its sender is silent for too long.
    fn body<'a>(&self, delivery: &'a mut Delivery) -> Patient<&'a mut Body> {
        Patient::new(delivery.body_mut(), self.patience.clone())
    }

    /// Stores a message under its id. Returns the length of its body.
    async fn keep(&self, store: &Arc<Store>, delivery: &mut Delivery) -> Result<u64, Refusal> {
        let (id, len) = (delivery.id(), delivery.body().len());
        let begin = || store.begin(SafePath::of_message(id), len);
        let landing = match begin() {
            Err(Refusal::Full(_)) => {
                let store = Arc::clone(store);
                // If the recount fails, the store stays as full as it was.
                let _ = tokio::task::spawn_blocking(move || store.recount()).await;
                begin()?
            }
            begun => begun?,
        };
        let writer = landing.writer()?;
        let mut hash = blake3::Hasher::new();
        let mut body = self.body(delivery);
        let mut beginning = Vec::new();
        let seen = |piece: &[u8]| {
            hash.update(piece);
            let room = LONGEST_GLANCE.saturating_sub(beginning.len());
            beginning.extend(piece.iter().take(room));
        };
        let size = transfer::pour(&mut body, writer, len, seen).await?;
        // Reads the body to its end, so that its completeness is known.
        transfer::drain(&mut body).await.map_err(Refusal::GivenUp)?;
        let name = landing.name().clone();
        landing.finish(hash.finalize(), size).await?;
        let line = message_line(delivery, size, None, Some(name.to_string()));
        let from = delivery.from().short();
        let is_word = beginning.len() < LONGEST_GLANCE && !beginning.contains(&b'\n');
        let text = if is_word && !beginning.is_empty() && !text::is_binary(&beginning) {
            format!("{from}  {}  ({} in {name})", text::escape(&beginning), Size(size))
        } else {
            format!("{from}  {} in {name}", Size(size))
        };
        self.print(&line, &text).map(|()| size)
    }

    /// Prints a message. Returns the length of its body.
    async fn show(&self, delivery: &mut Delivery, in_stream: bool) -> Result<u64, Refusal> {
        if self.raw {
            return self.copy_out(delivery).await;
        }
        let mut content = Vec::new();
        let mut body = self.body(delivery);
        let given_up = Refusal::GivenUp;
        (&mut body).take(LONGEST_SHOWN).read_to_end(&mut content).await.map_err(given_up)?;
        let mut rest = transfer::drain(&mut body).await.map_err(given_up)?;
        let size = rest.saturating_add(u64::try_from(content.len()).unwrap_or(u64::MAX));
        if rest > 0 {
            rest = rest.saturating_add(cut_at_character(&mut content));
        }
        let from = delivery.from().short();
        let mut line = if text::is_binary(&content) && self.output.is_terminal() {
            format!("{from}  {} of binary data{}", Size(size), text::dump(&content))
        } else {
            format!("{from}  {}", text::escape(&content))
        };
        if rest > 0 {
            line.push_str(&format!(" ... {} more bytes, not shown", count(rest)));
        }
        let mut json = message_line(delivery, size, Some(content), None);
        json.not_shown = (rest > 0).then_some(rest);
        if in_stream {
            json.stream = Some(core::mem::take(&mut json.tag));
        }
        self.print(&json, &line).map(|()| size)
    }

    async fn copy_out(&self, delivery: &mut Delivery) -> Result<u64, Refusal> {
        let mut out = tokio::io::stdout();
        let len = delivery.body().len();
        let mut body = self.body(delivery);
        let size = transfer::pour(&mut body, &mut out, len, |_| ()).await.map_err(Refusal::of_output)?;
        transfer::drain(&mut body).await.map_err(Refusal::GivenUp)?;
        transfer::pour(&b"\n"[..], out, 1, |_| ()).await.map_err(Refusal::of_output)?;
        Ok(size)
    }

    fn print(&self, line: &impl Serialize, text: &str) -> Result<(), Refusal> {
        let told = self.output.line(line).and_then(|()| self.output.text(text));
        told.map_err(Refusal::Output)
    }

    /// Sends the reason to the sender, and only then acknowledges and discards the message: a sender that gets
    /// `Delivered` already has the refusal.
    async fn refuse(&self, mut delivery: Delivery, reason: String) -> Taken {
        let (from, id) = (delivery.from(), delivery.id());
        let message = Message::new(Refused::new(id, reason.clone()).encode())
            .tag(transfer::TAG_REFUSED)
            .priority(Priority::Urgent);
        let told = async {
            let receipt = self.node.peer(from).send(message).await.ok()?;
            // The refusal is withdrawn once this wait is over.
            let mut receipt = Abandoning(receipt);
            (receipt.0.outcome().await.outcome == Outcome::Delivered).then_some(())
        };
        tokio::select! {
            Some(()) = told => {
                // The sender may have given up the rest of the body, now that it knows of the refusal.
                if transfer::drain(&mut self.body(&mut delivery)).await.is_ok() {
                    let _ = delivery.ack();
                }
            }
            // The message is not acknowledged, so it is delivered again, and its sender may get the refusal then.
            () = self.patience.at_most(REFUSAL_PATIENCE).end() => drop(delivery),
        }
        Taken::Refused { from, what: "a message".to_owned(), reason }
    }
}

/// A message that is withdrawn when its receipt is dropped.
struct Abandoning(Receipt);

impl Drop for Abandoning {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// Takes off a character whose last bytes are missing: the beginning of a text is a text. Returns how many bytes that are.
fn cut_at_character(content: &mut Vec<u8>) -> u64 {
    match core::str::from_utf8(content) {
        Err(error) if error.error_len().is_none() => content.drain(error.valid_up_to()..).len() as u64,
        _ => 0,
    }
}

fn message_line(
    delivery: &Delivery,
    size: u64,
    content: Option<Vec<u8>>,
    path: Option<String>,
) -> MessageLine {
    let (text, hex) = match content.map(String::from_utf8) {
        Some(Ok(text)) => (Some(text), None),
        Some(Err(error)) => (None, Some(text::hex(error.as_bytes()))),
        None => (None, None),
    };
    MessageLine {
        r#type: "message",
        from: delivery.from().to_string(),
        id: delivery.id().to_string(),
        tag: String::from_utf8_lossy(delivery.tag()).into_owned(),
        size,
        text,
        hex,
        not_shown: None,
        path,
        stream: None,
        traceparent: delivery.traceparent().map(|parent| parent.to_string()),
    }
}
