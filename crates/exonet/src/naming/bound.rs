//! Peers that a node finds by name, and names that are bound to it.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use tokio::time::sleep;

use super::{Expect, Found, Name, Naming, NamingError, PREFIX, Record, Version};
use crate::node::Node;
use crate::peer::Peer;
use crate::peer_addr::PeerAddr;
use crate::shared::Shared;

/// A name that is bound to this node. If this value is dropped, the name stays bound, for the next life of the
/// identity: see [`Self::unbind`].
#[must_use = "it is needed to give the name up"]
pub struct BoundName {
    service: Arc<dyn Naming>,
    name: Name,
    version: Version,
}

impl Node {
    /// Returns the peer to which `name` is bound now. The node looks the name up once in this method, and again
    /// whenever the peer does not answer.
    ///
    /// # Errors
    /// [`NamingError::Unbound`], [`NamingError::OtherNode`], or an error of the service.
    pub async fn named(&self, name: &Name) -> Result<Peer, NamingError> {
        let shared = self.shared();
        let service = shared.naming.as_ref().ok_or(NamingError::NoService)?;
        let found = service.look_up(name).await?.ok_or_else(|| NamingError::Unbound(name.clone()))?;
        let peer = found.record.peer;
        shared.pins.check(name, peer.id).await?;
        Ok(self.peer(peer.with_name(name)))
    }

    /// Binds `name` to this node at `addresses`, which other nodes must be able to reach. If the name is already
    /// bound to this node, this replaces its record. If the service forgets addresses that no node renews
    /// ([`Naming::lease`]), the node renews these addresses until it ends.
    ///
    /// # Errors
    /// [`NamingError::Taken`]: another node has the name. [`NamingError::Superseded`]: the identity has moved away
    /// from this node. Or an error of the service.
    pub async fn bind_name<H: AsRef<str>>(
        &self,
        name: &Name,
        addresses: impl IntoIterator<Item = H>,
    ) -> Result<BoundName, NamingError> {
        let shared = self.shared();
        let service = Arc::clone(shared.naming.as_ref().ok_or(NamingError::NoService)?);
        let peer = PeerAddr::new(self.id(), addresses)
            .map_err(|error| NamingError::Denied(format!("an address is wrong: {error}")))?;
        let record = Record { peer, generation: shared.generation };
        loop {
            let expect = match service.look_up(name).await? {
                None => Expect::Unbound,
                Some(Found { record, version }) if record.peer.id == self.id() => {
                    if record.generation > shared.generation {
                        return Err(NamingError::Superseded { generation: record.generation });
                    }
                    Expect::Version(version)
                }
                Some(found) => {
                    return Err(NamingError::Taken { name: name.clone(), owner: found.record.peer.id });
                }
            };
            match service.bind(name, &record, expect).await {
                Ok(version) => {
                    if let Some(lease) = service.lease() {
                        match service.renew(name, &record, version).await {
                            Ok(()) => {}
                            Err(NamingError::Changed(_)) => continue,
                            Err(error) => return Err(error),
                        }
                        let kept =
                            Kept { service: Arc::clone(&service), name: name.clone(), record, version };
                        tokio::spawn(kept.renew(Arc::clone(shared), lease / 3));
                    }
                    return Ok(BoundName { service, name: name.clone(), version });
                }
                // Another bind of the name was faster. The next look-up finds its record.
                Err(NamingError::Changed(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A record whose addresses the service forgets unless the node renews them.
struct Kept {
    service: Arc<dyn Naming>,
    name: Name,
    record: Record,
    version: Version,
}

impl Kept {
    /// Renews the addresses until the node ends, the name has another record, or the identity is claimed elsewhere.
    async fn renew(self, node: Arc<Shared>, every: Duration) {
        loop {
            tokio::select! {
                _ = node.ended.acquire() => return,
                () = sleep(every) => {}
            }
            match self.service.renew(&self.name, &self.record, self.version).await {
                Ok(()) => {}
                Err(NamingError::Changed(_) | NamingError::Superseded { .. }) => return,
                Err(error) => {
                    tracing::debug!(name = %self.name, %error, "the addresses of a name are not renewed");
                }
            }
        }
    }
}

impl PeerAddr {
    /// Adds `name` as a hint: the node also looks up that name.
    #[must_use]
    pub fn with_name(mut self, name: &Name) -> Self {
        self.add_name(format!("{PREFIX}{name}"));
        self
    }
}

impl BoundName {
    /// The name.
    pub const fn name(&self) -> &Name {
        &self.name
    }

    /// Unbinds the name, unless its record has changed meanwhile.
    ///
    /// # Errors
    /// [`NamingError::Changed`], or an error of the service.
    pub async fn unbind(self) -> Result<(), NamingError> {
        self.service.unbind(&self.name, self.version).await
    }
}

impl fmt::Debug for BoundName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundName").field("name", &self.name).finish_non_exhaustive()
    }
}
