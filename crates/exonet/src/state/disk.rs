//! Small files that are either whole or absent.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use exonet_store::laboratory::point;
use zeroize::Zeroizing;

use super::error::StateError;

/// The longest state file in bytes. Reading stops here, in case another file is in its place.
const MAX_LEN: usize = 256;

pub(super) fn exists(path: &Path) -> Result<bool, StateError> {
    // Not `try_exists`, since a dangling link must not be overwritten.
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StateError::io("inspect", path)(error)),
    }
}

/// Reads a state file, if `check` accepts the metadata of the open file.
pub(super) fn read(
    path: &Path,
    check: impl FnOnce(&Metadata) -> Result<(), StateError>,
) -> Result<Zeroizing<Vec<u8>>, StateError> {
    let file = File::open(path).map_err(StateError::io("open", path))?;
    check(&file.metadata().map_err(StateError::io("inspect", path))?)?;
    // Twice the limit, since a vector that grows would leave a copy of a secret in freed memory.
    let mut text = Zeroizing::new(Vec::with_capacity(2 * MAX_LEN));
    let mut limited = file.take(MAX_LEN as u64 + 1);
    limited.read_to_end(&mut text).map_err(StateError::io("read", path))?;
    Ok(text)
}

/// Makes `text` the content of `path`, whether or not the file exists. It is durable and whole when this returns. If
/// the process or the machine dies before, the file has the old content or `text`.
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

/// Makes `text` the content of `path`. It survives the death of the process, but perhaps not that of the machine.
/// What is later written to the returned file follows `text`.
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

/// Makes `text` the content of `path`, in place. Only for files that no process reads yet. The caller forces the file
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

/// Like [`replace`], but fails if `path` exists, even if it has only just been created.
pub(super) fn publish(path: &Path, text: &[u8]) -> Result<(), StateError> {
    let temp = write_temp(path, text)?;
    // This makes a link, since a rename would replace the file.
    let linked = fs::hard_link(&temp, path).map_err(StateError::io("create", path));
    let removed = fs::remove_file(&temp).map_err(StateError::io("remove", &temp));
    linked.and(removed)?;
    sync_dir(path.parent())
}

/// Removes the file that a process left behind when it died in [`replace`] or [`publish`].
pub(super) fn remove_leftover(path: &Path) -> Result<(), StateError> {
    let temp = temp_of(path);
    match fs::remove_file(&temp) {
        // On a read-only file system, the leftover file does no harm.
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ReadOnlyFilesystem) => {
            Err(StateError::io("remove", &temp)(error))
        }
        _ => Ok(()),
    }
}

/// Creates `path` and the missing directories above it, which only the owner may enter, and makes them durable.
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

/// One temporary name per file is enough, since only the holder of the lock writes.
fn temp_of(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// Writes `text` beside `path`, durably, so that only the owner can read it. If it fails, it leaves nothing behind.
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
pub(super) fn create_new(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Makes new names in a directory durable.
pub(crate) fn sync_dir(dir: Option<&Path>) -> Result<(), StateError> {
    let dir = dir.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    point("state.names.before");
    exonet_store::sync_dir(dir).map_err(StateError::io("sync", dir))?;
    point("state.names.after");
    Ok(())
}
