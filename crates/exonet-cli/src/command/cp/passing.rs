//! A temporary identity for one offer: a name server binds a name only for a node that proves its identity, with a
//! key that is stored before the node starts.
//!
//! The key is stored beside the identities until the offer ends. The next command finds the key of a killed offer,
//! and releases its number.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use exonet::naming::Name;
use exonet::state::StateDir;

use crate::failure::Failure;
use crate::identity::Identity;
use crate::peers::services;
use crate::settings::Settings;

/// The directory of these identities, beside the stored ones. No stored identity has a name that begins with a dot.
const DIRECTORY: &str = ".codes";
/// The file with the address of the name service and the bound name.
const NOTE: &str = "note";
/// The age below which an identity may belong to an offer that is about to start.
const YOUNG: Duration = Duration::from_secs(60);
/// The time limit for the name service. If it does not answer, the next offer tries again.
const PATIENCE: Duration = Duration::from_secs(2);

/// The identity of this offer. It is removed when this is dropped.
pub(super) struct Passing(PathBuf);

impl Drop for Passing {
    fn drop(&mut self) {
        // The next offer tries again.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Passing {
    /// Creates an identity, and returns `settings` with it.
    pub(super) async fn new(settings: Settings) -> Result<(Settings, Self), Failure> {
        let any = StateDir::named("default")
            .map_err(|e| Failure::new("there is no place for identities").because(&e))?;
        let root = any.parent().unwrap_or(Path::new(".")).join(DIRECTORY);
        fs::create_dir_all(&root).map_err(|e| Failure::path("make", &root, &e))?;
        tidy(&root, settings.names().unwrap_or_default()).await;
        let mut drawn = [0; 8];
        crate::code::random(&mut drawn)?;
        let path = root.join(crate::text::hex(&drawn));
        let passing = Self(path.clone());
        let identity = Identity::Stored { name: "code".to_owned(), path };
        identity.create()?;
        Ok((settings.passing(identity), passing))
    }

    /// Records the name that is about to be bound, in case this process is killed before it releases the name.
    pub(super) fn note(&self, names: &str, name: &Name) -> Result<(), Failure> {
        let path = self.0.join(NOTE);
        fs::write(&path, format!("{names}\n{name}\n")).map_err(|e| Failure::path("write", &path, &e))
    }
}

/// Releases the names that killed offers have left at this service.
async fn tidy(root: &Path, names: &str) {
    let Ok(entries) = fs::read_dir(root) else { return };
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let age =
            path.metadata().and_then(|about| about.modified()).ok().and_then(|time| time.elapsed().ok());
        let identity = Identity::Stored { name: "code".to_owned(), path: path.clone() };
        if age.is_some_and(|age| age > YOUNG)
            && identity.is_free()
            && let Ok(true) = tokio::time::timeout(PATIENCE, give_up(&identity, &path, names)).await
        {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Releases the name of an identity. Returns whether nothing of it is left.
async fn give_up(identity: &Identity, path: &Path, names: &str) -> bool {
    let Ok(note) = fs::read_to_string(path.join(NOTE)) else { return true };
    let Some((of, name)) = note.trim_end().split_once('\n') else { return true };
    let (true, Ok(name), Ok(key)) = (of == names, name.parse::<Name>(), identity.key()) else {
        return of == names;
    };
    let id = key.node_id();
    let Ok(service) = services(names, Some(key)).await else { return false };
    match service.look_up(&name).await {
        Ok(Some(found)) if found.record.peer.id == id => service.unbind(&name, found.version).await.is_ok(),
        Ok(_) => true,
        Err(_) => false,
    }
}

/// Whether an offer needs such an identity: it must bind a name, and the node has no stored identity.
pub(super) fn is_needed(settings: &Settings) -> bool {
    settings.names().is_some() && !settings.identity.is_stored()
}

/// The addresses of this machine for a name server, one for each interface.
pub(super) fn addresses(local: std::net::SocketAddr) -> Vec<String> {
    let ips = if local.ip().is_unspecified() { crate::code::nearby::addresses() } else { vec![local.ip()] };
    let v4_only = local.is_ipv4();
    let fits = |ip: &std::net::IpAddr| !v4_only || ip.is_ipv4();
    ips.into_iter().filter(fits).map(|ip| std::net::SocketAddr::new(ip, local.port()).to_string()).collect()
}
