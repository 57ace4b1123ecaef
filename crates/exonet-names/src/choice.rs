//! Opens the name service that a text describes.

use std::sync::Arc;

use exonet::PeerAddr;
use exonet::error::{BuildError, PeerAddrError};
use exonet::naming::Naming;
use exonet::state::SecretKey;

use crate::client::ServerNames;
use crate::file::FileNames;

/// Why a text does not lead to a name service.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The kind of service is unknown, or this program was built without it.
    #[error("{0:?} is no name service: write file:PATH, ID@HOST:PORT, etcd:URL or dns:DOMAIN")]
    Kind(String),
    /// The text is not a peer.
    #[error(transparent)]
    Peer(#[from] PeerAddrError),
    /// The node that would send requests could not be made.
    #[error(transparent)]
    Node(#[from] BuildError),
    /// The service cannot be used. The value says why.
    #[error("{0}")]
    Service(String),
}

/// Opens the name service that `text` describes: `file:PATH`, `ID@HOST:PORT` for a [name server](crate::NameServer),
/// and, with their features, `etcd:URL` and `dns:DOMAIN`. `key` is the key of the node to which the caller will bind
/// names.
///
/// # Errors
/// [`OpenError`].
pub async fn open(text: &str, key: Option<SecretKey>) -> Result<Arc<dyn Naming>, OpenError> {
    if let Some(path) = text.strip_prefix("file:") {
        return Ok(Arc::new(FileNames::new(path)));
    }
    #[cfg(feature = "etcd")]
    if let Some(url) = text.strip_prefix("etcd:") {
        return Ok(Arc::new(crate::EtcdNames::new(url)));
    }
    #[cfg(feature = "dns")]
    if let Some(domain) = text.strip_prefix("dns:") {
        let names = crate::DnsNames::of_system(domain).map_err(|e| OpenError::Service(e.to_string()))?;
        return Ok(Arc::new(names));
    }
    if !text.contains('@') {
        return Err(OpenError::Kind(text.to_owned()));
    }
    let server = ServerNames::new(text.parse::<PeerAddr>()?).await?;
    Ok(match key {
        Some(key) => Arc::new(server.speaking_for(key)),
        None => Arc::new(server),
    })
}
