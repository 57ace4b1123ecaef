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

/// A name service that a text describes.
enum Place<'a> {
    File(&'a str),
    #[cfg(feature = "etcd")]
    Etcd(&'a str),
    #[cfg(feature = "dns")]
    Dns(&'a str),
    Server(PeerAddr),
}

impl<'a> Place<'a> {
    fn of(text: &'a str) -> Result<Self, OpenError> {
        if let Some(path) = text.strip_prefix("file:") {
            if path.is_empty() {
                return Err(OpenError::Service("a path is missing: write file:PATH".to_owned()));
            }
            return Ok(Self::File(path));
        }
        #[cfg(feature = "etcd")]
        if let Some(url) = text.strip_prefix("etcd:") {
            if !crate::etcd::is_url(url) {
                let what = format!("{url:?} is not a URL of etcd: write etcd:http://HOST:PORT");
                return Err(OpenError::Service(what));
            }
            return Ok(Self::Etcd(url));
        }
        #[cfg(feature = "dns")]
        if let Some(domain) = text.strip_prefix("dns:") {
            return Ok(Self::Dns(domain));
        }
        if !text.contains('@') {
            return Err(OpenError::Kind(text.to_owned()));
        }
        Ok(Self::Server(text.parse()?))
    }
}

/// Checks that `text` describes a name service. [`open`] checks this first. Sends nothing.
///
/// # Errors
/// [`OpenError`].
pub fn check(text: &str) -> Result<(), OpenError> {
    Place::of(text).map(drop)
}

/// Opens the name service that `text` describes: `file:PATH`, `ID@HOST:PORT` for a [name server](crate::NameServer),
/// and, with their features, `etcd:URL` and `dns:DOMAIN`. `key` is the key of the node to which the caller will bind
/// names.
///
/// # Errors
/// [`OpenError`].
pub async fn open(text: &str, key: Option<SecretKey>) -> Result<Arc<dyn Naming>, OpenError> {
    let server = match Place::of(text)? {
        Place::File(path) => return Ok(Arc::new(FileNames::new(path))),
        #[cfg(feature = "etcd")]
        Place::Etcd(url) => return Ok(Arc::new(crate::EtcdNames::new(url))),
        #[cfg(feature = "dns")]
        Place::Dns(domain) => {
            let names = crate::DnsNames::of_system(domain);
            return Ok(Arc::new(names.map_err(|e| OpenError::Service(e.to_string()))?));
        }
        Place::Server(server) => ServerNames::new(server).await?,
    };
    Ok(match key {
        Some(key) => Arc::new(server.speaking_for(key)),
        None => Arc::new(server),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_describes_no_service_is_refused() {
        let wrong = ["", "file:", "nowhere", "dir:/tmp", "someone@127.0.0.1:1"];
        #[cfg(feature = "etcd")]
        let wrong = [&wrong[..], &["etcd:", "etcd:nonsense", "etcd:ftp://host", "etcd:http://"]].concat();
        for text in wrong {
            assert!(check(text).is_err(), "{text}");
        }
        check("file:/some/where").unwrap();
        #[cfg(feature = "etcd")]
        for text in ["etcd:http://127.0.0.1:2379", "etcd:https://etcd.example/"] {
            check(text).unwrap();
        }
    }
}
