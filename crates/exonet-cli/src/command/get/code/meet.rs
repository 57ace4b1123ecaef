//! The receiver's side of the exchange about a code: see [`crate::code::meeting`].

use std::time::Duration;

use exonet::error::CallError;
use exonet::{Node, Peer, PeerAddr};

use crate::code::Code;
use crate::code::meeting::{LONGEST, METHOD, Manifest, Meeting, Reply, Request, VERSION, same};
use crate::copy;
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::settings::Settings;
use crate::text::escape;

/// The time limit for the first answer of a node.
const FIRST: Duration = Duration::from_secs(6);
/// The time limit for the proof of the sender, which first reads all files that it offers.
const PROOF: Duration = Duration::from_secs(24 * 3_600);
/// The time after which the command prints what it waits for.
const SOON: Duration = Duration::from_secs(2);
/// The interval of the sender's signs of life.
const ALIVE: Duration = Duration::from_secs(1);

/// The sender, which has proven that it knows the code.
pub(super) struct Open {
    pub(super) node: Node,
    pub(super) peer: Peer,
    pub(super) manifest: Manifest,
}

/// The result of a meeting.
pub(super) enum Met {
    Open(Box<Open>),
    /// The node has another code.
    Wrong {
        left: u32,
    },
    /// The node gave no answer with which the exchange can continue.
    Over(String),
}

/// Meets one node that may have the offer.
pub(super) async fn meet(settings: &Settings, code: &Code, at: &PeerAddr) -> Result<Met, Failure> {
    let node = node::toward_with(settings, at, |config| {
        config.takes.messages = false;
        // A piece of a file is put together in memory.
        config.limits.stream_above = copy::LONGEST_PIECE;
    })
    .await?;
    let peer = node.peer(at);
    peer.keepalive(Some(ALIVE));
    let met = talk(settings, code, &node, &peer).await;
    match met {
        Ok(manifest) => Ok(Met::Open(Box::new(Open { peer, manifest, node }))),
        Err(met) => {
            node.close(GOODBYE).await;
            Ok(met)
        }
    }
}

async fn talk(settings: &Settings, code: &Code, node: &Node, peer: &Peer) -> Result<Manifest, Met> {
    let (meeting, share) = Meeting::receiver(code, &peer.id(), &node.id());
    let share = match ask(peer, &Request::Meet { v: VERSION, share }, FIRST).await? {
        Reply::Met { share } => share,
        other => return Err(unexpected(other)),
    };
    let key = meeting.finish(&share).ok_or_else(|| Met::Over("its share is not valid".to_owned()))?;
    let confirm = Request::Confirm { proof: key.of_receiver() };
    let mut confirm = std::pin::pin!(ask(peer, &confirm, PROOF));
    let reply = tokio::select! {
        reply = &mut confirm => reply?,
        () = tokio::time::sleep(SOON) => {
            settings.note("the sender is still reading what it offers");
            confirm.await?
        }
    };
    match reply {
        Reply::Open { proof, manifest } if same(proof, key.of_sender(&manifest)) => {
            serde_json::from_str(&manifest)
                .map_err(|_| Met::Over("its offer cannot be understood".to_owned()))
        }
        // The node has accepted the guess without knowing the code.
        Reply::Open { .. } => Err(Met::Wrong { left: 0 }),
        other => Err(unexpected(other)),
    }
}

fn unexpected(reply: Reply) -> Met {
    match reply {
        Reply::Wrong { left } => Met::Wrong { left },
        Reply::Over { why } => Met::Over(escape(why.as_bytes())),
        _ => Met::Over("its answer cannot be understood".to_owned()),
    }
}

/// One request.
pub(super) async fn ask(peer: &Peer, request: &Request, patience: Duration) -> Result<Reply, Met> {
    let no_sense = |_| Met::Over("its answer cannot be understood".to_owned());
    let body = serde_json::to_vec(request).map_err(no_sense)?;
    let called = async { peer.call(METHOD, body).deadline(patience).await };
    let reply = match tokio::time::timeout(patience, called).await {
        Ok(reply) => reply.map_err(|error| Met::Over(told(&error)))?,
        Err(_) => return Err(Met::Over(SILENT.to_owned())),
    };
    let mut reply = reply;
    let body = reply.body.bytes(LONGEST).await.map_err(|error| Met::Over(error.to_string()))?;
    serde_json::from_slice(&body).map_err(no_sense)
}

const SILENT: &str = "it does not answer";

fn told(error: &CallError) -> String {
    match error {
        CallError::Expired => SILENT.to_owned(),
        error => error.to_string(),
    }
}
