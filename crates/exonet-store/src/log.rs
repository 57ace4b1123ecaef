//! The log: groups in segments, one after the other.

use std::sync::Arc;

use crate::chores;
use crate::disk::Witness;
use crate::error::StoreError;
use crate::format::{GROUP, Group, HEADER, Key, group_len};
use crate::run::{self, Ended, Run};
use crate::segment::Segment;
use crate::shared::{Mark, Shared, State, Unforced};
use crate::store::keep_from;
use crate::{Force, MAX_GROUP, Storage};

/// The end of the log, where groups are appended.
pub(crate) struct Log {
    shared: Arc<Shared>,
    witness: Option<Box<dyn Witness>>,
    /// None only if the disk was full when a segment was needed.
    current: Option<Segment>,
    /// The offset of the next group in the current segment.
    at: u64,
    /// The last group.
    last: Mark,
    /// The checksum of the last group, or of the snapshot that replaces it.
    check: u32,
    key: Key,
    /// Shared with readers of the groups that were found.
    reading: Arc<()>,
    /// By how much the caller lets the log grow before a snapshot, in bytes.
    limit: u64,
    /// Whether the disk had no room when the pool was to be filled in advance.
    fill_refused: bool,
    /// Whether the first group still has to start the forcing of what the last run left. By then the caller has read
    /// that, so that reading and forcing do not compete for the disk.
    secures: bool,
}

/// Where the log continues.
pub(crate) struct Tail {
    pub(crate) current: Segment,
    pub(crate) at: u64,
    pub(crate) lsn: u64,
    pub(crate) check: u32,
}

impl Log {
    pub(crate) fn new(
        shared: Arc<Shared>,
        witness: Option<Box<dyn Witness>>,
        tail: Tail,
        reading: Arc<()>,
        limit: u64,
    ) -> Self {
        let key = shared.owner.key();
        let last = Mark { lsn: tail.lsn, through: 0 };
        let (current, at, check) = (Some(tail.current), tail.at, tail.check);
        Self {
            shared,
            witness,
            current,
            at,
            last,
            check,
            key,
            reading,
            limit,
            fill_refused: false,
            secures: true,
        }
    }

    /// The LSN up to which all groups are on disk.
    #[cfg(test)]
    pub(crate) fn forced(&self) -> u64 {
        self.shared.forced()
    }

    fn has_room(&self, need: u64) -> bool {
        self.current.as_ref().is_some_and(|current| need <= current.size.saturating_sub(self.at))
    }

    /// Continues in another segment that has room for a group of `need` bytes.
    #[cold]
    fn roll(&mut self, need: u64) -> Result<(), StoreError> {
        let shared = &self.shared;
        let mut state = shared.wait_while(|state| {
            state.filling && state.failed.is_none() && state.shortest_with(need).is_none()
        });
        if let Some(failed) = &state.failed {
            return Err(failed.clone());
        }
        let mut next = if let Some(found) = state.shortest_with(need) {
            let next = state.free.swap_remove(found);
            drop(state);
            next
        } else {
            drop(state);
            chores::make(shared, shared.segment.max(Segment::size_for(need)))?
        };
        next.file.map();
        let begun = next.begin(&*shared.disk, shared.owner, shared.run.generation, self.last.lsn + 1);
        let mut state = shared.lock();
        if let Err(error) = begun {
            state.free.push(next);
            drop(state);
            return Err(shared.fail(error));
        }
        let (first, name, syncer) = (next.first, next.name.clone(), next.syncer());
        state.unforced.push_back(Unforced { first, name, syncer });
        state.full.extend(self.current.replace(next));
        drop(state);
        self.at = HEADER as u64;
        self.fill_refused = false;
        Ok(())
    }

    /// Puts a segment into the pool. If it is longer than usual, removes others that are: a caller that did not append
    /// what it had asked room for left them there.
    #[cold]
    fn keep(&self, segment: Segment) {
        let mut state = self.shared.lock();
        let usual = chores::usual(&self.shared, &state);
        let gone: Vec<_> = if segment.size > usual {
            state.free.extract_if(.., |it| it.size > usual).collect()
        } else {
            Vec::new()
        };
        state.free.push(segment);
        drop(state);
        for segment in gone {
            // If this fails, the next run removes the name.
            let _ = self.shared.disk.remove(&segment.name);
        }
    }

    /// Starts filling another segment before the current one is full.
    fn prepare(&mut self) {
        let half = self.current.as_ref().map_or(0, |current| current.size / 2);
        if self.at < half || self.fill_refused {
            return;
        }
        self.fill_refused = true;
        chores::fill(&self.shared);
    }

    /// Writes one group. If this fails, nothing of the group counts.
    fn write(&mut self, records: &[&[u8]], len: u32) -> Result<u32, StoreError> {
        let (lsn, run, forced) = (self.last.lsn + 1, self.shared.run.generation, self.shared.forced());
        let mut group = Group { lsn, run, forced, len, check: 0 };
        let head = group.encode(self.key, records);
        let Some(current) = &mut self.current else {
            return Ok(group.check);
        };
        let parts: Vec<_> = core::iter::once(&head[..]).chain(records.iter().copied()).collect();
        if let Err(error) = current.file.write_at(self.at, &parts) {
            let path = self.shared.disk.path(&current.name);
            // A part of the group may have been written. If all of it was, nobody must find it. If that is not
            // certain, the error is no lack of room, after which nothing of the group counts.
            let error = match current.file.write_at(self.at, &[&[0; GROUP]]) {
                Ok(()) => StoreError::io("write", &path)(error),
                Err(error) => StoreError::Io { action: "take a group back in", path, error: Arc::new(error) },
            };
            return Err(self.shared.fail(error));
        }
        Ok(group.check)
    }
}

impl Storage for Log {
    fn append_parts(&mut self, through: u64, records: &[&[u8]]) -> Result<(), StoreError> {
        self.shared.check()?;
        let bytes = records.iter().map(|part| part.len() as u64).sum();
        if bytes == 0 {
            return Ok(());
        }
        if through <= self.last.through {
            return Err(StoreError::Backwards { through, last: self.last.through });
        }
        let len = u32::try_from(bytes)
            .ok()
            .filter(|_| bytes <= MAX_GROUP)
            .ok_or(StoreError::TooLong { len: bytes })?;
        let need = group_len(bytes);
        if !self.has_room(need) {
            self.roll(need)?;
        }
        self.check = self.write(records, len)?;
        self.at += need;
        self.last = Mark { lsn: self.last.lsn + 1, through };
        let mut state = self.shared.lock();
        state.appended = self.last;
        state.grown += need;
        drop(state);
        if let Some(witness) = &mut self.witness {
            witness.note(self.last.lsn);
        }
        self.prepare();
        if std::mem::take(&mut self.secures) {
            chores::secure(&self.shared);
        }
        Ok(())
    }

    fn forcer(&self) -> Box<dyn Force> {
        Box::new(Forcer(Arc::clone(&self.shared)))
    }

    fn wants_snapshot(&self) -> bool {
        let state = self.shared.lock();
        state.failed.is_none() && !state.replacing && !state.securing && state.grown >= state.due
    }

    fn lsn(&self) -> u64 {
        self.last.lsn
    }

    fn keep_from(&self, needed: &[(u64, u64)]) -> u64 {
        let state = self.shared.lock();
        let current = self.current.iter().map(|current| (current.first, self.at));
        let segments: Vec<_> = state.full.iter().map(|full| (full.first, full.size)).chain(current).collect();
        drop(state);
        keep_from(&segments, needed)
    }

    fn snapshot_keeping(&mut self, from: u64, state: Vec<u8>) -> Result<(), StoreError> {
        self.shared.check()?;
        let len = state.len() as u64;
        if len > MAX_GROUP {
            return Err(StoreError::TooLong { len });
        }
        if Arc::strong_count(&self.reading) > 1 {
            return Err(StoreError::Reading);
        }
        // Segments that are being secured must not be reused.
        self.shared.secure()?;
        let mut shared = self.shared.wait_while(|state| state.replacing);
        if let Some(late) = shared.late.take() {
            return Err(late);
        }
        drop(shared);
        // The groups after the snapshot begin a new segment, so that all segments before it can be removed.
        if self.at > HEADER as u64 || self.current.is_none() {
            self.roll(0)?;
        }
        // If two segments begin with the same LSN, the later one counts.
        let starts = |full: &Segment| Some((full.first, full.run)).filter(|(first, _)| *first <= from);
        let before = self.shared.lock().full.iter().filter_map(starts).max();
        let behind = (self.last.lsn + 1, self.shared.run.generation);
        let (lsn, run) = before.filter(|_| from <= self.last.lsn).unwrap_or(behind);
        let from = chores::Start { lsn, run };
        chores::replace(&self.shared, self.last, from, state, self.limit);
        Ok(())
    }

    fn room(&self) -> u64 {
        let current = self.current.as_ref().map_or(0, |current| current.size.saturating_sub(self.at));
        current + self.shared.lock().free.iter().map(Segment::room).sum::<u64>()
    }

    fn has_reserve(&mut self, need: u64) -> bool {
        if need > MAX_GROUP {
            return false;
        }
        let (need, shared) = (group_len(need), &self.shared);
        let size = self.current.as_ref().map_or(0, |current| current.size);
        let left = size.saturating_sub(self.at);
        if left >= need.saturating_add(size / 4) && size > 0 {
            return true;
        }
        // At most two segments are made: one for the group, and one for what follows.
        loop {
            let state = shared.wait_while(|state| state.filling);
            if state.failed.is_some() {
                return false;
            }
            if state.has_reserve(left, need, shared.segment / 4) {
                return true;
            }
            let usual = chores::usual(shared, &state);
            let fits = need <= left || state.shortest_with(need).is_some();
            drop(state);
            let size = if fits { usual } else { usual.max(Segment::size_for(need)) };
            let Ok(segment) = chores::make(shared, size) else { return false };
            self.keep(segment);
        }
    }

    fn still_there(&self) -> Result<(), StoreError> {
        self.shared.check()?;
        let (disk, name) =
            (&*self.shared.disk, self.current.as_ref().map_or(run::FILE, |current| &*current.name));
        // An error does not tell that the file is gone: the process may have too many open files.
        match disk.open(name) {
            Ok(None) => Err(self.shared.fail(StoreError::Removed { path: disk.path(name) })),
            Ok(Some(_)) | Err(_) => Ok(()),
        }
    }

    fn close(mut self: Box<Self>) -> Result<(), StoreError> {
        self.still_there()?;
        let state = self.shared.wait_while(State::is_busy);
        if let Some(base) = state.base.filter(|base| base.lsn == self.last.lsn) {
            self.check = base.check;
        }
        drop(state);
        self.shared.force()?;
        let run = Run { ended: Ended::Clean, lsn: self.last.lsn, check: self.check, ..self.shared.run };
        run.write(&*self.shared.disk)?;
        if let Some(witness) = &mut self.witness {
            witness.remove();
        }
        Ok(())
    }
}

impl Drop for Log {
    /// Once the caller has released its lock, no helper may write.
    fn drop(&mut self) {
        drop(self.shared.wait_while(State::is_busy));
    }
}

struct Forcer(Arc<Shared>);

impl Force for Forcer {
    fn force(&mut self) -> Result<u64, StoreError> {
        self.0.force()
    }
}
