//! The errors of a journal. Each says what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the id of the boot would come from.
const NO_BOOT_ID: &str = if cfg!(target_os = "linux") {
    " (/proc/sys/kernel/random/boot_id cannot be read: is /proc mounted?)"
} else if cfg!(target_os = "macos") {
    " (`sysctl -n kern.bootsessionuuid` does not say it)"
} else {
    ""
};

/// Why a journal cannot be opened, or has stopped. Each text names the path, and says what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There was no room for the bytes, and none of them count. The same call may succeed later, when there is room.
    #[error("no room for {}: {error}; free some space there", path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: Arc<io::Error>,
    },
    /// The operating system could not write bytes that it had accepted. Nobody knows how many of them are on disk,
    /// and a second attempt would not show that. Every later call fails in the same way.
    #[error(
        "{} could not be forced to the disk: {error}; what was written last may be lost, so this journal has stopped: \
         check the disk and the system's log, then start again",
        path.display()
    )]
    Sync {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: Arc<io::Error>,
    },
    /// The files of the journal were removed or moved away while it was open.
    #[error(
        "{} was removed or moved away while the node ran, so this journal has stopped: put it back, or start again \
         without what the journal knew: messages that were open end Unknown",
        path.display()
    )]
    Removed {
        /// The file.
        path: PathBuf,
    },
    /// A part that was on disk is damaged.
    #[error(
        "{} is damaged ({what}), in a part that was safe on the disk: check the disk; to go on without what the \
         journal knew, move the directory of the journal away: messages that were open end Unknown",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is damaged.
        what: &'static str,
    },
    /// A release with another format has written the file.
    #[error("{} was written by a newer version of Exonet: run that version or a newer one", path.display())]
    Version {
        /// The file.
        path: PathBuf,
    },
    /// The journal belongs to another identity.
    #[error(
        "{} belongs to another identity: put back the journal that came with this key, or move the directory of the \
         journal away: messages that were open end Unknown",
        path.display()
    )]
    Identity {
        /// The file.
        path: PathBuf,
    },
    /// Another implementation of [`crate::Store`] keeps the journal.
    #[error(
        "the journal in {} is kept by the store {store:?}: open the node with that store; or, to go on without this \
         journal, move the directory away: messages that were open end Unknown",
        path.display()
    )]
    OtherStore {
        /// The directory.
        path: PathBuf,
        /// The name of the store that keeps it.
        store: String,
    },
    /// The directory cannot be written.
    #[error(
        "cannot write in {}: {error}; check its owner and permissions, and that its file system is mounted writable, \
         or choose another directory",
        path.display()
    )]
    ReadOnly {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        error: Arc<io::Error>,
    },
    /// The level `Process` needs an id of the system's boot, and this system has none.
    #[error(
        "this system does not tell one boot from another{}, so a journal that is not forced could not be trusted after \
         a crash: use the level sync or batched, or no journal",
        NO_BOOT_ID
    )]
    NoBootId,
    /// The level `Process` needs a file system that keeps written bytes when the process ends.
    #[error(
        "{} is on a {kind} file system, where what was written may be lost with a process: use the level sync or \
         batched, or a directory on a local disk",
        path.display()
    )]
    Remote {
        /// The directory.
        path: PathBuf,
        /// The kind of file system.
        kind: &'static str,
    },
    /// A group or a snapshot is longer than the format allows.
    #[error("{len} bytes are too many for one group of the journal; at most {}", crate::MAX_GROUP)]
    TooLong {
        /// Its length in bytes.
        len: u64,
    },
    /// The position of a group is not above that of the group before.
    #[error("the position {through} does not lie behind {last}; the caller has a bug")]
    Backwards {
        /// The position.
        through: u64,
        /// The position of the last group.
        last: u64,
    },
    /// A snapshot was requested while the caller still reads the groups that were found.
    #[error("the groups that were found are still being read: drop `Found` before the first snapshot")]
    Reading,
    /// The operating system returned an error.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// What failed, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        error: Arc<io::Error>,
    },
}

impl StoreError {
    /// Converts an error of the system. `action` is the step that failed, as a verb.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        use io::ErrorKind as Kind;
        move |error| {
            let (path, kind, error) = (path.to_path_buf(), error.kind(), Arc::new(error));
            match kind {
                Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => Self::Full { path, error },
                Kind::ReadOnlyFilesystem | Kind::PermissionDenied => Self::ReadOnly { path, error },
                _ => Self::Io { action, path, error },
            }
        }
    }

    /// The error of a failed sync, for any reason.
    pub fn sync(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Sync { path: path.to_path_buf(), error: Arc::new(error) }
    }

    /// Whether the same call may succeed later.
    pub(crate) const fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }
}
