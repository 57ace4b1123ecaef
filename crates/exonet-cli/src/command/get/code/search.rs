//! Searches for the offer of a number.

use std::collections::BTreeSet;
use std::time::Duration;

use exonet::PeerAddr;
use exonet::error::NamingError;
use exonet::naming::{Name, Naming};

use crate::code::Code;
use crate::code::nearby::Asking;
use crate::command::name_failed;
use crate::failure::Failure;
use crate::settings::Settings;

/// The pause before the name server is asked again, since the offer may come later.
const AGAIN: Duration = Duration::from_secs(2);
/// The most nodes that are tried, because any node on the network may claim to be the sender.
const MOST: usize = 16;

pub(super) struct Search<'a> {
    settings: &'a Settings,
    asking: Option<Asking>,
    names: Option<(&'a dyn Naming, Name)>,
    /// The addresses that were tried.
    seen: BTreeSet<String>,
    asked: Option<tokio::time::Instant>,
    told: bool,
}

impl<'a> Search<'a> {
    pub(super) fn new(settings: &'a Settings, number: u16, no_local: bool) -> Result<Self, Failure> {
        let names = match settings.names() {
            Some(_) => Some((settings.naming()?, Code::name_of(number)?)),
            None => None,
        };
        let asking = match (no_local, Asking::new(number)) {
            (true, _) => None,
            (false, Ok(asking)) => Some(asking),
            (false, Err(error)) if names.is_none() => {
                return Err(Failure::new("cannot search the local network")
                    .because(&error)
                    .hint("give both machines a name server: --names ID@HOST:PORT"));
            }
            (false, Err(_)) => None,
        };
        Ok(Self { settings, asking, names, seen: BTreeSet::new(), asked: None, told: false })
    }

    /// Waits for the next node that may have the offer, without a time limit. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<PeerAddr, Failure> {
        loop {
            let Self { asking, names, asked, .. } = &mut *self;
            let local = async {
                match asking {
                    Some(asking) => asking.next().await,
                    None => std::future::pending().await,
                }
            };
            let far = async {
                match names {
                    Some((naming, name)) => {
                        if let Some(asked) = *asked {
                            tokio::time::sleep_until(asked + AGAIN).await;
                        }
                        let found = naming.look_up(name).await;
                        *asked = Some(tokio::time::Instant::now());
                        found
                    }
                    None => std::future::pending().await,
                }
            };
            let found = tokio::select! {
                peer = local => peer,
                found = far => match found {
                    Ok(Some(found)) => found.record.peer,
                    Ok(None) | Err(NamingError::Unbound(_)) => continue,
                    Err(error) => {
                        self.failed(&error)?;
                        continue;
                    }
                },
            };
            if self.seen.len() < MOST && self.seen.insert(found.to_string()) {
                return Ok(found);
            }
        }
    }

    /// If the name server does not answer, the search continues on the local network.
    fn failed(&mut self, error: &NamingError) -> Result<(), Failure> {
        let Some((_, name)) = &self.names else { return Ok(()) };
        let failure = name_failed(name, error);
        if self.asking.is_none() {
            return Err(failure);
        }
        if !std::mem::replace(&mut self.told, true) {
            self.settings.error(failure.to_string());
        }
        Ok(())
    }
}
