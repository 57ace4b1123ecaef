//! Hands the rows of an outbox to a node, and deletes the rows that are processed.
//!
//! # Rules
//!
//! A search has verified each of these rules: without it, a message is lost or processed twice.
//!
//! * The relay deletes a row only when its message is *Delivered*, which a receiving inbox reports after its commit.
//!   After *Unknown* the row stays, and is handed over again.
//! * The relay hands a row over only while no copy of it is open in this node. The keys of messages that a former
//!   life or a former relay of this node has left open are not known, so the rows for their receiver wait until these
//!   messages are settled ([`former`]).
//! * A relay deletes only rows of lanes that it owns, in a transaction that holds the lane ([`rows`]).
//! * A relay that takes a lane over records the former owner. A relay that is itself recorded as a former owner of
//!   the lane cannot take it over ([`lanes`]).
//! * A former owner is removed from the record once nothing of its lanes is open, it hands nothing over any more, and
//!   each receiver has taken a fence that was sent after that ([`lanes`]).
//! * A receiver learns that rows are gone only while no former owner is recorded ([`gone`]).

mod ahead;
mod commits;
mod floor;
mod former;
mod gone;
mod lanes;
mod peers;
mod rows;
mod run;

use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use exonet::Node;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::database::Store;
use crate::host::Host;
use crate::outbox::LANES;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use crate::pooled::{Database, Pooled};
use crate::{Error, schema};

/// Figures about a relay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayStats {
    /// How many times rows were handed to the node. A row that is handed over again counts again.
    pub handed_over: u64,
    /// Rows that were deleted, or marked as settled, because they are processed.
    pub processed: u64,
    /// Rows that cannot be processed. Their column `failed` says why.
    pub failed: u64,
    /// Rows that are under way.
    pub open: usize,
    /// Lanes that the relay owns.
    pub lanes: Vec<u8>,
    /// Lanes that it owned and has not left yet. As long as there are any, receivers keep their inbox rows.
    pub leaving: Vec<u8>,
    /// The last error of the database, if the relay waits for it.
    pub error: Option<String>,
}

/// What the relay has been asked to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    Run,
    /// Hand over no more rows, and end when none are under way.
    Stop,
    /// The same, and then leave the lanes.
    SignOff,
}

/// The settings of a relay that is not yet started. [`Relay::builder`] creates it.
#[must_use = "a relay begins with `start`"]
pub struct RelayBuilder<DB> {
    store: Arc<dyn Store>,
    node: Node,
    lanes: Vec<u8>,
    take_after: Duration,
    keep_settled: Option<Duration>,
    in_flight: usize,
    database: PhantomData<fn() -> DB>,
}

impl<DB> RelayBuilder<DB> {
    fn new(store: Arc<dyn Store>, node: &Node) -> Self {
        Self {
            store,
            node: node.clone(),
            lanes: (0..LANES).collect(),
            take_after: Duration::from_secs(10),
            keep_settled: None,
            in_flight: 256,
            database: PhantomData,
        }
    }

    /// The lanes that the relay wants, from 0 to 7. Default: all. Relays that share the work want different lanes. If
    /// several relays want the same lane, one has it, and the others take it over if that one fails.
    pub fn lanes(mut self, lanes: impl IntoIterator<Item = u8>) -> Self {
        self.lanes = lanes.into_iter().filter(|lane| *lane < LANES).collect();
        self
    }

    /// How long another relay that owns a lane may show no sign of life before this relay takes the lane over.
    /// Default: 10 s. If the time is too short, nothing is lost or duplicated, but receivers keep inbox rows until
    /// the other relay has left. If it is less than 3 s, the relay takes over the lanes that it wants only when it
    /// starts.
    pub fn take_after(mut self, silence: Duration) -> Self {
        self.take_after = silence;
        self
    }

    /// How long processed rows stay, with the time in their column `settled_at`. A database that is restored from a
    /// backup no older than this causes no duplicates, since receivers keep their inbox rows until the rows here are
    /// gone. Default: rows are deleted at once.
    pub fn keep_settled(mut self, time: Duration) -> Self {
        self.keep_settled = Some(time);
        self
    }

    /// How many rows to one peer may be under way at the same time. Default: 256.
    pub fn in_flight(mut self, most: usize) -> Self {
        self.in_flight = most.max(1);
        self
    }

    /// Starts the relay, in a task of its own.
    ///
    /// # Errors
    /// [`Error::NotMigrated`], [`Error::DoubtTimeout`], [`Error::Serve`] if the node already has a relay, and errors
    /// of the database.
    pub async fn start(self) -> Result<Relay<DB>, Error> {
        schema::check(&*self.store).await?;
        if self.node.doubt_timeout().is_some() {
            return Err(Error::DoubtTimeout);
        }
        let serving = gone::serve(&self.store, &self.node).map_err(Error::Serve)?;
        let stats = Arc::new(Mutex::new(RelayStats::default()));
        let (wish, wished) = watch::channel(Wish::Run);
        let runner = run::Runner::new(self, wished, Arc::clone(&stats)).await;
        let task = tokio::spawn(async move {
            let ended = runner.run().await;
            drop(serving);
            ended
        });
        Ok(Relay { wish, task: Some(task), stats, database: PhantomData })
    }
}

/// Hands the rows of an outbox to a node as soon as they are committed, and deletes them once they are processed.
///
/// A node has one relay; a database may have any number of relays. The node should have a stored identity. A relay
/// that comes back with another identity leaves a record of the former one, which an operator must remove (see
/// [`Relay::sign_off`]). A relay runs until [`Self::stop`], or until the node closes. If this handle is dropped, it
/// stops in the background. If the database is away, the relay waits for it.
pub struct Relay<DB> {
    wish: watch::Sender<Wish>,
    task: Option<JoinHandle<Result<(), Error>>>,
    stats: Arc<Mutex<RelayStats>>,
    database: PhantomData<fn() -> DB>,
}

#[cfg(any(feature = "postgres", feature = "sqlite"))]
impl<DB: Database> Relay<DB> {
    /// Starts a relay with the default settings.
    ///
    /// # Errors
    /// The errors of [`RelayBuilder::start`].
    pub async fn start(pool: &sqlx::Pool<DB>, node: &Node) -> Result<Self, Error> {
        Self::builder(pool, node).start().await
    }

    /// Begins to build a relay that hands the rows in this database to this node.
    pub fn builder(pool: &sqlx::Pool<DB>, node: &Node) -> RelayBuilder<DB> {
        RelayBuilder::new(Arc::new(Pooled::new(pool.clone())), node)
    }
}

impl Relay<Host> {
    /// Begins to build a relay that uses the application's own driver.
    pub fn over(store: Arc<dyn Store>, node: &Node) -> RelayBuilder<Host> {
        RelayBuilder::new(store, node)
    }
}

impl<DB> Relay<DB> {
    /// Figures about the relay.
    pub fn stats(&self) -> RelayStats {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Hands over no more rows, waits until everything under way is settled, for `timeout` at most, and ends. It
    /// keeps its lanes: the next life of the same identity continues with them, and other relays take them over only
    /// after their `take_after`.
    ///
    /// # Errors
    /// The error with which the relay had already ended.
    pub async fn stop(self, timeout: Duration) -> Result<(), Error> {
        self.end(Wish::Stop, timeout).await.map(drop)
    }

    /// Like [`Self::stop`], but also leaves its lanes, so that other relays may take them at once, and receivers can
    /// delete their inbox rows. Use it for an identity that does not come back. Returns false if that was not
    /// possible within `timeout`, since rows are still under way or a receiver is away.
    ///
    /// If the identity of a relay is lost for good, it cannot sign off. An operator can remove it with `delete from
    /// exonet_prev where node = ...`, once its node certainly runs nowhere, and none of its messages are in a network
    /// any more (receivers have been restarted, or have forgotten it). Until then nothing is lost or duplicated, but
    /// receivers keep their inbox rows.
    ///
    /// # Errors
    /// The error with which the relay had already ended.
    pub async fn sign_off(self, timeout: Duration) -> Result<bool, Error> {
        self.end(Wish::SignOff, timeout).await
    }

    async fn end(mut self, wish: Wish, timeout: Duration) -> Result<bool, Error> {
        self.wish.send_replace(wish);
        let Some(mut task) = self.task.take() else { return Ok(true) };
        match tokio::time::timeout(timeout, &mut task).await {
            Ok(Ok(ended)) => ended.map(|()| true),
            // The task has panicked, or the runtime has ended.
            Ok(Err(_)) => Ok(false),
            Err(_) => {
                task.abort();
                let _ = task.await;
                Ok(false)
            }
        }
    }
}

impl<DB> Drop for Relay<DB> {
    fn drop(&mut self) {
        self.wish.send_replace(Wish::Stop);
    }
}

impl<DB> fmt::Debug for Relay<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl<DB> fmt::Debug for RelayBuilder<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayBuilder")
            .field("node", &self.node)
            .field("lanes", &self.lanes)
            .finish_non_exhaustive()
    }
}
