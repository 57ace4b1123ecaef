//! Names that a peer may give a file here.

use std::fmt;
use std::path::{Path, PathBuf};

use exonet::{MessageId, NodeId};

/// The longest name that common file systems accept, in bytes.
const LONGEST: usize = 255;
/// The longest path, in bytes, and the maximum number of its components.
const LONGEST_PATH: usize = 4_096;
const DEEPEST: usize = 128;

/// The suffix of the name of a stored message.
const MESSAGE: &str = ".msg";

/// The prefix of files of this program: unfinished files and their journals.
pub(super) const OURS: &str = ".exon-";

/// Names that mean a device on some system, with any extension.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// The names that are accepted in addition to those that are harmless everywhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    /// Accepts top-level names that begin with a dot. Below a directory such names are always accepted.
    pub(crate) hidden: bool,
    /// Accepts only names that are valid on every system.
    pub(crate) portable: bool,
}

/// A path below the directory of the store, of ordinary components. As text, its components are separated by `/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SafePath(String);

/// The reason why a name is refused. The text has the name as received: a caller that prints it has to escape it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    #[error("it has no name")]
    Empty,
    #[error("its name has {0} bytes, more than {LONGEST}")]
    TooLong(usize),
    #[error("its path has more than {LONGEST_PATH} bytes or {DEEPEST} components")]
    PathTooLong,
    #[error("its name leads out of the receiver's directory: {0}")]
    Path(String),
    #[error("its name contains invisible characters: {0}")]
    Hidden(String),
    #[error("its name begins with a dot: {0}; the receiver can allow that with --hidden")]
    Dot(String),
    #[error("its name is reserved for unfinished files: {0}")]
    Ours(String),
    #[error("its name is reserved for messages")]
    Message,
    #[error("its name means something else on some systems: {0}")]
    Reserved(String),
}

impl SafePath {
    /// Checks a path that was received over the network.
    pub(crate) fn new(path: &str, names: Names) -> Result<Self, NameError> {
        if path.len() > LONGEST_PATH || path.split('/').count() > DEEPEST {
            return Err(NameError::PathTooLong);
        }
        for (depth, name) in path.split('/').enumerate() {
            check(name, names).map_err(|error| match error {
                // A path with an empty component is absolute, ends with `/`, or contains `//`.
                NameError::Empty if path.len() > 1 => NameError::Path(path.to_owned()),
                error => error,
            })?;
            if depth == 0 && name.to_ascii_lowercase().starts_with(OURS) {
                return Err(NameError::Ours(name.to_owned()));
            }
            // Otherwise, a peer could occupy the name of a message that another peer is about to send.
            if depth == 0 && is_of_message(name) {
                return Err(NameError::Message);
            }
            if depth == 0 && name.starts_with('.') && !names.hidden {
                return Err(NameError::Dot(name.to_owned()));
            }
        }
        Ok(Self(path.to_owned()))
    }

    /// The name that a message is stored under.
    pub(crate) fn of_message(id: MessageId) -> Self {
        Self(format!("{}-{}-{}{MESSAGE}", id.sender, id.r.0, id.s.0))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Its components, outermost first.
    pub(crate) fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// The path below `directory`.
    pub(super) fn below(&self, directory: &Path) -> PathBuf {
        self.0.split('/').fold(directory.to_owned(), |path, name| path.join(name))
    }

    /// The directories above it, outermost first.
    pub(super) fn ancestors(&self) -> impl Iterator<Item = Self> + '_ {
        self.0.match_indices('/').map(|(at, _)| Self(self.0.get(..at).unwrap_or_default().to_owned()))
    }
}

impl fmt::Display for SafePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Checks one component.
fn check(name: &str, names: Names) -> Result<(), NameError> {
    let shown = || name.to_owned();
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > LONGEST {
        return Err(NameError::TooLong(name.len()));
    }
    // On some systems a backslash separates components.
    if name == "." || name == ".." || name.contains('/') || names.portable && name.contains('\\') {
        return Err(NameError::Path(shown()));
    }
    if name.chars().any(crate::text::is_hidden) {
        return Err(NameError::Hidden(shown()));
    }
    if names.portable && is_reserved(name) {
        return Err(NameError::Reserved(shown()));
    }
    Ok(())
}

fn is_of_message(name: &str) -> bool {
    let mut parts = name.strip_suffix(MESSAGE).unwrap_or_default().splitn(2, '-');
    parts.next().is_some_and(|id| id.parse::<NodeId>().is_ok())
}

fn is_reserved(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    let numbered = ["com", "lpt"].iter().any(|device| {
        stem.strip_prefix(device).is_some_and(|rest| {
            let mut rest = rest.chars();
            matches!(rest.next(), Some('0'..='9' | '¹' | '²' | '³')) && rest.next().is_none()
        })
    });
    numbered
        || DEVICES.contains(&stem.as_str())
        || name.contains(['<', '>', ':', '"', '|', '?', '*'])
        // Some systems silently cut these off, so that the name would mean another file.
        || name.ends_with(['.', ' '])
        || name.starts_with(' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Component;

    const EVERYWHERE: Names = Names { hidden: false, portable: true };
    const HERE: Names = Names { hidden: false, portable: false };

    #[test]
    fn ordinary_names_pass() {
        for name in [
            "a",
            "photo 1.jpg",
            "archive.tar.gz",
            "résumé.pdf",
            "console.log",
            "com10",
            "-rf",
            "a..b",
            "nullable",
            "a/b",
            "a/.gitignore",
        ] {
            assert!(SafePath::new(name, EVERYWHERE).is_ok(), "{name}");
        }
    }

    #[test]
    fn tricks_do_not() {
        let tricks = [
            "",
            ".",
            "..",
            "/",
            "/etc/passwd",
            "../x",
            "a/../b",
            "a/..",
            "a//b",
            "a/",
            "a/./b",
            ".bashrc",
            ".ssh/authorized_keys",
            ".exon-1.part",
            ".EXON-1.part",
            "a\0b",
            "a\nb",
            "\u{1b}[2J",
            "gnp.\u{202e}exe",
        ];
        for name in tricks {
            assert!(SafePath::new(name, HERE).is_err(), "{name:?}");
        }
        let hidden = Names { hidden: true, portable: false };
        for name in tricks.iter().filter(|name| ![".bashrc", ".ssh/authorized_keys"].contains(name)) {
            assert!(SafePath::new(name, hidden).is_err(), "{name:?}");
        }
        assert!(SafePath::new(".bashrc", hidden).is_ok());
        assert!(SafePath::new(&"x".repeat(255), HERE).is_ok());
        assert!(SafePath::new(&"x".repeat(256), HERE).is_err());
        assert!(SafePath::new(&["x"; 128].join("/"), HERE).is_ok());
        assert!(SafePath::new(&["x"; 129].join("/"), HERE).is_err());
        assert!(SafePath::new(&vec!["x".repeat(250); 17].join("/"), HERE).is_err());
    }

    #[test]
    fn what_is_strange_elsewhere_can_be_taken_here() {
        for name in [
            "C:x",
            "a:stream",
            "nul",
            "NUL.txt",
            "con",
            "com1",
            "LPT9.log",
            "com¹",
            "trailing.",
            "trailing ",
            " leading",
            "what?",
            "*",
            "nul .txt",
            "dir/nul",
            "a\\b",
        ] {
            assert!(SafePath::new(name, HERE).is_ok(), "{name:?}");
            assert!(SafePath::new(name, EVERYWHERE).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_file_cannot_take_the_place_of_a_message() {
        let id =
            MessageId { sender: NodeId([7; 32]), r: exonet_proto::Incarnation(5), s: exonet_proto::Slot(6) };
        let name = SafePath::of_message(id);
        assert_eq!(SafePath::new(name.as_str(), HERE), Err(NameError::Message));
        assert!(SafePath::new("letter-5-6.msg", HERE).is_ok());
    }

    #[test]
    fn ancestors_come_outermost_first() {
        let path = SafePath::new("a/b/c", HERE).unwrap();
        let ancestors: Vec<_> = path.ancestors().map(|path| path.to_string()).collect();
        assert_eq!(ancestors, ["a", "a/b"]);
    }

    proptest! {
        #[test]
        fn what_passes_stays_in_its_directory(path in "\\PC{0,40}|[./\\\\a-c]{0,12}") {
            if let Ok(path) = SafePath::new(&path, HERE) {
                let below = path.below(Path::new("store"));
                let rest = below.strip_prefix("store").unwrap();
                prop_assert!(rest.components().all(|part| matches!(part, Component::Normal(_))));
                prop_assert_eq!(rest.components().count(), path.as_str().split('/').count());
            }
        }
    }
}
