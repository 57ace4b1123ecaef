//! Unfinished files that nobody goes on with are removed.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::{Duration, SystemTime};

use super::name::OURS;
use super::{Store, landing};

impl Store {
    /// Removes unfinished messages of killed processes once they have not grown for a while. Those of this process go with
    /// the delivery that they belong to.
    pub(crate) fn sweep(&self) {
        let mut leftovers = self.leftovers.lock().unwrap_or_else(PoisonError::into_inner);
        leftovers.retain(|path| {
            let Ok(about) = fs::symlink_metadata(path) else { return false };
            let old = about.modified().is_ok_and(|then| age(then) >= self.options.patience);
            if about.is_file() && old && fs::remove_file(path).is_ok() {
                self.room.give_back(about.len());
                return false;
            }
            true
        });
    }

    /// Removes what is there of files that nobody has gone on copying for a while.
    pub(crate) fn tidy(&self) {
        self.close_idle();
        let Ok(entries) = fs::read_dir(self.tree.root()) else { return };
        for entry in entries.flatten().filter(is_of_copy) {
            let Ok(about) = entry.metadata() else { continue };
            let old = about.modified().is_ok_and(|then| age(then) >= self.options.keep_parts);
            if about.is_file() && old && fs::remove_file(entry.path()).is_ok() {
                tracing::info!("removed {}: nothing has come for it", entry.path().display());
                self.room.give_back(if is_journal(&entry) { 0 } else { about.len() });
            }
        }
    }
}

/// Whether it belongs to a copy of a file or directory that can be gone on with.
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

fn is_journal(entry: &DirEntry) -> bool {
    entry.file_name().to_str().is_some_and(|name| name.starts_with(OURS) && name.ends_with(".log"))
}

/// Unfinished messages.
pub(super) fn leftovers(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.flatten();
    let unfinished = entries.filter(|entry| landing::is_unfinished(&entry.file_name()) && !is_of_copy(entry));
    Ok(unfinished.map(|entry| entry.path()).collect())
}

/// The time since `then`; none, if that is in the future.
fn age(then: SystemTime) -> Duration {
    SystemTime::now().duration_since(then).unwrap_or_default()
}

/// Bytes of all files below `directory`, but for the journals of what is unfinished. Links are not followed.
pub(super) fn held(directory: &Path) -> io::Result<u64> {
    let mut sum = 0_u64;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let bytes = match entry.metadata() {
            Ok(about) if about.is_dir() => held(&entry.path())?,
            Ok(about) if about.is_file() && !is_journal(&entry) => about.len(),
            // Gone meanwhile, or nothing that holds bytes.
            _ => 0,
        };
        sum = sum.saturating_add(bytes);
    }
    Ok(sum)
}
