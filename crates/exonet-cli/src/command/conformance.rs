//! `exon conformance`: see [`crate::conformance`].

use super::announce::announce_subject;
use super::stop::stop;
use crate::args::ConformanceArgs;
use crate::conformance;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::settings::Settings;

pub(super) async fn run(settings: &Settings, args: &ConformanceArgs) -> Result<Exit, Failure> {
    let stop = stop(None)?;
    let Some(peer) = args.peer.as_ref().filter(|_| !args.list) else {
        if !args.subject {
            return conformance::list(settings);
        }
        let node = node::at(settings, Some(args.bind), &[], |_| ()).await?;
        let subject = conformance::subject(&node)?;
        announce_subject(settings, &node)?;
        stop.await;
        drop(subject);
        // The nodes of the checks are gone, and nobody waits for what the subject still had to send back.
        for waiting in node.outbox(0) {
            node.give_up(&waiting.message);
        }
        node.close(GOODBYE).await;
        return Ok(Exit::Interrupted);
    };
    tokio::select! {
        done = conformance::run(settings, args, peer) => done,
        _ = stop => Ok(Exit::Interrupted),
    }
}
