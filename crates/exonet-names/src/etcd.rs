//! Names in etcd, through the JSON gateway that every etcd server offers besides gRPC.
//!
//! | Key | Value |
//! |---|---|
//! | `exonet/name/NAME` | `{"peer": "ID", "generation": n}` |
//! | `exonet/addr/NAME` | `{"peer": "ID@...", "generation": n}`, with a lease if the node renews it |
//! | `exonet/term/ID` | `{"generation": n, "lineage": [8 bytes]}` |
//!
//! A node changes a name or its addresses only if no other node has changed the name since it read the name: a transaction
//! compares the revision of the name's key. A transaction that binds a name or renews its addresses also compares the
//! revision of the term of the identity. A claim compares that of the term alone.
//! When the lease of a node ends, etcd forgets the addresses of the node. The other keys have no lease. So neither a lease
//! nor a clock decides which node has a name, or where an identity lives.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use exonet::naming::{Answer, Expect, Found, Name, Naming, NamingError, Record, Term, Version};
use exonet::{NodeId, PeerAddr};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::watch;

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a watcher looks a name up.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long etcd keeps addresses that no node renews.
const LEASE: Duration = Duration::from_secs(15);
/// The shortest lease that etcd grants.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);

/// Names in an etcd cluster.
#[derive(Clone, Debug)]
pub struct EtcdNames {
    url: Arc<str>,
    agent: ureq::Agent,
    lease: Duration,
    /// The lease of each name that is renewed through this value.
    leases: Arc<Mutex<BTreeMap<Name, Lease>>>,
}

/// The lease of the addresses of a name.
#[derive(Clone, Debug)]
struct Lease {
    /// The number of the lease, as etcd writes it.
    number: String,
    /// The revision of the record of the name.
    revision: u64,
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

/// Whether `text` is a URL of HTTP with a host.
pub(crate) fn is_url(text: &str) -> bool {
    let url = text.parse::<ureq::http::Uri>();
    url.is_ok_and(|url| {
        url.scheme_str().is_some_and(|it| it == "http" || it == "https") && url.host().is_some()
    })
}

impl EtcdNames {
    /// Uses the cluster that has a member at `url`, for example `http://127.0.0.1:2379`.
    pub fn new(url: &str) -> Self {
        let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false);
        Self {
            url: url.trim_end_matches('/').into(),
            agent: config.build().into(),
            lease: LEASE,
            leases: Arc::default(),
        }
    }

    /// Sets how long etcd keeps addresses that no node renews, in whole seconds and at least 1 s. Default: 15 s. etcd may
    /// keep them longer.
    #[must_use]
    pub const fn lease_for(mut self, lease: Duration) -> Self {
        self.lease = if lease.as_secs() == 0 { SHORTEST_LEASE } else { lease };
        self
    }

    fn leases(&self) -> MutexGuard<'_, BTreeMap<Name, Lease>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the lease for the record of this revision.
    fn lease_of(&self, name: &Name, revision: u64) -> Option<String> {
        self.leases().get(name).filter(|lease| lease.revision == revision).map(|lease| lease.number.clone())
    }

    /// Forgets the lease for the record of this revision: the name has another record, or the identity is claimed
    /// elsewhere. A lease for another record stays.
    fn forget_lease(&self, name: &Name, revision: u64) {
        let mut leases = self.leases();
        if leases.get(name).is_some_and(|lease| lease.revision == revision) {
            leases.remove(name);
        }
    }

    /// Sends a request to the gateway, on a thread that may block.
    async fn ask(&self, path: &'static str, question: Value) -> Result<Value, NamingError> {
        let (agent, url) = (self.agent.clone(), format!("{}/v3/{path}", self.url));
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
        let answer = self.ask("kv/range", range(key)).await?;
        stored(answer.pointer("/kvs/0"))
    }

    /// Makes these changes if each of these keys still has the revision beside it. A key with revision 0 must not exist.
    /// Returns the revision of the changes. None: a key has changed meanwhile.
    async fn swap(&self, keys: &[(String, u64)], changes: Vec<Value>) -> Result<Option<u64>, NamingError> {
        let compare: Vec<_> = keys
            .iter()
            .map(|(key, revision)| {
                let key = STANDARD.encode(key);
                json!({ "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string() })
            })
            .collect();
        let answer = self.ask("kv/txn", json!({ "compare": compare, "success": changes })).await?;
        if answer.get("succeeded").and_then(Value::as_bool) != Some(true) {
            return Ok(None);
        }
        number(answer.pointer("/header/revision")).map(Some)
    }

    /// Reads these ranges at one instant.
    async fn read_together(&self, ranges: [Value; 2]) -> Result<[Vec<Value>; 2], NamingError> {
        let ranges = ranges.map(|range| json!({ "request_range": range }));
        let answer = self.ask("kv/txn", json!({ "success": ranges })).await?;
        Ok([0, 1].map(|n| {
            let kvs = answer.pointer(&format!("/responses/{n}/response_range/kvs")).and_then(Value::as_array);
            kvs.cloned().unwrap_or_default()
        }))
    }

    async fn term(&self, id: &NodeId) -> Result<Option<Stored<TermValue>>, NamingError> {
        self.read(&term_key(id)).await
    }

    /// Returns the key of the identity's term and its revision, for [`Self::swap`]. Fails if a later generation than
    /// that of `record` has claimed the identity.
    fn fence(record: &Record, term: Option<&Stored<TermValue>>) -> Result<(String, u64), NamingError> {
        let (claimed, revision) = term.map_or((0, 0), |term| (term.value.generation, term.revision));
        if claimed > record.generation {
            return Err(NamingError::Superseded { generation: claimed });
        }
        Ok((term_key(&record.peer.id), revision))
    }

    async fn look_up_now(&self, name: &Name) -> Result<Option<Found>, NamingError> {
        let [names, addresses] = self.read_together([name_key(name), addr_key(name)].map(range)).await?;
        let addresses = stored(addresses.first())?;
        stored(names.first())?.map(|stored| found(&stored, addresses.as_ref())).transpose()
    }

    async fn bind_now(&self, name: &Name, record: &Record, expect: Expect) -> Result<Version, NamingError> {
        let term = self.term(&record.peer.id).await?;
        // Another place may claim the identity meanwhile, so the transaction also compares the term.
        let fence = Self::fence(record, term.as_ref())?;
        if let Some(found) = self.look_up_now(name).await? {
            if found.record.peer.id != record.peer.id {
                return Err(NamingError::Taken { name: name.clone(), owner: found.record.peer.id });
            }
            if found.record.generation > record.generation {
                return Err(NamingError::Superseded { generation: found.record.generation });
            }
        }
        let revision = match expect {
            Expect::Unbound => 0,
            Expect::Version(version) => revision_of(version),
        };
        let owner = PeerAddr::from(record.peer.id);
        let has_addresses = record.peer.hints().next().is_some();
        let changes = vec![
            put(&name_key(name), &NameValue::new(&owner, record.generation), None)?,
            put(&addr_key(name), &NameValue::new(&record.peer, record.generation), None)?,
        ];
        let bound = self.swap(&[(name_key(name), revision), fence], changes).await?;
        let revision = bound.ok_or_else(|| NamingError::Changed(name.clone()))?;
        // The new addresses have no lease yet.
        self.leases().remove(name);
        Ok(version(revision, has_addresses))
    }

    async fn unbind_now(&self, name: &Name, version: Version) -> Result<(), NamingError> {
        let changes = [name_key(name), addr_key(name)]
            .map(|key| json!({ "request_delete_range": { "key": STANDARD.encode(key) } }));
        let gone = self.swap(&[(name_key(name), revision_of(version))], changes.to_vec()).await?;
        self.leases().remove(name);
        gone.map(drop).ok_or_else(|| NamingError::Changed(name.clone()))
    }

    async fn renew_now(&self, name: &Name, record: &Record, version: Version) -> Result<(), NamingError> {
        let revision = revision_of(version);
        let [names, terms] =
            self.read_together([name_key(name), term_key(&record.peer.id)].map(range)).await?;
        let now = stored::<NameValue>(names.first())?.map_or(0, |now| now.revision);
        let is_current =
            |fence| if now == revision { Ok(fence) } else { Err(NamingError::Changed(name.clone())) };
        let fence = Self::fence(record, stored(terms.first())?.as_ref()).and_then(is_current);
        let fence = fence.inspect_err(|_| self.forget_lease(name, revision))?;
        if let Some(lease) = self.lease_of(name, revision) {
            let answer = self.ask("lease/keepalive", json!({ "ID": lease })).await?;
            let left = answer.pointer("/result/TTL").and_then(Value::as_str).unwrap_or_default();
            if left.parse::<u64>().is_ok_and(|left| left > 0) {
                return Ok(());
            }
            // etcd was out of reach for too long. The lease has ended, and etcd has forgotten the addresses.
        }
        let granted = self.ask("lease/grant", json!({ "TTL": self.lease.as_secs().to_string() })).await?;
        let number =
            granted.get("ID").and_then(Value::as_str).ok_or_else(|| damaged(&"a lease without a number"))?;
        let change = put(&addr_key(name), &NameValue::new(&record.peer, record.generation), Some(number))?;
        let renewed = self.swap(&[(name_key(name), revision), fence], vec![change]).await?;
        if renewed.is_none() {
            self.forget_lease(name, revision);
            // If this fails, the lease ends by itself.
            let _ = self.ask("lease/revoke", json!({ "ID": number })).await;
            return Err(NamingError::Changed(name.clone()));
        }
        self.leases().insert(name.clone(), Lease { number: number.to_owned(), revision });
        Ok(())
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
            let change = put(&term_key(id), &value, None)?;
            if self.swap(&[(term_key(id), revision)], vec![change]).await?.is_some() {
                return Ok(());
            }
        }
    }
}

impl Naming for EtcdNames {
    fn look_up<'a>(&'a self, name: &'a Name) -> Answer<'a, Option<Found>> {
        Box::pin(self.look_up_now(name))
    }

    fn watch<'a>(&'a self, name: &'a Name, since: Option<Version>) -> Answer<'a, Option<Found>> {
        Box::pin(watch::by_look_ups(self, name, since, LOOK_EVERY))
    }

    fn list(&self) -> Answer<'_, Vec<(Name, Found)>> {
        Box::pin(async move {
            // All keys that begin with the prefix: from the first one up to the first key after them.
            let ranges = [(NAMES, NAMES_END), (ADDRESSES, ADDRESSES_END)].map(|(first, behind)| {
                let (first, behind) = (STANDARD.encode(first), STANDARD.encode(behind));
                json!({ "key": first, "range_end": behind, "sort_order": "ASCEND", "sort_target": "KEY" })
            });
            let [names, addresses] = self.read_together(ranges).await?;
            let addresses = addresses.iter().map(|kv| named(kv, ADDRESSES));
            let addresses = addresses.collect::<Result<BTreeMap<_, _>, _>>()?;
            names
                .iter()
                .map(|kv| {
                    let (name, stored) = named(kv, NAMES)?;
                    let found = found(&stored, addresses.get(&name))?;
                    Ok((name, found))
                })
                .collect()
        })
    }

    fn bind<'a>(&'a self, name: &'a Name, record: &'a Record, expect: Expect) -> Answer<'a, Version> {
        Box::pin(self.bind_now(name, record, expect))
    }

    fn unbind<'a>(&'a self, name: &'a Name, version: Version) -> Answer<'a, ()> {
        Box::pin(self.unbind_now(name, version))
    }

    fn lease(&self) -> Option<Duration> {
        Some(self.lease)
    }

    fn renew<'a>(&'a self, name: &'a Name, record: &'a Record, version: Version) -> Answer<'a, ()> {
        Box::pin(self.renew_now(name, record, version))
    }

    fn claim<'a>(&'a self, id: &'a NodeId, term: Term) -> Answer<'a, ()> {
        Box::pin(self.claim_now(id, term))
    }

    fn is_authority(&self) -> bool {
        true
    }
}

impl NameValue {
    fn new(peer: &PeerAddr, generation: u64) -> Self {
        Self { peer: peer.to_string(), generation }
    }

    fn record(&self) -> Result<Record, NamingError> {
        let peer = self.peer.parse().map_err(|e| damaged(&e))?;
        Ok(Record { peer, generation: self.generation })
    }
}

/// The prefixes of the keys of names and of their addresses. Each has the first key after all keys with the prefix.
const NAMES: &str = "exonet/name/";
const NAMES_END: &str = "exonet/name0";
const ADDRESSES: &str = "exonet/addr/";
const ADDRESSES_END: &str = "exonet/addr0";

/// The question for one key.
fn range(key: impl AsRef<[u8]>) -> Value {
    json!({ "key": STANDARD.encode(key) })
}

fn name_key(name: &Name) -> String {
    format!("{NAMES}{name}")
}

fn addr_key(name: &Name) -> String {
    format!("{ADDRESSES}{name}")
}

fn term_key(id: &NodeId) -> String {
    format!("exonet/term/{id}")
}

/// The name and the value of one key in a list.
fn named(kv: &Value, prefix: &str) -> Result<(Name, Stored<NameValue>), NamingError> {
    let key = kv.get("key").and_then(Value::as_str).unwrap_or_default();
    let key = String::from_utf8(STANDARD.decode(key).map_err(|e| damaged(&e))?).map_err(|e| damaged(&e))?;
    let name = key.strip_prefix(prefix).unwrap_or_default().parse().map_err(|e| damaged(&e))?;
    let stored = stored(Some(kv))?.ok_or_else(|| damaged(&"a name without a record"))?;
    Ok((name, stored))
}

/// The record of a name, with the addresses if etcd still has them.
fn found(name: &Stored<NameValue>, addresses: Option<&Stored<NameValue>>) -> Result<Found, NamingError> {
    let mut record = name.value.record()?;
    if let Some(addresses) = addresses.filter(|_| record.peer.hints().next().is_none()) {
        let known = addresses.value.record()?;
        // Addresses that another node or an earlier generation has left there do not count.
        if (known.peer.id, known.generation) == (record.peer.id, record.generation) {
            record = known;
        }
    }
    let has_addresses = record.peer.hints().next().is_some();
    Ok(Found { record, version: version(name.revision, has_addresses) })
}

/// The version of a record. It also changes when etcd forgets the addresses, so that a watcher notices.
const fn version(revision: u64, has_addresses: bool) -> Version {
    Version(revision << 1 | !has_addresses as u64)
}

/// The revision of the key of a name.
const fn revision_of(version: Version) -> u64 {
    version.0 >> 1
}

/// Puts `value` under `key`, with a lease or without.
fn put(key: &str, value: &impl Serialize, lease: Option<&str>) -> Result<Value, NamingError> {
    let value = serde_json::to_string(value).map_err(|e| damaged(&e))?;
    let (key, value) = (STANDARD.encode(key), STANDARD.encode(value));
    Ok(json!({ "request_put": { "key": key, "value": value, "lease": lease.unwrap_or("0") } }))
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
