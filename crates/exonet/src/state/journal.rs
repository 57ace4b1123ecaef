//! The folder of an identity's journal, as a whole.

use std::fs;
use std::io;
use std::path::Path;

use super::disk;
use super::error::StateError;

pub(super) const DIR: &str = "journal";
/// The folder of a journal that was put aside. There is at most one.
const ASIDE: &str = "journal.old";

/// Puts the journal in the directory `of` aside; this is durable when it returns. Returns false if there is none.
pub(super) fn retire(of: &Path) -> Result<bool, StateError> {
    let (path, aside) = (of.join(DIR), of.join(ASIDE));
    if !disk::exists(&path)? {
        return Ok(false);
    }
    match fs::remove_dir_all(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(StateError::io("remove", &aside)(error));
        }
        _ => {}
    }
    fs::rename(&path, &aside).map_err(StateError::io("rename", &path))?;
    disk::sync_dir(Some(of))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_that_is_put_aside_is_not_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = |at: &str| dir.path().join(at).join("run");
        assert!(!retire(dir.path()).unwrap());
        for text in ["1", "2"] {
            fs::create_dir(dir.path().join(DIR)).unwrap();
            fs::write(file(DIR), text).unwrap();
            assert!(retire(dir.path()).unwrap());
            assert!(!dir.path().join(DIR).exists());
            assert_eq!(fs::read_to_string(file(ASIDE)).unwrap(), text);
        }
    }
}
