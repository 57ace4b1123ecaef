//! Receives the copy of the sender until the sender reports its end, and then compares the files with the proven
//! manifest.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use console::Term;
use exonet::call::{Failure as Refused, ReplyStatus, Request as Call, Serving};
use exonet::{Node, PeerEvent, Watch};
use serde::Serialize;
use tokio::sync::mpsc;

use super::meet::{Met, Open, ask};
use super::sleep_until;
use crate::args::GetArgs;
use crate::code::meeting::{ENDED, Ended, LONGEST, Manifest, Reply, Request, listing};
use crate::command::listen::files;
use crate::command::listen::taking::Taken;
use crate::command::stop::Stop;
use crate::command::view::View;
use crate::copy::Hex32;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::store::Store;
use crate::text::escape;
use crate::units::{self, Size, counted};

const TICK: Duration = Duration::from_millis(200);
const JSON: Duration = Duration::from_secs(1);
/// The time limit for telling the sender that this end is ready.
const READY: Duration = Duration::from_secs(10);

#[derive(Serialize)]
struct OfferLine<'a> {
    r#type: &'static str,
    peer: String,
    #[serde(flatten)]
    manifest: &'a Manifest,
}

#[derive(Serialize)]
struct FileLine<'a> {
    r#type: &'static str,
    name: &'a str,
    size: u64,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct ProgressLine {
    r#type: &'static str,
    bytes: u64,
    total: u64,
}

#[derive(Serialize)]
pub(super) struct Summary {
    r#type: &'static str,
    end: &'static str,
    files: u64,
    refused: u64,
    bytes: u64,
    /// The code has proven the manifest, and the files match it.
    root: Option<Hex32>,
    seconds: f64,
}

impl Summary {
    /// The last line of a run to which no sender has answered.
    pub(super) fn of_nothing(started: Instant) -> Self {
        let seconds = started.elapsed().as_secs_f64();
        Self { r#type: "summary", end: "interrupted", files: 0, refused: 0, bytes: 0, root: None, seconds }
    }
}

pub(super) struct Taking<'a> {
    settings: &'a Settings,
    args: &'a GetArgs,
    open: Open,
    store: Arc<Store>,
    out: PathBuf,
    /// The paths that are present now.
    here: BTreeSet<String>,
    refused: u64,
    started: Instant,
    term: Option<Term>,
    printed: Instant,
    stuck: Stuck,
}

/// Why nothing can be stored now, as it was last printed. Each piece that is refused for now has the reason again.
#[derive(Debug, Default)]
struct Stuck(Option<String>);

impl Stuck {
    /// Whether the reason is to be printed: it is another one, or something was stored since the last.
    fn is_news(&mut self, why: &str) -> bool {
        let new = self.0.as_deref() != Some(why);
        if new {
            self.0 = Some(why.to_owned());
        }
        new
    }

    fn over(&mut self) {
        self.0 = None;
    }
}

impl<'a> Taking<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        args: &'a GetArgs,
        open: Open,
        store: Arc<Store>,
        out: PathBuf,
    ) -> Self {
        let watched = console::user_attended_stderr() && !settings.quiet && !settings.output.is_json();
        let (started, term) = (Instant::now(), watched.then(Term::stderr));
        let here = BTreeSet::new();
        let stuck = Stuck::default();
        Self { settings, args, open, store, out, here, refused: 0, started, term, printed: started, stuck }
    }

    pub(super) async fn run(mut self, stop: Pin<&mut impl Future<Output = Stop>>) -> Result<Exit, Failure> {
        self.say()?;
        let (tell, taken) = mpsc::unbounded_channel();
        let _files = files::serve(&self.open.node, Some(Arc::clone(&self.store)), tell)?;
        let (end, ended) = mpsc::unbounded_channel();
        let _end = serve_end(&self.open.node, end)?;
        let watch = self.open.peer.watch();
        match ask(&self.open.peer, &Request::Begin, READY).await {
            Ok(Reply::Begun) => {}
            Ok(Reply::Over { why }) => return Err(self.gone(&escape(why.as_bytes()))),
            Ok(_) => return Err(self.gone("it does not start")),
            Err(Met::Over(why)) => return Err(self.gone(&why)),
            Err(_) => return Err(self.gone("its answer cannot be understood")),
        }
        let ended = self.take(taken, ended, watch, stop).await?;
        self.clear();
        match ended {
            None => {
                self.settings
                    .note("interrupted; the same command continues from here, while the offer lasts");
                self.sum_up("interrupted", None)?;
                Ok(Exit::Interrupted)
            }
            Some(ended) if ended.end == "done" => self.check(&ended).await,
            Some(ended) if ended.end == "elsewhere" => {
                Err(self.gone("another node has given the code again"))
            }
            Some(_) => Err(self.gone("the sender has ended it")),
        }
    }

    fn say(&self) -> Result<(), Failure> {
        let Manifest { names, files, bytes, .. } = &self.open.manifest;
        let shown: Vec<String> = names.iter().take(5).map(|name| escape(name.as_bytes())).collect();
        let more = if names.len() > shown.len() { ", ..." } else { "" };
        let files = if *files == 1 { String::new() } else { format!("{}, ", counted(*files, "file")) };
        self.settings.note(format!(
            "{} sends {}{more}: {files}{}",
            self.open.peer.id().short(),
            shown.join(", "),
            Size(*bytes)
        ));
        let peer = self.open.peer.id().to_string();
        self.settings.output.line(&OfferLine { r#type: "offer", peer, manifest: &self.open.manifest })
    }

    /// Runs until the sender has ended. None: interrupted here.
    async fn take(
        &mut self,
        mut taken: mpsc::UnboundedReceiver<Taken>,
        mut ended: mpsc::UnboundedReceiver<Ended>,
        mut watch: Watch,
        mut stop: Pin<&mut impl Future<Output = Stop>>,
    ) -> Result<Option<Ended>, Failure> {
        let mut ticks = tokio::time::interval(TICK);
        let mut until = None;
        let end = loop {
            tokio::select! {
                Some(one) = taken.recv() => self.add(&one)?,
                Some(end) = ended.recv() => break Some(end),
                event = watch.next() => match event {
                    Ok(PeerEvent::Away(since)) => {
                        self.clear();
                        self.settings.note("no answer from the sender; still waiting");
                        let patience = self.args.patience.saturating_sub(since);
                        until = tokio::time::Instant::now().checked_add(patience);
                    }
                    Ok(PeerEvent::Back(_)) => until = None,
                    Ok(_) => {}
                    Err(error) => return Err(Failure::new("the node has stopped").because(&error)),
                },
                () = sleep_until(until) => {
                    self.clear();
                    return Err(self.gone("it does not answer"));
                }
                _ = &mut stop => break None,
                _ = ticks.tick() => self.tick()?,
            }
        };
        // Files that were stored before the end are reported first.
        while let Ok(one) = taken.try_recv() {
            self.add(&one)?;
        }
        Ok(end)
    }

    fn add(&mut self, taken: &Taken) -> Result<(), Failure> {
        let (name, size, outcome, reason) = match taken {
            Taken::File { path, size, already_there, .. } => {
                self.here.insert(path.clone());
                self.stuck.over();
                (path, *size, if *already_there { "there" } else { "stored" }, None)
            }
            Taken::Refused { what, reason, .. } => {
                self.refused += 1;
                (what, 0, "refused", Some(reason.as_str()))
            }
            Taken::NotNow { error, .. } => {
                let why = error.to_string();
                if self.stuck.is_news(&why) {
                    self.clear();
                    self.settings.error(format!("cannot store it now: {why}; still trying"));
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.settings.output.line(&FileLine { r#type: "file", name, size, outcome, reason })?;
        let shown = escape(name.as_bytes());
        match reason {
            Some(reason) => {
                self.clear();
                let reason = escape(reason.as_bytes());
                self.settings.error(format!("refused {shown}: {reason}"));
            }
            None if self.open.manifest.files <= 16 || self.settings.verbose => {
                self.clear();
                self.settings.output.text(&format!("{outcome:<9}  {shown}  {}", Size(size)))?;
            }
            None => {}
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), Failure> {
        let (bytes, total) = (self.store.held(), self.open.manifest.bytes);
        if self.settings.output.is_json() && self.printed.elapsed() >= JSON {
            self.printed = Instant::now();
            return self.settings.output.line(&ProgressLine { r#type: "progress", bytes, total });
        }
        if let Some(term) = &self.term {
            let width = usize::from(term.size().1).saturating_sub(3);
            let rate = units::whole(units::rate(bytes, self.started.elapsed())).unwrap_or(0);
            let files = (self.here.len() as u64, self.open.manifest.files);
            // The size of a directory is not that of its files.
            let done = bytes.min(total);
            let view = View { done, total: Some(total), files, rate, left: None, silent: Duration::ZERO };
            // A terminal that is gone is seen when something is printed.
            let _ = term.clear_line();
            let _ = term.write_str(&view.text(width, None));
        }
        Ok(())
    }

    fn clear(&self) {
        if let Some(term) = &self.term {
            let _ = term.clear_line();
        }
    }

    /// Compares the received files with the manifest that the sender has proven.
    async fn check(&self, ended: &Ended) -> Result<Exit, Failure> {
        if ended.left > 0 || self.refused > 0 {
            self.sum_up("done", None)?;
            let left = counted(ended.left.max(self.refused), "file");
            return Err(Failure::new(format!("{left} did not arrive: refused here, or not readable there"))
                .hint("see the lines above, here or at the sender"));
        }
        let root = match self.open.manifest.root {
            None => None,
            Some(root) => {
                let (out, paths) = (self.out.clone(), self.here.clone());
                let found = tokio::task::spawn_blocking(move || hash(&out, &paths)).await;
                let found =
                    found.map_err(|error| Failure::new("cannot read what has arrived").because(&error))??;
                if found != Some(root) {
                    return Err(Failure::new(
                        "what has arrived is not what the sender offered: a file has changed meanwhile",
                    )
                    .hint("what has arrived is stored; for the new content, ask for a new code"));
                }
                found
            }
        };
        let took = self.started.elapsed();
        if self.open.manifest.files > 1 {
            let files = counted(self.here.len() as u64, "file");
            let bytes = Size(self.open.manifest.bytes);
            self.settings
                .note(format!("{files}, {bytes}, in {}; all of it as it was offered", units::span(took)));
        }
        self.sum_up("done", root)?;
        Ok(Exit::Success)
    }

    fn sum_up(&self, end: &'static str, root: Option<Hex32>) -> Result<(), Failure> {
        self.settings.output.line(&Summary {
            r#type: "summary",
            end,
            files: self.here.len() as u64,
            refused: self.refused,
            bytes: self.store.held(),
            root,
            seconds: self.started.elapsed().as_secs_f64(),
        })
    }

    fn gone(&self, why: &str) -> Failure {
        Failure::new(format!("the offer of {} has ended: {why}", self.open.peer.id().short())).hint(
            "what has arrived is kept: with a new code for the same files, the copy continues from there",
        )
    }
}

/// Accepts the sender's report that it has ended: no other node can reach this one.
fn serve_end(node: &Node, tell: mpsc::UnboundedSender<Ended>) -> Result<Serving, Failure> {
    let answer = move |mut call: Call| {
        let tell = tell.clone();
        async move {
            let body = call.body.bytes(LONGEST).await?;
            let bad = |error: serde_json::Error| Refused::new(ReplyStatus::BAD_REQUEST, error.to_string());
            let ended: Ended = serde_json::from_slice(&body).map_err(bad)?;
            // The event is lost once the command has ended.
            let _ = tell.send(ended);
            Ok::<_, Refused>(Bytes::new())
        }
    };
    let started = node.serve(ENDED, answer).concurrency(1).start();
    started.map_err(|e| Failure::new(format!("cannot serve {ENDED}")).because(&e))
}

/// The hash of the files at these paths.
fn hash(out: &std::path::Path, paths: &BTreeSet<String>) -> Result<Option<Hex32>, Failure> {
    let mut hashes = Vec::new();
    for path in paths {
        let file = out.join(path);
        let mut hasher = blake3::Hasher::new();
        let read = std::fs::File::open(&file).and_then(|open| hasher.update_reader(open).map(drop));
        read.map_err(|error| Failure::path("read", &file, &error))?;
        hashes.push((path.as_str(), Hex32(hasher.finalize().into())));
    }
    Ok(listing(hashes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_printed_once_until_something_is_stored() {
        let mut stuck = Stuck::default();
        assert!(stuck.is_news("full") && !stuck.is_news("full"));
        assert!(stuck.is_news("denied") && !stuck.is_news("denied"));
        stuck.over();
        assert!(stuck.is_news("denied"));
    }
}
