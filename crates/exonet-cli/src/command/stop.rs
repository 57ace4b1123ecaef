//! Requests that end a wait early.

use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, mem};

use tokio::sync::watch;

use crate::exit::INTERRUPTED;
use crate::failure::Failure;
use crate::moving::Departure;

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The user or the system has asked the command to stop.
    Interrupted,
    /// The time limit is over.
    TimedOut,
}

/// Watches for requests to stop from this call on, not only from the first poll. Call it before work begins that an
/// interrupt should end cleanly. The future ends at the first request, or after `timeout`.
///
/// The second request ends the process at once, even if something hangs.
pub(crate) fn stop(timeout: Option<Duration>) -> Result<impl Future<Output = Stop>, Failure> {
    let mut requests = requests(2)?;
    Ok(async move {
        let over = async {
            match timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => pending().await,
            }
        };
        tokio::select! {
            // The sender of requests lives as long as the process.
            _ = requests.wait_for(|requests| *requests > 0) => Stop::Interrupted,
            () = over => Stop::TimedOut,
        }
    })
}

/// Tells an interrupt by the user from other requests to stop.
pub(crate) struct Interrupt(#[cfg(unix)] tokio::signal::unix::Signal, #[cfg(not(unix))] ());

impl Interrupt {
    /// Watches for interrupts from this call on.
    pub(crate) fn watch() -> Result<Self, Failure> {
        #[cfg(unix)]
        {
            let kind = tokio::signal::unix::SignalKind::interrupt();
            let signal = tokio::signal::unix::signal(kind);
            signal.map(Self).map_err(|e| Failure::new("cannot watch for signals").because(&e))
        }
        #[cfg(not(unix))]
        Ok(Self(()))
    }

    /// Whether the user has interrupted the command. Where there is no other request, it was the user.
    #[cfg_attr(not(unix), allow(clippy::unused_self, reason = "as where there are other requests"))]
    pub(crate) fn was(&mut self) -> bool {
        #[cfg(unix)]
        return futures_util::FutureExt::now_or_never(self.0.recv()).is_some();
        #[cfg(not(unix))]
        true
    }
}

/// Counts the requests to stop. Request number `last` ends the process at once.
pub(crate) fn requests(last: u32) -> Result<watch::Receiver<u32>, Failure> {
    requests_or(last, &Leave::default())
}

/// Asks a command to end, as an interrupt does, because its identity is about to move.
#[derive(Clone, Debug)]
pub(crate) struct Leave(Arc<watch::Sender<u32>>, Arc<Mutex<Asked>>);

#[derive(Debug, Default)]
enum Asked {
    #[default]
    Not,
    /// A move has begun, and continues when the node is frozen.
    Move(Box<Departure>),
    /// The move continues.
    Taken,
}

impl Default for Leave {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)), Arc::default())
    }
}

impl Leave {
    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the command to end.
    #[cfg_attr(not(unix), allow(dead_code, reason = "nobody can be asked"))]
    pub(crate) fn ask(&self, departure: Departure) {
        let mut asked = self.asked();
        if let Asked::Not = *asked {
            *asked = Asked::Move(Box::new(departure));
            self.0.send_modify(|count| *count += 1);
        }
    }

    /// Whether the command was asked to end.
    pub(crate) fn is_asked(&self) -> bool {
        !matches!(*self.asked(), Asked::Not)
    }

    /// Takes the move that continues once the node is frozen.
    pub(crate) fn take(&self) -> Option<Departure> {
        let mut asked = self.asked();
        match mem::replace(&mut *asked, Asked::Taken) {
            Asked::Move(departure) => Some(*departure),
            other => {
                *asked = other;
                None
            }
        }
    }

    /// The identity stays, so the command continues, unless it was also asked to end for another reason.
    pub(crate) fn stay(&self) {
        *self.asked() = Asked::Not;
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// As [`requests`]. A request by `leave` also counts.
pub(crate) fn requests_or(last: u32, leave: &Leave) -> Result<watch::Receiver<u32>, Failure> {
    let mut signals = Signals::new().map_err(|e| Failure::new("cannot watch for signals").because(&e))?;
    let (count, requests) = (Arc::clone(&leave.0), leave.0.subscribe());
    // This is a separate task, so that it receives the last request even while the command is blocked in a write.
    tokio::spawn(async move {
        loop {
            signals.next().await;
            if *count.borrow() + 1 >= last {
                std::process::exit(INTERRUPTED.into());
            }
            count.send_modify(|count| *count += 1);
        }
    });
    Ok(requests)
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    /// Signals that the terminal is gone.
    hang_up: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

#[cfg(windows)]
struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    fn new() -> io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Self)
    }

    async fn next(&mut self) {
        let _ = self.0.recv().await;
    }
}
