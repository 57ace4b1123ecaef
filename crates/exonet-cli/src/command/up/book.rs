//! The outcomes of the messages of a background node.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use exonet::send::{OpenMessage, Settled};
use exonet::{Node, Outcome, Receipt};
use exonet_proto::Incarnation;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::command::refusals::Refusals;
use crate::command::show;
use crate::control::past::Past;
use crate::control::protocol::{self, Ending, Judged};
use crate::control::{Asker, Handed, Taken};
use crate::exit::{self, Tally};
use crate::failure::Failure;
use crate::settings::Settings;
use crate::text::escape;

/// The longest message that a receiver reads in full before it refuses it. It may not want the rest of a longer
/// message.
const WHOLE: u64 = 64 << 10;

/// A message whose outcome is awaited.
struct Entry {
    receipt: Receipt,
    size: u64,
    /// The number of the message in the journal.
    number: Option<u64>,
    asker: Option<Asker>,
}

/// A settled message.
struct Over {
    settled: Settled,
    /// The reason of the receiving application.
    said: Option<Arc<str>>,
    number: Option<u64>,
    asker: Option<Asker>,
}

/// The messages that the node has accepted, and that the book does not have yet.
pub(super) struct Intake {
    pub(super) of_commands: mpsc::UnboundedReceiver<Handed>,
    pub(super) of_gateway: mpsc::UnboundedReceiver<Handed>,
}

impl Future for Entry {
    type Output = Over;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let settled = Pin::new(&mut self.receipt).poll(cx);
        settled.map(|settled| Over {
            settled,
            said: self.receipt.reason(),
            number: self.number,
            asker: self.asker.take(),
        })
    }
}

/// Keeps the receipts of all messages until each has its outcome, and reports the outcomes to the clients that handed
/// the messages over.
pub(super) struct Book<'a> {
    settings: &'a Settings,
    node: &'a Node,
    refusals: Refusals,
    open: FuturesUnordered<Entry>,
    totals: &'a mut Totals,
    past: Arc<Past>,
}

/// The totals of all lives of the node.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// The number of messages handed over by commands and by clients of the gateway.
    pub(super) taken: u64,
    /// The number of messages of a former run.
    pub(super) recovered: u64,
    pub(super) tally: Tally,
}

#[derive(Serialize)]
struct Line<'a> {
    r#type: &'static str,
    /// Its number in the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(flatten)]
    judged: Option<Judged>,
    id: Option<&'a str>,
    late: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    receiver_durability: Option<&'a str>,
}

impl<'a> Book<'a> {
    /// `left` has the messages of a former run; their askers, if any, come in the same order.
    pub(super) fn new(
        settings: &'a Settings,
        node: &'a Node,
        left: Vec<(OpenMessage, Receipt)>,
        askers: Vec<Option<Asker>>,
        (totals, past): (&'a mut Totals, Arc<Past>),
    ) -> Self {
        let askers = askers.into_iter().chain(std::iter::repeat_with(|| None));
        let entry = |((message, receipt), asker): ((OpenMessage, Receipt), Option<Asker>)| {
            let number = node.waiting(&message, 0).and_then(|waiting| waiting.number);
            Entry { receipt, size: message.size, number, asker }
        };
        let open = left.into_iter().zip(askers).map(entry).collect();
        Self { settings, node, refusals: Refusals::default(), open, totals, past }
    }

    /// Runs until told to stop.
    pub(super) async fn keep(
        &mut self,
        intake: &mut Intake,
        stop: &mut (impl Future<Output = ()> + Unpin),
    ) -> Result<(), Failure> {
        // This task receives refusals into the map that the book reads.
        let refusals = self.refusals.clone();
        let mut listening = pin!(refusals.listen(self.node));
        let mut refused = refusals.watch();
        loop {
            tokio::select! {
                () = &mut *stop => return Ok(()),
                Some(Handed { taken, number }) = intake.of_commands.recv() => self.add(taken, number),
                Some(Handed { taken, number }) = intake.of_gateway.recv() => self.add(taken, number),
                Some(over) = self.open.next() => self.settle(over)?,
                never = &mut listening => return never.map(|never| match never {}),
                _ = refused.changed() => self.open.iter().filter(|entry| entry.size > WHOLE).for_each(|entry| {
                    if entry.receipt.id().is_some_and(|id| refusals.of(id).is_some()) {
                        entry.receipt.abandon();
                    }
                }),
            }
        }
    }

    fn add(&mut self, taken: Taken, number: Option<u64>) {
        self.totals.taken += 1;
        let size = u64::try_from(taken.size).unwrap_or(u64::MAX);
        self.open.push(Entry { receipt: taken.receipt, size, number, asker: taken.asker });
    }

    /// Records the messages that settled while the node ended. A message that is kept for the next life has no
    /// outcome here.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        while let Some(Some(over)) = self.open.next().now_or_never() {
            if over.settled.outcome != Outcome::Kept {
                self.settle(over)?;
            }
        }
        Ok(())
    }

    /// Records an outcome, and reports it.
    fn settle(&mut self, over: Over) -> Result<(), Failure> {
        let Over { settled, said, number, asker } = over;
        let told = settled.id.and_then(|id| self.refusals.forget(id));
        // The receiver acknowledges a refused message only after this node has acknowledged the refusal.
        let outcome = if told.is_some() { Ending::Refused } else { settled.outcome.into() };
        self.totals.tally.count(outcome);
        let (mut reason, mut remedy) = (told.or_else(|| said.map(|said| escape(said.as_bytes()))), None);
        if let Outcome::Refused(why) = settled.outcome {
            reason = reason.or_else(|| Some(why.to_string()));
            remedy = Some(exit::remedy(why, self.node.id()));
        }
        let settled = protocol::Settled {
            n: number.unwrap_or_default(),
            outcome,
            reason,
            remedy,
            id: settled.id.map(|id| id.to_string()),
            late: settled.late,
            early: settled.id.is_some_and(|id| id.r == Incarnation::UNNAMED),
            receiver_durability: settled.receiver_durability.map(|level| level.to_string()),
            judged: Judged::of(settled.outcome),
        };
        self.tell(number, &settled)?;
        if number.is_some() || settled.id.is_some() {
            self.past.put(settled.clone());
        }
        if let Some(Asker { n, tell, place }) = asker {
            // The asker may have disconnected.
            let _ = tell.send((protocol::Settled { n, ..settled }, place));
        }
        Ok(())
    }

    /// Prints an outcome. As text, prints delivered messages, and messages that the user has given up, only with
    /// `--verbose`.
    fn tell(&self, number: Option<u64>, settled: &protocol::Settled) -> Result<(), Failure> {
        let name = settled.outcome.name();
        let as_wanted = matches!(settled.outcome, Ending::Delivered | Ending::Processed | Ending::Cancelled);
        if self.settings.verbose || !as_wanted {
            let number = number.map(|number| format!("message {number} ")).unwrap_or_default();
            let id = settled.id.as_deref().unwrap_or("never left");
            let why = settled.reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
            let at = show::receiver(settled.receiver_durability.as_deref());
            self.settings.note(format!("{number}({id}) ended as {name}{at}{why}"));
        }
        self.settings.output.line(&Line {
            r#type: "message",
            number,
            outcome: name,
            reason: settled.reason.as_deref(),
            judged: settled.judged,
            id: settled.id.as_deref(),
            late: settled.late,
            receiver_durability: settled.receiver_durability.as_deref(),
        })
    }
}
