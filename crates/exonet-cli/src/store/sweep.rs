//! Removes abandoned unfinished files.

use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::{Duration, SystemTime};

use super::name::OURS;
use super::room::BLOCK;
use super::{Store, landing};

impl Store {
    /// Removes unfinished messages of killed processes once they have not grown for a while. Unfinished messages of
    /// this process are removed with their deliveries.
    pub(crate) fn sweep(&self) {
        let mut leftovers = self.leftovers.lock().unwrap_or_else(PoisonError::into_inner);
        leftovers.retain(|path| {
            let Ok(about) = fs::symlink_metadata(path) else { return false };
            let old = about.modified().is_ok_and(|then| age(then) >= self.options.patience);
            if about.is_file() && old && fs::remove_file(path).is_ok() {
                self.room.give_back(about.len().max(BLOCK));
                return false;
            }
            true
        });
    }

    /// Removes partial copies that have not grown for a while.
    pub(crate) fn tidy(&self) {
        self.close_idle();
        let Ok(entries) = fs::read_dir(self.tree.root()) else { return };
        // All files are examined before any is removed, since a part without its journal does not count as part of a
        // copy.
        let ours = entries.flatten().filter(is_of_copy).filter_map(|entry| {
            let about = entry.metadata().ok()?;
            let room = room_of(&entry, &about);
            Some((entry.path(), about, room))
        });
        for (path, about, room) in ours.collect::<Vec<_>>() {
            let old = about.modified().is_ok_and(|then| age(then) >= self.options.keep_parts);
            if about.is_file() && old && fs::remove_file(&path).is_ok() {
                tracing::info!("removed {}: nothing has arrived for it", path.display());
                self.room.give_back(room);
            }
        }
    }
}

/// Whether the entry belongs to a copy of a file or directory that can be resumed.
fn is_of_copy(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let Some((stem, extension)) = name.to_str().and_then(|name| name.rsplit_once('.')) else { return false };
    let journal = || entry.path().with_file_name(format!("{stem}.log"));
    stem.starts_with(OURS)
        && match extension {
            "log" | "dir" => true,
            "part" => journal().exists(),
            _ => false,
        }
}

/// Whether the entry is metadata of an unfinished copy.
fn is_known(entry: &DirEntry) -> bool {
    let ends = |name: &str| name.ends_with(".log") || name.ends_with(".dir");
    entry.file_name().to_str().is_some_and(|name| name.starts_with(OURS) && ends(name))
}

/// Lists unfinished messages.
pub(super) fn leftovers(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.flatten();
    let unfinished = entries.filter(is_message);
    Ok(unfinished.map(|entry| entry.path()).collect())
}

/// The time since `then`; zero if `then` is in the future.
fn age(then: SystemTime) -> Duration {
    SystemTime::now().duration_since(then).unwrap_or_default()
}

/// Whether the entry is an unfinished message.
pub(super) fn is_message(entry: &DirEntry) -> bool {
    landing::is_unfinished(&entry.file_name()) && !is_of_copy(entry)
}

/// The room of all files below `directory`, without those that `skip` selects and the metadata of unfinished copies.
/// Links are not followed.
pub(super) fn held(directory: &Path, skip: &dyn Fn(&DirEntry) -> bool) -> io::Result<u64> {
    let mut sum = 0_u64;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let bytes = match entry.metadata() {
            Ok(about) if about.is_dir() => held(&entry.path(), skip)?.saturating_add(BLOCK),
            Ok(about) if !skip(&entry) => room_of(&entry, &about),
            // The entry is gone meanwhile, or not counted.
            _ => 0,
        };
        sum = sum.saturating_add(bytes);
    }
    Ok(sum)
}

/// The room of an entry that is not a directory.
fn room_of(entry: &DirEntry, about: &Metadata) -> u64 {
    if is_known(entry) {
        0
    } else if is_of_copy(entry) {
        // Its pieces arrive in any order, and leave holes.
        allocated(about).min(about.len())
    } else if about.is_file() {
        about.len().max(BLOCK)
    } else {
        BLOCK
    }
}

#[cfg(unix)]
fn allocated(about: &Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    about.blocks().saturating_mul(512)
}

#[cfg(not(unix))]
fn allocated(about: &Metadata) -> u64 {
    about.len()
}
