//! Names that a peer may give a file here.

use std::fmt;

use exonet::{MessageId, NodeId};

/// The longest that common file systems take, in bytes.
const LONGEST: usize = 255;

/// How the name of a stored message ends.
const MESSAGE: &str = ".msg";

/// Names that mean a device on some system, with any extension.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// A single, visible, ordinary component of a path, on every system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SafeName(String);

/// Why a name is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    #[error("the file has no name")]
    Empty,
    #[error("its name has {0} bytes, more than {LONGEST}")]
    TooLong(usize),
    #[error("its name is a path: {0}")]
    Path(String),
    #[error("its name contains characters that cannot be seen: {0}")]
    Hidden(String),
    #[error("its name begins with a dot: {0}")]
    Dot(String),
    #[error("its name is one under which messages are stored")]
    Message,
    #[error("its name means something else on some systems: {0}")]
    Reserved(String),
}

impl SafeName {
    /// Checks a name that came over the network.
    pub(crate) fn new(name: &str) -> Result<Self, NameError> {
        let shown = || crate::text::escape(name.as_bytes());
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if name.len() > LONGEST {
            return Err(NameError::TooLong(name.len()));
        }
        if name == "." || name == ".." || name.contains(['/', '\\']) {
            return Err(NameError::Path(shown()));
        }
        if name.chars().any(crate::text::is_hidden) {
            return Err(NameError::Hidden(shown()));
        }
        // Hidden files configure things, and our own unfinished files are among them.
        if name.starts_with('.') {
            return Err(NameError::Dot(shown()));
        }
        if is_reserved(name) {
            return Err(NameError::Reserved(shown()));
        }
        Ok(Self(name.to_owned()))
    }

    /// The name that a message is stored under.
    pub(crate) fn of_message(id: MessageId) -> Result<Self, NameError> {
        Self::new(&format!("{}-{}-{}{MESSAGE}", id.sender, id.r.0, id.s.0))
    }

    /// As [`Self::new`], for a name that a peer chose. Those of messages are not for files: a peer could take the place of
    /// a message that another one is about to send.
    pub(crate) fn of_file(name: &str) -> Result<Self, NameError> {
        let mut parts = name.strip_suffix(MESSAGE).unwrap_or_default().splitn(2, '-');
        if parts.next().is_some_and(|id| id.parse::<NodeId>().is_ok()) {
            return Err(NameError::Message);
        }
        Self::new(name)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SafeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
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
        // Cut off silently by some systems, so that another file would be meant.
        || name.ends_with(['.', ' '])
        || name.starts_with(' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::{Component, Path};

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
        ] {
            assert!(SafeName::new(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn tricks_do_not() {
        for name in [
            "",
            ".",
            "..",
            "/etc/passwd",
            "../x",
            "a/b",
            "a\\b",
            "..\\x",
            "C:\\x",
            "C:x",
            "a:stream",
            ".bashrc",
            ".exon-1.part",
            "nul",
            "NUL.txt",
            "con",
            "com1",
            "LPT9.log",
            "com¹",
            "a\0b",
            "a\nb",
            "\u{1b}[2J",
            "gnp.\u{202e}exe",
            "trailing.",
            "trailing ",
            " leading",
            "what?",
            "*",
            "nul .txt",
        ] {
            assert!(SafeName::new(name).is_err(), "{name:?}");
        }
        assert!(SafeName::new(&"x".repeat(255)).is_ok());
        assert!(SafeName::new(&"x".repeat(256)).is_err());
    }

    #[test]
    fn a_file_cannot_take_the_place_of_a_message() {
        let id =
            MessageId { sender: NodeId([7; 32]), r: exonet_proto::Incarnation(5), s: exonet_proto::Slot(6) };
        let name = SafeName::of_message(id).unwrap();
        assert_eq!(SafeName::of_file(name.as_str()), Err(NameError::Message));
        assert!(SafeName::of_file("letter-5-6.msg").is_ok());
    }

    proptest! {
        #[test]
        fn what_passes_stays_in_its_directory(name in "\\PC{0,40}|[./\\\\a-c]{0,12}") {
            if let Ok(name) = SafeName::new(&name) {
                let parts: Vec<_> = Path::new(name.as_str()).components().collect();
                prop_assert!(matches!(parts[..], [Component::Normal(part)] if part == name.as_str()));
            }
        }
    }
}
