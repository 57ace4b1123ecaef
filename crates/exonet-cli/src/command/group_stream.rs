//! `exon group send --stream`: sends lines in order to several nodes, and reports their outcomes at each node.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::pin::pin;
use std::sync::Arc;

use exonet::error::GroupError;
use exonet::group::{Cause, Departure, GroupReceipt, GroupStream, MemberLine, MemberState, Mode, WhenFull};
use exonet::stream::MAX_STREAM_BODY;
use exonet::{Message, Node, NodeId, Outcome};
use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::FuturesUnordered;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Stdin};

use super::group::{Path, mode_name, refusal};
use super::stop::stop;
use crate::args::{self, GroupSendArgs};
use crate::exit::{Exit, Tally};
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::peers::Named;
use crate::settings::Settings;
use crate::text::escape;
use crate::units::{count, counted};

#[derive(Serialize)]
struct Member<'a> {
    r#type: &'static str,
    peer: String,
    /// The name of the member on the command line, or the beginning of its id.
    name: &'a str,
    outcomes: Tally,
    /// The number of messages that could not be queued for the member.
    skipped: u64,
    /// The reason why the member was no longer in the stream at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<String>,
    /// The reason for the first message that the member rejected or refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(flatten)]
    path: Path,
}

/// How sending has ended.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum End {
    /// The whole input was sent.
    Done,
    Interrupted,
    /// The rest of the input could not be sent.
    Failed,
}

#[derive(Serialize)]
struct Summary<'a> {
    r#type: &'static str,
    end: End,
    verdict: &'static str,
    stream: &'a str,
    mode: String,
    members: usize,
    /// The number of messages, and the number of messages that enough members have.
    messages: u64,
    reached: u64,
}

/// The outcomes of the messages at one member.
#[derive(Default)]
struct Account {
    outcomes: Tally,
    skipped: u64,
    left: Option<String>,
    reason: Option<Arc<str>>,
}

/// An event of a message.
enum Step {
    Decided(GroupReceipt, bool),
    Ended(Vec<MemberLine>),
}

/// The stream, and its open messages.
struct Talk {
    own: NodeId,
    stream: GroupStream,
    open: FuturesUnordered<BoxFuture<'static, Step>>,
    undecided: u64,
    sent: u64,
    reached: u64,
    accounts: BTreeMap<NodeId, Account>,
}

pub(super) async fn send(settings: &Settings, args: &GroupSendArgs, name: &str) -> Result<Exit, Failure> {
    let node = node::toward_all(settings, &args.members, |_| ()).await?;
    let stop = stop(None)?;
    let mut stop = pin!(stop);
    let stream =
        open(&node, args, name).map_err(|error| wrong(&format!("in the stream {name:?}"), &error))?;
    let mut input = Input::new(settings, args);
    let mut talk = Talk::new(node.id(), stream);
    let said = tokio::select! {
        said = talk.run(args, &mut input) => Some(said),
        _ = &mut stop => None,
    };
    let (interrupted, paths) = (said.is_none(), Path::all(&node, args));
    node.close(GOODBYE).await;
    // Nothing is open any more, so these are the final outcomes.
    while let Some(step) = talk.open.next().await {
        talk.heed(step);
    }
    let failure = said.and_then(Result::err).map(|error| match error {
        Said::Input(failure) => failure,
        Said::Group(error) => wrong(&format!("message {} in the stream {name:?}", talk.sent + 1), &error),
    });
    let end = match (&failure, interrupted) {
        (Some(_), _) => End::Failed,
        (None, true) => End::Interrupted,
        (None, false) => End::Done,
    };
    match failure {
        Some(failure) if talk.sent == 0 => return Err(failure),
        Some(failure) => failure.report(settings.output.is_json()),
        None => {}
    }
    talk.tell(settings, args, name, (&paths, end))?;
    Ok(talk.exit(args.mode, end))
}

fn wrong(what: &str, error: &GroupError) -> Failure {
    let failure = Failure::new(format!("cannot send {what} to the group")).because(error);
    match error {
        GroupError::Empty | GroupError::TooFewMembers { .. } => {
            failure.hint("the table says why the others have left")
        }
        _ => failure,
    }
}

fn open(node: &Node, args: &GroupSendArgs, name: &str) -> Result<GroupStream, GroupError> {
    let members = args.members.iter().map(|named| named.peer.clone());
    let stream = node.group(members).build()?.stream(name.to_owned())?;
    let when_full = match args.when_full {
        args::WhenFull::FallOut => WhenFull::FallOut,
        args::WhenFull::Wait => WhenFull::Wait,
    };
    Ok(stream.queue(args.queue.get()).when_full(when_full).priority(args.priority.into()))
}

/// The reason why sending ended early.
enum Said {
    Input(Failure),
    Group(GroupError),
}

impl Talk {
    fn new(own: NodeId, stream: GroupStream) -> Self {
        let accounts = stream.members().into_iter().map(|id| (id, Account::default())).collect();
        Self { own, stream, open: FuturesUnordered::new(), undecided: 0, sent: 0, reached: 0, accounts }
    }

    /// Sends all input, waits until each message is decided, and then a little longer for the other members.
    async fn run(&mut self, args: &GroupSendArgs, input: &mut Input) -> Result<(), Said> {
        let stream = self.stream.clone();
        let said = loop {
            let mut next = pin!(async {
                let Some(body) = input.next().await.map_err(Said::Input)? else { return Ok(None) };
                let message = Message::new(body).confirm(args.confirm.into()).deadline(args.deadline);
                stream.send(args.mode, message).await.map(Some).map_err(Said::Group)
            });
            let sent = loop {
                tokio::select! {
                    sent = &mut next => break sent,
                    Some(step) = self.open.next() => self.heed(step),
                    Some(departure) = stream.departed() => self.departed(departure),
                }
            };
            match sent {
                Ok(Some(receipt)) => self.follow(receipt),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        // If no member is left, nobody can be told of the end.
        let end = stream.close().await.ok();
        while self.undecided > 0
            && let Some(step) = self.open.next().await
        {
            self.heed(step);
        }
        let rest = async {
            while let Some(step) = self.open.next().await {
                self.heed(step);
            }
            if let Some(mut end) = end {
                end.ended().await;
            }
        };
        drop(tokio::time::timeout(args.wait, rest).await);
        while let Some(Some(departure)) = stream.departed().now_or_never() {
            self.departed(departure);
        }
        said
    }

    fn follow(&mut self, receipt: GroupReceipt) {
        (self.sent, self.undecided) = (self.sent + 1, self.undecided + 1);
        let decided = async move {
            let mut receipt = receipt;
            let reached = receipt.decided().await.is_reached();
            Step::Decided(receipt, reached)
        };
        self.open.push(decided.boxed());
    }

    fn heed(&mut self, step: Step) {
        match step {
            Step::Decided(receipt, reached) => {
                self.undecided -= 1;
                self.reached += u64::from(reached);
                let ended = async move {
                    let mut receipt = receipt;
                    Step::Ended(receipt.ended().await)
                };
                self.open.push(ended.boxed());
            }
            Step::Ended(lines) => lines.into_iter().for_each(|line| {
                let account = self.accounts.entry(line.id).or_default();
                let mut reason = line.reason;
                match line.state {
                    MemberState::Settled(settled) => {
                        account.outcomes.add(settled.outcome);
                        if let Outcome::Refused(why) = settled.outcome {
                            reason = Some(refusal(why, self.own).into());
                        }
                    }
                    _ => account.skipped += 1,
                }
                account.reason = account.reason.take().or(reason);
            }),
        }
    }

    fn departed(&mut self, departure: Departure) {
        let why = match departure.cause {
            Cause::Full => "fell out: too far behind the others".to_owned(),
            Cause::Failed(error) => format!("fell out: {error}"),
            _ => "was removed".to_owned(),
        };
        self.accounts.entry(departure.id).or_default().left = Some(why);
    }

    /// Whether the whole input was sent, and every message has reached the required number of members. In the mode for
    /// all members, no named member may have left.
    fn has_reached(&self, mode: Mode, end: End) -> bool {
        let all_stayed = self.accounts.values().all(|account| account.left.is_none());
        end != End::Failed && self.reached == self.sent && (mode != Mode::All || all_stayed)
    }

    fn exit(&self, mode: Mode, end: End) -> Exit {
        let ended = |count: fn(&Tally) -> u64| self.accounts.values().any(|a| count(&a.outcomes) > 0);
        match () {
            () if end == End::Interrupted => Exit::Interrupted,
            () if end == End::Failed => Exit::Error,
            () if self.has_reached(mode, end) => Exit::Success,
            () if ended(|tally| tally.unknown) => Exit::Unknown,
            () if ended(|tally| tally.kept) => Exit::Kept,
            () => Exit::Undelivered,
        }
    }

    /// Prints the table and the verdict.
    fn tell(
        &self,
        settings: &Settings,
        args: &GroupSendArgs,
        name: &str,
        (paths, end): (&BTreeMap<NodeId, Path>, End),
    ) -> Result<(), Failure> {
        let width = args.members.iter().map(|named| named.name.len()).max().unwrap_or_default();
        let nothing = Account::default();
        // Members are listed in the order of the command line.
        for Named { name, peer } in &args.members {
            let Account { outcomes, skipped, left, reason } = self.accounts.get(&peer.id).unwrap_or(&nothing);
            let skips = if *skipped > 0 { format!(", {} skipped", count(*skipped)) } else { String::new() };
            let leaves = left.as_ref().map(|left| format!("  {left}")).unwrap_or_default();
            let reason = reason.as_deref().filter(|reason| !reason.is_empty());
            let said = reason.map(|reason| format!("  {}", escape(reason.as_bytes()))).unwrap_or_default();
            let path = paths.get(&peer.id).copied().unwrap_or_default();
            let (ends, way) = (outcomes.describe(), path.describe(settings));
            settings.output.text(&format!("{name:<width$}  {ends}{skips}{way}{leaves}{said}"))?;
            settings.output.line(&Member {
                r#type: "member",
                peer: peer.id.to_string(),
                name,
                outcomes: *outcomes,
                skipped: *skipped,
                left: left.clone(),
                reason,
                path,
            })?;
        }
        let verdict = if self.has_reached(args.mode, end) { "reached" } else { "failed" };
        let (reached, sent) = (count(self.reached), counted(self.sent, "message"));
        settings.output.text(&format!("\n{verdict}: {reached} of {sent}"))?;
        settings.output.line(&Summary {
            r#type: "summary",
            end,
            verdict,
            stream: name,
            mode: mode_name(args.mode),
            members: args.members.len(),
            messages: self.sent,
            reached: self.reached,
        })
    }
}

/// The input: the texts of the command line, or the lines of standard input.
struct Input {
    texts: std::vec::IntoIter<String>,
    lines: Option<BufReader<Stdin>>,
    /// How many lines were read.
    read: u64,
}

impl Input {
    fn new(settings: &Settings, args: &GroupSendArgs) -> Self {
        let reads = args.texts.is_empty() || args.texts == ["-"];
        if reads && std::io::stdin().is_terminal() {
            settings.note("each line is a message; Ctrl-D ends, Ctrl-C stops");
        }
        let texts = if reads { Vec::new() } else { args.texts.clone() };
        Self { texts: texts.into_iter(), lines: reads.then(|| BufReader::new(tokio::io::stdin())), read: 0 }
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let Some(lines) = &mut self.lines else { return Ok(self.texts.next().map(String::into_bytes)) };
        let (mut line, longest) = (Vec::new(), MAX_STREAM_BODY as u64 + 1);
        let read = (&mut *lines).take(longest).read_until(b'\n', &mut line).await;
        if read.map_err(|error| Failure::new("cannot read standard input").because(&error))? == 0 {
            return Ok(None);
        }
        self.read += 1;
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() > MAX_STREAM_BODY {
            let why = format!("line {} has more than {MAX_STREAM_BODY} bytes", self.read);
            return Err(Failure::new(why).hint("a message of a stream has at most that many"));
        }
        Ok(Some(line))
    }
}
