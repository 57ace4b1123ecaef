//! `exon down`: ends the background node of an identity.

use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep, timeout_at};

use super::running::silent;
use crate::args::DownArgs;
use crate::control::protocol::Request;
use crate::control::{Client, Heard};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::units::counted;

/// The process has at least this long, so that it is asked in any case.
const LEAST: Duration = Duration::from_secs(1);
/// The interval between two checks whether the process has ended.
const AGAIN: Duration = Duration::from_millis(20);

pub(super) async fn run(settings: &Settings, args: &DownArgs) -> Result<Exit, Failure> {
    settings.identity.require()?;
    let identity = &settings.identity;
    let until = Instant::now() + args.timeout.max(LEAST);
    let process = timeout_at(until, Client::find(identity)).await.map_err(|_| silent(settings))??;
    match &process {
        None => settings.note(format!("no background node runs identity {identity}")),
        Some(process) => end(settings, process, until).await?,
    }
    let mut open = None;
    // Another process may run the identity by now.
    if let Ok(outbox) = identity.outbox() {
        let messages = u64::try_from(outbox.messages.len()).unwrap_or(u64::MAX);
        open = Some(messages);
        if messages > 0 {
            let options = identity.options();
            settings.note(format!("kept: {}. To continue: exon up{options}", counted(messages, "message")));
        }
    }
    #[derive(Serialize)]
    struct Summary {
        r#type: &'static str,
        pid: Option<u32>,
        open: Option<u64>,
    }
    settings.output.line(&Summary { r#type: "summary", pid: process.map(|process| process.pid), open })?;
    Ok(Exit::Success)
}

async fn end(settings: &Settings, process: &Client, until: Instant) -> Result<(), Failure> {
    let (identity, pid) = (&settings.identity, process.pid);
    let ended = async {
        let mut hearer = process.ask(Request::Stop).await?;
        loop {
            match hearer.hear().await {
                Heard::Reply(_) => {}
                // The process may end before it has answered.
                Heard::Done | Heard::Gone => break,
                Heard::Failed(failure) => return Err(failure),
            }
        }
        while !identity.is_free() {
            sleep(AGAIN).await;
        }
        Ok(())
    };
    let late = |_| {
        Failure::new(format!("process {pid}, which runs identity {identity}, has not ended yet"))
            .hint(format!("wait longer, or end it at once: kill -9 {pid}; its journal keeps what is open"))
    };
    timeout_at(until, ended).await.map_err(late)??;
    settings.note(format!("the background node of identity {identity} has ended (process {pid})"));
    Ok(())
}
