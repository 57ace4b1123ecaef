//! `exon trace`: follows messages of a running node step by step.

use serde::Serialize;

use super::running;
use super::stop::{Stop, stop};
use crate::args::TraceArgs;
use crate::control::protocol::{Reply, Request, Wanted};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::peers;
use crate::settings::Settings;
use crate::trace::{Timeline, too_much};

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    end: &'static str,
    /// The number of messages that have ended.
    messages: u64,
}

pub(super) async fn run(settings: &Settings, args: &TraceArgs) -> Result<Exit, Failure> {
    let mut stop = std::pin::pin!(stop(args.timeout)?);
    let output = settings.output;
    let live = args.message.is_some() || args.count == Some(1);
    let wanted = Wanted {
        peer: args.peer.map(|peer| peer.to_string()),
        message: args.message.clone(),
        count: args.count,
    };
    let asked = async { running::find(settings).await?.ask(Request::Trace(wanted)).await };
    let mut hearer = tokio::select! {
        stopped = &mut stop => {
            return if stopped == Stop::TimedOut { Err(running::silent(settings)) } else { Ok(Exit::Interrupted) };
        }
        asked = asked => asked?,
    };
    let mut timeline = Timeline::new(peers::names(settings), 0, live);
    let mut messages = 0;
    let ended = loop {
        let reply = tokio::select! {
            stopped = &mut stop => break Ok(if stopped == Stop::TimedOut {
                settings.note("stopped: the time of --timeout has passed");
                ("timed out", Exit::Success)
            } else {
                ("interrupted", Exit::Interrupted)
            }),
            reply = hearer.next() => reply,
        };
        let reply = match reply {
            Ok(Some(reply)) => reply,
            Ok(None) => break Ok(("done", Exit::Success)),
            Err(failure) => break Err(failure),
        };
        output.line(&reply)?;
        match &reply {
            Reply::Trace { began_ms, command, here, .. } => {
                timeline = Timeline::new(peers::names(settings), *began_ms, live);
                let identity = &settings.identity;
                settings.note(format!(
                    "following messages of {identity}, which exon {command} runs; Ctrl-C ends"
                ));
                if *here == Some(false) {
                    settings.note(
                        "the message is not here: it has not arrived yet, or has ended before; waiting for it to arrive",
                    );
                }
            }
            Reply::Happened(happened) => {
                messages += u64::from(happened.last);
                for line in timeline.add(happened) {
                    output.text(&line)?;
                }
            }
            Reply::Missed { steps, messages } => {
                settings.error(too_much(*steps, *messages));
            }
            _ => {}
        }
    };
    for line in timeline.rest() {
        output.text(&line)?;
    }
    let (end, exit) = ended?;
    output.line(&Summary { r#type: "summary", end, messages })?;
    Ok(exit)
}
