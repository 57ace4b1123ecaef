//! `exon dead retry`: gives letters to a command, or prints them.

use exonet::MessageId;
use exonet::dead::{Claimed, DeadLetters};
use serde::Serialize;
use tokio::sync::watch;

use super::again::{again, claim, no_body, remove, tell};
use super::{Row, chosen, gone};
use crate::args::RetryArgs;
use crate::command::exec::{Program, Stdout, Worker};
use crate::command::stop::requests;
use crate::control::Client;
use crate::control::protocol::{Reply, Request, Retried};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::text::escape;
use crate::units::count;

/// The process that retries letters.
enum By {
    /// This process, with a command of its own.
    Here(Worker),
    /// The listener that runs the identity, with its command.
    Listener(Client),
    /// None: letters are printed.
    Nobody,
}

pub(super) async fn run(settings: &Settings, dead: &DeadLetters, args: &RetryArgs) -> Result<Exit, Failure> {
    let by = if args.exec.is_empty() {
        let process = Client::find(&settings.identity).await?;
        process.filter(|process| process.works).map_or(By::Nobody, By::Listener)
    } else {
        By::Here(worker(settings, args)?)
    };
    let (mut processed, mut kept) = (0, 0);
    for (number, id) in chosen(settings, dead, args.which.as_deref())? {
        let ended = match &by {
            By::Here(worker) => again(worker, dead, &id).await?,
            By::Listener(process) => Some(ask(process, &id).await?),
            By::Nobody => Some(print(settings, dead, number, &id)?),
        };
        let Some(ended) = ended else {
            settings.note("interrupted: the letter is as it was");
            return Ok(Exit::Interrupted);
        };
        match ended {
            Retried::Processed => processed += 1,
            Retried::Kept { .. } | Retried::Busy => kept += 1,
            Retried::Gone if args.which.is_some() => return Err(gone(&id)),
            Retried::Gone => {}
        }
        let listener = if let By::Listener(process) = &by { Some(process.pid) } else { None };
        tell(settings, &id, &ended, !matches!(by, By::Nobody), listener)?;
    }
    if let By::Listener(process) = &by {
        let pid = process.pid;
        settings
            .note(format!("`exon listen` (process {pid}) runs the identity, so its --exec command was used"));
    }
    sum_up(settings, processed, kept)
}

/// Asks the listener to retry a letter, and waits as long as its command takes.
async fn ask(process: &Client, id: &MessageId) -> Result<Retried, Failure> {
    let (mut hearer, mut ended) = (process.ask(Request::DeadRetry { id: id.to_string() }).await?, None);
    while let Some(reply) = hearer.next().await? {
        if let Reply::Retried(retried) = reply {
            ended = Some(retried);
        }
    }
    ended.ok_or_else(|| Failure::new("cannot understand the answer of the process that runs the identity"))
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

/// Prints a letter, and then removes it.
fn print(settings: &Settings, dead: &DeadLetters, number: usize, id: &MessageId) -> Result<Retried, Failure> {
    let claim = match claim(dead, id)? {
        Claimed::Here(claim) => claim,
        Claimed::Gone => return Ok(Retried::Gone),
        _ => return Ok(Retried::Busy),
    };
    let letter = claim.letter();
    let Some(body) = &letter.body else { return Ok(Retried::Kept { reason: no_body(letter) }) };
    if settings.output.is_json() {
        settings.output.line(&Row::new(number, letter).with_body(body))?;
    } else {
        settings.output.text(&escape(body))?;
    }
    remove(claim).map(|()| Retried::Processed)
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
