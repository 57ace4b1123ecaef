//! Messages that have their outcome.

use serde::Serialize;

use crate::command::show;
use crate::control::protocol::{Judged, Settled};
use crate::exit::{Exit, Tally};
use crate::failure::Failure;
use crate::settings::Settings;

#[derive(Serialize)]
struct Ended<'a> {
    r#type: &'static str,
    number: u64,
    state: &'static str,
    outcome: &'static str,
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(flatten)]
    judged: Option<Judged>,
    late: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    receiver_durability: Option<&'a str>,
}

/// Tells how a message has ended. The exit code tells it too.
pub(super) fn print(settings: &Settings, settled: &Settled) -> Result<Exit, Failure> {
    settings.output.text(&format!("{:>6}  {}", settled.n, words(settled)))?;
    tell(settings, settled)
}

/// As [`print()`], for a reader that wants the body, which is gone: the words go to standard error.
pub(super) fn print_without_body(settings: &Settings, settled: &Settled) -> Result<Exit, Failure> {
    settings.note(format!("message {} has ended, and its body is gone: {}", settled.n, words(settled)));
    tell(settings, settled)
}

fn words(settled: &Settled) -> String {
    let Settled { outcome, reason, id, late, receiver_durability, .. } = settled;
    let why = reason.as_ref().map(|reason| format!("  {reason}")).unwrap_or_default();
    let at = show::receiver(receiver_durability.as_deref());
    let (left, late) = (id.as_deref().unwrap_or("never left"), if *late { ", late" } else { "" });
    format!("{}{late}{at}  {left}{why}", outcome.name())
}

fn tell(settings: &Settings, settled: &Settled) -> Result<Exit, Failure> {
    let mut tally = Tally::default();
    tally.count(settled.outcome);
    settings.output.line(&Ended {
        r#type: "message",
        number: settled.n,
        state: "settled",
        outcome: settled.outcome.name(),
        id: settled.id.as_deref(),
        reason: settled.reason.as_deref(),
        judged: settled.judged,
        late: settled.late,
        receiver_durability: settled.receiver_durability.as_deref(),
    })?;
    Ok(tally.exit())
}
