//! `exon dead retry`: a letter goes to a command, or to standard output.

use exonet::MessageId;
use exonet::dead::{DeadLetter, DeadLetters};
use serde::Serialize;
use tokio::sync::watch;

use super::{Row, busy, chosen, gone, whole};
use crate::args::RetryArgs;
use crate::command::exec::{Head, Program, Stdout, Undone, Worker};
use crate::command::stop::requests;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::text::escape;
use crate::units::count;

pub(super) async fn run(settings: &Settings, dead: &DeadLetters, args: &RetryArgs) -> Result<Exit, Failure> {
    let worker = if args.exec.is_empty() { None } else { Some(worker(settings, args)?) };
    let (mut processed, mut kept) = (0, 0);
    for (number, id) in chosen(settings, dead, args.which.as_deref())? {
        let letter = whole(dead, &id)?.ok_or_else(|| gone(&id))?;
        let failure = match &worker {
            None => print(settings, number, &letter)?,
            Some(worker) => match attempt(worker, &letter).await {
                Some(failure) => failure,
                None => {
                    settings.note("interrupted: the letter is as it was");
                    return Ok(Exit::Interrupted);
                }
            },
        };
        if failure.is_none() {
            remove(dead, &id)?;
        }
        let ended = if failure.is_none() { &mut processed } else { &mut kept };
        *ended += 1;
        tell(settings, &id, failure.as_deref(), worker.is_some())?;
    }
    sum_up(settings, processed, kept)
}

fn worker(settings: &Settings, args: &RetryArgs) -> Result<Worker, Failure> {
    let (cut, is_cut) = watch::channel(false);
    let mut requests = requests(2)?;
    tokio::spawn(async move {
        // The sender of requests lives as long as the process.
        let _ = requests.wait_for(|requests| *requests > 0).await;
        cut.send_replace(true);
    });
    let stdout = if settings.output.is_json() { Stdout::Errors } else { Stdout::Ours };
    Ok(Worker { program: Program::new(&args.exec)?, timeout: args.timeout, stdout, cut: is_cut })
}

/// Why a letter stays, if it does. None: the command was cut short.
async fn attempt(worker: &Worker, letter: &DeadLetter) -> Option<Option<String>> {
    let Some(body) = letter.body.clone() else { return Some(Some(NO_BODY.to_owned())) };
    let head = Head {
        id: letter.id,
        from: letter.from,
        tag: String::from_utf8_lossy(&letter.tag).into_owned(),
        attempt: letter.attempts.saturating_add(1),
    };
    match worker.attempt(&head, &mut &body[..]).await {
        Ok(tried) if tried.status == 0 => Some(None),
        Ok(tried) => Some(Some(tried.reason)),
        Err(Undone::Cut) => None,
        // What is in memory does not break off.
        Err(Undone::Body(error)) => Some(Some(error.to_string())),
    }
}

const NO_BODY: &str = "its body was not kept: it was long, and came as a stream";

fn print(settings: &Settings, number: usize, letter: &DeadLetter) -> Result<Option<String>, Failure> {
    let Some(body) = &letter.body else { return Ok(Some(NO_BODY.to_owned())) };
    if settings.output.is_json() {
        settings.output.line(&Row::new(number, letter).with_body(body))?;
    } else {
        settings.output.text(&escape(body))?;
    }
    Ok(None)
}

fn remove(dead: &DeadLetters, id: &MessageId) -> Result<(), Failure> {
    let taken = dead.take(id).map_err(|e| Failure::new("cannot remove a dead letter").because(&e))?;
    taken.map(drop).ok_or_else(|| busy(id))
}

fn tell(settings: &Settings, id: &MessageId, failure: Option<&str>, in_text: bool) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Line<'a> {
        r#type: &'static str,
        outcome: &'static str,
        id: String,
        reason: Option<&'a str>,
    }
    let outcome = if failure.is_none() { "processed" } else { "kept" };
    match failure {
        Some(reason) => settings.error(format!("{outcome}: {id}: {}", escape(reason.as_bytes()))),
        None if in_text => settings.output.text(&format!("{outcome}  {id}"))?,
        None => {}
    }
    settings.output.line(&Line { r#type: "retried", outcome, id: id.to_string(), reason: failure })
}

fn sum_up(settings: &Settings, processed: u64, kept: u64) -> Result<Exit, Failure> {
    #[derive(Serialize)]
    struct Summary {
        r#type: &'static str,
        processed: u64,
        kept: u64,
    }
    settings.note(format!("{} processed, {} kept", count(processed), count(kept)));
    settings.output.line(&Summary { r#type: "summary", processed, kept })?;
    Ok(if kept == 0 { Exit::Success } else { Exit::Undelivered })
}
