//! Copying a journal while its owner appends to it.

use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, RealDisk};
use crate::error::StoreError;
use crate::format::{HEADER, Head, Kind, Owner, group_len};
use crate::run::{Ended, Run};
use crate::scan::Pieces;
use crate::segment::{Part, Place};
use crate::{Options, real};

/// How a file of a journal may still change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing in the file counts: without it, a journal has the same groups.
    Spare,
    /// The content up to some byte stays the same as long as the header does.
    Settled(Settled),
    /// Any part of the file may change.
    Loose,
}

/// The part of a file that does not change while its header stays the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The header: its first bytes.
    pub head: [u8; HEADER],
    /// The bytes before this one do not change. In a segment, no group that counts begins after it, unless it was
    /// appended meanwhile.
    pub end: u64,
    /// The LSN and run of the last group before `end`. If there is none, those with which the segment begins.
    last: Option<(u64, u64)>,
    begun: (u64, u64),
}

/// Tells how the file `name` in the journal in `dir` may still change. Its owner may append to it meanwhile. `known`
/// is an earlier result: if the header is still the same, only the part after it is read.
///
/// # Errors
/// [`StoreError::Io`]: the file is gone or cannot be read.
pub fn standing(
    dir: &Path,
    identity: [u8; 32],
    name: &str,
    known: Option<&Settled>,
) -> Result<Standing, StoreError> {
    let kind = match Place::InUse.parse(name) {
        Some((_, Part::Segment(_))) => Kind::Segment,
        Some((_, Part::Snapshot)) => Kind::Snapshot,
        Some((_, Part::Unfinished)) => return Ok(Standing::Spare),
        // A file that was put aside does not count; any other file is small.
        None if Place::Aside.parse(name).is_some() => return Ok(Standing::Spare),
        None => return Ok(Standing::Loose),
    };
    let path = dir.join(name);
    let options = Options::new(identity, crate::Level::Sync);
    let disk: RealDisk = RealDisk::open(dir, &options, false).map_err(StoreError::io("open", dir))?;
    let missing = || StoreError::io("open", &path)(std::io::ErrorKind::NotFound.into());
    let file = disk.open(name).map_err(StoreError::io("open", &path))?.ok_or_else(missing)?;
    let mut pieces = Pieces::new(file).map_err(StoreError::io("read", &path))?;
    let head = pieces.get(0, HEADER).map_err(StoreError::io("read", &path))?;
    let Some(head) = head.and_then(|bytes| bytes.first_chunk::<HEADER>()).copied() else {
        return Ok(Standing::Loose);
    };
    let Ok(said) = Head::decode(kind, &identity, &head) else { return Ok(Standing::Loose) };
    if kind == Kind::Snapshot {
        let (end, begun) = (pieces.len(), (u64::MAX, said.run));
        return Ok(Standing::Settled(Settled { head, end, last: None, begun }));
    }
    if said.lsn == 0 {
        // A segment of the pool: only its header and its length matter.
        let (end, begun) = (HEADER as u64, (0, said.run));
        return Ok(Standing::Settled(Settled { head, end, last: None, begun }));
    }
    let begun = (said.lsn, said.run);
    let fresh = Settled { head, end: HEADER as u64, last: None, begun };
    let mut settled = known.filter(|known| known.head == head).cloned().unwrap_or(fresh);
    settled.follow(&mut pieces, said.owner).map_err(StoreError::io("read", &path))?;
    Ok(Standing::Settled(settled))
}

impl Settled {
    /// Whether it is a segment of the pool: without it, a journal has the same groups, and makes another segment when
    /// it needs one.
    pub const fn is_spare(&self) -> bool {
        self.begun.0 == 0 && self.last.is_none()
    }

    /// Moves `end` to the end of the consecutive groups. Each of them is complete, has the next LSN, and is not of an
    /// earlier run than the group before it.
    fn follow(&mut self, pieces: &mut Pieces, owner: Owner) -> std::io::Result<()> {
        let key = owner.key();
        while let Some((group, _)) = pieces.group(key, self.end)? {
            let (next, run) = self.last.map_or(self.begun, |(lsn, run)| (lsn + 1, run));
            if group.lsn != next || group.run < run {
                break;
            }
            self.last = Some((group.lsn, group.run));
            self.end += group_len(u64::from(group.len));
        }
        Ok(())
    }
}

/// Whether the last run of the journal in `dir` ended cleanly, so that the journal is trusted wherever it is opened.
/// True if there is no journal. The caller must hold the lock of the directory above.
///
/// # Errors
/// [`StoreError`]: a file cannot be read.
pub fn is_clean(dir: &Path, options: Options) -> Result<bool, StoreError> {
    if !dir.try_exists().map_err(StoreError::io("inspect", dir))? {
        return Ok(true);
    }
    crate::store::only_log(dir)?;
    let identity = options.identity;
    let (disk, _) = real(dir, options)?;
    let disk: Arc<dyn Disk> = disk;
    Ok(Run::read(&*disk, &identity)?.is_none_or(|run| run.ended == Ended::Clean))
}
