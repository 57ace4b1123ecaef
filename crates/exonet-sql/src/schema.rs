//! The tables.

use crate::Error;
use crate::database::{Cells, Store};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use crate::pooled::{Database, Pooled};

/// The version of the tables that this crate creates.
const VERSION: i64 = 1;

/// Creates the tables of outbox and inbox, or brings old ones up to date. Any number of processes may call it, at
/// each start. All names begin with `exonet_`. If an application has a database role of its own for migrations, it
/// calls this with that role.
///
/// # Errors
/// [`Error::TooNew`], and errors of the database.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub async fn migrate<DB: Database>(pool: &sqlx::Pool<DB>) -> Result<(), Error> {
    make(&Pooled::new(pool.clone())).await
}

/// See `migrate`.
pub(crate) async fn make(store: &dyn Store) -> Result<(), Error> {
    match version(store).await {
        Ok(VERSION) => return Ok(()),
        Ok(found) if found > VERSION => return Err(Error::TooNew { found, known: VERSION }),
        // The tables are old, or missing.
        Ok(_) | Err(Error::NotMigrated(_)) => {}
        Err(error) => return Err(error),
    }
    let mut tx = store.begin().await?;
    for sql in store.dialect().statements().migrate {
        tx.execute(sql, Vec::new()).await?;
    }
    Ok(tx.commit().await?)
}

/// Checks that the tables exist and have the version that this crate knows.
pub(crate) async fn check(store: &dyn Store) -> Result<(), Error> {
    match version(store).await? {
        VERSION => {}
        found if found > VERSION => return Err(Error::TooNew { found, known: VERSION }),
        found => return Err(Error::NotMigrated(format!("version {found}"))),
    }
    let mut conn = store.acquire().await?;
    let mut rows = conn.fetch(store.dialect().statements().unforced, Vec::new()).await?;
    if rows.first_mut().map_or(Ok(0), Cells::int)? == 1 {
        tracing::warn!(
            "the database does not force commits to the disk: a loss of power may undo what was told to other nodes, and \
             messages are then lost or processed twice"
        );
    }
    Ok(())
}

async fn version(store: &dyn Store) -> Result<i64, Error> {
    let mut conn = store.acquire().await?;
    let mut rows = conn.fetch(store.dialect().statements().version, Vec::new()).await?;
    Ok(rows.first_mut().map_or(Ok(0), Cells::int)?)
}
