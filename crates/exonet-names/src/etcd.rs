//! Names in etcd, through the JSON gateway that every etcd server offers besides gRPC.
//!
//! | Key | Value |
//! |---|---|
//! | `exonet/name/NAME` | `{"peer": "ID@...", "generation": n}` |
//! | `exonet/term/ID` | `{"generation": n, "lineage": [8 bytes]}` |
//!
//! A key is changed only if it is still as it was read: a transaction compares its revision. So neither a lease nor a
//! clock decides which node has a name, or where an identity lives.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use exonet::NodeId;
use exonet::naming::{Answer, Expect, Found, Name, Naming, NamingError, Record, Term, Version};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a watcher looks a name up, and for how long at most.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const LOOK_FOR: Duration = Duration::from_secs(30);

/// Names in an etcd cluster.
#[derive(Clone, Debug)]
pub struct EtcdNames {
    url: Arc<str>,
    agent: ureq::Agent,
}

#[derive(Serialize, Deserialize)]
struct NameValue {
    peer: String,
    generation: u64,
}

#[derive(Serialize, Deserialize)]
struct TermValue {
    generation: u64,
    lineage: [u8; 8],
}

/// The content of a key.
struct Stored<T> {
    value: T,
    /// The revision of its last change.
    revision: u64,
}

impl EtcdNames {
    /// Uses the cluster that has a member at `url`, for example `http://127.0.0.1:2379`.
    pub fn new(url: &str) -> Self {
        let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false);
        Self { url: url.trim_end_matches('/').into(), agent: config.build().into() }
    }

    /// Sends a request to the gateway, on a thread that may block.
    async fn ask(&self, path: &'static str, question: Value) -> Result<Value, NamingError> {
        let (agent, url) = (self.agent.clone(), format!("{}/v3/kv/{path}", self.url));
        let unreachable = |e: &dyn std::fmt::Display| NamingError::Unreachable(format!("etcd: {e}"));
        let asked = spawn_blocking(move || {
            let mut answer = agent
                .post(&url)
                .header("content-type", "application/json")
                .send(question.to_string())
                .map_err(|e| unreachable(&format_args!("{url}: {e}")))?;
            let status = answer.status();
            let text = answer.body_mut().read_to_string().map_err(|e| unreachable(&e))?;
            if !status.is_success() {
                return Err(unreachable(&format_args!("{url}: {status}: {}", text.trim())));
            }
            serde_json::from_str(&text).map_err(|e| damaged(&e))
        });
        asked.await.map_err(|e| unreachable(&e))?
    }

    async fn read<T: DeserializeOwned>(&self, key: &str) -> Result<Option<Stored<T>>, NamingError> {
        let answer = self.ask("range", json!({ "key": STANDARD.encode(key) })).await?;
        stored(answer.pointer("/kvs/0"))
    }

    /// Puts `value` under `key`, or deletes the key, if the last change of the key had this `revision`; with 0, if
    /// the key does not exist. Returns the revision of the change. None: the key has changed meanwhile.
    async fn swap<T: Serialize>(
        &self,
        key: &str,
        value: Option<&T>,
        revision: u64,
    ) -> Result<Option<u64>, NamingError> {
        let key = STANDARD.encode(key);
        let change = match value {
            Some(value) => {
                let value = serde_json::to_string(value).map_err(|e| damaged(&e))?;
                json!({ "request_put": { "key": key, "value": STANDARD.encode(value) } })
            }
            None => json!({ "request_delete_range": { "key": key } }),
        };
        let compare =
            json!({ "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string() });
        let answer = self.ask("txn", json!({ "compare": [compare], "success": [change] })).await?;
        if answer.get("succeeded").and_then(Value::as_bool) != Some(true) {
            return Ok(None);
        }
        number(answer.pointer("/header/revision")).map(Some)
    }

    async fn term(&self, id: &NodeId) -> Result<Option<Stored<TermValue>>, NamingError> {
        self.read(&term_key(id)).await
    }

    async fn bind_now(&self, name: &Name, record: &Record, expect: Expect) -> Result<Version, NamingError> {
        let claimed = self.term(&record.peer.id).await?.map_or(0, |term| term.value.generation);
        if claimed > record.generation {
            return Err(NamingError::Superseded { generation: claimed });
        }
        let known = self.read::<NameValue>(&name_key(name)).await?;
        if let Some(known) = &known {
            let found = found(known)?;
            if found.record.peer.id != record.peer.id {
                return Err(NamingError::Taken { name: name.clone(), owner: found.record.peer.id });
            }
            if found.record.generation > record.generation {
                return Err(NamingError::Superseded { generation: found.record.generation });
            }
        }
        let revision = match expect {
            Expect::Unbound => 0,
            Expect::Version(version) => version.0,
        };
        let value = NameValue { peer: record.peer.to_string(), generation: record.generation };
        let bound = self.swap(&name_key(name), Some(&value), revision).await?;
        bound.map(Version).ok_or_else(|| NamingError::Changed(name.clone()))
    }

    async fn claim_now(&self, id: &NodeId, term: Term) -> Result<(), NamingError> {
        loop {
            let known = self.term(id).await?;
            let (now, revision) = known.map_or((Term::default(), 0), |Stored { value, revision }| {
                (Term { generation: value.generation, lineage: value.lineage }, revision)
            });
            if term == now {
                return Ok(());
            }
            if term.generation <= now.generation {
                return Err(NamingError::Superseded { generation: now.generation });
            }
            let value = TermValue { generation: term.generation, lineage: term.lineage };
            // If another node was faster, the next look finds its claim. If the reply is lost, the next look finds
            // this claim.
            if self.swap(&term_key(id), Some(&value), revision).await?.is_some() {
                return Ok(());
            }
        }
    }
}

impl Naming for EtcdNames {
    fn look_up<'a>(&'a self, name: &'a Name) -> Answer<'a, Option<Found>> {
        Box::pin(async move { self.read(&name_key(name)).await?.as_ref().map(found).transpose() })
    }

    fn watch<'a>(&'a self, name: &'a Name, since: Option<Version>) -> Answer<'a, Option<Found>> {
        Box::pin(async move {
            let until = Instant::now() + LOOK_FOR;
            loop {
                let found = self.look_up(name).await?;
                if found.as_ref().map(|found| found.version) != since || Instant::now() >= until {
                    return Ok(found);
                }
                sleep(LOOK_EVERY).await;
            }
        })
    }

    fn list(&self) -> Answer<'_, Vec<(Name, Found)>> {
        Box::pin(async move {
            // All keys that begin with the prefix: from the first one up to the first key after them.
            let (first, behind) = (STANDARD.encode(NAMES), STANDARD.encode(NAMES_END));
            let question =
                json!({ "key": first, "range_end": behind, "sort_order": "ASCEND", "sort_target": "KEY" });
            let answer = self.ask("range", question).await?;
            let kvs = answer.get("kvs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            kvs.iter().map(named).collect()
        })
    }

    fn bind<'a>(&'a self, name: &'a Name, record: &'a Record, expect: Expect) -> Answer<'a, Version> {
        Box::pin(self.bind_now(name, record, expect))
    }

    fn unbind<'a>(&'a self, name: &'a Name, version: Version) -> Answer<'a, ()> {
        Box::pin(async move {
            let gone = self.swap::<NameValue>(&name_key(name), None, version.0).await?;
            gone.map(drop).ok_or_else(|| NamingError::Changed(name.clone()))
        })
    }

    fn claim<'a>(&'a self, id: &'a NodeId, term: Term) -> Answer<'a, ()> {
        Box::pin(self.claim_now(id, term))
    }

    fn is_authority(&self) -> bool {
        true
    }
}

/// The prefix of the keys of names, and the first key after all of them.
const NAMES: &str = "exonet/name/";
const NAMES_END: &str = "exonet/name0";

fn name_key(name: &Name) -> String {
    format!("{NAMES}{name}")
}

/// The name and record of one key of a list.
fn named(kv: &Value) -> Result<(Name, Found), NamingError> {
    let key = kv.get("key").and_then(Value::as_str).unwrap_or_default();
    let key = String::from_utf8(STANDARD.decode(key).map_err(|e| damaged(&e))?).map_err(|e| damaged(&e))?;
    let name = key.strip_prefix(NAMES).unwrap_or_default().parse().map_err(|e| damaged(&e))?;
    let stored = stored(Some(kv))?.ok_or_else(|| damaged(&"a name without a record"))?;
    Ok((name, found(&stored)?))
}

fn term_key(id: &NodeId) -> String {
    format!("exonet/term/{id}")
}

fn found(stored: &Stored<NameValue>) -> Result<Found, NamingError> {
    let peer = stored.value.peer.parse().map_err(|e| damaged(&e))?;
    let record = Record { peer, generation: stored.value.generation };
    Ok(Found { record, version: Version(stored.revision) })
}

/// The content of one key in the answer to a range request.
fn stored<T: DeserializeOwned>(kv: Option<&Value>) -> Result<Option<Stored<T>>, NamingError> {
    let Some(kv) = kv else { return Ok(None) };
    let value = kv.get("value").and_then(Value::as_str).unwrap_or_default();
    let value = STANDARD.decode(value).map_err(|e| damaged(&e))?;
    let value = serde_json::from_slice(&value).map_err(|e| damaged(&e))?;
    Ok(Some(Stored { value, revision: number(kv.get("mod_revision"))? }))
}

/// Numbers of 64 bits are strings in this JSON.
fn number(value: Option<&Value>) -> Result<u64, NamingError> {
    let number = value.and_then(Value::as_str).and_then(|text| text.parse().ok());
    number.ok_or_else(|| NamingError::Damaged("etcd gives no revision".to_owned()))
}

fn damaged(error: &dyn std::fmt::Display) -> NamingError {
    NamingError::Damaged(format!("etcd: {error}"))
}
