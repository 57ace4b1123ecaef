//! Runs a command for a dead letter, while no other process retries the letter.

use exonet::MessageId;
use exonet::dead::{Claim, Claimed, DeadLetter, DeadLetters};
use serde::Serialize;

use crate::command::exec::{Head, Undone, Worker};
use crate::control::protocol::Retried;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::text::escape;
use crate::units::Size;

/// The reason why a letter without a body cannot be retried.
pub(super) fn no_body(letter: &DeadLetter) -> String {
    let size = letter.len.map_or_else(|| "of unknown length".to_owned(), |len| Size(len).to_string());
    match letter.not_kept {
        Some(why) => format!("its body ({size}) was not kept: {why}"),
        None => format!("its body ({size}) was not kept: it was long, and arrived as a stream"),
    }
}

/// Runs the command for a letter, and removes the letter if the command succeeds. None: the command was ended early.
///
/// # Errors
/// The letter cannot be read, or cannot be removed: it may have been processed.
pub(in crate::command) async fn again(
    worker: &Worker,
    dead: &DeadLetters,
    id: &MessageId,
) -> Result<Option<Retried>, Failure> {
    let claim = match claim(dead, id)? {
        Claimed::Here(claim) => claim,
        Claimed::Gone => return Ok(Some(Retried::Gone)),
        _ => return Ok(Some(Retried::Busy)),
    };
    match attempt(worker, claim.letter()).await {
        None => Ok(None),
        Some(Some(reason)) => Ok(Some(Retried::Kept { reason })),
        Some(None) => remove(claim).map(|()| Some(Retried::Processed)),
    }
}

pub(super) fn claim(dead: &DeadLetters, id: &MessageId) -> Result<Claimed, Failure> {
    dead.claim(id).map_err(|e| Failure::new("cannot read a dead letter").because(&e))
}

pub(super) fn remove(claim: Claim) -> Result<(), Failure> {
    claim.remove().map_err(|e| Failure::new("cannot remove a dead letter").because(&e))
}

/// Why the letter stays, if it does. None: the command was ended early.
async fn attempt(worker: &Worker, letter: &DeadLetter) -> Option<Option<String>> {
    let Some(body) = letter.body.clone() else { return Some(Some(no_body(letter))) };
    let head = Head {
        id: letter.id,
        from: letter.from,
        tag: String::from_utf8_lossy(&letter.tag).into_owned(),
        attempt: letter.attempts.saturating_add(1),
        traceparent: letter.traceparent,
    };
    match worker.attempt(&head, &mut &body[..]).await {
        Ok(tried) if tried.status == 0 => Some(None),
        Ok(tried) => Some(Some(tried.reason)),
        Err(Undone::Cut) => None,
        // A body in memory cannot end early.
        Err(Undone::Body(error)) => Some(Some(error.to_string())),
    }
}

/// Prints the result for a letter; `by` is the process id of the listener that has retried it.
pub(in crate::command) fn tell(
    settings: &Settings,
    id: &MessageId,
    ended: &Retried,
    in_text: bool,
    by: Option<u32>,
) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Line<'a> {
        r#type: &'static str,
        #[serde(flatten)]
        ended: &'a Retried,
        id: String,
        /// The process id of the listener that was asked.
        by: Option<u32>,
    }
    match ended {
        Retried::Processed if in_text => settings.output.text(&format!("processed  {id}"))?,
        Retried::Processed => {}
        Retried::Kept { reason } => settings.error(format!("kept: {id}: {}", escape(reason.as_bytes()))),
        Retried::Busy => settings.error(format!("busy: {id}: another process is retrying it now")),
        Retried::Gone => settings.note(format!("gone: {id}: another process has processed or removed it")),
    }
    settings.output.line(&Line { r#type: "retried", ended, id: id.to_string(), by })
}
