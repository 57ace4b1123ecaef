//! The groups that earlier runs have left. Each is read when the caller asks for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exonet_store::{FoundGroup, ReadGroups, StoreError};
use rusqlite::params;

use crate::database::{Database, NEVER, id_of, lsn_of, number, signed};

/// Reads the groups of a database. The journal may append to the database at the same time.
pub(crate) struct Reader {
    db: Arc<Mutex<Database>>,
    /// The last group that the snapshot replaces.
    base: u64,
    /// Whether the snapshot is still to be read.
    snapshot: bool,
    /// The LSN of the next group, or of one before it.
    next: u64,
    /// The last group to read.
    end: u64,
    bytes: u64,
    group: Vec<u8>,
    /// While this exists, no snapshot replaces groups.
    _reading: Arc<()>,
}

pub(crate) fn lock(db: &Mutex<Database>) -> MutexGuard<'_, Database> {
    db.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many bytes a database has.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    /// The bytes of all groups.
    pub(crate) groups: u64,
    /// The bytes of the snapshot. None: there is no snapshot.
    pub(crate) snapshot: Option<u64>,
}

/// The number of bytes of the snapshot. None: there is no snapshot.
pub(crate) fn snapshot_len(db: &Database) -> Result<Option<u64>, StoreError> {
    sum(db, "snapshot")
}

/// The number of bytes in the table. None: it has no rows.
fn sum(db: &Database, table: &str) -> Result<Option<u64>, StoreError> {
    let sum = format!("SELECT sum(length(bytes)) FROM {table}");
    let sum = db.0.query_row(&sum, [], |row| row.get::<_, Option<i64>>(0));
    Ok(sum.map_err(db.told("read"))?.map(number))
}

impl Reader {
    /// The groups up to `end`, of a database that has `sizes`.
    pub(crate) fn new(
        db: &Arc<Mutex<Database>>,
        base: u64,
        end: u64,
        sizes: Sizes,
        reading: &Arc<()>,
    ) -> Self {
        Self {
            db: Arc::clone(db),
            base,
            snapshot: sizes.snapshot.is_some(),
            next: 0,
            end,
            bytes: sizes.groups.saturating_add(sizes.snapshot.unwrap_or(0)),
            group: Vec::new(),
            _reading: Arc::clone(reading),
        }
    }

    /// All groups of a database to which nothing is appended.
    pub(crate) fn of_all(db: Database, base: u64, reading: &Arc<()>) -> Result<Self, StoreError> {
        let sizes = Sizes { groups: sum(&db, "groups")?.unwrap_or(0), snapshot: snapshot_len(&db)? };
        Ok(Self::new(&Arc::new(Mutex::new(db)), base, NEVER, sizes, reading))
    }

    fn read_snapshot(&mut self) -> Result<(), StoreError> {
        let (db, group) = (lock(&self.db), &mut self.group);
        let mut read = || {
            let mut parts = db.0.prepare_cached("SELECT bytes FROM snapshot ORDER BY part")?;
            let mut rows = parts.query([])?;
            while let Some(row) = rows.next()? {
                group.extend_from_slice(row.get_ref(0)?.as_blob()?);
            }
            Ok(())
        };
        read().map_err(db.told("read"))
    }

    /// Reads the next group, and returns its LSN. None: there are no more groups.
    fn read_group(&mut self) -> Result<Option<u64>, StoreError> {
        let (db, group, next, end) = (lock(&self.db), &mut self.group, self.next, self.end);
        let mut read = || {
            let mut parts =
                db.0.prepare_cached("SELECT id, bytes FROM groups WHERE id >= ?1 AND id < ?2 ORDER BY id")?;
            let mut rows = parts.query(params![signed(id_of(next)), signed(id_of(end.saturating_add(1)))])?;
            let mut found = None;
            while let Some(row) = rows.next()? {
                let lsn = lsn_of(number(row.get(0)?));
                if *found.get_or_insert(lsn) != lsn {
                    break;
                }
                group.extend_from_slice(row.get_ref(1)?.as_blob()?);
            }
            Ok(found)
        };
        read().map_err(db.told("read"))
    }
}

impl ReadGroups for Reader {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn next_found(&mut self) -> Result<Option<FoundGroup<'_>>, StoreError> {
        self.group.clear();
        if self.snapshot {
            self.read_snapshot()?;
            self.snapshot = false;
            return Ok(Some(FoundGroup { lsn: 0, kept: false, bytes: &self.group }));
        }
        let Some(lsn) = self.read_group()? else { return Ok(None) };
        self.next = lsn.saturating_add(1);
        Ok(Some(FoundGroup { lsn, kept: lsn <= self.base, bytes: &self.group }))
    }

    fn skip_kept(&mut self) -> Result<(), StoreError> {
        if !self.snapshot {
            self.next = self.next.max(self.base.saturating_add(1));
        }
        Ok(())
    }
}

/// No groups.
pub(crate) struct Nothing;

impl ReadGroups for Nothing {
    fn bytes(&self) -> u64 {
        0
    }

    fn next_found(&mut self) -> Result<Option<FoundGroup<'_>>, StoreError> {
        Ok(None)
    }

    fn skip_kept(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}
