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
use crate::control::protocol::{self, Ending, Judged};
use crate::control::{Asker, Taken};
use crate::exit::{Tally, remedy};
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
    asker: Option<Asker>,
}

impl Future for Entry {
    type Output = (Settled, Option<Arc<str>>, Option<Asker>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let settled = Pin::new(&mut self.receipt).poll(cx);
        settled.map(|settled| (settled, self.receipt.reason(), self.asker.take()))
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
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(flatten)]
    judged: Option<Judged>,
    id: Option<&'a str>,
    late: bool,
}

impl<'a> Book<'a> {
    /// `left` has the messages of a former run; their askers, if any, come in the same order.
    pub(super) fn new(
        settings: &'a Settings,
        node: &'a Node,
        left: Vec<(OpenMessage, Receipt)>,
        askers: Vec<Option<Asker>>,
        totals: &'a mut Totals,
    ) -> Self {
        let askers = askers.into_iter().chain(std::iter::repeat_with(|| None));
        let entry = |((message, receipt), asker): ((OpenMessage, Receipt), Option<Asker>)| {
            let size = message.size;
            Entry { receipt, size, asker }
        };
        let open = left.into_iter().zip(askers).map(entry).collect();
        Self { settings, node, refusals: Refusals::default(), open, totals }
    }

    /// Runs until told to stop.
    pub(super) async fn keep(
        &mut self,
        handed: &mut mpsc::UnboundedReceiver<Taken>,
        stop: &mut (impl Future<Output = ()> + Unpin),
    ) -> Result<(), Failure> {
        // This task receives refusals into the map that the book reads.
        let refusals = self.refusals.clone();
        let mut listening = pin!(refusals.listen(self.node));
        let mut refused = refusals.watch();
        loop {
            tokio::select! {
                () = &mut *stop => return Ok(()),
                Some(taken) = handed.recv() => {
                    self.totals.taken += 1;
                    let size = u64::try_from(taken.size).unwrap_or(u64::MAX);
                    self.open.push(Entry { receipt: taken.receipt, size, asker: taken.asker });
                }
                Some((settled, said, asker)) = self.open.next() => self.settle(settled, said, asker)?,
                never = &mut listening => return never.map(|never| match never {}),
                _ = refused.changed() => self.open.iter().filter(|entry| entry.size > WHOLE).for_each(|entry| {
                    if entry.receipt.id().is_some_and(|id| refusals.of(id).is_some()) {
                        entry.receipt.abandon();
                    }
                }),
            }
        }
    }

    /// Records the messages that settled while the node ended. A message that is kept for the next life has no
    /// outcome here.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        while let Some(Some((settled, said, asker))) = self.open.next().now_or_never() {
            if settled.outcome != Outcome::Kept {
                self.settle(settled, said, asker)?;
            }
        }
        Ok(())
    }

    /// Records an outcome. `said` is the reason of the receiving application.
    fn settle(
        &mut self,
        settled: Settled,
        said: Option<Arc<str>>,
        asker: Option<Asker>,
    ) -> Result<(), Failure> {
        let told = settled.id.and_then(|id| self.refusals.forget(id));
        // The receiver acknowledges a refused message only after this node has acknowledged the refusal.
        let outcome = if told.is_some() { Ending::Refused } else { settled.outcome.into() };
        self.totals.tally.count(outcome);
        let (mut reason, mut todo) = (told.or_else(|| said.map(|said| escape(said.as_bytes()))), None);
        if let Outcome::Refused(why) = settled.outcome {
            reason = reason.or_else(|| Some(why.to_string()));
            todo = Some(remedy(why, self.node.id()));
        }
        let judged = Judged::of(settled.outcome);
        let id = settled.id.map(|id| id.to_string());
        if self.settings.verbose {
            let why = reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
            let id = id.as_deref().unwrap_or("never left");
            self.settings.output.text(&format!("{}  {id}{why}", outcome.name()))?;
        }
        self.settings.output.line(&Line {
            r#type: "message",
            outcome: outcome.name(),
            reason: reason.as_deref(),
            judged,
            id: id.as_deref(),
            late: settled.late,
        })?;
        if let Some(Asker { n, tell, place }) = asker {
            let early = settled.id.is_some_and(|id| id.r == Incarnation::UNNAMED);
            let late = settled.late;
            // The asker may have disconnected.
            let _ = tell.send((
                protocol::Settled { n, outcome, reason, remedy: todo, id, late, early, judged },
                place,
            ));
        }
        Ok(())
    }
}
