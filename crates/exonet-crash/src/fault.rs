//! Faults that end the life of a process.

use exonet_store::laboratory::POINTS;
use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use crate::part::Kind;

/// A fault that ends or disturbs the life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The kill after a number of lines is the only fault.
    Kill,
    /// The process dies at a point of its disk, when it passes the point for the Nth time.
    Point(&'static str, u32),
    /// The disk is full for a number of operations.
    Full(u32, u32),
    /// One sync fails.
    Sync(u32),
    /// The machine loses power.
    Power,
    /// The machine loses power, and the disk has forgotten what it said that it had forced, from the Nth sync on.
    Lie(u32),
}

impl Fault {
    /// A random fault; a power cut only on a machine that may lose power.
    pub(crate) fn any(rng: &mut ChaCha8Rng, may_lose_power: bool) -> Self {
        match rng.random_range(0..10) {
            0 | 1 => Self::Kill,
            2 | 3 if may_lose_power => Self::Power,
            2..=7 => {
                let point = POINTS.choose(rng).copied().unwrap_or("write.before");
                // Writes are frequent, the other operations rare. If the life passes the point less often, the kill
                // ends it.
                let most = if point.starts_with("write") { 400 } else { 6 };
                Self::Point(point, rng.random_range(1..=most))
            }
            8 => {
                let from = rng.random_range(1..200);
                Self::Full(from, from + rng.random_range(1..100))
            }
            _ => Self::Sync(rng.random_range(1..12)),
        }
    }

    /// A random fault of a machine whose disk lies.
    pub(crate) fn of_a_liar(rng: &mut ChaCha8Rng) -> Self {
        if rng.random_bool(0.6) { Self::Lie(rng.random_range(1..40)) } else { Self::Kill }
    }

    /// This fault if the disk of `store` can have it, otherwise a kill.
    pub(crate) fn within(self, store: Kind) -> Self {
        match (store, self) {
            (Kind::Sqlite, Self::Full(..) | Self::Sync(_) | Self::Power | Self::Lie(_)) => Self::Kill,
            (Kind::Sqlite | Kind::Log, fault) => fault,
        }
    }

    /// The fault as a term of the process's plan.
    pub(crate) fn term(self) -> String {
        match self {
            Self::Kill | Self::Power => String::new(),
            Self::Point(point, nth) => format!("die={point}:{nth};"),
            Self::Full(from, to) => format!("fail=write:{from}-{to}:full;fail=create:1-2:full;"),
            Self::Lie(nth) => format!("lie={nth};"),
            Self::Sync(nth) => format!("fail=sync:{nth}-{nth}:io;"),
        }
    }
}
