//! The secret with which copies can be resumed. It belongs to this user on this machine, and differs for each
//! receiver.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use exonet::NodeId;
use exonet::state::StateDir;
use zeroize::Zeroizing;

use crate::copy::Hex32;
use crate::failure::Failure;
use crate::identity::fresh_secret;

/// The key of this run, for copies that cannot be resumed later.
pub(super) fn of_this_run() -> Result<Hex32, Failure> {
    Ok(Hex32(*fresh_secret()?))
}

/// The key for copies to `peer`. If no key can be stored, it is one that only this run knows.
pub(super) fn lasting(peer: &NodeId) -> Result<Hex32, Failure> {
    let secret = match place().map(|path| kept(&path)) {
        Some(Ok(secret)) => secret,
        Some(Err(error)) => {
            tracing::warn!("a later command cannot continue the copies: there is no key for that: {error}");
            return of_this_run();
        }
        None => return of_this_run(),
    };
    Ok(Hex32(*blake3::keyed_hash(&secret, &peer.0).as_bytes()))
}

/// The key for copies of this content to a receiver with a code: such a receiver is a new node each time.
pub(super) fn of_content(root: &Hex32) -> Result<Hex32, Failure> {
    lasting(&NodeId(blake3::derive_key("exonet codes 1: the key of a copy", &root.0)))
}

/// The path of the secret, beside the identities.
fn place() -> Option<PathBuf> {
    Some(StateDir::named("default").ok()?.parent()?.join("copy.key"))
}

/// Reads the secret, and creates it first if there is none.
fn kept(path: &Path) -> io::Result<Zeroizing<[u8; 32]>> {
    match fs::read(path).map(Zeroizing::new) {
        Ok(bytes) => {
            let secret = <[u8; 32]>::try_from(bytes.as_slice());
            let damaged = |_| io::Error::other(format!("{} is damaged: remove it", path.display()));
            return secret.map(Zeroizing::new).map_err(damaged);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let secret = fresh_secret().map_err(|failure| io::Error::other(failure.to_string()))?;
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    // The file is created atomically, since another command may read it at any moment.
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(secret.as_slice())?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(secret),
        // Another command has created the file first.
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => kept(path),
        Err(error) => Err(error.error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_stays_the_same_and_is_private() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a/copy.key");
        let secret = kept(&path).unwrap();
        assert_eq!(kept(&path).unwrap(), secret);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0);
        }
        fs::write(&path, b"short").unwrap();
        assert!(kept(&path).unwrap_err().to_string().contains("remove it"));
    }
}
