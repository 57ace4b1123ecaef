//! What is said over the control socket.
//!
//! A client says one [`Request`], with the number of this protocol. The answer is any number of [`Reply`] lines, of which the last is
//! `done` or `error`. Behind `send` the client goes on with [`Part`]s, while replies come.

use std::time::Duration;

use exonet::{Outcome, Priority};
use serde::{Deserialize, Serialize};

use super::figures::{NodeFigures, PeerFigures};
use crate::moving::{Moved, Step};
use crate::trace::Happened;

/// The version of what is said here. Another one is refused.
pub(crate) const VERSION: u32 = 1;
/// Bytes of a body in one line, before they are written in base 64.
pub(crate) const PIECE: usize = 128 << 10;
/// The longest body that is handed over.
pub(crate) const LONGEST_BODY: usize = 16 << 20;

/// The first line of a client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Envelope {
    /// [`VERSION`].
    pub(crate) exon: u32,
    #[serde(flatten)]
    pub(crate) request: Request,
}

/// What a client wants.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Who is there. Answered by [`Reply::Node`].
    Status,
    /// How the node is, as [`Reply::Figures`], and each of its peers, as [`Reply::PeerFigures`].
    Figures,
    /// All open messages, each as [`Reply::Message`].
    Outbox,
    /// The body of one, as [`Reply::Body`].
    Show { number: u64 },
    /// Gives one up, or all; each is told as [`Reply::Settled`].
    Drop { number: Option<u64> },
    /// Looks for the peers of one, or of all, each told as [`Reply::Peer`].
    Retry { number: Option<u64>, wait_ms: u64 },
    /// All messages that have arrived and are not acknowledged, each as [`Reply::Arrived`].
    Inbox,
    /// One of them, and its body as [`Reply::Body`].
    InboxShow { id: String },
    /// Tries a dead letter again, as [`Reply::Retried`]: `exon listen --exec` does that.
    DeadRetry { id: String },
    /// Hands messages over: [`Part`]s follow.
    Send(Head),
    /// Messages step by step: [`Reply::Trace`], then each step as [`Reply::Happened`].
    Trace(Wanted),
    /// Ends `exon up`.
    Stop,
    /// Moves the identity to a door, and ends then; goes on if there is no move. Answered by [`Reply::Step`]s and [`Reply::Moved`].
    /// A client that leaves before the identity is ceded wants no move.
    Move {
        /// As `ID@HOST:PORT`.
        to: String,
        timeout_ms: u64,
        freeze_ms: u64,
    },
}

/// Which messages are followed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Wanted {
    /// To and from this peer only.
    pub(crate) peer: Option<String>,
    /// This one only: its number in the outbox, or its id.
    pub(crate) message: Option<String>,
    /// So many.
    pub(crate) count: Option<u32>,
}

/// What all messages of a handover have in common.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Head {
    /// As `ID@HOST:PORT`.
    pub(crate) peer: String,
    pub(crate) tag: String,
    pub(crate) priority: Class,
    pub(crate) deadline_ms: Option<u64>,
    pub(crate) early: bool,
    /// The client waits for what becomes of each.
    pub(crate) outcomes: bool,
    /// The sender is to be told when the application there has processed it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) processed: bool,
    /// The trace that they are part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) traceparent: Option<String>,
}

impl Head {
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.deadline_ms.map(Duration::from_millis)
    }
}

/// A class of priority.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Class {
    Urgent,
    Normal,
    Low,
    Bulk,
}

impl From<Class> for Priority {
    fn from(class: Class) -> Self {
        match class {
            Class::Urgent => Self::Urgent,
            Class::Normal => Self::Normal,
            Class::Low => Self::Low,
            Class::Bulk => Self::Bulk,
        }
    }
}

/// What follows a [`Request::Send`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// A message.
    Text(String),
    /// A piece of one: all of it, if none is to follow.
    Bytes { base64: String, more: bool },
    /// That was all; the client stays until it has been told everything.
    End,
}

/// Where others reach a process: the ports that the system has chosen are known to it alone.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Places {
    /// Its node, as `ID@HOST:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) peer: Option<String>,
    /// Its gateway, and the file with the token of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) http: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) http_token: Option<String>,
    /// Its figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) metrics: Option<String>,
}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Reply {
    Node {
        exon: u32,
        command: String,
        pid: u32,
        id: String,
        /// How much a crash may take, as `--durability` has it.
        durability: String,
        open: u64,
        /// Messages are taken of others.
        takes: bool,
        /// Dead letters are tried again.
        #[serde(default)]
        works: bool,
        #[serde(flatten)]
        places: Box<Places>,
    },
    Figures(Box<NodeFigures>),
    PeerFigures(Box<PeerFigures>),
    Message(Box<Row>),
    Arrived(Box<Unacked>),
    Retried(Retried),
    Body {
        base64: String,
    },
    Peer {
        peer: String,
        messages: u64,
        rtt_ms: Option<f64>,
        /// Why there is no answer.
        why: Option<String>,
    },
    /// So many messages of a handover are in the journal, as durably as the node keeps it.
    Accepted {
        n: u64,
    },
    Settled(Settled),
    /// The trace begins.
    Trace {
        node: String,
        command: String,
        /// When, in ms since 1970.
        began_ms: u64,
    },
    Happened(Box<Happened>),
    /// How many steps, and how many messages, were left out for lack of room.
    Missed {
        steps: u64,
        messages: u64,
    },
    Step(Step),
    Moved(Moved),
    Done,
    Error {
        error: String,
        hint: Option<String>,
    },
}

/// A message of an outbox.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) number: u64,
    pub(crate) peer: String,
    pub(crate) addresses: Vec<String>,
    /// None: it is queued, and has certainly not left.
    pub(crate) id: Option<String>,
    pub(crate) tag: String,
    pub(crate) size: u64,
    /// The begin of its body, in base 64.
    pub(crate) glance: String,
}

/// What became of a dead letter that was tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub(crate) enum Retried {
    /// It is processed, and has gone.
    Processed,
    /// It stays.
    Kept { reason: String },
    /// Somebody else tries it just now: it was not tried here.
    Busy,
    /// It had gone before.
    Gone,
}

/// A message of an inbox.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Unacked {
    pub(crate) from: String,
    pub(crate) id: String,
    /// None: not known, and neither is what follows.
    pub(crate) tag: Option<String>,
    /// None: its body comes as a stream, and its sender has not said how long it is.
    pub(crate) size: Option<u64>,
    pub(crate) call: bool,
    /// How many times it was handed out.
    pub(crate) attempts: u32,
    pub(crate) state: Standing,
    /// For how long it has been handed out.
    pub(crate) for_ms: Option<u64>,
    /// When it is handed out again.
    pub(crate) again_ms: Option<u64>,
    /// The begin of its body, in base 64; None: it comes as a stream, and is not kept.
    pub(crate) glance: Option<String>,
}

/// Where a message of an inbox is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Standing {
    /// Nobody has asked for it.
    Waiting,
    /// It is being worked on.
    HandedOut,
    /// It comes again.
    PutOff,
    /// With its sender, while no process runs the identity.
    Away,
}

/// What became of a message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Settled {
    /// Which: of the messages of a handover, or its number in the journal.
    pub(crate) n: u64,
    pub(crate) outcome: Ending,
    pub(crate) reason: Option<String>,
    /// What to do about that.
    pub(crate) remedy: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) late: bool,
    /// It left beside an opening, and was lost for that.
    pub(crate) early: bool,
    #[serde(flatten)]
    pub(crate) judged: Option<Judged>,
}

/// What the application of the receiver said of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Judged {
    pub(crate) status: u32,
    /// How often it was handed out, if it was rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attempts: Option<u32>,
}

impl Judged {
    pub(crate) const fn of(outcome: Outcome) -> Option<Self> {
        match outcome {
            Outcome::Processed { status } => Some(Self { status, attempts: None }),
            Outcome::Rejected { status, attempts } => Some(Self { status, attempts: Some(attempts) }),
            _ => None,
        }
    }
}

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    Delivered,
    Processed,
    Rejected,
    Expired,
    Cancelled,
    Refused,
    Unknown,
    Kept,
}

impl Ending {
    /// The word for it, as it is written everywhere.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Processed => "processed",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::Kept => "kept",
        }
    }
}

impl From<Outcome> for Ending {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Delivered => Self::Delivered,
            Outcome::Processed { .. } => Self::Processed,
            Outcome::Rejected { .. } => Self::Rejected,
            Outcome::Expired => Self::Expired,
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Refused(_) => Self::Refused,
            Outcome::Unknown => Self::Unknown,
            Outcome::Kept => Self::Kept,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other programs may speak it: what is said does not change by chance.
    #[test]
    fn requests_are_written_like_this() {
        for (text, is) in [
            (r#"{"exon":1,"do":"status"}"#, "Status"),
            (r#"{"exon":1,"do":"figures"}"#, "Figures"),
            (r#"{"exon":1,"do":"outbox"}"#, "Outbox"),
            (r#"{"exon":1,"do":"show","number":7}"#, "Show { number: 7 }"),
            (r#"{"exon":1,"do":"drop","number":null}"#, "Drop { number: None }"),
            (r#"{"exon":1,"do":"retry","number":7,"wait_ms":5}"#, "Retry { number: Some(7), wait_ms: 5 }"),
            (r#"{"exon":1,"do":"inbox"}"#, "Inbox"),
            (r#"{"exon":1,"do":"inbox_show","id":"x"}"#, "InboxShow { id: \"x\" }"),
            (r#"{"exon":1,"do":"dead_retry","id":"x"}"#, "DeadRetry { id: \"x\" }"),
            (
                r#"{"exon":1,"do":"trace","peer":null,"message":"7","count":null}"#,
                "Trace(Wanted { peer: None, message: Some(\"7\"), count: None })",
            ),
            (r#"{"exon":1,"do":"stop"}"#, "Stop"),
            (
                r#"{"exon":1,"do":"move","to":"p","timeout_ms":1,"freeze_ms":2}"#,
                "Move { to: \"p\", timeout_ms: 1, freeze_ms: 2 }",
            ),
        ] {
            let read: Envelope = serde_json::from_str(text).unwrap();
            assert_eq!(format!("{:?}", read.request), is);
            assert_eq!(serde_json::to_string(&read).unwrap(), text);
        }
        let send = r#"{"exon":1,"do":"send","peer":"p","tag":"","priority":"low","deadline_ms":null,"early":true,"outcomes":false}"#;
        let read: Envelope = serde_json::from_str(send).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), send);
        let processed = send.replace('}', r#","processed":true}"#);
        let read: Envelope = serde_json::from_str(&processed).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), processed);
        for text in [r#"{"text":"x"}"#, r#"{"bytes":{"base64":"eA==","more":false}}"#, r#""end""#] {
            let part: Part = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&part).unwrap(), text);
        }
    }
}
