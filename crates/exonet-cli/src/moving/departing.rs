//! The move of an identity from here to a door.

use std::path::PathBuf;
use std::time::Instant;

use bytes::Bytes;
use exonet::error::StateError;
use exonet::state::{self, Ahead, Deed, Draft, Load, StateDir};
use tokio::sync::{mpsc, watch};
use tokio::task::block_in_place;

use super::carrying::Way;
use super::{Goal, Moved, Plan, REBIND_TIME, Step, point};
use crate::failure::Failure;
use crate::identity::Identity;

/// The service is frozen once less than this number of bytes is left to carry.
const LITTLE: u64 = 256 << 10;
/// The maximum number of rounds before the service is frozen, even if it writes faster than its data is carried.
const ROUNDS: u32 = 8;

/// The watcher of a move.
#[derive(Clone, Debug)]
pub(crate) struct Watcher {
    /// Receives each step.
    pub(crate) tell: mpsc::UnboundedSender<Step>,
    /// True if the watcher has left, which cancels the move.
    pub(crate) gone: watch::Receiver<bool>,
}

impl Watcher {
    fn is_wanted(&self) -> Result<(), Failure> {
        if *self.gone.borrow() {
            return Err(Failure::new("the move was cancelled"));
        }
        Ok(())
    }
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
    road: Road,
    moved: Moved,
    /// The end of the last step.
    since: Instant,
}

/// How the identity gets to its goal.
enum Road {
    /// Calls to a door carry the settled data, then the load, then the deed.
    Door { way: Box<Way>, ahead: Box<Ahead> },
    /// One file carries the load and the deed.
    File(PathBuf),
}

/// Where the load is safe before the identity is ceded.
enum Safe {
    AtDoor,
    InFile(Draft),
}

impl Departing {
    /// Asks the door, and carries the settled data ahead while the identity is still running. For a file, only checks
    /// that it can be written.
    pub(crate) async fn begin(identity: &Identity, plan: Plan, watcher: Watcher) -> Result<Self, Failure> {
        let stays = |failure: Failure| failure.hint("nothing has changed, and the identity still lives here");
        let path = identity.place()?.to_owned();
        let since = Instant::now();
        let road = match &plan.goal {
            Goal::Door(door) => {
                let way = Box::new(Way::to(door).await?);
                way.offer(identity, plan.timeout).await.map_err(stays)?;
                let ahead =
                    block_in_place(|| Ahead::begin(&path)).map_err(|error| failed(identity, &error))?;
                Road::Door { way, ahead: Box::new(ahead) }
            }
            Goal::File { to, path } => {
                let id = identity.look()?;
                let checked = block_in_place(|| Draft::check(path, &id, to));
                checked.map_err(|error| stays(failed(identity, &error)))?;
                Road::File(path.clone())
            }
        };
        let (identity, moved) = (identity.clone(), Moved::default());
        let mut departing = Self { identity, path, plan, watcher, road, moved, since };
        if let Road::Door { .. } = departing.road {
            departing.step("offer", None);
            point("offered");
            departing.carry_ahead().await.map_err(stays)?;
            point("ahead");
        }
        Ok(departing)
    }

    async fn carry_ahead(&mut self) -> Result<(), Failure> {
        let Self { road: Road::Door { way, ahead }, identity, watcher, moved, plan, .. } = self else {
            return Ok(());
        };
        for _ in 0..ROUNDS {
            let left = block_in_place(|| ahead.look()).map_err(|error| failed(identity, &error))?;
            if left == 0 {
                break;
            }
            while let Some(piece) =
                block_in_place(|| ahead.next_piece()).map_err(|error| failed(identity, &error))?
            {
                watcher.is_wanted()?;
                moved.bytes += piece.len() as u64;
                way.ahead(piece, plan.timeout).await?;
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
        let (deed, safe) = self.copy_and_cede().await.map_err(Undone::Stays)?;
        point("ceded");
        if let Safe::InFile(draft) = safe {
            let finished = block_in_place(|| draft.finish(&deed));
            finished.map_err(|error| Undone::Ceded(unfinished(&self.identity, &error)))?;
        }
        let deed = Bytes::copy_from_slice(deed.as_bytes());
        if let Road::Door { way, .. } = &self.road {
            let held = way.deed(deed.clone(), self.plan.timeout).await;
            self.moved.generation = held.map_err(Undone::Ceded)?.generation;
        }
        point("key sent");
        let mut here = began.elapsed();
        self.step(if matches!(self.road, Road::Door { .. }) { "restore" } else { "finish" }, None);
        if let Road::Door { way, .. } = &self.road
            && way.rebind(deed, REBIND_TIME.min(self.plan.timeout)).await
        {
            here = began.elapsed();
            self.step("rebind", None);
        }
        self.moved.pause_ms = here.as_secs_f64() * 1e3;
        if let Road::Door { way, .. } = self.road {
            way.close().await;
        }
        Ok(self.moved)
    }

    async fn copy_and_cede(&mut self) -> Result<(Deed, Safe), Failure> {
        let dir = StateDir::open_again(&self.path).await.map_err(|error| match error {
            StateError::Locked { .. } => self.failed(&error).in_use(),
            _ => self.failed(&error),
        })?;
        let ahead = match &self.road {
            Road::Door { ahead, .. } => Some(&**ahead),
            Road::File(_) => None,
        };
        let load = block_in_place(|| dir.checkpoint_after(&self.plan.goal.node(), &(), ahead));
        let load = load.map_err(|error| self.failed(&error))?;
        self.moved.generation = load.generation();
        self.moved.still_bytes = load.as_bytes().len() as u64;
        self.moved.bytes += self.moved.still_bytes;
        self.step("checkpoint", None);
        point("checkpoint");
        let safe = self.copy(&load).await?;
        self.step("copy", Some(self.moved.still_bytes));
        let ceded = self.watcher.is_wanted().and_then(|()| {
            point("copied");
            block_in_place(|| dir.cede(&load)).map_err(|error| self.failed(&error))
        });
        match ceded {
            Ok(deed) => {
                self.step("cede", None);
                Ok((deed, safe))
            }
            Err(failure) => {
                if let Safe::InFile(draft) = safe
                    // If the disk does not say that the identity still lives there, the file may be all that is left of it.
                    && matches!(state::ceded(&self.path), Ok(None))
                {
                    draft.discard();
                }
                Err(failure)
            }
        }
    }

    /// Brings the load to the door, or into the file. The identity may be ceded only after that.
    async fn copy(&self, load: &Load) -> Result<Safe, Failure> {
        match &self.road {
            Road::Door { way, .. } => {
                let attempt = way.load(load.as_bytes(), self.plan.freeze).await?;
                if attempt != load.attempt().0 {
                    return Err(Failure::new("the door has the load of another attempt"));
                }
                Ok(Safe::AtDoor)
            }
            Road::File(path) => {
                let draft = block_in_place(|| Draft::write(path, load));
                draft.map(Safe::InFile).map_err(|error| self.failed(&error))
            }
        }
    }

    /// Reports a step, whose duration is the time since the last step.
    fn step(&mut self, step: &str, bytes: Option<u64>) {
        let now = Instant::now();
        let ms = now.duration_since(std::mem::replace(&mut self.since, now)).as_secs_f64() * 1e3;
        // The watcher may have left.
        let _ = self.watcher.tell.send(Step { step: step.to_owned(), ms, bytes });
    }

    fn failed(&self, error: &StateError) -> Failure {
        failed(&self.identity, error)
    }
}

pub(super) fn failed(identity: &Identity, error: &StateError) -> Failure {
    Failure::new(format!("cannot move identity {identity}")).because(error)
}

/// The error if the identity was ceded, and the command could not finish its file.
fn unfinished(identity: &Identity, error: &StateError) -> Failure {
    failed(identity, error).hint(match error {
        StateError::OtherFile { .. } => {
            "the identity no longer lives here. If its file is lost, and was certainly never restored: exon move \
             --take-back"
        }
        _ => {
            "the identity was ceded, and no longer lives here. Repeat the command to finish the file; if the file is \
             lost: exon move --take-back"
        }
    })
}

/// For an identity that was already ceded: sends its key to the door again, or adds the key to the file.
pub(super) async fn carry(identity: &Identity, plan: &Plan) -> Result<Moved, Failure> {
    match &plan.goal {
        Goal::Door(door) => {
            let deed = state::deed(identity.place()?).map_err(|error| failed(identity, &error))?;
            let way = Way::to(door).await?;
            let held = way.deed(Bytes::copy_from_slice(deed.as_bytes()), plan.timeout).await?;
            way.close().await;
            Ok(Moved { generation: held.generation, ..Moved::default() })
        }
        Goal::File { path, .. } => {
            let place = identity.place()?;
            let ceded = block_in_place(|| state::finish_file(place, path));
            let ceded = ceded.map_err(|error| unfinished(identity, &error))?;
            Ok(Moved { generation: ceded.generation, ..Moved::default() })
        }
    }
}
