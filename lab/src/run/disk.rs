//! The directory of a run on the disk.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A directory, empty at first, that is removed when this is dropped. A process of the lab makes one run at a time, which
/// has one of these at most.
pub(super) struct Disk(PathBuf);

impl Disk {
    pub(super) fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("exonet-lab-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
