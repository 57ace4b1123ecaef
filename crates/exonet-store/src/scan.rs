//! What is in the files of a log, and where it ends.

use std::io;
use std::path::PathBuf;

use crate::disk::{self, Disk, DiskFile};
use crate::error::StoreError;
use crate::format::{ALIGN, BadHead, GROUP, Group, HEADER, Head, Kept, Key, Kind, Owner, group_len};
use crate::segment::{Part, Place};
use crate::shared::Base;

/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;
/// No journal has more runs: a larger number is none.
const RUNS: u64 = 1 << 48;

/// One file, read in pieces that hold what is asked for.
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

    /// Bytes of the file, when it was opened.
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// `len` bytes at `at`; None beyond the end.
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

    /// The checksum of what lies behind the header of a snapshot.
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

    /// The group at `at`, and its bytes, if there is a whole one.
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
    /// Bytes of the file, which should be what the header says.
    pub(crate) size: u64,
    /// Where the last group ends.
    pub(crate) end: u64,
    /// The LSN of the last group.
    pub(crate) last: u64,
    pub(crate) pieces: Pieces,
}

/// A segment without groups that count.
pub(crate) struct Spare {
    pub(crate) name: String,
    pub(crate) size: u64,
    /// It has a header, so its blocks are there.
    pub(crate) filled: bool,
}

/// What was found.
#[derive(Default)]
pub(crate) struct Scan {
    /// The name of the snapshot, if there is one.
    pub(crate) snapshot: String,
    pub(crate) base: Option<Base>,
    /// In the order of the log.
    pub(crate) live: Vec<Live>,
    pub(crate) spare: Vec<Spare>,
    /// The last group of the log, and its checksum, or that of the snapshot in its place.
    pub(crate) end: u64,
    pub(crate) check: u32,
    /// Bytes of the groups behind the snapshot, and of those that it counts on.
    pub(crate) bytes: u64,
    pub(crate) kept: u64,
    /// All groups up to this one were on the disk at some time.
    pub(crate) forced: u64,
    /// The checksum of the group that was asked for.
    pub(crate) noted: Option<u32>,
    /// Something whole of the last run lies behind the end.
    pub(crate) hole: bool,
    /// The largest run that anything was written in.
    pub(crate) newest: u64,
    /// Where the log ends, and what is wrong there if it should not end there.
    pub(crate) damage: (PathBuf, &'static str),
    pub(crate) snapshot_damaged: bool,
    pub(crate) next_number: u64,
    /// The run of the last group.
    run: u64,
    /// The run of the snapshot.
    base_run: u64,
}

/// Which log is read, and what was noted of it.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) place: Place,
    pub(crate) owner: Owner,
    /// The last run.
    pub(crate) generation: u64,
    /// The LSN of a group whose checksum is wanted.
    pub(crate) noted: u64,
}

/// Reads a log, of which `files` has the names.
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
    // Two may begin with one LSN, if no group of the first fitted or was kept: then at most one has groups that count.
    live.sort_by_key(|live| live.head.lsn);
    scan.read_groups(disk, wanted, live)?;
    // What lies behind the end tells whether the end is where it should be.
    for (name, mut pieces) in doubtful {
        let found = scan.search(&mut pieces, wanted, HEADER as u64);
        found.map_err(StoreError::io("read", &disk.path(&name)))?;
    }
    Ok(scan)
}

impl Scan {
    /// Groups are missing that the snapshot counts on.
    pub(crate) fn lacks_kept(&self) -> bool {
        self.base.is_some_and(|base| self.end < base.lsn)
    }

    /// There is nothing in the log.
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
            // Groups that are kept are of the run that began their segment or of later ones.
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
            // Zeros were never used. Anything else may have been.
            Err(BadHead::Damaged) if bytes != [0; HEADER] => doubtful.push((name.clone(), pieces)),
            Err(BadHead::Damaged) => {}
        }
        self.spare.push(Spare { name, size, filled });
        Ok(())
    }

    /// Follows the groups to the end of the log, and looks at what lies behind it.
    fn read_groups(&mut self, disk: &dyn Disk, wanted: Wanted, found: Vec<Live>) -> Result<(), StoreError> {
        // Begun by a run whose last groups were lost. What is in them is of a lower run than what follows the end now, so they
        // never count again.
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
            // A segment is begun when all groups before it have been written.
            self.hole |= live.head.run == wanted.generation && live.head.lsn > self.end;
            let found = self.search(&mut live.pieces, wanted, HEADER as u64);
            found.map_err(StoreError::io("read", &disk.path(&live.name)))?;
            self.spare.push(Spare { name: live.name, size: live.size, filled: live.head.len == live.size });
        }
        Ok(())
    }

    /// Reads the groups of one segment for as long as each is the next.
    fn follow(&mut self, live: &mut Live, wanted: Wanted) -> io::Result<()> {
        let key = wanted.owner.key();
        // A segment that was begun again may hold groups that were lost with its header in a cut of power.
        self.run = self.run.max(live.head.run);
        while let Some((group, _)) = live.pieces.group(key, live.end)? {
            // What an earlier run left behind the end of its successor's groups does not count.
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
                // In the place of what was kept stands the snapshot.
                self.kept += len;
                self.run = if group.lsn == base { self.run.max(self.base_run) } else { self.run };
            }
            (live.end, live.last) = (live.end + len, group.lsn);
        }
        Ok(())
    }

    /// Searches for whole groups of the last run behind the end of the log.
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
