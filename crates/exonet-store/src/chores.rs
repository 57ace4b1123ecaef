//! What would hold up the thread that appends: filling a segment, and writing a snapshot.

use std::sync::Arc;

use crate::disk;
use crate::error::StoreError;
use crate::format::{Head, Kind};
use crate::segment::{Place, Segment};
use crate::shared::{Base, Mark, Shared};

/// Puts another segment into the pool, if it is empty.
pub(crate) fn fill(shared: &Arc<Shared>) {
    let mut state = shared.lock();
    if state.filling || !state.free.is_empty() || state.failed.is_some() {
        return;
    }
    state.filling = true;
    let number = state.next_number;
    state.next_number += 1;
    drop(state);
    let ending = Ending { shared: Arc::clone(shared), job: Job::Fill };
    shared.helper.start(Box::new(move || {
        let shared = &ending.shared;
        let name = Place::InUse.segment(shared.owner.log, number);
        match Segment::create(&*shared.disk, shared.owner, name, shared.segment) {
            Ok(segment) => shared.lock().free.push(segment),
            // Without room nothing is lost yet: the caller that needs the segment tries again, and says so.
            Err(error) => drop(shared.fail(error)),
        }
    }));
}

/// Puts `bytes` in the place of all groups up to `mark`.
pub(crate) fn replace(shared: &Arc<Shared>, mark: Mark, bytes: Vec<u8>, limit: u64) {
    let mut state = shared.lock();
    state.replacing = true;
    // What is appended from here on is behind it.
    let grown = std::mem::take(&mut state.grown);
    drop(state);
    let ending = Ending { shared: Arc::clone(shared), job: Job::Replace };
    shared.helper.start(Box::new(move || {
        let shared = &ending.shared;
        match write(shared, mark, &bytes) {
            Ok(base) => settle(shared, mark, base, limit),
            Err(error) => {
                let error = shared.fail(error);
                let mut state = shared.lock();
                state.grown += grown;
                // Not at once again: the disk is full.
                state.due = state.grown + limit.div_ceil(4);
                state.late = Some(error);
            }
        }
    }));
}

fn write(shared: &Shared, mark: Mark, bytes: &[u8]) -> Result<Base, StoreError> {
    let base = Base { lsn: mark.lsn, len: bytes.len() as u64, check: crc32c::crc32c(bytes) };
    let (owner, run) = (shared.owner, shared.run.generation);
    let head = Head { owner, run, lsn: base.lsn, len: base.len, check: base.check };
    disk::replace(&*shared.disk, &Place::InUse.snapshot(owner.log), &[&head.encode(Kind::Snapshot), bytes])?;
    Ok(base)
}

/// The snapshot is on the disk under its name: what it stands for goes.
fn settle(shared: &Shared, mark: Mark, base: Base, limit: u64) {
    let mut state = shared.lock();
    state.base = Some(base);
    state.due = limit.max(base.len);
    shared.note_forced(&mut state, mark);
    state.unforced.retain(|it| it.first > mark.lsn);
    let mut gone = Vec::new();
    while state.full.front().is_some_and(|it| it.first <= mark.lsn) {
        let Some(segment) = state.full.pop_front() else { break };
        if segment.size == shared.segment && state.free.len() < shared.pool {
            state.free.push(segment);
        } else {
            gone.push(segment.name);
        }
    }
    drop(state);
    // If a name stays, its segment is found to lie before the snapshot, and goes to the pool of the next run.
    for name in gone {
        let _ = shared.disk.remove(&name);
    }
}

enum Job {
    Fill,
    Replace,
}

/// Says that a job has ended, even if it panics.
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
        }
        drop(state);
        self.shared.notify();
    }
}
