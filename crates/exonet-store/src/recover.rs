//! Opens a journal: judges what the last run left, and begins a new run.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::disk::{self, Disk, DiskFile, Witness};
use crate::error::StoreError;
use crate::format::{HEADER, Owner};
use crate::found::{Found, Groups, LogGroups};
use crate::log::{Log, Tail};
use crate::run::{self, Ended, Run};
use crate::scan::{Scan, Wanted, scan};
use crate::secure::Unsecured;
use crate::segment::{Part, Place, Segment, name_aside};
use crate::shared::{Helper, Mark, Shared, State, Unforced};
use crate::store::check_level;
use crate::trust::{Reason, Trust, Verdict, judge};
use crate::{Level, Options};

/// The length in bytes of the first segment of a journal, at most: a node with little traffic never needs more.
const FIRST: u64 = 1 << 20;

struct Opening {
    disk: Arc<dyn Disk>,
    options: Options,
    boot: Option<[u8; 16]>,
    witness: Option<Box<dyn Witness>>,
    /// All names of the directory, sorted.
    names: Vec<String>,
    /// The names of files that are not needed once this run has begun.
    gone: Vec<String>,
    reading: Arc<()>,
}

/// A run, what it has left, and the verdict on that.
type Judged = (Run, Scan, Verdict);

/// The state with which this run continues.
struct Start {
    trust: Trust,
    is_new: bool,
    run: Run,
    groups: Groups,
    /// Empty unless the log is trusted.
    scan: Scan,
    /// What has to be forced later; None: all of the log is on disk.
    unsecured: Option<Unsecured>,
}

/// Opens the journal on this disk.
pub(crate) fn open(
    disk: Arc<dyn Disk>,
    helper: Arc<dyn Helper>,
    options: Options,
) -> Result<(Box<Log>, Found), StoreError> {
    let boot = disk.boot();
    check_level(options.level, &disk.path(""), boot, || disk.remote())?;
    let (opening, start) = Opening::new(disk, options, boot)?.start()?;
    opening.finish(helper, start)
}

/// Reads what [`open`] would find on this disk, and changes nothing. None: there is no journal.
pub(crate) fn read(disk: Arc<dyn Disk>, options: Options) -> Result<Option<(Trust, Groups)>, StoreError> {
    let boot = disk.boot();
    Opening::new(disk, options, boot)?.look()
}

fn list(disk: &dyn Disk) -> Result<Vec<String>, StoreError> {
    let mut names = disk.names().map_err(StoreError::io("list", &disk.path("")))?;
    names.sort();
    Ok(names)
}

impl Opening {
    fn new(disk: Arc<dyn Disk>, options: Options, boot: Option<[u8; 16]>) -> Result<Self, StoreError> {
        let names = list(&*disk)?;
        let witness = disk.witness();
        Ok(Self { disk, options, boot, witness, names, gone: Vec::new(), reading: Arc::new(()) })
    }

    /// Judges the files, and makes the trusted ones durable. If this stops half-way, nothing of the last run is lost.
    fn start(mut self) -> Result<(Self, Start), StoreError> {
        let identity = self.options.identity;
        let known = Run::read(&*self.disk, &identity)?;
        let newest = self.logs(Place::InUse).max();
        if let Some(run) = known.filter(|run| newest.is_none_or(|log| log <= run.log)) {
            // The last run may have stopped half-way.
            self.put_aside(run.log)?;
            self.names = list(&*self.disk)?;
        }
        let Some((last, found, mut verdict)) = self.judge(known, newest)? else {
            let run = Run { generation: 1, ..self.unknown(1) };
            let (groups, scan) = (LogGroups::none(&self.reading), Scan::default());
            let (trust, unsecured) = (Trust::Trusted, None);
            return Ok((self, Start { trust, is_new: true, run, groups, scan, unsecured }));
        };
        let owner = Owner { identity, log: last.log };
        let mut unsecured =
            Some(Unsecured::new(&last, owner.key(), &found)).filter(|_| verdict == Verdict::Trusted);
        if !self.may_wait(&last)
            && let Some(unsecured) = unsecured.take()
        {
            match unsecured.secure(&*self.disk) {
                // Together with the pages that could not be written, the only copy of the last run's groups is lost.
                Err(StoreError::Sync { .. }) if last.level == Level::Process && last.ended == Ended::Not => {
                    verdict = Verdict::Untrusted(Reason::SyncFailed);
                }
                other => other?,
            }
        }
        let generation = last.generation.max(last.log).max(found.newest).saturating_add(1);
        let (level, boot, ended) = (self.options.level, self.boot, Ended::Not);
        let run = Run { generation, level, boot, ended, ..last };
        let start = match verdict {
            Verdict::Corrupt => {
                let (path, what) = found.damage;
                return Err(StoreError::Corrupt { path, what });
            }
            Verdict::Trusted => self.go_on(run, owner, found, unsecured)?,
            Verdict::Untrusted(reason) => self.begin_anew(run, reason, owner, found)?,
        };
        Ok((self, start))
    }

    /// The last run, what it has left, and the verdict on that. None: there was none.
    fn judge(&self, known: Option<Run>, newest: Option<u64>) -> Result<Option<Judged>, StoreError> {
        let (last, reason) = match (known, newest) {
            // A log began after the last known run.
            (Some(run), Some(log)) if log > run.log => (Run { log, ..run }, Some(Reason::RolledBack)),
            (Some(run), _) => (run, None),
            (None, Some(log)) => (self.unknown(log), Some(Reason::NoRun)),
            (None, None) => return Ok(None),
        };
        let owner = Owner { identity: self.options.identity, log: last.log };
        let generation = if reason.is_some() { u64::MAX } else { last.generation };
        let wanted = Wanted { place: Place::InUse, owner, generation, noted: last.lsn };
        let found = scan(&*self.disk, wanted, &self.names)?;
        let witnessed = self.witness.as_ref().and_then(|witness| witness.read());
        let verdict = reason.map_or_else(|| judge(&last, &found, self.boot, witnessed), Verdict::Untrusted);
        Ok(Some((last, found, verdict)))
    }

    /// Reads what [`Self::start`] would find, provided that the log can be forced now. Changes nothing. If the log is
    /// not trusted, no groups are returned.
    fn look(&self) -> Result<Option<(Trust, Groups)>, StoreError> {
        let known = Run::read(&*self.disk, &self.options.identity)?;
        let Some((last, scan, verdict)) = self.judge(known, self.logs(Place::InUse).max())? else {
            return Ok(None);
        };
        let owner = Owner { identity: self.options.identity, log: last.log };
        let reason = match verdict {
            Verdict::Corrupt => {
                let (path, what) = scan.damage;
                return Err(StoreError::Corrupt { path, what });
            }
            Verdict::Trusted => last.reason.filter(|_| scan.is_empty()),
            Verdict::Untrusted(reason) => Some(reason),
        };
        let groups = match reason {
            None => LogGroups::open(&*self.disk, owner, &scan, &self.reading)?,
            Some(_) => LogGroups::none(&self.reading),
        };
        Ok(Some((reason.map_or(Trust::Trusted, Trust::Untrusted), groups)))
    }

    /// Continues a log.
    fn go_on(
        &self,
        run: Run,
        owner: Owner,
        scan: Scan,
        unsecured: Option<Unsecured>,
    ) -> Result<Start, StoreError> {
        // If the previous log was not trusted, the caller may not have drawn conclusions from that yet.
        let before = run.reason.filter(|_| scan.is_empty());
        let (trust, groups) = match before {
            Some(reason) => (Trust::Untrusted(reason), self.aside(run.aside)?),
            None => (Trust::Trusted, LogGroups::open(&*self.disk, owner, &scan, &self.reading)?),
        };
        let is_new = scan.is_empty() && before.is_none();
        // What is not secured yet must not be noted as forced.
        let forced = unsecured.as_ref().map_or((scan.end, scan.check), |_| (run.lsn, run.check));
        let run = Run { lsn: forced.0, check: forced.1, ..run };
        Ok(Start { trust, is_new, run, groups, scan, unsecured })
    }

    /// Begins a new log, since this one is not trusted.
    fn begin_anew(
        &mut self,
        mut run: Run,
        reason: Reason,
        owner: Owner,
        scan: Scan,
    ) -> Result<Start, StoreError> {
        let live: Vec<_> = scan.live.iter().map(|live| &live.name).chain([&scan.snapshot]).cloned().collect();
        let groups = if scan.is_empty() {
            self.aside(run.aside)?
        } else {
            run.aside = owner.log;
            LogGroups::open(&*self.disk, owner, &scan, &self.reading)?
        };
        // A log of empty segments must not replace the one that was put aside, and nothing reads the pool.
        let is_gone = |name: &String| {
            Place::InUse
                .parse(name)
                .is_some_and(|(log, _)| log != owner.log || scan.is_empty() || !live.contains(name))
        };
        (self.gone, self.names) = std::mem::take(&mut self.names).into_iter().partition(is_gone);
        let run = Run { log: run.generation, reason: Some(reason), lsn: 0, check: 0, ..run };
        let (trust, scan, unsecured) = (Trust::Untrusted(reason), Scan::default(), None);
        Ok(Start { trust, is_new: false, run, groups, scan, unsecured })
    }

    /// The groups of the log that was put aside.
    fn aside(&self, log: u64) -> Result<Groups, StoreError> {
        let owner = Owner { identity: self.options.identity, log };
        let wanted = Wanted { place: Place::Aside, owner, generation: u64::MAX, noted: 0 };
        LogGroups::open(&*self.disk, owner, &scan(&*self.disk, wanted, &self.names)?, &self.reading)
    }

    fn logs(&self, place: Place) -> impl Iterator<Item = u64> {
        self.names.iter().filter_map(move |name| Some(place.parse(name)?.0))
    }

    /// A run that has left no record.
    fn unknown(&self, log: u64) -> Run {
        let Options { identity, level, .. } = self.options;
        Run {
            identity,
            generation: log,
            log,
            aside: 0,
            level,
            ended: Ended::Not,
            reason: None,
            boot: self.boot,
            lsn: 0,
            check: 0,
        }
    }

    /// Whether the log may be forced after this run has begun. The witness, which only a run at the level `Process`
    /// has, shows that the log is complete. After a crash, this run is trusted only within the same boot, and only if
    /// the witness agrees again.
    fn may_wait(&self, last: &Run) -> bool {
        let witnessed = self.witness.as_ref().and_then(|witness| witness.read());
        self.options.level == Level::Process
            && last.ended == Ended::Not
            && witnessed.is_some_and(|(generation, _)| generation == last.generation)
    }

    /// Notes that this run has begun, and opens the log for appending.
    fn finish(mut self, helper: Arc<dyn Helper>, start: Start) -> Result<(Box<Log>, Found), StoreError> {
        let Start { trust, is_new, run, groups, scan, unsecured } = start;
        run.write(&*self.disk)?;
        self.gone.iter().for_each(|name| drop(self.disk.remove(name)));
        self.put_aside(run.log)?;
        let owner = Owner { identity: run.identity, log: run.log };
        let witness = self.witness.take().and_then(|mut witness| {
            // Not earlier, since the witness may have spoken against the last run. A witness that is not updated with
            // the log is useless.
            let begun = run.level == Level::Process && witness.begin(run.generation, scan.end).is_ok();
            if !begun {
                witness.remove();
            }
            begun.then_some(witness)
        });
        let (tail, state) = self.state(owner, scan, &run, unsecured)?;
        let generation = run.generation;
        let sizes = (self.options.segment, self.options.pool);
        let shared = Arc::new(Shared::new(self.disk, helper, run, sizes, state));
        let log = Log::new(shared, witness, tail, self.reading, self.options.snapshot_after);
        Ok((Box::new(log), Found { trust, generation, is_new, groups }))
    }

    /// Renames the files of all logs except this one, and removes those that were put aside before.
    fn put_aside(&self, log: u64) -> Result<(), StoreError> {
        let known = self.names.iter().filter_map(|name| Some((name, Place::InUse.parse(name)?)));
        let is_whole = |part: &Part| *part != Part::Unfinished;
        let moved: Vec<_> = known.filter(|(_, (other, part))| *other != log && is_whole(part)).collect();
        if !moved.is_empty() {
            // If the last run died half-way, the name of the file that says which log is in use may not be on disk
            // yet.
            disk::sync_names(&*self.disk)?;
        }
        for name in &self.names {
            // Files that the last run renamed before it stopped half-way belong to the same log as those that are
            // renamed now.
            let is_older =
                |(older, _)| !moved.is_empty() && moved.iter().all(|(_, (other, _))| *other != older);
            let is_unfinished = Place::InUse.parse(name).is_some_and(|(_, part)| !is_whole(&part));
            if is_unfinished
                || *name == format!("{}.new", run::FILE)
                || Place::Aside.parse(name).is_some_and(is_older)
            {
                self.disk.remove(name).map_err(StoreError::io("remove", &self.disk.path(name)))?;
            }
        }
        for (name, _) in &moved {
            if let Some(to) = name_aside(name) {
                self.disk.rename(name, &to).map_err(StoreError::io("rename", &self.disk.path(name)))?;
            }
        }
        if moved.is_empty() { Ok(()) } else { disk::sync_names(&*self.disk) }
    }

    /// The segments, including the one to which groups are appended.
    fn state(
        &self,
        owner: Owner,
        scan: Scan,
        run: &Run,
        unsecured: Option<Unsecured>,
    ) -> Result<(Tail, State), StoreError> {
        let (lsn, check) = (scan.end, scan.check);
        let (mut full, mut free) = (VecDeque::new(), Vec::new());
        for spare in scan.spare {
            let is_usual = spare.filled && spare.size == self.options.segment;
            if !is_usual || free.len() >= self.options.pool {
                let _ = self.disk.remove(&spare.name);
            } else if let Some(file) = self.open(&spare.name)? {
                free.push(Segment { name: spare.name, size: spare.size, first: 0, run: 0, file });
            }
        }
        let mut tail = None;
        for live in scan.live {
            if let Some(file) = self.open(&live.name)? {
                // A file that was cut lacks blocks, so nothing more is written to it.
                let at = if live.size == live.head.len { live.end } else { live.size };
                let (size, first, run) = (live.size, live.head.lsn, live.head.run);
                let segment = Segment { name: live.name, size, first, run, file };
                full.extend(tail.replace((segment, at)).map(|(before, _)| before));
            }
        }
        let mut next_number = scan.next_number;
        let (mut current, at) = match (tail, free.pop()) {
            (Some((segment, at)), spare) => {
                free.extend(spare);
                (segment, at)
            }
            (None, Some(mut segment)) => {
                segment.begin(&*self.disk, owner, run.generation, lsn + 1)?;
                (segment, HEADER as u64)
            }
            (None, None) => {
                let (name, size) =
                    (Place::InUse.segment(owner.log, next_number), self.options.segment.min(FIRST));
                next_number += 1;
                let mut segment = Segment::create(&*self.disk, owner, name, size)?;
                segment.begin(&*self.disk, owner, run.generation, lsn + 1)?;
                (segment, HEADER as u64)
            }
        };
        current.file.map();
        let unforced =
            Unforced { first: current.first, name: current.name.clone(), syncer: current.syncer() };
        let mark = |lsn| Mark { lsn, through: 0 };
        let forced = unsecured.as_ref().map_or(lsn, |unsecured| unsecured.forced);
        let state = State {
            failed: None,
            appended: mark(lsn),
            forced: mark(forced),
            unforced: VecDeque::from([unforced]),
            full,
            free,
            next_number,
            filling: false,
            replacing: false,
            unsecured,
            securing: false,
            base: scan.base,
            grown: scan.bytes,
            due: self.options.snapshot_after.max(scan.base.map_or(0, |base| base.len)),
            late: None,
        };
        Ok((Tail { current, at, lsn, check }, state))
    }

    fn open(&self, name: &str) -> Result<Option<Box<dyn DiskFile>>, StoreError> {
        self.disk.open(name).map_err(StoreError::io("open", &self.disk.path(name)))
    }
}
