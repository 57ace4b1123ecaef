//! `exon session`: exchanges lines with a program of another node, and lists sessions that can continue.

use std::io::IsTerminal as _;
use std::pin::pin;
use std::sync::Arc;

use exonet::session::{
    SessionEnd, SessionError, SessionEvent, SessionEvents, SessionId, SessionMessage, SessionReceiver,
    SessionSendError, SessionSender,
};
use exonet::state::KeptSession;
use exonet::{Confirm, Message, Outcome, Receipt, Session};
use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::FuturesUnordered;
use serde::Serialize;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, BufReader};
use tokio::time::timeout;

use super::stop::{Stop, stop};
use crate::args::{SessionArgs, SessionCommand, SessionOpenArgs};
use crate::exit::{Exit, Tally};
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::settings::Settings;
use crate::text::escape;
use crate::units::{counted, span};

/// The maximum number of messages that are sent and not settled. A program that does not read thus holds the input
/// back.
const MOST_OPEN: usize = 1_024;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line<'a> {
    Session {
        id: String,
        name: &'a str,
    },
    Message {
        id: String,
        text: &'a str,
    },
    Away {
        seconds: f64,
    },
    Back {
        seconds: f64,
    },
    Moved {
        to: String,
    },
    /// The number of an input line that the other side has rejected, and the reason.
    Rejected {
        line: u64,
        reason: &'a str,
    },
    Summary {
        end: &'a str,
        id: String,
        sent: u64,
        received: u64,
        input_remained: bool,
        outcomes: &'a Tally,
    },
}

pub(super) async fn run(settings: &Settings, args: &SessionArgs) -> Result<Exit, Failure> {
    match &args.command {
        SessionCommand::Open(args) => open(settings, args).await,
        SessionCommand::Ls => list(settings),
    }
}

#[derive(Serialize)]
struct Row {
    r#type: &'static str,
    id: String,
    name: String,
    peer: String,
    addresses: Vec<String>,
    /// The part of the identity in the session.
    role: &'static str,
}

#[derive(Serialize)]
struct Listed {
    r#type: &'static str,
    sessions: usize,
}

/// The sessions that the journal of the identity has.
fn list(settings: &Settings) -> Result<Exit, Failure> {
    let sessions = settings.identity.sessions()?;
    for KeptSession { id, name, peer, addresses, is_client, .. } in &sessions {
        let name = escape(name);
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        let at = addresses.last().map_or_else(String::new, |address| format!("@{address}"));
        let role = if *is_client { "client" } else { "server" };
        settings.output.text(&format!("{id}  {role}  {name}  {peer}{at}"))?;
        let (id, peer) = (id.to_string(), peer.to_string());
        settings.output.line(&Row { r#type: "session", id, name, peer, addresses, role })?;
    }
    if sessions.is_empty() {
        settings.note(format!("{} has no session that can continue", settings.identity));
    }
    settings.output.line(&Listed { r#type: "summary", sessions: sessions.len() })?;
    Ok(Exit::Success)
}

/// Whether the identity may continue session `id` of the command line, as far as its journal says.
fn knows(settings: &Settings, args: &SessionOpenArgs, id: SessionId) -> bool {
    let is_it = |kept: &KeptSession| {
        kept.is_client && (kept.id, kept.peer, &*kept.name) == (id, args.peer.id, args.name.as_bytes())
    };
    // If the journal cannot be read, the start of the node says so.
    settings.identity.is_stored() && settings.identity.sessions().map_or(true, |kept| kept.iter().any(is_it))
}

async fn open(settings: &Settings, args: &SessionOpenArgs) -> Result<Exit, Failure> {
    let known = args.id.is_none_or(|id| knows(settings, args, id));
    let mut stopped = pin!(stop(args.timeout)?);
    let node = node::toward(settings, &args.peer).await?;
    let peer = node.peer(&args.peer);
    let wrong = |error: &dyn std::error::Error| {
        Failure::new(format!("cannot open the session {:?}", args.name)).because(error)
    };
    let builder = peer.session(args.name.clone()).map_err(|error| wrong(&error))?.idle(args.idle);
    let opened = match args.id {
        Some(id) => builder.attach(id),
        None => builder.open().await,
    };
    let session = opened.map_err(|error| wrong(&error))?;
    peer.keepalive((!args.keepalive.is_zero()).then_some(args.keepalive));
    let id = session.id();
    // A session that the identity does not know is probably none: its end says so.
    if known {
        settings.output.line(&Line::Session { id: id.to_string(), name: &args.name })?;
        let typed = std::io::stdin().is_terminal();
        let how = if typed { ": each line that you type goes to the other side; Ctrl-D ends" } else { "" };
        settings.note(format!("session {id}{how}"));
    }

    let mut talk = Talk::new(session);
    let end = tokio::select! {
        end = talk.run(settings) => end.map(|end| match end {
            None if talk.remained => End::Early,
            None => End::Both,
            Some(SessionEnd::Forgotten) if !known => End::Nowhere,
            Some(end) => End::Other(end),
        }),
        stop = &mut stopped => Ok(End::Stopped(stop)),
    };
    let Talk { sent, received, mut outcomes, mut open, sender, receiver, remained, .. } = talk;
    // A handle that is dropped before the node is closed ends its session, and the other side is told.
    let kept = matches!(end, Ok(End::Stopped(_))) && settings.keeps_journal();
    let left = kept.then_some((sender, receiver));
    node.close(GOODBYE).await;
    drop(left);
    let end = end?;
    while let Some(said) = open.next().await {
        said.into_iter().try_for_each(|said| said.settle(settings, &mut outcomes))?;
    }
    let (word, exit) = exit(settings, args, &end, &outcomes, id);
    settings.output.line(&Line::Summary {
        end: word,
        id: id.to_string(),
        sent,
        received,
        input_remained: remained,
        outcomes: &outcomes,
    })?;
    Ok(exit)
}

/// How the run of a session ended.
enum End {
    /// Both sides have ended the session.
    Both,
    /// The other side has ended the session before the end of the input.
    Early,
    /// The session has ended in another way.
    Other(SessionEnd),
    /// The identity knows no such session, and neither does the other side.
    Nowhere,
    /// The session has not ended.
    Stopped(Stop),
}

/// Reports the end of the session in a word, and returns the exit code.
fn exit(
    settings: &Settings,
    args: &SessionOpenArgs,
    end: &End,
    tally: &Tally,
    id: SessionId,
) -> (&'static str, Exit) {
    let undelivered = tally.rejected + tally.expired + tally.cancelled + tally.refused;
    let lost = if tally.unknown > 0 { Exit::Unknown } else { Exit::Undelivered };
    match end {
        End::Stopped(_) if settings.keeps_journal() => {
            settings.note(format!("left open; to continue: --id {id}"));
            ("left", Exit::Kept)
        }
        End::Stopped(Stop::Interrupted) => ("interrupted", Exit::Interrupted),
        End::Stopped(Stop::TimedOut) => {
            settings.error("the other side has not ended the session in time: it is aborted");
            ("timed out", lost)
        }
        End::Nowhere => {
            settings.error(format!(
                "there is no session {id} called {:?} with {} of this identity ({}); `exon session ls` shows what \
                 there is",
                args.name,
                args.peer.id.short(),
                settings.identity
            ));
            ("forgotten", lost)
        }
        End::Other(end) => {
            settings.error(match end {
                SessionEnd::Refused(reason) => {
                    format!("the other side has ended the session: {}", escape(reason.as_bytes()))
                }
                end => format!("the session has ended: {end}"),
            });
            (end_name(end), lost)
        }
        End::Early => {
            settings.error("the other side has ended the session; input that remained was not sent");
            ("closed", lost)
        }
        End::Both if tally.unknown > 0 => ("closed", Exit::Unknown),
        End::Both if undelivered > 0 => {
            settings.error(format!("{} not delivered", counted(undelivered, "line")));
            ("closed", Exit::Undelivered)
        }
        End::Both => ("closed", Exit::Success),
    }
}

fn end_name(end: &SessionEnd) -> &'static str {
    match end {
        SessionEnd::Refused(_) => "refused",
        SessionEnd::Aborted => "aborted",
        SessionEnd::Expired => "expired",
        SessionEnd::Forgotten => "forgotten",
        _ => "closed",
    }
}

/// A line that was sent, and its outcome.
struct Said {
    line: u64,
    outcome: Outcome,
    reason: Option<Arc<str>>,
}

async fn settled(line: u64, mut receipt: Receipt) -> Said {
    let outcome = (&mut receipt).await.outcome;
    Said { line, outcome, reason: receipt.reason() }
}

impl Said {
    /// Counts the outcome, and tells why the line was rejected.
    fn settle(self, settings: &Settings, tally: &mut Tally) -> Result<(), Failure> {
        tally.add(self.outcome);
        if !matches!(self.outcome, Outcome::Rejected { .. }) {
            return Ok(());
        }
        let (line, reason) = (self.line, self.reason.as_deref().unwrap_or("no reason was given"));
        settings.error(format!("line {line} was rejected: {}", escape(reason.as_bytes())));
        settings.output.line(&Line::Rejected { line, reason })
    }
}

/// A session and its messages.
struct Talk {
    sender: SessionSender,
    receiver: SessionReceiver,
    events: SessionEvents,
    /// The messages that are sent and not settled. The end of the session yields None, since it is not a line.
    open: FuturesUnordered<BoxFuture<'static, Option<Said>>>,
    outcomes: Tally,
    sent: u64,
    received: u64,
    /// Whether the other side has ended the session before the end of the input.
    remained: bool,
}

impl Talk {
    fn new(session: Session) -> Self {
        let events = session.events();
        let (sender, receiver) = session.split();
        let (open, outcomes) = (FuturesUnordered::new(), Tally::default());
        Self { sender, receiver, events, open, outcomes, sent: 0, received: 0, remained: false }
    }

    /// Exchanges lines until both sides have finished and all sent messages are settled. If the session ends in
    /// another way, returns that end.
    async fn run(&mut self, settings: &Settings) -> Result<Option<SessionEnd>, Failure> {
        let mut input = BufReader::new(tokio::io::stdin());
        let mut line = Vec::new();
        let (mut more, mut listens, mut watches) = (true, true, true);
        while more || listens || !self.open.is_empty() {
            tokio::select! {
                read = input.read_until(b'\n', &mut line), if more && self.open.len() < MOST_OPEN => {
                    let read = read.map_err(|error| Failure::new("cannot read standard input").because(&error))?;
                    // Bytes that were read before another branch won are still in the buffer. The last line may lack
                    // a line feed.
                    more = read > 0 || !line.is_empty();
                    let said = if more { self.say(&mut line).await } else { self.sender.close().await };
                    match said {
                        Ok(receipt) => self.open.push(settled(self.sent, receipt).map(move |said| more.then_some(said)).boxed()),
                        // The reader gets the reason.
                        Err(SessionSendError::Ended(_)) => more = false,
                        Err(error) => return Err(Failure::new("cannot send").because(&error)),
                    }
                }
                next = self.receiver.recv(), if listens => match next {
                    Ok(Some(message)) => self.show(settings, message)?,
                    Ok(None) => listens = false,
                    Err(SessionError::Missing(n)) => {
                        settings.error(format!("{} missing here", counted(n, "message")));
                    }
                    Err(SessionError::Ended(end)) => return Ok(Some(end)),
                    Err(error) => return Err(Failure::new("cannot receive").because(&error)),
                },
                Some(said) = self.open.next() => {
                    said.into_iter().try_for_each(|said| said.settle(settings, &mut self.outcomes))?;
                }
                event = self.events.next(), if watches => match event {
                    Ok(event) => tell(settings, &event)?,
                    Err(_) => watches = false,
                },
            }
            // The other side has finished, so further input is of no use to it.
            if more && !listens {
                more = false;
                self.remained = remains(&mut input, &line).await;
            }
            if !listens && self.open.is_empty() {
                break;
            }
        }
        Ok(None)
    }

    async fn say(&mut self, line: &mut Vec<u8>) -> Result<Receipt, SessionSendError> {
        let mut text = core::mem::take(line);
        if text.last() == Some(&b'\n') {
            text.pop();
        }
        self.sent += 1;
        self.sender.send(Message::new(text).confirm(Confirm::Processed)).await
    }

    fn show(&mut self, settings: &Settings, message: SessionMessage) -> Result<(), Failure> {
        let text = String::from_utf8_lossy(message.body());
        settings.output.line(&Line::Message { id: message.id().to_string(), text: &text })?;
        if !settings.output.is_json() {
            settings.output.bytes(&[message.body(), &b"\n"[..]].concat())?;
        }
        self.received += 1;
        // The line is printed. If the acknowledgement fails, the message is delivered and printed again.
        let _ = message.ack();
        Ok(())
    }
}

/// Whether there is input that was not sent. A terminal has no end to wait for: only a begun line remains there.
async fn remains(input: &mut (impl AsyncBufRead + Unpin), line: &[u8]) -> bool {
    if !line.is_empty() {
        return true;
    }
    // The end of the input may come a little later than that of the session.
    match timeout(GOODBYE, input.fill_buf()).await {
        Ok(Ok(rest)) => !rest.is_empty(),
        Ok(Err(_)) => true,
        Err(_) => !std::io::stdin().is_terminal(),
    }
}

/// Prints events other than messages.
fn tell(settings: &Settings, event: &SessionEvent) -> Result<(), Failure> {
    match event {
        SessionEvent::Away(since) => {
            settings.note(format!("the other side is away: no answer for {}", span(*since)));
            settings.output.line(&Line::Away { seconds: since.as_secs_f64() })
        }
        SessionEvent::Back(after) => {
            settings.note(format!("the other side is back after {}", span(*after)));
            settings.output.line(&Line::Back { seconds: after.as_secs_f64() })
        }
        SessionEvent::Moved(to) => {
            settings.note(format!("the other side is now at {to}"));
            settings.output.line(&Line::Moved { to: to.to_string() })
        }
        _ => Ok(()),
    }
}
