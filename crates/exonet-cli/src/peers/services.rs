//! Peers that are written `name:NAME`.
//!
//! What a name stands for is not known while the command line is read. So it is read twice: the first time, the names that stand in
//! it are noted; they are looked up; and the second time, each is the peer that was found.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exonet::naming::{Name, Naming};
use exonet::state::SecretKey;
use exonet::{NodeId, PeerAddr};

use super::PeerError;
use crate::failure::Failure;

/// The names on the command line, and what was found behind them.
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

/// The peer called `text`: what was found, or what only stands in its place until it is.
pub(super) fn parse(text: &str) -> Result<PeerAddr, PeerError> {
    let name: Name = text.parse().map_err(|e: exonet::error::NameError| PeerError::Address(e.to_string()))?;
    let found = named().entry(name).or_default().clone();
    Ok(found.unwrap_or_else(|| NodeId([0; 32]).into()))
}

/// Names that stand on the command line and were not looked up.
pub(crate) struct Wanted(Vec<Name>);

impl Wanted {
    /// None: nothing is to be looked up, and the command line means what it says.
    pub(crate) fn of_command_line() -> Option<Self> {
        let names: Vec<_> = named().keys().cloned().collect();
        (!names.is_empty()).then_some(Self(names))
    }

    /// Looks them up. The command line is to be read again after that.
    pub(crate) async fn look_up(self, names: Option<&Names>) -> Result<(), Failure> {
        for name in self.0 {
            let Some(Names(service)) = names else {
                return Err(Failure::new(format!(
                    "cannot look up the name {:?}: no name service is given",
                    name.as_str()
                ))
                .hint("say where names are: --names ID@HOST:PORT, or EXON_NAMES; see `exon names --help`"));
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

/// The name service that `text` leads to, asked by the node of `key`, if that is given.
pub(crate) async fn services(text: &str, key: Option<SecretKey>) -> Result<Arc<dyn Naming>, Failure> {
    let opened = exonet_names::open(text, key).await;
    opened.map_err(|error| Failure::new(format!("cannot use the name service {text:?}")).because(&error))
}
