//! The shared files: finds a file in a directory, hashes it once, and reads it piece by piece.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::part::{MAP, PART};
use super::place::{Kind, Place};
use super::{Info, LARGEST, Listed, Listing, MOST_LISTED, Outline, Shape, VERSION, status};
use crate::copy::Hex32;
use crate::store::{NameError, Names, SafePath, read_at};
use crate::text::escape;
use crate::units::Size;

/// The limits of the memory for outlines, in bytes of hashes and in files.
const MOST_WEIGHT: usize = 256 << 20;
const MOST_KNOWN: usize = 4_096;
/// The maximum length of the names in one page of a listing, in bytes, so that the page fits into an answer.
const PAGE: usize = 256 << 10;
/// The prefix of unfinished files of this program.
const OURS: &str = ".exon-";

/// The reason why a question is refused. People and the peer see it, so it reveals nothing of this machine but the
/// shared files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// The file does not exist, or is not accessible to others. The error does not tell which.
    #[error("no file of this name is shared here")]
    NotShared,
    #[error("the file has changed: BLAKE3 of its content is now {0}")]
    Changed(Hex32),
    #[error("the file is being changed")]
    Changing,
    #[error("the file has more than {}", Size(LARGEST))]
    TooLarge,
    #[error("the file cannot be read: {0}")]
    Unreadable(io::ErrorKind),
    #[error("the file has no such piece")]
    NoPiece,
}

impl Refused {
    /// The status in the protocol. None: the question is invalid.
    pub(crate) fn status(&self) -> Option<u32> {
        match self {
            Self::NotShared => Some(status::NOT_SHARED),
            Self::Changed(_) | Self::Changing => Some(status::CHANGED),
            Self::TooLarge | Self::Unreadable(_) => Some(status::UNREADABLE),
            Self::NoPiece => None,
        }
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::NotShared,
            // The path has a link, which is not followed.
            #[cfg(unix)]
            _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => Self::NotShared,
            #[cfg(unix)]
            _ if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => Self::NotShared,
            io::ErrorKind::UnexpectedEof => Self::Changing,
            kind => Self::Unreadable(kind),
        }
    }
}

/// Identifies a state of a file without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: Option<SystemTime>,
    /// The identity of the file, and the time of the last change of its metadata.
    #[cfg(unix)]
    identity: (u64, u64, i64, i64),
}

impl Stamp {
    fn of(about: &Metadata) -> Self {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt;
        Self {
            size: about.len(),
            modified: about.modified().ok(),
            #[cfg(unix)]
            identity: (about.dev(), about.ino(), about.ctime(), about.ctime_nsec()),
        }
    }
}

/// The maximum number of names that are reported as not shared.
const MOST_ODD: usize = 64;

/// The outline of a file, and its stamp when it was read.
#[derive(Clone, Debug)]
struct Known {
    stamp: Stamp,
    shape: Shape,
    outline: Arc<Outline>,
}

/// The known state of one file. It is locked while the file is read, so that concurrent questions read it only once.
type Cell = Arc<Mutex<Option<Known>>>;

#[derive(Debug)]
struct Entry {
    cell: Cell,
    weight: usize,
    /// The time of the last use, counted in questions.
    used: u64,
}

#[derive(Debug, Default)]
struct Memory {
    entries: BTreeMap<String, Entry>,
    questions: u64,
}

impl Memory {
    fn cell(&mut self, name: &str) -> Cell {
        self.questions += 1;
        let used = self.questions;
        let new = || Entry { cell: Cell::default(), weight: 0, used };
        let entry = self.entries.entry(name.to_owned()).or_insert_with(new);
        entry.used = used;
        Arc::clone(&entry.cell)
    }

    /// Forgets the least recently used files, until the rest is within the limits.
    fn weigh(&mut self, name: &str, weight: usize) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.weight = weight;
        }
        while self.entries.len() > MOST_KNOWN
            || self.entries.values().map(|entry| entry.weight).sum::<usize>() > MOST_WEIGHT
        {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(name, _)| name.clone()) else { return };
            self.entries.remove(&oldest);
        }
    }
}

/// A directory whose files others read. All functions here block.
#[derive(Debug)]
pub(crate) struct Shelf {
    place: Place,
    /// Names that begin with a dot are shared as well.
    hidden: bool,
    memory: Mutex<Memory>,
    /// Names that were reported as not shared.
    odd: Mutex<BTreeSet<String>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shelf {
    /// # Errors
    /// The directory cannot be opened.
    pub(crate) fn open(directory: &Path, hidden: bool) -> io::Result<Self> {
        let place = Place::open(directory)?;
        place.entries(&[])?;
        Ok(Self { place, hidden, memory: Mutex::default(), odd: Mutex::default() })
    }

    /// The size and the hash of a file. Reads the file in full, unless it was read before and has not changed.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn info(&self, name: &str) -> Result<Info, Refused> {
        let (_, Known { shape, outline, .. }) = self.look(name)?;
        Ok(Info { v: VERSION, size: shape.size, piece: shape.piece, root: outline.root() })
    }

    /// A piece of the file with this hash: the hashes that prove it, and its data.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn piece(&self, name: &str, root: &Hex32, index: u32) -> Result<Vec<u8>, Refused> {
        let (file, Known { shape, outline, .. }) = self.look(name)?;
        if outline.root() != *root {
            return Err(Refused::Changed(outline.root()));
        }
        if index >= shape.pieces() {
            return Err(Refused::NoPiece);
        }
        let mut reply: Vec<u8> = outline.siblings(index).flatten().copied().collect();
        let from = reply.len();
        reply.resize(from + shape.len(index) as usize, 0);
        let data = reply.get_mut(from..).unwrap_or_default();
        let read = read_at(&file, data, shape.at(index))?;
        // The file may have changed without a change of its time, so the content is checked.
        if read < data.len() || !outline.is_piece(shape.at(index), index, data) {
            *locked(&self.cell(name)) = None;
            return Err(Refused::Changing);
        }
        Ok(reply)
    }

    fn cell(&self, name: &str) -> Cell {
        locked(&self.memory).cell(name)
    }

    /// Opens a file, and returns it with its known state.
    fn look(&self, name: &str) -> Result<(File, Known), Refused> {
        let path = self.path(name).ok_or(Refused::NotShared)?;
        let path: Vec<&str> = path.components().collect();
        if self.is_unfinished(&path) {
            return Err(Refused::NotShared);
        }
        let file = self.place.file(&path)?;
        let cell = self.cell(name);
        let mut known = locked(&cell);
        let stamp = Stamp::of(&file.metadata()?);
        if let Some(known) = known.as_ref().filter(|known| known.stamp == stamp) {
            return Ok((file, known.clone()));
        }
        let shape = Shape::new(stamp.size).ok_or(Refused::TooLarge)?;
        let outline = Arc::new(Outline::read(&file, shape)?);
        if Stamp::of(&file.metadata()?) != stamp {
            return Err(Refused::Changing);
        }
        let found = Known { stamp, shape, outline };
        *known = Some(found.clone());
        drop(known);
        locked(&self.memory).weigh(name, found.outline.weight());
        Ok((file, found))
    }

    /// Parses a name, if a file of this name may be shared.
    fn path(&self, name: &str) -> Option<SafePath> {
        let names = Names { hidden: self.hidden, portable: cfg!(not(unix)) };
        let path = SafePath::new(name, names).ok()?;
        let shared = path.components().all(|name| self.may_be_shared(name));
        shared.then_some(path)
    }

    /// Warns of a name that no receiver takes, once.
    fn warn_of(&self, name: &str) {
        let names = Names { hidden: true, portable: cfg!(not(unix)) };
        let Err(NameError::Hidden(_)) = SafePath::new(name, names) else { return };
        let mut odd = locked(&self.odd);
        if odd.len() < MOST_ODD && odd.insert(name.to_owned()) {
            tracing::warn!(
                "not shared, since its name contains invisible characters: {}",
                escape(name.as_bytes())
            );
        }
    }

    fn may_be_shared(&self, name: &str) -> bool {
        (self.hidden || !name.starts_with('.')) && !name.starts_with(OURS)
    }

    /// Whether the path is an unfinished file of `exon get`, or the map of one.
    fn is_unfinished(&self, path: &[&str]) -> bool {
        let Some((name, above)) = path.split_last() else { return false };
        let has_map = || {
            let map = format!("{name}{MAP}");
            self.place.file(&[above, &[map.as_str()]].concat()).is_ok()
        };
        name.ends_with(&format!("{PART}{MAP}")) || name.ends_with(PART) && has_map()
    }

    /// A page of the shared files after the name `after`, in the order of the components of names.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn list(&self, after: &str) -> Result<Listing, Refused> {
        let mut listing = Listing { v: VERSION, files: Vec::new(), more: false };
        let after: Vec<&str> = if after.is_empty() { Vec::new() } else { after.split('/').collect() };
        self.walk("", &after, &mut listing, &mut 0)?;
        Ok(listing)
    }

    /// Adds the files below a directory, until the page is full.
    fn walk(
        &self,
        directory: &str,
        after: &[&str],
        listing: &mut Listing,
        bytes: &mut usize,
    ) -> Result<(), Refused> {
        let path: Vec<&str> = directory.split('/').filter(|name| !name.is_empty()).collect();
        for (entry, kind) in self.place.entries(&path)? {
            let behind = match after.split_first() {
                Some((first, _)) if entry.as_str() < *first => continue,
                Some((first, rest)) if entry == *first => rest,
                _ => &[],
            };
            let name = if directory.is_empty() { entry.clone() } else { format!("{directory}/{entry}") };
            self.warn_of(&entry);
            if listing.more || self.path(&name).is_none() {
                continue;
            }
            match kind {
                // A directory that cannot be read, or is gone by now, shares nothing.
                Kind::Directory => drop(self.walk(&name, behind, listing, bytes)),
                Kind::File(_) if after.first().is_some_and(|first| entry == *first) => {}
                Kind::File(_) if self.is_unfinished(&[&path[..], &[&entry]].concat()) => {}
                Kind::File(_) if listing.files.len() >= MOST_LISTED || *bytes > PAGE => listing.more = true,
                Kind::File(size) => {
                    *bytes += name.len();
                    listing.files.push(Listed { name, size });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::proven;
    use super::*;

    struct Shared {
        directory: tempfile::TempDir,
        shelf: Shelf,
    }

    impl Shared {
        fn new(files: &[(&str, &[u8])], hidden: bool) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().join("shared");
            fs::create_dir(&root).unwrap();
            for (name, content) in files {
                let path = root.join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content).unwrap();
            }
            let shelf = Shelf::open(&root, hidden).unwrap();
            Self { directory, shelf }
        }

        fn path(&self, name: &str) -> std::path::PathBuf {
            self.directory.path().join("shared").join(name)
        }

        fn names(&self) -> Vec<String> {
            let (mut names, mut after) = (Vec::new(), String::new());
            loop {
                let page = self.shelf.list(&after).unwrap();
                names.extend(page.files.into_iter().map(|file| file.name));
                if !page.more {
                    return names;
                }
                after = names.last().unwrap().clone();
            }
        }
    }

    fn content() -> Vec<u8> {
        (0..(600_u32 << 10)).map(|at| u8::try_from(at / 7 % 253).unwrap()).collect()
    }

    #[test]
    fn a_file_is_served_in_pieces_that_prove_themselves() {
        let content = content();
        let shared = Shared::new(&[("d/e/file", &content)], false);
        let info = shared.shelf.info("d/e/file").unwrap();
        assert_eq!(info.root, Hex32(blake3::hash(&content).into()));
        let shape = info.shape().unwrap();
        let mut whole = Vec::new();
        for index in 0..shape.pieces() {
            let reply = shared.shelf.piece("d/e/file", &info.root, index).unwrap();
            whole.extend_from_slice(proven(&info.root, shape, index, &reply).unwrap().0);
        }
        assert!(whole == content);
        assert_eq!(shared.shelf.piece("d/e/file", &info.root, 3), Err(Refused::NoPiece));
        assert_eq!(Refused::NoPiece.status(), None);
    }

    #[test]
    fn an_empty_file_has_a_hash_and_no_pieces() {
        let shared = Shared::new(&[("file", b"")], false);
        let info = shared.shelf.info("file").unwrap();
        assert_eq!((info.size, info.root), (0, Hex32(blake3::hash(b"").into())));
        assert_eq!(shared.shelf.piece("file", &info.root, 0), Err(Refused::NoPiece));
    }

    #[test]
    fn a_file_that_changes_is_found_out() {
        let mut content = content();
        let shared = Shared::new(&[("file", &content)], false);
        let info = shared.shelf.info("file").unwrap();
        // Another file takes its place.
        content[0] ^= 1;
        fs::write(shared.path("new"), &content).unwrap();
        fs::rename(shared.path("new"), shared.path("file")).unwrap();
        let now = Hex32(blake3::hash(&content).into());
        assert_eq!(shared.shelf.piece("file", &info.root, 1), Err(Refused::Changed(now)));
        assert_eq!(shared.shelf.info("file").unwrap().root, now);
        // The file becomes shorter, and then longer.
        for size in [1_000, 1_000_000] {
            fs::File::options().write(true).open(shared.path("file")).unwrap().set_len(size).unwrap();
            assert!(matches!(shared.shelf.piece("file", &now, 0), Err(Refused::Changed(_))));
        }
    }

    #[test]
    fn a_change_that_leaves_no_trace_but_the_content_is_found_too() {
        let content = content();
        let shared = Shared::new(&[("file", &content)], false);
        let info = shared.shelf.info("file").unwrap();
        // As if the clock of the file system were too coarse to show it.
        let wrong: Arc<Outline> = {
            let mut other = content;
            other[300_000] ^= 1;
            fs::write(shared.path("other"), &other).unwrap();
            let file = File::open(shared.path("other")).unwrap();
            Arc::new(Outline::read(&file, info.shape().unwrap()).unwrap())
        };
        let cell = shared.shelf.cell("file");
        let stale = wrong.root();
        locked(&cell).as_mut().unwrap().outline = wrong;
        assert!(shared.shelf.piece("file", &stale, 0).is_ok());
        assert_eq!(shared.shelf.piece("file", &stale, 1), Err(Refused::Changing));
        // The known state of the file is forgotten.
        assert_eq!(shared.shelf.piece("file", &stale, 1), Err(Refused::Changed(info.root)));
    }

    #[cfg(unix)]
    #[test]
    fn nothing_leads_out_of_the_directory() {
        use std::os::unix::fs::symlink;
        let shared = Shared::new(&[("file", b"shared"), ("d/file", b"shared")], false);
        let outside = shared.directory.path().join("secret");
        fs::create_dir(shared.directory.path().join("beside")).unwrap();
        fs::write(&outside, b"secret").unwrap();
        fs::write(shared.directory.path().join("beside/secret"), b"secret").unwrap();
        symlink(&outside, shared.path("link")).unwrap();
        symlink("../beside", shared.path("dir")).unwrap();
        symlink("../../beside", shared.path("d/up")).unwrap();
        // A link is not followed even if it stays inside.
        symlink("file", shared.path("inside")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            shared.path("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let absolute = outside.display().to_string();
        for name in [
            "../secret",
            "d/../../secret",
            "link",
            "dir/secret",
            "d/up/secret",
            "inside",
            "pipe",
            "d",
            "",
            ".",
            "..",
            "/file",
            "d//file",
            "d/",
            "missing",
            "file/x",
            &absolute,
            "file\0",
            "d\\..\\file",
        ] {
            let refused = shared.shelf.info(name).unwrap_err();
            // A file that is not shared looks like one that does not exist.
            assert_eq!(refused, Refused::NotShared, "{name:?}");
            let root = Hex32(blake3::hash(b"secret").into());
            assert_eq!(shared.shelf.piece(name, &root, 0), Err(Refused::NotShared), "{name:?}");
        }
        assert_eq!(shared.names(), ["d/file", "file"]);
    }

    #[test]
    fn hidden_and_unfinished_files_are_not_shared() {
        let files: &[(&str, &[u8])] = &[
            ("a", b""),
            (".env", b""),
            (".git/config", b""),
            ("d/.key", b""),
            ("film.part", b""),
            ("film.part.map", b""),
            ("book.part", b""),
            (".exon-0.part", b""),
        ];
        let shared = Shared::new(files, false);
        assert_eq!(shared.names(), ["a", "book.part"]);
        for name in [".env", ".git/config", "d/.key", "film.part", "film.part.map", ".exon-0.part"] {
            assert_eq!(shared.shelf.info(name), Err(Refused::NotShared), "{name}");
        }
        let shared = Shared::new(files, true);
        assert_eq!(shared.names(), [".env", ".git/config", "a", "book.part", "d/.key"]);
        assert!(shared.shelf.info(".env").is_ok() && shared.shelf.info(".exon-0.part").is_err());
    }

    #[test]
    fn a_long_listing_comes_in_pages() {
        let names: Vec<String> = (0..1_500).map(|n| format!("d{}/{n:04}", n % 3)).collect();
        let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
        let shared = Shared::new(&[&files[..], &[("d1.txt", &b""[..]), ("a", b"")]].concat(), false);
        let found = shared.names();
        assert_eq!(found.len(), 1_502);
        assert!(shared.shelf.list("").unwrap().more);
        let mut sorted = found.clone();
        sorted.sort_by(|one, other| one.split('/').cmp(other.split('/')));
        sorted.dedup();
        assert_eq!(found, sorted);
    }

    #[test]
    fn memory_is_bounded() {
        let mut memory = Memory::default();
        for n in 0..10 {
            let name = n.to_string();
            memory.cell(&name);
            memory.weigh(&name, MOST_WEIGHT / 4);
        }
        let left: Vec<_> = memory.entries.keys().cloned().collect();
        assert_eq!(left, ["6", "7", "8", "9"]);
    }
}
