//! Moves an identity for `exon move`: through the process that runs it, or in this process if no process runs it.

use std::time::{Duration, Instant};

use exonet::state;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::departing::{Watcher, carry, failed};
use super::{Departing, Goal, Moved, Plan, Step, point};
use crate::control::protocol::{Reply, Request};
use crate::control::{Client, Heard};
use crate::failure::Failure;
use crate::identity::Identity;
use crate::settings::Settings;

/// The interval between two checks whether a process has ended.
const AGAIN: Duration = Duration::from_millis(5);

/// Moves the identity of `settings` according to `plan`, through the process that runs it. `drain` limits the wait
/// for the end of a process that cannot be asked. `tell` receives each step.
pub(crate) async fn leave(
    settings: &Settings,
    plan: &Plan,
    drain: Duration,
    mut tell: impl FnMut(&Step) -> Result<(), Failure>,
) -> Result<Moved, Failure> {
    let identity = &settings.identity;
    let path = identity.place()?;
    if let Some(ceded) = state::ceded(path).map_err(|error| failed(identity, &error))? {
        if ceded.to != plan.goal.node() {
            return Err(Failure::new(format!(
                "identity {identity} was already ceded to another node, {}",
                ceded.to.short()
            ))
            .hint(
                "name that node; or, if the identity certainly never arrived there: exon move --take-back",
            ));
        }
        if matches!(plan.goal, Goal::Door(_)) {
            settings.note("the identity was already ceded: sends its key to the door again");
        }
        let moved = carry(identity, plan).await?;
        if matches!(plan.goal, Goal::File { .. }) {
            settings.note("the identity was already ceded: its file is complete now");
        }
        return Ok(moved);
    }
    identity.require()?;
    let began = Instant::now();
    let until = began + drain;
    loop {
        if let Some(process) = runner(settings, until).await? {
            let (command, pid) = (&process.command, process.pid);
            settings
                .note(format!("asks `exon {command}`, process {pid}, which runs the identity, to move it"));
            return by_process(&process, plan, &mut tell).await;
        }
        match by_ourselves(identity, plan, began, &mut tell).await {
            // A process has meanwhile begun to run the identity.
            Err(failure) if failure.is_in_use() && Instant::now() < until => {}
            moved => return moved,
        }
    }
}

/// Lets the process that runs the identity move it. That process continues if the move fails.
async fn by_process(
    process: &Client,
    plan: &Plan,
    tell: &mut impl FnMut(&Step) -> Result<(), Failure>,
) -> Result<Moved, Failure> {
    let [timeout_ms, freeze_ms] =
        [plan.timeout, plan.freeze].map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
    let request = match &plan.goal {
        Goal::Door(door) => Request::Move { to: door.to_string(), timeout_ms, freeze_ms },
        Goal::File { to, path } => {
            let file = path.to_str().ok_or_else(|| Failure::new("the name of the file is not UTF-8"))?;
            Request::Checkpoint { to: to.to_string(), file: file.to_owned() }
        }
    };
    let mut hearer = process.ask(request).await?;
    let mut moved = None;
    loop {
        match hearer.hear().await {
            Heard::Reply(Reply::Step(step)) => {
                tell(&step)?;
                point(&format!("told {}", step.step));
            }
            Heard::Reply(Reply::Moved(came)) => moved = Some(came),
            Heard::Reply(_) => {}
            Heard::Failed(failure) => return Err(failure),
            Heard::Done | Heard::Gone => break,
        }
    }
    moved.ok_or_else(|| {
        Failure::new("the process that runs the identity has ended in the middle of the move").hint(
            "repeat the command: it continues where the move stopped, or begins again. If it says that the \
             identity is still here, its process can be started again too",
        )
    })
}

/// Moves the identity in this process, since no other process runs it. `began` is when this command began to wait for
/// that.
async fn by_ourselves(
    identity: &Identity,
    plan: &Plan,
    began: Instant,
    tell: &mut impl FnMut(&Step) -> Result<(), Failure>,
) -> Result<Moved, Failure> {
    let (steps, mut told) = mpsc::unbounded_channel();
    let (_stays, gone) = watch::channel(false);
    let moving = async {
        let watcher = Watcher { tell: steps, gone };
        let departing = Departing::begin(identity, plan.clone(), watcher).await?;
        departing.finish(began).await.map_err(Failure::from)
    };
    let mut moving = std::pin::pin!(moving);
    let moved = loop {
        tokio::select! {
            biased;
            Some(step) = told.recv() => tell(&step)?,
            moved = &mut moving => break moved,
        }
    };
    while let Ok(step) = told.try_recv() {
        tell(&step)?;
    }
    moved
}

/// Waits until it can ask the process that runs the identity, or until no process runs the identity (None). While a
/// process moves the identity, it cannot be asked. If the move fails, it can be asked again when it has restarted its
/// node.
async fn runner(settings: &Settings, until: Instant) -> Result<Option<Client>, Failure> {
    let (identity, mut noted) = (&settings.identity, false);
    loop {
        if let Some(process) = Client::find(identity).await? {
            return Ok(Some(process));
        }
        if identity.is_free() {
            return Ok(None);
        }
        if Instant::now() >= until {
            return Err(Failure::new(format!(
                "a process that runs identity {identity} has not ended in time"
            ))
            .in_use()
            .hint("end it, and repeat the command; the identity has not moved"));
        }
        if !std::mem::replace(&mut noted, true) {
            settings.note("waits: the process that runs the identity cannot be asked now");
        }
        sleep(AGAIN).await;
    }
}
