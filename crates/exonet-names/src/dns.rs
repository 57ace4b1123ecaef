//! Names looked up in DNS.
//!
//! ```text
//! _exonet._udp.chat.example.org.  SRV  0 0 3966 host.example.org.
//! _exonet._udp.chat.example.org.  TXT  "id=NODE-ID"
//! ```

use std::net::SocketAddr;

use exonet::naming::{Answer, Expect, Found, Name, Naming, NamingError, Record, Term, Version};
use exonet::{NodeId, PeerAddr};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, RecordType};
use tokio::time::Duration;

use crate::watch;

/// The labels before the domain, below which the names of services are.
const SERVICE: &str = "_exonet._udp";
/// How often a watcher looks a name up. Records usually live for a minute.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Names below a domain: the name `chat` of `example.org` is `_exonet._udp.chat.example.org`. This service answers
/// look-ups only.
#[derive(Clone)]
pub struct DnsNames {
    domain: String,
    resolver: TokioResolver,
}

impl DnsNames {
    /// Uses the names below `domain`, and the DNS servers that the system is configured for.
    ///
    /// # Errors
    /// The system is configured for no DNS server.
    pub fn of_system(domain: &str) -> Result<Self, NamingError> {
        let builder = TokioResolver::builder_tokio().map_err(|e| unreachable(&e))?;
        Ok(Self { domain: domain.to_owned(), resolver: builder.build().map_err(|e| unreachable(&e))? })
    }

    /// Uses the names below `domain`, and the DNS server `server`.
    ///
    /// # Errors
    /// The resolver cannot be made.
    pub fn at(domain: &str, server: SocketAddr) -> Result<Self, NamingError> {
        let mut one = NameServerConfig::udp(server.ip());
        for connection in &mut one.connections {
            connection.port = server.port();
        }
        let config = ResolverConfig::from_parts(None, vec![], vec![one]);
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        Ok(Self { domain: domain.to_owned(), resolver: builder.build().map_err(|e| unreachable(&e))? })
    }

    async fn ask(&self, name: &Name, kind: RecordType) -> Result<Vec<RData>, NamingError> {
        let full = format!("{SERVICE}.{name}.{}.", self.domain.trim_end_matches('.'));
        match self.resolver.lookup(full, kind).await {
            Ok(found) => Ok(found.answers().iter().map(|record| record.data.clone()).collect()),
            Err(error) if error.is_no_records_found() => Ok(Vec::new()),
            Err(error) => Err(unreachable(&error)),
        }
    }
}

impl std::fmt::Debug for DnsNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DnsNames").field("domain", &self.domain).finish_non_exhaustive()
    }
}

impl Naming for DnsNames {
    fn look_up<'a>(&'a self, name: &'a Name) -> Answer<'a, Option<Found>> {
        Box::pin(async move {
            let texts = self.ask(name, RecordType::TXT).await?;
            let Some(id) = texts.iter().find_map(id_of) else { return Ok(None) };
            let id: NodeId = id.parse().map_err(|e| NamingError::Damaged(format!("{name}: {e}")))?;
            let mut places: Vec<_> =
                self.ask(name, RecordType::SRV).await?.iter().filter_map(place_of).collect();
            places.sort();
            let hints = places.into_iter().map(|(_, hint)| hint);
            let peer = PeerAddr::new(id, hints).map_err(|e| NamingError::Damaged(format!("{name}: {e}")))?;
            Ok(Some(Found { version: version_of(&peer), record: Record { peer, generation: 0 } }))
        })
    }

    fn watch<'a>(&'a self, name: &'a Name, since: Option<Version>) -> Answer<'a, Option<Found>> {
        Box::pin(watch::by_look_ups(self, name, since, LOOK_EVERY))
    }

    fn list(&self) -> Answer<'_, Vec<(Name, Found)>> {
        Box::pin(async { Err(NamingError::NoAuthority("DNS")) })
    }

    fn bind<'a>(&'a self, _: &'a Name, _: &'a Record, _: Expect) -> Answer<'a, Version> {
        Box::pin(async { Err(NamingError::NoAuthority("DNS")) })
    }

    fn unbind<'a>(&'a self, _: &'a Name, _: Version) -> Answer<'a, ()> {
        Box::pin(async { Err(NamingError::NoAuthority("DNS")) })
    }

    fn claim<'a>(&'a self, _: &'a NodeId, _: Term) -> Answer<'a, ()> {
        Box::pin(async { Err(NamingError::NoAuthority("DNS")) })
    }

    fn is_authority(&self) -> bool {
        false
    }
}

/// The id in a TXT record.
fn id_of(data: &RData) -> Option<String> {
    let RData::TXT(text) = data else { return None };
    let text: Vec<u8> = text.txt_data.iter().flat_map(|part| part.iter().copied()).collect();
    String::from_utf8(text).ok()?.trim().strip_prefix("id=").map(str::to_owned)
}

/// The address in an SRV record, with its priority. A lower number comes first.
fn place_of(data: &RData) -> Option<(u16, String)> {
    let RData::SRV(place) = data else { return None };
    let host = place.target.to_utf8();
    Some((place.priority, format!("{}:{}", host.trim_end_matches('.'), place.port)))
}

/// DNS does not count changes, so a hash of the record serves as its version.
fn version_of(peer: &PeerAddr) -> Version {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    peer.hash(&mut hasher);
    Version(hasher.finish())
}

fn unreachable(error: &dyn std::fmt::Display) -> NamingError {
    NamingError::Unreachable(format!("DNS: {error}"))
}
