//! What is printed of messages and of a run.

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
    /// A former run of this identity was given it.
    pub(super) recovered: bool,
}

#[derive(Serialize)]
pub(super) struct Summary {
    pub(super) r#type: &'static str,
    pub(super) end: &'static str,
    /// By this run.
    pub(super) sent: u64,
    /// Those that a former run had left. What follows counts both.
    pub(super) recovered: u64,
    #[serde(flatten)]
    pub(super) tally: Tally,
    pub(super) late: u64,
    /// Handed over to the background node, which has them in its journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queued: Option<u64>,
    pub(super) seconds: f64,
}
