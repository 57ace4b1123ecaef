//! The address of a peer: its id, and hints about its network address.

use core::fmt;
use core::net::SocketAddr;
use core::str::FromStr;

use exonet_proto::{NodeId, ParseNodeIdError};

use crate::naming;

/// A peer in text form: `id`, `id@host:port`, `id@a:1,b:2`, or `id@name:chat`.
///
/// The id decides which node is reached. The addresses are hints, and the node tries all of them. Without hints, the
/// node uses the address at which it last heard from the peer. It looks up host names and the [names](crate::naming)
/// of services when a message is sent, again a minute later, and again while the peer does not answer. If a look-up
/// fails, the node does not repeat it for two seconds. A message waits for a look-up only if the node knows no other
/// address.
///
/// ```
/// use exonet::{NodeId, PeerAddr};
/// let id = NodeId([7; 32]);
/// let peer: PeerAddr = format!("{id}@example.org:4455,192.0.2.7:4455").parse().unwrap();
/// assert_eq!(peer.id, id);
/// assert_eq!(peer.hints().count(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PeerAddr {
    /// The id of the node.
    pub id: NodeId,
    literals: Vec<SocketAddr>,
    names: Vec<Box<str>>,
}

/// Why a text is not a [`PeerAddr`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerAddrError {
    /// The part before `@` is not a node id.
    #[error("{id:?} is not a node id: {source}")]
    Id {
        /// The text before `@`.
        id: String,
        /// Why that text is not a node id.
        source: ParseNodeIdError,
    },
    /// A hint is neither `host:port` nor `name:NAME`.
    #[error(
        "{0:?} is not an address: host:port is wanted, as in example.org:4455, 192.0.2.7:4455 or [::1]:4455, or the name of a service, as in name:chat"
    )]
    Hint(String),
}

impl PeerAddr {
    /// A peer with these hints. Each hint is `host:port`, a socket address, or `name:NAME`.
    ///
    /// # Errors
    /// [`PeerAddrError::Hint`] has the hint that has none of these forms.
    pub fn new<H: AsRef<str>>(id: NodeId, hints: impl IntoIterator<Item = H>) -> Result<Self, PeerAddrError> {
        let mut peer = Self::from(id);
        for hint in hints {
            peer.add(hint.as_ref())?;
        }
        Ok(peer)
    }

    /// The hints as text, literal addresses first.
    pub fn hints(&self) -> impl Iterator<Item = String> + '_ {
        self.literals.iter().map(SocketAddr::to_string).chain(self.names.iter().map(ToString::to_string))
    }

    /// Whether no hint needs a look-up.
    pub(crate) const fn has_no_names(&self) -> bool {
        self.names.is_empty()
    }

    /// The hints that need no look-up.
    pub(crate) fn literals(&self) -> &[SocketAddr] {
        &self.literals
    }

    /// The hints that need a look-up.
    pub(crate) fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// Adds a hint that needs a look-up.
    pub(crate) fn add_name(&mut self, name: String) {
        if !self.names.iter().any(|known| **known == *name) {
            self.names.push(name.into());
        }
    }

    fn add(&mut self, hint: &str) -> Result<(), PeerAddrError> {
        let bad = || PeerAddrError::Hint(hint.to_owned());
        if let Ok(address) = hint.parse::<SocketAddr>() {
            if address.port() == 0 {
                return Err(bad());
            }
            self.literals.push(address);
            return Ok(());
        }
        if naming::of_hint(hint).is_some() {
            self.add_name(hint.to_owned());
            return Ok(());
        }
        let (host, port) = hint.rsplit_once(':').ok_or_else(bad)?;
        let plausible =
            !host.is_empty() && !host.contains([':', '@', '[', ']']) && !host.contains(char::is_whitespace);
        if !plausible || port.parse::<u16>().is_ok_and(|port| port == 0) || port.parse::<u16>().is_err() {
            return Err(bad());
        }
        self.names.push(hint.into());
        Ok(())
    }
}

impl From<NodeId> for PeerAddr {
    fn from(id: NodeId) -> Self {
        Self { id, literals: Vec::new(), names: Vec::new() }
    }
}

impl From<&NodeId> for PeerAddr {
    fn from(id: &NodeId) -> Self {
        Self::from(*id)
    }
}

impl From<&Self> for PeerAddr {
    fn from(peer: &Self) -> Self {
        peer.clone()
    }
}

impl From<(NodeId, SocketAddr)> for PeerAddr {
    fn from((id, address): (NodeId, SocketAddr)) -> Self {
        Self { id, literals: vec![address], names: Vec::new() }
    }
}

impl FromStr for PeerAddr {
    type Err = PeerAddrError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (id, hints) = match text.split_once('@') {
            Some((id, hints)) => (id, Some(hints)),
            None => (text, None),
        };
        let id = id.parse().map_err(|source| PeerAddrError::Id { id: id.to_owned(), source })?;
        Self::new(id, hints.into_iter().flat_map(|hints| hints.split(',')))
    }
}

impl fmt::Display for PeerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.id.to_string();
        for (i, hint) in self.hints().enumerate() {
            text.push(if i == 0 { '@' } else { ',' });
            text.push_str(&hint);
        }
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips() {
        let id = NodeId([9; 32]);
        for hints in [
            "",
            "@127.0.0.1:1",
            "@[::1]:65535,host.example:2",
            "@a:1,b:2",
            "@name:chat",
            "@name:4455,name:chat",
        ] {
            let text = format!("{id}{hints}");
            assert_eq!(text.parse::<PeerAddr>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let id = NodeId([9; 32]);
        for hint in
            ["", "host", "host:", ":1", "host:0", "host:65536", "host:http", "a b:1", "127.0.0.1:0", "::1:x"]
        {
            let error = format!("{id}@{hint}").parse::<PeerAddr>().unwrap_err();
            assert_eq!(error, PeerAddrError::Hint(hint.to_owned()));
        }
        let error = "who@127.0.0.1:1".parse::<PeerAddr>().unwrap_err();
        assert!(error.to_string().contains("\"who\""), "{error}");
    }
}
