//! The file that holds the node's secret.

use std::fs::Metadata;
use std::path::Path;

use blake2::{Blake2s256, Digest};
use zeroize::Zeroizing;

use super::error::StateError;
use super::{disk, line};

pub(super) const FILE: &str = "key";
const LABEL: &str = "exonet-secret-1";

/// Writes a new key file. If one exists, it fails and changes nothing.
pub(super) fn create(path: &Path, secret: &[u8; 32]) -> Result<(), StateError> {
    disk::publish(path, &line::encode(LABEL, secret))
}

pub(super) fn read(path: &Path) -> Result<Zeroizing<[u8; 32]>, StateError> {
    let text = disk::read(path, |metadata| check_private(path, metadata))?;
    let corrupt = |what| StateError::CorruptKey { path: path.into(), what };
    line::decode(LABEL, &text).map_err(|error| error.of(path, corrupt))
}

/// A hash of 32 bits that distinguishes keys and reveals nothing about them.
pub(super) fn fingerprint(secret: &[u8; 32]) -> [u8; 4] {
    let digest = Blake2s256::new().chain_update(b"exonet key fingerprint").chain_update(secret).finalize();
    let [a, b, c, d, ..] = <[u8; 32]>::from(digest);
    [a, b, c, d]
}

/// A tag that nobody can guess without the secret, and that does not reveal the secret.
pub(super) fn journal_tag(secret: &[u8; 32]) -> [u8; 32] {
    Blake2s256::new().chain_update(b"exonet journal tag").chain_update(secret).finalize().into()
}

#[cfg(unix)]
fn check_private(path: &Path, metadata: &Metadata) -> Result<(), StateError> {
    use std::os::unix::fs::PermissionsExt;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 == 0 { Ok(()) } else { Err(StateError::Exposed { path: path.into(), mode }) }
}

/// On other systems the inherited access list of the directory decides; the user's own profile keeps it private.
#[cfg(not(unix))]
fn check_private(_: &Path, _: &Metadata) -> Result<(), StateError> {
    Ok(())
}
