//! The identity of a node: a key for this run only, or a stored key.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use exonet::state::{self, KeptDelivery, KeptSession, Outbox, SecretKey, StateDir, StateError, Term};
use exonet::{Builder, NodeId};
use rand::TryRngCore;
use rand::rngs::OsRng;
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::peers;

/// The identity of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// A new key that lasts as long as the process. Nothing is on the disk.
    Ephemeral,
    /// A key and a clock in a directory.
    Stored {
        /// Its name for people.
        name: String,
        /// Its directory.
        path: PathBuf,
    },
}

impl Identity {
    /// The identity called `name`, in `directory` itself if that is given; without either, an ephemeral one.
    pub(crate) fn new(name: Option<&str>, directory: Option<&Path>) -> Result<Self, Failure> {
        let (name, path) = match (name, directory) {
            (None, None) => return Ok(Self::Ephemeral),
            (name, Some(path)) => (name.unwrap_or("default"), path.to_owned()),
            (Some(peers::FILE), None) => {
                let failure = Failure::new(format!("an identity cannot be called {:?}", peers::FILE));
                return Err(failure.hint("the file of peers has this name; choose another"));
            }
            (Some(name), None) => {
                let path = StateDir::named(name).map_err(|e| {
                    Failure::new(format!("there is no place for identity {name:?}")).because(&e)
                })?;
                (name, path)
            }
        };
        Ok(Self::Stored { name: name.to_owned(), path })
    }

    /// Creates the identity if there is none yet. True if it did.
    pub(crate) fn ensure(&self) -> Result<bool, Failure> {
        match self {
            Self::Stored { path, .. } if !exists(path)? => self.create().map(|_| true),
            Self::Ephemeral | Self::Stored { .. } => Ok(false),
        }
    }

    /// Creates a new stored identity. Fails if one exists.
    pub(crate) fn create(&self) -> Result<NodeId, Failure> {
        let path = self.path()?;
        if exists(path)? {
            // Only its key may be missing.
            self.require()?;
            if is_present(path, "clock")? {
                let failure =
                    Failure::new(format!("there is already an identity {self} in {}", path.display()));
                let options = self.options();
                return Err(failure.hint(format!("it is unchanged; to show its id: exon id{options}")));
            }
        }
        if path.exists() && !path.is_dir() {
            let failure = Failure::new(format!("cannot make identity {self}: {} is a file", path.display()));
            return Err(failure.hint("it is unchanged; choose another name, or another --state"));
        }
        let secret = fresh_secret()?;
        StateDir::create(path, &secret).map_err(|e| self.failure("make", &e))?;
        Ok(SecretKey::from_bytes(*secret).node_id())
    }

    /// The id of a stored identity.
    pub(crate) fn load(&self) -> Result<NodeId, Failure> {
        let path = self.path()?;
        let secret = match StateDir::open(path) {
            Ok(directory) => directory.secret().clone(),
            // A process runs the identity, but its key can still be read.
            Err(StateError::Locked { .. }) => StateDir::peek(path).map_err(|e| self.failure("open", &e))?,
            Err(error) => return Err(self.failure("open", &error)),
        };
        Ok(SecretKey::from_bytes(*secret).node_id())
    }

    /// Whether the identity has a journal.
    pub(crate) fn has_journal(&self) -> bool {
        match self {
            Self::Stored { path, .. } => path.join("journal").exists(),
            Self::Ephemeral => false,
        }
    }

    /// Whether no process runs the identity.
    pub(crate) fn is_free(&self) -> bool {
        match self {
            Self::Stored { path, .. } => !matches!(StateDir::open(path), Err(StateError::Locked { .. })),
            Self::Ephemeral => true,
        }
    }

    /// Its directory.
    #[cfg(unix)]
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.path().ok()
    }

    /// The messages that it still has to send.
    pub(crate) fn outbox(&self) -> Result<Outbox, Failure> {
        self.require()?;
        let opened = StateDir::open(self.path()?);
        let outbox = opened.and_then(|directory| directory.outbox());
        outbox.map_err(|error| {
            let failure = self.failure("read the outbox of", &error);
            match error {
                StateError::Locked { .. } => failure
                    .in_use()
                    .hint("that process has no control socket, and continues with its messages; end it to see what is left"),
                _ => failure,
            }
        })
    }

    /// The messages that it has handed out more than once and not acknowledged.
    pub(crate) fn inbox(&self) -> Result<Vec<KeptDelivery>, Failure> {
        self.require()?;
        let opened = StateDir::open(self.path()?);
        let inbox = opened.and_then(|directory| directory.inbox());
        inbox.map_err(|error| {
            let failure = self.failure("read the inbox of", &error);
            match error {
                StateError::Locked { .. } => failure
                    .in_use()
                    .hint("that process has no control socket; end it to see what its journal says"),
                _ => failure,
            }
        })
    }

    /// The sessions that its next run can continue.
    pub(crate) fn sessions(&self) -> Result<Vec<KeptSession>, Failure> {
        self.require()?;
        let opened = StateDir::open(self.path()?);
        let sessions = opened.and_then(|directory| directory.sessions());
        sessions.map_err(|error| {
            let failure = self.failure("read the sessions of", &error);
            match error {
                StateError::Locked { .. } => failure
                    .in_use()
                    .hint("that process has its sessions; end it to see what its journal says"),
                _ => failure,
            }
        })
    }

    /// The id of a stored identity, even if the rest of it is damaged. Nothing is locked or repaired.
    pub(crate) fn look(&self) -> Result<NodeId, Failure> {
        let secret = StateDir::peek(self.path()?).map_err(|e| self.failure("open", &e))?;
        Ok(SecretKey::from_bytes(*secret).node_id())
    }

    /// The key of a stored identity.
    pub(crate) fn key(&self) -> Result<SecretKey, Failure> {
        let secret = StateDir::peek(self.path()?).map_err(|e| self.failure("open", &e))?;
        Ok(SecretKey::from_bytes(*secret))
    }

    /// The current stay of a stored identity at this place.
    pub(crate) fn term(&self) -> Result<Term, Failure> {
        StateDir::peek_term(self.path()?).map_err(|e| self.failure("open", &e))
    }

    /// Whether the identity has arrived here, and no command has greeted its peers yet.
    pub(crate) fn has_arrived(&self) -> bool {
        self.path().is_ok_and(|path| state::has_arrived(path).unwrap_or(false))
    }

    /// Removes the note of the arrival: a command has greeted the peers, and others reach the identity.
    pub(crate) fn forget_arrival(&self) {
        if let Ok(path) = self.path() {
            // If this fails, the next run greets the peers once more.
            let _ = state::forget_arrival(path);
        }
    }

    /// The directory of a stored identity.
    pub(crate) fn place(&self) -> Result<&Path, Failure> {
        self.path()
    }

    /// Whether the identity outlives this process.
    pub(crate) fn is_stored(&self) -> bool {
        matches!(self, Self::Stored { .. })
    }

    /// The options that name it on a command line, each with a blank before it.
    pub(crate) fn options(&self) -> String {
        let Self::Stored { name, path } = self else { return String::new() };
        format!(" --as {name}{}", place(name, path))
    }

    /// Whether anything of it is stored. Fails if that cannot be told.
    pub(crate) fn is_there(&self) -> Result<bool, Failure> {
        match self {
            Self::Stored { path, .. } => exists(path),
            Self::Ephemeral => Ok(false),
        }
    }

    /// Fails if there is no such identity: a mistyped name must not silently create a new one.
    pub(crate) fn require(&self) -> Result<(), Failure> {
        match self {
            Self::Stored { name, path } if !exists(path)? => {
                let failure = Failure::new(format!("there is no identity {name} in {}", path.display()));
                Err(failure.hint(format!("to create it: exon id {name} --new{}", place(name, path))))
            }
            // A node that starts here would create a new key, and so have another id.
            Self::Stored { name, path } if !is_present(path, "key")? => {
                let failure =
                    Failure::new(format!("the key of identity {name} is missing in {}", path.display()));
                Err(failure.hint("put it back from a backup; or move the directory away, and create a new identity with an id of its own"))
            }
            Self::Ephemeral | Self::Stored { .. } => Ok(()),
        }
    }

    /// Gives a node this identity.
    pub(crate) fn apply(&self, builder: Builder) -> Result<Builder, Failure> {
        self.require()?;
        Ok(match self {
            Self::Ephemeral => builder.ephemeral(),
            Self::Stored { path, .. } => builder.state_dir(path),
        })
    }

    fn path(&self) -> Result<&Path, Failure> {
        match self {
            Self::Stored { path, .. } => Ok(path),
            Self::Ephemeral => Err(Failure::new("a temporary identity is not stored")),
        }
    }

    fn failure(&self, doing: &str, error: &dyn std::error::Error) -> Failure {
        Failure::new(format!("cannot {doing} identity {self}")).because(error)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ephemeral => f.write_str("ephemeral"),
            Self::Stored { name, .. } => f.write_str(name),
        }
    }
}

/// The option for the directory of an identity, with a leading blank, if it is not the default for its name.
fn place(name: &str, path: &Path) -> String {
    let usual = StateDir::named(name).is_ok_and(|usual| usual == *path);
    if usual { String::new() } else { format!(" --state {}", quoted(path)) }
}

/// The path, quoted for a shell as one word.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+:=@%,".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Whether there are files of an identity in `path`. A damaged identity counts; opening it reports the damage. Fails
/// if that cannot be told.
fn exists(path: &Path) -> Result<bool, Failure> {
    Ok(is_present(path, "key")? || is_present(path, "clock")?)
}

fn is_present(path: &Path, file: &str) -> Result<bool, Failure> {
    let path = path.join(file);
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        // No identity is below a file that is no directory.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(false)
        }
        Err(error) => Err(Failure::path("read", &path, &error)),
    }
}

/// A secret from the system's generator.
pub(crate) fn fresh_secret() -> Result<Zeroizing<[u8; 32]>, Failure> {
    let mut secret = Zeroizing::new([0; 32]);
    OsRng
        .try_fill_bytes(secret.as_mut())
        .map_err(|e| Failure::new("the system gives no random numbers").because(&e))?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_stored_unless_asked() {
        let identity = Identity::new(None, None).unwrap();
        assert_eq!(identity, Identity::Ephemeral);
        assert!(!identity.ensure().unwrap());
    }

    #[test]
    fn a_directory_overrides_the_place_of_a_name() {
        let identity = Identity::new(Some("x"), Some(Path::new("/some/where"))).unwrap();
        assert_eq!(identity.path().unwrap(), Path::new("/some/where"));
    }

    #[test]
    fn a_missing_identity_is_not_made_in_passing() {
        let place = tempfile::tempdir().unwrap();
        let identity = Identity::new(Some("typo"), Some(&place.path().join("typo"))).unwrap();
        let text = identity.require().err().unwrap().to_string();
        assert!(text.contains("exon id typo --new"), "{text}");
        assert!(!place.path().join("typo").exists());
    }
}
