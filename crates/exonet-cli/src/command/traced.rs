//! `exon send --trace`: follows messages of a node of this process step by step.

use std::time::Duration;

use exonet::Node;
use exonet::follow::{Follow, Follower};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::control::protocol::Reply;
use crate::failure::Failure;
use crate::peers;
use crate::settings::Settings;
use crate::stderr;
use crate::trace::{Timeline, said};

/// The polling interval.
const TICK: Duration = Duration::from_millis(50);

/// Reports the steps of all messages that the node sends from now on: on standard error, or as lines with `--json`.
pub(super) struct Traced {
    end: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Failure>>,
}

impl Traced {
    /// # Errors
    /// The node has too many followers.
    pub(super) fn begin(settings: &Settings, node: &Node) -> Result<Self, Failure> {
        let follower = node.follow(Follow::New { peer: None, most: u32::MAX });
        let follower = follower.map_err(|error| Failure::new("cannot trace").because(&error))?;
        let began_ms = follower.began().wall.0 / 1_000_000;
        let mut teller = Teller {
            timeline: Timeline::new(peers::names(settings), began_ms, false),
            settings: settings.clone(),
            follower,
        };
        let (end, mut ended) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut ticks = interval(TICK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                let over = tokio::select! {
                    _ = ticks.tick() => false,
                    _ = &mut ended => true,
                };
                teller.tell()?;
                if over {
                    return teller.rest();
                }
            }
        });
        Ok(Self { end, task })
    }

    /// Reports the remaining steps.
    ///
    /// # Errors
    /// A line cannot be written to standard output.
    pub(super) async fn end(self) -> Result<(), Failure> {
        drop(self.end);
        self.task.await.map_err(|error| Failure::new("the trace has failed").because(&error))?
    }
}

struct Teller {
    settings: Settings,
    follower: Follower,
    timeline: Timeline,
}

impl Teller {
    fn tell(&mut self) -> Result<(), Failure> {
        let noted = self.follower.take();
        for step in &noted.steps {
            let happened = said(step, &self.follower);
            let lines = self.timeline.add(&happened);
            if self.settings.output.is_json() {
                self.settings.output.line(&Reply::Happened(Box::new(happened)))?;
            } else {
                lines.iter().for_each(stderr::line);
            }
        }
        let (steps, messages) = (noted.missed.steps, noted.missed.messages);
        if steps + messages > 0 {
            self.settings.output.line(&Reply::Missed { steps, messages })?;
            if !self.settings.output.is_json() {
                self.settings.error(crate::trace::too_much(steps, messages));
            }
        }
        Ok(())
    }

    fn rest(mut self) -> Result<(), Failure> {
        self.tell()?;
        if !self.settings.output.is_json() {
            self.timeline.rest().iter().for_each(stderr::line);
        }
        Ok(())
    }
}
