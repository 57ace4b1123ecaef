//! How an identity is given away.

use std::time::{Duration, Instant};

use bytes::Bytes;
use exonet::error::{CallError, StateError};
use exonet::state::{self, StateDir};
use exonet::{Allow, Node, Peer, PeerAddr};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::{DEED, Held, LOAD, LONGEST, OFFER, Offer, Ready, said};
use crate::control::protocol::Request;
use crate::control::{Client, Heard};
use crate::failure::Failure;
use crate::identity::Identity;
use crate::node::GOODBYE;
use crate::settings::Settings;

/// How long one call of a door may take, the load aside.
const CALL: Duration = Duration::from_secs(5);
/// Between two looks whether a process has ended, and two tries to tell a door.
const AGAIN: Duration = Duration::from_millis(5);
const RETRY: Duration = Duration::from_millis(200);

/// What a move took, step by step.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Moved {
    /// The generation that lives at the other place.
    pub(crate) generation: u64,
    pub(crate) bytes: u64,
    /// Asking the door.
    pub(crate) offer_ms: f64,
    /// Ending the process that runs the identity.
    pub(crate) drain_ms: f64,
    /// Reading and sealing what it keeps.
    pub(crate) checkpoint_ms: f64,
    /// Carrying that.
    pub(crate) copy_ms: f64,
    /// Ceding it.
    pub(crate) cede_ms: f64,
    /// Carrying the key, until the identity lives there.
    pub(crate) restore_ms: f64,
    /// From the first moment in which the identity did not answer here to the last.
    pub(crate) pause_ms: f64,
}

/// Takes the time of steps.
struct Steps(Instant);

impl Steps {
    fn step(&mut self) -> f64 {
        let now = Instant::now();
        now.duration_since(std::mem::replace(&mut self.0, now)).as_secs_f64() * 1e3
    }
}

/// Moves the identity of `settings` to the door at `door`, and takes the process that runs it down for that. `drain`: how long that process may
/// take to end. `timeout`: how long the door may be silent at the end.
pub(crate) async fn leave(
    settings: &Settings,
    door: &PeerAddr,
    drain: Duration,
    timeout: Duration,
) -> Result<Moved, Failure> {
    let identity = &settings.identity;
    let path = identity.place()?;
    if let Some(ceded) = state::ceded(path).map_err(|error| failed(identity, &error))? {
        if ceded.to != door.id {
            return Err(Failure::new(format!(
                "identity {identity} was ceded to another door, {}, already",
                ceded.to.short()
            ))
            .hint("give that one; or, if it certainly never arrived there: exon move --take-back"));
        }
        settings.note("the identity was ceded already: its key is carried to the door again");
        return carry(settings, door, timeout).await;
    }
    identity.require()?;
    let (node, peer) = to(door).await?;
    let mut steps = Steps(Instant::now());
    let mut moved = Moved::default();
    offer(settings, &peer).await?;
    moved.offer_ms = steps.step();

    let began = Instant::now();
    stop_process(settings, drain).await?;
    moved.drain_ms = steps.step();
    let opened = tokio::task::block_in_place(|| StateDir::open(path));
    let dir = opened.map_err(|error| failed(identity, &error))?;
    let load = tokio::task::block_in_place(|| dir.checkpoint(&door.id, b""));
    let load = load.map_err(|error| failed(identity, &error))?;
    moved.bytes = load.as_bytes().len() as u64;
    moved.checkpoint_ms = steps.step();
    let stays = |failure: Failure| failure.hint("the identity has not moved: start its process here again");
    let ready: Ready =
        ask(&peer, LOAD, Bytes::copy_from_slice(load.as_bytes()), timeout).await.map_err(stays)?;
    if ready.attempt != load.attempt().0 {
        return Err(stays(Failure::new("the door has the load of another attempt")));
    }
    moved.copy_ms = steps.step();
    let deed = tokio::task::block_in_place(|| dir.cede(&load)).map_err(|error| failed(identity, &error))?;
    moved.cede_ms = steps.step();
    let held = tell(&peer, Bytes::copy_from_slice(deed.as_bytes()), timeout).await?;
    moved.restore_ms = steps.step();
    moved.generation = held.generation;
    moved.pause_ms = began.elapsed().as_secs_f64() * 1e3;
    node.close(GOODBYE).await;
    Ok(moved)
}

/// Carries the key of an identity that was ceded to its door once more.
async fn carry(settings: &Settings, door: &PeerAddr, timeout: Duration) -> Result<Moved, Failure> {
    let identity = &settings.identity;
    let deed = state::deed(identity.place()?).map_err(|error| failed(identity, &error))?;
    let (node, peer) = to(door).await?;
    let held = tell(&peer, Bytes::copy_from_slice(deed.as_bytes()), timeout).await?;
    node.close(GOODBYE).await;
    Ok(Moved { generation: held.generation, ..Moved::default() })
}

/// A node that talks to nobody but the door: the identity itself may not speak any more.
async fn to(door: &PeerAddr) -> Result<(Node, Peer), Failure> {
    let node = Node::builder(Allow::only([door.id])).limits(|limits| limits.message = LONGEST).build().await;
    let node = node.map_err(|error| Failure::new("cannot start a node").because(&error))?;
    let peer = node.peer(door);
    Ok((node, peer))
}

async fn offer(settings: &Settings, peer: &Peer) -> Result<(), Failure> {
    let key = settings.identity.key()?;
    let proof = key.prove(&peer.id(), &said(&peer.node().id()));
    let proof = proof.ok_or_else(|| Failure::new("the id of the door is that of no key"))?;
    let offer = Offer { id: key.node_id().to_string(), proof };
    let offer =
        serde_json::to_vec(&offer).map_err(|error| Failure::new("cannot make an offer").because(&error))?;
    let taken: Result<serde_json::Value, Failure> = ask(peer, OFFER, offer.into(), CALL).await;
    taken.map(drop).map_err(|failure| failure.hint("nothing has changed, and the identity goes on here"))
}

/// Ends the process that runs the identity, in order, if one does.
async fn stop_process(settings: &Settings, drain: Duration) -> Result<(), Failure> {
    let identity = &settings.identity;
    if let Some(process) = Client::find(identity).await? {
        settings.note(format!(
            "ends `exon {}`, process {}, which runs the identity",
            process.command, process.pid
        ));
        let mut hearer = process.ask(Request::Leave).await?;
        loop {
            match hearer.hear().await {
                Heard::Reply(_) => {}
                Heard::Done | Heard::Gone => break,
                Heard::Failed(failure) => return Err(failure),
            }
        }
    }
    let until = Instant::now() + drain;
    while !identity.is_free() {
        if Instant::now() >= until {
            return Err(Failure::new(format!(
                "a process that runs identity {identity} has not ended in time"
            ))
            .in_use()
            .hint("end it, and give the command again; the identity has not moved"));
        }
        sleep(AGAIN).await;
    }
    Ok(())
}

/// Tells the door the deed until it says that the identity lives there.
async fn tell(peer: &Peer, deed: Bytes, timeout: Duration) -> Result<Held, Failure> {
    let until = Instant::now() + timeout;
    loop {
        match ask(peer, DEED, deed.clone(), CALL).await {
            Ok(held) => return Ok(held),
            Err(failure) if Instant::now() >= until => {
                return Err(failure.hint(
                    "the identity was ceded, and does not live here any more; it may live there. Give the command again to carry its key again",
                ));
            }
            Err(_) => sleep(RETRY).await,
        }
    }
}

async fn ask<T: DeserializeOwned>(
    peer: &Peer,
    method: &'static str,
    body: Bytes,
    timeout: Duration,
) -> Result<T, Failure> {
    let failed =
        |error: &dyn std::error::Error| Failure::new("the door does not take the identity in").because(error);
    let answered = tokio::time::timeout(timeout, peer.call(method, body)).await;
    let mut reply = match answered {
        Err(_) => return Err(Failure::new(format!("the door at {} does not answer", peer.addr()))),
        Ok(Err(error)) => return Err(in_words(error).await),
        Ok(Ok(reply)) => reply,
    };
    let body = reply.body.bytes(64 * 1024).await.map_err(|error| failed(&error))?;
    serde_json::from_slice(&body).map_err(|error| failed(&error))
}

/// What a door says that refuses.
async fn in_words(error: CallError) -> Failure {
    let what = "the door does not take the identity in";
    match error {
        CallError::Failed { mut body, .. } => {
            let why = body.bytes(64 * 1024).await.unwrap_or_default();
            Failure::new(format!("{what}: {}", String::from_utf8_lossy(&why)))
        }
        other => Failure::new(what).because(&other),
    }
}

fn failed(identity: &Identity, error: &StateError) -> Failure {
    Failure::new(format!("cannot move identity {identity}")).because(error)
}
