//! The open journal, which appends groups, forces them, and replaces them by snapshots.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use exonet_store::{
    Force, Found, Groups, Level, MAX_GROUP, Options, Reason, Storage, StoreError, Trust, keep_from, prepare,
    sync_dir,
};
use rusqlite::params;

use crate::NAME;
use crate::database::{Database, Ended, PART, Run, id_of, lsn_of, number, signed};
use crate::groups::{Nothing, Reader, Sizes, lock, snapshot_len};
use crate::room::{Reserve, with_reserve};

const FILE: &str = "journal.sqlite";
const ASIDE: &str = "untrusted.sqlite";
/// This file exists if the system has failed to write or force bytes that a run at the level `Process` had taken.
const FAILED: &str = "failed";
/// The smallest number of bytes that is moved from the WAL into the database at once.
const SETTLE: u64 = 1 << 20;

/// Forces a file to the disk.
pub(crate) type Syncer = Arc<dyn Fn(&File) -> io::Result<()> + Send + Sync>;

/// Forces a file as the system does.
pub(crate) fn system() -> Syncer {
    Arc::new(File::sync_data)
}

/// The part that the journal shares with the handles that force it.
struct Shared {
    db: Weak<Mutex<Database>>,
    dir: PathBuf,
    level: Level,
    wal: File,
    path: PathBuf,
    sync: Syncer,
    /// The caller's position after the last group.
    appended: AtomicU64,
    failed: Mutex<Option<StoreError>>,
    /// The position up to which the journal is forced. A thread holds this while it forces the WAL. If two threads forced
    /// at once, only one of them would get an error.
    forced: Mutex<u64>,
}

impl Shared {
    fn check(&self) -> Result<(), StoreError> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.clone().map_or(Ok(()), Err)
    }

    /// Ends the journal, unless the error is a lack of room. The first error stays.
    fn fail(&self, error: StoreError) -> StoreError {
        if matches!(error, StoreError::Full { .. }) {
            return error;
        }
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let first = failed.get_or_insert(error).clone();
        drop(failed);
        // These two notes tell the next run that bytes in the system's memory may not be on the disk. Each note may fail to
        // be written. The row lies in the WAL after the bytes that may be lost.
        if self.level == Level::Process {
            let _ = note_failure(&self.dir);
        }
        if let Some(db) = self.db.upgrade() {
            let _ = lock(&db).0.execute("UPDATE run SET ended = ?1", [Ended::Failed.number()]);
        }
        first
    }

    fn force(&self) -> Result<u64, StoreError> {
        self.check()?;
        let mut forced = self.forced.lock().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        let target = self.appended.load(Ordering::Acquire);
        if *forced < target {
            (self.sync)(&self.wal).map_err(|error| self.fail(StoreError::sync(&self.path)(error)))?;
            *forced = target;
        }
        Ok(target)
    }
}

/// Groups with consecutive LSNs.
#[derive(Clone, Copy)]
struct Batch {
    first: u64,
    bytes: u64,
}

/// The journal, open for appending.
pub(crate) struct Journal {
    db: Arc<Mutex<Database>>,
    shared: Arc<Shared>,
    identity: [u8; 32],
    run: Run,
    lsn: u64,
    /// All groups, in batches of about one segment.
    batches: VecDeque<Batch>,
    /// The length of a segment, in the options.
    segment: u64,
    /// Bytes in the WAL.
    unsettled: u64,
    /// The bytes of the groups after the snapshot.
    grown: u64,
    /// A snapshot is wanted when `grown` has reached this number of bytes.
    due: u64,
    limit: u64,
    reserve: Reserve,
    /// The readers of the groups that were found share this.
    reading: Arc<()>,
}

/// Opens the journal, or begins one.
pub(crate) fn open(dir: &Path, options: &Options, sync: Syncer) -> Result<(Journal, Found), StoreError> {
    let boot = prepare(dir, NAME, options)?;
    let path = dir.join(FILE);
    let wal_path = dir.join(format!("{FILE}-wal"));
    let mut db = Database::open(&path)?;
    let last = Last::read(&db, dir, options.identity, boot)?;
    let generation = last.generation.saturating_add(1);
    let mut run = Run::begin(generation, options.level, boot, last.distrust);
    with_reserve(dir, || last.secure(&db, dir, &sync))?;
    let anew = match last.run {
        Some(before) if before.aside.is_none() && last.distrust.is_some() => {
            db = put_aside(db, dir)?;
            true
        }
        Some(before) => {
            run.base = before.base;
            false
        }
        None => true,
    };
    with_reserve(dir, || run.write(&db, options.identity, anew))?;
    let wal = open_wal(&wal_path)?;
    sync(&wal).map_err(StoreError::sync(&wal_path))?;
    remove(&dir.join(FAILED))?;
    sync_dir(dir).map_err(StoreError::sync(dir))?;

    let (batches, after, last_lsn) = batches(&db, run.base, options.segment)?;
    let lsn = last_lsn.max(run.base);
    let sizes = Sizes { groups: bytes_of(&batches), snapshot: snapshot_len(&db)? };
    let (db, reading) = (Arc::new(Mutex::new(db)), Arc::new(()));
    let groups = match run.aside {
        None => Groups::new(Reader::new(&db, run.base, lsn, sizes, &reading)),
        Some(_) => aside(dir, options.identity, &reading)?,
    };
    let shared = Shared {
        db: Arc::downgrade(&db),
        dir: dir.to_path_buf(),
        level: options.level,
        wal,
        path: wal_path,
        sync,
        appended: AtomicU64::new(0),
        failed: Mutex::default(),
        forced: Mutex::default(),
    };
    let limit = options.snapshot_after;
    let journal = Journal {
        db,
        shared: Arc::new(shared),
        identity: options.identity,
        run,
        lsn,
        batches,
        segment: options.segment,
        unsettled: 0,
        grown: after,
        due: limit.max(sizes.snapshot.unwrap_or(0)),
        limit,
        reserve: Reserve::new(dir, options.segment),
        reading,
    };
    let trust = last.distrust.map_or(Trust::Trusted, Trust::Untrusted);
    let is_new = last.distrust.is_none() && lsn == 0;
    Ok((journal, Found { trust, generation, is_new, groups }))
}

/// The state in which the last run has left the journal.
struct Last {
    /// None: the database is empty.
    run: Option<Run>,
    generation: u64,
    /// The reason not to trust the journal, if there is one.
    distrust: Option<Reason>,
}

impl Last {
    fn read(
        db: &Database,
        dir: &Path,
        identity: [u8; 32],
        boot: Option<[u8; 16]>,
    ) -> Result<Self, StoreError> {
        let run = Run::read(db, identity)?;
        let before = match run {
            // A run put the database aside, and ended before it had begun a new one.
            None if is_there(&dir.join(ASIDE))? => {
                let before = Run::read(&Database::open(&dir.join(ASIDE))?, identity)?;
                let distrust = before.and_then(|run| run.distrust(boot)).unwrap_or(Reason::Rebooted);
                return Ok(Self {
                    run,
                    generation: before.map_or(0, |run| run.generation),
                    distrust: Some(distrust),
                });
            }
            None => return Ok(Self { run, generation: 0, distrust: None }),
            Some(run) => run,
        };
        let has_failed = before.process && is_there(&dir.join(FAILED))?;
        let failed = has_failed.then_some(Reason::SyncFailed);
        let distrust = before.aside.or_else(|| before.distrust(boot)).or(failed);
        Ok(Self { run, generation: before.generation, distrust })
    }

    /// Forces bytes that the last run may not have forced.
    fn secure(&self, db: &Database, dir: &Path, sync: &Syncer) -> Result<(), StoreError> {
        let wal = dir.join(format!("{FILE}-wal"));
        let forced = sync(&open_wal(&wal)?).map_err(StoreError::sync(&wal));
        let secured = forced.and_then(|()| db.settle());
        let is_in_memory = self.run.is_some_and(|run| run.process && run.ended == Ended::Open);
        if is_in_memory && matches!(secured, Err(StoreError::Sync { .. })) {
            // The system may now lose its only copy of the bytes that it failed to write.
            note_failure(dir).map_err(StoreError::io("write", &dir.join(FAILED)))?;
        }
        secured
    }
}

fn open_wal(path: &Path) -> Result<File, StoreError> {
    File::options().read(true).write(true).open(path).map_err(StoreError::io("open", path))
}

fn is_there(path: &Path) -> Result<bool, StoreError> {
    path.try_exists().map_err(StoreError::io("inspect", path))
}

/// Removes the file if it exists.
fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Notes on the disk that groups of the run may be lost.
fn note_failure(dir: &Path) -> io::Result<()> {
    File::create(dir.join(FAILED))?.sync_all()?;
    sync_dir(dir)
}

/// Puts a database that is not trusted aside, and makes an empty one.
fn put_aside(db: Database, dir: &Path) -> Result<Database, StoreError> {
    let (path, aside) = (dir.join(FILE), dir.join(ASIDE));
    let waste = [dir.join(format!("{ASIDE}-wal")), dir.join(format!("{FILE}-wal"))];
    drop(db);
    // Both are empty: everything in them was moved into the databases.
    for file in &waste {
        remove(file)?;
    }
    fs::rename(&path, &aside).map_err(StoreError::io("rename", &path))?;
    Database::open(&path)
}

/// The groups of the database that was put aside. None if the user has removed that database.
fn aside(dir: &Path, identity: [u8; 32], reading: &Arc<()>) -> Result<Groups, StoreError> {
    if !is_there(&dir.join(ASIDE))? {
        return Ok(Groups::new(Nothing));
    }
    let db = Database::open(&dir.join(ASIDE))?;
    let Some(run) = Run::read(&db, identity)? else { return Ok(Groups::new(Nothing)) };
    Ok(Groups::new(Reader::of_all(db, run.base, reading)?))
}

/// All groups in batches, the number of bytes of those after the snapshot, and the last LSN.
fn batches(db: &Database, base: u64, size: u64) -> Result<(VecDeque<Batch>, u64, u64), StoreError> {
    let scan = || {
        let (mut batches, mut after, mut last) = (VecDeque::new(), 0, 0);
        let mut parts = db.0.prepare("SELECT id, length(bytes) FROM groups ORDER BY id")?;
        let mut rows = parts.query([])?;
        while let Some(row) = rows.next()? {
            let (lsn, bytes) = (lsn_of(number(row.get(0)?)), number(row.get(1)?));
            enter(&mut batches, lsn, bytes, size);
            after += if lsn > base { bytes } else { 0 };
            last = lsn;
        }
        Ok((batches, after, last))
    };
    scan().map_err(db.told("read"))
}

fn bytes_of(batches: &VecDeque<Batch>) -> u64 {
    batches.iter().map(|batch| batch.bytes).sum()
}

fn enter(batches: &mut VecDeque<Batch>, lsn: u64, bytes: u64, size: u64) {
    match batches.back_mut() {
        Some(last) if last.bytes < size => last.bytes += bytes,
        _ => batches.push_back(Batch { first: lsn, bytes }),
    }
}

/// Calls `each` with the bytes of `records` in parts, numbered from zero.
fn in_parts(
    records: &[&[u8]],
    mut each: impl FnMut(u64, &[u8]) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    if let [whole] = records
        && whole.len() <= PART
    {
        return each(0, whole);
    }
    let (mut part, mut bytes) = (0, Vec::new());
    for record in records {
        let mut rest = *record;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(PART.saturating_sub(bytes.len())));
            bytes.extend_from_slice(now);
            rest = later;
            if bytes.len() >= PART {
                each(part, &bytes)?;
                bytes.clear();
                part += 1;
            }
        }
    }
    if bytes.is_empty() { Ok(()) } else { each(part, &bytes) }
}

impl Journal {
    /// Writes one group as one transaction.
    fn write(&self, records: &[&[u8]]) -> Result<(), StoreError> {
        let (db, id, first) = (lock(&self.db), id_of(self.lsn + 1), self.run.aside.is_some());
        let write = || {
            let step = db.0.unchecked_transaction()?;
            let mut insert = step.prepare_cached("INSERT INTO groups VALUES (?1, ?2)")?;
            in_parts(records, |part, bytes| insert.execute(params![signed(id + part), bytes]).map(drop))?;
            drop(insert);
            if first {
                step.execute("UPDATE run SET aside = 0", [])?;
            }
            step.commit()
        };
        write().map_err(db.told("write"))
    }

    /// Moves the WAL into the database if it is long enough. If the disk is full, leaves the WAL to grow.
    fn settle(&mut self) -> Result<(), StoreError> {
        if self.unsettled < self.segment.max(SETTLE) {
            return Ok(());
        }
        self.unsettled = 0;
        let settled = lock(&self.db).settle();
        match settled {
            Err(StoreError::Full { .. }) => Ok(()),
            settled => settled,
        }
    }
}

#[cfg(test)]
impl Journal {
    /// Limits the database to this many pages, as a full disk does. Returns the number of pages that it has.
    pub(crate) fn bound(&self, pages: u32) -> u32 {
        let db = lock(&self.db);
        let set = format!("PRAGMA max_page_count = {pages}");
        db.0.query_row(&set, [], |_| Ok(())).unwrap();
        db.0.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap()
    }

    pub(crate) fn pragma(&self, name: &str) -> i64 {
        lock(&self.db).0.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).unwrap()
    }
}

impl Storage for Journal {
    fn append_parts(&mut self, through: u64, records: &[&[u8]]) -> Result<(), StoreError> {
        self.shared.check()?;
        let len = records.iter().map(|part| part.len() as u64).sum();
        if len == 0 {
            return Ok(());
        }
        let last = self.shared.appended.load(Ordering::Acquire);
        if through <= last {
            return Err(StoreError::Backwards { through, last });
        }
        if len > MAX_GROUP {
            return Err(StoreError::TooLong { len });
        }
        let mut written = self.write(records);
        if matches!(written, Err(StoreError::Full { .. })) && self.reserve.give_up() {
            written = self.write(records);
        }
        written.map_err(|error| self.shared.fail(error))?;
        self.lsn += 1;
        self.run.aside = None;
        enter(&mut self.batches, self.lsn, len, self.segment);
        self.grown += len;
        self.unsettled += len;
        self.shared.appended.store(through, Ordering::Release);
        self.settle().map_err(|error| self.shared.fail(error))
    }

    fn forcer(&self) -> Box<dyn Force> {
        Box::new(Forcer(Arc::clone(&self.shared)))
    }

    fn wants_snapshot(&self) -> bool {
        self.grown >= self.due && self.shared.check().is_ok()
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
        let from = from.min(self.lsn + 1);
        let db = lock(&self.db);
        let write = || {
            let step = db.0.unchecked_transaction()?;
            step.execute("DELETE FROM snapshot", [])?;
            let mut insert = step.prepare_cached("INSERT INTO snapshot VALUES (?1, ?2)")?;
            in_parts(&[&state], |part, bytes| insert.execute(params![signed(part), bytes]).map(drop))?;
            drop(insert);
            step.execute("DELETE FROM groups WHERE id < ?1", [signed(id_of(from))])?;
            step.execute("UPDATE run SET base = ?1, aside = 0", [signed(self.lsn)])?;
            step.commit()
        };
        let written = write().map_err(db.told("write"));
        drop(db);
        if let Err(error) = written {
            self.due = self.grown.saturating_add(self.limit);
            return Err(self.shared.fail(error));
        }
        (self.run.base, self.run.aside) = (self.lsn, None);
        let had = bytes_of(&self.batches);
        while self.batches.get(1).is_some_and(|next| next.first <= from) {
            self.batches.pop_front();
        }
        if from > self.lsn {
            self.batches.clear();
        }
        let has = bytes_of(&self.batches);
        (self.grown, self.due) = (0, self.limit.max(len));
        if had > has {
            match lock(&self.db).shrink() {
                // The next groups use the free pages.
                Err(StoreError::Full { .. }) => {}
                shrunk => shrunk.map_err(|error| self.shared.fail(error))?,
            }
        }
        self.unsettled += len + had.saturating_sub(has);
        self.settle().map_err(|error| self.shared.fail(error))
    }

    fn keep_from(&self, needed: &[(u64, u64)]) -> u64 {
        let batches: Vec<_> = self.batches.iter().map(|batch| (batch.first, batch.bytes)).collect();
        keep_from(&batches, needed)
    }

    fn lsn(&self) -> u64 {
        self.lsn
    }

    fn room(&self) -> u64 {
        // This store makes nothing ready: each group asks the disk for room.
        0
    }

    fn has_reserve(&mut self, need: u64) -> bool {
        need <= MAX_GROUP && self.shared.check().is_ok() && self.reserve.has(need)
    }

    fn still_there(&self) -> Result<(), StoreError> {
        self.shared.check()?;
        let path = &self.shared.path;
        // An error does not tell that the file is gone.
        match path.try_exists() {
            Ok(false) => Err(self.shared.fail(StoreError::Removed { path: path.clone() })),
            Ok(true) | Err(_) => Ok(()),
        }
    }

    fn close(mut self: Box<Self>) -> Result<(), StoreError> {
        self.still_there()?;
        self.shared.force()?;
        self.run.ended = Ended::Clean;
        let db = lock(&self.db);
        self.run.write(&db, self.identity, false)?;
        db.settle()
    }
}

struct Forcer(Arc<Shared>);

impl Force for Forcer {
    fn force(&mut self) -> Result<u64, StoreError> {
        self.0.force()
    }
}
