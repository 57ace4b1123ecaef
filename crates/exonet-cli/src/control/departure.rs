//! Moves of the identity by the process that runs it.

use std::sync::Arc;
use std::time::Duration;

use exonet::PeerAddr;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};

use super::protocol::Reply;
use super::server::{Office, refusal};
use super::wire::{Lines, say};
use crate::moving::{Asker, Departing, Departure, Plan, Step, Watcher};

/// The parameters of the move that a client asks for.
pub(super) struct Wanted {
    pub(super) to: String,
    pub(super) timeout_ms: u64,
    pub(super) freeze_ms: u64,
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
    let to: PeerAddr =
        wanted.to.parse().map_err(|error| refusal(format!("{} is not a peer: {error}", wanted.to)))?;
    let place = Arc::clone(&office.moves).try_acquire_owned();
    let place = place.map_err(|_| refusal("the identity is already moving"))?;
    let [timeout, freeze] = [wanted.timeout_ms, wanted.freeze_ms].map(Duration::from_millis);
    Ok((Plan { to, timeout, freeze }, place))
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
