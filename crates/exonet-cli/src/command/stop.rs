//! What ends a wait before its time.

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
    /// The user, or the system, asked for it.
    Interrupted,
    /// The time given is over.
    TimedOut,
}

/// Watches for requests to stop from here on, not only from the first poll: call it before anything is begun that an
/// interrupt should end well. The future ends at the first request, or after `timeout`.
///
/// The second request ends the process at once: whatever hangs, hangs no longer.
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

/// How many requests there have been; the one with the number `last` ends the process at once.
pub(crate) fn requests(last: u32) -> Result<watch::Receiver<u32>, Failure> {
    requests_or(last, &Leave::default())
}

/// Asks a command to end as by an interrupt, since its identity is to move.
#[derive(Clone, Debug)]
pub(crate) struct Leave(Arc<watch::Sender<u32>>, Arc<Mutex<Asked>>);

#[derive(Debug, Default)]
enum Asked {
    #[default]
    Not,
    /// A move has begun, and goes on when the node stands still.
    Move(Box<Departure>),
    /// It goes on.
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

    /// Asks.
    #[cfg_attr(not(unix), allow(dead_code, reason = "there is nobody to ask"))]
    pub(crate) fn ask(&self, departure: Departure) {
        let mut asked = self.asked();
        if let Asked::Not = *asked {
            *asked = Asked::Move(Box::new(departure));
            self.0.send_modify(|count| *count += 1);
        }
    }

    /// Whether it was asked.
    pub(crate) fn is_asked(&self) -> bool {
        !matches!(*self.asked(), Asked::Not)
    }

    /// The move that is to go on, once the node stands still.
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

    /// The identity stays: the command goes on, unless it was asked to end by somebody else as well.
    pub(crate) fn stay(&self) {
        *self.asked() = Asked::Not;
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// As [`requests`], of which what `leave` asks is one.
pub(crate) fn requests_or(last: u32, leave: &Leave) -> Result<watch::Receiver<u32>, Failure> {
    let mut signals = Signals::new().map_err(|e| Failure::new("cannot watch for signals").because(&e))?;
    let (count, requests) = (Arc::clone(&leave.0), leave.0.subscribe());
    // A task of its own: it hears the last one even while the command is stuck in a write.
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
    /// Its terminal is gone.
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
