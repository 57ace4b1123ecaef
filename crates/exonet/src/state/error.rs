//! The errors of a state directory. Each says what to do.

use std::io;
use std::path::{Path, PathBuf};

use super::clock::ClockRecord;

/// Why a state directory cannot be used. Each text names the path, and says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// No identity was ever created there.
    #[error("there is no identity in {}: create one there first, or check the path", path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// The caller asked to create an identity, and there is one already.
    #[error("there is an identity in {} already: open it, or create the new one elsewhere", path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// An identity was to arrive in a directory that has other files.
    #[error("{} has files of something else: choose an empty directory, or one that does not exist", path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
    },
    /// A process already runs the identity.
    #[error(
        "{} is in use{}: an identity runs in one process at a time; stop that one, or use another identity",
        path.display(), holder(*pid)
    )]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The process that runs the identity, if known.
        pid: Option<u32>,
    },
    /// The lock file was removed or replaced while this process held it.
    #[error(
        "the lock of {} was removed or replaced: another process may run this identity, so this one must stop; \
         never remove a lock file",
        path.display()
    )]
    LockLost {
        /// The directory.
        path: PathBuf,
    },
    /// There is a clock that was used, but no key.
    #[error(
        "the key in {} is missing: put it back from a backup (it never changes), or move the directory away \
         and create a new identity",
        path.display()
    )]
    KeyLost {
        /// The directory.
        path: PathBuf,
    },
    /// There is a key, but no clock.
    #[error(
        "the clock in {} is missing, and with it the knowledge of which numbers are used up: this identity must \
         be retired; move the directory away, create a new identity and tell peers its id (do not restore the \
         clock from a backup: an old one lets messages be delivered twice)",
        path.display()
    )]
    ClockLost {
        /// The directory.
        path: PathBuf,
    },
    /// The key is whole, but other users can read it.
    #[error(
        "{} may be read by others (mode {mode:03o}): if nobody has read it, run: chmod 600 {}",
        path.display(), path.display()
    )]
    Exposed {
        /// The key file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The key file is damaged.
    #[error(
        "{} is damaged ({what}): put it back from a backup (it never changes), or move the directory away and \
         create a new identity",
        path.display()
    )]
    CorruptKey {
        /// The key file.
        path: PathBuf,
        /// What is damaged.
        what: &'static str,
    },
    /// The file of a dead letter is damaged.
    #[error("the dead letter {} is damaged ({what}): move it away; the others are whole", path.display())]
    DeadLetter {
        /// The file of the letter.
        path: PathBuf,
        /// What is damaged.
        what: &'static str,
    },
    /// The clock file is damaged.
    #[error(
        "{} is damaged ({what}), and with it the knowledge of which numbers are used up: this identity must be \
         retired; move the directory away, create a new identity and tell peers its id (do not restore the \
         clock from a backup: an old one lets messages be delivered twice)",
        path.display()
    )]
    CorruptClock {
        /// The clock file.
        path: PathBuf,
        /// What is damaged.
        what: &'static str,
    },
    /// The file that says where the identity lives is damaged.
    #[error("{} is damaged ({what}): move the identity here again from its former place, or retire it", path.display())]
    CorruptTerm {
        /// The file.
        path: PathBuf,
        /// What is damaged.
        what: &'static str,
    },
    /// The file that says which checkpoint of an identity was restored last is damaged.
    #[error(
        "{} is damaged ({what}): it says which checkpoint of an identity was restored last; if the new checkpoint was \
         certainly never restored, remove this file",
        path.display()
    )]
    CorruptRecord {
        /// The file.
        path: PathBuf,
        /// What is damaged.
        what: &'static str,
    },
    /// The identity was ceded to another node.
    #[error(
        "the identity in {} has moved: it was ceded to node {to}, and does not live here any more",
        path.display()
    )]
    Moved {
        /// The directory that the identity has left.
        path: PathBuf,
        /// The node to which it was ceded.
        to: exonet_proto::NodeId,
    },
    /// The identity lives elsewhere.
    #[error(
        "the identity in {} lives elsewhere as generation {generation}, as a name service has said: this is a copy of it, \
         and does not open any more",
        path.display()
    )]
    Superseded {
        /// The directory of the copy.
        path: PathBuf,
        /// The generation that lives.
        generation: u64,
    },
    /// The file with the node of each name is damaged.
    #[error(
        "{} is damaged: remove it, and the nodes behind names are learnt anew, as at their first meeting",
        path.display()
    )]
    CorruptPins {
        /// The file.
        path: PathBuf,
    },
    /// An identity cannot be ceded to this node.
    #[error("an identity cannot be ceded to {to}: this is its own id, or not the id of a node")]
    Target {
        /// The node in question.
        to: exonet_proto::NodeId,
    },
    /// A checkpoint cannot be made or used.
    #[error("the checkpoint cannot be used: {what}")]
    Checkpoint {
        /// Why not.
        what: &'static str,
    },
    /// The file of a checkpoint cannot be written or restored.
    #[error("the checkpoint {} cannot be used: {what}", path.display())]
    CheckpointFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        what: &'static str,
    },
    /// An identity that was ceded before was to go into this file, and another file has it, or its file is lost.
    #[error(
        "the identity was ceded before, and {} does not have it: if another file has it, restore that, or, if it is \
         unfinished, repeat this with its name",
        path.display()
    )]
    OtherFile {
        /// The file that does not have the identity.
        path: PathBuf,
    },
    /// The file of a checkpoint is sealed for another node.
    #[error("the checkpoint {} is encrypted for node {to}: {reader} cannot open it", path.display())]
    OtherTarget {
        /// The file.
        path: PathBuf,
        /// The node for which it is sealed.
        to: exonet_proto::NodeId,
        /// The node that was to open it.
        reader: exonet_proto::NodeId,
    },
    /// The checkpoint was restored before, or a later one was.
    #[error(
        "the checkpoint {} has generation {generation} of {id}, and this node has restored generation {last} before: a \
         checkpoint is restored once; if that restore was interrupted, repeat it at the same place",
        path.display()
    )]
    Restored {
        /// The file.
        path: PathBuf,
        /// The identity.
        id: exonet_proto::NodeId,
        /// The latest generation that was restored.
        last: u64,
        /// The generation of the checkpoint.
        generation: u64,
    },
    /// The checkpoint was restored to this place before, and the identity lives there.
    #[error("the identity of the checkpoint has arrived in {} before, and lives there: start it", path.display())]
    Arrived {
        /// The directory.
        path: PathBuf,
    },
    /// An application has failed to give its state or to take it in.
    #[error("the state of the application{} cannot be {doing}: {error}", within(path.as_deref()))]
    Application {
        /// The directory of the identity, or the file of the checkpoint. None: the caller gave the checkpoint as bytes.
        path: Option<PathBuf>,
        /// The step that failed: `given` or `taken in`.
        doing: &'static str,
        /// The error of the application.
        error: super::ApplicationError,
    },
    /// A temporary identity cannot move.
    #[error("the identity is temporary: only an identity that is stored in a directory can move")]
    Temporary,
    /// A release with another format has written the file.
    #[error("{} was written by another version of Exonet: run that version or a newer one", path.display())]
    Version {
        /// The file.
        path: PathBuf,
    },
    /// Key and clock belong to different identities.
    #[error(
        "{} belongs to another key than the one beside it: put back the key that it came with, or move the \
         directory away and create a new identity",
        path.display()
    )]
    Mismatch {
        /// The clock file.
        path: PathBuf,
    },
    /// The record is below one that was stored.
    #[error(
        "{} never goes back: {refused:?} was refused, {floor:?} may be on disk; the caller has a bug",
        path.display()
    )]
    Backwards {
        /// The clock file.
        path: PathBuf,
        /// The largest record that may be on disk.
        floor: ClockRecord,
        /// The record that was refused.
        refused: ClockRecord,
    },
    /// All numbers that the protocol allows are used up.
    #[error("{} has run out of numbers: this identity must be retired; create a new one", path.display())]
    Exhausted {
        /// The clock file.
        path: PathBuf,
    },
    /// The text cannot be the name of an identity.
    #[error(
        "{name:?} is not the name of an identity: use 1 to 64 of A-Z a-z 0-9 . _ -, begin with a letter \
         or digit, and do not end with .arriving, .former or .door"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The environment does not say where state is kept.
    #[error("no place for state: set EXONET_STATE to a directory, or HOME")]
    NoHome,
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] exonet_store::StoreError),
    /// The journal is whole, but has content that this version cannot read.
    #[error(
        "{0}: it was written by another version of Exonet; run that version, or move the journal away: messages that \
         were open end Unknown"
    )]
    Records(#[from] exonet_proto::node::BadJournal),
    /// The operating system returned an error.
    #[error("cannot {action} {}: {error}{}", path.display(), advice(error))]
    Io {
        /// What failed, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

impl StateError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { action, path: path.into(), error }
    }

    /// Whether a write failed for want of room, and may succeed later.
    pub(crate) fn lacks_room(&self) -> bool {
        matches!(self, Self::Io { error, .. } if is_full(error.kind()))
    }
}

fn within(path: Option<&Path>) -> String {
    path.map_or_else(String::new, |path| format!(" in {}", path.display()))
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" by process {pid}"))
}

const fn is_full(kind: io::ErrorKind) -> bool {
    use io::ErrorKind as Kind;
    matches!(kind, Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge)
}

fn advice(error: &io::Error) -> &'static str {
    use io::ErrorKind as Kind;
    match error.kind() {
        kind if is_full(kind) => "; free some space there and try again",
        Kind::ReadOnlyFilesystem => "; choose a directory that can be written",
        Kind::PermissionDenied => "; check its owner and permissions, or choose another directory",
        Kind::NotADirectory => "; a part of that path is not a directory",
        _ => "",
    }
}
