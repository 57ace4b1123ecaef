//! One attempt at a message: runs the command, whose exit code decides the outcome of the message.

use std::future::pending;
use std::io;
use std::time::{Duration, Instant};

use exonet::{Delivery, MessageId, NodeId, Traceparent};
use tokio::io::AsyncRead;
use tokio::sync::watch;
use tokio::time::sleep;

use super::{Broken, Program, Run, Stdout};
use crate::{traceparent, units};

/// The exit code of a command for a message that is permanently invalid: `EX_DATAERR`.
const WRONG: u32 = 65;
/// The status of a command that took too long, as in timeout(1).
const TOO_LONG: u32 = 124;

/// Runs the command for messages.
pub(in crate::command) struct Worker {
    pub(in crate::command) program: Program,
    /// The time limit of an attempt.
    pub(in crate::command) timeout: Option<Duration>,
    pub(in crate::command) stdout: Stdout,
    /// True when the running commands must end.
    pub(in crate::command) cut: watch::Receiver<bool>,
}

/// The metadata of a message, for the command.
#[derive(Clone, Debug)]
pub(in crate::command) struct Head {
    pub(in crate::command) id: MessageId,
    pub(in crate::command) from: NodeId,
    pub(in crate::command) tag: String,
    pub(in crate::command) attempt: u32,
    pub(in crate::command) traceparent: Option<Traceparent>,
}

impl Head {
    pub(in crate::command) fn of(delivery: &Delivery) -> Self {
        let tag = String::from_utf8_lossy(delivery.tag()).into_owned();
        let (attempt, traceparent) = (delivery.attempt(), delivery.traceparent());
        Self { id: delivery.id(), from: delivery.from(), tag, attempt, traceparent }
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let own = [
            ("EXON_ID", self.id.to_string()),
            ("EXON_FROM", self.from.to_string()),
            // An environment variable cannot hold a zero byte.
            ("EXON_TAG", self.tag.replace('\0', "\u{fffd}")),
            ("EXON_ATTEMPT", self.attempt.to_string()),
        ];
        own.into_iter().chain(traceparent::variable(self.traceparent)).collect()
    }
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::command) struct Tried {
    /// The exit code, or the status that shells use in place of one. 0: the message has been processed.
    pub(in crate::command) status: u32,
    /// The reason why the message was not processed.
    pub(in crate::command) reason: String,
    pub(in crate::command) took: Duration,
}

impl Tried {
    /// Whether another attempt would fail in the same way.
    pub(in crate::command) const fn is_final(&self) -> bool {
        self.status == WRONG
    }
}

/// The reason why an attempt does not count: it says nothing about the message.
pub(in crate::command) enum Undone {
    /// The body ended early.
    Body(io::Error),
    /// This process is about to end.
    Cut,
}

impl Worker {
    /// Runs the command for a message. If the future is dropped, the command is ended.
    pub(in crate::command) async fn attempt(
        &self,
        head: &Head,
        body: &mut (impl AsyncRead + Unpin),
    ) -> Result<Tried, Undone> {
        let (begun, name) = (Instant::now(), head.id.to_string());
        let run = Run { environment: head.environment(), name: &name, stdout: self.stdout };
        let mut cut = self.cut.clone();
        let late = async {
            match self.timeout {
                Some(timeout) => sleep(timeout).await,
                None => pending().await,
            }
        };
        let (status, reason) = tokio::select! {
            ended = self.program.run(run, body) => match ended {
                Ok(ended) if ended.status == 0 => (0, String::new()),
                Ok(ended) if ended.last_words.is_empty() => (ended.status, describe(ended.status)),
                Ok(ended) => (ended.status, ended.last_words),
                Err(Broken::NotStarted { status, error }) => {
                    (status, format!("the command cannot be started: {error}"))
                }
                Err(Broken::Body(error)) => return Err(Undone::Body(error)),
                Err(Broken::System(error)) => (u32::MAX, error.to_string()),
                Err(Broken::TooLong(_)) => (u32::MAX, "it wrote too many bytes".to_owned()),
            },
            () = late => {
                let span = units::span(self.timeout.unwrap_or_default());
                (TOO_LONG, format!("the command took longer than {span}"))
            }
            // If the sender of `cut` is dropped, the command is never ended early.
            () = async { if cut.wait_for(|cut| *cut).await.is_err() { pending().await } } => return Err(Undone::Cut),
        };
        Ok(Tried { status, reason, took: begun.elapsed() })
    }
}

/// An exit code in words.
fn describe(status: u32) -> String {
    match status.checked_sub(128).filter(|signal| (1..64).contains(signal)) {
        Some(signal) if cfg!(unix) => format!("the command was ended by signal {signal}"),
        _ => format!("the command ended with exit code {status}"),
    }
}
