//! Messages for a node of this process.

use std::path::Path;

use exonet::error::SendError;
use exonet::{Message, Peer, Receipt};
use tokio::io::AsyncRead;
use tokio::sync::mpsc;

use super::cannot_send;
use super::input::{Taker, became_shorter};
use crate::args::SendArgs;
use crate::failure::Failure;
use crate::traceparent;
use crate::transfer::{self, PourError};

/// Hands the messages to the node as fast as it takes them.
pub(super) struct Offer<'a> {
    pub(super) peer: Peer,
    pub(super) args: &'a SendArgs,
    pub(super) receipts: mpsc::Sender<Receipt>,
    /// Whether the journal is forced to the disk.
    pub(super) forced: bool,
}

impl Offer<'_> {
    fn message(&self, body: Vec<u8>) -> Message {
        let message =
            Message::new(body).tag(self.args.tag.clone().into_bytes()).priority(self.args.priority.into());
        let message = message.confirm(self.args.confirm.into());
        let message = if self.args.no_early { message.early(false) } else { message };
        let message = match traceparent::given(self.args.traceparent) {
            Some(parent) => message.traceparent(parent),
            None => message,
        };
        match self.args.deadline {
            Some(deadline) => message.deadline(deadline),
            None => message,
        }
    }
}

impl Taker for Offer<'_> {
    /// Waits for room, so that the back-pressure reaches the writer of standard input.
    async fn whole(&mut self, body: Vec<u8>) -> Result<(), Failure> {
        let Ok(place) = self.receipts.reserve().await else {
            return Ok(());
        };
        let message = self.message(body);
        let refused = |e: SendError| cannot_send(self.peer.addr(), &e);
        // A permit does not wait for the disk: messages that one forced write can serve are queued before it. There
        // may be no room for the bytes of the message.
        let sent = if self.forced {
            match self.peer.reserve().await.map_err(refused)?.send(message.clone()) {
                Err(SendError::Full) => self.peer.send(message).await,
                sent => sent,
            }
        } else {
            self.peer.send(message).await
        };
        place.send(sent.map_err(refused)?);
        Ok(())
    }

    async fn stream(
        &mut self,
        path: &Path,
        from: impl AsyncRead + Unpin,
        size: Option<u64>,
    ) -> Result<(), Failure> {
        let Ok(place) = self.receipts.reserve().await else {
            return Ok(());
        };
        let head = self.message(Vec::new());
        let sent = self.peer.send_stream(head, size).await;
        let (receipt, mut body) = sent.map_err(|e| cannot_send(self.peer.addr(), &e))?;
        place.send(receipt);
        match transfer::pour(from, &mut body, size, |_| ()).await {
            Ok(_) => {
                // The message has already settled, and its receipt has the reason.
                let _ = body.finish();
                Ok(())
            }
            Err(PourError::Write(error)) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                Err(Failure::new(format!("cannot send {}", path.display())).because(&error))
            }
            // The body is no longer wanted, and the receipt of the message has the reason.
            Err(PourError::Write(_)) => Ok(()),
            Err(PourError::Read(error)) => Err(Failure::path("read", path, &error)),
            Err(PourError::Short) => Err(became_shorter(path)),
        }
    }
}
