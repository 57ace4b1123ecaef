//! A name server: an ordinary node that serves one method.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exonet::call::{Failure, Request as Call, Serving};
use exonet::error::ServeError;
use exonet::naming::{Expect, Found, Name, NamingError, Record, Term, Version};
use exonet::state::SecretKey;
use exonet::{Node, NodeId, PeerAddr};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::file;
use crate::table::Table;
use crate::wire::{Change, LONGEST, METHOD, Named, PAGE, Reply, Request, Signed, WATCH, said};

/// How many requests are answered at the same time, including those of watchers that wait.
const CONCURRENCY: usize = 4_096;

/// Why a name server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The file of the names cannot be used.
    #[error(transparent)]
    File(#[from] NamingError),
    /// Another process uses the file.
    #[error("{} is in use by another name server", .0.display())]
    InUse(PathBuf),
    /// The key is not the key of the node.
    #[error("the key is not that of the node which is to serve names")]
    Key,
    /// The node cannot serve the method.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// A name server, which runs as long as this value exists. Every peer that its node admits may look names up. A node
/// that proves its id may bind a name and claim a place. Every change is durable before the server confirms it.
#[derive(Debug)]
pub struct NameServer {
    serving: Serving,
    desk: Arc<Desk>,
}

#[derive(Debug)]
struct Desk {
    path: PathBuf,
    key: SecretKey,
    table: Mutex<Table>,
    /// Held while the file is written, so that changes are made one after the other.
    writing: tokio::sync::Mutex<()>,
    changed: Notify,
    /// Prevents other servers from using the file.
    _lock: File,
}

impl NameServer {
    /// Serves the names in the file at `path`, which need not exist yet, on `node`. `key` is the key of the node; the
    /// server checks proofs with it.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn start(node: &Node, key: SecretKey, path: impl Into<PathBuf>) -> Result<Self, ServerError> {
        if key.node_id() != node.id() {
            return Err(ServerError::Key);
        }
        let path = path.into();
        let opened = spawn_blocking(move || {
            let path = file::resolve(&path)?;
            let Some(lock) = file::try_lock(&path)? else { return Err(ServerError::InUse(path)) };
            let table = file::read(&path)?;
            Ok((path, lock, table))
        });
        let (path, lock, table) = opened.await.map_err(|e| NamingError::Storage(e.to_string()))??;
        let desk = Arc::new(Desk {
            path,
            key,
            table: Mutex::new(table),
            writing: tokio::sync::Mutex::default(),
            changed: Notify::new(),
            _lock: lock,
        });
        let answering = Arc::clone(&desk);
        let answer = move |call: Call| {
            let desk = Arc::clone(&answering);
            async move { desk.answer(call).await }
        };
        let serving = node.serve(METHOD, answer).concurrency(CONCURRENCY).start()?;
        Ok(Self { serving, desk })
    }

    /// The names and their records, ordered by name.
    pub fn names(&self) -> Vec<(Name, Found)> {
        self.desk.table().names().map(|(name, found)| (name.clone(), found.clone())).collect()
    }

    /// Stops serving.
    pub async fn stop(self) {
        self.serving.stop(std::time::Duration::from_secs(1)).await;
    }
}

impl Desk {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, mut call: Call) -> Result<Vec<u8>, Failure> {
        let body = call.body.bytes(LONGEST).await.map_err(Failure::error)?;
        let request: Request = serde_json::from_slice(&body).map_err(Failure::error)?;
        let reply = match request {
            Request::LookUp { name } => self.look_up(&name),
            Request::Watch { name, since } => self.watch(&name, since.map(Version)).await,
            Request::List { after } => Ok(self.list(after.as_deref())),
            Request::Change { signed } => self.change(call.caller, signed).await,
        };
        serde_json::to_vec(&reply.unwrap_or_else(Reply::of_error)).map_err(Failure::error)
    }

    fn look_up(&self, name: &str) -> Result<Reply, NamingError> {
        let name = name_of(name)?;
        Ok(Reply::of(self.table().look_up(&name)))
    }

    async fn watch(&self, name: &str, since: Option<Version>) -> Result<Reply, NamingError> {
        let (name, until) = (name_of(name)?, Instant::now() + WATCH);
        loop {
            // Created before the look at the table, so that no change between the look and the wait is missed.
            let changed = self.changed.notified();
            let found = self.table().look_up(&name).cloned();
            if found.as_ref().map(|found| found.version) != since || timeout_at(until, changed).await.is_err()
            {
                return Ok(Reply::of(found.as_ref()));
            }
        }
    }

    fn list(&self, after: Option<&str>) -> Reply {
        let table = self.table();
        let behind = table.names().filter(|(name, _)| after.is_none_or(|after| name.as_str() > after));
        let named = behind.take(PAGE).map(|(name, found)| Named {
            name: name.to_string(),
            peer: found.record.peer.to_string(),
            generation: found.record.generation,
            version: found.version.0,
        });
        Reply::Names { names: named.collect() }
    }

    async fn change(&self, caller: NodeId, signed: Signed) -> Result<Reply, NamingError> {
        let by: NodeId = signed.by.parse().map_err(denied)?;
        if !self.key.verify_proof(&by, &said(&caller, &signed.change), &signed.proof) {
            return Err(NamingError::Denied(
                "the proof is not of the node that it is said to be of".to_owned(),
            ));
        }
        let change: Change = serde_json::from_str(&signed.change).map_err(denied)?;
        let _alone = self.writing.lock().await;
        let mut table = self.table().clone();
        let reply = apply(&mut table, by, change)?;
        if table == *self.table() {
            return Ok(reply);
        }
        let (path, written) = (self.path.clone(), table.clone());
        let wrote = spawn_blocking(move || file::write(&path, &written)).await;
        let wrote = wrote.map_err(|e| NamingError::Storage(e.to_string())).and_then(|wrote| wrote);
        wrote.inspect_err(|error| tracing::error!("a change of the names is not stored: {error}"))?;
        *self.table() = table;
        self.changed.notify_waiters();
        Ok(reply)
    }
}

/// Makes a change for which the node `by` asks.
fn apply(table: &mut Table, by: NodeId, change: Change) -> Result<Reply, NamingError> {
    match change {
        Change::Bind { name, peer, generation, version } => {
            let peer: PeerAddr = peer.parse().map_err(denied)?;
            if peer.id != by {
                return Err(NamingError::Denied("a node binds a name to itself only".to_owned()));
            }
            let expect = version.map_or(Expect::Unbound, |version| Expect::Version(Version(version)));
            let version = table.bind(&name_of(&name)?, &Record { peer, generation }, expect)?;
            Ok(Reply::Bound { version: version.0 })
        }
        Change::Unbind { name, version } => {
            let name = name_of(&name)?;
            if let Some(found) = table.look_up(&name).filter(|found| found.record.peer.id != by) {
                return Err(NamingError::Taken { name, owner: found.record.peer.id });
            }
            table.unbind(&name, Version(version)).map(|()| Reply::Done)
        }
        Change::Claim { generation, lineage } => {
            table.claim(&by, Term { generation, lineage }).map(|_| Reply::Done)
        }
    }
}

fn name_of(text: &str) -> Result<Name, NamingError> {
    text.parse().map_err(denied)
}

fn denied(error: impl std::fmt::Display) -> NamingError {
    NamingError::Denied(error.to_string())
}
