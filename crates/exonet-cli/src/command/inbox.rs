//! `exon inbox`: lists messages that have arrived at a stored identity and are not acknowledged.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use exonet::state::KeptDelivery;
use serde::Serialize;

use super::outbox::glance;
use super::running::{self, Found};
use crate::args::{InboxArgs, InboxCommand};
use crate::control::Client;
use crate::control::protocol::{Reply, Request, Standing, Unacked};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::text::{self, escape};
use crate::units::{Size, counted, span};

/// The number of characters of an id that a row shows.
const SHORT: usize = 8;

pub(super) async fn run(settings: &Settings, args: &InboxArgs) -> Result<Exit, Failure> {
    settings.identity.require()?;
    let found = running::find_or(settings, || async { settings.identity.inbox() }).await?;
    let (process, all) = match found {
        Found::Running(process) => {
            let all = ask(&process).await?;
            (Some(process), all)
        }
        Found::Own(kept) => (None, kept.iter().map(away).collect()),
    };
    match &args.command {
        InboxCommand::Ls => list(settings, process.as_ref(), all),
        InboxCommand::Show { which } => show(settings, process.as_ref(), &all, which).await,
    }
}

async fn ask(process: &Client) -> Result<Vec<Unacked>, Failure> {
    let (mut hearer, mut all) = (process.ask(Request::Inbox).await?, Vec::new());
    while let Some(reply) = hearer.next().await? {
        if let Reply::Arrived(unacked) = reply {
            all.push(*unacked);
        }
    }
    Ok(all)
}

/// The entry for a message that only the journal knows, while no process runs the identity.
fn away(kept: &KeptDelivery) -> Unacked {
    Unacked {
        from: kept.from.to_string(),
        id: kept.id.to_string(),
        tag: None,
        size: None,
        call: false,
        attempts: kept.attempts,
        state: Standing::Away,
        for_ms: None,
        again_ms: None,
        glance: None,
    }
}

fn decoded(base64: &str) -> Result<Vec<u8>, Failure> {
    BASE64.decode(base64).map_err(|e| {
        Failure::new("cannot understand the answer of the process that runs the identity").because(&e)
    })
}

#[derive(Serialize)]
struct Row<'a> {
    r#type: &'static str,
    number: usize,
    id: &'a str,
    from: &'a str,
    tag: Option<&'a str>,
    size: Option<u64>,
    call: bool,
    attempts: u32,
    state: Standing,
    for_ms: Option<u64>,
    again_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

impl<'a> Row<'a> {
    /// An entry without the body of the message.
    fn new(number: usize, unacked: &'a Unacked) -> Self {
        Self {
            r#type: "message",
            number,
            id: &unacked.id,
            from: &unacked.from,
            tag: unacked.tag.as_deref(),
            size: unacked.size,
            call: unacked.call,
            attempts: unacked.attempts,
            state: unacked.state,
            for_ms: unacked.for_ms,
            again_ms: unacked.again_ms,
            text: None,
            hex: None,
        }
    }

    fn with_body(self, body: &'a [u8]) -> Self {
        match std::str::from_utf8(body) {
            Ok(text) => Self { text: Some(text), ..self },
            Err(_) => Self { hex: Some(text::hex(body)), ..self },
        }
    }
}

/// The state of a message, in words.
fn standing(unacked: &Unacked) -> String {
    let of = |ms: Option<u64>| span(Duration::from_millis(ms.unwrap_or_default()));
    match unacked.state {
        Standing::Waiting => "waiting".to_owned(),
        Standing::HandedOut => format!("handed out {}", of(unacked.for_ms)),
        Standing::PutOff => format!("again in {}", of(unacked.again_ms)),
        Standing::Away => "at its sender".to_owned(),
    }
}

fn list(settings: &Settings, process: Option<&Client>, all: Vec<Unacked>) -> Result<Exit, Failure> {
    #[derive(Serialize)]
    struct Summary {
        r#type: &'static str,
        messages: usize,
        /// Whether a process runs the identity. Otherwise, only its journal is read.
        running: bool,
    }
    for (number, unacked) in (1..).zip(&all) {
        let from = unacked.from.get(..SHORT).unwrap_or(&unacked.from);
        let size = unacked.size.map_or_else(|| "?".to_owned(), |size| Size(size).to_string());
        let attempts = counted(unacked.attempts.into(), "attempt");
        let begin = match &unacked.glance {
            Some(base64) => glance(&decoded(base64)?, unacked.size.unwrap_or_default()),
            None if process.is_some() => "(a stream)".to_owned(),
            None => String::new(),
        };
        let tag = unacked.tag.as_deref().filter(|tag| !tag.is_empty());
        let tag = tag.map(|tag| format!("{}: ", escape(tag.as_bytes()))).unwrap_or_default();
        let id = if settings.verbose { format!("\n        {}", unacked.id) } else { String::new() };
        let standing = standing(unacked);
        settings.output.text(&format!(
            "{number:>6}  {from}  {standing:<18}  {attempts:>10}  {size:>10}  {tag}{begin}{id}"
        ))?;
        settings.output.line(&Row::new(number, unacked))?;
    }
    let summary = Summary { r#type: "summary", messages: all.len(), running: process.is_some() };
    settings.output.line(&summary)?;
    match process {
        Some(process) if all.is_empty() => settings.note(format!(
            "nothing waits at {}, which exon {} runs (process {})",
            settings.identity, process.command, process.pid
        )),
        Some(_) => {}
        None => settings.note(format!(
            "no process runs {}: its messages stay with their senders, and its journal has only those that \
             were handed out more than once",
            settings.identity
        )),
    }
    Ok(Exit::Success)
}

async fn show(
    settings: &Settings,
    process: Option<&Client>,
    all: &[Unacked],
    which: &str,
) -> Result<Exit, Failure> {
    let wanted = |(number, unacked): &(usize, &Unacked)| which.parse() == Ok(*number) || unacked.id == which;
    let (number, unacked) = (1..).zip(all).find(wanted).ok_or_else(|| {
        Failure::new(format!("there is no message {which} in the inbox of {}", settings.identity))
            .hint(format!("exon inbox ls{} shows all", settings.identity.options()))
    })?;
    let Some(process) = process else {
        return Err(Failure::new(format!("the body of {} is with its sender", unacked.id))
            .hint(format!("start a node that receives it: exon listen{}", settings.identity.options())));
    };
    let mut hearer = process.ask(Request::InboxShow { id: unacked.id.clone() }).await?;
    let (mut is_whole, mut body) = (false, Vec::new());
    while let Some(reply) = hearer.next().await? {
        match reply {
            Reply::Arrived(found) => is_whole = found.glance.is_some(),
            Reply::Body { base64 } => body.extend(decoded(&base64)?),
            _ => {}
        }
    }
    if !is_whole {
        return Err(Failure::new(format!("the body of {} arrives as a stream", unacked.id))
            .hint("it is long, and arrives while the application reads it: this node does not keep it"));
    }
    if settings.output.is_json() {
        settings.output.line(&Row::new(number, unacked).with_body(&body))?;
    } else {
        settings.output.bytes(&body)?;
    }
    Ok(Exit::Success)
}
