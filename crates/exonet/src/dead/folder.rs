//! The dead letters of a stored identity: one file each.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use exonet_proto::MessageId;

use super::letter::DeadLetter;
use crate::state::{StateError, disk};

/// The largest number of bytes that all files together may take.
const MOST: u64 = 1 << 30;

/// How long a letter is kept after it was written.
const LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

/// The longest file. The node limits the size of a body that it keeps.
const MOST_FILE: u64 = 1 << 30;

/// The extension of the files.
const ENDING: &str = "letter";

/// The extension of a file that is being removed.
#[cfg(windows)]
const GONE: &str = "gone";

/// A folder of dead letters.
pub(crate) struct Folder {
    path: PathBuf,
    most: u64,
}

impl Folder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, most: MOST }
    }

    pub(super) fn path_of(&self, id: &MessageId) -> PathBuf {
        self.path.join(format!("{}-{}-{}.{ENDING}", id.sender, id.r.0, id.s.0))
    }

    /// The files with the times when they were written and their sizes, the oldest first.
    fn files(&self) -> Result<Vec<(SystemTime, u64, PathBuf)>, StateError> {
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(StateError::io("read", &self.path))?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry.map_err(StateError::io("read", &self.path))?.path();
            #[cfg(windows)]
            if path.extension().is_some_and(|ending| ending == GONE) {
                // A process died before it had removed the file.
                let _ = fs::remove_file(&path);
            }
            if path.extension().is_some_and(|ending| ending == ENDING)
                && let Ok(metadata) = fs::symlink_metadata(&path)
                && metadata.is_file()
            {
                files.push((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), metadata.len(), path));
            }
        }
        files.sort();
        Ok(files)
    }

    pub(super) fn list(&self) -> Result<Vec<DeadLetter>, StateError> {
        let mut letters = Vec::new();
        for (.., path) in self.files()? {
            match read(&path) {
                Ok(Some(letter)) => letters.push(DeadLetter { body: None, ..letter }),
                Ok(None) => {}
                Err(error) => tracing::warn!("{error}"),
            }
        }
        letters.sort_by_key(|letter| letter.at);
        Ok(letters)
    }

    pub(super) fn get(&self, id: &MessageId) -> Result<Option<DeadLetter>, StateError> {
        read(&self.path_of(id))
    }

    pub(super) fn take(&self, id: &MessageId) -> Result<Option<DeadLetter>, StateError> {
        let path = self.path_of(id);
        let Some(letter) = read(&path)? else { return Ok(None) };
        match remove(&path) {
            // Another process was faster.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            removed => removed.map_err(StateError::io("remove", &path))?,
        }
        disk::sync_dir(Some(&self.path))?;
        Ok(Some(letter))
    }

    /// Writes a letter, and replaces an older copy of it. If there is no room, or letters are too old, this removes
    /// the oldest ones.
    pub(super) fn put(&self, letter: &DeadLetter) -> Result<(), StateError> {
        disk::create_dirs(&self.path)?;
        let content = letter.encode();
        self.make_room(content.len() as u64)?;
        disk::replace(&self.path_of(&letter.id), &content)
    }

    fn make_room(&self, wanted: u64) -> Result<(), StateError> {
        let files = self.files()?;
        let mut held: u64 = files.iter().map(|(_, len, _)| len).sum();
        let now = SystemTime::now();
        for (at, len, path) in files {
            let old = now.duration_since(at).is_ok_and(|age| age > LIFE);
            if !old && held.saturating_add(wanted) <= self.most {
                break;
            }
            tracing::warn!("a dead letter goes: {}", if old { "it is too old" } else { "there is no room" });
            remove(&path).map_err(StateError::io("remove", &path))?;
            held = held.saturating_sub(len);
        }
        Ok(())
    }
}

/// Removes the file of a letter. When this returns, its name is gone.
#[cfg(not(windows))]
fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

/// Removes the file of a letter. When this returns, its name is gone.
///
/// On some file systems, Windows keeps the name of a removed file until every reader has closed the file. So this
/// first gives the file another name, which is unique.
#[cfg(windows)]
fn remove(path: &Path) -> io::Result<()> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static REMOVED: AtomicU64 = AtomicU64::new(0);
    let number = REMOVED.fetch_add(1, Ordering::Relaxed);
    let other = path.with_extension(format!("{}-{number}.{GONE}", std::process::id()));
    fs::rename(path, &other)?;
    match fs::remove_file(&other) {
        // Another process has already removed the file.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn read(path: &Path) -> Result<Option<DeadLetter>, StateError> {
    let file = match fs::File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(StateError::io("open", path))?,
    };
    let mut content = Vec::new();
    file.take(MOST_FILE).read_to_end(&mut content).map_err(StateError::io("read", path))?;
    let damaged = |what| StateError::DeadLetter { path: path.into(), what };
    DeadLetter::decode(&Bytes::from(content)).map(Some).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use exonet_proto::Slot;

    use super::super::tests::letter;
    use super::*;

    #[test]
    fn letters_are_listed_without_and_given_with_their_bodies() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::new(home.path().join("dead"));
        assert_eq!(folder.list().unwrap(), []);
        folder.put(&letter(1, 10)).unwrap();
        folder.put(&letter(2, 20)).unwrap();
        folder.put(&letter(2, 20)).unwrap();
        assert_eq!(
            folder.list().unwrap(),
            [(1, 10), (2, 20)].map(|(s, len)| DeadLetter { body: None, ..letter(s, len) })
        );
        assert_eq!(folder.get(&letter(2, 0).id).unwrap(), Some(letter(2, 20)));
        assert_eq!(folder.take(&letter(2, 0).id).unwrap(), Some(letter(2, 20)));
        assert_eq!(folder.take(&letter(2, 0).id).unwrap(), None);
    }

    #[test]
    fn the_oldest_make_room() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder { most: 3 * 600, ..Folder::new(home.path().join("dead")) };
        for s in 1..9 {
            folder.put(&letter(s, 400)).unwrap();
            let file = fs::File::options().append(true).open(folder.path_of(&letter(s, 0).id)).unwrap();
            file.set_modified(SystemTime::now() + Duration::from_secs(s)).unwrap();
        }
        let left: Vec<_> = folder.list().unwrap().iter().map(|letter| letter.id.s).collect();
        assert!(left.len() >= 2 && left.len() < 8 && left.contains(&Slot(8)), "{left:?}");
    }

    #[test]
    fn what_is_too_old_goes() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::new(home.path().join("dead"));
        folder.put(&letter(1, 10)).unwrap();
        let file = fs::File::options().append(true).open(folder.path_of(&letter(1, 0).id)).unwrap();
        file.set_modified(SystemTime::now() - LIFE - Duration::from_secs(60)).unwrap();
        folder.put(&letter(2, 10)).unwrap();
        assert_eq!(folder.list().unwrap().len(), 1);
    }

    #[test]
    fn a_damaged_file_is_named_and_does_not_hide_others() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::new(home.path().join("dead"));
        folder.put(&letter(1, 10)).unwrap();
        folder.put(&letter(2, 10)).unwrap();
        let path = folder.path_of(&letter(1, 0).id);
        fs::write(&path, b"nonsense").unwrap();
        assert_eq!(folder.list().unwrap().len(), 1);
        let error = folder.get(&letter(1, 0).id).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
}
