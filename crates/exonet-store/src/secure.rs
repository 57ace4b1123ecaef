//! Forces what the last run left to the disk.

use std::io;

use crate::disk::{self, Disk, DiskFile};
use crate::error::StoreError;
use crate::format::{GROUP, Group, HEADER, Key, group_len};
use crate::run::{Ended, Run};
use crate::scan::Scan;

/// How many bytes are rewritten at a time.
const PIECE: usize = 256 << 10;

/// The segments that the last run left, whose groups may not be on disk.
pub(crate) struct Unsecured {
    segments: Vec<Left>,
    key: Key,
    /// All groups up to this one are on disk.
    pub(crate) forced: u64,
    /// The last group, and its checksum.
    pub(crate) end: (u64, u32),
    /// Whether groups after `forced` are rewritten. After a clean end they are not.
    rewrites: bool,
}

struct Left {
    name: String,
    /// The end of the last group in the file. Its padding may have been cut off.
    end: u64,
    /// The LSN of the last group.
    last: u64,
}

impl Unsecured {
    pub(crate) fn new(last: &Run, key: Key, scan: &Scan) -> Self {
        let left = scan.live.iter().map(|it| Left {
            name: it.name.clone(),
            end: it.end.min(it.size),
            last: it.last,
        });
        let (forced, rewrites) = (scan.forced.max(last.lsn), last.ended != Ended::Clean);
        Self { segments: left.collect(), key, forced, end: (scan.end, scan.check), rewrites }
    }

    /// Makes the groups, and the names of their files, durable.
    pub(crate) fn secure(&self, disk: &dyn Disk) -> Result<(), StoreError> {
        for left in &self.segments {
            let path = disk.path(&left.name);
            let Some(mut file) = disk.open(&left.name).map_err(StoreError::io("open", &path))? else {
                continue;
            };
            if self.rewrites && left.last > self.forced {
                self.rewrite(&mut *file, left).map_err(StoreError::io("write", &path))?;
            }
            file.syncer().sync().map_err(StoreError::sync(&path))?;
        }
        // The last run may have died before it forced the name of a snapshot, on which the notes of this run depend.
        disk::sync_names(disk)
    }

    /// Rewrites groups that may never have been on disk. After a failed sync, the system may treat pages as written
    /// although the disk does not have them; another sync alone would skip them. The header of the segment is in the
    /// page of its first group.
    fn rewrite(&self, file: &mut dyn DiskFile, left: &Left) -> io::Result<()> {
        let mut at = HEADER as u64;
        while at < left.end {
            let mut bytes = [0; GROUP];
            disk::read_full(file, at, &mut bytes)?;
            let group = Group::decode(self.key, &bytes);
            if group.lsn > self.forced {
                break;
            }
            at += group_len(u64::from(group.len));
        }
        let mut piece = vec![0; PIECE];
        while let Some(rest) = left.end.checked_sub(at).filter(|rest| *rest > 0) {
            let len = usize::try_from(rest).unwrap_or(usize::MAX).min(piece.len());
            let Some(part) = piece.get_mut(..len) else { break };
            if disk::read_full(file, at, part)? < len {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            file.write_at(at, &[part])?;
            at += len as u64;
        }
        Ok(())
    }
}
