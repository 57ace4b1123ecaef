//! A message that is being stored in a file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::NamedTempFile;
use tokio::fs::File;

use super::name::OURS;
use super::room::{BLOCK, Growing, Space};
use super::tree::{is_special, sync_directory};
use super::{Refusal, SafePath};

/// The suffix of the name of an unfinished file.
const SUFFIX: &str = ".part";

/// A message that is being stored. If it is dropped unfinished, its file is removed.
#[derive(Debug)]
pub(crate) struct Landing {
    temporary: NamedTempFile,
    directory: PathBuf,
    name: SafePath,
    overwrite: bool,
    space: Arc<Space>,
}

/// Creates an unfinished file under an unused name, without following a link.
pub(super) fn temporary(directory: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(OURS).suffix(SUFFIX);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The usual mode of a new file, subject to the umask of the process.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(directory)
}

/// Whether this is the name of an unfinished file.
pub(super) fn is_unfinished(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(OURS) && name.ends_with(SUFFIX))
}

impl Landing {
    pub(super) fn begin(
        directory: &Path,
        name: SafePath,
        size: Option<u64>,
        overwrite: bool,
        space: Arc<Space>,
    ) -> Result<Self, Refusal> {
        // The end checks again that nothing is there, unless this may overwrite. The early check avoids sending a file in
        // vain.
        match fs::symlink_metadata(directory.join(name.as_str())) {
            Ok(about) if is_special(about.file_type()) => return Err(Refusal::Special(name)),
            Ok(about) if about.is_dir() => return Err(Refusal::Directory(name)),
            Ok(about) if !(overwrite || about.is_file() && size.is_none_or(|size| about.len() == size)) => {
                return Err(Refusal::Taken(name));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Refusal::Disk(error)),
        }
        Ok(Self {
            temporary: temporary(directory).map_err(Refusal::Disk)?,
            directory: directory.to_owned(),
            name,
            overwrite,
            space,
        })
    }

    /// The writer of the content.
    pub(crate) fn writer(&self) -> Result<Growing, Refusal> {
        let file = self.temporary.as_file().try_clone().map_err(Refusal::Disk)?;
        Ok(Growing::new(File::from_std(file), Arc::clone(&self.space)))
    }

    /// The final name.
    pub(crate) fn name(&self) -> &SafePath {
        &self.name
    }

    /// Moves the complete message to its final name. On return it is on the disk. `hash` and `size` are those of the
    /// content: an existing file with the same name and content is this message, delivered a second time.
    pub(crate) async fn finish(self, hash: blake3::Hash, size: u64) -> Result<(), Refusal> {
        let blocking = tokio::task::spawn_blocking(move || self.finish_blocking(hash, size));
        let gone = |error: tokio::task::JoinError| Refusal::Disk(io::Error::other(error));
        blocking.await.map_err(gone)?
    }

    fn finish_blocking(self, hash: blake3::Hash, size: u64) -> Result<(), Refusal> {
        let target = self.directory.join(self.name.as_str());
        self.temporary.as_file().sync_all().map_err(Refusal::Disk)?;
        self.space.round_up()?;
        let mut replaced = 0;
        let renamed = if self.overwrite {
            let old = fs::symlink_metadata(&target).ok().filter(fs::Metadata::is_file);
            replaced = old.map_or(0, |old| old.len().max(BLOCK));
            self.temporary.persist(&target)
        } else {
            self.temporary.persist_noclobber(&target)
        };
        match renamed {
            Ok(_) => {
                self.space.keep(replaced);
                sync_directory(&self.directory).map_err(Refusal::Disk)
            }
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                if has_content(&target, size, hash).map_err(Refusal::Disk)? {
                    Ok(())
                } else {
                    Err(Refusal::Taken(self.name))
                }
            }
            Err(error) => Err(Refusal::Disk(error.error)),
        }
    }
}

/// Whether the file at `path` has `size` bytes with this hash.
fn has_content(path: &Path, size: u64, hash: blake3::Hash) -> io::Result<bool> {
    let about = fs::symlink_metadata(path)?;
    if !about.is_file() || about.len() != size {
        return Ok(false);
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(fs::File::open(path)?)?;
    Ok(hasher.finalize() == hash)
}
