//! What befalls a machine: whether it runs, how its clocks go, what stands between it and the network.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use exonet_proto::Mono;

use crate::clock::{ClockConfig, MachineClock};

/// Whether a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Running {
    /// It does.
    Up,
    /// There is none.
    Down,
    /// It stands still until then. `hears`: what arrives meanwhile waits in its socket, else it is lost.
    Still { until: Mono, hears: bool },
}

/// A translator of addresses that forgets.
#[derive(Clone, Debug)]
pub(crate) struct Nat {
    /// A translation that was not used for so long is gone.
    pub(crate) idle: Duration,
    pub(crate) used_at: Mono,
    /// Who may send to the node: whom it has sent to, and when last.
    pub(crate) open: BTreeMap<SocketAddr, Mono>,
}

impl Nat {
    pub(crate) fn new(now: Mono, idle: Duration) -> Self {
        Self { idle, used_at: now, open: BTreeMap::new() }
    }

    /// Whether what `from` sends gets in at `now`.
    pub(crate) fn admits(&self, now: Mono, from: &SocketAddr) -> bool {
        self.open.get(from).is_some_and(|at| now.since(*at) <= self.idle)
    }

    /// The node sends to `to`. True when its port has been given away meanwhile.
    pub(crate) fn passes(&mut self, now: Mono, to: SocketAddr) -> bool {
        let forgotten = now.since(self.used_at) > self.idle;
        if forgotten {
            self.open.clear();
        }
        self.used_at = now;
        self.open.insert(to, now);
        forgotten
    }
}

/// What befalls one machine.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) running: Running,
    pub(crate) clock: MachineClock,
    pub(crate) nat: Option<Nat>,
    /// How many messages, and pieces of large ones, the application will still take; None: all that come.
    pub(crate) appetite: Option<u32>,
}

impl Life {
    pub(crate) fn new(now: Mono) -> Self {
        let clock = MachineClock::new(now, ClockConfig::default());
        Self { running: Running::Up, clock, nat: None, appetite: None }
    }

    /// Whether the process runs at `now`.
    pub(crate) fn is_up(&self, now: Mono) -> bool {
        match self.running {
            Running::Up => true,
            Running::Down => false,
            Running::Still { until, .. } => until <= now,
        }
    }

    /// When a process that would do something at `at` does it.
    pub(crate) fn does(&self, at: Option<Mono>) -> Option<Mono> {
        match self.running {
            Running::Up => at,
            Running::Down => None,
            Running::Still { until, .. } => Some(until),
        }
    }

    /// Whether the application would take one more.
    pub(crate) fn is_hungry(&self) -> bool {
        self.appetite != Some(0)
    }

    /// It has taken one.
    pub(crate) fn bite(&mut self) {
        self.appetite = self.appetite.map(|left| left.saturating_sub(1));
    }
}
