//! Names at a name server.

use std::time::Duration;

use exonet::call::ReplyStatus;
use exonet::error::{BuildError, CallError};
use exonet::naming::{Answer, Expect, Found, Name, Naming, NamingError, Record, Term, Version};
use exonet::state::SecretKey;
use exonet::{Allow, Node, NodeId, Peer, PeerAddr};

use crate::wire::{Change, LONGEST, METHOD, Named, Reply, Request, Signed, WATCH, said};

/// How long the client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Names at a [`NameServer`](crate::NameServer), which is reached by its id: no other node can answer instead of it.
///
/// A node of its own sends the requests, and exists as long as this value. A client that binds names must [speak
/// for](Self::speaking_for) the node to which it binds them.
#[derive(Debug)]
pub struct ServerNames {
    server: Peer,
    key: Option<SecretKey>,
}

impl ServerNames {
    /// Makes a client of `server`. It sends nothing yet.
    ///
    /// # Errors
    /// [`BuildError`]: the node that sends requests could not be made.
    pub async fn new(server: impl Into<PeerAddr>) -> Result<Self, BuildError> {
        let server = server.into();
        let node = Node::builder(Allow::only([server.id])).build().await?;
        Ok(Self { server: node.peer(server), key: None })
    }

    /// Binds names, and claims places, for the node of this key. The client proves to the server that each such
    /// request comes from the holder of the key.
    #[must_use]
    pub fn speaking_for(mut self, key: SecretKey) -> Self {
        self.key = Some(key);
        self
    }

    async fn list_all(&self) -> Result<Vec<(Name, Found)>, NamingError> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let reply = self.ask(&Request::List { after: after.take() }, PATIENCE).await?;
            let Reply::Names { names } = reply else {
                return Err(NamingError::Damaged("the server answered another question".to_owned()));
            };
            let Some(last) = names.last() else { return Ok(all) };
            after = Some(last.name.clone());
            for Named { name, peer, generation, version } in names {
                let damaged = |e: &dyn std::fmt::Display| NamingError::Damaged(e.to_string());
                let record = Record { peer: peer.parse().map_err(|e| damaged(&e))?, generation };
                all.push((
                    name.parse().map_err(|e| damaged(&e))?,
                    Found { record, version: Version(version) },
                ));
            }
        }
    }

    async fn ask(&self, request: &Request, patience: Duration) -> Result<Reply, NamingError> {
        let body = serde_json::to_vec(request).map_err(|e| NamingError::Damaged(e.to_string()))?;
        let call = self.server.call(METHOD, body).deadline(patience);
        let mut reply = call.await.map_err(|error| unanswered(&error, patience))?;
        let body = reply.body.bytes(8 * LONGEST).await;
        let body = body.map_err(|e| NamingError::Unreachable(e.to_string()))?;
        serde_json::from_slice(&body).map_err(|e| NamingError::Damaged(e.to_string()))
    }

    /// Asks for a change, with the proof that the holder of the key asks.
    async fn change(&self, id: Option<&NodeId>, change: &Change) -> Result<Reply, NamingError> {
        let denied = |why: &str| NamingError::Denied(why.to_owned());
        let key = self.key.as_ref().ok_or_else(|| denied("only a node itself binds names to it"))?;
        if id.is_some_and(|id| *id != key.node_id()) {
            return Err(denied("a node binds names to itself only"));
        }
        let change = serde_json::to_string(change).map_err(|e| NamingError::Damaged(e.to_string()))?;
        let caller = self.server.node().id();
        let proof = key.prove(&self.server.id(), &said(&caller, &change));
        let proof = proof.ok_or_else(|| denied("the id of the server is that of no key"))?;
        let signed = Signed { by: key.node_id().to_string(), change, proof };
        self.ask(&Request::Change { signed }, PATIENCE).await
    }
}

impl Naming for ServerNames {
    fn look_up<'a>(&'a self, name: &'a Name) -> Answer<'a, Option<Found>> {
        Box::pin(
            async move { self.ask(&Request::LookUp { name: name.to_string() }, PATIENCE).await?.found(name) },
        )
    }

    fn watch<'a>(&'a self, name: &'a Name, since: Option<Version>) -> Answer<'a, Option<Found>> {
        let request = Request::Watch { name: name.to_string(), since: since.map(|version| version.0) };
        Box::pin(async move { self.ask(&request, PATIENCE + WATCH).await?.found(name) })
    }

    fn list(&self) -> Answer<'_, Vec<(Name, Found)>> {
        Box::pin(self.list_all())
    }

    fn bind<'a>(&'a self, name: &'a Name, record: &'a Record, expect: Expect) -> Answer<'a, Version> {
        Box::pin(async move {
            let change = Change::bind(name, record, expect);
            match self.change(Some(&record.peer.id), &change).await? {
                Reply::Bound { version } => Ok(Version(version)),
                other => Err(other.error(name)),
            }
        })
    }

    fn unbind<'a>(&'a self, name: &'a Name, version: Version) -> Answer<'a, ()> {
        Box::pin(async move {
            let change = Change::Unbind { name: name.to_string(), version: version.0 };
            match self.change(None, &change).await? {
                Reply::Done => Ok(()),
                other => Err(other.error(name)),
            }
        })
    }

    fn claim<'a>(&'a self, id: &'a NodeId, term: Term) -> Answer<'a, ()> {
        Box::pin(async move {
            match self.change(Some(id), &Change::claim(term)).await? {
                Reply::Done => Ok(()),
                Reply::Superseded { generation } => Err(NamingError::Superseded { generation }),
                Reply::Denied { why } => Err(NamingError::Denied(why)),
                Reply::Failed { why } => Err(NamingError::Storage(why)),
                _ => Err(NamingError::Damaged("the server answered another question".to_owned())),
            }
        })
    }

    fn is_authority(&self) -> bool {
        self.key.is_some()
    }
}

fn unanswered(error: &CallError, patience: Duration) -> NamingError {
    match error {
        CallError::Failed { status: ReplyStatus::NO_SUCH_METHOD, .. } => NamingError::NoServer,
        CallError::Expired => {
            NamingError::Unreachable(format!("nothing came within {} s", patience.as_secs()))
        }
        CallError::Failed { status: ReplyStatus::FAILED, .. } => {
            NamingError::Unreachable("the name server has ended".to_owned())
        }
        CallError::Failed { status, .. } => NamingError::Unreachable(format!("its reply says: {status}")),
        other => NamingError::Unreachable(other.to_string()),
    }
}
