//! The outcomes of the messages of a node of this process.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use exonet::send::{OpenMessage, Refusal, Settled};
use exonet::{Node, NodeId, Outcome, Receipt};
use exonet_proto::Incarnation;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;

use super::SILENCE;
use super::report::{Line, Numbers, Summary, is_asked_for, unheard};
use crate::args::{Confirmed, SendArgs};
use crate::command::refusals::Refusals;
use crate::command::show;
use crate::command::stop::{Stop, stop};
use crate::control::protocol::Judged;
use crate::exit::{Exit, Tally, outcome_name};
use crate::failure::Failure;
use crate::numbered::Numbered;
use crate::settings::Settings;
use crate::text::escape;
use crate::units;

/// Keeps the receipts until each has its outcome.
pub(super) struct Book<'a> {
    settings: &'a Settings,
    refusals: &'a Refusals,
    own: NodeId,
    /// Why the peer accepts nothing, once it has told this node.
    turned_away: Option<Refusal>,
    /// The peers for whose messages this command waits.
    pub(super) peers: BTreeSet<NodeId>,
    started: Instant,
    /// The number of messages of a former run. They have the first numbers.
    recovered: u64,
    offered: u64,
    /// Everything that the command line names has been offered.
    all_offered: bool,
    late: u64,
    /// A message that left together with an opening ended as Unknown.
    early_unknown: bool,
    tally: Tally,
    pub(super) open: FuturesUnordered<Numbered>,
    /// The numbers of open messages in the journal, by their numbers here.
    numbers: BTreeMap<u64, u64>,
    /// The numbers of messages that were not delivered.
    undelivered: Option<Numbers>,
}

impl<'a> Book<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        refusals: &'a Refusals,
        own: NodeId,
        peer: Option<NodeId>,
    ) -> Self {
        Self {
            settings,
            refusals,
            own,
            turned_away: None,
            peers: peer.into_iter().collect(),
            started: Instant::now(),
            recovered: 0,
            offered: 0,
            all_offered: false,
            late: 0,
            early_unknown: false,
            tally: Tally::default(),
            open: FuturesUnordered::new(),
            numbers: BTreeMap::new(),
            undelivered: None,
        }
    }

    /// Adds the wanted messages of a former run. Returns the rest.
    pub(super) fn recover(
        &mut self,
        node: &Node,
        left: Vec<(OpenMessage, Receipt)>,
        wanted: impl Fn(&OpenMessage) -> bool,
    ) -> Vec<Receipt> {
        let mut others = Vec::new();
        for (message, receipt) in left {
            if wanted(&message) {
                self.recovered += 1;
                self.peers.insert(message.peer);
                self.add(node, self.recovered, receipt);
            } else {
                others.push(receipt);
            }
        }
        others
    }

    /// Runs until all messages are offered and settled (None), or until a stop (`Some`).
    pub(super) async fn keep(
        &mut self,
        node: &Node,
        args: &SendArgs,
        offer: impl Future<Output = Result<(), Failure>>,
        mut offered: mpsc::Receiver<Receipt>,
    ) -> Result<Option<Stop>, Failure> {
        let mut offer = pin!(offer);
        let mut stop = pin!(stop(args.timeout)?);
        let mut silence = pin!(tokio::time::sleep(SILENCE));
        let mut listening = pin!(self.refusals.listen(node));
        let mut refused = self.refusals.watch();
        let (mut told, mut unprintable) = (false, None);
        loop {
            let no_more = self.all_offered || unprintable.is_some();
            if no_more && offered.is_empty() && self.open.is_empty() {
                return unprintable.map_or(Ok(None), Err);
            }
            tokio::select! {
                result = &mut offer, if !no_more => {
                    self.all_offered = result.is_ok();
                    if result.is_err() {
                        self.take_all(node, &mut offered);
                    }
                    result?;
                }
                Some(receipt) = offered.recv() => self.take(node, receipt),
                Some((n, settled, said)) = self.open.next() => {
                    // If nobody reads the outcomes, no more is sent. The messages that are under way are waited for.
                    if let Err(failure) = self.settle(n, settled, said) {
                        self.take_all(node, &mut offered);
                        unprintable.get_or_insert(failure);
                    }
                }
                stop = &mut stop => {
                    self.take_all(node, &mut offered);
                    return Ok(Some(stop));
                }
                never = &mut listening => return never.map(|never| match never {}),
                _ = refused.changed() => self.open.iter().for_each(|open| {
                    // The receiver does not want the rest of the body.
                    if open.id().is_some_and(|id| self.refusals.of(id).is_some()) {
                        open.abandon();
                    }
                }),
                () = &mut silence, if !told => {
                    told = true;
                    if self.tally == Tally::default() && !self.open.is_empty() {
                        self.say_what_lacks(node, args);
                    }
                }
            }
        }
    }

    /// Says why no message has its outcome yet: a peer has not answered, or its application is slow.
    fn say_what_lacks(&self, node: &Node, args: &SendArgs) {
        let answers = |peer: &&NodeId| node.peer(**peer).stats().is_some_and(|stats| stats.remote.is_some());
        let (there, silent): (Vec<_>, Vec<_>) = self.peers.iter().partition(answers);
        let names = |peers: &[&NodeId]| peers.iter().map(|peer| peer.short()).collect::<Vec<_>>().join(", ");
        if silent.is_empty() {
            let done = if args.confirm == Confirmed::Processed { "processed" } else { "taken" };
            let peers = names(&there);
            self.settings.note(format!(
                "{peers} answers, and its application has not {done} it yet; still waiting, Ctrl-C stops"
            ));
        } else {
            let (peers, hint) = (names(&silent), self.settings.carrier_hint());
            self.settings.note(format!("no answer from {peers} yet; still trying, Ctrl-C stops{hint}"));
        }
    }

    /// Adds the messages that have been offered so far. No more are offered.
    fn take_all(&mut self, node: &Node, offered: &mut mpsc::Receiver<Receipt>) {
        while let Ok(receipt) = offered.try_recv() {
            self.take(node, receipt);
        }
    }

    fn take(&mut self, node: &Node, receipt: Receipt) {
        self.offered += 1;
        self.add(node, self.recovered + self.offered, receipt);
    }

    fn add(&mut self, node: &Node, n: u64, receipt: Receipt) {
        if self.settings.keeps_journal()
            // A message that has its outcome already has no number any more.
            && let Some(number) = receipt.open_message().and_then(|open| node.waiting(&open, 0)?.number)
        {
            self.numbers.insert(n, number);
        }
        self.open.push(Numbered::new(n, receipt));
    }

    /// Records an outcome, and prints it. `said` is the reason of the receiving application. The error means that it
    /// could not be printed.
    fn settle(&mut self, n: u64, settled: Settled, said: Option<Arc<str>>) -> Result<(), Failure> {
        if let Outcome::Refused(why) = settled.outcome
            && self.turned_away.replace(why) != Some(why)
        {
            show::say_refused(self.settings, why, self.own);
        }
        let turned_away =
            |outcome| if let Outcome::Refused(why) = outcome { Some(why.to_string()) } else { None };
        let told = settled.id.and_then(|id| self.refusals.of(id));
        let refused = told.is_some();
        let said = said.map(|said| escape(said.as_bytes()));
        let reason = told.clone().or_else(|| turned_away(settled.outcome)).or(said);
        let outcome = if refused {
            // The receiver acknowledges a refused message only after this node has acknowledged the refusal.
            self.tally.refused += 1;
            "refused"
        } else {
            self.tally.add(settled.outcome);
            outcome_name(settled.outcome)
        };
        let number = self.numbers.remove(&n);
        if let Some(number) = number.filter(|_| refused || is_asked_for(settled.outcome.into())) {
            self.undelivered = Some(Numbers::and(self.undelivered, number));
        }
        self.late += u64::from(settled.late);
        // A message with a slot of a record was not lost because of a clock.
        self.early_unknown |=
            settled.outcome == Outcome::Unknown && settled.id.is_some_and(|id| id.r == Incarnation::UNNAMED);
        let id = settled.id.map(|id| id.to_string());
        let receiver_durability = settled.receiver_durability.map(|level| level.to_string());
        if self.settings.verbose {
            let late = if settled.late { ", late" } else { "" };
            let at = show::receiver(receiver_durability.as_deref());
            let id = id.as_deref().unwrap_or("never left");
            self.settings.output.text(&format!("{n:>6}  {outcome}{late}{at}  {id}"))?;
        }
        if let Some(reason) = &told {
            self.settings.note(format!("message {n} was refused: {reason}"));
        }
        let judged = Judged::of(settled.outcome);
        show::say_rejected(self.settings, n, judged, reason.as_deref());
        let (late, recovered) = (settled.late, n <= self.recovered);
        self.settings.output.line(&Line {
            r#type: "message",
            n,
            number,
            outcome,
            reason,
            judged,
            id,
            late,
            receiver_durability,
            recovered,
        })
    }

    /// Records the remaining outcomes. The error means that one could not be printed.
    pub(super) async fn settle_rest(&mut self) -> Result<(), Failure> {
        let mut printed = Ok(());
        while let Some((n, settled, said)) = self.open.next().await {
            printed = printed.and(self.settle(n, settled, said));
        }
        printed
    }

    /// Prints the summary. `others`: messages to other peers that are kept.
    pub(super) fn sum_up(
        mut self,
        args: &SendArgs,
        ended: Result<Option<Stop>, Failure>,
        others: usize,
    ) -> Result<Exit, Failure> {
        // A message that was named but never offered is certainly not delivered.
        let named = u64::try_from(args.texts.len() + args.files.len()).unwrap_or(u64::MAX);
        let never_offered = named.saturating_sub(self.offered);
        self.tally.cancelled += never_offered;
        let rest = self.tally.unknown + self.tally.expired + self.tally.cancelled + self.tally.kept;
        let all_read = self.all_offered || !args.reads_input();
        let is_complete = all_read && rest == 0;
        let (end, exit) = match ended {
            Ok(None) => ("done", Ok(self.tally.exit())),
            // All was settled before the node ended.
            Ok(Some(Stop::TimedOut)) if is_complete => ("done", Ok(self.tally.exit())),
            Ok(Some(Stop::TimedOut)) => ("timed out", Ok(self.tally.exit())),
            // Kept messages are no error.
            Ok(Some(Stop::Interrupted)) if self.tally.exit() == Exit::Kept => ("interrupted", Ok(Exit::Kept)),
            Ok(Some(Stop::Interrupted)) => ("interrupted", Ok(Exit::Interrupted)),
            Err(failure) => ("error", Err(failure)),
        };
        let took = self.started.elapsed();
        let cut = if end == "timed out" { ", timed out" } else { "" };
        let former = match self.recovered {
            0 => String::new(),
            number => format!("; {} of a former run among them", units::count(number)),
        };
        self.settings.note(format!("{} in {}{cut}{former}", self.tally.describe(), units::span(took)));
        self.say_kept(others);
        if let Some(numbers) = self.undelivered {
            numbers.say(self.settings);
        }
        if self.tally.unknown > 0 {
            self.settings.note(
                "unknown: it was delivered once or not at all. The receiver has restarted or forgotten it, \
                 or has put off a long input whose beginning is not kept here, or this command stopped \
                 waiting; its id (-v, --json) is the same there",
            );
            if self.early_unknown && end == "done" {
                show::say_clocks(self.settings, "send");
            }
        }
        let printed = self.settings.output.line(&Summary {
            r#type: "summary",
            end,
            sent: self.offered + never_offered,
            recovered: self.recovered,
            tally: self.tally,
            late: self.late,
            queued: None,
            seconds: took.as_secs_f64(),
        });
        let exit = exit.and_then(|exit| printed.map(|()| exit));
        unheard(self.settings, exit, self.tally.exit(), all_read)
    }

    fn say_kept(&self, others: usize) {
        let (own, others) = (self.tally.kept, u64::try_from(others).unwrap_or(u64::MAX));
        let what = match (own, others) {
            (0, 0) => return,
            (0, others) => format!("{} to others", units::counted(others, "message")),
            (own, 0) => units::counted(own, "message"),
            (own, others) => {
                format!("{}, and {} to others", units::counted(own, "message"), units::count(others))
            }
        };
        let options = self.settings.identity.options();
        self.settings.note(format!("kept: {what}. To continue: exon send{options} --continue"));
    }
}
