//! One attempt at a message: the command is run, and how it ends says what becomes of the message.

use std::future::pending;
use std::io;
use std::time::{Duration, Instant};

use exonet::{Delivery, MessageId, NodeId, Traceparent};
use tokio::io::AsyncRead;
use tokio::sync::watch;
use tokio::time::sleep;

use super::{Broken, Program, Run, Stdout};
use crate::{traceparent, units};

/// The exit code by which a command says that a message is wrong, and will be whenever it comes: `EX_DATAERR`.
const WRONG: u32 = 65;
/// What is said in place of an exit code of a command that took too long, as timeout(1) has it.
const TOO_LONG: u32 = 124;

/// What runs the command.
pub(in crate::command) struct Worker {
    pub(in crate::command) program: Program,
    /// It has no longer than this.
    pub(in crate::command) timeout: Option<Duration>,
    pub(in crate::command) stdout: Stdout,
    /// Says true when what runs is to be ended.
    pub(in crate::command) cut: watch::Receiver<bool>,
}

/// What the command is told of a message.
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
            // A variable cannot hold it.
            ("EXON_TAG", self.tag.replace('\0', "\u{fffd}")),
            ("EXON_ATTEMPT", self.attempt.to_string()),
        ];
        own.into_iter().chain(traceparent::variable(self.traceparent)).collect()
    }
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::command) struct Tried {
    /// The exit code, or what shells say in place of one. 0: the message has been processed.
    pub(in crate::command) status: u32,
    /// Why it was not.
    pub(in crate::command) reason: String,
    pub(in crate::command) took: Duration,
}

impl Tried {
    /// Whether another attempt would end no better.
    pub(in crate::command) const fn is_final(&self) -> bool {
        self.status == WRONG
    }
}

/// Why an attempt does not count: nothing can be said of the message.
pub(in crate::command) enum Undone {
    /// The body broke off.
    Body(io::Error),
    /// This command is to end.
    Cut,
}

impl Worker {
    /// Runs the command for a message. Dropped early, that is ended.
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
                Err(Broken::TooLong(_)) => (u32::MAX, "it wrote too much".to_owned()),
            },
            () = late => {
                let span = units::span(self.timeout.unwrap_or_default());
                (TOO_LONG, format!("the command took longer than {span}"))
            }
            // Where nobody can say so, it is never cut.
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
