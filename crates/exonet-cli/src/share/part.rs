//! A file that is being assembled: `NAME.part` beside its final place, and `NAME.part.map`, which records the pieces
//! that are present.
//!
//! ```text
//! header, JSON, one line | a bit for each piece, the least significant of each byte first
//! ```
//!
//! A bit is written when its piece is certainly on the disk. So after a crash of the process or of the machine, the
//! bit of a present piece may be missing, but a bit is never set for a missing piece. Bits only change to 1, so a
//! partial write leaves a valid map.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::Shape;
use crate::copy::{self, ChainingValue, Hex32, chaining_value};
use crate::failure::Failure;
use crate::store::{is_special, read_at, sync_directory, write_at};

const VERSION: u8 = 1;
/// The longest header, in bytes.
const LONGEST_HEADER: u64 = 4_096;
/// The suffixes of the names of both files.
pub(super) const PART: &str = ".part";
pub(super) const MAP: &str = ".map";

/// The first line of the map.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    v: u8,
    root: Hex32,
    size: u64,
    piece: u32,
}

/// The reason why the file cannot be assembled there.
#[derive(Debug)]
pub(crate) enum PartError {
    /// The name is taken.
    Taken,
    /// The name is that of a device, a pipe or a socket, which is never replaced.
    Special,
    /// There is a part of another content.
    Other(Option<Hex32>),
    /// Another process is writing the part.
    #[cfg_attr(not(unix), allow(dead_code, reason = "the part can be locked only on Unix"))]
    Busy,
    /// The data of an earlier run does not match the hash. It has been discarded, and is fetched again by the next
    /// run.
    Damaged,
    Disk(Failure),
}

/// An open part. Any thread may write pieces.
#[derive(Debug)]
pub(crate) struct Part {
    target: PathBuf,
    paths: [PathBuf; 2],
    root: Hex32,
    shape: Shape,
    data: File,
    map: Mutex<Map>,
    /// Pieces that have been written since the last mark.
    fresh: Mutex<Vec<u32>>,
    /// The chaining values of the pieces of this run. None: an earlier run has written the piece, or no run has.
    known: Mutex<Vec<Option<ChainingValue>>>,
}

#[derive(Debug)]
struct Map {
    file: File,
    /// The offset of the bits in the file.
    from: u64,
    bits: Vec<u8>,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The path with a suffix.
fn with(path: &Path, more: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(more);
    name.into()
}

impl Part {
    /// Resumes the part for `target`, or begins a new one. With `force`, replaces anything else that is there.
    ///
    /// # Errors
    /// [`PartError`].
    pub(crate) fn begin(target: &Path, root: Hex32, shape: Shape, force: bool) -> Result<Self, PartError> {
        let part = with(target, PART);
        let paths = [with(&part, MAP), part];
        let [map_at, part_at] = &paths;
        vacant(target, force)?;
        let disk = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| PartError::Disk(Failure::path("write", &path, &error))
        };
        let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
        if is_there(part_at) && !is_there(map_at) && !force {
            return Err(PartError::Other(None));
        }
        let map = open(map_at).map_err(disk(map_at))?;
        lock(&map)?;
        let header = Header { v: VERSION, root, size: shape.size, piece: shape.piece };
        let found = Map::read(&map, shape).map_err(disk(map_at))?;
        let map = match found {
            Some((found, bits)) if found == header && is_there(part_at) => {
                Map { from: line(&header).len() as u64, file: map, bits }
            }
            Some((found, _)) if found != header && !force => return Err(PartError::Other(Some(found.root))),
            None if is_there(part_at) && !force => return Err(PartError::Other(None)),
            _ => {
                // The data is removed first: otherwise the bits of another file could be taken for those of this one.
                match fs::remove_file(part_at) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(disk(part_at)(error));
                    }
                    _ => {}
                }
                Map::create(map, &header, shape).map_err(disk(map_at))?
            }
        };
        let data = open(part_at).map_err(disk(part_at))?;
        let known = Mutex::new(vec![None; shape.pieces() as usize]);
        let (map, fresh) = (Mutex::new(map), Mutex::default());
        Ok(Self { target: target.to_owned(), paths, root, shape, data, map, fresh, known })
    }

    /// Whether a piece is marked as present.
    pub(crate) fn has(&self, index: u32) -> bool {
        locked(&self.map).has(index)
    }

    /// The path of the data.
    pub(crate) fn path(&self) -> &Path {
        &self.paths[1]
    }

    /// Writes a piece that has been proven and has this chaining value. Blocks.
    ///
    /// # Errors
    /// Those of the disk. Pieces that are present stay.
    pub(crate) fn write(&self, index: u32, data: &[u8], value: ChainingValue) -> io::Result<()> {
        write_at(&self.data, data, self.shape.at(index))?;
        if let Some(known) = locked(&self.known).get_mut(index as usize) {
            *known = Some(value);
        }
        locked(&self.fresh).push(index);
        Ok(())
    }

    /// Forces written pieces to the disk, and then marks them in the map. Blocks. Pieces that are written meanwhile
    /// are marked by the next call.
    ///
    /// # Errors
    /// Those of the disk. The map is unchanged.
    pub(crate) fn mark(&self) -> io::Result<()> {
        let mut map = locked(&self.map);
        let fresh = std::mem::take(&mut *locked(&self.fresh));
        if fresh.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.data.sync_data() {
            locked(&self.fresh).extend(fresh);
            return Err(error);
        }
        map.add(&fresh)
    }

    /// Renames the complete file to its final name. First reads the pieces of earlier runs, and checks the hash of
    /// the whole. On return the name is on the disk. Blocks.
    ///
    /// # Errors
    /// [`PartError`].
    pub(crate) fn finish(&self, force: bool) -> Result<(), PartError> {
        let failed = |error: &io::Error| PartError::Disk(Failure::path("write", self.path(), error));
        self.mark().map_err(|error| failed(&error))?;
        if !self.is_whole().map_err(|error| failed(&error))? {
            self.forget_earlier().map_err(|error| failed(&error))?;
            return Err(PartError::Damaged);
        }
        self.data.set_len(self.shape.size).map_err(|error| failed(&error))?;
        self.data.sync_all().map_err(|error| failed(&error))?;
        vacant(&self.target, force)?;
        let named = if force {
            fs::rename(self.path(), &self.target)
        } else {
            // A file that was created there meanwhile is not replaced.
            tempfile::TempPath::try_from_path(self.path()).and_then(|from| {
                from.persist_noclobber(&self.target).map_err(|failed| {
                    let _ = failed.path.keep();
                    failed.error
                })
            })
        };
        match named {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(PartError::Taken),
            named => {
                named.map_err(|error| PartError::Disk(Failure::path("write", &self.target, &error)))?;
            }
        }
        // Without its data, the map has no meaning.
        let _ = fs::remove_file(&self.paths[0]);
        let directory = self.target.parent().filter(|path| !path.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        sync_directory(directory).map_err(|error| PartError::Disk(Failure::path("write", directory, &error)))
    }

    /// Removes the part and its map, if no piece is present.
    pub(crate) fn remove_if_empty(&self) {
        let map = locked(&self.map);
        if map.bits.iter().all(|byte| *byte == 0) && locked(&self.known).iter().all(Option::is_none) {
            // A file that cannot be removed has no piece marked.
            let _ = fs::remove_file(self.path());
            let _ = fs::remove_file(&self.paths[0]);
        }
    }

    /// Whether the content has the expected hash.
    fn is_whole(&self) -> io::Result<bool> {
        let known = locked(&self.known).clone();
        if known.iter().all(Option::is_some) && !known.is_empty() {
            // Each piece was proven against the hash of the whole.
            return Ok(true);
        }
        let mut data = vec![0; self.shape.piece as usize];
        let (mut pieces, mut whole) = (Vec::with_capacity(known.len()), blake3::hash(b""));
        for (index, known) in (0..).zip(known) {
            if let Some(known) = known {
                pieces.push(known);
                continue;
            }
            let data = data.get_mut(..self.shape.len(index) as usize).unwrap_or_default();
            if read_at(&self.data, data, self.shape.at(index))? < data.len() {
                return Ok(false);
            }
            whole = blake3::hash(data);
            pieces.push(chaining_value(self.shape.at(index), data));
        }
        Ok(copy::root(&pieces).unwrap_or(whole) == self.root.0)
    }

    /// Unmarks all pieces but those of this run.
    fn forget_earlier(&self) -> io::Result<()> {
        let known = locked(&self.known).clone();
        let mut map = locked(&self.map);
        map.bits.fill(0);
        let brought: Vec<u32> = (0..).zip(known).filter_map(|(index, known)| known.map(|_| index)).collect();
        map.add(&brought)
    }

    /// The pieces that are certainly on the disk.
    #[cfg(test)]
    fn marked(&self) -> Vec<u32> {
        (0..self.shape.pieces()).filter(|index| self.has(*index)).collect()
    }
}

/// Fails if there is a file at `target` that must not be replaced.
pub(crate) fn vacant(target: &Path, force: bool) -> Result<(), PartError> {
    match fs::symlink_metadata(target).map(|about| (about.file_type(), about.is_dir() || !force)) {
        Ok((kind, _)) if is_special(kind) => Err(PartError::Special),
        Ok((_, true)) => Err(PartError::Taken),
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(PartError::Disk(Failure::path("write", target, &error)))
        }
        _ => Ok(()),
    }
}

/// Opens a file for reading and writing, without following a link.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    options.open(path)
}

/// Locks the file for this process, until the process ends.
#[cfg(unix)]
fn lock(file: &File) -> Result<(), PartError> {
    rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(|_| PartError::Busy)
}

#[cfg(not(unix))]
fn lock(_: &File) -> Result<(), PartError> {
    Ok(())
}

fn line(header: &Header) -> Vec<u8> {
    // A struct of numbers and text can always be written as JSON.
    let mut line = serde_json::to_vec(header).unwrap_or_default();
    line.push(b'\n');
    line
}

impl Map {
    /// Reads a map. None: the file is not a map.
    fn read(file: &File, shape: Shape) -> io::Result<Option<(Header, Vec<u8>)>> {
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        (&mut reader).take(LONGEST_HEADER).read_until(b'\n', &mut line)?;
        let header: Option<Header> = serde_json::from_slice(&line).ok();
        let Some(header) = header.filter(|header| header.v == VERSION && line.ends_with(b"\n")) else {
            return Ok(None);
        };
        let mut bits = Vec::new();
        let wanted = shape.pieces().div_ceil(8);
        reader.take(wanted.into()).read_to_end(&mut bits)?;
        bits.resize(wanted as usize, 0);
        Ok(Some((header, bits)))
    }

    fn create(file: File, header: &Header, shape: Shape) -> io::Result<Self> {
        let line = line(header);
        file.set_len(0)?;
        let map = Self { from: line.len() as u64, bits: vec![0; shape.pieces().div_ceil(8) as usize], file };
        write_at(&map.file, &line, 0)?;
        map.add_nothing()
    }

    fn add_nothing(self) -> io::Result<Self> {
        write_at(&self.file, &self.bits, self.from)?;
        self.file.sync_data()?;
        Ok(self)
    }

    fn has(&self, index: u32) -> bool {
        self.bits.get(index as usize / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
    }

    fn add(&mut self, pieces: &[u32]) -> io::Result<()> {
        for index in pieces {
            if let Some(byte) = self.bits.get_mut(*index as usize / 8) {
                *byte |= 1 << (index % 8);
            }
        }
        write_at(&self.file, &self.bits, self.from)?;
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: usize = 256 << 10;

    fn content() -> Vec<u8> {
        let mut bytes = vec![0; 10 * PIECE + 17];
        blake3::Hasher::new().update(b"a file").finalize_xof().fill(&mut bytes);
        bytes
    }

    struct Place {
        directory: tempfile::TempDir,
        content: Vec<u8>,
    }

    impl Place {
        fn new() -> Self {
            Self { directory: tempfile::tempdir().unwrap(), content: content() }
        }

        fn target(&self) -> PathBuf {
            self.directory.path().join("file")
        }

        fn file(&self, name: &str) -> PathBuf {
            self.directory.path().join(name)
        }

        fn root(&self) -> Hex32 {
            Hex32(blake3::hash(&self.content).into())
        }

        fn begin(&self, force: bool) -> Result<Part, PartError> {
            let shape = Shape::new(self.content.len() as u64).unwrap();
            Part::begin(&self.target(), self.root(), shape, force)
        }

        fn write(&self, part: &Part, pieces: impl IntoIterator<Item = u32>) {
            for index in pieces {
                let data = self.content.chunks(PIECE).nth(index as usize).unwrap();
                part.write(index, data, chaining_value(part.shape.at(index), data)).unwrap();
            }
        }
    }

    #[test]
    fn a_file_is_put_together_in_any_order() {
        let place = Place::new();
        let part = place.begin(false).unwrap();
        place.write(&part, [10, 3, 1, 0, 2, 9, 8, 7, 6, 5, 4]);
        part.finish(false).unwrap();
        assert!(fs::read(place.target()).unwrap() == place.content);
        let left: Vec<_> = fs::read_dir(place.directory.path()).unwrap().collect();
        assert_eq!(left.len(), 1);
    }

    #[test]
    fn the_next_run_goes_on_with_what_was_marked() {
        let place = Place::new();
        let part = place.begin(false).unwrap();
        place.write(&part, [0, 9, 10]);
        part.mark().unwrap();
        place.write(&part, [1]);
        // As after kill -9: a piece that was written and not marked does not count.
        drop(part);
        let part = place.begin(false).unwrap();
        assert_eq!(part.marked(), [0, 9, 10]);
        place.write(&part, 1..9);
        part.finish(false).unwrap();
        assert!(fs::read(place.target()).unwrap() == place.content);
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_never_replaced() {
        let place = Place::new();
        let _socket = std::os::unix::net::UnixListener::bind(place.target()).unwrap();
        for force in [false, true] {
            assert!(matches!(place.begin(force), Err(PartError::Special)));
        }
        assert_eq!(fs::read_dir(place.directory.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn what_the_disk_does_not_have_for_certain_is_not_marked() {
        let place = Place::new();
        let mut part = place.begin(false).unwrap();
        // Data that is written here is lost, and cannot be forced to a disk.
        part.data = OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
        place.write(&part, [0, 1]);
        part.mark().unwrap_err();
        assert_eq!(part.marked(), [0; 0]);
        // The mark is tried again, not forgotten.
        part.mark().unwrap_err();
        drop(part);
        assert_eq!(place.begin(false).unwrap().marked(), [0; 0]);
    }

    #[test]
    fn what_was_damaged_since_the_earlier_run_is_found() {
        let place = Place::new();
        let part = place.begin(false).unwrap();
        place.write(&part, 0..4);
        part.mark().unwrap();
        drop(part);
        let mut there = fs::read(place.file("file.part")).unwrap();
        there[PIECE + 5] ^= 1;
        fs::write(place.file("file.part"), &there).unwrap();
        let part = place.begin(false).unwrap();
        place.write(&part, 4..11);
        assert!(matches!(part.finish(false), Err(PartError::Damaged)));
        assert!(!place.target().exists());
        drop(part);
        // The pieces of this run stay.
        let part = place.begin(false).unwrap();
        assert_eq!(part.marked(), [4, 5, 6, 7, 8, 9, 10]);
        place.write(&part, 0..4);
        part.finish(false).unwrap();
        assert!(fs::read(place.target()).unwrap() == place.content);
    }

    #[test]
    fn what_is_there_is_not_replaced_by_chance() {
        let place = Place::new();
        fs::write(place.target(), b"mine").unwrap();
        assert!(matches!(place.begin(false), Err(PartError::Taken)));
        let part = place.begin(true).unwrap();
        // A file that is created during the fetch is not replaced.
        place.write(&part, 0..11);
        assert!(matches!(part.finish(false), Err(PartError::Taken)));
        assert_eq!(fs::read(place.target()).unwrap(), b"mine");
        drop(part);
        place.begin(true).unwrap().finish(true).unwrap();
        assert!(fs::read(place.target()).unwrap() == place.content);
        fs::remove_file(place.target()).unwrap();
        fs::create_dir(place.target()).unwrap();
        assert!(matches!(place.begin(true), Err(PartError::Taken)));
    }

    #[test]
    fn a_part_of_something_else_is_left_alone() {
        let mut place = Place::new();
        // A part of another program.
        fs::write(place.file("file.part"), b"mine").unwrap();
        assert!(matches!(place.begin(false), Err(PartError::Other(None))));
        fs::write(place.file("file.part.map"), b"mine").unwrap();
        assert!(matches!(place.begin(false), Err(PartError::Other(None))));
        assert_eq!(fs::read(place.file("file.part")).unwrap(), b"mine");
        // A part of another content.
        let part = place.begin(true).unwrap();
        place.write(&part, [3]);
        part.mark().unwrap();
        let earlier = place.root();
        place.content[0] ^= 1;
        drop(part);
        assert!(matches!(place.begin(false), Err(PartError::Other(Some(root))) if root == earlier));
        assert_eq!(place.begin(true).unwrap().marked(), [0; 0]);
        // A map without its data marks nothing.
        let part = place.begin(false).unwrap();
        place.write(&part, [3]);
        part.mark().unwrap();
        drop(part);
        fs::remove_file(place.file("file.part")).unwrap();
        assert_eq!(place.begin(false).unwrap().marked(), [0; 0]);
    }

    #[cfg(unix)]
    #[test]
    fn one_process_at_a_time() {
        let place = Place::new();
        let part = place.begin(false).unwrap();
        assert!(matches!(place.begin(false), Err(PartError::Busy)));
        drop(part);
        place.begin(false).unwrap();
    }

    #[test]
    fn an_empty_file_is_whole_at_once() {
        let mut place = Place::new();
        place.content.clear();
        place.begin(false).unwrap().finish(false).unwrap();
        assert_eq!(fs::read(place.target()).unwrap(), b"");
    }

    #[test]
    fn nothing_in_a_map_upsets_its_reader() {
        let place = Place::new();
        let part = place.begin(false).unwrap();
        place.write(&part, 0..11);
        part.mark().unwrap();
        drop(part);
        let map = place.file("file.part.map");
        let whole = fs::read(&map).unwrap();
        for cut in 0..whole.len() {
            fs::write(&map, &whole[..cut]).unwrap();
            // Bits that are cut off are missing; a header that is cut off is invalid.
            match place.begin(false) {
                Ok(part) => assert!(part.marked().len() < 11),
                Err(error) => assert!(matches!(error, PartError::Other(None)), "{error:?}"),
            }
        }
    }
}
