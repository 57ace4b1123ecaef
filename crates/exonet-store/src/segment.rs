//! One file of the log, and its name.

use std::sync::Arc;

use crate::disk::{self, Disk, DiskFile, Syncer};
use crate::error::StoreError;
use crate::format::{HEADER, Head, Kind, Owner};

/// A segment that this process writes, or may write.
pub(crate) struct Segment {
    pub(crate) name: String,
    /// The length of the file.
    pub(crate) size: u64,
    /// The LSN of its first group. For a segment in the pool it means nothing.
    pub(crate) first: u64,
    /// The run that began it with that group.
    pub(crate) run: u64,
    pub(crate) file: Box<dyn DiskFile>,
}

/// What a file of a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Snapshot,
    Segment(u64),
    /// A snapshot that was not finished.
    Unfinished,
}

/// Which log a file belongs to: the one in use, or the one that was put aside. It determines the prefix of file
/// names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    InUse,
    /// A log that is not trusted.
    Aside,
}

impl Place {
    const fn prefix(self) -> &'static str {
        match self {
            Self::InUse => "log-",
            Self::Aside => "untrusted-",
        }
    }

    pub(crate) fn segment(self, log: u64, number: u64) -> String {
        format!("{}{log}.seg-{number}", self.prefix())
    }

    pub(crate) fn snapshot(self, log: u64) -> String {
        format!("{}{log}.snapshot", self.prefix())
    }

    /// The log of this place to which a file belongs, and what the file is.
    pub(crate) fn parse(self, name: &str) -> Option<(u64, Part)> {
        let (log, part) = name.strip_prefix(self.prefix())?.split_once('.')?;
        let part = match part {
            "snapshot" => Part::Snapshot,
            "snapshot.new" => Part::Unfinished,
            _ => Part::Segment(part.strip_prefix("seg-")?.parse().ok()?),
        };
        Some((log.parse().ok()?, part))
    }
}

/// The name of a file of the current log after that log is put aside.
pub(crate) fn name_aside(name: &str) -> Option<String> {
    Some(format!("{}{}", Place::Aside.prefix(), name.strip_prefix(Place::InUse.prefix())?))
}

impl Segment {
    /// Creates a file full of zeros, which is durable together with its name. If this fails, nothing of the file
    /// stays. The header is written last: if there is one, all blocks of the file are allocated.
    pub(crate) fn create(disk: &dyn Disk, owner: Owner, name: String, size: u64) -> Result<Self, StoreError> {
        let file = Self::fill(disk, &name, size).inspect_err(|_| {
            let _ = disk.remove(&name);
        })?;
        disk::sync_names(disk)?;
        let mut segment = Self { name, size, first: 0, run: 0, file };
        segment.begin(disk, owner, 0, 0)?;
        Ok(segment)
    }

    fn fill(disk: &dyn Disk, name: &str, size: u64) -> Result<Box<dyn DiskFile>, StoreError> {
        const CHUNK: u64 = 1 << 20;
        let path = disk.path(name);
        let zeros = vec![0; usize::try_from(size.min(CHUNK)).unwrap_or(0)];
        let mut file = disk.create(name).map_err(StoreError::io("create", &path))?;
        let mut at = 0;
        while at < size {
            let len = usize::try_from(CHUNK.min(size - at)).unwrap_or(0);
            file.write_at(at, &[zeros.get(..len).unwrap_or(&[])]).map_err(StoreError::io("fill", &path))?;
            at += len as u64;
        }
        disk::sync_new(&*file.syncer(), &path)?;
        Ok(file)
    }

    /// Makes this the segment whose first group has the LSN `first`. Zero: makes it a segment of the pool.
    pub(crate) fn begin(
        &mut self,
        disk: &dyn Disk,
        owner: Owner,
        run: u64,
        first: u64,
    ) -> Result<(), StoreError> {
        let head = Head { owner, run, lsn: first, len: self.size, check: 0, kept: None };
        let written = self.file.write_at(0, &[&head.encode(Kind::Segment)]);
        written.map_err(StoreError::io("write", &disk.path(&self.name)))?;
        (self.first, self.run) = (first, run);
        Ok(())
    }

    /// The length of a segment that has room for one group of `need` bytes and nothing else.
    pub(crate) const fn size_for(need: u64) -> u64 {
        (HEADER as u64 + need).next_multiple_of(4096)
    }

    /// How many bytes there are for groups.
    pub(crate) const fn room(&self) -> u64 {
        self.size.saturating_sub(HEADER as u64)
    }

    pub(crate) fn syncer(&self) -> Arc<dyn Syncer> {
        self.file.syncer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for place in [Place::InUse, Place::Aside] {
            assert_eq!(place.parse(&place.segment(3, 12)), Some((3, Part::Segment(12))));
            assert_eq!(place.parse(&place.snapshot(3)), Some((3, Part::Snapshot)));
        }
        assert_eq!(Place::InUse.parse("log-3.snapshot.new"), Some((3, Part::Unfinished)));
        assert_eq!(name_aside("log-3.seg-1"), Some(Place::Aside.segment(3, 1)));
        for other in
            ["run", "run.new", "log-", "log-x.seg-1", "log-1.seg-", "log-1.seg-1.bak", "untrusted-1.seg-1"]
        {
            assert_eq!(Place::InUse.parse(other), None, "{other}");
        }
    }
}
