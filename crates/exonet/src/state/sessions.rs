//! The sessions that a stored identity has, read while no node runs it.

use std::net::SocketAddr;

use bytes::Bytes;
use exonet_proto::NodeId;

use super::{SecretKey, StateDir, StateError};
use crate::session::SessionId;

/// A session that has begun and has not ended, according to the journal: see [`StateDir::sessions`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptSession {
    /// The other side.
    pub peer: NodeId,
    /// The addresses at which the other side was; the newest is the last.
    pub addresses: Vec<SocketAddr>,
    /// The id of the session.
    pub id: SessionId,
    /// Its name.
    pub name: Bytes,
    /// Whether this identity is the client: it has opened the session, and can attach to it.
    pub is_client: bool,
}

impl StateDir {
    /// Returns the sessions in which at least one side has begun to send and has not finished, according to the
    /// journal: the next life of this identity can continue them. Changes nothing. Empty without a journal, and if the
    /// journal is not trusted.
    ///
    /// # Errors
    /// [`StateError`]: the journal cannot be read.
    pub fn sessions(&self) -> Result<Vec<KeptSession>, StateError> {
        let found = self.recovered()?.unwrap_or_default();
        let own = SecretKey::from_bytes(*self.secret).node_id();
        let session = |(peer, addresses, stream): (NodeId, &[SocketAddr], &Bytes)| {
            let (id, name) = SessionId::of_stream(stream)?;
            let is_client = id.is_of(&own, &peer);
            Some(KeptSession { peer, addresses: addresses.to_vec(), id, name, is_client })
        };
        Ok(found.streams().filter_map(session).collect())
    }
}
