//! Names for peers, in a text file beside the identities.
//!
//! ```text
//! # everything after a number sign is a comment
//! lab  wyh5...@192.0.2.7:3966,lab.example:3966
//! ```
//!
//! People may edit it. `exon peer` changes only the line of the peer in question, and replaces the old file once the
//! new one is complete and on the disk.

mod explain;
mod services;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use exonet::state::StateDir;
use exonet::{NodeId, PeerAddr};

use crate::failure::Failure;
use crate::store::sync_directory;

pub(crate) use services::{Names, Wanted, check_service, services};

/// The name of the file, in the directory of the identities. No identity has this name.
pub(crate) const FILE: &str = "peers";
/// The longest name. An id has 56 characters, so no id can be mistaken for a name.
const LONGEST_NAME: usize = 32;
/// The longest file.
const LONGEST_FILE: u64 = 16 << 20;

/// The error for a text that is not a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PeerError {
    #[error("no peer is called {name:?}{}: `exon peer list` shows the names, `exon peer add {name} ID@HOST:PORT` adds one", there_is(.similar.as_deref()))]
    NoSuchName { name: String, similar: Option<String> },
    #[error("{0}")]
    Book(String),
    #[error("{0}")]
    Address(String),
}

fn there_is(name: Option<&str>) -> String {
    name.map(|name| format!(" (there is {name:?})")).unwrap_or_default()
}

/// A peer as an argument: a name, or `ID@HOST:PORT`.
pub(crate) fn parse_peer(text: &str) -> Result<PeerAddr, PeerError> {
    if !is_name(text) {
        return parse_unlisted(text);
    }
    let book = Book::open().map_err(|failure| PeerError::Book(failure.to_string()))?;
    match book.get(text) {
        Some(peer) => Ok(peer.clone()),
        None => Err(PeerError::NoSuchName { name: text.to_owned(), similar: book.similar(text) }),
    }
}

/// One of several peers, with the name that distinguishes it: the given name, or the beginning of its id.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) peer: PeerAddr,
}

/// As [`parse_peer`], for one of several.
pub(crate) fn parse_named(text: &str) -> Result<Named, PeerError> {
    let peer = parse_peer(text)?;
    let name = if is_name(text) || text.starts_with("name:") { text.to_owned() } else { peer.id.short() };
    Ok(Named { name, peer })
}

/// A node as an argument: a name, an id, or `ID@HOST:PORT`, of which only the id is used.
pub(crate) fn parse_id(text: &str) -> Result<NodeId, PeerError> {
    parse_peer(text).map(|peer| peer.id)
}

/// As [`parse_peer`], without the names of `exon peer`.
pub(crate) fn parse_unlisted(text: &str) -> Result<PeerAddr, PeerError> {
    text.strip_prefix("name:").map_or_else(|| address(text), services::parse)
}

/// `ID@HOST:PORT`, or the id alone.
pub(crate) fn address(text: &str) -> Result<PeerAddr, PeerError> {
    text.parse().map_err(|error| PeerError::Address(explain::address(text, &error)))
}

/// A new name for a peer, as an argument.
pub(crate) fn parse_name(text: &str) -> Result<String, String> {
    if is_name(text) {
        return Ok(text.to_owned());
    }
    Err(format!("a name has 1 to {LONGEST_NAME} of A-Z a-z 0-9 . _ - and begins with a letter or digit"))
}

/// Whether a text is a name. Names are shorter than ids and have no `@`, so no text is both.
fn is_name(text: &str) -> bool {
    text.len() <= LONGEST_NAME
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-'))
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    Peer {
        name: String,
        peer: PeerAddr,
        text: String,
    },
    /// A comment, or an empty line.
    Other(String),
}

/// The names in the file.
#[derive(Debug)]
pub(crate) struct Book {
    path: PathBuf,
    lines: Vec<Line>,
}

impl Book {
    /// Reads the names of the user. Without a file, there are no names.
    pub(crate) fn open() -> Result<Self, Failure> {
        Self::read(directory()?.join(FILE))
    }

    fn read(path: PathBuf) -> Result<Self, Failure> {
        let unreadable = |e: &io::Error| Failure::path("read the names of peers in", &path, e);
        let text = match std::fs::metadata(&path) {
            Ok(about) if about.len() > LONGEST_FILE => {
                return Err(Failure::new(format!(
                    "{} is not a file of names: it is too long",
                    path.display()
                )));
            }
            Ok(_) => std::fs::read_to_string(&path).map_err(|e| unreadable(&e))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(unreadable(&error)),
        };
        let mut lines = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = parse_line(line).map_err(|why| {
                Failure::new(format!("{}:{}: {why}", path.display(), at + 1))
                    .hint("correct the line, or remove it: NAME ID@HOST:PORT, or # and a comment")
            })?;
            lines.push(line);
        }
        let book = Self { path, lines };
        if let Some(name) = book.doubled() {
            let failure = Failure::new(format!("{} has two lines for {name}", book.path.display()));
            return Err(failure.hint("remove one of them"));
        }
        Ok(book)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The peers in the order of their names.
    pub(crate) fn peers(&self) -> Vec<(&str, &PeerAddr)> {
        let mut peers: Vec<_> = self.entries().collect();
        peers.sort_by_key(|(name, _)| *name);
        peers
    }

    pub(crate) fn get(&self, name: &str) -> Option<&PeerAddr> {
        self.entries().find(|(known, _)| *known == name).map(|(_, peer)| peer)
    }

    fn entries(&self) -> impl Iterator<Item = (&str, &PeerAddr)> {
        self.lines.iter().filter_map(|line| match line {
            Line::Peer { name, peer, .. } => Some((name.as_str(), peer)),
            Line::Other(_) => None,
        })
    }

    fn doubled(&self) -> Option<String> {
        let mut seen = std::collections::BTreeSet::new();
        self.entries().find(|(name, _)| !seen.insert(*name)).map(|(name, _)| name.to_owned())
    }

    /// A name that is one typing slip away.
    fn similar(&self, text: &str) -> Option<String> {
        self.entries().map(|(name, _)| name).find(|name| is_one_slip(text, name)).map(str::to_owned)
    }

    /// Changes the names of the user, under a lock. A reader sees either the old file or the new one.
    pub(crate) fn change<T>(change: impl FnOnce(&mut Self) -> Result<T, Failure>) -> Result<T, Failure> {
        let directory = directory()?;
        make(&directory)?;
        let _alone = alone(&directory)?;
        let mut book = Self::open()?;
        let done = change(&mut book)?;
        book.write()?;
        Ok(done)
    }

    /// Gives the peer this name. Returns the peer that had the name before.
    pub(crate) fn put(&mut self, name: &str, peer: PeerAddr) -> Option<PeerAddr> {
        let text = format!("{name}  {peer}");
        let new = Line::Peer { name: name.to_owned(), peer, text };
        for line in &mut self.lines {
            if matches!(line, Line::Peer { name: known, .. } if known == name) {
                let Line::Peer { peer, .. } = std::mem::replace(line, new) else { return None };
                return Some(peer);
            }
        }
        self.lines.push(new);
        None
    }

    /// Removes a name. False: there was none.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let before = self.lines.len();
        self.lines.retain(|line| !matches!(line, Line::Peer { name: known, .. } if known == name));
        self.lines.len() < before
    }

    fn write(&self) -> Result<(), Failure> {
        let failed = |e: &io::Error| Failure::path("write", &self.path, e);
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(directory).map_err(|e| failed(&e))?;
        for line in &self.lines {
            let (Line::Peer { text, .. } | Line::Other(text)) = line;
            writeln!(file, "{text}").map_err(|e| failed(&e))?;
        }
        file.as_file().sync_all().map_err(|e| failed(&e))?;
        file.persist(&self.path).map_err(|e| failed(&e.error))?;
        sync_directory(directory).map_err(|e| failed(&e))
    }
}

fn parse_line(text: &str) -> Result<Line, String> {
    let content = text.split('#').next().unwrap_or_default();
    let mut words = content.split_whitespace();
    let (name, peer, rest) = (words.next(), words.next(), words.next());
    match (name, peer, rest) {
        (None, ..) => Ok(Line::Other(text.to_owned())),
        (Some(name), Some(peer), None) => {
            let name = parse_name(name).map_err(|why| format!("{name:?}: {why}"))?;
            let peer = address(peer).map_err(|e| e.to_string())?;
            Ok(Line::Peer { name, peer, text: text.to_owned() })
        }
        _ => Err("a line is a name and a peer".to_owned()),
    }
}

/// Whether the texts differ by one character that is added, missing or changed, or by two that are swapped.
pub(crate) fn is_one_slip(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let before = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (a.get(before..).unwrap_or_default(), b.get(before..).unwrap_or_default());
    let behind = |text: &[u8], n: usize| text.get(n..).unwrap_or_default().to_vec();
    let swapped = matches!((a, b), ([x, y, ..], [v, w, ..]) if x == w && y == v);
    behind(a, 1) == b
        || a == behind(b, 1)
        || behind(a, 1) == behind(b, 1)
        || (swapped && behind(a, 2) == behind(b, 2))
}

/// The names that the user has for peers, by their ids. Empty if they cannot be read.
pub(crate) fn names(settings: &crate::settings::Settings) -> BTreeMap<String, String> {
    match Book::open() {
        Ok(book) => {
            book.peers().into_iter().map(|(name, peer)| (peer.id.to_string(), name.to_owned())).collect()
        }
        Err(failure) => {
            settings.note(format!("peers are shown by their ids: {failure}"));
            BTreeMap::new()
        }
    }
}

/// The directory of the identities and of the file of names.
pub(crate) fn directory() -> Result<PathBuf, Failure> {
    let any = StateDir::named("default")
        .map_err(|e| Failure::new("there is no place for identities").because(&e))?;
    Ok(any.parent().map(Path::to_owned).unwrap_or(any))
}

fn make(directory: &Path) -> Result<(), Failure> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory).map_err(|e| Failure::path("make", directory, &e))
}

/// Waits for the lock on the file, and holds it until the result is dropped.
#[cfg(unix)]
fn alone(directory: &Path) -> Result<File, Failure> {
    let failed = |e: &io::Error| Failure::path("lock", directory, e);
    let file = File::open(directory).map_err(|e| failed(&e))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).map_err(|e| failed(&e.into()))?;
    Ok(file)
}

/// On other systems a directory cannot be locked, so the last writer wins.
#[cfg(not(unix))]
fn alone(_: &Path) -> Result<Option<File>, Failure> {
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn peer(n: u8) -> PeerAddr {
        format!("{}@127.0.0.1:7", NodeId([n; 32])).parse().unwrap()
    }

    fn book(text: &str) -> Result<Book, Failure> {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(FILE);
        std::fs::write(&path, text).unwrap();
        Book::read(path)
    }

    #[test]
    fn what_people_wrote_stays() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(FILE);
        let text = format!("# mine\n\nlab   {}  # in the cellar\n", peer(1));
        std::fs::write(&path, &text).unwrap();
        let mut book = Book::read(path.clone()).unwrap();
        assert_eq!(book.put("hut", peer(2)), None);
        book.write().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{text}hut  {}\n", peer(2)));
        let mut book = Book::read(path.clone()).unwrap();
        assert_eq!(book.put("lab", peer(3)), Some(peer(1)));
        assert!(book.remove("hut") && !book.remove("hut"));
        book.write().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("# mine\n\nlab  {}\n", peer(3)));
    }

    #[test]
    fn a_line_that_is_wrong_is_named() {
        for (text, named) in [
            ("lab\n", "peers:1: a line is"),
            (&*format!("\n-x {}\n", peer(1)), "peers:2: \"-x\""),
            (&*format!("lab {} more\n", peer(1)), "peers:1"),
            (&*format!("a {}\na {}\n", peer(1), peer(2)), "two lines for a"),
        ] {
            let told = book(text).unwrap_err().to_string();
            assert!(told.contains(named), "{told}");
        }
    }

    #[test]
    fn a_slip_of_the_finger_is_recognised() {
        for (typed, close) in
            [("lba", true), ("la", true), ("labb", true), ("lob", true), ("hut", false), ("l", false)]
        {
            assert_eq!(is_one_slip(typed, "lab"), close, "{typed}");
        }
    }

    proptest! {
        #[test]
        fn no_id_is_a_name(key: [u8; 32]) {
            let id = NodeId(key).to_string();
            prop_assert!(!is_name(&id));
            prop_assert!(parse_id(&id).is_ok());
        }

        #[test]
        fn nothing_in_the_file_upsets_its_reader(text: String) {
            let _ = parse_line(&text);
        }
    }
}
