//! The journal of an Exonet node in SQLite.
//!
//! The log of [`exonet_store`] is the default, and faster. With this store, users can read, copy and repair the journal
//! with the usual tools for SQLite. `Builder::store` of the library `exonet` takes it:
//!
//! ```
//! # use exonet_store::{Level, Options, Storage, Store};
//! # use exonet_store_sqlite::SqliteStore;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let temp = tempfile::tempdir()?;
//! # let dir = temp.path().join("journal");
//! let (mut journal, found) = SqliteStore.open(&dir, Options::new([7; 32], Level::Sync))?;
//! drop(found);
//! journal.append(5, b"first")?;
//! assert_eq!(journal.forcer().force()?, 5);
//! # Ok(())
//! # }
//! ```
//!
//! # How it keeps its promises
//!
//! | Promise | How |
//! |---|---|
//! | a group that was appended outlives the process | it is a transaction in the write-ahead log (WAL), which is in the system's memory after the commit |
//! | a group that was forced outlives the system | the store forces the WAL with `fdatasync`; at `synchronous = NORMAL`, SQLite forces everything that it moves from the WAL into the database before it uses the WAL again |
//! | a group is found as a whole or not at all | it is one transaction |
//! | at the level `Process`, the next run notices a failed sync | the file `failed` beside the database says so; the WAL alone is not enough, since it may lose bytes that follow the ones that failed |
//! | at the level `Process`, the next run notices a restart of the system | the table `run` has the id of the boot; the next run trusts a journal of another boot only if it was closed cleanly |
//!
//! When the store opens a journal, it moves the WAL of the last run into the database, and forces both. After that, the
//! journal does not depend on syncs of the last run.
//!
//! # Differences from the log
//!
//! * The store does not notice if a part of the journal was lost while the system ran and no sync failed. It does not
//!   notice either if the user has put back an older copy of the file. (The node notices a copy that is older than its
//!   last start, and puts it aside.)
//! * The thread that appends also writes the snapshots, and moves the WAL into the database every 4 MiB. It then waits for
//!   the disk at each level.
//! * An identity with a journal in SQLite cannot move to another machine, and `exon` does not read its outbox.

mod database;
mod groups;
mod journal;
mod room;
#[cfg(test)]
mod tests;

use std::path::Path;

use exonet_store::{Found, Options, Storage, Store, StoreError};

/// The journal in SQLite.
#[derive(Clone, Copy, Debug, Default)]
pub struct SqliteStore;

const NAME: &str = "sqlite";

impl Store for SqliteStore {
    fn name(&self) -> &str {
        NAME
    }

    fn open(&self, dir: &Path, options: Options) -> Result<(Box<dyn Storage>, Found), StoreError> {
        let (journal, found) = journal::open(dir, &options, journal::system())?;
        Ok((Box::new(journal), found))
    }
}
