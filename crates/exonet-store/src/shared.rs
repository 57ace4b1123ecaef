//! The state that the appending thread, the forcing threads and the helpers share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::disk::{Disk, Syncer};
use crate::error::StoreError;
use crate::format::Owner;
use crate::run::{Ended, Run};
use crate::secure::Unsecured;
use crate::segment::Segment;

/// The end of the log at some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The number of groups, over all runs.
    pub(crate) lsn: u64,
    /// The caller's position, in this run.
    pub(crate) through: u64,
}

/// A snapshot on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Base {
    /// The last group that it replaces.
    pub(crate) lsn: u64,
    /// The length of its state.
    pub(crate) len: u64,
    /// The checksum of its state.
    pub(crate) check: u32,
    /// The first group that is kept; `lsn + 1` if it replaces all groups before.
    pub(crate) from: u64,
}

/// Runs work that would block: on threads, or in tests when the test decides.
pub(crate) trait Helper: Send + Sync {
    /// Begins a job.
    fn start(&self, job: Box<dyn FnOnce() + Send>);
    /// Does some of the work that has begun, on this thread. Returns false if the work runs on other threads.
    fn help(&self) -> bool;
}

/// Constants of a run, and the state under a lock.
pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) helper: Arc<dyn Helper>,
    pub(crate) owner: Owner,
    /// The length of a usual segment.
    pub(crate) segment: u64,
    /// How many segments the pool holds at most.
    pub(crate) pool: usize,
    /// The record that was written before the first effect of this run.
    pub(crate) run: Run,
    broken: AtomicBool,
    /// A copy of the value in the state, for the thread that appends.
    forced: AtomicU64,
    /// Held while files are forced: if two threads forced one file, only one of them would get its error.
    forcing: Mutex<()>,
    state: Mutex<State>,
    done: Condvar,
}

/// A file with bytes that may not be on disk.
pub(crate) struct Unforced {
    pub(crate) first: u64,
    pub(crate) name: String,
    pub(crate) syncer: Arc<dyn Syncer>,
}

pub(crate) struct State {
    pub(crate) failed: Option<StoreError>,
    pub(crate) appended: Mark,
    pub(crate) forced: Mark,
    /// The files in the order of the log; groups are appended to the last.
    pub(crate) unforced: VecDeque<Unforced>,
    /// Full segments, oldest first.
    pub(crate) full: VecDeque<Segment>,
    /// The pool.
    pub(crate) free: Vec<Segment>,
    pub(crate) next_number: u64,
    pub(crate) filling: bool,
    pub(crate) replacing: bool,
    /// Groups of the last run that are not known to be on disk, until a job secures them.
    pub(crate) unsecured: Option<Unsecured>,
    pub(crate) securing: bool,
    pub(crate) base: Option<Base>,
    /// The number of bytes of groups after the snapshot.
    pub(crate) grown: u64,
    /// How large `grown` must be before the next snapshot is due.
    pub(crate) due: u64,
    /// The error of the last snapshot, if it failed.
    pub(crate) late: Option<StoreError>,
}

impl State {
    /// Whether a job is running.
    pub(crate) const fn is_busy(&self) -> bool {
        self.replacing || self.filling || self.securing
    }

    /// The place in the pool of the shortest segment with room for a group of `need` bytes. So a longer one stays for
    /// the group that it was made for.
    pub(crate) fn shortest_with(&self, need: u64) -> Option<usize> {
        let fits = self.free.iter().enumerate().filter(|(_, it)| need <= it.room());
        fits.min_by_key(|(_, it)| it.size).map(|(place, _)| place)
    }

    /// Whether a group of `need` bytes, and after it groups of `reserve` bytes, need no more room on the disk. The
    /// current segment has room for `left` bytes.
    pub(crate) fn has_reserve(&self, left: u64, need: u64, reserve: u64) -> bool {
        let found = if need <= left { None } else { self.shortest_with(need) };
        let room = found.and_then(|found| self.free.get(found)).map_or(left, Segment::room);
        let other = |(place, it): (usize, &Segment)| Some(place) != found && reserve <= it.room();
        room.checked_sub(need).is_some_and(|rest| reserve <= rest || self.free.iter().enumerate().any(other))
    }
}

impl Shared {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        helper: Arc<dyn Helper>,
        run: Run,
        sizes: (u64, usize),
        state: State,
    ) -> Self {
        let owner = Owner { identity: run.identity, log: run.log };
        let (segment, pool) = sizes;
        let (broken, forced) = (AtomicBool::new(false), AtomicU64::new(state.forced.lsn));
        let (forcing, done) = (Mutex::new(()), Condvar::new());
        Self {
            disk,
            helper,
            owner,
            segment,
            pool,
            run,
            broken,
            forced,
            forcing,
            state: Mutex::new(state),
            done,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error that ended this journal, if one did.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if self.broken.load(Ordering::Relaxed) { Err(self.failure()) } else { Ok(()) }
    }

    #[cold]
    fn failure(&self) -> StoreError {
        let failed = self.lock().failed.clone();
        failed.unwrap_or(StoreError::Sync {
            path: self.disk.path(""),
            error: Arc::new(std::io::ErrorKind::Other.into()),
        })
    }

    /// Ends this journal. If it has already ended, the first error stays. A temporary error does not end it.
    #[cold]
    pub(crate) fn fail(&self, error: StoreError) -> StoreError {
        if error.is_full() {
            return error;
        }
        let mut state = self.lock();
        if let Some(first) = &state.failed {
            return first.clone();
        }
        state.failed = Some(error.clone());
        drop(state);
        self.broken.store(true, Ordering::Relaxed);
        self.done.notify_all();
        // So the next run does not take what is only in memory for what is on disk. If this fails too, the next run
        // has the witness.
        let _ = Run { ended: Ended::Failed, ..self.run }.write(&*self.disk);
        error
    }

    /// Reports that a job has ended.
    pub(crate) fn notify(&self) {
        self.done.notify_all();
    }

    /// Waits while `busy` returns true.
    pub(crate) fn wait_while(&self, busy: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        while busy(&state) {
            drop(state);
            let helped = self.helper.help();
            state = self.lock();
            if !helped && busy(&state) {
                state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        state
    }

    /// Notes that everything up to `mark` is on disk.
    pub(crate) fn note_forced(&self, state: &mut State, mark: Mark) {
        if state.forced.lsn < mark.lsn {
            state.forced = mark;
            self.forced.store(mark.lsn, Ordering::Relaxed);
        }
    }

    /// The LSN up to which all groups are on disk.
    #[inline]
    pub(crate) fn forced(&self) -> u64 {
        self.forced.load(Ordering::Relaxed)
    }

    /// Returns the groups of the last run that this caller must secure, by [`Shared::secure_these`]. None: there are
    /// none, or another caller secures them.
    pub(crate) fn take_unsecured(&self) -> Option<Unsecured> {
        let mut state = self.lock();
        let unsecured = state.unsecured.take();
        state.securing |= unsecured.is_some();
        unsecured
    }

    /// Makes the groups of the last run durable.
    pub(crate) fn secure_these(&self, unsecured: Unsecured) -> Result<(), StoreError> {
        let secured = unsecured.secure(&*self.disk).map_err(|error| self.fail(error));
        let mut state = self.lock();
        match secured {
            Ok(()) => self.note_forced(&mut state, Mark { lsn: unsecured.end.0, through: 0 }),
            Err(_) => state.unsecured = Some(unsecured),
        }
        state.securing = false;
        drop(state);
        self.notify();
        secured
    }

    /// Makes the groups of the last run durable, or waits until they are.
    pub(crate) fn secure(&self) -> Result<(), StoreError> {
        drop(self.wait_while(|state| state.securing));
        self.take_unsecured().map_or(Ok(()), |unsecured| self.secure_these(unsecured))
    }

    /// Forces everything that was appended before the call. Returns the caller's position at that time.
    pub(crate) fn force(&self) -> Result<u64, StoreError> {
        self.check()?;
        self.secure()?;
        let _forcing = self.forcing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.lock();
        if let Some(failed) = &state.failed {
            return Err(failed.clone());
        }
        let target = state.appended;
        if target == state.forced {
            return Ok(target.through);
        }
        let files: Vec<_> =
            state.unforced.iter().map(|it| (it.first, it.name.clone(), Arc::clone(&it.syncer))).collect();
        drop(state);
        for (_, name, syncer) in &files {
            syncer.sync().map_err(|error| self.fail(StoreError::sync(&self.disk.path(name))(error)))?;
        }
        state = self.lock();
        if let Some(failed) = &state.failed {
            return Err(failed.clone());
        }
        self.note_forced(&mut state, target);
        // Meanwhile the last of these files may have more groups.
        if let Some((last, ..)) = files.last() {
            state.unforced.retain(|it| it.first >= *last);
        }
        Ok(state.forced.through)
    }
}

/// Runs each job on a thread of its own, since jobs are few and far between.
pub(crate) struct Threads;

impl Helper for Threads {
    fn start(&self, job: Box<dyn FnOnce() + Send>) {
        use std::sync::{Arc, Mutex, PoisonError};
        let job = Arc::new(Mutex::new(Some(job)));
        let run = |job: &Mutex<Option<Box<dyn FnOnce() + Send>>>| {
            let job = job.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(job) = job {
                job();
            }
        };
        let theirs = Arc::clone(&job);
        if std::thread::Builder::new().name("exonet-store".into()).spawn(move || run(&theirs)).is_err() {
            run(&job);
        }
    }

    fn help(&self) -> bool {
        false
    }
}
