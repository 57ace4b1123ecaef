//! What ends a wait before its time.

use std::future::pending;
use std::time::Duration;

use crate::failure::Failure;

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The user, or the system, asked for it.
    Interrupted,
    /// The time given is over.
    TimedOut,
}

/// Ends at an interrupt or after `timeout`. Make it once and keep it: a signal between two of these is lost.
pub(crate) async fn stop(timeout: Option<Duration>) -> Result<Stop, Failure> {
    let over = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => pending().await,
        }
    };
    tokio::select! {
        signal = signal() => signal.map(|()| Stop::Interrupted),
        () = over => Ok(Stop::TimedOut),
    }
}

/// Ends at the first request to stop.
async fn signal() -> Result<(), Failure> {
    let failure = |error: std::io::Error| Failure::new("cannot watch for signals").because(&error);
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).map_err(failure)?;
        tokio::select! {
            interrupt = tokio::signal::ctrl_c() => interrupt.map_err(failure),
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await.map_err(failure)
}
