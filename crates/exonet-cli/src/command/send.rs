//! `exon send`: texts, files and lines as messages.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::Path;
use std::pin::pin;
use std::time::{Duration, Instant};

use exonet::error::{PingError, SendError};
use exonet::send::{OpenMessage, Refusal, Settled};
use exonet::{Message, Node, NodeId, Outcome, Peer, PeerAddr, Receipt};
use exonet_proto::Incarnation;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Serialize;
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::sync::mpsc;

use super::announce::be_somebody;
use super::refusals::Refusals;
use super::show;
use super::stop::{Stop, stop};
use crate::args::SendArgs;
use crate::exit::{Exit, Tally, outcome_name};
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::numbered::Numbered;
use crate::settings::Settings;
use crate::transfer::{self, PourError};
use crate::units;

/// A line is held in memory as a whole.
const LONGEST_LINE: u64 = 64 << 20;
/// A file that is kept with the message is held in memory as a whole; a longer one is read as it leaves.
const LONGEST_KEPT: u64 = 16 << 20;
/// How long a peer may take to answer at its new address; messages go on trying longer.
const LOOK: Duration = Duration::from_secs(30);
/// When nothing has come back after this, say that we still try.
const SILENCE: Duration = Duration::from_secs(4);

pub(super) async fn run(settings: &Settings, args: &SendArgs) -> Result<Exit, Failure> {
    for file in args.files.iter().filter(|file| !is_input(file)) {
        readable(file).await?;
    }
    if args.reads_input() && std::io::stdin().is_terminal() {
        settings.note("each line is a message; Ctrl-D ends, Ctrl-C stops");
    }
    if args.durable {
        be_somebody(settings)?;
    }
    let (node, left) = node::sender(settings, args.peer.as_ref()).await?;
    let refusals = Refusals::default();
    let mut book = Book::new(settings, &refusals, node.id(), args.peer.as_ref().map(|peer| peer.id));
    let others = book.recover(left, args.go_on);
    let ended = {
        let (receipts, offered) = mpsc::channel(256);
        let (keeps, forced) = (settings.keeps_journal(), settings.waits_for_disk());
        let nothing = book.open.is_empty();
        let offer = async {
            match &args.peer {
                Some(_) if args.go_on && nothing => Ok(()),
                Some(to) if args.go_on => look_for(&node.peer(to)).await,
                Some(to) => Offer { peer: node.peer(to), args, receipts, keeps, forced }.all().await,
                None => Ok(()),
            }
        };
        book.keep(&node, args, offer, offered).await
    };
    for peer in &book.peers {
        show::say_conflict(settings, &node, peer);
    }
    show::open_messages(settings, &node.close(GOODBYE).await)?;
    // With its last handle the node settles what is open: Kept if its journal has it, else Cancelled if it never left,
    // else Unknown.
    drop(node);
    book.settle_rest().await?;
    let others = others.iter().filter(|receipt| is_kept(receipt)).count();
    book.sum_up(args, ended, others)
}

/// Whether the journal has the message of a receipt that nobody waits for.
fn is_kept(receipt: &Receipt) -> bool {
    receipt.settled().is_some_and(|settled| settled.outcome == Outcome::Kept)
}

/// Says where the peer is: what is open to it goes there.
async fn look_for(peer: &Peer) -> Result<(), Failure> {
    match peer.ping(LOOK).await {
        Err(PingError::Send(error)) => Err(cannot_send(peer.addr(), &error)),
        // If it refuses, its messages say so too.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether a file stands for standard input.
fn is_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Fails early, before anything has been sent.
async fn readable(path: &Path) -> Result<(), Failure> {
    let unreadable = |e| Failure::path("read", path, &e);
    let about = tokio::fs::metadata(path).await.map_err(unreadable)?;
    if about.is_dir() {
        return Err(Failure::new(format!("{} is a directory", path.display())).hint("name its files"));
    }
    // The writer of a pipe would take this for its reader, and fail when it is gone.
    if about.is_file() {
        File::open(path).await.map_err(unreadable)?;
    }
    Ok(())
}

/// Hands the messages to the node as fast as it takes them.
struct Offer<'a> {
    peer: Peer,
    args: &'a SendArgs,
    receipts: mpsc::Sender<Receipt>,
    /// There is a journal.
    keeps: bool,
    /// It is forced to the disk.
    forced: bool,
}

impl Offer<'_> {
    async fn all(self) -> Result<(), Failure> {
        for text in &self.args.texts {
            self.one(text.clone().into_bytes()).await?;
        }
        for file in &self.args.files {
            if is_input(file) {
                self.body(file, tokio::io::stdin(), None).await?;
            } else {
                self.file(file).await?;
            }
        }
        if self.args.reads_input() {
            self.lines(tokio::io::stdin()).await?;
        }
        Ok(())
    }

    fn message(&self, body: Vec<u8>) -> Message {
        let message =
            Message::new(body).tag(self.args.tag.clone().into_bytes()).priority(self.args.priority.into());
        let message = if self.args.no_early { message.early(false) } else { message };
        match self.args.deadline {
            Some(deadline) => message.deadline(deadline),
            None => message,
        }
    }

    /// Waits for room: the back-pressure reaches the writer of our standard input.
    async fn one(&self, body: Vec<u8>) -> Result<(), Failure> {
        let Ok(place) = self.receipts.reserve().await else {
            return Ok(());
        };
        let message = self.message(body);
        let refused = |e: SendError| cannot_send(self.peer.addr(), &e);
        // A permit does not wait for the disk: what one forced write may serve is queued before it. Its bytes may lack room.
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

    async fn file(&self, path: &Path) -> Result<(), Failure> {
        let unreadable = |e| Failure::path("read", path, &e);
        let file = File::open(path).await.map_err(unreadable)?;
        let about = file.metadata().await.map_err(unreadable)?;
        if self.keeps && about.is_file() && about.len() <= LONGEST_KEPT {
            let mut body = Vec::new();
            file.take(about.len()).read_to_end(&mut body).await.map_err(unreadable)?;
            return if u64::try_from(body.len()) == Ok(about.len()) {
                self.one(body).await
            } else {
                Err(became_shorter(path))
            };
        }
        // Of a pipe or a device nobody knows how much comes.
        self.body(path, file, about.is_file().then_some(about.len())).await
    }

    /// One message of all that `from` gives, which is `size` bytes if that is known.
    async fn body(
        &self,
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
                // Settled already: its receipt tells why.
                let _ = body.finish();
                Ok(())
            }
            Err(PourError::Write(error)) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                Err(Failure::new(format!("cannot send {}", path.display())).because(&error))
            }
            // A body that nobody wants any more: its receipt tells why.
            Err(PourError::Write(_)) => Ok(()),
            Err(PourError::Read(error)) => Err(Failure::path("read", path, &error)),
            Err(PourError::Short) => Err(became_shorter(path)),
        }
    }

    async fn lines(&self, input: impl AsyncRead + Unpin) -> Result<(), Failure> {
        let mut input = BufReader::new(input);
        loop {
            let mut line = Vec::new();
            let read = (&mut input).take(LONGEST_LINE + 1).read_until(b'\n', &mut line).await;
            if read.map_err(|e| Failure::new("cannot read standard input").because(&e))? == 0 {
                return Ok(());
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            } else if u64::try_from(line.len()).is_ok_and(|len| len > LONGEST_LINE) {
                let limit = units::Size(LONGEST_LINE);
                return Err(Failure::new(format!("a line of standard input is longer than {limit}"))
                    .hint("send it as a file: --file FILE"));
            }
            self.one(line).await?;
        }
    }
}

fn became_shorter(path: &Path) -> Failure {
    Failure::new(format!("{} became shorter while it was sent", path.display()))
}

/// A refused `send`, in words.
pub(super) fn cannot_send(peer: &PeerAddr, error: &SendError) -> Failure {
    Failure::new(format!("cannot send to {}", peer.id.short())).because(error)
}

#[derive(Serialize)]
struct Line {
    r#type: &'static str,
    n: u64,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    id: Option<String>,
    late: bool,
    /// A former run of this identity was given it.
    recovered: bool,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    end: &'static str,
    /// By this run.
    sent: u64,
    /// Those that a former run had left. What follows counts both.
    recovered: u64,
    #[serde(flatten)]
    tally: Tally,
    late: u64,
    seconds: f64,
}

/// Keeps the receipts until each has its outcome.
struct Book<'a> {
    settings: &'a Settings,
    refusals: &'a Refusals,
    own: NodeId,
    /// Why the node at the other end takes nothing, once it has said so.
    turned_away: Option<Refusal>,
    /// To whom the messages are that are waited for.
    peers: BTreeSet<NodeId>,
    started: Instant,
    /// Of a former run: the first numbers are theirs.
    recovered: u64,
    offered: u64,
    late: u64,
    /// A message that left beside an opening ended Unknown.
    early_unknown: bool,
    tally: Tally,
    open: FuturesUnordered<Numbered>,
}

impl<'a> Book<'a> {
    fn new(settings: &'a Settings, refusals: &'a Refusals, own: NodeId, peer: Option<NodeId>) -> Self {
        Self {
            settings,
            refusals,
            own,
            turned_away: None,
            peers: peer.into_iter().collect(),
            started: Instant::now(),
            recovered: 0,
            offered: 0,
            late: 0,
            early_unknown: false,
            tally: Tally::default(),
            open: FuturesUnordered::new(),
        }
    }

    /// Takes in what a former run has left: all of it, or else what is for the same peer. Gives the rest.
    fn recover(&mut self, left: Vec<(OpenMessage, Receipt)>, all: bool) -> Vec<Receipt> {
        if all && left.is_empty() {
            self.settings.note("no former run has left anything");
        }
        let mut others = Vec::new();
        for (message, receipt) in left {
            if all || self.peers.contains(&message.peer) {
                self.recovered += 1;
                self.peers.insert(message.peer);
                self.open.push(Numbered::new(self.recovered, receipt));
            } else {
                others.push(receipt);
            }
        }
        others
    }

    /// Until all is offered and settled, or something ends it: then `Some` says what.
    async fn keep(
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
        let (mut all_offered, mut told) = (false, false);
        loop {
            if all_offered && offered.is_empty() && self.open.is_empty() {
                return Ok(None);
            }
            tokio::select! {
                result = &mut offer, if !all_offered => {
                    all_offered = true;
                    if result.is_err() {
                        self.take_all(&mut offered);
                    }
                    result?;
                }
                Some(receipt) = offered.recv() => self.take(receipt),
                Some((n, settled)) = self.open.next() => self.settle(n, settled)?,
                stop = &mut stop => {
                    self.take_all(&mut offered);
                    return Ok(Some(stop));
                }
                never = &mut listening => return never.map(|never| match never {}),
                _ = refused.changed() => self.open.iter().for_each(|open| {
                    // What is left of its body is not wanted.
                    if open.id().is_some_and(|id| self.refusals.of(id).is_some()) {
                        open.abandon();
                    }
                }),
                () = &mut silence, if !told => {
                    told = true;
                    if self.tally == Tally::default() && !self.open.is_empty() {
                        let names: Vec<String> = self.peers.iter().map(NodeId::short).collect();
                        let peers = names.join(", ");
                        self.settings.note(format!("no answer from {peers} yet; still trying, Ctrl-C stops"));
                    }
                }
            }
        }
    }

    /// Takes what has been offered by now: nothing more will be.
    fn take_all(&mut self, offered: &mut mpsc::Receiver<Receipt>) {
        while let Ok(receipt) = offered.try_recv() {
            self.take(receipt);
        }
    }

    fn take(&mut self, receipt: Receipt) {
        self.offered += 1;
        let n = self.recovered + self.offered;
        self.open.push(Numbered::new(n, receipt));
    }

    fn settle(&mut self, n: u64, settled: Settled) -> Result<(), Failure> {
        if let Outcome::Refused(why) = settled.outcome
            && self.turned_away.replace(why) != Some(why)
        {
            show::say_refused(self.settings, why, self.own);
        }
        let turned_away =
            |outcome| if let Outcome::Refused(why) = outcome { Some(why.to_string()) } else { None };
        let told = settled.id.and_then(|id| self.refusals.of(id));
        let refused = told.is_some();
        let reason = told.clone().or_else(|| turned_away(settled.outcome));
        let outcome = if refused {
            // The receiver takes a refused message only after we took the refusal.
            self.tally.refused += 1;
            "refused"
        } else {
            self.tally.add(settled.outcome);
            outcome_name(settled.outcome)
        };
        self.late += u64::from(settled.late);
        // One that had a slot of a record was not lost for the sake of a clock.
        self.early_unknown |=
            settled.outcome == Outcome::Unknown && settled.id.is_some_and(|id| id.r == Incarnation::UNNAMED);
        let id = settled.id.map(|id| id.to_string());
        if self.settings.verbose {
            let late = if settled.late { ", late" } else { "" };
            let id = id.as_deref().unwrap_or("never left");
            self.settings.output.text(&format!("{n:>6}  {outcome}{late}  {id}"))?;
        }
        if let Some(reason) = &told {
            self.settings.note(format!("message {n} was refused: {reason}"));
        }
        let (late, recovered) = (settled.late, n <= self.recovered);
        self.settings.output.line(&Line { r#type: "message", n, outcome, reason, id, late, recovered })
    }

    async fn settle_rest(&mut self) -> Result<(), Failure> {
        while let Some((n, settled)) = self.open.next().await {
            self.settle(n, settled)?;
        }
        Ok(())
    }

    /// `others`: messages to other peers that are kept.
    fn sum_up(
        mut self,
        args: &SendArgs,
        ended: Result<Option<Stop>, Failure>,
        others: usize,
    ) -> Result<Exit, Failure> {
        // Named but never offered: certainly not delivered.
        let named = u64::try_from(args.texts.len() + args.files.len()).unwrap_or(u64::MAX);
        self.tally.cancelled += named.saturating_sub(self.offered);
        let (end, exit) = match ended {
            Ok(None) => ("done", Ok(self.tally.exit())),
            Ok(Some(Stop::TimedOut)) => ("timed out", Ok(self.tally.exit())),
            // Nothing has gone wrong with what is kept.
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
        if self.tally.unknown > 0 {
            self.settings.note(
                "unknown: it arrived once or not at all. The receiver has restarted or forgotten it, or this stopped waiting; \
                 its id (-v, --json) is the same there",
            );
            if self.early_unknown && end == "done" {
                show::say_clocks(self.settings, "send");
            }
        }
        self.settings.output.line(&Summary {
            r#type: "summary",
            end,
            sent: self.offered,
            recovered: self.recovered,
            tally: self.tally,
            late: self.late,
            seconds: took.as_secs_f64(),
        })?;
        exit
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
        self.settings.note(format!("kept: {what}. To go on: exon send{options} --continue"));
    }
}
