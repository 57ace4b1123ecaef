//! Calls to a door.

use std::time::{Duration, Instant};

use bytes::Bytes;
use exonet::call::ReplyStatus;
use exonet::error::CallError;
use exonet::{Allow, Node, Peer, PeerAddr};
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use super::{AHEAD, DEED, Held, LOAD, LONGEST, OFFER, Offer, PART, REBIND, Ready, said};
use crate::failure::Failure;
use crate::identity::Identity;
use crate::node::GOODBYE;

/// The time limit for one call that brings a deed to a door.
const CALL: Duration = Duration::from_secs(5);
/// The pause before a call to a door is repeated.
const RETRY: Duration = Duration::from_millis(200);

/// The way to a door: a node that talks only to the door, since the identity itself may no longer send anything.
pub(super) struct Way {
    node: Node,
    peer: Peer,
}

impl Way {
    pub(super) async fn to(door: &PeerAddr) -> Result<Self, Failure> {
        let node = Node::builder(Allow::only([door.id])).limits(|limits| limits.message = LONGEST);
        let node = node.build().await.map_err(|error| Failure::new("cannot start a node").because(&error))?;
        let peer = node.peer(door);
        Ok(Self { node, peer })
    }

    pub(super) async fn close(self) {
        self.node.close(GOODBYE).await;
    }

    pub(super) async fn offer(&self, identity: &Identity, timeout: Duration) -> Result<(), Failure> {
        let key = identity.key()?;
        let proof = key.prove(&self.peer.id(), &said(&self.node.id()));
        let proof = proof.ok_or_else(|| Failure::new("the id of the door is not that of a key"))?;
        let offer = Offer { id: key.node_id().to_string(), proof };
        let offer = serde_json::to_vec(&offer)
            .map_err(|error| Failure::new("cannot make an offer").because(&error))?;
        // The node tries to reach the door as long as the call waits.
        self.ask::<serde_json::Value>(OFFER, offer.into(), timeout).await.map(drop)
    }

    pub(super) async fn ahead(&self, piece: Vec<u8>, timeout: Duration) -> Result<(), Failure> {
        self.ask::<serde_json::Value>(AHEAD, piece.into(), timeout).await.map(drop)
    }

    /// Sends a load to the door. `timeout` limits each part.
    pub(super) async fn load(&self, load: &[u8], timeout: Duration) -> Result<[u8; 16], Failure> {
        let mut at = 0_u64;
        for part in load.chunks(PART) {
            let mut body = Vec::with_capacity(16 + part.len());
            body.extend_from_slice(&at.to_be_bytes());
            body.extend_from_slice(&(load.len() as u64).to_be_bytes());
            body.extend_from_slice(part);
            at += part.len() as u64;
            if at < load.len() as u64 {
                self.ask::<serde_json::Value>(LOAD, body.into(), timeout).await?;
            } else {
                return self.ask::<Ready>(LOAD, body.into(), timeout).await.map(|ready| ready.attempt);
            }
        }
        Err(Failure::new("a load is never empty"))
    }

    /// Sends the deed to the door until the door confirms that the identity lives there.
    pub(super) async fn deed(&self, deed: Bytes, timeout: Duration) -> Result<Held, Failure> {
        let until = Instant::now() + timeout;
        loop {
            match self.ask(DEED, deed.clone(), CALL).await {
                Ok(held) => return Ok(held),
                Err(failure) if Instant::now() >= until => {
                    return Err(failure.hint(
                        "the identity was ceded, and no longer lives here; it may live there. Repeat the \
                         command to send its key again",
                    ));
                }
                Err(_) => sleep(RETRY).await,
            }
        }
    }

    /// Waits until the door says that the identity answers at its new place. False: the door has not said so in time, or
    /// refuses to. By `deed`, a door that was started again knows that this node acts for the identity.
    pub(super) async fn rebind(&self, deed: Bytes, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match timeout(left, self.peer.call(REBIND, deed.clone())).await {
                Ok(Ok(_)) => return true,
                // No time is left.
                Err(_) => return false,
                // The door refuses the call, or is of a version without this method. If it was killed while it held the
                // call, the status is FAILED.
                Ok(Err(CallError::Failed { status, .. })) if status != ReplyStatus::FAILED => return false,
                Ok(Err(_)) => sleep(RETRY.min(left)).await,
            }
        }
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: &'static str,
        body: Bytes,
        patience: Duration,
    ) -> Result<T, Failure> {
        let failed = |error: &dyn std::error::Error| {
            Failure::new("the door does not accept the identity").because(error)
        };
        let answered = timeout(patience, self.peer.call(method, body)).await;
        let mut reply = match answered {
            Err(_) => {
                return Err(Failure::new(format!("the door at {} does not answer", self.peer.addr())));
            }
            Ok(Err(error)) => return Err(in_words(error).await),
            Ok(Ok(reply)) => reply,
        };
        let body = reply.body.bytes(64 * 1024).await.map_err(|error| failed(&error))?;
        serde_json::from_slice(&body).map_err(|error| failed(&error))
    }
}

/// The error for a refusal by a door.
async fn in_words(error: CallError) -> Failure {
    let what = "the door does not accept the identity";
    match error {
        CallError::Failed { mut body, .. } => {
            let why = body.bytes(64 * 1024).await.unwrap_or_default();
            let why = String::from_utf8_lossy(&why);
            // A door gives a reason.
            let why = if why.is_empty() { "no door is open there" } else { &*why };
            Failure::new(format!("{what}: {why}"))
        }
        other => Failure::new(what).because(&other),
    }
}
