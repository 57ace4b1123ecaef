//! How far the copy is: what the receiver has acknowledged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes and files, counted as the receiver answers.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Of all files, as far as their sizes are known.
    pub(super) total: Count,
    /// There at the receiver: acknowledged now, or before.
    pub(super) done: Count,
    /// Acknowledged now.
    pub(super) sent: Count,
    pub(super) files: Count,
    pub(super) files_done: Count,
    /// Calls that wait for an answer.
    pub(super) asked: Count,
    /// Files whose size only their end tells.
    pub(super) streams: Count,
    /// What the receiver says that holds it up.
    trouble: Mutex<Option<String>>,
}

impl Meter {
    pub(super) fn set_trouble(&self, reason: String) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }

    /// What has been said since the last look.
    pub(super) fn take_trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A figure that any task may change.
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
