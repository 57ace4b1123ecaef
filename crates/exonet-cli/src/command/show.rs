//! Output that several commands share, such as the messages that are open when the command ends.

use exonet::send::{OpenMessage, Refusal, Status};
use exonet::stats::Conflict;
use exonet::{Node, NodeId};
use serde::Serialize;

use crate::control::protocol::Judged;
use crate::exit::remedy;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::units::{Size, count, counted};

/// The maximum number of messages that are listed for people. The rest is only counted.
const SHOWN: usize = 20;

#[derive(Serialize)]
struct Open {
    r#type: &'static str,
    state: &'static str,
    id: Option<String>,
    size: u64,
}

/// If two nodes have the identity of this node or of `peer`, prints that nothing is delivered between the two any
/// more.
pub(super) fn say_conflict(settings: &Settings, node: &Node, peer: &NodeId) {
    if let Some(whose) = node.peer(peer).conflict() {
        let (what, todo) = conflict_in_words(whose, peer);
        settings.error(format!("  {what};"));
        settings.error(format!("  {todo}"));
    }
}

/// The durability level of the receiver of a message, as text that follows the outcome of the message.
pub(super) fn receiver(durability: Option<&str>) -> String {
    durability.map(|level| format!(" (receiver: {level})")).unwrap_or_default()
}

/// Prints the verdict of the receiving application on a message that it rejected.
pub(super) fn say_rejected(
    settings: &Settings,
    n: u64,
    judged: impl Into<Option<Judged>>,
    reason: Option<&str>,
) {
    let Some(Judged { status, attempts: Some(attempts) }) = judged.into() else { return };
    let attempts = counted(attempts.into(), "attempt");
    let reason = reason.filter(|reason| !reason.is_empty()).unwrap_or("it gave no reason");
    settings.note(format!("message {n} was rejected after {attempts}, with status {status}: {reason}"));
}

/// As [`say_conflict`], as an error that ends the command.
pub(super) fn conflict(whose: Conflict, peer: &NodeId) -> Failure {
    let (what, todo) = conflict_in_words(whose, peer);
    Failure::new(what).hint(todo)
}

fn conflict_in_words(whose: Conflict, peer: &NodeId) -> (String, &'static str) {
    let peer = peer.short();
    match whose {
        Conflict::Ours => (
            format!(
                "{peer} says that another node has this identity: its state directory was copied or rolled back"
            ),
            "stop both, and give each a new identity (exon id NAME --new); SECURITY.md says why",
        ),
        Conflict::Moved => (
            format!(
                "{peer} says that this identity has moved and lives elsewhere: what runs here was left \
                 behind, or is a copy"
            ),
            "stop this one, and remove its state directory; `exon names lookup` says where the other one is",
        ),
        Conflict::Theirs => (
            format!("two nodes have the identity {peer}: its state directory was copied or rolled back"),
            "their owner must stop both, and give each a new identity; SECURITY.md says why",
        ),
    }
}

/// Prints that the peer accepts nothing from the node `own`, and the remedy.
pub(super) fn say_refused(settings: &Settings, why: Refusal, own: NodeId) {
    settings.error(format!("refused: {why}"));
    settings.error(format!("  {}", remedy(why, own)));
}

/// Prints the remedy for repeated doubt. `verb` is what the command has done.
pub(super) fn say_clocks(settings: &Settings, verb: &str) {
    settings
        .error("  if this comes again: correct this machine's clock and the other's (exon ping shows the");
    settings.error(format!("  difference), or {verb} with --no-early, which does not depend on clocks"));
}

/// Lists the messages that are not settled, so that the user can ask for them at the other end.
pub(super) fn open_messages(settings: &Settings, open: &[OpenMessage]) -> Result<(), Failure> {
    if open.is_empty() {
        return Ok(());
    }
    let number = count(u64::try_from(open.len()).unwrap_or(u64::MAX));
    settings.note(format!("{number} without an outcome:"));
    for (at, message) in open.iter().enumerate() {
        let (state, id) = match message.status {
            Status::Queued => ("queued", None),
            // The next run continues, so nothing is decided.
            Status::InDoubt { id, .. } if settings.keeps_journal() => ("in doubt", Some(id.to_string())),
            Status::InDoubt { id, .. } => ("unknown", Some(id.to_string())),
            Status::Settled => ("settled", None),
        };
        if at < SHOWN {
            let what = id.as_deref().unwrap_or("has not left");
            settings.note(format!("  {state:<8}  {:>10}  {what}", Size(message.size)));
        } else if at == SHOWN {
            settings.note("  ... and more; --json tells all");
        }
        settings.output.line(&Open { r#type: "open", state, id, size: message.size })?;
    }
    Ok(())
}
