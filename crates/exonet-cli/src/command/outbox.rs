//! `exon outbox`: what a stored identity still has to send.

use exonet::state::{KeptMessage, Outbox};
use serde::Serialize;

use crate::args::{OutboxArgs, OutboxCommand};
use crate::exit::{Exit, Tally, outcome_name};
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::settings::Settings;
use crate::text;
use crate::units::{Size, counted};

/// Characters of a body that are shown in a row.
const GLANCE: usize = 40;

pub(super) async fn run(settings: &Settings, args: &OutboxArgs) -> Result<Exit, Failure> {
    match args.command {
        OutboxCommand::Ls => list(settings, &look(settings)?),
        OutboxCommand::Show { number } => show(settings, &look(settings)?, number),
        OutboxCommand::Drop => give_up(settings).await,
    }
}

/// What is there, with a word if that is nothing any more.
fn look(settings: &Settings) -> Result<Outbox, Failure> {
    let outbox = settings.identity.outbox()?;
    if let Some(why) = &outbox.forgotten {
        settings.error(format!("{why}. What was open is forgotten: delivered once, or not at all"));
    }
    Ok(outbox)
}

#[derive(Serialize)]
struct Row {
    r#type: &'static str,
    number: u64,
    state: &'static str,
    peer: String,
    addresses: Vec<String>,
    id: Option<String>,
    tag: String,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

impl Row {
    /// Without its body.
    fn new(message: &KeptMessage) -> Self {
        Self {
            r#type: "message",
            number: message.number,
            state: if message.id.is_some() { "in doubt" } else { "queued" },
            peer: message.peer.to_string(),
            addresses: message.addresses.iter().map(ToString::to_string).collect(),
            id: message.id.map(|id| id.to_string()),
            tag: String::from_utf8_lossy(&message.tag).into_owned(),
            size: size(message),
            text: None,
            hex: None,
        }
    }

    fn with_body(self, message: &KeptMessage) -> Self {
        match std::str::from_utf8(&message.body) {
            Ok(text) => Self { text: Some(text.to_owned()), ..self },
            Err(_) => Self { hex: Some(text::hex(&message.body)), ..self },
        }
    }
}

fn size(message: &KeptMessage) -> u64 {
    u64::try_from(message.body.len()).unwrap_or(u64::MAX)
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    messages: usize,
    /// Why the next run forgets what was open.
    forgotten: Option<String>,
}

fn list(settings: &Settings, outbox: &Outbox) -> Result<Exit, Failure> {
    for message in &outbox.messages {
        let row = Row::new(message);
        let begin = message.body.get(..GLANCE).unwrap_or(&message.body);
        let more = if begin.len() < message.body.len() { " ..." } else { "" };
        let glance = if text::is_binary(&message.body) {
            "(binary)".to_owned()
        } else {
            format!("{}{more}", text::escape(begin))
        };
        settings.output.text(&format!(
            "{:>6}  {}  {:<8}  {:>10}  {glance}",
            row.number,
            message.peer.short(),
            row.state,
            Size(row.size).to_string()
        ))?;
        settings.output.line(&row)?;
    }
    let messages = outbox.messages.len();
    settings.output.line(&Summary { r#type: "summary", messages, forgotten: outbox.forgotten.clone() })?;
    if messages > 0 {
        let number = counted(u64::try_from(messages).unwrap_or(u64::MAX), "message");
        let options = settings.identity.options();
        settings.note(format!("{number} to go on with: exon send{options} --continue"));
    } else if outbox.forgotten.is_none() {
        settings.note(format!("{} has nothing to send", settings.identity));
    }
    Ok(Exit::Success)
}

fn show(settings: &Settings, outbox: &Outbox, number: u64) -> Result<Exit, Failure> {
    let message = outbox.messages.iter().find(|message| message.number == number);
    let Some(message) = message else {
        let failure =
            Failure::new(format!("there is no message {number} in the outbox of {}", settings.identity));
        return Err(failure.hint(format!("exon outbox ls{} shows all", settings.identity.options())));
    };
    if settings.output.is_json() {
        settings.output.line(&Row::new(message).with_body(message))?;
    } else {
        settings.output.bytes(&message.body)?;
    }
    Ok(Exit::Success)
}

/// Gives up what is open. The journal says so only as its node does.
async fn give_up(settings: &Settings) -> Result<Exit, Failure> {
    #[derive(Serialize)]
    struct Dropped {
        r#type: &'static str,
        outcome: &'static str,
        id: Option<String>,
    }
    #[derive(Serialize)]
    struct Summary {
        r#type: &'static str,
        #[serde(flatten)]
        tally: Tally,
    }
    let (node, left) = node::sender(settings, None).await?;
    left.iter().for_each(|(_, receipt)| receipt.abandon());
    let mut tally = Tally::default();
    for (_, receipt) in left {
        let settled = receipt.await;
        tally.add(settled.outcome);
        let (outcome, id) = (outcome_name(settled.outcome), settled.id.map(|id| id.to_string()));
        settings.output.line(&Dropped { r#type: "message", outcome, id })?;
    }
    node.close(GOODBYE).await;
    settings.note(format!("given up: {}", tally.describe()));
    settings.output.line(&Summary { r#type: "summary", tally })?;
    Ok(if tally.unknown > 0 { Exit::Unknown } else { Exit::Success })
}
