//! Peers that are written `name:NAME`.
//!
//! The peer of a name is not known while the command line is parsed. So the command line is parsed twice: the first
//! time, its names are noted; then they are looked up; the second time, each name is the peer that was found.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exonet::naming::{Name, Naming};
use exonet::state::SecretKey;
use exonet::{NodeId, PeerAddr};
use exonet_names::OpenError;

use super::PeerError;
use crate::failure::Failure;

/// The names on the command line, and the peers that were found for them.
static NAMED: Mutex<BTreeMap<Name, Option<PeerAddr>>> = Mutex::new(BTreeMap::new());

fn named() -> MutexGuard<'static, BTreeMap<Name, Option<PeerAddr>>> {
    NAMED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A name service.
#[derive(Clone)]
pub(crate) struct Names(pub(crate) Arc<dyn Naming>);

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Names(..)")
    }
}

/// The peer called `text`: the peer that was found, or a placeholder before the lookup.
pub(super) fn parse(text: &str) -> Result<PeerAddr, PeerError> {
    let name: Name = text.parse().map_err(|e: exonet::error::NameError| PeerError::Address(e.to_string()))?;
    let found = named().entry(name).or_default().clone();
    Ok(found.unwrap_or_else(|| NodeId([0; 32]).into()))
}

/// Names on the command line that were not looked up yet.
pub(crate) struct Wanted(Vec<Name>);

impl Wanted {
    /// None: there is no name to look up, so the command line is final.
    pub(crate) fn of_command_line() -> Option<Self> {
        let names: Vec<_> = named().keys().cloned().collect();
        (!names.is_empty()).then_some(Self(names))
    }

    /// Looks the names up. The command line must be parsed again after that.
    pub(crate) async fn look_up(self, names: Option<&Names>) -> Result<(), Failure> {
        for name in self.0 {
            let Some(Names(service)) = names else {
                return Err(Failure::new(format!(
                    "cannot look up the name {:?}: no name service is given",
                    name.as_str()
                ))
                .hint("give one: --names ID@HOST:PORT, or EXON_NAMES; see `exon names --help`"));
            };
            let failed = |error| crate::command::name_failed(&name, &error);
            let found = service.look_up(&name).await.map_err(failed)?;
            let found = found.ok_or_else(|| failed(exonet::error::NamingError::Unbound(name.clone())))?;
            let peer = found.record.peer.with_name(&name);
            named().insert(name, Some(peer));
        }
        Ok(())
    }
}

/// Fails unless `text` describes a name service. Does not ask the service.
pub(crate) fn check_service(text: &str) -> Result<(), Failure> {
    exonet_names::check(text).map_err(|error| unusable(text, &error))
}

fn unusable(text: &str, error: &OpenError) -> Failure {
    Failure::new(format!("cannot use the name service {text:?}")).because(error)
}

/// Opens the name service at `text`, with requests from the node of `key`, if that is given.
pub(crate) async fn services(text: &str, key: Option<SecretKey>) -> Result<Arc<dyn Naming>, Failure> {
    let opened = exonet_names::open(text, key).await;
    opened.map_err(|error| unusable(text, &error))
}
