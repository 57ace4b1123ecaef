//! Reads the files of a log, and finds its end.

use std::io;
use std::path::PathBuf;

use crate::disk::{self, Disk, DiskFile};
use crate::error::StoreError;
use crate::format::{ALIGN, BadHead, GROUP, Group, HEADER, Head, Kept, Key, Kind, Owner, group_len};
use crate::segment::{Part, Place};
use crate::shared::Base;

/// How many bytes are read at a time.
const CHUNK: usize = 256 << 10;
/// The largest number of a run. A larger number is not a run.
const RUNS: u64 = 1 << 48;

/// A file that is read in pieces. The current piece holds the bytes that were last asked for.
pub(crate) struct Pieces {
    file: Box<dyn DiskFile>,
    len: u64,
    start: u64,
    piece: Vec<u8>,
}

impl Pieces {
    pub(crate) fn new(file: Box<dyn DiskFile>) -> io::Result<Self> {
        let len = file.len()?;
        Ok(Self { file, len, start: 0, piece: Vec::new() })
    }

    /// The length of the file when it was opened.
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// Returns `len` bytes at `at`. None: they lie beyond the end.
    pub(crate) fn get(&mut self, at: u64, len: usize) -> io::Result<Option<&[u8]>> {
        if at.checked_add(len as u64).is_none_or(|end| end > self.len) {
            return Ok(None);
        }
        let have = |this: &Self| {
            let skip = usize::try_from(at.checked_sub(this.start)?).ok()?;
            let end = skip.checked_add(len).filter(|end| *end <= this.piece.len())?;
            Some(skip..end)
        };
        if have(self).is_none() {
            let rest = usize::try_from(self.len - at).unwrap_or(usize::MAX);
            self.piece.resize(rest.min(len.max(CHUNK)), 0);
            let read = disk::read_full(&*self.file, at, &mut self.piece)?;
            self.piece.truncate(read);
            self.start = at;
        }
        Ok(have(self).and_then(|range| self.piece.get(range)))
    }

    /// The checksum of the bytes after the header of a snapshot.
    fn check(&mut self) -> io::Result<u32> {
        let (mut at, mut check) = (HEADER as u64, 0);
        while let Some(rest) = self.len.checked_sub(at).filter(|rest| *rest > 0) {
            let len = usize::try_from(rest).unwrap_or(CHUNK).min(CHUNK);
            let Some(some) = self.get(at, len)? else { break };
            check = crc32c::crc32c_append(check, some);
            at += len as u64;
        }
        Ok(check)
    }

    /// Returns the group at `at` and its bytes. None: there is no complete group.
    pub(crate) fn group(&mut self, key: Key, at: u64) -> io::Result<Option<(Group, &[u8])>> {
        let Some(group) =
            self.get(at, GROUP)?.and_then(|bytes| bytes.first_chunk()).map(|bytes| Group::decode(key, bytes))
        else {
            return Ok(None);
        };
        if group.len == 0 {
            return Ok(None);
        }
        let whole = self.get(at, GROUP.saturating_add(group.len as usize))?;
        Ok(whole.and_then(|whole| {
            let (head, body) = whole.split_first_chunk::<GROUP>()?;
            group.fits(key, head, body).then_some((group, body))
        }))
    }
}

/// A segment with groups that count.
pub(crate) struct Live {
    pub(crate) name: String,
    pub(crate) head: Head,
    /// The length of the file. It should be the length in the header.
    pub(crate) size: u64,
    /// The end of the last group.
    pub(crate) end: u64,
    /// The LSN of the last group.
    pub(crate) last: u64,
    pub(crate) pieces: Pieces,
}

/// A segment without groups that count.
pub(crate) struct Spare {
    pub(crate) name: String,
    pub(crate) size: u64,
    /// Whether it has a header, so that its blocks are allocated.
    pub(crate) filled: bool,
}

/// The result of a scan.
#[derive(Default)]
pub(crate) struct Scan {
    /// The name of the snapshot, if there is one.
    pub(crate) snapshot: String,
    pub(crate) base: Option<Base>,
    /// The segments in the order of the log.
    pub(crate) live: Vec<Live>,
    pub(crate) spare: Vec<Spare>,
    /// The LSN of the last group of the log; `check` is its checksum, or that of the snapshot that replaces it.
    pub(crate) end: u64,
    pub(crate) check: u32,
    /// The number of bytes of groups after the snapshot, and of those that it counts on.
    pub(crate) bytes: u64,
    pub(crate) kept: u64,
    /// All groups up to this one were once on disk.
    pub(crate) forced: u64,
    /// The checksum of the group that the caller asked for.
    pub(crate) noted: Option<u32>,
    /// Whether a complete part of the last run lies after the end.
    pub(crate) hole: bool,
    /// The latest run that has written anything.
    pub(crate) newest: u64,
    /// Where the log ends, and what is damaged there if the log should not end there.
    pub(crate) damage: (PathBuf, &'static str),
    pub(crate) snapshot_damaged: bool,
    pub(crate) next_number: u64,
    /// The run of the last group.
    run: u64,
    /// The run of the snapshot.
    base_run: u64,
}

/// The log to read, and what the notes say about it.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) place: Place,
    pub(crate) owner: Owner,
    /// The last run.
    pub(crate) generation: u64,
    /// The LSN of a group whose checksum the caller asks for.
    pub(crate) noted: u64,
}

/// Reads a log. Its file names are in `files`.
pub(crate) fn scan(disk: &dyn Disk, wanted: Wanted, files: &[String]) -> Result<Scan, StoreError> {
    let (snapshot, damage) = (wanted.place.snapshot(wanted.owner.log), (disk.path(""), "groups are missing"));
    let mut scan = Scan { snapshot, damage, ..Scan::default() };
    scan.read_snapshot(disk, wanted.owner)?;
    let (mut live, mut doubtful) = (Vec::new(), Vec::new());
    for name in files {
        match wanted.place.parse(name) {
            Some((log, Part::Segment(number))) if log == wanted.owner.log => {
                scan.next_number = scan.next_number.max(number.saturating_add(1));
                scan.read_head(disk, wanted.owner, name, &mut live, &mut doubtful)?;
            }
            _ => {}
        }
    }
    // Two segments may begin with the same LSN, if no group of the first one fitted or was kept. Then at most one of
    // them has groups that count.
    live.sort_by_key(|live| live.head.lsn);
    scan.read_groups(disk, wanted, live)?;
    // The bytes after the end show whether the end is in the right place.
    for (name, mut pieces) in doubtful {
        let found = scan.search(&mut pieces, wanted, HEADER as u64);
        found.map_err(StoreError::io("read", &disk.path(&name)))?;
    }
    Ok(scan)
}

impl Scan {
    /// Whether groups are missing on which the snapshot depends.
    pub(crate) fn lacks_kept(&self) -> bool {
        self.base.is_some_and(|base| self.end < base.lsn)
    }

    /// Whether the log has no groups and no snapshot.
    pub(crate) fn is_empty(&self) -> bool {
        self.end == 0 && self.base.is_none()
    }

    fn read_snapshot(&mut self, disk: &dyn Disk, owner: Owner) -> Result<(), StoreError> {
        let name = self.snapshot.clone();
        let path = disk.path(&name);
        let Some(file) = disk.open(&name).map_err(StoreError::io("open", &path))? else {
            return Ok(());
        };
        let mut pieces = Pieces::new(file).map_err(StoreError::io("read", &path))?;
        let bytes = pieces.get(0, HEADER).map_err(StoreError::io("read", &path))?;
        let head = bytes.and_then(|bytes| bytes.first_chunk::<HEADER>());
        let head = match head.map(|bytes| Head::decode(Kind::Snapshot, &owner.identity, bytes)) {
            Some(Err(BadHead::Version)) => return Err(StoreError::Version { path }),
            Some(Err(BadHead::Identity)) => return Err(StoreError::Identity { path }),
            Some(Ok(head)) if head.owner == owner && pieces.len - HEADER as u64 == head.len => Some(head),
            _ => None,
        };
        let check = pieces.check().map_err(StoreError::io("read", &path))?;
        if let Some(head) = head.filter(|head| head.check == check) {
            let (lsn, next) = (head.lsn, head.lsn.saturating_add(1));
            let Kept { from, forced, run } =
                head.kept.unwrap_or(Kept { from: next, forced: lsn, run: head.run });
            let from = from.clamp(1, next);
            self.base = Some(Base { lsn, len: head.len, check, from });
            (self.end, self.check, self.forced) = (from - 1, check, forced);
            (self.base_run, self.newest) = (head.run, head.run);
            // Kept groups belong to the run that began their segment, or to later ones.
            self.run = run;
        } else {
            self.snapshot_damaged = true;
            self.damage = (path, "the snapshot is not whole");
        }
        Ok(())
    }

    fn read_head(
        &mut self,
        disk: &dyn Disk,
        owner: Owner,
        name: &str,
        live: &mut Vec<Live>,
        doubtful: &mut Vec<(String, Pieces)>,
    ) -> Result<(), StoreError> {
        let path = disk.path(name);
        let Some(file) = disk.open(name).map_err(StoreError::io("open", &path))? else {
            return Ok(());
        };
        let mut pieces = Pieces::new(file).map_err(StoreError::io("read", &path))?;
        let (name, size) = (name.to_owned(), pieces.len);
        let bytes = pieces.get(0, HEADER).map_err(StoreError::io("read", &path))?;
        let bytes = bytes.and_then(|bytes| bytes.first_chunk::<HEADER>()).copied().unwrap_or([0; HEADER]);
        let mut filled = false;
        match Head::decode(Kind::Segment, &owner.identity, &bytes) {
            Err(BadHead::Version) => return Err(StoreError::Version { path }),
            Err(BadHead::Identity) => return Err(StoreError::Identity { path }),
            Ok(head) if head.owner == owner && head.lsn >= self.base.map_or(1, |base| base.from) => {
                live.push(Live { name, head, size, end: HEADER as u64, last: head.lsn - 1, pieces });
                return Ok(());
            }
            Ok(head) => filled = head.owner == owner && head.len == size,
            // A header of zeros was never used. Any other header may have been.
            Err(BadHead::Damaged) if bytes != [0; HEADER] => doubtful.push((name.clone(), pieces)),
            Err(BadHead::Damaged) => {}
        }
        self.spare.push(Spare { name, size, filled });
        Ok(())
    }

    /// Follows the groups to the end of the log, and searches after it.
    fn read_groups(&mut self, disk: &dyn Disk, wanted: Wanted, found: Vec<Live>) -> Result<(), StoreError> {
        // Segments of a run whose last groups were lost. Their groups belong to an earlier run than those that now
        // follow the end, so they never count again.
        let mut stale = Vec::new();
        for mut live in found {
            self.newest = self.newest.max(live.head.run);
            if live.head.lsn != self.end + 1 {
                stale.push(live);
                continue;
            }
            let path = disk.path(&live.name);
            self.follow(&mut live, wanted).map_err(StoreError::io("read", &path))?;
            self.damage = (path, "a group is not whole");
            self.live.push(live);
        }
        let mut tail = self.live.pop();
        if let Some(tail) = &mut tail {
            let found = self.search(&mut tail.pieces, wanted, tail.end);
            found.map_err(StoreError::io("read", &disk.path(&tail.name)))?;
        }
        self.live.extend(tail);
        for mut live in stale {
            // A segment begins only after all groups before it have been written.
            self.hole |= live.head.run == wanted.generation && live.head.lsn > self.end;
            let found = self.search(&mut live.pieces, wanted, HEADER as u64);
            found.map_err(StoreError::io("read", &disk.path(&live.name)))?;
            self.spare.push(Spare { name: live.name, size: live.size, filled: live.head.len == live.size });
        }
        Ok(())
    }

    /// Reads the groups of one segment as long as each has the next LSN.
    fn follow(&mut self, live: &mut Live, wanted: Wanted) -> io::Result<()> {
        let key = wanted.owner.key();
        // A segment that was reused may still hold groups of its earlier use: a power failure may have lost the new
        // groups and the new header.
        self.run = self.run.max(live.head.run);
        while let Some((group, _)) = live.pieces.group(key, live.end)? {
            // Groups that an earlier run left after the end of a later run's groups do not count.
            if group.lsn != self.end + 1 || group.run < self.run {
                break;
            }
            let len = group_len(u64::from(group.len));
            (self.end, self.run) = (group.lsn, group.run);
            self.newest = self.newest.max(group.run);
            self.forced = self.forced.max(group.forced);
            let base = self.base.map_or(0, |base| base.lsn);
            if group.lsn > base {
                self.check = group.check;
                self.bytes += len;
                self.noted = if group.lsn == wanted.noted { Some(group.check) } else { self.noted };
            } else {
                // The snapshot replaces the kept groups.
                self.kept += len;
                self.run = if group.lsn == base { self.run.max(self.base_run) } else { self.run };
            }
            (live.end, live.last) = (live.end + len, group.lsn);
        }
        Ok(())
    }

    /// Searches for complete groups of the last run after the end of the log.
    fn search(&mut self, pieces: &mut Pieces, wanted: Wanted, from: u64) -> io::Result<()> {
        let key = wanted.owner.key();
        let mut at = from;
        while let Some(rest) = pieces.len.checked_sub(at).filter(|rest| *rest >= GROUP as u64) {
            let len = usize::try_from(rest).unwrap_or(CHUNK).min(CHUNK);
            let Some(piece) = pieces.get(at, len)? else { break };
            let (words, _) = piece.as_chunks::<ALIGN>();
            let likely = words.windows(GROUP / ALIGN).position(|words| match words {
                [sum, lsn, run, forced] => {
                    let head = [*sum, *lsn, *run, *forced];
                    let group = head.as_flattened().first_chunk().map(|bytes| Group::decode(key, bytes));
                    group.is_some_and(|it| it.run >= wanted.generation && it.run < RUNS && it.lsn > self.end)
                }
                _ => false,
            });
            let Some(likely) = likely else {
                if len as u64 == rest {
                    break;
                }
                at += (len - GROUP + ALIGN) as u64;
                continue;
            };
            at += (likely * ALIGN) as u64;
            match pieces.group(key, at)? {
                Some((group, _)) => {
                    self.hole |= group.run == wanted.generation;
                    self.newest = self.newest.max(group.run);
                    self.forced = self.forced.max(group.forced);
                    at += group_len(u64::from(group.len));
                }
                None => at += ALIGN as u64,
            }
        }
        Ok(())
    }
}
