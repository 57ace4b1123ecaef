//! Connections that were in use a moment ago.
//!
//! Whenever a connection leaves a pool of `sqlx`, and whenever it comes back, the pool asks the database whether the
//! connection works. Each question costs about as much as a statement. A relay and an inbox use connections for many
//! short pieces of work, so they keep a connection for the next piece, if that comes soon. They keep one only while
//! the pool has another to give, or may still open one.

use core::ops::{Deref, DerefMut};
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sqlx::pool::PoolConnection;
use sqlx::{Database, Pool, TransactionManager};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::error::StoreError;

/// A connection that was not used for this long goes back to the pool at the next look. A look follows the one before after
/// the same time.
const IDLE: Duration = Duration::from_millis(10);
/// A connection that was taken from the pool this long ago is not kept any more. The pool may close it, because it is
/// too old.
const LONGEST: Duration = Duration::from_secs(1);

/// A pool, and the connections of it that are kept.
pub(crate) struct Kept<DB: Database> {
    pool: Pool<DB>,
    idle: Mutex<Idle<DB>>,
}

struct Idle<DB: Database> {
    /// The connection that was used last is at the end.
    connections: Vec<Resting<DB>>,
    /// Whether a task gives connections back in time. Without such a task, no connection is kept.
    swept: bool,
}

struct Resting<DB: Database> {
    connection: PoolConnection<DB>,
    taken: Instant,
    since: Instant,
}

impl<DB: Database> Kept<DB> {
    pub(crate) fn new(pool: Pool<DB>) -> Arc<Self> {
        Arc::new(Self { pool, idle: Mutex::new(Idle { connections: Vec::new(), swept: false }) })
    }

    pub(crate) const fn pool(&self) -> &Pool<DB> {
        &self.pool
    }

    fn idle(&self) -> MutexGuard<'_, Idle<DB>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection: one that is kept, or one of the pool.
    pub(crate) async fn take(self: &Arc<Self>) -> Result<Held<DB>, sqlx::Error> {
        let kept = self.idle().connections.pop();
        let (connection, taken) = match kept {
            Some(resting) if !self.pool.is_closed() => (resting.connection, resting.taken),
            _ => (self.pool.acquire().await?, Instant::now()),
        };
        Ok(Held { connection: Some(connection), taken, state: State::Sound, kept: Arc::clone(self) })
    }

    /// Whether the pool can give a connection to another task while this keeps some.
    fn has_others(&self) -> bool {
        self.pool.num_idle() > 0 || self.pool.size() < self.pool.options().get_max_connections()
    }

    /// Keeps a connection, or gives it back to the pool.
    fn keep(self: &Arc<Self>, connection: PoolConnection<DB>, taken: Instant) {
        let now = Instant::now();
        let runtime = Handle::try_current().ok();
        let keeps = now.duration_since(taken) < LONGEST && !self.pool.is_closed() && self.has_others();
        let Some(runtime) = runtime.filter(|_| keeps) else { return drop(connection) };
        let mut idle = self.idle();
        idle.connections.push(Resting { connection, taken, since: now });
        if !core::mem::replace(&mut idle.swept, true) {
            drop(idle);
            let sweeper = Sweeper(Arc::clone(self));
            runtime.spawn(async move {
                while sweeper.sweep(Instant::now()) {
                    sleep(IDLE).await;
                }
            });
        }
    }
}

/// Gives connections back to the pool: in time, and all of them at the end of the runtime.
struct Sweeper<DB: Database>(Arc<Kept<DB>>);

impl<DB: Database> Sweeper<DB> {
    /// Gives back what nobody has used for a while, or everything if the pool has no others. Returns whether
    /// something is left.
    fn sweep(&self, now: Instant) -> bool {
        let all = !self.0.has_others() || self.0.pool.is_closed();
        let mut idle = self.0.idle();
        let stale = idle.connections.partition_point(|resting| now.duration_since(resting.since) >= IDLE);
        let count = if all { idle.connections.len() } else { stale };
        let back: Vec<_> = idle.connections.drain(..count).collect();
        idle.swept = !idle.connections.is_empty();
        let more = idle.swept;
        drop(idle);
        drop(back);
        more
    }
}

impl<DB: Database> Drop for Sweeper<DB> {
    fn drop(&mut self) {
        let mut idle = self.0.idle();
        if !idle.swept {
            return;
        }
        idle.swept = false;
        let back = core::mem::take(&mut idle.connections);
        drop(idle);
        drop(back);
    }
}

/// What becomes of a connection after its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing runs on it, and the last statement or transaction has ended well: it is kept.
    Sound,
    /// Something runs on it, or has failed: the pool gets it back, and finds out whether it works.
    InUse,
    /// It may be in a transaction of which `sqlx` does not know: it is closed.
    Spoiled,
}

/// A connection in use.
pub(crate) struct Held<DB: Database> {
    connection: Option<PoolConnection<DB>>,
    taken: Instant,
    pub(crate) state: State,
    kept: Arc<Kept<DB>>,
}

impl<DB: Database> Deref for Held<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        match &self.connection {
            Some(connection) => connection,
            None => unreachable!("only drop takes it"),
        }
    }
}

impl<DB: Database> DerefMut for Held<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        match &mut self.connection {
            Some(connection) => connection,
            None => unreachable!("only drop takes it"),
        }
    }
}

impl<DB: Database> Drop for Held<DB> {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        match self.state {
            State::Sound => self.kept.keep(connection, self.taken),
            State::InUse => drop(connection),
            State::Spoiled => connection.close_on_drop(),
        }
    }
}

/// A transaction on such a connection. When this is dropped, an open transaction is rolled back.
pub(crate) struct OpenTx<DB: Database> {
    held: Held<DB>,
    open: bool,
}

impl<DB: Database> OpenTx<DB> {
    pub(crate) async fn begin(kept: &Arc<Kept<DB>>) -> Result<Self, sqlx::Error> {
        let mut held = kept.take().await?;
        // If this future is dropped now, the database may begin a transaction that `sqlx` does not count.
        held.state = State::Spoiled;
        DB::TransactionManager::begin(&mut held, None).await?;
        held.state = State::InUse;
        Ok(Self { held, open: true })
    }

    pub(crate) async fn commit(mut self) -> Result<(), StoreError> {
        self.check_depth()?;
        DB::TransactionManager::commit(&mut self.held).await?;
        (self.open, self.held.state) = (false, State::Sound);
        Ok(())
    }

    pub(crate) async fn rollback(mut self) -> Result<(), StoreError> {
        self.check_depth()?;
        DB::TransactionManager::rollback(&mut self.held).await?;
        (self.open, self.held.state) = (false, State::Sound);
        Ok(())
    }

    /// Fails unless exactly this transaction is open. A nested transaction whose beginning is cancelled makes `sqlx` roll
    /// back the outer one. A nested transaction that is forgotten (`mem::forget`) stays open, and the next commit ends
    /// only that one.
    fn check_depth(&mut self) -> Result<(), StoreError> {
        if DB::TransactionManager::get_transaction_depth(&self.held) == 1 {
            return Ok(());
        }
        (self.open, self.held.state) = (false, State::Spoiled);
        Err(StoreError::wrong("the handler has ended its transaction, or has left another one open in it"))
    }
}

impl<DB: Database> Deref for OpenTx<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.held
    }
}

impl<DB: Database> DerefMut for OpenTx<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.held
    }
}

impl<DB: Database> Drop for OpenTx<DB> {
    fn drop(&mut self) {
        if self.open {
            // This only prepares the rollback. The pool runs it when it gets the connection back.
            DB::TransactionManager::start_rollback(&mut self.held);
        }
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
    use sqlx::{Sqlite, query};

    use super::*;
    use crate::database::Connection;

    /// More connections than a test has at once, with those that are on their way back.
    const PLENTY: u32 = 10;

    #[expect(clippy::unwrap_used, reason = "a failure here ends the test")]
    async fn pool(home: &tempfile::TempDir, most: u32) -> Pool<Sqlite> {
        let options = SqliteConnectOptions::new().filename(home.path().join("db")).create_if_missing(true);
        let pool = SqlitePoolOptions::new().max_connections(most).connect_with(options).await.unwrap();
        query("create table if not exists t (x)").execute(&pool).await.unwrap();
        until(|| pool.num_idle() == 1).await;
        pool
    }

    /// Waits until this is so. A connection that is dropped comes back to its pool by a task.
    #[expect(clippy::unwrap_used, reason = "a failure here ends the test")]
    async fn until(what: impl Fn() -> bool) {
        let wait = async {
            while !what() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap();
    }

    /// Makes a table that only this connection sees.
    #[expect(clippy::unwrap_used, reason = "a failure here ends the test")]
    async fn mark(held: &mut Held<Sqlite>) {
        query("create temp table mine (x)").execute(&mut **held).await.unwrap();
    }

    async fn is_marked(held: &mut Held<Sqlite>) -> bool {
        query("select * from mine").execute(&mut **held).await.is_ok()
    }

    #[tokio::test]
    async fn the_next_piece_of_work_gets_the_same_connection() {
        let home = tempfile::tempdir().unwrap();
        let pool = pool(&home, PLENTY).await;
        // The pool gives out first what came back first.
        let two = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
        drop(two);
        until(|| pool.num_idle() == 2).await;
        let kept = Kept::new(pool.clone());
        let mut held = kept.take().await.unwrap();
        mark(&mut held).await;
        held.taken += LONGEST;
        drop(held);
        assert!(is_marked(&mut kept.take().await.unwrap()).await);
        // It goes back by itself.
        until(|| pool.num_idle() == 2).await;
        assert!(!kept.idle().swept && kept.idle().connections.is_empty());
    }

    #[tokio::test]
    async fn an_older_connection_goes_back() {
        let home = tempfile::tempdir().unwrap();
        let kept = Kept::new(pool(&home, PLENTY).await);
        let mut held = kept.take().await.unwrap();
        held.taken = Instant::now().checked_sub(LONGEST).unwrap();
        drop(held);
        assert!(kept.idle().connections.is_empty());
    }

    #[tokio::test]
    async fn the_last_connection_of_a_pool_is_not_kept() {
        let home = tempfile::tempdir().unwrap();
        let pool = pool(&home, 1).await;
        let kept = Kept::new(pool.clone());
        drop(kept.take().await.unwrap());
        assert!(kept.idle().connections.is_empty());
        drop(pool.acquire().await.unwrap());
    }

    #[tokio::test]
    async fn what_is_kept_goes_back_when_the_pool_has_no_others() {
        let home = tempfile::tempdir().unwrap();
        let pool = pool(&home, 2).await;
        let kept = Kept::new(pool.clone());
        let (one, two) = (kept.take().await.unwrap(), kept.take().await.unwrap());
        drop(one);
        // Both are in use, so the pool has no other one.
        let sweeper = Sweeper(Arc::clone(&kept));
        let (connection, now) = (pool.acquire().await.unwrap(), Instant::now());
        kept.idle().connections.push(Resting { connection, taken: now, since: now });
        assert!(!sweeper.sweep(Instant::now()));
        drop(two);
    }

    #[tokio::test]
    async fn a_connection_that_failed_is_not_kept() {
        let home = tempfile::tempdir().unwrap();
        let kept = Kept::new(pool(&home, PLENTY).await);
        let mut held = kept.take().await.unwrap();
        held.state = State::InUse;
        drop(held);
        assert!(kept.idle().connections.is_empty());
        let mut connection: Box<dyn Connection> = Box::new(kept.take().await.unwrap());
        assert!(connection.execute("delete from nowhere", Vec::new()).await.is_err());
        drop(connection);
        assert!(kept.idle().connections.is_empty());
        let mut held = kept.take().await.unwrap();
        // However slow the machine is.
        held.taken += LONGEST;
        let mut connection: Box<dyn Connection> = Box::new(held);
        assert!(connection.fetch("select * from t", Vec::new()).await.is_ok());
        drop(connection);
        assert_eq!(kept.idle().connections.len(), 1);
    }

    #[tokio::test]
    async fn a_transaction_in_which_another_is_open_is_not_committed() {
        let home = tempfile::tempdir().unwrap();
        let kept = Kept::new(pool(&home, PLENTY).await);
        for commits in [true, false] {
            let mut tx = OpenTx::begin(&kept).await.unwrap();
            query("insert into t values (1)").execute(&mut *tx).await.unwrap();
            core::mem::forget(sqlx::Connection::begin(&mut *tx).await.unwrap());
            assert!(if commits { tx.commit().await } else { tx.rollback().await }.is_err());
            assert!(kept.idle().connections.is_empty());
        }
        until(|| kept.pool().size() == 0).await;
        let count: i64 = sqlx::query_scalar("select count(*) from t").fetch_one(kept.pool()).await.unwrap();
        assert_eq!(count, 0);
    }

    #[tokio::test]
    async fn a_transaction_that_is_dropped_is_rolled_back_and_one_that_ends_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let pool = pool(&home, PLENTY).await;
        let kept = Kept::new(pool.clone());
        for (committed, rows) in [(None, 0), (Some(false), 0), (Some(true), 1)] {
            let mut tx = OpenTx::begin(&kept).await.unwrap();
            query("insert into t values (1)").execute(&mut *tx).await.unwrap();
            tx.held.taken = Instant::now() + LONGEST;
            match committed {
                None => drop(tx),
                Some(false) => tx.rollback().await.unwrap(),
                Some(true) => tx.commit().await.unwrap(),
            }
            assert_eq!(kept.idle().connections.len(), usize::from(committed.is_some()));
            let count: i64 = sqlx::query_scalar("select count(*) from t").fetch_one(&pool).await.unwrap();
            assert_eq!(count, rows);
        }
    }

    #[test]
    fn at_the_end_of_the_runtime_nothing_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let kept = runtime.block_on(async {
            let kept = Kept::new(pool(&home, PLENTY).await);
            drop(kept.take().await.unwrap());
            kept
        });
        assert_eq!(kept.idle().connections.len(), 1);
        drop(runtime);
        assert!(kept.idle().connections.is_empty());
    }
}
