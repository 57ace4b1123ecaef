//! Deletes inbox rows whose outbox rows are gone.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use exonet::{Node, NodeId};

use crate::Key;
use crate::database::{Store, Value};
use crate::error::StoreError;
use crate::inbox::Counters;
use crate::inbox::handed::HandedOut;
use crate::wire::{GONE, KEYS, KEYS_BYTES, Owner, decode_keys, encode_keys};

/// How long a sender may take to answer. After that, it is asked again later.
const ANSWER: Duration = Duration::from_secs(10);

pub(super) async fn run(
    store: Arc<dyn Store>,
    node: Node,
    handed: HandedOut,
    counters: Arc<Counters>,
    every: Duration,
) {
    loop {
        tokio::time::sleep(every).await;
        match senders(&*store, &node).await {
            Ok(senders) => {
                for (owner, sender) in senders {
                    if let Err(why) = collect(&*store, &node, &handed, &counters, owner, sender).await {
                        tracing::debug!(sender = %sender.short(), "inbox rows stay for now: {why}");
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "inbox rows are not collected now"),
        }
    }
}

async fn senders(store: &dyn Store, node: &Node) -> Result<Vec<(Owner, NodeId)>, StoreError> {
    let mut conn = store.acquire().await?;
    let me = vec![Value::blob(node.id().0)];
    let mut senders = Vec::new();
    for mut row in conn.fetch(store.dialect().statements().senders, me).await? {
        let (owner, sender) = (Owner::read(&row.bytes()?), row.bytes()?.try_into().ok().map(NodeId));
        senders.extend(owner.zip(sender));
    }
    Ok(senders)
}

/// Asks a sender about all inbox rows of its messages.
async fn collect(
    store: &dyn Store,
    node: &Node,
    handed: &HandedOut,
    counters: &Counters,
    owner: Owner,
    sender: NodeId,
) -> Result<(), String> {
    let mut after = Vec::new();
    loop {
        let keys = processed(store, owner, after).await.map_err(|error| error.to_string())?;
        let Some(last) = keys.last() else { return Ok(()) };
        after = last.to_vec();
        let call = node.peer(sender).call(GONE, encode_keys(&keys)).early(false).deadline(ANSWER);
        let mut reply = call.await.map_err(|error| error.to_string())?;
        let answer = reply.body.bytes(KEYS_BYTES).await.map_err(|error| error.to_string())?;
        let mut gone = decode_keys(&answer).map_err(|error| error.to_string())?;
        // The answer may contain only keys of the question.
        gone.retain(|key| keys.contains(key));
        let gone = handed.without(gone).await;
        if !gone.is_empty() {
            let keys = gone.into_iter().map(Key::to_vec).collect();
            let mut conn = store.acquire().await.map_err(|error| error.to_string())?;
            let args = vec![Value::blob(owner.0), Value::Blobs(keys)];
            let deleted = conn.execute(store.dialect().statements().collect, args).await;
            counters.collected.fetch_add(deleted.map_err(|error| error.to_string())?, Ordering::Relaxed);
        }
    }
}

async fn processed(store: &dyn Store, owner: Owner, after: Vec<u8>) -> Result<Vec<Key>, StoreError> {
    let mut conn = store.acquire().await?;
    let args = vec![Value::blob(owner.0), Value::blob(after), Value::Int(KEYS.into())];
    let rows = conn.fetch(store.dialect().statements().processed, args).await?;
    Ok(rows.into_iter().filter_map(|mut row| Key::read(&row.bytes().ok()?)).collect())
}
