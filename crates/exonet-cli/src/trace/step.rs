//! A step as a line of JSON, for scripts and between the processes.

use exonet::Outcome;
use exonet::follow::{self, Again, Bearer, Kind, What, Word};
use serde::{Deserialize, Serialize};

use crate::control::protocol::Ending;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Happened {
    /// The number of the message among those that are followed, from 1.
    pub(crate) message: u32,
    /// Microseconds since the trace began; negative for earlier steps.
    pub(crate) at_us: i64,
    #[serde(flatten)]
    pub(crate) step: Step,
    /// This is the last step of the message.
    pub(crate) last: bool,
}

/// The kind of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub(crate) enum Step {
    Queued {
        peer: String,
        size: u64,
        tag: String,
        kind: String,
        /// The message was open before the trace.
        open: bool,
    },
    Journaled {
        number: u64,
    },
    Bound {
        id: String,
    },
    Named {
        id: String,
    },
    Left {
        /// The number of the packet, or None for an opening.
        packet: Option<u64>,
        to: String,
        carrier: String,
        /// The range of bytes of head and body, or None for all.
        bytes: Option<(u64, u64)>,
        /// The reason, if the message was sent before.
        again: Option<String>,
    },
    Lost,
    ChannelEnded,
    Acknowledged,
    Returned,
    Settled {
        outcome: Ending,
        status: Option<u32>,
        attempts: Option<u32>,
        late: bool,
        id: Option<String>,
    },
    Delivered,
    Replied {
        status: u32,
    },
    Awaited {
        id: String,
    },
    Arrived {
        id: String,
        size: Option<u64>,
        tag: String,
        kind: String,
    },
    Duplicate,
    NoRoom,
    HandedOut {
        attempt: u32,
    },
    GivenBack,
    Taken,
    Judged {
        verdict: String,
        status: u32,
    },
    Answered {
        status: u32,
    },
    Withdrawn,
    Dropped,
    /// A step of a later version.
    Other,
}

/// Converts a step, with the clock of the follower that has noted it.
pub(crate) fn said(step: &follow::Step, follower: &follow::Follower) -> Happened {
    let (at, began) = (step.at, follower.began().mono);
    let micros = |span: std::time::Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
    let at_us = if at < began { -micros(began.since(at)) } else { micros(at.since(began)) };
    Happened { message: step.message, at_us, step: Step::of(&step.what), last: step.last }
}

impl Step {
    fn of(what: &What) -> Self {
        match what {
            What::Queued { peer, size, tag, kind, open } => Self::Queued {
                peer: peer.to_string(),
                size: *size,
                tag: String::from_utf8_lossy(tag).into_owned(),
                kind: kind_name(*kind),
                open: *open,
            },
            What::Journaled { number } => Self::Journaled { number: number.get() },
            What::Bound { id } => Self::Bound { id: id.to_string() },
            What::Named { id } => Self::Named { id: id.to_string() },
            What::Left { packet, bytes, again } => Self::Left {
                packet: packet.number,
                to: packet.to.to_string(),
                carrier: if packet.by == Bearer::Pipe { "tcp" } else { "udp" }.to_owned(),
                bytes: bytes.as_ref().map(|bytes| (bytes.start, bytes.end)),
                again: again.map(|why| again_name(why).to_owned()),
            },
            What::Lost => Self::Lost,
            What::ChannelEnded => Self::ChannelEnded,
            What::Acknowledged => Self::Acknowledged,
            What::Returned => Self::Returned,
            What::Settled { outcome, late, id } => {
                Self::settled(*outcome, *late, id.map(|id| id.to_string()))
            }
            What::Delivered => Self::Delivered,
            What::Replied { status } => Self::Replied { status: *status },
            _ => Self::of_coming(what),
        }
    }

    /// Converts a step of an incoming message.
    fn of_coming(what: &What) -> Self {
        match what {
            What::Awaited { id } => Self::Awaited { id: id.to_string() },
            What::Arrived { id, size, tag, kind } => Self::Arrived {
                id: id.to_string(),
                size: *size,
                tag: String::from_utf8_lossy(tag).into_owned(),
                kind: kind_name(*kind),
            },
            What::Duplicate => Self::Duplicate,
            What::NoRoom => Self::NoRoom,
            What::HandedOut { attempt } => Self::HandedOut { attempt: *attempt },
            What::GivenBack => Self::GivenBack,
            What::Taken => Self::Taken,
            What::Judged { word, status } => {
                let verdict = match word {
                    Word::Processed => "processed",
                    Word::Rejected => "rejected",
                    Word::Taken => "taken",
                };
                Self::Judged { verdict: verdict.to_owned(), status: *status }
            }
            What::Answered { status } => Self::Answered { status: *status },
            What::Withdrawn => Self::Withdrawn,
            What::Dropped => Self::Dropped,
            _ => Self::Other,
        }
    }

    fn settled(outcome: Outcome, late: bool, id: Option<String>) -> Self {
        let (status, attempts) = match outcome {
            Outcome::Processed { status } => (Some(status), None),
            Outcome::Rejected { status, attempts } => (Some(status), Some(attempts)),
            _ => (None, None),
        };
        Self::Settled { outcome: outcome.into(), status, attempts, late, id }
    }
}

fn kind_name(kind: Kind) -> String {
    match kind {
        Kind::Message => "message",
        Kind::Call => "call",
        Kind::Stream => "stream",
    }
    .to_owned()
}

const fn again_name(why: Again) -> &'static str {
    match why {
        Again::Lost => "lost",
        Again::ChannelEnded => "channel_ended",
        Again::Probe => "probe",
        Again::Copy => "copy",
        Again::Missing => "missing",
        Again::Unanswered => "unanswered",
        Again::Before => "before",
        _ => "other",
    }
}
