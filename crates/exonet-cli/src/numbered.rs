//! Receipts of messages that the command has numbered.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use exonet::send::Settled;
use exonet::{MessageId, Receipt};

/// A receipt that yields the number of its message, its outcome, and the words of its receiver.
#[derive(Debug)]
pub(crate) struct Numbered {
    n: u64,
    receipt: Receipt,
}

impl Numbered {
    pub(crate) fn new(n: u64, receipt: Receipt) -> Self {
        Self { n, receipt }
    }

    /// The id of the message, once it has one.
    pub(crate) fn id(&self) -> Option<MessageId> {
        self.receipt.id()
    }

    /// Gives the message up.
    pub(crate) fn abandon(&self) {
        self.receipt.abandon();
    }
}

impl Future for Numbered {
    type Output = (u64, Settled, Option<Arc<str>>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let n = self.n;
        let settled = Pin::new(&mut self.receipt).poll(cx);
        settled.map(|settled| (n, settled, self.receipt.reason()))
    }
}
