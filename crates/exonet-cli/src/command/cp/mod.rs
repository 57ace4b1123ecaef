//! `exon cp`: files to a node that listens.

mod bars;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use exonet::{Message, Node, Outcome, PeerAddr, Receipt, Settled, Status};
use futures_util::StreamExt;
use serde::Serialize;
use tokio::fs::File;
use tokio::sync::watch;

use self::bars::Bars;
use super::refusals::Refusals;
use super::send::cannot_send;
use super::stop::{Stop, stop};
use crate::args::CpArgs;
use crate::exit::{Exit, outcome_name};
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::settings::Settings;
use crate::transfer::{self, Header, PourError};
use crate::units::{self, Size};

/// Files under way at once.
const ABREAST: usize = 4;

pub(super) async fn run(settings: &Settings, args: &CpArgs) -> Result<Exit, Failure> {
    let mut items = Vec::new();
    for path in &args.files {
        items.push(Item::new(path).await?);
    }
    let node = node::toward(settings, &args.peer).await?;
    let (stopping, stopped) = watch::channel(false);
    let copying = Copying {
        node: &node,
        peer: &args.peer,
        refusals: Refusals::default(),
        bars: Bars::new(settings),
        stopped,
    };
    let mut report = Report::new(settings);
    let ended = copying.all(items, args.timeout, &stopping, &mut report).await;
    drop(copying);
    node.close(GOODBYE).await;
    report.sum_up(ended?)
}

/// A file to copy.
struct Item {
    path: PathBuf,
    name: String,
    size: u64,
}

impl Item {
    async fn new(path: &Path) -> Result<Self, Failure> {
        let unreadable = |e| Failure::path("read", path, &e);
        // Opened, not only looked at: what cannot be read is told before anything is sent.
        let about = File::open(path).await.map_err(unreadable)?.metadata().await.map_err(unreadable)?;
        if !about.is_file() {
            let failure = Failure::new(format!("{} is not a regular file", path.display()));
            return Err(failure.hint("name files; pack directories with tar first"));
        }
        let name = path.file_name().and_then(|name| name.to_str());
        let name =
            name.ok_or_else(|| Failure::new(format!("the name of {} is not UTF-8", path.display())))?;
        Ok(Self { path: path.to_owned(), name: name.to_owned(), size: about.len() })
    }
}

/// What became of a file.
enum End {
    Settled(Settled),
    Refused(String),
    /// Left alone when the command was stopped.
    Open(Status),
    Failed(Failure),
}

struct Copied {
    item: Item,
    end: End,
    took: Duration,
}

struct Copying<'a> {
    node: &'a Node,
    peer: &'a PeerAddr,
    refusals: Refusals,
    bars: Bars,
    stopped: watch::Receiver<bool>,
}

impl Copying<'_> {
    /// Until every file has its end; a stop hurries them.
    async fn all(
        &self,
        items: Vec<Item>,
        timeout: Option<Duration>,
        stopping: &watch::Sender<bool>,
        report: &mut Report<'_>,
    ) -> Result<Option<Stop>, Failure> {
        let mut copies =
            pin!(futures_util::stream::iter(items).map(|item| self.one(item)).buffer_unordered(ABREAST));
        let mut stop = pin!(stop(timeout)?);
        let mut listening = pin!(self.refusals.listen(self.node));
        let mut ended = None;
        loop {
            tokio::select! {
                copied = copies.next() => match copied {
                    Some(copied) => self.bars.pause(|| report.add(&copied))?,
                    None => return Ok(ended),
                },
                why = &mut stop, if ended.is_none() => {
                    ended = Some(why);
                    stopping.send_replace(true);
                }
                closed = &mut listening, if ended.is_none() => return closed.map(|never| match never {}),
            }
        }
    }

    async fn one(&self, item: Item) -> Copied {
        let started = Instant::now();
        let end = self.send(&item).await.unwrap_or_else(End::Failed);
        Copied { item, end, took: started.elapsed() }
    }

    async fn send(&self, item: &Item) -> Result<End, Failure> {
        let mut stopped = self.stopped.clone();
        let malformed = |e| Failure::new(format!("cannot send {}", item.path.display())).because(&e);
        let header = Header::new(&item.name, item.size).encode().map_err(malformed)?;
        let total = Header::new(&item.name, item.size).total(&header).map_err(malformed)?;
        let file = File::open(&item.path).await.map_err(|e| Failure::path("read", &item.path, &e))?;
        let head = Message::default().tag(transfer::TAG);
        let sent = tokio::select! {
            sent = self.node.send_stream(self.peer, head, total) => sent,
            _ = stopped.wait_for(|stopped| *stopped) => return Ok(End::Open(Status::Queued)),
        };
        let (receipt, body) = sent.map_err(|e| cannot_send(self.peer, &e))?;
        let bar = self.bars.file(&item.name, item.size);
        let write = transfer::write_file(body, &header, file, item.size, |bytes| bar.advance(bytes));
        let end = self.attend(receipt, write, || bar.wait()).await;
        end.map_err(|error| match error {
            PourError::Short => {
                Failure::new(format!("{} became shorter while it was sent", item.path.display()))
            }
            PourError::Read(error) | PourError::Write(error) => Failure::path("read", &item.path, &error),
        })
    }

    /// Writes the body, then waits for the outcome, with an eye on refusals.
    async fn attend(
        &self,
        mut receipt: Receipt,
        write: impl Future<Output = Result<(), PourError>>,
        written: impl Fn(),
    ) -> Result<End, PourError> {
        let mut stopped = self.stopped.clone();
        let mut refusals = self.refusals.watch();
        // Dropped with this call: then what is missing of the body is given up.
        let mut write = pin!(write);
        let mut writing = true;
        loop {
            tokio::select! {
                result = &mut write, if writing => match result {
                    // A body that nobody wants any more: the receipt tells why.
                    Ok(()) | Err(PourError::Write(_)) => {
                        writing = false;
                        written();
                    }
                    Err(error) => return Err(error),
                },
                settled = receipt.outcome(), if !writing => {
                    // The receiver takes a refused message only after we took the refusal.
                    let refused = settled.id.and_then(|id| self.refusals.of(id));
                    return Ok(refused.map_or(End::Settled(settled), End::Refused));
                }
                _ = refusals.changed() => {
                    if let Some(reason) = receipt.id().and_then(|id| self.refusals.of(id)) {
                        return Ok(End::Refused(reason));
                    }
                }
                _ = stopped.wait_for(|stopped| *stopped) => {
                    let status = receipt.status();
                    receipt.abandon();
                    return Ok(End::Open(status));
                }
            }
        }
    }
}

#[derive(Serialize)]
struct Line {
    r#type: &'static str,
    file: String,
    name: String,
    size: u64,
    outcome: &'static str,
    reason: Option<String>,
    id: Option<String>,
    seconds: f64,
}

#[derive(Default, Serialize)]
struct Counts {
    stored: u64,
    refused: u64,
    unknown: u64,
    cancelled: u64,
    failed: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    end: &'static str,
    #[serde(flatten)]
    counts: Counts,
    seconds: f64,
}

/// Tells what became of each file, and sums up.
struct Report<'a> {
    settings: &'a Settings,
    started: Instant,
    counts: Counts,
}

impl<'a> Report<'a> {
    fn new(settings: &'a Settings) -> Self {
        Self { settings, started: Instant::now(), counts: Counts::default() }
    }

    fn add(&mut self, copied: &Copied) -> Result<(), Failure> {
        let (outcome, id, reason) = describe(&copied.end);
        let counts = &mut self.counts;
        let count = match outcome {
            "stored" => &mut counts.stored,
            "refused" => &mut counts.refused,
            "unknown" => &mut counts.unknown,
            "failed" => &mut counts.failed,
            _ => &mut counts.cancelled,
        };
        *count += 1;
        let Copied { item, took, .. } = copied;
        let detail = if outcome == "stored" {
            counts.bytes = counts.bytes.saturating_add(item.size);
            let rate = units::whole(units::rate(item.size, *took)).unwrap_or(0);
            // Of a small file, the rate tells nothing.
            let rate = if item.size < 1 << 20 { String::new() } else { format!(", {}/s", Size(rate)) };
            format!("{} in {}{rate}", Size(item.size), units::span(*took))
        } else {
            reason.clone().or_else(|| id.clone()).unwrap_or_default()
        };
        let name = crate::text::escape(item.name.as_bytes());
        self.settings.output.text(&format!("{outcome:<9}  {name}  {detail}"))?;
        self.settings.output.line(&Line {
            r#type: "file",
            file: item.path.display().to_string(),
            name: item.name.clone(),
            size: item.size,
            outcome,
            reason,
            id,
            seconds: took.as_secs_f64(),
        })
    }

    fn sum_up(self, ended: Option<Stop>) -> Result<Exit, Failure> {
        let counts = self.counts;
        let left = counts.refused + counts.unknown + counts.cancelled + counts.failed;
        let exit = match ended {
            Some(Stop::Interrupted) => Exit::Interrupted,
            _ if counts.failed > 0 => Exit::Error,
            _ if counts.unknown > 0 => Exit::Unknown,
            _ if left > 0 => Exit::Undelivered,
            _ => Exit::Success,
        };
        if counts.stored + left > 1 {
            let took = units::span(self.started.elapsed());
            let rest = if left > 0 { format!(", {left} not") } else { String::new() };
            let text = format!("{} stored, {} in {took}{rest}", counts.stored, Size(counts.bytes));
            self.settings.note(text);
        }
        self.settings.output.line(&Summary {
            r#type: "summary",
            end: match ended {
                None => "done",
                Some(Stop::Interrupted) => "interrupted",
                Some(Stop::TimedOut) => "timed out",
            },
            counts,
            seconds: self.started.elapsed().as_secs_f64(),
        })?;
        Ok(exit)
    }
}

/// The word for it, the message's id, and why.
fn describe(end: &End) -> (&'static str, Option<String>, Option<String>) {
    match end {
        End::Settled(settled) => {
            let id = settled.id.map(|id| id.to_string());
            let outcome = match settled.outcome {
                Outcome::Delivered => "stored",
                other => outcome_name(other),
            };
            (outcome, id, None)
        }
        End::Refused(reason) => ("refused", None, Some(reason.clone())),
        End::Open(Status::InDoubt { id, .. }) => ("unknown", Some(id.to_string()), None),
        End::Open(Status::Queued | Status::Settled) => ("cancelled", None, None),
        End::Failed(failure) => ("failed", None, Some(failure.to_string())),
    }
}
