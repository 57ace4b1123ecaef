//! The outbox of an identity that another process runs.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;

use super::{Dropped, Row, Summary, ended, not_known, print_body, state, sum_up_dropped};
use crate::command::running;
use crate::control::Client;
use crate::control::protocol::{self, Reply, Request, Which};
use crate::exit::{Exit, Tally};
use crate::failure::Failure;
use crate::settings::Settings;
use crate::units::counted;

/// The default time limit of a search for peers.
const LOOK: Duration = Duration::from_secs(5);

impl From<protocol::Row> for Row {
    fn from(row: protocol::Row) -> Self {
        let protocol::Row { number, peer, addresses, id, tag, size, .. } = row;
        let state = state(id.is_some());
        Self { r#type: "message", number, state, peer, addresses, id, tag, size, text: None, hex: None }
    }
}

fn decoded(base64: &str) -> Result<Vec<u8>, Failure> {
    BASE64.decode(base64).map_err(|e| {
        Failure::new("cannot understand the answer of the process that runs the identity").because(&e)
    })
}

fn who(process: &Client) -> String {
    format!("exon {} (process {})", process.command, process.pid)
}

pub(super) async fn list(settings: &Settings, process: &Client) -> Result<Exit, Failure> {
    let (mut hearer, mut rows) = (process.ask(Request::Outbox).await?, Vec::new());
    while let Some(reply) = hearer.next().await? {
        if let Reply::Message(row) = reply {
            rows.push(row);
        }
    }
    // The list is printed when it is complete, since the reader of the output may be slow.
    let messages = rows.len();
    for row in rows {
        let glance = decoded(&row.glance)?;
        Row::from(*row).print(settings, &glance)?;
    }
    settings.output.line(&Summary { r#type: "summary", messages, forgotten: None })?;
    if messages > 0 {
        let number = counted(u64::try_from(messages).unwrap_or(u64::MAX), "message");
        settings.note(format!("{number} open; {} continues with them", who(process)));
    } else {
        settings.note(format!("{} has nothing to send", settings.identity));
    }
    Ok(Exit::Success)
}

/// The number of the open message.
async fn number_of(settings: &Settings, process: &Client, which: &Which) -> Result<u64, Failure> {
    let id = match which {
        Which::Number(number) => return Ok(*number),
        Which::Id(id) => id,
    };
    let (mut hearer, mut found) = (process.ask(Request::Outbox).await?, None);
    while let Some(reply) = hearer.next().await? {
        if let Reply::Message(row) = reply
            && row.id.as_ref() == Some(id)
        {
            found = Some(row.number);
        }
    }
    found.ok_or_else(|| running::no_message(settings, which))
}

/// What the process knows of a message.
async fn fate(process: &Client, which: &Which) -> Result<Option<Known>, Failure> {
    let (mut hearer, mut known) = (process.ask(Request::Fate { message: which.clone() }).await?, None);
    while let Some(reply) = hearer.next().await? {
        match reply {
            Reply::Message(row) => known = Some(Known::Open(row)),
            Reply::Settled(settled) => known = Some(Known::Settled(settled)),
            _ => {}
        }
    }
    Ok(known)
}

/// A message as the process knows it.
enum Known {
    Open(Box<protocol::Row>),
    Settled(protocol::Settled),
}

/// Tells whether a message is open, or how it has ended. The exit code tells it too.
pub(super) async fn status(settings: &Settings, process: &Client, which: &Which) -> Result<Exit, Failure> {
    match fate(process, which).await? {
        Some(Known::Open(row)) => {
            let glance = decoded(&row.glance)?;
            Row::from(*row).print(settings, &glance)?;
            Ok(Exit::Kept)
        }
        Some(Known::Settled(settled)) => ended::print(settings, &settled),
        None => Err(not_known(settings, which)),
    }
}

pub(super) async fn show(settings: &Settings, process: &Client, which: &Which) -> Result<Exit, Failure> {
    let number = match fate(process, which).await? {
        Some(Known::Open(row)) => row.number,
        Some(Known::Settled(settled)) => return ended::print_without_body(settings, &settled),
        None => return Err(not_known(settings, which)),
    };
    let (mut hearer, mut row) = (process.ask(Request::Show { number }).await?, None);
    let mut body = Vec::new();
    while let Some(reply) = hearer.next().await? {
        match reply {
            Reply::Message(found) => row = Some(Row::from(*found)),
            Reply::Body { base64 } => body.extend(decoded(&base64)?),
            _ => {}
        }
    }
    let row = row.ok_or_else(|| running::no_message(settings, which))?;
    print_body(settings, row, &body)
}

pub(super) async fn give_up(
    settings: &Settings,
    process: &Client,
    which: Option<&Which>,
) -> Result<Exit, Failure> {
    let number = match which {
        Some(which) => Some(number_of(settings, process, which).await?),
        None => None,
    };
    let (mut hearer, mut tally) = (process.ask(Request::Drop { number }).await?, Tally::default());
    while let Some(reply) = hearer.next().await? {
        if let Reply::Settled(settled) = reply {
            tally.count(settled.outcome);
            let outcome = settled.outcome.name();
            let number = Some(settled.n);
            settings.output.line(&Dropped { r#type: "message", number, outcome, id: settled.id })?;
        }
    }
    sum_up_dropped(settings, tally)
}

/// Looks for the peers of open messages. The exit code tells whether each has answered.
pub(super) async fn retry(
    settings: &Settings,
    process: &Client,
    which: Option<&Which>,
    timeout: Option<Duration>,
) -> Result<Exit, Failure> {
    #[derive(Serialize)]
    struct Peer {
        r#type: &'static str,
        peer: String,
        messages: u64,
        rtt_ms: Option<f64>,
        reason: Option<String>,
    }
    #[derive(Serialize)]
    struct Summary {
        r#type: &'static str,
        peers: u64,
        answered: u64,
        messages: u64,
    }
    let number = match which {
        Some(which) => Some(number_of(settings, process, which).await?),
        None => None,
    };
    let wait_ms = u64::try_from(timeout.unwrap_or(LOOK).as_millis()).unwrap_or(u64::MAX);
    let mut hearer = process.ask(Request::Retry { number, wait_ms }).await?;
    let mut all = Summary { r#type: "summary", peers: 0, answered: 0, messages: 0 };
    while let Some(reply) = hearer.next().await? {
        let Reply::Peer { peer, messages, rtt_ms, why } = reply else { continue };
        all.peers += 1;
        all.answered += u64::from(rtt_ms.is_some());
        all.messages += messages;
        let told = match (rtt_ms, &why) {
            (Some(rtt), _) => format!("answers in {rtt:.1} ms"),
            (None, Some(why)) => why.clone(),
            (None, None) => "no answer".to_owned(),
        };
        let short = peer.get(..super::SHORT).unwrap_or(&peer);
        settings.output.text(&format!("{short}  {}  {told}", counted(messages, "message")))?;
        settings.output.line(&Peer { r#type: "peer", peer, messages, rtt_ms, reason: why })?;
    }
    settings.output.line(&all)?;
    if all.peers == 0 {
        settings.note(format!("{} has nothing to send", settings.identity));
    } else {
        settings.note(format!("{} continues with what is open, whether peers answer or not", who(process)));
    }
    Ok(if all.answered == all.peers { Exit::Success } else { Exit::Kept })
}
