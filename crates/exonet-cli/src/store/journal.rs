//! The journal of an unfinished file, which lists the pieces that are present.
//!
//! ```text
//! header, JSON, one line | records of 48 bytes: u64 number | 32 bytes | 8 bytes of BLAKE3 of the 40 before
//! ```
//!
//! A record is a piece (its number and its chaining value), a *mark* or an *end*. A mark gives the number of records
//! before it whose data is certainly on the disk. The data of other records is read and compared when the file is
//! opened: after a crash of the process it is present, after a crash of the machine it may be missing. A damaged or
//! partly written record ends the journal.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::copy::{ChainingValue, FileInfo};

const VERSION: u8 = 1;
const RECORD: usize = 48;
/// The longest header: a path, escaped, and the other fields.
const LONGEST_HEADER: u64 = 32 << 10;
/// Numbers that no piece has: pieces have at least 2^16 bytes.
const MARK: u64 = u64::MAX;
const END: u64 = u64::MAX - 1;

/// The first line.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    v: u8,
    #[serde(flatten)]
    pub(super) file: FileInfo,
    /// Bytes of each piece but the last.
    pub(super) piece: u32,
}

impl Header {
    pub(super) fn new(file: FileInfo, piece: u32) -> Self {
        Self { v: VERSION, file, piece }
    }
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Piece(u64, ChainingValue),
    /// The data of this number of records before this one is on the disk.
    Mark(u64),
    /// The size of the file in bytes, which was not known before.
    End(u64),
}

/// The open journal of one file. Records are added at its end.
#[derive(Debug)]
pub(super) struct Journal(File);

impl Journal {
    /// Creates a journal, in place of any other.
    pub(super) fn create(path: &Path, header: &Header) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        let mut line = serde_json::to_vec(header)?;
        line.push(b'\n');
        file.write_all(&line)?;
        Ok(Self(file))
    }

    /// Opens a journal and reads its records. None: there is no readable journal.
    pub(super) fn open(path: &Path) -> io::Result<Option<(Self, Header, Vec<Record>)>> {
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut reader = BufReader::new(&file);
        let mut line = Vec::new();
        let read = (&mut reader).take(LONGEST_HEADER).read_until(b'\n', &mut line)?;
        let header: Option<Header> = serde_json::from_slice(&line).ok();
        let Some(header) = header.filter(|header| header.v == VERSION && line.ends_with(b"\n")) else {
            return Ok(None);
        };
        let (mut records, mut record, mut good) = (Vec::new(), [0; RECORD], read as u64);
        while reader.read_exact(&mut record).is_ok()
            && let Some(known) = decode(&record)
        {
            records.push(known);
            good += RECORD as u64;
        }
        drop(reader);
        file.set_len(good)?;
        (&file).seek(SeekFrom::Start(good))?;
        Ok(Some((Self(file), header, records)))
    }

    pub(super) fn add(&mut self, record: Record) -> io::Result<()> {
        self.0.write_all(&encode(record))
    }

    /// A handle whose `sync_data` forces the added records to the disk.
    pub(super) fn handle(&self) -> io::Result<File> {
        self.0.try_clone()
    }
}

fn encode(record: Record) -> [u8; RECORD] {
    let wide = |number: u64| {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        bytes
    };
    let (number, bytes) = match record {
        Record::Piece(number, hash) => (number, hash),
        Record::Mark(records) => (MARK, wide(records)),
        Record::End(size) => (END, wide(size)),
    };
    let mut encoded = [0; RECORD];
    encoded[..8].copy_from_slice(&number.to_be_bytes());
    encoded[8..40].copy_from_slice(&bytes);
    let check = blake3::hash(&encoded[..40]);
    encoded[40..].copy_from_slice(&check.as_bytes()[..8]);
    encoded
}

fn decode(record: &[u8; RECORD]) -> Option<Record> {
    let (known, check) = record.split_at(40);
    let (number, bytes) = known.split_at(8);
    let number = u64::from_be_bytes(number.try_into().ok()?);
    let bytes: ChainingValue = bytes.try_into().ok()?;
    if blake3::hash(known).as_bytes().get(..8) != Some(check) {
        return None;
    }
    let narrow = || Some(u64::from_be_bytes(bytes.get(..8)?.try_into().ok()?));
    Some(match number {
        MARK => Record::Mark(narrow()?),
        END => Record::End(narrow()?),
        number => Record::Piece(number, bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let file = FileInfo { path: "a \"b\"\n".into(), size: Some(9), mode: Some(0o600), mtime: -5 };
        Header::new(file, 65_536)
    }

    const RECORDS: [Record; 4] =
        [Record::Piece(3, [7; 32]), Record::Mark(1), Record::Piece(0, [8; 32]), Record::End(9)];

    #[test]
    fn what_was_written_is_read() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log");
        assert!(Journal::open(&path).unwrap().is_none());
        let mut journal = Journal::create(&path, &header()).unwrap();
        RECORDS[..3].iter().for_each(|record| journal.add(*record).unwrap());
        let (mut journal, read, records) = Journal::open(&path).unwrap().unwrap();
        assert_eq!((read, records.as_slice()), (header(), &RECORDS[..3]));
        journal.add(RECORDS[3]).unwrap();
        assert_eq!(Journal::open(&path).unwrap().unwrap().2, RECORDS);
    }

    #[test]
    fn a_damaged_end_is_cut_off_and_overwritten() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log");
        let mut journal = Journal::create(&path, &header()).unwrap();
        RECORDS.iter().for_each(|record| journal.add(*record).unwrap());
        let whole = std::fs::read(&path).unwrap();
        let first = whole.len() - RECORDS.len() * RECORD;
        for cut in first..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let (mut journal, _, records) = Journal::open(&path).unwrap().unwrap();
            assert_eq!(records, RECORDS[..(cut - first) / RECORD]);
            journal.add(Record::End(1)).unwrap();
            assert_eq!(Journal::open(&path).unwrap().unwrap().2.last(), Some(&Record::End(1)));
        }
        let mut damaged = whole.clone();
        damaged[first + RECORD + 20] ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        assert_eq!(Journal::open(&path).unwrap().unwrap().2, RECORDS[..1]);
        for bad in [&whole[1..], &whole[..first - 1], b"", b"{}\n"] {
            std::fs::write(&path, bad).unwrap();
            assert!(Journal::open(&path).unwrap().is_none());
        }
    }
}
