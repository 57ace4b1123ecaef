//! The database: its tables, their rows, and its errors.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use exonet_store::{Level, Reason, StoreError};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};

/// The format of the tables.
const VERSION: i64 = 1;

/// `groups` has the parts of each group, by LSN and part. `snapshot` has the parts of the state. `run` has one row.
const TABLES: &str = "
    CREATE TABLE groups (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
    CREATE TABLE snapshot (part INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
    CREATE TABLE run (
        identity BLOB NOT NULL, generation INTEGER NOT NULL, level INTEGER NOT NULL, boot BLOB, ended INTEGER NOT NULL,
        base INTEGER NOT NULL, aside INTEGER NOT NULL
    );";

/// The longest part of a group. SQLite takes up to 1,000,000,000 bytes in one value.
pub(crate) const PART: usize = 16 << 20;
/// The bits of an id that number the parts.
const PARTS: u32 = 16;

/// An LSN that no group has. Its id has 62 bits.
pub(crate) const NEVER: u64 = 1 << 46;

/// The id of the first part of a group.
pub(crate) const fn id_of(lsn: u64) -> u64 {
    lsn << PARTS
}

/// The LSN of the group to which this part belongs.
pub(crate) const fn lsn_of(id: u64) -> u64 {
    id >> PARTS
}

/// How the last run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The run has not ended, or its process died.
    Open,
    Clean,
    /// The system has failed to write or force bytes that it had taken.
    Failed,
}

impl Ended {
    pub(crate) const fn number(self) -> i64 {
        match self {
            Self::Open => 0,
            Self::Clean => 1,
            Self::Failed => 2,
        }
    }

    const fn of(number: i64) -> Self {
        match number {
            1 => Self::Clean,
            2 => Self::Failed,
            _ => Self::Open,
        }
    }
}

/// The row of `run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) generation: u64,
    /// Whether a power cut can lose the groups of this run.
    pub(crate) process: bool,
    pub(crate) boot: Option<[u8; 16]>,
    pub(crate) ended: Ended,
    /// The last group that the snapshot replaces. Zero: there is no snapshot.
    pub(crate) base: u64,
    /// Why the last journal was put aside. None as soon as a group is appended to this one.
    pub(crate) aside: Option<Reason>,
}

const REBOOTED: i64 = 1;
const SYNC_FAILED: i64 = 2;

impl Run {
    pub(crate) const fn begin(
        generation: u64,
        level: Level,
        boot: Option<[u8; 16]>,
        aside: Option<Reason>,
    ) -> Self {
        let process = matches!(level, Level::Process);
        Self { generation, process, boot, ended: Ended::Open, base: 0, aside }
    }

    /// The reason not to trust the groups of this run, if there is one.
    pub(crate) fn distrust(&self, boot: Option<[u8; 16]>) -> Option<Reason> {
        if self.ended == Ended::Clean || !self.process {
            return None;
        }
        if boot.is_none() || boot != self.boot {
            return Some(Reason::Rebooted);
        }
        (self.ended == Ended::Failed).then_some(Reason::SyncFailed)
    }

    /// Reads the row. None: the tables do not exist, or the process that made them did not finish.
    pub(crate) fn read(db: &Database, identity: [u8; 32]) -> Result<Option<Self>, StoreError> {
        let version: i64 =
            db.0.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(db.told("read"))?;
        if version > VERSION {
            return Err(StoreError::Version { path: db.path() });
        }
        if version == 0 {
            return Ok(None);
        }
        let row = db.0.query_row(
            "SELECT identity, generation, level, boot, ended, base, aside FROM run",
            [],
            |row| {
                let owner: Vec<u8> = row.get(0)?;
                let boot: Option<Vec<u8>> = row.get(3)?;
                let aside: i64 = row.get(6)?;
                let run = Self {
                    generation: number(row.get(1)?),
                    process: row.get::<_, i64>(2)? == 0,
                    boot: boot.and_then(|boot| boot.try_into().ok()),
                    ended: Ended::of(row.get(4)?),
                    base: number(row.get(5)?),
                    aside: match aside {
                        REBOOTED => Some(Reason::Rebooted),
                        SYNC_FAILED => Some(Reason::SyncFailed),
                        _ => None,
                    },
                };
                Ok((owner, run))
            },
        );
        let Some((owner, run)) = row.optional().map_err(db.told("read"))? else {
            return Err(StoreError::Corrupt { path: db.path(), what: "the table `run` is empty" });
        };
        if owner != identity {
            return Err(StoreError::Identity { path: db.path() });
        }
        Ok(Some(run))
    }

    /// Writes the row. `first`: makes the tables too.
    pub(crate) fn write(&self, db: &Database, identity: [u8; 32], first: bool) -> Result<(), StoreError> {
        let write = || {
            let step = db.0.unchecked_transaction()?;
            if first {
                step.execute_batch(TABLES)?;
                step.pragma_update(None, "user_version", VERSION)?;
            }
            step.execute("DELETE FROM run", [])?;
            let aside = match self.aside {
                None => 0,
                Some(Reason::SyncFailed) => SYNC_FAILED,
                Some(_) => REBOOTED,
            };
            let level = i64::from(!self.process);
            step.execute(
                "INSERT INTO run VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    &identity[..],
                    signed(self.generation),
                    level,
                    self.boot.as_ref().map(|boot| &boot[..]),
                    self.ended.number(),
                    signed(self.base),
                    aside
                ],
            )?;
            step.commit()
        };
        write().map_err(db.told("write"))
    }
}

/// Converts a number for SQLite. The numbers in the tables have fewer than 63 bits.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a number of SQLite.
pub(crate) fn number(kept: i64) -> u64 {
    u64::try_from(kept).unwrap_or(0)
}

/// An open database in WAL mode. No other process can open it at the same time.
pub(crate) struct Database(pub(crate) Connection, PathBuf);

impl Database {
    /// Opens the database, or makes an empty one.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_EXRESCODE;
        let db = Connection::open_with_flags(path, flags).map_err(|error| told("open", path, error, 0))?;
        let db = Self(db, path.to_path_buf());
        db.set_up().map_err(db.told("open"))?;
        Ok(db)
    }

    fn set_up(&self) -> rusqlite::Result<()> {
        // Only this crate decides when SQLite moves the WAL into the database.
        self.0.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        // This comes before the first read. So SQLite keeps the index of the WAL in memory, and not in a file.
        self.0.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        // With this setting the database can become shorter. If it has the setting already, to set it again would write.
        if self.0.query_row("PRAGMA auto_vacuum", [], |row| row.get::<_, i64>(0))? == 0 {
            self.0.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        }
        self.0.pragma_update(None, "journal_mode", "WAL")?;
        self.0.pragma_update(None, "synchronous", "NORMAL")?;
        // SQLite then forces the database as this crate forces the WAL. On macOS, a plain fsync leaves bytes in the memory
        // of the disk.
        self.0.pragma_update(None, "checkpoint_fullfsync", true)?;
        self.0.pragma_update(None, "wal_autocheckpoint", 0)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.1.clone()
    }

    /// Converts an error of SQLite that has just occurred. `action` is the step that failed, as a verb.
    pub(crate) fn told(&self, action: &'static str) -> impl FnOnce(rusqlite::Error) -> StoreError {
        let system = system_error(&self.0);
        move |error| told(action, &self.1, error, system)
    }

    /// Removes the pages that nothing uses, so that the file becomes shorter when the WAL is moved. SQLite writes pages
    /// that are used, and that lie at the end of the file, to the WAL.
    pub(crate) fn shrink(&self) -> Result<(), StoreError> {
        // At FULL, each transaction removes all these pages at its end. This pragma is such a transaction. The pragma
        // `incremental_vacuum` would search the list of free pages once for each page.
        let shrunk = self.0.pragma_update(None, "auto_vacuum", "FULL").map_err(self.told("write"));
        let back = self.0.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(self.told("write"));
        shrunk.and(back)
    }

    /// Moves the WAL into the database, and forces both.
    pub(crate) fn settle(&self) -> Result<(), StoreError> {
        let row = self.0.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        match row {
            Ok(0) => Ok(()),
            Ok(_) => Err(StoreError::io("settle", &self.1)(io::ErrorKind::ResourceBusy.into())),
            Err(error) => Err(self.told("settle")(error)),
        }
    }
}

/// The error of the system that caused the last error of SQLite, if that was an error of input or output.
#[allow(unsafe_code)]
fn system_error(db: &Connection) -> i32 {
    // SAFETY: the handle belongs to an open connection, which outlives the call. The call only reads a number.
    unsafe { rusqlite::ffi::sqlite3_system_errno(db.handle()) }
}

fn told(action: &'static str, path: &Path, error: rusqlite::Error, system_error: i32) -> StoreError {
    let path = path.to_path_buf();
    let (code, extended) =
        error.sqlite_error().map_or((None, 0), |error| (Some(error.code), error.extended_code));
    let system = |kind| io::Error::new(kind, error.to_string());
    match code {
        Some(ErrorCode::DiskFull) => {
            StoreError::Full { path, error: Arc::new(system(io::ErrorKind::StorageFull)) }
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            StoreError::ReadOnly { path, error: Arc::new(system(io::ErrorKind::PermissionDenied)) }
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            StoreError::Corrupt { path, what: "SQLite finds it malformed" }
        }
        _ if matches!(
            extended,
            rusqlite::ffi::SQLITE_IOERR_FSYNC | rusqlite::ffi::SQLITE_IOERR_DIR_FSYNC
        ) =>
        {
            StoreError::sync(&path)(system(io::ErrorKind::Other))
        }
        // If a quota is used up, SQLite reports a failed write.
        _ if extended == rusqlite::ffi::SQLITE_IOERR_WRITE => {
            let kind = io::Error::from_raw_os_error(system_error).kind();
            StoreError::io(action, &path)(system(kind))
        }
        _ => StoreError::io(action, &path)(system(io::ErrorKind::Other)),
    }
}
