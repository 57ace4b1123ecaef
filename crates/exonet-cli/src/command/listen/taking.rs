//! One delivery: shown, stored or refused, and only then taken.

use std::sync::Arc;
use std::time::Duration;

use exonet::{Delivery, Message, Node, NodeId, Outcome, PeerAddr, Priority};
use serde::Serialize;
use tokio::io::AsyncReadExt;

use crate::failure::Failure;
use crate::output::Output;
use crate::store::{Landed, Refusal, SafeName, Store};
use crate::text;
use crate::transfer::{self, Header, Refused};
use crate::units::{Size, count};

/// Of a message that is only shown, no more than this is held.
const LONGEST_SHOWN: u64 = 1 << 20;
/// How long a sender may take to hear why it was refused.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(30);

/// What came of a delivery.
pub(super) enum Taken {
    Message {
        size: u64,
    },
    File {
        size: u64,
    },
    Refused {
        from: NodeId,
        reason: String,
    },
    /// Its sender gave it up, or one of us forgot: not delivered.
    Nothing {
        reason: String,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

#[derive(Serialize)]
struct FileLine {
    r#type: &'static str,
    from: String,
    id: String,
    name: String,
    size: u64,
    already_there: bool,
}

/// What the taking of one delivery needs.
pub(super) struct Listener {
    pub(super) node: Node,
    pub(super) output: Output,
    pub(super) raw: bool,
    pub(super) store: Option<Store>,
}

impl Listener {
    /// Shows or stores a message, then takes it.
    pub(super) async fn message(self: Arc<Self>, mut delivery: Delivery) -> Result<Taken, Failure> {
        let size = delivery.body().len();
        let shown = match &self.store {
            Some(store) => self.keep(store, &mut delivery).await,
            None => self.show(&mut delivery).await,
        };
        let id = delivery.id();
        match shown {
            // What has been shown or stored is taken.
            Ok(()) => Ok(match delivery.done() {
                Ok(()) => Taken::Message { size },
                Err(error) => Taken::Nothing { reason: format!("{id}: {error}") },
            }),
            Err(Refusal::GivenUp(error)) => Ok(Taken::Nothing { reason: format!("{id}: {error}") }),
            // A message cannot be refused with a word to its sender; not taking it is all that is left.
            Err(refusal) => Err(Failure::new(format!("cannot take message {id}: {refusal}"))
                .hint("its sender still has it, and delivers it when this listens again with --max-store or more room")),
        }
    }

    /// Stores a message under its id.
    async fn keep(&self, store: &Store, delivery: &mut Delivery) -> Result<(), Refusal> {
        let (id, size) = (delivery.id(), delivery.body().len());
        let name = SafeName::new(&format!("{}-{}-{}.msg", id.sender, id.r.0, id.s.0))?;
        let landing = store.begin(name, size)?;
        let writer = landing.writer()?;
        transfer::pour(delivery.body_mut(), writer, size, |_| ()).await?;
        // Whole, and so that its end has been seen.
        transfer::drain(delivery.body_mut()).await.map_err(Refusal::GivenUp)?;
        let name = landing.name().clone();
        // One id, one content: a file of this name is this message, handed out a second time.
        landing.finish(None).await?;
        let line = message_line(delivery, None, Some(name.to_string()));
        let text = format!("{}  {} in {name}", delivery.from().short(), Size(size));
        self.print(&line, &text)
    }

    /// Prints a message.
    async fn show(&self, delivery: &mut Delivery) -> Result<(), Refusal> {
        let size = delivery.body().len();
        if self.raw {
            return self.copy_out(delivery).await;
        }
        let mut content = Vec::new();
        let body = delivery.body_mut();
        let given_up = Refusal::GivenUp;
        body.take(LONGEST_SHOWN).read_to_end(&mut content).await.map_err(given_up)?;
        transfer::drain(body).await.map_err(given_up)?;
        let rest = size.saturating_sub(u64::try_from(content.len()).unwrap_or(size));
        let from = delivery.from().short();
        let mut line = if text::is_binary(&content) && self.output.is_terminal() {
            format!("{from}  {} of binary data{}", Size(size), text::dump(&content))
        } else {
            format!("{from}  {}", text::escape(&content))
        };
        if rest > 0 {
            line.push_str(&format!(" ... {} more bytes, not shown", count(rest)));
        }
        let json = message_line(delivery, Some(content), None);
        self.print(&json, &line)
    }

    async fn copy_out(&self, delivery: &mut Delivery) -> Result<(), Refusal> {
        let mut out = tokio::io::stdout();
        let size = delivery.body().len();
        transfer::pour(delivery.body_mut(), &mut out, size, |_| ()).await?;
        transfer::drain(delivery.body_mut()).await.map_err(Refusal::GivenUp)?;
        transfer::pour(&b"\n"[..], out, 1, |_| ()).await.map_err(Refusal::from)
    }

    fn print(&self, line: &impl Serialize, text: &str) -> Result<(), Refusal> {
        let told = self.output.line(line).and_then(|()| self.output.text(text));
        told.map_err(|failure| Refusal::Disk(std::io::Error::other(failure.to_string())))
    }

    /// Stores a file or refuses it, then takes its message.
    pub(super) async fn file(self: Arc<Self>, mut delivery: Delivery) -> Result<Taken, Failure> {
        let id = delivery.id();
        match self.store_file(&mut delivery).await {
            Ok(size) => Ok(match delivery.done() {
                Ok(()) => Taken::File { size },
                Err(error) => Taken::Nothing { reason: format!("{id}: {error}") },
            }),
            Err(Refusal::GivenUp(error)) => Ok(Taken::Nothing { reason: format!("{id}: {error}") }),
            Err(refusal) => Ok(self.refuse(delivery, refusal.to_string()).await),
        }
    }

    async fn store_file(&self, delivery: &mut Delivery) -> Result<u64, Refusal> {
        let store = self.store.as_ref().ok_or(Refusal::NoStore)?;
        let total = delivery.body().len();
        let header = Header::read(delivery.body_mut(), total).await?;
        let name = SafeName::new(&header.name)?;
        let landing = store.begin(name.clone(), header.size)?;
        let writer = landing.writer()?;
        let hash = transfer::read_file(delivery.body_mut(), header.size, writer).await??;
        let landed = landing.finish(Some(hash)).await?;
        let already_there = landed == Landed::AlreadyThere;
        let line = FileLine {
            r#type: "file",
            from: delivery.from().to_string(),
            id: delivery.id().to_string(),
            name: name.to_string(),
            size: header.size,
            already_there,
        };
        let remark = if already_there { ", was there already" } else { "" };
        let text = format!("{}  {name}, {}{remark}", delivery.from().short(), Size(header.size));
        self.print(&line, &text)?;
        Ok(header.size)
    }

    /// Tells the sender why, and only then takes the message, for nothing: a sender that hears `Delivered` has
    /// the refusal already.
    async fn refuse(&self, mut delivery: Delivery, reason: String) -> Taken {
        let (from, id) = (delivery.from(), delivery.id());
        let message = Message::new(Refused::new(id, reason.clone()).encode())
            .tag(transfer::TAG_REFUSED)
            .priority(Priority::Urgent);
        let told = async {
            let receipt = self.node.send(&PeerAddr::from(from), message).await.ok()?;
            (receipt.await.outcome == Outcome::Delivered).then_some(())
        };
        let patience = tokio::time::sleep(REFUSAL_PATIENCE);
        tokio::select! {
            Some(()) = told => {
                // It may have given the rest up, now that it knows.
                if transfer::drain(delivery.body_mut()).await.is_ok() {
                    let _ = delivery.done();
                }
            }
            // Not taken: it comes again, and then its sender may hear us.
            () = patience => drop(delivery),
        }
        Taken::Refused { from, reason }
    }
}

fn message_line(delivery: &Delivery, content: Option<Vec<u8>>, path: Option<String>) -> MessageLine {
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
        size: delivery.body().len(),
        text,
        hex,
        path,
    }
}
