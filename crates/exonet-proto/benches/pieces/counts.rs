//! What the pieces cost when their counts were last accepted: `counts.txt`.

use crate::piece::{Allocated, Piece, RUNS};

const COUNTS: &str = include_str!("counts.txt");

/// What an operation may allocate more: a table that grows once in many operations counts as less.
const RARELY: f64 = 0.1;

/// Per operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) allocations: f64,
    pub(crate) bytes: f64,
    /// Where they can be counted.
    pub(crate) instructions: Option<f64>,
}

impl Counts {
    /// Of [`RUNS`] runs of `piece`.
    pub(crate) fn of(piece: &Piece, allocated: Allocated, instructions: Option<f64>) -> Self {
        let operations = (RUNS * piece.each) as f64;
        Self {
            allocations: allocated.calls as f64 / operations,
            bytes: allocated.bytes as f64 / operations,
            instructions,
        }
    }

    /// What was accepted for the piece of this name.
    pub(crate) fn accepted(name: &str) -> Option<Self> {
        COUNTS.lines().find_map(|line| {
            let mut fields = line.split_whitespace();
            (fields.next()? == name).then_some(())?;
            let mut number = || fields.next()?.parse().ok();
            Some(Self { allocations: number()?, bytes: number()?, instructions: number() })
        })
    }

    /// What is worse than `accepted`, in words: more allocated, by more than 1 % and [`RARELY`], or 10 % more instructions,
    /// which is what compilers differ by.
    pub(crate) fn worse_than(&self, accepted: &Self) -> Vec<String> {
        let judge = |what, now: f64, then: f64, factor: f64| {
            (now > then * factor + RARELY)
                .then(|| format!("{now:.2} {what} an operation, accepted are {then}"))
        };
        let instructions = self.instructions.zip(accepted.instructions);
        [
            judge("allocations", self.allocations, accepted.allocations, 1.01),
            judge("bytes allocated", self.bytes, accepted.bytes, 1.01),
            instructions.and_then(|(now, then)| judge("instructions", now, then, 1.1)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
