//! Small files that are either whole or absent.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use exonet_store::laboratory::point;
use zeroize::Zeroizing;

use super::error::StateError;

/// The longest state file. Reading stops here if another file was put in its place.
const MAX_LEN: usize = 256;

pub(super) fn exists(path: &Path) -> Result<bool, StateError> {
    // Not `try_exists`: a dangling link must not be overwritten.
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StateError::io("inspect", path)(error)),
    }
}

/// Reads a state file, after `check` has accepted the metadata of the opened file.
pub(super) fn read(
    path: &Path,
    check: impl FnOnce(&Metadata) -> Result<(), StateError>,
) -> Result<Zeroizing<Vec<u8>>, StateError> {
    let file = File::open(path).map_err(StateError::io("open", path))?;
    check(&file.metadata().map_err(StateError::io("inspect", path))?)?;
    // Twice the limit: a growing vector would leave a copy of a secret behind in freed memory.
    let mut text = Zeroizing::new(Vec::with_capacity(2 * MAX_LEN));
    let mut limited = file.take(MAX_LEN as u64 + 1);
    limited.read_to_end(&mut text).map_err(StateError::io("read", path))?;
    Ok(text)
}

/// Makes `text` the content of `path`, whether or not the file exists. On return it is durable and whole. If the
/// process or the machine dies before, the file has the old content or `text`.
pub(crate) fn replace(path: &Path, text: &[u8]) -> Result<(), StateError> {
    let temp = write_temp(path, text)?;
    point("state.rename.before");
    fs::rename(&temp, path).map_err(|error| {
        let _ = fs::remove_file(&temp);
        StateError::io("replace", path)(error)
    })?;
    point("state.rename.after");
    sync_dir(path.parent())
}

/// Makes `text` the content of `path`. The death of the process does not undo this; that of the machine may. Later
/// writes to the returned file follow `text`.
pub(super) fn put(path: &Path, text: &[u8]) -> std::io::Result<File> {
    let temp = temp_of(path);
    match fs::remove_file(&temp) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = create_new(&temp)?;
    file.write_all(text)?;
    fs::rename(&temp, path)?;
    Ok(file)
}

/// Makes `text` the content of `path`, in place. Only for files that no process reads yet; the caller forces the file
/// and its name.
pub(super) fn put_plain(path: &Path, text: &[u8]) -> Result<File, StateError> {
    remove_leftover(path)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(StateError::io("remove", path)(error));
        }
        _ => {}
    }
    let mut file = create_new(path).map_err(StateError::io("create", path))?;
    file.write_all(text).map_err(StateError::io("write", path))?;
    Ok(file)
}

/// Like [`replace`], but fails if `path` exists, even if it has only just come into being.
pub(super) fn publish(path: &Path, text: &[u8]) -> Result<(), StateError> {
    let temp = write_temp(path, text)?;
    // A link, because a rename replaces.
    let linked = fs::hard_link(&temp, path).map_err(StateError::io("create", path));
    let removed = fs::remove_file(&temp).map_err(StateError::io("remove", &temp));
    linked.and(removed)?;
    sync_dir(path.parent())
}

/// Removes the file that a process left behind if it died in [`replace`] or [`publish`].
pub(super) fn remove_leftover(path: &Path) -> Result<(), StateError> {
    let temp = temp_of(path);
    match fs::remove_file(&temp) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(StateError::io("remove", &temp)(error)),
        _ => Ok(()),
    }
}

/// Creates `path` and the missing directories above it, closed to others, and makes them durable.
pub(crate) fn create_dirs(path: &Path) -> Result<(), StateError> {
    let mut created = Vec::new();
    for dir in path.ancestors() {
        if dir.as_os_str().is_empty() || exists(dir)? {
            break;
        }
        created.push(dir);
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(StateError::io("create", path))?;
    created.into_iter().try_for_each(|dir| sync_dir(dir.parent()))
}

/// There is one temporary name per file, since only the holder of the lock writes.
fn temp_of(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// Writes `text`, durable and readable by the owner only, beside `path`. Leaves nothing behind on failure.
fn write_temp(path: &Path, text: &[u8]) -> Result<PathBuf, StateError> {
    remove_leftover(path)?;
    point("state.write.before");
    let temp = temp_of(path);
    let mut file = create_new(&temp).map_err(StateError::io("create", &temp))?;
    file.write_all(text).and_then(|()| file.sync_all()).map_err(|error| {
        let _ = fs::remove_file(&temp);
        StateError::io("write", path)(error)
    })?;
    point("state.write.after");
    Ok(temp)
}

/// Creates a file that only the owner may read.
fn create_new(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// A new name is durable only once its directory is.
#[cfg(unix)]
pub(crate) fn sync_dir(dir: Option<&Path>) -> Result<(), StateError> {
    let dir = match dir {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    point("state.names.before");
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(StateError::io("sync", dir))?;
    point("state.names.after");
    Ok(())
}

/// On other systems a directory cannot be opened to be synced; the file system's own journal orders the rename.
#[cfg(not(unix))]
pub(crate) fn sync_dir(_: Option<&Path>) -> Result<(), StateError> {
    Ok(())
}
