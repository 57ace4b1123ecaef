//! The protocol of the control socket.
//!
//! A client sends one [`Request`], with the version of this protocol. The answer is any number of [`Reply`] lines, of
//! which the last is `done` or `error`. After `send`, the client continues with [`Part`]s while replies arrive.

use std::fmt;
use std::time::Duration;

use exonet::{Outcome, Priority};
use serde::{Deserialize, Serialize};

use super::figures::{NodeFigures, PeerFigures};
use crate::moving::{Moved, Step};
use crate::trace::Happened;

/// The version of this protocol. Any other version is refused.
pub(crate) const VERSION: u32 = 1;
/// The number of bytes of a body in one line, before base64 encoding.
pub(crate) const PIECE: usize = 128 << 10;
/// The longest body that can be handed over.
pub(crate) const LONGEST_BODY: usize = 16 << 20;

/// The first line of a client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Envelope {
    /// [`VERSION`].
    pub(crate) exon: u32,
    #[serde(flatten)]
    pub(crate) request: Request,
}

/// A request of a client.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Asks for the node and its process. Answered by [`Reply::Node`].
    Status,
    /// Asks for the figures of the node, as [`Reply::Figures`], and of each of its peers, as [`Reply::PeerFigures`].
    Figures,
    /// Lists all open messages, each as [`Reply::Message`].
    Outbox,
    /// Asks for the body of an open message, as [`Reply::Body`].
    Show { number: u64 },
    /// Asks for the state of a message: [`Reply::Message`] if it is open, [`Reply::Settled`] if its outcome is known,
    /// neither if the process does not know the message.
    Fate { message: Which },
    /// Gives up one open message, or all of them, each reported as [`Reply::Settled`].
    Drop { number: Option<u64> },
    /// Looks for the peer of one open message, or the peers of all, each reported as [`Reply::Peer`].
    Retry { number: Option<u64>, wait_ms: u64 },
    /// Lists all messages that have arrived and are not acknowledged, each as [`Reply::Arrived`].
    Inbox,
    /// Asks for one of these messages, and its body as [`Reply::Body`].
    InboxShow { id: String },
    /// Retries a dead letter, reported as [`Reply::Retried`]. Only `exon listen --exec` does this.
    DeadRetry { id: String },
    /// Hands messages over: [`Part`]s follow.
    Send(Head),
    /// Follows messages step by step: [`Reply::Trace`], then each step as [`Reply::Happened`].
    Trace(Wanted),
    /// Ends `exon up`.
    Stop,
    /// Moves the identity to a door. The process then ends, or continues if the move fails. Answered by
    /// [`Reply::Step`]s and [`Reply::Moved`]. A client that disconnects before the identity is ceded cancels the
    /// move.
    Move {
        /// As `ID@HOST:PORT`.
        to: String,
        timeout_ms: u64,
        freeze_ms: u64,
    },
    /// Moves the identity to a file. The replies are those of a move.
    Checkpoint {
        /// The id of the node for which the file is encrypted.
        to: String,
        /// An absolute path.
        file: String,
    },
}

/// A message of an outbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Which {
    /// Its number in the journal.
    Number(u64),
    /// Its id at both ends.
    Id(String),
}

impl Which {
    /// Whether the message of this number and this id is meant.
    pub(crate) fn is(&self, number: Option<u64>, id: Option<&str>) -> bool {
        match self {
            Self::Number(wanted) => number == Some(*wanted),
            Self::Id(wanted) => id == Some(wanted),
        }
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Id(id) => id.fmt(f),
        }
    }
}

/// The messages to follow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Wanted {
    /// Only messages to and from this peer.
    pub(crate) peer: Option<String>,
    /// Only this message: its number in the outbox, or its id.
    pub(crate) message: Option<String>,
    /// The number of messages to follow.
    pub(crate) count: Option<u32>,
}

/// The properties that all messages of a handover share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Head {
    /// As `ID@HOST:PORT`.
    pub(crate) peer: String,
    pub(crate) tag: String,
    pub(crate) priority: Class,
    pub(crate) deadline_ms: Option<u64>,
    pub(crate) early: bool,
    /// The client waits for the outcome of each message.
    pub(crate) outcomes: bool,
    /// The client wants to know when the receiving application has processed a message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) processed: bool,
    /// The trace that the messages are part of.
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

/// A line that follows a [`Request::Send`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// A message.
    Text(String),
    /// A piece of a message. `more`: another piece of the same message follows.
    Bytes { base64: String, more: bool },
    /// There are no more messages. The client stays until all replies have arrived.
    End,
}

/// The addresses of a process. Only the process itself knows the ports that the system has chosen.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Places {
    /// The address of its node, as `ID@HOST:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) peer: Option<String>,
    /// The URL of its gateway; below it, the file with the token of the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) http: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) http_token: Option<String>,
    /// The address of its metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) metrics: Option<String>,
}

/// A line of an answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Reply {
    Node {
        exon: u32,
        command: String,
        pid: u32,
        id: String,
        /// The durability of the identity, as `--durability` has it.
        durability: String,
        open: u64,
        /// The process accepts messages from other commands.
        takes: bool,
        /// The process retries dead letters.
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
    /// The first `n` messages of a handover are in the journal, with the durability of the node.
    Accepted {
        n: u64,
        /// The numbers of some of them in the journal, as pairs of the place in the handover, from 1, and the number.
        /// They come in order, each once. A message that has its outcome already may be left out.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        numbers: Vec<(u64, u64)>,
        /// The next message waits for room.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        full: Option<Room>,
        /// The node has taken no other message of the handover, and takes none: an error follows.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        last: bool,
    },
    Settled(Settled),
    /// The start of a trace.
    Trace {
        node: String,
        command: String,
        /// The start time, in ms since 1970.
        began_ms: u64,
        /// Whether the message of another node, which is to be followed, has arrived and is not acknowledged. None: no such
        /// message was named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        here: Option<bool>,
    },
    Happened(Box<Happened>),
    /// The numbers of steps and of messages that were left out for lack of room.
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

/// The most that a node keeps for one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Room {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

/// A row of an outbox.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) number: u64,
    pub(crate) peer: String,
    pub(crate) addresses: Vec<String>,
    /// None: it is queued, and has certainly not been sent.
    pub(crate) id: Option<String>,
    pub(crate) tag: String,
    pub(crate) size: u64,
    /// The beginning of its body, in base64.
    pub(crate) glance: String,
}

/// The result of the retry of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub(crate) enum Retried {
    /// It was processed, and removed.
    Processed,
    /// It stays.
    Kept { reason: String },
    /// Another process retries it at the moment, so it was not retried here.
    Busy,
    /// It had been removed before.
    Gone,
}

/// A message of an inbox.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Unacked {
    pub(crate) from: String,
    pub(crate) id: String,
    /// None: the tag is unknown, and so are the fields below.
    pub(crate) tag: Option<String>,
    /// None: its body arrives as a stream, and its sender has not announced the size.
    pub(crate) size: Option<u64>,
    pub(crate) call: bool,
    /// The number of times that it was handed out.
    pub(crate) attempts: u32,
    pub(crate) state: Standing,
    /// The time since it was handed out.
    pub(crate) for_ms: Option<u64>,
    /// The time until it is handed out again.
    pub(crate) again_ms: Option<u64>,
    /// The beginning of its body, in base64. None: its body arrives as a stream, and is not kept.
    pub(crate) glance: Option<String>,
}

/// The state of a message of an inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Standing {
    /// No application has asked for it.
    Waiting,
    /// It is being processed.
    HandedOut,
    /// It is delivered again later.
    PutOff,
    /// With its sender, while no process runs the identity.
    Away,
}

/// The outcome of a message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Settled {
    /// The number of the message within the handover, or in the journal.
    pub(crate) n: u64,
    pub(crate) outcome: Ending,
    pub(crate) reason: Option<String>,
    /// What the user can do about the outcome.
    pub(crate) remedy: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) late: bool,
    /// It was sent beside an opening, and was lost for that reason.
    pub(crate) early: bool,
    /// The durability level that the receiver has declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) receiver_durability: Option<String>,
    #[serde(flatten)]
    pub(crate) judged: Option<Judged>,
}

/// The verdict of the receiving application on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Judged {
    pub(crate) status: u32,
    /// The number of times that it was handed out, if it was rejected.
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

/// The kind of outcome of a message.
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
    /// The name of the outcome, as all commands write it.
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

    /// Other programs may use this protocol, so the format must not change by accident.
    #[test]
    fn requests_are_written_like_this() {
        for (text, is) in [
            (r#"{"exon":1,"do":"status"}"#, "Status"),
            (r#"{"exon":1,"do":"figures"}"#, "Figures"),
            (r#"{"exon":1,"do":"outbox"}"#, "Outbox"),
            (r#"{"exon":1,"do":"show","number":7}"#, "Show { number: 7 }"),
            (r#"{"exon":1,"do":"fate","message":{"number":7}}"#, "Fate { message: Number(7) }"),
            (r#"{"exon":1,"do":"fate","message":{"id":"x"}}"#, "Fate { message: Id(\"x\") }"),
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
            (
                r#"{"exon":1,"do":"checkpoint","to":"p","file":"/f"}"#,
                "Checkpoint { to: \"p\", file: \"/f\" }",
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
