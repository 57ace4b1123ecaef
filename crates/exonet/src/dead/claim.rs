//! The claim of a task that tries a dead letter again.

use core::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use exonet_proto::MessageId;
use fs4::{FileExt, TryLockError};

use super::letter::DeadLetter;
use super::{DeadLetters, Place, lock};
use crate::state::{StateError, is_same};

/// The extension of a lock file.
const ENDING: &str = "lock";

/// The result of [`DeadLetters::claim`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Claimed {
    /// The caller has the letter until it drops the [`Claim`].
    Here(Claim),
    /// Another task has the letter, in this process or in another.
    Elsewhere,
    /// There is no letter with this id, or it was removed.
    Gone,
}

/// A dead letter that no other task can claim while this value exists. If the claim is dropped, or its process dies,
/// the letter is still there and unchanged, and another task can claim it. What the first task has done with the
/// message is not undone.
#[must_use = "a claim that is dropped lets the letter go"]
pub struct Claim {
    letters: DeadLetters,
    letter: Box<DeadLetter>,
    /// None: the letter is in memory.
    lock: Option<Locked>,
}

impl Claim {
    /// The letter, with its body.
    pub fn letter(&self) -> &DeadLetter {
        &self.letter
    }

    /// Removes the letter, since the application has dealt with it.
    ///
    /// # Errors
    /// [`StateError`]: the node cannot remove the file of the letter.
    pub fn remove(self) -> Result<(), StateError> {
        self.letters.take(&self.letter.id).map(drop)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        match (&self.letters.place, self.lock.take()) {
            (Place::Memory(letters), _) => lock(letters).claimed.retain(|id| *id != self.letter.id),
            (Place::Folder(_), locked) => drop(locked),
        }
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").field("id", &self.letter.id).finish_non_exhaustive()
    }
}

impl DeadLetters {
    /// Claims a dead letter, to try it again. If several tasks claim a letter at the same time, in any process of
    /// this machine, one of them gets it. This method does not wait. [`Self::take`] needs no claim.
    ///
    /// # Errors
    /// [`StateError`]: the node cannot read or lock the file of the letter, or the file is damaged.
    pub fn claim(&self, id: &MessageId) -> Result<Claimed, StateError> {
        let claim =
            |letter, lock| Claimed::Here(Claim { letters: self.clone(), letter: Box::new(letter), lock });
        match &self.place {
            Place::Memory(letters) => {
                let mut letters = lock(letters);
                let Some(letter) = letters.kept.iter().find(|letter| letter.id == *id).cloned() else {
                    return Ok(Claimed::Gone);
                };
                if letters.claimed.contains(id) {
                    return Ok(Claimed::Elsewhere);
                }
                letters.claimed.push(*id);
                Ok(claim(letter, None))
            }
            Place::Folder(folder) => {
                let path = folder.path_of(id);
                // Without a letter, no lock file is made.
                if folder.get(id)?.is_none() {
                    return Ok(Claimed::Gone);
                }
                let Some(locked) = Locked::acquire(path.with_extension(ENDING))? else {
                    return Ok(Claimed::Elsewhere);
                };
                // The previous holder of the lock may have removed the letter.
                Ok(folder.get(id)?.map_or(Claimed::Gone, |letter| claim(letter, Some(locked))))
            }
        }
    }
}

/// The lock file beside a letter. When the process ends, in any way, the system releases the lock.
struct Locked {
    path: PathBuf,
    file: File,
}

impl Locked {
    /// Takes the lock. None: another holder has it.
    fn acquire(path: PathBuf) -> Result<Option<Self>, StateError> {
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let file = options.open(&path).map_err(StateError::io("open", &path))?;
            match FileExt::try_lock(&file) {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(StateError::io("lock", &path)(error)),
            }
            if is_at(&file, &path)? {
                return Ok(Some(Self { path, file }));
            }
            // The previous holder has removed the file meanwhile, so a lock on it means nothing.
        }
    }
}

/// Whether the file is still the one at `path`.
fn is_at(file: &File, path: &Path) -> Result<bool, StateError> {
    let held = file.metadata().map_err(StateError::io("inspect", path))?;
    match fs::metadata(path) {
        Ok(there) => Ok(is_same(&held, &there)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StateError::io("inspect", path)(error)),
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // Removed while the lock is held: a process that opened the file meanwhile notices that. On systems that
        // cannot tell files apart, the file stays.
        if cfg!(unix) {
            let _ = fs::remove_file(&self.path);
        }
        // Closing the file is not enough, as with the lock of the directory: a process that was just forked shares
        // the lock.
        let _ = FileExt::unlock(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::super::folder::Folder;
    use super::super::tests::letter;
    use super::*;

    fn both() -> (tempfile::TempDir, [DeadLetters; 2]) {
        let home = tempfile::tempdir().unwrap();
        let folder = DeadLetters::in_folder(Folder::new(home.path().join("dead")));
        (home, [folder, DeadLetters::in_memory()])
    }

    #[test]
    fn one_has_a_letter_until_it_lets_it_go() {
        let (_home, places) = both();
        for dead in places {
            dead.put(&letter(1, 10)).unwrap();
            dead.put(&letter(2, 10)).unwrap();
            let id = letter(1, 0).id;
            let Claimed::Here(first) = dead.claim(&id).unwrap() else { panic!("it is free") };
            assert_eq!(first.letter(), &letter(1, 10));
            assert!(matches!(dead.claim(&id).unwrap(), Claimed::Elsewhere));
            let Claimed::Here(other) = dead.claim(&letter(2, 0).id).unwrap() else { panic!("it is free") };
            drop(first);
            let Claimed::Here(again) = dead.claim(&id).unwrap() else { panic!("it was let go") };
            again.remove().unwrap();
            assert!(matches!(dead.claim(&id).unwrap(), Claimed::Gone));
            drop(other);
            assert_eq!(dead.list().unwrap().len(), 1);
        }
    }

    #[test]
    fn of_many_at_once_one_deals_with_a_letter() {
        let (_home, places) = both();
        for dead in places {
            for s in 0..200 {
                dead.put(&letter(s, 10)).unwrap();
            }
            let start = std::sync::Barrier::new(4);
            let deal = || {
                let mut dealt = 0;
                start.wait();
                for s in 0..200 {
                    loop {
                        match dead.claim(&letter(s, 0).id).unwrap() {
                            Claimed::Here(claim) => {
                                claim.remove().unwrap();
                                dealt += 1;
                            }
                            Claimed::Elsewhere => {}
                            Claimed::Gone => break,
                        }
                    }
                }
                dealt
            };
            let dealt: u32 = std::thread::scope(|scope| {
                let threads = [0; 4].map(|_| scope.spawn(deal));
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            assert_eq!((dealt, dead.list().unwrap().len()), (200, 0));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_lock_that_was_removed_meanwhile_is_no_lock() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("1.lock");
        let old = Locked::acquire(path.clone()).unwrap().unwrap();
        let stale = old.file.try_clone().unwrap();
        assert!(is_at(&stale, &path).unwrap());
        drop(old);
        assert!(!path.exists() && !is_at(&stale, &path).unwrap());
        let _new = Locked::acquire(path.clone()).unwrap().unwrap();
        assert!(!is_at(&stale, &path).unwrap());
    }
}
