//! Moves of the identity by the process that runs it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use exonet::{NodeId, PeerAddr};
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};

use super::protocol::Reply;
use super::server::{Office, refusal};
use super::wire::{Lines, say};
use crate::moving::{Asker, Departing, Departure, Goal, Plan, Step, Watcher};

/// The parameters of the move that a client asks for.
pub(super) enum Wanted {
    Door { to: String, timeout: Duration, freeze: Duration },
    File { to: String, file: PathBuf },
}

/// Begins a move: the node keeps running until the settled state has been carried over, and is then asked to leave.
pub(super) async fn begin(office: Arc<Office>, wanted: Wanted, lines: Lines, mut to: OwnedWriteHalf) {
    let plan = match check(&office, &wanted) {
        Ok(plan) => plan,
        Err(refused) => return drop(say(&mut to, &refused).await),
    };
    let (plan, place) = plan;
    let ((tell, told), (gone, is_gone)) = (mpsc::unbounded_channel(), watch::channel(false));
    let (last, last_word) = oneshot::channel();
    let bringer = tokio::spawn(bring((told, last_word), (lines, to), gone));
    let client = Asker { last, bringer, place };
    let watcher = Watcher { tell, gone: is_gone };
    match Departing::begin(&office.identity, plan, watcher).await {
        Ok(departing) => match &office.leave {
            Some(leave) => leave.ask(Departure { departing, client }),
            None => drop(client),
        },
        Err(failure) => client.tell(Err(&failure)).await,
    }
}

fn check(office: &Office, wanted: &Wanted) -> Result<(Plan, OwnedSemaphorePermit), Reply> {
    if office.leave.is_none() {
        let command = office.role.command();
        return Err(refusal(format!("`exon {command}` runs this identity, and does not move it: end it")));
    }
    let not =
        |to: &str, what: &str, error: &dyn std::fmt::Display| refusal(format!("{to} is not {what}: {error}"));
    let plan = match wanted {
        Wanted::Door { to, timeout, freeze } => {
            let door = to.parse::<PeerAddr>().map_err(|error| not(to, "a peer", &error))?;
            Plan { goal: Goal::Door(door), timeout: *timeout, freeze: *freeze }
        }
        Wanted::File { to, file } => {
            let to = to.parse::<NodeId>().map_err(|error| not(to, "the id of a node", &error))?;
            Plan::to_file(to, file.clone())
        }
    };
    let place = Arc::clone(&office.moves).try_acquire_owned();
    let place = place.map_err(|_| refusal("the identity is already moving"))?;
    Ok((plan, place))
}

/// Tells the client of each step and of the end. Sets `gone` if the client leaves before the end.
async fn bring(
    (mut told, last_word): (mpsc::UnboundedReceiver<Step>, oneshot::Receiver<Reply>),
    (mut lines, mut to): (Lines, OwnedWriteHalf),
    gone: watch::Sender<bool>,
) {
    loop {
        tokio::select! {
            biased;
            step = told.recv() => match step {
                Some(step) => {
                    if say(&mut to, &Reply::Step(step)).await.is_err() {
                        gone.send_replace(true);
                    }
                }
                None => break,
            },
            // The client sends nothing more: this branch waits for it to disconnect.
            _ = lines.next::<serde_json::Value>(), if !*gone.borrow() => drop(gone.send_replace(true)),
        }
    }
    if let Ok(last) = last_word.await {
        let moved = matches!(last, Reply::Moved(_));
        let said = say(&mut to, &last).await;
        if said.is_ok() && moved {
            let _ = say(&mut to, &Reply::Done).await;
        }
    }
}
