//! Runs a command for one message, which is acknowledged, put off or rejected according to the result.

use std::fmt;
use std::time::Duration;

use exonet::Delivery;
use serde::Serialize;
use tokio::sync::watch;

use super::patient::{Patience, Patient};
use crate::args::ListenArgs;
use crate::command::exec::{Head, Program, Stdout, Tried, Undone, Worker};
use crate::failure::Failure;
use crate::settings::Settings;
use crate::text::escape;
use crate::transfer;
use crate::units;

/// The longest pause before a message is delivered again.
const LONGEST: Duration = Duration::from_secs(60);

/// Runs the command for messages.
pub(super) struct Exec {
    pub(super) worker: Worker,
    pub(super) cut: watch::Sender<bool>,
    attempts: u32,
    retry_after: Duration,
}

/// The result for a message.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Done {
    /// The message is done.
    Message {
        from: String,
        id: String,
        tag: String,
        size: Option<u64>,
        attempt: u32,
        outcome: &'static str,
        status: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        ms: f64,
    },
    /// The message is put off, and delivered again.
    PutOff { from: String, id: String, attempt: u32, status: u32, reason: String, again_ms: f64 },
    /// The message no longer belongs to this node, or is delivered again. Nothing is printed.
    #[serde(skip)]
    Nothing { reason: String },
}

impl Done {
    pub(super) fn message(head: &Head, size: Option<u64>, tried: Tried) -> Self {
        let Tried { status, reason, took } = tried;
        Self::Message {
            from: head.from.to_string(),
            id: head.id.to_string(),
            tag: head.tag.clone(),
            size,
            attempt: head.attempt,
            outcome: if status == 0 { "processed" } else { "rejected" },
            status,
            reason: (status != 0).then_some(reason),
            ms: took.as_secs_f64() * 1e3,
        }
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message { from, outcome, reason, attempt, status, ms, .. } => {
                let from = from.get(..8).unwrap_or(from);
                let took = units::span(Duration::from_secs_f64(ms / 1e3));
                write!(f, "{from}  {outcome}, {took}")?;
                if *attempt > 1 || reason.is_some() {
                    write!(f, ", attempt {attempt}")?;
                }
                match reason {
                    Some(reason) => write!(f, ", status {status}: {}", escape(reason.as_bytes())),
                    None => Ok(()),
                }
            }
            Self::PutOff { from, attempt, status, reason, again_ms, .. } => {
                let from = from.get(..8).unwrap_or(from);
                let again = units::span(Duration::from_secs_f64(again_ms / 1e3));
                let reason = escape(reason.as_bytes());
                write!(f, "{from}  postponed for {again}, attempt {attempt}, status {status}: {reason}")
            }
            Self::Nothing { reason } => f.write_str(reason),
        }
    }
}

impl Exec {
    /// Fails if the command does not exist.
    pub(super) fn new(settings: &Settings, args: &ListenArgs) -> Result<Self, Failure> {
        let (cut, is_cut) = watch::channel(false);
        let stdout = if settings.output.is_json() { Stdout::Errors } else { Stdout::Ours };
        let worker =
            Worker { program: Program::new(&args.exec)?, timeout: args.timeout, stdout, cut: is_cut };
        Ok(Self { worker, cut, attempts: args.attempts.get(), retry_after: args.retry_after })
    }

    /// Runs the command for a message. The message is not acknowledged before the command has ended.
    pub(super) async fn take(&self, mut delivery: Delivery, patience: &Patience) -> Done {
        let (head, size) = (Head::of(&delivery), delivery.body().len());
        // A complete body stays in the delivery, so that a dead letter can keep it.
        let tried = match delivery.body().as_whole().cloned() {
            Some(whole) => self.worker.attempt(&head, &mut &whole[..]).await,
            None => {
                let mut body = Patient::new(delivery.body_mut(), patience.clone());
                match self.worker.attempt(&head, &mut body).await {
                    // The command may not have read all of the body, and a message that has not arrived in full
                    // cannot be acknowledged.
                    Ok(tried) if tried.status == 0 => {
                        transfer::drain(&mut body).await.map(|_| tried).map_err(Undone::Body)
                    }
                    tried => tried,
                }
            }
        };
        match tried {
            Ok(tried) => self.judge(delivery, &head, size, tried),
            Err(Undone::Body(error)) => Done::Nothing { reason: format!("{}: {error}", head.id) },
            Err(Undone::Cut) => Done::Nothing { reason: format!("{}: it will be handed out again", head.id) },
        }
    }

    fn judge(&self, delivery: Delivery, head: &Head, size: Option<u64>, tried: Tried) -> Done {
        if tried.status == 0 {
            return match delivery.ack() {
                Ok(()) => Done::message(head, size, tried),
                Err(error) => Done::Nothing { reason: format!("{}: {error}", head.id) },
            };
        }
        if tried.is_final() || head.attempt >= self.attempts {
            delivery.reject_with(tried.status, &tried.reason);
            return Done::message(head, size, tried);
        }
        let wait = pause(self.retry_after, head.attempt);
        delivery.retry_after(wait);
        Done::PutOff {
            from: head.from.to_string(),
            id: head.id.to_string(),
            attempt: head.attempt,
            status: tried.status,
            reason: tried.reason,
            again_ms: wait.as_secs_f64() * 1e3,
        }
    }
}

/// The pause before a message is delivered again after this attempt. Attempts count from 1.
fn pause(first: Duration, attempt: u32) -> Duration {
    let doubled = 1u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
    first.saturating_mul(doubled).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute() {
        let seconds = |attempt| pause(Duration::from_secs(1), attempt).as_secs();
        assert_eq!([1, 2, 3, 6, 7, 33, 4_000_000].map(seconds), [1, 2, 4, 32, 60, 60, 60]);
        assert_eq!(pause(Duration::from_secs(600), 1), LONGEST);
    }
}
