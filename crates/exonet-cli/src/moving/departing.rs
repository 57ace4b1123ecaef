//! The move of an identity from here to a door.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use exonet::error::StateError;
use exonet::state::{self, Ahead, Deed, StateDir};
use tokio::sync::{mpsc, watch};
use tokio::task::block_in_place;
use tokio::time::sleep;

use super::carrying::Way;
use super::{Moved, Plan, Step, point};
use crate::failure::Failure;
use crate::identity::Identity;

/// The service is frozen once less than this number of bytes is left to carry.
const LITTLE: u64 = 256 << 10;
/// The maximum number of rounds before the service is frozen, even if it writes faster than its data is carried.
const ROUNDS: u32 = 8;

/// The longest time that an unfinished write may hold the directory, and the interval between two checks.
const HOLD: Duration = Duration::from_millis(200);
const AGAIN: Duration = Duration::from_millis(1);

/// The watcher of a move.
#[derive(Clone, Debug)]
pub(crate) struct Watcher {
    /// Receives each step.
    pub(crate) tell: mpsc::UnboundedSender<Step>,
    /// True if the watcher has left, which cancels the move.
    pub(crate) gone: watch::Receiver<bool>,
}

/// The reason why a move failed.
#[derive(Debug)]
pub(crate) enum Undone {
    /// The identity lives here, as before.
    Stays(Failure),
    /// The identity was ceded, and the door may not know that.
    Ceded(Failure),
}

impl From<Undone> for Failure {
    fn from(undone: Undone) -> Self {
        match undone {
            Undone::Stays(failure) | Undone::Ceded(failure) => failure,
        }
    }
}

/// A move that has begun.
pub(crate) struct Departing {
    identity: Identity,
    path: PathBuf,
    plan: Plan,
    watcher: Watcher,
    way: Way,
    ahead: Ahead,
    moved: Moved,
    /// The end of the last step.
    since: Instant,
}

impl Departing {
    /// Asks the door, and carries the settled data ahead while the identity is still running.
    pub(crate) async fn begin(identity: &Identity, plan: Plan, watcher: Watcher) -> Result<Self, Failure> {
        let stays = |failure: Failure| failure.hint("nothing has changed, and the identity still lives here");
        let path = identity.place()?.to_owned();
        let since = Instant::now();
        let way = Way::to(&plan).await?;
        way.offer(identity, plan.timeout).await.map_err(stays)?;
        let ahead = block_in_place(|| Ahead::begin(&path)).map_err(|error| failed(identity, &error))?;
        let (identity, moved) = (identity.clone(), Moved::default());
        let mut departing = Self { identity, path, plan, watcher, way, ahead, moved, since };
        departing.step("offer", None);
        point("offered");
        departing.carry_ahead().await.map_err(stays)?;
        point("ahead");
        Ok(departing)
    }

    async fn carry_ahead(&mut self) -> Result<(), Failure> {
        for _ in 0..ROUNDS {
            let left = block_in_place(|| self.ahead.look()).map_err(|error| self.failed(&error))?;
            if left == 0 {
                break;
            }
            while let Some(piece) =
                block_in_place(|| self.ahead.next_piece()).map_err(|error| self.failed(&error))?
            {
                self.is_wanted()?;
                self.moved.bytes += piece.len() as u64;
                self.way.ahead(piece, self.plan.timeout).await?;
            }
            if left < LITTLE {
                break;
            }
        }
        self.step("ahead", Some(self.moved.bytes));
        Ok(())
    }

    /// Carries the rest, cedes the identity, and carries its key. No process runs the identity any more, which has
    /// been frozen since `began`.
    pub(crate) async fn finish(mut self, began: Instant) -> Result<Moved, Undone> {
        self.step("drain", None);
        point("frozen");
        let deed = self.copy_and_cede().await.map_err(Undone::Stays)?;
        point("ceded");
        let held = self.way.deed(Bytes::copy_from_slice(deed.as_bytes()), self.plan.timeout).await;
        let held = held.map_err(Undone::Ceded)?;
        point("key sent");
        self.moved.generation = held.generation;
        self.moved.pause_ms = began.elapsed().as_secs_f64() * 1e3;
        self.step("restore", None);
        self.way.close().await;
        Ok(self.moved)
    }

    /// Opens the directory that the node has closed. An unfinished write may hold it a little longer.
    async fn open(&self) -> Result<StateDir, Failure> {
        let until = Instant::now() + HOLD;
        loop {
            match block_in_place(|| StateDir::open(&self.path)) {
                Err(StateError::Locked { .. }) if Instant::now() < until => sleep(AGAIN).await,
                opened => return opened.map_err(|error| self.failed(&error)),
            }
        }
    }

    async fn copy_and_cede(&mut self) -> Result<Deed, Failure> {
        let dir = self.open().await?;
        let load = block_in_place(|| dir.checkpoint_after(&self.plan.to.id, &(), Some(&self.ahead)));
        let load = load.map_err(|error| self.failed(&error))?;
        self.moved.still_bytes = load.as_bytes().len() as u64;
        self.moved.bytes += self.moved.still_bytes;
        self.step("checkpoint", None);
        point("checkpoint");
        let attempt = self.way.load(load.as_bytes(), self.plan.freeze).await?;
        if attempt != load.attempt().0 {
            return Err(Failure::new("the door has the load of another attempt"));
        }
        self.step("copy", Some(self.moved.still_bytes));
        self.is_wanted()?;
        point("copied");
        let deed = match block_in_place(|| dir.cede(&load)) {
            Ok(deed) => deed,
            Err(error) => {
                let failure = self.failed(&error);
                // The state on the disk decides.
                match block_in_place(|| state::deed(&self.path)) {
                    Ok(deed) => deed,
                    Err(_) => return Err(failure),
                }
            }
        };
        self.step("cede", None);
        Ok(deed)
    }

    /// Reports a step, whose duration is the time since the last step.
    fn step(&mut self, step: &str, bytes: Option<u64>) {
        let now = Instant::now();
        let ms = now.duration_since(std::mem::replace(&mut self.since, now)).as_secs_f64() * 1e3;
        // The watcher may have left.
        let _ = self.watcher.tell.send(Step { step: step.to_owned(), ms, bytes });
    }

    fn is_wanted(&self) -> Result<(), Failure> {
        if *self.watcher.gone.borrow() {
            return Err(Failure::new("the move was cancelled"));
        }
        Ok(())
    }

    fn failed(&self, error: &StateError) -> Failure {
        failed(&self.identity, error)
    }
}

pub(super) fn failed(identity: &Identity, error: &StateError) -> Failure {
    Failure::new(format!("cannot move identity {identity}")).because(error)
}

/// Carries the key of an identity that was already ceded to its door again.
pub(super) async fn carry(identity: &Identity, plan: &Plan) -> Result<Moved, Failure> {
    let deed = state::deed(identity.place()?).map_err(|error| failed(identity, &error))?;
    let way = Way::to(plan).await?;
    let held = way.deed(Bytes::copy_from_slice(deed.as_bytes()), plan.timeout).await?;
    way.close().await;
    Ok(Moved { generation: held.generation, ..Moved::default() })
}
