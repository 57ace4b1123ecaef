//! Names of services: peers that are found by name, and names that are bound to this node.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError};

use exo::naming::{BoundName, Name, Naming, NamingError};
use exo::state::{SecretKey, StateDir, StateError};
use exo::{Peer, PeerAddr};
use exonet_names::OpenError;

use crate::border::{Out, border, free, given};
use crate::fault::{Fault, exonet_code, exonet_error};
use crate::node::{Inner, exonet_node};
use crate::raw::exonet_str;

/// How a peer is written that is found by its name.
const PREFIX: &str = "name:";
/// How a name service is written that is a file.
const FILE: &str = "file:";
/// The number of names that are looked up only once.
const KNOWN: usize = 1_024;

/// The peers that were found by name. Each is found anew by the node when it does not answer.
#[derive(Default)]
pub(crate) struct Known(Mutex<BTreeMap<Name, PeerAddr>>);

impl Known {
    fn names(&self) -> std::sync::MutexGuard<'_, BTreeMap<Name, PeerAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<NamingError> for Fault {
    fn from(error: NamingError) -> Self {
        let text = match error {
            NamingError::NoService => format!("{error}, by the option `names`"),
            _ => error.to_string(),
        };
        Self::new(exonet_code::EXONET_NAMING, text)
    }
}

impl From<StateError> for Fault {
    fn from(error: StateError) -> Self {
        Self::new(exonet_code::EXONET_NOT_OPENED, error)
    }
}

impl From<OpenError> for Fault {
    fn from(error: OpenError) -> Self {
        let code = match error {
            OpenError::Kind(_) | OpenError::Peer(_) => exonet_code::EXONET_USAGE,
            _ => exonet_code::EXONET_NOT_OPENED,
        };
        Self::new(code, format!("options->names: {error}"))
    }
}

/// The key of the identity in a directory, which is made if it is not there.
fn key(state_dir: &str) -> Result<SecretKey, Fault> {
    let mut fresh = [0; 32];
    getrandom::fill(&mut fresh)
        .map_err(|error| Fault::new(exonet_code::EXONET_SYSTEM, format!("no random numbers: {error}")))?;
    let dir = StateDir::open_or_create(state_dir, || fresh.into())?;
    Ok(SecretKey::from_bytes(**dir.secret()))
}

/// The name service that `text` leads to. A server knows by a key who binds a name; a fresh identity has none to show.
pub(crate) async fn service(text: &str, state_dir: Option<&str>) -> Result<Arc<dyn Naming>, Fault> {
    let key = state_dir.filter(|_| !text.starts_with(FILE)).map(key).transpose()?;
    Ok(exonet_names::open(text, key).await?)
}

impl Inner {
    /// The peer that a text names.
    pub(crate) fn peer(&self, text: &exonet_str) -> Result<Peer, Fault> {
        let text = text.get("peer")?;
        let node = &self.core().node;
        let Some(name) = text.strip_prefix(PREFIX) else { return Ok(node.peer(text.parse::<PeerAddr>()?)) };
        let name = name.parse::<Name>().map_err(Fault::usage)?;
        let known = self.known.names().get(&name).cloned();
        if let Some(address) = known {
            return Ok(node.peer(address));
        }
        let peer = self.block_on(node.named(&name))?;
        let mut names = self.known.names();
        if names.len() >= KNOWN {
            names.clear();
        }
        names.insert(name, peer.addr().clone());
        Ok(peer)
    }
}

/// A name that is bound to a node. It stays bound when it is freed, for the next process of the identity.
pub struct exonet_name {
    inner: Arc<Inner>,
    bound: Mutex<Option<BoundName>>,
}

/// Binds a name to the node at the name service of its options, so that peers find it as name:NAME. A name is 1 to 64 of
/// A-Z a-z 0-9 . _ - and begins with a letter. `addresses` are those at which other nodes reach this one, as HOST:PORT,
/// separated by commas; if it is empty, that of exonet_node_address, for nodes on the same machine. A name that is bound
/// to this node already gets the new addresses. EXONET_NAMING: another node has the name, or the name service does not
/// answer or refuses. A name server takes names only from a node with a state_dir.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_name_bind(
    node: Option<&exonet_node>,
    name: exonet_str,
    addresses: exonet_str,
    bound: Option<&mut MaybeUninit<*mut exonet_name>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::handle(bound, "bound")?;
        let inner = Arc::clone(given(node, "node")?.inner());
        let name = name.get("name")?.parse::<Name>().map_err(Fault::usage)?;
        let node = &inner.core().node;
        let addresses: Vec<String> = match addresses.given("addresses")? {
            Some(text) => text.split(',').map(|address| address.trim().to_owned()).collect(),
            None => node.peer_addr().hints().collect(),
        };
        let bound = inner.block_on(node.bind_name(&name, addresses))?;
        place.give(exonet_name { bound: Mutex::new(Some(bound)), inner });
        Ok(())
    })
}

/// Unbinds the name. EXONET_NAMING: the record of the name has changed since it was bound, or the name service does not
/// answer. The function works once for each handle, even if it fails: exonet_name_bind makes another handle. The handle
/// still has to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_name_unbind(
    name: Option<&exonet_name>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let exonet_name { inner, bound } = given(name, "name")?;
        let bound = bound.lock().unwrap_or_else(PoisonError::into_inner).take();
        let bound = bound.ok_or_else(|| {
            Fault::usage(
                "exonet_name_unbind was called with this handle before: bind the name again to try again",
            )
        })?;
        Ok(inner.block_on(bound.unbind())?)
    })
}

/// Frees a name. It stays bound.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_name_free(name: Option<Box<exonet_name>>) {
    free(name);
}
