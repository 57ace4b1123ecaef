//! `exon dead`: messages that a stored identity has rejected.

mod again;
mod retry;

pub(super) use again::{again, tell};

use std::time::{SystemTime, UNIX_EPOCH};

use exonet::MessageId;
use exonet::dead::{Claimed, DeadLetter, DeadLetters};
use exonet::state::StateDir;
use serde::Serialize;

use crate::args::{DeadArgs, DeadCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::identity::Identity;
use crate::settings::Settings;
use crate::text::{self, escape};
use crate::units::{Size, counted, span};

/// The number of characters of an id that a row shows.
const SHORT: usize = 8;

pub(super) async fn run(settings: &Settings, args: &DeadArgs) -> Result<Exit, Failure> {
    settings.identity.require()?;
    let dead = letters(settings)?;
    match &args.command {
        DeadCommand::Ls => list(settings, &dead),
        DeadCommand::Show { which } => show(settings, &dead, which),
        DeadCommand::Retry(args) => retry::run(settings, &dead, args).await,
        DeadCommand::Drop { which, .. } => throw_away(settings, &dead, which.as_deref()),
    }
}

fn letters(settings: &Settings) -> Result<DeadLetters, Failure> {
    match &settings.identity {
        Identity::Stored { path, .. } => Ok(StateDir::dead_letters_of(path)),
        Identity::Ephemeral => Err(Failure::new("a temporary identity has no dead letters")),
    }
}

fn all(dead: &DeadLetters) -> Result<Vec<DeadLetter>, Failure> {
    dead.list().map_err(|e| Failure::new("cannot read the dead letters").because(&e))
}

/// The letter of this number or id, or all of them.
fn chosen(
    settings: &Settings,
    dead: &DeadLetters,
    which: Option<&str>,
) -> Result<Vec<(usize, MessageId)>, Failure> {
    let all = all(dead)?;
    let numbered = || (1..).zip(all.iter().map(|letter| letter.id));
    let Some(which) = which else { return Ok(numbered().collect()) };
    let wanted = |(number, id): &(usize, MessageId)| which.parse() == Ok(*number) || id.to_string() == which;
    let found = numbered().find(wanted).ok_or_else(|| {
        Failure::new(format!("there is no dead letter {which} of {}", settings.identity))
            .hint(format!("exon dead ls{} shows all", settings.identity.options()))
    })?;
    Ok(vec![found])
}

fn whole(dead: &DeadLetters, id: &MessageId) -> Result<Option<DeadLetter>, Failure> {
    dead.get(id).map_err(|e| Failure::new("cannot read a dead letter").because(&e))
}

fn gone(id: &MessageId) -> Failure {
    Failure::new(format!("the dead letter {id} was deleted meanwhile"))
}

/// The error that another process retries the letter at the moment.
fn busy(id: &MessageId) -> Failure {
    Failure::new(format!("another process is retrying the dead letter {id} now"))
        .hint("if that fails, the letter stays: then repeat the command")
}

#[derive(Serialize)]
struct Row {
    r#type: &'static str,
    number: usize,
    id: String,
    from: String,
    tag: String,
    /// The time of its rejection, in milliseconds of Unix time.
    at_ms: u64,
    attempts: u32,
    status: u32,
    size: Option<u64>,
    reason: String,
    /// The reason why its body was not kept.
    not_kept: Option<String>,
    /// The trace that it is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

impl Row {
    /// An entry without the body of the letter.
    fn new(number: usize, letter: &DeadLetter) -> Self {
        let since = letter.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            r#type: "letter",
            number,
            id: letter.id.to_string(),
            from: letter.from.to_string(),
            tag: String::from_utf8_lossy(&letter.tag).into_owned(),
            at_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            attempts: letter.attempts,
            status: letter.status,
            size: letter.len,
            reason: letter.reason.to_string(),
            not_kept: letter.not_kept.map(|why| why.to_string()),
            traceparent: letter.traceparent.map(|trace| trace.to_string()),
            text: None,
            hex: None,
        }
    }

    fn with_body(self, body: &[u8]) -> Self {
        match std::str::from_utf8(body) {
            Ok(text) => Self { text: Some(text.to_owned()), ..self },
            Err(_) => Self { hex: Some(text::hex(body)), ..self },
        }
    }
}

fn list(settings: &Settings, dead: &DeadLetters) -> Result<Exit, Failure> {
    #[derive(Serialize)]
    struct Summary {
        r#type: &'static str,
        letters: usize,
    }
    let all = all(dead)?;
    for (at, letter) in all.iter().enumerate() {
        let row = Row::new(at + 1, letter);
        let ago = SystemTime::now().duration_since(letter.at).unwrap_or_default();
        let ago = format!("{} ago", span(ago));
        let from = row.from.get(..SHORT).unwrap_or(&row.from);
        let size = letter.len.map_or_else(|| "?".to_owned(), |len| Size(len).to_string());
        let attempts = counted(letter.attempts.into(), "attempt");
        let (number, status, reason) = (row.number, row.status, escape(letter.reason.as_bytes()));
        let id = if settings.verbose { format!("\n        {}", row.id) } else { String::new() };
        settings.output.text(&format!(
            "{number:>6}  {from}  {ago:>12}  {attempts:>10}  status {status:<3}  {size:>10}  {reason}{id}"
        ))?;
        settings.output.line(&row)?;
    }
    settings.output.line(&Summary { r#type: "summary", letters: all.len() })?;
    if all.is_empty() {
        settings.note(format!("{} has no dead letters", settings.identity));
    }
    Ok(Exit::Success)
}

fn show(settings: &Settings, dead: &DeadLetters, which: &str) -> Result<Exit, Failure> {
    for (number, id) in chosen(settings, dead, Some(which))? {
        let letter = whole(dead, &id)?.ok_or_else(|| gone(&id))?;
        let body = letter.body.as_deref().ok_or_else(|| {
            Failure::new(format!("{id}: {}", again::no_body(&letter)))
                .hint("ask its sender for the body: exon dead ls --json names the sender")
        })?;
        if settings.output.is_json() {
            settings.output.line(&Row::new(number, &letter).with_body(body))?;
        } else {
            settings.output.bytes(body)?;
        }
    }
    Ok(Exit::Success)
}

fn throw_away(settings: &Settings, dead: &DeadLetters, which: Option<&str>) -> Result<Exit, Failure> {
    #[derive(Serialize)]
    struct Dropped {
        r#type: &'static str,
        id: String,
    }
    #[derive(Serialize)]
    struct Summary {
        r#type: &'static str,
        dropped: u64,
    }
    let mut dropped = 0;
    for (_, id) in chosen(settings, dead, which)? {
        match again::claim(dead, &id)? {
            Claimed::Here(claim) => again::remove(claim)?,
            Claimed::Gone => continue,
            _ => return Err(busy(&id)),
        }
        dropped += 1;
        settings.output.line(&Dropped { r#type: "dropped", id: id.to_string() })?;
    }
    settings.note(format!("removed {}", counted(dropped, "dead letter")));
    settings.output.line(&Summary { r#type: "summary", dropped })?;
    Ok(Exit::Success)
}
