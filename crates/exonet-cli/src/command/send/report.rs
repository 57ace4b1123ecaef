//! The output for messages and for a run.

use serde::Serialize;

use crate::control::protocol::Judged;
use crate::exit::Tally;

#[derive(Serialize)]
pub(super) struct Line {
    pub(super) r#type: &'static str,
    pub(super) n: u64,
    pub(super) outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(flatten)]
    pub(super) judged: Option<Judged>,
    pub(super) id: Option<String>,
    pub(super) late: bool,
    /// The durability level that the receiver has declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) receiver_durability: Option<String>,
    /// The message is of a former run of this identity.
    pub(super) recovered: bool,
}

/// A message that the journal of the background node has, under this number.
#[derive(Serialize)]
pub(super) struct Queued {
    pub(super) r#type: &'static str,
    pub(super) n: u64,
    pub(super) number: u64,
}

#[derive(Serialize)]
pub(super) struct Summary {
    pub(super) r#type: &'static str,
    pub(super) end: &'static str,
    /// The number of messages of this run.
    pub(super) sent: u64,
    /// The number of messages that a former run had left. The fields below count both.
    pub(super) recovered: u64,
    #[serde(flatten)]
    pub(super) tally: Tally,
    pub(super) late: u64,
    /// The number of messages handed over to the background node, which has them in its journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queued: Option<u64>,
    pub(super) seconds: f64,
}
