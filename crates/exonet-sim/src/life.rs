//! What happens to a machine: whether it runs, what its clocks show, and a NAT between it and the network.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use exonet_proto::Mono;

use crate::clock::{ClockConfig, MachineClock};

/// Whether a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Running {
    /// It runs.
    Up,
    /// There is no process.
    Down,
    /// It stands still until then. With `hears`, datagrams that arrive meanwhile wait in its socket; otherwise they
    /// are lost.
    Still { until: Mono, hears: bool },
}

/// A NAT that forgets its mapping.
#[derive(Clone, Debug)]
pub(crate) struct Nat {
    /// The NAT forgets a mapping that was not used for this long.
    pub(crate) idle: Duration,
    pub(crate) used_at: Mono,
    /// The addresses that may send to the node: those to which it has sent, and when it did so last.
    pub(crate) open: BTreeMap<SocketAddr, Mono>,
}

impl Nat {
    pub(crate) fn new(now: Mono, idle: Duration) -> Self {
        Self { idle, used_at: now, open: BTreeMap::new() }
    }

    /// Whether a datagram from `from` gets in at `now`.
    pub(crate) fn admits(&self, now: Mono, from: &SocketAddr) -> bool {
        self.open.get(from).is_some_and(|at| now.since(*at) <= self.idle)
    }

    /// Notes that the node sends to `to`. Returns whether its mapping was forgotten, so that its port has changed.
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

/// The state of one machine.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) running: Running,
    pub(crate) clock: MachineClock,
    pub(crate) nat: Option<Nat>,
    /// How many more messages and pieces of large messages the application takes. None: all that arrive.
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

    /// When the process handles what is due at `at`.
    pub(crate) fn does(&self, at: Option<Mono>) -> Option<Mono> {
        match self.running {
            Running::Up => at,
            Running::Down => None,
            Running::Still { until, .. } => Some(until),
        }
    }

    /// Whether the application would take one more message.
    pub(crate) fn is_hungry(&self) -> bool {
        self.appetite != Some(0)
    }

    /// Counts a message that the application has taken.
    pub(crate) fn bite(&mut self) {
        self.appetite = self.appetite.map(|left| left.saturating_sub(1));
    }
}
