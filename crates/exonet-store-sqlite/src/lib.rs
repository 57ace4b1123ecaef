//! The journal of an Exonet node in SQLite.
//!
//! The log of [`exonet_store`] is the default, and faster. This store is for those who want a file that they can look into, copy and
//! repair with tools that they know. `Builder::store` of the library `exonet` takes it:
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
//! # What it relies on
//!
//! | | How |
//! |---|---|
//! | a group that was appended outlives the process | a transaction in the write-ahead log (WAL), which is in the system's memory when it has committed |
//! | what was forced outlives the system | the WAL is forced with `fdatasync`; SQLite forces what it moves from there into the database, at `synchronous = NORMAL`, before it uses the WAL again |
//! | a group counts as a whole or not at all | it is one transaction |
//! | at the level `Process` a sync that failed is noticed | a file `failed` beside the database, since the WAL may lose what is written behind the bytes that failed |
//! | at the level `Process` the end of the system is noticed | the id of the boot is in the table `run`; the next run does not trust the journal then, unless it had ended cleanly |
//!
//! What the last run left is moved into the database and forced when the journal is opened, so that a sync that failed in that run cannot
//! hide what is missing.
//!
//! # What is not the same as with the log
//!
//! * Nothing notices that a part of a journal was lost while the system ran on, if no sync failed, or that an older copy of the file was
//!   put back. (The node itself notices a copy that is older than its last start, and puts it aside.)
//! * A snapshot, and every 4 MiB the move into the database, happen in the thread that appends. They wait for the disk at each level.
//! * Identities with a journal in SQLite are not moved to another machine, and `exon` does not read their outbox.

mod database;
mod groups;
mod journal;
mod room;
#[cfg(test)]
mod tests;

use std::path::Path;

use exonet_store::{Found, Groups, Options, Storage, Store, StoreError, Trust};

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

    fn read(&self, dir: &Path, options: Options) -> Result<Option<(Trust, Groups)>, StoreError> {
        journal::read(dir, &options)
    }
}
