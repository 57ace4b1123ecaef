//! One file on its way to its name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::NamedTempFile;
use tokio::fs::File;

use super::room::{Growing, Space};
use super::{Refusal, SafeName};

/// How the name of an unfinished file begins and ends.
const PREFIX: &str = ".exon-";
const SUFFIX: &str = ".part";

/// A file that is growing. Dropped unfinished, nothing of it stays.
#[derive(Debug)]
pub(crate) struct Landing {
    temporary: NamedTempFile,
    directory: PathBuf,
    name: SafeName,
    size: u64,
    overwrite: bool,
    space: Arc<Space>,
}

/// How a file came to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landed {
    /// By this.
    Stored,
    /// By an earlier copy of the same content.
    AlreadyThere,
}

/// An unfinished file: of a name that was free, and not through a link.
pub(super) fn temporary(directory: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // As any program would create it: what the process's mask leaves.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(directory)
}

/// Whether this is the name of an unfinished file.
pub(super) fn is_unfinished(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX))
}

impl Landing {
    pub(super) fn begin(
        directory: &Path,
        name: SafeName,
        size: u64,
        overwrite: bool,
        space: Arc<Space>,
    ) -> Result<Self, Refusal> {
        // Asked again at the end; here it saves sending a file in vain.
        match fs::symlink_metadata(directory.join(name.as_str())) {
            Ok(about) if !(overwrite || about.is_file() && about.len() == size) => {
                return Err(Refusal::Taken(name));
            }
            Ok(about) if about.is_dir() => return Err(Refusal::Taken(name)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Refusal::Disk(error)),
        }
        Ok(Self {
            temporary: temporary(directory).map_err(Refusal::Disk)?,
            directory: directory.to_owned(),
            name,
            size,
            overwrite,
            space,
        })
    }

    /// Where the content goes.
    pub(crate) fn writer(&self) -> Result<Growing, Refusal> {
        let file = self.temporary.as_file().try_clone().map_err(Refusal::Disk)?;
        Ok(Growing::new(File::from_std(file), Arc::clone(&self.space)))
    }

    /// The name it will have.
    pub(crate) fn name(&self) -> &SafeName {
        &self.name
    }

    /// Gives the complete file its name; on return it is on the disk. `hash` is that of the content.
    pub(crate) async fn finish(self, hash: blake3::Hash) -> Result<Landed, Refusal> {
        let blocking = tokio::task::spawn_blocking(move || self.finish_blocking(hash));
        let gone = |error: tokio::task::JoinError| Refusal::Disk(io::Error::other(error));
        blocking.await.map_err(gone)?
    }

    fn finish_blocking(self, hash: blake3::Hash) -> Result<Landed, Refusal> {
        let target = self.directory.join(self.name.as_str());
        self.temporary.as_file().sync_all().map_err(Refusal::Disk)?;
        let mut replaced = 0;
        let renamed = if self.overwrite {
            let old = fs::symlink_metadata(&target).ok().filter(fs::Metadata::is_file);
            replaced = old.map_or(0, |old| old.len());
            self.temporary.persist(&target)
        } else {
            self.temporary.persist_noclobber(&target)
        };
        match renamed {
            Ok(_) => {
                self.space.keep(replaced);
                sync_directory(&self.directory).map_err(Refusal::Disk)?;
                Ok(Landed::Stored)
            }
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                if has_content(&target, self.size, hash).map_err(Refusal::Disk)? {
                    Ok(Landed::AlreadyThere)
                } else {
                    Err(Refusal::Taken(self.name))
                }
            }
            Err(error) => Err(Refusal::Disk(error.error)),
        }
    }
}

/// Whether the file at `path` is `size` bytes of this hash.
fn has_content(path: &Path, size: u64, hash: blake3::Hash) -> io::Result<bool> {
    let about = fs::symlink_metadata(path)?;
    if !about.is_file() || about.len() != size {
        return Ok(false);
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(fs::File::open(path)?)?;
    Ok(hasher.finalize() == hash)
}

/// A new name is on the disk only with its directory.
fn sync_directory(directory: &Path) -> io::Result<()> {
    if cfg!(unix) { fs::File::open(directory)?.sync_all() } else { Ok(()) }
}
