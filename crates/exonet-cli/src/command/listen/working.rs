//! Messages for a command. No more messages are taken from the node than the command may process at once.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use exonet::Node;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::exec::Exec;
use super::patient::Patience;
use super::taking::Taken;
use super::totals::Totals;
use crate::args::ListenArgs;
use crate::command::dead;
use crate::control::Again;
use crate::control::protocol::Retried;
use crate::failure::Failure;
use crate::log;
use crate::settings::Settings;
use crate::units::counted;

/// The inputs other than messages.
pub(super) struct Inputs {
    pub(super) requests: watch::Receiver<u32>,
    pub(super) copied: mpsc::UnboundedReceiver<Taken>,
    /// Dead letters that other commands want to retry.
    pub(super) wanted: mpsc::UnboundedReceiver<Again>,
}

/// Runs the command for messages as they arrive. Other messages wait in the node, and no attempt is counted for them.
pub(super) struct Working<'a> {
    settings: &'a Settings,
    node: &'a Node,
    exec: Exec,
    jobs: usize,
    enough: u64,
    drain: Duration,
    patience: Patience,
}

impl<'a> Working<'a> {
    pub(super) fn new(settings: &'a Settings, node: &'a Node, exec: Exec, args: &ListenArgs) -> Self {
        let patience = Patience { most: args.patience, crowded: Arc::default() };
        let enough = args.exit_after.unwrap_or(u64::MAX);
        Self { settings, node, exec, jobs: args.jobs.into(), enough, drain: args.drain, patience }
    }

    /// Retries a dead letter, and reports the result.
    async fn again(&self, again: Again) -> Result<(), Failure> {
        let Again { id, told } = again;
        let tried = dead::again(&self.exec.worker, &self.node.dead_letters(), &id).await;
        let ended = match tried {
            Ok(Some(ended)) => ended,
            Ok(None) => Retried::Kept { reason: "the listener has ended before its command".to_owned() },
            Err(failure) => Retried::Kept { reason: failure.to_string() },
        };
        // The client that asked may have disconnected.
        let _ = told.send(ended.clone());
        dead::tell(self.settings, &id, &ended, true, None)
    }

    /// Runs until enough messages were processed (false), or until told to stop (true) and all running commands have
    /// ended.
    pub(super) async fn run(&self, inputs: Inputs, totals: &mut Totals) -> Result<bool, Failure> {
        let Inputs { mut requests, mut copied, mut wanted } = inputs;
        let (mut running, mut letters) = (FuturesUnordered::new(), FuturesUnordered::new());
        let interrupted = loop {
            if totals.taken() >= self.enough {
                break false;
            }
            let left = usize::try_from(self.enough - totals.taken()).unwrap_or(usize::MAX);
            let is_free = running.len() < left && running.len() + letters.len() < self.jobs;
            self.patience.crowded.store(!is_free, Ordering::Relaxed);
            tokio::select! {
                delivery = self.node.recv(), if is_free => {
                    let delivery = delivery.map_err(|error| log::node_stopped(&error))?;
                    running.push(self.exec.take(delivery, &self.patience));
                }
                Some(again) = wanted.recv(), if is_free => letters.push(self.again(again)),
                Some(done) = running.next() => self.tell(totals.done(self.settings, &done))?,
                Some(told) = letters.next() => self.tell(told)?,
                // Files are refused, since there is no store.
                Some(taken) = copied.recv() => self.tell(totals.add(self.settings, taken))?,
                _ = requests.wait_for(|requests| *requests > 0) => break true,
            }
        };
        // Clients that wait for a letter that was not begun are told that it is unchanged.
        drop(wanted);
        let at_work = running.len() + letters.len();
        if interrupted && at_work > 0 {
            let number = counted(u64::try_from(at_work).unwrap_or(u64::MAX), "command");
            self.settings.note(format!("the node takes no further messages; {number} may finish"));
            #[derive(serde::Serialize)]
            struct Draining {
                r#type: &'static str,
                running: usize,
            }
            self.settings.output.line(&Draining { r#type: "draining", running: at_work })?;
        }
        let mut over = pin!(async {
            tokio::select! {
                () = sleep(self.drain) => {}
                _ = requests.wait_for(|requests| *requests > 1) => {}
            }
            self.exec.cut.send_replace(true);
            std::future::pending::<()>().await;
        });
        while !running.is_empty() || !letters.is_empty() {
            tokio::select! {
                Some(done) = running.next() => self.tell(totals.done(self.settings, &done))?,
                Some(told) = letters.next() => self.tell(told)?,
                () = &mut over => {}
            }
        }
        Ok(interrupted)
    }

    /// Marks an output error: the effect of the command lasts even if it cannot be printed.
    fn tell(&self, told: Result<(), Failure>) -> Result<(), Failure> {
        told.map_err(Failure::broken_output)
    }
}
