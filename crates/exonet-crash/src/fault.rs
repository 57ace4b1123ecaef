//! How a life is to end.

use exonet_store::laboratory::POINTS;
use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

/// What ends a life, or disturbs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing but the kill after a number of lines.
    Kill,
    /// The process dies at a point of its disk, at the Nth passage.
    Point(&'static str, u32),
    /// The disk is full for some operations.
    Full(u32, u32),
    /// One sync fails.
    Sync(u32),
    /// The machine loses its power.
    Power,
}

impl Fault {
    /// A fault, of which power cuts are only for a machine that may lose its power.
    pub(crate) fn any(rng: &mut ChaCha8Rng, may_lose_power: bool) -> Self {
        match rng.random_range(0..10) {
            0 | 1 => Self::Kill,
            2 | 3 if may_lose_power => Self::Power,
            2..=7 => {
                let point = POINTS.choose(rng).copied().unwrap_or("write.before");
                // Writes are many, the others few. Past the last passage the kill ends the life.
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

    /// As a term of the plan of the process.
    pub(crate) fn term(self) -> String {
        match self {
            Self::Kill | Self::Power => String::new(),
            Self::Point(point, nth) => format!("die={point}:{nth};"),
            Self::Full(from, to) => format!("fail=write:{from}-{to}:full;fail=create:1-2:full;"),
            Self::Sync(nth) => format!("fail=sync:{nth}-{nth}:io;"),
        }
    }
}
