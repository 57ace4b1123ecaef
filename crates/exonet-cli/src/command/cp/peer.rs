//! Calls to the receiver, repeated until one is answered. Every call is idempotent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use exonet::call::ReplyStatus;
use exonet::error::{CallError, Why};
use exonet::send::{Refusal, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::super::show;
use crate::copy::LONGEST_OFFER;
use crate::exit::remedy;
use crate::failure::Failure;

/// The pause before a call is repeated, doubled from the first value to the last.
const AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// A receiver that is stopping, or lacks a resource, refuses calls for a moment. After this time, the command no
/// longer waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// The reason why there is no answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// The receiver refuses the item.
    Refused(String),
    /// The command was stopped. `in_doubt`: the call may have had its effect.
    Stopped {
        in_doubt: bool,
    },
    Failed(Failure),
}

impl Fault {
    /// As an error of the command.
    pub(super) fn into_failure(self) -> Failure {
        match self {
            Self::Failed(failure) => failure,
            Self::Refused(reason) => Failure::new(reason),
            Self::Stopped { .. } => Failure::new("stopped"),
        }
    }

    /// A copy of the fault, for another item.
    pub(super) fn again(&self) -> Self {
        match self {
            Self::Refused(reason) => Self::Refused(reason.clone()),
            Self::Stopped { in_doubt } => Self::Stopped { in_doubt: *in_doubt },
            Self::Failed(failure) => Self::Failed(Failure::new(failure.to_string())),
        }
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(Failure::new("cannot make a call").because(&error))
    }
}

pub(super) struct Peer {
    peer: exonet::Peer,
    /// The receiver has answered once, so it accepts files, even if it refuses calls while it stops.
    met: AtomicBool,
    stopped: watch::Receiver<bool>,
    /// A receiver that has ended may come back as another node. Until then, no item is given up.
    returns: bool,
}

impl Peer {
    pub(super) fn new(peer: exonet::Peer, stopped: watch::Receiver<bool>) -> Self {
        Self { peer, met: AtomicBool::new(false), stopped, returns: false }
    }

    /// The same receiver, which may come back as another node.
    pub(super) fn returning(self) -> Self {
        Self { returns: true, ..self }
    }

    /// Waits until the command is stopped.
    pub(super) async fn stopped(&self) {
        let mut stopped = self.stopped.clone();
        // The sender lives as long as the copy.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    }

    /// Makes a call with a JSON body, and returns the answer.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        method: &'static str,
        question: &impl Serialize,
    ) -> Result<T, Fault> {
        let body = serde_json::to_vec(question).map_err(std::io::Error::from)?;
        self.call(method, body.into()).await
    }

    /// Repeats a call until there is an answer, across restarts of the receiver and outages.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: &'static str,
        body: Bytes,
    ) -> Result<T, Fault> {
        let (mut pause, mut in_doubt, mut since) = (AGAIN.0, false, None);
        let mut too_long = || since.get_or_insert_with(Instant::now).elapsed() > PATIENCE;
        loop {
            match self.once(method, body.clone()).await {
                Ok(reply) => {
                    self.met.store(true, Ordering::Relaxed);
                    return serde_json::from_slice(&reply).map_err(|error| {
                        Fault::Failed(
                            Failure::new("the receiver's answer cannot be understood").because(&error),
                        )
                    });
                }
                Err(Once::Stopped { in_doubt: now }) => {
                    return Err(Fault::Stopped { in_doubt: in_doubt || now });
                }
                Err(Once::Fault(fault)) => return Err(fault),
                Err(Once::Lost) => in_doubt = true,
                Err(Once::Away) => {}
                Err(Once::Broken(status)) => {
                    in_doubt = true;
                    if too_long() {
                        let what = format!("the receiver cannot take it now: {status}");
                        return Err(Fault::Failed(
                            Failure::new(what).hint("repeat the command: it then continues"),
                        ));
                    }
                }
                Err(Once::NotNow) => {
                    if !self.met.load(Ordering::Relaxed) || too_long() {
                        let why = "it takes no files: it must run `exon listen --out DIR`";
                        return Err(Fault::Refused(why.to_owned()));
                    }
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(AGAIN.1),
                () = self.stopped() => return Err(Fault::Stopped { in_doubt }),
            }
        }
    }

    async fn once(&self, method: &'static str, body: Bytes) -> Result<Bytes, Once> {
        let made = tokio::select! {
            made = self.peer.call(method, body).start() => made,
            () = self.stopped() => return Err(Once::Stopped { in_doubt: false }),
        };
        let mut call = match made {
            Ok(call) => call,
            Err(error) => return Err(self.judge(error).await),
        };
        let ended = tokio::select! {
            ended = &mut call => ended,
            () = self.stopped() => {
                return Err(Once::Stopped { in_doubt: matches!(call.status(), Status::InDoubt { .. }) });
            }
        };
        match ended {
            Ok(mut reply) => reply.body.bytes(LONGEST_OFFER).await.map_err(|_| Once::Lost),
            Err(error) => Err(self.judge(error).await),
        }
    }

    async fn judge(&self, error: CallError) -> Once {
        if let Some(whose) = self.peer.conflict() {
            // This state is permanent.
            return Once::Fault(Fault::Failed(show::conflict(whose, &self.peer.id())));
        }
        match error {
            CallError::Failed { status: ReplyStatus::NO_SUCH_METHOD, .. } => Once::NotNow,
            CallError::Failed { status: ReplyStatus::BAD_REQUEST, mut body, .. } => {
                let why = body.bytes(LONGEST_OFFER).await.unwrap_or_default();
                let why = format!("it does not understand the request: {}", String::from_utf8_lossy(&why));
                Once::Fault(Fault::Refused(why))
            }
            CallError::Unknown { why: Why::Closed, .. } => Once::Stopped { in_doubt: true },
            CallError::Failed { status, .. } => Once::Broken(status),
            // The receiver has restarted: the call may have had its effect, and may be repeated in any case.
            CallError::Unknown { .. } => Once::Lost,
            CallError::Expired | CallError::Cancelled => Once::NotNow,
            CallError::NotTaken(Refusal::Ended) if self.returns => Once::Away,
            CallError::NotTaken(why) => {
                let what = format!("{why}; {}", remedy(why, self.peer.node().id()));
                Once::Fault(Fault::Refused(what))
            }
            error => {
                let what = format!("cannot reach {}", self.peer.id().short());
                Once::Fault(Fault::Failed(Failure::new(what).because(&error)))
            }
        }
    }
}

/// The result of an attempt without an answer.
enum Once {
    Stopped {
        in_doubt: bool,
    },
    /// The call may have had its effect.
    Lost,
    /// The call certainly had no effect, and the receiver has ended.
    Away,
    /// The call may have had a part of its effect.
    Broken(ReplyStatus),
    /// The call certainly had no effect.
    NotNow,
    Fault(Fault),
}
