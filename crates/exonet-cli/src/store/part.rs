//! An unfinished file: its pieces arrive in any order, and survive crashes of this process and of the sender.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::journal::{Header, Journal, Record};
use super::name::OURS;
use crate::copy::{self, ChainingValue, FileInfo, Hex32};

/// The number of bytes after which pieces are forced to the disk and marked in the journal.
const MARK_AFTER: u64 = 64 << 20;

/// The id of an unfinished file. It cannot be derived without the sender's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PartId([u8; 16]);

impl PartId {
    pub(super) fn new(key: &Hex32, path: &str) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("exon cp 2026 unfinished file");
        hasher.update(&key.0).update(path.as_bytes());
        let mut id = [0; 16];
        hasher.finalize_xof().fill(&mut id);
        Self(id)
    }

    /// The path of a file that belongs to this part.
    pub(super) fn file(self, directory: &Path, extension: &str) -> PathBuf {
        directory.join(format!("{OURS}{}.{extension}", crate::text::hex(&self.0)))
    }
}

/// An open unfinished file.
#[derive(Debug)]
pub(super) struct Part {
    paths: [PathBuf; 2],
    pub(super) file: FileInfo,
    pub(super) piece: u32,
    data: Arc<File>,
    journal: Journal,
    pieces: BTreeMap<u64, ChainingValue>,
    /// The size of the file, if the sender did not announce it.
    end: Option<u64>,
    /// The number of records in the journal, and the number of bytes written since the last mark.
    records: u64,
    unmarked: u64,
    /// The file has its final name. Pieces that arrive now are repetitions.
    pub(super) stored: Option<Hex32>,
}

/// Data to be forced to the disk without a lock on the part.
pub(super) struct Unmarked {
    data: Arc<File>,
    journal: File,
    records: u64,
}

impl Unmarked {
    /// Blocks until the data is on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.data.sync_data()?;
        self.journal.sync_data()
    }
}

impl Part {
    /// Creates a part, in place of any other.
    pub(super) fn create(directory: &Path, id: PartId, file: FileInfo, piece: u32) -> io::Result<Self> {
        let paths = Self::paths(directory, id);
        // The journal is created first: without data it has no meaning.
        let journal = Journal::create(&paths[1], &Header::new(file.clone(), piece))?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            // The sender may want the file to be private, so others cannot read it.
            options.mode(0o600);
        }
        let data = Arc::new(options.open(&paths[0])?);
        Ok(Self::new(paths, file, piece, data, journal))
    }

    /// Opens an existing part. None: there is none.
    pub(super) fn open(directory: &Path, id: PartId) -> io::Result<Option<Self>> {
        let paths = Self::paths(directory, id);
        let Some((journal, header, records)) = Journal::open(&paths[1])? else { return Ok(None) };
        let data = match OpenOptions::new().read(true).write(true).open(&paths[0]) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            data => Arc::new(data?),
        };
        let Header { file, piece, .. } = header;
        let mut part = Self::new(paths, file, piece, data, journal);
        part.believe(&records)?;
        Ok(Some(part))
    }

    fn new(paths: [PathBuf; 2], file: FileInfo, piece: u32, data: Arc<File>, journal: Journal) -> Self {
        let (pieces, end, stored) = (BTreeMap::new(), None, None);
        Self { paths, file, piece, data, journal, pieces, end, records: 0, unmarked: 0, stored }
    }

    fn paths(directory: &Path, id: PartId) -> [PathBuf; 2] {
        [id.file(directory, "part"), id.file(directory, "log")]
    }

    /// Adopts the records: marked ones at once, and others after a check of the data.
    fn believe(&mut self, records: &[Record]) -> io::Result<()> {
        let marks = records.iter().filter_map(|record| match record {
            Record::Mark(marked) => Some(*marked),
            _ => None,
        });
        let marked = marks.max().unwrap_or(0);
        for (at, record) in (0_u64..).zip(records) {
            match *record {
                Record::Mark(_) => {}
                Record::End(size) => self.end = Some(size),
                Record::Piece(number, hash) => {
                    if at < marked || self.has_data(number, &hash)? {
                        self.pieces.insert(number, hash);
                    }
                }
            }
        }
        self.records = records.len() as u64;
        Ok(())
    }

    /// Whether the data on the disk is this piece. The last piece ends where the file ends.
    fn has_data(&self, number: u64, hash: &ChainingValue) -> io::Result<bool> {
        let Some(at) = number.checked_mul(self.piece.into()) else { return Ok(false) };
        let mut data = vec![0; self.piece as usize];
        let len = read_at(&self.data, &mut data, at)?;
        let data = data.get(..len).unwrap_or_default();
        Ok(!data.is_empty() && copy::chaining_value(at, data) == *hash)
    }

    /// Whether the part belongs to this version of the file.
    pub(super) fn is_of(&self, file: &FileInfo) -> bool {
        (self.file.mtime, self.file.size) == (file.mtime, file.size)
    }

    pub(super) fn has(&self, at: u64) -> bool {
        self.pieces.contains_key(&(at / u64::from(self.piece.max(1))))
    }

    /// The file of the data, which several threads may write at once.
    pub(super) fn data(&self) -> Arc<File> {
        Arc::clone(&self.data)
    }

    /// Records a written piece. From time to time, returns data that must be forced to the disk.
    pub(super) fn add(&mut self, at: u64, len: u64, hash: ChainingValue) -> io::Result<Option<Unmarked>> {
        let number = at / u64::from(self.piece.max(1));
        if len > 0 && self.pieces.insert(number, hash).is_none() {
            self.record(Record::Piece(number, hash))?;
            self.unmarked = self.unmarked.saturating_add(len);
        }
        if self.unmarked < MARK_AFTER {
            return Ok(None);
        }
        self.unmarked = 0;
        Ok(Some(Unmarked { data: self.data(), journal: self.journal.handle()?, records: self.records }))
    }

    pub(super) fn mark(&mut self, unmarked: &Unmarked) -> io::Result<()> {
        self.record(Record::Mark(unmarked.records))
    }

    /// Records the size of the file.
    pub(super) fn end(&mut self, size: u64) -> io::Result<()> {
        if self.size().is_some() {
            return Ok(());
        }
        self.end = Some(size);
        self.record(Record::End(size))
    }

    /// The size of the whole file, if it is known by now.
    pub(super) fn size(&self) -> Option<u64> {
        self.file.size.or(self.end)
    }

    fn record(&mut self, record: Record) -> io::Result<()> {
        self.journal.add(record)?;
        self.records += 1;
        Ok(())
    }

    /// The number of bytes that are present.
    pub(super) fn held(&self) -> u64 {
        self.ranges().iter().map(|(from, to)| to - from).sum()
    }

    /// The bytes that are present, as ranges.
    pub(super) fn ranges(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for number in self.pieces.keys() {
            let from = number.saturating_mul(self.piece.into());
            let to = from.saturating_add(self.piece.into()).min(self.size().unwrap_or(u64::MAX));
            match ranges.last_mut() {
                Some(last) if last.1 == from => last.1 = to,
                _ => ranges.push((from, to)),
            }
        }
        ranges
    }

    pub(super) fn is_whole(&self) -> bool {
        let pieces = self.size().map(|size| size.div_ceil(u64::from(self.piece.max(1))));
        pieces.is_some_and(|pieces| {
            self.pieces.len() as u64 == pieces
                && self.pieces.keys().next_back().is_none_or(|last| *last < pieces)
        })
    }

    /// BLAKE3 of the whole file.
    pub(super) fn hash(&self) -> io::Result<Hex32> {
        let pieces: Vec<ChainingValue> = self.pieces.values().copied().collect();
        if let Some(root) = copy::root(&pieces) {
            return Ok(Hex32(root.into()));
        }
        let mut data = vec![0; self.piece as usize];
        let len = read_at(&self.data, &mut data, 0)?;
        Ok(Hex32(blake3::hash(data.get(..len).unwrap_or_default()).into()))
    }

    /// The path of the data before it gets its final name.
    pub(super) fn path(&self) -> &Path {
        &self.paths[0]
    }

    /// Removes the files of the part.
    pub(super) fn remove(&self) {
        // A file that cannot be removed is removed later because of its age.
        for path in &self.paths {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Reads until `buffer` is full or the file ends.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut read = 0;
    while let Some(rest) = buffer.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match read_some_at(file, rest, at.saturating_add(read as u64)) {
            Ok(0) => break,
            Ok(some) => read += some,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

#[cfg(unix)]
use std::os::unix::fs::FileExt;

#[cfg(unix)]
fn read_some_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    file.read_at(buffer, at)
}

/// Writes all of `data`.
#[cfg(unix)]
pub(crate) fn write_at(file: &File, data: &[u8], at: u64) -> io::Result<()> {
    file.write_all_at(data, at)
}

#[cfg(windows)]
fn read_some_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    use std::os::windows::fs::FileExt;
    file.seek_read(buffer, at)
}

/// Writes all of `data`.
#[cfg(windows)]
pub(crate) fn write_at(file: &File, mut data: &[u8], mut at: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !data.is_empty() {
        let written = file.seek_write(data, at)?;
        data = data.get(written..).unwrap_or_default();
        at += written as u64;
    }
    Ok(())
}

/// Frees the disk space of a partly written piece, if the system can do that.
#[cfg(target_os = "linux")]
pub(super) fn clear(file: &File, at: u64, len: u64) {
    use rustix::fs::{FallocateFlags, fallocate};
    let _ = fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, len);
}

#[cfg(not(target_os = "linux"))]
pub(super) fn clear(_: &File, _: u64, _: u64) {}
