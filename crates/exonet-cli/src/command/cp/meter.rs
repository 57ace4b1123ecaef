//! The progress of the copy, as the receiver has acknowledged it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Counts of bytes and files, updated as the receiver answers.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// The bytes of all files, as far as their sizes are known.
    pub(super) total: Count,
    /// The bytes that are at the receiver: acknowledged by this run, or before.
    pub(super) done: Count,
    /// The bytes that the receiver has acknowledged in this run.
    pub(super) sent: Count,
    pub(super) files: Count,
    pub(super) files_done: Count,
    /// The number of calls that wait for an answer.
    pub(super) asked: Count,
    /// The number of files whose size is known only at their end.
    pub(super) streams: Count,
    /// The problem that the receiver has reported.
    trouble: Mutex<Option<String>>,
}

impl Meter {
    pub(super) fn set_trouble(&self, reason: String) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }

    /// Takes the problem that was reported since the last call.
    pub(super) fn take_trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A counter that any task may change.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    pub(super) fn sub(&self, number: u64) {
        self.0.fetch_sub(number, Ordering::Relaxed);
    }
}
