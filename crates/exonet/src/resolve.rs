//! Host names of hints, looked up when used and remembered for a while.

use core::net::SocketAddr;
use core::time::Duration;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use exonet_proto::Mono;

use crate::clock::Clock;
use crate::error::SendError;
use crate::peer_addr::PeerAddr;

/// How long an answer is good for: names move when services do.
const FRESH: Duration = Duration::from_secs(60);

/// Names remembered; when full, all are forgotten and looked up again.
const CAPACITY: usize = 1_024;

type Answers = BTreeMap<Box<str>, (Mono, Vec<SocketAddr>)>;

#[derive(Default)]
pub(crate) struct Names(Mutex<Answers>);

impl Names {
    /// All addresses of `peer`, names looked up. Costs nothing for a peer without names.
    pub(crate) async fn resolve<'a>(
        &self,
        clock: &Clock,
        peer: &'a PeerAddr,
    ) -> Result<Cow<'a, [SocketAddr]>, SendError> {
        if peer.names().is_empty() {
            return Ok(Cow::Borrowed(peer.literals()));
        }
        let mut addresses = peer.literals().to_vec();
        let mut failed = None;
        for name in peer.names() {
            match self.lookup(clock, name).await {
                Ok(found) => addresses.extend(found),
                Err(reason) => {
                    failed = Some(SendError::Lookup { hint: name.to_string(), reason });
                }
            }
        }
        match failed {
            Some(error) if addresses.is_empty() => Err(error),
            _ => Ok(Cow::Owned(addresses)),
        }
    }

    /// The addresses of `peer` that are known already, fresh or not.
    pub(crate) fn known<'a>(&self, peer: &'a PeerAddr) -> Cow<'a, [SocketAddr]> {
        if peer.names().is_empty() {
            return Cow::Borrowed(peer.literals());
        }
        let answers = self.answers();
        let found = peer.names().iter().filter_map(|name| answers.get(name)).flat_map(|(_, found)| found);
        Cow::Owned(peer.literals().iter().chain(found).copied().collect())
    }

    async fn lookup(&self, clock: &Clock, name: &str) -> Result<Vec<SocketAddr>, String> {
        let now = clock.mono();
        if let Some((asked, found)) = self.answers().get(name)
            && now.since(*asked) < FRESH
        {
            return Ok(found.clone());
        }
        let found = tokio::net::lookup_host(name).await.map_err(|error| error.to_string())?;
        let found: Vec<SocketAddr> = found.collect();
        if found.is_empty() {
            return Err("the name has no address".to_owned());
        }
        let mut answers = self.answers();
        if answers.len() >= CAPACITY {
            answers.clear();
        }
        answers.insert(name.into(), (now, found.clone()));
        Ok(found)
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
