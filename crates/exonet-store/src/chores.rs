//! Work that must not delay the thread that appends: filling a segment, writing a snapshot, and forcing what the last
//! run left.

use std::sync::Arc;

use crate::Level;
use crate::disk;
use crate::error::StoreError;
use crate::format::{Head, Kept, Kind};
use crate::segment::{Place, Segment};
use crate::shared::{Base, Mark, Shared, State};

/// Each time that `ALIKE` more segments are in use, new segments are twice as long: at most `LONGEST` times.
const ALIKE: usize = 64;
const LONGEST: usize = 4;

/// If the pool is empty, puts another segment into it.
pub(crate) fn fill(shared: &Arc<Shared>) {
    let mut state = shared.lock();
    if state.filling || !state.free.is_empty() || state.failed.is_some() {
        return;
    }
    state.filling = true;
    let size = usual(shared, &state);
    drop(state);
    let ending = Ending { shared: Arc::clone(shared), job: Job::Fill };
    shared.helper.start(Box::new(move || {
        // If there is no room, nothing is lost yet: the caller that needs the segment tries again, and returns the
        // error.
        if let Ok(segment) = make(&ending.shared, size) {
            ending.shared.lock().free.push(segment);
        }
    }));
}

/// The length of the next segment. Each segment is an open file: if many are in use, new ones are longer.
pub(crate) fn usual(shared: &Shared, state: &State) -> u64 {
    shared.segment << (state.full.len() / ALIKE).min(LONGEST)
}

/// Creates a segment of `size` bytes. An error other than a lack of room ends the journal.
pub(crate) fn make(shared: &Shared, size: u64) -> Result<Segment, StoreError> {
    let mut state = shared.lock();
    let number = state.next_number;
    state.next_number += 1;
    drop(state);
    let name = Place::InUse.segment(shared.owner.log, number);
    Segment::create(&*shared.disk, shared.owner, name, size).map_err(|error| shared.fail(error))
}

/// Forces what the last run left, if nobody has done that yet.
pub(crate) fn secure(shared: &Arc<Shared>) {
    let Some(unsecured) = shared.take_unsecured() else { return };
    let ending = Ending { shared: Arc::clone(shared), job: Job::Secure };
    // After a permanent error the journal has ended. If there was no room, the next snapshot or forced write tries
    // again.
    shared.helper.start(Box::new(move || drop(ending.shared.secure_these(unsecured))));
}

/// Where the groups that a snapshot keeps begin: an LSN, and the run of the segment that begins with that LSN.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    pub(crate) lsn: u64,
    pub(crate) run: u64,
}

/// Writes a snapshot of `bytes`, which replaces all groups up to `mark` that lie before `from`. A segment begins with
/// `from`.
pub(crate) fn replace(shared: &Arc<Shared>, mark: Mark, from: Start, bytes: Vec<u8>, limit: u64) {
    let mut state = shared.lock();
    state.replacing = true;
    // Groups that are appended from now on lie after the snapshot.
    let grown = std::mem::take(&mut state.grown);
    drop(state);
    let ending = Ending { shared: Arc::clone(shared), job: Job::Replace };
    shared.helper.start(Box::new(move || {
        let shared = &ending.shared;
        match write(shared, mark, from, &bytes) {
            Ok(base) => settle(shared, mark, base, limit),
            Err(error) => {
                let error = shared.fail(error);
                let mut state = shared.lock();
                state.grown += grown;
                // The disk is full, so the next attempt comes later.
                state.due = state.grown + limit.div_ceil(4);
                state.late = Some(error);
            }
        }
    }));
}

fn write(shared: &Shared, mark: Mark, start: Start, bytes: &[u8]) -> Result<Base, StoreError> {
    let from = start.lsn;
    let keeps = from <= mark.lsn;
    if keeps && shared.run.level != Level::Process {
        // The groups on which the snapshot depends must be on disk before it.
        shared.force()?;
    }
    let base = Base { lsn: mark.lsn, len: bytes.len() as u64, check: crc32c::crc32c(bytes), from };
    let (owner, run) = (shared.owner, shared.run.generation);
    let kept = Some(Kept { from, forced: shared.forced().min(mark.lsn), run: start.run }).filter(|_| keeps);
    let head = Head { owner, run, lsn: base.lsn, len: base.len, check: base.check, kept };
    disk::replace(&*shared.disk, &Place::InUse.snapshot(owner.log), &[&head.encode(Kind::Snapshot), bytes])?;
    Ok(base)
}

/// Removes the groups that the snapshot replaces. The snapshot is on disk under its name.
fn settle(shared: &Shared, mark: Mark, base: Base, limit: u64) {
    let mut state = shared.lock();
    state.base = Some(base);
    // A snapshot that keeps groups is short, but takes long to make.
    let times = if base.from > mark.lsn { 1 } else { 4 };
    state.due = limit.max(base.len.saturating_mul(times));
    if base.from > mark.lsn {
        shared.note_forced(&mut state, mark);
        state.unforced.retain(|it| it.first > mark.lsn);
    } else {
        state.unforced.retain(|it| it.first >= base.from);
    }
    let mut gone = Vec::new();
    while state.full.front().is_some_and(|it| it.first <= mark.lsn) {
        // The snapshot's last group and the groups after it are in different segments.
        let next = state.full.get(1).map_or(mark.lsn + 1, |next| next.first.min(mark.lsn + 1));
        if next > base.from {
            break;
        }
        let Some(segment) = state.full.pop_front() else { break };
        if segment.size == shared.segment && state.free.len() < shared.pool {
            state.free.push(segment);
        } else {
            gone.push(segment);
        }
    }
    // Nothing writes to the segments that stay until a later snapshot replaces them. The pool then takes up to
    // `shared.pool` of them. These keep their mappings, since the first write to a newly mapped page takes longer than
    // the copy of the bytes. The others lose their mappings.
    let stay = state.full.iter().filter(|it| it.first <= mark.lsn).count();
    state.full.iter_mut().take(stay.saturating_sub(shared.pool)).for_each(|it| it.file.unmap());
    drop(state);
    // This thread has released the lock before it removes segments, since the end of a mapping takes long. If a name
    // cannot be removed, the next run finds that the segment lies before the snapshot, and puts it into the pool.
    for segment in gone {
        let _ = shared.disk.remove(&segment.name);
    }
}

enum Job {
    Fill,
    Replace,
    Secure,
}

/// Reports that a job has ended, even if it panics.
struct Ending {
    shared: Arc<Shared>,
    job: Job,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        match self.job {
            Job::Fill => state.filling = false,
            Job::Replace => state.replacing = false,
            Job::Secure => state.securing = false,
        }
        drop(state);
        self.shared.notify();
    }
}
