//! Messages for a command: as many at once as it may have, and no more are taken from the node.

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
use crate::failure::Failure;
use crate::settings::Settings;
use crate::units::counted;

/// Runs the command for what comes. A message that is not worked on waits in the node, and no attempt at it is counted.
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

    /// Until there was enough (false), or until told to stop (true) and all that runs has ended.
    pub(super) async fn run(
        &self,
        mut requests: watch::Receiver<u32>,
        mut copied: mpsc::UnboundedReceiver<Taken>,
        totals: &mut Totals,
    ) -> Result<bool, Failure> {
        let mut running = FuturesUnordered::new();
        let interrupted = loop {
            if totals.taken() >= self.enough {
                break false;
            }
            let left = usize::try_from(self.enough - totals.taken()).unwrap_or(usize::MAX);
            let is_free = running.len() < self.jobs.min(left);
            self.patience.crowded.store(!is_free, Ordering::Relaxed);
            tokio::select! {
                delivery = self.node.recv(), if is_free => {
                    let delivery = delivery.map_err(|e| Failure::new("the node has stopped").because(&e))?;
                    running.push(self.exec.take(delivery, &self.patience));
                }
                Some(done) = running.next() => self.tell(totals.done(self.settings, &done))?,
                // Files are refused: there is nowhere to store them.
                Some(taken) = copied.recv() => self.tell(totals.add(self.settings, taken))?,
                _ = requests.wait_for(|requests| *requests > 0) => break true,
            }
        };
        if interrupted && !running.is_empty() {
            let number = counted(u64::try_from(running.len()).unwrap_or(u64::MAX), "command");
            self.settings.note(format!("no further message is taken; {number} may finish"));
            #[derive(serde::Serialize)]
            struct Draining {
                r#type: &'static str,
                running: usize,
            }
            self.settings.output.line(&Draining { r#type: "draining", running: running.len() })?;
        }
        let mut over = pin!(async {
            tokio::select! {
                () = sleep(self.drain) => {}
                _ = requests.wait_for(|requests| *requests > 1) => {}
            }
            self.exec.cut.send_replace(true);
            std::future::pending::<()>().await;
        });
        loop {
            tokio::select! {
                done = running.next() => match done {
                    Some(done) => self.tell(totals.done(self.settings, &done))?,
                    None => return Ok(interrupted),
                },
                () = &mut over => {}
            }
        }
    }

    /// What the command has done is done, whether that can be printed or not.
    fn tell(&self, told: Result<(), Failure>) -> Result<(), Failure> {
        told.map_err(Failure::broken_output)
    }
}
