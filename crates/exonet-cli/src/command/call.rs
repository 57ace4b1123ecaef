//! `exon call`: makes one call and reports its result.

use std::io::{Seek, Write};
use std::pin::pin;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use exonet::call::{Call, CallId, PendingCall, Reply, ReplyStatus};
use exonet::config::Config;
use exonet::error::{BodyError, CallError, Why};
use exonet::{Body, Node, NodeId, Peer};
use serde::Serialize;
use tempfile::{SpooledData, SpooledTempFile};
use tokio::io::AsyncWriteExt;

use super::show;
use super::stop::{Stop, stop};
use crate::args::CallArgs;
use crate::exit::{Exit, remedy};
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::settings::Settings;
use crate::text::escape;
use crate::{traceparent, units};

/// A longer body from standard input is kept in a file until it is sent.
const HELD: usize = 1 << 20;
/// The longest reply that is printed as JSON, in one line.
const LONGEST_LINE: u64 = 64 << 20;
/// The longest part of the body of a failure that is shown.
const LONGEST_REASON: u64 = 64 << 10;
/// The highest exit code of a process.
const LAST_EXIT_CODE: u32 = 255;
/// The silence after which the command prints that it still waits.
const SILENCE: Duration = Duration::from_secs(4);

pub(super) async fn run(settings: &Settings, args: &CallArgs) -> Result<Exit, Failure> {
    let content = Content::of(args.body.as_deref()).await?;
    let longest = if settings.output.is_json() { LONGEST_LINE.max(content.len()) } else { u64::MAX };
    let change = |config: &mut Config| config.limits.message = config.limits.message.min(longest);
    let node = node::toward_with(settings, &args.peer, change).await?;
    let mut stop = pin!(stop(None)?);
    let mut report = Report::new(settings);
    let peer = node.peer(&args.peer);
    let made = tokio::select! {
        made = content.call(&peer, args) => made,
        _ = &mut stop => {
            report.end = "interrupted";
            Err(CallError::Cancelled)
        }
    };
    let ended = match made {
        Ok(mut call) => {
            let ended = wait(settings, args, &mut call, &mut stop, &mut report.end).await;
            // The reply may have arrived although the caller has given up waiting.
            report.id = call.id().or(report.id);
            ended
        }
        Err(error) => Err(error),
    };
    let exit = tokio::select! {
        exit = report.tell(&node, args, node.id(), ended) => exit?,
        _ = &mut stop, if report.end == "done" => {
            report.end = "interrupted";
            report.broken("the reply was not read to its end", None)?
        }
    };
    node.close(GOODBYE).await;
    Ok(if report.end == "interrupted" { Exit::Interrupted } else { exit })
}

/// Waits for the end of the call. Cancels the call when told to stop.
async fn wait(
    settings: &Settings,
    args: &CallArgs,
    call: &mut PendingCall,
    mut stop: impl Future<Output = Stop> + Unpin,
    end: &mut &'static str,
) -> Result<Reply, CallError> {
    let mut silence = pin!(tokio::time::sleep(SILENCE));
    let mut told = false;
    loop {
        tokio::select! {
            ended = &mut *call => return ended,
            _ = &mut stop, if *end == "done" => {
                *end = "interrupted";
                call.give_up();
            }
            () = &mut silence, if !told => {
                told = true;
                let peer = args.peer.id.short();
                settings.note(format!("no reply from {peer} yet; still waiting, Ctrl-C gives up"));
            }
        }
    }
}

/// The body of a call.
enum Content {
    Whole(Bytes),
    File { len: u64, file: tokio::fs::File },
}

impl Content {
    async fn of(arg: Option<&str>) -> Result<Self, Failure> {
        match arg {
            None => Ok(Self::Whole(Bytes::new())),
            Some("-") => {
                let reading = tokio::task::spawn_blocking(Self::of_stdin).await;
                let read = reading.map_err(std::io::Error::other).and_then(|read| read);
                read.map_err(|e| Failure::new("cannot read standard input").because(&e))
            }
            Some(text) => Ok(Self::Whole(Bytes::copy_from_slice(text.as_bytes()))),
        }
    }

    /// Reads all of standard input before the call is made: a call announces the length of its body.
    fn of_stdin() -> std::io::Result<Self> {
        let mut spool = SpooledTempFile::new(HELD);
        let len = std::io::copy(&mut std::io::stdin().lock(), &mut spool)?;
        spool.flush()?;
        spool.rewind()?;
        Ok(match spool.into_inner() {
            SpooledData::InMemory(cursor) => Self::Whole(cursor.into_inner().into()),
            SpooledData::OnDisk(file) => Self::File { len, file: tokio::fs::File::from_std(file) },
        })
    }

    fn len(&self) -> u64 {
        match self {
            Self::Whole(body) => u64::try_from(body.len()).unwrap_or(u64::MAX),
            Self::File { len, .. } => *len,
        }
    }

    async fn call(self, peer: &Peer, args: &CallArgs) -> Result<PendingCall, CallError> {
        let method = args.method.clone();
        let mut call: Call = match self {
            Self::Whole(body) => peer.call(method, body),
            Self::File { len, file } => peer.call_from(method, len, file),
        };
        if let Some(deadline) = args.deadline {
            call = call.deadline(deadline);
        }
        if args.no_early {
            call = call.early(false);
        }
        if let Some(parent) = traceparent::given(args.traceparent) {
            call = call.traceparent(parent);
        }
        call.start().await
    }
}

#[derive(Default, Serialize)]
struct Summary {
    r#type: &'static str,
    end: &'static str,
    outcome: &'static str,
    id: Option<String>,
    /// The status that the server gave; zero for a reply.
    status: Option<u32>,
    /// Why there is no reply, for people.
    why: Option<String>,
    /// The call certainly did not run, and may be repeated.
    has_not_run: bool,
    ms: f64,
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// Reports the result of the call, in words or as a line of JSON.
struct Report<'a> {
    settings: &'a Settings,
    started: Instant,
    end: &'static str,
    id: Option<CallId>,
}

impl<'a> Report<'a> {
    fn new(settings: &'a Settings) -> Self {
        Self { settings, started: Instant::now(), end: "done", id: None }
    }

    async fn tell(
        &mut self,
        node: &Node,
        args: &CallArgs,
        own: NodeId,
        ended: Result<Reply, CallError>,
    ) -> Result<Exit, Failure> {
        let whom = args.peer.id.short();
        match ended {
            Ok(reply) => {
                self.id = Some(reply.id);
                self.reply(reply.body).await
            }
            Err(CallError::Failed { id, status, body }) => {
                self.id = Some(id);
                self.failed(status, body).await
            }
            Err(error @ CallError::Unknown { id, why }) => {
                self.id = id.or(self.id);
                let ended = self.broken(&error.to_string(), None);
                show::say_conflict(self.settings, node, &args.peer.id);
                if why == Why::Lost && !args.no_early {
                    show::say_clocks(self.settings, "call");
                }
                ended
            }
            Err(error @ CallError::Expired) => self.has_not_run("expired", &error.to_string()),
            Err(CallError::Cancelled) if self.end == "interrupted" => {
                self.has_not_run("cancelled", "the call was withdrawn before it left")
            }
            Err(CallError::Cancelled) if node.peer(args.peer.id).conflict().is_some() => {
                show::say_conflict(self.settings, node, &args.peer.id);
                self.has_not_run("cancelled", "the call was withdrawn before it left")
            }
            Err(CallError::Cancelled) => {
                self.has_not_run("cancelled", "the call is larger than the node accepts: it was withdrawn")
            }
            Err(CallError::NotTaken(why)) => {
                let ended = self.has_not_run("refused", &why.to_string());
                self.settings.error(format!("  {}", remedy(why, own)));
                ended
            }
            Err(error) => Err(Failure::new(format!("cannot call {whom}")).because(&error)),
        }
    }

    /// Prints the reply as it arrives, or as one line of JSON when it is complete.
    async fn reply(&self, mut body: Body) -> Result<Exit, Failure> {
        let size = body.len().unwrap_or_default();
        let read = match self.settings.output.is_json() {
            true => self.in_a_line("reply", ReplyStatus::OK, &mut body, LONGEST_LINE).await?,
            false => copy_out(&mut body).await?,
        };
        match read {
            Ok(()) => {
                let (size, took) = (units::Size(size), units::span(self.started.elapsed()));
                if self.settings.verbose {
                    self.settings.note(format!("{size} in {took}, call {}", self.name()));
                }
                Ok(Exit::Success)
            }
            Err(error) => self.broken(&format!("the reply ended early: {error}"), Some(ReplyStatus::OK)),
        }
    }

    async fn failed(&self, status: ReplyStatus, mut body: Body) -> Result<Exit, Failure> {
        if status == ReplyStatus::DRAINING {
            return self.has_not_run("draining", "the server is ending and takes no new call: try again");
        }
        if self.settings.output.is_json()
            && let Err(error) = self.in_a_line("failed", status, &mut body, LONGEST_LINE).await?
        {
            return self.broken(&format!("the failure ended early: {error}"), Some(status));
        }
        let surely = if status.has_not_run() { "; it certainly did not run" } else { "" };
        let how = match status {
            ReplyStatus::FAILED => "at the server".to_owned(),
            status => format!("with `{status}`"),
        };
        self.settings.error(format!("the call {} failed {how}{surely}", self.name()));
        if (1..=LAST_EXIT_CODE).contains(&status.0) {
            self.settings.error(
                "  if `exon serve --exec` runs there, its log has what the command wrote to standard error",
            );
        }
        // The body of a failure is optional. In JSON it has already been printed.
        if let Ok(reason) = body.bytes(LONGEST_REASON).await {
            for line in reason.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                self.settings.error(format!("  {}", escape(line)));
            }
        }
        Ok(Exit::Failed)
    }

    /// Prints a body as a part of the last line, once it is complete.
    async fn in_a_line(
        &self,
        outcome: &'static str,
        status: ReplyStatus,
        body: &mut Body,
        limit: u64,
    ) -> Result<Result<(), BodyError>, Failure> {
        let size = body.len();
        let content = match body.bytes(limit).await {
            Ok(content) => content,
            Err(error) => return Ok(Err(error)),
        };
        let (text, base64) = match String::from_utf8(content.into()) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(BASE64.encode(error.as_bytes()))),
        };
        let has_not_run = status.has_not_run();
        let why = (status != ReplyStatus::OK).then(|| status.to_string());
        let summary = Summary {
            outcome,
            status: Some(status.0),
            why,
            has_not_run,
            size,
            text,
            base64,
            ..self.summary()
        };
        self.settings.output.line(&summary).map(Ok)
    }

    fn has_not_run(&self, outcome: &'static str, why: &str) -> Result<Exit, Failure> {
        self.settings.error(format!("{why}; it certainly did not run"));
        let why = Some(why.to_owned());
        self.settings.output.line(&Summary { outcome, why, has_not_run: true, ..self.summary() })?;
        Ok(Exit::Undelivered)
    }

    /// Reports that it is unknown whether the call ran.
    fn broken(&self, why: &str, status: Option<ReplyStatus>) -> Result<Exit, Failure> {
        self.settings.error(format!("unknown: {why}"));
        self.settings.error(format!("  ask the server what happened to {}", self.name()));
        let (why, status) = (Some(why.to_owned()), status.map(|status| status.0));
        self.settings.output.line(&Summary { outcome: "unknown", why, status, ..self.summary() })?;
        Ok(Exit::Unknown)
    }

    fn summary(&self) -> Summary {
        let ms = self.started.elapsed().as_secs_f64() * 1e3;
        let id = self.id.map(|id| id.to_string());
        Summary { r#type: "summary", end: self.end, id, ms, ..Summary::default() }
    }

    fn name(&self) -> String {
        self.id.map_or("that never left".to_owned(), |id| id.to_string())
    }
}

/// Writes a body to standard output as it arrives.
async fn copy_out(body: &mut Body) -> Result<Result<(), BodyError>, Failure> {
    let mut out = tokio::io::stdout();
    loop {
        match body.chunk().await {
            Ok(Some(chunk)) => out.write_all(&chunk).await.map_err(|e| Failure::output(&e))?,
            Ok(None) => break,
            Err(error) => return Ok(Err(error)),
        }
    }
    out.flush().await.map_err(|e| Failure::output(&e)).map(Ok)
}
