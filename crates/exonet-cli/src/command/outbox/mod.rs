//! `exon outbox`: messages that a stored identity still has to send.

mod ended;
mod remote;

use exonet::send::OpenMessage;
use exonet::state::{KeptMessage, Outbox};
use exonet::{Node, Receipt};
use serde::Serialize;

use super::running::{self, Found};
use super::send;
use crate::args::{OutboxArgs, OutboxCommand};
use crate::control::past::remembered;
use crate::control::protocol::Which;
use crate::exit::{Exit, Tally, outcome_name};
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::settings::Settings;
use crate::text;
use crate::units::{Size, counted};

/// The number of characters of a body that a row shows.
const GLANCE: usize = 40;
/// The number of characters of an id that a row shows.
const SHORT: usize = 8;

pub(super) async fn run(settings: &Settings, args: &OutboxArgs) -> Result<Exit, Failure> {
    settings.identity.require()?;
    match &args.command {
        OutboxCommand::Ls => match running::find_or(settings, || async { look(settings) }).await? {
            Found::Running(process) => remote::list(settings, &process).await,
            Found::Own(outbox) => list(settings, &outbox),
        },
        OutboxCommand::Show { which } => {
            match running::find_or(settings, || async { look(settings) }).await? {
                Found::Running(process) => remote::show(settings, &process, which).await,
                Found::Own(outbox) => show(settings, &outbox, which),
            }
        }
        OutboxCommand::Status { which } => {
            match running::find_or(settings, || async { look(settings) }).await? {
                Found::Running(process) => remote::status(settings, &process, which).await,
                Found::Own(outbox) => status(settings, &outbox, which),
            }
        }
        OutboxCommand::Retry { which, timeout } => {
            match running::find_or(settings, || async { node::sender(settings, None).await }).await? {
                Found::Running(process) => remote::retry(settings, &process, which.as_ref(), *timeout).await,
                Found::Own(own) => send::retry(settings, which.as_ref(), *timeout, own).await,
            }
        }
        OutboxCommand::Drop { which, all: _ } => {
            match running::find_or(settings, || async { node::sender(settings, None).await }).await? {
                Found::Running(process) => remote::give_up(settings, &process, which.as_ref()).await,
                Found::Own((node, left)) => give_up(settings, which.as_ref(), node, left).await,
            }
        }
    }
}

/// Reads the outbox, and prints an error if its open messages are forgotten.
fn look(settings: &Settings) -> Result<Outbox, Failure> {
    let outbox = settings.identity.outbox()?;
    if let Some(why) = &outbox.forgotten {
        settings
            .error(format!("{why}. The open messages are forgotten: each was delivered once, or not at all"));
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
    /// An entry without the body of the message.
    fn new(message: &KeptMessage) -> Self {
        Self {
            r#type: "message",
            number: message.number,
            state: state(message.id.is_some()),
            peer: message.peer.to_string(),
            addresses: message.addresses.iter().map(ToString::to_string).collect(),
            id: message.id.map(|id| id.to_string()),
            tag: String::from_utf8_lossy(&message.tag).into_owned(),
            size: u64::try_from(message.body.len()).unwrap_or(u64::MAX),
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

    /// Prints a line of the list. `body` is the beginning of the body.
    fn print(&self, settings: &Settings, body: &[u8]) -> Result<(), Failure> {
        let glance = glance(body, self.size);
        let peer = self.peer.get(..SHORT).unwrap_or(&self.peer);
        let size = Size(self.size).to_string();
        settings
            .output
            .text(&format!("{:>6}  {peer}  {:<8}  {size:>10}  {glance}", self.number, self.state))?;
        settings.output.line(self)
    }
}

/// The text that a row shows for a body of `size` bytes that begins with `body`.
pub(super) fn glance(body: &[u8], size: u64) -> String {
    let known = if u64::try_from(body.len()) == Ok(size) { body } else { complete(body) };
    let begin = known.get(..GLANCE).map_or(known, complete);
    let more = if u64::try_from(begin.len()).is_ok_and(|shown| shown < size) { " ..." } else { "" };
    if text::is_binary(known) { "(binary)".to_owned() } else { format!("{}{more}", text::escape(begin)) }
}

/// The bytes without a partial character at the end.
fn complete(begin: &[u8]) -> &[u8] {
    match std::str::from_utf8(begin) {
        Err(error) if error.error_len().is_none() => begin.get(..error.valid_up_to()).unwrap_or(begin),
        _ => begin,
    }
}

/// The state of an open message.
const fn state(has_left: bool) -> &'static str {
    if has_left { "in doubt" } else { "queued" }
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    messages: usize,
    /// The reason why the next run forgets the open messages.
    forgotten: Option<String>,
}

fn list(settings: &Settings, outbox: &Outbox) -> Result<Exit, Failure> {
    for message in &outbox.messages {
        Row::new(message).print(settings, &message.body)?;
    }
    let messages = outbox.messages.len();
    settings.output.line(&Summary { r#type: "summary", messages, forgotten: outbox.forgotten.clone() })?;
    if messages > 0 {
        let number = counted(u64::try_from(messages).unwrap_or(u64::MAX), "message");
        let options = settings.identity.options();
        settings.note(format!("{number} left; to continue: exon send{options} --continue"));
    } else if outbox.forgotten.is_none() {
        settings.note(format!("{} has nothing to send", settings.identity));
    }
    Ok(Exit::Success)
}

/// The open message.
fn find<'o>(outbox: &'o Outbox, which: &Which) -> Option<&'o KeptMessage> {
    outbox.messages.iter().find(|message| {
        let id = message.id.map(|id| id.to_string());
        which.is(Some(message.number), id.as_deref())
    })
}

/// Prints whether a message is open, or how it has ended.
fn status(settings: &Settings, outbox: &Outbox, which: &Which) -> Result<Exit, Failure> {
    if let Some(message) = find(outbox, which) {
        Row::new(message).print(settings, &message.body)?;
        return Ok(Exit::Kept);
    }
    let settled = remembered(&outbox.past, which).ok_or_else(|| not_known(settings, which))?;
    ended::print(settings, &settled)
}

/// The error that nothing is known of a message.
fn not_known(settings: &Settings, which: &Which) -> Failure {
    let options = settings.identity.options();
    Failure::new(format!("nothing is known of message {which} of {}", settings.identity)).hint(format!(
        "it is not open, and not among the newest 1,024 messages that have ended. To see what is open: exon outbox ls{options}"
    ))
}

fn show(settings: &Settings, outbox: &Outbox, which: &Which) -> Result<Exit, Failure> {
    if let Some(message) = find(outbox, which) {
        return print_body(settings, Row::new(message), &message.body);
    }
    let settled = remembered(&outbox.past, which).ok_or_else(|| not_known(settings, which))?;
    ended::print_without_body(settings, &settled)
}

fn print_body(settings: &Settings, row: Row, body: &[u8]) -> Result<Exit, Failure> {
    if settings.output.is_json() {
        settings.output.line(&row.with_body(body))?;
    } else {
        settings.output.bytes(body)?;
    }
    Ok(Exit::Success)
}

#[derive(Serialize)]
struct Dropped {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    outcome: &'static str,
    id: Option<String>,
}

/// Prints the outcomes of the messages that were given up.
fn sum_up_dropped(settings: &Settings, tally: Tally) -> Result<Exit, Failure> {
    #[derive(Serialize)]
    struct Summary {
        r#type: &'static str,
        #[serde(flatten)]
        tally: Tally,
    }
    settings.note(format!("given up: {}", tally.describe()));
    settings.output.line(&Summary { r#type: "summary", tally })?;
    Ok(if tally.unknown > 0 { Exit::Unknown } else { Exit::Success })
}

/// Gives up open messages. The journal records that only when the node does.
async fn give_up(
    settings: &Settings,
    which: Option<&Which>,
    node: Node,
    mut left: Vec<(OpenMessage, Receipt)>,
) -> Result<Exit, Failure> {
    if let Some(which) = which {
        left.retain(|(message, _)| running::is(&node, message, which));
        if left.is_empty() {
            node.close(GOODBYE).await;
            return Err(running::no_message(settings, which));
        }
    }
    // A message that has its outcome has no number any more.
    let left: Vec<_> = left
        .into_iter()
        .map(|(message, receipt)| (node.waiting(&message, 0).and_then(|waiting| waiting.number), receipt))
        .collect();
    left.iter().for_each(|(_, receipt)| receipt.abandon());
    let mut tally = Tally::default();
    for (number, receipt) in left {
        let settled = receipt.await;
        tally.add(settled.outcome);
        let (outcome, id) = (outcome_name(settled.outcome), settled.id.map(|id| id.to_string()));
        settings.output.line(&Dropped { r#type: "message", number, outcome, id })?;
    }
    node.close(GOODBYE).await;
    sum_up_dropped(settings, tally)
}
